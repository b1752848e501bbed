//! Blocking collectives on boards, by messages and by turns, against results that are computed plainly: on
//! every fabric, under faults, and where ranks disagree.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{everywhere, on_threads};
use weft_fabric::{Peer, Region};
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::coll::{self, Blocks, Collective, Elements, Members, Reduction};
use weft_mpi::datatype::{Basic, Datatype};
use weft_mpi::op::Predefined;
use weft_mpi::{Buffer, Comm, Error, ErrorClass, Op, Process};
use weft_sys::random::SeededRandom;

/// Collectives before a communicator surely has its board.
const WARM: usize = 5;

/// Numbers with or without gaps between them.
pub struct Numbers {
    memory: Vec<i64>,
    stride: usize,
}

impl Numbers {
    pub fn of(values: &[i64], gaps: bool) -> Self {
        let stride = if gaps { 2 } else { 1 };
        let mut memory = vec![-1; values.len() * stride];
        for (place, value) in values.iter().enumerate() {
            memory[place * stride] = *value;
        }
        Self { memory, stride }
    }

    pub fn zeros(count: usize, gaps: bool) -> Self {
        Self::of(&vec![0; count], gaps)
    }

    pub fn datatype(&self) -> Arc<Datatype> {
        let number = Basic::Int64.datatype();
        match self.stride {
            1 => Arc::clone(number),
            _ => Datatype::resized(0, 16, number).unwrap(),
        }
    }

    pub fn count(&self) -> usize {
        self.memory.len() / self.stride
    }

    pub fn buffer(&mut self) -> Buffer {
        let (count, datatype) = (self.count(), self.datatype());
        // SAFETY: each test waits for the end of what it starts before it looks at the memory.
        unsafe { Buffer::new(self.memory.as_mut_ptr().cast(), count, &datatype) }
    }

    /// The first elements.
    fn front(&mut self, count: usize) -> Buffer {
        let datatype = self.datatype();
        // SAFETY: as above.
        unsafe { Buffer::new(self.memory.as_mut_ptr().cast(), count, &datatype) }
    }

    pub fn blocks(&mut self, ranks: usize) -> Blocks {
        let (count, datatype) = (self.count() / ranks, self.datatype());
        // SAFETY: as above.
        unsafe { Blocks::even(self.memory.as_mut_ptr().cast(), count, &datatype, ranks) }.unwrap()
    }

    /// All of them, if they are for a call that may end at once.
    pub fn elements(&mut self) -> Option<Elements> {
        self.any_elements().filter(|(all, _)| !all.is_empty())
    }

    /// The same, also of none.
    fn any_elements(&mut self) -> Option<Elements> {
        let code = self.buffer().code();
        let bytes = self.memory.len() * 8;
        // SAFETY: as above.
        let region = unsafe { Region::new(self.memory.as_mut_ptr().cast(), bytes) };
        (self.stride == 1).then_some((region, code))
    }

    /// Changes them, where no operation is under way.
    pub fn set(&mut self, values: &[i64]) {
        let numbers = self.memory.iter_mut().step_by(self.stride);
        numbers
            .zip(values)
            .for_each(|(number, value)| *number = *value);
    }

    pub fn values(&self) -> Vec<i64> {
        if self.stride > 1 {
            assert!(self.memory.iter().skip(1).step_by(2).all(|gap| *gap == -1));
        }
        self.memory.iter().step_by(self.stride).copied().collect()
    }
}

/// One collective, drawn alike on all ranks.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    kind: usize,
    count: usize,
    root: usize,
    in_place: bool,
    gaps: bool,
    user: bool,
    number: usize,
}

fn draw(random: &mut SeededRandom, size: usize, number: usize) -> Drawn {
    let mut below = |limit: u64| random.up_to(limit - 1) as usize;
    let count = match below(8) {
        0 => 0,
        1..=3 => 1 + below(3),
        4 | 5 => 10 + below(8),
        6 => 400 + below(300),
        _ if below(3) == 0 => 4000 + below(40_000),
        _ => 1000 + below(1000),
    };
    Drawn {
        kind: below(16),
        count,
        root: below(size as u64),
        in_place: below(3) == 0,
        gaps: below(4) == 0,
        user: below(8) == 0,
        number,
    }
}

/// What a rank contributes.
fn own(drawn: &Drawn, rank: usize, count: usize) -> Vec<i64> {
    let seed = (drawn.number * 1000 + rank * 7) as i64;
    (0..count as i64).map(|place| seed + place * 13).collect()
}

fn joined(drawn: &Drawn, size: usize) -> Vec<i64> {
    (0..size)
        .flat_map(|rank| own(drawn, rank, drawn.count))
        .collect()
}

