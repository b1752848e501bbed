//! A job of more ranks than cores: a rank that waits for others gives its core away once, within the call that ends at once.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crate::common::over;
use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Bell, Fabric, Load, Peer, forward_bell, forward_fabric};
use weft_fabric_local::Local;
use weft_mpi::coll::Collective;
use weft_mpi::p2p::Listed;
use weft_mpi::{Process, SendMode, Source, TagPattern, Target};

/// Barriers before a communicator surely has its board.
const WARM: usize = 5;
/// Waits in which the core is given away at once; the next one is left to the full path.
const GIVEN: u32 = 15;

/// An endpoint on whose core all others stand: when it has asked for that, the other rank runs until it has come to the next barrier.
struct Beside {
    inner: Local,
    turns: Arc<OtherRuns>,
}

struct OtherRuns {
    /// So often.
    left: AtomicU32,
    channels: Mutex<(Sender<()>, Receiver<()>)>,
}

impl OtherRuns {
    fn run_other(&self) {
        let channels = self.channels.lock().expect("one thread");
        channels.0.send(()).expect("the other rank is there");
        channels.1.recv().expect("the other rank is there");
    }
}

impl Fabric for Beside {
    forward_fabric!(self => self.inner; me, peers, incarnation, limits, bell, now, route, try_send, inject, take_next, grant, offer,
        revoke, get, put, signal, signals, take_signals, poll, forget, shares_memory, allocate_shared, release_shared,
        attach_shared, is_asleep, wake, is_flushed, say_goodbye, traffic);

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        let any = peers.next().is_some();
        if any && self.turns.left.load(Ordering::Relaxed) > 0 {
            self.turns.left.fetch_sub(1, Ordering::Relaxed);
            self.turns.run_other();
        }
        Some(any)
    }
}

#[test]
fn a_barrier_ends_at_once_when_the_core_was_given_away() {
    let mut endpoints = Local::group(2).into_iter();
    let mut endpoint = || endpoints.next().expect("there are two");
    let (first, second) = (endpoint(), endpoint());
    let (go, goes) = mpsc::channel();
    let (came, comes) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let turns = Arc::new(OtherRuns {
                left: AtomicU32::new(0),
                channels: Mutex::new((go, comes)),
            });
            let process = Process::new(Box::new(Beside {
                inner: first,
                turns: Arc::clone(&turns),
            }));
            let world = process.world();
            let barrier = || world.run(Collective::Barrier).expect("all do the same");
            (0..WARM).for_each(|_| barrier());
            turns.left.store(GIVEN, Ordering::Relaxed);
            for turn in 0..GIVEN {
                assert!(world.barrier_soon(), "turn {turn}");
            }
            assert_eq!(turns.left.load(Ordering::Relaxed), 0);
            // This one is begun, and the full path ends it, which measures and may look for another core.
            assert!(!world.barrier_soon());
            turns.run_other();
            barrier();
            process.drain();
        });
        scope.spawn(move || {
            let process = Process::new(Box::new(second));
            let world = process.world();
            let barrier = || world.run(Collective::Barrier).expect("all do the same");
            (0..WARM).for_each(|_| barrier());
            for () in goes.iter().take(GIVEN as usize + 1) {
                barrier();
                came.send(()).expect("the other rank is there");
            }
            process.drain();
        });
    });
}

/// When the other rank, which needs the core of the one that waits, sends its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sends {
    Never,
    /// When it is asked who is awake.
    Asked,
    /// When the full path gives the core away.
    Yielded,
}

/// An endpoint on whose host so many are awake on one core.
struct Crowded {
    inner: Local,
    bell: Arc<CrowdedBell>,
}

struct CrowdedBell {
    inner: Arc<dyn Bell>,
    awake: u32,
    other: Arc<Process>,
    sends: Mutex<Sends>,
    yields: AtomicU32,
}

impl CrowdedBell {
    fn happens(&self, what: Sends) {
        let mut sends = self.sends.lock().expect("one thread");
        if *sends == what {
            *sends = Sends::Never;
            let sent =
                self.other
                    .world()
                    .send(SendMode::Standard, over(&mut [7; 8]), Target::Rank(0), 0);
            sent.expect("there is room");
        }
    }
}

