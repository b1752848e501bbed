//! Deadlock watch: detects that no rank of a job can ever go on, and proves it.
//!
//! ```text
//!   Resting ── all show themselves asleep, twice alike ──▶ Asked(First) ── all can only wait for each other
//!      ▲                                                       │
//!      │ any: does not answer · has other threads ·            ▼
//!      │      awaits something else · has gone on          Asked(Second) ── nothing has gone on in between
//!      └───────────────────────────────────────────────────────│
//!                                                              ▼
//!                                                          Asked(Full) ──▶ Standstill, for the report
//! ```
//!
//! [`weft_mpi::waits`] says why two equal answers of all ranks are a proof, and what is counted if they communicate over
//! a network.
//!
//! The watch runs in `mpiexec`, or in one of the ranks if another launcher has started them
//! ([`deadlock_search`](crate::bootstrap)).
//!
//! Ranks that have finalised MPI cannot send any more, and are not asked. A rank that has not initialised it may still
//! come: then no deadlock is reported.
//!
//! # Cost
//! The watch checks the memory of the job a few times a second, on other hosts by their agents, and asks only when all
//! ranks sleep. If the job rests for long, it asks ever more rarely, until something has moved.

mod graph;
mod report;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weft_mpi::waits::{self, RankWaits};

use super::outcome::Failure;
use super::rank_hosts::Event;
use crate::rank_processes::RankProcesses;

pub use crate::rank_processes::RunningRank;
pub use report::Standstill;

/// Time between looks at who sleeps.
const LOOK: Duration = Duration::from_millis(125);
/// How long all ranks have to answer: those of a busy machine need seconds to read where in the program they are. Who has gone on
/// answers when it sleeps again. One that is slower may still be judged later.
const ANSWERS: Duration = Duration::from_secs(10);
/// After an inquiry: how long what it has itself changed may take to show.
const SETTLE: Duration = LOOK.saturating_mul(4);
/// Longest time between inquiries while nothing moves.
const RAREST: Duration = Duration::from_secs(30);

/// Ranks that are watched: those of this host, or of all hosts of a job.
pub trait WatchedRanks {
    /// Those that were started, or will be, and have not ended.
    fn running(&self) -> Vec<RunningRank>;

    /// Whether all that are in MPI sleep, as far as they show, with a number that changes when one of them is woken.
    fn rest(&self) -> Option<u64>;

    /// Asks all of them what they wait for; with `full`, also where. The number of this inquiry.
    fn inquire(&mut self, full: bool) -> u32;
}

impl WatchedRanks for &RankProcesses {
    fn running(&self) -> Vec<RunningRank> {
        RankProcesses::running(self).collect()
    }

    fn rest(&self) -> Option<u64> {
        RankProcesses::rest(self)
    }

    fn inquire(&mut self, full: bool) -> u32 {
        RankProcesses::inquire(self, full)
    }
}

/// What is told of a standstill. `stopped`: the processes were stopped, and stay; else the job ends.
pub fn report(found: &Standstill, stopped: Option<&[String]>) -> Vec<Event> {
    let mut lines = found.lines();
    if let Some(processes) = stopped {
        lines.push(stays("--on-deadlock=stop", processes));
        return vec![Event::Note(lines.join("\n"))];
    }
    let summary = found.summary();
    vec![
        Event::Note(lines.join("\n")),
        Event::Failed(Failure::Deadlock { summary }),
    ]
}

/// The same, told by the ranks themselves where nobody of ours has started them: all of it, and with what exit code so many ranks end.
/// `stopped`: as for [`report()`], and by what that was asked for.
pub fn told_by_ranks(
    found: &Standstill,
    ranks: usize,
    stopped: Option<(&str, &[String])>,
) -> (String, u8) {
    let mut lines = found.lines();
    let summary = found.summary();
    let failure = Failure::Deadlock { summary };
    lines.push(match stopped {
        Some((by, processes)) => stays(by, processes),
        None => failure.line("", ranks),
    });
    (format!("weft: {}\n", lines.join("\n")), failure.code())
}

/// That the processes were stopped, as was asked for.
fn stays(by: &str, processes: &[String]) -> String {
    let processes = processes.join(", ");
    format!("  the processes are stopped ({by}) and stay until this job is ended: {processes}")
}

/// The state of the watch.
enum State {
    /// Nobody is asked: what the segment showed at the last look.
    Resting { shown: Option<u64> },
    /// An inquiry is under way.
    Asked(Asked),
    /// It has been told; nothing more is to be found out.
    Over,
}

/// An inquiry, and the answers so far.
struct Asked {
    round: Round,
    number: u32,
    until: Instant,
    answers: BTreeMap<u32, RankWaits>,
    /// The answers to the one before.
    before: BTreeMap<u32, RankWaits>,
}

/// The inquiries of a proof, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    First,
    Second,
    Full,
}

/// The watch over the ranks of a job. See the [module page](self).
pub struct DeadlockWatch {
    state: State,
    next: Instant,
    /// What the segment showed after an inquiry that proved nothing, once it was asked; and how long not to ask again
    /// while it shows that.
    inquired_without_result: Option<u64>,
    pause: Duration,
    not_before: Instant,
    settled: Instant,
}

