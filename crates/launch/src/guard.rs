//! Guard: a process that runs something in another process, and ends with it. Each of the two watches the other; if
//! either is killed, the other ends everything below it.
//!
//! ```text
//!   whoever started us ── guard ───────────────────── the guarded: supervisor or agent
//!                           signals, terminal ──▶       own session, ranks
//!                           ◀── exit code
//!                           └─ liveness pipe: closes when the guard is gone ─┘
//! ```

mod terminal;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use weft_sys::descriptor;
use weft_sys::fork::{Fork, fork_alone};
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::{
    self, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM,
};
use weft_sys::signal::{Signals, is_ignored};

use crate::{exit_status, tree};
use terminal::Terminal;

/// Handed on to the guarded process.
const HANDED_ON: [i32; 8] = [
    SIGINT,
    SIGTERM,
    SIGHUP,
    SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    SIGCONT,
];

/// Runs `job` in a process of its own, with a guard before it: us. `job` is given a pipe that closes when
/// the guard is gone and, if `pump`, one through which the guard passes on its standard input; it answers
/// the exit code.
///
/// # Errors
/// If the processes cannot be made; nothing was started then.
pub fn run(pump: bool, job: impl FnOnce(OwnedFd, Option<OwnedFd>) -> u8) -> io::Result<u8> {
    // Children that we had before are not of the job. (A shell that started something and then became
    // us by `exec`.) They must not be mixed up with it: a child of ours, without children, does it all.
    if tree::has_children() {
        let signals = signals()?;
        return match fork_alone()? {
            Fork::Parent { child } => Guard {
                child,
                signals,
                terminal: None,
                owns_all: false,
            }
            .attend(),
            Fork::Child => {
                process::die_with_parent(SIGKILL)?;
                std::process::exit(alone(pump, job).map_or(1, i32::from));
            }
        };
    }
    alone(pump, job)
}

fn signals() -> io::Result<Signals> {
    let wanted = HANDED_ON.into_iter().filter(|signal| !is_ignored(*signal));
    Signals::new(&wanted.chain([SIGCHLD]).collect::<Vec<_>>())
}

fn alone(pump: bool, job: impl FnOnce(OwnedFd, Option<OwnedFd>) -> u8) -> io::Result<u8> {
    process::adopt_orphans()?;
    let signals = signals()?;
    let (liveness, ours) = descriptor::pipe()?;
    let (input, terminal) = match pump.then(descriptor::pipe).transpose()? {
        Some((reading, writing)) => (Some(reading), Some(writing)),
        None => (None, None),
    };
    match fork_alone()? {
        Fork::Parent { child } => {
            drop((liveness, input));
            let terminal = terminal.map(Terminal::new).transpose()?;
            let code = Guard {
                child,
                signals,
                terminal,
                owns_all: true,
            }
            .attend();
            drop(ours);
            code
        }
        Fork::Child => {
            drop((ours, terminal, signals));
            let _ = rustix::thread::set_name(c"weft-supervisor");
            std::process::exit(job(liveness, input).into());
        }
    }
}

/// Attends to one child until it has ended.
struct Guard {
    child: u32,
    signals: Signals,
    terminal: Option<Terminal>,
    /// Everything below us belongs to the job.
    owns_all: bool,
}

impl Guard {
    fn attend(mut self) -> io::Result<u8> {
        loop {
            while let Some(signal) = self.signals.next()? {
                if signal == SIGCHLD {
                    continue;
                }
                // It may just have ended: seen below. Until then its number is its own.
                let _ = process::signal(self.child, signal);
                if signal == libc::SIGTSTP {
                    // Stopped like any program, and continued with the job.
                    process::signal(process::id(), SIGSTOP)?;
                    let _ = process::signal(self.child, SIGCONT);
                }
            }
            if let Some(code) = self.ended()? {
                return Ok(code);
            }
            let mut entries = vec![PollFd::new(&self.signals, Interest::Read)];
            let mut limit = None;
            if let Some(terminal) = &self.terminal {
                limit = terminal.entry(&mut entries);
            }
            poll::wait(&mut entries, limit)?;
            let ready = entries.get(1).is_some_and(PollFd::is_ready);
            if ready
                && self
                    .terminal
                    .as_mut()
                    .is_some_and(|terminal| !terminal.pump())
            {
                self.terminal = None;
            }
        }
    }

    /// The exit code, if the child has ended. Then nothing is left below us.
    fn ended(&self) -> io::Result<Option<u8>> {
        let mut found = None;
        while let Some((process, status)) = process::reap()? {
            if process == self.child {
                found = Some(status);
                break;
            }
        }
        let Some(status) = found else {
            return Ok(None);
        };
        if self.owns_all {
            tree::end(&[], Duration::from_secs(5), |_, _| {});
        }
        if self.owns_all && status.code().is_none() {
            crate::user_output::tell(format_args!(
                "weft: the supervisor of the job was {}; all ranks were ended",
                exit_status::describe(status)
            ));
        }
        Ok(Some(exit_status::code(status)))
    }
}
