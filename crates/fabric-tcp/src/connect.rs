//! Connector: makes one connection for two ranks. Both may call, all addresses are tried at once, the key is
//! proved on each, and the *decider* of the pair (the lower rank) selects one.
//!
//! ```text
//!   dial all offers ─► Connecting ─► Authenticating ─► Waiting: the right rank answered
//!   accept          ───────────────► Authenticating ─►         │
//!                                                    decider: │ takes the first, sends Select, waits for
//!                                                             │ Resume; others wait as spares
//!                                                    other:   │ waits for Select, answers Resume
//! ```
//!
//! The handshake is the test of an address: one that leads to this rank itself, to another rank, to a
//! stranger or to nowhere never completes it with the wanted rank, and costs only its socket, since all are
//! tried at once.
//!
//! Before the key is proved, only the handshake, of fixed size, is read from a connection. Connections that do
//! not prove it within ten seconds are dropped, and some earlier when there are too many:
//! [`weft_secure::EvictionPolicy`] says which. All are counted. When the process has no descriptor left,
//! unauthenticated ones go first, then nobody is accepted for a while.
//!
//! | file | what |
//! |---|---|
//! | `members`, `addresses` | which process each member is, and where it can be reached |
//! | `candidates` | connections that are not chosen yet |
//! | `listeners` | the sockets at which this rank is called |
//! | `dial` | attempts to reach peers: when they are made, when they are over, how they ended |
//! | `handshake` | the identity of this rank, and one handshake |
//! | `handshakes` | candidates and listeners, watched and bounded: what has happened to a connection before it is chosen |
//! | `notices` | messages to peers without a connection: this process is absent |
//! | `orphans` | connections that outlive their process |
//! | `select` | which connection of a pair is selected |
//! | here | what follows from the events of a candidate, a dial, a broken connection |
//!
//! The connector knows the [peers](crate::peers), which do not know it: their answers tell the connector what
//! to do.

mod addresses;
mod candidates;
mod dial;
mod handshake;
mod handshakes;
mod listeners;
mod members;
mod notices;
mod orphans;
mod select;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use weft_fabric::{Bell as _, Peer};
use weft_secure::{Channel, Key, Refusals, Source};
use weft_sys::socket::{NotAccepted, is_exhausted};

use crate::card::{Card, Offer};
use crate::config::Config;
use crate::directory::{Directory, News};
use crate::link::{Failure, Link};
use crate::network::{Network, Poller};
use crate::peers::Peers;
use crate::session::life::{Broke, Unreachable};
use crate::session::{Sent, Session};
use crate::wire::{self, FrameKind, Hello};
use candidates::{Call, Candidate, Said};
use dial::{Dials, Turn, Why};
use handshake::Identity;
use handshakes::{Handshakes, Outcome};
use members::Members;
use notices::Notices;
use orphans::Orphans;
use select::Present;

/// Most connections accepted in one look, so that strangers do not keep the job from its work.
const ACCEPTS: usize = 8;

/// Age at which an unanswered call is made anew, in nanoseconds.
const STALE: u64 = 1_000_000_000;

/// Makes connections to peers, and accepts theirs.
pub struct Connector<N: Network> {
    network: N,
    bell: Arc<N::Bell>,
    config: Config,
    members: Members,
    handshakes: Handshakes<N>,
    dials: Dials,
    notices: Notices<N::Stream>,
    orphans: Orphans,
    /// When a candidate or a dial needs attention.
    due: u64,
    /// Events that handed nothing to the sink.
    progressed: usize,
}

