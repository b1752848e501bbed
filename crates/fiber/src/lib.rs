//! Fibers: user-level threads, which cost some hundred bytes and a few nanoseconds, not kilobytes
//! of the kernel and microseconds. A million of them can wait at once.
//!
//! ```text
//!   Runtime ─┬─ worker 0 (a thread, pinned) ─┬─ queue    bits of its own: who runs next   (plain stores)
//!            │                               └─ shared   bits that others set: signals     (one atomic OR)
//!            ├─ worker 1 …                       who runs nothing sleeps on its doorbell
//!            └─ stacks: slabs of 1024, a guard below each, the top of each at a colour of its own
//! ```
//!
//! ```
//! let runtime = weft_fiber::Runtime::new(weft_fiber::Config::default()).unwrap();
//! let sum = runtime.spawn(|| {
//!     let parts: Vec<_> = (0..1000).map(|part| weft_fiber::spawn(move || part)).collect();
//!     parts.into_iter().map(|part| part.join().unwrap()).sum::<i32>()
//! });
//! assert_eq!(sum.join().unwrap(), 499_500);
//! ```
//!
//! # Guaranteed
//! * A fiber yields its core only in these calls: [`yield_now`], [`park`], [`JoinHandle::join`],
//!   and calls built on them. Each runnable fiber of a worker runs once before any runs twice.
//! * A [signal](Fiber::signal) makes a fiber run at least once more. Signals are not
//!   counted, and one that comes before a suspension of another kind is used up by that. So a waiter
//!   checks its condition *after the last suspension and before parking*, and in a loop:
//!   `while !condition() { park() }`. The signaller makes the condition true, then signals.
//! * A fiber is *bound* by default: it runs on one worker all its life, and everything that
//!   is safe in a thread is safe in it. A fiber that may *migrate* goes to an idle worker
//!   when its own has other fibers: see [`Builder::migrating`] for the requirements.
//! * A panic ends its fiber and is the result of [`JoinHandle::join`], as with threads (in a program
//!   that is built to abort on panic, it aborts; so does a panic out of a destructor that runs because of a
//!   panic, or of a thread-local variable, as in Rust generally). A result that is not joined is dropped by its
//!   fiber, and a panic of that drop ends there.
//! * A [`JoinHandle`] may outlive its runtime, and a [`Fiber`] everything; no two fibers have the same name.
//! * A write below a fiber's stack hits a guard and ends the process with a message that names
//!   the fiber and the remedy; see [`Config::guard`] for how many fibers have one.
//!
//! # What fibers of a worker share
//! Thread-locals, `errno` and the floating-point environment belong to the worker. Each may have
//! another value after a suspension. The C interface, and blocking MPI calls, preserve `errno`. Do not suspend
//! while unwinding (in a destructor that runs because of a panic): the other fibers of the worker would
//! seem to be panicking. A call that blocks the thread (a read of a file, a lock of the standard library)
//! blocks the worker with all its fibers.
//!
//! # True today
//! * x86-64 only.
//! * A fiber that computes for long delays those behind it on its worker, even those that may migrate:
//!   a worker gives them away when it looks for the next fiber; others do not take them from it.

#[cfg(all(not(target_arch = "x86_64"), not(loom)))]
compile_error!("weft-fiber switches contexts by hand on x86-64 only; see src/switch.rs");

mod completion;
mod incarnation;
mod parker;
mod runnable;

#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod fiber;
#[cfg(not(loom))]
mod fiber_table;
#[cfg(not(loom))]
mod forever;
#[cfg(not(loom))]
mod idle;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
mod lifecycle;
#[cfg(not(loom))]
mod overflow;
#[cfg(not(loom))]
mod placement;
#[cfg(not(loom))]
mod run_queue;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod sanitizer;
#[cfg(not(loom))]
mod scheduler;
#[cfg(not(loom))]
mod spawn;
#[cfg(not(loom))]
mod stack;
#[cfg(not(loom))]
mod stack_cache;
#[cfg(all(not(loom), not(miri)))]
mod switch;
#[cfg(miri)]
#[path = "switch_of_threads.rs"]
mod switch;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod waiter;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use self::{
    config::{Config, Guard, Order},
    fiber::{Fiber, WorkerId, current},
    join::JoinHandle,
    runtime::Runtime,
    spawn::{Builder, spawn},
    stack::{LARGEST_STACK, SMALLEST_STACK},
    waiter::{ParkedThread, Waiter, give_way_before_park, park, park_at_once, sleep_elsewhere},
    worker::{current_worker, is_fiber, others_runnable, yield_in_place, yield_now},
};

#[cfg(all(test, not(loom)))]
mod tests;
