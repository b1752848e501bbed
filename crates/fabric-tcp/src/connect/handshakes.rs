//! Handshakes of this rank: the connections that are not chosen yet, dialled and accepted, until the other
//! side has identified itself.
//!
//! ```text
//!   listeners ─ accept ─► admit ─┐
//!                                ├─► candidates, watched ─ attend ─► Outcome: what follows is the connector's to decide
//!   call ────────────────────────┘
//! ```
//!
//! *Invariant:* each candidate is watched by the bell under its number; one that cannot be watched is dropped. The number of
//! those that have not proved the key is bounded: [`too_many`](Handshakes::too_many). Callers that are turned away are counted.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_secure::{Channel, EvictionPolicy, Refusal, Refusals, SILENT, Source};
use weft_sys::socket::NotAccepted;

use super::candidates::{Call, Candidate, Candidates, Happened, Said, Stage};
use super::handshake::Identity;
use super::listeners::Listeners;
use crate::link::Link;
use crate::network::{EventSource, Network, Poller, Stream};
use crate::wire::Hello;

/// How long somebody who has connected may take to prove the key, while we look.
const PROOF: Duration = Duration::from_secs(10);

/// Most connections of one peer that wait to be taken, for each address at which it may call.
const SPARES: usize = 16;

/// An event of a candidate that concerns others.
#[must_use]
pub enum Outcome<S> {
    /// The address that was dialled does not work.
    Failed(Call, io::Error),
    /// The dialled connection was refused, for this reason.
    Refused((u32, usize), String),
    /// The other side has proved the key, on this stream.
    Authenticated(Call, S, Box<Channel>),
    /// A member wants no connection, and is absent.
    Noticed(Hello),
    /// A waiting connection has been closed by the other side.
    Closed(Call),
    /// A waiting connection has said this.
    Said(Call, Box<Link<S>>, Said),
    /// A waiting connection was dropped for what it said.
    Dropped(Call),
}

/// See the [module page](self).
pub struct Handshakes<N: Network> {
    bell: Arc<N::Bell>,
    identity: Identity,
    /// Connections are sealed.
    seal: bool,
    listeners: Listeners<N>,
    candidates: Candidates<N::Stream>,
    /// How many connections members may make at once: each calls every address.
    callers: usize,
    refusals: Arc<Refusals>,
}

impl<N: Network> Handshakes<N> {
    /// The handshakes of one rank among `peers`, which is called at these sockets.
    ///
    /// # Errors
    /// If the system refuses to watch them.
    pub fn new(
        (identity, seal): (Identity, bool),
        peers: u32,
        listeners: Vec<N::Stream>,
        bell: Arc<N::Bell>,
    ) -> io::Result<Self> {
        let listeners = Listeners::new(listeners, bell.clone())?;
        Ok(Self {
            callers: peers as usize * listeners.count(),
            listeners,
            bell,
            identity,
            seal,
            candidates: Candidates::new(EvictionPolicy::new()),
            refusals: Arc::default(),
        })
    }

    /// Connections that were turned away.
    pub fn refusals(&self) -> Arc<Refusals> {
        self.refusals.clone()
    }

    /// All connections that are not chosen yet.
    #[inline]
    pub fn candidates(&self) -> &Candidates<N::Stream> {
        &self.candidates
    }

    /// Makes a seed decide which connection is dropped when too many have not proved the key.
    #[cfg(test)]
    pub fn draw_by(&mut self, seed: u64) {
        self.candidates.draw_by(seed);
    }

    /// The first message by which this process tells this incarnation of a peer that it is absent.
    pub fn notice(&self, peer: (u32, u32)) -> Vec<u8> {
        self.identity.notice(peer)
    }

