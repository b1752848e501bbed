//! Order of ends: handles and their runtimes, results and who drops them, workers and their threads.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use weft_atomic::{AtomicUsize, Ordering};

use super::config;
use crate::{Builder, JoinHandle, Runtime, is_fiber, park, sanitizer, spawn, worker, yield_now};

/// Fibers of a test that starts some.
const FIBERS: usize = if cfg!(miri) { 5 } else { 100 };

/// Counts drops by where they happen.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicUsize; 2]>);

impl Counts {
    /// How often on threads of the program, and in fibers.
    fn now(&self) -> [usize; 2] {
        [0, 1].map(|place: usize| self.0[place].load(Ordering::Relaxed))
    }

    fn count(&self) {
        assert!(is_fiber() || worker::here().is_none(), "between two fibers");
        self.0[usize::from(is_fiber())].fetch_add(1, Ordering::Relaxed);
    }
}

struct Counted(Counts);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count();
    }
}

#[test]
fn a_handle_may_outlive_its_runtime() {
    let counts = Counts::default();
    let runtime = Runtime::new(config(2)).expect("memory");
    let inner = runtime.inner();
    let text = runtime.spawn(|| "the result".repeat(10));
    let unwanted = {
        let counts = counts.clone();
        runtime.spawn(move || Counted(counts))
    };
    let thrown = runtime.spawn(|| -> u8 { panic!("as asked") });
    let name = runtime.spawn(|| 5u8).into_fiber();
    drop(runtime);
    assert!(text.is_finished() && unwanted.is_finished());
    assert!(!text.fiber().is_live());
    text.fiber().signal();
    assert!(inner.stacks.are_held());
    let text = thread::spawn(move || text.join().expect("no panic"));
    assert_eq!(text.join().expect("no panic"), "the result".repeat(10));
    assert_eq!(counts.now(), [0, 0]);
    drop(unwanted);
    assert_eq!(counts.now(), [1, 0]);
    assert!(thrown.join().is_err());
    assert!(
        inner.stacks.are_held(),
        "one may still be claimed by its name"
    );
    // SAFETY: its result is of this type.
    let last = unsafe { JoinHandle::<u8>::claim(name) }.expect("nobody has it");
    assert_eq!(last.join().expect("no panic"), 5);
    assert!(!inner.stacks.are_held(), "memory goes with the last handle");
    // SAFETY: as above.
    assert!(unsafe { JoinHandle::<u8>::claim(name) }.is_none());
}

#[test]
fn a_handle_may_leave_a_runtime_that_runs_on_its_thread() {
    let handle = Runtime::run(config(1), || spawn(|| vec![7; 100])).expect("memory");
    assert_eq!(handle.join().expect("no panic"), [7; 100]);
}

#[test]
fn memory_goes_at_once_where_no_handle_is_left() {
    let runtime = Runtime::new(config(2)).expect("memory");
    let inner = runtime.inner();
    runtime
        .spawn(|| (0..FIBERS).for_each(|_| drop(spawn(|| ()))))
        .join()
        .expect("no panic");
    drop(runtime);
    assert!(!inner.stacks.are_held());
}

#[test]
fn a_number_is_retired_before_its_names_come_back() {
    let runtime = Runtime::new(config(1)).expect("memory");
    let inner = runtime.inner();
    let first = runtime.spawn(|| ());
    let number = first.fiber().number();
    first.join().expect("no panic");
    // As after 2³⁰ fibers.
    inner
        .fibers
        .incarnation(number)
        .0
        .store(u32::MAX - 3, Ordering::Relaxed);
    let all: Vec<_> = (0..FIBERS).map(|_| runtime.spawn(|| ())).collect();
    assert!(all.iter().any(|one| one.fiber().number() == number));
    for one in all {
        one.join().expect("no panic");
    }
    let later: Vec<_> = (0..FIBERS).map(|_| runtime.spawn(|| ())).collect();
    assert!(later.iter().all(|one| one.fiber().number() != number));
    drop(later);
    drop(runtime);
    assert!(!inner.stacks.are_held());
}

#[test]
#[cfg_attr(miri, ignore = "its threads are left to themselves")]
fn a_fiber_may_drop_its_own_runtime() {
    let runtime = Arc::new(Runtime::new(config(2)).expect("memory"));
    let (said, heard) = mpsc::channel();
    let mine = Arc::clone(&runtime);
    let fiber = runtime.spawn(move || {
        while Arc::strong_count(&mine) > 1 {
            yield_now();
        }
        drop(mine);
        // It lives as long as its fibers.
        let other = Builder::new().worker(1).spawn(|| 5).expect("memory");
        _ = said.send(other.join().expect("no panic"));
    });
    drop(runtime);
    assert_eq!(heard.recv().expect("said"), 5);
    fiber.join().expect("no panic");
}

/// Where `Runtime::run` plays worker 0, no other thread does.
#[test]
#[cfg_attr(miri, ignore = "a fiber is a thread there")]
fn a_worker_is_played_by_one_thread() {
    let me = thread::current().id();
    let (mut here, mut there) = (vec![], vec![]);
    Runtime::run(config(2), || {
        for _ in 0..10 {
            let worker = |index| Builder::new().worker(index);
            let other = worker(1).spawn(move || {
                let back = worker(0).spawn(|| thread::current().id());
                let back = back.expect("memory").join().expect("no panic");
                (back, thread::current().id())
            });
            let (back, other) = other.expect("memory").join().expect("no panic");
            here.push(back);
            there.push(other);
        }
    })
    .expect("memory");
    assert_eq!(here, [me; 10]);
    assert!(there.iter().all(|one| *one == there[0] && *one != me));
}

