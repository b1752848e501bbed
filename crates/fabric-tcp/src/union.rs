//! Union: two fabrics as one. Ranks of this host are reached by the host's fabric, all others by [`Tcp`] or
//! another [network](Remote).
//!
//! ```text
//!   peer of the job ──LocalRanks─► number on this host ──► local fabric
//!                          └──► not here ─────────────► Tcp
//! ```
//!
//! Tokens: a grant to one peer is a grant of the fabric that reaches it; a grant to everybody is a grant of
//! both, under the token of the local one. Tokens of [`Tcp`] have their highest bit set, those of the local
//! fabric do not, so a token shows its fabric. Before [`Tcp`] serves a grant to everybody that is for one
//! use, the local fabric is asked: the first of the two uses it.
//!
//! # Looking and sleeping
//! A look at shared memory costs nanoseconds, one at a socket a system call: [`look_pacing`] decides which looks include the
//! network. A rank sleeps on the doorbell of the local fabric, a futex, which neighbours ring, and a [thread](bell) for
//! the network.
//!
//! | file | what |
//! |---|---|
//! | `local_ranks` | the ranks of this host, and their numbers in its fabric |
//! | `look_pacing` | which looks include the network |
//! | `bell` | the doorbell of the host, rung for the network, too |
//! | here | which of the two fabrics serves a call |

mod bell;
mod local_ranks;
mod look_pacing;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Next, Operation, Peer, Posted, Region, Result, Rights,
    SharedBlock, SharedKey, SharedMemory, Sink, Source, SyncKey, Token, Traffic, Uses,
};

use crate::bell::NetworkBell;
use crate::endpoint::Tcp;
use crate::errors::system;
use bell::UnionBell;
use local_ranks::Renamed;
use look_pacing::LookPacing;

pub use local_ranks::LocalRanks;

/// Marks the tokens of [`Tcp`].
const REMOTE: u64 = 1 << 63;

/// The requirements of [`Union`] for a fabric between hosts, besides [`Fabric`]. Its tokens have their
/// highest bit set.
pub trait Remote: Fabric {
    /// Grants to everybody under a token of another fabric, whose highest bit is not set, so that one token serves the peers
    /// of both.
    fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses);

    /// Which process has the number of a peer of the other fabric. While any process of this host still deals with a lost one, its
    /// number is not reused, so the recorded process is the one that is meant.
    fn recorded_incarnation(&self, peer: Peer) -> u32;

    /// Whether requests wait for the other fabric to be asked.
    fn has_deferred(&self) -> bool;

    /// Serves deferred requests, except those that the other fabric has served: `live` says so.
    fn serve_deferred(&mut self, live: &mut dyn FnMut(Token) -> bool);

    /// Whether it does anything except listen.
    fn is_busy(&self) -> bool;

    /// The bell with its descriptor, for threads that sleep elsewhere.
    fn network_bell(&self) -> Arc<NetworkBell>;
}

/// The fabric of this host and a network as one fabric.
pub struct Union<L, R = Tcp> {
    local: L,
    remote: R,
    ranks: Arc<LocalRanks>,
    bell: Arc<UnionBell>,
    limits: Limits,
    network_looks: LookPacing,
}

impl<L: Fabric, R: Remote> Union<L, R> {
    /// Joins the two. `local` has as members the ranks that `ranks` names, `remote` all.
    ///
    /// # Errors
    /// If the system refuses a descriptor to watch.
    pub fn new(local: L, remote: R, ranks: LocalRanks) -> Result<Self> {
        let (here, there) = (local.limits(), remote.limits());
        let bell = UnionBell::new(local.bell(), remote.network_bell())
            .map_err(|error| system("nothing to watch the network with", error))?;
        Ok(Self {
            limits: Limits {
                data: here.data.min(there.data),
                bulk: here.bulk.min(there.bulk),
            },
            bell: Arc::new(bell),
            local,
            remote,
            ranks: Arc::new(ranks),
            network_looks: LookPacing::default(),
        })
    }

    /// The fabric of this host.
    #[must_use]
    pub fn local(&self) -> &L {
        &self.local
    }
}

impl<L: Fabric, R: Remote> Fabric for Union<L, R> {
    fn me(&self) -> Peer {
        self.remote.me()
    }

    fn peers(&self) -> u32 {
        self.remote.peers()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        self.local.now()
    }

