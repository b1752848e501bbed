//! What this rank permits: a table of grants by token, used by the endpoint alone.
//!
//! ```text
//!   token = generation << 32 | place + 1
//! ```

use weft_fabric::{Peer, Region, Rights, Token, Uses};

use crate::wire::Outcome;

/// Most grants at a time.
const PLACES: usize = 1 << 20;

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
}

impl Grants {
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
            u64::from(place.generation) << 32 | u64::from(index + 1),
        ))
    }

    fn place(&mut self, token: u64) -> Option<(u32, &mut Place)> {
        let index = (token as u32).checked_sub(1)?;
        let place = self.places.get_mut(index as usize)?;
        (place.generation == (token >> 32) as u32).then_some((index, place))
    }

    /// Ends a grant; true if it was live.
    pub fn remove(&mut self, token: Token) -> bool {
        let Some((index, place)) = self.place(token.0) else {
            return false;
        };
        if place.grant.take().is_none() {
            return false;
        }
        // A place whose generations are used up is not used again.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(index);
        }
        true
    }

    /// The window that `caller` may read (or write) by a grant. Uses up a grant for one use.
    pub fn open(
        &mut self,
        token: Token,
        caller: Peer,
        writes: bool,
        (offset, length): (u64, u64),
    ) -> Result<Region, Outcome> {
        let grant = self
            .place(token.0)
            .and_then(|(_, place)| place.grant)
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
