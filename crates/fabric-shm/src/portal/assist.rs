//! Assistance: two cores for one large put. The owner of a grant, while it polls, fetches a part of what a peer puts. Of gets,
//! the owner [sends](super::asked) everything, if it polls.
//!
//! ```text
//!   origin                                         owner
//!   counts itself in at the grant
//!   opens its shared transfer
//!   ── Assist{token, offset, address, length} ───►  remembers it; its next polls:
//!   claim half of the blocks, move them             claim half of what is left, move it, complete it
//!   claim half of what is left, move it             claim half of what is left, move it, complete it
//!   none left: closes the shared transfer
//!   waits for the blocks that the owner claimed
//!   counts itself out
//! ```
//!
//! A rank that waits for a large put has nothing else to do, and one core alone moves large blocks at the speed of its
//! own path to memory. An owner that does not poll is not needed: the origin moves all blocks itself. It is not asked
//! when it sleeps, nor when ranks outnumber cores, nor while it moves blocks of a transfer of its own: then both ends move
//! theirs alone, in as few system calls as possible.
//!
//! # Who may touch what
//! The [`SharedTransfer`] is in the origin's control block; its page says how blocks are claimed. The origin stays until
//! the helper has completed as many blocks as the origin did not claim itself, so a claimed block is always a block of a
//! transfer under way. An owner that is stopped in the middle of a block would go on in the origin's memory, and cannot
//! be told not to: it is waited for as long as it lives. The launcher reports its death, after it has reaped its process.
//!
//! # Safety
//! The owner moves bytes between its own private record of the grant and an address in the process that asked, through
//! the kernel, by cross-memory attach that was proven. A lying origin can name only its own memory, or nothing.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use weft_fabric::{Peer, Region, SharedBytes, Token};

use super::grants::{self, Access, GrantTable, TransferError};
use super::method::{Method, Methods};
use super::transfer::{self, TransferRequest, copy_by_attach};
use crate::lane::{Packet, PacketKind, head, words};
use crate::options::Use;
use crate::outbound::Link;
use crate::segment::Segment;
use crate::shared_transfer::{Share, SharedTransfer};

/// From this length on it is worth asking.
const WORTH_IT: usize = 128 << 10;

/// From this length on it is worth waking the owner for it, if it has a core to wake on: that takes
/// 15–35 µs, and moving this alone 170.
const WORTH_WAKING: usize = 2 << 20;

/// The smallest part that is claimed.
const BLOCK: usize = 64 << 10;

/// Requests that are remembered; further ones are not met.
const MOST: usize = 64;

/// Put of a peer that this rank helps with.
#[derive(Clone, Copy, Debug)]
struct AssistRequest {
    from: Peer,
    token: Token,
    offset: u64,
    address: u64,
    length: usize,
    ticket: u32,
}

fn blocks_of(length: usize) -> u32 {
    u32::try_from(length.div_ceil(BLOCK)).unwrap_or(u32::MAX - 1)
}

/// Blocks of a region, and where they begin.
fn part_of(region: Region, blocks: &Range<u32>) -> Option<(usize, Region)> {
    let start = blocks.start as usize * BLOCK;
    let length = (blocks.len() * BLOCK).min(region.len().checked_sub(start)?);
    Some((start, region.part(start, length)?))
}

/// Assistance that this rank gives and asks for. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Assistance {
    segment: Arc<Segment>,
    me: u32,
    wish: Use,
    /// Puts of peers to help with, oldest first.
    requests: VecDeque<AssistRequest>,
    /// Names the latest transfer that we asked for help with.
    ticket: u32,
}

impl Assistance {
    /// None yet, of process slot `me`. `wish`: whether to ask for it.
    pub fn new(segment: Arc<Segment>, me: u32, wish: Use) -> Self {
        Self {
            segment,
            me,
            wish,
            requests: VecDeque::new(),
            ticket: 0,
        }
    }

    fn shared_transfer_of(&self, slot: u32) -> &SharedTransfer {
        &self.segment.control(slot).origin.shared_transfer
    }

    /// Whether a peer moves blocks of a transfer of its own.
    fn is_busy(&self, peer: Peer) -> bool {
        self.shared_transfer_of(peer.0).is_open()
    }

    /// Whether to ask the owner for help.
    pub fn is_wanted(&self, request: &TransferRequest) -> bool {
        let is_large = request.region.len() >= WORTH_IT;
        if request.access == Access::Read || !is_large || self.wish == Use::Off {
            return false;
        }
        if self.is_busy(request.peer) && self.wish != Use::On {
            return false;
        }
        let load = self.segment.load();
        let free = if !self.segment.header().run_states.sleeps(request.peer.0) {
            load.awake <= load.cores
        } else {
            request.region.len() >= WORTH_WAKING && load.awake < load.cores
        };
        free || self.wish == Use::On
    }

