//! Grant table: the grants of one rank, by tokens that carry a generation; for fabrics that keep their grants in memory
//! of their own.
//!
//! ```text
//!   token = generation << 32 | slot + 1        the highest bit is 0
//!
//!   slot   free ── insert ──► live, generation g ── remove ──► free, generation g + 1
//!                                                        └──► retired, after generation 2³¹ - 1
//! ```
//!
//! Invariant: a slot is in the free list exactly while it is empty and not retired, and its generation grows with each
//! removal. So a removed token never finds anything, even when its slot holds another grant.
//!
//! The table is generic over what a fabric keeps with a grant: a [`Grant`] alone, or one with a claim or a gate beside
//! it. One function, [`Grant::window`], decides what a transfer may access by a grant.

use crate::{FabricError, Peer, Region, Rights, Token, Uses};

/// The last generation of a slot: a token has 31 bits for it.
const LAST_GENERATION: u32 = u32::MAX >> 1;

#[derive(Debug)]
struct Slot<G> {
    generation: u32,
    grant: Option<G>,
}

/// Grants by token. It takes no lock and has no clock: its owner decides who may use it when.
#[derive(Debug)]
pub struct GrantTable<G> {
    slots: Vec<Slot<G>>,
    free: Vec<u32>,
}

impl<G> Default for GrantTable<G> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<G> GrantTable<G> {
    /// Adds a grant. `None` if 2³² - 1 are live: no token could name another.
    #[inline]
    pub fn insert(&mut self, grant: G) -> Option<Token> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.new_slot()?,
        };
        let slot = &mut self.slots[index as usize];
        slot.grant = Some(grant);
        Some(Token(
            u64::from(slot.generation) << 32 | u64::from(index + 1),
        ))
    }

    fn new_slot(&mut self) -> Option<u32> {
        let index = u32::try_from(self.slots.len()).ok()?;
        // The number after the last has no token.
        index.checked_add(1)?;
        self.slots.push(Slot {
            generation: 0,
            grant: None,
        });
        Some(index)
    }

    /// The index of the slot that a token names.
    #[inline]
    fn index(token: Token) -> Option<u32> {
        (token.0 as u32).checked_sub(1)
    }

    #[inline]
    fn slot(&mut self, token: Token) -> Option<&mut Slot<G>> {
        let slot = self.slots.get_mut(Self::index(token)? as usize)?;
        (u64::from(slot.generation) == token.0 >> 32).then_some(slot)
    }

    /// The live grant of this name.
    #[inline]
    #[must_use]
    pub fn get(&self, token: Token) -> Option<&G> {
        let slot = self.slots.get(Self::index(token)? as usize)?;
        let named = u64::from(slot.generation) == token.0 >> 32;
        slot.grant.as_ref().filter(|_| named)
    }

    /// The live grant of this name, to note in it that it is in use.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut G> {
        self.slot(token)?.grant.as_mut()
    }

    /// Ends a grant and returns it; `None` if the token names no live one.
    #[inline]
    pub fn remove(&mut self, token: Token) -> Option<G> {
        let slot = self.slot(token)?;
        let grant = slot.grant.take()?;
        if slot.generation < LAST_GENERATION {
            slot.generation += 1;
            self.free.extend(Self::index(token));
        }
        Some(grant)
    }

    /// Ends all grants and returns them.
    pub fn remove_all(&mut self) -> Vec<G> {
        self.remove_if(|_| true)
    }

    /// Ends and returns the grants for which the condition is true.
    pub fn remove_if(&mut self, mut ends: impl FnMut(&G) -> bool) -> Vec<G> {
        let mut ended = Vec::new();
        for (index, slot) in (0..).zip(&mut self.slots) {
            let Some(grant) = slot.grant.take_if(|grant| ends(grant)) else {
                continue;
            };
            ended.push(grant);
            if slot.generation < LAST_GENERATION {
                slot.generation += 1;
                self.free.push(index);
            }
        }
        ended
    }
}

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The caller reads it: [`Fabric::get`](crate::Fabric::get).
    Read,
    /// The caller writes it: [`Fabric::put`](crate::Fabric::put).
    Write,
}

/// Request of a transfer to the owner of a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferRequest {
    /// The peer that asks.
    pub caller: Peer,
    /// The token of the grant.
    pub token: Token,
    /// First byte asked for, from the start of the grant.
    pub offset: u64,
    /// Bytes asked for.
    pub length: u64,
    /// To read or to write.
    pub access: Access,
}

/// Reason why a transfer may not take place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The token names no live grant for the caller.
    NotGranted,
    /// The grant does not cover what was asked for, or not in this direction.
    OutsideGrant,
}

impl Refusal {
    /// The error of a `request` that `owner` refused.
    #[must_use]
    pub fn error(self, owner: Peer, request: &TransferRequest) -> FabricError {
        match self {
            Self::NotGranted => FabricError::NotGranted { peer: owner },
            Self::OutsideGrant => FabricError::OutsideGrant {
                peer: owner,
                offset: request.offset,
                length: request.length,
            },
        }
    }
}

