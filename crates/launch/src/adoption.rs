//! Adoption: a launcher for a process that was started without one, when it starts others.
//!
//! ```text
//!   the process ── weft adopt ──► detached: a launcher that is nobody's child ── frontend ── supervisor ── later processes
//!        │                                                                          pidfd ──► its end is seen
//!        └── memory, lifeline, ports and names, over the socket that is the standard input
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
use weft_sys::passing;
use weft_sys::process::{self, ProcessHandle};

use crate::control::{ANSWER, Answer};
use crate::hosts::message::{RELEASE, decode, encode};
use crate::options::{CommandLine, ProgramLine};
use crate::worlds::Worlds;
use crate::{job, plan};

/// What a process tells the launcher that is to adopt it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Adoption {
    release: u32,
    worlds: Worlds,
}

impl Adoption {
    /// Of a process that has these ports and names.
    pub fn new(worlds: Worlds) -> Self {
        Self {
            release: RELEASE,
            worlds,
        }
    }

    /// As it goes over the socket.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

/// A process that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedProcess {
    /// The process, by a handle that keeps meaning it.
    pub process: ProcessHandle,
    /// The memory that it has made for itself and others.
    pub memory: OwnedFd,
    /// The socket over which it tells and asks.
    pub control: OwnedFd,
    /// Never written to: closes when we end, and ends the process then.
    pub lifeline: OwnedFd,
    /// Its ports and names.
    pub worlds: Worlds,
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
    let (Some(adoption), Ok([memory, lifeline])) =
        (adoption, <[OwnedFd; 2]>::try_from(descriptors))
    else {
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
    let plan = match plan_for(&program) {
        Ok(plan) => plan,
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let adopted = AdoptedProcess {
        process: owner,
        memory,
        control,
        lifeline,
        worlds: adoption.worlds,
    };
    job::run_adopted(&plan, adopted)
}

/// The job of such a program: what it starts has our environment, which is its own.
fn plan_for(program: &Path) -> Result<plan::Plan, plan::PlanError> {
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
            // The first process is there, and shares memory with those that it starts.
            program.environment.remove(OsStr::new("WEFT_FABRIC"));
        }
        plan
    })
}
