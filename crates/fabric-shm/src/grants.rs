//! Grants: what a rank lets others read or write, as records that peers check for themselves.
//!
//! # The state of a record
//! ```text
//!   63 … 32      19     18    17    16    15 … 0
//!   generation   write  read  once  live  users
//! ```
//! A user that finds its token's generation live, itself admitted and its span within, counts itself
//! in by a compare-and-swap of the state; if the grant is for once, the same swap ends it. So a grant
//! for once is used once whoever races, start and length belong to the generation that was compared,
//! and the owner, which takes `live` away to revoke, sees who is still at it.
//!
//! # Who may touch what
//! The owner writes start, length and peer while the record is neither live nor used, then the state
//! (SYNC grant.publish). Users change the state only, from live. A user counts itself out with
//! Release (SYNC grant.done); the owner's Acquire of `users == 0` therefore comes after the last byte
//! moved.
//!
//! # Safety
//! The owner never takes an address from the shared record: for what it moves itself it keeps each
//! region privately. A user passes addresses to the kernel, which checks them, and not to a pointer,
//! except within one process, see `portal.rs`.

use std::collections::VecDeque;

use weft_atomic::Ordering;
use weft_fabric::{FabricError, Peer, Region, Result, Rights, Token, Uses};

use weft_sys::error::errno;

use crate::layout::{GrantRecord, Segment};
use crate::portal::Moved;

const USERS: u64 = 0xffff;
const LIVE: u64 = 1 << 16;
const ONCE: u64 = 1 << 17;
const READ: u64 = 1 << 18;
const WRITE: u64 = 1 << 19;
const GENERATION: u32 = 32;

/// What a user wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    fn flag(self) -> u64 {
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
        }
    }
}

/// Why a grant cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    NotGranted,
    Outside,
}

impl Refusal {
    pub fn error(self, peer: Peer, offset: u64, length: u64) -> FabricError {
        match self {
            Self::NotGranted => FabricError::NotGranted { peer },
            Self::Outside => FabricError::OutsideGrant {
                peer,
                offset,
                length,
            },
        }
    }
}

/// The parts of a token.
fn parts(token: Token) -> (u32, u32) {
    (token.0 as u32, (token.0 >> GENERATION) as u32)
}

/// The index of the record that a token names.
pub(crate) fn index_of(token: Token) -> u32 {
    parts(token).0
}

/// Counts `user` in at a record of a peer; answers the address of the first byte.
pub(crate) fn enter(
    record: &GrantRecord,
    token: Token,
    access: Access,
    user: Peer,
    offset: u64,
    length: u64,
) -> std::result::Result<u64, Refusal> {
    let (_, generation) = parts(token);
    // Each round that fails, another user got in or out; so many in a row are no accident.
    for _ in 0..10_000 {
        // SYNC grant.publish.
        let state = record.state.load(Ordering::Acquire);
        if (state >> GENERATION) as u32 != generation || state & LIVE == 0 {
            return Err(Refusal::NotGranted);
        }
        let peer = record.peer.load(Ordering::Relaxed);
        if peer != 0 && peer != user.0.wrapping_add(1) {
            return Err(Refusal::NotGranted);
        }
        let start = record.start.load(Ordering::Relaxed);
        let granted = record.length.load(Ordering::Relaxed);
        let within = offset.checked_add(length).is_some_and(|end| end <= granted);
        if !within || state & access.flag() == 0 {
            return Err(Refusal::Outside);
        }
        let address = start.wrapping_add(offset);
        let mut entered = state + 1;
        if state & ONCE != 0 {
            entered &= !LIVE;
        }
        if state & USERS == USERS {
            std::hint::spin_loop();
            continue;
        }
        // The swap proves that start, length and peer belong to this generation.
        if record
            .state
            .compare_exchange_weak(state, entered, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return Ok(address);
        }
    }
    Err(Refusal::NotGranted)
}

/// Counts a user out that has moved its bytes.
fn leave(record: &GrantRecord) {
    // SYNC grant.done.
    record.state.fetch_sub(1, Ordering::Release);
}

