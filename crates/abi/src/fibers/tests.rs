//! Every order of spawn, join, detach and end, by the C entry points.
//!
//! One worker runs the subject, the fibers that join it and the one that directs them, so each sequence of
//! steps runs exactly as written, and the results of all calls are known in advance.

use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};
use weft_atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::*;

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Another fiber joins the subject.
    Join,
    /// The director detaches it.
    Detach,
    /// The subject joins itself.
    JoinSelf,
    /// The subject detaches itself.
    DetachSelf,
    /// The director signals it.
    Signal,
    /// The subject ends.
    End,
}

const STEPS: [Step; 6] = [
    Step::Join,
    Step::Detach,
    Step::JoinSelf,
    Step::DetachSelf,
    Step::Signal,
    Step::End,
];

/// Steps in the longest sequence.
const LENGTH: u32 = 5;

/// Held by the test that uses names of fibers that do not exist, and shared by those that start fibers, whose names these might be.
static NAMES: RwLock<()> = RwLock::new(());

/// Not an errno.
const UNKNOWN: c_int = 1;
const NOBODY: c_int = -libc::ESRCH;

/// The state that the director and the subject share.
#[derive(Default)]
struct Subject {
    /// The step that it shall do, 0 for none.
    order: AtomicU32,
    answer: AtomicI32,
}

const JOIN_SELF: u32 = 1;
const DETACH_SELF: u32 = 2;
const END: u32 = 3;

unsafe extern "C" fn subject(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the director keeps it until the end of the sequence, and has the subject end before.
    let shared = unsafe { &*argument.cast::<Subject>() };
    loop {
        let order = shared.order.load(Ordering::Acquire);
        let answer = match order {
            // SAFETY: no result is asked for.
            JOIN_SELF => unsafe { weft_fiber_join(weft_fiber_self(), ptr::null_mut()) },
            DETACH_SELF => weft_fiber_detach(weft_fiber_self()),
            _ => 0,
        };
        if order != 0 {
            shared.answer.store(answer, Ordering::Release);
            shared.order.store(0, Ordering::Release);
        }
        if order == END {
            return argument;
        }
        weft_fiber_yield();
    }
}

/// A fiber that joins, and its result.
struct Joiner {
    subject: AtomicU64,
    answer: AtomicI32,
    result: AtomicU64,
}

unsafe extern "C" fn joiner(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the director keeps it until this fiber was joined.
    let shared = unsafe { &*argument.cast::<Joiner>() };
    let mut result = ptr::null_mut();
    // SAFETY: the result is ours.
    let answer =
        unsafe { weft_fiber_join(shared.subject.load(Ordering::Relaxed), &raw mut result) };
    shared.result.store(result as u64, Ordering::Release);
    shared.answer.store(answer, Ordering::Release);
    ptr::null_mut()
}

fn spawn(body: Body, argument: *mut c_void) -> u64 {
    let attributes = Attributes {
        stack: 0,
        worker: 0,
        migrating: 0,
    };
    let mut name = 0;
    // SAFETY: what the body takes is kept by the caller.
    let code =
        unsafe { weft_fiber_spawn(&raw mut name, &raw const attributes, Some(body), argument) };
    assert_eq!(code, 0);
    name
}

/// Runs `work` as a fiber of worker 0 and waits for its end, on this thread.
fn directed(work: impl FnOnce() + Send + 'static) {
    type Work = Box<dyn FnOnce() + Send>;
    unsafe extern "C" fn run(argument: *mut c_void) -> *mut c_void {
        // SAFETY: given once, below.
        let work = unsafe { Box::from_raw(argument.cast::<Work>()) };
        // A panic would end the process, because this is called from C; its message is written all the same.
        work();
        ptr::null_mut()
    }
    let work: Work = Box::new(work);
    let fiber = spawn(run, Box::into_raw(Box::new(work)).cast());
    // SAFETY: no result is asked for.
    assert_eq!(unsafe { weft_fiber_join(fiber, ptr::null_mut()) }, 0);
}

/// Lets the worker's other fibers run as far as they can: each of their steps takes at most two turns.
fn settle() {
    for _ in 0..4 {
        weft_fiber_yield();
    }
}

