//! Worlds of a job: which processes were started together, the ports that are open, and the services that are published.
//! One value for the whole job, in the process that decides.
//!
//! ```text
//!   world 0        the ranks that the job starts with
//!   world 1, 2, …  what MPI_Comm_spawn has started; each ends when its last process does
//!
//!   port      weft:JOB:OWNER:NUMBER    whose process accepts there; numbers are not given again
//!   service   a name ──► a port, and who has published it
//! ```
//!
//! Within the job a port is only a name: no socket belongs to it. A process that connects sends a message to the owner.
//!
//! | file | what |
//! |---|---|
//! | `ports` | which ports are open, by which a world is awaited, and by which none comes any more |
//! | `port_name` | the name of a port |
//! | `services` | names that are published for ports |
//! | here | worlds, and the requests of processes |

mod port_name;
mod ports;
mod services;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_sys::random;

use crate::job_request::{JobAnswer, JobRequest, Refusal, SpawnRequest, World};

use ports::{Ports, TooMany};
use services::Services;

pub use crate::hosts::message::Address;
pub use port_name::PortName;

/// The worlds, ports and services of a job. See the [module page](self).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worlds {
    /// What tells this job from others, in the names of its ports.
    job: String,
    /// How many processes the job started with.
    first: u32,
    /// How many more each host may have.
    room: u32,
    next_world: u32,
    worlds: BTreeMap<u32, World>,
    ports: Ports,
    services: Services,
    /// Where processes are that have said it, until all of their world have.
    introduced: BTreeMap<u32, String>,
}

/// Consequence of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Served {
    /// An answer.
    Answered(JobAnswer),
    /// Processes are to be started.
    Spawn(SpawnRequest),
    /// Others are waited for.
    Waits,
    /// All processes of a world have given their addresses: these are to be sent everywhere, and then the processes are
    /// to be answered.
    Introduced(Vec<Address>),
    /// A world is to be ended: the processes that have had it started do not wait for it any more. The caller is answered
    /// that it is done.
    Abandoned(u32),
}

impl Worlds {
    /// The worlds of a job that starts with this many processes, and may have this many more on each host.
    #[must_use]
    pub fn new(first: u32, room: u32) -> Self {
        let job = random::bytes::<8>().map_or_else(
            |_| std::process::id().to_string(),
            |bytes| crate::hex::hex(&bytes),
        );
        Self {
            job,
            first,
            room,
            next_world: 1,
            worlds: BTreeMap::new(),
            ports: Ports::new(),
            services: Services::default(),
            introduced: BTreeMap::new(),
        }
    }

    /// Notes processes that are started together, reached by `parent`; answers the number of their world.
    pub fn add(&mut self, members: Vec<u32>, parent: String) -> u32 {
        let number = self.next_world;
        self.next_world += 1;
        if let Ok(port) = self.find_port(&parent) {
            self.ports.await_world(port.number, number);
        }
        let world = World {
            number,
            members,
            first: self.first,
            room: self.room,
            parent: Some(parent),
        };
        self.worlds.insert(number, world);
        number
    }

    /// Handles a request of a process, or returns what is to be done.
    pub fn serve(&mut self, process: u32, request: JobRequest) -> Served {
        Served::Answered(match request {
            JobRequest::World => self.of(process),
            JobRequest::Heard => JobAnswer::Done,
            JobRequest::OpenPort => self.open_port(process),
            JobRequest::ClosePort { port } => self.close_port(process, &port),
            JobRequest::Abandon { port } => return self.abandon(process, &port),
            JobRequest::FindPort { port } => match self.find_port(&port) {
                _ if self.is_of_other_job(&port) => JobAnswer::Elsewhere,
                Ok(_) => JobAnswer::Done,
                Err(reason) => JobAnswer::refuse(Refusal::Port, reason),
            },
            JobRequest::Publish { service, port } => self.services.publish(process, service, port),
            JobRequest::LookUp { service } => self.services.look_up(&service),
            JobRequest::Unpublish { service, port } => self.services.unpublish(&service, &port),
            JobRequest::Spawn(request) if request.starts_no_process() => JobAnswer::refuse(
                Refusal::Spawn,
                "no process of a program was to be started; start at least one of each",
            ),
            JobRequest::Spawn(request) => return Served::Spawn(request),
            JobRequest::Introduce { address } => return self.introduce(process, address),
        })
    }

