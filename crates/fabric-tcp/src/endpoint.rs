//! One rank's endpoint: what the layers above see. Sending is: room in the ring? — push — send what
//! there is room for.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use weft_fabric::{
    Bell, Fabric, FabricError, HEAD, Head, Limits, Load, Operation, Peer, Posted, Region, Result,
    Rights, SignalTable, Sink, SyncKey, Token, Uses,
};
use weft_secure::{Key, Refusals};

use crate::bell::TcpBell;
use crate::card::{Card, Listen, Offer};
use crate::connect::Candidates;
use crate::grants::Grants;
use crate::network::{EventSource, Kernel, Network, Poller};
use crate::outgoing::Pumped;
use crate::session::{Presence, Session};
use crate::wire::{DATA, FrameKind};

/// From this size on a portal is quicker than a message, which is copied twice. Measured on loopback.
const BULK: usize = 64 << 10;

/// Messages to oneself that may wait.
const OWN: usize = 256;

/// How long a first connection may take.
const CONNECT: Duration = Duration::from_millis(4500);

/// How long a broken connection is tried to be mended, unless the job says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a rank must know to be reached and to reach the others.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this is.
    pub me: u32,
    /// How many there are.
    pub peers: u32,
    /// What all members know and nobody else.
    pub key: Key,
    /// Whether the data is protected too.
    pub seal: bool,
    /// Which addresses to listen at.
    pub listen: Listen,
    /// How long a peer may be out of reach before it is given up: a shorter break is survived.
    pub patience: Duration,
    /// How long the first connection to a peer may take before it is an error.
    pub connect: Duration,
    /// Ranks on this host, for deciding whether to spin.
    pub neighbours: u32,
}

impl Config {
    /// The usual values for this member of a job of so many.
    #[must_use]
    pub fn new(me: u32, peers: u32, key: Key) -> Self {
        Self {
            me,
            peers,
            key,
            seal: false,
            listen: Listen::default(),
            patience: PATIENCE,
            connect: CONNECT,
            neighbours: 1,
        }
    }
}

pub(crate) struct Listener<S> {
    pub socket: S,
}

/// An endpoint that listens already but does not know where the others are.
pub struct Opening {
    config: Config,
    listeners: Vec<Listener<OwnedFd>>,
    card: Card,
}

/// A message or signal to oneself.
pub(crate) enum Own {
    Message(Head, Vec<u8>),
    Signal(SyncKey),
}

/// One rank's endpoint of a job of several hosts.
pub struct Tcp<N: Network = Kernel> {
    pub(crate) network: N,
    pub(crate) config: Config,
    pub(crate) host: String,
    pub(crate) cards: Vec<Card>,
    pub(crate) purpose: &'static str,
    pub(crate) listeners: Vec<Listener<N::Stream>>,
    pub(crate) bell: Arc<N::Bell>,
    pub(crate) sessions: Vec<Option<Box<Session<N::Stream>>>>,
    pub(crate) candidates: Candidates<N::Stream>,
    /// Peers with a connection, for looking at them directly.
    pub(crate) live: Vec<u32>,
    /// Peers to whom connections are being made.
    pub(crate) dialing: Vec<u32>,
    pub(crate) grants: Grants,
    pub(crate) signals: SignalTable,
    pub(crate) own: VecDeque<Own>,
    pub(crate) refusals: Arc<Refusals>,
    /// Peers that are gone, and why.
    pub(crate) gone: HashMap<u32, String>,
    /// Gone, and not said yet.
    pub(crate) losses: Vec<u32>,
    /// Requests for grants that the other fabric may have served: who, what, whether to write.
    pub(crate) deferred: Vec<(u32, crate::wire::Ask, bool)>,
    /// Transfers that ended outside of a poll.
    pub(crate) ended: Vec<(Operation, Result<()>)>,
    pub(crate) looks: u32,
    pub(crate) turn: usize,
    /// Things that moved although nothing was handed out.
    pub(crate) progressed: usize,
}

pub(crate) fn system(what: &str, error: impl std::fmt::Display) -> FabricError {
    FabricError::System {
        what: format!("{what}: {error}"),
    }
}

