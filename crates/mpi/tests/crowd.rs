//! Small collectives in a job of more ranks than cores: a rank that waits for one of its own core gives the core away once, within
//! the call that ends at once.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Bell, Fabric, Peer, forward_bell, forward_fabric};
use weft_fabric_local::Local;
use weft_mpi::Process;
use weft_mpi::coll::Collective;

/// Barriers before a communicator surely has its board.
const WARM: usize = 5;
/// Barriers in which the core is given away at once; the next one is left to the full path.
const GIVEN: u32 = 15;

/// An endpoint on whose core all others stand.
struct Beside {
    inner: Local,
    bell: Arc<OtherRuns>,
}

/// Where the core is given away, the other rank runs until it has come to the next barrier.
struct OtherRuns {
    inner: Arc<dyn Bell>,
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

impl Bell for OtherRuns {
    forward_bell!(self => self.inner; prepare, cancel, wait, ring, load, polls_per_clock_read);

    fn yield_core(&self) -> bool {
        if self.left.load(Ordering::Relaxed) > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            self.run_other();
        }
        true
    }
}

impl Fabric for Beside {
    forward_fabric!(self => self.inner; me, peers, incarnation, limits, now, route, try_send, inject, take_next, grant, offer,
        revoke, get, put, signal, signals, take_signals, poll, forget, shares_memory, allocate_shared, release_shared,
        attach_shared, is_asleep, wake, is_flushed, say_goodbye, traffic);

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        Some(peers.next().is_some())
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
            let bell = Arc::new(OtherRuns {
                inner: first.bell(),
                left: AtomicU32::new(0),
                channels: Mutex::new((go, comes)),
            });
            let process = Process::new(Box::new(Beside {
                inner: first,
                bell: Arc::clone(&bell),
            }));
            let world = process.world();
            let barrier = || world.run(Collective::Barrier).expect("all do the same");
            (0..WARM).for_each(|_| barrier());
            bell.left.store(GIVEN, Ordering::Relaxed);
            for turn in 0..GIVEN {
                assert!(world.barrier_soon(), "turn {turn}");
            }
            assert_eq!(bell.left.load(Ordering::Relaxed), 0);
            // This one is begun, and the full path ends it, which measures and may look for another core.
            assert!(!world.barrier_soon());
            bell.run_other();
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
