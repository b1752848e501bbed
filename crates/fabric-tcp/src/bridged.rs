//! Bridged: the fabric of a job extended by processes of other jobs. Each connection of two jobs has a
//! [`Tcp`](crate::Tcp) endpoint of its own.
//!
//! ```text
//!   peer  0..first ────────────► the fabric of the job, as it was
//!         first..  ──place─────► bridge, number there ──► Tcp of that connection
//! ```
//!
//! The members of a *bridge* are the processes of both groups that were connected, under numbers that both sides know. The
//! [`Gate`] gives the processes of the other side numbers of this process, above all numbers that its own job can have; the
//! numbers are reused after the bridge has ended ([`Sink::replaced`]). Messages to them bypass the fabric of the job, which is
//! as fast as before except for one comparison.
//!
//! # Looking and sleeping
//! Each bridge has a thread, the *watcher*, which sleeps on its descriptor and rings the bell of the job's fabric for each arrival,
//! whether or not anybody sleeps. So sockets are read when something has arrived, and now and then.
//!
//! # Ends
//! A bridge that is [closed](Gate::close) hands over what was sent and says goodbye, so the other side sees no loss. A bridge
//! that is open when the process ends says no goodbye: peers that wait for this process learn that it is gone. For that, each
//! process connects to all processes of the other side from the start.
//!
//! Tokens of a bridge have the highest bit set, as all tokens of [`Tcp`](crate::Tcp) do. Bits 24 to 31, which the table of grants does not
//! use, hold the bridge's place at the process that grants.

mod bridge;
mod bridges;
mod gate;
mod marks;
mod places;
mod renamed;
mod watcher;

use std::ops::Range;
use std::sync::Arc;

use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, Next, Operation, Peer, Posted, Region, Result, Rights,
    SharedKey, SharedMemory, Sink, Source, SyncKey, Token, Traffic, Uses,
};

use self::bridges::Bridges;
use self::marks::{REMOTE, bridge_of, is_markable, mark, unmarked};
use crate::union::Remote;
use crate::wire::DATA;

pub use self::gate::{Gate, Opened};
pub use self::marks::MOST_BRIDGES;

/// The fabric of a job with bridges to others. See the [module page](self).
struct Bridged {
    own: Box<dyn Fabric>,
    bell: Arc<dyn Bell>,
    bridges: Bridges,
}

impl Bridged {
    fn new(own: Box<dyn Fabric>, gate: Gate) -> Self {
        Self {
            bell: own.bell(),
            own,
            bridges: Bridges::new(gate),
        }
    }
}

impl Fabric for Bridged {
    weft_fabric::forward_fabric!(self => self.own; me, now, has_unreported_members, writers, announce, allocate_shared, release_shared, say_goodbye, abandon_unreached,
        announce_absence, channels, open_channel);

    fn peers(&self) -> u32 {
        self.bridges.peers()
    }

    fn limits(&self) -> Limits {
        let own = self.own.limits();
        Limits {
            data: own.data.min(DATA),
            bulk: own.bulk,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::clone(&self.bell)
    }

    fn incarnation(&self, peer: Peer) -> u32 {
        match self.bridges.is_own(peer) {
            true => self.own.incarnation(peer),
            false => 0,
        }
    }

    fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        match self.bridges.is_own(peer) {
            true => self.own.cause_of_loss(peer),
            false => None,
        }
    }