fn total(drawn: &Drawn, ranks: std::ops::Range<usize>, count: usize) -> Vec<i64> {
    let mut all = vec![0; count];
    for rank in ranks {
        let one = own(drawn, rank, count);
        all.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    all
}

pub fn sum(count: usize, datatype: &Arc<Datatype>, user: bool) -> Reduction {
    let op = if user || datatype.basic().is_none() {
        Op::user(
            |operand, into, count, datatype| {
                let one = datatype.extent() as usize;
                for place in 0..count {
                    let (mut left, mut right) = ([0; 8], [0; 8]);
                    let right_place = into.part(place * one, 8).unwrap();
                    operand
                        .part(place * one, 8)
                        .unwrap()
                        .copy_to_slice(&mut left);
                    right_place.copy_to_slice(&mut right);
                    let sum = i64::from_ne_bytes(left) + i64::from_ne_bytes(right);
                    right_place.copy_from_slice(&sum.to_ne_bytes());
                }
            },
            true,
        )
    } else {
        Op::predefined(Predefined::Sum)
    };
    Reduction {
        count,
        datatype: Arc::clone(datatype),
        op,
    }
}

/// Whether a rank tries to end it at once, as entry points do. Not all do in each collective: for the others it is the same.
fn tries(drawn: &Drawn, rank: usize) -> bool {
    !drawn.in_place && !drawn.user && !(drawn.number + rank).is_multiple_of(3)
}

/// Carries it out, and compares what this rank gets.
fn play(comm: &Comm, drawn: &Drawn) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let Drawn {
        count, root, gaps, ..
    } = *drawn;
    let here = rank == root;
    let mut send = Numbers::of(&own(drawn, rank, count), gaps);
    match drawn.kind {
        // As the entry point does it.
        0 => {
            let ended = comm.barrier_at_once() || tries(drawn, rank) && comm.barrier_soon();
            if !ended {
                comm.run(Collective::Barrier)?;
            }
        }
        1 => {
            let data = if here {
                own(drawn, root, count)
            } else {
                vec![0; count]
            };
            let mut data = Numbers::of(&data, gaps);
            let ended = tries(drawn, rank)
                && data
                    .elements()
                    .is_some_and(|data| comm.bcast_at_once(data, root as u32));
            if !ended {
                let buffer = data.buffer();
                comm.run(Collective::Bcast { data: buffer, root })?;
            }
            assert_eq!(data.values(), own(drawn, root, count), "{drawn:?}");
        }
        2 => {
            let mut receive = Numbers::zeros(count * size, gaps);
            let in_place = drawn.in_place && here;
            if in_place {
                let mut all = vec![0; count * size];
                all[root * count..(root + 1) * count].copy_from_slice(&own(drawn, root, count));
                receive = Numbers::of(&all, gaps);
            }
            let all = receive.elements().filter(|_| here).map(|all| all.0);
            let ended = tries(drawn, rank)
                && send
                    .elements()
                    .is_some_and(|send| comm.gather_at_once(send, all, root as u32));
            if !ended {
                let blocks = here.then(|| receive.blocks(size));
                comm.run(Collective::Gather {
                    send: (!in_place).then(|| send.buffer()),
                    receive: blocks,
                    root,
                })?;
            }
            if here {
                assert_eq!(receive.values(), joined(drawn, size), "{drawn:?}");
            }
        }
        3 => {
            let mut all = Numbers::of(&joined(drawn, size), gaps);
            let mut receive = Numbers::zeros(count, gaps);
            let in_place = drawn.in_place && here;
            let blocks = all.elements().filter(|_| here).map(|all| all.0);
            let ended = tries(drawn, rank)
                && receive
                    .elements()
                    .is_some_and(|receive| comm.scatter_at_once(receive, blocks, root as u32));
            if !ended {
                comm.run(Collective::Scatter {
                    send: here.then(|| all.blocks(size)),
                    receive: (!in_place).then(|| receive.buffer()),
                    root,
                })?;
            }
            if !in_place {
                assert_eq!(receive.values(), own(drawn, rank, count), "{drawn:?}");
            }
        }
        4 => {
            let mut receive = Numbers::zeros(count * size, gaps);
            if drawn.in_place {
                let mut all = vec![0; count * size];
                all[rank * count..(rank + 1) * count].copy_from_slice(&own(drawn, rank, count));
                receive = Numbers::of(&all, gaps);
            }
            let both = send.elements().zip(receive.elements());
            let ended = tries(drawn, rank)
                && both.is_some_and(|(send, all)| comm.allgather_at_once(send, all.0));
            if !ended {
                comm.run(Collective::Allgather {
                    send: (!drawn.in_place).then(|| send.buffer()),
                    receive: receive.blocks(size),
                })?;
            }
            assert_eq!(receive.values(), joined(drawn, size), "{drawn:?}");
        }
        5 => {
            // Rank r sends element block d of its own to rank d.
            let mut out = Numbers::of(&own(drawn, rank, count * size), gaps);
            let mut receive = Numbers::zeros(count * size, gaps);
            if drawn.in_place {
                receive = Numbers::of(&own(drawn, rank, count * size), gaps);
            }
            let both = out.elements().zip(receive.elements());
            let ended = tries(drawn, rank)
                && both.is_some_and(|(out, all)| comm.alltoall_at_once(&out.0, all, count * 8));
            if !ended {
                comm.run(Collective::Alltoall {
                    send: (!drawn.in_place).then(|| out.blocks(size)),
                    receive: receive.blocks(size),
                })?;
            }
            let expected: Vec<i64> = (0..size)
                .flat_map(|other| {
                    own(drawn, other, count * size)[rank * count..(rank + 1) * count].to_vec()
                })
                .collect();
            assert_eq!(receive.values(), expected, "{drawn:?}");
        }
        6..=10 | 15 => reduce(comm, drawn, &mut send)?,
        _ => uneven(comm, drawn)?,
    }
    Ok(())
}

