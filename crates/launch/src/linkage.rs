//! Linkage of a program: the MPI library that it was linked with, read from its file. A program of another implementation
//! would run under this launcher as many copies of rank 0, each a job of its own.
//!
//! Programs for the ABIs of MPICH and of Open MPI run with the libraries of their names in this installation, which the dynamic
//! linker finds first, unless the program itself names a folder to search before that (`DT_RPATH`), and another one is
//! there.
//!
//! Only the program file itself is examined; a script that loads MPI later is not.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Libraries of the ABIs of MPICH, which have other names in Debian and Ubuntu, and of Open MPI, which Weft has as well.
const TRANSLATED: [&str; 6] = [
    "libmpi.so.12",
    "libmpifort.so.12",
    "libmpich.so.12",
    "libmpichfort.so.12",
    "libmpi.so.40",
    "libmpi_mpifh.so.40",
];

const OPEN_MPI: &str = "Open MPI";

/// Our library, which is beside those that translate to it.
const OURS: &str = "libmpi_abi.so.1";

/// Libraries of other implementations, by the beginning of their names, and whose they are.
const FOREIGN: [(&str, &str); 7] = [
    ("libmpi.so.40", OPEN_MPI),
    ("libmpi_mpifh.so.40", OPEN_MPI),
    ("libmpi.so.20", OPEN_MPI),
    ("libmpi.so.12", "MPICH or Intel MPI"),
    ("libmpifort.so.12", "MPICH or Intel MPI"),
    ("libmpich.so.", "MPICH"),
    ("libmpichfort.so.", "MPICH"),
];

/// A library of another implementation that a program would run with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// The library that it names.
    pub library: String,
    /// The implementation.
    pub whose: &'static str,
    /// The file that is found instead of ours.
    pub before_ours: Option<PathBuf>,
}

impl Foreign {
    /// Whether it asks for its job by PMI, which this launcher answers. Open MPI does not.
    pub fn asks_by_pmi(&self) -> bool {
        self.whose != OPEN_MPI
    }
}

/// The library of another implementation that a program would run with; `ours` is the folder with Weft's libraries, in
/// which the dynamic linker looks first.
pub fn foreign_library(program: &Path, ours: Option<&Path>) -> Option<Foreign> {
    let dynamic = Dynamic::read(&File::open(program).ok()?)?;
    let named: Vec<_> = dynamic
        .needed
        .iter()
        .filter_map(|library| {
            let found = FOREIGN.iter().find(|(name, _)| library.starts_with(name));
            found.map(|(_, whose)| (library, *whose))
        })
        .collect();
    let has_ours = |library: &str| {
        TRANSLATED.contains(&library) && ours.is_some_and(|folder| folder.join(library).exists())
    };
    let foreign = |library: &str, whose, before_ours| Foreign {
        library: library.to_owned(),
        whose,
        before_ours,
    };
    // What Weft has no counterpart of comes first: it needs the library that it belongs to.
    if let Some(&(library, whose)) = named.iter().find(|(library, _)| !has_ours(library)) {
        return Some(foreign(library, whose, None));
    }
    named.iter().find_map(|(library, whose)| {
        let other = dynamic.found_first(library, program)?;
        Some(foreign(library, whose, Some(other)))
    })
}

/// The library of an implementation that Weft has no protocol for, if a process has loaded one, and the implementation.
pub fn foreign_library_of(process: u32) -> Option<(PathBuf, &'static str)> {
    in_maps(&std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?)
}

/// … in a list of what a process has mapped. Ours of the same name is no foreign one: beside it there is the library that it loads, which a
/// process has mapped a little later.
fn in_maps(maps: &str) -> Option<(PathBuf, &'static str)> {
    maps.lines().find_map(|line| {
        let path = Path::new(&line[line.find('/')?..]);
        let name = path.file_name()?.to_str()?;
        let mut known = FOREIGN.iter().filter(|(_, whose)| *whose == OPEN_MPI);
        let (_, whose) = known.find(|(library, _)| name.starts_with(library))?;
        (!path.with_file_name(OURS).exists()).then(|| (path.to_owned(), *whose))
    })
}

