//! Loopback: messages and signals of a rank to itself, which wait for its next poll.

use std::collections::VecDeque;

use weft_fabric::{Head, Peer, Posted, SharedBytes, SignalTable, Sink, SyncKey};

/// Most messages and signals that may wait.
const LIMIT: usize = 256;

enum Item {
    Message(Head, Vec<u8>),
    Signal(SyncKey),
}

/// The messages that a rank has sent to itself.
#[derive(Default)]
pub struct Loopback {
    items: VecDeque<Item>,
}

impl Loopback {
    /// Keeps a message, if not too many wait.
    pub fn send(&mut self, head: &Head, data: &[u8]) -> Posted {
        self.keep(|| Item::Message(*head, data.to_vec()))
    }

    /// Keeps a signal, if not too many wait.
    pub fn signal(&mut self, key: SyncKey) -> Posted {
        self.keep(|| Item::Signal(key))
    }

    fn keep(&mut self, item: impl FnOnce() -> Item) -> Posted {
        if self.items.len() >= LIMIT {
            return Posted::Retry;
        }
        self.items.push_back(item());
        Posted::Done
    }

    /// Hands out at most `budget` of those that wait now; returns how many.
    #[inline]
    pub fn deliver(
        &mut self,
        me: Peer,
        signals: &mut SignalTable,
        sink: &mut dyn Sink,
        budget: usize,
    ) -> usize {
        let count = self.items.len().min(budget);
        for _ in 0..count {
            match self.items.pop_front() {
                Some(Item::Message(head, data)) => {
                    sink.message(me, &head, SharedBytes::of(&data));
                }
                Some(Item::Signal(key)) => {
                    signals.arrive(me, key);
                    sink.signalled(me, key);
                }
                None => break,
            }
        }
        count
    }
}
