//! Departure of a job that a signal has asked to end: how long its ranks may tidy up before they are killed.
//!
//! ```text
//!   none ── a signal ──▶ under way ── patience ends, or a signal again ──▶ all are killed
//! ```

use std::time::{Duration, Instant};

use weft_sys::process::SIGTERM;

/// How long ranks may tidy up after a signal before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// The same after SIGTERM, by which batch systems announce the end.
const GRACE_TERM: Duration = Duration::from_secs(3);
/// A signal again after so long means: now. What comes sooner is the same request, which has come by two ways.
const AGAIN: Duration = Duration::from_millis(300);

/// The departure, if a signal has asked for it.
#[derive(Debug, Default)]
pub struct Departure {
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    since: Instant,
    /// When patience ends.
    until: Instant,
}

/// What a signal means that ends programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Request {
    /// To end: ranks are to be told.
    Begins,
    /// The same once more.
    Repeated,
    /// To end now.
    Insists,
}

impl Departure {
    /// A signal has come that ends programs.
    pub fn ask(&mut self, signal: i32, now: Instant) -> Request {
        match &self.under_way {
            Some(one) if now < one.since + AGAIN => Request::Repeated,
            Some(_) => Request::Insists,
            None => {
                let grace = if signal == SIGTERM { GRACE_TERM } else { GRACE };
                self.under_way = Some(UnderWay {
                    since: now,
                    until: now + grace,
                });
                Request::Begins
            }
        }
    }

    /// When patience ends, if a departure is under way.
    pub fn until(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|one| one.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_insists_and_an_echo_does_not() {
        let start = Instant::now();
        let mut departure = Departure::default();
        assert_eq!(departure.until(), None);
        assert_eq!(departure.ask(libc::SIGINT, start), Request::Begins);
        assert_eq!(departure.until(), Some(start + GRACE));
        let echo = start + AGAIN / 2;
        assert_eq!(departure.ask(SIGTERM, echo), Request::Repeated);
        assert_eq!(departure.ask(libc::SIGINT, start + AGAIN), Request::Insists);
        assert_eq!(
            departure.until(),
            Some(start + GRACE),
            "it is not prolonged"
        );
    }

    #[test]
    fn batch_systems_give_more_time() {
        let start = Instant::now();
        let mut departure = Departure::default();
        assert_eq!(departure.ask(SIGTERM, start), Request::Begins);
        assert_eq!(departure.until(), Some(start + GRACE_TERM));
    }
}
