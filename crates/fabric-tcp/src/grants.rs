//! What this rank permits: a table of grants by token, used by the endpoint alone.
//!
//! ```text
//!   token = 1 << 63 | generation << 32 | place + 1
//! ```
//!
//! Tokens without the highest bit are those of another fabric beside this one: a grant for everybody
//! has one token on both ([`Grants::add_as`]).

use std::collections::HashMap;

use weft_fabric::{Peer, Region, Rights, Token, Uses};

use crate::wire::Outcome;

/// Most grants at a time: as many as a token can name. Memory ends before.
const PLACES: usize = u32::MAX as usize;

/// Marks the tokens of this table.
const OURS: u64 = 1 << 63;

#[derive(Clone, Copy)]
struct Grant {
    region: Region,
    to: Option<Peer>,
    rights: Rights,
    uses: Uses,
}

#[derive(Default)]
struct Place {
    generation: u32,
    grant: Option<Grant>,
}

/// The table.
#[derive(Default)]
pub struct Grants {
    places: Vec<Place>,
    free: Vec<u32>,
    others: HashMap<u64, Grant>,
}

impl Grants {
    /// Adds a grant for everybody, under a token of another fabric.
    pub fn add_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        debug_assert_eq!(token.0 & OURS, 0);
        let grant = Grant {
            region,
            to: None,
            rights,
            uses,
        };
        self.others.insert(token.0, grant);
    }

    /// Adds a grant; `None` if there are too many.
    pub fn add(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Option<Token> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.places.len() < PLACES => {
                self.places.push(Place::default());
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let place = &mut self.places[index as usize];
        place.grant = Some(Grant {
            region,
            to,
            rights,
            uses,
        });
        Some(Token(
            OURS | u64::from(place.generation) << 32 | u64::from(index + 1),
        ))
    }

    /// Whether the other fabric must be asked before this is used: whoever is first has it.
    #[inline]
    pub fn is_shared_once(&self, token: u64) -> bool {
        token & OURS == 0
            && matches!(self.others.get(&token), Some(grant) if grant.uses == Uses::Once)
    }

    fn place(&mut self, token: u64) -> Option<(u32, &mut Place)> {
        let index = (token as u32).checked_sub(1)?;
        let place = self.places.get_mut(index as usize)?;
        let generation = ((token & !OURS) >> 32) as u32;
        (token & OURS != 0 && place.generation == generation).then_some((index, place))
    }

    /// Ends a grant; true if it was live.
    pub fn remove(&mut self, token: Token) -> bool {
        let Some((index, place)) = self.place(token.0) else {
            return self.others.remove(&token.0).is_some();
        };
        if place.grant.take().is_none() {
            return false;
        }
        // A place whose generations are used up is not used again.
        if let Some(next) = place
            .generation
            .checked_add(1)
            .filter(|next| next >> 31 == 0)
        {
            place.generation = next;
            self.free.push(index);
        }
        true
    }

    /// What may be sent to a peer before it asks: a grant that it alone may read, once.
    pub fn offerable(&mut self, token: Token, to: Peer) -> Option<Region> {
        let grant = self.place(token.0).and_then(|(_, place)| place.grant)?;
        let his = grant.to == Some(to) && grant.uses == Uses::Once && grant.rights.reads();
        his.then_some(grant.region)
    }

    /// The window that `caller` may read (or write) by a grant. Uses up a grant for one use.
    pub fn open(
        &mut self,
        token: Token,
        caller: Peer,
        writes: bool,
        (offset, length): (u64, u64),
    ) -> Result<Region, Outcome> {
        let other = self.others.get(&token.0).copied();
        let grant = self
            .place(token.0)
            .and_then(|(_, place)| place.grant)
            .or(other)
            .filter(|grant| grant.to.is_none_or(|to| to == caller))
            .ok_or(Outcome::NotGranted)?;
        let permitted = match writes {
            true => grant.rights.writes(),
            false => grant.rights.reads(),
        };
        let window = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(length).ok())
            .and_then(|(offset, length)| grant.region.part(offset, length))
            .filter(|_| permitted)
            .ok_or(Outcome::Outside)?;
        if grant.uses == Uses::Once {
            self.remove(token);
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_used_again_has_another_token() {
        let mut grants = Grants::default();
        let mut add = || grants.add(Region::EMPTY, None, Rights::Read, Uses::Many);
        let first = add().expect("fits");
        assert!(grants.remove(first) && !grants.remove(first));
        let second = grants.add(Region::EMPTY, None, Rights::Read, Uses::Once);
        let second = second.expect("fits");
        assert_ne!(first, second);
        let open = |grants: &mut Grants, token| grants.open(token, Peer(0), false, (0, 0));
        assert_eq!(open(&mut grants, first), Err(Outcome::NotGranted));
        assert_eq!(open(&mut grants, second), Ok(Region::EMPTY));
        assert_eq!(open(&mut grants, second), Err(Outcome::NotGranted));
    }
}
