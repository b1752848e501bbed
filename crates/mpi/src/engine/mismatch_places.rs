//! Places of a mismatch: where in the program the two ranks with mismatched collectives are.
//!
//! ```text
//!   found ── all members are told ──► their collectives end in the error
//!             finder, other ── place ──► all members        each waits for both a little, and adds them to its error
//! ```
//!
//! No rank names its place before that: reading debug information costs milliseconds. A rank that has left the
//! collective, and makes no other, says nothing; the error is then reported without its place. If the library is part of
//! the program there are no places.
//!
//! Calls in which members agree (to make a communicator, a window or a file) differ: the leader of such a call has
//! finished when the others are still to come, and is found in a later call, or in one of the new communicator. So the
//! places of the last of them are kept, by one unwinding of the stack each, which costs little beside the messages. Of
//! the two mismatched ranks, the one that has made such a call with the number of the mismatch answers as soon as it
//! learns of it, whatever it is in: "rank 0 was in MPI_Comm_dup at a.c:12 and is in MPI_Finalize at a.c:20".

use std::collections::VecDeque;
use std::time::Duration;

use weft_fabric::Peer;
use weft_fiber as fiber;
use weft_sys::call_site::{CallSite, EntryPoint, entry_and_site};

use super::collective_mismatch::is_mismatch;
use super::envelope::{Envelope, MessageKind};
use super::progress::WaitFor;
use super::schedule::{CollectiveContext, RunId};
use super::shared::Guard;
use super::{Core, Engine};
use crate::error::Error;

/// In place of the class of an error: the message says where its sender is.
pub(super) const PLACE: u64 = 64;

/// How long a rank waits for the places of others: those that are in a collective answer at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a place, at most.
const LONGEST: usize = 300;

/// Most places that are kept: what else peers say is no answer to anything.
const MOST: usize = 64;

/// Most agreements whose places are kept.
const AGREEMENTS: usize = 16;

/// Where ranks are that do not fit each other.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: Vec<(u32, Peer, String)>,
    /// The last agreements of this rank, the latest at the end.
    agreements: VecDeque<(CollectiveContext, CallPlace)>,
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

    /// Members agree on something, and this rank begins to.
    #[inline(never)]
    fn note_agreement(&mut self, context: CollectiveContext) {
        let Some(here) = CallPlace::here() else {
            return;
        };
        if self.agreements.len() == AGREEMENTS {
            self.agreements.pop_front();
        }
        self.agreements.push_back((context, here));
    }

    /// The agreement of this context with this number, if this rank has made one.
    fn agreement(&self, which: Option<(u32, u32)>) -> Option<&(CollectiveContext, CallPlace)> {
        let (context, number) = which?;
        let same = |of: &CollectiveContext| (of.context(), of.sequence()) == (context, number);
        self.agreements.iter().rev().find(|(of, _)| same(of))
    }

    /// The communicator of this context is freed.
    pub(super) fn forget(&mut self, context: u32) {
        self.agreements.retain(|(of, _)| of.context() != context);
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

/// A place in the program, and the call that is made there, not named yet.
#[derive(Clone, Copy, Debug)]
struct CallPlace {
    site: CallSite,
    entry: Option<EntryPoint>,
}

impl CallPlace {
    /// Where this thread is. `None` where the library is part of the program, and on fibers: reading debug
    /// information takes more stack than they may have.
    fn here() -> Option<Self> {
        if fiber::is_fiber() {
            return None;
        }
        let (entry, site) = entry_and_site();
        Some(Self { site: site?, entry })
    }

    fn describe(&self) -> String {
        let call = self.entry.and_then(|entry| entry.name());
        format!("{} at {}", call.unwrap_or_default(), self.site.describe())
    }

    /// Whether it is in a call of the program, not in a thread of the library that makes progress.
    fn is_in_call(&self) -> bool {
        let call = self.entry.and_then(|entry| entry.name());
        call.is_none_or(|call| call.starts_with("MPI"))
    }
}

impl Core {
    /// How long somebody still waits for places.
    pub(super) fn places_awaited(&mut self, now: Duration) -> Option<Duration> {
        let left = self.mismatches.places.until?.saturating_sub(now);
        if left == Duration::ZERO {
            self.mismatches.places.until = None;
            self.wake_all();
            return None;
        }
        Some(left)
    }
}

impl Engine {
    /// A run has begun: if members agree in it on something, where that is, is kept.
    #[inline]
    pub(super) fn note_agreement(&mut self, id: RunId) {
        let run = self.core.runs.get(id);
        if let Some(run) = run.filter(|run| run.note().is_agreement()) {
            let context = run.context().clone();
            self.core.mismatches.places.note_agreement(context);
        }
    }

    /// Tells the members of a context where this rank is, if it is one of the two that do not fit, and has made there a
    /// call in which members agree.
    #[cold]
    pub(super) fn tell_place_of_agreement(&mut self, context: u32) {
        let me = self.fabric.me();
        let (mismatches, places) = (&self.core.mismatches, &self.core.mismatches.places);
        let agreement =
            places.agreement(mismatches.number(context).map(|number| (context, number)));
        let Some((of, _)) = agreement else {
            return;
        };
        let is_about_me = mismatches.between(context).contains(&me);
        if !is_about_me || places.of(context, me).is_some() {
            return;
        }
        let Some(here) = CallPlace::here() else {
            return;
        };
        let members = self.members_of(&of.clone());
        self.tell_place(context, &members, here);
    }

    /// Tells the members of a context where this rank is, and where it was when the collectives did not fit.
    fn tell_place(&mut self, context: u32, members: &[Peer], here: CallPlace) {
        let (mismatches, places) = (&self.core.mismatches, &self.core.mismatches.places);
        let number = mismatches.number(context).map(|number| (context, number));
        let agreement = places.agreement(number).map(|(_, place)| *place);
        let mut said = match agreement.filter(|was| was.site != here.site) {
            Some(was) if here.is_in_call() => {
                format!("was in {} and is in {}", was.describe(), here.describe())
            }
            Some(was) => format!("was in {}", was.describe()),
            None => format!("is in {}", here.describe()),
        };
        while said.len() > LONGEST {
            said.pop();
        }
        let mut envelope = Envelope::eager(context, 0, PLACE);
        envelope.kind = MessageKind::Mismatch;
        self.tell_members(&envelope, members, said.as_bytes());
        let me = self.fabric.me();
        self.core.mismatches.places.hear(context, me, said);
    }
}

impl Guard<'_> {
    /// The error of a collective, with where the two ranks are if it does not fit that of another rank.
    #[cold]
    pub(crate) fn with_places(&mut self, context: u32, members: &[Peer], error: Error) -> Error {
        let between = self.core.mismatches.between(context);
        if between.is_empty() || !is_mismatch(&error) {
            return error;
        }
        let Some(here) = CallPlace::here() else {
            return error;
        };
        let me = self.fabric.me();
        if self.core.mismatches.places.ask(context) {
            if between.contains(&me) && self.core.mismatches.places.of(context, me).is_none() {
                self.tell_place(context, members, here);
            }
            self.await_places(context, &between);
        }
        let places = &self.core.mismatches.places;
        let said = |peer: &Peer| Some(format!("rank {peer} {}", places.of(context, *peer)?));
        let said: Vec<String> = between.iter().filter_map(said).collect();
        if said.is_empty() {
            return error;
        }
        let text = format!("{error}; in the program {}", said.join(", "));
        error.in_words(text)
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
