//! Collective mismatches: ranks that disagree about a collective are detected before a rank sleeps in it.
//!
//! Ranks that pass different counts may choose different algorithms, and then wait for messages that are never sent. But
//! then some rank sends what another one does not expect. A rank that is about to sleep checks whether a collective under
//! way has got more messages from a peer than it will still receive: that is no delay, but a mistake of the program, and
//! ends in an error.
//!
//! Ranks that use a [board](super::boards) find on it what the others do. One of them may have sent a message instead, or
//! may wait for one. Both are detected: a message with the same number came here, or a member has arrived on the board
//! with the number of a collective that this rank does by messages.
//!
//! A persistent collective is exempt: a peer that is ahead may have begun it again.
//!
//! Messages of collectives carry the [note](super::collective_note) of their collective, which a receive compares; on
//! boards it is beside the data of each member, and a rank that is about to sleep checks the notes of all that have
//! arrived.
//!
//! # All members are told
//! A rank that finds a mismatch tells all members, by a message of its own. Their collectives of that context end with
//! this error, and so does each later one, here as there: members that have gone through different collectives cannot
//! know what comes next, and would wait for each other for ever.
//! [`mismatch_places`](super::mismatch_places) finds where in the program the two mismatched ranks are.

use std::collections::HashMap;
use std::time::Duration;

use weft_fabric::{Peer, SharedBytes, Token};
use weft_matching::{Context, Tag};

use super::boards::BoardId;
use super::collective_note::CollectiveNote;
use super::deferred::Deferred;
use super::envelope::{Envelope, MessageKind};
use super::mismatch_places::{PLACE, Places};
use super::outbox::{Load, Waiting};
use super::schedule::{CollectiveContext, RunId, Which};
use super::unexpected::UnexpectedId;
use super::{Core, Engine};
use crate::datatype::SignatureCode;
use crate::error::{Error, ErrorClass};

/// With more messages than this waiting, nobody looks: it would cost more than the sleep.
const MOST: usize = 1024;

/// How much later than another member a rank may hear of a loss.
pub(super) const LOSS_DELAY: Duration = Duration::from_millis(50);

/// Bytes of the sentence that the others are told, at most.
const SENTENCE: usize = 600;

/// Classes of errors that collectives end with which do not fit each other, as they travel.
const CLASSES: [ErrorClass; 6] = [
    ErrorClass::Truncate,
    ErrorClass::Count,
    ErrorClass::Type,
    ErrorClass::Root,
    ErrorClass::Op,
    ErrorClass::Other,
];

/// Whether it is the error of such a collective, if it is one of a collective.
pub(super) fn is_mismatch(error: &Error) -> bool {
    CLASSES.contains(&error.class())
}

/// The operation that got an unexpected message.
enum Mismatched {
    Board(BoardId),
    Run(RunId),
    /// The one of this context and number that is outstanding on a board, and its members.
    Outstanding(u32, u32, Box<[Peer]>),
}

/// Contexts whose collectives do not fit each other, with what was found first.
#[derive(Debug, Default)]
pub(super) struct Mismatches {
    found: Vec<Found>,
    /// Where the ranks are that do not fit.
    pub(super) places: Places,
    /// Since when a member is seen at a board in another collective, which may follow from a loss.
    suspected: Option<Duration>,
}

/// What was found on the communicator of a context.
#[derive(Debug)]
struct Found {
    context: u32,
    /// About the rank that does not fit the finder.
    error: Error,
    finder: Peer,
    /// The first collective that does not fit, if the finder knows.
    number: Option<u32>,
}

impl Mismatches {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What every collective of this context ends with.
    pub(super) fn of(&self, context: u32) -> Option<&Error> {
        let mut found = self.found.iter();
        found
            .find(|found| found.context == context)
            .map(|found| &found.error)
    }

    /// The ranks that do not fit each other, as far as they are known.
    pub(super) fn between(&self, context: u32) -> Vec<Peer> {
        let mut found = self.found.iter();
        let found = found.find(|found| found.context == context);
        let pair = found.map(|found| std::iter::once(found.finder).chain(found.error.peer()));
        pair.into_iter().flatten().collect()
    }

    /// The number of the first collective of this context that does not fit, if it is known.
    pub(super) fn number(&self, context: u32) -> Option<u32> {
        let mut found = self.found.iter();
        found.find(|found| found.context == context)?.number
    }

    /// False if something was known.
    fn note(&mut self, (context, number): Which, (finder, error): (Peer, &Error)) -> bool {
        let is_first = self.of(context).is_none();
        if is_first {
            self.found.push(Found {
                context,
                error: error.clone(),
                finder,
                number,
            });
        }
        is_first
    }

