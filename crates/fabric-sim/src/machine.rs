//! The simulated machine: its ranks, the network between them, and the order in which ranks run. It does not know
//! threads.
//!
//! | owner | what |
//! |---|---|
//! | [`Rank`] | clock, run state, inbox, grants, death of one rank |
//! | [`EventQueue`] | when each rank continues |
//! | [`Lanes`] | credits and order between two ranks |
//! | [`Links`] | what a message costs between two ranks, and when the link is down |
//! | [`SeededRandom`] | everything that the seed decides |
//! | [`StallDetector`] | whether ranks poll for ever while nothing happens |
//! | [`BlocksOfProcess`] | memory that ranks share |
//! | [`Trace`] | what happened, and the hash of it |
//!
//! The effect of a message is in `messages`, that of a transfer in `transfer`, the end of a run in `ending`. A rank
//! runs until it sleeps, polls idly, or another one is behind its clock. This module decides which rank is next; the
//! driver of the machine makes that rank run.

mod ending;
mod messages;
mod transfer;

use std::time::Duration;

use weft_fabric::grants::Grant;
use weft_fabric::shared::BlocksOfProcess;
use weft_fabric::{FabricError, Limits, Peer, Result, SharedBlock, SharedKey, SharedMemory, Token};
use weft_sys::random::SeededRandom;

use crate::config::{Config, nanoseconds};
use crate::event_queue::EventQueue;
use crate::inbox::{Arrival, Delivery};
use crate::lanes::Lanes;
use crate::links::Links;
use crate::rank::Rank;
use crate::report::{Cause, Counts, Trace, TraceEvent};
use crate::stall::StallDetector;

/// The reason reported for a rank that cannot be reached any more.
const OUT_OF_REACH: &str = "the link to it was down for too long (a simulated fault)";

/// The reason reported for a rank that has died.
const DIED: &str = "it died (a simulated fault)";

/// How to continue after a poll that found nothing.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdlePoll {
    /// The rank continues.
    GoOn,
    /// The rank is scheduled for later, and the next one runs.
    Yield,
    /// Nothing will ever come: the run is over.
    Over,
}

/// A run without its threads.
pub(crate) struct Machine {
    config: Config,
    ranks: Vec<Rank>,
    queue: EventQueue,
    lanes: Lanes,
    links: Links,
    random: SeededRandom,
    stall: StallDetector,
    trace: Trace,
    counts: Counts,
    blocks: BlocksOfProcess,
    /// Why and when the run was aborted: nothing moves any more, all ranks unwind.
    over: Option<(Cause, u64)>,
}

impl Machine {
    pub(crate) fn new(config: Config) -> Self {
        let mut machine = Self {
            ranks: (0..config.ranks)
                .map(|rank| Rank::new(&config, rank))
                .collect(),
            queue: EventQueue::new(config.ranks),
            lanes: Lanes::new(config.ranks, config.credits),
            links: Links::new(&config),
            random: SeededRandom::new(config.seed),
            stall: StallDetector::new(config.ranks, config.patience),
            trace: Trace::new(config.trace),
            counts: Counts::default(),
            blocks: BlocksOfProcess::default(),
            over: None,
            config,
        };
        machine.deliver_severances();
        machine
    }

    /// Schedules the reports of losses by partitions that do not end.
    fn deliver_severances(&mut self) {
        if !self.links.sever_any() {
            return;
        }
        for me in 0..self.peers() {
            for other in 0..self.peers() {
                if let Some(at) = self.links.severed((me, other)) {
                    let (peer, reason) = (Peer(other), OUT_OF_REACH);
                    self.deliver(me, at, Arrival::Loss { peer, reason });
                }
            }
        }
    }

    pub(crate) fn peers(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.config.limits
    }

    fn rank(&mut self, rank: u32) -> &mut Rank {
        &mut self.ranks[rank as usize]
    }

    /// The clock of a rank.
    pub(crate) fn clock(&self, rank: u32) -> u64 {
        self.ranks[rank as usize].clock()
    }

    pub(crate) fn set_note(&mut self, rank: u32, note: String) {
        self.rank(rank).set_note(note);
    }

    pub(crate) fn grant(&mut self, me: u32, grant: Grant) -> Option<Token> {
        self.rank(me).grant(grant)
    }

    /// Ends a grant; true if it was live.
    pub(crate) fn revoke(&mut self, me: u32, token: Token) -> bool {
        self.rank(me).revoke(token)
    }

    /// Whether ranks share memory.
    pub(crate) fn shares_memory(&self) -> bool {
        self.config.shares_memory
    }

    /// Allocates a block that all ranks can attach.
    pub(crate) fn allocate_shared(&mut self, me: Peer, length: usize) -> Result<SharedBlock> {
        if !self.shares_memory() {
            return Err(FabricError::NotShared { peer: me });
        }
        self.blocks.allocate(me, length)
    }

    /// Gives a block back; true if it was live.
    pub(crate) fn release_shared(&mut self, me: Peer, key: SharedKey) -> bool {
        self.blocks.release(me, key)
    }

    /// The bytes of a block of a peer that is not known to be lost.
    pub(crate) fn attach_shared(
        &self,
        (me, peer): (Peer, Peer),
        key: SharedKey,
        length: usize,
    ) -> Result<SharedMemory> {
        self.ranks[me.index()].members().check(peer)?;
        if !self.shares_memory() {
            return Err(FabricError::NotShared { peer });
        }
        self.blocks.attach(peer, key, length)
    }