impl Opening {
    /// Begins to listen, on a port that the system chooses at each address.
    ///
    /// # Errors
    /// [`FabricError::System`] if there is no address to listen at, naming the host.
    pub fn new(config: Config) -> Result<Self> {
        let host = host_name();
        let wanted = config
            .listen
            .addresses()
            .map_err(|error| system("the network interfaces of this host are not known", error))?;
        let mut listeners = Vec::new();
        let mut offers = Vec::new();
        let mut refused = String::new();
        for (interface, address) in wanted {
            match crate::connect::listen(address, config.patience) {
                Ok((socket, address)) => {
                    listeners.push(Listener { socket });
                    offers.push(Offer { interface, address });
                }
                Err(error) => refused += &format!("; {interface} {address}: {error}"),
            }
        }
        if listeners.is_empty() && config.peers > 1 {
            return Err(FabricError::System {
                what: format!(
                    "rank {} on host {host} has no address at which others could reach it: an \
                     interface that is up with an address was expected{refused}; look at `ip address`",
                    config.me
                ),
            });
        }
        Ok(Self {
            config,
            listeners,
            card: Card { host, offers },
        })
    }

    /// Where this rank can be reached: to be told to all others.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The key of the job, if it was not known when this began to listen. Nobody is let in before
    /// [`Self::join`].
    pub fn set_key(&mut self, key: Key) {
        self.config.key = key;
    }

    /// Joins the others, whose cards are given by rank. Waits for nobody: connections are made on
    /// first use.
    ///
    /// # Errors
    /// [`FabricError::System`] if there are not as many cards as peers, or the system refuses.
    pub fn join(self, cards: Vec<Card>) -> Result<Tcp> {
        let Self {
            config,
            listeners,
            card,
        } = self;
        if cards.len() != config.peers as usize || config.me >= config.peers {
            return Err(FabricError::System {
                what: format!(
                    "rank {} of {} was told where {} ranks are: the launcher is confused",
                    config.me,
                    config.peers,
                    cards.len()
                ),
            });
        }
        let cores = u32::try_from(weft_sys::cores::cores_available()).unwrap_or(u32::MAX);
        let load = Load {
            awake: config.neighbours.max(1),
            cores,
        };
        let bell =
            TcpBell::new(load).map_err(|error| system("no descriptor to sleep on", error))?;
        Tcp::over(Kernel, bell, (config, card.host), listeners, cards)
    }
}

impl<N: Network> Tcp<N> {
    /// An endpoint on this system.
    pub(crate) fn over(
        network: N,
        bell: N::Bell,
        (config, host): (Config, String),
        listeners: Vec<Listener<N::Stream>>,
        cards: Vec<Card>,
    ) -> Result<Self> {
        for (index, listener) in listeners.iter().enumerate() {
            bell.watch(&listener.socket, EventSource::Listener(index as u32), false)
                .map_err(|error| system("a listening socket cannot be watched", error))?;
        }
        let purpose = if config.seal {
            "fabric sealed"
        } else {
            "fabric plain"
        };
        Ok(Self {
            network,
            sessions: (0..config.peers).map(|_| None).collect(),
            host,
            purpose,
            cards,
            listeners,
            bell: Arc::new(bell),
            candidates: Candidates::default(),
            live: Vec::new(),
            dialing: Vec::new(),
            grants: Grants::default(),
            signals: SignalTable::default(),
            own: VecDeque::new(),
            refusals: Arc::new(Refusals::default()),
            gone: HashMap::new(),
            losses: Vec::new(),
            deferred: Vec::new(),
            ended: Vec::new(),
            looks: 0,
            turn: 0,
            progressed: 0,
            config,
        })
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

impl Tcp {
    /// All endpoints of a job over loopback in this process, for threads and tests.
    ///
    /// # Errors
    /// If the system refuses sockets.
    pub fn group(count: u32, change: impl Fn(&mut Config)) -> Result<Vec<Self>> {
        let key = Key::random().map_err(|error| system("no key", error))?;
        let openings: Result<Vec<_>> = (0..count)
            .map(|rank| {
                let mut config = Config::new(rank, count, key.clone());
                config.listen = Listen::Loopback;
                config.neighbours = count;
                change(&mut config);
                Opening::new(config)
            })
            .collect();
        let openings = openings?;
        let cards: Vec<_> = openings.iter().map(|one| one.card().clone()).collect();
        openings
            .into_iter()
            .map(|one| one.join(cards.clone()))
            .collect()
    }

    /// Where this rank can be reached.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.cards[self.config.me as usize].offers
    }

    /// The bell with its descriptor, for whoever sleeps elsewhere.
    #[must_use]
    pub fn tcp_bell(&self) -> Arc<TcpBell> {
        self.bell.clone()
    }
}

impl<N: Network> Tcp<N> {
    /// Grants under a token of another fabric, so that one token serves the peers of both. Tokens of
    /// this fabric have their highest bit set; that of others must not.
    pub(crate) fn grant_as(&mut self, token: Token, region: Region, rights: Rights, uses: Uses) {
        self.grants.add_as(token, region, rights, uses);
    }

