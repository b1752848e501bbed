//! Grants of one simulated rank: the common [`GrantTable`], and whether a grant for one use is claimed by a transfer
//! under way. The lock of the world guards all of it.

use weft_fabric::grants::{Access, Grant, GrantTable, Refusal, TransferRequest};
use weft_fabric::{Operation, Peer, Region, Token};

/// A transfer between a grant of `owner` and memory that the caller lends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub owner: Peer,
    pub request: TransferRequest,
    pub lent: Region,
    pub operation: Operation,
}

impl Transfer {
    /// Whether it writes into the memory of the owner.
    pub(crate) fn writes(&self) -> bool {
        self.request.access == Access::Write
    }
}

#[derive(Debug)]
struct ClaimableGrant {
    grant: Grant,
    /// Claimed by its one transfer, which may be under way.
    claimed: bool,
}

/// The grants of one rank.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    table: GrantTable<ClaimableGrant>,
}

impl Grants {
    pub(crate) fn add(&mut self, grant: Grant) -> Option<Token> {
        self.table.insert(ClaimableGrant {
            grant,
            claimed: false,
        })
    }

    /// Ends a grant; true if it was live.
    pub(crate) fn end(&mut self, token: Token) -> bool {
        self.table.remove(token).is_some()
    }

    pub(crate) fn end_all(&mut self) {
        self.table.remove_all();
    }

    /// Checks a transfer that begins, and claims the grant if it is for one use.
    pub(crate) fn begin(&mut self, request: &TransferRequest) -> Result<(), Refusal> {
        let found = self.table.get_mut(request.token);
        let found = found.filter(|it| !it.claimed).ok_or(Refusal::NotGranted)?;
        found.grant.window(request)?;
        found.claimed = found.grant.is_for_once();
        Ok(())
    }

    /// The window of a transfer that has begun; the grant ends if it is for one use. `None` if it has been
    /// revoked.
    pub(crate) fn finish(&mut self, request: &TransferRequest) -> Option<Region> {
        let grant = self.table.get(request.token)?.grant;
        let window = grant.window(request).ok()?;
        if grant.is_for_once() {
            self.end(request.token);
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::{Rights, Uses};

    #[test]
    fn a_transfer_under_way_dies_with_its_grant() {
        let mut grants = Grants::default();
        let once = Grant::new(Region::EMPTY, None, Rights::Read, Uses::Once);
        let token = grants.add(once).expect("fits");
        let request = TransferRequest {
            caller: Peer(1),
            token,
            offset: 0,
            length: 0,
            access: Access::Read,
        };
        assert_eq!(grants.begin(&request), Ok(()));
        assert!(grants.begin(&request).is_err(), "it is claimed");
        assert!(grants.end(token), "and still live");
        let next = grants.add(once).expect("fits");
        assert_ne!(next, token);
        assert!(grants.finish(&request).is_none());
    }
}
