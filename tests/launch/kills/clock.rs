//! Time, as processes of the job experience it.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the sleeper sleeps.
const STEP: Duration = Duration::from_millis(5);

/// A clock that leaves out the time by which this machine wakes sleepers too late: promises about time only
/// hold for processes that get a processor when they need one. The clock also tells how much it has left out.
pub struct Clock {
    start: Instant,
    late: Arc<Mutex<Duration>>,
    sleeper: Option<JoinHandle<()>>,
}

impl Clock {
    /// Starts at zero.
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

    /// The time that was left out so far.
    pub fn late(&self) -> Duration {
        *self.late.lock().expect("no panic")
    }

    /// The time on this clock.
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