/// Plays one sequence; panics at the first unexpected result.
fn play(steps: &[Step]) {
    let shared = Box::new(Subject::default());
    let place = (&raw const *shared).cast_mut().cast::<c_void>();
    let name = spawn(subject, place);
    let (mut claimed, mut ended) = (false, false);
    let mut joiners: Vec<(Box<Joiner>, u64, bool)> = Vec::new();
    let order = |what: u32| {
        shared.order.store(what, Ordering::Release);
        settle();
        shared.answer.load(Ordering::Acquire)
    };
    let mut step = |step: Step, joiners: &mut Vec<_>| match step {
        Step::Join => {
            let other = Box::new(Joiner {
                subject: AtomicU64::new(name),
                answer: AtomicI32::new(UNKNOWN),
                result: AtomicU64::new(0),
            });
            let fiber = spawn(joiner, (&raw const *other).cast_mut().cast());
            settle();
            let answer = other.answer.load(Ordering::Acquire);
            let expected = match (claimed, ended) {
                (true, _) => NOBODY,
                (false, true) => 0,
                (false, false) => UNKNOWN,
            };
            assert_eq!(answer, expected, "join");
            joiners.push((other, fiber, !claimed));
            claimed = true;
        }
        Step::Detach => {
            let expected = if claimed { NOBODY } else { 0 };
            assert_eq!(weft_fiber_detach(name), expected, "detach");
            claimed = true;
        }
        Step::JoinSelf if !ended => assert_eq!(order(JOIN_SELF), -libc::EDEADLK, "self-join"),
        Step::DetachSelf if !ended => {
            let expected = if claimed { NOBODY } else { 0 };
            assert_eq!(order(DETACH_SELF), expected, "self-detach");
            claimed = true;
        }
        Step::Signal => {
            let gone = claimed && ended;
            let expected = if gone { NOBODY } else { 0 };
            assert_eq!(weft_fiber_signal(name), expected, "signal");
        }
        Step::End if !ended => {
            assert_eq!(order(END), 0);
            ended = true;
        }
        _ => {}
    };
    for one in steps {
        step(*one, &mut joiners);
    }
    step(Step::End, &mut joiners);
    step(Step::Detach, &mut joiners);
    for one in [Step::Detach, Step::Join, Step::Signal] {
        step(one, &mut joiners);
    }
    settle();
    for (other, fiber, has_claim) in joiners {
        // SAFETY: no result is asked for.
        assert_eq!(unsafe { weft_fiber_join(fiber, ptr::null_mut()) }, 0);
        let expected = if has_claim {
            (0, place as u64)
        } else {
            (NOBODY, 0)
        };
        let answered = other.answer.load(Ordering::Acquire);
        assert_eq!((answered, other.result.load(Ordering::Acquire)), expected);
    }
}

#[test]
fn every_order_of_join_detach_and_end_is_answered_as_promised() {
    let _names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    directed(|| {
        for length in 0..=LENGTH {
            for number in 0..STEPS.len().pow(length) {
                let steps: Vec<Step> = (0..length)
                    .map(|place| STEPS[number / STEPS.len().pow(place) % STEPS.len()])
                    .collect();
                let played = std::panic::catch_unwind(|| play(&steps));
                if played.is_err() {
                    eprintln!("in the sequence {steps:?}");
                    std::process::abort();
                }
            }
        }
    });
}

#[test]
fn only_one_of_many_joins_or_detaches_a_fiber() {
    let _names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    const THREADS: usize = 3;
    const ROUNDS: usize = 2_000;
    unsafe extern "C" fn body(argument: *mut c_void) -> *mut c_void {
        if (argument as usize).is_multiple_of(2) {
            weft_fiber_yield();
        }
        argument
    }
    let names: Arc<Vec<AtomicU64>> = Arc::new((0..ROUNDS).map(|_| AtomicU64::new(0)).collect());
    let takers: Vec<_> = (0..THREADS)
        .map(|me| {
            let names = names.clone();
            std::thread::spawn(move || {
                let mut mine = vec![];
                for (round, name) in names.iter().enumerate() {
                    while name.load(Ordering::Acquire) == 0 {
                        std::thread::yield_now();
                    }
                    let name = name.load(Ordering::Acquire);
                    let mut result = ptr::null_mut();
                    let code = if (me + round).is_multiple_of(3) {
                        weft_fiber_detach(name)
                    } else {
                        // SAFETY: the result is ours.
                        let code = unsafe { weft_fiber_join(name, &raw mut result) };
                        assert!(code != 0 || result as usize == round);
                        code
                    };
                    match code {
                        0 => mine.push(round),
                        code => assert_eq!(code, NOBODY),
                    }
                }
                mine
            })
        })
        .collect();
    for (round, place) in names.iter().enumerate() {
        let mut name = 0;
        // SAFETY: the body takes a number.
        let code = unsafe {
            weft_fiber_spawn(
                &raw mut name,
                ptr::null(),
                Some(body),
                ptr::without_provenance_mut(round),
            )
        };
        assert_eq!(code, 0);
        place.store(name, Ordering::Release);
    }
    let mut all: Vec<usize> = takers
        .into_iter()
        .flat_map(|taker| taker.join().expect("no panic"))
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROUNDS), "each was had exactly once");
}

#[test]
fn what_names_no_fiber_is_refused() {
    let _names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let shared = Box::new(Subject::default());
    let name = spawn(subject, (&raw const *shared).cast_mut().cast());
    let garbage = (0..64)
        .map(|bit| name ^ 1 << bit)
        .chain([
            0,
            1,
            12_345,
            u64::MAX,
            u64::MAX - 1,
            1 << 63,
            name << 32,
            name >> 32,
        ])
        .chain([&raw const *shared as u64]);
    let others: Vec<u64> = garbage.collect();
    for wrong in others {
        // SAFETY: no result is asked for.
        assert_eq!(unsafe { weft_fiber_join(wrong, ptr::null_mut()) }, NOBODY);
        assert_eq!(weft_fiber_detach(wrong), NOBODY, "{wrong:#x}");
        assert_eq!(weft_fiber_signal(wrong), NOBODY, "{wrong:#x}");
    }
    shared.order.store(END, Ordering::Release);
    // SAFETY: no result is asked for.
    assert_eq!(unsafe { weft_fiber_join(name, ptr::null_mut()) }, 0);
}
