//! Division of a message: partitions of its sender, partitions of its receiver, and the pieces that travel.
//!
//! ```text
//!   sender's partitions   │    0    │    1    │    2    │
//!   pieces                │    0    │    1    │    2    │    one partition each, or several if there are very many
//!   receiver's partitions │       0      │      1       │    equal parts of the same bytes
//! ```
//!
//! Both sides know all of it once the receiver knows the number of the sender's partitions.

use std::ops::Range;

/// Pieces that a message has at most: each has a tag of its own, and the receiver posts a receive for it.
const MOST: u32 = 1 << 16;

/// How the bytes of a partitioned message are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Division {
    /// Partitions of the sender.
    partitions: u32,
    /// Partitions of the sender in a piece; fewer in the last one.
    in_piece: u32,
    /// Bytes of the whole message.
    bytes: u64,
}

impl Division {
    pub(super) fn new(partitions: u32, bytes: u64) -> Self {
        Self {
            partitions,
            in_piece: partitions.div_ceil(MOST).max(1),
            bytes,
        }
    }

    /// How many pieces there are.
    pub(super) fn pieces(self) -> u32 {
        self.partitions.div_ceil(self.in_piece)
    }

    /// Bytes of the whole message.
    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }

    /// Partitions of the sender.
    pub(super) fn partitions(self) -> u32 {
        self.partitions
    }

    /// The piece of a partition of the sender.
    pub(super) fn piece_of(self, partition: u32) -> u32 {
        partition / self.in_piece
    }

    /// The sender's partitions in a run of pieces.
    pub(super) fn partitions_in(self, pieces: Range<u32>) -> Range<u32> {
        let end = |piece: u32| piece.saturating_mul(self.in_piece).min(self.partitions);
        end(pieces.start)..end(pieces.end)
    }

    /// The bytes of a run of pieces.
    pub(super) fn bytes_in(self, pieces: Range<u32>) -> Range<u64> {
        let each = self.bytes / u64::from(self.partitions.max(1));
        let partitions = self.partitions_in(pieces);
        u64::from(partitions.start) * each..u64::from(partitions.end) * each
    }

    /// How many pieces a message has that begins with piece `first` and has so many bytes; `None` if no number of
    /// pieces has. Where pieces are empty, a message is one.
    pub(super) fn pieces_in(self, first: u32, bytes: u64) -> Option<u32> {
        let one = self.bytes_in(first..first + 1);
        let each = one.end - one.start;
        if bytes <= each {
            return (bytes == each).then_some(1);
        }
        // All but the last have as many bytes as this one.
        let count = u32::try_from(bytes.div_ceil(each.max(1))).ok()?;
        let end = first.checked_add(count)?;
        let covered = self.bytes_in(first..end);
        (end <= self.pieces() && covered.end - covered.start == bytes).then_some(count)
    }

    /// The pieces that have bytes of a partition of the receiver, which has so many.
    pub(super) fn pieces_of_received(self, partition: u32, partitions: u32) -> Range<u32> {
        let (ours, theirs) = (u64::from(partitions), u64::from(self.partitions));
        if ours == 0 || theirs == 0 {
            return 0..0;
        }
        let first = u64::from(partition) * theirs / ours;
        let end = ((u64::from(partition) + 1) * theirs).div_ceil(ours);
        self.piece_of(first as u32)..self.piece_of(end as u32 - 1) + 1
    }

    /// The partitions of the receiver, which has so many, that have bytes of a piece.
    pub(super) fn received_in(self, piece: u32, partitions: u32) -> Range<u32> {
        let (ours, theirs) = (u64::from(partitions), u64::from(self.partitions));
        let sent = self.partitions_in(piece..piece + 1);
        if theirs == 0 {
            return 0..0;
        }
        let first = u64::from(sent.start) * ours / theirs;
        let end = (u64::from(sent.end) * ours).div_ceil(theirs);
        first as u32..end as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_views_of_an_overlap_agree() {
        for (theirs, ours) in [
            (1, 1),
            (3, 2),
            (2, 3),
            (7, 64),
            (64, 7),
            (200_000, 3),
            (5, 1),
        ] {
            let division = Division::new(theirs, u64::from(theirs) * u64::from(ours) * 4);
            assert!(division.pieces() <= MOST);
            let mut seen = 0_u64;
            for piece in 0..division.pieces() {
                for partition in division.received_in(piece, ours) {
                    let back = division.pieces_of_received(partition, ours);
                    assert!(back.contains(&piece), "{theirs} {ours} {piece} {partition}");
                    seen += 1;
                }
            }
            let counted: u64 = (0..ours)
                .map(|partition| division.pieces_of_received(partition, ours).len() as u64)
                .sum();
            assert_eq!(seen, counted);
        }
    }

    #[test]
    fn the_length_of_a_message_tells_its_pieces() {
        let division = Division::new(5, 40);
        assert_eq!(division.pieces_in(0, 8), Some(1));
        assert_eq!(division.pieces_in(1, 24), Some(3));
        assert_eq!(division.pieces_in(3, 24), None, "beyond the end");
        assert_eq!(division.pieces_in(1, 9), None);
        assert_eq!(division.pieces_in(1, u64::MAX), None);
        assert_eq!(Division::new(3, 0).pieces_in(2, 0), Some(1));
        let many = Division::new(100_001, 100_001);
        let last = many.pieces() - 1;
        assert_eq!(many.bytes_in(last..last + 1), 100_000..100_001);
        assert_eq!(many.pieces_in(last - 1, 3), Some(2));
        assert_eq!(Division::new(0, 0).pieces(), 0);
    }
}
