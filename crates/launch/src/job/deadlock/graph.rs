//! Wait-for graph of ranks none of which can go on: which waits for which, and the part of it that explains the rest.
//!
//! A rank waits for *all* of the ranks of a step that needs them all (a collective), or for *any* of them (a receive from
//! any source). All are stuck, so every path through the graph leads into a cycle: if ranks wait for one each, the cycle
//! is the reason; if a rank waits for any of several, the reason is the *knot*, everything that can be reached from
//! there.

use std::collections::{BTreeMap, BTreeSet};

use weft_mpi::waits::{Operation, RankWaits, WindowStep};

/// Why nobody can go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Core {
    /// Each waits for the next, and the last one for the first. One rank alone waits for itself.
    Cycle(Vec<u32>),
    /// Each waits for others among them, some for any of several.
    Knot(Vec<u32>),
    /// The first waits for the second, which is not among those who wait: it has finalised, or ended.
    Gone(u32, u32),
}

/// Of whom a rank needs at least one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Needs {
    ranks: Vec<u32>,
    /// Any of them is enough.
    any: bool,
}

/// The operation that tells most about why a rank waits: of those that it waits for, the first.
pub fn first_operation(waits: &RankWaits) -> Option<&Operation> {
    let mut operations = waits.waits.iter().flat_map(|wait| &wait.operations);
    operations.next()
}

/// The numbers of the members of a communicator, as this rank tells them.
pub fn members_of(waits: &RankWaits, context: u32) -> Option<&[u32]> {
    let mut named = waits.communicators.iter();
    let found = named.find(|one| one.context & !1 == context & !1)?;
    Some(&found.members)
        .filter(|members| !members.is_empty())
        .map(Vec::as_slice)
}

/// The other ranks that have a lock of these members at the window of this context.
pub fn holders(
    ranks: &BTreeMap<u32, RankWaits>,
    waiting: u32,
    (context, of): (u32, &[u32]),
) -> Vec<u32> {
    let has = |waits: &RankWaits| {
        let mut locks = waits.locks.iter();
        locks.any(|lock| lock.context == context && of.contains(&lock.of))
    };
    let others = ranks.iter().filter(|(rank, _)| **rank != waiting);
    others
        .filter(|(_, waits)| has(waits))
        .map(|(rank, _)| *rank)
        .collect()
}

fn needs_of(
    (rank, waits): (u32, &RankWaits),
    ranks: &BTreeMap<u32, RankWaits>,
    all: &BTreeSet<u32>,
) -> Needs {
    let any_of = |members: Option<&[u32]>| {
        let members = members.map_or_else(|| all.iter().copied().collect(), <[u32]>::to_vec);
        Needs {
            ranks: members.into_iter().filter(|one| *one != rank).collect(),
            any: true,
        }
    };
    let all_of = |ranks: &[u32]| Needs {
        ranks: ranks.to_vec(),
        any: false,
    };
    match first_operation(waits) {
        None => Needs::default(),
        Some(operation) => match operation {
            Operation::Message {
                from: Some(from), ..
            }
            | Operation::Data {
                from: Some(from), ..
            } => all_of(&[*from]),
            Operation::Receive { by, .. } => all_of(&[*by]),
            Operation::Collective { missing, .. } => all_of(missing),
            Operation::Window {
                context,
                step,
                peers,
            } => {
                let awaited = match step {
                    WindowStep::Lock => holders(ranks, rank, (*context, peers)),
                    _ => peers.clone(),
                };
                match awaited.is_empty() {
                    true => any_of(members_of(waits, *context)),
                    false => all_of(&awaited),
                }
            }
            Operation::Message { context, .. } | Operation::Data { context, .. } => {
                any_of(members_of(waits, *context))
            }
            Operation::Service { ranks, .. } if !ranks.is_empty() => all_of(ranks),
            Operation::Service { .. }
            | Operation::Leaving
            | Operation::Other(_)
            | Operation::Outside(_) => any_of(None),
        },
    }
}

