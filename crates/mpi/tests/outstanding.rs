//! Non-blocking collectives on their board: many at a time, of all kinds, ended in any order, with blocking ones between them, against
//! results that are computed plainly; while the board is being made, under faults, and where ranks disagree.

use std::time::Duration;

use crate::boards::{Numbers, apart, laid_apart, sum};
use crate::common::{everywhere, on_threads, threads};
use weft_fabric::Peer;
use weft_fabric_shm::Shm;
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::coll::{Collective, Reduction};
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_mpi::{Comm, Error, ErrorClass, Op, Process, RequestId};
use weft_sys::random::SeededRandom;

/// Collectives before a communicator surely has its board, or is making it.
const WARM: usize = 5;

/// A collective that was begun, and what its rank is to get.
struct Begun {
    request: RequestId,
    kind: u64,
    _out: Numbers,
    /// What is where its result goes.
    initial: Vec<i64>,
    into: Numbers,
    expected: Option<Vec<i64>>,
}

impl Begun {
    fn check(&self) {
        if let Some(expected) = &self.expected {
            assert_eq!(self.into.values(), *expected, "kind {}", self.kind);
        }
    }
}

/// What rank `rank` gives in collective `number`.
fn own(number: usize, rank: usize, count: usize) -> Vec<i64> {
    let seed = (number * 1000 + rank * 7) as i64;
    (0..count as i64).map(|place| seed + place * 13).collect()
}

fn total(number: usize, ranks: std::ops::Range<usize>, count: usize) -> Vec<i64> {
    let mut all = vec![0; count];
    for rank in ranks {
        let one = own(number, rank, count);
        all.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    all
}

const KINDS: u64 = 16;

/// What one rank has for another where each has a number of elements of its own; in place, both have as many.
fn between(number: usize, count: usize, (from, to): (usize, usize), in_place: bool) -> Vec<i64> {
    let (low, high) = if in_place {
        (from.min(to), from.max(to))
    } else {
        (from, to)
    };
    let count = match (number * 31 + low * 7 + high * 3) % 5 {
        0 => 0,
        1 => count.min(1),
        2 => count / 2,
        _ => count,
    };
    own(number, from + 100 * to, count)
}

/// One to which ranks give different numbers of elements: what is begun, and the memory.
struct Uneven {
    collective: Collective<'static>,
    out: Numbers,
    into: Numbers,
    expected: Option<Vec<i64>>,
}

fn uneven(
    (kind, number, count): (u64, usize, usize),
    (me, size, root): (usize, usize, usize),
    (in_place, gaps): (bool, bool),
) -> Uneven {
    let here = me == root;
    let between = |from, to, in_place| between(number, count, (from, to), in_place);
    let lengths = |parts: &[Vec<i64>]| parts.iter().map(Vec::len).collect::<Vec<_>>();
    let empty = |parts: &[Vec<i64>]| {
        let zeros = |part: &Vec<i64>| vec![0; part.len()];
        parts.iter().map(zeros).collect::<Vec<_>>()
    };
    let mut out = Numbers::zeros(0, gaps);
    let (mut into, expected);
    let collective = match kind {
        11 | 13 => {
            let to = if kind == 11 { root } else { 0 };
            let gets = here || kind == 13;
            let in_place = in_place && gets;
            let parts: Vec<_> = (0..size).map(|from| between(from, to, false)).collect();
            let mut room = empty(&parts);
            if in_place {
                room[me].clone_from(&parts[me]);
            }
            out = Numbers::of(&parts[me], gaps);
            into = Numbers::of(&laid_apart(&room), gaps);
            expected = gets.then(|| laid_apart(&parts));
            let send = (!in_place).then(|| out.buffer());
            let counts = lengths(&parts);
            match kind {
                11 => Collective::Gatherv {
                    send,
                    receive: here.then(|| apart(&mut into, &counts)),
                    root,
                },
                _ => Collective::Allgatherv {
                    send,
                    receive: apart(&mut into, &counts),
                },
            }
        }
        12 => {
            let in_place = in_place && here;
            let parts: Vec<_> = (0..size).map(|to| between(root, to, false)).collect();
            out = Numbers::of(&laid_apart(&parts), gaps);
            into = Numbers::zeros(parts[me].len(), gaps);
            expected = (!in_place).then(|| parts[me].clone());
            Collective::Scatterv {
                send: here.then(|| apart(&mut out, &lengths(&parts))),
                receive: (!in_place).then(|| into.buffer()),
                root,
            }
        }
        _ => {
            let given: Vec<_> = (0..size).map(|to| between(me, to, in_place)).collect();
            let parts: Vec<_> = (0..size).map(|from| between(from, me, in_place)).collect();
            if in_place {
                into = Numbers::of(&laid_apart(&given), gaps);
            } else {
                out = Numbers::of(&laid_apart(&given), gaps);
                into = Numbers::of(&laid_apart(&empty(&parts)), gaps);
            }
            expected = Some(laid_apart(&parts));
            Collective::Alltoallv {
                name: ["MPI_Alltoallv", "MPI_Alltoallw"][number % 2],
                send: (!in_place).then(|| apart(&mut out, &lengths(&given))),
                receive: apart(&mut into, &lengths(&parts)),
            }
        }
    };
    Uneven {
        collective,
        out,
        into,
        expected,
    }
}

/// Begins collective `number`, which all ranks draw alike.
fn begin(comm: &Comm, random: &mut SeededRandom, number: usize) -> Result<Begun, Error> {
    // Each rank for itself, in the short way or in the whole one.
    let is_short = (random.up_to(15) >> (comm.rank() % 4)) & 1 == 1;
    draw(comm, random, number, |collective, plain| {
        let begun = is_short.then(|| begin_plainly(comm, plain)).flatten();
        begun.map_or_else(|| comm.begin(collective), Ok)
    })
}

/// The arguments of a collective of plain bytes.
struct Plain<'a> {
    kind: u64,
    root: u32,
    /// What is given lies where the result goes.
    in_place: bool,
    /// The operation is one of the program.
    user: bool,
    out: &'a mut Numbers,
    into: &'a mut Numbers,
}