    /// The communicator of this context is freed.
    pub(super) fn forget(&mut self, context: u32) {
        self.found.retain(|found| found.context != context);
        self.places.forget(context);
    }
}

/// The error if a message of a collective belongs to another one than that of this digest.
#[cold]
pub(super) fn of_message(from: Peer, envelope: &Envelope, own: SignatureCode) -> Option<Error> {
    let class = CollectiveNote::digests_differ(own, envelope.signature)?;
    let other = match envelope.kind {
        MessageKind::Eager => CollectiveNote::from_bits(envelope.token.0),
        _ => CollectiveNote::NOTHING,
    };
    let what = if other == CollectiveNote::NOTHING {
        "another collective, or in this one with another root, operation or datatype".to_owned()
    } else {
        other.describe()
    };
    Some(Error::new(
        class,
        format!(
            "rank {from} of MPI_COMM_WORLD is in {what} meanwhile; all ranks of a communicator must call the same collectives in the same order, with the same root, operation, counts and types"
        ),
    )
    .about(from))
}

/// Telling, and being told.
impl Engine {
    /// A collective has got what does not belong to it: it ends, and all members are told.
    #[cold]
    pub(super) fn end_mismatched(&mut self, id: RunId) {
        let Some(run) = self.core.runs.get(id) else {
            return;
        };
        let Some(error) = run.error().cloned() else {
            return;
        };
        let context = run.context().clone();
        let peers = self.members_of(&context);
        self.end_transfers_of(id, &error);
        self.core.deferred.push(Deferred::Advance(id));
        self.tell_of_mismatch(context.which(), &peers, &error);
    }

    /// Whether the collectives of the communicator with this context do not fit each other.
    pub(crate) fn has_mismatch(&self, context: u32) -> bool {
        self.core.mismatches.of(context | 1).is_some()
    }

    pub(super) fn members_of(&self, context: &CollectiveContext) -> Vec<Peer> {
        match context.group() {
            Some(group) => group.members().collect(),
            None => (0..self.core.lost.first().0).map(Peer).collect(),
        }
    }

    /// Tells the members of a context what was found, unless they have been told.
    #[cold]
    pub(super) fn tell_of_mismatch(&mut self, which: Which, peers: &[Peer], error: &Error) {
        let me = self.fabric.me();
        let text = format!(
            "rank {me} of MPI_COMM_WORLD has found that the collectives of a communicator do not fit each other: {error}"
        );
        let told = error.clone().in_words(text);
        if !self.core.mismatches.note(which, (me, &told)) {
            return;
        }
        let class = CLASSES.iter().position(|class| *class == error.class());
        let mut sentence = told.text().as_bytes();
        sentence = &sentence[..sentence.len().min(SENTENCE)];
        // The peer that it is about, and one more: 0 says that it is about none.
        let about = error.peer().map_or(0, |peer| peer.0.wrapping_add(1));
        let class = class.unwrap_or(CLASSES.len() - 1) as u64;
        let (context, number) = which;
        let envelope = Envelope {
            kind: MessageKind::Mismatch,
            // One more: 0 says that it is not known.
            token: Token(number.map_or(0, |number| u64::from(number) + 1)),
            ..Envelope::eager(context, about.cast_signed(), class)
        };
        self.tell_members(&envelope, peers, sentence);
        self.end_all_of_context(which, (me, &told));
    }

    /// Sends a message to all of these but this one.
    #[cold]
    pub(super) fn tell_members(&mut self, envelope: &Envelope, peers: &[Peer], sentence: &[u8]) {
        let me = self.fabric.me();
        for peer in peers.iter().filter(|peer| **peer != me) {
            let waiting = Waiting {
                head: envelope.to_head(),
                load: Load::Owned(sentence.into()),
                request: None,
            };
            self.outbox.push(*peer, waiting);
        }
        self.flush();
    }

    /// Ends all collectives of a context that are under way.
    #[cold]
    pub(super) fn end_all_of_context(&mut self, which: Which, (finder, error): (Peer, &Error)) {
        let context = which.0;
        self.core.mismatches.note(which, (finder, error));
        let of = |run: &super::runs::Run| run.context().context() == context && !run.has_failed();
        for run in self.core.runs.that(of) {
            self.break_off(run, error);
        }
        self.core.boards.fail_all(which, error);
        self.core.wake_all();
        self.tell_place_of_agreement(context);
    }

    /// A collective of a context whose collectives do not fit ends before it begins.
    #[cold]
    pub(super) fn refuse_with_mismatch(&mut self, id: RunId) {
        if let Some(run) = self.core.runs.get(id)
            && let Some(error) = self.core.mismatches.of(run.context().context())
        {
            let error = error.clone();
            self.core.runs.fail(id, &error);
        }
    }
}

