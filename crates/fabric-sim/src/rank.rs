//! One simulated rank: its clock, whether it runs, what it has granted, what is under way to it, and when it dies.
//!
//! ```text
//!   Running ── sleep ──► Asleep ── resume, at an event ──► Running ── leave ──► Left
//!                                                             └────── die ────► Dead
//! ```
//!
//! The clock never goes back. A closed rank takes nothing and has no grants.

use std::time::Duration;

use weft_fabric::grants::{Grant, Refusal, TransferRequest};
use weft_fabric::{Membership, Peer, Region, Token};

use crate::config::{Config, Fault, nanoseconds};
use crate::grants::Grants;
use crate::inbox::{Arrival, Inbox};
use crate::report::Stuck;

/// Idle polls that a rank has before others run.
const FREE_POLLS: u32 = 2;

/// Whether a rank may still do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunState {
    /// Runs or could.
    Running,
    /// Asleep on its bell, at most until the deadline.
    Asleep { deadline: Option<u64> },
    /// Its part has ended.
    Left,
    /// Died by a fault.
    Dead,
}

/// The death of a rank by [`Fault::Death`] or [`Fault::DeathAfter`], whichever comes first.
#[derive(Debug)]
struct ScheduledDeath {
    at: Option<u64>,
    actions: u64,
    last_action: Option<u64>,
}

impl ScheduledDeath {
    fn new(config: &Config, rank: usize) -> Self {
        let faults = || config.faults.iter();
        let at = faults().filter_map(|fault| match fault {
            Fault::Death { peer, at } if peer.index() == rank => Some(nanoseconds(*at)),
            _ => None,
        });
        let last_action = faults().filter_map(|fault| match fault {
            Fault::DeathAfter { peer, actions } if peer.index() == rank => Some(*actions),
            _ => None,
        });
        Self {
            at: at.min(),
            actions: 0,
            last_action: last_action.min(),
        }
    }
}

/// One rank.
#[derive(Debug)]
pub(crate) struct Rank {
    /// In nanoseconds, as all times are.
    clock: u64,
    state: RunState,
    /// When its present sleep, or its present sequence of idle polls, began.
    idle_since: u64,
    /// Number of consecutive idle polls.
    idle_polls: u32,
    /// Its bell was rung since it prepared to sleep.
    rung: bool,
    note: String,
    death: ScheduledDeath,
    grants: Grants,
    /// Its endpoint is gone: nothing reaches it any more.
    closed: bool,
    inbox: Inbox,
    /// Peers that it knows to be lost, and why.
    members: Membership,
    /// When its wire is free for its next message.
    wire_free: u64,
}

impl Rank {
    /// The rank of this number at the beginning.
    pub(crate) fn new(config: &Config, rank: usize) -> Self {
        Self {
            clock: 0,
            state: RunState::Running,
            idle_since: 0,
            idle_polls: 0,
            rung: false,
            note: String::new(),
            death: ScheduledDeath::new(config, rank),
            grants: Grants::default(),
            closed: false,
            inbox: Inbox::default(),
            members: Membership::new(u32::try_from(config.ranks).unwrap_or(u32::MAX)),
            wire_free: 0,
        }
    }

    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Time passes for it.
    pub(crate) fn advance(&mut self, time: u64) {
        self.clock = self.clock.saturating_add(time);
    }

    /// Time passes until then, unless that is past.
    pub(crate) fn advance_to(&mut self, time: u64) {
        self.clock = self.clock.max(time);
    }

    /// Sends a message that is ready at `ready` and occupies the wire for `busy`; returns when it departs.
    pub(crate) fn depart(&mut self, ready: u64, busy: u64) -> u64 {
        let departure = self.wire_free.max(ready);
        self.wire_free = departure + busy;
        departure
    }

    // Peers.

    pub(crate) fn members(&self) -> &Membership {
        &self.members
    }

    /// It learns that a peer is lost. True the first time.
    #[must_use]
    pub(crate) fn lose(&mut self, peer: Peer, reason: &'static str) -> bool {
        self.members.lose(peer, reason)
    }

    // Its grants.

    pub(crate) fn grant(&mut self, grant: Grant) -> Option<Token> {
        self.grants.add(grant)
    }

    /// Ends a grant; true if it was live.
    pub(crate) fn revoke(&mut self, token: Token) -> bool {
        self.grants.end(token)
    }

    /// Checks a transfer that begins.
    pub(crate) fn begin_transfer(&mut self, request: &TransferRequest) -> Result<(), Refusal> {
        self.grants.begin(request)
    }

    /// The window of a transfer that has begun, unless its grant has ended since.
    pub(crate) fn finish_transfer(&mut self, request: &TransferRequest) -> Option<Region> {
        self.grants.finish(request)
    }

