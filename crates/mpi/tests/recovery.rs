//! Ranks die at any action, and those that are left go on: they agree alike, get the same smaller communicator, hear that
//! one is revoked, and nobody waits for ever.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Part, everywhere, over};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weft_fabric::Peer;
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::coll::{self, Members, Reduction};
use weft_mpi::comm::{AwaitedWorld, Port};
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_mpi::{
    Buffer, Comm, ErrorClass, Group, Op, Process, Result, SendMode, Source, TagPattern, Target,
};

/// Seeds that are played, unless `WEFT_SEEDS` says how many.
const SEEDS: u64 = 240;

fn seeds() -> u64 {
    let named = std::env::var("WEFT_SEEDS").ok();
    named.map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"))
}

/// The sums over all of a communicator of `count` numbers of each rank of the job.
fn sums(comm: &Comm, count: usize) -> Result<Vec<i64>> {
    let me = i64::from(comm.process().me().0);
    let mut own: Vec<i64> = (0..count as i64).map(|place| me * me + place).collect();
    let mut all = vec![0i64; count];
    let datatype = Arc::clone(Basic::Int64.datatype());
    // SAFETY: the memory is kept until the collective has ended.
    let over = |numbers: &mut Vec<i64>| unsafe {
        Buffer::new(numbers.as_mut_ptr().cast(), count, &datatype)
    };
    let (own_buffer, all_buffer) = (over(&mut own), over(&mut all));
    let reduction = Reduction {
        count,
        datatype: Arc::clone(&datatype),
        op: Op::predefined(Predefined::Sum),
    };
    let schedule = coll::allreduce(&Members::of(comm), &own_buffer, &all_buffer, &reduction)?;
    comm.run(schedule)?;
    Ok(all)
}

fn expected(group: &Group, count: usize) -> Vec<i64> {
    let sum = |place: i64| {
        let members = group.members();
        members
            .map(|peer| i64::from(peer.0) * i64::from(peer.0) + place)
            .sum()
    };
    (0..count as i64).map(sum).collect()
}

fn barrier(comm: &Comm) -> Result<()> {
    comm.run(coll::barrier(&Members::of(comm))?)
}

/// A collective of the round; true if it went well.
fn work(comm: &Comm, round: u32) -> bool {
    let count = [1, 700, 9000][round as usize % 3];
    let outcome = match round % 4 {
        3 => (0..4).try_for_each(|_| barrier(comm)),
        _ => sums(comm, count).map(|sums| {
            assert!(sums == expected(comm.group(), count), "round {round}");
        }),
    };
    let class = outcome.as_ref().err().map(weft_mpi::Error::class);
    let known = [
        None,
        Some(ErrorClass::ProcFailed),
        Some(ErrorClass::Revoked),
        // Whoever has ended a collective for a loss withdraws what it sent to the others.
        Some(ErrorClass::Other),
    ];
    assert!(known.contains(&class), "{outcome:?}");
    outcome.is_ok()
}

/// What a rank tells of a round: the flag, whether losses were acknowledged, and who is left.
type Told = Vec<(i32, bool, Vec<Peer>)>;

/// Works, agrees whether that went well, and goes on with those that are left.
fn rounds(process: &Arc<Process>, rounds: u32, random: &mut StdRng) -> Told {
    process.prepare_for_losses();
    let mut comm = process.world();
    let mut told = Told::new();
    for round in 0..rounds {
        let well = work(&comm, round);
        if !well {
            comm.revoke();
            assert!(comm.is_revoked());
        }
        if random.random::<bool>() {
            comm.acknowledge_failed(usize::MAX);
        }
        let mut flag = if well { -1 } else { !1 };
        let agreed = comm.agree(&mut flag);
        let class = agreed.as_ref().err().map(weft_mpi::Error::class);
        assert!(
            matches!(class, None | Some(ErrorClass::ProcFailed)),
            "{agreed:?}"
        );
        if flag & 1 == 0 || agreed.is_err() {
            comm = comm.shrink().expect("a context is left");
        }
        told.push((flag, agreed.is_ok(), comm.group().members().collect()));
    }
    told
}

