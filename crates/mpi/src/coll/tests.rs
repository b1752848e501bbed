//! Every collective against a naive result: all sizes of communicators up to 17 and some more, all
//! roots, counts around the thresholds, crowded or not, in place or not, with gaps or without.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::choice::BULK;
use super::interpreter::{Dice, run};
use super::*;
use crate::buffer::Buffer;
use crate::datatype::{Basic, Datatype, Recipe};
use crate::op::{Op, Predefined};
use crate::schedule::Schedule;

/// What varies beside the collective itself.
#[derive(Clone, Copy, Debug)]
struct Setting {
    size: usize,
    crowded: bool,
    in_place: bool,
    gaps: bool,
    /// Elements of 8 bytes for each rank.
    count: usize,
}

impl Setting {
    fn members(&self, rank: usize) -> Members {
        Members {
            rank,
            size: self.size,
            crowded: self.crowded,
        }
    }

    /// Two 32-bit numbers; with gaps around, and the second one first, if wanted.
    fn datatype(&self) -> Arc<Datatype> {
        let number = Basic::Uint32.datatype();
        if !self.gaps {
            return Datatype::contiguous(2, number).unwrap();
        }
        let recipe = Recipe::Hindexed {
            blocks: [1, 1].into(),
            displacements: [9, 2].into(),
            of: Arc::clone(number),
        };
        Datatype::resized(0, 15, &Datatype::build(recipe, false).unwrap()).unwrap()
    }
}

fn settings(counts: &[usize]) -> Vec<Setting> {
    let sizes: Vec<usize> = match cfg!(miri) {
        true => vec![1, 3],
        false => (1..=17).chain([37, 70]).collect(),
    };
    let mut all = Vec::new();
    for size in sizes {
        for &count in counts {
            // The large ones are slow, and have fewer ways to go wrong.
            let slow = count * size > 3000 || size > 17;
            let large = count * size > 60_000;
            if large && ![3, 8, 9, 13, 37].contains(&size) || cfg!(miri) && count > 3 {
                continue;
            }
            for bits in 0..8 {
                let flag = |bit: usize| bits >> bit & 1 == 1;
                let (crowded, in_place, gaps) = (flag(0), flag(1), flag(2));
                let rare = cfg!(miri) && (bits as u32).count_ones() % 2 == 1;
                let skipped = rare || slow && in_place != gaps || large && gaps;
                if !skipped {
                    all.push(Setting {
                        size,
                        count,
                        crowded,
                        in_place,
                        gaps,
                    });
                }
            }
        }
    }
    all
}

fn roots(setting: &Setting) -> Vec<usize> {
    let size = setting.size;
    if size <= 17 && setting.count <= 3 {
        return (0..size).collect();
    }
    let mut roots = vec![0, size / 2, size - 1];
    roots.dedup();
    roots
}

/// Element `index` of what rank `rank` contributes, as data without gaps.
fn element(rank: usize, index: usize) -> [u8; 8] {
    let one = (rank as u32 * 7919 + index as u32 * 31 + 1).to_le_bytes();
    let two = (rank as u32 * 104_729 + index as u32 * 17 + 5).to_le_bytes();
    [
        one[0], one[1], one[2], one[3], two[0], two[1], two[2], two[3],
    ]
}

fn elements(rank: usize, indices: std::ops::Range<usize>) -> Vec<u8> {
    indices.flat_map(|index| element(rank, index)).collect()
}

/// Memory of `count` elements of one rank.
struct Memory {
    bytes: Vec<u8>,
    datatype: Arc<Datatype>,
}

impl Memory {
    fn new(setting: &Setting, count: usize) -> Self {
        let datatype = setting.datatype();
        let length = count * datatype.extent() as usize;
        Self {
            bytes: vec![0xcc; length],
            datatype,
        }
    }

