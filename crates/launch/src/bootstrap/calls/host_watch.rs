//! Host watch: the hosts of a job watch each other, if the launcher does not report the death of a rank.
//!
//! ```text
//!   lowest rank of each other host ── Call::Watch { rank } ──► rank 0
//!                                  ◄────── Watched ────────
//!                                  ◄──────── Part ────────►         before an end in order
//! ```
//!
//! The ranks of one host [watch each other](super::super::pmi::watch). The loss of a rank that is alone on its host, or
//! of all ranks of a host at once, is detected here: the kernel closes the link of a process that has died, and a host
//! that is gone does not answer the kernel of the other one. Nothing is asked of the ranks themselves: a stopped rank,
//! perhaps in a debugger, is not dead.
//!
//! Ranks near a death detect it first, and the processes that a launcher ends go at slightly different times on different
//! hosts: so a closed link counts only after a [moment](GRACE). Before `Watched` it means nothing: rank 0 may have come
//! to its end in order without having received the call.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_sys::poll::{self, PollFd};

use super::CalledHosts;
use super::caller::call_to_watch;
use crate::hosts::link::Link;

/// How long those who are nearer have to say that a rank has died, and the launcher to end this one as well.
const GRACE: Duration = Duration::from_secs(1);
/// After so long a host that does not answer is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a word may take to leave.
const LEAVE: Duration = Duration::from_secs(1);
/// How long rank 0 may take to answer that it watches.
const ANSWER: Duration = Duration::from_secs(4);

/// What is said on the link of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Word {
    /// From now on an end without goodbye is a loss.
    Watched,
    /// Goodbye.
    Goodbye,
}

/// Facts about losses, and the reaction to one.
pub struct Losses {
    /// Answers where the lowest rank of a host can be called.
    pub place: Box<dyn Fn(u32) -> Option<Vec<u8>> + Send>,
    /// Called with a loss: reports it and has the launcher end the job.
    pub end_job: Box<dyn FnOnce(&str) + Send>,
}

/// The hosts that this process watches.
pub struct HostWatch {
    hosts: CalledHosts,
    /// `None`: nobody is watched, or the job ends already.
    losses: Option<Losses>,
    watched: Vec<Watched>,
}

/// The lowest rank of another host.
struct Watched {
    rank: u32,
    link: Link,
    /// An end without goodbye is a loss.
    counts: bool,
    /// When its link was closed without one.
    closed: Option<Instant>,
}

impl HostWatch {
    /// A watch without hosts; without `losses` it never gets any.
    pub fn new(hosts: CalledHosts, losses: Option<Losses>) -> Self {
        Self {
            hosts,
            losses,
            watched: Vec::new(),
        }
    }

    /// As the lowest rank of this host: calls rank 0, so that each detects the other's loss, and waits until rank 0 does.
    /// The loss of a host that cannot be called is noticed only by ranks that talk to it.
    pub fn begin(&mut self, rank: u32) {
        if rank == 0 {
            return;
        }
        if let Some(losses) = &self.losses
            && let Ok(link) = call_to_watch(&self.hosts, rank, &*losses.place)
        {
            self.add(0, link, false);
            self.await_answer(Instant::now() + ANSWER);
        }
    }

    /// Until the one that was called answers, or is gone.
    fn await_answer(&mut self, until: Instant) {
        while self.watched.iter().any(|one| !one.counts) {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            let waited = poll::wait(&mut self.entries().collect::<Vec<_>>(), Some(left));
            if !waited.is_ok_and(|ready| ready > 0) {
                return;
            }
            self.watched.retain_mut(|one| one.stays(now));
        }
    }

    /// A rank has called to be watched.
    pub fn called(&mut self, rank: u32, mut link: Link) {
        if self.losses.is_some() && rank < self.hosts.map.size() {
            link.say(&Word::Watched);
            link.drain(LEAVE);
            self.add(rank, link, true);
        }
    }

    fn add(&mut self, rank: u32, link: Link, counts: bool) {
        link.notice_silence_of_host(SILENCE);
        self.watched.push(Watched {
            rank,
            link,
            counts,
            closed: None,
        });
    }

