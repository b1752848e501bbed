//! Context switch emulated by threads: for Miri, which has no stack pointer to change.
//!
//! A context is a thread that runs while it has the turn. Everything above the switch is the production code, so its
//! handling of results, stacks and tables is checked. The worker that a thread is goes along with the turn.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::worker::{self, Worker};

/// A context that does not run: the address of its [`Turn`].
pub(crate) type Context = *mut u8;

/// The right of one of the threads that stand for contexts to run.
#[derive(Default)]
struct Turn {
    /// Whoever runs as this worker (or as none) is it: the turn.
    given: Mutex<Option<Option<&'static Worker>>>,
    changed: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

thread_local! {
    /// That of the thread: made on its first use, or by `prepare`.
    static MINE: RefCell<Arc<Turn>> = RefCell::default();
}

impl Turn {
    /// Gives the turn of the calling thread away.
    fn give(&self) {
        let worker = worker::be(None);
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
        self.changed.notify_one();
    }

    /// Waits for the turn.
    fn wait(&self) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        while given.is_none() {
            given = self
                .changed
                .wait(given)
                .unwrap_or_else(PoisonError::into_inner);
        }
        worker::be(given.take().flatten());
    }

    /// # Safety
    /// `context` must be one that was not reclaimed.
    unsafe fn of(context: Context) -> Arc<Self> {
        let turn = context.cast_const().cast::<Self>();
        // SAFETY: made from an `Arc` whose thread lives, or which `prepare` has left to `reclaim`.
        unsafe {
            Arc::increment_strong_count(turn);
            Arc::from_raw(turn)
        }
    }
}

/// As the switch of x86-64.
///
/// # Safety
/// As there.
pub(crate) unsafe fn switch(save: *mut Context, next: Context) {
    let mine = MINE.with_borrow(Arc::clone);
    // SAFETY: the caller promises that `save` is writable, and that `next` is a context that `prepare` or a switch made.
    let next = unsafe {
        save.write(Arc::as_ptr(&mine).cast_mut().cast());
        Turn::of(next)
    };
    next.give();
    mine.wait();
}

/// As the switch of x86-64.
///
/// # Safety
/// As there.
pub(crate) unsafe fn finish(_: *mut Context, next: Context) -> ! {
    // SAFETY: the caller promises that `next` is a context that `prepare` or a switch made.
    unsafe { Turn::of(next) }.give();
    // Ends the thread.
    panic::resume_unwind(Box::new(()))
}

/// A pointer that goes to a thread.
struct Sent(*mut u8);
// SAFETY: the thread stands for a context of the one who sends.
unsafe impl Send for Sent {}

/// As the switch of x86-64.
///
/// # Safety
/// As there.
pub(crate) unsafe fn prepare(
    _: *mut u8,
    main: unsafe extern "C-unwind" fn(*mut u8) -> !,
    argument: *mut u8,
) -> Context {
    let turn = Arc::new(Turn::default());
    let (mine, argument) = (Arc::clone(&turn), Sent(argument));
    let body = move || {
        let argument = argument;
        mine.wait();
        MINE.set(mine);
        // SAFETY: given along with it.
        let ended = panic::catch_unwind(AssertUnwindSafe(|| unsafe { main(argument.0) }));
        drop(ended);
    };
    *turn.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::spawn(body));
    Arc::into_raw(turn).cast_mut().cast()
}

/// The context has finished: nothing of it is left after this.
///
/// # Safety
/// It must come from [`prepare`], and be reclaimed once.
pub(crate) unsafe fn reclaim(context: Context) {
    // SAFETY: left by `prepare` for this.
    let turn = unsafe { Arc::from_raw(context.cast_const().cast::<Turn>()) };
    let thread = turn
        .thread
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(thread) = thread {
        thread.join().expect("it has caught what ended it");
    }
}
