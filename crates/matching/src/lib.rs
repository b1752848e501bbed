//! The matching engine: which receive gets which message, in the order of MPI (MPI 5.0, section 3.5).
//!
//! ```text
//!   key ──► bucket { posted:     oldest ⇄ … ⇄ newest }     entries live in two slabs, with stamps
//!                  { unexpected: oldest ⇄ … ⇄ newest }
//! ```
//!
//! A key is a (context, source, tag) in one of four *views*: exact, any tag, any source, any of both. A
//! posted receive stands in the one bucket of its own view. A message can be asked for in four views: it
//! stands in its exact bucket, and in the other three as well once a wildcard was used in its context.
//!
//! * A message is given to the oldest posted receive that fits: the oldest heads of at most four buckets.
//! * A receive gets the oldest message that fits: the head of one bucket.
//!
//! Both are a constant number of look-ups, however many others are posted or waiting. As long as no
//! wildcard is posted, a message looks into one bucket.
//!
//! Emptied buckets stay in the table, since the same keys come again; when they outnumber what is in
//! use, they are swept out in one go, paid for by the insertions before.

#![forbid(unsafe_code)]

mod list;
mod table;

use list::{NONE, Slab};
use table::{Key, Table, View};

/// A communicator, as a number that all its members use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Context(pub u32);

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source(pub u32);

/// The tag of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag(pub i32);

/// What a message says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// Communicator.
    pub context: Context,
    /// Sender.
    pub source: Source,
    /// Tag.
    pub tag: Tag,
}

/// Which sources a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SourcePattern {
    /// `MPI_ANY_SOURCE`.
    Any,
    /// This one.
    Exact(Source),
}

/// Which tags a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TagPattern {
    /// `MPI_ANY_TAG`.
    Any,
    /// This one.
    Exact(Tag),
}

/// What a receive or a probe takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    /// Communicator.
    pub context: Context,
    /// Senders.
    pub source: SourcePattern,
    /// Tags.
    pub tag: TagPattern,
}

impl Pattern {
    /// Whether a message fits.
    #[must_use]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && match self.source {
                SourcePattern::Any => true,
                SourcePattern::Exact(source) => source == envelope.source,
            }
            && match self.tag {
                TagPattern::Any => true,
                TagPattern::Exact(tag) => tag == envelope.tag,
            }
    }
}

/// Name of a posted receive, for taking it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// What became of a message.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival<P> {
    /// This receive gets it, and is not posted any more.
    Matched(P),
    /// Nobody waits for it: stored.
    Unexpected,
}

/// What became of a receive.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posting<U> {
    /// It gets this message, which is not stored any more.
    Matched(Envelope, U),
    /// Nothing there yet: posted.
    Posted(Handle),
}

/// What was left of a context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leftover<P, U> {
    /// Receives that were posted, oldest first.
    pub posted: Vec<(Pattern, P)>,
    /// Messages that nobody received, oldest first.
    pub unexpected: Vec<(Envelope, U)>,
}

#[derive(Clone, Copy, Debug)]
struct Receive<P> {
    pattern: Pattern,
    stamp: u64,
    value: P,
}

#[derive(Clone, Copy, Debug)]
struct Message<U> {
    envelope: Envelope,
    stamp: u64,
    value: U,
    /// Buckets of the four views; `NONE` where it is not listed.
    buckets: [u32; 4],
}

/// Posted receives (named by `P`) and unexpected messages (named by `U`) of one rank.
#[derive(Debug)]
pub struct Matching<P, U> {
    table: Table,
    posted: Slab<Receive<P>, 1>,
    unexpected: Slab<Message<U>, 4>,
    stamp: u64,
    /// Posted receives with a wildcard, in all contexts.
    wildcards: usize,
    /// Contexts in which messages are listed in all views.
    indexed: Vec<Context>,
}