/// How many elements one rank has for another where each has a number of its own.
fn count_between(drawn: &Drawn, from: usize, to: usize) -> usize {
    match (drawn.number * 31 + from * 7 + to * 3) % 5 {
        0 => 0,
        1 => drawn.count.min(1),
        2 => drawn.count / 2,
        _ => drawn.count,
    }
}

/// What one rank has for another.
fn between(drawn: &Drawn, from: usize, to: usize) -> Vec<i64> {
    let mut all = own(drawn, from + 100 * to, drawn.count);
    all.truncate(count_between(drawn, from, to));
    all
}

/// Blocks of these numbers of elements, with a gap of one element between each and the next.
pub fn apart(numbers: &mut Numbers, counts: &[usize]) -> Blocks {
    let starts = counts.iter().scan(0, |next, count| {
        let start = *next;
        *next += *count as i64 + 1;
        Some(start)
    });
    let (starts, datatype): (Vec<i64>, _) = (starts.collect(), numbers.datatype());
    let counts = counts.iter().map(|count| *count as i64);
    // SAFETY: as for `Numbers::buffer`.
    unsafe {
        Blocks::listed(
            numbers.memory.as_mut_ptr().cast(),
            counts,
            starts,
            &datatype,
        )
    }
    .unwrap()
}

/// The same for a call that may end at once.
fn lying_apart(numbers: &mut Numbers, counts: &[usize]) -> impl Fn(usize) -> Region + use<> {
    assert_eq!(numbers.stride, 1);
    let base = numbers.memory.as_mut_ptr();
    let counts = counts.to_vec();
    move |rank| {
        let start = counts[..rank].iter().sum::<usize>() + rank;
        // SAFETY: as for `Numbers::buffer`.
        unsafe { Region::new(base.wrapping_add(start).cast(), counts[rank] * 8) }
    }
}

/// Whether a rank tries it here; the drawn ones also in place. Elements with gaps are not for that.
fn tries_uneven(drawn: &Drawn, rank: usize) -> bool {
    !drawn.gaps && !(drawn.number + rank).is_multiple_of(3)
}

/// The signature of the numbers.
fn code() -> weft_mpi::datatype::SignatureCode {
    weft_mpi::datatype::SignatureCode::of(Basic::Int64)
}

/// The elements of such blocks.
pub fn laid_apart(parts: &[Vec<i64>]) -> Vec<i64> {
    parts
        .iter()
        .flat_map(|part| part.iter().copied().chain([-7]))
        .collect()
}