fn play(seed: u64, config: impl Fn(&mut StdRng, u32) -> (Config, Vec<u32>)) {
    let mut random = StdRng::seed_from_u64(seed);
    let ranks: u32 = random.random_range(2..8);
    let (config, dead) = config(&mut random, ranks);
    let faults = format!("{:?}", config.faults);
    let outcome = World::new(config).run(|endpoint| {
        let process = Process::new(Box::new(endpoint));
        let mut random = StdRng::seed_from_u64(seed << 8 | u64::from(process.me().0));
        let told = rounds(&process, 6, &mut random);
        process.finish().expect("losses are no error");
        told
    });
    let report = match outcome {
        Ok(report) => report,
        Err(failure) => panic!("seed {seed}: {failure}\nfaults: {faults}"),
    };
    let mut left = report.results.iter().flatten();
    let Some(first) = left.next() else {
        return assert_eq!(dead.len() as u32, ranks, "seed {seed}: nobody is left");
    };
    for other in left {
        assert_eq!(first, other, "seed {seed}, {faults}");
    }
    for (rank, result) in report.results.iter().enumerate() {
        let alive = result.is_some();
        assert!(alive || dead.contains(&(rank as u32)), "seed {seed}");
        let there = first
            .iter()
            .all(|(_, _, group)| group.contains(&Peer(rank as u32)));
        assert!(!alive || there, "seed {seed}: rank {rank} was left out");
    }
}

#[test]
fn the_survivors_agree_after_a_death_at_any_action() {
    for seed in 0..seeds() {
        play(seed, |random, ranks| {
            let base = match seed % 3 {
                0 => Config::faulty(ranks as usize, seed),
                _ => Config::new(ranks as usize, seed),
            };
            let mut dead: Vec<u32> = (0..ranks).collect();
            // Low ranks coordinate.
            for _ in 0..random.random_range(0..ranks) {
                dead.remove(random.random_range(0..dead.len()));
            }
            let mut config = base;
            for peer in dead.iter().copied().map(Peer) {
                let actions = random.random_range(1..120);
                config = config.with(Fault::DeathAfter { peer, actions });
            }
            (config, dead)
        });
    }
}

#[test]
fn the_survivors_agree_after_a_death_at_any_time() {
    for seed in 0..seeds() / 4 {
        play(seed, |random, ranks| {
            let mut config = Config::new(ranks as usize, seed);
            if random.random::<bool>() {
                config.detection = Duration::ZERO;
            }
            let dead: Vec<u32> = (0..random.random_range(1..ranks)).collect();
            for peer in dead.iter().copied().map(Peer) {
                let at = Duration::from_nanos(random.random_range(0..150_000));
                config = config.with(Fault::Death { peer, at });
            }
            (config, dead)
        });
    }
}

/// Runs `rank` as so many ranks of which the last one dies, under several seeds.
fn without_the_last(ranks: u32, rank: impl Fn(Arc<Process>) + Sync) {
    but_the_last(ranks, &rank);
}

fn but_the_last(ranks: u32, rank: Part<'_>) {
    let dead = Peer(ranks - 1);
    for seed in 0..16 {
        let at = Duration::from_micros(20 * seed);
        let config = Config::new(ranks as usize, seed).with(Fault::Death { peer: dead, at });
        let outcome = World::new(config).run(|endpoint| {
            let process = Process::new(Box::new(endpoint));
            if process.me() == dead {
                let world = process.world();
                _ = world.recv(over(&mut [0]), Source::Rank(0), TagPattern::Exact(77));
                return;
            }
            rank(Arc::clone(&process));
            process.drain();
        });
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure}");
        }
    }
}

fn class<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorClass {
    outcome.expect_err("an error").class()
}

