//! Log of frames: one for each counted frame that was begun and is not acknowledged.
//!
//! *Invariant:* frames are in the order of the wire, so that the peer acknowledges them by how many it has processed in all.

use std::collections::VecDeque;

use super::chunk::Chunk;
use crate::wire::Malformed;

/// A frame that the peer may not have processed.
enum LoggedFrame {
    /// It has so many bytes in the ring.
    Control(u32),
    Chunk(Chunk),
}

/// The frames that one peer has not acknowledged.
#[derive(Default)]
pub struct Log {
    frames: VecDeque<LoggedFrame>,
    acknowledged: u64,
}

impl Log {
    /// A frame of the ring, with so many bytes, comes next.
    #[inline]
    pub fn push_control(&mut self, length: usize) {
        self.frames.push_back(LoggedFrame::Control(length as u32));
    }

    /// A chunk comes next.
    pub fn push_chunk(&mut self, chunk: Chunk) {
        self.frames.push_back(LoggedFrame::Chunk(chunk));
    }

    /// The number of frames in all.
    #[inline]
    pub fn begun(&self) -> u64 {
        self.acknowledged + self.frames.len() as u64
    }

    /// Whether all of them are acknowledged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Notes that the peer has processed this many frames in all, and releases what they had in the ring. False if it was known.
    ///
    /// # Errors
    /// That is more than were begun.
    #[inline]
    pub fn acknowledge(
        &mut self,
        processed: u64,
        mut release: impl FnMut(usize),
    ) -> Result<bool, Malformed> {
        // An older number is possible: a frame that was made before a lost one, and is sent again, carries
        // the number of that time.
        if processed <= self.acknowledged {
            return Ok(false);
        }
        if processed > self.begun() {
            return Err(Malformed);
        }
        while self.acknowledged < processed {
            match self.frames.pop_front() {
                Some(LoggedFrame::Control(length)) => release(length as usize),
                Some(LoggedFrame::Chunk(_)) | None => {}
            }
            self.acknowledged += 1;
        }
        Ok(true)
    }

    /// Takes the chunks out, in their order: they are to be begun anew.
    pub fn take_chunks(&mut self) -> VecDeque<Chunk> {
        let mut chunks = VecDeque::new();
        for frame in std::mem::take(&mut self.frames) {
            match frame {
                LoggedFrame::Control(_) => self.frames.push_back(frame),
                LoggedFrame::Chunk(chunk) => chunks.push_back(chunk),
            }
        }
        chunks
    }

    /// The chunks, which may have to be sent again.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut Chunk> {
        self.frames.iter_mut().filter_map(|frame| match frame {
            LoggedFrame::Chunk(chunk) => Some(chunk),
            LoggedFrame::Control(_) => None,
        })
    }

    /// How many bytes are kept, if a chunk counts as `chunk` bytes.
    #[cfg(test)]
    pub fn kept(&self, chunk: usize) -> usize {
        let bytes = self.frames.iter().map(|frame| match frame {
            LoggedFrame::Control(length) => *length as usize,
            LoggedFrame::Chunk(_) => chunk,
        });
        bytes.sum()
    }
}

#[cfg(test)]
mod tests {
    use weft_sys::Region;

    use super::*;
    use crate::wire::{ChunkHead, TransferKind};

    fn chunk(transfer: u32) -> Chunk {
        let head = ChunkHead {
            transfer,
            kind: TransferKind::Put,
            offset: 0,
        };
        Chunk::new(head, None, Region::EMPTY)
    }

    #[test]
    fn acknowledged_frames_release_their_bytes_and_chunks_can_be_taken_back() {
        let mut log = Log::default();
        log.push_control(10);
        log.push_chunk(chunk(1));
        log.push_control(20);
        log.push_chunk(chunk(2));
        assert_eq!(log.begun(), 4);
        let mut released = 0;
        let mut acknowledge =
            |log: &mut Log, processed| log.acknowledge(processed, |length| released += length);
        assert!(acknowledge(&mut log, 5).is_err(), "so many were never sent");
        assert!(matches!(acknowledge(&mut log, 2), Ok(true)));
        assert!(
            matches!(acknowledge(&mut log, 1), Ok(false)),
            "an older one"
        );
        assert_eq!(released, 10);
        assert_eq!((log.begun(), log.kept(5)), (4, 25));
        let chunks = log.take_chunks();
        assert!(chunks.len() == 1 && chunks[0].is_of(TransferKind::Put, 2));
        assert_eq!((log.begun(), log.kept(5)), (3, 20));
    }
}
