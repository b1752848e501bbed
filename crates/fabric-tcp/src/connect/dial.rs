//! Dials: attempts to reach peers, each for a set time, all addresses of a peer at once, repeated after
//! pauses.
//!
//! ```text
//!   since ──────── attempts, pauses of 20, 40, 80 … 400 ms ────────► until       looked: when this rank was there
//! ```
//!
//! Time in which this rank did not look is added to the end, since nothing was tried in it.

use std::io;
use std::time::Duration;

use weft_sys::socket::is_exhausted;

/// Pauses between attempts to reach a peer, in nanoseconds: the first, and the longest.
const PAUSES: (u64, u64) = (20_000_000, 400_000_000);

/// How long after the end of a process has shown its launcher may tell how it has ended, in nanoseconds.
const CAUSE: u64 = 1_000_000_000;

/// Attempts to reach one peer. Times are nanoseconds of the clock of the network.
#[derive(Debug)]
pub struct Dial {
    since: u64,
    until: u64,
    looked: u64,
    /// Time of the next attempts.
    next: u64,
    /// Pause after those.
    pause: u64,
    /// The last failure of each address.
    failures: Vec<Failure>,
    /// The failure that broke the connection, if there was one.
    broken: Option<String>,
    /// When it first [showed the end](Self::shows_the_end).
    ended: Option<u64>,
}

/// Why an address did not work.
#[derive(Debug)]
struct Failure {
    /// The address, as an index in the card of the peer.
    offer: usize,
    text: String,
    why: Why,
}

/// The conclusion from a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Nobody listens there.
    Refused,
    /// This process has no descriptor left.
    Exhausted,
    Other,
}

impl From<&io::Error> for Why {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ if is_exhausted(error) => Self::Exhausted,
            _ => Self::Other,
        }
    }
}

/// What a look at a dial comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Turn {
    /// The set time is over, and nobody answers: the peer is given up.
    Over,
    /// The next attempts are due.
    Due,
    /// Nothing is to be done.
    Later,
}

impl Dial {
    /// Records why an address did not work, for the report if none does.
    pub fn note_failure(&mut self, offer: usize, text: String, why: Why) {
        self.failures.retain(|other| other.offer != offer);
        self.failures.push(Failure { offer, text, why });
    }

    /// Whether the peer's process is gone, after a failed attempt at address `offer` of `offers`. If the peer
    /// was reached before, a refusal at that address (`agreed`) shows it. If not, only refusals of all
    /// addresses show it: one address may also be our own.
    pub fn shows_the_end(&self, offer: usize, agreed: Option<usize>, offers: usize) -> bool {
        let refused = |failure: &Failure| failure.why == Why::Refused;
        match agreed {
            Some(agreed) => {
                let last = self.failures.iter().find(|failure| failure.offer == offer);
                agreed == offer && last.is_some_and(refused)
            }
            None => self.failures.len() == offers && self.failures.iter().all(refused),
        }
    }

    /// Whether it has shown the end of the process for long enough that nobody tells any more how that has ended.
    pub fn is_end_unexplained(&mut self, now: u64) -> bool {
        now >= *self.ended.get_or_insert(now) + CAUSE
    }

    /// The failure that broke the connection, if there was one.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Why an address did not work; `None`: there was no answer.
    pub fn failure(&self, offer: usize) -> Option<&str> {
        let failed = self.failures.iter().find(|failure| failure.offer == offer);
        failed.map(|failure| failure.text.as_str())
    }

    /// Whether an address could not be called because no descriptor was left.
    pub fn lacks_descriptors(&self) -> bool {
        let mut all = self.failures.iter();
        all.any(|failure| failure.why == Why::Exhausted)
    }

    /// Nanoseconds since it began.
    pub fn lasts(&self, now: u64) -> u64 {
        now - self.since
    }

    /// Looks at it. `is_answered`: the peer, or somebody at its addresses, answers, and so the set time does not end. If the next
    /// attempts are due, those after them are scheduled a pause later.
    pub fn look(&mut self, now: u64, is_answered: impl FnOnce() -> bool) -> Turn {
        self.add_absence(now);
        if now >= self.until && !is_answered() {
            return Turn::Over;
        }
        if now < self.next {
            return Turn::Later;
        }
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Turn::Due
    }

    /// Adds the time in which this rank did not look.
    fn add_absence(&mut self, now: u64) {
        let away = now - self.looked;
        self.looked = now;
        if away > 2 * PAUSES.1 {
            self.until = self.until.saturating_add(away);
        }
    }

    /// The peer was reached, and the connection ended before both sides agreed on it: the set time begins
    /// anew.
    pub fn begin_anew(&mut self, now: u64, limit: Duration) {
        self.until = self.until.max(now.saturating_add(nanoseconds(limit)));
    }

    /// When it needs attention.
    fn due(&self, now: u64) -> u64 {
        // After patience has ended, it has no further end while the peer's kernel answers.
        let end = match self.until > now {
            true => self.until,
            false => now + PAUSES.1,
        };
        self.next.min(end)
    }
}

