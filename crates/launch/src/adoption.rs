//! Adoption: a launcher for a process that was started without one, when it starts others; or for the ranks of one that starts no
//! later processes.
//!
//! ```text
//!   the process ── weft adopt ──► detached: a launcher that is nobody's child ── frontend ── supervisor ── later processes
//!        │                                                                          pidfd ──► its end is seen
//!        └── memory, lifeline, ports and names, over the socket that is the standard input;
//!            of one rank of several also the socket at which the others come, and a pipe that closes with the last of them
//! ```
//!
//! Whoever dies: the launcher sees the end of the process by a handle, and ends all that belongs to the job unless MPI was
//! finalised. The end of the launcher ends the process by its lifeline. The launcher is no child of the process, which
//! may wait for children of its own.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};
use weft_secure::Key;
use weft_sys::passing;
use weft_sys::process::{self, ProcessHandle};

use crate::control::{ANSWER, Answer};
use crate::hosts::message::{RELEASE, decode, encode};
use crate::options::{CommandLine, OnDeadlock, ProgramLine};
use crate::worlds::Worlds;
use crate::{job, plan};

/// What a process tells the launcher that is to adopt it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Adoption {
    release: u32,
    worlds: Worlds,
    /// Which rank it is, of how many that another launcher has started on this host.
    rank: u32,
    ranks: u32,
    /// What the other ranks show, as text; `None` if there cannot be any.
    key: Option<String>,
}

impl Adoption {
    /// Of a program that nobody started as a rank, with these ports and names.
    pub fn of_program(worlds: Worlds) -> Self {
        Self {
            release: RELEASE,
            worlds,
            rank: 0,
            ranks: 1,
            key: None,
        }
    }

    /// Of a rank of another launcher, whose other ranks come later and show this key.
    pub fn of_rank(worlds: Worlds, rank: u32, ranks: u32, key: &Key) -> Self {
        Self {
            rank,
            ranks,
            key: Some(key.to_text()),
            ..Self::of_program(worlds)
        }
    }

    /// As it goes over the socket.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

/// What another rank shows that comes to the launcher.
pub fn shown_by(rank: u32, key: &Key) -> Vec<u8> {
    [key.as_bytes(), &rank.to_le_bytes()[..]].concat()
}

/// A process that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedProcess {
    /// The process, by a handle that keeps meaning it.
    pub process: ProcessHandle,
    /// Its rank.
    pub rank: u32,
    /// The socket over which it tells and asks.
    pub control: OwnedFd,
    /// Never written to: closes when we end, and ends the process then.
    pub lifeline: OwnedFd,
}

/// A job that was not started by its launcher: its first process here, and what belongs to all of them.
#[derive(Debug)]
pub struct AdoptedJob {
    /// Who has asked for the launcher.
    pub first: AdoptedProcess,
    /// The memory that the processes have made for themselves and others.
    pub memory: OwnedFd,
    /// Ports and names.
    pub worlds: Worlds,
    /// The other ranks, if another launcher may have started some.
    pub others: Option<OtherRanks>,
}

/// The other ranks of a host, which come when they need a launcher.
#[derive(Debug)]
pub struct OtherRanks {
    /// Where they connect.
    pub listener: OwnedFd,
    /// What they show.
    pub key: Key,
    /// Closes when all ranks of the host have ended.
    pub ends: OwnedFd,
}

/// The name of the command.
const COMMAND: &str = "weft";
const LIBRARY: &str = "/libmpi_abi.so";

/// The launcher of this installation: beside the library that this process has loaded, beside this program, or in `PATH`.
pub fn find_launcher() -> Option<PathBuf> {
    let is_there = |path: &PathBuf| path.is_file();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libraries = maps.lines().filter_map(|line| {
        let path = &line[line.find('/')?..];
        path.contains(LIBRARY).then(|| PathBuf::from(path))
    });
    let installed = |library: PathBuf| Some(library.parent()?.parent()?.join("bin").join(COMMAND));
    let beside_library = libraries.filter_map(installed).find(is_there);
    let beside_program = || {
        let program = env::current_exe().ok()?;
        Some(program.parent()?.join(COMMAND)).filter(is_there)
    };
    let in_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .map(|folder| folder.join(COMMAND))
            .find(is_there)
    };
    beside_library.or_else(beside_program).or_else(in_path)
}

