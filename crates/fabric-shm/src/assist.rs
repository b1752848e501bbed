//! Two cores for one large transfer: the owner of a grant, while it polls, moves a part of what a
//! peer is getting or putting.
//!
//! ```text
//!   asker                                          owner
//!   counts itself in at the grant
//!   pad.claim = {ticket, 0}
//!   ── Help{token, offset, address, length} ─────►  remembers it; its next polls:
//!   claim a block, move it                          claim a block, move it, pad.done + 1
//!   claim a block, move it                          claim a block, move it, pad.done + 1
//!   none left: closes the pad
//!   waits for the blocks that the owner claimed
//!   counts itself out
//! ```
//!
//! A rank that waits in a large send has nothing else to do, and one core alone moves large blocks at
//! the speed of its own path to memory. An owner that does not poll is not missed: the asker moves
//! all blocks itself. It is not asked when it sleeps, nor when ranks outnumber cores.
//!
//! # Who may touch what
//! The pad lies in the asker's control block. The asker opens and closes it; both claim by
//! compare-and-swap on {ticket, next block}; a help that comes late finds another ticket, or no block.
//! The asker stays until `done` has reached the number of blocks that it did not claim itself, so a
//! block that is claimed is always a block of a transfer under way. An owner that is stopped in the middle of a
//! block would go on in the asker's memory, and cannot be told not to: it is waited for as long as it lives. That it
//! has died the launcher says, after its process was fetched.
//! SYNC assist.open: claim is stored with Release, swapped with Acquire. SYNC assist.done: `done` is
//! added to with Release after the bytes, loaded with Acquire.
//!
//! # Safety
//! The owner moves between its own private record of the grant and an address in the process that
//! asked, through the kernel, by cross-memory attach that was proven. What a lying asker names is its
//! own memory, or nothing.

use std::time::Duration;

use weft_atomic::{AtomicU64, Ordering};
use weft_fabric::{Bell, Peer, Region, SharedBytes, Token};
use weft_sys::attach::{self, Remote};

use crate::endpoint::Shm;
use crate::grants::{self, Access};
use crate::lane::{Item, Kind};
use crate::options::Use;
use crate::portal::{Asked, Moved, Way, enter};
use crate::receive::{head, words};

/// From this length on it is worth asking.
pub(crate) const WORTH_IT: usize = 128 << 10;

/// From this length on it is worth waking the owner for it, if it has a core to wake on: that takes
/// 15–35 µs, and moving this alone 170.
const WORTH_WAKING: usize = 2 << 20;

/// Blocks of one turn of the owner and of one claim.
const BLOCK: usize = 64 << 10;

/// Helps that are remembered; further ones are not given.
const MOST: usize = 64;

/// Looks at a helper's progress before the waiting gets slower, and the pause between two looks then.
const LONG: u32 = 1 << 20;
const PAUSE: Duration = Duration::from_micros(100);

/// In `done`: a block could not be moved.
const FAILED: u64 = 1 << 63;

/// What an asker and its helper share.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Pad {
    /// Ticket (high half) and next block (low half).
    claim: AtomicU64,
    /// Blocks that the helper has moved, and [`FAILED`].
    done: AtomicU64,
}

impl Pad {
    fn open(&self, ticket: u32) {
        self.done.store(0, Ordering::Relaxed);
        // SYNC assist.open.
        self.claim.store(u64::from(ticket) << 32, Ordering::Release);
    }

    /// The next block of the transfer `ticket`, below `blocks`.
    fn claim(&self, ticket: u32, blocks: u32) -> Option<u32> {
        let mut seen = self.claim.load(Ordering::Relaxed);
        loop {
            let next = seen as u32;
            if (seen >> 32) as u32 != ticket || next >= blocks {
                return None;
            }
            // SYNC assist.open.
            match self.claim.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(next),
                Err(other) => seen = other,
            }
        }
    }

    /// Nobody claims any more; answers how many blocks were claimed.
    fn close(&self, ticket: u32, blocks: u32) -> u32 {
        let closed = u64::from(ticket) << 32 | u64::from(u32::MAX);
        (self.claim.swap(closed, Ordering::AcqRel) as u32).min(blocks)
    }
}

