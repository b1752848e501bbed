//! Other hosts of a job, for the rank that judges: a link to the rank that searches on each, and what these have reported
//! about their ranks.
//!
//! ```text
//!   who searches on another host ── Call::Search, Runs, Ended, Rest, Waits ──► the one that judges
//!                                ◄──────────── Inquire, Stop ────────────────
//!                                ── Leaves … and the end of the link with its process ──►
//! ```
//!
//! A host that has no link, or whose ranks do not all rest, delays every judgement: then no rank is asked.

use serde::{Deserialize, Serialize};
use weft_fabric_shm::Watch;
use weft_mpi::waits::RankWaits;
use weft_sys::poll::PollFd;

use super::host_ranks::WatchedHost;
use super::{HOST_LEAVE, HostRanks, SILENCE};
use crate::bootstrap::hosts::HostMap;
use crate::control::Notice;
use crate::hosts::link::{Link, LinkError};
use crate::job::deadlock::WatchedRanks;
use crate::job::{RemoteRanks, mixed};
use crate::rank_processes::RunningRank;

/// Messages of the rank that searches on another host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromHost {
    /// A rank there has not ended: its process, and whether it has come to MPI.
    Runs {
        rank: u32,
        process: u32,
        is_initialised: bool,
    },
    /// The process of a rank there has ended after MPI, in order.
    Ended { rank: u32 },
    /// Whether all ranks there sleep, with a number that changes when one is woken.
    Rest { shown: Option<u64> },
    /// What a rank there waits for: the answer to the inquiry that it names.
    Waits { rank: u32, waits: Box<RankWaits> },
    /// The rank that says this has ended with MPI. The link ends with its process.
    Leaves,
}

/// Messages to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// Ask the ranks there what they wait for; with `full`, also where.
    Inquire { number: u32, full: bool },
    /// Stop the ranks there: the job ends, or is to be examined.
    Stop,
}

/// A rank of another host that searches there, or has ended with MPI.
struct HostLink {
    rank: u32,
    link: Link,
    /// It is the one that says whether its host rests.
    searches: bool,
    /// It has ended with MPI.
    has_left: bool,
}

/// The other hosts of a job.
struct OtherHosts {
    map: HostMap,
    here: u32,
    ranks: RemoteRanks,
    links: Vec<HostLink>,
}

impl OtherHosts {
    /// All but this one, none of which has said anything.
    fn of(map: &HostMap, here: u32) -> Self {
        let mut ranks = RemoteRanks::default();
        let others = (0..map.size()).filter(|rank| map.host(*rank) != here);
        others.for_each(|rank| ranks.assign(map.host(rank) as usize, rank));
        Self {
            map: map.clone(),
            here,
            ranks,
            links: Vec::new(),
        }
    }

    /// As [`WatchedJob::take_in`].
    fn take_in(&mut self, rank: u32, link: Link) -> Vec<(u32, RankWaits)> {
        if rank >= self.map.size() || self.map.host(rank) == self.here {
            return Vec::new();
        }
        link.notice_silence_of_host(SILENCE);
        self.links.push(HostLink {
            rank,
            link,
            searches: false,
            has_left: false,
        });
        let last = self.links.len() - 1;
        self.hear(|index| (index == last).then_some(false))
    }

    /// `reading` answers which are heard, and whether they have something to read. Answers what ranks wait for.
    fn hear(&mut self, reading: impl Fn(usize) -> Option<bool>) -> Vec<(u32, RankWaits)> {
        let mut heard = Vec::new();
        let links = std::mem::take(&mut self.links);
        for (index, mut one) in links.into_iter().enumerate() {
            let told = reading(index).map(|reads| self.hear_one(&mut one, reads, &mut heard));
            if !matches!(told, Some(Err(_))) {
                self.links.push(one);
            } else if one.has_left {
                // It could have come back until now.
                self.ranks.end(one.rank);
            } else if one.searches {
                self.ranks.rest(self.map.host(one.rank) as usize, None);
            }
        }
        heard
    }

