//! Candidates: connections that are not chosen yet, by number.
//!
//! ```text
//!   dialled  ─► Connecting ─► Authenticating ─► Waiting: for the decider, or as a spare of it
//!   accepted ───────────────► Authenticating ─►
//! ```
//!
//! This module reads what arrives on a candidate, and reports what has [happened](Happened) to it; the connector decides what follows. A
//! candidate is [taken](Candidates::take) out while something happens to it, and [put back](Candidates::put_back) under its number if it
//! stays.
//!
//! Candidates that are dialled, or have proved the key, are *expected*. The others are unauthenticated: they do not
//! make the job look more often, and so do not slow it down.

use std::io;

use weft_secure::{Channel, EvictionPolicy, Refusal, Source};

use super::handshake::{Advance, Authenticating, Identity};
use crate::link::{Found, Link, Read};
use crate::network::Stream;
use crate::wire::{self, FrameKind, Hello};

/// A connection that is not chosen yet.
pub struct Candidate<S> {
    /// Who has called whom.
    pub call: Call,
    /// Its stage.
    pub stage: Stage<S>,
}

/// Who has called whom.
pub struct Call {
    /// The peer, once it is known.
    pub peer: Option<u32>,
    /// Which of the peer's addresses was dialled; `None`: it was accepted.
    pub offer: Option<usize>,
    /// Where it comes from, if it was accepted.
    pub source: Source,
    /// The connection of the pair that the other side last used, once it has said so.
    pub generation: Option<u32>,
    /// When it was made, by the clock of the network.
    pub since: u64,
    /// When it is dropped; `u64::MAX`: never.
    pub until: u64,
    /// The address that was dialled, for people.
    pub address: String,
}

impl Call {
    /// This rank dials a peer at one of its addresses.
    pub fn dialled(peer: u32, offer: usize, address: String, now: u64) -> Self {
        Self {
            peer: Some(peer),
            offer: Some(offer),
            source: Source::LOCAL,
            generation: None,
            since: now,
            until: u64::MAX,
            address,
        }
    }

    /// The peer and the address that were dialled; `None`: it was accepted.
    pub fn dialled_address(&self) -> Option<(u32, usize)> {
        self.peer.zip(self.offer)
    }

    /// Somebody has called, and must prove the key until `until`.
    pub fn accepted(source: Source, now: u64, until: u64) -> Self {
        Self {
            peer: None,
            offer: None,
            source,
            generation: None,
            since: now,
            until,
            address: String::new(),
        }
    }
}

/// The stage of a candidate.
pub enum Stage<S> {
    /// Dialled, and not answered.
    Connecting(S),
    /// The handshake is under way.
    Authenticating(Authenticating<S>),
    /// Authenticated: waits for the decider, or is the decider's spare.
    Waiting(Box<Link<S>>),
}

impl<S> Candidate<S> {
    /// `Some` if it was accepted and has not proved the key: whether its first message was answered.
    fn unauthenticated(&self) -> Option<bool> {
        match &self.stage {
            Stage::Authenticating(it) if self.call.peer.is_none() => Some(it.is_answered()),
            _ => None,
        }
    }

    /// Whether it is authenticated, and to this peer.
    pub fn waits_for(&self, peer: u32) -> bool {
        self.call.peer == Some(peer) && matches!(self.stage, Stage::Waiting(_))
    }

    /// Whether it was dialled to this peer and is not answered.
    pub fn is_connecting_to(&self, peer: u32) -> bool {
        self.call.peer == Some(peer) && matches!(self.stage, Stage::Connecting(_))
    }
}

