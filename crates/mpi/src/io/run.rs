//! Run: pieces of equal length at equal distances in a file; a list of runs is a compact description of a set of bytes.

use crate::datatype::StridedBlock;

/// Bytes of a run in a message.
pub(super) const ENCODED: usize = 32;

/// `count` pieces of `length` bytes, the first at `offset`, each `stride` bytes after the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub offset: u64,
    pub length: u64,
    /// At least `length` where there is more than one piece and they come in order.
    pub stride: u64,
    pub count: u64,
}

impl Run {
    /// One piece.
    pub fn piece(offset: u64, length: u64) -> Self {
        Self {
            offset,
            length,
            stride: 0,
            count: 1,
        }
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.length.saturating_mul(self.count)
    }

    /// Where the piece `index` begins.
    pub fn place(&self, index: u64) -> u64 {
        self.offset.wrapping_add(self.stride.wrapping_mul(index))
    }

    /// Where the last piece ends.
    pub fn end(&self) -> u64 {
        self.place(self.count - 1) + self.length
    }

    /// The pieces.
    pub fn pieces(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.count).map(move |index| (self.place(index), self.length))
    }

    /// As a block of memory, whose rule of joining holds here, too.
    fn block(&self) -> StridedBlock {
        StridedBlock {
            offset: self.offset as isize,
            bytes: self.length as usize,
            count: self.count as usize,
            stride: self.stride as isize,
        }
    }

    fn of(block: StridedBlock) -> Self {
        Self {
            offset: block.offset as u64,
            length: block.bytes as u64,
            stride: block.stride as u64,
            count: block.count as u64,
        }
    }

    fn to_bytes(self) -> [u8; ENCODED] {
        let mut bytes = [0; ENCODED];
        let words = [self.offset, self.length, self.stride, self.count];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut next = || words.next().unwrap_or(0);
        Self {
            offset: next(),
            length: next(),
            stride: next(),
            count: next(),
        }
    }
}

/// Runs in order, as few as the pieces allow without looking back further than one run.
#[derive(Clone, Default, Debug)]
pub(super) struct RunList {
    runs: Vec<Run>,
    bytes: u64,
}

impl RunList {
    /// Adds pieces behind those that are there.
    #[inline]
    pub fn push(&mut self, mut run: Run) {
        if run.count == 0 || run.length == 0 {
            return;
        }
        self.bytes += run.bytes();
        if run.count > 1 && run.stride == run.length {
            run = Run::piece(run.offset, run.length * run.count);
        }
        let mut joined = None;
        if let Some(last) = self.runs.last() {
            let mut block = last.block();
            joined = block.append(run.block()).then(|| Run::of(block));
        }
        match (self.runs.last_mut(), joined) {
            (Some(last), Some(joined)) => *last = joined,
            _ => self.runs.push(run),
        }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    /// For a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.runs.iter().flat_map(|run| run.to_bytes()).collect()
    }

    /// From a message.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let runs: Vec<Run> = bytes.chunks_exact(ENCODED).map(Run::from_bytes).collect();
        Self {
            bytes: runs.iter().map(Run::bytes).sum(),
            runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pieces: &[(u64, u64)]) -> RunList {
        let mut list = RunList::default();
        for &(offset, length) in pieces {
            list.push(Run::piece(offset, length));
        }
        list
    }

    fn pieces(list: &RunList) -> Vec<(u64, u64)> {
        list.runs().iter().flat_map(|run| run.pieces()).collect()
    }

    #[test]
    fn regular_pieces_are_one_run() {
        let regular: Vec<_> = (0..1000).map(|index| (7 + index * 10, 4)).collect();
        let mut runs = list(&regular);
        assert_eq!(runs.runs().len(), 1);
        runs.push(Run {
            offset: 10_007,
            length: 4,
            stride: 10,
            count: 5,
        });
        assert_eq!((runs.runs().len(), runs.bytes()), (1, 4020));
        assert_eq!(runs.runs()[0].end(), 7 + 1004 * 10 + 4);
    }

    #[test]
    fn adjacent_pieces_are_joined() {
        let mut runs = list(&[(0, 3), (3, 4), (7, 1)]);
        runs.push(Run {
            offset: 8,
            length: 2,
            stride: 2,
            count: 4,
        });
        assert_eq!(runs.runs(), [Run::piece(0, 16)]);
    }

    #[test]
    fn irregular_pieces_stay_what_they_are() {
        let given = [(0, 4), (10, 4), (30, 4), (40, 4), (50, 2), (60, 2), (55, 2)];
        let runs = list(&given);
        assert_eq!(pieces(&runs), given);
        let again = RunList::from_bytes(&runs.to_bytes());
        assert_eq!(
            (pieces(&again), again.bytes()),
            (given.to_vec(), runs.bytes())
        );
    }
}