    /// An error: it is gone.
    fn hear_one(
        &mut self,
        one: &mut HostLink,
        reads: bool,
        heard: &mut Vec<(u32, RankWaits)>,
    ) -> Result<(), LinkError> {
        let filled = if reads { one.link.fill() } else { Ok(()) };
        let host = self.map.host(one.rank);
        let strange = || LinkError::Broken("it speaks of a rank of another host".into());
        let check = |rank: u32| {
            let is_there = rank < self.map.size() && self.map.host(rank) == host;
            is_there.then_some(()).ok_or_else(strange)
        };
        // Messages from before the end count.
        while let Some(said) = one.link.next()? {
            match said {
                FromHost::Runs {
                    rank,
                    process,
                    is_initialised,
                } => {
                    check(rank)?;
                    self.ranks.start(host as usize, rank, process);
                    if is_initialised {
                        self.ranks.tell(rank, &Notice::Initialised);
                    }
                }
                FromHost::Ended { rank } => {
                    check(rank)?;
                    self.ranks.end(rank);
                }
                FromHost::Rest { shown } => {
                    one.searches = true;
                    self.ranks.rest(host as usize, shown);
                }
                FromHost::Waits { rank, waits } => {
                    check(rank)?;
                    heard.push((rank, *waits));
                }
                FromHost::Leaves => {
                    one.has_left = true;
                    if one.searches {
                        self.ranks.rest(host as usize, None);
                    }
                }
            }
        }
        filled
    }

    /// Tells those that search there.
    fn say_to_all(&mut self, word: ToHost) {
        for one in self.links.iter_mut().filter(|one| !one.has_left) {
            one.link.say(&word);
            one.link.drain(HOST_LEAVE);
        }
    }
}

/// All ranks of a job: those of this host, and the others.
pub struct WatchedJob {
    here: WatchedHost,
    others: OtherHosts,
}

impl WatchedJob {
    /// As this rank of it sees them.
    pub fn new(watch: Watch, host: &HostRanks) -> Self {
        Self {
            here: WatchedHost::new(watch, host),
            others: OtherHosts::of(&host.hosts.map, host.number()),
        }
    }

    /// Whether ranks are on other hosts.
    pub fn is_on_several_hosts(&self) -> bool {
        self.others.map.count() > 1
    }

    /// To wait for.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.others.links.iter().map(|one| one.link.reading())
    }

    /// A rank has called. Answers what ranks there wait for, if that was said already.
    pub fn take_in(&mut self, rank: u32, link: Link) -> Vec<(u32, RankWaits)> {
        self.others.take_in(rank, link)
    }

    /// Reads from those of [`entries`](Self::entries) that are ready. Returns what ranks wait for.
    pub fn hear(&mut self, ready: &[bool]) -> Vec<(u32, RankWaits)> {
        self.others
            .hear(|index| (ready.get(index) == Some(&true)).then_some(true))
    }

    /// As [`WatchedHost::note_ends`].
    pub fn note_ends(&self) {
        self.here.note_ends();
    }

    /// Stops all ranks but this process, on all hosts.
    pub fn stop_others(&mut self) {
        self.others.say_to_all(ToHost::Stop);
        self.here.stop_others();
    }

    /// Stops this process.
    pub fn stop_itself(&self) {
        self.here.stop_itself();
    }

    /// The process of a rank, for people.
    pub fn name(&self, rank: &RunningRank) -> String {
        let map = &self.others.map;
        let on = match self.is_on_several_hosts() {
            true => format!(" on {}", map.name(map.host(rank.rank))),
            false => String::new(),
        };
        format!("{}{on} (rank {})", rank.process, rank.rank)
    }
}

impl WatchedRanks for WatchedJob {
    fn running(&self) -> Vec<RunningRank> {
        let others = self.others.ranks.running().map(|(_, rank)| rank);
        let mut running: Vec<RunningRank> = self.here.running().into_iter().chain(others).collect();
        running.sort_unstable_by_key(|rank| rank.rank);
        running
    }

    fn rest(&self) -> Option<u64> {
        let mut shown = self.others.ranks.shown()?;
        shown.push(self.here.rest()?);
        Some(mixed(&shown))
    }

    fn inquire(&mut self, full: bool) -> u32 {
        let number = self.here.inquire(full);
        self.others.say_to_all(ToHost::Inquire { number, full });
        number
    }
}
