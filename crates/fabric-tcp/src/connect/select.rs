//! Which connection of a pair is taken, by its decider; how the other side follows; and what is done
//! when it breaks.

use weft_secure::Refusal;

use super::{Candidate, Stage};
use crate::endpoint::Tcp;
use crate::link::{Found, Link, Read};
use crate::network::{EventSource, Network, Poller, Stream};
use crate::session::Presence;
use crate::wire::{FrameKind, HEADER, Header};

impl<N: Network> Tcp<N> {
    /// Sends what a waiting candidate has to say.
    pub(super) fn flush_candidate(&mut self, number: u32) {
        let Some(Some(candidate)) = self.candidates.all.get_mut(number as usize) else {
            return;
        };
        if let Stage::Waiting(link) = &mut candidate.stage
            && link.flush_urgent().is_err()
        {
            let peer = candidate.peer;
            self.candidates.remove(number);
            self.missed(peer);
        }
    }

    /// A connection that was waited for has come to nothing. Whoever needs one calls.
    fn missed(&mut self, peer: Option<u32>) {
        if let Some(peer) = peer
            && let Some(session) = &self.sessions[peer as usize]
            && session.is_needed()
        {
            self.reach(peer);
        }
    }

    /// Whether a call of this peer waits to be taken.
    pub(crate) fn is_called_by(&self, peer: u32) -> bool {
        let waits = |one: &Candidate<N::Stream>| {
            one.peer == Some(peer) && matches!(one.stage, Stage::Waiting(_))
        };
        !self.candidates.numbers(waits).is_empty()
    }

    /// The decider looks at its candidates for a peer and takes one if it needs one.
    pub(super) fn decide(&mut self, peer: u32) {
        let Some(session) = &self.sessions[peer as usize] else {
            return;
        };
        if session.presence == Presence::Left {
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
        link.urgent = uncounted(FrameKind::Select, session.generation, session.processed);
        if !self.install(peer, link) {
            return;
        }
        self.pump(peer);
    }

    /// From now on this connection is the one with a peer. False, and it is broken, if it cannot be watched.
    fn install(&mut self, peer: u32, link: Box<Link<N::Stream>>) -> bool {
        let watched = self
            .bell
            .rewatch(&link.socket, EventSource::Peer(peer), false);
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.link = Some(link);
            session.presence = Presence::Here;
        }
        if watched.is_err() {
            self.break_link(peer, "it cannot be watched", false);
            return false;
        }
        self.note_live(peer);
        true
    }

    /// Something has come on a connection that waits to be taken.
    pub(super) fn attend_waiting(
        &mut self,
        number: u32,
        mut candidate: Candidate<N::Stream>,
        mut link: Box<Link<N::Stream>>,
    ) {
        let Some(peer) = candidate.peer else {
            return;
        };
        match link.read() {
            Ok(Read::Nothing) => {}
            Ok(Read::Some { .. }) => self.progressed += 1,
            Ok(Read::Closed) | Err(_) => {
                // The other side has taken another one, or is gone; whoever needs one calls again.
                self.progressed += 1;
                if let Some(offer) = candidate.offer {
                    let text = format!("{}: closed by the other side", candidate.place);
                    self.note_failure(peer, offer, text, false);
                }
                self.missed(Some(peer));
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
                    FrameKind::Resume if self.decides(peer) && candidate.generation == u32::MAX => {
                        candidate.generation = generation;
                        candidate.stage = Stage::Waiting(link);
                        self.keep(number, candidate);
                        self.decide(peer);
                    }
                    FrameKind::Select if !self.decides(peer) => {
                        self.adopt(peer, candidate.offer, link, generation, header.processed);
                    }
                    _ => self.refusals.count(Refusal::Malformed),
                }
                self.missed(Some(peer));
            }
            _ => {
                self.refusals.count(Refusal::Malformed);
                self.missed(Some(peer));
            }
        }
    }

    /// The decider has taken this connection: goes on with it.
    pub(super) fn adopt(
        &mut self,
        peer: u32,
        offer: Option<usize>,
        mut link: Box<Link<N::Stream>>,
        generation: u32,
        processed: u64,
    ) {
        self.drop_link(peer);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        if session.presence == Presence::Left || generation <= session.generation {
            return;
        }
        if session.out.resume(processed, session.processed).is_err() {
            self.mark_lost(peer, "it says that it has what was never sent".into());
            return;
        }
        session.generation = generation;
        session.agreed = offer.or(session.agreed);
        link.urgent = uncounted(FrameKind::Resume, generation, session.processed);
        link.confirmed = true;
        if !self.install(peer, link) {
            return;
        }
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
        self.progressed += 1;
        self.set_due();
    }

    pub(super) fn note_live(&mut self, peer: u32) {
        if !self.live.contains(&peer) {
            self.live.push(peer);
        }
    }

    /// Lets go of the present connection to a peer; what it carried is sent again by the next one.
    pub(super) fn drop_link(&mut self, peer: u32) {
        self.live.retain(|other| *other != peer);
        if let Some(session) = &mut self.sessions[peer as usize] {
            session.link = None;
        }
    }

    /// The connection to a peer is broken: reaches it anew, or finds out that it cannot.
    /// `silent`: its host has answered nothing for the set time, so there is no patience left.
    #[cold]
    pub(crate) fn break_link(&mut self, peer: u32, what: &str, silent: bool) {
        self.progressed += 1;
        self.drop_link(peer);
        let Some(session) = &mut self.sessions[peer as usize] else {
            return;
        };
        if session.presence == Presence::Left {
            return;
        }
        if session.goodbye_received && silent {
            self.leave(peer);
            return;
        }
        if session.goodbye_received && session.is_at_rest() {
            // It may have ended. If it goes on, it calls; if we do, a post does.
            session.presence = Presence::Away;
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

/// The generation that a `Select` or `Resume` names; 0 of others.
pub(crate) fn generation_of<S: Stream>(link: &Link<S>, header: &Header) -> u32 {
    let body = link.body(header).first_chunk();
    body.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A frame that is not counted.
pub(super) fn uncounted(kind: FrameKind, generation: u32, processed: u64) -> Vec<u8> {
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
