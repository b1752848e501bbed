//! Each collective over two groups of several sizes, against a naive result. The interpreter numbers
//! all ranks alike: those of the first side, then those of the second.
#![allow(unsafe_code)]

use super::*;
use crate::coll::Reduction;
use crate::coll::choice::BULK;
use crate::coll::interpreter::{Random, run};
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
struct Member {
    side: usize,
    rank: usize,
}

impl Case {
    fn size(&self, side: usize) -> usize {
        [self.sizes.0, self.sizes.1][side]
    }

    fn sides(&self, member: Member) -> Sides {
        Sides {
            rank: member.rank,
            size: self.size(member.side),
            remote: self.size(1 - member.side),
            crowded: self.setting.crowded,
            is_first: member.side == 0,
        }
    }

    fn everybody(&self) -> Vec<Member> {
        let of = |side: usize| (0..self.size(side)).map(move |rank| Member { side, rank });
        of(0).chain(of(1)).collect()
    }

    /// Numbers of this process's schedule as those of the interpreter.
    fn number(&self, member: Member, rank: u32) -> u32 {
        let (local, remote) = (
            self.size(member.side) as u32,
            self.size(1 - member.side) as u32,
        );
        match member.side {
            0 => rank,
            _ if rank < local => remote + rank,
            _ => rank - local,
        }
    }

    fn execute(&self, what: &str, mut build: impl FnMut(Member) -> Result<Schedule>) {
        let schedules = self.everybody().into_iter().map(|member| {
            let mut schedule =
                build(member).unwrap_or_else(|error| panic!("{what} {self:?}: {error}"));
            for step in &mut schedule.steps {
                match step {
                    Step::Send { to: rank, .. }
                    | Step::Signal { to: rank }
                    | Step::Receive { from: rank, .. }
                    | Step::Await { from: rank } => *rank = self.number(member, *rank),
                    _ => {}
                }
            }
            schedule
        });
        let mut random = Random(0xfeed_beef_1234_0001 + self.sizes.0 as u64);
        let schedules = schedules.collect();
        run(schedules, &mut random).unwrap_or_else(|error| panic!("{what} {self:?}: {error}"));
    }

    /// What a process gives: no two give the same.
    fn given(member: Member, count: usize) -> Vec<u8> {
        elements(member.side * 100 + member.rank, 0..count)
    }

    /// How a process takes part when that one is the root.
    fn root(member: Member, root: Member) -> Root {
        match () {
            () if member == root => Root::ThisRank,
            () if member.side == root.side => Root::ProcNull,
            () => Root::Rank(root.rank),
        }
    }

    /// Memory of each process, in the interpreter's order.
    fn memory(&self, make: impl Fn(Member) -> Memory) -> Vec<Memory> {
        self.everybody().into_iter().map(make).collect()
    }

    fn index(&self, member: Member) -> usize {
        member.side * self.sizes.0 + member.rank
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
        case.execute("barrier", |member| barrier(&case.sides(member)));
    }
}

