//! Traffic: what members of a fabric have exchanged over a network, as each of them counts it; for the proof of a
//! deadlock.
//!
//! ```text
//!   member 0   to 1: sent 7, received 4        7 = 7   nothing is on its way from 0 to 1
//!   member 1   to 0: sent 5, received 7        5 ≠ 4   something is on its way from 1 to 0
//! ```
//!
//! Each member counts at a moment of its own. The counts describe one moment if there is a moment at which all of them
//! hold, which is so if the members sleep from before the first count to after the last one. Data handed over by memory
//! need no count: the receiver finds them when it polls.

use std::collections::{HashMap, HashSet};

use crate::Peer;

/// What one member has exchanged with its peers over a network, as it counts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Everything was handed to connections that both sides use, and none is being made or repaired.
    pub is_at_rest: bool,
    /// Peers with which something was exchanged, in no order.
    pub links: Vec<LinkTraffic>,
}

/// What a member has exchanged with one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTraffic {
    /// The peer.
    pub peer: Peer,
    /// Frames whose sending has begun.
    pub sent: u64,
    /// Frames that arrived and were handed out.
    pub received: u64,
    /// The last word of the peer was [goodbye](crate::Fabric::say_goodbye).
    pub is_over: bool,
}

impl Traffic {
    /// The traffic of a fabric that uses memory alone.
    #[must_use]
    pub fn none() -> Self {
        Self {
            is_at_rest: true,
            links: Vec::new(),
        }
    }
}

/// Whether nothing is on its way to any of these members: among them, everything sent was received, and the last word of
/// every other peer that has exchanged something with one of them was goodbye.
///
/// The members must be [at rest](Traffic::is_at_rest), at a moment at which all these counts hold.
#[must_use]
pub fn agree(members: &[(Peer, &[LinkTraffic])]) -> bool {
    let counts = members.iter().flat_map(|(member, links)| {
        let counted = |link: &LinkTraffic| ((*member, link.peer), (link.sent, link.received));
        links.iter().map(counted)
    });
    let counts: HashMap<(Peer, Peer), (u64, u64)> = counts.collect();
    let known: HashSet<Peer> = members.iter().map(|(member, _)| *member).collect();
    members.iter().all(|(member, links)| {
        links.iter().all(|link| match known.contains(&link.peer) {
            true => {
                // Who has heard nothing and said nothing counts nothing.
                let back = counts.get(&(link.peer, *member));
                let (sent, received) = back.copied().unwrap_or_default();
                (link.sent, link.received) == (received, sent)
            }
            false => link.is_over,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(peer: u32, sent: u64, received: u64) -> LinkTraffic {
        LinkTraffic {
            peer: Peer(peer),
            sent,
            received,
            is_over: false,
        }
    }

    #[test]
    fn counts_agree_link_by_link() {
        let (zero, one) = ([link(1, 7, 4)], [link(0, 4, 7)]);
        assert!(agree(&[(Peer(0), &zero), (Peer(1), &one)]));
        // The sums are the same, and two messages are on their way.
        let (zero, one) = ([link(1, 7, 4), link(2, 3, 0)], [link(0, 4, 6)]);
        let two = [link(0, 0, 4)];
        assert!(!agree(&[
            (Peer(0), &zero),
            (Peer(1), &one),
            (Peer(2), &two)
        ]));
        // The first frame is on its way.
        assert!(!agree(&[(Peer(0), &[link(1, 1, 0)]), (Peer(1), &[])]));
        assert!(agree(&[(Peer(0), &[]), (Peer(1), &[])]));
    }

    #[test]
    fn a_peer_that_is_not_among_them_must_have_said_goodbye() {
        let mut gone = link(1, 7, 4);
        assert!(!agree(&[(Peer(0), &[gone])]));
        gone.is_over = true;
        assert!(agree(&[(Peer(0), &[gone])]));
    }
}