#[test]
fn receives_from_anybody_are_held_up_until_the_loss_is_acknowledged() {
    without_the_last(3, |process| {
        let world = process.world();
        let mut got = [0];
        let waiting = world
            .irecv(over(&mut got), Source::Any, TagPattern::Any)
            .unwrap();
        assert_eq!(class(process.wait(waiting)), ErrorClass::ProcFailedPending);
        assert_eq!(class(process.test(waiting)), ErrorClass::ProcFailedPending);
        let mut none = Vec::new();
        let list = [Some(waiting), None];
        let all = process.wait_all(&mut (&list[..], &mut none));
        assert_eq!(class(all), ErrorClass::ProcFailedPending);
        assert_eq!(
            class(process.wait_any(&list)),
            ErrorClass::ProcFailedPending
        );
        assert_eq!(
            class(process.test_some(&list)),
            ErrorClass::ProcFailedPending
        );
        let blocking = world.recv(over(&mut [0]), Source::Any, TagPattern::Exact(9));
        assert_eq!(class(blocking), ErrorClass::ProcFailed);
        assert_eq!(world.failed().members().collect::<Vec<_>>(), [Peer(2)]);
        assert_eq!(world.acknowledge_failed(0), 0);
        assert_eq!(class(process.test(waiting)), ErrorClass::ProcFailedPending);
        assert_eq!(world.acknowledge_failed(5), 1);
        assert_eq!(world.acknowledged().size(), 1);
        assert_eq!(process.test(waiting), Ok(None));
        let other = Target::Rank(1 - world.rank());
        world
            .send(SendMode::Standard, over(&mut [5]), other, 0)
            .unwrap();
        process.wait(waiting).unwrap();
        assert_eq!(got, [5]);
    });
}

#[test]
fn an_agreement_names_losses_that_not_all_have_acknowledged() {
    without_the_last(4, |process| {
        let world = process.world();
        // Until it is known here.
        let gone = world.recv(over(&mut [0]), Source::Rank(3), TagPattern::Any);
        assert_eq!(class(gone), ErrorClass::ProcFailed);
        if world.rank() == 1 {
            world.acknowledge_failed(1);
        }
        let mut flag = 0b111 & !(1 << world.rank());
        assert_eq!(class(world.agree(&mut flag)), ErrorClass::ProcFailed);
        assert_eq!(flag, 0);
        world.acknowledge_failed(1);
        let mut flag = !(1 << world.rank());
        world.agree(&mut flag).unwrap();
        assert_eq!(flag, !7);
    });
}

#[test]
fn a_sleeper_on_a_revoked_communicator_is_told() {
    everywhere(4, |process| {
        let world = process.world();
        for what in 0..8u32 {
            let comm = world.dup().unwrap();
            if what % 2 == 1 {
                // Then it has a board.
                (0..6).try_for_each(|_| barrier(&comm)).unwrap();
            }
            if comm.rank() == 3 {
                comm.revoke();
            }
            let mut room = vec![0; 100_000];
            let outcome = match (what / 2, comm.rank()) {
                (0, _) => barrier(&comm),
                (1, 3) => comm.check(),
                (1, rank) => {
                    let from = if rank == 0 {
                        Source::Any
                    } else {
                        Source::Rank(3)
                    };
                    comm.recv(over(&mut room), from, TagPattern::Any).map(drop)
                }
                (2, 0) => {
                    let to = Target::Rank(1);
                    comm.send(SendMode::Synchronous, over(&mut room), to, 0)
                }
                (2, _) => comm.probe(Source::Rank(0), TagPattern::Exact(5)).map(drop),
                (_, _) => {
                    let from = Source::Rank(3);
                    let request = comm.irecv(over(&mut room), from, TagPattern::Any);
                    request.and_then(|request| process.wait(request).map(drop))
                }
            };
            assert_eq!(class(outcome), ErrorClass::Revoked, "{what}");
            for _ in 0..2 {
                assert_eq!(class(comm.dup()), ErrorClass::Revoked);
                assert_eq!(
                    class(comm.send(SendMode::Standard, over(&mut [1]), Target::Null, 0)),
                    ErrorClass::Revoked
                );
            }
            let next = comm.shrink().unwrap();
            assert_eq!((next.rank(), next.size()), (comm.rank(), 4));
            barrier(&next).unwrap();
            for comm in [comm, next] {
                comm.drop_messages();
                comm.sever();
            }
        }
        // Others have noticed nothing.
        barrier(&world).unwrap();
    });
}

