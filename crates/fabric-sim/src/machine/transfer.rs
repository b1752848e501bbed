//! Transfers by portal: checked when asked for; the bytes move then, or after the crossing.
//!
//! ```text
//!   get:  request crosses (L) ─ the owner's wire sends the bytes ─ they cross (L)
//!   put:  the caller's wire sends the bytes ─ they cross (L) ─ the answer crosses (L)
//! ```
//!
//! Bytes move at the end, so that they do not move if the grant is revoked or the owner dies before.

use weft_fabric::{FabricError, Peer, Posted, Result};

use super::{DIED, Machine, OUT_OF_REACH};
use crate::config::nanoseconds;
use crate::grants::Transfer;
use crate::inbox::Arrival;
use crate::report::TraceEvent;

impl Machine {
    /// When a transfer that is requested now ends: the bytes wait for the wire of their sender; the request
    /// or the answer crosses the other way. `None`: never.
    fn bulk(&mut self, transfer: &Transfer) -> Option<u64> {
        let (caller, owner) = (transfer.request.caller.0, transfer.owner.0);
        let now = self.clock(caller);
        let mut crossing = |link, length| self.links.crossing(link, length, &mut self.random);
        let there = crossing((caller, owner), 0).latency;
        let back = crossing((owner, caller), 0).latency;
        if transfer.writes() {
            let wire = crossing((caller, owner), transfer.request.length).wire;
            let departure = self.rank(caller).depart(now, wire);
            let arrival = self
                .links
                .arrival((caller, owner), departure, wire + there)?;
            self.links.arrival((owner, caller), arrival, back)
        } else {
            let wire = crossing((owner, caller), transfer.request.length).wire;
            let asked = self.links.arrival((caller, owner), now, there)?;
            let departure = self.rank(owner).depart(asked, wire);
            self.links.arrival((owner, caller), departure, wire + back)
        }
    }

    /// Begins a transfer, and ends it at once unless a draw makes it late.
    pub(crate) fn transfer(&mut self, transfer: Transfer) -> Result<Posted> {
        let (me, owner) = (transfer.request.caller.0, transfer.owner);
        let operation = transfer.operation;
        let reaches = self.reach(me, owner)?;
        if self.random.happens(self.config.refuse) {
            return Ok(self.refuse(me, owner, true));
        }
        let cost = self.config.cost;
        self.rank(me).advance(nanoseconds(cost.overhead));
        if !reaches {
            // Its outcome appears when the death is noticed.
            let at = self.clock(me) + nanoseconds(self.config.detection);
            let error = lost(owner, DIED);
            self.deliver(me, at, Arrival::FailedTransfer { operation, error });
            return Ok(Posted::Pending);
        }
        let begun = self.rank(owner.0).begin_transfer(&transfer.request);
        let begun = begun.map_err(|refusal| refusal.error(owner, &transfer.request));
        if begun.is_err() {
            self.note(me, TraceEvent::TransferRefused(owner));
        }
        let Some(end) = self.bulk(&transfer) else {
            let at = self.links.severed((me, owner.0)).unwrap_or(0);
            let at = at.max(self.clock(me));
            let error = lost(owner, OUT_OF_REACH);
            self.deliver(me, at, Arrival::FailedTransfer { operation, error });
            return Ok(Posted::Pending);
        };
        if self.random.happens(self.config.late) {
            let arrival = match begun {
                Ok(()) => Arrival::Transfer(transfer),
                Err(error) => Arrival::FailedTransfer { operation, error },
            };
            self.deliver(me, end, arrival);
            return Ok(Posted::Pending);
        }
        begun?;
        self.rank(me).advance_to(end);
        self.copy(&transfer)?;
        Ok(Posted::Done)
    }

    /// Moves the bytes of a transfer that has begun.
    pub(crate) fn copy(&mut self, transfer: &Transfer) -> Result<()> {
        let (peer, caller) = (transfer.owner, transfer.request.caller.0);
        let owner = self.rank(peer.0);
        if owner.is_dead() {
            return Err(lost(peer, DIED));
        }
        let Some(window) = owner.finish_transfer(&transfer.request) else {
            self.note(caller, TraceEvent::TransferRefused(peer));
            return Err(FabricError::NotGranted { peer });
        };
        if transfer.writes() {
            window.copy_from(&transfer.lent);
        } else {
            transfer.lent.copy_from(&window);
        }
        self.counts.transfers += 1;
        self.note(caller, TraceEvent::Transferred(peer, transfer.lent.len()));
        Ok(())
    }
}

fn lost(peer: Peer, reason: &str) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: reason.into(),
    }
}
