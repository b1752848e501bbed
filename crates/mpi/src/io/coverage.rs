//! Coverage: which bytes of a window have arrived, exactly, however the pieces lie and overlap: a bit for each granule,
//! the largest power of two that all pieces are multiples of.

use super::run::Run;
use crate::error::Result;

/// Granules of more bytes make the bitmap no smaller.
const LARGEST: u32 = 12;

/// Bytes of a window that have come.
pub(super) struct Coverage {
    /// log2 of a granule's bytes.
    shift: u32,
    bits: Vec<u64>,
}

impl Coverage {
    /// What these runs cover of the window from `start`.
    pub fn of<'a>(start: u64, runs: impl Iterator<Item = &'a Run> + Clone) -> Self {
        let all = runs.clone().fold(1 << LARGEST, |all, run| {
            let stride = if run.count > 1 { run.stride } else { 0 };
            all | (run.offset - start) | run.length | stride
        });
        let shift = all.trailing_zeros();
        let end = runs.clone().map(Run::end).max().unwrap_or(start) - start;
        let mut coverage = Self {
            shift,
            bits: vec![0; (end >> shift) as usize / 64 + 1],
        };
        for run in runs {
            for (place, length) in run.pieces() {
                coverage.add((place - start) >> shift, length >> shift);
            }
        }
        coverage
    }

    fn add(&mut self, first: u64, count: u64) {
        let end = first + count;
        let mut bit = first;
        while bit < end {
            let (word, offset) = ((bit / 64) as usize, bit % 64);
            let count = (end - bit).min(64 - offset);
            self.bits[word] |= (u64::MAX >> (64 - count)) << offset;
            bit += count;
        }
    }

    /// Calls `visit` with (offset, bytes) of the pieces, joined where they touch, in order.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn segments(&self, mut visit: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let mut first = None;
        let mut position = 0;
        let end = self.bits.len() as u64 * 64;
        while position < end {
            let word = self.bits[(position / 64) as usize];
            let offset = position % 64;
            // Looks for a bit that differs from what is being counted.
            let other = if first.is_some() { !word } else { word };
            let found = other >> offset;
            if found == 0 {
                position += 64 - offset;
                continue;
            }
            position += u64::from(found.trailing_zeros());
            match first.take() {
                None => first = Some(position),
                Some(begin) => visit(begin << self.shift, (position - begin) << self.shift)?,
            }
        }
        match first {
            None => Ok(()),
            Some(begin) => visit(begin << self.shift, (end - begin) << self.shift),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(start: u64, runs: &[Run]) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let coverage = Coverage::of(start, runs.iter());
        coverage
            .segments(|offset, length| {
                found.push((offset, length));
                Ok(())
            })
            .unwrap();
        found
    }

    fn run(offset: u64, length: u64, stride: u64, count: u64) -> Run {
        Run {
            offset,
            length,
            stride,
            count,
        }
    }

    #[test]
    fn interleaved_runs_make_one_piece() {
        let runs = [0, 64, 128, 192].map(|offset| run(1000 + offset, 64, 256, 1000));
        assert_eq!(segments(1000, &runs), [(0, 256_000)]);
        assert_eq!(segments(488, &runs), [(512, 256_000)]);
    }

    #[test]
    fn an_overlap_hides_no_hole() {
        let runs = [run(0, 10, 0, 1), run(5, 10, 0, 1), run(20, 5, 0, 1)];
        assert_eq!(segments(0, &runs), [(0, 15), (20, 5)]);
        let many = [run(3, 1, 3, 50), run(100, 64, 128, 2)];
        let mut bytes = [false; 400];
        for (place, length) in many.iter().flat_map(|run| run.pieces()) {
            bytes[place as usize..(place + length) as usize].fill(true);
        }
        let mut found = [false; 400];
        for (offset, length) in segments(0, &many) {
            assert!(!found[offset as usize..].iter().any(|set| *set));
            found[offset as usize..(offset + length) as usize].fill(true);
        }
        assert_eq!(found, bytes);
    }
}
