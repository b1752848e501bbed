//! Placement: the hosts on which processes run that are started from within a program.
//!
//! The processes of a request are distributed evenly over the hosts that they may run on; if that leaves a choice, hosts
//! with fewer processes come first. Processes of one program that share a host are neighbours. Programs that may run on
//! few hosts choose first.

use crate::job_request::SpawnProgram;

/// A host, as far as room is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRoom {
    /// How many processes more it can have.
    pub free: u32,
    /// How many it has that are not about to end.
    pub running: u32,
}

/// Room of a host while a request is placed.
struct Room {
    free: u32,
    /// How many of the request it gets, and how many it has.
    load: (u32, u32),
}

/// One program: how many processes of it, and where they may run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Numbers that are possible; the largest that there is room for counts.
    pub counts: Vec<u32>,
    /// Hosts, by number.
    pub hosts: Vec<usize>,
}

impl Wanted {
    /// A program that may run on these hosts.
    pub fn new(program: &SpawnProgram, hosts: Vec<usize>) -> Self {
        Self {
            counts: program.counts.clone(),
            hosts,
        }
    }

    fn least(&self) -> u32 {
        self.counts.iter().copied().min().unwrap_or(0)
    }
}

/// How many processes are needed at least.
pub fn needed(programs: &[Wanted]) -> u32 {
    programs
        .iter()
        .map(Wanted::least)
        .fold(0, u32::saturating_add)
}

/// The host of each process of each program; `None` if there is no room for as many as are needed. No more than `most`
/// in all.
pub fn place(programs: &[Wanted], rooms: &[HostRoom], most: u32) -> Option<Vec<Vec<usize>>> {
    let mut left = most.checked_sub(needed(programs))?;
    let room = |room: &HostRoom| Room {
        free: room.free,
        load: (0, room.running),
    };
    let mut rooms: Vec<Room> = rooms.iter().map(room).collect();
    let mut placed = vec![Vec::new(); programs.len()];
    let mut order: Vec<usize> = (0..programs.len()).collect();
    order.sort_by_key(|index| programs[*index].hosts.len());
    for &index in &order {
        let program = &programs[index];
        placed[index] = take(&mut rooms, &program.hosts, program.least())?;
    }
    for (program, placed) in programs.iter().zip(&mut placed) {
        let free = program.hosts.iter().map(|host| rooms[*host].free);
        let free = left.min(free.fold(0, u32::saturating_add));
        let more = |count: &u32| count - program.least();
        let more = program.counts.iter().map(more);
        let more = more.filter(|more| *more <= free).max().unwrap_or(0);
        placed.extend(take(&mut rooms, &program.hosts, more)?);
        left -= more;
        placed.sort_unstable();
    }
    Some(placed)
}

/// Takes so many of what is free on these hosts.
fn take(rooms: &mut [Room], hosts: &[usize], count: u32) -> Option<Vec<usize>> {
    let free = hosts.iter().map(|host| rooms[*host].free);
    if free.fold(0, u32::saturating_add) < count {
        return None;
    }
    let mut taken = Vec::new();
    for _ in 0..count {
        let with_room = hosts.iter().filter(|host| rooms[**host].free > 0);
        let host = *with_room.min_by_key(|host| rooms[**host].load)?;
        rooms[host].free -= 1;
        rooms[host].load.0 += 1;
        taken.push(host);
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(counts: &[u32], hosts: &[usize]) -> Wanted {
        Wanted {
            counts: counts.to_vec(),
            hosts: hosts.to_vec(),
        }
    }

    fn rooms(rooms: &[(u32, u32)]) -> Vec<HostRoom> {
        let room = |&(free, running): &(u32, u32)| HostRoom { free, running };
        rooms.iter().map(room).collect()
    }

    #[test]
    fn hosts_are_filled_evenly_and_neighbours_stay_together() {
        let two = rooms(&[(8, 2), (8, 1)]);
        let placed = place(&[wanted(&[5], &[0, 1])], &two, 16);
        assert_eq!(placed, Some(vec![vec![0, 0, 1, 1, 1]]));
        let one = wanted(&[1], &[0, 1]);
        let placed = place(&[one.clone(), one], &two, 16);
        assert_eq!(placed, Some(vec![vec![1], vec![0]]), "one on each");
        assert_eq!(
            place(&[wanted(&[3], &[1])], &two, 16),
            Some(vec![vec![1, 1, 1]])
        );
        assert_eq!(place(&[wanted(&[9], &[1])], &two, 16), None, "on one host");
        assert_eq!(place(&[wanted(&[9], &[0, 1])], &two, 8), None, "in all");
        let huge = wanted(&[u32::MAX], &[0, 1]);
        assert_eq!(place(&[huge.clone(), huge], &two, u32::MAX), None);
    }

    #[test]
    fn programs_for_few_hosts_are_placed_first_and_soft_numbers_take_the_rest() {
        let two = rooms(&[(2, 0), (2, 9)]);
        let placed = place(&[wanted(&[2], &[0, 1]), wanted(&[2], &[0])], &two, 4);
        assert_eq!(placed, Some(vec![vec![1, 1], vec![0, 0]]));
        let placed = place(&[wanted(&[1, 2, 4], &[0, 1]), wanted(&[1], &[0])], &two, 4);
        assert_eq!(placed, Some(vec![vec![0, 1], vec![0]]));
        assert_eq!(needed(&[wanted(&[3, 2], &[0]), wanted(&[1], &[0])]), 3);
    }
}
