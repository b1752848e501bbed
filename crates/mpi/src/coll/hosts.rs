//! Hosts of a communicator: collectives are done within each host first, and between hosts by one rank of each.
//!
//! ```text
//!   host 0   0 1 2 3          within     0 ◄─ 1 2 3       4 ◄─ 5 6 7
//!   host 1   4 5 6 7          between    0 ◄────────────► 4              the leaders
//!                             within     0 ─► 1 2 3       4 ─► 5 6 7
//! ```
//!
//! Messages within a host go through memory; between two hosts there is one message each way, however many ranks they
//! have. The algorithms of both levels are those for ranks of one host: [`Plan::among`] counts the ranks of a level from
//! 0.
//!
//! Reductions that do not commute need the ranks of a host to be consecutive ([`Hosts::keep_order`]).

use std::sync::Arc;

use super::Members;
use super::plan::Plan;

/// What is known of where the ranks of a communicator are. The same on all ranks.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    OneHost,
    Several(Arc<Hosts>),
    /// On several hosts, perhaps; nobody has said which.
    Unknown,
}

/// The hosts of a communicator's ranks, if there are several. The same on all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// For each rank its host, numbered in the order of their lowest ranks.
    host: Box<[usize]>,
    /// For each host its ranks, ascending.
    ranks: Box<[Box<[usize]>]>,
    keep_order: bool,
    largest: usize,
}

impl Hosts {
    /// For ranks with these hosts, with any numbers; `None` if there is only one host.
    #[must_use]
    pub fn of(hosts: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut known: Vec<u32> = Vec::new();
        let mut ranks: Vec<Vec<usize>> = Vec::new();
        let mut host = Vec::new();
        for (rank, number) in hosts.into_iter().enumerate() {
            // Ranks of a host mostly follow each other.
            let place = known.iter().rposition(|one| *one == number);
            let place = place.unwrap_or_else(|| {
                known.push(number);
                ranks.push(Vec::new());
                known.len() - 1
            });
            host.push(place);
            ranks[place].push(rank);
        }
        if ranks.len() < 2 {
            return None;
        }
        Some(Self {
            keep_order: host.is_sorted(),
            largest: ranks.iter().map(Vec::len).max().unwrap_or(0),
            host: host.into(),
            ranks: ranks.into_iter().map(Vec::into_boxed_slice).collect(),
        })
    }

    /// Number of hosts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranks.len()
    }

    /// The host of a rank.
    #[must_use]
    pub fn host(&self, rank: usize) -> usize {
        self.host[rank]
    }

    /// The ranks of a host, ascending.
    #[must_use]
    pub fn ranks(&self, host: usize) -> &[usize] {
        &self.ranks[host]
    }

    /// The ranks of the host of a rank, itself among them.
    #[must_use]
    pub fn ranks_beside(&self, rank: usize) -> &[usize] {
        self.ranks(self.host(rank))
    }

    /// Number of ranks of the host with the most.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Whether the order of ranks is that of hosts, and within each that of its ranks.
    #[must_use]
    pub fn keep_order(&self) -> bool {
        self.keep_order
    }

    /// Whether all have as many ranks.
    #[must_use]
    pub fn are_even(&self) -> bool {
        self.ranks.iter().all(|ranks| ranks.len() == self.largest)
    }

    /// Where the ranks of each host begin if ranks are put down host by host, and the end.
    pub(super) fn starts(&self) -> Vec<usize> {
        let mut starts = vec![0];
        for ranks in &self.ranks {
            starts.push(starts[starts.len() - 1] + ranks.len());
        }
        starts
    }

    /// All ranks, host by host.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> {
        self.ranks.iter().flat_map(|ranks| ranks.iter().copied())
    }
}

/// The leader of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leader {
    /// Its lowest rank.
    First,
    /// Its highest rank.
    Last,
    /// This rank for its own host, the lowest one for all others.
    Root(usize),
}

/// The two levels, as one rank sees them.
#[derive(Debug)]
pub(super) struct Levels<'a> {
    /// The ranks of this host.
    pub here: Members,
    /// Number of the leader among them.
    pub leader: usize,
    /// The hosts, each as one.
    pub across: Members,
    pub hosts: &'a Hosts,
    leaders: Vec<usize>,
}

impl<'a> Levels<'a> {
    /// Those of a communicator on several hosts, some of which have several ranks: what `HostsFirst` is chosen for.
    pub fn of(members: &'a Members, leader: Leader) -> Self {
        let hosts = members.levels();
        let hosts = hosts.expect("hosts come first only where there are levels");
        let leader_of = |host: usize| {
            let ranks = hosts.ranks(host);
            match leader {
                Leader::Root(root) if hosts.host(root) == host => root,
                Leader::First | Leader::Root(_) => ranks[0],
                Leader::Last => ranks[ranks.len() - 1],
            }
        };
        let leaders: Vec<usize> = (0..hosts.count()).map(leader_of).collect();
        let host = hosts.host(members.rank);
        let ranks = hosts.ranks(host);
        let number = |rank: usize| ranks.binary_search(&rank).expect("it is on its host");
        Self {
            here: Members::some(number(members.rank), ranks.len(), members.crowded),
            leader: number(leaders[host]),
            across: Members::some(host, hosts.count(), false),
            hosts,
            leaders,
        }
    }

    /// Whether this rank is the leader of its host.
    pub fn leads(&self) -> bool {
        self.here.rank == self.leader
    }

