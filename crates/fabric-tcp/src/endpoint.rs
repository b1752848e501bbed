//! Endpoint of one rank: composes the parts of this crate, and is the [`Fabric`] that the layers above see.
//!
//! ```text
//!   Tcp ── Connector   how connections are made
//!       ── Peers       sessions: what is shared with each peer
//!       ── Portal      what this rank lends
//!       ── Loopback    what it sends to itself
//!       ── Watching    whether what comes wakes a sleeper
//! ```
//!
//! To send is: check for room in the ring, push, then send as much as the connection has room for.
//!
//! A look reads the connections directly while there are few. It asks the descriptor of the bell when there are
//! more, when something else is expected, when somebody slept, and now and then. While there are few, that
//! descriptor covers them only as long as somebody sleeps now and then ([`watching`](crate::watching)).

use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{
    Bell, Deaf, Fabric, FabricError, HEAD, Head, Limits, Next, Operation, Peer, Posted, Region,
    Result, Rights, SignalTable, Sink, SyncKey, Token, Traffic, Uses, without_shared_memory,
};
use weft_secure::{Key, Refusals};

use crate::bell::NetworkBell;
use crate::card::{Card, Offer};
use crate::config::Config;
use crate::connect::Connector;
use crate::directory::Directory;
use crate::errors::system;
use crate::loopback::Loopback;
use crate::network::{EventSource, Kernel, Network, Poller};
use crate::peers::Peers;
use crate::portal::Portal;
use crate::portal::transfers::Asking;
use crate::session::{Ended, MALFORMED, Post, Receiving, Sent, Session};
use crate::union::Remote;
use crate::watching::Watching;
use crate::wire::{DATA, FrameKind, Malformed};

/// From this size on a portal is faster than a message, which is copied twice. Measured on loopback.
const BULK: usize = 64 << 10;

/// Up to this many connections are read without asking which of them are ready.
const FEW: usize = 2;

/// Looks between two full looks.
const LOOKS_PER_FULL_LOOK: u32 = 16;

/// How long a rank that leaves tries to hand over what it has taken for sending.
const FAREWELL: Duration = Duration::from_secs(5);

/// One rank's endpoint of a job of several hosts.
pub struct Tcp<N: Network = Kernel> {
    me: u32,
    connector: Connector<N>,
    peers: Peers<N>,
    portal: Portal,
    signals: SignalTable,
    loopback: Loopback,
    bell: Arc<N::Bell>,
    watching: Watching,
    looks: u32,
    /// Events that handed nothing to the sink.
    progressed: usize,
}

impl<N: Network> Tcp<N> {
    /// An endpoint on this system. `listeners` listen at the addresses of its own card.
    pub(crate) fn over(
        network: N,
        bell: N::Bell,
        (config, host): (Config, String),
        listeners: Vec<N::Stream>,
        cards: Vec<Card>,
        directory: Option<Box<dyn Directory>>,
    ) -> Result<Self> {
        let bell = Arc::new(bell);
        let (me, count, is_announced) = (config.me, config.peers, config.sleeps_announced);
        let mut connector = Connector::new(
            network,
            bell.clone(),
            (config, host),
            listeners,
            cards,
            directory,
        )
        .map_err(|error| system("a listening socket cannot be watched", error))?;
        let mut peers = Peers::new(count, bell.clone());
        connector.hear_losses(&mut peers);
        Ok(Self {
            me,
            connector,
            peers,
            watching: Watching::new(is_announced),
            portal: Portal::default(),
            signals: SignalTable::default(),
            loopback: Loopback::default(),
            bell,
            looks: 0,
            progressed: 0,
        })
    }
}

impl Tcp {
    /// The key of the job: a secret.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.connector.key()
    }

    /// Where this rank can be reached.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        self.connector.offers()
    }
}

impl<N: Network> Tcp<N> {
    /// Ends without a goodbye, like a process that is killed. For tests.
    pub fn die(mut self) {
        self.peers.forget_all();
        self.connector.stop_dialling();
    }

    /// Connections that were turned away so far, by reason.
    #[must_use]
    pub fn refusals(&self) -> Arc<Refusals> {
        self.connector.refusals()
    }

