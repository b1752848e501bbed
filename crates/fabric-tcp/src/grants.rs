//! Grants of this rank: the common [`GrantTable`] under its own tokens, used by the endpoint alone.
//!
//! ```text
//!   token = 1 << 63 | token of the common table
//! ```
//!
//! Tokens without the highest bit are those of another fabric beside this one: a grant for all peers has one token on
//! both ([`Grants::add_as`]).

use std::collections::HashMap;

use weft_fabric::grants::{Access, Grant, GrantTable, Refusal, TransferRequest};
use weft_fabric::{Peer, Region, Rights, Token, Uses};

use crate::wire::Outcome;

/// Marks the tokens of this table.
const OURS: u64 = 1 << 63;

/// The name in the common table for one of our tokens.
fn unmarked(token: Token) -> Option<Token> {
    (token.0 & OURS != 0).then_some(Token(token.0 & !OURS))
}

/// The grants of this fabric alone, and grants to everybody under tokens of the other fabric.
#[derive(Default)]
pub struct Grants {
    table: GrantTable<Grant>,
    others: HashMap<u64, Grant>,
}

impl Grants {
    /// Adds a grant to everybody, under a token of another fabric.
    pub fn add_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        debug_assert_eq!(token.0 & OURS, 0);
        let grant = Grant::new(region, None, rights, uses);
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
        let token = self.table.insert(Grant::new(region, to, rights, uses))?;
        Some(Token(OURS | token.0))
    }

    /// Whether the other fabric must be asked before this grant is used: the first of the two uses it.
    #[inline]
    pub fn is_shared_once(&self, token: u64) -> bool {
        token & OURS == 0 && self.others.get(&token).is_some_and(Grant::is_for_once)
    }

    fn get(&self, token: Token) -> Option<&Grant> {
        match unmarked(token) {
            Some(token) => self.table.get(token),
            None => self.others.get(&token.0),
        }
    }

    /// Ends a grant; true if it was live.
    pub fn remove(&mut self, token: Token) -> bool {
        match unmarked(token) {
            Some(token) => self.table.remove(token).is_some(),
            None => self.others.remove(&token.0).is_some(),
        }
    }

    /// The region that may be sent to a peer before it asks: of a grant that this peer alone may read, once.
    pub fn offerable(&self, token: Token, to: Peer) -> Option<Region> {
        self.get(token)?.offerable_to(to)
    }

    /// The window that `caller` may read (or write) by a grant. Uses up a grant that is for one use.
    pub fn open(
        &mut self,
        token: Token,
        caller: Peer,
        writes: bool,
        (offset, length): (u64, u64),
    ) -> Result<Region, Outcome> {
        let request = TransferRequest {
            caller,
            token,
            offset,
            length,
            access: if writes { Access::Write } else { Access::Read },
        };
        let grant = self.get(token).ok_or(Outcome::NotGranted)?;
        let window = grant.window(&request).map_err(|refusal| match refusal {
            Refusal::NotGranted => Outcome::NotGranted,
            Refusal::OutsideGrant => Outcome::Outside,
        })?;
        if grant.is_for_once() {
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