/// Collectives to which ranks give different numbers of elements.
fn uneven(comm: &Comm, drawn: &Drawn) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let Drawn {
        root,
        gaps,
        in_place,
        ..
    } = *drawn;
    let here = rank == root;
    // Of each, as this rank is to get or to give it.
    let (expected, room): (Vec<Vec<i64>>, Vec<Vec<i64>>) = match drawn.kind {
        11 => (0..size).map(|from| between(drawn, from, root)).collect(),
        12 => vec![between(drawn, root, rank)],
        13 => (0..size).map(|from| between(drawn, from, 0)).collect(),
        _ => (0..size)
            .map(|from| {
                // In place, what two ranks give each other is of one length.
                let (low, high) = (from.min(rank), from.max(rank));
                let count = count_between(drawn, low, high);
                let mut all = own(drawn, from + 100 * rank, drawn.count);
                all.truncate(if in_place {
                    count
                } else {
                    count_between(drawn, from, rank)
                });
                all
            })
            .collect::<Vec<_>>(),
    }
    .into_iter()
    .map(|part| (part.clone(), vec![0; part.len()]))
    .unzip();
    let counts: Vec<usize> = expected.iter().map(Vec::len).collect();
    let mut receive = Numbers::of(&laid_apart(&room), gaps);
    match drawn.kind {
        11 => {
            let in_place = in_place && here;
            if in_place {
                let mut room = room;
                room[root].clone_from(&expected[root]);
                receive = Numbers::of(&laid_apart(&room), gaps);
            }
            let mut send = Numbers::of(&between(drawn, rank, root), gaps);
            let ended = tries_uneven(drawn, rank) && {
                let own = send.any_elements().unwrap();
                if here {
                    let block = lying_apart(&mut receive, &counts);
                    let own = (!in_place).then_some(own.0);
                    comm.gatherv_here_at_once(own, block, code())
                } else {
                    comm.gatherv_at_once(own, root as u32)
                }
            };
            if !ended {
                comm.run(Collective::Gatherv {
                    send: (!in_place).then(|| send.buffer()),
                    receive: here.then(|| apart(&mut receive, &counts)),
                    root,
                })?;
            }
            if !here {
                return Ok(());
            }
        }
        12 => {
            let parts: Vec<_> = (0..size).map(|to| between(drawn, root, to)).collect();
            let counts: Vec<_> = parts.iter().map(Vec::len).collect();
            let mut send = Numbers::of(&laid_apart(&parts), gaps);
            let mut receive = Numbers::of(&room[0], gaps);
            let in_place = in_place && here;
            let ended = tries_uneven(drawn, rank) && {
                let own = receive.any_elements().unwrap();
                if here {
                    let block = lying_apart(&mut send, &counts);
                    let own = (!in_place).then_some(own.0);
                    comm.scatterv_here_at_once(own, block, code())
                } else {
                    comm.scatterv_at_once(own, root as u32)
                }
            };
            if !ended {
                comm.run(Collective::Scatterv {
                    send: here.then(|| apart(&mut send, &counts)),
                    receive: (!in_place).then(|| receive.buffer()),
                    root,
                })?;
            }
            if !in_place {
                assert_eq!(receive.values(), expected[0], "{drawn:?}");
            }
            return Ok(());
        }
        13 => {
            if in_place {
                let mut room = room;
                room[rank].clone_from(&expected[rank]);
                receive = Numbers::of(&laid_apart(&room), gaps);
            }
            let mut send = Numbers::of(&between(drawn, rank, 0), gaps);
            let ended = tries_uneven(drawn, rank) && {
                let own = send.any_elements().filter(|_| !in_place);
                let block = lying_apart(&mut receive, &counts);
                comm.allgatherv_at_once(own.map(|own| own.0), block, code())
            };
            if !ended {
                comm.run(Collective::Allgatherv {
                    send: (!in_place).then(|| send.buffer()),
                    receive: apart(&mut receive, &counts),
                })?;
            }
        }
        _ => {
            let parts = (0..size).map(|to| {
                let mut all = own(drawn, rank + 100 * to, drawn.count);
                let (low, high) = (rank.min(to), rank.max(to));
                let between = if in_place { (low, high) } else { (rank, to) };
                all.truncate(count_between(drawn, between.0, between.1));
                all
            });
            let parts: Vec<_> = parts.collect();
            let to: Vec<_> = parts.iter().map(Vec::len).collect();
            let mut send = Numbers::of(&laid_apart(&parts), gaps);
            if in_place {
                receive = Numbers::of(&laid_apart(&parts), gaps);
            }
            let name = ["MPI_Alltoallv", "MPI_Alltoallw"][drawn.number % 2];
            let ended = tries_uneven(drawn, rank) && name == "MPI_Alltoallv" && {
                let into = lying_apart(&mut receive, &counts);
                if in_place {
                    let from = lying_apart(&mut receive, &counts);
                    comm.alltoallv_at_once((from, true), into)
                } else {
                    comm.alltoallv_at_once((lying_apart(&mut send, &to), false), into)
                }
            };
            if !ended {
                comm.run(Collective::Alltoallv {
                    name,
                    send: (!in_place).then(|| apart(&mut send, &to)),
                    receive: apart(&mut receive, &counts),
                })?;
            }
        }
    }
    assert_eq!(receive.values(), laid_apart(&expected), "{drawn:?}");
    Ok(())
}

/// Whether a reduction ends at once that a rank tries, also in place.
fn ends_by_parts(
    drawn: &Drawn,
    rank: usize,
    send: &mut Numbers,
    into: &Buffer,
    attempt: impl FnOnce(Elements, &Region) -> bool,
) -> bool {
    let in_place = false;
    match (send.elements(), into) {
        (Some(send), Buffer::Flat(into, _)) => {
            tries(&Drawn { in_place, ..*drawn }, rank) && attempt(send, into)
        }
        _ => false,
    }
}

