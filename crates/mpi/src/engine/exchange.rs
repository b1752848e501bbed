//! Exchange: messages of collectives that are sent and received without requests, as their steps are taken, or without a schedule
//! while the thread keeps the engine.
//!
//! A message is received only if every bit of its head is the one that is expected; then it is the first of this sender with this
//! context and tag, which no posted receive has. Anything else is left to the schedule that follows, and has its errors.

use std::sync::Arc;

use weft_fabric::{Bell, Next, Peer, Posted, Region, SharedBytes};
use weft_matching::{Context, Source, Tag};

use super::at_once::Looks;
use super::envelope::Envelope;
use super::protocol::Protocol;
use super::{Core, Engine};

/// What the looks for a message have found.
enum Sought {
    /// The message; whether its sender is to be given [credit](Engine::give_credit).
    Taken {
        is_due: bool,
    },
    Nothing,
    /// Another message than is expected.
    Other,
}

impl Core {
    /// Receives the message with this envelope, if it waits, and is the first one of its sender and tag.
    #[inline(never)]
    fn take_kept_in_exchange(&mut self, from: Peer, expected: &Envelope, into: &Region) -> Sought {
        let key = weft_matching::Envelope {
            context: Context(expected.context),
            source: Source(from.0),
            tag: Tag(expected.tag),
        };
        let Some((found, id)) = self.matching.find_exact(key) else {
            return Sought::Nothing;
        };
        let Some(kept) = self.unexpected.kept(id) else {
            return Sought::Other;
        };
        let message = kept.message();
        if message.envelope != *expected {
            return Sought::Other;
        }
        let data = SharedBytes::of(&message.data);
        let bytes = data.copy_to_region(into);
        let is_due = kept.end();
        self.matching.take_found(found);
        let counters = &*self.counters;
        counters.matched_unexpected.add(1);
        counters.unexpected_gone.add(bytes as u64);
        counters.bytes_received.add(bytes as u64);
        Sought::Taken { is_due }
    }
}

impl Engine {
    /// Whether messages of a collective may be sent and received one by one: nobody listens, nothing is lost, and no collective
    /// has failed to fit.
    #[inline]
    pub(crate) fn may_exchange_at_once(&self) -> bool {
        let core = &self.core;
        !self.driven
            && !core.events.are_wanted()
            && core.lost.is_quiet()
            && core.mismatches.is_empty()
    }

    /// Sends a message of a collective with this context and tag, if it can leave now.
    #[inline]
    pub(crate) fn send_in_exchange(
        &mut self,
        region: &Region,
        (context, tag): (u32, i32),
        to: Peer,
    ) -> bool {
        let size = region.len();
        if size >= self.injected_below || !self.outbox.is_clear(to) {
            return false;
        }
        let envelope = Envelope::eager(context, tag, size as u64);
        // Of errors the schedule knows.
        if !matches!(self.post_flat(to, &envelope, region), Ok(posted) if posted != Posted::Retry) {
            return false;
        }
        self.core.counters.sent(Protocol::Eager, size);
        if !self.far.is_empty() {
            self.note_far(to, size);
        }
        true
    }

    /// Receives the message with this envelope, which is one of a collective and as long as the buffer, if it is here. False,
    /// without effect, if not, or if that is not certain.
    #[inline]
    pub(super) fn receive_if_here(
        &mut self,
        into: &Region,
        expected: &Envelope,
        from: Peer,
    ) -> bool {
        // An earlier receive of the same collective may wait for a message of this sender.
        if self.core.matching.posted_len() != 0
            || into.len() >= self.injected_below
            || !self.may_exchange_at_once()
        {
            return false;
        }
        if self.has_unexpected() {
            match self.core.take_kept_in_exchange(from, expected, into) {
                Sought::Taken { is_due } => {
                    if is_due {
                        self.give_credit(from);
                    }
                    return true;
                }
                Sought::Other => return false,
                Sought::Nothing => {}
            }
        }
        let is_taken = matches!(
            self.fabric.take_next(from, &expected.to_head(), into),
            Next::Taken
        );
        if is_taken {
            self.core.note_received(into.len());
        }
        is_taken
    }

    /// Receives the message of a collective with this context and tag that is as long as the buffer, if it is here or comes with a
    /// few looks.
    #[inline]
    pub(crate) fn receive_in_exchange(
        &mut self,
        into: &Region,
        (context, tag): (u32, i32),
        from: Peer,
        bell: &Arc<dyn Bell>,
    ) -> bool {
        let size = into.len();
        if size >= self.injected_below {
            return false;
        }
        let envelope = Envelope::eager(context, tag, size as u64);
        let head = envelope.to_head();
        let mut looks = Looks::default();
        loop {
            if self.has_unexpected() {
                match self.core.take_kept_in_exchange(from, &envelope, into) {
                    Sought::Taken { is_due } => {
                        if is_due {
                            self.give_credit(from);
                        }
                        return true;
                    }
                    Sought::Other => return false,
                    Sought::Nothing => {}
                }
            }
            match self.fabric.take_next(from, &head, into) {
                Next::Taken => {
                    self.core.note_received(size);
                    return true;
                }
                Next::Nothing => {}
                // Something else is to be looked at first.
                Next::Other => {
                    self.fabric.poll(&mut self.core, 1);
                    if self.has_deferred() {
                        self.run_deferred();
                    }
                }
            }
            if looks.must_end(self, bell) {
                return false;
            }
        }
    }

    /// All messages of a collective of this name have been sent and received.
    #[inline]
    pub(crate) fn end_exchange(&mut self, name: &str) {
        let counters = &*self.core.counters;
        counters.collective(name);
        counters.collectives_ended.add(1);
    }
}