    /// Carries out a put to this process, with the owner's help if it has time.
    pub fn transfer(
        &mut self,
        link: &mut Link<'_>,
        request: TransferRequest,
        process: u32,
    ) -> std::result::Result<(), TransferError> {
        let TransferRequest {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = request;
        let length = region.len() as u64;
        let (visit, address) = request.enter(&self.segment, self.me)?;
        self.ticket = self.ticket.wrapping_add(1);
        let (ticket, blocks) = (self.ticket, blocks_of(region.len()));
        let shared = self.shared_transfer_of(self.me);
        shared.open(ticket);
        let start = region.as_ptr().addr() as u64;
        // If the lane is full, or the peer is gone, we are alone: nothing is lost.
        let _ = link.post(
            peer,
            PacketKind::Assist,
            &head([token.0, offset, start, length]),
            SharedBytes::of(&ticket.to_ne_bytes()),
        );
        let (mut own, mut result) = (0, Ok(()));
        // Both may have begun at the same time.
        let share = || match self.is_busy(peer) {
            true => Share::Rest,
            false => Share::Half,
        };
        while result.is_ok()
            && let Some(claimed) = shared.claim(ticket, blocks, share())
        {
            own += claimed.len() as u32;
            if let Some((at, part)) = part_of(region, &claimed) {
                result = copy_by_attach(process, address + at as u64, part, access);
            }
        }
        let theirs = u64::from(shared.close(ticket, blocks).saturating_sub(own));
        if !self.helper_ends(peer, theirs) {
            // What it may have left undone nobody can do: the memory was in its process.
            result = Err(std::io::Error::other("the owner died while it helped"));
        } else if result.is_ok() && shared.has_failed() {
            result = copy_by_attach(process, address, region, access);
        }
        grants::settle(peer, visit, result)
    }

    /// Waits until the helper has moved the blocks that it has claimed. False if it has died before.
    fn helper_ends(&self, helper: Peer, blocks: u64) -> bool {
        let shared = self.shared_transfer_of(self.me);
        transfer::until(&self.segment, helper, || shared.has_completed(blocks))
    }

    /// Remembers that a peer asks for help.
    pub fn receive(&mut self, from: Peer, packet: &Packet<'_>) {
        let [token, offset, address, length] = words(&packet.head);
        let Some(ticket) = packet.data.read::<4>().map(u32::from_ne_bytes) else {
            return;
        };
        let Ok(length) = usize::try_from(length) else {
            return;
        };
        if self.requests.len() < MOST {
            self.requests.push_back(AssistRequest {
                from,
                token: Token(token),
                offset,
                address,
                length,
                ticket,
            });
        }
    }

    /// A peer is gone, and so is what it wanted help with.
    pub fn forget(&mut self, peer: Peer) {
        self.requests.retain(|request| request.from != peer);
    }

    /// How many transfers of peers there are to help with.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.requests.len()
    }

    /// Moves some blocks for a peer, if there are any. Answers 1 if there were, else 0.
    #[cold]
    pub fn advance(
        &mut self,
        grants: &GrantTable,
        methods: &mut Methods,
        link: &Link<'_>,
    ) -> usize {
        let Some(request) = self.requests.pop_front() else {
            return 0;
        };
        if !link.is_known(request.from) || self.help_with(request, grants, methods).is_none() {
            return 0;
        }
        self.requests.push_front(request);
        1
    }

    /// `None` when there is nothing more to help with.
    fn help_with(
        &self,
        request: AssistRequest,
        grants: &GrantTable,
        methods: &mut Methods,
    ) -> Option<()> {
        let AssistRequest {
            from,
            token,
            offset,
            address,
            length,
            ticket,
        } = request;
        let &Method::Attach(process) = methods.towards(from) else {
            return None;
        };
        let granted = grants.part(token, Access::Write, from, offset, length)?;
        let shared = self.shared_transfer_of(from.0);
        let claimed = shared.claim(ticket, blocks_of(length), Share::Half)?;
        let result = part_of(granted, &claimed).map(|(at, part)| {
            let there = address.wrapping_add(at as u64);
            // What they write we read.
            copy_by_attach(process, there, part, Access::Read)
        });
        shared.complete(claimed.len() as u32, matches!(result, Some(Ok(()))));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_region_exactly() {
        for length in [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17] {
            let mut memory = vec![0u8; length];
            // SAFETY: the region is only measured.
            let region = unsafe { Region::new(memory.as_mut_ptr(), length) };
            let mut next = 0;
            for block in 0..blocks_of(length) {
                let (at, part) = part_of(region, &(block..block + 1)).expect("a block");
                assert_eq!(at, next);
                next += part.len();
            }
            assert_eq!(next, length);
            let blocks = blocks_of(length);
            assert!(part_of(region, &(blocks..blocks + 1)).is_none_or(|(_, part)| part.is_empty()));
            let (at, part) = part_of(region, &(0..blocks)).expect("all");
            assert_eq!((at, part.len()), (0, length));
        }
    }
}
