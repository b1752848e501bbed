//! Transfer: one transfer, carried out by the peer that asks: counted in at the grant, moved, counted out.

use std::time::Duration;

use weft_atomic::admission::Visit;
use weft_fabric::{FabricError, Operation, Peer, Region, Result, Sink, Token};
use weft_sys::attach::{self, Remote};

use super::grants::{self, Access, GrantUse, TransferError};
use crate::segment::Segment;

/// Request for a transfer: a get or a put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferRequest {
    /// The owner of the grant.
    pub peer: Peer,
    /// Its grant.
    pub token: Token,
    /// First byte, from the start of the grant.
    pub offset: u64,
    /// Memory here: what a get fills, or what a put sends.
    pub region: Region,
    /// What is done with the grant.
    pub access: Access,
    /// Its name in [`Sink::transfer_completed`].
    pub operation: Operation,
}

impl TransferRequest {
    /// Counts process slot `me` in at the grant; answers the address of the first byte.
    pub fn enter<'a>(&self, segment: &'a Segment, me: u32) -> Result<(Visit<'a>, u64)> {
        let Self {
            peer,
            token,
            offset,
            access,
            ..
        } = *self;
        let length = self.region.len() as u64;
        let record = grants::index_of(token).and_then(|index| segment.grant(peer.0, index));
        let record = record.ok_or(FabricError::NotGranted { peer })?;
        let presence = &segment.control(me).origin.presence;
        let asked = GrantUse {
            owner: peer,
            token,
            access,
            user: Peer(me),
            offset,
            length,
        };
        grants::enter(record, presence, asked)
            .map_err(|refusal| refusal.error(peer, offset, length))
    }

    /// Counts process slot `me` in at the grant, moves, counts it out. `carry` is given the address of the first byte.
    pub fn enter_and(
        self,
        segment: &Segment,
        me: u32,
        carry: impl FnOnce(u64, Region, Access) -> std::io::Result<()>,
    ) -> std::result::Result<(), TransferError> {
        let (visit, address) = self.enter(segment, me)?;
        let result = carry(address, self.region, self.access);
        grants::settle(self.peer, visit, result)
    }
}

/// A transfer ends because its peer is lost, for this reason.
pub(crate) fn lose(request: &TransferRequest, reason: &str, sink: &mut dyn Sink) {
    let (peer, reason) = (request.peer, reason.to_owned());
    let lost = Err(FabricError::PeerLost { peer, reason });
    sink.transfer_completed(request.operation, lost);
}

/// Looks at what another process does before the waiting gets slower, and the pause between two looks then.
const LONG: u32 = 1 << 20;
const PAUSE: Duration = Duration::from_micros(100);

/// Waits for another process that is in the middle of moving some bytes, until it is done. False if it has died before.
pub(crate) fn until(segment: &Segment, other: Peer, is_done: impl Fn() -> bool) -> bool {
    let mut looks = 0u32;
    while !is_done() {
        looks = looks.saturating_add(1);
        if looks < LONG && !looks.is_multiple_of(1024) {
            std::hint::spin_loop();
            continue;
        }
        if segment.is_dead(other.0) {
            return is_done();
        }
        if looks < LONG {
            // It has lost its core in the middle: it may have ours.
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    true
}

/// Moves bytes to or from another process, by cross-memory attach.
pub(crate) fn copy_by_attach(
    process: u32,
    address: u64,
    region: Region,
    access: Access,
) -> std::io::Result<()> {
    if region.is_empty() {
        return Ok(());
    }
    let there = Remote { process, address };
    match access {
        Access::Read => attach::read(there, region),
        // SAFETY: the owner of the memory there granted the write, or asked for help with filling it;
        // the span was checked against the grant. It is another process: within one process the method
        // is Copy, or, if two endpoints of one process did attach separately, whoever made the Region behind it
        // promised that it is valid for writes until the grant has ended.
        Access::Write => unsafe { attach::write(region, there) },
    }
}