    /// The session with a peer other than this rank, begun if needed. Refuses peers that do not exist or are
    /// gone.
    #[inline]
    fn session(&mut self, peer: Peer) -> Result<&mut Session<N::Stream>> {
        if self.peers.get(peer.0).is_none() {
            self.begin(peer)?;
        }
        let peers = self.peers.count();
        match self.peers.get_mut(peer.0) {
            Some(session) => Ok(session),
            None => Err(FabricError::NoSuchPeer { peer, peers }),
        }
    }

    #[cold]
    fn begin(&mut self, peer: Peer) -> Result<()> {
        self.peers.check(peer)?;
        self.peers.begin(peer.0);
        self.connector.dial(peer.0, None, &mut self.peers);
        // A refusal may be known at once.
        self.peers.check(peer)
    }

    /// Appends a frame, if there is credit, and sends.
    #[inline]
    fn post(&mut self, to: Peer, kind: FrameKind, parts: &[&[u8]]) -> Result<Posted> {
        if self.connector.is_stale() {
            // Another process may have this number now; the next look reports that first.
            return Ok(Posted::Retry);
        }
        self.session(to)?;
        match self.peers.post(to.0, (kind, parts)) {
            Some(Post::Taken(Sent::Unconnected)) => {
                self.connector.reach(to.0, &mut self.peers);
                Ok(Posted::Done)
            }
            Some(Post::Taken(Sent::Done | Sent::Failed)) => Ok(Posted::Done),
            Some(Post::Full) | None => Ok(Posted::Retry),
            Some(Post::Absent) => self.post_to_absent(to),
        }
    }

    /// A message for a peer whose connection has ended after its goodbye waits until it is known whether the
    /// peer has ended.
    #[cold]
    fn post_to_absent(&mut self, to: Peer) -> Result<Posted> {
        self.connector.reach(to.0, &mut self.peers);
        // A refusal may be known at once.
        self.peers.check(to)?;
        match self.peers.get(to.0) {
            Some(session) if session.has_left() => Err(FabricError::PeerLost {
                peer: to,
                reason: "it has left the job and takes no more messages".into(),
            }),
            _ => Ok(Posted::Retry),
        }
    }

    /// Asks a peer for a transfer.
    fn ask(&mut self, peer: Peer, asking: Asking) -> Result<Posted> {
        if peer.0 == self.me {
            let grant = (asking.token, asking.offset);
            self.portal
                .copy_own(peer, grant, asking.region, asking.put)?;
            return Ok(Posted::Done);
        }
        if self.connector.is_stale() {
            return Ok(Posted::Retry);
        }
        match self.session(peer)?.ask(asking) {
            Ok(posted) => {
                self.pump(peer.0);
                Ok(posted)
            }
            Err(Post::Absent) => self.post_to_absent(peer),
            Err(Post::Full | Post::Taken(_)) => Ok(Posted::Retry),
        }
    }

    /// Sends to a peer as much as there is room for.
    #[inline]
    fn pump(&mut self, peer: u32) {
        self.connector.pump(peer, &mut self.peers);
    }

    fn lose(&mut self, peer: u32, reason: String) {
        self.connector.lose(peer, reason, &mut self.peers);
    }

    /// See [`Fabric::poll`].
    fn look(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let me = Peer(self.me);
        let mut found = self.loopback.deliver(me, &mut self.signals, sink, budget);
        if self.connector.is_stale() {
            found += self.learn_of_members(sink);
        }
        found += self.peers.report(sink, &mut self.signals);
        let slept = self.note_sleepers();
        let unsettled = self.connector.is_unsettled();
        self.looks = self.looks.wrapping_add(1);
        let ask = unsettled
            || self.peers.connected().len() > FEW
            || self.looks.is_multiple_of(LOOKS_PER_FULL_LOOK)
            || self.peers.is_blocked()
            || slept;
        let share = (budget / self.peers.connected().len().max(1)).max(1);
        if ask {
            found += self.look_at_ready(sink, share);
        }
        if unsettled {
            self.bell.note_reached_for();
        }
        if unsettled || (ask && !self.connector.is_quiet()) {
            self.connector.tick(&mut self.peers);
        }
        // Also those that are not ready: frames may wait in their buffers.
        self.peers.next_turn();
        let count = self.peers.connected().len();
        for step in 0..count {
            let Some(peer) = self.peers.in_turn(step, count) else {
                break;
            };
            let backlog = |session: &Session<N::Stream>| session.has_backlog();
            let unwatched = !self.watching.is_on();
            self.peers.try_again(peer);
            if !ask || unwatched || self.peers.get(peer).is_some_and(backlog) {
                found += self.receive(peer, sink, share);
            }
        }
        found += self.peers.report(sink, &mut self.signals);
        found += self.take_progress();
        let few = self.peers.connected().len() <= FEW;
        if found > 0 && few && self.watching.note_found(self.bell.has_sleepers()) {
            self.unwatch();
        }
        found
    }

