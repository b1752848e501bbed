//! Each collective over two groups of several sizes, against a naive result. The interpreter numbers
//! all ranks alike: those of the first side, then those of the second.
#![allow(unsafe_code)]

use super::*;
use crate::coll::Reduction;
use crate::coll::choice::BULK;
use crate::coll::interpreter::{Dice, run};
use crate::coll::tests::reducing::{compose, user};
use crate::coll::tests::{Arrangement, Memory, Setting, elements};
use crate::schedule::{Schedule, Step};

/// Sizes of the two sides.
const PAIRS: [(usize, usize); 8] = [
    (1, 1),
    (1, 2),
    (3, 1),
    (2, 3),
    (4, 4),
    (5, 9),
    (12, 3),
    (1, 17),
];

#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: (usize, usize),
    setting: Setting,
}

/// A process: its side, 0 or 1, and its rank there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Who {
    side: usize,
    rank: usize,
}

impl Case {
    fn size(&self, side: usize) -> usize {
        [self.sizes.0, self.sizes.1][side]
    }

    fn sides(&self, who: Who) -> Sides {
        Sides {
            rank: who.rank,
            size: self.size(who.side),
            remote: self.size(1 - who.side),
            crowded: self.setting.crowded,
            is_first: who.side == 0,
        }
    }

    fn everybody(&self) -> Vec<Who> {
        let of = |side: usize| (0..self.size(side)).map(move |rank| Who { side, rank });
        of(0).chain(of(1)).collect()
    }

    /// Numbers of this process's schedule as those of the interpreter.
    fn number(&self, who: Who, rank: u32) -> u32 {
        let (local, remote) = (self.size(who.side) as u32, self.size(1 - who.side) as u32);
        match who.side {
            0 => rank,
            _ if rank < local => remote + rank,
            _ => rank - local,
        }
    }

    fn execute(&self, what: &str, mut build: impl FnMut(Who) -> Result<Schedule>) {
        let schedules = self.everybody().into_iter().map(|who| {
            let mut schedule =
                build(who).unwrap_or_else(|error| panic!("{what} {self:?}: {error}"));
            for step in &mut schedule.steps {
                match step {
                    Step::Send { to: rank, .. }
                    | Step::Signal { to: rank }
                    | Step::Receive { from: rank, .. }
                    | Step::Await { from: rank } => *rank = self.number(who, *rank),
                    _ => {}
                }
            }
            schedule
        });
        let mut dice = Dice(0xfeed_beef_1234_0001 + self.sizes.0 as u64);
        let schedules = schedules.collect();
        run(schedules, &mut dice).unwrap_or_else(|error| panic!("{what} {self:?}: {error}"));
    }

    /// What a process gives: no two give the same.
    fn given(who: Who, count: usize) -> Vec<u8> {
        elements(who.side * 100 + who.rank, 0..count)
    }

    /// How a process takes part when that one is the root.
    fn root(who: Who, root: Who) -> Root {
        match () {
            () if who == root => Root::ThisRank,
            () if who.side == root.side => Root::ProcNull,
            () => Root::Rank(root.rank),
        }
    }

    /// Memory of each process, in the interpreter's order.
    fn memory(&self, make: impl Fn(Who) -> Memory) -> Vec<Memory> {
        self.everybody().into_iter().map(make).collect()
    }

    fn index(&self, who: Who) -> usize {
        who.side * self.sizes.0 + who.rank
    }
}

fn cases(counts: &[usize]) -> Vec<Case> {
    let mut cases = Vec::new();
    for sizes in PAIRS {
        for &count in counts {
            for bits in 0..4 {
                let setting = Setting {
                    size: sizes.0 + sizes.1,
                    crowded: bits & 1 == 1,
                    in_place: false,
                    gaps: bits & 2 == 2,
                    count,
                    hosts: Arrangement::OneHost,
                };
                let slow = count > 1000 && (sizes.0 + sizes.1 > 8 || setting.gaps);
                if !(slow || cfg!(miri) && sizes.0 + sizes.1 > 4) {
                    cases.push(Case { sizes, setting });
                }
            }
        }
    }
    cases
}

const COUNTS: [usize; 4] = [0, 1, 5, BULK / 8 + 3];

#[test]
fn barrier_ends() {
    for case in cases(&[0]) {
        case.execute("barrier", |who| barrier(&case.sides(who)));
    }
}