    /// Calls a peer at one of its addresses; `text`: that address, for people.
    ///
    /// # Errors
    /// If the system reports at once that the call fails.
    pub fn call(
        &mut self,
        network: &N,
        (peer, offer): (u32, usize),
        (address, text): (&SocketAddr, &str),
        limit: Duration,
    ) -> io::Result<()> {
        let socket = network.connect(address, limit)?;
        let call = Call::dialled(peer, offer, text.to_owned(), network.now());
        let number = self.candidates.add(call, Stage::Connecting(socket));
        self.watch(number, true);
        Ok(())
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// None was accepted.
    pub fn accept(&self, network: &N, listener: u32) -> Result<(N::Stream, Source), NotAccepted> {
        self.listeners.accept(network, listener)
    }

    /// Stops accepting for a while, because no descriptor is left.
    pub fn rest(&mut self, network: &N) {
        self.listeners.rest(network);
    }

    /// Adds an accepted connection, which must prove the key; returns its number. The caller must [attend](Self::attend) to
    /// it, then [watch](Self::watch_admitted) it: its first bytes have often arrived already, and a connection refused
    /// because of them needs no watching.
    pub fn admit(&mut self, network: &N, socket: N::Stream, source: Source) -> u32 {
        let call = Call::accepted(source, network.now(), network.after(PROOF));
        let stage = Stage::Authenticating(self.identity.responder(socket));
        self.candidates.add(call, stage)
    }

    /// Watches one that was admitted, if it is still there.
    pub fn watch_admitted(&mut self, number: u32) {
        if let Some(candidate) = self.candidates.get(number) {
            let room = matches!(&candidate.stage, Stage::Authenticating(it) if it.is_blocked());
            self.watch(number, room);
        }
    }

    /// Whether one has to go: of those that were not answered, before another is admitted; of those that
    /// were, after it.
    pub fn too_many(&self, answered: bool) -> bool {
        let count = self.candidates.unauthenticated(answered);
        match answered {
            false => count >= SILENT.max(self.callers),
            true => count > SILENT + self.callers,
        }
    }

    /// Which of those that have not proved the key is to go.
    pub fn victim(&mut self, answered: bool) -> Option<u32> {
        self.candidates.victim(answered)
    }

    /// Drops this one, unless it has advanced. False: it has, and another one must go.
    pub fn drop_victim(&mut self, number: u32, answered: bool) -> bool {
        if self.candidates.is_unauthenticated(number, answered) {
            self.candidates.take(number);
            self.refusals.count(Refusal::Crowded);
        }
        // Otherwise it was refused and is gone.
        self.candidates.get(number).is_none()
    }

    fn watch(&mut self, number: u32, room: bool) {
        let source = EventSource::Candidate(number);
        let watched = self.candidates.get(number).map(|one| match &one.stage {
            Stage::Connecting(socket) => self.bell.watch(socket, source, room),
            Stage::Authenticating(it) => self.bell.watch(it.socket(), source, room),
            Stage::Waiting(link) => link.watch(&*self.bell, source, room),
        });
        if let Some(Err(_)) = watched {
            self.candidates.take(number);
        }
    }

    /// Watches one whose handshake is under way for room to send, or stops doing so.
    fn rewatch(&self, number: u32, room: bool) {
        if let Some(one) = self.candidates.get(number)
            && let Stage::Authenticating(it) = &one.stage
        {
            let source = EventSource::Candidate(number);
            let _ = self.bell.rewatch(it.socket(), source, room);
        }
    }

    /// Sends and reads what it can for a candidate. The candidate is taken out, unless nothing has happened that
    /// concerns others. `known` and `progressed` are as in [`Candidate::step`].
    pub fn attend(
        &mut self,
        number: u32,
        known: impl FnOnce(u32) -> (u32, u32),
        progressed: &mut usize,
    ) -> Option<Outcome<N::Stream>> {
        let candidate = self.candidates.take(number)?;
        match candidate.step(&self.identity, known, progressed) {
            Happened::Nothing { candidate, watch } => {
                self.candidates.put_back(number, candidate);
                if let Some(room) = watch {
                    self.rewatch(number, room);
                }
                None
            }
            Happened::Failed(call, error) => Some(Outcome::Failed(call, error)),
            Happened::Refused(call, refusal) => match call.dialled_address() {
                Some(dialled) => {
                    let text = format!("{}: {refusal}", call.address);
                    Some(Outcome::Refused(dialled, text))
                }
                None => {
                    self.refusals.count(refusal);
                    None
                }
            },
            Happened::Authenticated(call, socket, channel) => {
                Some(Outcome::Authenticated(call, socket, channel))
            }
            Happened::Noticed(hello) => match self.identity.is_meant(&hello) {
                true => Some(Outcome::Noticed(hello)),
                false => {
                    self.refusals.count(Refusal::Malformed);
                    None
                }
            },
            Happened::Closed(call) => Some(Outcome::Closed(call)),
            Happened::Said(call, link, said) => Some(Outcome::Said(call, link, said)),
            Happened::Malformed(call) => {
                self.refusals.count(Refusal::Malformed);
                Some(Outcome::Dropped(call))
            }
        }
    }

    /// The identity that the other side of a connection claims; `None`: it is not the one that was dialled,
    /// or wants another rank.
    pub fn check(&self, hello: &[u8], dialled: Option<u32>) -> Option<Hello> {
        self.identity.check(hello, dialled)
    }

    /// Counts a connection that is turned away for what it said.
    pub fn refuse_malformed(&self) {
        self.refusals.count(Refusal::Malformed);
    }

    /// A connection whose other side has proved the key, watched from now on under this number.
    pub fn link(&self, number: u32, socket: N::Stream, channel: Channel) -> Box<Link<N::Stream>> {
        socket.fit();
        let source = EventSource::Candidate(number);
        // A connection that was just admitted may have proved the key before it is watched: its bytes arrived
        // while this rank answered.
        let _ = match self.bell.rewatch(&socket, source, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.bell.watch(&socket, source, false)
            }
            watched => watched,
        };
        Box::new(Link::new(socket, channel, self.seal))
    }

