//! [`Matching`]: the engine itself, both sides together.

use core::fmt;

use crate::key::{Context, Envelope, Key, Pattern, SourcePattern, TagPattern, WildcardKind};
use crate::posted::{Handle, OldestReceive, Posted};
use crate::unexpected::{Place, Unexpected};

/// The result of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a matched receive that nobody completes hangs its program"]
pub enum Arrival<P> {
    /// It belongs to this receive, which is no longer posted.
    Matched(P),
    /// No receive waits for it: it is kept.
    Unexpected,
}

/// The result of posting a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a matched message that nobody takes is a lost message"]
pub enum Posting<U> {
    /// This message had arrived already; it is no longer kept, and nothing was posted.
    Matched(Envelope, U),
    /// It waits; the handle cancels it.
    Posted(Handle),
}

/// A message that was found; valid until anything changes.
#[derive(Debug)]
pub struct Found(Place);

/// The entries left of a context, oldest first in each list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leftover<P, U> {
    /// Receives for which no message arrived.
    pub posted: Vec<(Pattern, P)>,
    /// Messages for which no receive was posted.
    pub unexpected: Vec<(Envelope, U)>,
}

impl<P, U> Leftover<P, U> {
    /// Whether nothing was left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty()
    }
}

/// The matching engine of one rank. `P` names a posted receive, `U` an unexpected message.
///
/// ```
/// use weft_matching::{Arrival, Context, Envelope, Matching, Posting, Source, Tag};
///
/// let mut matching = Matching::<&str, &str>::new();
/// let hello = Envelope { context: Context(0), source: Source(1), tag: Tag(7) };
///
/// assert!(matches!(matching.post(hello.into(), "receive"), Posting::Posted(_)));
/// assert_eq!(matching.arrive(hello, || "first"), Arrival::Matched("receive"));
/// assert_eq!(matching.arrive(hello, || "second"), Arrival::Unexpected);
/// assert_eq!(matching.post(hello.into(), "receive"), Posting::Matched(hello, "second"));
/// ```
pub struct Matching<P, U> {
    posted: Posted<P>,
    unexpected: Unexpected<U>,
}

impl<P: Copy, U: Copy> Matching<P, U> {
    /// An engine with nothing posted and nothing unexpected; it allocates when first used.
    #[must_use]
    pub fn new() -> Self {
        Self {
            posted: Posted::new(),
            unexpected: Unexpected::new(),
        }
    }

