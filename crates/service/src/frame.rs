//! Frames: the contents of the head of each fabric message of the services.
//!
//! ```text
//!  byte 0     1            2             3      4..8       8..16    16..24
//!       kind  target port  source port   zero   number     token    size
//! ```
//!
//! Kinds start at [`FIRST`], so that a frame is no envelope of MPI and the two can share a lane. [`Frame`] is the
//! validated value; a head from a peer is parsed into one, or refused.

use weft_fabric::{Head, Token};

/// Heads whose first byte is less belong to the other user of the endpoint.
pub const FIRST: u8 = 0xe0;

/// Purpose of a frame. "Target" and "source" are those of the transfer that it is about, not of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// A mailbox message; the data are its body.
    Mail = FIRST,
    /// To the writer of mail: `number` of its messages to the target port were read.
    Credit,
    /// To the writer of a portal: put `size` bytes at most, by `token`.
    Permit,
    /// To the reader of a portal: get `size` bytes by `token`.
    Offer,
    /// To the reader: the data themselves.
    Data,
    /// To the reader: `size` bytes were put; or not, for the reason in `number`.
    Placed,
    /// To the writer: its data were taken; or not, for the reason in `number`.
    Taken,
    /// The target port of the sender has the name in the data.
    Named,
    /// The sender gives up the name in the data.
    Unnamed,
    /// Asks which node has the name in the data.
    Asked,
    /// The sender leaves in order.
    Left,
}

impl FrameKind {
    const ALL: [Self; 11] = [
        Self::Mail,
        Self::Credit,
        Self::Permit,
        Self::Offer,
        Self::Data,
        Self::Placed,
        Self::Taken,
        Self::Named,
        Self::Unnamed,
        Self::Asked,
        Self::Left,
    ];
}

/// `number` of a transfer that took place.
pub(crate) const DONE: u32 = 0;
/// `number` of a transfer that did not: the data were longer than the buffer of the reader.
pub(crate) const TOO_LONG: u32 = 1;
/// `number` of a transfer that did not: the fabric refused.
pub(crate) const REFUSED: u32 = 2;

/// A frame without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub kind: FrameKind,
    /// The port that the data go to.
    pub target: u8,
    /// The source port that the data come from.
    pub source: u8,
    pub number: u32,
    pub token: Token,
    pub size: u64,
}

impl Frame {
    pub(crate) fn new(kind: FrameKind, target: u8, source: u8) -> Self {
        Self {
            kind,
            target,
            source,
            number: 0,
            token: Token(0),
            size: 0,
        }
    }

    #[inline]
    pub(crate) fn to_head(self) -> Head {
        // Whole words: see the envelope of MPI.
        let first = u64::from(self.kind as u8)
            | u64::from(self.target) << 8
            | u64::from(self.source) << 16
            | u64::from(self.number) << 32;
        let mut head = [0; 32];
        let words = [first, self.token.0, self.size];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        head
    }

    /// Parses what a peer sent; `None` if it is no frame.
    #[inline]
    pub(crate) fn from_head(head: &Head) -> Option<Self> {
        let (words, _) = head.as_chunks::<8>();
        let [first, token, size] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
        let kind = (first as u8).checked_sub(FIRST)?;
        Some(Self {
            kind: *FrameKind::ALL.get(usize::from(kind))?,
            target: (first >> 8) as u8,
            source: (first >> 16) as u8,
            number: (first >> 32) as u32,
            token: Token(token),
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_carries_every_field() {
        for (place, kind) in FrameKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, usize::from(FIRST) + place);
            let frame = Frame {
                number: 0xdead_beef,
                token: Token(u64::MAX - 7),
                size: 1 << 40,
                ..Frame::new(kind, 255, 17)
            };
            assert_eq!(Frame::from_head(&frame.to_head()), Some(frame));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let mut head = Frame::new(FrameKind::Mail, 1, 2).to_head();
        for kind in (0..FIRST).chain(FIRST + 11..=255) {
            head[0] = kind;
            assert_eq!(Frame::from_head(&head), None);
        }
    }
}