    fn holding(setting: &Setting, data: &[u8]) -> Self {
        let mut memory = Self::new(setting, data.len() / 8);
        memory.put(0, data);
        memory
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        let count = self.bytes.len() / self.datatype.extent() as usize;
        // SAFETY: the memory holds `count` elements.
        let written = unsafe {
            self.datatype
                .unpack(self.bytes.as_mut_ptr(), count, at * 8, data)
        };
        assert_eq!(written, data.len());
    }

    fn buffer(&mut self, count: usize) -> Buffer {
        assert!(count * self.datatype.extent() as usize <= self.bytes.len());
        // SAFETY: the memory holds `count` elements, and nobody looks at it while schedules run.
        unsafe { Buffer::new(self.bytes.as_mut_ptr(), count, &self.datatype) }
    }

    fn even(&mut self, count: usize, ranks: usize) -> Blocks {
        // SAFETY: as for `buffer`.
        unsafe { Blocks::even(self.bytes.as_mut_ptr(), count, &self.datatype, ranks) }.unwrap()
    }

    fn listed(&mut self, counts: &[usize]) -> Blocks {
        let displacements = counts.iter().scan(0, |sum, count| {
            *sum += *count as i64;
            Some(*sum - *count as i64)
        });
        let counts = counts.iter().map(|count| *count as i64);
        let base = self.bytes.as_mut_ptr();
        // SAFETY: as for `buffer`.
        unsafe { Blocks::listed(base, counts, displacements, &self.datatype) }.unwrap()
    }

    /// The data without gaps; what lies in the gaps must be as it was.
    fn data(&self) -> Vec<u8> {
        let count = self.bytes.len() / self.datatype.extent() as usize;
        let mut data = vec![0; count * 8];
        // SAFETY: the memory holds `count` elements.
        unsafe { self.datatype.pack(self.bytes.as_ptr(), count, 0, &mut data) };
        let mut other = vec![0xcc; self.bytes.len()];
        // SAFETY: `other` is as long.
        unsafe { self.datatype.unpack(other.as_mut_ptr(), count, 0, &data) };
        assert!(
            other == self.bytes,
            "bytes between the elements were written"
        );
        data
    }
}

const UNTOUCHED: [u8; 1] = [0xcc];

fn execute(setting: &Setting, what: &str, build: impl FnMut(usize) -> Result<Schedule>) {
    let mut dice = Dice(0x1234_5678_9abc_def1 + setting.size as u64);
    let schedules = (0..setting.size).map(build).collect::<Result<Vec<_>>>();
    let schedules = schedules.unwrap_or_else(|error| panic!("{what} {setting:?}: {error}"));
    run(schedules, &mut dice).unwrap_or_else(|error| panic!("{what} {setting:?}: {error}"));
}

/// Sizes of blocks that differ from rank to rank.
fn uneven(setting: &Setting) -> Vec<usize> {
    (0..setting.size)
        .map(|rank| (setting.count + rank * 5) % (setting.count + 3))
        .collect()
}

fn starts(counts: &[usize]) -> Vec<usize> {
    counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        })
        .collect()
}

const BCAST: [usize; 5] = [0, 1, 3, BULK / 8, BULK / 2 + 1];
const GATHER: [usize; 6] = [0, 1, 3, 64, 65, 700];
const ALLGATHER: [usize; 6] = [0, 1, 3, 60, 300, 4097];
const ALLTOALL: [usize; 6] = [0, 1, 3, 32, 33, 500];
const REDUCE: [usize; 7] = [0, 1, 3, 70, 1000, BULK / 8, BULK / 8 + 9];
const SCAN: [usize; 4] = [0, 1, 3, 900];
const REDUCE_SCATTER: [usize; 4] = [0, 1, 3, 700];

