//! Several worlds over one fabric: groups that share no communicator meet at ports.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_atomic::{AtomicBool, Ordering};

use crate::common::{Part, over};
use weft_fabric::{Fabric, Peer};
use weft_fabric_local::Local;
use weft_fabric_shm::Shm;
use weft_fabric_sim::{Config, Fault, World};
use weft_mpi::comm::{AwaitedWorld, Port};
use weft_mpi::{Comm, ErrorClass, Group, Process, Source, TagPattern, Target};

/// Peers of the first world; those behind them are the second one.
const FIRST: u32 = 2;
const ALL: u32 = 5;

/// A rank of one of the two worlds.
fn process(fabric: Box<dyn Fabric>) -> Arc<Process> {
    let me = fabric.me().0;
    if me < FIRST {
        return Process::in_world(fabric, FIRST, Group::identity(FIRST), 0);
    }
    let members = (FIRST..ALL).rev().map(Peer).collect();
    Process::in_world(fabric, FIRST, Group::of(members), 1)
}

fn to_the_end(fabric: Box<dyn Fabric>, rank: &dyn Fn(Arc<Process>)) {
    let process = process(fabric);
    rank(Arc::clone(&process));
    process.drain();
}

fn on_threads(rank: Part<'_>) {
    fn threads<F: Fabric + 'static>(endpoints: Vec<F>, rank: Part<'_>) {
        std::thread::scope(|scope| {
            for endpoint in endpoints {
                scope.spawn(move || to_the_end(Box::new(endpoint), rank));
            }
        });
    }
    threads(Shm::group(ALL).expect("a memory file"), rank);
    threads(Local::group(ALL as usize), rank);
}

fn everywhere(rank: impl Fn(Arc<Process>) + Sync) {
    on_threads(&rank);
    simulated(&rank);
}

fn simulated(rank: Part<'_>) {
    for seed in 0..8 {
        let world = World::new(Config::new(ALL as usize, seed));
        if let Err(failure) = world.run(|endpoint| to_the_end(Box::new(endpoint), rank)) {
            panic!("seed {seed}: {failure}");
        }
    }
}

/// Passes a byte around: everybody is reached, nobody else.
fn ring(comm: &Comm) {
    let (rank, size) = (comm.rank(), comm.size());
    let (mut out, mut into) = ([rank as u8], [0]);
    let status = comm
        .sendrecv(
            (over(&mut out), Target::Rank((rank + 1) % size), 0),
            (over(&mut into), Source::Any, TagPattern::Any),
        )
        .unwrap();
    assert_eq!(status.source, Some((rank + size - 1) % size));
    assert_eq!(u32::from(into[0]), (rank + size - 1) % size);
}

const PORT: Port = Port {
    owner: Peer(1),
    number: 7,
};

/// Both worlds meet: rank 1 of the first one accepts.
fn meet(world: &Comm, first: bool) -> Arc<Comm> {
    let root = 1;
    let port = (world.rank() == root).then_some(Ok(PORT));
    if first {
        world.accept(root, port).unwrap()
    } else {
        world.connect_to(root, port).unwrap()
    }
}

#[test]
fn two_worlds_meet_and_part() {
    everywhere(|process| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&told);
        process
            .connections()
            .tell(move |connected| listener.lock().unwrap().push(connected));
        let world = process.world();
        let first = process.me().0 < FIRST;
        assert_eq!(world.size(), if first { FIRST } else { ALL - FIRST });
        ring(&world);
        for _ in 0..2 {
            let between = meet(&world, first);
            assert_eq!(between.size() + between.remote_group().unwrap().size(), ALL);
            // Of both worlds' own communicators nothing is mixed up with it.
            let own = world.dup().unwrap();
            let merged = between.merge(!first).unwrap();
            assert_eq!((merged.size(), own.size()), (ALL, world.size()));
            ring(&merged);
            ring(&own);
            ring(&world);
            merged.settle().unwrap();
            between.settle().unwrap();
        }
        assert_eq!(*told.lock().unwrap(), [true, false, true, false]);
    });
}

/// Who dies after it has parted dies alone: by then all of its own side have parted as well, however slow they are.
#[test]
fn all_have_disconnected_when_one_returns() {
    let parted: Arc<[AtomicBool; ALL as usize]> = Arc::default();
    on_threads(&|process: Arc<Process>| {
        let me = process.me().0;
        let mine = Arc::clone(&parted);
        process.connections().tell(move |connected| {
            // One of one side, and not its leader.
            if !connected && me == FIRST {
                std::thread::sleep(Duration::from_millis(100));
            }
            mine[me as usize].store(!connected, Ordering::SeqCst);
        });
        meet(&process.world(), me < FIRST).settle().unwrap();
        let all = parted.iter().all(|parted| parted.load(Ordering::SeqCst));
        assert!(all, "process {me} returned before {parted:?}");
    });
}

/// Whoever dies as soon as it has parted is no loss to those who have not returned.
#[test]
fn a_death_after_disconnecting_is_no_loss() {
    const DIES: Peer = Peer(3);
    let play = |config: Config, expected: Option<Duration>| {
        let world = World::new(config);
        let results = world.run(|endpoint| {
            let (handle, returned) = (endpoint.handle(), Cell::new(Duration::ZERO));
            to_the_end(Box::new(endpoint), &|process: Arc<Process>| {
                let between = meet(&process.world(), process.me().0 < FIRST);
                let parted = between.settle();
                assert!(parted.is_ok(), "{:?}: {parted:?}", process.me());
                returned.set(handle.now());
                if process.me() == DIES {
                    // Here, and the others hear of it at once.
                    handle.spend(Duration::from_millis(1));
                }
            });
            returned.get()
        });
        match results {
            Ok(report) => report.results.into_iter().nth(DIES.0 as usize).flatten(),
            Err(failure) => panic!("death at {expected:?}: {failure}"),
        }
    };
    for seed in 0..20 {
        let mut config = Config::new(ALL as usize, seed);
        config.detection = Duration::ZERO;
        let at = play(config.clone(), None);
        assert!(at.is_some(), "nobody dies without a fault");
        let at = at.unwrap_or_default();
        let dies = config.with(Fault::Death { peer: DIES, at });
        assert_eq!(play(dies, Some(at)), None, "it died");
    }
}