    /// Whether requests wait for the other fabric to be asked.
    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Whether anything but listening is going on.
    pub(crate) fn is_busy(&self) -> bool {
        !self.live.is_empty() || !self.dialing.is_empty() || self.candidates.has_expected()
    }

    /// Ends without a word, as a process does that is killed. For tests.
    pub fn die(mut self) {
        self.sessions.clear();
        self.live.clear();
        self.dialing.clear();
    }

    /// Lets a number decide who has to go when too many have not proved the key.
    #[cfg(test)]
    pub(crate) fn draw_by(&mut self, seed: u64) {
        self.candidates.eviction = weft_secure::EvictionPolicy::seeded(seed);
    }

    /// Who was turned away so far.
    #[must_use]
    pub fn refusals(&self) -> Arc<Refusals> {
        self.refusals.clone()
    }

    /// The session with a peer other than oneself, begun if need be. Refuses peers that do not exist
    /// or are gone.
    #[inline]
    pub(crate) fn session(&mut self, peer: Peer) -> Result<&mut Session<N::Stream>> {
        if !matches!(self.sessions.get(peer.index()), Some(Some(_))) {
            self.begin(peer)?;
        }
        match &mut self.sessions[peer.index()] {
            Some(session) => Ok(session),
            None => Err(FabricError::NoSuchPeer {
                peer,
                peers: self.config.peers,
            }),
        }
    }

    #[cold]
    fn begin(&mut self, peer: Peer) -> Result<()> {
        self.known(peer)?;
        self.sessions[peer.index()] = Some(Box::new(Session::new()));
        self.dial(peer.0, None);
        Ok(())
    }

    pub(crate) fn known(&self, peer: Peer) -> Result<()> {
        if peer.0 >= self.config.peers {
            return Err(FabricError::NoSuchPeer {
                peer,
                peers: self.config.peers,
            });
        }
        match self.gone.get(&peer.0) {
            None => Ok(()),
            Some(reason) => Err(FabricError::PeerLost {
                peer,
                reason: reason.clone(),
            }),
        }
    }

    fn departed(peer: Peer) -> FabricError {
        FabricError::PeerLost {
            peer,
            reason: "it has left the job and takes no more messages".into(),
        }
    }

    /// Keeps what this rank sends to itself until the next look. Another of its threads may sleep for it.
    fn send_to_itself(&mut self, what: impl FnOnce() -> Own) -> Posted {
        if self.own.len() >= OWN {
            return Posted::Retry;
        }
        self.own.push_back(what());
        self.bell.ring();
        Posted::Done
    }

    /// Appends a frame, if there is credit, and sends.
    #[inline]
    fn post(&mut self, to: Peer, kind: FrameKind, parts: &[&[u8]]) -> Result<Posted> {
        let session = self.session(to)?;
        let length = parts.iter().map(|part| part.len()).sum();
        if session.presence != Presence::Here {
            return self.post_to_absent(to);
        }
        if !session.out.has_room(length) {
            return Ok(Posted::Retry);
        }
        session.out.push(kind, session.processed, parts);
        session.unacked_bytes = 0;
        session.goodbye_sent = false;
        self.pump(to.0);
        Ok(Posted::Done)
    }

    /// Appends a request, if there is credit and not too many are under way.
    pub(crate) fn request(&mut self, peer: Peer, kind: FrameKind, body: &[u8]) -> Result<Posted> {
        self.post(peer, kind, &[body])
    }