/// What `choose` answers for these counts must be all of `choices`.
fn check_covered<T: PartialEq + std::fmt::Debug>(
    counts: &[usize],
    choices: &[T],
    choose: impl Fn(&Members, &Setting) -> T,
) {
    let settings = settings(counts)
        .into_iter()
        .filter(|setting| setting.size > 1);
    let chosen: Vec<T> = settings.map(|one| choose(&one.members(0), &one)).collect();
    for choice in choices {
        assert!(chosen.contains(choice), "{choice:?} is not tested");
    }
}

#[test]
#[cfg_attr(miri, ignore = "fewer sizes are tested there")]
fn every_algorithm_is_tested() {
    use choice::*;
    check_covered(
        &[0],
        &[Barrier::Flat, Barrier::Dissemination],
        |members, _| members.barrier(),
    );
    check_covered(
        &BCAST,
        &[Bcast::Flat, Bcast::Binomial, Bcast::ScatterAllgather],
        |members, setting| members.bcast(setting.count * 8),
    );
    check_covered(
        &GATHER,
        &[Rooted::Flat, Rooted::Binomial],
        |members, setting| members.rooted(setting.count * 8),
    );
    check_covered(
        &ALLGATHER,
        &[Allgather::Flat, Allgather::Bruck, Allgather::Ring],
        |members, setting| members.allgather(setting.count * 8 * setting.size),
    );
    check_covered(
        &ALLTOALL,
        &[Alltoall::Bruck, Alltoall::Pairwise(32)],
        |members, setting| members.alltoall(setting.count * 8),
    );
    check_covered(
        &REDUCE,
        &[Reduce::Flat, Reduce::Binomial, Reduce::Parts],
        |members, setting| members.reduce(setting.count * 8, setting.count),
    );
    let all = [
        Allreduce::Flat,
        Allreduce::RecursiveDoubling,
        Allreduce::Parts,
        Allreduce::Halving,
    ];
    check_covered(&REDUCE, &all, |members, setting| {
        members.allreduce(setting.count * 8, setting.count, true)
    });
    check_covered(
        &REDUCE_SCATTER,
        &[ReduceScatter::Parts, ReduceScatter::ReduceScatter],
        |members, setting| members.reduce_scatter(setting.count * 8 * setting.size),
    );
    check_covered(&SCAN, &[Scan::Chain, Scan::Doubling], |members, _| {
        members.scan()
    });
}

#[test]
fn barriers_end() {
    for setting in settings(&[0]) {
        execute(&setting, "barrier", |rank| barrier(&setting.members(rank)));
    }
}

#[test]
fn bcast_gives_all_the_roots_data() {
    for setting in settings(&BCAST) {
        for root in roots(&setting) {
            let expected = elements(root, 0..setting.count);
            let mut memory: Vec<Memory> = (0..setting.size)
                .map(|rank| match rank == root {
                    true => Memory::holding(&setting, &expected),
                    false => Memory::new(&setting, setting.count),
                })
                .collect();
            let buffers: Vec<Buffer> = memory
                .iter_mut()
                .map(|one| one.buffer(setting.count))
                .collect();
            execute(&setting, "bcast", |rank| {
                bcast(&setting.members(rank), &buffers[rank], root)
            });
            for (rank, memory) in memory.iter().enumerate() {
                assert!(
                    memory.data() == expected,
                    "{setting:?} root {root} rank {rank}"
                );
            }
        }
    }
}

#[test]
fn gather_and_scatter_move_blocks_to_and_from_the_root() {
    for setting in settings(&GATHER) {
        let even = vec![setting.count; setting.size];
        for (counts, vector) in [(even, false), (uneven(&setting), true)] {
            for root in roots(&setting) {
                check_gather(&setting, &counts, vector, root);
                check_scatter(&setting, &counts, vector, root);
            }
        }
    }
}

fn blocks(memory: &mut Memory, setting: &Setting, counts: &[usize], vector: bool) -> Blocks {
    if vector {
        memory.listed(counts)
    } else {
        memory.even(setting.count, setting.size)
    }
}