impl Bell for CrowdedBell {
    forward_bell!(self => self.inner; prepare, cancel, wait, ring, polls_per_clock_read);

    fn load(&self) -> Load {
        self.happens(Sends::Asked);
        Load {
            awake: self.awake,
            cores: 1,
        }
    }

    fn yield_core(&self) -> bool {
        self.yields.fetch_add(1, Ordering::Relaxed);
        self.happens(Sends::Yielded);
        // Somebody else has run: a switch that the kernel counts.
        std::thread::sleep(Duration::from_micros(100));
        true
    }
}

impl Fabric for Crowded {
    forward_fabric!(self => self.inner; me, peers, incarnation, limits, now, route, try_send, inject, take_next, grant, offer,
        revoke, get, put, signal, signals, take_signals, poll, forget, shares_memory, allocate_shared, release_shared,
        attach_shared, is_asleep, wake, is_any_beside, is_flushed, say_goodbye, traffic);

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }
}

/// Rank 0 of two, whose bell says that so many are awake.
fn crowded(awake: u32) -> (Arc<Process>, Arc<CrowdedBell>) {
    let mut group = Local::group(2);
    let other = Process::new(Box::new(group.pop().expect("there are two")));
    let inner = group.pop().expect("there are two");
    let bell = Arc::new(CrowdedBell {
        inner: inner.bell(),
        awake,
        other,
        sends: Mutex::new(Sends::Never),
        yields: AtomicU32::new(0),
    });
    let process = Process::new(Box::new(Crowded {
        inner,
        bell: Arc::clone(&bell),
    }));
    // The engine is nobody's before that.
    let nothing = process.world().iprobe(Source::Any, TagPattern::Any);
    assert!(nothing.expect("it is there").is_none());
    (process, bell)
}

#[test]
fn a_wait_for_a_message_ends_at_once_when_the_core_was_given_away() {
    let (process, bell) = crowded(4);
    let world = process.world();
    let mut room = [0; 8];
    for round in 1..=3 {
        for wait in 0..=GIVEN {
            let request = world
                .irecv(over(&mut room), Source::Rank(1), TagPattern::Exact(0))
                .expect("there is room");
            let is_given = wait < GIVEN;
            *bell.sends.lock().expect("one thread") = match is_given {
                true => Sends::Asked,
                false => Sends::Yielded,
            };
            let ended =
                process.wait_any_at_once(request, || [Listed::Request(request)].into_iter());
            assert_eq!(ended.is_some(), is_given, "round {round}, wait {wait}");
            if !is_given {
                // The full path measures whether the core is wanted.
                assert_eq!(bell.yields.load(Ordering::Relaxed), round - 1);
                assert_eq!(process.wait(request).expect("it comes").bytes, 8);
            }
        }
        assert_eq!(bell.yields.load(Ordering::Relaxed), round);
    }
}

#[test]
fn who_waits_in_full_gives_the_core_away_before_that() {
    let (process, bell) = crowded(4);
    let world = process.world();
    let mut room = [0; 8];
    let mut receive = || {
        let got = world.recv(over(&mut room), Source::Any, TagPattern::Any);
        assert_eq!(got.expect("it comes").bytes, 8);
    };
    // The first one measures whether the core is wanted.
    *bell.sends.lock().expect("one thread") = Sends::Yielded;
    receive();
    for wait in 0..=GIVEN {
        *bell.sends.lock().expect("one thread") = match wait < GIVEN {
            true => Sends::Asked,
            false => Sends::Yielded,
        };
        receive();
        let measured = 1 + u32::from(wait == GIVEN);
        assert_eq!(bell.yields.load(Ordering::Relaxed), measured, "wait {wait}");
    }
}

#[test]
fn who_has_a_core_looks_on() {
    let (process, bell) = crowded(1);
    let world = process.world();
    let mut room = [0; 8];
    let request = world
        .irecv(over(&mut room), Source::Rank(1), TagPattern::Exact(0))
        .expect("there is room");
    let wait = || process.wait_any_at_once(request, || [Listed::Request(request)].into_iter());
    assert!(wait().is_none(), "nothing comes");
    *bell.sends.lock().expect("one thread") = Sends::Asked;
    assert!(wait().is_some());
    assert_eq!(bell.yields.load(Ordering::Relaxed), 0);
}