/// Begins it as its entry point first tries it.
fn begin_plainly(comm: &Comm, plain: Plain<'_>) -> Option<RequestId> {
    let (root, in_place) = (plain.root, plain.in_place);
    let here = root == comm.rank();
    let reduction = (Predefined::Sum, Basic::Int64);
    let into = plain.into.elements();
    let own = if in_place { into } else { plain.out.elements() };
    match plain.kind {
        0 => comm.ibarrier_at_once(),
        1 => comm.ibcast_at_once(into?, root),
        2 if !(in_place && here) => {
            let all = if here { Some(into?.0) } else { None };
            comm.igather_at_once(plain.out.elements()?, all, root)
        }
        3 if !(in_place && here) => {
            let all = if here { Some(own?.0) } else { None };
            comm.iscatter_at_once(into?, all, root)
        }
        4 if !in_place => comm.iallgather_at_once(own?, into?.0),
        5 if !in_place => {
            let each = into?.0.len() / comm.size() as usize;
            comm.ialltoall_at_once(own?.0, into?, each)
        }
        6 if !plain.user => {
            let result = if here { Some(into?.0) } else { None };
            comm.ireduce_at_once(own?, result, reduction, root)
        }
        7 if !plain.user => comm.iallreduce_at_once(own?, into?.0, reduction),
        9 if !plain.user => {
            let own = plain.out.elements()?;
            comm.ireduce_scatter_block_at_once(own, into?.0, reduction)
        }
        _ => None,
    }
}