/// `weft adopt`: takes over the process at the other end of the standard input. Started by that process only.
#[must_use]
pub fn main(words: &[impl AsRef<OsStr>]) -> ExitCode {
    const DETACHED: &str = "--detached";
    let result = match words.first().map(AsRef::as_ref) {
        None => detach(DETACHED).map(|()| 0),
        Some(word) if word == DETACHED => adopt(),
        Some(_) => Err(io::Error::other(
            "it is started by programs that start others",
        )),
    };
    match result {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("weft adopt: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves the launcher to the system, so that the process has no child that it does not know.
fn detach(word: &str) -> io::Result<()> {
    let us = env::current_exe()?;
    Command::new(us).args(["adopt", word]).spawn().map(drop)
}

fn adopt() -> io::Result<u8> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let mut bytes = vec![0; ANSWER];
    let (count, descriptors) = passing::receive(&control, &mut bytes)?;
    let refuse = |reason: &str| {
        let reason = reason.to_owned();
        let _ = passing::send(&control, &Answer::Refused { reason }.encode(), &[]);
        io::Error::other("the program was not taken over")
    };
    let adoption: Option<Adoption> = decode(&bytes[..count]);
    let adoption = adoption.filter(|adoption| adoption.release == RELEASE);
    let parts = adoption.and_then(|adoption| parts(adoption, descriptors));
    let Some((adoption, memory, lifeline, others)) = parts else {
        return Err(refuse(
            "the launcher and the library are of different releases of Weft",
        ));
    };
    if passing::peer_credentials(&control)?.user != process::user() {
        return Err(refuse("the launcher runs as another user than the program"));
    }
    let owner = passing::peer_process(&control)?;
    let program = std::fs::read_link(format!("/proc/{}/exe", owner.id()));
    let program = program.unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let plan = match plan_for(&program, adoption.ranks) {
        Ok(plan) => plan,
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let job = AdoptedJob {
        first: AdoptedProcess {
            process: owner,
            rank: adoption.rank,
            control,
            lifeline,
        },
        memory,
        worlds: adoption.worlds,
        others,
    };
    job::run_adopted(&plan, job)
}

/// What came along, if it is what belongs to such a process: its memory, its lifeline, and what the other ranks need.
fn parts(
    adoption: Adoption,
    descriptors: Vec<OwnedFd>,
) -> Option<(Adoption, OwnedFd, OwnedFd, Option<OtherRanks>)> {
    let mut descriptors = descriptors.into_iter();
    let (memory, lifeline) = (descriptors.next()?, descriptors.next()?);
    let others = match &adoption.key {
        None => None,
        Some(key) => Some(OtherRanks {
            key: key.parse().ok()?,
            listener: descriptors.next()?,
            ends: descriptors.next()?,
        }),
    };
    let fits = adoption.rank < adoption.ranks && adoption.ranks <= weft_fabric_shm::MAX_RANKS;
    (fits && descriptors.next().is_none()).then_some((adoption, memory, lifeline, others))
}

/// The job of such a program: what it starts has our environment, which is its own.
fn plan_for(program: &Path, ranks: u32) -> Result<plan::Plan, plan::PlanError> {
    let line = |program: &Path| CommandLine {
        programs: vec![ProgramLine {
            words: vec![program.into()],
            ranks: Some(1),
            ..ProgramLine::default()
        }],
        ..CommandLine::default()
    };
    // The file of a program that runs may have been removed meanwhile.
    let plan = plan::make(line(program)).or_else(|_| plan::make(line(Path::new("/proc/self/exe"))));
    plan.map(|mut plan| {
        for program in &mut plan.programs {
            // The first processes are there, and share memory with those that they start.
            program.environment.remove(OsStr::new("WEFT_FABRIC"));
            program.ranks = ranks;
        }
        plan.universe = plan::universe(ranks);
        if ranks > 1 {
            // Ranks that have not come to us cannot be asked what they wait for.
            plan.on_deadlock = OnDeadlock::Ignore;
        }
        plan
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::descriptor;

    fn some(count: usize) -> Vec<OwnedFd> {
        let one = || descriptor::pipe().expect("descriptors are left").0;
        std::iter::repeat_with(one).take(count).collect()
    }

    #[test]
    fn what_does_not_belong_together_is_no_adoption() {
        let worlds = || Worlds::new(3, 8);
        let key = Key::random().expect("random");
        let rank = |rank| Adoption::of_rank(worlds(), rank, 3, &key);
        let others = |found: Option<(_, _, _, Option<OtherRanks>)>| {
            found.map(|(.., others)| others.is_some())
        };
        let alone = || Adoption::of_program(worlds());
        for (adoption, descriptors, expected) in [
            (alone(), 2, Some(false)),
            (alone(), 1, None),
            (alone(), 4, None),
            (rank(2), 4, Some(true)),
            (rank(2), 2, None),
            (rank(2), 5, None),
            (rank(3), 4, None),
        ] {
            let found: Option<(Adoption, OwnedFd, OwnedFd, Option<OtherRanks>)> =
                parts(adoption, some(descriptors));
            assert_eq!(others(found), expected, "{descriptors}");
        }
        let mut broken = rank(1);
        broken.key = Some("no key".into());
        assert!(parts(broken, some(4)).is_none());
    }
}