impl Core {
    /// A peer has found that the collectives of a context do not fit each other.
    #[cold]
    pub(super) fn hear_of_mismatch(
        &mut self,
        from: Peer,
        envelope: &Envelope,
        data: SharedBytes<'_>,
    ) {
        let class = CLASSES.get(envelope.size as usize);
        let mut text = Vec::new();
        data.copy_to_vec(&mut text);
        text.truncate(SENTENCE);
        let text = String::from_utf8_lossy(&text).into_owned();
        let context = envelope.context;
        if envelope.size == PLACE {
            if self.mismatches.places.hear(context, from, text) {
                self.wake_all();
            }
            return;
        }
        let error = Error::new(class.copied().unwrap_or(ErrorClass::Other), text);
        let number = envelope.token.0.checked_sub(1);
        self.deferred.push(Deferred::ToldOfMismatch {
            which: (context, number.and_then(|number| number.try_into().ok())),
            finder: from,
            error: match envelope.tag.cast_unsigned().checked_sub(1) {
                Some(peer) => error.about(Peer(peer)),
                None => error,
            },
        });
    }
}

impl Engine {
    /// Ends the collectives under way that have got what they do not expect, unless a loss may be the reason, of which this
    /// rank has not heard: another one has given up a collective because of it, and is in the next one. Answers how long to
    /// wait for that.
    pub(super) fn end_mismatched_collectives(&mut self) -> Option<Duration> {
        let now = self.now();
        let places = self.core.places_awaited(now);
        let Some((place, error)) = self.mismatch() else {
            self.core.mismatches.suspected = None;
            return places;
        };
        let since = *self.core.mismatches.suspected.get_or_insert(now);
        let left = (since + LOSS_DELAY).saturating_sub(now);
        if left > Duration::ZERO {
            return Some(places.map_or(left, |limit| limit.min(left)));
        }
        self.core.mismatches.suspected = None;
        match place {
            Mismatched::Board(id) => self.end_board(id, error),
            Mismatched::Run(run) => self.end_with(run, &error),
            Mismatched::Outstanding(context, number, peers) => {
                self.tell_of_mismatch((context, Some(number)), &peers, &error);
            }
        }
        places
    }

    /// A collective under way that has got what it does not expect.
    fn mismatch(&mut self) -> Option<(Mismatched, Error)> {
        let on_boards = self.core.boards.are_awaited();
        let by_messages = !self.core.runs.are_idle();
        let outstanding = self.core.boards.outstanding.are_busy();
        if !on_boards && !by_messages && !outstanding {
            return None;
        }
        let mut found = None;
        if by_messages {
            found = self.run_of_board();
        }
        if on_boards {
            found = found.or_else(|| self.mismatched_note());
        }
        if outstanding {
            found = found.or_else(|| self.mismatched_outstanding());
        }
        let waiting = self.core.matching.unexpected_len();
        if found.is_some() || waiting == 0 || waiting > MOST {
            return found;
        }
        if on_boards {
            found = self.board_of_message();
        }
        if outstanding {
            found = found.or_else(|| self.outstanding_of_message());
        }
        if by_messages {
            found = found.or_else(|| {
                let mut runs = self.core.runs.that(|_| true).into_iter();
                runs.find_map(|run| Some((Mismatched::Run(run), self.unwanted(run)?)))
            });
        }
        found
    }

    /// Ends a collective, and tells the others why.
    fn end_with(&mut self, run: RunId, error: &Error) {
        self.break_off(run, error);
        if self.core.runs.get(run).is_some() {
            self.end_mismatched(run);
        }
    }

    /// A wait at a board on which somebody has arrived for something else.
    fn mismatched_note(&self) -> Option<(Mismatched, Error)> {
        let mut awaited = self.core.boards.awaited();
        awaited
            .find_map(|(id, ..)| Some((Mismatched::Board(id), self.core.boards.disagreement(id)?)))
    }

    /// A collective that is outstanding on a board, on which somebody has arrived for something else.
    fn mismatched_outstanding(&self) -> Option<(Mismatched, Error)> {
        let found = self.core.boards.outstanding.disagreement();
        let (context, number, peers, error) = found?;
        Some((Mismatched::Outstanding(context, number, peers), error))
    }

