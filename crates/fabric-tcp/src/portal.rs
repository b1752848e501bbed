//! Portal: bulk data, asked for by gets and puts, served by grants, both in chunks that take turns.
//!
//! ```text
//!   get   asker ── Get ──►  owner looks at its grants:  Chunk … Chunk ──►  straight into the memory
//!                                                       or End: refused
//!   put   asker ── Put, Chunk … Chunk ──►  owner looks at its grants, each chunk lands or goes nowhere
//!               ◄── End: all there, or refused ──
//! ```
//!
//! | file | what |
//! |---|---|
//! | this file | the grants of this rank, and requests that wait for the other fabric to be asked |
//! | [`transfers`] | gets and puts under way with one peer, in both directions |
//! | [`offers`] | bytes that are sent before the receiver asks, to one peer or by it |
//!
//! # Whose memory is read or written when
//! The owner's memory while its grant is live: [`Transfers::withdraw`](transfers::Transfers::withdraw) ends
//! everything that touches it, and copies what may have to be resent. The asker's until `transfer_completed` is
//! called: before that call, what may have to be resent is copied, too
//! ([`Outgoing::detach`](crate::outgoing::Outgoing::detach)).

pub(crate) mod offers;
pub(crate) mod transfers;

use weft_fabric::{FabricError, Peer, Region, Result, Rights, Token, Uses};

use crate::grants::Grants;
use crate::wire::{Ask, Outcome};

/// Memory that a request may read or write, or why it may not.
pub type Opened = std::result::Result<Region, Outcome>;

/// A peer's request for a grant.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The asking peer.
    pub from: Peer,
    /// The requested access.
    pub ask: Ask,
    /// Whether it is a put.
    pub writes: bool,
}

impl Request {
    fn span(&self) -> (u64, u64) {
        (self.ask.offset, self.ask.length)
    }
}

/// The memory that this rank grants.
#[derive(Default)]
pub struct Portal {
    grants: Grants,
    /// Requests for grants that the other fabric may have served.
    deferred: Vec<Request>,
}

impl Portal {
    /// Grants memory; see [`Fabric::grant`](weft_fabric::Fabric::grant).
    ///
    /// # Errors
    /// [`FabricError::System`] if too many grants are live.
    pub fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        self.grants
            .add(region, to, rights, uses)
            .ok_or_else(|| FabricError::System {
                what: "too many grants are live at a time; revoke some".into(),
            })
    }

    /// Grants memory to everybody under a token of another fabric, whose highest bit is not set.
    pub fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        self.grants.add_as(token, region, rights, uses);
    }

    /// Ends a grant; true if it was live.
    pub fn remove(&mut self, token: Token) -> bool {
        self.grants.remove(token)
    }

    /// The region that may be sent to a peer before it asks: of a grant that this peer alone may read, once.
    pub fn offerable(&mut self, token: Token, to: Peer) -> Option<Region> {
        self.grants.offerable(token, to)
    }

    /// A get or put of this rank from or into its own memory: done at once.
    ///
    /// # Errors
    /// An access that the grant does not permit is refused.
    pub fn copy_own(
        &mut self,
        me: Peer,
        (token, offset): (Token, u64),
        region: Region,
        put: bool,
    ) -> Result<()> {
        let length = region.len() as u64;
        let window = self
            .grants
            .open(token, me, put, (offset, length))
            .map_err(|outcome| outcome.error(me, offset, length))?;
        if put {
            window.copy_from(&region);
        } else {
            region.copy_from(&window);
        }
        Ok(())
    }

    /// Looks for the grant that a request names. `None`: the other fabric must be asked first, and the request
    /// waits here for that.
    pub fn open(&mut self, request: Request) -> Option<Opened> {
        if self.grants.is_shared_once(request.ask.token) {
            self.deferred.push(request);
            return None;
        }
        Some(self.look_up(&request))
    }

    /// Whether requests wait for the other fabric to be asked.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// The requests that wait for the other fabric.
    pub fn take_deferred(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.deferred)
    }

    /// Opens a deferred request, after the other fabric was asked whether it has served the grant: `live` if
    /// it has not.
    pub fn open_deferred(&mut self, request: &Request, live: bool) -> Opened {
        if live {
            return self.look_up(request);
        }
        self.grants.remove(Token(request.ask.token));
        Err(Outcome::NotGranted)
    }

    fn look_up(&mut self, request: &Request) -> Opened {
        let token = Token(request.ask.token);
        self.grants
            .open(token, request.from, request.writes, request.span())
    }
}

impl Outcome {
    /// The answer to the asker of a request that was refused.
    #[must_use]
    pub fn error(self, peer: Peer, offset: u64, length: u64) -> FabricError {
        match self {
            Self::Outside => FabricError::OutsideGrant {
                peer,
                offset,
                length,
            },
            Self::NotGranted | Self::Done => FabricError::NotGranted { peer },
        }
    }
}