    /// The directory has changed. The members whose number another process has now have ended: what they had sent is read first, and
    /// their losses are reported as theirs.
    #[cold]
    fn learn_of_members(&mut self, sink: &mut dyn Sink) -> usize {
        let news = self.connector.news();
        let mut found = 0;
        for peer in news.succeeded() {
            found += self.receive(peer, sink, usize::MAX);
            self.peers.part(peer);
        }
        found += self.peers.report(sink, &mut self.signals);
        self.connector.learn(&news, &mut self.peers);
        self.progressed += 1;
        found
    }

    /// Notes who has slept and who is about to sleep: what arrives from here on wakes them. Connections that have become many
    /// are asked for, no longer read one by one.
    #[inline]
    fn note_sleepers(&mut self) -> bool {
        let (slept, prepared) = (self.bell.slept(), self.bell.take_prepared());
        if !self.watching.is_on() && (prepared || self.peers.connected().len() > FEW) {
            self.watch();
        }
        slept
    }

    /// Connections are watched again. If the system refuses, nobody sleeps until it allows it.
    #[cold]
    fn watch(&mut self) {
        if self.peers.set_watched(true) {
            self.watching.set(true);
            self.bell.set_deaf(false);
        }
    }

    /// Connections are watched no more.
    #[cold]
    fn unwatch(&mut self) {
        self.watching.set(false);
        self.bell.set_deaf(true);
        self.peers.set_watched(false);
    }

    fn take_progress(&mut self) -> usize {
        std::mem::take(&mut self.progressed)
            + self.connector.take_progress()
            + self.peers.take_progress()
    }

    fn look_at_ready(&mut self, sink: &mut dyn Sink, share: usize) -> usize {
        let bell = self.bell.clone();
        let mut found = 0;
        bell.poll(|ready| match ready.source {
            EventSource::Bell => {}
            EventSource::Listener(index) => self.connector.accept(index, &mut self.peers),
            EventSource::Candidate(number) => self.connector.attend(number, &mut self.peers),
            EventSource::Peer(peer) => {
                if ready.writable && self.peers.unblock(peer) {
                    self.pump(peer);
                }
                found += self.receive(peer, sink, share);
            }
        });
        found
    }

    /// Reads the connection with a peer and handles at most about `share` frames.
    fn receive(&mut self, peer: u32, sink: &mut dyn Sink, share: usize) -> usize {
        if self.portal.has_deferred() {
            return 0;
        }
        // News about a member are reported before its messages.
        let reported = self.peers.report(sink, &mut self.signals);
        let Some(session) = self.peers.get_mut(peer) else {
            return reported;
        };
        if !session.is_connected() {
            return reported;
        }
        let mut to = Receiving {
            from: Peer(peer),
            decides: self.connector.decides(peer),
            portal: &mut self.portal,
            signals: &mut self.signals,
            sink,
        };
        let received = session.receive(&mut to, share);
        match received.ended {
            None => {
                let settled = session.is_live() && self.connector.confirmed(peer);
                if received.answers || settled {
                    self.pump(peer);
                }
            }
            Some(Ended::Broke(failure)) => {
                self.connector.broke(peer, &failure, &mut self.peers);
            }
            Some(Ended::Misbehaved(reason)) => self.lose(peer, reason),
        }
        reported + received.found
    }
}

impl<N: Network> Fabric for Tcp<N> {
    fn me(&self) -> Peer {
        Peer(self.me)
    }

    fn peers(&self) -> u32 {
        self.peers.count()
    }