    /// The same, of which somebody has sent a message instead.
    fn outstanding_of_message(&self) -> Option<(Mismatched, Error)> {
        let boards = &self.core.boards.outstanding;
        boards.calls().find_map(|(context, call)| {
            let (number, own) = (call.note.number, CollectiveNote::from_bits(call.note.call));
            let tag = CollectiveContext::new(context, None, number).tag();
            let mut unexpected = self.core.matching.unexpected();
            let (envelope, message) = unexpected.find(|(envelope, _)| {
                envelope.context == Context(context) && envelope.tag == Tag(tag)
            })?;
            let peer = Peer(envelope.source.0);
            let named = self.differs(own, peer, message);
            // As at the board of blocking ones.
            if call.is_uneven() && named.is_none() {
                return None;
            }
            let error = named.unwrap_or_else(|| different_ways(peer, call.name()));
            let peers = boards.members_of(context)?;
            Some((Mismatched::Outstanding(context, number, peers), error))
        })
    }

    /// Ends the wait at a board, and tells the others why.
    pub(super) fn end_board(&mut self, id: BoardId, error: Error) {
        let (context, peers) = self.core.boards.members_of(id);
        let number = self.core.boards.number_of(id);
        self.core.boards.fail(id, error.clone());
        self.tell_of_mismatch((context, number), &peers, &error);
    }

    /// A wait at a board for somebody who has sent a message instead.
    fn board_of_message(&self) -> Option<(Mismatched, Error)> {
        let mut awaited = self.core.boards.awaited();
        awaited.find_map(|(id, context, call)| {
            let tag = CollectiveContext::new(context, None, call.note.number).tag();
            let mut unexpected = self.core.matching.unexpected();
            let (envelope, message) = unexpected.find(|(envelope, _)| {
                envelope.context == Context(context) && envelope.tag == Tag(tag)
            })?;
            let peer = Peer(envelope.source.0);
            let own = CollectiveNote::from_bits(call.note.call);
            let named = self.differs(own, peer, message);
            // Blocks that are too long for the board may come before it is seen there that they do.
            if call.is_uneven() && named.is_none() {
                return None;
            }
            let error = named.unwrap_or_else(|| different_ways(peer, call.name()));
            Some((Mismatched::Board(id), error))
        })
    }

    /// A member that does on a board what this rank does by messages is to wake it.
    pub(super) fn stand_aside_of_boards(&mut self) {
        for run in self.core.runs.that(|run| !run.has_failed()) {
            if let Some(run) = self.core.runs.get(run).filter(|run| !run.continues()) {
                let context = run.context();
                let (boards, number) = (&self.core.boards, context.sequence());
                boards.stand_aside(context.context(), number);
            }
        }
    }

    /// A collective by messages that a peer does on a board.
    fn run_of_board(&self) -> Option<(Mismatched, Error)> {
        let mut runs = self.core.runs.that(|run| !run.has_failed()).into_iter();
        runs.find_map(|run| {
            let it = self.core.runs.get(run)?;
            let context = it.context();
            let mut ahead = self.core.boards.ahead(context.context());
            let (peer, call, _) = ahead.find(|(_, _, number)| *number == context.sequence())?;
            let error = || {
                let me = self.fabric.me().0;
                let named = it.note().disagreement(me, (peer.0, call));
                named.unwrap_or_else(|| different_ways(peer, it.name()))
            };
            Some((Mismatched::Run(run), error()))
        })
    }

    /// The error if a message that waits says that its sender is in another collective than this rank.
    fn differs(&self, own: CollectiveNote, peer: Peer, message: UnexpectedId) -> Option<Error> {
        let message = self.core.unexpected.get(message)?;
        let is_named = message.envelope.kind == MessageKind::Eager;
        let other = CollectiveNote::from_bits(message.envelope.token.0);
        let me = self.fabric.me().0;
        is_named
            .then(|| own.disagreement(me, (peer.0, other)))
            .flatten()
    }

    /// The error if a peer has sent more to a collective than will be received.
    fn unwanted(&self, id: RunId) -> Option<Error> {
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
        let (peer, _) = extra.iter().find(|(_, messages)| **messages > 0)?;
        let mut unexpected = self.core.matching.unexpected();
        let message = unexpected.find(|(envelope, _)| {
            let of = (envelope.context, envelope.tag, envelope.source.0);
            of == (Context(context), Tag(tag), peer.0)
        });
        let named = message.and_then(|(_, message)| self.differs(run.note(), *peer, message));
        Some(named.unwrap_or_else(|| different_ways(*peer, run.name())))
    }
}

#[cold]
fn different_ways(peer: Peer, name: &str) -> Error {
    Error::new(
        ErrorClass::Truncate,
        format!(
            "rank {peer} of MPI_COMM_WORLD has sent this rank a message that its {name} does not expect: the ranks are in different collectives, or take different ways because they pass different counts or datatypes; these must agree on all ranks of the call"
        ),
    )
    .about(peer)
}
