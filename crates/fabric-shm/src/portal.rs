//! The portal's direct ways: by cross-memory attach where it was proven for the peer, by a plain copy
//! within one process. Otherwise `chunks.rs`.
//!
//! # What counts as proof
//! A rank publishes its process id, 16 random bytes, and where in its own memory these bytes stand.
//! Another rank reads them from there, by cross-memory attach, before its first transfer. A process
//! id of another PID namespace, a user namespace in between, Yama, a filter: in each case the read
//! fails or finds other bytes, and the peer is served through chunks from then on. So is one whose
//! transfer is refused later. [`Shm::why_not_direct`] keeps the reason.
//!
//! # Safety of the plain copy
//! Only endpoints that [`Shm::group`](crate::Shm::group) made together copy by pointer. Their segment is not
//! known outside of the process, so its grant records were written by `grant` here, with the start
//! and length of a [`Region`], whose maker promised that it stays valid until the grant is used up
//! or revoked. A user is counted in while it copies, and `revoke` waits for it, reader or writer, without limit.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_atomic::admission::Visit;
use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result, Token};
use weft_sys::Availability;
use weft_sys::attach::{self, Remote};

use crate::assist;
use crate::endpoint::Shm;
use crate::grants::{self, Access, Entry};
use crate::layout::Segment;

/// How bytes get to and from a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Not tried yet.
    Unknown,
    /// The same process: a plain copy.
    Copy,
    /// Cross-memory attach to this process: proven.
    Attach(u32),
    /// Chunks through the lane, for this reason.
    Chunks(Arc<str>),
}

/// One transfer, as asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub peer: Peer,
    pub token: Token,
    pub offset: u64,
    pub region: Region,
    pub access: Access,
    pub operation: Operation,
}

impl Shm {
    /// Why bulk data to and from this peer goes through chunks; `None` if it does not, or if that was
    /// not found out yet.
    #[must_use]
    pub fn why_not_direct(&self, peer: Peer) -> Option<&str> {
        match self.ways.get(peer.index()) {
            Some(Way::Chunks(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Tries cross-memory attach to a peer.
    pub(crate) fn prove(&self, peer: Peer) -> Way {
        if let Some(reason) = &self.options_refuse {
            return Way::Chunks(reason.clone());
        }
        let identity = &self.segment.control(peer.0).identity;
        // SYNC rank.joined.
        if identity.state.load(Ordering::Acquire) == 0 {
            return Way::Unknown;
        }
        let process = identity.process.load(Ordering::Relaxed);
        let place = Remote {
            process,
            address: identity.secret_address.load(Ordering::Relaxed),
        };
        let mut secret = [0; 16];
        for (bytes, word) in secret
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(&identity.secret)
        {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        match attach::proves(place, secret) {
            Availability::Available => Way::Attach(process),
            Availability::NotAvailable { reason } => Way::Chunks(reason.into()),
        }
    }

    /// Carries out a get or a put, or gets it under way.
    pub(crate) fn transfer(&mut self, asked: Asked) -> Result<Posted> {
        self.known(asked.peer)?;
        if asked.peer == Peer(self.me) {
            return self.transfer_own(asked);
        }
        if self.ways[asked.peer.index()] == Way::Unknown {
            self.ways[asked.peer.index()] = self.prove(asked.peer);
        }
        match self.ways[asked.peer.index()] {
            // There is no record to enter by: its owner has more grants than records.
            _ if grants::index_of(asked.token).is_none() => self.request(asked),
            Way::Copy => self.transfer_copy(asked),
            Way::Attach(process) => self.transfer_attach(asked, process),
            Way::Unknown | Way::Chunks(_) => self.request(asked),
        }
    }

    /// To and from the caller's own grants.
    fn transfer_own(&mut self, asked: Asked) -> Result<Posted> {
        let Asked {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = asked;
        let length = region.len() as u64;
        let granted = self
            .grants
            .serve(&self.segment, token, access, peer, offset, length)
            .map_err(|refusal| refusal.error(peer, offset, length))?;
        match access {
            Access::Read => region.copy_from(&granted),
            Access::Write => granted.copy_from(&region),
        };
        self.grants.served(token);
        Ok(Posted::Done)
    }

    fn transfer_copy(&mut self, asked: Asked) -> Result<Posted> {
        let moved = self.enter_and(asked, |address, region, access| {
            let start = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: see the module page: the record was written in this process from a Region whose
            // maker's promise holds while we are counted in.
            let granted = unsafe { Region::new(start, region.len()) };
            match access {
                Access::Read => region.copy_from(&granted),
                Access::Write => granted.copy_from(&region),
            };
            Ok(())
        });
        match moved {
            Ok(()) => Ok(Posted::Done),
            Err(Moved::Refused(error)) => Err(error),
            Err(Moved::Unable(what)) => Err(FabricError::System { what }),
        }
    }

    fn transfer_attach(&mut self, asked: Asked, process: u32) -> Result<Posted> {
        let moved = if self.wants_help(&asked) {
            self.transfer_assisted(asked, process)
        } else {
            self.enter_and(asked, |address, region, access| {
                assist::carry(process, address, region, access)
            })
        };
        match moved {
            Ok(()) => Ok(Posted::Done),
            Err(Moved::Refused(error)) => Err(error),
            Err(Moved::Unable(reason)) => {
                self.ways[asked.peer.index()] = Way::Chunks(reason.into());
                self.request(asked)
            }
        }
    }

    /// Counts itself in at the peer's grant, moves, counts itself out.
    fn enter_and(
        &self,
        asked: Asked,
        carry: impl FnOnce(u64, Region, Access) -> std::io::Result<()>,
    ) -> std::result::Result<(), Moved> {
        let (visit, address) = enter(&self.segment, self.me, &asked)?;
        let moved = carry(address, asked.region, asked.access);
        grants::settle(asked.peer, visit, moved)
    }
}

/// Counts rank `me` in at the grant of a transfer; answers the address of the first byte.
pub(crate) fn enter<'a>(segment: &'a Segment, me: u32, asked: &Asked) -> Result<(Visit<'a>, u64)> {
    let Asked {
        peer,
        token,
        offset,
        access,
        ..
    } = *asked;
    let length = asked.region.len() as u64;
    let record = grants::index_of(token).and_then(|index| segment.grant(peer.0, index));
    let record = record.ok_or(FabricError::NotGranted { peer })?;
    let presence = &segment.control(me).mover.presence;
    let entry = Entry {
        owner: peer,
        token,
        access,
        user: Peer(me),
        offset,
        length,
    };
    grants::enter(record, presence, entry).map_err(|refusal| refusal.error(peer, offset, length))
}

/// Why an attach did not move the bytes.
pub(crate) enum Moved {
    /// It must not.
    Refused(FabricError),
    /// The kernel does not let us: chunks do.
    Unable(String),
}

impl From<FabricError> for Moved {
    fn from(error: FabricError) -> Self {
        Self::Refused(error)
    }
}

impl From<String> for Moved {
    fn from(reason: String) -> Self {
        Self::Unable(reason)
    }
}