fn reduce(comm: &Comm, drawn: &Drawn, send: &mut Numbers) -> Result<(), Error> {
    let (rank, size) = (comm.rank() as usize, comm.size() as usize);
    let Drawn {
        count, root, gaps, ..
    } = *drawn;
    let here = rank == root;
    let reduction = sum(count, &send.datatype(), drawn.user);
    let mut receive = Numbers::zeros(count, gaps);
    let addition = (Predefined::Sum, Basic::Int64);
    let result = match drawn.kind {
        6 => {
            let into = receive.elements().filter(|_| here).map(|into| into.0);
            let ended = tries(drawn, rank)
                && send
                    .elements()
                    .is_some_and(|send| comm.reduce_at_once(send, into, addition, root as u32));
            if !ended {
                comm.run(Collective::Reduce {
                    send: send.buffer(),
                    receive: here.then(|| receive.buffer()),
                    reduction: (&reduction).into(),
                    root,
                })?;
            }
            if !here {
                return Ok(());
            }
            total(drawn, 0..size, count)
        }
        7 => {
            let into = if drawn.in_place {
                send.buffer()
            } else {
                receive.buffer()
            };
            let result = if drawn.in_place {
                send.elements()
            } else {
                receive.elements()
            };
            // This one may also be in place.
            let in_place = false;
            let ended = tries(&Drawn { in_place, ..*drawn }, rank)
                && send
                    .elements()
                    .zip(result)
                    .is_some_and(|(send, into)| comm.allreduce_at_once(send, &into.0, addition));
            if !ended {
                comm.run(Collective::Allreduce {
                    send: send.buffer(),
                    receive: into,
                    reduction: (&reduction).into(),
                })?;
            }
            if drawn.in_place {
                receive = Numbers::of(&send.values(), gaps);
            }
            total(drawn, 0..size, count)
        }
        8 => {
            let mut all = Numbers::of(&own(drawn, rank, count * size), gaps);
            let reduction = sum(count * size, &all.datatype(), drawn.user);
            let into = if drawn.in_place {
                all.front(count)
            } else {
                receive.buffer()
            };
            let ended = ends_by_parts(drawn, rank, &mut all, &into, |all, into| {
                comm.reduce_scatter_block_at_once(all, into, addition)
            });
            if !ended {
                comm.run(Collective::ReduceScatterBlock {
                    send: all.buffer(),
                    receive: into,
                    count,
                    reduction: (&reduction).into(),
                })?;
            }
            if drawn.in_place {
                receive = Numbers::of(&all.values()[..count], gaps);
            }
            total(drawn, 0..size, count * size)[rank * count..(rank + 1) * count].to_vec()
        }
        15 => {
            let counts: Vec<usize> = (0..size)
                .map(|rank| count_between(drawn, 0, rank))
                .collect();
            let all_count = counts.iter().sum();
            let first: usize = counts[..rank].iter().sum();
            let mut all = Numbers::of(&own(drawn, rank, all_count), gaps);
            let reduction = sum(all_count, &all.datatype(), drawn.user);
            let mine = total(drawn, 0..size, all_count)[first..first + counts[rank]].to_vec();
            receive = Numbers::zeros(counts[rank], gaps);
            let into = if drawn.in_place {
                all.front(counts[rank])
            } else {
                receive.buffer()
            };
            let ended = ends_by_parts(drawn, rank, &mut all, &into, |all, into| {
                comm.reduce_scatter_at_once(all, into, |rank| counts[rank], addition)
            });
            if !ended {
                comm.run(Collective::ReduceScatter {
                    send: all.buffer(),
                    receive: into,
                    counts,
                    reduction: (&reduction).into(),
                })?;
            }
            if drawn.in_place {
                receive = Numbers::of(&all.values()[..mine.len()], gaps);
            }
            mine
        }
        9 => {
            let into = if drawn.in_place {
                send.buffer()
            } else {
                receive.buffer()
            };
            let ended = ends_by_parts(drawn, rank, send, &into, |send, into| {
                comm.scan_at_once(send, into, addition)
            });
            if !ended {
                comm.run(Collective::Scan {
                    send: send.buffer(),
                    receive: into,
                    reduction: (&reduction).into(),
                })?;
            }
            if drawn.in_place {
                receive = Numbers::of(&send.values(), gaps);
            }
            total(drawn, 0..rank + 1, count)
        }
        _ => {
            let into = if drawn.in_place {
                send.buffer()
            } else {
                receive.buffer()
            };
            let ended = ends_by_parts(drawn, rank, send, &into, |send, into| {
                comm.exscan_at_once(send, into, addition)
            });
            if !ended {
                comm.run(Collective::Exscan {
                    send: send.buffer(),
                    receive: into,
                    reduction: (&reduction).into(),
                })?;
            }
            if drawn.in_place {
                receive = Numbers::of(&send.values(), gaps);
            }
            if rank == 0 {
                return Ok(());
            }
            total(drawn, 0..rank, count)
        }
    };
    assert_eq!(receive.values(), result, "{drawn:?}");
    Ok(())
}

/// So many random collectives.
fn play_many(comm: &Comm, seed: u64, number: usize) -> Result<(), Error> {
    let mut random = SeededRandom::new(seed);
    (0..number).try_for_each(|number| play(comm, &draw(&mut random, comm.size() as usize, number)))
}

#[test]
fn random_collectives_are_right_everywhere() {
    for ranks in [1, 2, 3, 7] {
        everywhere(ranks, |process| {
            let number = if cfg!(miri) { 12 } else { 150 };
            play_many(&process.world(), u64::from(ranks), number).unwrap();
        });
    }
}

