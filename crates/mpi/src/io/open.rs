//! Opening a file, which all ranks of a communicator do together, and deleting one (MPI 5.0, section 14.2).
//!
//! Rank 0 opens first, and creates the file if requested; then the others do. They compare what they have opened: on
//! several hosts the file system must be a shared one, and whether it is shows here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_sys::file::{self, OpenFor};

use super::agreement::{agree, agree_with};
use super::hints::{self, Hints};
use super::mode::AccessMode;
use super::shared_pointer;
use super::storage::failure;
use super::{Candidates, File};
use crate::comm::Comm;
use crate::error::{Error, ErrorClass, Result};
use crate::info::Info;

/// Kinds of file systems that programs put before a name, as ROMIO takes it.
const PREFIXES: [&str; 12] = [
    "ufs:",
    "nfs:",
    "xfs:",
    "lustre:",
    "gpfs:",
    "panfs:",
    "pvfs2:",
    "testfs:",
    "zoidfs:",
    "bglockless:",
    "bg:",
    "file:",
];

/// A name without the kind of file system before it.
fn plain(path: &Path) -> &Path {
    let Some(text) = path.to_str() else {
        return path;
    };
    let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix));
    rest.map_or(path, Path::new)
}

/// The call by which a file is opened.
const OPEN: &str = "MPI_File_open";

/// Words that ranks compare before anything is opened: mode, host, cores; hints.
const FIRST: usize = 3 + hints::WORDS;

/// `MPI_File_open`.
///
/// # Errors
/// On all ranks: `Amode` or `NotSame` for access modes that are none or differ, what the system refuses any of them with,
/// `NotSame` if they see different files under this name.
pub fn open(comm: &Comm, path: &Path, mode: AccessMode, info: &Info) -> Result<Arc<File>> {
    if comm.remote_group().is_some() {
        return Err(Error::new(
            ErrorClass::Comm,
            "a file belongs to one group; open it with an intracommunicator",
        ));
    }
    let comm = comm.dup_in_first(OPEN)?;
    let path = plain(path);
    let mut hints = Hints::default();
    hints.take(info);
    let host = file::host_number();
    let mut words = [0; FIRST];
    words[0] = mode.bits();
    words[1] = host;
    words[2] = u64::from(comm.process().load().cores);
    words[3..].copy_from_slice(&hints.to_words());
    let ((), said) = agree_with(&comm, check(path, mode), words)?;
    if let Some(other) = said.iter().position(|one| one[0] != said[0][0]) {
        return Err(Error::new(
            ErrorClass::NotSame,
            format!(
                "ranks 0 and {other} open {} with different access modes; all must give the same",
                path.display()
            ),
        ));
    }
    let hints = Hints::from_words(&said[0][3..]);
    let (opened, created) = open_by_turns(&comm, path, mode)?;
    let compared = compare(&comm, path, &opened, host);
    if compared.is_err() && created {
        // It was not there before; an error here changes nothing.
        let _ = file::remove(path);
    }
    let size = compared?;
    let candidates = candidates(&said);
    let shared = shared_pointer::of(&comm)?;
    let file = File::assemble(
        comm,
        PathBuf::from(path),
        mode,
        Arc::new(opened),
        hints,
        candidates,
        shared,
    );
    // The shared pointer is there before anybody moves it.
    file.place_pointers(if mode.append { size } else { 0 })?;
    file.register_writers()?;
    Ok(file)
}

/// Takes part in opening a file only to report an error of this rank: one of its arguments is wrong.
pub fn refuse_to_open(comm: &Comm, error: Error) {
    if comm.remote_group().is_none()
        && let Ok(comm) = comm.dup_in_first(OPEN)
    {
        // The caller has the error, and a rank that is lost is told by the next call.
        _ = agree::<()>(&comm, Err(error));
        comm.drop_messages();
    }
}

impl File {
    /// Puts both file pointers there.
    fn place_pointers(&self, place: u64) -> Result<()> {
        self.state().position = place.cast_signed();
        let moved = if self.comm.rank() == 0 {
            self.shared.set(place.cast_signed())
        } else {
            Ok(())
        };
        agree(&self.comm, moved)
    }
}

fn check(path: &Path, mode: AccessMode) -> Result<()> {
    mode.check()?;
    if path.as_os_str().is_empty() {
        return Err(Error::new(
            ErrorClass::BadFile,
            "the name of the file is empty",
        ));
    }
    Ok(())
}