    /// To wait for.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        let open = self.watched.iter().filter(|one| one.closed.is_none());
        open.map(|one| one.link.reading())
    }

    /// When to look again at the latest.
    pub fn next_look(&self) -> Option<Instant> {
        let closed = self.watched.iter().filter_map(|one| one.closed);
        closed.min().map(|closed| closed + GRACE)
    }

    /// Reads from those of [`entries`](Self::entries) that are ready, and ends the job if a rank is lost.
    pub fn proceed(&mut self, ready: &[bool], now: Instant) {
        let mut ready = ready.iter();
        self.watched.retain_mut(|one| {
            let is_ready = one.closed.is_none() && ready.next() == Some(&true);
            !is_ready || one.stays(now)
        });
        let is_lost = |one: &&Watched| one.closed.is_some_and(|closed| now >= closed + GRACE);
        let Some(rank) = self.watched.iter().find(is_lost).map(|one| one.rank) else {
            return;
        };
        self.watched.clear();
        if let Some(losses) = self.losses.take() {
            let host = self.hosts.map.name(self.hosts.map.host(rank));
            (losses.end_job)(&format!(
                "rank {rank} on host {host} has ended without MPI_Finalize, or the host does not answer; the job ends"
            ));
        }
    }

    /// Says goodbye to all.
    pub fn part(&mut self) {
        for one in &mut self.watched {
            one.link.say(&Word::Goodbye);
            one.link.drain(LEAVE);
        }
    }
}

impl Watched {
    /// Hears it; false: it is not missed.
    fn stays(&mut self, now: Instant) -> bool {
        let filled = self.link.fill();
        // Messages from before the end count.
        while let Ok(Some(word)) = self.link.next() {
            match word {
                Word::Watched => self.counts = true,
                Word::Goodbye => return false,
            }
        }
        if filled.is_err() {
            self.closed = Some(now);
            return self.counts;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use weft_secure::Key;

    use super::*;
    use crate::bootstrap::hosts::HostMap;
    use crate::hosts::link::tests::pair;

    /// A watch of three hosts of one rank each, and what it was told of losses.
    fn watch() -> (HostWatch, Arc<Mutex<Vec<String>>>) {
        let cards = [(7, "a"), (8, "b"), (9, "c")];
        let hosts = CalledHosts {
            map: HostMap::group(cards.map(|(host, name)| (host, name.to_owned()))),
            key: Key::random().expect("random"),
            universe: 3,
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let losses = Losses {
            place: Box::new(|_| None),
            end_job: Box::new(move |lost| tell.lock().expect("no panic").push(lost.to_owned())),
        };
        (HostWatch::new(hosts, Some(losses)), told)
    }

    #[test]
    fn a_host_that_ends_without_a_goodbye_is_missed_after_a_moment() {
        let (mut watch, told) = watch();
        let (link, theirs) = pair();
        watch.called(2, link);
        assert_eq!(watch.entries().count(), 1);
        assert_eq!(watch.next_look(), None);
        drop(theirs);
        let now = Instant::now();
        watch.proceed(&[true], now);
        assert_eq!(watch.next_look(), Some(now + GRACE));
        assert_eq!(told.lock().expect("no panic").len(), 0);
        watch.proceed(&[], now + GRACE);
        let told = told.lock().expect("no panic");
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("rank 2 on host c"), "{told:?}");
    }

    #[test]
    fn a_host_that_has_said_goodbye_is_not_missed() {
        let (mut watch, told) = watch();
        let (link, theirs) = pair();
        watch.called(1, link);
        let mut there = HostWatch::new(watch.hosts.clone(), None);
        there.add(0, theirs, false);
        there.part();
        drop(there);
        watch.proceed(&[true], Instant::now());
        assert_eq!((watch.watched.len(), watch.next_look()), (0, None));
        assert_eq!(told.lock().expect("no panic").len(), 0);
    }

    /// Rank 0 may have finalised before it has heard the call.
    #[test]
    fn a_host_that_has_not_answered_is_not_missed() {
        let (mut watch, _) = watch();
        for (answers, missed) in [(false, 0), (true, 1)] {
            let (link, mut theirs) = pair();
            watch.watched.clear();
            watch.add(0, link, false);
            if answers {
                theirs.say(&Word::Watched);
                theirs.drain(LEAVE);
            }
            drop(theirs);
            watch.proceed(&[true], Instant::now());
            assert_eq!(watch.watched.len(), missed);
        }
    }
}