/// An event of a candidate. A candidate that neither goes on nor is handed out is dropped.
#[must_use]
pub enum Happened<S> {
    /// Nothing that concerns others: it is to be [put back](Candidates::put_back). `watch`: whether to watch
    /// for room, if that has changed.
    Nothing {
        candidate: Candidate<S>,
        watch: Option<bool>,
    },
    /// The address that was dialled does not work.
    Failed(Call, io::Error),
    /// The handshake has failed.
    Refused(Call, Refusal),
    /// The other side has proved the key, on this stream.
    Authenticated(Call, S, Box<Channel>),
    /// The other side wants no connection: it says that it is absent.
    Noticed(Hello),
    /// It has waited, and the other side has closed it.
    Closed(Call),
    /// It has waited, and the other side has said which connection this is, or which it last used.
    Said(Call, Box<Link<S>>, Said),
    /// It has waited, and something other than such a frame has come.
    Malformed(Call),
}

/// A frame that came on a candidate that waits.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Any: which are expected is decided above.
    pub kind: FrameKind,
    /// The generation in its body; 0 in other frames.
    pub generation: u32,
    /// Counted frames that the sender has processed.
    pub processed: u64,
}

impl<S: Stream> Candidate<S> {
    /// Sends and reads what it can, and reports what has happened. `known` gives, for a peer, the connection of the
    /// pair that this rank last used, and the incarnation that it wants. `progressed` grows by what came.
    pub fn step(
        self,
        identity: &Identity,
        known: impl FnOnce(u32) -> (u32, u32),
        progressed: &mut usize,
    ) -> Happened<S> {
        let Self { call, stage } = self;
        match stage {
            Stage::Connecting(socket) => match (socket.is_connected(), call.peer) {
                (Ok(true), Some(peer)) => {
                    *progressed += 1;
                    let (generation, incarnation) = known(peer);
                    let it = identity.initiator(socket, (peer, incarnation), generation);
                    call.authenticate(it, progressed)
                }
                (Ok(_), _) => Happened::Nothing {
                    candidate: Self {
                        call,
                        stage: Stage::Connecting(socket),
                    },
                    watch: None,
                },
                (Err(error), _) => {
                    *progressed += 1;
                    Happened::Failed(call, error)
                }
            },
            Stage::Authenticating(it) => call.authenticate(it, progressed),
            Stage::Waiting(link) => call.wait(link, progressed),
        }
    }
}

impl Call {
    fn authenticate<S: Stream>(
        self,
        mut it: Authenticating<S>,
        progressed: &mut usize,
    ) -> Happened<S> {
        match it.advance(progressed) {
            Advance::Done(channel) => Happened::Authenticated(self, it.into_socket(), channel),
            Advance::Notice(hello) => Happened::Noticed(hello),
            Advance::Refused(refusal) => {
                *progressed += 1;
                Happened::Refused(self, refusal)
            }
            Advance::Pending { blocked, rewatch } => Happened::Nothing {
                candidate: Candidate {
                    call: self,
                    stage: Stage::Authenticating(it),
                },
                watch: rewatch.then_some(blocked),
            },
        }
    }

    fn wait<S: Stream>(self, mut link: Box<Link<S>>, progressed: &mut usize) -> Happened<S> {
        match link.read() {
            Ok(Read::Nothing) => {}
            Ok(Read::Some { .. }) => *progressed += 1,
            Ok(Read::Closed) | Err(_) => {
                *progressed += 1;
                return Happened::Closed(self);
            }
        }
        match link.next() {
            Ok(Found::Nothing) => Happened::Nothing {
                candidate: Candidate {
                    call: self,
                    stage: Stage::Waiting(link),
                },
                watch: None,
            },
            Ok(Found::Frame(header)) => {
                let said = Said {
                    kind: header.kind,
                    generation: wire::generation(link.body(&header)),
                    processed: header.processed,
                };
                link.consume(&header);
                Happened::Said(self, link, said)
            }
            _ => Happened::Malformed(self),
        }
    }
}

/// All of them, by number.
pub struct Candidates<S> {
    all: Vec<Option<Candidate<S>>>,
    /// How many of them are expected.
    expected: usize,
    /// Selects which unauthenticated candidate is dropped when there are too many.
    eviction: EvictionPolicy,
}