#[test]
fn an_error_of_the_root_is_that_of_all() {
    everywhere(|process| {
        let world = process.world();
        let class = |made: weft_mpi::Result<Arc<Comm>>| made.unwrap_err().class();
        // The others may be the first that end with it, and tell it.
        let class_of_told = |made: weft_mpi::Result<Arc<Comm>>| {
            let error = made.unwrap_err();
            let text = error.text();
            assert!(text.contains("no such port; name another one"), "{text}");
            error.class()
        };
        let wrong = || weft_mpi::Error::new(ErrorClass::Port, "no such port; name another one");
        let port = (world.rank() == 0).then(|| Err(wrong()));
        assert_eq!(class_of_told(world.accept(0, port)), ErrorClass::Port);
        let port = (world.rank() == 0).then(|| Err(wrong()));
        assert_eq!(class_of_told(world.connect_to(0, port)), ErrorClass::Port);
        assert_eq!(class(world.connect_to(0, None)), ErrorClass::Port);
        assert_eq!(class(world.accept(9, None)), ErrorClass::Rank);
        let asked = (world.rank() == 0).then(|| (Err(wrong()), vec![3, 4]));
        let (numbers, made) = world.spawned(0, asked).unwrap();
        assert_eq!(numbers, [3, 4]);
        let expected = if world.rank() == 0 {
            ErrorClass::Port
        } else {
            ErrorClass::Spawn
        };
        assert_eq!(class_of_told(made), expected);
        ring(&world);
    });
}

/// Of a world that was started, the one who calls for all dies between its call and the answer: the spawn has failed, as if it had not
/// called.
#[test]
fn a_world_whose_caller_dies_before_it_is_answered_is_not_started() {
    const CALLS: Peer = Peer(ALL - 1);
    let at = Duration::from_millis(1);
    for (seed, reason) in [(0, None), (1, Some("the launcher knows why"))] {
        let mut config = Config::new(ALL as usize, seed);
        config.detection = Duration::ZERO;
        let world = World::new(config.with(Fault::Death { peer: CALLS, at }));
        let outcome = world.run(|endpoint| {
            let handle = endpoint.handle();
            to_the_end(Box::new(endpoint), &|process: Arc<Process>| {
                let world = process.world();
                if process.me().0 >= FIRST {
                    if process.me() == CALLS {
                        _ = world.connect_to(0, Some(Ok(PORT)));
                    }
                    return;
                }
                let missing = || reason.map(str::to_owned);
                let root = PORT.owner.0;
                let asked = (process.me() == PORT.owner).then(|| {
                    handle.spend(at * 2);
                    let (port, number) = (PORT, 1);
                    let missing = &missing;
                    (
                        Ok(AwaitedWorld {
                            port,
                            number,
                            missing,
                        }),
                        vec![0],
                    )
                });
                let at_root = asked.is_some();
                let (_, made) = world.spawned(root, asked).unwrap();
                let error = made.unwrap_err();
                assert_eq!(error.class(), ErrorClass::Spawn, "{error}");
                if at_root {
                    let told = reason.unwrap_or("is lost");
                    assert!(error.text().contains(told), "{error}");
                }
                ring(&world);
            });
        });
        if let Err(failure) = outcome {
            panic!("{reason:?}: {failure}");
        }
    }
}

/// Waits until so many messages have come that nobody receives.
fn until_have_come(process: &Process, messages: usize) {
    while process.unexpected_messages() < messages {
        let mut looks = 0;
        process.notify();
        process.wait_until(|| {
            looks += 1;
            looks > 1
        });
    }
}

/// Who accepts meets those who call after it.
#[test]
fn a_call_whose_communicator_is_revoked_is_withdrawn() {
    let has_called = Arc::new(AtomicBool::new(false));
    on_threads(&|process: Arc<Process>| {
        let world = process.world();
        let first = process.me().0 < FIRST;
        if process.me() == PORT.owner {
            until_have_come(&process, 1);
            has_called.store(true, Ordering::SeqCst);
            until_have_come(&process, 2);
        } else if !first {
            let comm = world.dup().unwrap();
            if comm.rank() == 0 {
                while !has_called.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                comm.revoke();
            }
            let port = (comm.rank() == 1).then_some(Ok(PORT));
            let error = comm.connect_to(1, port).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Revoked, "{error}");
            comm.drop_messages();
            comm.sever();
        }
        let between = meet(&world, first);
        between.settle().unwrap();
        // For the next fabric.
        has_called.store(false, Ordering::SeqCst);
        ring(&world);
    });
}

#[test]
fn a_caller_at_a_port_that_is_closed_is_told() {
    on_threads(&|process: Arc<Process>| {
        let world = process.world();
        if process.me() == PORT.owner {
            // The call, and what the other one of this world sends around.
            until_have_come(&process, 2);
            process.close_port(PORT.number);
        } else if process.me().0 >= FIRST {
            let port = (world.rank() == 0).then_some(Ok(PORT));
            let error = world.connect_to(0, port).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Port);
        }
        ring(&world);
    });
}
