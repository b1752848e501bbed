//! Command `weft adopt`: takes over the process at the other end of the standard input, or the ranks of a host, and becomes the
//! launcher that they need.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use weft_sys::passing;
use weft_sys::process::{self, ProcessHandle};

use super::handover::{Adoption, HandedOver};
use super::{AdoptedHost, AdoptedHosts, AdoptedJob, AdoptedProcess, Takeover};
use crate::bootstrap::Names;
use crate::control::{ANSWER, Answer};
use crate::exchange::PublishedValue;
use crate::hosts::join;
use crate::hosts::message::decode;
use crate::job;
use crate::mapping::Allocation;
use crate::options::{CommandLine, Input, OnDeadlock, ProgramLine};
use crate::plan::{self, Plan, PlanError};

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
            crate::user_output::tell(format_args!("weft adopt: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Leaves the launcher to the system, so that the process has no child that it does not know.
fn detach(word: &str) -> io::Result<()> {
    let us = env::current_exe()?;
    Command::new(us).args(["adopt", word]).spawn().map(drop)
}

/// Takes over what the process hands over, and is the launcher until the job ends.
fn adopt() -> io::Result<u8> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let handed_over = receive(&control)?;
    let owner = passing::peer_process(&control)?;
    let program = std::fs::read_link(format!("/proc/{}/exe", owner.id()));
    let program = program.unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let plan =
        plan_for(&program, &handed_over).map_err(|error| refuse(&control, &error.to_string()))?;
    take_over(control, owner, handed_over, plan)
}

/// Receives what the process hands over.
fn receive(control: &OwnedFd) -> io::Result<HandedOver> {
    let mut bytes = vec![0; ANSWER];
    let (count, descriptors) = passing::receive(control, &mut bytes)?;
    let adoption = Adoption::decode(&bytes[..count]);
    if adoption.is_some() && passing::peer_credentials(control)?.user != process::user() {
        return Err(refuse(
            control,
            "the launcher runs as another user than the program",
        ));
    }
    let handed_over = adoption.and_then(|adoption| HandedOver::of(adoption, descriptors));
    handed_over.ok_or_else(|| {
        refuse(
            control,
            "the launcher and the library are of different releases of Weft",
        )
    })
}

/// Tells the process why it is not taken over.
fn refuse(control: &OwnedFd, reason: &str) -> io::Error {
    let reason = reason.to_owned();
    let _ = passing::send(control, &Answer::Refused { reason }.encode(), &[]);
    io::Error::other("the program was not taken over")
}

/// Becomes what the process has asked for.
fn take_over(
    control: OwnedFd,
    owner: ProcessHandle,
    handed_over: HandedOver,
    plan: Plan,
) -> io::Result<u8> {
    match handed_over {
        HandedOver::Job {
            worlds,
            rank,
            memory,
            lifeline,
            others,
            ..
        } => {
            let job = AdoptedJob {
                first: AdoptedProcess {
                    process: owner,
                    rank,
                    control,
                    lifeline,
                },
                memory,
                worlds: *worlds,
                others,
            };
            job::run_adopted(&plan, Takeover::ThisHost(Box::new(job)))
        }
        HandedOver::Head { key, .. } => {
            let hosts = AdoptedHosts { control, key };
            job::run_adopted(&plan, Takeover::SeveralHosts(hosts))
        }
        HandedOver::Agent {
            role,
            memory,
            lifeline,
            others,
        } => {
            let host = AdoptedHost {
                values: receive_values(&control, role.portions)?,
                first: AdoptedProcess {
                    process: owner,
                    rank: role.rank,
                    control,
                    lifeline,
                },
                ranks: role.ranks,
                memory,
                others,
            };
            let own = plan.programs.into_iter().next();
            join::join_adopted(&role.head, host, own)
        }
    }
}

/// Receives the values that the ranks of a host have published, in so many messages.
fn receive_values(control: &OwnedFd, portions: u32) -> io::Result<Vec<PublishedValue>> {
    let mut bytes = vec![0; ANSWER];
    let mut values = Vec::new();
    for _ in 0..portions {
        let (count, _) = passing::receive(control, &mut bytes)?;
        let portion: Option<Vec<PublishedValue>> = decode(&bytes[..count]);
        values.extend(portion.ok_or_else(|| io::Error::other("the program is gone"))?);
    }
    Ok(values)
}

/// The job of such a program: what it starts has our environment, which is its own.
fn plan_for(program: &Path, handed_over: &HandedOver) -> Result<Plan, PlanError> {
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
        let ranks = match handed_over {
            HandedOver::Job { ranks, .. } | HandedOver::Head { ranks, .. } => *ranks,
            HandedOver::Agent { .. } => 1,
        };
        for program in &mut plan.programs {
            program.ranks = ranks;
            let environment = &mut program.environment;
            match handed_over {
                // The first processes are there, and share memory with those that they start.
                HandedOver::Job { .. } => drop(environment.remove(OsStr::new("WEFT_FABRIC"))),
                // As the first processes have been told: how they reach those of their host depends on it.
                HandedOver::Agent { role, .. } => {
                    let universe = role.universe.to_string();
                    environment.insert(Names::UNIVERSE.into(), universe.into());
                }
                HandedOver::Head { .. } => {
                    plan.allocation = Allocation::Adopted;
                    // Our standard input is the way to who has asked.
                    plan.input = Input::Nobody;
                }
            }
        }
        plan.universe = plan::default_universe(ranks);
        if ranks > 1 {
            // Ranks that have not come to us cannot be asked what they wait for.
            plan.on_deadlock = OnDeadlock::Ignore;
        }
        plan
    })
}