impl<P: Copy, U: Copy> Default for Matching<P, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Copy, U: Copy> Matching<P, U> {
    /// Nothing posted, nothing arrived.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: Table::default(),
            posted: Slab::default(),
            unexpected: Slab::default(),
            stamp: 0,
            wildcards: 0,
            indexed: Vec::new(),
        }
    }

    /// Receives that are posted.
    #[must_use]
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// Messages that wait.
    #[must_use]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    /// A message has arrived: the oldest posted receive that takes it gets it; otherwise it is stored
    /// under the name that `store` gives.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope, store: impl FnOnce() -> U) -> Arrival<P> {
        let exact = Key::of(&envelope, View::Exact);
        let bucket = self.table.find(exact);
        let mut best = bucket.map_or(NONE, |bucket| self.table[bucket].posted.head);
        if self.wildcards != 0 {
            best = self.oldest_with_wildcards(&envelope, best);
        }
        if best != NONE {
            return Arrival::Matched(self.remove_posted(best));
        }
        let bucket = bucket.unwrap_or_else(|| self.table.insert(exact));
        self.store(envelope, bucket, store());
        Arrival::Unexpected
    }

    #[cold]
    fn oldest_with_wildcards(&mut self, envelope: &Envelope, exact: u32) -> u32 {
        let mut best = exact;
        for view in [View::AnyTag, View::AnySource, View::AnyBoth] {
            let Some(bucket) = self.table.find(Key::of(envelope, view)) else {
                continue;
            };
            let head = self.table[bucket].posted.head;
            if head != NONE && (best == NONE || self.posted[head].stamp < self.posted[best].stamp) {
                best = head;
            }
        }
        best
    }

    fn store(&mut self, envelope: Envelope, exact: u32, value: U) {
        self.stamp += 1;
        let message = Message {
            envelope,
            stamp: self.stamp,
            value,
            buckets: [NONE; 4],
        };
        let index = self.unexpected.insert(message);
        self.list(index, View::Exact, exact);
        if self.indexed.contains(&envelope.context) {
            self.list_in_all_views(index);
        }
    }

    fn list(&mut self, index: u32, view: View, bucket: u32) {
        self.unexpected[index].buckets[view as usize] = bucket;
        self.unexpected
            .push(&mut self.table[bucket].unexpected, index, view as usize);
    }

    fn list_in_all_views(&mut self, index: u32) {
        let envelope = self.unexpected[index].envelope;
        for view in [View::AnyTag, View::AnySource, View::AnyBoth] {
            let bucket = self.table.find_or_insert(Key::of(&envelope, view));
            self.list(index, view, bucket);
        }
    }

    /// From now on messages of this context are listed in all views.
    #[cold]
    fn index(&mut self, context: Context) {
        self.indexed.push(context);
        let mut waiting: Vec<(u64, u32)> = self
            .unexpected
            .iter()
            .filter(|(_, message)| message.envelope.context == context)
            .map(|(index, message)| (message.stamp, index))
            .collect();
        waiting.sort_unstable();
        for (_, index) in waiting {
            self.list_in_all_views(index);
        }
    }

    /// The bucket that a pattern looks into, if it exists.
    fn bucket_of(&mut self, pattern: &Pattern) -> (Key, Option<u32>) {
        let (key, view) = Key::of_pattern(pattern);
        if view != View::Exact && !self.indexed.contains(&pattern.context) {
            self.index(pattern.context);
        }
        (key, self.table.find(key))
    }

    /// A receive: gets the oldest message that it takes, or is posted.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, value: P) -> Posting<U> {
        let (key, bucket) = self.bucket_of(&pattern);
        if let Some(bucket) = bucket {
            let head = self.table[bucket].unexpected.head;
            if head != NONE {
                let (envelope, value) = self.remove_unexpected(head);
                return Posting::Matched(envelope, value);
            }
        }
        let bucket = bucket.unwrap_or_else(|| self.table.insert(key));
        self.stamp += 1;
        let index = self.posted.insert(Receive {
            pattern,
            stamp: self.stamp,
            value,
        });
        self.posted.push(&mut self.table[bucket].posted, index, 0);
        self.wildcards += usize::from(is_wildcard(&pattern));
        Posting::Posted(Handle {
            index,
            generation: self.posted.generation(index),
        })
    }

    /// The oldest message that a pattern takes, which stays (probe).
    pub fn peek(&mut self, pattern: Pattern) -> Option<(Envelope, U)> {
        let head = self.head_of(&pattern)?;
        let message = &self.unexpected[head];
        Some((message.envelope, message.value))
    }

    /// The oldest message that a pattern takes, which is not stored any more (matched probe).
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, U)> {
        let head = self.head_of(&pattern)?;
        Some(self.remove_unexpected(head))
    }

    fn head_of(&mut self, pattern: &Pattern) -> Option<u32> {
        let (_, bucket) = self.bucket_of(pattern);
        let head = self.table[bucket?].unexpected.head;
        (head != NONE).then_some(head)
    }

    /// Takes a posted receive back. False if it is not posted any more.
    pub fn cancel(&mut self, handle: Handle) -> bool {
        if !self.posted.is_live(handle.index)
            || self.posted.generation(handle.index) != handle.generation
        {
            return false;
        }
        self.remove_posted(handle.index);
        true
    }

    /// Forgets a context; answers what was left in it.
    pub fn drop_context(&mut self, context: Context) -> Leftover<P, U> {
        let mut posted: Vec<(u64, u32)> = self
            .posted
            .iter()
            .filter(|(_, receive)| receive.pattern.context == context)
            .map(|(index, receive)| (receive.stamp, index))
            .collect();
        let mut unexpected: Vec<(u64, u32)> = self
            .unexpected
            .iter()
            .filter(|(_, message)| message.envelope.context == context)
            .map(|(index, message)| (message.stamp, index))
            .collect();
        posted.sort_unstable();
        unexpected.sort_unstable();
        self.indexed.retain(|other| *other != context);
        Leftover {
            posted: posted
                .into_iter()
                .map(|(_, index)| (self.posted[index].pattern, self.remove_posted(index)))
                .collect(),
            unexpected: unexpected
                .into_iter()
                .map(|(_, index)| self.remove_unexpected(index))
                .collect(),
        }
    }

    /// All posted receives, in no order, for reports.
    pub fn posted(&self) -> impl Iterator<Item = (&Pattern, P)> {
        self.posted
            .iter()
            .map(|(_, receive)| (&receive.pattern, receive.value))
    }

    /// All messages that wait, in no order, for reports.
    pub fn unexpected(&self) -> impl Iterator<Item = (&Envelope, U)> {
        self.unexpected
            .iter()
            .map(|(_, message)| (&message.envelope, message.value))
    }

    #[inline]
    fn remove_posted(&mut self, index: u32) -> P {
        let pattern = self.posted[index].pattern;
        let (key, view) = Key::of_pattern(&pattern);
        let bucket = self
            .table
            .find(key)
            .expect("a posted receive keeps its bucket alive");
        self.posted.unlink(&mut self.table[bucket].posted, index, 0);
        self.wildcards -= usize::from(view != View::Exact);
        self.posted.remove(index).value
    }

    #[inline]
    fn remove_unexpected(&mut self, index: u32) -> (Envelope, U) {
        let buckets = self.unexpected[index].buckets;
        for (view, bucket) in buckets.into_iter().enumerate() {
            if bucket != NONE {
                self.unexpected
                    .unlink(&mut self.table[bucket].unexpected, index, view);
            }
        }
        let message = self.unexpected.remove(index);
        (message.envelope, message.value)
    }
}

fn is_wildcard(pattern: &Pattern) -> bool {
    pattern.source == SourcePattern::Any || pattern.tag == TagPattern::Any
}

#[cfg(test)]
mod tests;
