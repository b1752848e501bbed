//! How two ranks come to share one connection: both may call, all addresses are tried at once, the key
//! is proved on each, and the *decider* of the pair (the lower rank) takes one.
//!
//! ```text
//!   dial all offers ─► Connecting ─► Shaking ─► authenticated, the right rank answered
//!   accept          ───────────────► Shaking ─►         │
//!                                              decider: │ takes the first, sends Select, waits for
//!                                                       │ Resume; others wait as spares
//!                                              other:   │ waits for Select, answers Resume
//! ```
//!
//! The echo is the handshake: an address that leads to ourselves, to another rank, to a stranger or to
//! nowhere never completes it with the rank that was wanted, and costs nothing but its socket, since
//! all are tried side by side.
//!
//! Which connection of the pair is meant is told by a *generation*: 1 for the first. In its hello each
//! side says which one it has last used. A decider that has a live connection and is called by a peer
//! that has used this very one knows that the peer has lost it, and takes the new one; a peer that has
//! not used it yet is about to, and its other calls are spares.
//!
//! Nothing is read from a connection but the handshake, of fixed size, before the key is proved.
//! Connections that do not come to that within [`PROOF`] are dropped; of more than [`CROWD`] at a time
//! the oldest are. All are counted.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use weft_secure::{Channel, FIRST, Handshake, Refusal, Step};
use weft_sys::Region;
use weft_sys::clock;
use weft_sys::socket::{self, Part};

use crate::bell::About;
use crate::endpoint::Tcp;
use crate::link::{Found, Link, Read};
use crate::session::{Dialing, Session};
use crate::wire::{HEADER, Header, Hello, Kind};

/// How long somebody who has connected may take to prove the key, while we look.
const PROOF: Duration = Duration::from_secs(10);

/// Most connections that are in the middle of proving the key.
const CROWD: usize = 64;

/// Connections accepted in one look: strangers must not keep the job from its work.
const ACCEPTS: usize = 8;

/// Pauses between attempts to reach a peer, in nanoseconds.
const PAUSES: (u64, u64) = (20_000_000, 400_000_000);

/// After which time a call that nobody answers is made anew, in nanoseconds.
const STALE: u64 = 1_000_000_000;

/// Bytes that the kernel takes ahead of what it can send.
const UNSENT: u32 = 2 << 20;

/// A connection that is not chosen yet.
pub(crate) struct Candidate {
    /// Whom it is to, once that is known.
    peer: Option<u32>,
    /// Which of the peer's offers was called; `None`: it has called us.
    offer: Option<usize>,
    /// What the other side said of itself.
    generation: u32,
    stage: Stage,
    since: u64,
    until: u64,
    place: String,
}

enum Stage {
    Connecting(OwnedFd),
    Shaking(OwnedFd, Box<Handshake>, Vec<u8>),
    /// Authenticated: waits for the decider, or is a spare of it.
    Waiting(Box<Link>),
    /// Being moved.
    Gone,
}

/// All of them, by number.
#[derive(Default)]
pub(crate) struct Candidates {
    all: Vec<Option<Candidate>>,
    count: usize,
}

impl Candidates {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, candidate: Candidate) -> u32 {
        self.count += 1;
        match self.all.iter().position(Option::is_none) {
            Some(index) => {
                self.all[index] = Some(candidate);
                index as u32
            }
            None => {
                self.all.push(Some(candidate));
                self.all.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, index: u32) -> Option<Candidate> {
        let found = self.all.get_mut(index as usize)?.take()?;
        self.count -= 1;
        Some(found)
    }

    fn numbers(&self, which: impl Fn(&Candidate) -> bool) -> Vec<u32> {
        let there = |(index, one): (usize, &Option<Candidate>)| {
            one.as_ref().filter(|one| which(one)).map(|_| index as u32)
        };
        self.all.iter().enumerate().filter_map(there).collect()
    }
}

/// Listens at an address, on a port of the system's choice.
pub(crate) fn listen(address: IpAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let socket = stream(&address)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, 0))?;
    rustix::net::listen(&socket, 1024)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

fn stream(address: &IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// What a connection needs: small messages at once, a dead host noticed also by who only receives.
fn prepare(socket: &OwnedFd, patience: Duration) {
    // What the kernel refuses here costs speed or patience, not correctness.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = socket::limit_unsent(socket, UNSENT);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let seconds = patience.as_secs().clamp(2, 600);
    let interval = (seconds / 5).max(1);
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(interval));
    let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval));
    let _ = sockopt::set_tcp_keepcnt(socket, 5);
    let limit = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit.max(1000));
}

