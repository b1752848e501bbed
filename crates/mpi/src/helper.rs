//! Helper: a thread that polls the engine while no other thread does, on behalf of a rank that makes no call.
//!
//! | reason | without the helper other ranks wait | it polls |
//! |---|---|---|
//! | windows whose accesses need this rank's engine | until this rank calls MPI again (MPI 5.0, section 12.7.3) | always |
//! | connections that this rank is making, over which it has sent | the same, and `MPI_Send` has returned | while no call of the rank polls, nor sleeps for them |
//!
//! With the helper they wait for [`LONGEST`] at most, for each answer. It starts with the first window of a rank that is
//! reached by messages, or when the fabric [begins](weft_fabric::Bell::when_reaching) to connect to a peer, and ends when
//! there is neither. It rings no bell and sleeps on none, so that it costs senders nothing: it polls again after
//! [`SHORTEST`], and after twice as long each time that there was nothing to do. For a connection it polls first after
//! [`LONGEST`]: a rank that stays inside MPI has made it by then. The bell says whether a call polls for connections,
//! without the engine's lock, which is biased towards the thread that calls: taking it once costs each later call.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use weft_fabric::{Bell, Reaching};
use weft_sys::signal::spawn_without_signals;

use crate::process::Process;

/// Time between looks when there was something to do.
const SHORTEST: Duration = Duration::from_millis(1);
/// Time between looks when there was nothing for long.
const LONGEST: Duration = Duration::from_millis(16);

/// The helper of a process, if it needs one. The thread keeps this, and not the process.
pub(crate) struct HelperSlot(Arc<Shared>);

struct Shared {
    helper: Mutex<Helper>,
    told: Condvar,
    bell: Arc<dyn Bell>,
}

/// *Invariant:* the thread runs while there are windows or a peer is being reached, unless the system has refused it, or it is over.
#[derive(Debug, Default)]
struct Helper {
    windows: usize,
    /// Until the next look.
    pause: Duration,
    /// The thread has not said that it ends.
    runs: bool,
    /// The thread that runs.
    thread: Option<JoinHandle<()>>,
    /// The process ends.
    is_over: bool,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HelperSlot {
    /// None yet, of a process with this bell.
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Self {
        Self(Arc::new(Shared {
            helper: Mutex::default(),
            told: Condvar::new(),
            bell,
        }))
    }

    /// A window begins that needs help. Without threads there is none: the others wait for calls then.
    pub(crate) fn begin(&self, process: &Arc<Process>) {
        let mut helper = open(&self.0.helper);
        helper.windows += 1;
        helper.pause = SHORTEST;
        self.start(helper, process);
    }

    /// A window has ended that needed help.
    pub(crate) fn end(&self) {
        let mut helper = open(&self.0.helper);
        helper.windows = helper.windows.saturating_sub(1);
        if helper.windows == 0 {
            self.0.told.notify_all();
        }
    }

    /// The fabric begins to reach a peer. Called with the endpoint.
    pub(crate) fn reach(&self, process: &Arc<Process>) {
        let mut helper = open(&self.0.helper);
        if !helper.runs {
            helper.pause = LONGEST;
            self.start(helper, process);
        }
    }

    fn start(&self, mut helper: MutexGuard<'_, Helper>, process: &Arc<Process>) {
        if helper.runs {
            self.0.told.notify_all();
            return;
        }
        // Under simulation, time stands still while a rank computes.
        if helper.is_over || self.0.bell.load().awake == 0 {
            return;
        }
        let (shared, process) = (Arc::clone(&self.0), Arc::downgrade(process));
        let thread = spawn_without_signals("weft-progress", move || help(&shared, &process));
        helper.runs = thread.is_ok();
        helper.thread = thread.ok();
    }

    /// Nobody needs help any more, whatever windows there are: the process ends.
    pub(crate) fn stop(&self) {
        let mut helper = open(&self.0.helper);
        helper.is_over = true;
        self.0.told.notify_all();
        let thread = helper.thread.take();
        drop(helper);
        if let Some(thread) = thread {
            // It panics only if the engine does.
            let _ = thread.join();
        }
    }
}

impl Drop for HelperSlot {
    fn drop(&mut self) {
        open(&self.0.helper).is_over = true;
        self.0.told.notify_all();
    }
}

impl Shared {
    /// Waits for the next look. `None`, and the thread is to end: nobody needs one any more.
    fn next(&self) -> Option<()> {
        let mut helper = open(&self.helper);
        while !helper.is_over {
            let pause = helper.pause;
            let waited = self.told.wait_timeout(helper, pause);
            (helper, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let reaching = self.bell.reaching();
            if helper.windows == 0 && reaching == Reaching::Nobody {
                break;
            }
            if !helper.is_over && (helper.windows > 0 || reaching == Reaching::LeftAlone) {
                return Some(());
            }
            helper.pause = LONGEST;
        }
        // With the lock: who begins to reach a peer from here on starts another one. Nobody need wait for this one: what
        // is left of it touches the engine no more. Who stops it has its handle already.
        helper.runs = false;
        helper.thread = None;
        None
    }

    fn looked(&self, found: bool) {
        // That look was none of the rank's own.
        let _ = self.bell.reaching();
        let mut helper = open(&self.helper);
        helper.pause = match found {
            true => SHORTEST,
            false => LONGEST.min(helper.pause * 2),
        };
    }
}

fn help(shared: &Shared, process: &Weak<Process>) {
    while let Some(()) = shared.next()
        && let Some(process) = process.upgrade()
    {
        let mut found = false;
        while process.lock_on_behalf().help() {
            found = true;
        }
        shared.looked(found);
    }
}