/// Whether a program names a library of Weft, and finds that: it is a rank of ours then.
pub fn names_our_library(program: &Path) -> bool {
    let dynamic = File::open(program)
        .ok()
        .and_then(|file| Dynamic::read(&file));
    dynamic.is_some_and(|dynamic| {
        let names = |library: &str| dynamic.needed.iter().any(|name| name == library);
        // A program in Fortran may name nothing but the library of the binding (`--as-needed`).
        names(OURS)
            || names("libmpi_fortran.so.1")
            || TRANSLATED
                .into_iter()
                .any(|name| names(name) && dynamic.found_first(name, program).is_none())
    })
}

/// More than any program has; what claims more is not read.
const MOST: u64 = 1 << 20;

/// What a 64-bit ELF file tells the dynamic linker.
#[derive(PartialEq, Eq, Debug)]
struct Dynamic {
    /// The libraries that it names.
    needed: Vec<String>,
    /// Where to look before all other places (`DT_RPATH`).
    first: Vec<String>,
}

impl Dynamic {
    /// The file of a library in the first of the folders where it is looked for before all other places.
    fn found_first(&self, library: &str, program: &Path) -> Option<PathBuf> {
        let origin = program.parent().unwrap_or(Path::new("."));
        let origin = origin.as_os_str().as_bytes();
        self.first.iter().find_map(|folder| {
            let mut path = Vec::new();
            for (place, part) in folder
                .replace("${ORIGIN}", "$ORIGIN")
                .split("$ORIGIN")
                .enumerate()
            {
                if place > 0 {
                    path.extend_from_slice(origin);
                }
                path.extend_from_slice(part.as_bytes());
            }
            let file = Path::new(OsStr::from_bytes(&path)).join(library);
            file.exists().then_some(file)
        })
    }

    /// `None` if it is something else, or broken.
    fn read(file: &File) -> Option<Self> {
        read(file)
    }
}

