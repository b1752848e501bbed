//! Grant table: the grants of one rank, in its private memory, with a generation for each use of an index.
//!
//! ```text
//!   Free ── publish ──► Granted ── for once, used up ─────────────► Free
//!                          └── close ──► Closed ── nobody inside ─► Free
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use weft_atomic::Ordering;
use weft_atomic::admission::Admission;
use weft_fabric::{FabricError, Peer, Region, Result, Rights, Token, Uses};

use super::{
    Access, GENERATION_BITS, INDEX_BITS, READ, Refusal, UNSEEN, WRITE, WRITING, presence_of,
    split_token,
};
use crate::segment::Segment;

/// Grants at a time: as many as a token can name. A rank has no more requests than a quarter of it.
const MOST: usize = 1 << INDEX_BITS;

/// The last generation of an index.
const LAST: u64 = (1 << GENERATION_BITS) - 1;

/// Old grants that are looked at for each new one. Two keep pace.
const LOOKS: usize = 2;

/// The same when no record is free.
const LOOKS_IF_FULL: usize = 16;

/// State of an index of the table, as drawn above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Free,
    Granted,
    /// Revoked, while users may be inside.
    Closed,
}

/// One index of the table: what the owner knows of its grant.
#[derive(Debug)]
struct OwnedGrant {
    life: Life,
    generation: u64,
    region: Region,
    rights: u8,
    uses: Uses,
    to: Option<Peer>,
    /// Transfers that the owner itself is moving for others.
    served: u32,
    /// Its state, if it has no record.
    unseen: Admission,
}

impl OwnedGrant {
    fn vacant() -> Self {
        Self {
            life: Life::Free,
            generation: 0,
            region: Region::EMPTY,
            rights: 0,
            uses: Uses::Once,
            to: None,
            served: 0,
            unseen: Admission::default(),
        }
    }
}

/// Users inside of a closed grant, the dead left out.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    Nobody,
    /// Peers that only read, and will notice if they are not waited for.
    Readers,
    /// Others as well.
    Others,
}

/// A grant that its owner holds.
#[must_use = "who does not release it stays inside"]
#[derive(Debug)]
pub(crate) struct Held(u32);

/// Grants of one rank. Those below `records` have a record of the same number in the segment.
#[derive(Debug)]
pub(crate) struct GrantTable {
    segment: Arc<Segment>,
    /// The process slot of the rank.
    owner: u32,
    records: u32,
    grants: Vec<OwnedGrant>,
    /// Indices with a record that are free.
    free: Vec<u32>,
    /// Free indices without one.
    free_unseen: Vec<u32>,
    /// Indices that may be free by now, oldest first, with their generation: grants for once, and closed ones.
    ending: VecDeque<(u32, u64)>,
}

impl GrantTable {
    /// No grants. `records`: how many may have a record in the segment, which has no fewer.
    pub fn new(segment: Arc<Segment>, owner: u32, records: u32) -> Self {
        Self {
            segment,
            owner,
            records,
            grants: Vec::new(),
            free: Vec::new(),
            free_unseen: Vec::new(),
            ending: VecDeque::new(),
        }
    }

    fn admission(&self, index: u32) -> &Admission {
        if index >= self.records {
            return &self.grants[index as usize].unseen;
        }
        let record = self.segment.grant(self.owner, index);
        &record.expect("there are no fewer records").admission
    }

    /// Publishes a grant.
    pub fn publish(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let index = self.free_index()?;
        let tag = |has: bool, tag: u8| if has { tag } else { 0 };
        let grant = &mut self.grants[index as usize];
        grant.life = Life::Granted;
        grant.generation += 1;
        grant.region = region;
        grant.rights = tag(rights.reads(), READ) | tag(rights.writes(), WRITE);
        grant.uses = uses;
        grant.to = to;
        grant.served = 0;
        let (generation, tags) = (grant.generation, grant.rights);
        if uses == Uses::Once {
            self.ending.push_back((index, generation));
        }
        let mut token = generation << INDEX_BITS | u64::from(index);
        if index < self.records
            && let Some(record) = self.segment.grant(self.owner, index)
        {
            let start = region.as_ptr().expose_provenance() as u64;
            record.start.store(start, Ordering::Relaxed);
            record.length.store(region.len() as u64, Ordering::Relaxed);
            let peer = to.map_or(0, |peer| peer.0.wrapping_add(1));
            record.peer.store(peer, Ordering::Relaxed);
        } else {
            token |= UNSEEN;
        }
        self.admission(index)
            .open(generation, uses == Uses::Once, tags);
        Ok(Token(token))
    }

    /// An index that nobody uses, with a record if one is free.
    fn free_index(&mut self) -> Result<u32> {
        let full = self.free.is_empty() && self.grants.len() >= self.records as usize;
        self.reclaim(if full { LOOKS_IF_FULL } else { LOOKS });
        if let Some(index) = self.free.pop() {
            return Ok(index);
        }
        if self.grants.len() >= self.records as usize
            && let Some(index) = self.free_unseen.pop()
        {
            return Ok(index);
        }
        if self.grants.len() >= MOST {
            return Err(FabricError::System {
                what: format!(
                    "rank {} has {MOST} grants outstanding, which is all that a token can name: \
                     let transfers end or revoke grants before new ones are made",
                    self.owner
                ),
            });
        }
        self.grants.push(OwnedGrant::vacant());
        Ok(self.grants.len() as u32 - 1)
    }