    /// Bounds the waiting connections of a peer that calls without end: the oldest one goes.
    pub fn limit_spares(&mut self, peer: u32) {
        let spares = self.candidates.numbers(|one| one.waits_for(peer));
        if spares.len() >= SPARES * self.listeners.count() {
            let since = |number: &u32| self.candidates.get(*number).map_or(0, |one| one.call.since);
            if let Some(oldest) = spares.into_iter().min_by_key(since) {
                self.candidates.take(oldest);
            }
        }
    }

    /// The candidate waits for the decider, or is kept as its spare.
    pub fn wait(&mut self, number: u32, call: Call, link: Box<Link<N::Stream>>) {
        let stage = Stage::Waiting(link);
        self.candidates.put_back(number, Candidate { call, stage });
    }

    /// Sends the pending frames of a waiting connection. False: it is broken, and dropped.
    #[must_use]
    pub fn flush(&mut self, number: u32) -> bool {
        let link = self.candidates.link_mut(number);
        let sent = link.is_none_or(|link| link.flush_urgent().is_ok());
        if !sent {
            self.candidates.take(number);
        }
        sent
    }

    /// Takes a waiting connection.
    pub fn take_waiting(&mut self, number: u32) -> Option<(Call, Box<Link<N::Stream>>)> {
        let Candidate { call, stage } = self.candidates.take(number)?;
        match stage {
            Stage::Waiting(link) => Some((call, link)),
            _ => None,
        }
    }

    /// Drops all candidates for which `which` holds.
    pub fn drop_those(&mut self, which: impl Fn(&Candidate<N::Stream>) -> bool) {
        self.candidates.drop_those(which);
    }

    /// Drops candidates whose time is over, and accepts again once a rest is over.
    pub fn tick(&mut self, network: &N, now: u64) {
        self.listeners.wake(network, now);
        for number in self.candidates.numbers(|one| one.call.until <= now) {
            if let Some(candidate) = self.candidates.take(number)
                && candidate.call.offer.is_none()
            {
                self.refusals.count(Refusal::Slow);
            }
        }
    }

    /// When the next [`Self::tick`] is due.
    pub fn due(&self) -> Option<u64> {
        let candidates = self.candidates.iter().map(|one| one.call.until);
        candidates.chain(self.listeners.rest_until()).min()
    }
}