/// What explains that none of these ranks can go on.
pub fn core(ranks: &BTreeMap<u32, RankWaits>) -> Option<Core> {
    let all: BTreeSet<u32> = ranks.keys().copied().collect();
    let needs: BTreeMap<u32, Needs> = ranks
        .iter()
        .map(|(rank, waits)| (*rank, needs_of((*rank, waits), ranks, &all)))
        .collect();
    // A rank that waits for one that is gone needs no further reason.
    for (rank, needs) in &needs {
        let gone = |other: &&u32| !all.contains(other);
        if !needs.any
            && let Some(gone) = needs.ranks.iter().find(gone)
        {
            return Some(Core::Gone(*rank, *gone));
        }
    }
    let cycles = all.iter().filter_map(|start| cycle_from(*start, &needs));
    if let Some(shortest) = cycles.min_by_key(Vec::len) {
        return Some(Core::Cycle(shortest));
    }
    let knots = all.iter().map(|start| reached(*start, &needs));
    let smallest = knots
        .filter(|knot| !knot.is_empty())
        .min_by_key(BTreeSet::len)?;
    Some(Core::Knot(smallest.into_iter().collect()))
}

/// The shortest way from a rank back to itself, through ranks none of which waits for any of several.
fn cycle_from(start: u32, needs: &BTreeMap<u32, Needs>) -> Option<Vec<u32>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().copied()?;
            let Some(needs) = needs
                .get(&last)
                .filter(|needs| !needs.any || needs.ranks.len() == 1)
            else {
                continue;
            };
            for next in &needs.ranks {
                if *next == start {
                    return Some(way);
                }
                if seen.insert(*next) {
                    let mut way = way.clone();
                    way.push(*next);
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// All that a rank waits for, those that these wait for, and so on, with itself.
fn reached(start: u32, needs: &BTreeMap<u32, Needs>) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([start]);
    let mut left = vec![start];
    while let Some(rank) = left.pop() {
        let next = needs.get(&rank).map(|needs| needs.ranks.as_slice());
        for next in next.unwrap_or_default() {
            if needs.contains_key(next) && found.insert(*next) {
                left.push(*next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_mpi::waits::Wait;

    fn waits(operation: Operation) -> RankWaits {
        RankWaits {
            waits: vec![Wait {
                operations: vec![operation],
                ..Wait::default()
            }],
            ..RankWaits::default()
        }
    }

    fn from(rank: Option<u32>) -> RankWaits {
        waits(Operation::Message {
            from: rank,
            tag: None,
            context: 0,
            room: None,
        })
    }

    fn collective(missing: &[u32]) -> RankWaits {
        waits(Operation::Collective {
            name: "MPI_Bcast".into(),
            context: 0,
            missing: missing.to_vec(),
        })
    }

    fn of(ranks: Vec<RankWaits>) -> Option<Core> {
        core(&(0..).zip(ranks).collect())
    }

    #[test]
    fn the_shortest_cycle_is_found() {
        let both = vec![from(Some(1)), from(Some(0)), from(Some(0))];
        assert_eq!(of(both), Some(Core::Cycle(vec![0, 1])));
        let ring = vec![from(Some(1)), from(Some(2)), from(Some(3)), from(Some(1))];
        assert_eq!(of(ring), Some(Core::Cycle(vec![1, 2, 3])));
        assert_eq!(of(vec![from(Some(0))]), Some(Core::Cycle(vec![0])));
        let collective = vec![collective(&[2, 1]), collective(&[2]), from(Some(0))];
        assert_eq!(of(collective), Some(Core::Cycle(vec![0, 2])));
    }

    #[test]
    fn ranks_that_wait_for_any_of_several_make_a_knot() {
        let any = vec![from(None), from(Some(0)), from(Some(0))];
        assert_eq!(of(any), Some(Core::Knot(vec![0, 1, 2])));
        // A cycle beside it says more.
        let any = vec![from(None), from(Some(2)), from(Some(1))];
        assert_eq!(of(any), Some(Core::Cycle(vec![1, 2])));
        // One other: as good as one.
        let any = vec![from(None), from(Some(0))];
        assert_eq!(of(any), Some(Core::Cycle(vec![0, 1])));
    }

    #[test]
    fn a_rank_that_is_gone_is_the_reason() {
        let gone = vec![from(Some(1)), from(Some(7))];
        assert_eq!(of(gone), Some(Core::Gone(1, 7)));
    }
}
