//! Inbox of an endpoint under test: what arrived, kept; and the messages that the properties send: numbered, and told
//! apart byte by byte.

use super::memory::pattern;
use crate::{HEAD, Head, Operation, Peer, Result, SharedBytes, Sink, SyncKey};

/// What a sink was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message.
    Message {
        /// Its sender.
        from: Peer,
        /// Its fixed part.
        head: Head,
        /// Its data.
        data: Vec<u8>,
    },
    /// The end of a transfer.
    TransferCompleted(Operation, Result<()>),
    /// A peer was lost.
    Lost(Peer),
    /// A signal.
    Signalled(Peer, SyncKey),
}

/// A sink that keeps everything, in order.
#[derive(Default, Debug)]
pub struct Inbox {
    /// What came, in order.
    pub events: Vec<Event>,
    messages: usize,
}

impl Sink for Inbox {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.messages += 1;
        self.events.push(Event::Message {
            from,
            head: *head,
            data: data.to_vec(),
        });
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.events
            .push(Event::TransferCompleted(operation, result));
    }

    fn lost(&mut self, peer: Peer, _reason: &str) {
        self.events.push(Event::Lost(peer));
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.events.push(Event::Signalled(from, key));
    }
}

impl Inbox {
    /// How many messages came.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// The messages of one sender, in the order in which they came.
    pub fn of(&self, sender: usize) -> impl Iterator<Item = (&Head, &[u8])> {
        self.events.iter().filter_map(move |event| match event {
            Event::Message { from, head, data } if from.index() == sender => {
                Some((head, data.as_slice()))
            }
            _ => None,
        })
    }

    /// Whether a peer was lost.
    #[must_use]
    pub fn has_lost(&self, peer: Peer) -> bool {
        self.events.contains(&Event::Lost(peer))
    }

    /// How a transfer ended, if it did.
    ///
    /// # Panics
    /// If it ended twice.
    #[must_use]
    pub fn transfer_completed(&self, operation: Operation) -> Option<Result<()>> {
        let mut ends = self.events.iter().filter_map(|event| match event {
            Event::TransferCompleted(of, result) if *of == operation => Some(result.clone()),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "{operation:?} ended twice");
        end
    }

    /// Checks that the messages of `sender` are exactly `count`, numbered from 0 by [`numbered`], with
    /// the data that `length` says.
    ///
    /// # Panics
    /// If they are not.
    pub fn check(&self, sender: usize, count: u64, length: impl Fn(u64) -> usize) {
        let mut expected = 0;
        for (head, data) in self.of(sender) {
            assert_eq!(
                *head,
                numbered(sender, expected),
                "the head of message {expected} of sender {sender}: {} came instead",
                number_of(head)
            );
            let whole = message_data(sender, expected, length(expected));
            assert!(
                data == whole,
                "message {expected} of sender {sender}: {}",
                difference(data, &whole)
            );
            expected += 1;
        }
        assert_eq!(expected, count, "messages of sender {sender}");
    }
}

/// The head of message `number` of `sender`; all its bytes are used.
#[must_use]
pub fn numbered(sender: usize, number: u64) -> Head {
    let mut head = [0; HEAD];
    head.copy_from_slice(&pattern(
        HEAD,
        number ^ 0x5EED_0000 ^ ((sender as u64) << 40),
    ));
    head[..8].copy_from_slice(&number.to_le_bytes());
    head
}

/// The number that [`numbered`] put into a head.
#[must_use]
pub fn number_of(head: &Head) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&head[..8]);
    u64::from_le_bytes(number)
}

/// The data of message `number` of `sender`.
#[must_use]
pub fn message_data(sender: usize, number: u64, length: usize) -> Vec<u8> {
    pattern(length, number ^ ((sender as u64 + 1) << 32))
}

/// In words, where two spans differ: whole spans would fill the screen.
#[must_use]
pub fn difference(came: &[u8], expected: &[u8]) -> String {
    if came.len() != expected.len() {
        return format!("{} bytes came instead of {}", came.len(), expected.len());
    }
    match came.iter().zip(expected).position(|(a, b)| a != b) {
        Some(at) => format!(
            "byte {at} of {} is {:#04x} instead of {:#04x}",
            came.len(),
            came[at],
            expected[at]
        ),
        None => "no difference".into(),
    }
}
