//! Goodbyes of a session: which of its two sides have said that they may end, and have sent nothing of their own accord since.

use crate::wire::FrameKind;

/// The goodbyes that hold.
#[derive(Clone, Copy, Default, Debug)]
pub struct Goodbyes {
    received: bool,
    sent: bool,
}

impl Goodbyes {
    /// Whether the peer may end.
    #[inline]
    pub fn is_received(self) -> bool {
        self.received
    }

    /// Whether we may end.
    #[inline]
    pub fn is_sent(self) -> bool {
        self.sent
    }

    /// We say goodbye.
    pub fn say(&mut self) {
        self.sent = true;
    }

    /// We send something of our own accord: our goodbye holds no more.
    #[inline]
    pub fn take_back(&mut self) {
        self.sent = false;
    }

    /// The peer has sent a counted frame. Answers are sent even after a goodbye, which stays as it is.
    #[inline]
    pub fn hear(&mut self, kind: FrameKind) {
        match kind {
            FrameKind::Goodbye => self.received = true,
            FrameKind::Acknowledge | FrameKind::End | FrameKind::Flush => {}
            _ => self.received = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_a_goodbye_and_messages_take_it_back() {
        let mut goodbyes = Goodbyes::default();
        for (kind, holds) in [
            (FrameKind::End, false),
            (FrameKind::Goodbye, true),
            (FrameKind::Acknowledge, true),
            (FrameKind::End, true),
            (FrameKind::Flush, true),
            (FrameKind::Message, false),
            (FrameKind::Goodbye, true),
            (FrameKind::Signal, false),
        ] {
            goodbyes.hear(kind);
            assert_eq!(goodbyes.is_received(), holds, "after {kind:?}");
        }
        assert!(!goodbyes.is_sent(), "that is the other side's");
        goodbyes.say();
        assert!(goodbyes.is_sent());
        goodbyes.take_back();
        assert!(!goodbyes.is_sent());
    }
}
