//! Adoption: a launcher for a process that was started without one, when it starts others; or for ranks whose launcher
//! starts no later processes.
//!
//! ```text
//!   the process ── weft adopt ──► detached: a launcher that is nobody's child ── frontend ── supervisor ── later processes
//!        │                                                                          pidfd ──► its end is seen
//!        └── memory, lifeline, ports and names, over the socket that is the standard input;
//!            of one rank of several also the socket at which the others come, and a pipe that closes with the last of them
//!
//!   on several hosts (by calls: bootstrap::calls)
//!   rank 0 ────────────────── weft adopt ──► the head: listens, waits for an agent of each host, decides
//!   the lowest of each host ── weft adopt ──► an agent: joins the head, has the ranks of its host as above
//! ```
//!
//! Deaths: the launcher sees the end of the process by a handle, and then ends everything that belongs to the job unless
//! MPI was finalised. The end of the launcher ends the process by its lifeline. The launcher is no child of the process,
//! which may wait for children of its own. Head and agents lose each other as in any job on several hosts.

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

use crate::bootstrap::Names;
use crate::control::{ANSWER, Answer};
use crate::exchange::PublishedValue;
use crate::hosts::join;
use crate::hosts::listen_addresses;
use crate::hosts::message::{RELEASE, decode, encode};
use crate::mapping::Allocation;
use crate::options::{CommandLine, Input, OnDeadlock, ProgramLine};
use crate::worlds::Worlds;
use crate::{job, plan};

/// The data of a process for the launcher that is to adopt it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Adoption {
    release: u32,
    role: Role,
}

/// What the launcher is to be.
#[derive(Debug, Serialize, Deserialize)]
enum Role {
    /// The launcher of a job on one host.
    Job {
        worlds: Box<Worlds>,
        /// The process's rank among those that another launcher has started on this host.
        rank: u32,
        ranks: u32,
        /// The key that the other ranks show, as text; `None` if there cannot be any.
        key: Option<String>,
    },
    /// The head of a job of this many ranks on several hosts, which has none itself.
    Head {
        ranks: u32,
        /// The key that agents prove, as text.
        key: String,
    },
    /// The agent of a host of such a job.
    Agent(AgentRole),
}

/// The data for an agent before it joins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentRole {
    /// The ranks of its host, ascending.
    pub ranks: Vec<u32>,
    /// The rank that has started it.
    pub rank: u32,
    /// The key that the other ranks show, and that it proves to the head, as text.
    pub key: String,
    /// Address of the head, in the form of [`listen_addresses`].
    pub head: String,
    /// Number of processes expected to be useful.
    pub universe: u32,
    /// Number of messages that follow with the values that its ranks have published.
    pub portions: u32,
}

impl Adoption {
    fn new(role: Role) -> Self {
        let release = RELEASE;
        Self { release, role }
    }

    /// For a program that was not started as a rank, with these ports and names.
    pub fn of_program(worlds: Worlds) -> Self {
        Self::new(Role::Job {
            worlds: Box::new(worlds),
            rank: 0,
            ranks: 1,
            key: None,
        })
    }

    /// For a rank of another launcher, whose other ranks come later and show this key.
    pub fn of_rank(worlds: Worlds, rank: u32, ranks: u32, key: &Key) -> Self {
        Self::new(Role::Job {
            worlds: Box::new(worlds),
            rank,
            ranks,
            key: Some(key.to_text()),
        })
    }

    /// For a job on several hosts, by the head.
    pub fn of_hosts(ranks: u32, key: &Key) -> Self {
        Self::new(Role::Head {
            ranks,
            key: key.to_text(),
        })
    }

    /// For a host of such a job, by an agent.
    pub fn of_host(role: AgentRole) -> Self {
        Self::new(Role::Agent(role))
    }

    /// As it goes over the socket.
    ///
    /// # Errors
    /// If it is more than goes there.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let bytes = encode(self);
        match bytes.len() {
            0..=ANSWER => Ok(bytes),
            length => Err(format!(
                "{length} bytes of ports, names and ranks are there, more than a launcher takes over ({ANSWER}); close ports that are \
                 not needed"
            )),
        }
    }
}