    /// Answers a request of a process where none can be started; `None` if it asks for that.
    pub fn answer(&mut self, process: u32, request: JobRequest) -> Option<JobAnswer> {
        match self.serve(process, request) {
            Served::Answered(answer) => Some(answer),
            Served::Abandoned(_) => Some(JobAnswer::Done),
            Served::Spawn(_) | Served::Waits | Served::Introduced(_) => None,
        }
    }

    /// A process of a later world says where it is.
    fn introduce(&mut self, process: u32, address: String) -> Served {
        let JobAnswer::World(world) = self.of(process) else {
            return Served::Waits;
        };
        if world.number == 0 || address.len() > weft_fabric_shm::LONGEST_ADDRESS {
            return Served::Answered(JobAnswer::refuse(
                Refusal::Other,
                format!(
                    "a process that was started from within a program may say where it is, in at most {} bytes; mpiexec \
                     and the library must be of the same release of Weft",
                    weft_fabric_shm::LONGEST_ADDRESS
                ),
            ));
        }
        self.introduced.insert(process, address);
        let here = |member: &u32| self.introduced.contains_key(member);
        if !world.members.iter().all(here) {
            return Served::Waits;
        }
        let address = |&number: &u32| Address {
            number,
            incarnation: world.number,
            address: self.introduced.remove(&number).unwrap_or_default(),
        };
        Served::Introduced(world.members.iter().map(address).collect())
    }

    /// The world of a process.
    pub fn of(&self, process: u32) -> JobAnswer {
        // The latest: its number in the job may have been that of another one before, whose world goes on.
        let mut worlds = self.worlds.values().rev();
        match worlds.find(|world| world.members.contains(&process)) {
            Some(world) => JobAnswer::World(world.clone()),
            None => JobAnswer::World(World {
                number: 0,
                members: (0..self.first).collect(),
                first: self.first,
                room: self.room,
                parent: None,
            }),
        }
    }

    /// None of a world was started.
    pub fn forget(&mut self, world: u32) {
        self.worlds.remove(&world);
    }

    /// A world that was to come by a port of this process. Its root closes that when they have met: until then it is open.
    fn awaited_by(&self, process: u32, world: &World) -> bool {
        let port = world.parent.as_ref().map(|name| self.find_port(name));
        port.is_some_and(|port| port.is_ok_and(|port| port.owner == process))
    }

    /// A process of a world has ended before it had met the processes that have had the world started: these wait in
    /// vain, for this reason. Their port is removed, unless they have all met through the others of that world.
    pub fn lose(&mut self, world: u32, reason: &str) {
        self.ports.lose(world, reason);
    }

    /// The parents of a world do not wait for it any more.
    fn abandon(&mut self, process: u32, name: &str) -> Served {
        let mut worlds = self.worlds.values();
        let awaited = worlds
            .find(|world| world.parent.as_deref() == Some(name) && self.awaited_by(process, world));
        let awaited = awaited.map(|world| world.number);
        match (self.close_port(process, name), awaited) {
            (JobAnswer::Done, Some(world)) => Served::Abandoned(world),
            (answer, _) => Served::Answered(answer),
        }
    }

    /// A process has ended, and with it what it had opened and published. `over`: it was the last of its world. Returns
    /// the worlds that were to meet it and have not: they never will.
    pub fn end(&mut self, process: u32, over: impl Fn(&World) -> bool) -> Vec<u32> {
        let worlds = self.worlds.values();
        let awaited = worlds.filter(|world| self.awaited_by(process, world));
        let abandoned = awaited.map(|world| world.number).collect();
        self.ports.end(process);
        self.services.end(process);
        self.introduced.remove(&process);
        self.worlds
            .retain(|_, world| !world.members.contains(&process) || !over(world));
        abandoned
    }