impl<S> Candidates<S> {
    /// None.
    pub fn new(eviction: EvictionPolicy) -> Self {
        Self {
            all: Vec::new(),
            expected: 0,
            eviction,
        }
    }

    /// Whether one of them may become the connection to a peer.
    #[inline]
    pub fn has_expected(&self) -> bool {
        self.expected > 0
    }

    /// How many have not proved the key: of those that were answered, or of those that were not.
    pub fn unauthenticated(&self, answered: bool) -> usize {
        let is_one = |one: &&Candidate<S>| one.unauthenticated() == Some(answered);
        self.all.iter().flatten().filter(is_one).count()
    }

    /// Whether this one is among [those](Self::unauthenticated).
    pub fn is_unauthenticated(&self, number: u32, answered: bool) -> bool {
        let one = self.get(number);
        one.is_some_and(|one| one.unauthenticated() == Some(answered))
    }

    /// Which one of [those](Self::unauthenticated) goes, if one has to.
    pub fn victim(&mut self, answered: bool) -> Option<u32> {
        let mut waiting: Vec<_> = (0u32..)
            .zip(&self.all)
            .filter_map(|(number, one)| Some((number, one.as_ref()?)))
            .filter(|(_, one)| one.unauthenticated() == Some(answered))
            .map(|(number, one)| (one.call.since, number, one.call.source))
            .collect();
        waiting.sort_unstable_by_key(|(since, number, _)| (*since, *number));
        let waiting: Vec<_> = waiting
            .into_iter()
            .map(|(_, number, source)| (number, source))
            .collect();
        self.eviction.victim(&waiting)
    }

    /// Makes a seed decide the random draws, for tests.
    #[cfg(test)]
    pub fn draw_by(&mut self, seed: u64) {
        self.eviction = EvictionPolicy::seeded(seed);
    }

    /// One of them.
    pub fn get(&self, number: u32) -> Option<&Candidate<S>> {
        self.all.get(number as usize)?.as_ref()
    }

    /// The link of one that waits.
    pub fn link_mut(&mut self, number: u32) -> Option<&mut Link<S>> {
        match &mut self.all.get_mut(number as usize)?.as_mut()?.stage {
            Stage::Waiting(link) => Some(link),
            _ => None,
        }
    }

    /// Adds a candidate; returns its number.
    pub fn add(&mut self, call: Call, stage: Stage<S>) -> u32 {
        let index = match self.all.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.all.push(None);
                self.all.len() - 1
            }
        };
        self.put_back(index as u32, Candidate { call, stage });
        index as u32
    }

    /// Takes one out.
    pub fn take(&mut self, number: u32) -> Option<Candidate<S>> {
        let found = self.all.get_mut(number as usize)?.take()?;
        self.expected -= usize::from(found.call.peer.is_some());
        Some(found)
    }

    /// Puts one back that was taken out.
    pub fn put_back(&mut self, number: u32, candidate: Candidate<S>) {
        if let Some(empty) = self.all.get_mut(number as usize) {
            self.expected += usize::from(candidate.call.peer.is_some());
            let before = empty.replace(candidate);
            debug_assert!(before.is_none());
        }
    }

    /// Drops all candidates for which `which` holds.
    pub fn drop_those(&mut self, which: impl Fn(&Candidate<S>) -> bool) {
        for number in self.numbers(which) {
            self.take(number);
        }
    }

    /// The numbers of the candidates for which `which` holds.
    pub fn numbers(&self, which: impl Fn(&Candidate<S>) -> bool) -> Vec<u32> {
        let these = (0u32..).zip(&self.all);
        let these = these.filter(|(_, one)| one.as_ref().is_some_and(&which));
        these.map(|(number, _)| number).collect()
    }

    /// Whether `which` holds for one.
    pub fn any(&self, which: impl Fn(&Candidate<S>) -> bool) -> bool {
        self.all.iter().flatten().any(which)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Candidate<S>> {
        self.all.iter().flatten()
    }
}
