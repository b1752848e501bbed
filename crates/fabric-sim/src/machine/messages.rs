//! Messages and signals: from the sender's post to the receiver's poll.
//!
//! ```text
//!   post:  clock += o;  departs = max(clock, wire free);  wire free = departs + max(g, bytes·G)
//!          arrives = departs + bytes·G + L + jitter + faults, after all that the lane carries already
//!   poll:  what has arrived by the clock of the rank, o each; each gives a credit back
//! ```

use weft_fabric::{FabricError, Head, Peer, Posted, Result, SyncKey};

use super::Machine;
use crate::config::nanoseconds;
use crate::inbox::{Arrival, Delivery};
use crate::report::TraceEvent;

impl Machine {
    /// Whether `to` can be reached, as far as `me` knows: `Ok(false)` if it is dead and `me` does not
    /// know that yet.
    pub(super) fn reach(&self, me: u32, to: Peer) -> Result<bool> {
        let lost = |reason: &str| FabricError::PeerLost {
            peer: to,
            reason: reason.into(),
        };
        let caller = &self.ranks[me as usize];
        caller.members().exists(to)?;
        let it = &self.ranks[to.index()];
        if self.is_over() {
            return Err(lost("the simulation is over"));
        }
        if caller.is_dead() {
            return Err(lost("the caller itself has died (a simulated fault)"));
        }
        caller.members().check(to)?;
        if it.is_dead() {
            return Ok(false);
        }
        if it.is_closed() {
            return Err(lost("it has left (its endpoint is closed)"));
        }
        Ok(true)
    }

    /// Refuses a post of `me`; a refusal by a draw promises room soon.
    pub(super) fn refuse(&mut self, me: u32, to: Peer, by_draw: bool) -> Posted {
        self.counts.refusals += 1;
        self.note(me, TraceEvent::Refused(to));
        if by_draw {
            let at = self.clock(me) + nanoseconds(self.config.cost.latency);
            self.deliver(me, at, Arrival::Room);
        }
        Posted::Retry
    }

    /// A message, or a signal, of `length` bytes.
    fn post(&mut self, me: u32, to: Peer, length: usize, arrival: Arrival) -> Result<Posted> {
        let reaches = self.reach(me, to)?;
        if !self.lanes.admit((me, to.0)) {
            return Ok(self.refuse(me, to, false));
        }
        if self.random.happens(self.config.refuse) {
            return Ok(self.refuse(me, to, true));
        }
        let overhead = nanoseconds(self.config.cost.overhead);
        self.rank(me).advance(overhead);
        let arrives = self.carry(me, to.0, length);
        if reaches && let Some(at) = arrives {
            self.lanes.depart((me, to.0));
            self.deliver(to.0, at, arrival);
        }
        Ok(Posted::Done)
    }

    /// Puts a message on the wire now; returns when it arrives, if it does.
    fn carry(&mut self, from: u32, to: u32, length: usize) -> Option<u64> {
        let link = (from, to);
        let crossing = self.links.crossing(link, length as u64, &mut self.random);
        let gap = nanoseconds(self.config.cost.gap);
        let it = self.rank(from);
        let departure = it.depart(it.clock(), crossing.wire.max(gap));
        let on_the_way = crossing.wire + crossing.latency;
        let arrival = self.links.arrival(link, departure, on_the_way)?;
        Some(self.lanes.in_order(link, arrival))
    }

    pub(crate) fn message(
        &mut self,
        me: u32,
        to: Peer,
        head: &Head,
        data: &[u8],
    ) -> Result<Posted> {
        let limit = self.config.limits.data;
        let length = data.len();
        self.rank(me).members().exists(to)?;
        if length > limit {
            return Err(FabricError::TooLong { length, limit });
        }
        let message = Arrival::Message {
            from: Peer(me),
            head: *head,
            data: data.to_vec(),
        };
        let posted = self.post(me, to, length, message)?;
        if posted == Posted::Done {
            self.counts.messages += 1;
            self.counts.bytes += length as u64;
            self.note(me, TraceEvent::Sent(to, length));
        }
        Ok(posted)
    }

    pub(crate) fn signal(&mut self, me: u32, to: Peer, key: SyncKey) -> Result<Posted> {
        let from = Peer(me);
        let posted = self.post(me, to, 0, Arrival::Signal { from, key })?;
        if posted == Posted::Done {
            self.counts.signals += 1;
            self.note(me, TraceEvent::Signalled(to, key));
        }
        Ok(posted)
    }

    /// `me` wakes a peer: what the peer waits for may be in memory that they share. A partition separates hosts, so it
    /// does not separate these two.
    pub(crate) fn wake(&mut self, me: u32, peer: u32) {
        let at = self.clock(me) + nanoseconds(self.config.cost.latency);
        self.deliver(peer, at, Arrival::Wake { from: Peer(me) });
    }

    /// Takes the next item that has arrived at `me` by its clock.
    pub(super) fn take(&mut self, me: u32) -> Option<Delivery> {
        if self.is_over() {
            return None;
        }
        Some(match self.rank(me).pop()? {
            Arrival::Message { from, head, data } => {
                self.received(me, from, TraceEvent::Received(from, data.len()));
                Delivery::Message { from, head, data }
            }
            Arrival::Signal { from, key } => {
                self.received(me, from, TraceEvent::SignalReceived(from, key));
                Delivery::Signal { from, key }
            }
            Arrival::Room => {
                self.note(me, TraceEvent::Room);
                Delivery::Room
            }
            Arrival::Wake { from } => {
                self.note(me, TraceEvent::Woken(from));
                Delivery::Wake
            }
            Arrival::Transfer(transfer) => {
                Delivery::TransferCompleted(transfer.operation, self.copy(&transfer))
            }
            Arrival::FailedTransfer { operation, error } => {
                Delivery::TransferCompleted(operation, Err(error))
            }
            Arrival::Loss { peer, reason } => {
                if !self.rank(me).lose(peer, reason) {
                    // The peer is out of reach, and now dead as well.
                    return self.take(me);
                }
                self.note(me, TraceEvent::Lost(peer));
                Delivery::Lost(peer, reason)
            }
        })
    }

    /// Charges the cost of a message that was taken, and gives its credit back.
    fn received(&mut self, me: u32, from: Peer, event: TraceEvent) {
        let overhead = nanoseconds(self.config.cost.overhead);
        self.rank(me).advance(overhead);
        self.note(me, event);
        if self.lanes.received((from.0, me)) {
            self.tell_room(me, from.0);
        }
    }

    /// Tells `sender` that `me` has room, by a message of the network.
    pub(super) fn tell_room(&mut self, me: u32, sender: u32) {
        let latency = nanoseconds(self.config.cost.latency);
        if let Some(at) = self.links.arrival((me, sender), self.clock(me), latency) {
            self.deliver(sender, at, Arrival::Room);
        }
    }
}