fn check_gather(setting: &Setting, counts: &[usize], vector: bool, root: usize) {
    let at = starts(counts);
    let total = counts.iter().sum();
    let dense = Setting {
        gaps: false,
        ..*setting
    };
    let expected: Vec<u8> = (0..setting.size)
        .flat_map(|rank| elements(rank, 0..counts[rank]))
        .collect();
    // The senders' layout differs from the root's.
    let mut send: Vec<Memory> = (0..setting.size)
        .map(|rank| {
            Memory::holding(
                if rank % 2 == 0 { &dense } else { setting },
                &elements(rank, 0..counts[rank]),
            )
        })
        .collect();
    let mut receive = Memory::new(setting, total);
    if setting.in_place {
        receive.put(at[root], &elements(root, 0..counts[root]));
    }
    let send: Vec<Buffer> = send
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(*count))
        .collect();
    let all = blocks(&mut receive, setting, counts, vector);
    execute(setting, "gather", |rank| {
        let here = rank == root;
        let send = (!(here && setting.in_place)).then_some(&send[rank]);
        let receive = here.then_some(&all);
        if vector {
            gatherv(&setting.members(rank), send, receive, root)
        } else {
            gather(&setting.members(rank), send, receive, root)
        }
    });
    assert!(
        receive.data() == expected,
        "{setting:?} root {root} {vector}"
    );
}

fn check_scatter(setting: &Setting, counts: &[usize], vector: bool, root: usize) {
    let all: Vec<u8> = (0..setting.size)
        .flat_map(|rank| elements(rank, 0..counts[rank]))
        .collect();
    let mut send = Memory::holding(setting, &all);
    let dense = Setting {
        gaps: false,
        ..*setting
    };
    let mut receive: Vec<Memory> = (0..setting.size)
        .map(|rank| Memory::new(if rank % 2 == 0 { &dense } else { setting }, counts[rank]))
        .collect();
    let into: Vec<Buffer> = receive
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(*count))
        .collect();
    let from = blocks(&mut send, setting, counts, vector);
    execute(setting, "scatter", |rank| {
        let here = rank == root;
        let receive = (!(here && setting.in_place)).then_some(&into[rank]);
        let send = here.then_some(&from);
        if vector {
            scatterv(&setting.members(rank), send, receive, root)
        } else {
            scatter(&setting.members(rank), send, receive, root)
        }
    });
    for (rank, memory) in receive.iter().enumerate() {
        if rank == root && setting.in_place {
            assert!(memory.bytes.iter().all(|byte| UNTOUCHED.contains(byte)));
        } else {
            assert!(
                memory.data() == elements(rank, 0..counts[rank]),
                "{setting:?} {root} {rank}"
            );
        }
    }
}

#[test]
fn allgather_gives_all_blocks_to_all() {
    for setting in settings(&ALLGATHER) {
        let even = vec![setting.count; setting.size];
        for (counts, vector) in [(even, false), (uneven(&setting), true)] {
            let at = starts(&counts);
            let expected: Vec<u8> = (0..setting.size)
                .flat_map(|rank| elements(rank, 0..counts[rank]))
                .collect();
            let mut send: Vec<Memory> = (0..setting.size)
                .map(|rank| Memory::holding(&setting, &elements(rank, 0..counts[rank])))
                .collect();
            let mut receive: Vec<Memory> = (0..setting.size)
                .map(|rank| {
                    let mut memory = Memory::new(&setting, counts.iter().sum());
                    if setting.in_place {
                        memory.put(at[rank], &elements(rank, 0..counts[rank]));
                    }
                    memory
                })
                .collect();
            let from: Vec<Buffer> = send
                .iter_mut()
                .zip(&counts)
                .map(|(one, count)| one.buffer(*count))
                .collect();
            let into: Vec<Blocks> = receive
                .iter_mut()
                .map(|one| blocks(one, &setting, &counts, vector))
                .collect();
            execute(&setting, "allgather", |rank| {
                let send = (!setting.in_place).then_some(&from[rank]);
                if vector {
                    allgatherv(&setting.members(rank), send, &into[rank])
                } else {
                    allgather(&setting.members(rank), send, &into[rank])
                }
            });
            for (rank, memory) in receive.iter().enumerate() {
                assert!(
                    memory.data() == expected,
                    "{setting:?} rank {rank} {vector}"
                );
            }
        }
    }
}