/// A process that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedProcess {
    /// The process, by a handle that keeps meaning it.
    pub process: ProcessHandle,
    /// Its rank.
    pub rank: u32,
    /// The socket for its messages and questions.
    pub control: OwnedFd,
    /// Never written to: closes when we end, and ends the process then.
    pub lifeline: OwnedFd,
}

/// A job that was not started by its launcher: its first process here, and what belongs to all of them.
#[derive(Debug)]
pub struct AdoptedJob {
    /// The process that has asked for the launcher.
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
    /// The socket to which they connect.
    pub listener: OwnedFd,
    /// The key that they show.
    pub key: Key,
    /// Closes when all ranks of the host have ended.
    pub ends: OwnedFd,
}

/// A host whose ranks were not started by its launcher, in a job on several hosts.
#[derive(Debug)]
pub struct AdoptedHost {
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// The process that has asked for the launcher.
    pub first: AdoptedProcess,
    /// The memory that its ranks share.
    pub memory: OwnedFd,
    /// The other ranks.
    pub others: OtherRanks,
    /// The values that its ranks have published, by which later processes reach them.
    pub values: Vec<PublishedValue>,
}

impl AdoptedHost {
    /// Does not take it over; its ranks go on as before.
    pub fn refuse(self, reason: String) {
        let answer = Answer::Refused { reason }.encode();
        let _ = passing::send(&self.first.control, &answer, &[]);
    }
}

/// A job on several hosts that was not started by its launcher.
#[derive(Debug)]
pub struct AdoptedHosts {
    /// The control socket of the process that has asked for the head.
    pub control: OwnedFd,
    /// The key that agents prove.
    pub key: Key,
}

/// A job that was there before its launcher.
#[derive(Debug)]
pub enum Takeover {
    /// Its ranks are on this host.
    ThisHost(Box<AdoptedJob>),
    /// The ranks are on several hosts.
    SeveralHosts(AdoptedHosts),
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
    let role = adoption.map(|adoption| adoption.role);
    if role.is_some() && passing::peer_credentials(&control)?.user != process::user() {
        return Err(refuse("the launcher runs as another user than the program"));
    }
    let parts = role.and_then(|role| Parts::of(role, descriptors));
    let Some(parts) = parts else {
        return Err(refuse(
            "the launcher and the library are of different releases of Weft",
        ));
    };
    let owner = passing::peer_process(&control)?;
    let program = std::fs::read_link(format!("/proc/{}/exe", owner.id()));
    let program = program.unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let plan = match plan_for(&program, &parts) {
        Ok(plan) => plan,
        Err(error) => return Err(refuse(&error.to_string())),
    };
    let adopt = |rank, lifeline, control| AdoptedProcess {
        process: owner,
        rank,
        control,
        lifeline,
    };
    match parts {
        Parts::Job {
            worlds,
            rank,
            memory,
            lifeline,
            others,
            ..
        } => {
            let job = AdoptedJob {
                first: adopt(rank, lifeline, control),
                memory,
                worlds,
                others,
            };
            job::run_adopted(&plan, Takeover::ThisHost(Box::new(job)))
        }
        Parts::Head { key, .. } => {
            let hosts = AdoptedHosts { control, key };
            job::run_adopted(&plan, Takeover::SeveralHosts(hosts))
        }
        Parts::Agent {
            role,
            memory,
            lifeline,
            others,
        } => {
            let mut values = Vec::new();
            for _ in 0..role.portions {
                let (count, _) = passing::receive(&control, &mut bytes)?;
                let portion: Option<Vec<PublishedValue>> = decode(&bytes[..count]);
                values.extend(portion.ok_or_else(|| io::Error::other("the program is gone"))?);
            }
            let host = AdoptedHost {
                values,
                first: adopt(role.rank, lifeline, control),
                ranks: role.ranks,
                memory,
                others,
            };
            let own = plan.programs.into_iter().next();
            join::join_adopted(&role.head, host, own)
        }
    }
}

/// What a process has handed over, if it belongs together.
#[derive(Debug)]
enum Parts {
    Job {
        worlds: Worlds,
        rank: u32,
        ranks: u32,
        memory: OwnedFd,
        lifeline: OwnedFd,
        others: Option<OtherRanks>,
    },
    Head {
        ranks: u32,
        key: Key,
    },
    Agent {
        role: AgentRole,
        memory: OwnedFd,
        lifeline: OwnedFd,
        others: OtherRanks,
    },
}

