//! Calls that ask and never wait, in a job of more ranks than cores: each of them gives the core away now and then, for
//! what it asks for may come from a rank that needs it.
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use weft_atomic::{AtomicU32, Ordering};

use crate::common::over;
use weft_fabric::{
    Bell, Fabric, Head, Load, Next, Operation, Peer, Posted, Region, Result, Sink, SyncKey, Token,
    forward_bell, forward_fabric,
};
use weft_fabric_local::Local;
use weft_mpi::info::Info;
use weft_mpi::rma::{Allocation, Assertion, Flavor, Window};
use weft_mpi::{Process, RequestId, SendMode, Source, TagPattern, Target};

/// Looks in vain after which the core has been given away at least once, even if nobody took it before.
const LOOKS: u32 = 5_000;

/// An endpoint on whose host four ranks are awake on one core.
struct Crowded {
    inner: Local,
    bell: Arc<CrowdedBell>,
}

struct CrowdedBell {
    inner: Arc<dyn Bell>,
    given_away: Arc<AtomicU32>,
}

impl Bell for CrowdedBell {
    forward_bell!(self => self.inner; prepare, cancel, wait, ring, polls_per_clock_read);

    fn load(&self) -> Load {
        Load { awake: 4, cores: 1 }
    }

    fn yield_core(&self) -> bool {
        self.given_away.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Fabric for Crowded {
    forward_fabric!(self => self.inner; me, peers, limits, now, route, grant, offer, revoke, signals,
        take_signals, forget, shares_memory, allocate_shared, release_shared, attach_shared,
        is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye);

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        self.inner.try_send(to, head, data)
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.inner.inject(to, head, data)
    }

    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.inner.poll(sink, budget)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.inner.get(from, token, offset, into, operation)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.inner.put(to, token, offset, source, operation)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        self.inner.signal(to, key)
    }
}

/// What both ranks have: a window, and a partitioned message from rank 1 to rank 0.
struct Common {
    window: Arc<Window>,
    partitioned: RequestId,
}

impl Common {
    fn new(process: &Arc<Process>, memory: &mut [u8]) -> Self {
        let world = process.world();
        let window = Window::new(
            &world,
            Flavor::Allocate,
            Allocation::OfWeft(8),
            1,
            &Info::default(),
        )
        .expect("a window");
        let (buffer, peer) = (over(memory), Target::Rank(1 - world.rank()));
        let partitioned = if world.rank() == 0 {
            world.precv_init(buffer, 2, peer, 1)
        } else {
            world.psend_init(buffer, 2, peer, 1)
        }
        .expect("a request");
        process.start(partitioned).expect("started");
        Self {
            window,
            partitioned,
        }
    }

    /// The other rank, for an epoch.
    fn other(&self, process: &Arc<Process>) -> weft_mpi::Group {
        let other: u32 = 1 - process.world().rank();
        let group = self.window.group();
        group.include(&[other.cast_signed()]).expect("a rank")
    }
}

fn asks(
    process: &Arc<Process>,
    given_away: &AtomicU32,
    go: &mpsc::Sender<()>,
    is_set_up: &mpsc::Receiver<()>,
) {
    let (mut memory, mut message) = ([0; 16], [0; 4]);
    let common = Common::new(process, &mut memory);
    // From then on the other rank sends nothing: what comes in the middle of looking would begin the count anew.
    is_set_up
        .recv_timeout(Duration::from_secs(60))
        .expect("the other rank has set up");
    let (window, partitioned) = (&common.window, common.partitioned);
    window
        .post(&common.other(process), Assertion::default())
        .expect("posted");
    let world = process.world();
    let tag = TagPattern::Exact(2);
    let request = world
        .irecv(over(&mut message), Source::Rank(1), tag)
        .expect("posted");
    let list = [Some(request)];
    let other_tag = TagPattern::Exact(3);
    let calls: [(&str, &dyn Fn() -> bool); 9] = [
        ("MPI_Test", &|| process.test(request).unwrap().is_some()),
        ("MPI_Request_get_status", &|| {
            process.peek(request).unwrap().is_some()
        }),
        ("MPI_Testall", &|| {
            process.test_all(&mut (&list[..], &mut Vec::new())).unwrap()
        }),
        ("MPI_Testany", &|| {
            process.test_any(&list).unwrap().is_some()
        }),
        ("MPI_Testsome", &|| {
            !process.test_some(&list).unwrap().unwrap().is_empty()
        }),
        ("MPI_Iprobe", &|| {
            world.iprobe(Source::Rank(1), other_tag).unwrap().is_some()
        }),
        ("MPI_Improbe", &|| {
            world.improbe(Source::Rank(1), other_tag).unwrap().is_some()
        }),
        ("MPI_Parrived", &|| {
            process.has_arrived(partitioned, 1).unwrap()
        }),
        ("MPI_Win_test", &|| window.test().unwrap()),
    ];
    for (name, call) in calls {
        // What is still on its way from setting up is none of it.
        for _ in 0..100 {
            assert!(!call(), "{name}: nothing was sent");
        }
        given_away.store(0, Ordering::Relaxed);
        for _ in 0..LOOKS {
            assert!(!call(), "{name}: nothing was sent");
        }
        assert!(
            given_away.load(Ordering::Relaxed) > 0,
            "{name} has looked {LOOKS} times in vain and kept the core"
        );
    }
    go.send(()).expect("the other rank waits");
    process.wait(request).expect("received");
    process.wait(partitioned).expect("arrived");
    window.wait().expect("completed");
    window.free().expect("freed");
    process.free_request(partitioned).expect("freed");
}

fn answers(process: &Arc<Process>, go: &mpsc::Receiver<()>, set_up: &mpsc::Sender<()>) {
    let (mut memory, mut message) = ([0; 16], [0; 4]);
    let common = Common::new(process, &mut memory);
    set_up.send(()).expect("the other rank waits");
    go.recv_timeout(Duration::from_secs(60))
        .expect("the other rank has asked enough");
    let world = process.world();
    let send = world.send(SendMode::Standard, over(&mut message), Target::Rank(0), 2);
    send.expect("sent");
    process.ready(common.partitioned, 0..2).expect("ready");
    process.wait(common.partitioned).expect("sent");
    let window = &common.window;
    window
        .start(&common.other(process), Assertion::default())
        .expect("started");
    window.complete().expect("completed");
    window.free().expect("freed");
    process.free_request(common.partitioned).expect("freed");
}

/// Runs a rank over an endpoint; it is told how often it gave its core away.
fn run(inner: Local, rank: impl FnOnce(&Arc<Process>, &AtomicU32)) {
    let given_away = Arc::new(AtomicU32::new(0));
    let bell = Arc::new(CrowdedBell {
        inner: inner.bell(),
        given_away: given_away.clone(),
    });
    let process = Process::new(Box::new(Crowded { inner, bell }));
    rank(&process, &given_away);
    process.drain();
}

#[test]
fn every_call_that_asks_gives_the_core_away_in_a_crowd() {
    let (go, waits) = mpsc::channel();
    let (set_up, is_set_up) = mpsc::channel();
    let mut endpoints = Local::group(2).into_iter();
    let mut endpoint = || endpoints.next().expect("there are two");
    let (first, second) = (endpoint(), endpoint());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            run(first, |process, given_away| {
                asks(process, given_away, &go, &is_set_up);
            });
        });
        scope.spawn(move || run(second, |process, _| answers(process, &waits, &set_up)));
    });
}
