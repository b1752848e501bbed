//! Spawning: processes that are started from within a program, on this host, and other requests of ranks to their job.
//!
//! ```text
//!   a rank asks ─► programs found? ─► places free? ─► cleared ─► started ─► answered
//!                    no: refused        not yet: it waits until processes that end have gone
//!                                       never: refused
//! ```

use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::rank_hosts::{Event, WorldRank};
use crate::bootstrap::name_of_this_host;
use crate::job_request::{JobAnswer, JobRequest, Refusal, SpawnProgram, SpawnRequest, World};
use crate::mapping::is_here;
use crate::plan::{Plan, Program};
use crate::rank_processes::{LaterSlot, RankNumbers, RankProcesses};
use crate::worlds::{Served, Worlds};

/// How long processes are waited for that have left, or are about to, and whose places are needed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether they are free: only the ranks know when they have put away what they had to do with a
/// process that has ended, and they do not tell the launcher.
const LOOK: Duration = Duration::from_millis(3);

/// What a job on this host keeps of its later processes. See the [module page](self).
#[derive(Debug)]
pub struct Spawning {
    worlds: Worlds,
    /// Requests for which places are not free yet, with when patience ends.
    waiting: Vec<(u32, SpawnRequest, Instant)>,
}

/// What became of a request for processes.
enum Step {
    Answered(JobAnswer),
    Waits,
}

impl Spawning {
    /// Of a job of this plan.
    pub fn new(plan: &Plan) -> Self {
        Self::with(Worlds::new(plan.ranks(), plan.room()))
    }

    /// Of a job that has these ports and names already.
    pub fn with(worlds: Worlds) -> Self {
        Self {
            worlds,
            waiting: Vec::new(),
        }
    }

    /// When to look again whether places are free.
    pub fn next_look(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| Instant::now() + LOOK)
    }

    /// Does what a rank asks, or lets it wait.
    pub fn serve(
        &mut self,
        plan: &Plan,
        processes: &mut RankProcesses,
        rank: u32,
        request: JobRequest,
    ) -> Vec<Event> {
        let answer = match self.worlds.serve(rank, request) {
            Served::Answered(answer) => answer,
            Served::Waits => return Vec::new(),
            Served::Introduced(addresses) => {
                processes.record_addresses(&addresses);
                for address in addresses {
                    processes.answer(address.number, JobAnswer::Done);
                }
                return Vec::new();
            }
            Served::Abandoned(world) => {
                processes.answer(rank, JobAnswer::Done);
                return vec![Event::Abandoned { world }];
            }
            // An honest rank waits for its answer before it asks again.
            Served::Spawn(_) if self.waiting.iter().any(|(asking, _, _)| *asking == rank) => {
                JobAnswer::refuse(Refusal::Spawn, "a request of this process waits already")
            }
            Served::Spawn(request) => {
                let deadline = Instant::now() + PATIENCE;
                self.waiting.push((rank, request, deadline));
                return self.look(plan, processes);
            }
        };
        processes.answer(rank, answer);
        Vec::new()
    }

    /// Starts what waits and can be started.
    pub fn look(&mut self, plan: &Plan, processes: &mut RankProcesses) -> Vec<Event> {
        let mut events = Vec::new();
        for (rank, request, deadline) in std::mem::take(&mut self.waiting) {
            match self.spawn(plan, processes, rank, &request, deadline, &mut events) {
                Step::Answered(answer) => processes.answer(rank, answer),
                Step::Waits => self.waiting.push((rank, request, deadline)),
            }
        }
        events
    }

    /// The parents of a world that does not come are to find out why.
    pub fn lose(&mut self, world: u32, reason: &str) {
        self.worlds.lose(world, reason);
    }

    /// A process has ended.
    pub fn end(&mut self, rank: u32, processes: &RankProcesses) -> Vec<Event> {
        self.waiting.retain(|(asking, _, _)| *asking != rank);
        let over = |world: &World| !processes.is_any_running(&world.members);
        let abandoned = self.worlds.end(rank, over).into_iter();
        abandoned.map(|world| Event::Abandoned { world }).collect()
    }

    fn spawn(
        &mut self,
        plan: &Plan,
        processes: &mut RankProcesses,
        rank: u32,
        request: &SpawnRequest,
        deadline: Instant,
        events: &mut Vec<Event>,
    ) -> Step {
        let refuse = |reason| Step::Answered(JobAnswer::refuse(Refusal::Spawn, reason));
        let appnums = plan.appnums();
        let parent = appnums.get(rank as usize).copied().unwrap_or(0);
        let environment = &plan.programs[parent as usize].environment;
        let found: Result<Vec<Program>, String> = request
            .programs
            .iter()
            .map(|program| find(program, environment))
            .collect();
        let programs = match found {
            Ok(programs) => programs,
            Err(reason) => return refuse(reason),
        };
        let places = processes.places();
        let counts = match choose(&request.programs, places.free.len() as u32) {
            Ok(counts) => counts,
            Err(wanted) if wanted as usize <= places.free.len() + places.soon => {
                if Instant::now() < deadline {
                    return Step::Waits;
                }
                let who = match places.behind {
                    Some(rank) => format!(
                        "process {rank} of the job has not called MPI since others have ended"
                    ),
                    None => "processes that are about to end have not ended".into(),
                };
                return refuse(format!(
                    "{wanted} processes were to be started and {} can be: {who} for {} s; let all processes call \
                     MPI now and then, or give the job more room (mpiexec --universe N)",
                    places.free.len(),
                    PATIENCE.as_secs()
                ));
            }
            Err(wanted) => {
                return refuse(format!(
                    "{wanted} processes were to be started, and there is room for {} more: this job may have {} in \
                     all; give it more room (mpiexec --universe N)",
                    places.free.len(),
                    plan.universe
                ));
            }
        };
        let answer = self.start(processes, request, &programs, &counts, &places.free, events);
        Step::Answered(answer)
    }

    fn start(
        &mut self,
        processes: &mut RankProcesses,
        request: &SpawnRequest,
        programs: &[Program],
        counts: &[u32],
        free: &[u32],
        events: &mut Vec<Event>,
    ) -> JobAnswer {
        let size: u32 = counts.iter().sum();
        let taken = &free[..size as usize];
        processes.clear_places(taken);
        // On one host a process has the same number in the job and in its memory.
        let world = self.worlds.add(taken.to_vec(), request.port.clone());
        let appnums = (0..).zip(counts);
        let appnums = appnums.flat_map(|(appnum, count)| (0..*count).map(move |_| appnum));
        let mut started = Vec::new();
        for ((rank, &slot), appnum) in (0..).zip(taken).zip(appnums) {
            let numbers = RankNumbers {
                rank,
                size,
                local_rank: rank,
                local_size: size,
                appnum,
                place: Some(LaterSlot {
                    number: slot,
                    slot,
                    several_hosts: false,
                }),
            };
            let program = &programs[appnum as usize];
            match processes.start_later(numbers, slot, program) {
                Ok(new) => {
                    started.push(new.rank);
                    events.push(Event::Spawned {
                        rank: new.rank,
                        world: WorldRank { world, rank },
                        process: new.process,
                        detail: format!(": {}", program.executable.display()),
                        outputs: new.outputs,
                    });
                }
                Err(reason) => {
                    processes.end_ranks(&started);
                    events.push(Event::GivenUp { world });
                    return JobAnswer::refuse(
                        Refusal::Spawn,
                        format!("{reason}; none of the {size} processes was started"),
                    );
                }
            }
        }
        JobAnswer::Spawned {
            counts: counts.to_vec(),
            world,
        }
    }
}