/// The root of ranks that accept, or that have had processes started, waits for a caller, who may never come, and that of ranks that
/// connect for one who accepts: it hears that the call of its own group cannot come to its end.
fn nobody_comes(comm: &Comm, expected: ErrorClass) {
    let port = Port {
        owner: Peer(0),
        number: 9,
    };
    let at_root = comm.rank() == 0;
    let made = comm.accept(0, at_root.then_some(Ok(port)));
    assert_eq!(class(made), expected);
    let missing = || None;
    let asked = at_root.then_some((
        Ok(AwaitedWorld {
            port,
            number: 1,
            missing: &missing,
        }),
        vec![0],
    ));
    let made = comm.spawned(0, asked).and_then(|(_, made)| made);
    assert_eq!(class(made), expected);
    let owner = Peer(1);
    let of_another = Port { owner, ..port };
    let made = comm.connect_to(0, at_root.then_some(Ok(of_another)));
    assert_eq!(class(made), expected);
}

#[test]
fn a_root_that_waits_for_the_other_group_hears_of_a_loss() {
    without_the_last(3, |process| {
        nobody_comes(&process.world(), ErrorClass::ProcFailed);
    });
}

#[test]
fn a_root_that_waits_for_the_other_group_hears_of_a_revocation() {
    everywhere(3, |process| {
        let comm = process.world().dup().unwrap();
        if comm.rank() == 2 {
            comm.revoke();
        }
        nobody_comes(&comm, ErrorClass::Revoked);
        comm.drop_messages();
        comm.sever();
    });
}

/// A call on a communicator that says whether it may be used.
trait Check {
    fn check(&self) -> Result<()>;
}

impl Check for Comm {
    fn check(&self) -> Result<()> {
        self.iprobe(Source::Any, TagPattern::Any).map(drop)
    }
}

#[test]
fn agreements_under_way_are_decided_in_their_order() {
    everywhere(3, |process| {
        let world = process.world();
        let me = world.rank();
        let mut flags = [[0u8; 4]; 5];
        let requests: Vec<_> = flags
            .iter_mut()
            .zip(0i32..)
            .map(|(flag, number)| {
                *flag = (number << 4 | 7 & !(1 << me)).to_ne_bytes();
                let Buffer::Flat(region, _) = over(flag) else {
                    unreachable!("bytes lie together")
                };
                world.iagree(region).unwrap()
            })
            .collect();
        let (shrinking, made) = world.ishrink(None).unwrap();
        barrier(&world).unwrap();
        for request in requests.into_iter().rev() {
            process.wait(request).unwrap();
        }
        process.wait(made).unwrap();
        let flags = flags.map(i32::from_ne_bytes);
        assert_eq!(flags, [0, 16, 32, 48, 64]);
        let shrunk = shrinking.made().expect("it has ended");
        assert_eq!((shrunk.rank(), shrunk.size()), (me, 3));
        barrier(&shrunk).unwrap();
    });
}

#[test]
fn ranks_that_agree_and_shrink_at_once_are_told() {
    everywhere(3, |process| {
        let world = process.world();
        let outcome = match world.rank() {
            1 => world.shrink().map(drop),
            _ => world.agree(&mut 1),
        };
        assert_eq!(class(outcome), ErrorClass::Other);
    });
}

#[test]
fn both_sides_agree_and_shrink() {
    everywhere(5, |process| {
        let world = process.world();
        let me = world.rank();
        let side = world
            .split(Some((me % 2).cast_signed()), 0)
            .unwrap()
            .unwrap();
        let leader = 1 - me % 2;
        let bridge = (side.rank() == 0).then_some(weft_mpi::comm::Bridge {
            comm: &world,
            remote_leader: leader,
            tag: 3,
        });
        let between = side.connect(0, bridge).unwrap();
        let mut flag = !(1 << me);
        between.agree(&mut flag).unwrap();
        assert_eq!(flag, !31);
        between.revoke();
        let shrunk = between.shrink().unwrap();
        let sizes = |comm: &Comm| (comm.size(), comm.remote_group().unwrap().size());
        assert_eq!(sizes(&shrunk), sizes(&between));
        let merged = shrunk.merge(false).unwrap();
        assert_eq!(merged.size(), 5);
        barrier(&merged).unwrap();
    });
}