/// A runtime that waits for its end has handed its threads to whoever waits for them.
#[test]
#[cfg_attr(miri, ignore = "a fiber is a thread there")]
fn the_last_fibers_may_start_others_on_any_worker() {
    for _ in 0..10 {
        let runtime = Runtime::new(config(3)).expect("memory");
        let inner = runtime.inner();
        let (said, heard) = mpsc::channel();
        for worker in 0..3 {
            let said = said.clone();
            let body = move || _ = said.send((worker, thread::current().id()));
            let fiber = Builder::new().worker(worker).spawn_on(&runtime, body);
            fiber.expect("memory").join().expect("no panic");
        }
        let first = runtime.spawn(move || {
            // Until the runtime is being dropped.
            while !inner.is_closing() {
                yield_now();
            }
            for turn in 0..30 {
                let said = said.clone();
                let body = move || _ = said.send((turn % 3, thread::current().id()));
                drop(Builder::new().worker(turn % 3).spawn(body).expect("memory"));
                yield_now();
            }
        });
        drop((first, runtime));
        let mut threads = [None; 3];
        for (worker, thread) in heard {
            assert_eq!(*threads[worker].get_or_insert(thread), thread);
        }
    }
}

/// Starts a fiber whose handle is gone before its body ends.
fn detached<T: Send + 'static>(runtime: &Runtime, body: impl FnOnce() -> T + Send + 'static) {
    let gone = Arc::new(AtomicUsize::new(0));
    let seen = gone.clone();
    drop(runtime.spawn(move || {
        while seen.load(Ordering::Acquire) == 0 {
            yield_now();
        }
        body()
    }));
    gone.store(1, Ordering::Release);
}

struct PanicsWhenDropped(Counts);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        self.0.count();
        panic!("as asked, in a drop");
    }
}

#[test]
fn a_result_whose_drop_panics_ends_nobody_else() {
    let counts = Counts::default();
    let runtime = Runtime::new(config(1)).expect("memory");
    let (result, thrown, late) = (counts.clone(), counts.clone(), counts.clone());
    detached(&runtime, move || PanicsWhenDropped(result));
    detached(&runtime, move || {
        std::panic::panic_any(PanicsWhenDropped(thrown))
    });
    let ended = runtime.spawn(move || PanicsWhenDropped(late));
    while !ended.is_finished() {
        thread::yield_now();
    }
    drop(ended);
    // What the closure holds is dropped within the fiber.
    let held = PanicsWhenDropped(counts.clone());
    assert!(runtime.spawn(move || drop(held)).join().is_err());
    assert_eq!(runtime.spawn(|| 5).join().expect("no panic"), 5);
    drop(runtime);
    let [threads, fibers] = counts.now();
    assert_eq!((threads, fibers), (1, 3));
}

/// The drop of a result that nobody wants may do what a fiber does.
#[test]
fn a_result_is_dropped_by_a_fiber_that_may_wait() {
    struct Waits(Option<JoinHandle<u32>>, Arc<AtomicUsize>, Counts);
    impl Drop for Waits {
        fn drop(&mut self) {
            let handle = self.0.take().expect("dropped once");
            self.1.store(1, Ordering::Release);
            handle.fiber().signal();
            assert_eq!(handle.join().expect("no panic"), 7);
            self.2.count();
        }
    }
    let counts = Counts::default();
    let runtime = Runtime::new(config(1)).expect("memory");
    for _ in 0..FIBERS / 5 {
        let counts = counts.clone();
        detached(&runtime, move || {
            let go = Arc::new(AtomicUsize::new(0));
            let seen = go.clone();
            let waited_for = spawn(move || {
                while seen.load(Ordering::Acquire) == 0 {
                    park();
                }
                7
            });
            Waits(Some(waited_for), go, counts)
        });
    }
    drop(runtime);
    assert_eq!(counts.now(), [0, FIBERS / 5]);
}

/// A handle is dropped at any moment of its fiber's end: the result is dropped once, by the fiber or by
/// whoever dropped the handle, never by the worker in between.
#[test]
fn a_result_is_dropped_once_whenever_the_handle_goes() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    let counts = Counts::default();
    let runtime = Runtime::new(config(1)).expect("memory");
    for round in 0..ROUNDS {
        let counts = counts.clone();
        let handle = runtime.spawn(move || Counted(counts));
        for _ in 0..round % 200 {
            std::hint::spin_loop();
        }
        drop(handle);
    }
    drop(runtime);
    let [threads, fibers] = counts.now();
    assert_eq!(threads + fibers, ROUNDS);
}

#[test]
fn a_join_returns_at_once_when_the_fiber_has_ended() {
    let order = Runtime::run(config(1), || {
        let order = Arc::new(std::sync::Mutex::new(String::new()));
        let note = |what: char| {
            let order = order.clone();
            move || order.lock().expect("no panic").push(what)
        };
        let (first, second) = (spawn(note('1')), spawn(note('2')));
        first.join().expect("no panic");
        note('j')();
        second.join().expect("no panic");
        order.lock().expect("no panic").clone()
    });
    // Where stacks are followed, the end is told between two fibers, and who joins waits for its turn.
    let expected = if sanitizer::FOLLOWS_STACKS {
        "12j"
    } else {
        "1j2"
    };
    assert_eq!(order.expect("memory"), expected);
}

#[test]
fn each_of_a_chain_joins_the_next() {
    fn chain(left: usize) -> usize {
        match left {
            0 => 0,
            _ => 1 + spawn(move || chain(left - 1)).join().expect("no panic"),
        }
    }
    let expected = FIBERS * if cfg!(miri) { 4 } else { 10 };
    let length = Runtime::run(config(1), move || chain(expected));
    assert_eq!(length.expect("memory"), expected);
}
