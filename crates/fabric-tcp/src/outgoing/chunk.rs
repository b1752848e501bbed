//! Chunk: a part of one portal, which travels as one frame and may be sent again.
//!
//! *Invariant:* its bytes are those of the region for as long as that may be read, and a copy from then on.

use std::sync::Arc;

use weft_fabric::Token;
use weft_sys::Region;
use weft_sys::socket::SendSlice;

use crate::wire::{CHUNK_HEAD, ChunkHead, FrameKind, HEADER, Header, TransferKind};

/// One chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    head: ChunkHead,
    /// The grant that it is read from, if it is.
    token: Option<Token>,
    region: Region,
    /// A copy, once the region may not be read any more.
    own: Option<Arc<[u8]>>,
}

impl Chunk {
    /// A chunk of this region, read from a grant if a token is given.
    pub fn new(head: ChunkHead, token: Option<Token>, region: Region) -> Self {
        Self {
            head,
            token,
            region,
            own: None,
        }
    }

    /// Whether it is of this transfer.
    pub fn is_of(&self, kind: TransferKind, transfer: u32) -> bool {
        (self.head.kind, self.head.transfer) == (kind, transfer)
    }

    /// Whether it is read from this grant.
    pub fn is_from(&self, token: Token) -> bool {
        self.token == Some(token)
    }

    /// Its bytes of data.
    pub fn length(&self) -> usize {
        self.own.as_ref().map_or(self.region.len(), |own| own.len())
    }

    /// The header of its frame, which carries that acknowledgement.
    pub fn header(&self, processed: u64) -> [u8; HEADER + CHUNK_HEAD] {
        let header = Header {
            kind: FrameKind::Chunk,
            length: CHUNK_HEAD + self.length(),
            processed,
        };
        let mut bytes = [0; HEADER + CHUNK_HEAD];
        bytes[..HEADER].copy_from_slice(&header.emit());
        bytes[HEADER..].copy_from_slice(&self.head.emit());
        bytes
    }

    /// Its bytes from `at` on.
    pub fn rest(&self, at: usize) -> SendSlice<'_> {
        match &self.own {
            Some(own) => SendSlice::Bytes(own.get(at..).unwrap_or_default()),
            None => SendSlice::Lent(
                self.region
                    .part(at, self.region.len().saturating_sub(at))
                    .unwrap_or(Region::EMPTY),
            ),
        }
    }

    /// Copies what is left: the region may not be read after this.
    pub fn detach(&mut self) {
        if self.own.is_none() {
            let mut own = vec![0; self.region.len()];
            self.region.copy_to_slice(&mut own);
            self.own = Some(own.into());
            self.region = Region::EMPTY;
        }
    }
}

/// A chunk of which some bytes are sent.
pub struct Current {
    chunk: Chunk,
    header: [u8; HEADER + CHUNK_HEAD],
    at: usize,
}

impl Current {
    /// One of which nothing is sent yet, whose frame carries that acknowledgement.
    pub fn new(chunk: Chunk, processed: u64) -> Self {
        Self {
            header: chunk.header(processed),
            chunk,
            at: 0,
        }
    }

    /// The chunk.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// As [`Self::chunk`].
    pub fn chunk_mut(&mut self) -> &mut Chunk {
        &mut self.chunk
    }

    /// The bytes of its frame that are to be sent.
    pub fn rest(&self) -> [SendSlice<'_>; 2] {
        let header = self.header.get(self.at..).unwrap_or_default();
        let data = self.at.saturating_sub(self.header.len());
        [SendSlice::Bytes(header), self.chunk.rest(data)]
    }

    /// Whether all of them are sent.
    pub fn is_sent(&self) -> bool {
        self.left() == 0
    }

    fn left(&self) -> usize {
        self.header.len() + self.chunk.length() - self.at
    }

    /// So many bytes were sent, of this frame and others after it; returns how many are of the others.
    pub fn advance(&mut self, sent: usize) -> usize {
        let now = sent.min(self.left());
        self.at += now;
        sent - now
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::conformance::Memory;

    use super::*;

    fn rest(current: &Current) -> usize {
        current.rest().iter().map(SendSlice::len).sum()
    }

    #[test]
    fn a_chunk_is_sent_in_parts_and_may_be_copied_in_between() {
        let head = ChunkHead {
            transfer: 1,
            kind: TransferKind::Get,
            offset: 0,
        };
        let data = Memory::filled(100, 7);
        let region = data.region();
        let mut current = Current::new(Chunk::new(head, Some(Token(5)), region), 3);
        let whole = HEADER + CHUNK_HEAD + 100;
        assert_eq!(rest(&current), whole);
        assert_eq!(current.advance(10), 0);
        assert_eq!(rest(&current), whole - 10);
        assert_eq!(current.advance(whole - 50), 0);
        current.chunk_mut().detach();
        assert_eq!((current.chunk().length(), rest(&current)), (100, 40));
        assert!(!current.is_sent());
        assert_eq!(current.advance(41), 1, "one byte is of the next frame");
        assert!(current.is_sent());
    }
}