#[test]
fn alltoall_transposes() {
    for setting in settings(&ALLTOALL) {
        for vector in [false, true] {
            // From rank `from` to rank `to`; alike both ways, so that it can be done in place.
            let count = |from: usize, to: usize| match vector {
                true => (setting.count + from * to) % (setting.count + 4),
                false => setting.count,
            };
            let size = setting.size;
            let block = |from: usize, to: usize| elements(from * size + to, 0..count(from, to));
            let counts = |rank: usize| (0..size).map(|to| count(rank, to)).collect::<Vec<_>>();
            let row = |rank: usize| (0..size).flat_map(|to| block(rank, to)).collect::<Vec<_>>();
            let mut send: Vec<Memory> = (0..size)
                .map(|rank| Memory::holding(&setting, &row(rank)))
                .collect();
            let mut receive: Vec<Memory> = (0..size)
                .map(|rank| match setting.in_place {
                    true => Memory::holding(&setting, &row(rank)),
                    false => Memory::new(&setting, counts(rank).iter().sum()),
                })
                .collect();
            let all = |memory: &mut Vec<Memory>| -> Vec<Blocks> {
                let ranks = memory.iter_mut().enumerate();
                ranks
                    .map(|(rank, one)| blocks(one, &setting, &counts(rank), vector))
                    .collect()
            };
            let (from, into) = (all(&mut send), all(&mut receive));
            execute(&setting, "alltoall", |rank| {
                let send = (!setting.in_place).then_some(&from[rank]);
                if vector {
                    alltoallv("MPI_Alltoallv", &setting.members(rank), send, &into[rank])
                } else {
                    alltoall(&setting.members(rank), send, &into[rank])
                }
            });
            for (rank, memory) in receive.iter().enumerate() {
                let expected: Vec<u8> = (0..size).flat_map(|from| block(from, rank)).collect();
                assert!(
                    memory.data() == expected,
                    "{setting:?} rank {rank} {vector}"
                );
            }
        }
    }
}

/// The composition of the maps `x → a x + b`, modulo 2³²: associative, and does not commute.
fn compose(one: &[u8], two: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut all = Vec::new();
    for (one, two) in one.chunks(8).zip(two.chunks(8)) {
        let (a, b, c, d) = (word(one, 0), word(one, 4), word(two, 0), word(two, 4));
        all.extend(a.wrapping_mul(c).to_le_bytes());
        all.extend(b.wrapping_mul(c).wrapping_add(d).to_le_bytes());
    }
    all
}

fn sum(one: &[u8], two: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let words = one.chunks(4).zip(two.chunks(4));
    words
        .flat_map(|(one, two)| word(one).wrapping_add(word(two)).to_le_bytes())
        .collect()
}

fn user(commutative: bool) -> Arc<Op> {
    Op::user(
        move |operand, into, count, datatype| {
            let (mut one, mut two) = (vec![0; count * 8], vec![0; count * 8]);
            // SAFETY: both hold `count` elements of the datatype, by the contract of operations.
            unsafe {
                datatype.pack(operand.as_ptr(), count, 0, &mut one);
                datatype.pack(into.as_ptr(), count, 0, &mut two);
                let result = if commutative {
                    sum(&one, &two)
                } else {
                    compose(&one, &two)
                };
                datatype.unpack(into.as_ptr(), count, 0, &result);
            }
        },
        commutative,
    )
}