#[test]
fn random_collectives_are_right_without_common_memory_and_under_faults() {
    for seed in 0..20 {
        let mut config = Config::faulty(4, seed);
        config.shares_memory = seed % 2 == 0;
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            play_many(&process.world(), seed, 60).unwrap();
            process.finish().unwrap();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Hosts of any number of ranks, which follow each other or do not.
#[test]
fn random_collectives_are_right_on_several_hosts() {
    for seed in 0..40 {
        let mut random = SeededRandom::new(seed);
        let ranks = 3 + random.up_to(6) as usize;
        let mut hosts: Vec<u32> = (0..ranks).map(|_| random.up_to(2) as u32).collect();
        if seed % 2 == 0 {
            hosts.sort_unstable();
        }
        let mut config = Config::faulty(ranks, seed);
        config.shares_memory = false;
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            process.set_hosts(hosts.iter().copied());
            play_many(&process.world(), seed, 60).unwrap();
            process.finish().unwrap();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}, hosts {hosts:?}: {failure}");
        }
    }
}

#[test]
fn threads_of_a_rank_use_boards_of_their_own() {
    on_threads(3, |process| {
        let world = process.world();
        let comms: Vec<_> = (0..3).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|scope| {
            for (number, comm) in comms.iter().enumerate() {
                scope.spawn(move || play_many(comm, number as u64, 100).unwrap());
            }
        });
    });
}

#[test]
fn a_root_may_be_far_ahead() {
    everywhere(3, |process| {
        let world = process.world();
        for length in [1, 100] {
            for number in 0..200 {
                let drawn = Drawn {
                    kind: if number % 3 == 0 { 6 } else { 1 },
                    count: length,
                    root: 0,
                    in_place: false,
                    gaps: false,
                    user: false,
                    number,
                };
                play(&world, &drawn).unwrap();
            }
        }
    });
}

#[test]
fn communicators_come_and_go_with_their_boards() {
    everywhere(2, |process| {
        let world = process.world();
        // More at a time than a rank allocates boards for, and many more one after the other.
        let kept: Vec<_> = (0..70).map(|_| world.dup().unwrap()).collect();
        for (number, comm) in kept.iter().enumerate() {
            play_many(comm, number as u64, WARM + 2).unwrap();
        }
        for comm in kept {
            comm.drop_messages();
        }
        for number in 0..100 {
            let comm = world.dup().unwrap();
            play_many(&comm, number, WARM + 2).unwrap();
            comm.drop_messages();
        }
    });
}

