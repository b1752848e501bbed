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
//! Connections that do not come to that within ten seconds are dropped; of more than 64 at a time the
//! oldest are. All are counted.
//!
//! | file | what |
//! |---|---|
//! | `sockets` | sockets as connections need them |
//! | `calling` | the one who calls: attempts, pauses, what is said when all fail |
//! | `proving` | the one who is called, and the handshake |
//! | `choosing` | which connection is taken, and what follows when it breaks |

mod calling;
mod choosing;
mod proving;
mod sockets;

use weft_secure::Handshake;

use crate::bell::About;
use crate::endpoint::Tcp;
use crate::link::Link;
use crate::network::{Network, Watch};
use crate::wire::Hello;

pub(crate) use choosing::generation_of;
pub(crate) use sockets::{fit, is_silence, listen, prepare, stream};

/// A connection that is not chosen yet.
pub(crate) struct Candidate<S> {
    /// Whom it is to, once that is known.
    peer: Option<u32>,
    /// Which of the peer's offers was called; `None`: it has called us.
    offer: Option<usize>,
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
}

impl<S> Default for Candidates<S> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            count: 0,
        }
    }
}

impl<S> Candidates<S> {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, candidate: Candidate<S>) -> u32 {
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

    fn remove(&mut self, index: u32) -> Option<Candidate<S>> {
        let found = self.all.get_mut(index as usize)?.take()?;
        self.count -= 1;
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
        if let Some(place) = self.candidates.all.get_mut(number as usize) {
            debug_assert!(place.is_none());
            *place = Some(candidate);
            self.candidates.count += 1;
        }
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
}
