//! Collective mismatches: ranks that disagree about a collective are found out before anybody sleeps over it.
//!
//! Ranks that pass different counts may choose different algorithms, and then wait for messages that
//! nobody sends. But some rank sends what another one does not expect. Whoever is about to sleep looks
//! whether a collective under way has got more messages of a peer than it will still receive: that is
//! no delay, but a mistake of the program, and ends in an error.
//!
//! Ranks that take the way of a [board](super::boards) find on it what the others do; one of them may have sent a message
//! instead, or may wait for one. Both are seen: a message of the same number came here, or somebody has arrived on the
//! board with the number of a collective that this rank does by messages.
//!
//! A persistent collective is left out: a peer that is ahead may have begun it again.

use std::collections::HashMap;

use weft_fabric::Peer;
use weft_matching::{Context, Tag};

use super::Engine;
use super::schedule::{CollectiveContext, RunId};
use crate::error::{Error, ErrorClass};

/// With more messages than this waiting, nobody looks: it would cost more than the sleep.
const MOST: usize = 1024;

impl Engine {
    /// Ends the collectives under way that have got what they do not expect.
    pub(super) fn end_mismatched_collectives(&mut self) {
        if !self.core.runs.are_idle() {
            self.end_runs_of_boards();
        }
        let waiting = self.core.matching.unexpected_len();
        if waiting == 0 || waiting > MOST {
            return;
        }
        if self.core.boards.are_awaited() {
            self.end_mismatched_on_boards();
        }
        if self.core.runs.are_idle() {
            return;
        }
        for run in self.core.runs.that(|_| true) {
            if let Some((peer, name)) = self.unwanted(run) {
                self.break_off(run, &different_ways(peer, name));
            }
        }
    }

    /// Ends the waits at boards for those who have sent a message instead.
    #[cold]
    fn end_mismatched_on_boards(&mut self) {
        let awaited: Vec<_> = self.core.boards.awaited().collect();
        for (id, context, call) in awaited {
            let tag = CollectiveContext::new(context, None, call.note.number).tag();
            let mut unexpected = self.core.matching.unexpected();
            let found = unexpected.find(|(envelope, _)| {
                envelope.context == Context(context) && envelope.tag == Tag(tag)
            });
            if let Some((envelope, _)) = found {
                let error = different_ways(Peer(envelope.source.0), call.name());
                self.core.boards.fail(id, error);
            }
        }
    }

    /// Whoever does on a board what this rank does by messages is to wake it.
    pub(super) fn stand_aside_of_boards(&mut self) {
        for run in self.core.runs.that(|run| !run.has_failed()) {
            if let Some(run) = self.core.runs.get(run) {
                let context = run.context();
                let (boards, number) = (&self.core.boards, context.sequence());
                boards.stand_aside(context.context(), number);
            }
        }
    }

    /// Ends the collectives by messages that a peer does on a board.
    #[cold]
    fn end_runs_of_boards(&mut self) {
        for run in self.core.runs.that(|run| !run.has_failed()) {
            let Some(it) = self.core.runs.get(run) else {
                continue;
            };
            let (context, name) = (it.context(), it.name());
            let ahead = self.core.boards.ahead(context.context());
            if let Some((peer, number)) = ahead
                && number == context.sequence()
            {
                self.break_off(run, &different_ways(peer, name));
            }
        }
    }

    /// A peer that has sent more to a collective than will be received, and the call.
    fn unwanted(&self, id: RunId) -> Option<(Peer, &'static str)> {
        let run = self.core.runs.get(id)?;
        let persistent = |request| {
            let slot = self.core.requests.get(request);
            slot.is_none_or(super::request::Request::is_persistent)
        };
        if persistent(run.request()) {
            return None;
        }
        let (context, tag) = (run.context().context(), run.context().tag());
        let mut extra: HashMap<Peer, isize> = HashMap::new();
        for (envelope, _) in self.core.matching.unexpected() {
            if envelope.context == Context(context) && envelope.tag == Tag(tag) {
                *extra.entry(Peer(envelope.source.0)).or_default() += 1;
            }
        }
        if extra.is_empty() {
            return None;
        }
        for peer in run.expected() {
            extra.entry(peer).and_modify(|messages| *messages -= 1);
        }
        let found = extra.iter().find(|(_, messages)| **messages > 0);
        found.map(|(peer, _)| (*peer, run.name()))
    }
}

#[cold]
fn different_ways(peer: Peer, name: &str) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "rank {peer} of MPI_COMM_WORLD has sent this rank a message that its {name} does not expect: the ranks take different ways, because they pass different counts or datatypes; they must agree on all ranks of the call"
        ),
    )
}
