//! Spawning on several hosts: the head decides where processes run, the agents start them.
//!
//! ```text
//!   a rank asks ─► room? of all agents ─► chosen ─► started by those that get some ─► all have answered ─► answered
//!                       ▲      not yet: again │      one could not: all of them end, refused
//!                       └─────────────────────┘ never: refused
//!
//!   a process says where it is ─► all of its world have ─► recorded by all agents ─► answered
//! ```
//!
//! Requests are handled one after the other, so no two of them count on the same room. All hosts record where a process
//! is before it goes on: so any process that is told of it finds it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::hosts::message::{Address, LaterProcess, LaterProcesses, Room, ToAgent};
use crate::job::placement::{self, HostRoom, Wanted};
use crate::job::rank_hosts::{Event, WorldRank};
use crate::job_request::{JobAnswer, JobRequest, Refusal, SpawnRequest};
use crate::mapping::is_here;
use crate::plan::{Plan, divide_room};
use crate::worlds::{Served, Worlds};

/// How long processes are waited for that have left, or are about to, and whose places are needed.
const PATIENCE: Duration = Duration::from_secs(10);
/// After what time is asked again whether there is room.
const PAUSE: Duration = Duration::from_millis(10);

/// A host that may have processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its agent.
    pub agent: usize,
    /// As the user calls it, and as it calls itself.
    pub names: [String; 2],
    /// How many of its processes the job starts with.
    pub first: u32,
}

/// What the head keeps of processes that are started later. See the [module page](self).
#[derive(Debug)]
pub struct RemoteSpawning {
    worlds: Worlds,
    /// In the order of the numbers of their processes.
    hosts: Vec<Host>,
    /// Agents of those that are lost.
    lost: BTreeSet<usize>,
    /// How many processes the job starts with, how many more it may have, and each host.
    first: u32,
    more: u32,
    room: u32,
    /// Requests for processes: the asker, the request, and the time when patience ends. The first one is being served.
    requests: VecDeque<(u32, SpawnRequest, Instant)>,
    stage: Stage,
    /// Worlds of which all hosts are to be told where they are. The first one is being told.
    introductions: VecDeque<Vec<Address>>,
    /// Agents that have not recorded it yet.
    recording: BTreeSet<usize>,
    /// Processes that were started and have not ended.
    running: BTreeSet<u32>,
}

/// How far the first request is.
#[derive(Debug)]
enum Stage {
    /// There is none.
    Idle,
    /// Agents were asked how much room they have, and have answered.
    Asking(BTreeMap<usize, Room>),
    /// There was too little; it is asked again then.
    Pausing(Instant),
    /// Agents were told to start processes.
    Starting {
        world: u32,
        /// How many of each program.
        counts: Vec<u32>,
        /// Those that have not answered.
        missing: BTreeSet<usize>,
        /// Rank in the world of each process, by its number in the job.
        ranks: BTreeMap<u32, u32>,
        started: Vec<u32>,
        failed: Option<String>,
    },
}

/// What is to be said to agents, and what has happened.
#[derive(Debug, Default)]
pub struct Consequences {
    pub say: Vec<(usize, ToAgent)>,
    pub events: Vec<Event>,
    /// Processes that are to be ended.
    pub end: Vec<u32>,
    /// Answers to processes.
    pub answers: Vec<(u32, JobAnswer)>,
}

impl Consequences {
    /// These follow, too.
    fn add(&mut self, more: Self) {
        self.say.extend(more.say);
        self.events.extend(more.events);
        self.end.extend(more.end);
        self.answers.extend(more.answers);
    }
}

impl RemoteSpawning {
    /// Of a job of this plan whose hosts are not known yet.
    pub fn new(plan: &Plan) -> Self {
        Self {
            worlds: Worlds::new(plan.ranks(), 0),
            hosts: Vec::new(),
            lost: BTreeSet::new(),
            first: plan.ranks(),
            more: plan.room(),
            room: 0,
            requests: VecDeque::new(),
            stage: Stage::Idle,
            introductions: VecDeque::new(),
            recording: BTreeSet::new(),
            running: BTreeSet::new(),
        }
    }

    /// The job has these hosts; answers how many processes more each may have.
    pub fn assign(&mut self, hosts: Vec<Host>) -> u32 {
        self.room = divide_room(self.more, hosts.len() as u32);
        self.worlds = Worlds::new(self.first, self.room);
        self.hosts = hosts;
        self.room
    }

    /// How many processes the job may have, on all hosts.
    pub fn capacity(&self) -> u32 {
        self.first + self.hosts.len() as u32 * self.room
    }

