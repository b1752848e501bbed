//! Envelope of a message: the contents of the [`Head`] of every mailbox message of MPI.
//!
//! ```text
//!  byte 0      1..4              4..8      8..12   12..16          16..22   22..24      24..32
//!       kind   generation (24)   context   tag     request index   size     signature   token
//! ```
//!
//! [`Envelope`] is the validated value; a head from a peer is parsed into one, or refused. `request` names the sender's
//! request if an answer is due. The answer repeats it with the token, a word that no other transfer of the sender has:
//! the name of a request is reused soon, that word is not. The signature code of the data is part of every message;
//! answers and pieces have none, and their `size` is a whole word.

use weft_fabric::{HEAD, Head, Token};

use super::request_id::RequestId;
use super::schedule::TAG_BIT_OF_OTHERS;
use crate::datatype::SignatureCode;

/// Bits of the size of a message: more than any memory has.
const SIZE_BITS: u32 = 48;

/// What kind of message an envelope heads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageKind {
    /// The data are here. Nobody waits for an answer.
    Eager,
    /// The data are here; the sender waits to hear that they were matched (`MPI_Ssend`).
    EagerSynchronous,
    /// Ready to send: the data can be pulled by `token` (rendezvous).
    Rts,
    /// Finished: to the sender of `Rts` or `EagerSynchronous`, whose message is matched and whose buffer is free.
    Fin,
    /// Ready to send: the data have gaps, and come in pieces when they are asked for.
    RtsPieces,
    /// Clear to send: to the sender of `Rts` or `RtsPieces`, which is to send the data in pieces. `size` names the receive.
    Cts,
    /// A part of the data, to the receive `request`. `size` is the number of bytes before it.
    Piece,
    /// Collectives of a context do not fit each other: the data say how, `size` is the class of the error.
    Mismatch,
    /// The sender has used up what it may send unasked: once that is received, the receiver answers.
    CreditAsk,
    /// The answer: as much as `size` again, the next time.
    Credit,
    /// Later messages of this context are held back; none any more, if `size` is 0.
    HeldBack,
    /// To the sender of `HeldBack`: a receive waits for a message with this tag; with any, if `size` is 1.
    Announce,
}

impl MessageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Eager,
            2 => Self::EagerSynchronous,
            3 => Self::Rts,
            4 => Self::Fin,
            5 => Self::RtsPieces,
            6 => Self::Cts,
            7 => Self::Piece,
            8 => Self::Mismatch,
            9 => Self::CreditAsk,
            10 => Self::Credit,
            11 => Self::HeldBack,
            12 => Self::Announce,
            _ => return None,
        })
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Eager => 1,
            Self::EagerSynchronous => 2,
            Self::Rts => 3,
            Self::Fin => 4,
            Self::RtsPieces => 5,
            Self::Cts => 6,
            Self::Piece => 7,
            Self::Mismatch => 8,
            Self::CreditAsk => 9,
            Self::Credit => 10,
            Self::HeldBack => 11,
            Self::Announce => 12,
        }
    }

    /// Whether it heads a message, which is matched; else something that belongs to a message.
    #[inline]
    pub(crate) fn is_message(self) -> bool {
        matches!(
            self,
            Self::Eager | Self::EagerSynchronous | Self::Rts | Self::RtsPieces
        )
    }

    /// Whether the data wait at the sender.
    #[inline]
    pub(crate) fn is_rts(self) -> bool {
        matches!(self, Self::Rts | Self::RtsPieces)
    }
}

/// A message without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    pub kind: MessageKind,
    /// Which communicator, and whether it is point-to-point or collective.
    pub context: u32,
    pub tag: i32,
    /// The request that an answer concerns; [`RequestId::NONE`] if none is due.
    pub request: RequestId,
    /// Bytes of the whole message.
    pub size: u64,
    /// What the data are; unknown for what is no message.
    pub signature: SignatureCode,
    /// The grant to pull by, for `Rts`; else a number of the sender's. Repeated by the answer. Of an eager message of a program its
    /// [mark](crate::marks); so of a message that is held back until it is granted.
    pub token: Token,
}

impl Envelope {
    /// An envelope without request and token.
    pub(crate) fn eager(context: u32, tag: i32, size: u64) -> Self {
        Self {
            kind: MessageKind::Eager,
            context,
            tag,
            request: RequestId::NONE,
            size,
            signature: SignatureCode::UNKNOWN,
            token: Token(0),
        }
    }

    /// The answer to this message of another.
    pub(crate) fn reply(&self) -> Self {
        Self {
            kind: MessageKind::Fin,
            context: 0,
            tag: 0,
            request: self.request,
            size: 0,
            signature: SignatureCode::UNKNOWN,
            token: self.token,
        }
    }

    /// The answer to this message of another that asks for its data in pieces, for a receive.
    pub(crate) fn clear_to_send(&self, receive: RequestId) -> Self {
        Self {
            kind: MessageKind::Cts,
            size: u64::from(receive.index()) | u64::from(receive.generation()) << 32,
            ..self.reply()
        }
    }

    /// The receive that data are asked for, of [`MessageKind::Cts`].
    pub(crate) fn receive(&self) -> RequestId {
        RequestId::new(self.size as u32, (self.size >> 32) as u32)
    }

    /// The head of data for a receive, behind `position` others. `token`: of the message that they belong to.
    pub(crate) fn piece(receive: RequestId, token: Token, position: u64) -> Self {
        Self {
            kind: MessageKind::Piece,
            request: receive,
            token,
            ..Self::eager(0, 0, position)
        }
    }