    /// Steps within this host.
    pub fn within<R>(&self, plan: &mut Plan, write: impl FnOnce(&Members, &mut Plan) -> R) -> R {
        let ranks = self.hosts.ranks(self.across.rank);
        plan.among(ranks, |plan| write(&self.here, plan))
    }

    /// Steps between the leaders; for leaders only.
    pub fn between<R>(&self, plan: &mut Plan, write: impl FnOnce(&Members, &mut Plan) -> R) -> R {
        plan.among(&self.leaders, |plan| write(&self.across, plan))
    }

    /// Steps between the ranks that have this rank's number on their hosts, all of which have as many.
    pub fn beside<R>(&self, plan: &mut Plan, write: impl FnOnce(&Members, &mut Plan) -> R) -> R {
        let same = |host: usize| self.hosts.ranks(host)[self.here.rank];
        let ranks: Vec<usize> = (0..self.hosts.count()).map(same).collect();
        plan.among(&ranks, |plan| write(&self.across, plan))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::buffer::{Buffer, region_of};
    use crate::coll::plan::Cut;
    use crate::coll::{self, Reduction};
    use crate::datatype::Basic;
    use crate::op::{Op, Predefined};
    use crate::schedule::{Schedule, Step};

    /// Two hosts of four ranks each.
    fn of_two_hosts(build: impl Fn(&Members) -> Schedule) -> Vec<Schedule> {
        let hosts = Hosts::of((0..8).map(|rank| rank / 4)).map(Arc::new);
        let members = |rank| Members {
            hosts: hosts.clone(),
            ..Members::some(rank, 8, false)
        };
        (0..8).map(|rank| build(&members(rank))).collect()
    }

    /// Messages and signals that leave each of the two hosts, and their bytes.
    fn between(schedules: &[Schedule]) -> [(usize, usize); 2] {
        let mut left = [(0, 0); 2];
        for (rank, schedule) in schedules.iter().enumerate() {
            for step in &schedule.steps {
                let (to, bytes) = match step {
                    Step::Send { to, from } => (*to as usize, from.len()),
                    Step::Signal { to } => (*to as usize, 0),
                    _ => continue,
                };
                if to / 4 != rank / 4 {
                    left[rank / 4].0 += 1;
                    left[rank / 4].1 += bytes;
                }
            }
        }
        left
    }

    fn allreduce(count: usize) -> Vec<Schedule> {
        let mut memory = vec![0; 2 * count];
        let (send, receive) = memory.split_at_mut(count);
        let [send, receive] = [send, receive].map(|half| Buffer::untyped(region_of(half)));
        let reduction = Reduction {
            count,
            datatype: Arc::clone(Basic::Uint8.datatype()),
            op: Op::predefined(Predefined::Max),
        };
        of_two_hosts(|members| coll::allreduce(members, &send, &receive, &reduction).unwrap())
    }

    #[test]
    fn little_data_go_once_each_way() {
        let barrier = of_two_hosts(|members| coll::barrier(members).unwrap());
        assert_eq!(between(&barrier), [(1, 0); 2]);
        assert_eq!(between(&allreduce(8)), [(1, 8); 2]);
    }

    #[test]
    fn bulk_goes_as_often_as_if_each_host_were_one_rank() {
        let bytes = 1 << 20;
        for (_, left) in between(&allreduce(bytes)) {
            assert_eq!(left, bytes, "2 (h - 1) / h of the data of each host");
        }
        let mut memory = vec![0; bytes];
        let data = Buffer::untyped(region_of(&mut memory));
        let bcast = of_two_hosts(|members| coll::bcast(members, &data, 5).unwrap());
        assert_eq!(between(&bcast).map(|(_, left)| left), [0, bytes]);
    }

    #[test]
    fn one_host_is_none() {
        assert_eq!(Hosts::of([]), None);
        assert_eq!(Hosts::of([7, 7, 7]), None);
    }

    #[test]
    fn hosts_are_numbered_by_their_lowest_rank() {
        let hosts = Hosts::of([9, 9, 4, 9, 4]).unwrap();
        assert_eq!(hosts.count(), 2);
        assert_eq!(hosts.ranks(0), [0, 1, 3]);
        assert_eq!(hosts.ranks_beside(4), [2, 4]);
        assert_eq!(hosts.in_order().collect::<Vec<_>>(), [0, 1, 3, 2, 4]);
        assert_eq!((hosts.starts(), hosts.largest()), (vec![0, 3, 5], 3));
        assert!(!hosts.keep_order() && !hosts.are_even());
        let hosts = Hosts::of([1, 1, 0, 0]).unwrap();
        assert!(hosts.keep_order() && hosts.are_even());
    }

    #[test]
    fn the_root_leads_its_host() {
        let hosts = Hosts::of([0, 0, 1, 1, 1]).unwrap();
        let members = Members {
            hosts: Some(Arc::new(hosts)),
            ..Members::some(4, 5, false)
        };
        let levels = Levels::of(&members, Leader::Root(3));
        assert_eq!(
            (levels.here.rank, levels.here.size, levels.leader),
            (2, 3, 1)
        );
        assert_eq!((levels.across.rank, levels.across.size), (1, 2));
        assert_eq!(levels.leaders, [0, 3]);
        assert!(!levels.leads());
        assert!(Levels::of(&members, Leader::Last).leads());
    }
}
