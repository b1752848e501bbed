//! Membership as one rank knows it: how many peers there are, which of them are lost, and why.
//!
//! ```text
//!   alive ── lose: true, said to the sink ──► lost ── lose: false, nothing is said ──► lost
//! ```
//!
//! A lost peer stays lost, unless the fabric gives its number to another process ([`Membership::find_again`]).
//! [`Membership::lose`] returns true once for each peer; the caller that gets it calls [`Sink::lost`](crate::Sink::lost),
//! at once or with the next poll: so the layer above is told exactly once.

use std::collections::HashMap;

use crate::{FabricError, Peer, Result};

/// The members of a fabric, from 0 to one less than [`peers`](Self::peers), and those of them that are lost.
#[derive(Clone, Debug)]
pub struct Membership {
    peers: u32,
    lost: HashMap<Peer, String>,
}

impl Membership {
    /// This many members, all alive.
    #[must_use]
    pub fn new(peers: u32) -> Self {
        Self {
            peers,
            lost: HashMap::new(),
        }
    }

    /// Number of members, including lost ones.
    #[inline]
    #[must_use]
    pub fn peers(&self) -> u32 {
        self.peers
    }

    /// Whether this peer is known to be lost.
    #[inline]
    #[must_use]
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.lost.contains_key(&peer)
    }

    /// Why this peer is lost, if it is.
    #[must_use]
    pub fn reason(&self, peer: Peer) -> Option<&str> {
        self.lost.get(&peer).map(String::as_str)
    }

    /// Refuses peers that do not exist.
    ///
    /// # Errors
    /// [`FabricError::NoSuchPeer`].
    #[inline]
    pub fn exists(&self, peer: Peer) -> Result<()> {
        if peer.0 < self.peers {
            return Ok(());
        }
        Err(FabricError::NoSuchPeer {
            peer,
            peers: self.peers,
        })
    }

    /// Refuses peers that do not exist or are lost.
    ///
    /// # Errors
    /// [`FabricError::NoSuchPeer`], [`FabricError::PeerLost`].
    #[inline]
    pub fn check(&self, peer: Peer) -> Result<()> {
        self.exists(peer)?;
        match self.lost.get(&peer) {
            None => Ok(()),
            Some(reason) => Err(FabricError::PeerLost {
                peer,
                reason: reason.clone(),
            }),
        }
    }

    /// Another process has the number of this peer: the peer is no longer lost.
    pub fn find_again(&mut self, peer: Peer) {
        self.lost.remove(&peer);
    }

    /// Notes the loss of a peer. True the first time; later reasons are dropped.
    #[must_use = "the first loss of a peer is said to the sink, once"]
    pub fn lose(&mut self, peer: Peer, reason: impl Into<String>) -> bool {
        if self.is_lost(peer) {
            return false;
        }
        self.lost.insert(peer, reason.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_to_be_told_once_and_keeps_its_first_reason() {
        let mut members = Membership::new(2);
        assert_eq!(members.check(Peer(1)), Ok(()));
        assert!(members.lose(Peer(1), "it died"));
        assert!(!members.lose(Peer(1), "it is out of reach"));
        assert_eq!(members.reason(Peer(1)), Some("it died"));
        assert!(members.is_lost(Peer(1)) && !members.is_lost(Peer(0)));
        let lost = FabricError::PeerLost {
            peer: Peer(1),
            reason: "it died".into(),
        };
        assert_eq!(members.check(Peer(1)), Err(lost));
        assert_eq!((members.check(Peer(0)), members.peers()), (Ok(()), 2));
    }

    #[test]
    fn there_is_nobody_beyond_the_last() {
        let members = Membership::new(2);
        let (peer, peers) = (Peer(2), 2);
        assert_eq!(
            members.check(peer),
            Err(FabricError::NoSuchPeer { peer, peers })
        );
    }
}
