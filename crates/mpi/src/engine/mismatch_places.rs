//! Places of a mismatch: where the two ranks are whose collectives do not fit each other.
//!
//! ```text
//!   found ── all members are told ──► their collectives end in the error
//!             finder, other ── place ──► all members        each waits for both a little, and adds them to its error
//! ```
//!
//! Nobody looks for its place before that: unwinding the stack and reading debug information cost milliseconds. A rank
//! that has left the collective, and makes no other, says nothing: the error is told without its place then. Where the library is
//! part of the program there are no places.

use std::time::Duration;

use weft_fabric::Peer;
use weft_fiber as fiber;
use weft_sys::call_site::{CallSite, EntryPoint};

use super::Core;
use super::collective_mismatch::is_mismatch;
use super::envelope::{Envelope, MessageKind};
use super::progress::{Guard, WaitFor};
use crate::error::Error;

/// In place of the class of an error: the message says where its sender is.
pub(super) const PLACE: u64 = 64;

/// How long a rank waits for the places of others: those that are in a collective answer at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a place, at most.
const LONGEST: usize = 300;

/// Most places that are kept: what else peers say is no answer to anything.
const MOST: usize = 64;

/// Where ranks are that do not fit each other.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: Vec<(u32, Peer, String)>,
    /// Contexts whose places have been waited for.
    asked: Vec<u32>,
    /// How long somebody waits for them.
    until: Option<Duration>,
}

impl Places {
    /// A rank says where it is; false if that is known.
    pub(super) fn hear(&mut self, context: u32, peer: Peer, place: String) -> bool {
        let is_new = self.known.len() < MOST && self.of(context, peer).is_none();
        if is_new {
            self.known.push((context, peer, place));
        }
        is_new
    }

    /// The communicator of this context is freed.
    pub(super) fn forget(&mut self, context: u32) {
        self.known.retain(|(other, ..)| *other != context);
        self.asked.retain(|other| *other != context);
    }

    fn of(&self, context: u32, peer: Peer) -> Option<&str> {
        let mut known = self.known.iter();
        let found = known.find(|known| (known.0, known.1) == (context, peer));
        found.map(|(.., place)| place.as_str())
    }

    /// True for the first who asks for those of a context.
    fn ask(&mut self, context: u32) -> bool {
        let is_first = !self.asked.contains(&context);
        if is_first {
            self.asked.push(context);
        }
        is_first
    }
}

impl Core {
    /// How long somebody still waits for places.
    pub(super) fn places_awaited(&mut self, now: Duration) -> Option<Duration> {
        let left = self.mismatches.places.until?.saturating_sub(now);
        if left == Duration::ZERO {
            self.mismatches.places.until = None;
            self.wake_for_arrival();
            return None;
        }
        Some(left)
    }
}

impl Guard<'_> {
    /// The error of a collective, with where the two ranks are if it does not fit that of another rank.
    #[cold]
    pub(crate) fn with_places(&mut self, context: u32, members: &[Peer], error: Error) -> Error {
        let between = self.core.mismatches.between(context);
        // Reading debug information takes more stack than a fiber may have.
        if between.is_empty() || !is_mismatch(&error) || fiber::is_fiber() {
            return error;
        }
        let Some(site) = CallSite::of_caller() else {
            return error;
        };
        let me = self.fabric.me();
        if self.core.mismatches.places.ask(context) {
            if between.contains(&me) {
                let call = EntryPoint::of_caller()
                    .and_then(|entry| entry.name())
                    .unwrap_or_default();
                self.tell_place(context, members, format!("{call} at {}", site.describe()));
            }
            self.await_places(context, &between);
        }
        let places = &self.core.mismatches.places;
        let said = |peer: &Peer| Some(format!("rank {peer} is in {}", places.of(context, *peer)?));
        let said: Vec<String> = between.iter().filter_map(said).collect();
        if said.is_empty() {
            return error;
        }
        let text = format!("{error}; in the program {}", said.join(", "));
        error.in_words(text)
    }

    fn tell_place(&mut self, context: u32, members: &[Peer], mut place: String) {
        while place.len() > LONGEST {
            place.pop();
        }
        let mut envelope = Envelope::eager(context, 0, PLACE);
        envelope.kind = MessageKind::Mismatch;
        self.tell_members(&envelope, members, place.as_bytes());
        let me = self.fabric.me();
        self.core.mismatches.places.hear(context, me, place);
    }

    fn await_places(&mut self, context: u32, between: &[Peer]) {
        let until = self.now() + PATIENCE;
        self.core.mismatches.places.until = Some(until);
        self.wait_for(WaitFor::Outside("where other ranks are"), |engine| {
            let places = &engine.core.mismatches.places;
            let known = |peer: &Peer| places.of(context, *peer).is_some();
            let over = between.iter().all(known) || engine.now() >= until;
            over.then_some(())
        });
        self.core.mismatches.places.until = None;
    }
}