/// The result of ranks `0..=last`.
fn folded(setting: &Setting, last: usize, commutative: bool, count: usize) -> Vec<u8> {
    let _ = setting;
    let combine = if commutative { sum } else { compose };
    let mut result = elements(0, 0..count);
    for rank in 1..=last {
        result = combine(&result, &elements(rank, 0..count));
    }
    result
}

fn reduction(setting: &Setting, commutative: bool, count: usize) -> Reduction {
    Reduction {
        count,
        datatype: setting.datatype(),
        op: user(commutative),
    }
}

/// What each rank contributes, and where its result goes; in place both are the same.
struct Contributions {
    send: Vec<Memory>,
    receive: Vec<Memory>,
}

impl Contributions {
    fn new(setting: &Setting, count: usize, result: impl Fn(usize) -> usize) -> Self {
        let data = |rank: usize| Memory::holding(setting, &elements(rank, 0..count));
        let empty = |rank: usize| Memory::new(setting, result(rank));
        let ranks = 0..setting.size;
        Self {
            send: ranks.clone().map(data).collect(),
            receive: if setting.in_place {
                Vec::new()
            } else {
                ranks.map(empty).collect()
            },
        }
    }

    fn buffers(
        &mut self,
        count: usize,
        result: impl Fn(usize) -> usize,
    ) -> (Vec<Buffer>, Vec<Buffer>) {
        let from = self.send.iter_mut().map(|one| one.buffer(count)).collect();
        let targets = if self.receive.is_empty() {
            &mut self.send
        } else {
            &mut self.receive
        };
        let into = targets
            .iter_mut()
            .enumerate()
            .map(|(rank, one)| one.buffer(result(rank)))
            .collect();
        (from, into)
    }

    fn result(&self, rank: usize, length: usize) -> Vec<u8> {
        let memory = if self.receive.is_empty() {
            &self.send
        } else {
            &self.receive
        };
        memory[rank].data()[..length * 8].to_vec()
    }
}

#[test]
fn reduce_and_allreduce_keep_the_order() {
    for setting in settings(&REDUCE) {
        let count = setting.count;
        for commutative in [true, false] {
            let expected = folded(&setting, setting.size - 1, commutative, count);
            let reduction = reduction(&setting, commutative, count);
            let what = format!("{setting:?} commutative {commutative}");
            for root in roots(&setting) {
                let mut all = Contributions::new(&setting, count, |_| count);
                let (send, receive) = all.buffers(count, |_| count);
                execute(&setting, "reduce", |rank| {
                    let receive = (rank == root).then_some(&receive[rank]);
                    reduce(
                        &setting.members(rank),
                        &send[rank],
                        receive,
                        &reduction,
                        root,
                    )
                });
                assert!(all.result(root, count) == expected, "reduce {what} {root}");
                for rank in (0..setting.size).filter(|rank| *rank != root && setting.in_place) {
                    assert!(
                        all.result(rank, count) == elements(rank, 0..count),
                        "{what} {root} {rank}"
                    );
                }
            }
            let mut all = Contributions::new(&setting, count, |_| count);
            let (send, receive) = all.buffers(count, |_| count);
            execute(&setting, "allreduce", |rank| {
                allreduce(
                    &setting.members(rank),
                    &send[rank],
                    &receive[rank],
                    &reduction,
                )
            });
            for rank in 0..setting.size {
                assert!(
                    all.result(rank, count) == expected,
                    "allreduce {what} {rank}"
                );
            }
        }
    }
}

