//! Time as a process of the job can see it.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the sleeper sleeps.
const STEP: Duration = Duration::from_millis(5);

/// A clock that does not count the time by which this machine wakes sleepers too late: what is promised
/// within a time is promised by processes that are given a processor when they want one. How much that
/// was is said.
pub struct Clock {
    start: Instant,
    late: Arc<Mutex<Duration>>,
    sleeper: Option<JoinHandle<()>>,
}

impl Clock {
    /// Begins with nothing.
    pub fn start() -> Self {
        let late = Arc::new(Mutex::new(Duration::ZERO));
        let weak = Arc::downgrade(&late);
        let sleeper = thread::spawn(move || {
            loop {
                let begun = Instant::now();
                thread::sleep(STEP);
                let Some(late) = weak.upgrade() else {
                    return;
                };
                *late.lock().expect("no panic") += begun.elapsed().saturating_sub(2 * STEP);
            }
        });
        Self {
            start: Instant::now(),
            late,
            sleeper: Some(sleeper),
        }
    }

    /// How much was not counted so far.
    pub fn late(&self) -> Duration {
        *self.late.lock().expect("no panic")
    }

    /// What it shows.
    pub fn now(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.late())
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.late = Arc::default();
        if let Some(sleeper) = self.sleeper.take() {
            let _ = sleeper.join();
        }
    }
}