impl<N: Network> Connector<N> {
    /// Listens with these sockets; `host` is the host of this rank. `cards` are by rank, for members that are not in the
    /// directory.
    ///
    /// # Errors
    /// If the system refuses to watch them.
    pub fn new(
        network: N,
        bell: Arc<N::Bell>,
        (config, host): (Config, String),
        listeners: Vec<N::Stream>,
        cards: Vec<Card>,
        directory: Option<Box<dyn Directory>>,
    ) -> io::Result<Self> {
        let me = (config.me, config.incarnation);
        let identity = Identity::new(me, config.peers, config.key.clone(), config.seal);
        let handshakes = (identity, config.seal);
        Ok(Self {
            handshakes: Handshakes::new(handshakes, config.peers, listeners, bell.clone())?,
            members: Members::new((config.me, config.peers), host, cards, directory),
            dials: Dials::default(),
            notices: Notices::new(),
            orphans: Orphans::default(),
            due: u64::MAX,
            progressed: 0,
            network,
            bell,
            config,
        })
    }

    /// The time in nanoseconds. It never goes back.
    pub fn now(&self) -> u64 {
        self.network.now()
    }

    /// The time after `time` has passed.
    pub fn after(&self, time: Duration) -> u64 {
        self.network.after(time)
    }

    /// Where this rank can be reached.
    pub fn offers(&self) -> &[Offer] {
        self.members.addresses().own()
    }

    /// The key of the job.
    pub fn key(&self) -> &Key {
        &self.config.key
    }

    /// Whether connections are sealed.
    pub fn is_sealed(&self) -> bool {
        self.config.seal
    }

    /// Connections that were turned away.
    pub fn refusals(&self) -> Arc<Refusals> {
        self.handshakes.refusals()
    }

    /// Whether a connection to a peer is being made: then other looks must look at everything.
    #[inline]
    pub fn is_unsettled(&self) -> bool {
        !self.dials.is_empty() || self.handshakes.candidates().has_expected()
    }