#[test]
fn bcast_reaches_the_other_side_only() {
    for case in cases(&COUNTS) {
        let count = case.setting.count;
        for root in case.everybody() {
            let data = Case::given(root, count);
            let mut memory = case.memory(|who| match who == root {
                true => Memory::holding(&case.setting, &data),
                false => Memory::new(&case.setting, count),
            });
            case.execute("bcast", |who| {
                let buffer = memory[case.index(who)].buffer(count);
                bcast(&case.sides(who), Some(&buffer), Case::root(who, root))
            });
            for who in case.everybody() {
                let got = memory[case.index(who)].data() == data;
                let expected = who == root || who.side != root.side || count == 0;
                assert_eq!(got, expected, "{case:?} {who:?}");
            }
        }
    }
}

#[test]
fn gather_and_scatter_are_between_a_root_and_the_other_side() {
    for case in cases(&COUNTS[..3]) {
        let count = case.setting.count;
        for root in case.everybody() {
            let others = case.size(1 - root.side);
            let other = |rank: usize| Who {
                side: 1 - root.side,
                rank,
            };
            let all: Vec<u8> = (0..others)
                .flat_map(|rank| Case::given(other(rank), count))
                .collect();
            let mut memory = case.memory(|who| match who == root {
                true => Memory::new(&case.setting, count * others),
                false => Memory::holding(&case.setting, &Case::given(who, count)),
            });
            case.execute("gather", |who| {
                let (sides, role) = (case.sides(who), Case::root(who, root));
                let own = &mut memory[case.index(who)];
                match role {
                    Root::ThisRank => {
                        let blocks = own.even(count, others);
                        gather("MPI_Gather", &sides, None, Some(&blocks), role)
                    }
                    _ => gather("MPI_Gather", &sides, Some(&own.buffer(count)), None, role),
                }
            });
            assert!(memory[case.index(root)].data() == all, "{case:?} {root:?}");
            let mut memory = case.memory(|who| match who == root {
                true => Memory::holding(&case.setting, &all),
                false => Memory::new(&case.setting, count),
            });
            case.execute("scatter", |who| {
                let (sides, role) = (case.sides(who), Case::root(who, root));
                let own = &mut memory[case.index(who)];
                match role {
                    Root::ThisRank => {
                        let blocks = own.even(count, others);
                        scatter("MPI_Scatter", &sides, Some(&blocks), None, role)
                    }
                    _ => scatter("MPI_Scatter", &sides, None, Some(&own.buffer(count)), role),
                }
            });
            for who in (0..others).map(other) {
                let got = memory[case.index(who)].data();
                assert!(got == Case::given(who, count), "{case:?} {who:?}");
            }
        }
    }
}

#[test]
fn everybody_gets_the_blocks_of_the_other_side() {
    for case in cases(&COUNTS) {
        let count = case.setting.count;
        // The blocks of a process: as many elements as its rank says, so that all are different.
        let length = |who: Who, even: bool| match even {
            true => count,
            false => (count + who.rank) % (count + 2),
        };
        for even in [true, false] {
            let theirs = |who: Who| -> Vec<Who> {
                let side = 1 - who.side;
                (0..case.size(side))
                    .map(|rank| Who { side, rank })
                    .collect()
            };
            let expected = |who: Who| -> Vec<u8> {
                let blocks = theirs(who).into_iter();
                blocks
                    .flat_map(|other| Case::given(other, length(other, even)))
                    .collect()
            };
            let mut out = case
                .memory(|who| Memory::holding(&case.setting, &Case::given(who, length(who, even))));
            let mut into = case.memory(|who| Memory::new(&case.setting, expected(who).len() / 8));
            case.execute("allgather", |who| {
                let lengths: Vec<usize> = theirs(who)
                    .into_iter()
                    .map(|other| length(other, even))
                    .collect();
                let index = case.index(who);
                let send = out[index].buffer(length(who, even));
                let receive = match even {
                    true => into[index].even(count, lengths.len()),
                    false => into[index].listed(&lengths),
                };
                allgather("MPI_Allgather", &case.sides(who), &send, &receive)
            });
            for who in case.everybody() {
                assert!(
                    into[case.index(who)].data() == expected(who),
                    "{case:?} {who:?}"
                );
            }
        }
    }
}

