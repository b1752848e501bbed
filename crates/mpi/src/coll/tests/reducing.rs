//! Collectives that combine data, in the order of ranks.

use super::*;
use crate::op::Op;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The composition of the maps `x → a x + b`, modulo 2³²: associative, and does not commute. Loops without iterators, here and in
/// `sum` and `elements`: most of the time of these tests is theirs, and in a debug build each step of an iterator is several calls.
pub fn compose(one: &[u8], two: &[u8]) -> Vec<u8> {
    let mut all = two.to_vec();
    let mut at = 0;
    while at < one.len() {
        let (a, b) = (word(one, at), word(one, at + 4));
        let (c, d) = (word(two, at), word(two, at + 4));
        put_word(&mut all, at, a.wrapping_mul(c));
        put_word(&mut all, at + 4, b.wrapping_mul(c).wrapping_add(d));
        at += 8;
    }
    all
}

fn sum(one: &[u8], two: &[u8]) -> Vec<u8> {
    let mut all = two.to_vec();
    let mut at = 0;
    while at < one.len() {
        put_word(&mut all, at, word(one, at).wrapping_add(word(two, at)));
        at += 4;
    }
    all
}

pub fn user(commutative: bool) -> Arc<Op> {
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