fn read(file: &File) -> Option<Dynamic> {
    let part = |at: u64, length: u64| -> Option<Vec<u8>> {
        if length > MOST {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    };
    let file_header = part(0, 64)?;
    // 64 bits, little-endian: what this launcher runs on.
    if file_header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (
        long(&file_header, 32)?,
        short(&file_header, 54)?,
        short(&file_header, 56)?,
    );
    let entries = part(table, u64::from(size) * u64::from(count))?;
    let headers: Vec<ProgramHeader> = entries
        .chunks_exact(usize::from(size.max(56)))
        .filter_map(ProgramHeader::parse)
        .collect();
    let dynamic = headers
        .iter()
        .find(|header| header.kind == ProgramHeader::DYNAMIC)?;
    let records = part(dynamic.offset, dynamic.length)?;
    let records = records.chunks_exact(16);
    let pairs: Vec<(u64, u64)> = records
        .filter_map(|record| Some((long(record, 0)?, long(record, 8)?)))
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let value = |wanted| Some(pairs.iter().find(|(tag, _)| *tag == wanted)?.1);
    let (address, length) = (value(5)?, value(10)?);
    // The names are told by where they will be in memory.
    let loaded = |header: &&ProgramHeader| {
        header.kind == ProgramHeader::LOAD
            && (header.address..header.address.saturating_add(header.length)).contains(&address)
    };
    let header = headers.iter().find(loaded)?;
    let names = part(header.offset.checked_add(address - header.address)?, length)?;
    let name = |at: u64| -> Option<String> {
        let rest = names.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let all = |wanted| {
        let found = pairs.iter().filter(move |(tag, _)| *tag == wanted);
        found.filter_map(|(_, at)| name(*at))
    };
    // Where there is a newer list (DT_RUNPATH), which comes after the variable, the old one does not count.
    let first = match value(29) {
        Some(_) => Vec::new(),
        None => all(15)
            .flat_map(|list| list.split(':').map(str::to_owned).collect::<Vec<_>>())
            .filter(|folder| !folder.is_empty())
            .collect(),
    };
    Some(Dynamic {
        needed: all(1).collect(),
        first,
    })
}

/// One row of the table of program headers.
struct ProgramHeader {
    kind: u32,
    offset: u64,
    address: u64,
    length: u64,
}

impl ProgramHeader {
    const LOAD: u32 = 1;
    const DYNAMIC: u32 = 2;

    fn parse(row: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u32::from_le_bytes(row.get(..4)?.try_into().ok()?),
            offset: long(row, 8)?,
            address: long(row, 16)?,
            length: long(row, 32)?,
        })
    }
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_libraries_of_this_very_test_are_found() {
        let us = File::open("/proc/self/exe").expect("we are a program");
        let needed = Dynamic::read(&us).expect("an ELF file").needed;
        assert!(
            needed.iter().any(|name| name.starts_with("libc.so")),
            "{needed:?}"
        );
        assert_eq!(foreign_library(Path::new("/proc/self/exe"), None), None);
    }

    #[test]
    fn a_library_is_found_among_what_a_process_has_mapped() {
        let maps = "7f01-7f02 r-xp 00000000 08:01 2    /opt/mpich/lib/libmpi.so.12\n\
                    7f03-7f04 r-xp 00000000 08:01 3    /opt/open mpi/lib/libmpi.so.40.40.11\n";
        let found = in_maps(maps).expect("it is there");
        let file = Path::new("/opt/open mpi/lib/libmpi.so.40.40.11");
        assert_eq!((found.0.as_path(), found.1), (file, OPEN_MPI));
        assert_eq!(in_maps("7f00-7f01 rw-p 00000000 00:00 0 [heap]"), None);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(OURS), "").expect("a file");
        let library = folder.path().join("libmpi.so.40");
        let ours = format!("7f01-7f02 r-xp 00000000 08:01 2    {}\n", library.display());
        assert_eq!(in_maps(&ours), None);
        let both = in_maps(&format!("{ours}{maps}")).expect("one is not ours");
        assert_eq!(both.0.as_path(), file);
    }

    #[test]
    fn a_program_that_names_one_of_our_libraries_alone_is_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("empty.c"),
            "int main(void) { return 0; }",
        )
        .expect("a file");
        let link = |arguments: &[&str]| {
            let mut cc = std::process::Command::new("cc");
            let made = cc.args(arguments).current_dir(folder.path()).status();
            assert!(
                made.expect("cc can be started").success(),
                "cc {arguments:?}"
            );
        };
        for (name, is_ours) in [
            ("libmpi_abi.so.1", true),
            ("libmpi_fortran.so.1", true),
            ("libmpichfort.so.12", true),
            ("libmpi.so.40", true),
            ("libmpi_mpifh.so.40", true),
            ("libmpi.so.20", false),
            ("libother.so.1", false),
        ] {
            let soname = format!("-Wl,-soname,{name}");
            link(&["-shared", "-fPIC", "empty.c", &soname, "-o", "lib.so"]);
            link(&["-Wl,--no-as-needed", "empty.c", "./lib.so", "-o", "program"]);
            let program = folder.path().join("program");
            assert_eq!(names_our_library(&program), is_ours, "{name}");
        }
    }

    #[test]
    fn where_a_program_looks_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = TRANSLATED[0];
        std::fs::write(folder.path().join(name), "").expect("a file");
        let dynamic = |first: &[&str]| Dynamic {
            needed: vec![name.to_owned()],
            first: first.iter().map(|&folder| folder.to_owned()).collect(),
        };
        let program = folder.path().join("bin/program");
        let found = dynamic(&["/nowhere", "$ORIGIN/.."]).found_first(name, &program);
        assert_eq!(
            found,
            Some(folder.path().join("bin/..").join(name)).filter(|file| file.exists())
        );
        let here = folder.path().join("program");
        assert_eq!(
            dynamic(&["${ORIGIN}"]).found_first(name, &here),
            Some(folder.path().join(name))
        );
        assert_eq!(dynamic(&[]).found_first(name, &here), None);
    }

    #[test]
    fn broken_files_are_nothing() {
        let whole = std::fs::read("/proc/self/exe").expect("readable");
        let mut file = tempfile::tempfile().expect("a file");
        // Cut short, and with each byte of the header spoiled in turn.
        file.write_all(&whole[..200]).expect("writes");
        assert_eq!(Dynamic::read(&file), None);
        for at in 0..64 {
            for value in [0, 0x7f, 0xff] {
                let mut spoiled = whole[..4096].to_vec();
                spoiled[at] = value;
                file.set_len(0).expect("empties");
                file.write_all_at(&spoiled, 0).expect("writes");
                let _ = Dynamic::read(&file);
            }
        }
        assert_eq!(foreign_library(Path::new("/etc/passwd"), None), None);
    }
}