/// Rank 0 opens, then the others. Answers also whether this rank has made the file.
fn open_by_turns(comm: &Comm, path: &Path, mode: AccessMode) -> Result<(file::File, bool)> {
    let how = OpenFor {
        read: mode.reads(),
        write: mode.writes(),
        create: false,
        exclusive: false,
    };
    let open = |how: OpenFor| file::File::open(path, how).map_err(|error| failure(&error));
    let leads = comm.rank() == 0;
    let mut created = false;
    let first = leads.then(|| {
        if !mode.create {
            return open(how);
        }
        let new = OpenFor {
            create: true,
            exclusive: true,
            ..how
        };
        match open(new) {
            Ok(file) => {
                created = true;
                Ok(file)
            }
            Err(error) if error.class() == ErrorClass::FileExists && !mode.exclusive => {
                open(OpenFor {
                    create: true,
                    ..how
                })
            }
            Err(error) => Err(error),
        }
    });
    let opened = agree(comm, first.transpose())?;
    let opened = match opened {
        Some(opened) => Ok(opened),
        None => open(how).map_err(|error| match error.class() {
            ErrorClass::NoSuchFile => Error::new(
                ErrorClass::NoSuchFile,
                format!(
                    "{}; rank 0 has just opened it: is this folder on a file system that all hosts share?",
                    error.text()
                ),
            ),
            _ => error,
        }),
    };
    let outcome = agree(comm, opened);
    if outcome.is_err() && created {
        let _ = file::remove(path);
    }
    Ok((outcome?, created))
}

/// Whether all ranks have the same file; answers its size.
fn compare(comm: &Comm, path: &Path, opened: &file::File, host: u64) -> Result<u64> {
    let facts = opened.facts().map_err(|error| failure(&error));
    let facts = facts.and_then(|facts| {
        if facts.is_directory {
            return Err(Error::new(
                ErrorClass::BadFile,
                format!("{} is a directory; give the name of a file", path.display()),
            ));
        }
        Ok(facts)
    });
    let words = facts.as_ref().map_or([0; 4], |facts| {
        [host, facts.device, facts.inode, facts.size]
    });
    let (_, said) = agree_with(comm, facts, words)?;
    let [host, device, inode, size] = said[0];
    // Other hosts may number the device otherwise.
    let other = |one: &[u64; 4]| one[2] != inode || (one[0] == host && one[1] != device);
    let Some(rank) = said.iter().position(other) else {
        return Ok(size);
    };
    let where_it_is = if said[rank][0] == host {
        "it is another file there; all ranks must name the same file"
    } else {
        "it is on another host, where this name is another file; use a file system that all hosts share"
    };
    Err(Error::new(
        ErrorClass::NotSame,
        format!(
            "ranks 0 and {rank} have opened different files as {}: rank {rank} says inode {}, rank 0 inode {inode}; {where_it_is}",
            path.display(),
            said[rank][2]
        ),
    ))
}

/// The aggregators: a rank of each host first. By themselves, on each host as many as may compute at once.
fn candidates(said: &[[u64; FIRST]]) -> Candidates {
    let mut order = Vec::with_capacity(said.len());
    let mut usual = 0;
    let cores = said[0][2].max(1) as usize;
    let mut turn = 0;
    while order.len() < said.len() {
        for (rank, one) in said.iter().enumerate() {
            let before = said[..rank].iter().filter(|other| other[1] == one[1]);
            if before.count() == turn {
                order.push(rank as u32);
                usual += usize::from(turn < cores);
            }
        }
        turn += 1;
    }
    Candidates {
        order: order.into(),
        usual,
    }
}

/// `MPI_File_delete`.
///
/// # Errors
/// `NoSuchFile` if there is none; what the system refuses with.
pub fn delete(path: &Path) -> Result<()> {
    file::remove(plain(path)).map_err(|error| failure(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_file_systems_are_no_names() {
        for (given, name) in [
            ("ufs:/a/b", "/a/b"),
            ("nfs:b", "b"),
            ("c:b", "c:b"),
            ("/ufs:b", "/ufs:b"),
        ] {
            assert_eq!(plain(Path::new(given)), Path::new(name));
        }
    }

    #[test]
    fn each_host_has_an_aggregator_before_one_has_two() {
        let rank = |host| {
            let mut words = [0; FIRST];
            (words[1], words[2]) = (host, 2);
            words
        };
        let candidates = candidates(&[1, 1, 1, 7, 7, 1].map(rank));
        assert_eq!(*candidates.order, [0, 3, 1, 4, 2, 5]);
        assert_eq!(candidates.usual, 4);
        let mut hints = Hints::default();
        assert_eq!(candidates.aggregators(&hints).ranks.len(), 4);
        let mut info = Info::default();
        info.set("cb_nodes", "100").unwrap();
        hints.take(&info);
        assert_eq!(candidates.aggregators(&hints).ranks.len(), 6);
    }
}