    /// Looks at the oldest grants that may have ended and frees those that have.
    fn reclaim(&mut self, looks: usize) {
        for _ in 0..looks.min(self.ending.len()) {
            let Some((index, generation)) = self.ending.pop_front() else {
                return;
            };
            let grant = &self.grants[index as usize];
            if grant.generation != generation {
                // Revoked since, and granted anew.
                continue;
            }
            let ended = match grant.life {
                Life::Free => continue,
                Life::Granted => grant.served == 0 && self.admission(index).is_over(),
                Life::Closed => self.inside(index, |_| true) == Inside::Nobody,
            };
            if ended {
                self.retire(index);
            } else {
                self.ending.push_back((index, generation));
            }
        }
    }

    fn retire(&mut self, index: u32) {
        let grant = &mut self.grants[index as usize];
        grant.life = Life::Free;
        grant.region = Region::EMPTY;
        // An index that has had all its generations is not used again.
        if grant.generation < LAST {
            let free = if index < self.records {
                &mut self.free
            } else {
                &mut self.free_unseen
            };
            free.push(index);
        }
    }

    fn find(&self, token: Token) -> Option<u32> {
        let (index, generation, unseen) = split_token(token);
        let grant = self.grants.get(index as usize)?;
        let same = grant.life == Life::Granted
            && grant.generation == generation
            && unseen == (index >= self.records);
        same.then_some(index)
    }

    /// The tokens of all grants that have not ended.
    pub fn outstanding(&self) -> Vec<Token> {
        let granted = (0..).zip(&self.grants);
        granted
            .filter(|(_, grant)| grant.life == Life::Granted)
            .map(|(index, grant): (u32, _)| {
                let unseen = if index < self.records { 0 } else { UNSEEN };
                Token(unseen | grant.generation << INDEX_BITS | u64::from(index))
            })
            .collect()
    }

    /// Takes a grant back: no user may enter from now on. `None` if there is no such grant; otherwise
    /// its index, and whether it was live. Users inside may still move bytes: see [`Self::inside`].
    pub fn close(&mut self, token: Token) -> Option<(u32, bool)> {
        let index = self.find(token)?;
        let live = self.admission(index).close();
        let grant = &mut self.grants[index as usize];
        grant.life = Life::Closed;
        grant.served = 0;
        grant.region = Region::EMPTY;
        Some((index, live))
    }

    /// Who is inside of a closed grant. `notices`: whether a peer that reads will notice that it was not waited for.
    pub fn inside(&self, index: u32, notices: impl Fn(Peer) -> bool) -> Inside {
        if self.admission(index).users() == 0 {
            return Inside::Nobody;
        }
        let here = presence_of(self.owner, index);
        let segment = &self.segment;
        let mut inside = Inside::Nobody;
        for slot in 0..segment.shape().process_slots {
            let presence = segment.control(slot).origin.presence.place();
            // The dead are asked for last: their process was fetched before.
            if presence & !WRITING != here || slot == self.owner || segment.is_dead(slot) {
                continue;
            }
            if presence & WRITING != 0 || !notices(Peer(slot)) {
                return Inside::Others;
            }
            inside = Inside::Readers;
        }
        inside
    }

    /// Frees a closed grant that nobody is inside of.
    pub fn free(&mut self, index: u32) {
        self.retire(index);
    }

    /// Puts a closed grant aside until those inside have left, who are told that it is void.
    pub fn give_up(&mut self, index: u32) {
        self.admission(index).void();
        let generation = self.grants[index as usize].generation;
        self.ending.push_back((index, generation));
    }

    /// Counts a peer in for whom the owner moves the bytes; answers the part of the region.
    pub fn serve(
        &mut self,
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
            .filter(|_| grant.rights & access.tag() != 0);
        let admission = self.admission(index);
        let part = match part {
            _ if !admission.is_live() => return Err(Refusal::NotGranted),
            None => return Err(Refusal::Outside),
            Some(part) => part,
        };
        if grant.uses == Uses::Once && !admission.take() {
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
        if grant.to.is_some_and(|to| to != user) || grant.rights & access.tag() == 0 {
            return None;
        }
        grant.region.part(usize::try_from(offset).ok()?, length)
    }

    /// Counts the owner in while it reads a grant for a peer, which stays live for that: to be [released](Self::release). `None` if it is
    /// not live.
    #[must_use]
    pub fn hold(&self, token: Token) -> Option<Held> {
        let index = self.find(token)?;
        self.admission(index).hold().then_some(Held(index))
    }

    /// Counts the owner out.
    pub fn release(&self, Held(index): Held) {
        self.admission(index).release();
    }

    /// Counts a peer out whom the owner served.
    pub fn served(&mut self, token: Token) {
        if let Some(index) = self.find(token) {
            let grant = &mut self.grants[index as usize];
            grant.served = grant.served.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