    fn route(&self, peer: Peer) -> &'static str {
        match self.bridges.is_own(peer) {
            true => self.own.route(peer),
            false => "tcp to another job",
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if self.bridges.is_own(to) {
            return self.own.try_send(to, head, data);
        }
        self.bridges
            .post(to, |tcp, to, _| tcp.try_send(to, head, data))
    }

    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        let is_own = self.bridges.is_own(to);
        is_own.then(|| self.own.try_send_part(to, head, source, part))?
    }

    #[inline]
    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        if self.bridges.is_own(to) {
            return self.own.inject(to, head, data);
        }
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    #[inline]
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next {
        if self.bridges.is_own(from) {
            return self.own.take_next(from, head, into);
        }
        Next::Other
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut found = self.own.poll(sink, budget);
        if self.bridges.has_orders() {
            found += self.bridges.obey(sink);
        }
        let alone = found == 0;
        found + self.bridges.look(&mut *self.own, sink, budget, alone)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        match to {
            Some(peer) if !self.bridges.is_own(peer) => {
                self.bridges.act(peer, |tcp, number, bridge| {
                    let token = tcp.grant(region, Some(number), rights, uses)?;
                    if is_markable(token) {
                        return Ok(mark(token, bridge));
                    }
                    tcp.revoke(token);
                    Err(FabricError::System {
                        what: "more grants live than a token can name".into(),
                    })
                })
            }
            Some(_) => self.own.grant(region, to, rights, uses),
            None => {
                let token = self.own.grant(region, to, rights, uses)?;
                // Tokens of the network fabric mean nothing to a bridge.
                if token.0 & REMOTE == 0 {
                    for tcp in self.bridges.endpoints() {
                        tcp.grant_as(token, region, rights, uses);
                    }
                }
                Ok(token)
            }
        }
    }

    fn offer(&mut self, to: Peer, token: Token) {
        if self.bridges.is_own(to) {
            self.own.offer(to, token);
        } else if let Ok((_, number, tcp)) = self.bridges.there(to) {
            tcp.offer(number, unmarked(token));
        }
    }

    fn revoke(&mut self, token: Token) -> bool {
        match bridge_of(token) {
            Some(bridge) => {
                let tcp = self.bridges.endpoint(bridge);
                tcp.is_some_and(|tcp| tcp.revoke(unmarked(token)))
            }
            None => {
                if token.0 & REMOTE == 0 {
                    for tcp in self.bridges.endpoints() {
                        tcp.revoke(token);
                    }
                }
                self.own.revoke(token)
            }
        }
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if self.bridges.is_own(from) {
            return self.own.get(from, token, offset, into, operation);
        }
        self.bridges.post(from, |tcp, from, _| {
            tcp.get(from, unmarked(token), offset, into, operation)
        })
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        if self.bridges.is_own(to) {
            return self.own.put(to, token, offset, source, operation);
        }
        self.bridges.post(to, |tcp, to, _| {
            tcp.put(to, unmarked(token), offset, source, operation)
        })
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if self.bridges.is_own(to) {
            return self.own.signal(to, key);
        }
        self.bridges.post(to, |tcp, to, _| tcp.signal(to, key))
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        if self.bridges.is_own(from) {
            return self.own.signals(from, key);
        }
        self.bridges.signals(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        if self.bridges.is_own(from) {
            return self.own.take_signals(from, key, count);
        }
        self.bridges
            .there(from)
            .is_ok_and(|(_, number, tcp)| tcp.take_signals(number, key, count))
    }

    fn forget(&mut self, key: SyncKey) {
        self.own.forget(key);
        self.bridges.endpoints().for_each(|tcp| tcp.forget(key));
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        self.bridges.is_own(peer) && self.own.shares_memory(peer)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        match self.bridges.is_own(peer) {
            true => self.own.attach_shared(peer, key, length),
            false => Err(FabricError::NotShared { peer }),
        }
    }

    fn is_asleep(&mut self, peer: Peer) -> bool {
        self.bridges.is_own(peer) && self.own.is_asleep(peer)
    }

    fn wake(&mut self, peer: Peer) {
        if self.bridges.is_own(peer) {
            self.own.wake(peer);
        }
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        let bridges = &self.bridges;
        self.own
            .is_any_beside(&mut peers.filter(|peer| bridges.is_own(*peer)))
    }

    fn is_flushed(&mut self) -> bool {
        // Both are asked, so that one with something left looks again soon.
        self.own.is_flushed() & self.bridges.is_flushed()
    }

    /// While a connection to another job exists, data may arrive from it at any time, so nobody is at rest.
    fn traffic(&self) -> Traffic {
        let mut traffic = self.own.traffic();
        traffic.is_at_rest &= self.bridges.is_empty();
        traffic
    }
}
