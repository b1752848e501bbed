//! Later processes of an agent's host: those that a rank of the job, on any host, has asked for.

use crate::hosts::message::{Assignment, LaterProcesses, Room, encode};
use crate::job_request::{SpawnProgram, SpawnRequest};
use crate::plan::Program;
use crate::rank_processes::{LaterSlot, RankNumbers, RankProcesses, Started};

/// Longest request that goes to the head, in bytes.
const LONGEST: usize = 512 << 10;

/// Whether a request is longer than the head takes.
pub fn is_too_long(request: &SpawnRequest) -> bool {
    encode(request).len() > LONGEST
}

/// Number of free process slots. Free slots stay free until something is started in them: they are cleared here.
pub fn room(ranks: &mut RankProcesses) -> Room {
    let places = ranks.places();
    let mut free = places.free;
    free.sort_unstable();
    ranks.clear_places(&free);
    Room {
        free,
        soon: places.soon as u32,
        behind: places.behind,
    }
}

/// Common data of the processes that are started later on this host.
#[derive(Debug)]
pub struct LaterStart {
    /// The programs of the job, whose environment they have.
    programs: Vec<Program>,
    own: Option<Program>,
    room: u32,
}

impl LaterStart {
    /// For the host that has this assignment, and a program of its own if not that of the head.
    pub fn new(assignment: &Assignment, own: Option<Program>) -> Self {
        let programs = assignment.programs.iter().cloned();
        Self {
            programs: programs.map(Program::from).collect(),
            own,
            room: assignment.room,
        }
    }

    /// Whether processes may be started later.
    pub fn is_possible(&self) -> bool {
        self.room > 0
    }

    fn find(&self, program: &SpawnProgram, parent: u32) -> Result<Program, String> {
        let like = self.own.as_ref().or(self.programs.get(parent as usize));
        let like = like.ok_or("no program of the job is known here")?;
        let found = Program::started_later(program, &like.environment);
        found.map_err(|error| error.to_string())
    }

    /// Starts processes; answers those that were, and why not all were. None is if a program is not there.
    pub fn start(
        &self,
        ranks: &mut RankProcesses,
        later: &LaterProcesses,
    ) -> (Vec<Started>, Option<String>) {
        let find = |program| self.find(program, later.parent);
        let programs: Result<Vec<_>, _> = later.programs.iter().map(find).collect();
        let programs = match programs {
            Ok(programs) => programs,
            Err(reason) => return (Vec::new(), Some(reason)),
        };
        let mut slots: Vec<u32> = later.processes.iter().map(|one| one.slot).collect();
        slots.sort_unstable();
        let free = room(ranks).free;
        if !slots.iter().all(|slot| free.contains(slot)) {
            let reason = "the head gives places that are taken; all hosts must have the same release of Weft";
            return (Vec::new(), Some(reason.into()));
        }
        let mut started = Vec::new();
        let mut processes = later.processes.clone();
        processes.sort_unstable_by_key(|one| one.slot);
        let local_size = processes.len() as u32;
        for process in processes {
            let before = later.processes.iter().filter(|one| one.rank < process.rank);
            let numbers = RankNumbers {
                rank: process.rank,
                size: later.size,
                local_rank: before.count() as u32,
                local_size,
                appnum: process.appnum,
                place: Some(LaterSlot {
                    number: process.number,
                    slot: process.slot,
                    several_hosts: true,
                }),
            };
            let new = match programs.get(process.appnum as usize) {
                Some(program) => ranks
                    .start_later(numbers, process.slot, program)
                    .map_err(|error| error.to_string()),
                None => Err("the head names a program that it has not told of".into()),
            };
            match new {
                Ok(new) => started.push(new),
                Err(reason) => return (started, Some(reason)),
            }
        }
        (started, None)
    }
}