    fn route(&self, peer: Peer) -> &'static str {
        match self.ranks.local(peer) {
            Some(local) => self.local.route(local),
            None => self.remote.route(peer),
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > self.limits.data {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: self.limits.data,
            });
        }
        match self.ranks.local(to) {
            Some(local) => self
                .local
                .try_send(local, head, data)
                .map_err(|error| self.ranks.error(error)),
            None => self.remote.try_send(to, head, data),
        }
    }

    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        let Some(local) = self.ranks.local(to) else {
            return self.remote.try_send_part(to, head, source, part);
        };
        if part.len() > self.limits.data {
            let (length, limit) = (part.len(), self.limits.data);
            return Some(Err(FabricError::TooLong { length, limit }));
        }
        let sent = self.local.try_send_part(local, head, source, part)?;
        Some(sent.map_err(|error| self.ranks.error(error)))
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        match self.ranks.local(to) {
            Some(local) => data.len() <= self.limits.data && self.local.inject(local, head, data),
            None => self.try_send(to, head, data) == Ok(Posted::Done),
        }
    }

    #[inline]
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next {
        let local = self.ranks.local(from);
        local.map_or(Next::Other, |from| self.local.take_next(from, head, into))
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut renamed = Renamed::new(&mut *sink, &self.ranks);
        let found = self.local.poll(&mut renamed, budget);
        if !self.network_looks.is_due(|| self.bell.has_slept()) {
            return found;
        }
        let came = self.remote.poll(sink, budget);
        if self.remote.has_deferred() {
            let local = &mut self.local;
            self.remote.serve_deferred(&mut |token| local.revoke(token));
        }
        // A wait for the network alone has nothing else to look at.
        let at_once = found == 0 && self.remote.is_busy();
        self.network_looks.note(came > 0, at_once);
        found + came
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let ranks = self.ranks.clone();
        match to.map(|peer| (peer, ranks.local(peer))) {
            Some((peer, None)) => self.remote.grant(region, Some(peer), rights, uses),
            Some((_, Some(local))) => self
                .local
                .grant(region, Some(local), rights, uses)
                .map_err(|error| ranks.error(error)),
            None => {
                let token = self.local.grant(region, None, rights, uses)?;
                if token.0 & REMOTE != 0 {
                    self.local.revoke(token);
                    return Err(FabricError::System {
                        what: "the fabric of this host has used up its tokens".into(),
                    });
                }
                self.remote.grant_as(token, region, rights, uses);
                Ok(token)
            }
        }
    }

    fn offer(&mut self, to: Peer, token: Token) {
        match self.ranks.local(to) {
            Some(local) => self.local.offer(local, token),
            None => self.remote.offer(to, token),
        }
    }

    fn revoke(&mut self, token: Token) -> bool {
        if token.0 & REMOTE != 0 {
            return self.remote.revoke(token);
        }
        self.remote.revoke(token);
        self.local.revoke(token)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        match self.ranks.local(from) {
            Some(local) => self
                .local
                .get(local, token, offset, into, operation)
                .map_err(|error| self.ranks.error(error)),
            None => self.remote.get(from, token, offset, into, operation),
        }
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        match self.ranks.local(to) {
            Some(local) => self
                .local
                .put(local, token, offset, source, operation)
                .map_err(|error| self.ranks.error(error)),
            None => self.remote.put(to, token, offset, source, operation),
        }
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        match self.ranks.local(to) {
            Some(local) => self
                .local
                .signal(local, key)
                .map_err(|error| self.ranks.error(error)),
            None => self.remote.signal(to, key),
        }
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        match self.ranks.local(from) {
            Some(local) => self.local.signals(local, key),
            None => self.remote.signals(from, key),
        }
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        match self.ranks.local(from) {
            Some(local) => self.local.take_signals(local, key, count),
            None => self.remote.take_signals(from, key, count),
        }
    }

    fn forget(&mut self, key: SyncKey) {
        self.local.forget(key);
        self.remote.forget(key);
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        let local = self.ranks.local(peer);
        local.is_some_and(|local| self.local.shares_memory(local))
    }

    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock> {
        let allocated = self.local.allocate_shared(length);
        allocated.map_err(|error| self.ranks.error(error))
    }

    fn release_shared(&mut self, key: SharedKey) -> bool {
        self.local.release_shared(key)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        match self.ranks.local(peer) {
            Some(local) => self
                .local
                .attach_shared(local, key, length)
                .map_err(|error| self.ranks.error(error)),
            None => self.remote.attach_shared(peer, key, length),
        }
    }

    fn is_asleep(&mut self, peer: Peer) -> bool {
        let local = self.ranks.local(peer);
        local.is_some_and(|local| self.local.is_asleep(local))
    }

    fn wake(&mut self, peer: Peer) {
        if let Some(local) = self.ranks.local(peer) {
            self.local.wake(local);
        }
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        let ranks = &self.ranks;
        self.local
            .is_any_beside(&mut peers.filter_map(|peer| ranks.local(peer)))
    }

    fn is_flushed(&mut self) -> bool {
        self.local.is_flushed() && self.remote.is_flushed()
    }

    fn incarnation(&self, peer: Peer) -> u32 {
        match self.ranks.local(peer) {
            Some(_) => self.remote.recorded_incarnation(peer),
            None => self.remote.incarnation(peer),
        }
    }

    fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        match self.ranks.local(peer) {
            Some(local) => self.local.cause_of_loss(local),
            None => self.remote.cause_of_loss(peer),
        }
    }

    fn has_unreported_members(&mut self) -> bool {
        let behind = self.local.has_unreported_members() | self.remote.has_unreported_members();
        if behind {
            // Only the network knows of them.
            self.network_looks.hurry();
        }
        behind
    }

    /// Ranks of this host exchange everything by memory.
    fn traffic(&self) -> Traffic {
        self.remote.traffic()
    }

    fn say_goodbye(&mut self) {
        self.local.say_goodbye();
        self.remote.say_goodbye();
    }

    fn abandon_unreached(&mut self) {
        self.remote.abandon_unreached();
    }

    fn announce_absence(&mut self, to: Peer) {
        if self.ranks.local(to).is_none() {
            self.remote.announce_absence(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_atomic::{AtomicU32, Ordering};
    use weft_fabric::SharedBytes;
    use weft_fabric_local::Local;

    use super::*;
    use crate::{Card, Config, Directory, Listen, Opening};

    /// Which process has number 1.
    struct Recorded(Arc<AtomicU32>);

    impl Directory for Recorded {
        fn version(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }

        fn incarnation(&self, peer: u32) -> u32 {
            match peer {
                1 => self.version(),
                _ => 0,
            }
        }

        fn card(&self, _peer: u32) -> Option<Card> {
            None
        }

        fn loss(&self, _peer: u32, _incarnation: u32) -> Option<String> {
            None
        }

        fn has_left(&self, _peer: u32, _incarnation: u32) -> bool {
            false
        }

        fn tells_ends(&self) -> bool {
            false
        }

        fn is_here(&self, _peer: u32) -> bool {
            false
        }
    }

    #[derive(Default)]
    struct Replaced(u32);

    impl Sink for Replaced {
        fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
        fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
        fn lost(&mut self, _: Peer, _: &str) {}
        fn signalled(&mut self, _: Peer, _: SyncKey) {}
        fn replaced(&mut self, peer: Peer) {
            assert_eq!(peer, Peer(1));
            self.0 += 1;
        }
    }

    /// Looks at the network are rare while nothing comes from there.
    #[test]
    fn the_next_look_tells_of_a_member_that_is_asked_for() {
        let now = Arc::new(AtomicU32::new(1));
        let key = weft_secure::Key::random().expect("random bytes");
        let mut config = Config::new(0, 2, key);
        config.listen = Listen::Loopback;
        let opening = Opening::new(config).expect("loopback is there");
        let cards = vec![opening.card().clone(); 2];
        let directory = Box::new(Recorded(Arc::clone(&now)));
        let remote = opening.join_growing(cards, Some(directory)).expect("joins");
        let local = Local::group(1).remove(0);
        let ranks = LocalRanks::new(2, vec![0]);
        let mut union = Union::new(local, remote, ranks).expect("descriptors are left");
        for round in 1..50 {
            let mut sink = Replaced::default();
            for _ in 0..round * 3 {
                union.poll(&mut sink, 16);
            }
            assert!(!union.has_unreported_members() && sink.0 == 0);
            now.store(1 + round, Ordering::Relaxed);
            assert!(union.has_unreported_members());
            union.poll(&mut sink, 16);
            assert_eq!(sink.0, 1, "round {round}");
            assert!(!union.has_unreported_members());
        }
    }
}
