//! The program's own code that the engine calls (wakers, operations, guests) may call the process again, or is
//! told that it may not; it never finds the engine half way.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use crate::common::inquired::Inquired;
use crate::common::{everywhere, on_threads, over, pattern};
use weft_atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use weft_fabric::{
    Changes, Fabric, Guest, Head, Operation, Peer, Result, SharedBytes, Sink, Subject, SyncKey,
};
use weft_fabric_local::Local;
use weft_mpi::coll::{self, Members, Reduction};
use weft_mpi::datatype::Basic;
use weft_mpi::waits::{self, RankWaits};
use weft_mpi::{Buffer, ErrorClass, Op, Process, SendMode, Source, TagPattern, Target};

/// Sends this rank a message of its own, blocking, by both protocols.
fn call(process: &Arc<Process>, tag: i32) {
    let world = process.world();
    let me = world.rank();
    for size in [8, 200_000] {
        let (mut out, mut room) = (pattern(size, 3), vec![0; size]);
        let incoming = world.irecv(over(&mut room), Source::Rank(me), TagPattern::Exact(tag));
        let mode = SendMode::Standard;
        world
            .send(mode, over(&mut out), Target::Rank(me), tag)
            .unwrap();
        process.wait(incoming.unwrap()).unwrap();
        assert!(room == out);
    }
}

/// A process of its own.
fn alone() -> Arc<Process> {
    let endpoint = Local::group(1).pop().expect("one");
    Process::new(Box::new(endpoint))
}

/// A waker all of whose functions call the process.
struct Caller {
    process: Weak<Process>,
    /// Whether it is inside, so that what it wakes itself does not call again.
    inside: AtomicBool,
    clones: AtomicUsize,
    wakes: AtomicUsize,
    drops: AtomicUsize,
}

impl Caller {
    fn call(&self, count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
        if self.inside.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(process) = self.process.upgrade() {
            call(&process, 1000);
        }
        self.inside.store(false, Ordering::Relaxed);
    }
}

/// The caller behind a waker's pointer.
fn caller<'a>(data: *const ()) -> &'a Caller {
    // SAFETY: each waker owns one count of the `Arc` that `waker` made the pointer of.
    unsafe { &*data.cast::<Caller>() }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let it = caller(data);
        it.call(&it.clones);
        // SAFETY: as for `caller`; the new waker owns the new count.
        unsafe { Arc::increment_strong_count(data.cast::<Caller>()) };
        RawWaker::new(data, &TABLE)
    },
    |data| {
        let it = caller(data);
        it.call(&it.wakes);
        // SAFETY: as for `caller`; waking by value ends the waker's count.
        unsafe { Arc::decrement_strong_count(data.cast::<Caller>()) };
    },
    |data| {
        let it = caller(data);
        it.call(&it.wakes);
    },
    |data| {
        let it = caller(data);
        it.call(&it.drops);
        // SAFETY: as for `caller`; the end of the waker ends its count.
        unsafe { Arc::decrement_strong_count(data.cast::<Caller>()) };
    },
);

fn waker(process: &Arc<Process>) -> (Arc<Caller>, Waker) {
    let caller = Arc::new(Caller {
        process: Arc::downgrade(process),
        inside: AtomicBool::new(false),
        clones: AtomicUsize::new(0),
        wakes: AtomicUsize::new(0),
        drops: AtomicUsize::new(0),
    });
    let data = Arc::into_raw(Arc::clone(&caller)).cast();
    // SAFETY: the table keeps the rules of wakers: each owns one count.
    let waker = unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) };
    (caller, waker)
}

/// Repeats until it answers, for a while.
fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if let Some(answer) = answer() {
            return answer;
        }
        std::thread::yield_now();
    }
    panic!("{what} does not come");
}

#[test]
fn a_waker_may_call_the_process() {
    for _ in 0..20 {
        let process = alone();
        let world = process.world();
        let mut room = [0];
        let request = world.irecv(over(&mut room), Source::Rank(0), TagPattern::Exact(1));
        let mut completion = Box::pin(process.completion(request.unwrap()));
        let (first, first_waker) = waker(&process);
        let (second, second_waker) = waker(&process);
        let mut poll = |waker: &Waker| {
            let mut context = Context::from_waker(waker);
            Pin::new(&mut completion).poll(&mut context)
        };
        assert!(poll(&first_waker).is_pending());
        // The first one is replaced, and dropped.
        assert!(poll(&second_waker).is_pending());
        world
            .send(SendMode::Standard, over(&mut [7]), Target::Rank(0), 1)
            .unwrap();
        until("the second waker", || {
            (second.wakes.load(Ordering::Relaxed) > 0).then_some(())
        });
        let ended = until("the end", || match poll(&second_waker) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        });
        assert_eq!(ended.unwrap().bytes, 1);
        assert!(first.clones.load(Ordering::Relaxed) > 0);
        assert!(first.drops.load(Ordering::Relaxed) > 0);
        assert_eq!(room, [7]);
    }
}