    /// Whether nothing is due at any time. Remains of something that has ended disappear with the next [`Self::tick`].
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.due == u64::MAX
    }

    /// Events since the last call.
    #[inline]
    pub fn take_progress(&mut self) -> usize {
        std::mem::take(&mut self.progressed)
    }

    /// Stops dialling.
    pub fn stop_dialling(&mut self) {
        self.dials.clear();
        self.bell.set_reaching(false);
    }

    /// Makes a seed decide which connection is dropped when too many have not proved the key.
    #[cfg(test)]
    pub fn draw_by(&mut self, seed: u64) {
        self.handshakes.draw_by(seed);
    }

    /// Whether this rank decides which connection with a peer is used.
    pub fn decides(&self, peer: u32) -> bool {
        self.config.me < peer
    }

    /// The incarnation of a peer that this rank has last seen.
    pub fn incarnation(&self, peer: u32) -> u32 {
        self.members.incarnation(peer)
    }

    /// How the process of a peer was lost, if the directory knows.
    pub fn cause_of_loss(&self, peer: u32) -> Option<String> {
        self.members.loss(peer)
    }

    /// The incarnation of a peer that the directory has now.
    pub fn recorded_incarnation(&self, peer: u32) -> u32 {
        self.members.recorded_incarnation(peer)
    }

    /// Whether the directory has news of members.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.members.are_stale()
    }

    /// Reads from the directory which members are new processes.
    #[cold]
    pub fn news(&self) -> News {
        self.members.news()
    }

    /// The directory has these new processes, and knows which members are lost: what was shared with the process before ends. Returns
    /// the members whose number another process has.
    #[cold]
    pub fn learn(&mut self, news: &News, peers: &mut Peers<N>) -> Vec<u32> {
        let changed = self.members.learn(news);
        for &peer in &changed {
            self.settle(peer);
            peers.succeed(peer);
        }
        self.hear_losses(peers);
        changed
    }

    /// Learns from the directory which members are lost, and which have left.
    #[cold]
    pub fn hear_losses(&mut self, peers: &mut Peers<N>) {
        for peer in self.members.others() {
            if peers.check(Peer(peer)).is_err() {
                continue;
            }
            if let Some(reason) = self.members.loss(peer) {
                // Its end tells, after what arrived on it was read; or the connection does not end.
                match received(peers, peer) {
                    Some(received) => {
                        let patience = self.config.patience;
                        let patience = (!self.members.is_here(peer)).then_some(patience);
                        (self.orphans).add(peer, self.network.now(), received, patience);
                    }
                    None => self.give_up(peer, reason, peers),
                }
            } else if self.members.has_left(peer) && received(peers, peer).is_none() {
                self.depart(peer, peers);
            }
        }
        self.set_due();
    }

    // Dialling.

    /// Begins to reach a peer: for the first time, or again since the connection broke.
    pub fn dial(&mut self, peer: u32, broken: Option<String>, peers: &mut Peers<N>) {
        let limit = match broken {
            Some(_) => self.config.patience,
            None => self.config.connect,
        };
        self.dials.begin(peer, self.network.now(), limit, broken);
        self.call(peer, peers);
        self.set_due();
    }

    /// Dials a peer that has no connection and is not dialled yet: its connection has ended after its goodbye,
    /// or its call came to nothing. If a call of the peer waits here, nothing is dialled.
    #[cold]
    pub fn reach(&mut self, peer: u32, peers: &mut Peers<N>) {
        let Some(session) = peers.get(peer) else {
            return;
        };
        let called = |one: &Candidate<N::Stream>| one.waits_for(peer);
        if session.is_connected()
            || session.has_left()
            || self.dials.contains(peer)
            || self.handshakes.candidates().any(called)
        {
            return;
        }
        let ended = "the connection has ended after its goodbye";
        let broken = (session.generation() > 0).then(|| ended.into());
        self.dial(peer, broken, peers);
    }

    /// Sends to a peer as much as there is room for, and dials it if a connection is needed and missing.
    #[inline]
    pub fn pump(&mut self, peer: u32, peers: &mut Peers<N>) {
        if peers.pump(peer) == Sent::Unconnected {
            self.reach(peer, peers);
        }
    }

    /// Calls all addresses of a peer at which no call is under way.
    fn call(&mut self, peer: u32, peers: &mut Peers<N>) {
        let calls = self.handshakes.candidates().iter().map(|one| &one.call);
        let to_it = calls.filter(|call| call.peer == Some(peer));
        let busy: Vec<usize> = to_it.filter_map(|call| call.offer).collect();
        let offers = self.members.addresses().of(peer).to_vec();
        for (index, offer) in offers.iter().enumerate() {
            if busy.contains(&index) {
                continue;
            }
            let text = format!("{} ({})", offer.address, offer.interface);
            let mut called = self.dial_offer((peer, index), offer, &text);
            // Connections that have not proved the key must not take descriptors that members need.
            if let Err(error) = &called
                && is_exhausted(error)
                && self.make_room(peers)
            {
                called = self.dial_offer((peer, index), offer, &text);
            }
            if let Err(error) = called {
                self.failed((peer, index), &text, &error, peers);
            }
        }
    }

    fn dial_offer(&mut self, whom: (u32, usize), offer: &Offer, text: &str) -> io::Result<()> {
        let (address, limit) = ((&offer.address, text), self.config.patience);
        self.handshakes.call(&self.network, whom, address, limit)
    }

    /// Records why an address of a peer did not work, for the report if none does.
    fn note_failure(&mut self, (peer, offer): (u32, usize), text: String) {
        if let Some(dial) = self.dials.get_mut(peer) {
            dial.note_failure(offer, text, Why::Other);
        }
    }

    /// An address of a peer did not work this time.
    fn failed(
        &mut self,
        (peer, offer): (u32, usize),
        address: &str,
        error: &io::Error,
        peers: &mut Peers<N>,
    ) {
        let Some(dial) = self.dials.get_mut(peer) else {
            return;
        };
        dial.note_failure(offer, format!("{address}: {error}"), error.into());
        let Some(session) = peers.get(peer) else {
            return;
        };
        let offers = self.members.addresses().of(peer).len();
        if dial.shows_the_end(offer, session.agreed(), offers) {
            // How it has ended its launcher knows, and tells soon: until then it is called again. After a goodbye nobody asks.
            let is_told = self.members.are_ends_told() && !session.may_end();
            if is_told && !dial.is_end_unexplained(self.network.now()) {
                return;
            }
            let reason = match dial.broken() {
                Some(broken) => self.members.addresses().ended(peer, broken, address),
                None => self.unreachable(peer),
            };
            self.give_up(peer, reason, peers);
        }
    }

    /// The attempts that were made, as a sentence.
    fn unreachable(&self, peer: u32) -> String {
        let dial = self.dials.get(peer);
        self.members
            .addresses()
            .unreachable(peer, dial, self.network.now())
    }

    /// The attempts to reach the peer have failed for good.
    fn give_up(&mut self, peer: u32, reason: String, peers: &mut Peers<N>) {
        self.handshakes
            .drop_those(|one| one.call.peer == Some(peer));
        match peers.unreachable(peer) {
            Unreachable::Left => self.settle(peer),
            Unreachable::Lost => self.lose(peer, reason, peers),
        }
    }

    /// The process of a peer without a connection has ended in order: nobody answers there.
    fn depart(&mut self, peer: u32, peers: &mut Peers<N>) {
        if peers.depart(peer) {
            self.settle(peer);
        }
    }

    /// Stops reaching for peers that were never reached: see
    /// [`Fabric::abandon_unreached`](weft_fabric::Fabric::abandon_unreached).
    pub fn abandon_unreached(&mut self, peers: &mut Peers<N>) {
        for peer in peers.unreached() {
            self.settle(peer);
            peers.abandon(peer);
        }
    }

    /// Tells a peer, without a connection, that this process is absent.
    pub fn announce_absence(&mut self, peer: u32) {
        let until = self.network.after(notices::LIMIT);
        self.notices.add(peer, until);
    }

    /// Whether all peers that are to be told of the absence know it, or cannot be told.
    #[inline]
    pub fn have_all_noticed(&mut self) -> bool {
        self.notices.is_empty() || self.advance_notices()
    }

    #[cold]
    fn advance_notices(&mut self) -> bool {
        let (members, handshakes) = (&self.members, &self.handshakes);
        self.notices
            .advance(&self.network, members, handshakes, self.config.patience)
    }

    /// A peer is lost.
    pub fn lose(&mut self, peer: u32, reason: String, peers: &mut Peers<N>) {
        self.dials.end(peer);
        self.set_due();
        peers.lose(peer, reason);
    }

    // Incoming calls.

    /// Accepts incoming connections, some at a time.
    pub fn accept(&mut self, listener: u32, peers: &mut Peers<N>) {
        for _ in 0..ACCEPTS {
            let (socket, source) = match self.handshakes.accept(&self.network, listener) {
                Ok(came) => came,
                Err(NotAccepted::Nobody) => break,
                Err(NotAccepted::Lost) => continue,
                Err(NotAccepted::Exhausted) => {
                    self.progressed += 1;
                    if self.make_room(peers) {
                        continue;
                    }
                    self.handshakes.rest(&self.network);
                    break;
                }
            };
            self.progressed += 1;
            if self.handshakes.too_many(false) {
                self.evict(false, peers);
            }
            self.admit(socket, source, peers);
            if self.handshakes.too_many(true) {
                self.evict(true, peers);
            }
        }
        self.set_due();
    }

    /// Somebody has connected.
    fn admit(&mut self, socket: N::Stream, source: Source, peers: &mut Peers<N>) {
        let number = self.handshakes.admit(&self.network, socket, source);
        self.attend(number, peers);
        self.handshakes.watch_admitted(number);
    }

    /// Drops one connection that has not proved the key: of those that were answered, or of those that were
    /// not. If its bytes have arrived unread, it is read instead, and another one goes. False: all were read,
    /// and none is left.
    fn evict(&mut self, answered: bool, peers: &mut Peers<N>) -> bool {
        loop {
            let Some(victim) = self.handshakes.victim(answered) else {
                return false;
            };
            self.attend(victim, peers);
            if self.handshakes.drop_victim(victim, answered) {
                return true;
            }
        }
    }

    /// Drops a connection that has not proved the key, to free its descriptor. False: there is none.
    fn make_room(&mut self, peers: &mut Peers<N>) -> bool {
        self.evict(false, peers) || self.evict(true, peers)
    }

    // Candidates.

    /// Something has happened to a candidate.
    pub fn attend(&mut self, number: u32, peers: &mut Peers<N>) {
        let known = |peer| {
            let generation = peers.get(peer).map_or(0, Session::generation);
            (generation, self.members.incarnation(peer))
        };
        let outcome = self.handshakes.attend(number, known, &mut self.progressed);
        match outcome {
            None => {}
            Some(Outcome::Failed(call, error)) => {
                if let Some(dialled) = call.dialled_address() {
                    self.failed(dialled, &call.address, &error, peers);
                }
            }
            Some(Outcome::Refused(dialled, text)) => self.note_failure(dialled, text),
            Some(Outcome::Authenticated(call, socket, channel)) => {
                self.authenticated((number, call), socket, *channel, peers);
            }
            Some(Outcome::Noticed(hello)) => {
                self.progressed += 1;
                // It says nothing wrong even about a process that has a successor by now: its world is
                // distinct.
                self.bell.tell_absence(hello.incarnation);
            }
            Some(Outcome::Closed(call)) => {
                // The other side has taken another one, or is gone; a rank that needs one calls again.
                if let Some(dialled) = call.dialled_address() {
                    let text = format!("{}: closed by the other side", call.address);
                    self.note_failure(dialled, text);
                }
                self.missed(call.peer, peers);
            }
            Some(Outcome::Said(call, link, said)) => {
                let peer = call.peer;
                self.said((number, call), link, said, peers);
                self.missed(peer, peers);
            }
            Some(Outcome::Dropped(call)) => self.missed(call.peer, peers),
        }
        self.set_due();
    }

    /// The other side has proved the key and said who it is.
    fn authenticated(
        &mut self,
        (number, mut call): (u32, Call),
        socket: N::Stream,
        channel: Channel,
        peers: &mut Peers<N>,
    ) {
        let Some(hello) = self.identify(&call, &channel.hello, peers) else {
            return;
        };
        let peer = hello.rank;
        if !peers.admits(peer) {
            return;
        }
        peers.begin(peer);
        let is_called = call.offer.is_none();
        if is_called {
            self.handshakes.limit_spares(peer);
        }
        call.peer = Some(peer);
        call.until = u64::MAX;
        // The called side says in a first frame which connection it last used, if the decider dialled it.
        let is_said = is_called || !self.decides(peer);
        call.generation = is_said.then_some(hello.generation);
        let mut link = self.handshakes.link(number, socket, channel);
        if self.decides(peer) {
            self.handshakes.wait(number, call, link);
            return self.decide(peer, peers);
        }
        if is_called {
            // Only we know which connection we have last used: the caller is told that first.
            let generation = peers.get(peer).map_or(0, Session::generation);
            link.set_urgent(wire::uncounted(FrameKind::Resume, generation, 0));
        }
        self.handshakes.wait(number, call, link);
        if !self.handshakes.flush(number) {
            self.missed(Some(peer), peers);
        }
    }

    /// The identity of the other side; `None` if it is not the process that was dialled, or that has the rank now.
    fn identify(&mut self, call: &Call, hello: &[u8], peers: &mut Peers<N>) -> Option<Hello> {
        let dialled = call.dialled_address();
        let expected = dialled.map(|(peer, _)| peer);
        // A process that has just been started calls as soon as it is in the directory, which we may not have
        // read since.
        let superseded = match self.is_stale() {
            true => self.learn(&self.news(), peers),
            false => Vec::new(),
        };
        if expected.is_some_and(|peer| superseded.contains(&peer)) {
            return None;
        }
        let hello = self.handshakes.check(hello, expected);
        let hello = hello.filter(|hello| hello.incarnation == self.members.incarnation(hello.rank));
        if hello.is_none() {
            // A member, but not the wanted one: here this address means another process.
            match dialled {
                None => self.handshakes.refuse_malformed(),
                Some(dialled) => {
                    let error = Errno::ADDRNOTAVAIL.into();
                    self.failed(dialled, &call.address, &error, peers);
                }
            }
        }
        hello
    }

    /// A connection that was waited for has failed. A rank that needs one dials.
    fn missed(&mut self, peer: Option<u32>, peers: &mut Peers<N>) {
        if let Some(peer) = peer
            && peers.get(peer).is_some_and(Session::is_needed)
        {
            self.reach(peer, peers);
        }
    }

    /// A frame has come on a connection that waits to be taken.
    fn said(
        &mut self,
        (number, mut call): (u32, Call),
        link: Box<Link<N::Stream>>,
        said: Said,
        peers: &mut Peers<N>,
    ) {
        let Some(peer) = call.peer else {
            return;
        };
        match said.kind {
            FrameKind::Resume if self.decides(peer) && call.generation.is_none() => {
                call.generation = Some(said.generation);
                self.handshakes.wait(number, call, link);
                self.decide(peer, peers);
            }
            FrameKind::Select if !self.decides(peer) => {
                self.resume(peer, (link, call.offer), said, peers);
            }
            _ => self.handshakes.refuse_malformed(),
        }
    }

    // The connection with a peer.

    /// The decider looks at its candidates for a peer and takes one if it needs one.
    fn decide(&mut self, peer: u32, peers: &mut Peers<N>) {
        let Some(session) = peers.get(peer).filter(|session| !session.has_left()) else {
            return;
        };
        let present = Present {
            generation: session.generation(),
            connected: session.is_connected(),
            live: session.is_live(),
        };
        let Some(number) = select::choose(self.handshakes.candidates(), peer, present) else {
            return;
        };
        if present.connected {
            peers.disconnect(peer);
        }
        let Some((call, link)) = self.handshakes.take_waiting(number) else {
            return;
        };
        match peers.select(peer, link, call.offer) {
            true => self.pump(peer, peers),
            false => self.unwatched(peer, peers),
        }
    }

    /// The decider has taken this connection: goes on with it.
    fn resume(
        &mut self,
        peer: u32,
        (link, offer): (Box<Link<N::Stream>>, Option<usize>),
        said: Said,
        peers: &mut Peers<N>,
    ) {
        peers.disconnect(peer);
        let Some(session) = peers.get(peer) else {
            return;
        };
        if session.has_left() || said.generation <= session.generation() {
            return;
        }
        match peers.resume(peer, link, offer, (said.generation, said.processed)) {
            Ok(true) => {
                self.settle(peer);
                self.pump(peer, peers);
            }
            Ok(false) => self.unwatched(peer, peers),
            Err(wire::Malformed) => {
                let reason = "it says that it has what was never sent";
                self.lose(peer, reason.into(), peers);
            }
        }
    }

    /// A connection was taken that the system refuses to watch.
    fn unwatched(&mut self, peer: u32, peers: &mut Peers<N>) {
        self.broke(peer, &Failure::of("it cannot be watched"), peers);
    }

    /// Both sides have agreed, or the peer is gone: the other candidates are dropped, attempts end.
    fn settle(&mut self, peer: u32) {
        self.dials.end(peer);
        self.handshakes
            .drop_those(|one| one.call.peer == Some(peer));
        self.progressed += 1;
        self.set_due();
    }

    /// The peer goes on with a connection that this rank has selected, if it was dialled. True: both have
    /// agreed from now on.
    #[inline]
    pub fn confirmed(&mut self, peer: u32) -> bool {
        let dialled = self.dials.contains(peer);
        if dialled {
            self.settle(peer);
        }
        dialled
    }

    /// The connection to a peer is broken: reaches it anew, or finds out that it cannot.
    #[cold]
    pub fn broke(&mut self, peer: u32, failure: &Failure, peers: &mut Peers<N>) {
        match peers.broke(peer, failure.silent) {
            Broke::Away | Broke::Redial if self.members.has_left(peer) => self.depart(peer, peers),
            Broke::Over | Broke::Away => {}
            Broke::Left => self.settle(peer),
            Broke::Lost => {
                let seconds = self.config.patience.as_secs();
                let reason = self
                    .members
                    .addresses()
                    .silent(peer, seconds, &failure.what);
                self.lose(peer, reason, peers);
            }
            Broke::Redial => {
                if let Some(reason) = self.members.loss(peer) {
                    return self.give_up(peer, reason, peers);
                }
                match self.dials.get_mut(peer) {
                    // This rank had selected the connection and the peer has not confirmed it: the peer was
                    // there.
                    Some(dial) => dial.begin_anew(self.network.now(), self.config.patience),
                    None => self.dial(peer, Some(failure.what.clone()), peers),
                }
                if self.decides(peer) {
                    self.decide(peer, peers);
                }
            }
        }
    }

    // Timers.

    /// Handles what is due: attempts, and patience that ends.
    pub fn tick(&mut self, peers: &mut Peers<N>) {
        let now = self.network.now();
        if now < self.due {
            return;
        }
        self.handshakes.tick(&self.network, now);
        for peer in self.dials.peers() {
            self.tick_dial(peer, now, peers);
        }
        let silent = self.orphans.take_silent(now, |peer| received(peers, peer));
        for peer in silent {
            let what = "its process has ended, and one that it has forked holds the connection";
            self.broke(peer, &Failure::of(what), peers);
        }
        self.set_due();
    }

    /// Looks at the attempts to reach a peer.
    fn tick_dial(&mut self, peer: u32, now: u64, peers: &mut Peers<N>) {
        let (Some(dial), Some(session)) = (self.dials.get_mut(peer), peers.get(peer)) else {
            return;
        };
        let candidates = self.handshakes.candidates();
        // Somebody answers there and has not proved the key: a peer that computes answers later, so while its
        // kernel answers patience does not end. A stranger may be what answers at one address, so the others
        // are called again.
        let answers =
            |one: &Candidate<N::Stream>| one.call.peer == Some(peer) && !one.is_connecting_to(peer);
        let is_taken = session.is_connected();
        match dial.look(now, || is_taken || candidates.any(answers)) {
            Turn::Later => {}
            Turn::Over => {
                let reason = self.unreachable(peer);
                self.give_up(peer, reason, peers);
                self.progressed += 1;
            }
            Turn::Due => {
                // A call without an answer is made anew after a while, as the kernel's own retries become rare.
                self.handshakes
                    .drop_those(|one| one.is_connecting_to(peer) && now > one.call.since + STALE);
                let candidates = self.handshakes.candidates();
                if !is_taken && !candidates.any(|one| one.waits_for(peer)) {
                    self.call(peer, peers);
                }
            }
        }
    }

    /// Tells the bell when the next [`Self::tick`] is due, and whether anybody is dialled.
    fn set_due(&mut self) {
        let now = self.network.now();
        let due = self
            .dials
            .due(now)
            .into_iter()
            .chain(self.handshakes.due())
            .chain(self.orphans.due())
            .min();
        self.due = due.unwrap_or(u64::MAX);
        self.bell.set_due(self.due);
        self.bell.set_reaching(!self.dials.is_empty());
    }
}

/// How many frames of a peer were handed out, if it has a connection.
fn received<N: Network>(peers: &Peers<N>, peer: u32) -> Option<u64> {
    let session = peers.get(peer).filter(|session| session.is_connected())?;
    Some(session.traffic(Peer(peer)).received)
}

#[cfg(test)]
mod tests;
