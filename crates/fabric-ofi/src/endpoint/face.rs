//! Face of the endpoint: the [`Fabric`] that the layers above see, and what a union of two fabrics needs
//! besides.

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{
    Bell, Fabric, FabricError, Head, Limits, LinkTraffic, Next, Operation, Peer, Posted, Region,
    Result, Rights, Sink, SyncKey, Token, Traffic, Uses, without_shared_memory,
};
use weft_fabric_tcp::{NetworkBell, Remote};
use weft_sys::clock;

use super::Ofi;
use crate::liveness::Liveness;
use crate::wire::FrameKind;

/// The name of a provider, for people.
pub(super) fn route(provider: &str) -> &'static str {
    match provider.split(';').next().unwrap_or(provider) {
        "tcp" => "ofi, provider tcp",
        "net" => "ofi, provider net",
        "sockets" => "ofi, provider sockets",
        "udp" => "ofi, provider udp",
        "verbs" => "ofi, provider verbs",
        "efa" => "ofi, provider efa",
        "cxi" => "ofi, provider cxi",
        "psm3" => "ofi, provider psm3",
        "psm2" => "ofi, provider psm2",
        "opx" => "ofi, provider opx",
        _ => "ofi",
    }
}

impl Fabric for Ofi {
    fn me(&self) -> Peer {
        Peer(self.mail.me())
    }

    fn peers(&self) -> u32 {
        self.mail.members.peers()
    }

    fn limits(&self) -> Limits {
        Limits {
            data: self.data,
            bulk: self.data,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic())
    }

    fn route(&self, peer: Peer) -> &'static str {
        match peer {
            _ if peer == self.me() => "within one rank",
            _ if peer.0 >= self.peers() => "nowhere",
            _ => self.route,
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > self.data {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: self.data,
            });
        }
        if to.0 == self.mail.me() {
            let posted = self.loopback.send(head, data);
            return Ok(self.ring_for_oneself(posted));
        }
        self.post(to, FrameKind::Message, &[head, data])
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.try_send(to, head, data) == Ok(Posted::Done)
    }

    /// Its messages are found by looking at all peers.
    fn take_next(&mut self, _from: Peer, _head: &Head, _into: &Region) -> Next {
        Next::Other
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        self.look(sink, budget)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        if let Some(peer) = to {
            self.mail.members.check(peer)?;
        }
        self.portal.grant(region, to, rights, uses)
    }

    /// Bytes move only when asked for: directly into their memory.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.portal.remove(token);
        if self.serving.withdraw(token) {
            self.wait_for_receivers(token);
        }
        live
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.ask(from, (token, offset), into, operation, false)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.ask(to, (token, offset), source, operation, true)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if to.0 == self.mail.me() {
            let posted = self.loopback.signal(key);
            return Ok(self.ring_for_oneself(posted));
        }
        self.post(to, FrameKind::Signal, &[&key.0.to_le_bytes()])
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.signals.count(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.signals.take(from, key, count)
    }

    fn forget(&mut self, key: SyncKey) {
        self.signals.forget(key);
    }

    // Hosts have no memory in common, and ranks of one host have a fabric of their own.
    without_shared_memory!(self, peer => self.mail.members.check(peer));

    /// What was acknowledged has been processed. A peer that has said goodbye needs nothing more.
    fn is_flushed(&mut self) -> bool {
        let mut flushed = self.mail.needs_nobody() && self.serving.is_idle();
        for index in 0..self.mail.begun().len() {
            let peer = self.mail.begun()[index];
            if self.mail.members.is_lost(Peer(peer)) {
                continue;
            }
            let Some(link) = self.mail.link_ref(peer) else {
                continue;
            };
            flushed &= link.is_flushed();
            if link.should_ask() {
                self.mail.ask_for_acks(peer);
            }
        }
        if !flushed {
            self.retry_soon();
        }
        let watched = self.liveness.as_mut().is_none_or(Liveness::is_flushed);
        flushed && watched
    }

    fn incarnation(&self, peer: Peer) -> u32 {
        let liveness = self.liveness.as_ref();
        liveness.map_or(0, |liveness| liveness.incarnation(peer))
    }

    fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        self.liveness.as_ref()?.cause_of_loss(peer)
    }

    fn has_unreported_members(&mut self) -> bool {
        self.later.is_stale()
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = Traffic {
            is_at_rest: self.mail.needs_nobody()
                && self.serving.is_idle()
                && self.arrived.is_empty()
                && !self.later.is_stale(),
            links: Vec::new(),
        };
        for peer in self.mail.begun() {
            if let Some(link) = self.mail.link_ref(*peer) {
                let (sent, received) = link.counts();
                traffic.links.push(LinkTraffic {
                    peer: Peer(*peer),
                    sent,
                    received,
                    is_over: link.is_over,
                });
            }
        }
        traffic
    }

    fn say_goodbye(&mut self) {
        for index in 0..self.mail.begun().len() {
            let peer = self.mail.begun()[index];
            if let Some(link) = self.mail.link(peer)
                && !link.goodbye_said
            {
                link.goodbye_wanted = true;
                self.mail.list(peer);
            }
        }
        self.mail.advance();
        if let Some(liveness) = &mut self.liveness {
            liveness.say_goodbye();
        }
    }

    fn abandon_unreached(&mut self) {
        for index in 0..self.mail.begun().len() {
            let peer = self.mail.begun()[index];
            if let Some(link) = self.mail.link(peer) {
                link.abandon_unless_heard();
            }
        }
        if let Some(liveness) = &mut self.liveness {
            liveness.abandon_unreached();
        }
    }

    fn announce_absence(&mut self, to: Peer) {
        if let Some(liveness) = &mut self.liveness {
            liveness.announce_absence(to);
        }
    }
}

impl Remote for Ofi {
    fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        self.portal.grant_as(token, region, rights, uses);
    }

    fn recorded_incarnation(&self, peer: Peer) -> u32 {
        let liveness = self.liveness.as_ref();
        liveness.map_or(0, |liveness| liveness.recorded_incarnation(peer))
    }

    fn has_deferred(&self) -> bool {
        self.portal.has_deferred()
    }

    fn serve_deferred(&mut self, live: &mut dyn FnMut(Token) -> bool) {
        for request in self.portal.take_deferred() {
            let is_live = live(Token(request.ask.token));
            let opened = self.portal.open_deferred(&request, is_live);
            if let Some((remote, data)) = self.deferred.pop_front() {
                self.serve(&request, opened, remote, &data);
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.mail.begun().is_empty()
    }

    fn network_bell(&self) -> Arc<NetworkBell> {
        self.bell.clone()
    }
}