#[test]
fn the_waker_of_a_dropped_future_may_call_the_process() {
    let process = alone();
    let world = process.world();
    let mut room = [0];
    let request = world
        .irecv(over(&mut room), Source::Rank(0), TagPattern::Exact(1))
        .unwrap();
    let (caller, waker) = waker(&process);
    let mut completion = Box::pin(process.completion(request));
    let pending = completion
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending();
    assert!(pending);
    drop(completion);
    assert!(caller.drops.load(Ordering::Relaxed) > 0);
    world
        .send(SendMode::Standard, over(&mut [7]), Target::Rank(0), 1)
        .unwrap();
    until("the message", || {
        assert_eq!(world.iprobe(Source::Any, TagPattern::Any).unwrap(), None);
        (!process.is_live(request)).then_some(())
    });
}

/// Who asks what a rank waits for hears what its tasks await.
#[test]
fn what_tasks_await_is_told() {
    let inquiry = Arc::new(AtomicU32::new(0));
    let process = Process::new(Box::new(Inquired {
        inner: Box::new(Local::group(1).pop().expect("one")),
        inquiry: Arc::clone(&inquiry),
        bells: Arc::default(),
    }));
    let told = Arc::new(Mutex::new(None));
    let listener = Arc::clone(&told);
    process.hear_waits(move |waits| *listener.lock().unwrap() = Some(waits));
    let world = process.world();
    let mut room = [0; 3];
    let request = world
        .irecv(over(&mut room), Source::Rank(0), TagPattern::Exact(7))
        .unwrap();
    let mut completion = Box::pin(process.completion(request));
    let mut context = Context::from_waker(Waker::noop());
    assert!(completion.as_mut().poll(&mut context).is_pending());
    // One that asks for places, too.
    inquiry.store(1, Ordering::SeqCst);
    let found: RankWaits = until("the answer", || {
        process.notify();
        told.lock().unwrap().take()
    });
    let [wait] = &found.waits[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&wait.call[..], &wait.place[..]), ("await", ""));
    let [waits::Operation::Message { from, tag, .. }] = wait.operations[..] else {
        panic!("{wait:?}");
    };
    assert_eq!((from, tag), (Some(0), Some(7)));
    world
        .send(SendMode::Standard, over(&mut [7; 3]), Target::Rank(0), 7)
        .unwrap();
    until("its end", || {
        completion
            .as_mut()
            .poll(&mut context)
            .is_ready()
            .then_some(())
    });
}

/// Adds bytes, and has the process called.
fn op(process: &Arc<Process>, commutes: bool, calls: Arc<AtomicUsize>) -> Arc<Op> {
    let process = Arc::downgrade(process);
    Op::user(
        move |operand, into, count, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            call(&process.upgrade().expect("it calls this"), 2000);
            let (mut one, mut two) = (vec![0; count], vec![0; count]);
            operand.copy_to_slice(&mut one);
            into.copy_to_slice(&mut two);
            for (two, one) in two.iter_mut().zip(one) {
                *two = one.wrapping_add(*two);
            }
            into.copy_from_slice(&two);
        },
        commutes,
    )
}

#[test]
fn an_operation_may_call_the_process() {
    everywhere(3, |process| {
        let world = process.world();
        let members = Members::of(&world);
        for (count, commutes) in [(1, true), (1, false), (30_000, true), (30_000, false)] {
            let calls = Arc::new(AtomicUsize::new(0));
            let mut own = pattern(count, world.rank() as usize);
            let mut all = vec![0; count];
            let reduction = Reduction {
                count,
                datatype: crate::common::bytes(),
                op: op(&process, commutes, Arc::clone(&calls)),
            };
            let schedule = coll::allreduce(&members, &over(&mut own), &over(&mut all), &reduction);
            // Two at once.
            let mut more = vec![0; count];
            let second = coll::scan(&members, &over(&mut own), &over(&mut more), &reduction);
            let first = world.begin(schedule.unwrap()).unwrap();
            let second = world.begin(second.unwrap()).unwrap();
            drop(reduction);
            process.wait(second).unwrap();
            process.wait(first).unwrap();
            let sum = |ranks: u32| {
                let mut sum = vec![0u8; count];
                for rank in 0..ranks {
                    for (sum, one) in sum.iter_mut().zip(pattern(count, rank as usize)) {
                        *sum = sum.wrapping_add(one);
                    }
                }
                sum
            };
            assert!(all == sum(3), "{count} {commutes}");
            assert!(more == sum(world.rank() + 1), "{count} {commutes}");
            // Perhaps the others did it.
            calls.load(Ordering::Relaxed);
        }
    });
}

