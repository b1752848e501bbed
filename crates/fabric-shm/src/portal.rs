//! Portal: bulk data, moved only where its owner has granted access. Grants of this rank, and transfers to and from those
//! of others, by the best method that works for the peer.
//!
//! ```text
//!                    ┌─ own grants ─────────────── a copy
//!   transfer ────────┼─ same process ───────────── a copy by pointer
//!                    ├─ cross-memory attach ────── large gets, if the owner has time: it sends them through the lane: `asked`
//!                    │                             else one system call, of large puts with the owner's help: `assist`
//!                    └─ otherwise ──────────────── chunks through the lanes: `chunks`
//! ```
//!
//! | file | what |
//! |---|---|
//! | `grants`, `grants::table` | permission: records that peers check for themselves, and the owner's table |
//! | `revoke` | waiting for users of a grant that is revoked |
//! | `method` | which method works for which peer |
//! | `transfer` | one transfer, as requested; by cross-memory attach |
//! | `asked` | large gets that the owner sends while it polls |
//! | `assist` | two cores for one large put |
//! | `chunks` | the method that always works |
//!
//! # Safety of the plain copy
//!
//! Only endpoints that [`Shm::group`](crate::Shm::group) made together copy by pointer. Their segment is not known
//! outside of the process, so its grant records were written by `grant` here, with the start and length of a [`Region`],
//! whose maker promised that it stays valid until the grant is used up or revoked. A user is counted in while it copies,
//! and `revoke` waits for it, reader or writer, without limit.

mod asked;
mod assist;
mod chunks;
mod grants;
mod method;
mod revoke;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{FabricError, Peer, Posted, Region, Result, Rights, Sink, Token, Uses};

use crate::lane::{Packet, PacketKind};
use crate::options::Options;
use crate::outbound::Link;
use crate::segment::Segment;

use asked::{AskedGets, Unfetched};
use assist::Assistance;
use chunks::Chunks;
use grants::{GrantTable, TransferError};
use method::{Method, Methods};

pub(crate) use grants::Access;
pub(crate) use transfer::TransferRequest;

/// Portal of one rank. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Portal {
    segment: Arc<Segment>,
    me: u32,
    grants: GrantTable,
    methods: Methods,
    chunks: Chunks,
    asked: AskedGets,
    /// Asked gets that the kernel did not let us fetch, and for whose request the lane had no room yet.
    refused: Vec<TransferRequest>,
    assistance: Assistance,
    /// How long a reader is waited for whose grant is revoked.
    patience: Duration,
}

impl Portal {
    /// The portal of process slot `me`, without grants.
    pub fn new(segment: Arc<Segment>, me: u32, options: &Options) -> Self {
        let records = options.direct_grants.min(segment.shape().grants);
        Self {
            grants: GrantTable::new(segment.clone(), me, records),
            methods: Methods::new(segment.clone(), options.refuses_attach()),
            chunks: Chunks::new(segment.shape()),
            asked: AskedGets::new(segment.clone(), me, options.assist),
            refused: Vec::new(),
            assistance: Assistance::new(segment.clone(), me, options.assist),
            patience: options.patience,
            segment,
            me,
        }
    }

    /// All peers are endpoints of this process, and nobody else has mapped the segment.
    pub fn all_within_process(&mut self) {
        self.methods.all_within_process();
    }