/// The peers that are being dialled, in the order in which that began.
#[derive(Default, Debug)]
pub struct Dials {
    under_way: Vec<(u32, Dial)>,
}

impl Dials {
    /// Whether nobody is dialled.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether this peer is dialled.
    #[inline]
    pub fn contains(&self, peer: u32) -> bool {
        self.under_way.iter().any(|(other, _)| *other == peer)
    }

    /// The attempts to reach a peer.
    pub fn get(&self, peer: u32) -> Option<&Dial> {
        let mut all = self.under_way.iter();
        all.find(|(other, _)| *other == peer).map(|(_, dial)| dial)
    }

    /// As [`Self::get`].
    pub fn get_mut(&mut self, peer: u32) -> Option<&mut Dial> {
        let mut all = self.under_way.iter_mut();
        all.find(|(other, _)| *other == peer).map(|(_, dial)| dial)
    }

    /// Begins to reach a peer, for `limit`; `broken`: what broke, if there was a connection.
    pub fn begin(&mut self, peer: u32, now: u64, limit: Duration, broken: Option<String>) {
        let dial = Dial {
            since: now,
            until: now.saturating_add(nanoseconds(limit)),
            looked: now,
            next: now,
            pause: PAUSES.0,
            failures: Vec::new(),
            broken,
            ended: None,
        };
        match self.get_mut(peer) {
            Some(before) => *before = dial,
            None => self.under_way.push((peer, dial)),
        }
    }

    /// The peer is reached, or given up.
    pub fn end(&mut self, peer: u32) {
        self.under_way.retain(|(other, _)| *other != peer);
    }

    /// The peers that are being dialled.
    pub fn peers(&self) -> Vec<u32> {
        self.under_way.iter().map(|(peer, _)| *peer).collect()
    }

    /// When the first of them needs attention.
    pub fn due(&self, now: u64) -> Option<u64> {
        self.under_way.iter().map(|(_, dial)| dial.due(now)).min()
    }

    /// Ends all attempts.
    pub fn clear(&mut self) {
        self.under_way.clear();
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that cannot work is an error within five seconds: the last look comes a pause after the set
    /// time.
    #[test]
    fn patience_with_a_first_call_ends_in_time() {
        let config = crate::Config::new(0, 2, weft_secure::Key::from_bytes([0; 32]));
        let last = config.connect + Duration::from_nanos(PAUSES.1);
        assert!(last < Duration::from_secs(5), "{last:?}");
    }

    #[test]
    fn refusals_show_the_end_of_a_process_where_it_was_reached_or_everywhere() {
        let mut dials = Dials::default();
        dials.begin(1, 0, Duration::from_secs(1), None);
        let dial = dials.get_mut(1).expect("it has begun");
        dial.note_failure(0, "refused".into(), Why::Refused);
        assert!(dial.shows_the_end(0, Some(0), 2), "it was reached there");
        assert!(
            !dial.shows_the_end(0, Some(1), 2),
            "it was reached elsewhere"
        );
        assert!(!dial.shows_the_end(0, None, 2), "one of two");
        dial.note_failure(1, "no way".into(), Why::Other);
        assert!(!dial.shows_the_end(1, None, 2), "no refusal");
        dial.note_failure(1, "refused".into(), Why::Refused);
        assert!(dial.shows_the_end(1, None, 2), "all");
    }

    #[test]
    fn the_cause_of_an_end_is_waited_for_from_when_it_first_shows() {
        let mut dials = Dials::default();
        dials.begin(1, 0, Duration::from_secs(1), None);
        let dial = dials.get_mut(1).expect("it has begun");
        let shown = 7 * CAUSE;
        let unexplained = [shown, shown + 1, shown + CAUSE - 1, shown + CAUSE];
        let unexplained = unexplained.map(|now| dial.is_end_unexplained(now));
        assert_eq!(unexplained, [false, false, false, true]);
    }

    #[test]
    fn time_without_a_look_is_added() {
        const MS: u64 = 1_000_000;
        let mut dials = Dials::default();
        dials.begin(1, 0, Duration::from_millis(100), None);
        let dial = dials.get_mut(1).expect("it has begun");
        let mut turn = |now| dial.look(now * MS, || false);
        assert_eq!(
            [turn(0), turn(19), turn(20)],
            [Turn::Due, Turn::Later, Turn::Due]
        );
        assert_eq!([turn(50), turn(60)], [Turn::Later, Turn::Due]);
        assert_ne!(turn(1050), Turn::Over, "990 ms were added");
        assert_ne!(turn(1089), Turn::Over);
        assert_eq!(turn(1090), Turn::Over);
    }

    #[test]
    fn patience_does_not_end_while_somebody_answers() {
        let mut dials = Dials::default();
        dials.begin(1, 0, Duration::from_nanos(10), None);
        let dial = dials.get_mut(1).expect("it has begun");
        assert_eq!(dial.look(10, || true), Turn::Due);
        assert_eq!(dial.look(11, || true), Turn::Later);
        assert_eq!(dial.look(12, || false), Turn::Over);
    }
}