    // Arrivals.

    /// Something will arrive at `time`, unless the rank is closed.
    pub(crate) fn push(&mut self, time: u64, draw: u64, arrival: Arrival) {
        self.inbox.push(time, draw, arrival);
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.inbox.next_arrival()
    }

    /// Takes the next item that has arrived by its clock.
    pub(crate) fn pop(&mut self) -> Option<Arrival> {
        self.inbox.pop_by(self.clock)
    }

    // Running, sleeping, polling.

    /// Continues at this time, or now if its clock is past it.
    pub(crate) fn resume(&mut self, time: u64) {
        self.advance_to(time);
        self.state = RunState::Running;
    }

    /// When something wakes it, if it sleeps: `Some(None)` if nothing does.
    pub(crate) fn wake_time(&self) -> Option<Option<u64>> {
        let RunState::Asleep { deadline } = self.state else {
            return None;
        };
        let ring = self.rung.then_some(self.clock);
        let wakes = [self.next_arrival(), deadline, self.death.at, ring];
        Some(wakes.into_iter().flatten().min())
    }

    /// A ring from now on ends its next sleep.
    pub(crate) fn prepare_sleep(&mut self) {
        self.rung = false;
    }

    pub(crate) fn ring(&mut self) {
        self.rung = true;
    }

    /// Begins to sleep, at a cost, so that time passes even for a rank that sleeps and never polls. Returns the
    /// deadline.
    fn begin_sleep(&mut self, cost: u64, limit: Option<Duration>) -> Option<u64> {
        self.idle_polls = 0;
        self.clock += cost;
        self.idle_since = self.clock;
        limit.map(|limit| self.clock.saturating_add(nanoseconds(limit)))
    }

    /// Falls asleep. True if it really sleeps: its bell was not rung before.
    pub(crate) fn fall_asleep(&mut self, cost: u64, limit: Option<Duration>) -> bool {
        let deadline = self.begin_sleep(cost, limit);
        self.state = RunState::Asleep { deadline };
        !self.rung
    }

    /// Sleeps without letting others run: jumps to its wake-up.
    pub(crate) fn skip_sleep(&mut self, cost: u64, limit: Option<Duration>) {
        let deadline = self.begin_sleep(cost, limit);
        if !std::mem::take(&mut self.rung) {
            let until = [self.next_arrival(), deadline].into_iter().flatten().min();
            self.advance_to(until.unwrap_or(0));
        }
    }

    /// A poll found something.
    pub(crate) fn polled(&mut self) {
        self.idle_polls = 0;
    }

    /// A poll found nothing. True if others may run before the next.
    pub(crate) fn polled_idly(&mut self) -> bool {
        if self.idle_polls == 0 {
            self.idle_since = self.clock;
        }
        self.idle_polls = self.idle_polls.saturating_add(1);
        self.idle_polls > FREE_POLLS
    }

    /// The time of its next event that does not depend on others: something already under way, or its death.
    pub(crate) fn next_own_event(&self) -> Option<u64> {
        [self.next_arrival(), self.death.at]
            .into_iter()
            .flatten()
            .min()
    }

    // Ends.

    /// Whether it may still do something.
    pub(crate) fn takes_part(&self) -> bool {
        !matches!(self.state, RunState::Left | RunState::Dead)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == RunState::Dead
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether its death is due.
    pub(crate) fn dies(&self) -> bool {
        self.takes_part() && self.death.at.is_some_and(|at| at <= self.clock)
    }

    /// It has done something that others may see: true if this kills it.
    #[must_use]
    pub(crate) fn acted(&mut self) -> bool {
        self.death.actions += 1;
        let last = self.death.last_action == Some(self.death.actions);
        if last {
            self.death.at = Some(self.clock);
        }
        last
    }

    pub(crate) fn leave(&mut self) {
        self.state = RunState::Left;
    }

    pub(crate) fn die(&mut self) {
        self.state = RunState::Dead;
    }

    /// Nothing reaches it any more, nothing moves by its grants. True the first time.
    #[must_use]
    pub(crate) fn close(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.closed, true);
        if first {
            self.stop();
        }
        first
    }

    /// Stops arrivals to it, and transfers by its grants.
    pub(crate) fn stop(&mut self) {
        self.grants.end_all();
        self.inbox.clear();
    }

    // Reports.

    pub(crate) fn set_note(&mut self, note: String) {
        self.note = note;
    }

    /// The rank as a member of a deadlock.
    pub(crate) fn stuck(&self, rank: u32) -> Stuck {
        Stuck {
            peer: Peer(rank),
            since: Duration::from_nanos(self.idle_since),
            asleep: matches!(self.state, RunState::Asleep { .. }),
            note: self.note.clone(),
        }
    }
}
