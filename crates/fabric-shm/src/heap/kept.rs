//! Kept blocks: pages of released blocks, with their memory and their mapping, for the next block of as many bytes.
//!
//! Invariant: they have at most [`MOST`] bytes in all. The oldest is first.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_sys::Mapping;

/// Bytes that a process keeps: enough for some windows of 1 MiB, for which most is saved, and little beside what a process has anyway
/// ([decision 37](../../../../docs/decisions/0037-shared-memory-for-windows.md) has the times).
pub(crate) const MOST: usize = 4 << 20;

/// Pages that have memory and are mapped.
#[derive(Debug)]
pub(crate) struct Backed {
    /// From the start of the arena; whole pages.
    pub offset: usize,
    pub bytes: usize,
    pub mapping: Arc<Mapping>,
}

/// Pages of released blocks. See the [module page](self).
#[derive(Debug, Default)]
pub(crate) struct Kept {
    all: VecDeque<Backed>,
    bytes: usize,
}

impl Kept {
    /// Takes pages of exactly so many bytes, those that were kept last. What they hold is what their last user left.
    pub fn take(&mut self, bytes: usize) -> Option<Backed> {
        let index = self.all.iter().rposition(|kept| kept.bytes == bytes)?;
        let taken = self.all.remove(index)?;
        self.bytes -= taken.bytes;
        Some(taken)
    }

    /// Keeps pages. Answers those for which there is no room, perhaps these.
    #[must_use = "their memory is to be given back"]
    pub fn keep(&mut self, pages: Backed) -> Vec<Backed> {
        if pages.bytes > MOST {
            return vec![pages];
        }
        self.bytes += pages.bytes;
        self.all.push_back(pages);
        let mut out = Vec::new();
        while self.bytes > MOST
            && let Some(oldest) = self.all.pop_front()
        {
            self.bytes -= oldest.bytes;
            out.push(oldest);
        }
        out
    }

    /// All of them.
    #[must_use = "their memory is to be given back"]
    pub fn take_all(&mut self) -> Vec<Backed> {
        self.bytes = 0;
        std::mem::take(&mut self.all).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(offset: usize, bytes: usize) -> Backed {
        let mapping = Arc::new(Mapping::private(4096).expect("maps"));
        Backed {
            offset,
            bytes,
            mapping,
        }
    }

    fn offsets(all: &[Backed]) -> Vec<usize> {
        all.iter().map(|kept| kept.offset).collect()
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut kept = Kept::default();
        assert_eq!(offsets(&kept.keep(pages(1, MOST + 1))), [1]);
        assert!(kept.keep(pages(2, MOST / 2)).is_empty());
        assert!(kept.keep(pages(3, MOST / 4)).is_empty());
        assert!(kept.keep(pages(4, MOST / 4)).is_empty());
        assert_eq!(offsets(&kept.keep(pages(5, MOST / 2 + 1))), [2, 3]);
        assert_eq!(offsets(&kept.keep(pages(6, MOST))), [4, 5]);
        assert_eq!(offsets(&kept.take_all()), [6]);
        assert!(kept.keep(pages(7, MOST)).is_empty(), "nothing is counted");
    }

    #[test]
    fn pages_are_taken_by_their_size() {
        let mut kept = Kept::default();
        for (offset, bytes) in [(1, 4096), (2, 8192), (3, 4096)] {
            assert!(kept.keep(pages(offset, bytes)).is_empty());
        }
        let mut take = |bytes| kept.take(bytes).map(|kept| kept.offset);
        assert_eq!(take(1024), None);
        assert_eq!(
            (take(4096), take(4096), take(4096)),
            (Some(3), Some(1), None)
        );
        assert_eq!((take(8192), take(8192)), (Some(2), None));
    }
}