#[test]
fn alltoall_takes_each_block_to_its_rank() {
    for case in cases(&COUNTS[..3]) {
        let count = case.setting.count;
        // Block of one process for another.
        let block = |from: Who, to: Who| -> Vec<u8> {
            elements(from.side * 1000 + from.rank * 40 + to.rank, 0..count)
        };
        let others = |who: Who| {
            let side = 1 - who.side;
            (0..case.size(side)).map(move |rank| Who { side, rank })
        };
        let mut out = case.memory(|who| {
            let data: Vec<u8> = others(who).flat_map(|other| block(who, other)).collect();
            Memory::holding(&case.setting, &data)
        });
        let mut into = case.memory(|who| Memory::new(&case.setting, others(who).count() * count));
        case.execute("alltoall", |who| {
            let (index, ranks) = (case.index(who), others(who).count());
            let send = out[index].even(count, ranks);
            let receive = into[index].even(count, ranks);
            alltoall("MPI_Alltoall", &case.sides(who), &send, &receive)
        });
        for who in case.everybody() {
            let expected: Vec<u8> = others(who).flat_map(|other| block(other, who)).collect();
            assert!(into[case.index(who)].data() == expected, "{case:?} {who:?}");
        }
    }
}

/// What a side gives, combined in the order of its ranks.
fn folded(case: &Case, side: usize, count: usize) -> Vec<u8> {
    let data = |rank: usize| Case::given(Who { side, rank }, count);
    (1..case.size(side)).fold(data(0), |result, rank| compose(&result, &data(rank)))
}

fn reduction(case: &Case, count: usize) -> Reduction {
    Reduction {
        count,
        datatype: case.setting.datatype(),
        op: user(false),
    }
}

#[test]
fn reductions_change_sides_and_keep_the_order() {
    for case in cases(&COUNTS) {
        let count = case.setting.count;
        let given = || case.memory(|who| Memory::holding(&case.setting, &Case::given(who, count)));
        let room = || case.memory(|_| Memory::new(&case.setting, count));
        for root in case.everybody() {
            let (mut out, mut into) = (given(), room());
            case.execute("reduce", |who| {
                let index = case.index(who);
                reduce(
                    &case.sides(who),
                    Some(&out[index].buffer(count)),
                    Some(&into[index].buffer(count)),
                    &reduction(&case, count),
                    Case::root(who, root),
                )
            });
            let got = into[case.index(root)].data();
            assert!(
                got == folded(&case, 1 - root.side, count),
                "{case:?} {root:?}"
            );
        }
        let (mut out, mut into) = (given(), room());
        case.execute("allreduce", |who| {
            let index = case.index(who);
            let (send, receive) = (out[index].buffer(count), into[index].buffer(count));
            allreduce(&case.sides(who), &send, &receive, &reduction(&case, count))
        });
        for who in case.everybody() {
            let got = into[case.index(who)].data();
            assert!(
                got == folded(&case, 1 - who.side, count),
                "{case:?} {who:?}"
            );
        }
    }
}

#[test]
fn reduce_scatter_deals_the_result_of_the_other_side() {
    for case in cases(&COUNTS[..3]) {
        // As many elements for both sides: a multiple of both sizes.
        let total = case.setting.count * case.sizes.0 * case.sizes.1;
        let counts = |side: usize| -> Vec<usize> {
            let (size, even) = (case.size(side), total / case.size(side));
            let mut counts = vec![even; size];
            if size > 1 {
                (counts[0], counts[1]) = (0, 2 * even);
            }
            counts
        };
        let mut out = case.memory(|who| Memory::holding(&case.setting, &Case::given(who, total)));
        let mut into = case.memory(|who| Memory::new(&case.setting, counts(who.side)[who.rank]));
        case.execute("reduce_scatter", |who| {
            let (index, counts) = (case.index(who), counts(who.side));
            let send = out[index].buffer(total);
            let receive = into[index].buffer(counts[who.rank]);
            let (sides, reduction) = (case.sides(who), reduction(&case, total));
            reduce_scatter(
                "MPI_Reduce_scatter",
                &sides,
                &send,
                &receive,
                &counts,
                &reduction,
            )
        });
        for who in case.everybody() {
            let (counts, all) = (counts(who.side), folded(&case, 1 - who.side, total));
            let start: usize = counts[..who.rank].iter().sum();
            let expected = &all[start * 8..(start + counts[who.rank]) * 8];
            assert!(into[case.index(who)].data() == expected, "{case:?} {who:?}");
        }
    }
}

#[test]
fn a_root_that_is_no_remote_rank_is_refused() {
    let sides = Sides {
        rank: 0,
        size: 4,
        remote: 2,
        crowded: false,
        is_first: true,
    };
    let class = bcast(&sides, None, Root::Rank(2)).unwrap_err().class();
    assert_eq!(class, ErrorClass::Root);
    let class = bcast(&sides, None, Root::ThisRank).unwrap_err().class();
    assert_eq!(class, ErrorClass::Buffer);
    assert!(
        bcast(&sides, None, Root::ProcNull)
            .unwrap()
            .steps
            .is_empty()
    );
}
