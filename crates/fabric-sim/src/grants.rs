//! What one rank permits. All under the lock of the world.

use weft_fabric::{FabricError, Peer, Region, Result, Rights, Token, Uses};

#[derive(Clone, Debug)]
struct Grant {
    region: Region,
    to: Option<Peer>,
    rights: Rights,
    uses: Uses,
    /// Taken by the one transfer that it is for, which may be under way.
    taken: bool,
}

/// The last generation of a place.
const LAST: u32 = u32::MAX >> 1;

/// The grants of one rank. Token = generation << 32 | place + 1; its highest bit stays 0.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    places: Vec<(u32, Option<Grant>)>,
    free: Vec<u32>,
}

/// What a transfer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub owner: Peer,
    pub caller: Peer,
    pub token: Token,
    pub offset: u64,
    pub length: usize,
    /// Writing into the owner's memory, else reading from it.
    pub writes: bool,
}

impl Grants {
    pub(crate) fn add(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Option<Token> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u32::try_from(self.places.len()).ok()?;
                place.checked_add(1)?;
                self.places.push((0, None));
                place
            }
        };
        let (generation, grant) = &mut self.places[place as usize];
        *grant = Some(Grant {
            region,
            to,
            rights,
            uses,
            taken: false,
        });
        Some(Token(u64::from(*generation) << 32 | u64::from(place + 1)))
    }

    fn find(&mut self, token: Token) -> Option<(u32, &mut Grant)> {
        let place = (token.0 as u32).checked_sub(1)?;
        let (generation, grant) = self.places.get_mut(place as usize)?;
        if u64::from(*generation) != token.0 >> 32 {
            return None;
        }
        Some((place, grant.as_mut()?))
    }

    /// Ends a grant; true if it was live.
    pub(crate) fn end(&mut self, token: Token) -> bool {
        let Some((place, _)) = self.find(token) else {
            return false;
        };
        let (generation, grant) = &mut self.places[place as usize];
        *grant = None;
        // A place whose generations are used up is not used again.
        if *generation < LAST {
            *generation += 1;
            self.free.push(place);
        }
        true
    }

    pub(crate) fn end_all(&mut self) {
        *self = Self::default();
    }

    /// Checks a transfer that begins, and takes the grant if it is for once.
    pub(crate) fn begin(&mut self, asked: &Asked) -> Result<()> {
        let not_granted = FabricError::NotGranted { peer: asked.owner };
        let Some((_, grant)) = self.find(asked.token) else {
            return Err(not_granted);
        };
        if grant.taken || grant.to.is_some_and(|peer| peer != asked.caller) {
            return Err(not_granted);
        }
        let right = if asked.writes {
            grant.rights.writes()
        } else {
            grant.rights.reads()
        };
        if !right || window(grant, asked).is_none() {
            return Err(FabricError::OutsideGrant {
                peer: asked.owner,
                offset: asked.offset,
                length: asked.length as u64,
            });
        }
        grant.taken = grant.uses == Uses::Once;
        Ok(())
    }

    /// The window of a transfer that has begun; the grant ends if it is for once. `None` if it was
    /// revoked since.
    pub(crate) fn finish(&mut self, asked: &Asked) -> Option<Region> {
        let (_, grant) = self.find(asked.token)?;
        let (window, once) = (window(grant, asked)?, grant.uses == Uses::Once);
        if once {
            self.end(asked.token);
        }
        Some(window)
    }
}

fn window(grant: &Grant, asked: &Asked) -> Option<Region> {
    let offset = usize::try_from(asked.offset).ok()?;
    grant.region.part(offset, asked.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_its_generations_used_up_is_left_alone() {
        let mut grants = Grants {
            places: vec![(LAST, None)],
            free: vec![0],
        };
        let add = |grants: &mut Grants| {
            let added = grants.add(Region::EMPTY, None, Rights::Read, Uses::Many);
            added.expect("fits").0
        };
        let last = add(&mut grants);
        assert_eq!(last, u64::from(LAST) << 32 | 1);
        assert!(grants.end(Token(last)));
        assert_eq!(add(&mut grants), 2);
    }

    #[test]
    fn a_transfer_under_way_dies_with_its_grant() {
        let mut grants = Grants::default();
        let token = grants
            .add(Region::EMPTY, None, Rights::Read, Uses::Once)
            .expect("fits");
        let asked = Asked {
            owner: Peer(0),
            caller: Peer(1),
            token,
            offset: 0,
            length: 0,
            writes: false,
        };
        assert_eq!(grants.begin(&asked), Ok(()));
        assert!(grants.begin(&asked).is_err(), "it is taken");
        assert!(grants.end(token), "and still live");
        let next = grants
            .add(Region::EMPTY, None, Rights::Read, Uses::Once)
            .expect("fits");
        assert_ne!(next, token);
        assert!(grants.finish(&asked).is_none());
    }
}