/// A rank dies at any moment: the others get right results up to some collective, and then an error that names it.
#[test]
fn a_death_in_the_middle_is_named() {
    for seed in 0..60 {
        let dead = Peer(seed as u32 % 3);
        let death = Fault::Death {
            peer: dead,
            at: Duration::from_micros(40 + 7 * seed),
        };
        let config = Config::new(3, seed).with(death);
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            let world = process.world();
            // Never ends but by the death.
            let mut number = seed;
            let error = loop {
                if let Err(error) = play_many(&world, number, 20) {
                    break error;
                }
                number += 1000;
            };
            if process.me() != dead {
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
                let named = ["rank", "peer"].map(|word| format!("{word} {dead} "));
                assert!(
                    named.iter().any(|name| error.text().contains(name)),
                    "{error}"
                );
                // Whatever comes later ends as well.
                let error = world.run(Collective::Barrier).unwrap_err();
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            }
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Ranks that do not agree get an error that says so, and do not hang.
#[test]
fn disagreement_is_an_error() {
    let warm = |world: &Comm| (0..WARM).for_each(|_| world.run(Collective::Barrier).unwrap());
    let bcast = |world: &Comm, count: usize, root: usize| {
        let mut data = Numbers::zeros(count, false);
        let elements = data.elements().unwrap();
        if world.bcast_at_once(elements, root as u32) {
            return Ok(());
        }
        let data = data.buffer();
        world.run(Collective::Bcast { data, root })
    };
    // Other lengths: on the board, in several epochs, beside the board, and the other way round.
    for (one, other) in [
        (3, 4),
        (3, 5000),
        (5000, 3),
        (3, 60_000),
        (60_000, 3),
        (60_000, 60_001),
        (3, 300_000),
        (300_000, 3),
    ] {
        everywhere(2, |process| {
            let world = process.world();
            warm(&world);
            let ended = match world.rank() {
                0 => bcast(&world, one, 0),
                _ => bcast(&world, other, 0),
            };
            if world.rank() == 1 {
                let error = ended.unwrap_err();
                assert_eq!(error.class(), ErrorClass::Truncate, "{error}");
                assert!(error.text().contains("MPI_Bcast"), "{error}");
                assert!(error.text().contains("agree on all ranks"), "{error}");
            }
        });
    }
    // Other calls, other operations.
    everywhere(2, |process| {
        let world = process.world();
        warm(&world);
        let error = match world.rank() {
            0 => {
                assert!(!world.barrier_at_once());
                world.run(Collective::Barrier).unwrap_err()
            }
            _ => bcast(&world, 1, 0).unwrap_err(),
        };
        assert_eq!(error.class(), ErrorClass::Other, "{error}");
        let other = ["MPI_Bcast", "MPI_Barrier"][world.rank() as usize];
        assert!(error.text().contains(other), "{error}");
    });
    everywhere(2, |process| {
        let world = process.world();
        warm(&world);
        let op = [Predefined::Sum, Predefined::Max][world.rank() as usize];
        let reduction = Reduction {
            count: 1,
            datatype: Arc::clone(Basic::Int64.datatype()),
            op: Op::predefined(op),
        };
        let (mut send, mut receive) = (Numbers::zeros(1, false), Numbers::zeros(1, false));
        let (out, into) = (send.elements().unwrap(), receive.elements().unwrap());
        assert!(!world.allreduce_at_once(out, &into.0, (op, Basic::Int64)));
        let error = world
            .run(Collective::Allreduce {
                send: send.buffer(),
                receive: receive.buffer(),
                reduction: (&reduction).into(),
            })
            .unwrap_err();
        assert!(error.text().contains("operation"), "{error}");
    });
}

/// A block of another length than its receiver expects is an error there, of which the others hear in their next collective.
#[test]
fn blocks_of_another_length_than_expected_are_an_error_of_their_receiver() {
    let lengths = [(3, 4), (4, 3), (0, 1), (1, 0), (3, 40_000), (40_000, 3)];
    for (number, (comes, expected)) in lengths.into_iter().chain(lengths).enumerate() {
        everywhere(3, |process| {
            let rank = process.world().rank() as usize;
            // All by the full path, then some by the short one first.
            let at_once = number >= lengths.len() && !(number + rank).is_multiple_of(3);
            // Whoever does not find it may hear of it in the same call.
            let check = |comm: &Comm, ended: Result<(), Error>, at: bool, call: &str| {
                let later = (0..2).try_for_each(|_| comm.run(Collective::Barrier));
                assert!(ended.is_err() || !at);
                let errors = [ended.err(), later.err()];
                assert!(errors[1].is_some(), "all hear of it");
                for error in errors.iter().flatten() {
                    assert_eq!(error.class(), ErrorClass::Truncate, "{error}");
                    assert!(error.text().contains(call), "{error}");
                }
            };
            let warm = || {
                let comm = process.world().dup().unwrap();
                (0..WARM).for_each(|_| comm.run(Collective::Barrier).unwrap());
                comm
            };
            let world = warm();
            // Rank 2 gives what rank 0 does not expect; what rank 1 gives is right, and comes.
            let mut send = Numbers::of(&vec![5; if rank == 2 { comes } else { 2 }], false);
            let counts = [2, 2, expected];
            let mut receive = Numbers::zeros(counts.iter().sum::<usize>() + 3, false);
            let (own, block) = (
                send.any_elements().unwrap(),
                lying_apart(&mut receive, &counts),
            );
            let ended = if at_once
                && match rank {
                    0 => world.gatherv_here_at_once(Some(own.0), block, code()),
                    _ => world.gatherv_at_once(own, 0),
                } {
                Ok(())
            } else {
                world.run(Collective::Gatherv {
                    send: Some(send.buffer()),
                    receive: (rank == 0).then(|| apart(&mut receive, &counts)),
                    root: 0,
                })
            };
            check(&world, ended, rank == 0, "MPI_Gatherv");
            if rank == 0 && comes < 10_000 {
                assert_eq!(receive.values()[3..5], [5, 5]);
            }
            let world = warm();
            // Rank 0 gives rank 1 what it does not expect.
            let given = [2, comes, 2];
            let mut send = Numbers::of(&vec![6; given.iter().sum::<usize>() + 3], false);
            let mut receive = Numbers::zeros(if rank == 1 { expected } else { 2 }, false);
            let (own, block) = (
                receive.any_elements().unwrap(),
                lying_apart(&mut send, &given),
            );
            let ended = if at_once
                && match rank {
                    0 => world.scatterv_here_at_once(Some(own.0), block, code()),
                    _ => world.scatterv_at_once(own, 0),
                } {
                Ok(())
            } else {
                world.run(Collective::Scatterv {
                    send: (rank == 0).then(|| apart(&mut send, &given)),
                    receive: Some(receive.buffer()),
                    root: 0,
                })
            };
            check(&world, ended, rank == 1, "MPI_Scatterv");
            let world = warm();
            // Rank 2 gives rank 1 what it does not expect.
            let given = [2, if rank == 2 { comes } else { 2 }, 2];
            let wanted = [2, 2, if rank == 1 { expected } else { 2 }];
            let own = |counts: [usize; 3]| {
                let mut counts = counts;
                counts[rank] = 2;
                counts
            };
            let (given, wanted) = (own(given), own(wanted));
            let mut send = Numbers::of(&vec![7; given.iter().sum::<usize>() + 3], false);
            let mut receive = Numbers::zeros(wanted.iter().sum::<usize>() + 3, false);
            let from = lying_apart(&mut send, &given);
            let into = lying_apart(&mut receive, &wanted);
            let ended = if at_once && world.alltoallv_at_once((from, false), into) {
                Ok(())
            } else {
                world.run(Collective::Alltoallv {
                    name: "MPI_Alltoallv",
                    send: Some(apart(&mut send, &given)),
                    receive: apart(&mut receive, &wanted),
                })
            };
            check(&world, ended, rank == 1, "MPI_Alltoallv");
        });
    }
}

#[test]
fn a_barrier_of_two_ends_at_once_where_the_other_one_waits() {
    const ROUNDS: u64 = 200;
    on_threads(2, |process| {
        let world = process.world();
        let barrier = || world.run(Collective::Barrier).unwrap();
        (0..WARM).for_each(|_| barrier());
        let before = process.counters().collectives(0);
        for round in 0..ROUNDS {
            if round % 2 == u64::from(world.rank()) {
                while !world.barrier_at_once() {
                    std::thread::yield_now();
                }
            } else {
                barrier();
            }
        }
        assert_eq!(process.counters().collectives(0) - before, ROUNDS);
        assert_eq!(process.counters().collectives_now(), 0);
        // The history of both is the same as of any barrier.
        play_many(&world, 1, 20).unwrap();
    });
    // Not of three.
    on_threads(3, |process| {
        let world = process.world();
        for _ in 0..2 * WARM {
            assert!(!world.barrier_at_once());
            world.run(Collective::Barrier).unwrap();
        }
    });
}

/// What is begun at once, and has not ended then, the full path ends: once, and counted once. What is begun need not be what the
/// others do.
#[test]
fn what_is_begun_at_once_goes_on() {
    const ROUNDS: usize = 100;
    for ranks in [2, 3] {
        let others_have_begun = std::sync::Barrier::new(ranks as usize);
        on_threads(ranks, |process| {
            let world = process.world();
            let rank = world.rank() as usize;
            (0..WARM).for_each(|_| world.run(Collective::Barrier).unwrap());
            let before = world.collectives();
            for round in 0..ROUNDS {
                // Who waits for all cannot end while one of them has not come.
                let late = round % ranks as usize;
                if rank == late {
                    others_have_begun.wait();
                }
                let mut send = Numbers::of(&[rank as i64], false);
                let mut receive = Numbers::zeros(ranks as usize, false);
                let (out, all) = (send.elements().unwrap(), receive.elements().unwrap());
                let ended = world.allgather_at_once(out, all.0);
                if rank != late {
                    assert!(!ended);
                    others_have_begun.wait();
                }
                if !ended {
                    world
                        .run(Collective::Allgather {
                            send: Some(send.buffer()),
                            receive: receive.blocks(ranks as usize),
                        })
                        .unwrap();
                }
                let expected: Vec<i64> = (0..i64::from(ranks)).collect();
                assert_eq!(receive.values(), expected);
            }
            assert_eq!(world.collectives() - before, ROUNDS as u32);
            assert_eq!(process.counters().collectives_now(), 0);
        });
    }
}

/// A board is used, and not only in name: the collectives of a warm communicator send no message.
#[test]
fn no_message_is_sent() {
    on_threads(3, |process| {
        let world = process.world();
        play_many(&world, 1, WARM * 4).unwrap();
        let sent = || -> u64 {
            let counters = process.counters();
            counters.eager().messages.get() + counters.rendezvous().messages.get()
        };
        let before = sent();
        for number in 0..20 {
            let mut drawn = draw(&mut SeededRandom::new(number), 3, number as usize);
            (drawn.count, drawn.gaps, drawn.user) = (8, false, false);
            play(&world, &drawn).unwrap();
        }
        assert_eq!(sent(), before);
        // Nor by operations of the program.
        let drawn = Drawn {
            kind: 7,
            user: true,
            ..draw(&mut SeededRandom::new(1), 3, 1)
        };
        play(&world, &Drawn { count: 1, ..drawn }).unwrap();
        assert_eq!(sent(), before);
        // What is too long for a board where nobody else knows its length is sent, once.
        let (begun, ended) = (process.counters().collectives(3), world.collectives());
        for kind in [11, 12, 14] {
            let drawn = Drawn {
                kind,
                count: 40_000,
                root: 1,
                in_place: false,
                gaps: false,
                number: 4,
                ..drawn
            };
            play(&world, &drawn).unwrap();
        }
        assert!(sent() > before || world.rank() != 0);
        assert_eq!(process.counters().collectives(3) - begun, 1);
        assert_eq!(process.counters().collectives_now(), 0);
        assert_eq!(world.collectives() - ended, 3);
        world
            .run(coll::barrier(&Members::of(&world)).unwrap())
            .unwrap();
    });
}
