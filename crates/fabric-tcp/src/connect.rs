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
//! Connections that do not come to that within ten seconds are dropped, and some earlier when there are too
//! many: [`weft_secure::EvictionPolicy`] says which. All are counted. When the process has no descriptor left, those
//! of strangers go first, then nobody is accepted for a while.
//!
//! | file | what |
//! |---|---|
//! | `sockets` | sockets as connections need them |
//! | `dial` | the one who calls: attempts, pauses, what is said when all fail |
//! | `handshake` | the one who is called, and the handshake |
//! | `select` | which connection is taken, and what follows when it breaks |

mod dial;
mod handshake;
mod select;
mod sockets;

use weft_secure::{EvictionPolicy, Handshake, Heard, Source};

use crate::endpoint::Tcp;
use crate::link::Link;
use crate::network::{EventSource, Network, Poller};
use crate::wire::Hello;

pub(crate) use select::generation_of;
pub(crate) use sockets::{fit, is_silence, listen, prepare, stream};

/// A connection that is not chosen yet.
pub(crate) struct Candidate<S> {
    /// Whom it is to, once that is known.
    peer: Option<u32>,
    /// Which of the peer's offers was called; `None`: it has called us.
    offer: Option<usize>,
    /// Where it comes from, if it has called us.
    source: Source,
    /// What the other side said of itself.
    generation: u32,
    stage: Stage<S>,
    since: u64,
    until: u64,
    place: String,
}

enum Stage<S> {
    Connecting(S),
    Shaking(S, Box<Handshake>, Vec<u8>),
    /// Authenticated: waits for the decider, or is a spare of it.
    Waiting(Box<Link<S>>),
    /// Being moved.
    Gone,
}

/// All of them, by number.
pub(crate) struct Candidates<S> {
    all: Vec<Option<Candidate<S>>>,
    count: usize,
    /// Of them those of whom it is known who they are, or who is called.
    expected: usize,
    /// When one of them, or of the attempts, is to be looked after.
    due: u64,
    /// What members have said first: who says it again is a recording.
    heard: Heard,
    /// Draws who has to go when there are too many.
    pub eviction: EvictionPolicy,
    /// No descriptor was left: when to accept again.
    rests_until: Option<u64>,
}

impl<S> Default for Candidates<S> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            count: 0,
            expected: 0,
            due: u64::MAX,
            heard: Heard::default(),
            eviction: EvictionPolicy::new(),
            rests_until: None,
        }
    }
}

impl<S> Candidates<S> {
    /// Whether there is nothing that time could change.
    pub fn is_quiet(&self) -> bool {
        self.count == 0 && self.rests_until.is_none()
    }

    /// Whether one of them may become the connection to a peer. Others are strangers until they prove the
    /// key: the job does not look more often, and so does not become slower, because they are there.
    pub fn has_expected(&self) -> bool {
        self.expected > 0
    }

    /// Those who have called and not proved the key: who were answered, or who were not.
    fn waiting(&self, answered: bool) -> impl Iterator<Item = (u32, &Candidate<S>)> {
        let all = self.all.iter().enumerate();
        all.filter_map(move |(number, one)| {
            let one = one.as_ref().filter(|one| one.peer.is_none())?;
            let Stage::Shaking(_, handshake, _) = &one.stage else {
                return None;
            };
            (handshake.is_answered() == answered).then_some((number as u32, one))
        })
    }

    fn count(&mut self, candidate: &Candidate<S>, more: bool) {
        let change = |count: &mut usize| *count = if more { *count + 1 } else { *count - 1 };
        change(&mut self.count);
        if candidate.peer.is_some() {
            change(&mut self.expected);
        }
    }

    fn add(&mut self, candidate: Candidate<S>) -> u32 {
        self.count(&candidate, true);
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

    fn remove(&mut self, index: u32) -> Option<Candidate<S>> {
        let found = self.all.get_mut(index as usize)?.take()?;
        self.count(&found, false);
        Some(found)
    }

    fn numbers(&self, which: impl Fn(&Candidate<S>) -> bool) -> Vec<u32> {
        let there = |(index, one): (usize, &Option<Candidate<S>>)| {
            one.as_ref().filter(|one| which(one)).map(|_| index as u32)
        };
        self.all.iter().enumerate().filter_map(there).collect()
    }
}

impl<N: Network> Tcp<N> {
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
    fn keep(&mut self, number: u32, candidate: Candidate<N::Stream>) {
        if (number as usize) < self.candidates.all.len() {
            self.candidates.count(&candidate, true);
            let before = self.candidates.all[number as usize].replace(candidate);
            debug_assert!(before.is_none());
        }
    }

    fn watch_candidate(&mut self, number: u32, room: bool) {
        let Some(Some(candidate)) = self.candidates.all.get(number as usize) else {
            return;
        };
        let about = EventSource::Candidate(number);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::conformance::Inbox;
    use weft_fabric::{Fabric, HEAD, Peer, Posted};

    /// Somebody who connects and says nothing must not make each look of the job a look at everything.
    #[test]
    fn a_stranger_is_not_expected_and_a_peer_is() {
        let mut pair = Tcp::group(2, |_| ()).expect("loopback is there");
        let mut sinks = [Inbox::default(), Inbox::default()];
        let address = pair[0].cards[1].offers[0].address;
        let stranger = std::net::TcpStream::connect(address).expect("rank 1 listens");
        let listener = &mut pair[1];
        while listener.candidates.is_quiet() {
            listener.poll(&mut sinks[1], 16);
        }
        assert!(!listener.candidates.has_expected());
        assert_eq!(listener.candidates.waiting(false).count(), 1);
        assert!(!listener.is_busy());
        let sent = pair[0].try_send(Peer(1), &[7; HEAD], &[]);
        assert_eq!(sent, Ok(Posted::Done));
        assert!(pair[0].candidates.has_expected(), "a call is under way");
        while sinks[1].messages() == 0 {
            for (one, sink) in pair.iter_mut().zip(&mut sinks) {
                one.poll(sink, 16);
            }
        }
        // The call has become the connection; the stranger is there yet, and counted when it goes.
        let listener = &mut pair[1];
        assert!(!listener.candidates.has_expected());
        assert_eq!(listener.candidates.waiting(false).count(), 1);
        drop(stranger);
        while !listener.candidates.is_quiet() {
            listener.poll(&mut sinks[1], 16);
        }
        assert_eq!(listener.refusals.all(), 1);
    }
}