    /// Of [`flow`](super::flow) control: a word about a context.
    pub(crate) fn flow(kind: MessageKind, context: u32) -> Self {
        Self {
            kind,
            ..Self::eager(context, 0, 0)
        }
    }

    /// So much may be sent the next time.
    pub(crate) fn credit(bytes: u32) -> Self {
        Self {
            size: u64::from(bytes),
            ..Self::flow(MessageKind::Credit, 0)
        }
    }

    /// Whether messages of this context are held back.
    pub(crate) fn held_back(context: u32, any: bool) -> Self {
        Self {
            size: u64::from(any),
            ..Self::flow(MessageKind::HeldBack, context)
        }
    }

    /// A receive waits for one with this tag; `None` stands for any.
    pub(crate) fn announce(context: u32, tag: Option<i32>) -> Self {
        Self {
            tag: tag.unwrap_or(0),
            size: u64::from(tag.is_none()),
            ..Self::flow(MessageKind::Announce, context)
        }
    }

    /// The tag that [`MessageKind::Announce`] asks for.
    pub(crate) fn wanted_tag(&self) -> Option<i32> {
        (self.size == 0).then_some(self.tag)
    }

    /// The head, word by word, as this machine has them in memory.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; HEAD / 8] {
        let kind = u32::from(self.kind.to_byte()) | self.request.generation() << 8;
        let words = [
            pair(kind, self.context),
            pair(self.tag.cast_unsigned(), self.request.index()),
            self.size | u64::from(self.signature.bits()) << SIZE_BITS,
            self.token.0,
        ];
        words.map(u64::to_le)
    }

    #[inline]
    pub(crate) fn to_head(self) -> Head {
        // Whole words: the fabric copies words, and a word that was written in halves must leave the
        // store buffer first.
        let mut head = [0; HEAD];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(self.to_words()) {
            *place = word.to_ne_bytes();
        }
        head
    }

    /// Whether it belongs to a collective: in the place of the signature is the digest of its note, and, if it is eager, the
    /// note as token.
    pub(crate) fn is_of_collective(&self) -> bool {
        self.context & 1 == 1 && (0..TAG_BIT_OF_OTHERS).contains(&self.tag)
    }

    /// This, of data with this signature.
    #[inline]
    pub(crate) fn of(self, signature: SignatureCode) -> Self {
        Self { signature, ..self }
    }

    /// Context, tag and signature, if what a peer sent is an eager message of a program.
    #[inline]
    pub(crate) fn eager_from_head(head: &Head) -> Option<(u32, i32, SignatureCode)> {
        let (words, _) = head.as_chunks::<8>();
        let [first, second, third] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
        let tag = (second as u32).cast_signed();
        if first as u8 != MessageKind::Eager.to_byte() || tag < 0 {
            return None;
        }
        let signature = SignatureCode::from_bits((third >> SIZE_BITS) as u16);
        Some(((first >> 32) as u32, tag, signature))
    }

    /// Whether an eager message of a program, of which this is the head, carries a [mark](crate::marks).
    #[inline]
    pub(crate) fn is_marked(head: &Head) -> bool {
        head.as_chunks::<8>().0[3] != [0; 8]
    }

    /// Parses what a peer sent; `None` if it is no envelope.
    #[inline]
    pub(crate) fn from_head(head: &Head) -> Option<Self> {
        let (words, _) = head.as_chunks::<8>();
        let [first, second, size, token] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        // No program sends a negative tag, which would be a wildcard's number in C. The contexts that it does not
        // receive from use them: see `partitioned`.
        if (second as u32).cast_signed() < 0 && first >> 32 & 1 == 0 {
            return None;
        }
        let kind = MessageKind::from_byte(first as u8)?;
        let (size, signature) = if kind.is_message() {
            (size & ((1 << SIZE_BITS) - 1), (size >> SIZE_BITS) as u16)
        } else {
            (size, 0)
        };
        Some(Self {
            kind,
            context: (first >> 32) as u32,
            tag: (second as u32).cast_signed(),
            request: RequestId::new((second >> 32) as u32, first as u32 >> 8),
            size,
            signature: SignatureCode::from_bits(signature),
            token: Token(token),
        })
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_carries_every_field() {
        let envelope = Envelope {
            kind: MessageKind::Rts,
            context: 0xdead_beef,
            tag: 0x3fff_ffff,
            request: RequestId::new(77, 0x5a),
            size: (1 << SIZE_BITS) - 5,
            signature: SignatureCode::from_bits(0xabcd),
            token: Token(0x1234_5678_9abc_def0),
        };
        assert_eq!(Envelope::from_head(&envelope.to_head()), Some(envelope));
        let receive = RequestId::new(0xfedc_ba98, 0x35);
        assert_eq!(envelope.clear_to_send(receive).receive(), receive);
    }

    #[test]
    fn negative_tags_are_for_contexts_that_programs_do_not_receive_from() {
        let with = |context| Envelope::from_head(&Envelope::eager(context, -7, 0).to_head());
        assert_eq!(with(6), None);
        assert_eq!(with(7).map(|envelope| envelope.tag), Some(-7));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let mut head = Envelope::eager(1, 2, 3).to_head();
        for kind in (0..=255u8).filter(|kind| !(1..=12).contains(kind)) {
            head[0] = kind;
            assert_eq!(Envelope::from_head(&head), None);
        }
    }
}
