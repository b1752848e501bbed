//! Small collectives in a job of more ranks than cores: a rank that waits for one of its own core gives the core away once, within
//! the call that ends at once.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Fabric, Peer, forward_fabric};
use weft_fabric_local::Local;
use weft_mpi::Process;
use weft_mpi::coll::Collective;

/// Barriers before a communicator surely has its board.
const WARM: usize = 5;
/// Barriers in which the core is given away at once; the next one is left to the full path.
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
