//! Helper: a thread that looks into the engine while nobody else does, for windows whose accesses need this rank's engine.
//!
//! A rank that computes makes no progress, and the others wait for it: MPI 5.0, section 12.7.3, lets them wait until it calls
//! MPI again. With the helper they wait for [`LONGEST`] at most. It begins with the first window of a rank that is reached by messages, and
//! ends with the last. It rings no bell and sleeps on none, so that nobody pays for it who sends a message: it looks again after
//! [`SHORTEST`], and twice as long each time that there was nothing to do.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::process::Process;

/// Time between looks when there was something to do.
const SHORTEST: Duration = Duration::from_millis(1);
/// Time between looks when there was nothing for long.
const LONGEST: Duration = Duration::from_millis(16);
/// The helper calls no code that needs much.
const STACK: usize = 256 << 10;

/// The helper of a process, if it has windows that need one.
#[derive(Debug, Default)]
pub(crate) struct HelperSlot(Mutex<Helper>);

#[derive(Debug, Default)]
struct Helper {
    windows: usize,
    thread: Option<(Arc<Stop>, JoinHandle<()>)>,
}

/// Tells the thread to end.
#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    told: Condvar,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HelperSlot {
    /// A window begins that needs help. Without threads there is none: the others wait for calls then.
    pub(crate) fn begin(&self, process: &Arc<Process>) {
        // Under simulation, time stands still while a rank computes.
        if process.load().awake == 0 {
            return;
        }
        let mut helper = open(&self.0);
        helper.windows += 1;
        if helper.thread.is_none() {
            let stop = Arc::new(Stop::default());
            let (process, told) = (Arc::clone(process), Arc::clone(&stop));
            let thread = Builder::new()
                .name("weft-progress".to_owned())
                .stack_size(STACK)
                .spawn(move || help(&process, &told));
            helper.thread = thread.ok().map(|thread| (stop, thread));
        }
    }

    /// A window has ended that needed help.
    pub(crate) fn end(&self) {
        let mut helper = open(&self.0);
        helper.windows = helper.windows.saturating_sub(1);
        if helper.windows > 0 {
            return;
        }
        drop(helper);
        self.stop();
    }

    /// Nobody needs help any more, whatever windows there are: the process ends.
    pub(crate) fn stop(&self) {
        let thread = open(&self.0).thread.take();
        if let Some((stop, thread)) = thread {
            *open(&stop.stopped) = true;
            stop.told.notify_all();
            // It panics only if the engine does.
            let _ = thread.join();
        }
    }
}

fn help(process: &Process, stop: &Stop) {
    let mut pause = SHORTEST;
    let mut stopped = open(&stop.stopped);
    while !*stopped {
        let waited = stop.told.wait_timeout(stopped, pause);
        let (after, _) = waited.unwrap_or_else(PoisonError::into_inner);
        stopped = after;
        if *stopped {
            return;
        }
        drop(stopped);
        let mut found = false;
        while process.lock().help() {
            found = true;
        }
        pause = if found {
            SHORTEST
        } else {
            LONGEST.min(pause * 2)
        };
        stopped = open(&stop.stopped);
    }
}