fn draw(
    comm: &Comm,
    random: &mut SeededRandom,
    number: usize,
    begin: impl FnOnce(Collective<'_>, Plain<'_>) -> Result<RequestId, Error>,
) -> Result<Begun, Error> {
    let (me, size) = (comm.rank() as usize, comm.size() as usize);
    let mut below = |limit: u64| random.up_to(limit - 1);
    let kind = below(KINDS);
    let count = match below(6) {
        0 => 0,
        1..=3 => 1 + below(3) as usize,
        4 => 1 + below(30) as usize,
        _ => 100 + below(10_000) as usize,
    };
    let root = below(size as u64) as usize;
    let in_place = below(3) == 0;
    let user = below(8) == 0;
    // Each rank for itself.
    let gaps = (below(16) >> (me % 4)) & 1 == 1 && (kind < 6 || (11..15).contains(&kind));
    let here = me == root;
    let all = |count: usize| (0..size).flat_map(move |rank| own(number, rank, count));
    let mine = own(number, me, count);
    let placed = || {
        let mut all = vec![0; count * size];
        all[me * count..(me + 1) * count].copy_from_slice(&mine);
        all
    };
    let mut out = Numbers::of(&mine, gaps);
    let mut into = Numbers::zeros(count, gaps);
    let mut expected = None;
    let blocks = if kind == 9 { size } else { 1 };
    let counts: Vec<usize> = (0..size).map(|rank| (count + rank) % 4 * count).collect();
    let all_counts = match kind {
        15 => counts.iter().sum(),
        _ => count * blocks,
    };
    let reduction: Reduction = sum(all_counts, &out.datatype(), user);
    let collective = match kind {
        0 => Collective::Barrier,
        1 => {
            if here {
                into = Numbers::of(&mine, gaps);
            }
            expected = Some(own(number, root, count));
            let data = into.buffer();
            Collective::Bcast { data, root }
        }
        2 | 4 => {
            let in_place = in_place && (here || kind == 4);
            into = if in_place {
                Numbers::of(&placed(), gaps)
            } else {
                Numbers::zeros(count * size, gaps)
            };
            let send = (!in_place).then(|| out.buffer());
            expected = (here || kind == 4).then(|| all(count).collect());
            if kind == 2 {
                let receive = here.then(|| into.blocks(size));
                Collective::Gather {
                    send,
                    receive,
                    root,
                }
            } else {
                let receive = into.blocks(size);
                Collective::Allgather { send, receive }
            }
        }
        3 => {
            out = Numbers::of(&all(count).collect::<Vec<_>>(), gaps);
            let in_place = in_place && here;
            expected = (!in_place).then(|| mine.clone());
            Collective::Scatter {
                send: here.then(|| out.blocks(size)),
                receive: (!in_place).then(|| into.buffer()),
                root,
            }
        }
        5 => {
            let mine = own(number, me, count * size);
            out = Numbers::of(&mine, gaps);
            into = if in_place {
                Numbers::of(&mine, gaps)
            } else {
                Numbers::zeros(count * size, gaps)
            };
            let part = |rank| own(number, rank, count * size)[me * count..][..count].to_vec();
            expected = Some((0..size).flat_map(part).collect());
            let send = (!in_place).then(|| out.blocks(size));
            let receive = into.blocks(size);
            Collective::Alltoall { send, receive }
        }
        9 => {
            let mine = own(number, me, count * size);
            out = Numbers::of(&mine, false);
            let sums = total(number, 0..size, count * size);
            expected = Some(sums[me * count..][..count].to_vec());
            Collective::ReduceScatterBlock {
                send: out.buffer(),
                receive: into.buffer(),
                count,
                reduction: (&reduction).into(),
            }
        }
        11..=14 => {
            let drawn = (kind, number, count);
            let uneven = uneven(drawn, (me, size, root), (in_place, gaps));
            Uneven {
                out,
                into,
                expected,
                ..
            } = uneven;
            uneven.collective
        }
        15 => {
            out = Numbers::of(&own(number, me, all_counts), false);
            into = Numbers::zeros(counts[me], false);
            let before: usize = counts[..me].iter().sum();
            let sums = total(number, 0..size, all_counts);
            expected = Some(sums[before..][..counts[me]].to_vec());
            Collective::ReduceScatter {
                send: out.buffer(),
                receive: into.buffer(),
                counts,
                reduction: (&reduction).into(),
            }
        }
        _ => {
            if in_place {
                into = Numbers::of(&mine, false);
            }
            let receive = into.buffer();
            let send = if in_place {
                receive.clone()
            } else {
                out.buffer()
            };
            let reduction = (&reduction).into();
            match kind {
                6 => {
                    expected = here.then(|| total(number, 0..size, count));
                    let receive = here.then_some(receive);
                    Collective::Reduce {
                        send,
                        receive,
                        reduction,
                        root,
                    }
                }
                7 => {
                    expected = Some(total(number, 0..size, count));
                    Collective::Allreduce {
                        send,
                        receive,
                        reduction,
                    }
                }
                8 => {
                    expected = Some(total(number, 0..me + 1, count));
                    Collective::Scan {
                        send,
                        receive,
                        reduction,
                    }
                }
                _ => {
                    expected = (me > 0).then(|| total(number, 0..me, count));
                    Collective::Exscan {
                        send,
                        receive,
                        reduction,
                    }
                }
            }
        }
    };
    let initial = into.values();
    let plain = Plain {
        kind,
        root: root as u32,
        in_place,
        user,
        out: &mut out,
        into: &mut into,
    };
    let request = begin(collective, plain)?;
    Ok(Begun {
        request,
        kind,
        _out: out,
        initial,
        into,
        expected,
    })
}