    /// A message arrives: gives it to the oldest receive that matches, or keeps what `message` returns.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope, message: impl FnOnce() -> U) -> Arrival<P> {
        if let Some(receive) = self.meet(envelope) {
            return Arrival::Matched(receive);
        }
        self.keep(envelope, message());
        Arrival::Unexpected
    }

    /// A message arrives: returns the oldest receive that matches, which is no longer posted. If there is none, the
    /// message has to be [kept](Self::keep), unless it is used otherwise.
    #[inline]
    pub fn meet(&mut self, envelope: Envelope) -> Option<P> {
        if self.posted.len() == 0 {
            return None;
        }
        self.posted.take(Key::of(envelope))
    }

    /// The oldest receive, if it matches an arriving message and names both source and tag: it is still posted, and may be
    /// [taken](OldestReceive::take).
    #[inline(always)]
    pub fn meet_oldest(&mut self, envelope: Envelope) -> Option<OldestReceive<'_, P>> {
        self.posted.oldest_exact(Key::of(envelope))
    }

    /// Keeps a message that arrived and [met](Self::meet) no receive.
    #[inline]
    pub fn keep(&mut self, envelope: Envelope, message: U) {
        self.unexpected.push(Key::of(envelope), message);
    }

    /// Posts a receive: takes the oldest unexpected message that matches, or waits.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: P) -> Posting<U> {
        let (kind, key) = pattern.split();
        if let Some((place, _)) = self.unexpected.find(kind, key) {
            let (key, message) = self.unexpected.remove(place);
            return Posting::Matched(key.envelope(), message);
        }
        Posting::Posted(self.posted.push(kind, key, receive))
    }

    /// The message that a receive posted now would take (`MPI_Iprobe`). The message stays.
    #[inline]
    pub fn peek(&mut self, pattern: Pattern) -> Option<(Envelope, U)> {
        let (kind, key) = pattern.split();
        let (place, _) = self.unexpected.find(kind, key)?;
        let (key, message) = self.unexpected.get(place);
        Some((key.envelope(), message))
    }

    /// Takes the message that a receive posted now would take (`MPI_Improbe`).
    #[inline]
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, U)> {
        let (kind, key) = pattern.split();
        let (place, _) = self.unexpected.find(kind, key)?;
        let (key, message) = self.unexpected.remove(place);
        Some((key.envelope(), message))
    }

    /// Posts a receive that waits: no message may match it.
    #[inline(always)]
    pub fn wait(&mut self, pattern: Pattern, receive: P) -> Handle {
        let (kind, key) = pattern.split();
        debug_assert!(self.unexpected.find(kind, key).is_none());
        self.posted.push(kind, key, receive)
    }

    /// The message that a receive posted now would take, to be looked at and then perhaps [taken](Self::take_found).
    #[inline(always)]
    pub fn find(&mut self, pattern: Pattern) -> Option<(Found, U)> {
        let (kind, key) = pattern.split();
        let (place, message) = self.unexpected.find(kind, key)?;
        Some((Found(place), message))
    }

    /// The same for a receive of one source and one tag.
    #[inline(always)]
    pub fn find_exact(&mut self, envelope: Envelope) -> Option<(Found, U)> {
        let (place, message) = self
            .unexpected
            .find(WildcardKind::Exact, Key::of(envelope))?;
        Some((Found(place), message))
    }

    /// Takes a message that was just [found](Self::find): nothing has arrived, been posted or taken since.
    #[inline(always)]
    pub fn take_found(&mut self, found: Found) {
        self.unexpected.unlink(found.0);
    }

    /// Takes back a posted receive. False if it was matched or taken back before.
    pub fn cancel(&mut self, handle: Handle) -> bool {
        self.posted.cancel(handle)
    }

    /// Removes everything that waits in a context, for the report when its communicator is freed.
    ///
    /// It looks at every posted receive, and at most once at each unexpected message of other contexts.
    #[must_use = "what is left names requests that will never complete and messages that hold memory"]
    pub fn drop_context(&mut self, context: Context) -> Leftover<P, U> {
        let all = Pattern {
            context,
            source: SourcePattern::Any,
            tag: TagPattern::Any,
        };
        let mut unexpected = Vec::new();
        while let Some(message) = self.take(all) {
            unexpected.push(message);
        }
        Leftover {
            posted: self.posted.drop_context(context.0),
            unexpected,
        }
    }

    /// The posted receives, oldest first.
    pub fn posted(&self) -> impl Iterator<Item = (Pattern, P)> {
        self.posted.iter()
    }

    /// The unexpected messages, oldest first.
    pub fn unexpected(&self) -> impl Iterator<Item = (Envelope, U)> {
        self.unexpected
            .iter()
            .map(|(key, message)| (key.envelope(), message))
    }

    /// How many receives are posted.
    #[inline]
    #[must_use]
    pub fn posted_len(&self) -> usize {
        self.posted.len() as usize
    }

    /// How many unexpected messages are kept.
    #[inline]
    #[must_use]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len() as usize
    }
}

impl<P: Copy, U: Copy> Default for Matching<P, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Copy, U: Copy> fmt::Debug for Matching<P, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching")
            .field("posted", &self.posted_len())
            .field("unexpected", &self.unexpected_len())
            .finish()
    }
}

#[cfg(test)]
impl<P: Copy, U: Copy> Matching<P, U> {
    /// Panics unless the internal state is consistent.
    pub(crate) fn check(&self) {
        self.posted.check();
        self.unexpected.check();
    }

    pub(crate) fn slots(&self, kind: crate::key::WildcardKind) -> usize {
        self.posted.slots(kind)
    }
}
