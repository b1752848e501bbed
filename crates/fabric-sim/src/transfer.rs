//! Bulk data: checked when it is asked for, moved then or when it has crossed.
//!
//! ```text
//!   get:  request crosses (L) ─ the owner's wire sends the bytes ─ they cross (L)
//!   put:  the caller's wire sends the bytes ─ they cross (L) ─ the answer crosses (L)
//! ```
//!
//! Bytes move at the end, so that a grant which is revoked meanwhile, or an owner that dies, leaves
//! them where they are.

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result};

use crate::cut::{DIED, OUT_OF_REACH};
use crate::grants::Asked;
use crate::network::{Network, nanoseconds};
use crate::rank::{News, Standing};
use crate::report::What;

impl Network {
    /// When a transfer that its caller asks for now has ended: the bytes wait for the wire of whoever
    /// sends them; the request or the answer crosses the other way. `None`: never.
    fn bulk(&mut self, asked: &Asked) -> Option<u64> {
        let (caller, owner) = (asked.caller.0, asked.owner.0);
        let now = self.rank(caller).clock;
        let (_, short) = self.crossing((caller, owner), 0);
        let (_, back) = self.crossing((owner, caller), 0);
        let from = if asked.writes { caller } else { owner };
        let to = caller + owner - from;
        let (wire, _) = self.crossing((from, to), asked.length);
        let ready = if asked.writes {
            now
        } else {
            self.arrival((caller, owner), now, short)?
        };
        let it = self.rank(from);
        let departure = it.injection.max(ready);
        it.injection = departure + wire;
        if !asked.writes {
            return self.arrival((owner, caller), departure, wire + back);
        }
        let there = self.arrival((caller, owner), departure, wire + short)?;
        self.arrival((owner, caller), there, back)
    }

    /// A transfer of `asked.caller` between its `lent` memory and a grant.
    pub(crate) fn transfer(
        &mut self,
        asked: Asked,
        lent: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let (me, owner) = (asked.caller.0, asked.owner);
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
        let begun = self.ranks[owner.index()].grants.begin(&asked);
        if begun.is_err() {
            self.note(me, What::Denied(owner));
        }
        let Some(end) = self.bulk(&asked) else {
            let at = self.severed((me, owner.0)).unwrap_or(0);
            let at = at.max(self.rank(me).clock);
            let error = lost(owner, OUT_OF_REACH);
            self.deliver(me, at, News::Failed { operation, error });
            return Ok(Posted::Pending);
        };
        if self.random.happens(self.config.late) {
            let news = match begun {
                Ok(()) => News::Arrived {
                    operation,
                    asked,
                    lent,
                },
                Err(error) => News::Failed { operation, error },
            };
            self.deliver(me, end, news);
            return Ok(Posted::Pending);
        }
        begun?;
        self.rank(me).clock = end;
        self.copy(&asked, lent)?;
        Ok(Posted::Done)
    }

    /// Moves the bytes of a transfer that has begun.
    pub(crate) fn copy(&mut self, asked: &Asked, lent: Region) -> Result<()> {
        let owner = &mut self.ranks[asked.owner.index()];
        if owner.standing == Standing::Dead {
            return Err(lost(asked.owner, DIED));
        }
        let Some(window) = owner.grants.finish(asked) else {
            self.note(asked.caller.0, What::Denied(asked.owner));
            return Err(FabricError::NotGranted { peer: asked.owner });
        };
        if asked.writes {
            window.copy_from(&lent);
        } else {
            lent.copy_from(&window);
        }
        self.counts.transfers += 1;
        self.note(asked.caller.0, What::Moved(asked.owner, asked.length));
        Ok(())
    }
}

fn lost(peer: Peer, reason: &str) -> FabricError {
    FabricError::PeerLost {
        peer,
        reason: reason.into(),
    }
}