impl DeadlockWatch {
    /// Watches from now on.
    pub fn new(now: Instant) -> Self {
        Self {
            state: State::Resting { shown: None },
            next: now + LOOK,
            inquired_without_result: None,
            pause: LOOK,
            not_before: now,
            settled: now,
        }
    }

    /// When to [look](Self::look) next; `None` for never.
    pub fn next_look(&self) -> Option<Instant> {
        match &self.state {
            State::Over => None,
            _ => Some(self.next),
        }
    }

    /// Whether an answer to this inquiry is awaited here.
    pub fn has_asked(&self, number: u32) -> bool {
        matches!(&self.state, State::Asked(asked) if asked.number == number)
    }

    /// A rank has answered.
    pub fn hear(&mut self, rank: u32, waits: RankWaits, now: Instant) {
        if let State::Asked(asked) = &mut self.state
            && asked.number == waits.inquiry
        {
            asked.answers.insert(rank, waits);
            self.next = now;
        }
    }

    /// Looks, if it is time to. Answers what was proven, once.
    pub fn look(&mut self, now: Instant, ranks: &mut impl WatchedRanks) -> Option<Standstill> {
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => None,
            State::Resting { shown } => {
                self.state = self.rest(now, shown, ranks);
                None
            }
            State::Asked(asked) => {
                let (state, proven) = self.collect(now, asked, ranks);
                self.state = state;
                proven
            }
        }
    }

    /// Nobody is asked: is it time to?
    fn rest(&mut self, now: Instant, before: Option<u64>, ranks: &mut impl WatchedRanks) -> State {
        let mut running = ranks.running().into_iter();
        let all_begun = running.all(|rank| rank.is_initialised || rank.is_finalised);
        let shown = ranks.rest().filter(|_| all_begun);
        let stays = shown.is_some() && shown == before;
        if stays {
            // What an inquiry itself has changed is seen here for the first time.
            if now >= self.settled {
                let inquired_without_result = *self
                    .inquired_without_result
                    .get_or_insert(shown.unwrap_or_default());
                if Some(inquired_without_result) != shown {
                    self.forget();
                }
            }
            if now >= self.not_before {
                return self.ask(now, Round::First, BTreeMap::new(), ranks);
            }
        } else if shown.is_none() {
            self.forget();
            self.not_before = now;
        }
        State::Resting { shown }
    }

    /// Something has moved: what was found out before does not count.
    fn forget(&mut self) {
        (self.inquired_without_result, self.pause) = (None, LOOK);
    }

    fn ask(
        &mut self,
        now: Instant,
        round: Round,
        before: BTreeMap<u32, RankWaits>,
        ranks: &mut impl WatchedRanks,
    ) -> State {
        let until = now + ANSWERS;
        State::Asked(Asked {
            round,
            number: ranks.inquire(round == Round::Full),
            until,
            answers: BTreeMap::new(),
            before,
        })
    }

    /// Nothing was proven: asks ever more rarely, while nothing moves.
    fn ask_more_rarely(&mut self, now: Instant) -> State {
        self.pause = RAREST.min(self.pause * 2);
        self.not_before = now + self.pause;
        self.inquired_without_result = None;
        self.settled = now + SETTLE;
        self.next = now + LOOK;
        State::Resting { shown: None }
    }

    fn collect(
        &mut self,
        now: Instant,
        asked: Asked,
        ranks: &mut impl WatchedRanks,
    ) -> (State, Option<Standstill>) {
        let running = ranks.running().into_iter();
        let judged: Vec<u32> = running
            .filter(|rank| !rank.is_finalised)
            .map(|rank| rank.rank)
            .collect();
        let may_go_on = |rank: &u32| {
            let answer = asked.answers.get(rank);
            let before = asked.before.get(rank);
            answer.is_some_and(|answer| {
                let same = before.is_some_and(|before| answer.is_unchanged_since(before));
                !answer.depends_on_others() || asked.round != Round::First && !same
            })
        };
        // A rank that has finalised or ended since it answered has gone on, and may have done something for the others before.
        let has_left = asked.before.keys().any(|rank| !judged.contains(rank));
        if judged.is_empty() || has_left || judged.iter().any(may_go_on) {
            return (self.ask_more_rarely(now), None);
        }
        if !judged.iter().all(|rank| asked.answers.contains_key(rank)) {
            if now >= asked.until {
                return (self.ask_more_rarely(now), None);
            }
            return (State::Asked(asked), None);
        }
        let of_judged = |answers: &BTreeMap<u32, RankWaits>| {
            let answers = answers.iter();
            let answers = answers.filter(|(rank, _)| judged.contains(rank));
            answers.map(|(rank, told)| (*rank, told.clone())).collect()
        };
        match asked.round {
            Round::First => (self.ask(now, Round::Second, asked.answers, ranks), None),
            // What they have counted held for all of them when the second inquiry began.
            Round::Second if !waits::nothing_is_on_its_way(&of_judged(&asked.answers)) => {
                (self.ask_more_rarely(now), None)
            }
            Round::Second => (self.ask(now, Round::Full, asked.answers, ranks), None),
            Round::Full => {
                let answers = of_judged(&asked.answers);
                (State::Over, Some(Standstill::new(answers)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