    /// Publishes a grant. The caller has checked that `to` is known.
    pub fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        self.grants.publish(region, to, rights, uses)
    }

    /// Ends a grant. True if it was live. What is guaranteed stands in `portal/grants.rs`.
    pub fn revoke(&mut self, token: Token) -> bool {
        let Some((index, live)) = self.grants.close(token) else {
            return false;
        };
        self.chunks.cancel_served(token);
        let methods = &self.methods;
        // Who copies by pointer must not do so after the memory is gone, whatever it notices then.
        let notices = |peer| !methods.is_copy(peer);
        revoke::wait_for_users(&mut self.grants, index, self.patience, notices);
        live
    }

    /// Ends all grants.
    pub fn revoke_all(&mut self) {
        for token in self.grants.outstanding() {
            self.revoke(token);
        }
    }

    /// Carries out a get or a put, or gets it under way. The caller has checked that the peer is known.
    ///
    /// # Errors
    /// As for [`Fabric::get`](weft_fabric::Fabric::get).
    pub fn transfer(&mut self, link: &mut Link<'_>, request: TransferRequest) -> Result<Posted> {
        if request.peer == Peer(self.me) {
            return self.transfer_own(request);
        }
        match *self.methods.towards(request.peer) {
            // There is no record to enter by: its owner has more grants than records.
            _ if grants::index_of(request.token).is_none() => self.chunks.request(link, request),
            Method::Copy => self.transfer_copy(request),
            Method::Attach(process) => self.transfer_attach(link, request, process),
            Method::Unknown | Method::Chunks(_) => self.chunks.request(link, request),
        }
    }

    /// To and from the caller's own grants.
    fn transfer_own(&mut self, request: TransferRequest) -> Result<Posted> {
        let TransferRequest {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = request;
        let length = region.len() as u64;
        let granted = self
            .grants
            .serve(token, access, peer, offset, length)
            .map_err(|refusal| refusal.error(peer, offset, length))?;
        match access {
            Access::Read => region.copy_from(&granted),
            Access::Write => granted.copy_from(&region),
        };
        self.grants.served(token);
        Ok(Posted::Done)
    }

    fn transfer_copy(&mut self, request: TransferRequest) -> Result<Posted> {
        let copied = request.enter_and(&self.segment, self.me, |address, region, access| {
            let start = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: see the module page: the record was written in this process from a Region whose maker promised
            // that it stays valid until the grant is used up or revoked, and we are counted in.
            let granted = unsafe { Region::new(start, region.len()) };
            match access {
                Access::Read => region.copy_from(&granted),
                Access::Write => granted.copy_from(&region),
            };
            Ok(())
        });
        match copied {
            Ok(()) => Ok(Posted::Done),
            Err(TransferError::Refused(error)) => Err(error),
            Err(TransferError::Unable(what)) => Err(FabricError::System { what }),
        }
    }

    fn transfer_attach(
        &mut self,
        link: &mut Link<'_>,
        request: TransferRequest,
        process: u32,
    ) -> Result<Posted> {
        if self.asked.are_wanted(&request) {
            return self.asked.ask(link, request, process);
        }
        let copied = if self.assistance.is_wanted(&request) {
            self.assistance.transfer(link, request, process)
        } else {
            request.enter_and(&self.segment, self.me, |address, region, access| {
                transfer::copy_by_attach(process, address, region, access)
            })
        };
        match copied {
            Ok(()) => Ok(Posted::Done),
            Err(TransferError::Refused(error)) => Err(error),
            Err(TransferError::Unable(reason)) => {
                self.methods.fall_back(request.peer, reason);
                self.chunks.request(link, request)
            }
        }
    }

    /// Whether there is anything to send, or to move for others.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.chunks.backlog()
            + self.assistance.backlog()
            + self.asked.under_way()
            + self.refused.len()
            > 0
    }

    /// Sends what there is to send, as far as the lanes have room, moves blocks for a peer, and fetches what nobody sends. Answers
    /// how much that was; never nothing while this rank waits for what it has asked for, lest it sleep before it has
    /// fetched that.
    #[cold]
    pub fn advance(&mut self, link: &mut Link<'_>, sink: &mut dyn Sink) -> usize {
        let mut done = 0;
        for request in std::mem::take(&mut self.refused) {
            done += self.request_chunks(link, request, sink);
        }
        if self.asked.under_way() > 0 {
            done += self.asked.send(&self.grants, link);
            let unfetched = self.asked.fetch_from_the_quiet(sink);
            if let Some(unfetched) = unfetched {
                let Unfetched { request, reason } = unfetched;
                self.methods.fall_back(request.peer, reason);
                done += self.request_chunks(link, request, sink);
            }
            done += usize::from(self.asked.expect_something());
        }
        if self.chunks.backlog() > 0 {
            done += self.chunks.advance(&mut self.grants, link);
        }
        if self.assistance.backlog() > 0 {
            done += self
                .assistance
                .advance(&self.grants, &mut self.methods, link);
        }
        done
    }

    /// The kernel does not let us fetch what we have asked for: the peer is to send it, as soon as the lane has room for the request. Answers
    /// whether it had.
    #[cold]
    fn request_chunks(
        &mut self,
        link: &mut Link<'_>,
        request: TransferRequest,
        sink: &mut dyn Sink,
    ) -> usize {
        match self.chunks.request(link, request) {
            Ok(Posted::Retry) => {
                self.refused.push(request);
                return 0;
            }
            Ok(_) => {}
            Err(error) => sink.transfer_completed(request.operation, Err(error)),
        }
        1
    }

    /// Takes a packet about transfers. False if no honest peer sends it.
    #[must_use]
    pub fn receive(&mut self, from: Peer, packet: &Packet<'_>, sink: &mut dyn Sink) -> bool {
        match packet.kind {
            PacketKind::Assist => self.assistance.receive(from, packet),
            PacketKind::Ask => self.asked.receive_ask(&self.grants, from, packet),
            PacketKind::Chunk if asked::is_of_one(packet) => {
                return self.asked.receive_chunk(from, packet, sink);
            }
            _ => return self.chunks.receive(&mut self.grants, from, packet, sink),
        }
        true
    }

    /// Ends all transfers with a peer that is lost.
    pub fn end_transfers_with(&mut self, peer: Peer, reason: &str, sink: &mut dyn Sink) {
        self.chunks
            .end_transfers_with(&mut self.grants, peer, reason, sink);
        self.asked.end_with(peer, reason, sink);
        for request in self.refused.extract_if(.., |request| request.peer == peer) {
            let reason = reason.to_owned();
            let lost = FabricError::PeerLost { peer, reason };
            sink.transfer_completed(request.operation, Err(lost));
        }
    }

    /// Another process has the slot of a peer, with which no transfer is under way.
    pub fn forget(&mut self, peer: Peer) {
        self.methods.forget(peer);
        self.assistance.forget(peer);
    }

    /// Name of the method by which bulk data goes to a peer, for people.
    pub fn route(&self, peer: Peer) -> &'static str {
        if peer.0 == self.me {
            return Method::Copy.name();
        }
        self.methods
            .look(peer)
            .map_or("nowhere", |method| method.name())
    }

    /// Why bulk data to and from this peer goes through chunks, if that was found out.
    pub fn why_not_direct(&self, peer: Peer) -> Option<&str> {
        self.methods.why_not_direct(peer)
    }
}

/// Views of tests into what is private.
#[cfg(test)]
impl Portal {
    /// The grant table.
    pub fn grants_mut(&mut self) -> &mut GrantTable {
        &mut self.grants
    }

    /// All peers are reached by this method, whatever works.
    pub fn reach_all_by(&mut self, method: Method) {
        self.methods.fill(method);
    }
}
