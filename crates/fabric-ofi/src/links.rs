//! Links: what one endpoint shares with each peer: credits, counts and acknowledgements, the passes of both directions,
//! and the answers still to be sent.
//!
//! *Invariants:* at most [`WINDOW`] counted messages are not acknowledged; `told` is never beyond `received`. Counts wrap.

use std::collections::VecDeque;

use crate::libfabric::device::Address;
use crate::wire::{End, FrameKind, Header};

/// Most counted messages to one peer that it has not acknowledged.
pub const WINDOW: u32 = 128;

/// After this many processed messages an acknowledgement is sent unasked.
const OFTEN: u32 = WINDOW / 4;

/// An answer that waits for a credit.
#[derive(Debug)]
pub enum Answer {
    /// The end of a transfer.
    End(End),
    /// The bytes of a small get, with the asker's number.
    Data(u32, Vec<u8>),
}

/// The state shared with one peer.
#[derive(Debug)]
pub struct Link {
    address: Address,
    pass_out: u64,
    pass_in: u64,
    sent: u64,
    acknowledged: u32,
    received: u64,
    told: u32,
    /// The peer waits for an acknowledgement.
    answer_wanted: bool,
    /// The count up to which the peer was asked to acknowledge.
    asked: u32,
    /// The count after the last message that must not be lost.
    needed: u32,
    /// Send slots with messages that the provider had no room for, and their lengths: first in, first out.
    pub waiting: VecDeque<(usize, usize)>,
    /// Answers that wait for a credit.
    pub answers: VecDeque<Answer>,
    /// The number of transfers that the peer was asked for.
    pub asks: usize,
    /// Whether the link is in the list of links with something to do.
    pub is_listed: bool,
    /// A goodbye is to be sent.
    pub goodbye_wanted: bool,
    /// We have said goodbye to it, and nothing since.
    pub goodbye_said: bool,
    /// It has said goodbye, and nothing since.
    pub is_over: bool,
    /// The TCP endpoint reports that it has left, and nothing has come since. Its goodbye here may have been
    /// lost with its connection.
    pub has_left: bool,
}

impl Link {
    /// A link on which nothing was exchanged yet.
    pub fn new(address: Address, pass_out: u64, pass_in: u64) -> Self {
        Self {
            address,
            pass_out,
            pass_in,
            sent: 0,
            acknowledged: 0,
            received: 0,
            told: 0,
            answer_wanted: false,
            asked: 0,
            needed: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            asks: 0,
            is_listed: false,
            goodbye_wanted: false,
            goodbye_said: false,
            is_over: false,
            has_left: false,
        }
    }

    /// Where the peer is.
    #[inline]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Whether a message of this kind may be sent now.
    #[inline]
    pub fn has_credit(&self, kind: FrameKind) -> bool {
        !kind.is_counted() || (self.sent as u32).wrapping_sub(self.acknowledged) < WINDOW
    }

    /// Whether a piece of a transfer may be sent now: half of the credits are left to others.
    pub fn has_credit_for_pieces(&self) -> bool {
        (self.sent as u32).wrapping_sub(self.acknowledged) < WINDOW / 2
    }

    /// The header of the next message.
    #[inline]
    pub fn header(&self, me: u32, kind: FrameKind, answer: bool) -> Header {
        Header {
            pass: self.pass_out,
            from: me,
            sequence: self.sent as u32,
            acks: self.received as u32,
            kind,
            answer,
        }
    }

    /// Notes that a message with that header was sent.
    #[inline]
    pub fn note_sent(&mut self, header: &Header) {
        self.told = header.acks;
        self.answer_wanted = false;
        if header.answer {
            self.asked = self.needed;
        }
        if !header.kind.is_counted() {
            return;
        }
        self.sent += 1;
        self.goodbye_said = header.kind == FrameKind::Goodbye;
        if !self.goodbye_said {
            self.needed = self.sent as u32;
        }
    }

    /// Whether the sender of a message has the pass.
    #[inline]
    pub fn admits(&self, header: &Header) -> bool {
        header.pass == self.pass_in
    }

    /// Notes a message that has arrived. False if it is not the next one, or acknowledges what was not sent.
    #[inline]
    #[must_use]
    pub fn note_received(&mut self, header: &Header) -> bool {
        let unacknowledged = (self.sent as u32).wrapping_sub(header.acks);
        let known = (self.sent as u32).wrapping_sub(self.acknowledged);
        if unacknowledged > known {
            return false;
        }
        self.acknowledged = header.acks;
        self.answer_wanted |= header.answer;
        if !header.kind.is_counted() {
            return true;
        }
        let expected = self.received as u32;
        self.received += 1;
        self.is_over = header.kind == FrameKind::Goodbye;
        self.has_left = false;
        header.sequence == expected
    }