/// A transfer of a peer that this rank helps with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Help {
    from: Peer,
    token: Token,
    offset: u64,
    address: u64,
    length: usize,
    ticket: u32,
    access: Access,
}

fn blocks_of(length: usize) -> u32 {
    u32::try_from(length.div_ceil(BLOCK)).unwrap_or(u32::MAX - 1)
}

/// A block of a region.
fn block_of(region: Region, block: u32) -> Option<(usize, Region)> {
    let start = block as usize * BLOCK;
    let length = BLOCK.min(region.len().checked_sub(start)?);
    Some((start, region.part(start, length)?))
}

impl Shm {
    /// Whether to ask the owner for help.
    pub(crate) fn wants_help(&self, asked: &Asked) -> bool {
        if asked.region.len() < WORTH_IT || self.assist == Use::Off {
            return false;
        }
        let load = self.bell.load();
        let free = if !self.segment.header().run_states.sleeps(asked.peer.0) {
            load.awake <= load.cores
        } else {
            asked.region.len() >= WORTH_WAKING && load.awake < load.cores
        };
        free || self.assist == Use::On
    }

    /// Carries out a transfer, with the owner's help if it has time.
    pub(crate) fn transfer_assisted(
        &mut self,
        asked: Asked,
        process: u32,
    ) -> std::result::Result<(), Moved> {
        let Asked {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = asked;
        let length = region.len() as u64;
        let segment = self.segment.clone();
        let (visit, address) = enter(&segment, self.me, &asked)?;
        self.ticket = self.ticket.wrapping_add(1);
        let (ticket, blocks) = (self.ticket, blocks_of(region.len()));
        let pad = &segment.control(self.me).mover.pad;
        pad.open(ticket);
        let place = region.as_ptr().addr() as u64;
        let more = u64::from(ticket) << 1 | u64::from(access == Access::Write);
        // If the lane is full, or the peer is gone, we are alone: nothing is lost.
        let _ = self.post(
            peer,
            Kind::Help,
            &head([token.0, offset, place, length]),
            SharedBytes::of(&more.to_ne_bytes()),
        );
        let (mut own, mut moved) = (0, Ok(()));
        while moved.is_ok()
            && let Some(block) = pad.claim(ticket, blocks)
        {
            own += 1;
            if let Some((at, part)) = block_of(region, block) {
                moved = carry(process, address + at as u64, part, access);
            }
        }
        let theirs = u64::from(pad.close(ticket, blocks).saturating_sub(own));
        if !self.helper_ends(peer, theirs) {
            // What it may have left undone nobody can do: the memory was in its process.
            moved = Err(std::io::Error::other("the owner died while it helped"));
        } else if moved.is_ok() && pad.done.load(Ordering::Acquire) & FAILED != 0 {
            moved = carry(process, address, region, access);
        }
        grants::settle(peer, visit, moved)
    }

    /// Waits until the helper has moved the blocks that it has claimed. False if it has died before.
    fn helper_ends(&self, helper: Peer, blocks: u64) -> bool {
        let pad = &self.segment.control(self.me).mover.pad;
        // SYNC assist.done.
        let ended = || pad.done.load(Ordering::Acquire) & !FAILED >= blocks;
        let mut looks = 0u32;
        while !ended() {
            looks = looks.saturating_add(1);
            if looks < LONG && !looks.is_multiple_of(1024) {
                std::hint::spin_loop();
                continue;
            }
            if self.segment.is_dead(helper.0) {
                return ended();
            }
            if looks < LONG {
                // It has lost its core in the middle of a block: it may have ours.
                std::thread::yield_now();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        true
    }

    /// Remembers that a peer asks for help.
    pub(crate) fn receive_help(&mut self, from: Peer, item: &Item<'_>) {
        let [token, offset, address, length] = words(&item.head);
        let Some(more) = item.data.read::<8>().map(u64::from_ne_bytes) else {
            return;
        };
        let Ok(length) = usize::try_from(length) else {
            return;
        };
        if self.helps.len() < MOST {
            self.helps.push_back(Help {
                from,
                token: Token(token),
                offset,
                address,
                length,
                ticket: (more >> 1) as u32,
                access: if more & 1 == 0 {
                    Access::Read
                } else {
                    Access::Write
                },
            });
        }
    }

    /// Moves one block for a peer. Answers how many that were.
    #[cold]
    pub(crate) fn help(&mut self) -> usize {
        let Some(help) = self.helps.pop_front() else {
            return 0;
        };
        if self.help_with(help).is_none() {
            return 0;
        }
        self.helps.push_front(help);
        1
    }

    /// `None` when there is nothing more to help with.
    fn help_with(&mut self, help: Help) -> Option<()> {
        let Help {
            from,
            token,
            address,
            access,
            ..
        } = help;
        self.known(from).ok()?;
        if self.ways[from.index()] == Way::Unknown {
            self.ways[from.index()] = self.prove(from);
        }
        let Way::Attach(process) = self.ways[from.index()] else {
            return None;
        };
        let granted = self
            .grants
            .part(token, access, from, help.offset, help.length)?;
        let pad = &self.segment.control(from.0).mover.pad;
        let block = pad.claim(help.ticket, blocks_of(help.length))?;
        let moved = block_of(granted, block).map(|(at, part)| {
            let there = address.wrapping_add(at as u64);
            // What they read we write, and the other way round.
            match access {
                Access::Read => carry(process, there, part, Access::Write),
                Access::Write => carry(process, there, part, Access::Read),
            }
        });
        if !matches!(moved, Some(Ok(()))) {
            pad.done.fetch_or(FAILED, Ordering::Relaxed);
        }
        // SYNC assist.done.
        pad.done.fetch_add(1, Ordering::Release);
        Some(())
    }
}

/// Moves bytes to or from another process.
pub(crate) fn carry(
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
        // the span was checked against the grant. It is another process: within one process the way
        // is Copy, or, if two endpoints of one process did attach separately, the Region behind it is
        // valid for writes by its maker's promise.
        Access::Write => unsafe { attach::write(region, there) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_claimed_once_and_late_helpers_get_none() {
        let pad = Pad::default();
        pad.open(7);
        assert_eq!(pad.claim(6, 10), None, "another transfer");
        let claimed: Vec<u32> = std::thread::scope(|scope| {
            let claimer = || {
                let mut mine = Vec::new();
                while let Some(block) = pad.claim(7, 5000) {
                    mine.push(block);
                }
                mine
            };
            let other = scope.spawn(claimer);
            let mut all = claimer();
            all.extend(other.join().expect("ends"));
            all
        });
        let mut sorted = claimed.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..5000));
        assert_eq!(pad.close(7, 5000), 5000);
        assert_eq!(pad.claim(7, 5000), None);
        pad.open(8);
        assert_eq!(pad.claim(7, 5000), None, "late");
        assert_eq!(pad.claim(8, 1), Some(0));
        assert_eq!(pad.close(8, 1), 1);
    }

    #[test]
    fn blocks_cover_a_region_exactly() {
        for length in [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17] {
            let mut memory = vec![0u8; length];
            // SAFETY: the region is only measured.
            let region = unsafe { Region::new(memory.as_mut_ptr(), length) };
            let mut next = 0;
            for block in 0..blocks_of(length) {
                let (at, part) = block_of(region, block).expect("a block");
                assert_eq!(at, next);
                next += part.len();
            }
            assert_eq!(next, length);
            assert!(block_of(region, blocks_of(length)).is_none_or(|(_, part)| part.is_empty()));
        }
    }
}