    fn limits(&self) -> Limits {
        Limits {
            data: DATA,
            bulk: BULK,
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.connector.now())
    }

    fn route(&self, peer: Peer) -> &'static str {
        if peer.0 == self.me {
            return "within one rank";
        }
        match self.connector.is_sealed() {
            _ if peer.0 >= self.peers.count() => "nowhere",
            true => "tcp, encrypted",
            false => "tcp",
        }
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > DATA {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: DATA,
            });
        }
        if to.0 == self.me {
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
            self.peers.check(peer)?;
        }
        self.portal.grant(region, to, rights, uses)
    }

    fn offer(&mut self, to: Peer, token: Token) {
        if let Some(region) = self.portal.offerable(token, to)
            && let Some(session) = self.peers.get_mut(to.0)
        {
            session.offer(token, region);
        }
    }

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.portal.remove(token);
        for index in 0..self.peers.begun().len() {
            let peer = self.peers.begun()[index];
            if self.peers.withdraw(peer, token) {
                self.pump(peer);
            }
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
        let asking = Asking {
            token,
            offset,
            region: into,
            operation,
            put: false,
        };
        self.ask(from, asking)
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let asking = Asking {
            token,
            offset,
            region: source,
            operation,
            put: true,
        };
        self.ask(to, asking)
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        if to.0 == self.me {
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
    without_shared_memory!(self, peer => self.peers.check(peer));

    /// True only once the other kernels have acknowledged everything: then it arrives even if this process is
    /// gone.
    fn is_flushed(&mut self) -> bool {
        let handed = self.peers.are_handed_over() & self.connector.have_all_noticed();
        if !handed {
            self.peers.ask_for_acknowledgements();
            self.bell.hurry();
        }
        handed
    }

    fn incarnation(&self, peer: Peer) -> u32 {
        self.connector.incarnation(peer.0)
    }

    fn cause_of_loss(&self, peer: Peer) -> Option<String> {
        self.connector.cause_of_loss(peer.0)
    }

    fn has_unreported_members(&mut self) -> bool {
        self.connector.is_stale()
    }

    fn traffic(&self) -> Traffic {
        let (links, all_at_rest) = self.peers.traffic();
        Traffic {
            is_at_rest: all_at_rest && !self.connector.is_unsettled() && !self.connector.is_stale(),
            links,
        }
    }

    fn say_goodbye(&mut self) {
        for peer in 0..self.peers.count() {
            if self.peers.get_mut(peer).is_some_and(Session::say_goodbye) {
                self.pump(peer);
            }
        }
    }

    fn abandon_unreached(&mut self) {
        self.connector.abandon_unreached(&mut self.peers);
    }

    fn announce_absence(&mut self, to: Peer) {
        let session = self.peers.get(to.0);
        if to.0 != self.me
            && self.peers.check(to).is_ok()
            && !session.is_some_and(Session::has_left)
        {
            self.connector.announce_absence(to.0);
        }
    }
}

impl<N: Network> Tcp<N> {
    /// Another thread of this rank may sleep until the rank sends something to itself.
    fn ring_for_oneself(&self, posted: Posted) -> Posted {
        if posted == Posted::Done {
            self.bell.ring();
        }
        posted
    }
}

impl Remote for Tcp {
    fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        self.portal.grant_as(token, region, rights, uses);
    }

    #[inline]
    fn recorded_incarnation(&self, peer: Peer) -> u32 {
        self.connector.recorded_incarnation(peer.0)
    }

    fn has_deferred(&self) -> bool {
        self.portal.has_deferred()
    }

    fn serve_deferred(&mut self, live: &mut dyn FnMut(Token) -> bool) {
        for request in self.portal.take_deferred() {
            let is_live = live(Token(request.ask.token));
            let opened = self.portal.open_deferred(&request, is_live);
            let peer = request.from.0;
            let Some(session) = self.peers.get_mut(peer) else {
                continue;
            };
            match session.serve(request.ask, request.writes, opened) {
                Ok(()) => self.pump(peer),
                Err(Malformed) => self.lose(peer, MALFORMED.into()),
            }
            self.progressed += 1;
        }
    }

    fn is_busy(&self) -> bool {
        !self.peers.connected().is_empty() || self.connector.is_unsettled()
    }

    fn network_bell(&self) -> Arc<NetworkBell> {
        self.bell.clone()
    }
}

