//! Methods: the mechanism by which bytes of grants get to and from each peer, found out by trying.
//!
//! ```text
//!   Unknown ── proof ────► Attach ── refused by the kernel later ──► Chunks
//!           └─ none ─────► Chunks
//!   Copy       from the start, for endpoints of one process
//! ```
//!
//! # What counts as proof
//! A rank publishes its process id, 16 random bytes, and the address of these bytes in its own memory. Another rank reads
//! them from there, by cross-memory attach, before its first transfer. If there is a process id of another PID namespace,
//! a user namespace in between, Yama or a filter, the read fails or finds other bytes, and the peer is served through
//! chunks from then on. So is a peer whose transfer is refused later. [`Methods::why_not_direct`] keeps the reason.

use std::borrow::Cow;
use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::Peer;
use weft_sys::Availability;
use weft_sys::attach::{self, Remote};

use crate::segment::Segment;

/// Method by which bytes get to and from a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// Not tried yet.
    Unknown,
    /// The same process: a plain copy.
    Copy,
    /// Cross-memory attach to this process: proven.
    Attach(u32),
    /// Chunks through the lane, for this reason.
    Chunks(Arc<str>),
}

impl Method {
    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Copy => "shm within one process",
            Self::Attach(_) => "shm",
            Self::Chunks(_) => "shm without cross-memory attach",
            Self::Unknown => "shm, peer not there yet",
        }
    }
}

/// Methods for all peers, by process slot. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Methods {
    segment: Arc<Segment>,
    of_peer: Vec<Method>,
    /// Why only chunks may be used, if so.
    refused: Option<Arc<str>>,
}

impl Methods {
    /// Nothing was tried yet. `refused`: why only chunks may be used, if so.
    pub fn new(segment: Arc<Segment>, refused: Option<Arc<str>>) -> Self {
        Self {
            of_peer: vec![Method::Unknown; segment.shape().process_slots as usize],
            segment,
            refused,
        }
    }

    /// All peers are endpoints of this process, and nobody else has mapped the segment: the safety argument of
    /// `portal.rs` holds. Bytes are copied, unless only chunks may be used.
    pub fn all_within_process(&mut self) {
        if self.refused.is_none() {
            self.of_peer.fill(Method::Copy);
        }
    }

    /// The method for a peer, which exists: tried now if it was not before.
    pub fn towards(&mut self, peer: Peer) -> &Method {
        if self.of_peer[peer.index()] == Method::Unknown {
            self.of_peer[peer.index()] = self.prove(peer);
        }
        &self.of_peer[peer.index()]
    }

    /// The method for a peer; `None` if there is no such peer.
    pub fn look(&self, peer: Peer) -> Option<Cow<'_, Method>> {
        match self.of_peer.get(peer.index())? {
            Method::Unknown => Some(Cow::Owned(self.prove(peer))),
            method => Some(Cow::Borrowed(method)),
        }
    }

    /// Whether bytes are copied by pointer to and from a peer.
    pub fn is_copy(&self, peer: Peer) -> bool {
        self.of_peer.get(peer.index()) == Some(&Method::Copy)
    }

    /// The kernel does not let us any more, for this reason: chunks from now on.
    pub fn fall_back(&mut self, peer: Peer, reason: String) {
        self.of_peer[peer.index()] = Method::Chunks(reason.into());
    }

    /// Another process has the slot of a peer: what worked is to be found out anew.
    pub fn forget(&mut self, peer: Peer) {
        self.of_peer[peer.index()] = Method::Unknown;
    }

    /// Why bytes to and from this peer go through chunks; `None` if they do not, or if that was not found out yet.
    pub fn why_not_direct(&self, peer: Peer) -> Option<&str> {
        match self.of_peer.get(peer.index()) {
            Some(Method::Chunks(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Tries cross-memory attach to a peer.
    fn prove(&self, peer: Peer) -> Method {
        if let Some(reason) = &self.refused {
            return Method::Chunks(reason.clone());
        }
        let identity = self.segment.identity(peer.0);
        // SYNC rank.joined.
        if identity.state.load(Ordering::Acquire) == 0 {
            return Method::Unknown;
        }
        let process = identity.process.load(Ordering::Relaxed);
        let there = Remote {
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
        match attach::proves(there, secret) {
            Availability::Available => Method::Attach(process),
            Availability::NotAvailable { reason } => Method::Chunks(reason.into()),
        }
    }

    /// For tests: all peers are reached by this method.
    #[cfg(test)]
    pub fn fill(&mut self, method: Method) {
        self.of_peer.fill(method);
    }
}