    /// Whether an acknowledgement alone is to be sent.
    #[inline]
    pub fn owes_ack(&self) -> bool {
        self.answer_wanted || (self.received as u32).wrapping_sub(self.told) >= OFTEN
    }

    /// Whether the link has something to do by itself.
    pub fn is_pending(&self) -> bool {
        self.owes_ack()
            || !self.answers.is_empty()
            || !self.waiting.is_empty()
            || self.goodbye_wanted
    }

    /// Whether the peer has processed what was sent, except a goodbye, or needs it no more.
    pub fn is_flushed(&self) -> bool {
        let missing = self.needed.wrapping_sub(self.acknowledged);
        let arrived = missing == 0 || missing > u32::MAX / 2;
        (arrived && self.answers.is_empty() && !self.goodbye_wanted) || self.needs_nothing()
    }

    /// Whether the peer has said itself that it may be gone.
    pub fn needs_nothing(&self) -> bool {
        self.is_over || self.has_left
    }

    /// Stops waiting for the peer, if nothing was ever received from it.
    pub fn abandon_unless_heard(&mut self) {
        self.has_left |= self.received == 0 && self.acknowledged == 0;
    }

    /// Whether the peer should be asked to acknowledge what is outstanding.
    pub fn should_ask(&self) -> bool {
        !self.is_flushed() && self.asked != self.needed
    }

    /// The numbers of counted messages sent and received.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libfabric::device::Device;

    fn pair() -> [Link; 2] {
        let address = Device::no_address();
        [Link::new(address, 1, 2), Link::new(address, 2, 1)]
    }

    fn carry(from: &mut Link, to: &mut Link, kind: FrameKind, answer: bool) -> bool {
        let header = from.header(0, kind, answer);
        from.note_sent(&header);
        to.admits(&header) && to.note_received(&header)
    }

    #[test]
    fn credits_end_and_come_back_with_any_message() {
        let [mut a, mut b] = pair();
        for _ in 0..WINDOW {
            assert!(a.has_credit(FrameKind::Message));
            assert!(carry(&mut a, &mut b, FrameKind::Message, false));
        }
        assert!(!a.has_credit(FrameKind::Message) && a.has_credit(FrameKind::Ack));
        assert!(!a.has_credit_for_pieces());
        assert!(b.owes_ack());
        assert!(carry(&mut b, &mut a, FrameKind::Ack, false));
        assert!(a.has_credit(FrameKind::Message) && !b.owes_ack());
        for _ in 0..WINDOW / 2 {
            assert!(a.has_credit_for_pieces());
            assert!(carry(&mut a, &mut b, FrameKind::Piece, false));
        }
        assert!(!a.has_credit_for_pieces() && a.has_credit(FrameKind::Message));
        assert!(b.owes_ack(), "or nothing would go on");
    }

    #[test]
    fn what_was_not_said_is_refused() {
        let [mut a, mut b] = pair();
        let good = a.header(0, FrameKind::Message, false);
        let acknowledging = Header { acks: 1, ..good };
        assert!(!b.note_received(&acknowledging), "nothing was sent");
        let stranger = Header { pass: 9, ..good };
        assert!(!b.admits(&stranger));
        assert!(carry(&mut a, &mut b, FrameKind::Message, false));
        let later = Header {
            sequence: 2,
            ..good
        };
        assert!(!b.note_received(&later), "one is missing");
    }

    #[test]
    fn it_is_flushed_when_all_but_a_goodbye_is_acknowledged() {
        let [mut a, mut b] = pair();
        assert!(carry(&mut a, &mut b, FrameKind::Message, false));
        assert!(!a.is_flushed() && a.should_ask());
        assert!(carry(&mut a, &mut b, FrameKind::Ack, true));
        assert!(!a.should_ask() && b.owes_ack());
        assert!(carry(&mut b, &mut a, FrameKind::Ack, false));
        assert!(a.is_flushed());
        assert!(carry(&mut a, &mut b, FrameKind::Goodbye, false));
        assert!(a.is_flushed() && b.is_over && a.goodbye_said);
        assert!(carry(&mut a, &mut b, FrameKind::Message, false));
        assert!(!a.is_flushed() && !b.is_over && !a.goodbye_said);
        assert!(carry(&mut b, &mut a, FrameKind::Goodbye, false));
        assert!(a.is_flushed(), "who may have ended needs it no more");
    }
}
