//! Bulk queue: portals that are being sent to one peer, a chunk of each in turn.
//!
//! *Invariant:* chunks that are to be sent again go before those that were never sent, whose portals take turns.

use std::collections::VecDeque;

use weft_fabric::Token;
use weft_sys::Region;

use super::chunk::Chunk;
use crate::wire::{CHUNK, ChunkHead, TransferKind};

/// One portal being sent.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// The number given by the side that asked or offered.
    pub transfer: u32,
    /// Answer to a get, our own put or our own offer.
    pub kind: TransferKind,
    /// The grant that it is read from, for a get.
    pub token: Option<Token>,
    /// The whole region.
    pub region: Region,
    /// Bytes whose sending has begun.
    pub at: usize,
}

impl Bulk {
    fn chunks_left(&self) -> usize {
        // An empty portal has one chunk, too.
        (self.region.len() - self.at).div_ceil(CHUNK).max(1)
    }

    /// The chunk of it that comes after `after` others.
    fn chunk(&self, after: usize) -> Option<Chunk> {
        if after >= self.chunks_left() {
            return None;
        }
        let at = self.at + after * CHUNK;
        let length = (self.region.len() - at).min(CHUNK);
        let head = ChunkHead {
            transfer: self.transfer,
            kind: self.kind,
            offset: at as u64,
        };
        let region = self.region.part(at, length).unwrap_or(Region::EMPTY);
        Some(Chunk::new(head, self.token, region))
    }
}

/// The portals that are being sent to one peer.
#[derive(Default)]
pub struct BulkQueue {
    portals: VecDeque<Bulk>,
    again: VecDeque<Chunk>,
}

impl BulkQueue {
    /// Whether no chunk is to be begun.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.portals.is_empty() && self.again.is_empty()
    }

    /// Appends a portal.
    pub fn push(&mut self, bulk: Bulk) {
        self.portals.push_back(bulk);
    }

    /// Portals that are being sent for the peer's gets.
    pub fn served(&self) -> usize {
        let gets = |bulk: &&Bulk| bulk.kind == TransferKind::Get;
        self.portals.iter().filter(gets).count()
    }

    /// The chunks that come next, in turn: chunks to be resent, then one of each portal, and again.
    pub fn upcoming(&self) -> impl Iterator<Item = Chunk> + '_ {
        let portals = &self.portals;
        let rounds = portals.iter().map(Bulk::chunks_left).max().unwrap_or(0);
        let fresh =
            (0..rounds).flat_map(|round| portals.iter().filter_map(move |bulk| bulk.chunk(round)));
        self.again.iter().cloned().chain(fresh)
    }

    /// Notes that the next chunk of [`Self::upcoming`] has begun.
    pub fn begin(&mut self, chunk: &Chunk) {
        if self.again.pop_front().is_none()
            && let Some(mut bulk) = self.portals.pop_front()
        {
            bulk.at += chunk.length();
            if bulk.at < bulk.region.len() {
                self.portals.push_back(bulk);
            }
        }
    }

    /// These chunks, which were begun, are to be sent again, before all others.
    pub fn send_again(&mut self, mut chunks: VecDeque<Chunk>) {
        chunks.append(&mut self.again);
        self.again = chunks;
    }

    /// The chunks that are to be sent again.
    pub fn again_mut(&mut self) -> impl Iterator<Item = &mut Chunk> {
        self.again.iter_mut()
    }

    /// Drops what was never sent of these portals; returns which they were.
    pub fn cancel(&mut self, matches: impl Fn(&Bulk) -> bool) -> Vec<(u32, TransferKind)> {
        let mut gone = Vec::new();
        self.portals.retain(|bulk| {
            let goes = matches(bulk);
            if goes {
                gone.push((bulk.transfer, bulk.kind));
            }
            !goes
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::conformance::Memory;

    use super::*;

    fn bulk(transfer: u32, region: Region) -> Bulk {
        Bulk {
            transfer,
            kind: TransferKind::Put,
            token: None,
            region,
            at: 0,
        }
    }

    /// The transfers of the chunks that come next.
    fn upcoming(queue: &BulkQueue) -> Vec<u32> {
        let of = |chunk: &Chunk| (0..3).find(|one| chunk.is_of(TransferKind::Put, *one));
        let chunks: Vec<Chunk> = queue.upcoming().collect();
        chunks.iter().filter_map(of).collect()
    }

    fn begin_next(queue: &mut BulkQueue) -> Chunk {
        let chunk = queue.upcoming().next().expect("one is left");
        queue.begin(&chunk);
        chunk
    }

    #[test]
    fn portals_take_turns_and_what_was_begun_goes_first_when_it_is_sent_again() {
        let data = Memory::filled(2 * CHUNK + 1, 0);
        let region = data.region();
        let mut queue = BulkQueue::default();
        queue.push(bulk(0, region));
        queue.push(bulk(1, Region::EMPTY));
        queue.push(bulk(2, region));
        assert_eq!(upcoming(&queue), [0, 1, 2, 0, 2, 0, 2]);
        let begun = VecDeque::from([begin_next(&mut queue), begin_next(&mut queue)]);
        assert_eq!(upcoming(&queue), [2, 0, 2, 0, 2]);
        queue.send_again(begun);
        assert_eq!(upcoming(&queue), [0, 1, 2, 0, 2, 0, 2]);
        assert_eq!(queue.cancel(|bulk| bulk.transfer == 0).len(), 1);
        assert_eq!(upcoming(&queue), [0, 1, 2, 2, 2], "begun chunks stay");
        while !queue.is_empty() {
            begin_next(&mut queue);
        }
        assert!(upcoming(&queue).is_empty());
    }
}