    /// Sends to a peer what there is room for.
    #[inline]
    pub(crate) fn pump(&mut self, peer: u32) {
        let Some(session) = self
            .sessions
            .get_mut(peer as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let Some(link) = &mut session.link else {
            if session.is_needed() {
                self.reach(peer);
            }
            return;
        };
        if link.blocked || link.failed.is_some() {
            return;
        }
        match session.out.pump(link, session.processed) {
            Ok(Pumped::Empty) => {}
            Ok(Pumped::Full) => {
                link.blocked = true;
                let _ = self
                    .bell
                    .rewatch(&link.socket, EventSource::Peer(peer), true);
            }
            Err(error) => {
                // What the peer said before it went is there yet, and may be a goodbye: the next look
                // reads it.
                let silent = crate::connect::is_silence(&error);
                link.failed = Some((error.to_string(), silent));
                self.progressed += 1;
            }
        }
    }

    /// A message for a peer whose connection has ended after its goodbye waits until it is known whether the
    /// peer has.
    #[cold]
    fn post_to_absent(&mut self, to: Peer) -> Result<Posted> {
        self.reach(to.0);
        // A refusal may be known at once.
        self.known(to)?;
        match &self.sessions[to.index()] {
            Some(session) if session.presence == Presence::Left => Err(Self::departed(to)),
            _ => Ok(Posted::Retry),
        }
    }

    /// Calls a peer that is not there and not called yet: its connection has ended after its goodbye, or it has
    /// called us and that came to nothing. While a call of its own waits here, it is left to that.
    #[cold]
    pub(crate) fn reach(&mut self, peer: u32) {
        if let Some(session) = &self.sessions[peer as usize]
            && session.link.is_none()
            && session.dialing.is_none()
            && session.presence != Presence::Left
            && !self.is_called_by(peer)
        {
            let ended = "the connection has ended after its goodbye";
            let broken = (session.generation > 0).then(|| ended.into());
            self.dial(peer, broken);
        }
    }

    /// The connection has room again.
    pub(crate) fn unblock(&mut self, peer: u32) {
        if let Some(session) = &mut self.sessions[peer as usize]
            && let Some(link) = &mut session.link
            && link.blocked
        {
            link.blocked = false;
            let _ = self
                .bell
                .rewatch(&link.socket, EventSource::Peer(peer), false);
            self.progressed += 1;
            self.pump(peer);
        }
    }
}

impl<N: Network> Fabric for Tcp<N> {
    fn me(&self) -> Peer {
        Peer(self.config.me)
    }

    fn peers(&self) -> u32 {
        self.config.peers
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
        Duration::from_nanos(self.network.now())
    }

    fn route(&self, peer: Peer) -> &'static str {
        match self.sessions.get(peer.index()) {
            _ if peer.0 == self.config.me => "within one rank",
            None => "nowhere",
            Some(_) if self.config.seal => "tcp, encrypted",
            Some(_) => "tcp",
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
        if to.0 == self.config.me {
            return Ok(self.send_to_itself(|| Own::Message(*head, data.to_vec())));
        }
        self.post(to, FrameKind::Message, &[head, data])
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
            self.known(peer)?;
        }
        self.grants
            .add(region, to, rights, uses)
            .ok_or_else(|| FabricError::System {
                what: "too many grants are live at a time; revoke some".into(),
            })
    }

    fn offer(&mut self, to: Peer, token: Token) {
        if let Some(region) = self.grants.offerable(token, to)
            && let Some(Some(session)) = self.sessions.get_mut(to.index())
        {
            session.offer(token, region);
        }
    }

    fn revoke(&mut self, token: Token) -> bool {
        let live = self.grants.remove(token);
        self.withdraw(token);
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
        if to.0 == self.config.me {
            return Ok(self.send_to_itself(|| Own::Signal(key)));
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

    /// What the other kernels have acknowledged arrives also if this process is gone.
    fn is_flushed(&mut self) -> bool {
        let handed = self
            .sessions
            .iter()
            .flatten()
            .all(|session| session.is_handed_over());
        if !handed {
            self.bell.hurry();
        }
        handed
    }

    fn farewell(&mut self) {
        for peer in 0..self.sessions.len() {
            let Some(session) = &mut self.sessions[peer] else {
                continue;
            };
            let spoken = session.generation > 0 || session.is_needed();
            if !spoken || session.presence == Presence::Left || session.goodbye_sent {
                continue;
            }
            session.goodbye_sent = true;
            session
                .out
                .push_control(FrameKind::Goodbye, session.processed, &[]);
            // Who is away is told if it comes back.
            if session.presence == Presence::Here {
                self.pump(peer as u32);
            }
        }
    }
}

const _: () = assert!(HEAD == 32);