    /// The agent of a process that was started later.
    pub fn agent(&self, number: u32) -> Option<usize> {
        let later = number.checked_sub(self.first)?;
        let host = later.checked_div(self.room)?;
        Some(self.hosts.get(host as usize)?.agent)
    }

    /// The processes of an agent that were started later and have not ended.
    pub fn running(&self, agent: usize) -> impl Iterator<Item = u32> {
        let running = self.running.iter().copied();
        running.filter(move |number| self.agent(*number) == Some(agent))
    }

    /// When to [look](Self::look) again.
    pub fn next_look(&self) -> Option<Instant> {
        match self.stage {
            Stage::Pausing(until) => Some(until),
            _ => None,
        }
    }

    /// Does what a process asks, or begins to.
    pub fn serve(&mut self, process: u32, request: JobRequest) -> Consequences {
        let mut then = Consequences::default();
        match self.worlds.serve(process, request) {
            Served::Answered(answer) => then.answers.push((process, answer)),
            Served::Waits => {}
            Served::Introduced(addresses) => {
                self.introductions.push_back(addresses);
                if self.introductions.len() == 1 {
                    self.tell(&mut then);
                }
            }
            Served::Abandoned(world) => {
                then.events.push(Event::Abandoned { world });
                then.answers.push((process, JobAnswer::Done));
            }
            // An honest process waits for its answer before it asks again.
            Served::Spawn(_) if self.requests.iter().any(|(asking, ..)| *asking == process) => {
                let reason = "a request of this process waits already";
                let answer = JobAnswer::refuse(Refusal::Spawn, reason);
                then.answers.push((process, answer));
            }
            Served::Spawn(request) => {
                let deadline = Instant::now() + PATIENCE;
                self.requests.push_back((process, request, deadline));
                if self.requests.len() == 1 {
                    self.ask(&mut then);
                }
            }
        }
        then
    }

    /// The agents that are left.
    fn agents(&self) -> impl Iterator<Item = usize> {
        let all = self.hosts.iter().map(|host| host.agent);
        all.filter(|agent| !self.lost.contains(agent))
    }

    /// All hosts are told where the processes of the next world are.
    fn tell(&mut self, then: &mut Consequences) {
        if let Some(addresses) = self.introductions.front() {
            let addresses = addresses.clone();
            let record = ToAgent::RecordAddresses { addresses };
            self.recording = self.agents().collect();
            let agents = self.recording.iter();
            then.say
                .extend(agents.map(|agent| (*agent, record.clone())));
        }
    }

    /// An agent has recorded where processes are.
    pub fn recorded(&mut self, agent: usize) -> Consequences {
        let mut then = Consequences::default();
        if self.recording.remove(&agent) && self.recording.is_empty() {
            let told = self.introductions.pop_front().unwrap_or_default();
            let numbers = told.iter().map(|address| address.number);
            then.answers
                .extend(numbers.map(|number| (number, JobAnswer::Done)));
            self.tell(&mut then);
        }
        then
    }

    /// Agents are asked how much room they have.
    fn ask(&mut self, then: &mut Consequences) {
        self.stage = match self.requests.is_empty() {
            true => Stage::Idle,
            false => Stage::Asking(BTreeMap::new()),
        };
        if !self.requests.is_empty() {
            let agents = self.agents();
            then.say
                .extend(agents.map(|agent| (agent, ToAgent::AskRoom)));
        }
    }

    /// Asks again, if it is time to.
    pub fn look(&mut self) -> Consequences {
        let mut then = Consequences::default();
        if self.next_look().is_some_and(|when| when <= Instant::now()) {
            self.ask(&mut then);
        }
        then
    }

    /// An agent says how much room it has.
    pub fn hear_room(&mut self, plan: &Plan, agent: usize, room: Room) -> Consequences {
        let mut then = Consequences::default();
        if let Stage::Asking(rooms) = &mut self.stage {
            rooms.insert(agent, room);
            self.choose_if_all_have_answered(plan, &mut then);
        }
        then
    }

    fn choose_if_all_have_answered(&mut self, plan: &Plan, then: &mut Consequences) {
        let Stage::Asking(rooms) = &self.stage else {
            return;
        };
        if self.agents().all(|agent| rooms.contains_key(&agent)) {
            let rooms = rooms.clone();
            self.choose(plan, &rooms, then);
        }
    }