/// Ends some of those under way, by whatever call.
fn end_some(
    process: &Process,
    own: &mut SeededRandom,
    begun: &mut Vec<Begun>,
) -> Result<(), Error> {
    let below = |random: &mut SeededRandom, limit: usize| random.up_to(limit as u64 - 1) as usize;
    let way = below(own, 5);
    let ids: Vec<_> = begun.iter().map(|begun| Some(begun.request)).collect();
    let at = below(own, begun.len());
    let ended = match way {
        0 | 1 => {
            process.wait(begun[at].request)?;
            vec![at]
        }
        2 => process
            .wait_any(&ids)?
            .map(|(at, _)| at)
            .into_iter()
            .collect(),
        3 => match process.test(begun[at].request)? {
            Some(_) => vec![at],
            None => vec![],
        },
        _ => {
            let found = process.test_any(&ids)?;
            found.flatten().map(|(at, _)| at).into_iter().collect()
        }
    };
    for at in ended {
        begun.swap_remove(at).check();
    }
    Ok(())
}

/// So many random collectives.
fn play(comm: &Comm, seed: u64, number: usize) -> Result<(), Error> {
    let process = comm.process();
    let mut random = SeededRandom::new(seed);
    let mut alone = SeededRandom::new(seed ^ u64::from(comm.rank() + 1) << 20);
    let mut begun: Vec<Begun> = Vec::new();
    for number in 0..number {
        begun.push(begin(comm, &mut random, number)?);
        if random.up_to(12) == 0 {
            comm.run(Collective::Barrier)?;
        }
        // More than a board has rows for.
        let most = 1 + alone.up_to(60) as usize;
        while begun.len() > most {
            end_some(process, &mut alone, &mut begun)?;
        }
    }
    while !begun.is_empty() {
        end_some(process, &mut alone, &mut begun)?;
    }
    Ok(())
}

#[test]
fn random_collectives_are_right_everywhere() {
    for ranks in [1, 2, 3, 7] {
        everywhere(ranks, |process| {
            let number = if cfg!(miri) { 12 } else { 300 };
            play(&process.world(), u64::from(ranks), number).unwrap();
        });
    }
}

#[test]
fn random_collectives_are_right_in_a_crowd() {
    threads(Shm::group(17).expect("a memory file"), &|process| {
        play(&process.world(), 17, 200).unwrap();
    });
}