impl Parts {
    fn of(role: Role, descriptors: Vec<OwnedFd>) -> Option<Self> {
        let most = weft_fabric_shm::MAX_RANKS;
        let mut descriptors = descriptors.into_iter();
        let mut take = || descriptors.next();
        let others = |key: &str, take: &mut dyn FnMut() -> Option<OwnedFd>| {
            Some(OtherRanks {
                key: key.parse().ok()?,
                listener: take()?,
                ends: take()?,
            })
        };
        let parts = match role {
            Role::Job {
                worlds,
                rank,
                ranks,
                key,
            } if rank < ranks && ranks <= most => {
                let (memory, lifeline) = (take()?, take()?);
                let others = match key {
                    None => None,
                    Some(key) => Some(others(&key, &mut take)?),
                };
                Self::Job {
                    worlds: *worlds,
                    rank,
                    ranks,
                    memory,
                    lifeline,
                    others,
                }
            }
            Role::Head { ranks, key } if (1..=most).contains(&ranks) => Self::Head {
                ranks,
                key: key.parse().ok()?,
            },
            Role::Agent(role)
                if role.ranks.is_sorted_by(|one, other| one < other)
                    && role.ranks.contains(&role.rank)
                    && listen_addresses::parse(&role.head).is_some() =>
            {
                let (memory, lifeline) = (take()?, take()?);
                Self::Agent {
                    memory,
                    lifeline,
                    others: others(&role.key, &mut take)?,
                    role,
                }
            }
            Role::Job { .. } | Role::Head { .. } | Role::Agent(_) => return None,
        };
        take().is_none().then_some(parts)
    }
}

/// The job of such a program: what it starts has our environment, which is its own.
fn plan_for(program: &Path, parts: &Parts) -> Result<plan::Plan, plan::PlanError> {
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
        let ranks = match parts {
            Parts::Job { ranks, .. } | Parts::Head { ranks, .. } => *ranks,
            Parts::Agent { .. } => 1,
        };
        for program in &mut plan.programs {
            program.ranks = ranks;
            let environment = &mut program.environment;
            match parts {
                // The first processes are there, and share memory with those that they start.
                Parts::Job { .. } => drop(environment.remove(OsStr::new("WEFT_FABRIC"))),
                // As the first processes have been told: how they reach those of their host depends on it.
                Parts::Agent { role, .. } => {
                    let universe = role.universe.to_string();
                    environment.insert(Names::UNIVERSE.into(), universe.into());
                }
                Parts::Head { .. } => {
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
        let alone = || Adoption::of_program(worlds());
        let agent = |ranks: &[u32], rank, head: &str| {
            Adoption::of_host(AgentRole {
                ranks: ranks.to_vec(),
                rank,
                key: key.to_text(),
                head: head.into(),
                universe: 3,
                portions: 0,
            })
        };
        let head = "4000,10.0.0.1";
        for (adoption, descriptors, belongs) in [
            (alone(), 2, true),
            (alone(), 1, false),
            (alone(), 4, false),
            (rank(2), 4, true),
            (rank(2), 2, false),
            (rank(2), 5, false),
            (rank(3), 4, false),
            (Adoption::of_hosts(3, &key), 0, true),
            (Adoption::of_hosts(3, &key), 1, false),
            (Adoption::of_hosts(0, &key), 0, false),
            (agent(&[1, 2], 1, head), 4, true),
            (agent(&[1, 2], 1, head), 3, false),
            (agent(&[1, 2], 0, head), 4, false),
            (agent(&[2, 1], 1, head), 4, false),
            (agent(&[1, 2], 1, "nowhere"), 4, false),
        ] {
            let text = format!("{adoption:?} with {descriptors}");
            let found = Parts::of(adoption.role, some(descriptors));
            assert_eq!(found.is_some(), belongs, "{text}");
        }
        let Role::Job { worlds, rank, .. } = rank(1).role else {
            panic!("of a rank");
        };
        let broken = Role::Job {
            worlds,
            rank,
            ranks: 3,
            key: Some("no key".into()),
        };
        assert!(Parts::of(broken, some(4)).is_none());
    }
}