/// The program of a request, found.
fn find(
    program: &SpawnProgram,
    environment: &std::collections::BTreeMap<OsString, OsString>,
) -> Result<Program, String> {
    if let Some(host) = &program.host
        && !is_here(host)
        && *host != name_of_this_host()
    {
        return Err(format!(
            "a process was to be started on host {host}, which is none of this job: it runs on {}; leave out the \
             info key host, or name that",
            name_of_this_host()
        ));
    }
    Program::started_later(program, environment).map_err(|error| error.to_string())
}

/// How many processes of each program are started if so many can be; otherwise how many are needed at least.
fn choose(programs: &[SpawnProgram], free: u32) -> Result<Vec<u32>, u32> {
    let least = |program: &SpawnProgram| program.counts.iter().copied().min().unwrap_or(0);
    let needed: u32 = programs.iter().map(least).fold(0, u32::saturating_add);
    let Some(mut spare) = free.checked_sub(needed) else {
        return Err(needed);
    };
    let count = |program: &SpawnProgram| {
        let least = least(program);
        let fitting = program.counts.iter().copied();
        let most = fitting.filter(|count| count - least <= spare).max();
        let count = most.unwrap_or(least);
        spare -= count - least;
        count
    };
    Ok(programs.iter().map(count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(counts: &[u32]) -> SpawnProgram {
        SpawnProgram {
            words: vec![b"sh".to_vec()],
            counts: counts.to_vec(),
            folder: b"/".to_vec(),
            path: None,
            host: None,
            error_handler: None,
        }
    }

    #[test]
    fn as_many_as_possible_are_chosen_and_never_more() {
        let (hard, soft) = (program(&[3]), program(&[1, 2, 5]));
        assert_eq!(choose(std::slice::from_ref(&hard), 2), Err(3));
        assert_eq!(choose(std::slice::from_ref(&hard), 3), Ok(vec![3]));
        assert_eq!(choose(std::slice::from_ref(&soft), 4), Ok(vec![2]));
        assert_eq!(choose(&[soft.clone(), hard.clone()], 8), Ok(vec![5, 3]));
        assert_eq!(choose(&[soft.clone(), hard.clone()], 5), Ok(vec![2, 3]));
        assert_eq!(choose(&[hard, soft], 3), Err(4));
        assert_eq!(
            choose(&[program(&[u32::MAX]), program(&[1])], 9),
            Err(u32::MAX)
        );
    }

    #[test]
    fn what_cannot_be_found_is_refused_with_its_reason() {
        let environment = std::collections::BTreeMap::from([("PATH".into(), "/bin".into())]);
        assert!(find(&program(&[1]), &environment).is_ok());
        let mut there = program(&[1]);
        there.host = Some("no-such-host".into());
        let error = find(&there, &environment).expect_err("not of this job");
        assert!(error.contains("no-such-host"), "{error}");
        let mut missing = program(&[1]);
        missing.words = vec![b"no-such-program".to_vec()];
        let error = find(&missing, &environment).expect_err("is not there");
        assert!(error.contains("no-such-program"), "{error}");
        let mut nowhere = program(&[1]);
        nowhere.folder = b"/no/such/folder".to_vec();
        let error = find(&nowhere, &environment).expect_err("no folder");
        assert!(error.contains("/no/such/folder"), "{error}");
        nowhere.folder = b"/".to_vec();
        nowhere.path = Some(b"/usr/bin".to_vec());
        nowhere.words = vec![b"env".to_vec()];
        let found = find(&nowhere, &environment).expect("there");
        assert_eq!(found.executable, std::path::Path::new("/usr/bin/env"));
    }
}