/// Calls the process when it is dropped.
struct CallsWhenDropped(Weak<Process>, Arc<AtomicUsize>);

impl Drop for CallsWhenDropped {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        if let Some(process) = self.0.upgrade() {
            call(&process, 3000);
        }
    }
}

#[test]
fn what_an_operation_keeps_may_call_the_process() {
    on_threads(2, |process| {
        let world = process.world();
        let drops = Arc::new(AtomicUsize::new(0));
        for persistent in [false, true] {
            let kept = CallsWhenDropped(Arc::downgrade(&process), Arc::clone(&drops));
            let op = Op::user(
                move |_, _, _, _| {
                    let _ = &kept;
                },
                true,
            );
            let (mut own, mut all) = ([1], [0]);
            let reduction = Reduction {
                count: 1,
                datatype: crate::common::bytes(),
                op,
            };
            let members = Members::of(&world);
            let schedule = coll::allreduce(&members, &over(&mut own), &over(&mut all), &reduction);
            drop(reduction);
            if persistent {
                let request = world.prepare(schedule.unwrap()).unwrap();
                process.start(request).unwrap();
                process.wait(request).unwrap();
                process.free_request(request).unwrap();
            } else {
                world.run(schedule.unwrap()).unwrap();
            }
        }
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_operation_that_panics_is_an_error_of_its_collective() {
    on_threads(2, |process| {
        let world = process.world();
        let op = Op::user(|_, _, _, _| panic!("as the test wants"), true);
        let mut own = [1u8; 8];
        let mut all = [0u8; 8];
        let datatype = Arc::clone(Basic::Int64.datatype());
        // SAFETY: the arrays outlive what is run.
        let buffer = |bytes: &mut [u8; 8]| unsafe { Buffer::new(bytes.as_mut_ptr(), 1, &datatype) };
        let reduction = Reduction {
            count: 1,
            datatype: Arc::clone(&datatype),
            op,
        };
        let members = Members::of(&world);
        let (own, all) = (buffer(&mut own), buffer(&mut all));
        let schedule = coll::allreduce(&members, &own, &all, &reduction).unwrap();
        let error = world.run(schedule).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Op, "{error}");
        call(&process, 1);
    });
}

/// A guest that does nothing.
#[derive(Default)]
struct Silent(Changes);

impl Sink for Silent {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {}
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}

impl Guest for Silent {
    fn settle(&mut self, _: &mut dyn Fabric) -> bool {
        false
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn changes(&mut self) -> &mut Changes {
        &mut self.0
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn a_guest_that_calls_the_process_is_refused() {
    let process = alone();
    process.install_guest(|_| Box::<Silent>::default());
    for round in 0..3 {
        let with = || process.with_guest(&mut |_, _| call(&process, 1));
        let refused = catch_unwind(AssertUnwindSafe(with)).is_err();
        assert!(refused, "round {round}");
        let mut looks = 0;
        let wait = || {
            let mut ready = |_: &mut dyn Guest, _: &mut dyn Fabric| {
                looks += 1;
                if looks > 1 {
                    call(&process, 1);
                }
                false
            };
            let nothing = |_: &mut dyn Guest| waits::Operation::Other(String::new());
            process.wait_guest(Subject(0), &mut ready, &nothing);
        };
        // Something to look at, so that it looks twice.
        process
            .world()
            .isend(SendMode::Standard, over(&mut [1]), Target::Rank(0), 5)
            .unwrap();
        let refused = catch_unwind(AssertUnwindSafe(wait)).is_err();
        assert!(refused, "round {round}");
        // Nobody is thought to drive still.
        call(&process, 1);
        std::thread::scope(|scope| {
            // From now on the lock is another one.
            let waits = scope.spawn(|| call(&process, 2));
            waits.join().expect("it gets its turn");
        });
    }
}