    /// Opens a port.
    pub fn open_port(&mut self, owner: u32) -> JobAnswer {
        match self.ports.open(owner) {
            Ok(number) => JobAnswer::Port(PortName { owner, number }.write(&self.job)),
            Err(TooMany(open)) => JobAnswer::refuse(
                Refusal::Other,
                format!(
                    "this process has {open} ports open; close ports that are not needed any more (MPI_Close_port)"
                ),
            ),
        }
    }

    /// Whether a name is one of a port of another job.
    fn is_of_other_job(&self, name: &str) -> bool {
        PortName::parse(name).is_some_and(|(job, _)| job != self.job)
    }

    /// Whether there is such a port.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn find_port(&self, name: &str) -> Result<PortName, String> {
        let Some((job, port)) = PortName::parse(name) else {
            return Err(format!(
                "'{}' is no name of a port; pass what MPI_Open_port or MPI_Lookup_name gave",
                PortName::shown(name)
            ));
        };
        if job != self.job {
            return Err(format!(
                "the port '{}' belongs to another job; close it where it was opened",
                PortName::shown(name)
            ));
        }
        match self.ports.owner(port.number) {
            Some(owner) if owner == port.owner => Ok(port),
            _ => Err(match self.ports.failure(port.number) {
                Some(reason) => reason.to_owned(),
                None => format!(
                    "the port '{}' is not open: it was closed, or its process has ended; open one with MPI_Open_port",
                    PortName::shown(name)
                ),
            }),
        }
    }

    /// Closes a port.
    pub fn close_port(&mut self, process: u32, name: &str) -> JobAnswer {
        match self.find_port(name) {
            Ok(port) if port.owner == process => {
                self.ports.close(port.number);
                JobAnswer::Done
            }
            Ok(_) => JobAnswer::refuse(
                Refusal::Port,
                format!(
                    "the port '{}' belongs to another process; close it where it was opened",
                    PortName::shown(name)
                ),
            ),
            Err(reason) => {
                if let Some((_, port)) = PortName::parse(name) {
                    self.ports.close_failed(port.number, process);
                }
                JobAnswer::refuse(Refusal::Port, reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(answer: JobAnswer) -> String {
        match answer {
            JobAnswer::Port(port) => port,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(answer: JobAnswer) -> Refusal {
        match answer {
            JobAnswer::Refused { refusal, reason } => {
                assert!(reason.contains(';') || reason.contains(':'), "{reason}");
                refusal
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_port_is_open_until_its_owner_closes_it_or_ends() {
        let mut worlds = Worlds::new(2, 8);
        let (one, two) = (port(worlds.open_port(0)), port(worlds.open_port(1)));
        assert_eq!(worlds.find_port(&two).map(|port| port.owner), Ok(1));
        assert_eq!(refusal(worlds.close_port(1, &one)), Refusal::Port);
        assert_eq!(worlds.close_port(0, &one), JobAnswer::Done);
        assert!(worlds.find_port(&one).is_err(), "closed");
        worlds.end(1, |_| true);
        assert!(worlds.find_port(&two).is_err(), "its owner has ended");
        for name in ["", "weft", "weft:a:b:c", "tcp:1:2:3"] {
            assert!(worlds.find_port(name).is_err());
        }
        let elsewhere = port(Worlds::new(2, 8).open_port(0));
        let error = worlds.find_port(&elsewhere).expect_err("another job");
        assert!(error.contains("another job"), "{error}");
    }

    #[test]
    fn a_world_is_abandoned_until_it_has_met_its_root() {
        let mut worlds = Worlds::new(2, 8);
        let ask = |worlds: &mut Worlds, process, port: &str| {
            let port = port.to_owned();
            worlds.serve(process, JobRequest::Abandon { port })
        };
        let done = Served::Answered(JobAnswer::Done);
        let (one, two, three) = (
            port(worlds.open_port(0)),
            port(worlds.open_port(0)),
            port(worlds.open_port(0)),
        );
        assert_eq!(ask(&mut worlds, 0, &one), done, "none was started");
        let (met, left) = (
            worlds.add(vec![2], two.clone()),
            worlds.add(vec![3], three.clone()),
        );
        assert!(
            matches!(
                ask(&mut worlds, 1, &three),
                Served::Answered(JobAnswer::Refused { .. })
            ),
            "another's"
        );
        assert_eq!(worlds.close_port(0, &two), JobAnswer::Done, "they have met");
        assert!(matches!(
            ask(&mut worlds, 0, &two),
            Served::Answered(JobAnswer::Refused { .. })
        ));
        assert_eq!(ask(&mut worlds, 0, &three), Served::Abandoned(left));
        let four = port(worlds.open_port(0));
        let orphan = worlds.add(vec![4], four);
        assert_eq!(worlds.end(1, |_| true), [0; 0]);
        assert_eq!(worlds.end(0, |_| true), [orphan], "not {met}");
    }

    #[test]
    fn a_parent_that_waits_for_a_lost_world_asks_for_its_port_and_hears_why() {
        let mut worlds = Worlds::new(2, 8);
        let (one, two) = (port(worlds.open_port(0)), port(worlds.open_port(0)));
        let (met, lost) = (
            worlds.add(vec![2], one.clone()),
            worlds.add(vec![3, 4], two.clone()),
        );
        worlds.close_port(0, &one);
        worlds.lose(met, "late");
        assert!(!worlds.find_port(&one).expect_err("closed").contains("late"));
        // That all of it have ended by then changes nothing.
        for process in [3, 4] {
            worlds.end(process, |_| true);
        }
        worlds.lose(lost, "it was killed");
        assert_eq!(worlds.find_port(&two), Err("it was killed".to_owned()));
        worlds.close_port(1, &two);
        assert_eq!(worlds.find_port(&two), Err("it was killed".to_owned()));
        let ask = JobRequest::Abandon { port: two.clone() };
        assert!(matches!(
            worlds.serve(0, ask),
            Served::Answered(JobAnswer::Refused { .. })
        ));
        assert!(
            worlds
                .find_port(&two)
                .expect_err("closed")
                .contains("is not open")
        );
    }

    #[test]
    fn a_world_is_introduced_when_all_have_said_where_they_are() {
        let mut worlds = Worlds::new(1, 8);
        worlds.add(vec![3, 1], "p".into());
        let mut say = |process, address: &str| {
            let address = address.to_owned();
            worlds.serve(process, JobRequest::Introduce { address })
        };
        assert!(
            matches!(say(0, "a"), Served::Answered(JobAnswer::Refused { .. })),
            "not started later"
        );
        assert!(matches!(
            say(1, &"a".repeat(2000)),
            Served::Answered(JobAnswer::Refused { .. })
        ));
        assert_eq!(say(1, "b"), Served::Waits);
        let Served::Introduced(addresses) = say(3, "c") else {
            panic!("both have");
        };
        let told: Vec<_> = addresses
            .iter()
            .map(|one| (one.number, one.incarnation, one.address.as_str()))
            .collect();
        assert_eq!(told, [(3, 1, "c"), (1, 1, "b")]);
        assert_eq!(say(1, "b"), Served::Waits, "as if for the first time");
    }

    #[test]
    fn a_world_is_known_until_its_last_process_has_ended() {
        let mut worlds = Worlds::new(2, 8);
        assert_eq!(worlds.add(vec![2, 5], "p".into()), 1);
        let JobAnswer::World(world) = worlds.of(5) else {
            panic!("there is one");
        };
        assert_eq!((world.members, world.first), (vec![2, 5], 2));
        worlds.end(2, |_| false);
        assert!(matches!(worlds.of(5), JobAnswer::World(world) if world.parent.is_some()));
        worlds.end(5, |_| true);
        assert!(matches!(worlds.of(5), JobAnswer::World(world) if world.parent.is_none()));
        assert_eq!(worlds.add(vec![5, 6], "p".into()), 2);
        // The first of them has ended, and another one has its number.
        worlds.end(5, |_| false);
        assert_eq!(worlds.add(vec![5], "q".into()), 3);
        let number = |answer| match answer {
            JobAnswer::World(world) => world.number,
            other => panic!("{other:?}"),
        };
        assert_eq!((number(worlds.of(5)), number(worlds.of(6))), (3, 2));
    }
}