impl<N: Network> Drop for Tcp<N> {
    /// Hands over what was taken for sending, says goodbye, and waits until the other kernels have
    /// acknowledged it.
    fn drop(&mut self) {
        let end = self.connector.after(FAREWELL);
        self.say_goodbye();
        loop {
            // Peers' transfers from our memory end with us, as when a process ends.
            self.peers.sessions().for_each(Session::stop_serving);
            if self.is_flushed() || self.connector.now() >= end {
                return;
            }
            if self.look(&mut Deaf, 64) == 0 {
                let bell = self.bell.clone();
                let ticket = bell.prepare();
                // Acknowledgements of other kernels make nothing readable.
                bell.wait(ticket, Some(Duration::from_millis(1)));
            }
        }
    }
}

/// Values that the tests check.
#[cfg(test)]
impl<N: Network> Tcp<N> {
    pub(crate) fn connector(&self) -> &Connector<N> {
        &self.connector
    }

    pub(crate) fn parts(&mut self) -> (&mut Connector<N>, &mut Peers<N>) {
        (&mut self.connector, &mut self.peers)
    }

    /// Makes a seed decide which connection is dropped when too many have not proved the key.
    pub(crate) fn draw_by(&mut self, seed: u64) {
        self.connector.draw_by(seed);
    }

    /// The state of the session with a peer, if there is one.
    pub(crate) fn inspect(&self, peer: usize) -> Option<crate::session::Inspection> {
        self.peers.get(peer as u32).map(Session::inspect)
    }

    /// Stops serving peers, as at the end of the endpoint.
    pub(crate) fn stop_serving(&mut self) {
        self.peers.sessions().for_each(Session::stop_serving);
    }
}

const _: () = assert!(HEAD == 32);

#[cfg(test)]
mod tests {
    use weft_fabric::conformance::Memory;

    use super::*;

    const BYTES: usize = 16 << 20;

    /// Two members that have found enough to watch their connection no more.
    fn unwatched() -> Vec<Tcp> {
        let mut group = Tcp::group(2, |_| ()).expect("loopback is there");
        for turn in 0..100_000 {
            if group.iter().all(|one| !one.watching.is_on()) {
                return group;
            }
            let [from, to] = [turn % 2, 1 - turn % 2];
            let _ = group[from].try_send(Peer(to as u32), &[0; HEAD], b"one more");
            group[to].poll(&mut Deaf, 64);
        }
        panic!("the connection is still watched");
    }

    /// Without room the one that sends asks nobody when there is some, until somebody is about to sleep.
    #[test]
    fn a_connection_that_is_not_watched_is_not_watched_for_room_either() {
        let mut group = unwatched();
        let (from, to) = (Memory::filled(BYTES, 7), Memory::filled(BYTES, 0));
        let token = group[1]
            .grant(to.region(), Some(Peer(0)), Rights::Write, Uses::Once)
            .expect("fits");
        let put = group[0].put(Peer(1), token, 0, from.region(), Operation(1));
        assert_eq!(put, Ok(Posted::Pending));
        for _ in 0..4 {
            group[0].poll(&mut Deaf, 64);
        }
        let inspection = group[0].inspect(1).expect("they have met");
        assert!(!inspection.flushed, "nobody reads: {inspection:?}");
        assert!(!group[0].peers.is_blocked() && !group[0].watching.is_on());

        let bell = group[0].bell();
        let ticket = bell.prepare();
        group[0].poll(&mut Deaf, 64);
        assert!(group[0].peers.is_blocked() && group[0].watching.is_on());
        bell.cancel(ticket);

        for _ in 0..10_000_000 {
            group.iter_mut().for_each(|one| _ = one.poll(&mut Deaf, 64));
            if group[0].inspect(1).is_some_and(|it| it.transfers[1] == 0) {
                let mut came = vec![0; BYTES];
                to.region().copy_to_slice(&mut came);
                assert!(came.iter().all(|byte| *byte == 7));
                return;
            }
        }
        panic!("not everything arrives: {:?}", group[0].inspect(1));
    }
}