fn after(limit: Duration) -> u64 {
    clock::deadline_after(limit)
}

impl Tcp {
    fn decides(&self, peer: u32) -> bool {
        self.config.me < peer
    }

    fn hello(&self, peer: u32) -> Hello {
        let generation = match &self.sessions[peer as usize] {
            Some(session) => session.generation,
            None => 0,
        };
        Hello {
            rank: self.config.me,
            target: peer,
            generation,
        }
    }

    /// Begins to reach a peer: for the first time, or again since the connection broke.
    pub(crate) fn dial(&mut self, peer: u32, broken: Option<String>) {
        let now = clock::monotonic();
        let limit = if broken.is_some() {
            self.config.patience
        } else {
            self.config.connect
        };
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.dialing = Some(Dialing {
                since: now,
                until: after(limit),
                next: now,
                pause: PAUSES.0,
                failures: Vec::new(),
                broken,
            });
        }
        if !self.dialing.contains(&peer) {
            self.dialing.push(peer);
        }
        self.call(peer);
        self.set_due();
    }

    /// Calls all addresses of a peer, but those where a call is under way.
    fn call(&mut self, peer: u32) {
        let busy: Vec<usize> = self
            .candidates
            .all
            .iter()
            .flatten()
            .filter(|one| one.peer == Some(peer))
            .filter_map(|one| one.offer)
            .collect();
        let offers = self.cards[peer as usize].offers.clone();
        for (index, offer) in offers.iter().enumerate() {
            if busy.contains(&index) {
                continue;
            }
            let place = format!("{} ({})", offer.address, offer.interface);
            let socket = match stream(&offer.address.ip()) {
                Ok(socket) => socket,
                Err(error) => {
                    self.failed(peer, index, place, error);
                    continue;
                }
            };
            prepare(&socket, self.config.patience);
            match rustix::net::connect(&socket, &offer.address) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(error) => {
                    self.failed(peer, index, place, error);
                    continue;
                }
            }
            let number = self.candidates.add(Candidate {
                peer: Some(peer),
                offer: Some(index),
                generation: 0,
                stage: Stage::Connecting(socket),
                since: clock::monotonic(),
                until: u64::MAX,
                place,
            });
            self.watch_candidate(number, true);
        }
    }

    /// An address of a peer did not work, this time.
    fn failed(&mut self, peer: u32, offer: usize, place: String, error: Errno) {
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        let Some(dialing) = &mut session.dialing else {
            return;
        };
        let refused = error == Errno::CONNREFUSED;
        let text = format!("{place}: {}", std::io::Error::from(error));
        dialing.failures.retain(|(other, ..)| *other != offer);
        dialing.failures.push((offer, text, refused));
        // Where it has listened nobody listens any more: its process is gone. Elsewhere a refusal means
        // that only if all refuse: the address may also be one of our own.
        let offers = self.cards[peer as usize].offers.len();
        let gone = match session.agreed {
            Some(agreed) => agreed == offer && refused,
            None => {
                dialing.failures.len() == offers
                    && dialing.failures.iter().all(|(.., refused)| *refused)
            }
        };
        if gone {
            let reason = match &dialing.broken {
                Some(broken) => format!(
                    "its process on host {} has ended ({broken}; then {place}: connection refused)",
                    self.cards[peer as usize].host
                ),
                None => self.unreachable(peer),
            };
            self.give_up(peer, &reason);
        }
    }

    /// What was tried, as a sentence.
    fn unreachable(&self, peer: u32) -> String {
        let card = &self.cards[peer as usize];
        let mut text = format!(
            "rank {peer} on host {} cannot be reached from rank {} on host {}",
            card.host, self.config.me, self.host
        );
        let dialing = self.sessions[peer as usize]
            .as_ref()
            .and_then(|session| session.dialing.as_ref());
        if let Some(dialing) = dialing {
            if let Some(broken) = &dialing.broken {
                text += &format!(" any more ({broken})");
            }
            let waited = (clock::monotonic() - dialing.since) as f64 / 1e9;
            text += &format!(", tried for {waited:.1} s");
            for (index, offer) in card.offers.iter().enumerate() {
                let failure = dialing.failures.iter().find(|(other, ..)| *other == index);
                match failure {
                    Some((_, failure, _)) => text += &format!("; {failure}"),
                    None => {
                        text += &format!("; {} ({}): no answer", offer.address, offer.interface);
                    }
                }
            }
        }
        if card.offers.is_empty() {
            text += "; it has no address that others could use";
        }
        text + "; check that the hosts reach each other there (ping, firewall)"
    }

    /// Attempts to reach the peer have come to their end.
    fn give_up(&mut self, peer: u32, reason: &str) {
        for number in self.candidates.numbers(|one| one.peer == Some(peer)) {
            self.candidates.remove(number);
        }
        match &self.sessions[peer as usize] {
            Some(session) if session.parting => self.leave(peer),
            _ => self.mark_lost(peer, reason.to_owned()),
        }
    }

    /// Attends to what happens by time: attempts that are due, patience that ends.
    pub(crate) fn tick(&mut self) {
        let now = clock::monotonic();
        for number in self.candidates.numbers(|one| one.until <= now) {
            if let Some(candidate) = self.candidates.remove(number)
                && candidate.offer.is_none()
            {
                self.strangers.count(Refusal::Slow);
            }
        }
        for peer in self.dialing.clone() {
            let Some(session) = &mut self.sessions[peer as usize] else {
                continue;
            };
            let Some(dialing) = &mut session.dialing else {
                continue;
            };
            if now >= dialing.until {
                // Somebody is there and has not proved the key: a peer that computes answers later.
                // While its kernel answers for it, patience has no end.
                let answered = session.link.is_some()
                    || !self
                        .candidates
                        .numbers(|one| {
                            one.peer == Some(peer) && !matches!(one.stage, Stage::Connecting(_))
                        })
                        .is_empty();
                if !answered {
                    let reason = self.unreachable(peer);
                    self.give_up(peer, &reason);
                    self.stirred += 1;
                }
                continue;
            }
            if now >= dialing.next {
                dialing.next = now + dialing.pause;
                dialing.pause = (dialing.pause * 2).min(PAUSES.1);
                let taken = session.link.is_some();
                // A call into nowhere is made anew after a while: the kernel's own repetitions become
                // rare.
                for number in self.candidates.numbers(|one| {
                    one.peer == Some(peer)
                        && matches!(one.stage, Stage::Connecting(_))
                        && now > one.since + STALE
                }) {
                    self.candidates.remove(number);
                }
                let waits = |one: &Candidate| {
                    one.peer == Some(peer) && matches!(one.stage, Stage::Waiting(_))
                };
                if taken || !self.candidates.numbers(waits).is_empty() {
                    continue;
                }
                self.call(peer);
            }
        }
        self.set_due();
    }

    /// Tells the bell when the next [`Self::tick`] is due.
    pub(crate) fn set_due(&mut self) {
        let sessions = &self.sessions;
        self.dialing.retain(
            |peer| matches!(&sessions[*peer as usize], Some(session) if session.dialing.is_some()),
        );
        let dialing = self.dialing.iter().filter_map(|peer| {
            let dialing = self.sessions[*peer as usize].as_ref()?.dialing.as_ref()?;
            Some(
                dialing
                    .next
                    .min(dialing.until.max(clock::monotonic() + PAUSES.1)),
            )
        });
        let candidates = self.candidates.all.iter().flatten().map(|one| one.until);
        let due = dialing.chain(candidates).min().unwrap_or(u64::MAX);
        self.bell.set_due(due);
    }

    fn watch_candidate(&mut self, number: u32, room: bool) {
        let Some(Some(candidate)) = self.candidates.all.get(number as usize) else {
            return;
        };
        let about = About::Candidate(number);
        let watched = match &candidate.stage {
            Stage::Connecting(socket) => self.bell.watch(socket, about, room),
            Stage::Shaking(socket, ..) => self.bell.watch(socket, about, room),
            Stage::Waiting(link) => self.bell.rewatch(&link.socket, about, room),
            Stage::Gone => Ok(()),
        };
        if watched.is_err() {
            self.candidates.remove(number);
        }
    }

    /// Takes those who have connected, some at a time.
    pub(crate) fn accept(&mut self, listener: u32) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(listener as usize) else {
                return;
            };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok(socket) = rustix::net::accept_with(&listener.socket, flags) else {
                return;
            };
            self.stirred += 1;
            prepare(&socket, self.config.patience);
            let crowd = self.candidates.numbers(|one| one.peer.is_none());
            if crowd.len() >= CROWD {
                let oldest = crowd.into_iter().min_by_key(|number| {
                    self.candidates.all[*number as usize]
                        .as_ref()
                        .map_or(0, |one| one.until)
                });
                if let Some(oldest) = oldest {
                    self.candidates.remove(oldest);
                    self.strangers.count(Refusal::Crowded);
                }
            }
            // Who it is is not known yet: the generation that we say is that of nobody.
            let hello = Hello {
                rank: self.config.me,
                target: self.config.me,
                generation: 0,
            };
            let handshake = Handshake::responder(&self.config.key, self.purpose, &hello.emit());
            let number = self.candidates.add(Candidate {
                peer: None,
                offer: None,
                generation: 0,
                stage: Stage::Shaking(socket, Box::new(handshake), Vec::new()),
                since: clock::monotonic(),
                until: after(PROOF),
                place: String::new(),
            });
            self.watch_candidate(number, false);
            // Its first bytes are often here already.
            self.attend(number);
        }
        self.set_due();
    }

    /// Something has happened to a candidate.
    pub(crate) fn attend(&mut self, number: u32) {
        let Some(mut candidate) = self.candidates.remove(number) else {
            return;
        };
        match std::mem::replace(&mut candidate.stage, Stage::Gone) {
            Stage::Connecting(socket) => self.attend_connecting(number, candidate, socket),
            Stage::Shaking(socket, handshake, out) => {
                self.attend_shaking(number, candidate, socket, (handshake, out));
            }
            Stage::Waiting(link) => self.attend_waiting(number, candidate, link),
            Stage::Gone => {}
        }
    }

    /// Puts a candidate back under its number.
    fn keep(&mut self, number: u32, candidate: Candidate) {
        if let Some(place) = self.candidates.all.get_mut(number as usize) {
            debug_assert!(place.is_none());
            *place = Some(candidate);
            self.candidates.count += 1;
        }
    }

    fn attend_connecting(&mut self, number: u32, mut candidate: Candidate, socket: OwnedFd) {
        let (Some(peer), Some(offer)) = (candidate.peer, candidate.offer) else {
            return;
        };
        let error = match sockopt::socket_error(&socket) {
            Ok(Ok(())) => None,
            Ok(Err(error)) | Err(error) => Some(error),
        };
        if let Some(error) = error {
            self.stirred += 1;
            self.failed(peer, offer, candidate.place, error);
            return;
        }
        // Not connected yet, if it has no other side.
        if rustix::net::getpeername(&socket).is_err() {
            candidate.stage = Stage::Connecting(socket);
            self.keep(number, candidate);
            return;
        }
        self.stirred += 1;
        let hello = self.hello(peer).emit();
        let mut handshake = Handshake::initiator(&self.config.key, self.purpose, &hello);
        let out = handshake.take_outgoing();
        self.attend_shaking(number, candidate, socket, (Box::new(handshake), out));
    }

    fn attend_shaking(
        &mut self,
        number: u32,
        mut candidate: Candidate,
        socket: OwnedFd,
        (mut handshake, mut out): (Box<Handshake>, Vec<u8>),
    ) {
        let accepted = candidate.offer.is_none();
        let refuse = |fabric: &mut Self, refusal: Refusal| {
            fabric.stirred += 1;
            if accepted {
                fabric.strangers.count(refusal);
            }
        };
        let mut done = None;
        loop {
            while !out.is_empty() {
                match socket::send(&socket, &[Part::Bytes(&out)]) {
                    Ok(Some(count)) => drop(out.drain(..count)),
                    Ok(None) => break,
                    Err(_) => return refuse(self, Refusal::Gone),
                }
            }
            if done.is_some() || !out.is_empty() {
                break;
            }
            let mut bytes = [0; FIRST];
            let wanted = handshake.wanted();
            let count = match socket::receive(&socket, Region::EMPTY, &mut bytes[..wanted]) {
                Ok(None) => break,
                Ok(Some(0)) => return refuse(self, Refusal::Gone),
                Ok(Some(count)) => count,
                Err(_) => return refuse(self, Refusal::Gone),
            };
            self.stirred += 1;
            match handshake.feed(&bytes[..count]) {
                Err(refusal) => return refuse(self, refusal),
                Ok((_, Step::More)) => out.extend(handshake.take_outgoing()),
                Ok((_, Step::Done(channel))) => {
                    out.extend(handshake.take_outgoing());
                    done = Some(channel);
                }
            }
        }
        match done {
            Some(channel) if out.is_empty() => {
                self.authenticated(number, candidate, socket, *channel);
            }
            // A socket that has just been made takes a few hundred bytes; one that does not is broken.
            Some(_) => refuse(self, Refusal::Gone),
            None => {
                let about = About::Candidate(number);
                let _ = self.bell.rewatch(&socket, about, !out.is_empty());
                candidate.stage = Stage::Shaking(socket, handshake, out);
                self.keep(number, candidate);
            }
        }
    }

    /// The other side has proved the key and said who it is.
    fn authenticated(
        &mut self,
        number: u32,
        mut candidate: Candidate,
        socket: OwnedFd,
        channel: Channel,
    ) {
        let accepted = candidate.offer.is_none();
        let hello = Hello::parse(&channel.hello).ok().filter(|hello| {
            let right = if accepted {
                hello.target == self.config.me && hello.rank != self.config.me
            } else {
                Some(hello.rank) == candidate.peer
            };
            right && hello.rank < self.config.peers
        });
        let Some(hello) = hello else {
            // A member, but not the one: an address that means another process here.
            if accepted {
                self.strangers.count(Refusal::Malformed);
            } else if let (Some(peer), Some(offer)) = (candidate.peer, candidate.offer) {
                self.failed(peer, offer, candidate.place, Errno::ADDRNOTAVAIL);
            }
            return;
        };
        let peer = hello.rank;
        if self.gone.contains_key(&peer) {
            return;
        }
        if self.sessions[peer as usize].is_none() {
            self.sessions[peer as usize] = Some(Box::new(Session::new()));
        }
        candidate.peer = Some(peer);
        candidate.until = u64::MAX;
        candidate.generation = hello.generation;
        let mut link = Box::new(Link::new(socket, channel, self.config.seal));
        let _ = self
            .bell
            .rewatch(&link.socket, About::Candidate(number), false);
        if !self.decides(peer) {
            if accepted {
                // Only we know which connection we have last used: the caller is told first of all.
                link.urgent = uncounted(Kind::Resume, self.hello(peer).generation, 0);
            }
            candidate.stage = Stage::Waiting(link);
            self.keep(number, candidate);
            self.flush_candidate(number);
            return;
        }
        if !accepted {
            // The called side says in a first frame which connection it has last used.
            candidate.generation = u32::MAX;
        }
        candidate.stage = Stage::Waiting(link);
        self.keep(number, candidate);
        self.decide(peer);
    }

    /// Sends what a waiting candidate has to say.
    fn flush_candidate(&mut self, number: u32) {
        let Some(Some(candidate)) = self.candidates.all.get_mut(number as usize) else {
            return;
        };
        if let Stage::Waiting(link) = &mut candidate.stage
            && link.flush_urgent().is_err()
        {
            self.candidates.remove(number);
        }
    }

    /// The decider looks at its candidates for a peer and takes one if it needs one.
    fn decide(&mut self, peer: u32) {
        let Some(session) = &self.sessions[peer as usize] else {
            return;
        };
        if session.left {
            return;
        }
        let generation = session.generation;
        let live = session.is_live();
        let has_link = session.link.is_some();
        let ready = self.candidates.numbers(|one| {
            one.peer == Some(peer)
                && one.generation != u32::MAX
                && matches!(one.stage, Stage::Waiting(_))
        });
        let Some(number) = ready.into_iter().find(|number| {
            let said = self.candidates.all[*number as usize]
                .as_ref()
                .map_or(0, |one| one.generation);
            // It has used the connection that we believe in, and calls again: that one is lost.
            !has_link || live && said >= generation
        }) else {
            return;
        };
        if has_link {
            self.drop_link(peer);
        }
        let Some(candidate) = self.candidates.remove(number) else {
            return;
        };
        let Stage::Waiting(mut link) = candidate.stage else {
            return;
        };
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        session.generation += 1;
        session.agreed = candidate.offer.or(session.agreed);
        link.urgent = uncounted(Kind::Select, session.generation, session.processed);
        let watched = self.bell.rewatch(&link.socket, About::Peer(peer), false);
        session.link = Some(link);
        if watched.is_err() {
            self.break_link(peer, "it cannot be watched", false);
            return;
        }
        self.note_live(peer);
        self.pump(peer);
    }

    /// Something has come on a connection that waits to be taken.
    fn attend_waiting(&mut self, number: u32, mut candidate: Candidate, mut link: Box<Link>) {
        let Some(peer) = candidate.peer else {
            return;
        };
        match link.read() {
            Ok(Read::Nothing) => {}
            Ok(Read::Some { .. }) => self.stirred += 1,
            Ok(Read::Closed) | Err(_) => {
                // The other side has taken another one, or is gone; whoever needs one calls again.
                self.stirred += 1;
                if let (Some(session), Some(offer)) =
                    (&mut self.sessions[peer as usize], candidate.offer)
                    && let Some(dialing) = &mut session.dialing
                {
                    let text = format!("{}: closed by the other side", candidate.place);
                    dialing.failures.retain(|(other, ..)| *other != offer);
                    dialing.failures.push((offer, text, false));
                }
                return;
            }
        }
        match link.next() {
            Ok(Found::Nothing) => {
                candidate.stage = Stage::Waiting(link);
                self.keep(number, candidate);
            }
            Ok(Found::Frame(header)) => {
                let generation = generation_of(&link, &header);
                link.consume(&header);
                match header.kind {
                    Kind::Resume if self.decides(peer) && candidate.generation == u32::MAX => {
                        candidate.generation = generation;
                        candidate.stage = Stage::Waiting(link);
                        self.keep(number, candidate);
                        self.decide(peer);
                    }
                    Kind::Select if !self.decides(peer) => {
                        self.adopt(peer, candidate.offer, link, generation, header.processed);
                    }
                    _ => self.strangers.count(Refusal::Malformed),
                }
            }
            _ => self.strangers.count(Refusal::Malformed),
        }
    }

    /// The decider has taken this connection: goes on with it.
    fn adopt(
        &mut self,
        peer: u32,
        offer: Option<usize>,
        mut link: Box<Link>,
        generation: u32,
        processed: u64,
    ) {
        self.drop_link(peer);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        if session.left || generation <= session.generation {
            return;
        }
        if session.out.resume(processed, session.processed).is_err() {
            self.mark_lost(peer, "it says that it has what was never sent".into());
            return;
        }
        session.generation = generation;
        session.agreed = offer.or(session.agreed);
        link.urgent = uncounted(Kind::Resume, generation, session.processed);
        link.confirmed = true;
        let watched = self.bell.rewatch(&link.socket, About::Peer(peer), false);
        session.link = Some(link);
        if watched.is_err() {
            self.break_link(peer, "it cannot be watched", false);
            return;
        }
        self.note_live(peer);
        self.settled(peer);
        self.pump(peer);
    }

    /// Both sides have agreed: the other candidates go, attempts end.
    pub(crate) fn settled(&mut self, peer: u32) {
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.dialing = None;
        }
        for number in self.candidates.numbers(|one| one.peer == Some(peer)) {
            self.candidates.remove(number);
        }
        self.stirred += 1;
        self.set_due();
    }

    fn note_live(&mut self, peer: u32) {
        if !self.live.contains(&peer) {
            self.live.push(peer);
        }
    }

    /// Lets go of the present connection to a peer; what it carried is sent again by the next one.
    fn drop_link(&mut self, peer: u32) {
        self.live.retain(|other| *other != peer);
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.link = None;
        }
    }

    /// The connection to a peer is broken: reaches it anew, or finds out that it cannot.
    /// `silent`: its host has answered nothing for the set time, so there is no patience left.
    #[cold]
    pub(crate) fn break_link(&mut self, peer: u32, what: &str, silent: bool) {
        self.stirred += 1;
        self.drop_link(peer);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        if session.left {
            return;
        }
        if session.parting {
            self.leave(peer);
            return;
        }
        if silent {
            let reason = format!(
                "host {} has not answered for {} s ({what})",
                self.cards[peer as usize].host,
                self.config.patience.as_secs()
            );
            self.mark_lost(peer, reason);
            return;
        }
        if session.dialing.is_none() {
            self.dial(peer, Some(what.to_owned()));
        }
        if self.decides(peer) {
            self.decide(peer);
        }
    }
}

/// Whether an error of a connection means that the other host was silent for the set time: then the
/// kernel says so, or names what it last heard of the path.
pub(crate) fn is_silence(error: &std::io::Error) -> bool {
    let silent = [Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::NETUNREACH];
    let number = weft_sys::error::errno(error);
    silent.iter().any(|one| Some(one.raw_os_error()) == number)
}

/// The generation that a `Select` or `Resume` names; 0 of others.
pub(crate) fn generation_of(link: &Link, header: &Header) -> u32 {
    let body = link.body(header).first_chunk();
    body.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A frame that is not counted.
fn uncounted(kind: Kind, generation: u32, processed: u64) -> Vec<u8> {
    let header = Header {
        kind,
        length: 4,
        processed,
    };
    let mut bytes = Vec::with_capacity(HEADER + 4);
    bytes.extend(header.emit());
    bytes.extend(generation.to_le_bytes());
    bytes
}