    /// Notes what happened to a rank.
    fn note(&mut self, rank: u32, event: TraceEvent) {
        self.trace.note(self.clock(rank), rank, event);
        self.stall.progressed();
    }

    /// Sends something to `rank`, and wakes it for that if it would sleep longer.
    fn deliver(&mut self, rank: u32, at: u64, arrival: Arrival) {
        if self.ranks[rank as usize].is_closed() {
            return;
        }
        let draw = self.random.next_u64();
        self.rank(rank).push(at, draw, arrival);
        self.reschedule(rank);
    }

    /// Schedules a sleeper for its wake-up, if there is one.
    fn reschedule(&mut self, rank: u32) {
        match self.ranks[rank as usize].wake_time() {
            Some(Some(time)) => self.schedule(rank, time),
            Some(None) => self.queue.cancel(rank),
            None => {}
        }
    }

    /// Makes `rank` continue at `time`, not before its own clock.
    pub(crate) fn schedule(&mut self, rank: u32, time: u64) {
        let time = time.max(self.clock(rank));
        // An event whose time does not change keeps its draw.
        if self.queue.time_of(rank) != Some(time) {
            let draw = self.random.next_u64();
            self.queue.schedule(rank, time, draw);
        }
    }

    /// The rank that runs next. If no rank is scheduled but some have not ended, they are in a deadlock: then the run is
    /// over, and all continue in order to unwind. `None`: all have ended.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let (time, rank) = match self.queue.pop() {
            Some(event) => event,
            None => {
                self.end_in_deadlock();
                self.queue.pop()?
            }
        };
        self.counts.switches += 1;
        self.rank(rank).resume(time);
        Some(rank)
    }

    /// Lets ranks whose clocks are behind run first: true if `me` is scheduled after them.
    pub(crate) fn let_pass(&mut self, me: u32) -> bool {
        let clock = self.clock(me);
        let behind = self.queue.earliest().is_some_and(|time| time < clock);
        if behind {
            self.schedule(me, clock);
        }
        behind
    }

    /// The cost of a poll that finds nothing. Never 0, so that polling passes time.
    fn poll_cost(&self) -> u64 {
        nanoseconds(self.config.cost.poll).max(1)
    }

    /// One poll of `me`: takes at most `budget` items into `found`. False if there was none.
    pub(crate) fn poll(&mut self, me: u32, budget: usize, found: &mut Vec<Delivery>) -> bool {
        while found.len() < budget {
            let Some(delivery) = self.take(me) else {
                break;
            };
            found.push(delivery);
        }
        if !found.is_empty() {
            self.rank(me).polled();
        }
        !found.is_empty()
    }

    /// A poll of `me` found nothing, and nobody else runs in between: jumps to its next event.
    pub(crate) fn skip_idle_poll(&mut self, me: u32) {
        let cost = self.poll_cost();
        let it = self.rank(me);
        let _ = it.polled_idly();
        match it.next_arrival() {
            Some(at) => it.advance_to(at),
            None => it.advance(cost),
        }
    }

    /// A poll of `me` found nothing, and others may run in between.
    pub(crate) fn idle_poll(&mut self, me: u32) -> IdlePoll {
        let cost = self.poll_cost();
        let it = self.rank(me);
        if !it.polled_idly() {
            it.advance(cost);
            return IdlePoll::GoOn;
        }
        let (clock, own) = (it.clock(), it.next_own_event());
        let other = self.queue.earliest();
        let step = self.stall.poll(cost);
        if own.is_none() && self.stall.waited(step) {
            self.end_in_deadlock();
            return IdlePoll::Over;
        }
        // Not beyond anything that may bring news: an arrival, or another rank that continues. Nor does it
        // jump to that time, since it may have something else to do sooner.
        let bounds = [own, other.map(|other| other + cost)];
        let later = bounds.into_iter().flatten().fold(clock + step, u64::min);
        let later = later.max(clock + 1);
        if other.is_none_or(|other| later < other) {
            self.rank(me).advance_to(later);
            return IdlePoll::GoOn;
        }
        self.schedule(me, later);
        IdlePoll::Yield
    }

    /// `me` is about to sleep: a ring from now on wakes it.
    pub(crate) fn prepare_sleep(&mut self, me: u32) {
        self.rank(me).prepare_sleep();
    }

    /// `me` sleeps until something wakes it or the limit is reached, and others run.
    pub(crate) fn sleep(&mut self, me: u32, limit: Option<Duration>) {
        let cost = self.poll_cost();
        if self.rank(me).fall_asleep(cost, limit) {
            self.note(me, TraceEvent::Slept);
        }
        self.reschedule(me);
    }

    /// `me` sleeps, and nobody else runs in between.
    pub(crate) fn skip_sleep(&mut self, me: u32, limit: Option<Duration>) {
        let cost = self.poll_cost();
        self.rank(me).skip_sleep(cost, limit);
    }

    /// A thread of this rank rings its bell.
    pub(crate) fn ring(&mut self, me: u32) {
        self.rank(me).ring();
        self.reschedule(me);
    }

    /// `me` computes for `time`.
    pub(crate) fn compute(&mut self, me: u32, time: Duration) {
        let time = nanoseconds(time);
        self.stall.computed(time);
        self.rank(me).advance(time);
    }

    /// `me` has done something that others may see: true if this kills it.
    #[must_use]
    pub(crate) fn acted(&mut self, me: u32) -> bool {
        self.rank(me).acted()
    }
}