#[test]
fn bcast_reaches_the_other_side_only() {
    for case in cases(&COUNTS) {
        let count = case.setting.count;
        for root in case.everybody() {
            let data = Case::given(root, count);
            let mut memory = case.memory(|member| match member == root {
                true => Memory::holding(&case.setting, &data),
                false => Memory::new(&case.setting, count),
            });
            case.execute("bcast", |member| {
                let buffer = memory[case.index(member)].buffer(count);
                bcast(&case.sides(member), Some(&buffer), Case::root(member, root))
            });
            for member in case.everybody() {
                let got = memory[case.index(member)].data() == data;
                let expected = member == root || member.side != root.side || count == 0;
                assert_eq!(got, expected, "{case:?} {member:?}");
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
            let other = |rank: usize| Member {
                side: 1 - root.side,
                rank,
            };
            let all: Vec<u8> = (0..others)
                .flat_map(|rank| Case::given(other(rank), count))
                .collect();
            let mut memory = case.memory(|member| match member == root {
                true => Memory::new(&case.setting, count * others),
                false => Memory::holding(&case.setting, &Case::given(member, count)),
            });
            case.execute("gather", |member| {
                let (sides, role) = (case.sides(member), Case::root(member, root));
                let own = &mut memory[case.index(member)];
                match role {
                    Root::ThisRank => {
                        let blocks = own.even(count, others);
                        gather("MPI_Gather", &sides, None, Some(&blocks), role)
                    }
                    _ => gather("MPI_Gather", &sides, Some(&own.buffer(count)), None, role),
                }
            });
            assert!(memory[case.index(root)].data() == all, "{case:?} {root:?}");
            let mut memory = case.memory(|member| match member == root {
                true => Memory::holding(&case.setting, &all),
                false => Memory::new(&case.setting, count),
            });
            case.execute("scatter", |member| {
                let (sides, role) = (case.sides(member), Case::root(member, root));
                let own = &mut memory[case.index(member)];
                match role {
                    Root::ThisRank => {
                        let blocks = own.even(count, others);
                        scatter("MPI_Scatter", &sides, Some(&blocks), None, role)
                    }
                    _ => scatter("MPI_Scatter", &sides, None, Some(&own.buffer(count)), role),
                }
            });
            for member in (0..others).map(other) {
                let got = memory[case.index(member)].data();
                assert!(got == Case::given(member, count), "{case:?} {member:?}");
            }
        }
    }
}

#[test]
fn everybody_gets_the_blocks_of_the_other_side() {
    for case in cases(&COUNTS) {
        let count = case.setting.count;
        // The blocks of a process: as many elements as its rank says, so that all are different.
        let length = |member: Member, even: bool| match even {
            true => count,
            false => (count + member.rank) % (count + 2),
        };
        for even in [true, false] {
            let theirs = |member: Member| -> Vec<Member> {
                let side = 1 - member.side;
                (0..case.size(side))
                    .map(|rank| Member { side, rank })
                    .collect()
            };
            let expected = |member: Member| -> Vec<u8> {
                let blocks = theirs(member).into_iter();
                blocks
                    .flat_map(|other| Case::given(other, length(other, even)))
                    .collect()
            };
            let mut out = case.memory(|member| {
                Memory::holding(&case.setting, &Case::given(member, length(member, even)))
            });
            let mut into =
                case.memory(|member| Memory::new(&case.setting, expected(member).len() / 8));
            case.execute("allgather", |member| {
                let lengths: Vec<usize> = theirs(member)
                    .into_iter()
                    .map(|other| length(other, even))
                    .collect();
                let index = case.index(member);
                let send = out[index].buffer(length(member, even));
                let receive = match even {
                    true => into[index].even(count, lengths.len()),
                    false => into[index].listed(&lengths),
                };
                allgather("MPI_Allgather", &case.sides(member), &send, &receive)
            });
            for member in case.everybody() {
                assert!(
                    into[case.index(member)].data() == expected(member),
                    "{case:?} {member:?}"
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
        let block = |from: Member, to: Member| -> Vec<u8> {
            elements(from.side * 1000 + from.rank * 40 + to.rank, 0..count)
        };
        let others = |member: Member| {
            let side = 1 - member.side;
            (0..case.size(side)).map(move |rank| Member { side, rank })
        };
        let mut out = case.memory(|member| {
            let data: Vec<u8> = others(member)
                .flat_map(|other| block(member, other))
                .collect();
            Memory::holding(&case.setting, &data)
        });
        let mut into =
            case.memory(|member| Memory::new(&case.setting, others(member).count() * count));
        case.execute("alltoall", |member| {
            let (index, ranks) = (case.index(member), others(member).count());
            let send = out[index].even(count, ranks);
            let receive = into[index].even(count, ranks);
            alltoall("MPI_Alltoall", &case.sides(member), &send, &receive)
        });
        for member in case.everybody() {
            let expected: Vec<u8> = others(member)
                .flat_map(|other| block(other, member))
                .collect();
            assert!(
                into[case.index(member)].data() == expected,
                "{case:?} {member:?}"
            );
        }
    }
}

/// What a side gives, combined in the order of its ranks.
fn folded(case: &Case, side: usize, count: usize) -> Vec<u8> {
    let data = |rank: usize| Case::given(Member { side, rank }, count);
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
        let given =
            || case.memory(|member| Memory::holding(&case.setting, &Case::given(member, count)));
        let room = || case.memory(|_| Memory::new(&case.setting, count));
        for root in case.everybody() {
            let (mut out, mut into) = (given(), room());
            case.execute("reduce", |member| {
                let index = case.index(member);
                reduce(
                    &case.sides(member),
                    Some(&out[index].buffer(count)),
                    Some(&into[index].buffer(count)),
                    &reduction(&case, count),
                    Case::root(member, root),
                )
            });
            let got = into[case.index(root)].data();
            assert!(
                got == folded(&case, 1 - root.side, count),
                "{case:?} {root:?}"
            );
        }
        let (mut out, mut into) = (given(), room());
        case.execute("allreduce", |member| {
            let index = case.index(member);
            let (send, receive) = (out[index].buffer(count), into[index].buffer(count));
            allreduce(
                &case.sides(member),
                &send,
                &receive,
                &reduction(&case, count),
            )
        });
        for member in case.everybody() {
            let got = into[case.index(member)].data();
            assert!(
                got == folded(&case, 1 - member.side, count),
                "{case:?} {member:?}"
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
        let mut out =
            case.memory(|member| Memory::holding(&case.setting, &Case::given(member, total)));
        let mut into =
            case.memory(|member| Memory::new(&case.setting, counts(member.side)[member.rank]));
        case.execute("reduce_scatter", |member| {
            let (index, counts) = (case.index(member), counts(member.side));
            let send = out[index].buffer(total);
            let receive = into[index].buffer(counts[member.rank]);
            let (sides, reduction) = (case.sides(member), reduction(&case, total));
            reduce_scatter(
                "MPI_Reduce_scatter",
                &sides,
                &send,
                &receive,
                &counts,
                &reduction,
            )
        });
        for member in case.everybody() {
            let (counts, all) = (counts(member.side), folded(&case, 1 - member.side, total));
            let start: usize = counts[..member.rank].iter().sum();
            let expected = &all[start * 8..(start + counts[member.rank]) * 8];
            assert!(
                into[case.index(member)].data() == expected,
                "{case:?} {member:?}"
            );
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
