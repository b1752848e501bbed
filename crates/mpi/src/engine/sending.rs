//! Sending: a send under way, its progress, and the data that it keeps for the fabric to read.
//!
//! The [request](super::request) of a send has one of these until its outcome is known.

use weft_fabric::{Peer, Region, Token};

use super::protocol::Protocol;
use crate::buffer::{self, Buffer};

/// How far a send is.
///
/// ```text
///   Queued ──► (complete)                               eager
///   Queued ──► Unanswered ──► Answered ──► (complete)   synchronous, rendezvous
///   HeldBack ──► Queued ──► Unanswered ──► …            rendezvous, once the receiver has room to be told of it
///                   └───────► Asked ──► Leaving ──► (complete)   in pieces
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendState {
    /// The receiver was not told of it yet; nothing is granted.
    HeldBack,
    /// The message waits in the outbox, which refers to the data. Only its leaving, or its being taken
    /// out there, ends the send.
    Queued,
    /// The message has left; the receiver's answer is due.
    Unanswered,
    /// The receiver has answered; its grant is to be ended.
    Answered,
    /// The receiver has asked for the data; they are to be queued.
    Asked,
    /// The data wait in the outbox, which refers to them.
    Leaving,
}

/// A send under way: keeps what the fabric may still read.
#[derive(Debug)]
pub(super) struct Sending {
    /// The peer that may answer.
    to: Peer,
    protocol: Protocol,
    state: SendState,
    /// The word that an answer must repeat, which no other transfer has: the grant of a rendezvous, else a
    /// number.
    token: Token,
    kept: Kept,
}

/// The data of a send, as long as it needs them and its message has none.
#[derive(Debug)]
pub(super) enum Kept {
    Nothing,
    /// The caller's.
    Lent(Buffer),
    /// A copy, kept until the send has ended.
    Owned(Box<[u8]>),
}

/// A send whose receiver asks for its data.
pub(super) struct Asked {
    pub to: Peer,
    pub data: Buffer,
    pub token: Token,
    /// The grant that is not needed then.
    pub grant: Option<Token>,
}

impl Sending {
    /// A send whose message is about to be queued.
    pub(super) fn new(to: Peer, protocol: Protocol, token: Token, kept: Kept) -> Self {
        Self {
            to,
            protocol,
            state: SendState::Queued,
            token,
            kept,
        }
    }

    /// Whether it owns anything.
    pub(super) fn owns(&self) -> bool {
        !matches!(self.kept, Kept::Nothing | Kept::Lent(Buffer::Flat(..)))
    }

    /// The word that an answer must repeat.
    pub(super) fn set_token(&mut self, token: Token) {
        self.token = token;
    }

    /// The receiver is not told of it now.
    pub(super) fn hold_back(&mut self) {
        self.state = SendState::HeldBack;
    }

    /// Whether the receiver was told, or is being told, of data that it has not asked for.
    pub(super) fn is_announced(&self) -> bool {
        matches!(self.protocol, Protocol::Rendezvous | Protocol::Pieces)
            && !matches!(self.state, SendState::HeldBack | SendState::Leaving)
    }

    /// What is to be granted to the receiver, if it pulls.
    pub(super) fn granted(&mut self) -> Option<Region> {
        (self.protocol == Protocol::Rendezvous).then(|| match self.data() {
            Buffer::Flat(region, _) => region,
            Buffer::Typed(_) => unreachable!("what has gaps is sent in pieces"),
        })
    }

    /// The data, which stay until the send has ended.
    fn data(&mut self) -> Buffer {
        match &mut self.kept {
            Kept::Nothing => Buffer::untyped(Region::EMPTY),
            Kept::Lent(buffer) => buffer.clone(),
            Kept::Owned(bytes) => Buffer::untyped(buffer::region_of(bytes)),
        }
    }

    /// The receiver.
    pub(super) fn to(&self) -> Peer {
        self.to
    }

    /// Whether its message waits in the outbox.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.state, SendState::Queued | SendState::Leaving)
    }

    /// The grant that the data are read by.
    pub(super) fn grant(&self) -> Option<Token> {
        let is_granted = self.protocol == Protocol::Rendezvous && self.state != SendState::HeldBack;
        is_granted.then_some(self.token)
    }

    /// Whether the receiver has answered.
    pub(super) fn is_answered(&self) -> bool {
        self.state == SendState::Answered
    }

    /// The receiver of a send that is held back is to be told of it: what is to be granted, if it pulls.
    pub(super) fn release(&mut self) -> Option<Option<Region>> {
        (self.state == SendState::HeldBack).then(|| self.granted())
    }

    /// It is told, with this word.
    pub(super) fn announce(&mut self, token: Token) {
        self.state = SendState::Queued;
        self.token = token;
    }

    /// The message has left, or, if that failed, never will.
    pub(super) fn message_left(&mut self, failed: bool) -> AfterLeaving {
        let goes_on = self.protocol != Protocol::Eager && self.state != SendState::Leaving;
        if goes_on && !failed {
            self.state = SendState::Unanswered;
            return AfterLeaving::GoesOn;
        }
        AfterLeaving::Ends {
            grant: self.grant(),
        }
    }

    /// Whether this is the answer that is due.
    fn is_due(&self, from: Peer, token: Token) -> bool {
        (self.to, self.token, self.state) == (from, token, SendState::Unanswered)
    }

    /// A peer says that the send is matched and its buffer free.
    pub(super) fn answer(&mut self, from: Peer, token: Token) -> Answer {
        if !self.is_due(from, token) {
            return Answer::Undue;
        }
        self.state = SendState::Answered;
        if self.protocol == Protocol::Rendezvous {
            Answer::EndsGrant
        } else {
            Answer::Ends
        }
    }

    /// A peer says that the send is matched and asks for its data. True if they are to be sent.
    pub(super) fn ask(&mut self, from: Peer, token: Token) -> bool {
        let waits = matches!(self.protocol, Protocol::Rendezvous | Protocol::Pieces);
        let asked = waits && self.is_due(from, token);
        if asked {
            self.state = SendState::Asked;
        }
        asked
    }

    /// The data that the receiver has asked for are about to be queued.
    pub(super) fn begin_pieces(&mut self) -> Option<Asked> {
        if self.state != SendState::Asked {
            return None;
        }
        let grant = self.grant();
        self.state = SendState::Leaving;
        self.protocol = Protocol::Pieces;
        Some(Asked {
            to: self.to,
            data: self.data(),
            token: self.token,
            grant,
        })
    }
}

/// What becomes of a send whose message has left the outbox.
#[must_use]
pub(super) enum AfterLeaving {
    /// It goes on: the receiver's answer is due. Or there is no such send any more.
    GoesOn,
    /// It is to be completed, and its grant, if it has one, to be revoked.
    Ends { grant: Option<Token> },
}

/// What the answer of a receiver means.
#[must_use]
pub(super) enum Answer {
    /// Nothing: it is not due, or not from the receiver.
    Undue,
    /// The send is to be completed.
    Ends,
    /// The send's grant is to be revoked, then it is to be completed.
    EndsGrant,
}