#[test]
fn random_collectives_are_right_without_common_memory_and_under_faults() {
    for seed in 0..20 {
        let mut config = Config::faulty(4, seed);
        config.shares_memory = seed % 2 == 0;
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            play(&process.world(), seed, 100).unwrap();
            process.finish().unwrap();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Persistent ones, which each rank starts and ends in an order of its own, alone or several at a time, some of them never; others
/// come and go meanwhile.
fn play_persistent(comm: &Comm, seed: u64, rounds: usize) -> Result<(), Error> {
    let process = comm.process();
    let mut random = SeededRandom::new(seed);
    let mut alone = SeededRandom::new(seed ^ u64::from(comm.rank() + 1) << 20);
    let mut kept: Vec<Begun> = Vec::new();
    let prepare = |random: &mut SeededRandom, number| {
        draw(comm, random, number, |collective, _| {
            comm.prepare(collective)
        })
    };
    for number in 0..12 {
        kept.push(prepare(&mut random, number)?);
    }
    for round in 0..rounds {
        if random.up_to(3) == 0 {
            let place = random.up_to(kept.len() as u64 - 1) as usize;
            process.free_request(kept[place].request)?;
            kept[place] = prepare(&mut random, 100 + round)?;
        }
        let mut order: Vec<usize> = (0..kept.len()).filter(|_| random.up_to(4) > 0).collect();
        let shuffle = |alone: &mut SeededRandom, order: &mut [usize]| {
            for place in 1..order.len() {
                order.swap(place, alone.up_to(place as u64) as usize);
            }
        };
        shuffle(&mut alone, &mut order);
        for place in &order {
            let one = &mut kept[*place];
            one.into.set(&one.initial);
        }
        let requests: Vec<_> = order.iter().map(|place| kept[*place].request).collect();
        if alone.up_to(1) == 0 {
            process.start_all(requests.into_iter())?;
        } else {
            for request in requests {
                process.start(request)?;
                if alone.up_to(7) == 0 {
                    std::thread::yield_now();
                }
            }
        }
        if random.up_to(5) == 0 {
            comm.run(Collective::Barrier)?;
        }
        shuffle(&mut alone, &mut order);
        for place in order {
            process.wait(kept[place].request)?;
            kept[place].check();
        }
    }
    // In an order of each rank, and some under way.
    let last: Vec<_> = kept.iter().map(|one| one.request).collect();
    process.start_all(last.iter().copied())?;
    if alone.up_to(1) == 0 {
        kept.reverse();
    }
    for one in &kept {
        process.free_request(one.request)?;
    }
    comm.run(Collective::Barrier)?;
    for number in 0..40 {
        let begun = begin(comm, &mut random, 1000 + number)?;
        process.wait(begun.request)?;
        begun.check();
    }
    // Their memory stays until all have ended: those of the others need this rank.
    comm.run(Collective::Barrier)?;
    std::mem::forget(kept);
    Ok(())
}

#[test]
fn random_persistent_collectives_are_right_everywhere() {
    for ranks in [1, 2, 3, 7] {
        everywhere(ranks, |process| {
            let rounds = if cfg!(miri) { 2 } else { 60 };
            play_persistent(&process.world(), u64::from(ranks), rounds).unwrap();
        });
    }
    threads(Shm::group(17).expect("a memory file"), &|process| {
        play_persistent(&process.world(), 17, 40).unwrap();
    });
}

#[test]
fn random_persistent_collectives_are_right_without_common_memory_and_under_faults() {
    for seed in 0..20 {
        let mut config = Config::faulty(4, seed);
        config.shares_memory = seed % 2 == 0;
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            play_persistent(&process.world(), seed, 10).unwrap();
            process.finish().unwrap();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Persistent ones of few bytes send no message once their board is made; one that is there ends in its start.
#[test]
fn a_persistent_one_starts_on_its_board() {
    on_threads(2, |process| {
        let world = process.world();
        let request = world.prepare(Collective::Barrier).unwrap();
        let again = |times| {
            for _ in 0..times {
                process.start(request).unwrap();
                process.wait(request).unwrap();
            }
        };
        again(3);
        let sent = || -> u64 {
            let counters = process.counters();
            counters.eager().messages.get() + counters.rendezvous().messages.get()
        };
        let before = sent();
        again(100);
        assert_eq!(sent(), before);
        assert_eq!(process.counters().collectives_now(), 0);
        process.free_request(request).unwrap();
    });
}

/// Ranks whose persistent ones are different get an error that says so.
#[test]
fn persistent_ones_that_do_not_fit_are_an_error() {
    everywhere(2, |process| {
        let world = process.world();
        let mut data = Numbers::zeros(1, false);
        let request = match world.rank() {
            0 => world.prepare(Collective::Barrier).unwrap(),
            _ => {
                let data = data.buffer();
                let bcast = Collective::Bcast { data, root: 0 };
                world.prepare(bcast).unwrap()
            }
        };
        process.start(request).unwrap();
        let error = process.wait(request).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Other, "{error}");
        let other = ["MPI_Bcast", "MPI_Barrier"][world.rank() as usize];
        assert!(error.text().contains(other), "{error}");
    });
}

#[test]
fn threads_of_a_rank_use_communicators_of_their_own() {
    on_threads(3, |process| {
        let world = process.world();
        let comms: Vec<_> = (0..3).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|scope| {
            for (number, comm) in comms.iter().enumerate() {
                scope.spawn(move || play(comm, number as u64, 100).unwrap());
            }
        });
    });
}

#[test]
fn communicators_come_and_go_with_what_is_outstanding() {
    everywhere(2, |process| {
        let world = process.world();
        for number in 0..100 {
            let comm = world.dup().unwrap();
            let mut random = SeededRandom::new(number);
            let begun: Vec<_> = (0..WARM + number as usize % 30)
                .map(|number| begin(&comm, &mut random, number).unwrap())
                .collect();
            comm.sever();
            for begun in begun {
                process.wait(begun.request).unwrap();
                begun.check();
            }
            comm.drop_messages();
        }
    });
}

/// Nobody waits in the calls that make the board.
#[test]
fn a_rank_is_not_held_up_while_the_board_is_made() {
    everywhere(3, |process| {
        let world = process.world();
        let mut begun = Vec::new();
        // One rank after the other begins them.
        for turn in 0..3 {
            if world.rank() == turn {
                let mut random = SeededRandom::new(5);
                begun = (0..40)
                    .map(|number| begin(&world, &mut random, number).unwrap())
                    .collect();
            }
            world.run(Collective::Barrier).unwrap();
        }
        for begun in begun {
            process.wait(begun.request).unwrap();
            begun.check();
        }
    });
}

fn barrier(world: &Comm) -> Result<(), Error> {
    let request = world.begin(Collective::Barrier)?;
    world.process().wait(request).map(drop)
}

fn warm(world: &Comm) {
    (0..WARM).for_each(|_| barrier(world).unwrap());
}

/// They send no message.
#[test]
fn no_message_is_sent() {
    on_threads(3, |process| {
        let world = process.world();
        warm(&world);
        let sent = || -> u64 {
            let counters = process.counters();
            counters.eager().messages.get() + counters.rendezvous().messages.get()
        };
        let before = sent();
        (0..100).for_each(|_| barrier(&world).unwrap());
        assert_eq!(sent(), before);
        assert_eq!(process.counters().collectives_now(), 0);
    });
}

/// Nor do those to which two ranks give different numbers of bytes, while they are few; if they are many, they do.
#[test]
fn few_bytes_of_different_lengths_send_no_message() {
    on_threads(2, |process| {
        let world = process.world();
        warm(&world);
        let sent = || -> u64 {
            let counters = process.counters();
            counters.eager().messages.get() + counters.rendezvous().messages.get()
        };
        let me = (world.rank() as usize, 2, 1);
        let run = |kind, number, count| {
            let it = uneven((kind, number, count), me, (false, false));
            process.wait(world.begin(it.collective).unwrap()).unwrap();
            if let Some(expected) = it.expected {
                assert_eq!(it.into.values(), expected);
            }
        };
        let before = sent();
        for number in 0..60 {
            run(11 + number as u64 % 4, number, 7);
        }
        assert_eq!(sent(), before);
        for number in 0..60 {
            run(11 + number as u64 % 4, number, 50);
        }
        assert!(sent() > before);
        assert_eq!(process.counters().collectives_now(), 0);
    });
}

/// A block of another length than its receiver expects is an error there, of which the others hear.
#[test]
fn blocks_of_another_length_than_expected_are_an_error() {
    for (comes, expected) in [(3, 4), (4, 3), (0, 1), (1, 0), (3, 40_000), (40_000, 3)] {
        everywhere(3, |process| {
            let rank = process.world().rank() as usize;
            let check = |comm: &Comm, collective: Collective<'_>, at: bool, call: &str| {
                let ended = comm.begin(collective).and_then(|it| process.wait(it));
                let later = (0..2).try_for_each(|_| barrier(comm));
                assert!(ended.is_err() || !at);
                assert!(later.is_err(), "all hear of it");
                for error in [ended.err(), later.err()].iter().flatten() {
                    assert_eq!(error.class(), ErrorClass::Truncate, "{error}");
                    assert!(error.text().contains(call), "{error}");
                    assert!(error.text().contains("of MPI_COMM_WORLD"), "{error}");
                }
            };
            let warmed = || {
                let comm = process.world().dup().unwrap();
                warm(&comm);
                comm
            };
            // Rank 2 gives what rank 0 does not expect.
            let mut send = Numbers::of(&vec![5; if rank == 2 { comes } else { 2 }], false);
            let counts = [2, 2, expected];
            let mut receive = Numbers::zeros(counts.iter().sum::<usize>() + 3, false);
            let gatherv = Collective::Gatherv {
                send: Some(send.buffer()),
                receive: (rank == 0).then(|| apart(&mut receive, &counts)),
                root: 0,
            };
            check(&warmed(), gatherv, rank == 0, "MPI_Gatherv");
            // Rank 0 gives rank 1 what it does not expect.
            let given = [2, comes, 2];
            let mut send = Numbers::of(&vec![6; given.iter().sum::<usize>() + 3], false);
            let mut receive = Numbers::zeros(if rank == 1 { expected } else { 2 }, false);
            let scatterv = Collective::Scatterv {
                send: (rank == 0).then(|| apart(&mut send, &given)),
                receive: Some(receive.buffer()),
                root: 0,
            };
            check(&warmed(), scatterv, rank == 1, "MPI_Scatterv");
            // Rank 2 gives rank 1 what it does not expect.
            let given = [2, if rank == 2 { comes } else { 2 }, 2];
            let wanted = [2, 2, if rank == 1 { expected } else { 2 }];
            let mut send = Numbers::of(&vec![7; given.iter().sum::<usize>() + 3], false);
            let mut receive = Numbers::zeros(wanted.iter().sum::<usize>() + 3, false);
            let alltoallv = Collective::Alltoallv {
                name: "MPI_Alltoallv",
                send: Some(apart(&mut send, &given)),
                receive: apart(&mut receive, &wanted),
            };
            check(&warmed(), alltoallv, rank == 1, "MPI_Alltoallv");
        });
    }
}

/// Blocks that come as messages before a member that is late belong to no other collective, whatever the root.
#[test]
fn long_blocks_wait_for_a_late_member() {
    on_threads(3, |process| {
        let world = process.world();
        warm(&world);
        (0..WARM).for_each(|_| world.run(Collective::Barrier).unwrap());
        let me = world.rank() as usize;
        for (kind, count) in [(11, 100), (11, 20_000), (14, 100), (14, 20_000), (12, 100)] {
            for (number, root) in [(3, 1), (4, 1), (3, 2), (4, 2)] {
                let drawn = (kind, number, count);
                let [one, other] = [(); 2].map(|()| uneven(drawn, (me, 3, root), (false, false)));
                if me == 0 {
                    std::thread::sleep(Duration::from_millis(120));
                }
                process.wait(world.begin(one.collective).unwrap()).unwrap();
                world.run(Collective::Barrier).unwrap();
                if me == 0 {
                    std::thread::sleep(Duration::from_millis(120));
                }
                world.run(other.collective).unwrap();
                for it in [(one.into, one.expected), (other.into, other.expected)] {
                    if let (into, Some(expected)) = it {
                        assert_eq!(into.values(), expected);
                    }
                }
            }
        }
    });
}

/// Who comes last has no request.
#[test]
fn what_is_there_ends_at_once() {
    on_threads(2, |process| {
        let world = process.world();
        warm(&world);
        for root in [0, 1, 0] {
            let mut data = Numbers::of(&[i64::from(world.rank())], false);
            let begin = |data: &mut Numbers| {
                let (data, root) = (data.buffer(), root as usize);
                world.begin(Collective::Bcast { data, root }).unwrap()
            };
            if world.rank() == root {
                assert_eq!(begin(&mut data), RequestId::DONE);
                world.run(Collective::Barrier).unwrap();
            } else {
                world.run(Collective::Barrier).unwrap();
                assert_eq!(begin(&mut data), RequestId::DONE);
            }
            assert_eq!(data.values(), [i64::from(root)]);
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
            let mut number = seed;
            // Their memory stays: some may be under way.
            let error = loop {
                let mut random = SeededRandom::new(number);
                let mut all = Vec::new();
                let mut error = None;
                for number in 0..30 {
                    match begin(&world, &mut random, number) {
                        Ok(begun) => all.push(begun),
                        Err(cause) => error = error.or(Some(cause)),
                    }
                }
                for begun in &all {
                    match process.wait(begun.request) {
                        Ok(_) => begun.check(),
                        Err(cause) => error = error.or(Some(cause)),
                    }
                }
                if let Some(error) = error {
                    break error;
                }
                number += 1000;
            };
            if process.me() != dead {
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
                let error = barrier(&world).unwrap_err();
                assert_eq!(error.class(), ErrorClass::ProcFailed, "{error}");
            }
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Of a revoked communicator nothing stays outstanding.
#[test]
fn a_revocation_ends_what_is_outstanding() {
    everywhere(3, |process| {
        let world = process.world().dup().unwrap();
        warm(&world);
        if world.rank() == 0 {
            world.revoke();
        } else {
            let begun: Vec<_> = (0..20).map(|_| world.begin(Collective::Barrier)).collect();
            for request in begun.into_iter().flatten() {
                let error = process.wait(request).unwrap_err();
                assert_eq!(error.class(), ErrorClass::Revoked, "{error}");
            }
        }
        let error = barrier(&world).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Revoked, "{error}");
    });
}

/// Ranks that do not agree get an error that says so, and do not hang.
#[test]
fn disagreement_is_an_error() {
    let bcast = |world: &Comm, count: usize, root: usize| {
        let mut data = Numbers::zeros(count, false);
        let request = world.begin(Collective::Bcast {
            data: data.buffer(),
            root,
        })?;
        world.process().wait(request).map(drop)
    };
    for (one, other) in [(3, 4), (3, 5000), (5000, 3), (5000, 5001)] {
        everywhere(2, |process| {
            let world = process.world();
            warm(&world);
            let ended = bcast(&world, [one, other][world.rank() as usize], 0);
            if world.rank() == 1 {
                let error = ended.unwrap_err();
                assert_eq!(error.class(), ErrorClass::Truncate, "{error}");
                assert!(error.text().contains("MPI_Bcast"), "{error}");
                assert!(error.text().contains("agree on all ranks"), "{error}");
            }
        });
    }
    // Other calls, other operations; also behind others that fit.
    for before in [0, 3, 40] {
        everywhere(2, |process| {
            let world = process.world();
            warm(&world);
            let begun: Vec<_> = (0..before)
                .map(|_| world.begin(Collective::Barrier).unwrap())
                .collect();
            let error = match world.rank() {
                0 => barrier(&world).unwrap_err(),
                _ => bcast(&world, 1, 0).unwrap_err(),
            };
            assert_eq!(error.class(), ErrorClass::Other, "{error}");
            let other = ["MPI_Bcast", "MPI_Barrier"][world.rank() as usize];
            assert!(error.text().contains(other), "{error}");
            for request in begun {
                process.wait(request).unwrap();
            }
        });
    }
    everywhere(2, |process| {
        let world = process.world();
        warm(&world);
        let op = [Predefined::Sum, Predefined::Max][world.rank() as usize];
        let (mut send, mut receive) = (Numbers::zeros(1, false), Numbers::zeros(1, false));
        let reduction = Reduction {
            op: Op::predefined(op),
            ..sum(1, &send.datatype(), false)
        };
        let request = world
            .begin(Collective::Allreduce {
                send: send.buffer(),
                receive: receive.buffer(),
                reduction: (&reduction).into(),
            })
            .unwrap();
        let error = process.wait(request).unwrap_err();
        assert!(error.text().contains("operation"), "{error}");
    });
}