#[test]
fn scans_combine_the_ranks_before() {
    for setting in settings(&SCAN) {
        let count = setting.count;
        for commutative in [true, false] {
            let reduction = reduction(&setting, commutative, count);
            for inclusive in [true, false] {
                let mut all = Contributions::new(&setting, count, |_| count);
                let (send, receive) = all.buffers(count, |_| count);
                execute(&setting, "scan", |rank| {
                    let members = setting.members(rank);
                    match inclusive {
                        true => scan(&members, &send[rank], &receive[rank], &reduction),
                        false => exscan(&members, &send[rank], &receive[rank], &reduction),
                    }
                });
                for rank in usize::from(!inclusive)..setting.size {
                    let last = if inclusive { rank } else { rank - 1 };
                    let expected = folded(&setting, last, commutative, count);
                    assert!(
                        all.result(rank, count) == expected,
                        "{setting:?} {inclusive} {rank}"
                    );
                }
            }
        }
    }
}

#[test]
fn reduce_scatter_gives_each_its_part() {
    for setting in settings(&REDUCE_SCATTER) {
        let even = vec![setting.count; setting.size];
        for (counts, vector) in [(even, false), (uneven(&setting), true)] {
            let (total, at) = (counts.iter().sum(), starts(&counts));
            for commutative in [true, false] {
                let reduction = reduction(&setting, commutative, total);
                let mut all = Contributions::new(&setting, total, |rank| counts[rank]);
                let (send, receive) = all.buffers(total, |rank| counts[rank]);
                execute(&setting, "reduce_scatter", |rank| {
                    let members = setting.members(rank);
                    let (send, receive) = (&send[rank], &receive[rank]);
                    match vector {
                        true => reduce_scatter(&members, send, receive, &counts, &reduction),
                        false => {
                            reduce_scatter_block(&members, send, receive, setting.count, &reduction)
                        }
                    }
                });
                let expected = folded(&setting, setting.size - 1, commutative, total);
                for rank in 0..setting.size {
                    let part = &expected[at[rank] * 8..(at[rank] + counts[rank]) * 8];
                    assert!(
                        all.result(rank, counts[rank]) == part,
                        "{setting:?} {vector} {rank}"
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_arguments_have_the_class_of_the_standard() {
    let setting = Setting {
        size: 3,
        crowded: false,
        in_place: false,
        gaps: false,
        count: 2,
    };
    let members = setting.members(1);
    let mut memory = Memory::new(&setting, 2);
    let buffer = memory.buffer(2);
    let class = |result: Result<Schedule>| result.unwrap_err().class();
    assert_eq!(class(bcast(&members, &buffer, 3)), ErrorClass::Root);
    assert_eq!(
        class(gather(&members, Some(&buffer), None, 7)),
        ErrorClass::Root
    );
    assert_eq!(
        class(gather(&members, Some(&buffer), None, 1)),
        ErrorClass::Buffer
    );
    let two = memory.even(1, 2);
    assert_eq!(class(allgather(&members, None, &two)), ErrorClass::Count);
    let sum = Reduction {
        count: 2,
        datatype: setting.datatype(),
        op: Op::predefined(Predefined::Sum),
    };
    // The datatype is not a predefined one.
    assert_eq!(
        class(allreduce(&members, &buffer, &buffer, &sum)),
        ErrorClass::Op
    );
    let long = Reduction {
        count: 3,
        op: user(true),
        ..sum
    };
    assert_eq!(
        class(allreduce(&members, &buffer, &buffer, &long)),
        ErrorClass::Truncate
    );
}

#[test]
fn disagreement_about_sizes_is_seen_by_a_receiver() {
    let setting = Setting {
        size: 4,
        crowded: false,
        in_place: false,
        gaps: false,
        count: 3,
    };
    let mut memory: Vec<Memory> = (0..4).map(|_| Memory::new(&setting, 3)).collect();
    let counts = [3, 3, 2, 3];
    let buffers: Vec<Buffer> = memory
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(count))
        .collect();
    let schedules = (0..4).map(|rank| bcast(&setting.members(rank), &buffers[rank], 0).unwrap());
    let error = run(schedules.collect(), &mut Dice(77)).unwrap_err();
    assert!(
        error.contains("sends 24 bytes to 2, which expects 16"),
        "{error}"
    );
}