/// Counts a user out that has moved nothing and wants to try another way: a grant for once is live
/// again.
fn give_back(record: &GrantRecord) {
    let _ = record
        .state
        .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
            let left = state.wrapping_sub(1);
            Some(if state & ONCE != 0 { left | LIVE } else { left })
        });
}

/// Counts a user out, whatever became of its transfer. If the kernel did not let it, the grant is given
/// back, so that it may try another way.
pub(crate) fn settle(
    record: &GrantRecord,
    moved: std::io::Result<()>,
) -> std::result::Result<(), Moved> {
    match moved {
        Ok(()) => {
            leave(record);
            Ok(())
        }
        // The memory there, or here, is not what was promised: another way would not help.
        Err(error) if errno(&error) == Some(EFAULT) => {
            leave(record);
            Err(Moved::Refused(FabricError::System {
                what: error.to_string(),
            }))
        }
        Err(error) => {
            give_back(record);
            Err(Moved::Unable(error.to_string()))
        }
    }
}

/// `EFAULT`, the same on all Linux.
const EFAULT: i32 = 14;

/// What the owner knows of one of its grants.
#[derive(Debug)]
struct Grant {
    generation: u32,
    region: Region,
    /// The flags it was made with.
    flags: u64,
    to: Option<Peer>,
    /// It was handed out and not taken back.
    outstanding: bool,
    /// Transfers that the owner itself is moving for others.
    served: u32,
}

/// The grants of one rank.
#[derive(Debug)]
pub(crate) struct GrantTable {
    owner: u32,
    grants: Vec<Grant>,
    free: Vec<u32>,
    /// Grants for once that may be used up by now, oldest first: index and generation.
    once: VecDeque<(u32, u32)>,
    limit: u32,
}

impl GrantTable {
    pub fn new(owner: u32, limit: u32) -> Self {
        Self {
            owner,
            grants: Vec::new(),
            free: Vec::new(),
            once: VecDeque::new(),
            limit,
        }
    }

