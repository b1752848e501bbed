//! Agent: the searching rank of a host, for the one that judges. It reports when all ranks of its host rest, and passes
//! on questions and answers, as an agent of `mpiexec` does.
//!
//! It calls when it has something to report for the first time: a job in which no host ever rests makes no connection. If
//! no rank is left that would judge before it, it judges itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_fabric_shm::Watch;
use weft_mpi::waits::RankWaits;
use weft_sys::poll::PollFd;

use super::host_ranks::WatchedHost;
use super::other_hosts::{FromHost, ToHost};
use super::{HOST_LEAVE, HostRanks, SILENCE};
use crate::bootstrap::calls::{CalledHosts, Judge, ListenAddressOf, call_to_search};
use crate::hosts::Rest;
use crate::hosts::link::{Link, LinkError};
use crate::job::deadlock::WatchedRanks;

/// How long after a call that has failed, or a link that was lost, it is called again; then ever more rarely.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time between calls.
const RAREST: Duration = Duration::from_secs(30);

/// What the head knows of a rank of this host: its process and whether it has come to MPI; `None`: it has ended.
type Known = Option<(u32, bool)>;

/// The searching rank of a host, for the head.
pub struct Agent {
    hosts: CalledHosts,
    rank: u32,
    ranks: WatchedHost,
    rest: Rest,
    shown: Option<u64>,
    /// The number of the last inquiry here, and at the head.
    inquiry: (u32, u32),
    link: Option<Link>,
    known: BTreeMap<u32, Known>,
    not_before: Instant,
    pause: Duration,
    /// It is called by others if nobody before it can be.
    may_judge: bool,
}

impl Agent {
    /// For this rank's host. It `may_judge` if others can call it.
    pub fn new(watch: Watch, host: &HostRanks, may_judge: bool) -> Self {
        let now = Instant::now();
        Self {
            ranks: WatchedHost::new(watch, host),
            hosts: host.hosts.clone(),
            rank: host.rank,
            rest: Rest::new(now),
            shown: None,
            inquiry: (0, 0),
            link: None,
            known: BTreeMap::new(),
            not_before: now,
            pause: AGAIN,
            may_judge,
        }
    }

    /// To wait for.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.link.iter().map(Link::reading)
    }

    /// When to look next.
    pub fn next_look(&self) -> Instant {
        self.rest.next_look()
    }

    /// A rank of this host waits for this.
    pub fn hear(&mut self, rank: u32, mut waits: RankWaits) {
        let (here, number) = self.inquiry;
        // Nobody waits for answers to those before.
        if waits.inquiry == here {
            waits.inquiry = number;
            let waits = Box::new(waits);
            self.say(&[FromHost::Waits { rank, waits }]);
        }
    }

    /// Executes orders that have arrived from the head. True: all ranks of this host are to be stopped.
    pub fn execute(&mut self) -> bool {
        let Some(mut link) = self.link.take() else {
            return false;
        };
        match self.execute_all(&mut link) {
            Ok(stops) => {
                self.link = Some(link);
                stops
            }
            Err(_) => {
                self.try_later();
                false
            }
        }
    }

    fn execute_all(&mut self, link: &mut Link) -> Result<bool, LinkError> {
        link.fill()?;
        while let Some(word) = link.next()? {
            match word {
                ToHost::Inquire { number, full } => {
                    self.inquiry = (self.ranks.inquire(full), number);
                }
                ToHost::Stop => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Stops all ranks of this host.
    pub fn stop(&self) {
        self.ranks.stop_others();
        self.ranks.stop_itself();
    }

    /// Looks, if it is time to, and sends reports. `place` returns the address at which the lowest rank of a host can be
    /// called. True: this rank is to judge.
    pub fn look(&mut self, now: Instant, place: &ListenAddressOf) -> bool {
        if now < self.rest.next_look() {
            return false;
        }
        self.ranks.note_ends();
        let news = self.rest.look(now, || self.ranks.rest());
        if let Some(shown) = news {
            self.shown = shown;
        }
        if self.link.is_some() {
            let mut words = self.changes();
            words.extend(news.map(|shown| FromHost::Rest { shown }));
            self.say(&words);
        } else if self.shown.is_some() && now >= self.not_before {
            return self.call(place);
        }
        false
    }

    /// Another host has called this rank to judge. Returns whether it is to: not if there is a rank that judges before
    /// it.
    pub fn is_to_judge(&mut self, place: &ListenAddressOf) -> bool {
        self.link.is_none() && self.call(place)
    }

    /// Calls the head, and says how far the ranks are. True: this rank is to judge.
    fn call(&mut self, place: &ListenAddressOf) -> bool {
        match call_to_search(&self.hosts, self.rank, self.may_judge, place) {
            Some(Judge::This) => return true,
            Some(Judge::Other(link)) => {
                link.notice_silence_of_host(SILENCE);
                self.link = Some(*link);
                self.known.clear();
                let mut words = self.changes();
                words.push(FromHost::Rest { shown: self.shown });
                self.say(&words);
            }
            None => self.try_later(),
        }
        false
    }

    fn try_later(&mut self) {
        self.link = None;
        self.not_before = Instant::now() + self.pause;
        self.pause = RAREST.min(self.pause * 2);
    }

    /// What the head does not know of the ranks.
    fn changes(&mut self) -> Vec<FromHost> {
        let running = self.ranks.running();
        let mut now: BTreeMap<u32, Known> = self.ranks.ranks().map(|rank| (rank, None)).collect();
        now.extend(
            running
                .iter()
                .map(|one| (one.rank, Some((one.process, one.is_initialised)))),
        );
        let news = now
            .iter()
            .filter(|(rank, now)| self.known.get(*rank) != Some(*now));
        let words = news.map(|(rank, now)| match *now {
            None => FromHost::Ended { rank: *rank },
            Some((process, is_initialised)) => FromHost::Runs {
                rank: *rank,
                process,
                is_initialised,
            },
        });
        let words = words.collect();
        self.known = now;
        words
    }

    fn say(&mut self, words: &[FromHost]) {
        let Some(link) = &mut self.link else {
            return;
        };
        words.iter().for_each(|word| link.say(word));
        link.drain(HOST_LEAVE);
        if link.is_waiting() {
            self.try_later();
        }
    }

    /// This rank ends with MPI, which the head is told if there was a message to it before. Returns the link, by whose
    /// end the head learns of that of this process.
    pub fn leave(mut self) -> Option<Link> {
        self.say(&[FromHost::Leaves]);
        self.link
    }
}

/// Tells the head that this rank ends with MPI before others do, which may wait for it. Returns the link, by whose end
/// the head learns of that of this process. Nothing is said about others, which report themselves.
pub fn leave_early(host: &HostRanks, place: &ListenAddressOf) -> Option<Link> {
    match call_to_search(&host.hosts, host.rank, false, place)? {
        Judge::This => None,
        Judge::Other(mut link) => {
            link.say(&FromHost::Leaves);
            link.drain(HOST_LEAVE);
            Some(*link)
        }
    }
}
