//! Bulk data: checked when it is asked for, moved then or when it has crossed.
//!
//! ```text
//!   get:  request crosses (L) ─ the owner's wire sends the bytes ─ they cross (L)
//!   put:  the caller's wire sends the bytes ─ they cross (L) ─ the answer crosses (L)
//! ```
//!
//! Bytes move at the end, so that a grant which is revoked meanwhile, or an owner that dies, leaves
//! them where they are.

use weft_fabric::grants::{Access, TransferRequest};
use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result};

use crate::cut::{DIED, OUT_OF_REACH};
use crate::network::{Network, nanoseconds};
use crate::rank::{News, Standing};
use crate::report::What;

/// A transfer between a grant of `owner` and memory that the caller lends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub owner: Peer,
    pub request: TransferRequest,
    pub lent: Region,
    pub operation: Operation,
}

impl Transfer {
    fn writes(&self) -> bool {
        self.request.access == Access::Write
    }
}

impl Network {
    /// When a transfer that its caller asks for now has ended: the bytes wait for the wire of whoever
    /// sends them; the request or the answer crosses the other way. `None`: never.
    fn bulk(&mut self, transfer: &Transfer) -> Option<u64> {
        let (caller, owner) = (transfer.request.caller.0, transfer.owner.0);
        let now = self.rank(caller).clock;
        let (_, short) = self.crossing((caller, owner), 0);
        let (_, back) = self.crossing((owner, caller), 0);
        let from = if transfer.writes() { caller } else { owner };
        let to = caller + owner - from;
        let (wire, _) = self.crossing((from, to), transfer.request.length);
        let ready = if transfer.writes() {
            now
        } else {
            self.arrival((caller, owner), now, short)?
        };
        let it = self.rank(from);
        let departure = it.injection.max(ready);
        it.injection = departure + wire;
        if !transfer.writes() {
            return self.arrival((owner, caller), departure, wire + back);
        }
        let there = self.arrival((caller, owner), departure, wire + short)?;
        self.arrival((owner, caller), there, back)
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
        self.rank(me).clock += nanoseconds(cost.overhead);
        if !reaches {
            // What became of it shows when the death does.
            let at = self.rank(me).clock + nanoseconds(self.config.detection);
            let error = lost(owner, DIED);
            self.deliver(me, at, News::Failed { operation, error });
            return Ok(Posted::Pending);
        }
        let begun = self.ranks[owner.index()].grants.begin(&transfer.request);
        let begun = begun.map_err(|refusal| refusal.error(owner, &transfer.request));
        if begun.is_err() {
            self.note(me, What::Denied(owner));
        }
        let Some(end) = self.bulk(&transfer) else {
            let at = self.severed((me, owner.0)).unwrap_or(0);
            let at = at.max(self.rank(me).clock);
            let error = lost(owner, OUT_OF_REACH);
            self.deliver(me, at, News::Failed { operation, error });
            return Ok(Posted::Pending);
        };
        if self.random.happens(self.config.late) {
            let news = match begun {
                Ok(()) => News::Arrived(transfer),
                Err(error) => News::Failed { operation, error },
            };
            self.deliver(me, end, news);
            return Ok(Posted::Pending);
        }
        begun?;
        self.rank(me).clock = end;
        self.copy(&transfer)?;
        Ok(Posted::Done)
    }

    /// Moves the bytes of a transfer that has begun.
    pub(crate) fn copy(&mut self, transfer: &Transfer) -> Result<()> {
        let (peer, caller) = (transfer.owner, transfer.request.caller.0);
        let owner = &mut self.ranks[peer.index()];
        if owner.standing == Standing::Dead {
            return Err(lost(peer, DIED));
        }
        let Some(window) = owner.grants.finish(&transfer.request) else {
            self.note(caller, What::Denied(peer));
            return Err(FabricError::NotGranted { peer });
        };
        if transfer.writes() {
            window.copy_from(&transfer.lent);
        } else {
            transfer.lent.copy_from(&window);
        }
        self.counts.transfers += 1;
        self.note(caller, What::Moved(peer, transfer.lent.len()));
        Ok(())
    }
}

fn lost(peer: Peer, reason: &str) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: reason.into(),
    }
}