    /// An agent is lost with these processes: no answer of it is waited for, and it gets no others.
    pub fn lose_host(
        &mut self,
        agent: usize,
        name: &str,
        processes: &[u32],
        plan: &Plan,
    ) -> Consequences {
        self.lost.insert(agent);
        let mut then = self.recorded(agent);
        for process in processes {
            then.events.extend(self.end(*process));
        }
        match &mut self.stage {
            Stage::Asking(rooms) => {
                rooms.remove(&agent);
                self.choose_if_all_have_answered(plan, &mut then);
            }
            Stage::Starting { missing, .. } if missing.contains(&agent) => {
                let reason = Some("the host is lost".into());
                then.add(self.started(agent, name, Vec::new(), reason));
            }
            _ => {}
        }
        then
    }

    /// The first request is answered; on with the next one.
    fn answer(&mut self, answer: JobAnswer, then: &mut Consequences) {
        if let Some((process, ..)) = self.requests.pop_front() {
            then.answers.push((process, answer));
        }
        self.ask(then);
    }

    fn choose(&mut self, plan: &Plan, rooms: &BTreeMap<usize, Room>, then: &mut Consequences) {
        let Some((process, request, deadline)) = self.requests.front().cloned() else {
            return self.stage = Stage::Idle;
        };
        let wanted: Result<Vec<Wanted>, String> = request
            .programs
            .iter()
            .map(|program| {
                Ok(Wanted::new(
                    program,
                    self.hosts_for(program.host.as_deref())?,
                ))
            })
            .collect();
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(reason) => return self.answer(JobAnswer::refuse(Refusal::Spawn, reason), then),
        };
        let room = |host: &Host| rooms.get(&host.agent).cloned().unwrap_or_default();
        let rooms: Vec<Room> = self.hosts.iter().map(room).collect();
        let taken = |room: &Room| self.room.saturating_sub(room.free.len() as u32);
        let living = self.hosts.iter().zip(&rooms);
        let living = living.filter(|(host, _)| !self.lost.contains(&host.agent));
        let most = (self.more).saturating_sub(living.map(|(_, room)| taken(room)).sum());
        let free: Vec<HostRoom> = self
            .hosts
            .iter()
            .zip(&rooms)
            .map(|(host, room)| HostRoom {
                free: room.free.len() as u32,
                running: host.first + taken(room).saturating_sub(room.soon),
            })
            .collect();
        if let Some(placed) = placement::place(&wanted, &free, most) {
            return self.start(plan, process, &request, &placed, &rooms, then);
        }
        // What there would be room for when those have gone that are about to.
        let soon: u32 = rooms.iter().map(|room| room.soon).sum();
        let later: Vec<HostRoom> = free
            .iter()
            .zip(&rooms)
            .map(|(host, room)| HostRoom {
                free: host.free + room.soon,
                ..*host
            })
            .collect();
        let possible = placement::place(&wanted, &later, most + soon).is_some();
        if possible && Instant::now() < deadline {
            self.stage = Stage::Pausing(Instant::now() + PAUSE);
            return;
        }
        let needed = placement::needed(&wanted);
        let list = self.hosts.iter().zip(&free);
        let list: Vec<String> = list
            .map(|(host, room)| format!("{} on {}", room.free.min(most), host.names[0]))
            .collect();
        let behind = rooms.iter().find_map(|room| room.behind);
        let why = match (possible, behind) {
            (true, Some(rank)) => format!(
                " (process {rank} of the job has not called MPI for {} s since others have ended; let all processes call \
                 MPI now and then)",
                PATIENCE.as_secs()
            ),
            (true, None) => format!(
                " (processes that are about to end have not ended for {} s)",
                PATIENCE.as_secs()
            ),
            (false, _) => String::new(),
        };
        let reason = format!(
            "{needed} processes were to be started, and there is room for {most} more in all, {}{why}: this job may have {} \
             processes; give it more room (mpiexec --universe N)",
            list.join(", "),
            self.first + self.more
        );
        self.answer(JobAnswer::refuse(Refusal::Spawn, reason), then);
    }

    /// The hosts that a program may run on, by number: those of a list of names, or all.
    fn hosts_for(&self, names: Option<&str>) -> Result<Vec<usize>, String> {
        let Some(names) = names else {
            return Ok((0..self.hosts.len()).collect());
        };
        let mut found = Vec::new();
        for name in names.split(',').map(str::trim) {
            let called = |host: &Host| {
                let here = |other: &String| is_here(other) && is_here(name);
                host.names.iter().any(|other| other == name || here(other))
            };
            let before = found.len();
            let hosts = self.hosts.iter().enumerate();
            found.extend(
                hosts
                    .filter(|(_, host)| called(host))
                    .map(|(index, _)| index),
            );
            if found.len() == before {
                let all: Vec<&str> = self.hosts.iter().map(|host| &*host.names[0]).collect();
                return Err(format!(
                    "a process was to be started on host {name}, which is none of this job: it runs on {}; leave out the \
                     info key host, or name one of these",
                    all.join(", ")
                ));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn start(
        &mut self,
        plan: &Plan,
        process: u32,
        request: &SpawnRequest,
        placed: &[Vec<usize>],
        rooms: &[Room],
        then: &mut Consequences,
    ) {
        let size = placed.iter().map(Vec::len).sum::<usize>() as u32;
        let mut free: Vec<_> = rooms.iter().map(|room| room.free.iter()).collect();
        let mut shares: BTreeMap<usize, Vec<LaterProcess>> = BTreeMap::new();
        let mut members = Vec::new();
        for (appnum, hosts) in (0..).zip(placed) {
            for &host in hosts {
                let slot = free[host].next().copied().unwrap_or_default();
                let behind = slot.saturating_sub(self.hosts[host].first);
                let number = self.first + host as u32 * self.room + behind;
                let rank = members.len() as u32;
                members.push(number);
                let share = shares.entry(self.hosts[host].agent).or_default();
                share.push(LaterProcess {
                    number,
                    slot,
                    rank,
                    appnum,
                });
            }
        }
        let world = self.worlds.add(members.clone(), request.port.clone());
        let appnums = plan.appnums();
        let parent = appnums.get(process as usize).copied().unwrap_or(0);
        self.stage = Stage::Starting {
            world,
            counts: placed.iter().map(|hosts| hosts.len() as u32).collect(),
            missing: shares.keys().copied().collect(),
            ranks: members.into_iter().zip(0..).collect(),
            started: Vec::new(),
            failed: None,
        };
        for (agent, processes) in shares {
            let later = LaterProcesses {
                size,
                processes,
                programs: request.programs.clone(),
                parent,
            };
            then.say.push((agent, ToAgent::StartLater(Box::new(later))));
        }
    }

    /// An agent has started processes, by their number in the job and their process there; or could not, for a reason.
    pub fn started(
        &mut self,
        agent: usize,
        name: &str,
        processes: Vec<(u32, u32)>,
        reason: Option<String>,
    ) -> Consequences {
        self.running
            .extend(processes.iter().map(|(number, _)| *number));
        let mut then = Consequences::default();
        let Stage::Starting {
            world,
            counts,
            missing,
            ranks,
            started,
            failed,
        } = &mut self.stage
        else {
            return then;
        };
        missing.remove(&agent);
        for (number, process) in processes {
            started.push(number);
            then.events.push(Event::Spawned {
                rank: number,
                world: WorldRank {
                    world: *world,
                    rank: ranks.get(&number).copied().unwrap_or_default(),
                },
                process,
                detail: format!(" on {name}"),
                outputs: None,
            });
        }
        if let Some(reason) = reason {
            failed.get_or_insert(format!("{name}: {reason}"));
        }
        if !missing.is_empty() {
            return then;
        }
        let answer = match failed.take() {
            None => {
                // The process that has asked for them may have ended meanwhile, and its port with it.
                let asked = self.requests.front();
                if asked.is_none_or(|(_, asked, _)| self.worlds.find_port(&asked.port).is_err()) {
                    then.events.push(Event::Abandoned { world: *world });
                }
                JobAnswer::Spawned {
                    counts: std::mem::take(counts),
                    world: *world,
                }
            }
            Some(reason) => {
                then.events.push(Event::GivenUp { world: *world });
                then.end = std::mem::take(started);
                if then.end.is_empty() {
                    self.worlds.forget(*world);
                }
                let size = ranks.len();
                JobAnswer::refuse(
                    Refusal::Spawn,
                    format!("{reason}; none of the {size} processes was started"),
                )
            }
        };
        self.answer(answer, &mut then);
        then
    }

    /// The parents of a world that does not come are to find out why.
    pub fn lose(&mut self, world: u32, reason: &str) {
        self.worlds.lose(world, reason);
    }

    /// A process has ended, of those that the job starts with or of later ones.
    pub fn end(&mut self, process: u32) -> Vec<Event> {
        self.running.remove(&process);
        let runs = |member: &u32| self.running.contains(member);
        let over = |world: &crate::job_request::World| !world.members.iter().any(runs);
        let abandoned = self.worlds.end(process, over).into_iter();
        // The first one is being served.
        let mut index = 0;
        self.requests.retain(|(asking, ..)| {
            index += 1;
            index == 1 || *asking != process
        });
        abandoned.map(|world| Event::Abandoned { world }).collect()
    }
}

#[cfg(test)]
mod tests;