/// One permission of an owner: these bytes, to this peer or any peer, for reading or writing, once or many times.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    region: Region,
    to: Option<Peer>,
    rights: Rights,
    uses: Uses,
}

impl Grant {
    /// The grant that [`Fabric::grant`](crate::Fabric::grant) is asked for.
    #[inline]
    #[must_use]
    pub fn new(region: Region, to: Option<Peer>, rights: Rights, uses: Uses) -> Self {
        Self {
            region,
            to,
            rights,
            uses,
        }
    }

    /// Whether it ends with its first transfer.
    #[inline]
    #[must_use]
    pub fn is_for_once(&self) -> bool {
        self.uses == Uses::Once
    }

    /// The bytes that a transfer may access. Does not check whether a grant for one use is used up.
    ///
    /// # Errors
    /// [`Refusal::NotGranted`] if the grant is for another peer, [`Refusal::OutsideGrant`] if the span lies outside of
    /// the granted region or the right is missing.
    #[inline]
    pub fn window(&self, request: &TransferRequest) -> Result<Region, Refusal> {
        if self.to.is_some_and(|peer| peer != request.caller) {
            return Err(Refusal::NotGranted);
        }
        let permitted = match request.access {
            Access::Read => self.rights.reads(),
            Access::Write => self.rights.writes(),
        };
        let offset = usize::try_from(request.offset).ok();
        let span = offset.zip(usize::try_from(request.length).ok());
        span.and_then(|(offset, length)| self.region.part(offset, length))
            .filter(|_| permitted)
            .ok_or(Refusal::OutsideGrant)
    }

    /// The whole region, if only `peer` may read it, and once: then it may be sent before the peer asks.
    #[inline]
    #[must_use]
    pub fn offerable_to(&self, peer: Peer) -> Option<Region> {
        let only_once = self.to == Some(peer) && self.is_for_once() && self.rights.reads();
        only_once.then_some(self.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_one_slot_differ() {
        let mut table = GrantTable::default();
        let first = table.insert('a').expect("fits");
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').expect("fits");
        assert_ne!(first, second);
        assert_eq!(first.0 as u32, second.0 as u32, "the slot is used again");
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.remove(second), Some('b'));
    }

    #[test]
    fn a_slot_with_its_generations_used_up_is_left_alone() {
        let mut table = GrantTable {
            slots: vec![Slot {
                generation: LAST_GENERATION,
                grant: None,
            }],
            free: vec![0],
        };
        let last = table.insert('a').expect("fits");
        assert_eq!(last.0 >> 32, u64::from(LAST_GENERATION));
        assert_eq!(last.0 >> 63, 0);
        assert_eq!(table.remove(last), Some('a'));
        assert_eq!(table.insert('b').expect("fits").0, 2);
        assert_eq!(table.get(last), None);
    }

    #[test]
    fn tokens_that_name_no_slot_find_nothing() {
        let mut table = GrantTable::default();
        let token = table.insert('a').expect("fits");
        for wrong in [0, token.0 + 1, token.0 | 1 << 63, token.0 | 1 << 32] {
            assert_eq!(table.get(Token(wrong)), None);
            assert_eq!(table.remove(Token(wrong)), None);
        }
    }

    #[test]
    fn after_removing_all_the_old_tokens_stay_dead() {
        let mut table = GrantTable::default();
        let old = ['a', 'b', 'c'].map(|grant| table.insert(grant).expect("fits"));
        assert_eq!(table.remove(old[1]), Some('b'));
        assert_eq!(table.remove_all(), ['a', 'c']);
        for _ in 0..3 {
            let new = table.insert('d').expect("fits");
            assert!(!old.contains(&new));
        }
        assert!(old.iter().all(|token| table.get(*token).is_none()));
    }

    #[test]
    fn a_window_lies_within_the_grant_and_is_for_the_peer_that_it_names() {
        let memory = crate::conformance::Memory::filled(16, 0);
        let grant = Grant::new(memory.region(), Some(Peer(1)), Rights::Read, Uses::Once);
        let request = |caller, (offset, length), access| TransferRequest {
            caller: Peer(caller),
            token: Token(1),
            offset,
            length,
            access,
        };
        let asked = |caller, span, access| {
            let window = grant.window(&request(caller, span, access));
            window.map(|region| region.len())
        };
        assert_eq!(asked(1, (4, 12), Access::Read), Ok(12));
        assert_eq!(asked(1, (16, 0), Access::Read), Ok(0));
        assert_eq!(asked(2, (4, 12), Access::Read), Err(Refusal::NotGranted));
        for span in [(4, 13), (17, 0), (u64::MAX, 2)] {
            assert_eq!(asked(1, span, Access::Read), Err(Refusal::OutsideGrant));
        }
        assert_eq!(asked(1, (0, 1), Access::Write), Err(Refusal::OutsideGrant));
        assert!(grant.offerable_to(Peer(1)).is_some() && grant.offerable_to(Peer(0)).is_none());
    }
}
