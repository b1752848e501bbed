//! The one who is called, and the handshake on both sides: nothing is believed before it has ended.

use std::time::Duration;

use rustix::io::Errno;
use weft_secure::{Channel, FIRST, Handshake, Refusal, SILENT, Source, Step};
use weft_sys::Region;
use weft_sys::socket::{NotAccepted, Part};

use super::select::uncounted;
use super::{Candidate, Stage};
use crate::endpoint::Tcp;
use crate::link::Link;
use crate::network::{EventSource, Network, Poller, Stream};
use crate::session::{Presence, Session};
use crate::wire::{FrameKind, Hello};

/// How long somebody who has connected may take to prove the key, while we look.
const PROOF: Duration = Duration::from_secs(10);

/// Connections accepted in one look: strangers must not keep the job from its work.
const ACCEPTS: usize = 8;

/// How long nobody is accepted when no descriptor is left, and none that a stranger holds.
const REST: Duration = Duration::from_millis(100);

/// Most connections of one peer that wait to be taken, for each address at which it may call.
const SPARES: usize = 16;

impl<N: Network> Tcp<N> {
    /// Takes those who have connected, some at a time.
    pub(crate) fn accept(&mut self, listener: u32) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(listener as usize) else {
                return;
            };
            let (socket, source) = match self.network.accept(&listener.socket) {
                Ok(came) => came,
                Err(NotAccepted::Nobody) => break,
                Err(NotAccepted::Lost) => continue,
                Err(NotAccepted::Exhausted) => {
                    self.progressed += 1;
                    if self.make_room() {
                        continue;
                    }
                    self.rest();
                    break;
                }
            };
            self.progressed += 1;
            let callers = self.callers();
            if self.candidates.waiting(false).count() >= SILENT.max(callers) {
                self.drop_one(false);
            }
            self.admit(socket, source);
            if self.candidates.waiting(true).count() > SILENT + callers {
                self.drop_one(true);
            }
        }
        self.set_due();
    }

    /// How many connections members may make at the same moment: each calls every address.
    fn callers(&self) -> usize {
        self.config.peers as usize * self.listeners.len()
    }

    /// Somebody has connected.
    fn admit(&mut self, socket: N::Stream, source: Source) {
        // Who it is is not known yet: the generation that we say is that of nobody.
        let hello = Hello {
            rank: self.config.me,
            target: self.config.me,
            generation: 0,
        };
        let handshake = Handshake::responder(&self.config.key, self.purpose, &hello.emit())
            .refusing(self.candidates.heard.clone());
        let number = self.candidates.add(Candidate {
            peer: None,
            offer: None,
            source,
            generation: 0,
            stage: Stage::Shaking(socket, Box::new(handshake), Vec::new()),
            since: self.network.now(),
            until: self.network.after(PROOF),
            place: String::new(),
        });
        // Its first bytes are often here already; who is refused by them needs no watching.
        self.attend(number);
        if let Some(Some(candidate)) = self.candidates.all.get(number as usize) {
            let room = matches!(&candidate.stage, Stage::Shaking(.., out) if !out.is_empty());
            self.watch_candidate(number, room);
        }
    }

    /// Drops one of those who have not proved the key: of those who were answered, or of those who were not.
    /// What it has said may be here and not read yet: then it is heard, and another one goes. False: all were
    /// heard, and none is left.
    fn drop_one(&mut self, answered: bool) -> bool {
        loop {
            let mut waiting: Vec<_> = self.candidates.waiting(answered).collect();
            waiting.sort_unstable_by_key(|(number, one)| (one.since, *number));
            let waiting: Vec<_> = waiting
                .into_iter()
                .map(|(number, one)| (number, one.source))
                .collect();
            let Some(victim) = self.candidates.eviction.victim(&waiting) else {
                return false;
            };
            self.attend(victim);
            let same = |(number, _): (u32, &Candidate<N::Stream>)| number == victim;
            if self.candidates.waiting(answered).any(same) {
                self.candidates.remove(victim);
                self.refusals.count(Refusal::Crowded);
                return true;
            }
            // It was refused and is gone, or has come further.
            if !matches!(self.candidates.all.get(victim as usize), Some(Some(_))) {
                return true;
            }
        }
    }

    /// Drops a connection of somebody who has not proved the key, so that its descriptor is free. False: there
    /// is none.
    pub(super) fn make_room(&mut self) -> bool {
        self.drop_one(false) || self.drop_one(true)
    }

    /// Accepts nobody for a while: those who wait keep the listeners readable, and nobody could sleep.
    fn rest(&mut self) {
        for listener in &self.listeners {
            self.bell.unwatch(&listener.socket);
        }
        self.candidates.rests_until = Some(self.network.after(REST));
    }

    /// Accepts again, once the rest is over.
    pub(super) fn listen_again(&mut self, now: u64) {
        if self.candidates.rests_until.is_none_or(|until| now < until) {
            return;
        }
        self.candidates.rests_until = None;
        let mut watched = true;
        for (index, listener) in self.listeners.iter().enumerate() {
            let about = EventSource::Listener(index as u32);
            watched &= self.bell.watch(&listener.socket, about, false).is_ok();
        }
        if !watched {
            self.rest();
        }
    }

    pub(super) fn attend_connecting(
        &mut self,
        number: u32,
        mut candidate: Candidate<N::Stream>,
        socket: N::Stream,
    ) {
        let (Some(peer), Some(offer)) = (candidate.peer, candidate.offer) else {
            return;
        };
        match socket.is_connected() {
            Ok(true) => {}
            Ok(false) => {
                candidate.stage = Stage::Connecting(socket);
                self.keep(number, candidate);
                return;
            }
            Err(error) => {
                self.progressed += 1;
                self.failed(peer, offer, candidate.place, &error);
                return;
            }
        }
        self.progressed += 1;
        let hello = self.hello(peer).emit();
        let mut handshake = Handshake::initiator(&self.config.key, self.purpose, &hello);
        let out = handshake.take_outgoing();
        self.attend_shaking(number, candidate, socket, (Box::new(handshake), out));
    }

    pub(super) fn attend_shaking(
        &mut self,
        number: u32,
        mut candidate: Candidate<N::Stream>,
        socket: N::Stream,
        (mut handshake, mut out): (Box<Handshake>, Vec<u8>),
    ) {
        let called = candidate.peer.zip(candidate.offer);
        let place = candidate.place.clone();
        let refuse = |fabric: &mut Self, refusal: Refusal| {
            fabric.progressed += 1;
            match called {
                Some((peer, offer)) => {
                    fabric.note_failure(peer, offer, format!("{place}: {refusal}"), false);
                }
                None => fabric.refusals.count(refusal),
            }
        };
        let mut done = None;
        let waited_for_room = !out.is_empty();
        loop {
            while !out.is_empty() {
                match socket.send(&[Part::Bytes(&out)]) {
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
            let count = match socket.receive(Region::EMPTY, &mut bytes[..wanted]) {
                Ok(None) => break,
                Ok(Some(0)) => return refuse(self, Refusal::Gone),
                Ok(Some(count)) => count,
                Err(_) => return refuse(self, Refusal::Gone),
            };
            self.progressed += 1;
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
                // A connection that was called is watched for room until it is there.
                if waited_for_room || !out.is_empty() {
                    let about = EventSource::Candidate(number);
                    let _ = self.bell.rewatch(&socket, about, !out.is_empty());
                }
                candidate.stage = Stage::Shaking(socket, handshake, out);
                self.keep(number, candidate);
            }
        }
    }

    /// The other side has proved the key and said who it is.
    pub(super) fn authenticated(
        &mut self,
        number: u32,
        mut candidate: Candidate<N::Stream>,
        socket: N::Stream,
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
                self.refusals.count(Refusal::Malformed);
            } else if let (Some(peer), Some(offer)) = (candidate.peer, candidate.offer) {
                self.failed(peer, offer, candidate.place, &Errno::ADDRNOTAVAIL.into());
            }
            return;
        };
        let peer = hello.rank;
        let left = |session: &Session<N::Stream>| session.presence == Presence::Left;
        if self.gone.contains_key(&peer)
            || self.sessions[peer as usize].as_deref().is_some_and(left)
        {
            return;
        }
        if self.sessions[peer as usize].is_none() {
            self.sessions[peer as usize] = Some(Box::new(Session::new()));
        }
        if accepted {
            self.limit_spares(peer);
        }
        candidate.peer = Some(peer);
        candidate.until = u64::MAX;
        candidate.generation = hello.generation;
        socket.fit();
        let mut link = Box::new(Link::new(socket, channel, self.config.seal));
        let _ = self
            .bell
            .rewatch(&link.socket, EventSource::Candidate(number), false);
        if !self.decides(peer) {
            if accepted {
                // Only we know which connection we have last used: the caller is told first of all.
                link.urgent = uncounted(FrameKind::Resume, self.hello(peer).generation, 0);
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

    /// A peer that calls without end has only so many connections here: the oldest that waits goes.
    fn limit_spares(&mut self, peer: u32) {
        let waits = |one: &Candidate<N::Stream>| {
            one.peer == Some(peer) && matches!(one.stage, Stage::Waiting(_))
        };
        let spares = self.candidates.numbers(waits);
        if spares.len() >= SPARES * self.listeners.len() {
            let since = |number: &u32| {
                let one = self.candidates.all[*number as usize].as_ref();
                one.map_or(0, |one| one.since)
            };
            if let Some(oldest) = spares.into_iter().min_by_key(since) {
                self.candidates.remove(oldest);
            }
        }
    }
}