    fn record<'a>(&self, segment: &'a Segment, index: u32) -> &'a GrantRecord {
        segment
            .grant(self.owner, index)
            .expect("the table is no longer than the records")
    }

    /// Publishes a grant.
    pub fn publish(
        &mut self,
        segment: &Segment,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let index = self.place(segment)?;
        let mut flags = LIVE;
        if rights.reads() {
            flags |= READ;
        }
        if rights.writes() {
            flags |= WRITE;
        }
        if uses == Uses::Once {
            flags |= ONCE;
        }
        let grant = &mut self.grants[index as usize];
        grant.generation = grant.generation.wrapping_add(1);
        if uses == Uses::Once {
            self.once.push_back((index, grant.generation));
        }
        let grant = &mut self.grants[index as usize];
        grant.region = region;
        grant.flags = flags;
        grant.to = to;
        grant.outstanding = true;
        let generation = u64::from(grant.generation) << GENERATION;
        let record = self.record(segment, index);
        record.start.store(
            region.as_ptr().expose_provenance() as u64,
            Ordering::Relaxed,
        );
        record.length.store(region.len() as u64, Ordering::Relaxed);
        let peer = to.map_or(0, |peer| peer.0.wrapping_add(1));
        record.peer.store(peer, Ordering::Relaxed);
        // SYNC grant.publish.
        record.state.store(generation | flags, Ordering::Release);
        Ok(Token(generation | u64::from(index)))
    }

    /// A record that nobody uses.
    fn place(&mut self, segment: &Segment) -> Result<u32> {
        // Two old ones a time keeps pace with one new one a time.
        self.reclaim(segment, 2);
        if self.free.is_empty() && self.grants.len() >= self.limit as usize {
            self.reclaim(segment, usize::MAX);
        }
        if let Some(index) = self.free.pop() {
            return Ok(index);
        }
        if self.grants.len() >= self.limit as usize {
            return Err(FabricError::System {
                what: format!(
                    "rank {} has {} grants outstanding, which is all that fit: let transfers end \
                     or revoke grants before new ones are made",
                    self.owner, self.limit
                ),
            });
        }
        self.grants.push(Grant {
            generation: 0,
            region: Region::EMPTY,
            flags: 0,
            to: None,
            outstanding: false,
            served: 0,
        });
        Ok(self.grants.len() as u32 - 1)
    }

    /// Looks at the oldest grants for once and frees those that are used up.
    fn reclaim(&mut self, segment: &Segment, looks: usize) {
        for _ in 0..looks.min(self.once.len()) {
            let Some((index, generation)) = self.once.pop_front() else {
                return;
            };
            let grant = &self.grants[index as usize];
            if !grant.outstanding || grant.generation != generation {
                // Revoked since, and perhaps granted anew.
                continue;
            }
            // SYNC grant.done.
            let state = self.record(segment, index).state.load(Ordering::Acquire);
            if state & (LIVE | USERS) == 0 && grant.served == 0 {
                self.retire(index);
            } else {
                self.once.push_back((index, generation));
            }
        }
    }

    fn retire(&mut self, index: u32) {
        let grant = &mut self.grants[index as usize];
        grant.outstanding = false;
        grant.region = Region::EMPTY;
        self.free.push(index);
    }

    fn find(&self, token: Token) -> Option<u32> {
        let (index, generation) = parts(token);
        let grant = self.grants.get(index as usize)?;
        (grant.outstanding && grant.generation == generation).then_some(index)
    }

    /// Takes a grant back: no user may enter from now on. `None` if there is no such grant; otherwise
    /// whether it was live. Users inside may still move bytes: see [`Self::busy`].
    pub fn close(&mut self, segment: &Segment, token: Token) -> Option<bool> {
        let index = self.find(token)?;
        let before = self
            .record(segment, index)
            .state
            .fetch_and(!LIVE, Ordering::AcqRel);
        Some(before & LIVE != 0)
    }

    /// Whether a user is still inside.
    pub fn busy(&self, segment: &Segment, token: Token) -> bool {
        self.find(token).is_some_and(|index| {
            // SYNC grant.done.
            self.record(segment, index).state.load(Ordering::Acquire) & USERS != 0
        })
    }

    /// Frees a closed grant.
    pub fn free(&mut self, token: Token) {
        if let Some(index) = self.find(token) {
            self.grants[index as usize].served = 0;
            self.retire(index);
        }
    }

    /// Counts a peer in for whom the owner moves the bytes; answers the part of the region.
    pub fn serve(
        &mut self,
        segment: &Segment,
        token: Token,
        access: Access,
        user: Peer,
        offset: u64,
        length: u64,
    ) -> std::result::Result<Region, Refusal> {
        let index = self.find(token).ok_or(Refusal::NotGranted)?;
        let grant = &self.grants[index as usize];
        if grant.to.is_some_and(|to| to != user) {
            return Err(Refusal::NotGranted);
        }
        let part = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(length).ok())
            .and_then(|(offset, length)| grant.region.part(offset, length))
            .filter(|_| grant.flags & access.flag() != 0);
        let record = self.record(segment, index);
        let live = record.state.load(Ordering::Acquire) & LIVE != 0;
        let part = match part {
            _ if !live => return Err(Refusal::NotGranted),
            None => return Err(Refusal::Outside),
            Some(part) => part,
        };
        if grant.flags & ONCE != 0 && record.state.fetch_and(!LIVE, Ordering::AcqRel) & LIVE == 0 {
            return Err(Refusal::NotGranted);
        }
        self.grants[index as usize].served += 1;
        Ok(part)
    }

    /// The part of a region that a peer, counted in by itself, may use: for moving it on its behalf.
    pub fn part(
        &self,
        token: Token,
        access: Access,
        user: Peer,
        offset: u64,
        length: usize,
    ) -> Option<Region> {
        let grant = &self.grants[self.find(token)? as usize];
        if grant.to.is_some_and(|to| to != user) || grant.flags & access.flag() == 0 {
            return None;
        }
        grant.region.part(usize::try_from(offset).ok()?, length)
    }

    /// Counts a peer out whom the owner served.
    pub fn served(&mut self, token: Token) {
        if let Some(index) = self.find(token) {
            let grant = &mut self.grants[index as usize];
            grant.served = grant.served.saturating_sub(1);
        }
    }
}
