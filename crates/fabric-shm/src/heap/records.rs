//! Records of an arena: what its owner publishes about its blocks, at the start of the arena.
//!
//! ```text
//!   key      generation (31 bits) │ process slot (12) │ record + 1 (20)       never 0
//!   record   key of the block, 0 for none │ its offset in the arena │ its length
//! ```
//!
//! Records are written and read by system calls, not through a mapping: blocks come and go rarely, and peers need not map
//! what they do not use. The owner writes the key last and clears it first. A reader trusts nothing: a block that lies
//! outside of the arena is refused.

use std::io;

use weft_fabric::{SharedKey, Token};

use super::Heap;
use crate::layout::MAX_RANKS;

/// Blocks of a process at a time: as many records as fit [`BYTES`](Record::BYTES) each before the first block.
pub(crate) const RECORDS: u32 = 64 << 10;

const SLOT_SHIFT: u32 = 20;

const _: () = {
    assert!(RECORDS < 1 << SLOT_SHIFT);
    assert!(MAX_RANKS <= 1 << (32 - SLOT_SHIFT));
};

/// The key of the block that this token names in the table of process slot `slot`.
pub(crate) fn key_of(slot: u32, token: Token) -> SharedKey {
    SharedKey(token.0 | u64::from(slot) << SLOT_SHIFT)
}

/// The token in the table of `slot`; `None` if the key is another's.
pub(crate) fn token_of(slot: u32, key: SharedKey) -> Option<Token> {
    let mine = (key.0 as u32) >> SLOT_SHIFT == slot;
    mine.then_some(Token(key.0 & !(u64::from(slot) << SLOT_SHIFT)))
}

/// The number of the record of a token.
pub(crate) fn index_of(token: Token) -> Option<u32> {
    (token.0 as u32)
        .checked_sub(1)
        .filter(|index| *index < RECORDS)
}

/// Where a block is, as its owner tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// From the start of the arena.
    pub offset: usize,
    /// As asked for, in bytes.
    pub length: usize,
}

impl Record {
    /// Bytes of a record in the file.
    pub const BYTES: usize = 32;

    /// The owner tells of a block.
    pub fn write(self, heap: &Heap, slot: u32, key: SharedKey) -> io::Result<()> {
        let at = place(heap, slot, key)?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(self.offset as u64).to_ne_bytes());
        bytes[8..].copy_from_slice(&(self.length as u64).to_ne_bytes());
        heap.write_at(at + 8, &bytes)?;
        heap.write_at(at, &key.0.to_ne_bytes())
    }

    /// The owner tells of it no more.
    pub fn clear(heap: &Heap, slot: u32, key: SharedKey) {
        if let Ok(at) = place(heap, slot, key) {
            // It was written before, so there is memory for it.
            let _ = heap.write_at(at, &[0; 8]);
        }
    }

    /// What the owner, which is not trusted, tells of the block with this key. `None` if nothing.
    pub fn read(heap: &Heap, slot: u32, key: SharedKey) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        heap.read_at(place(heap, slot, key).ok()?, &mut bytes)
            .ok()?;
        let word = |index: usize| {
            bytes[8 * index..]
                .first_chunk()
                .map(|word| u64::from_ne_bytes(*word))
        };
        if word(0)? != key.0 {
            return None;
        }
        let (offset, length) = (
            usize::try_from(word(1)?).ok()?,
            usize::try_from(word(2)?).ok()?,
        );
        Some(Self { offset, length })
    }
}

/// Where the record of a key is in the file.
fn place(heap: &Heap, slot: u32, key: SharedKey) -> io::Result<usize> {
    let index = token_of(slot, key).and_then(index_of);
    let index = index.ok_or(io::ErrorKind::NotFound)? as usize;
    Ok(heap.arena_at(slot) + index * Record::BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_slot_record_and_generation() {
        let token = Token(0x7fff_ffff_0000_0000 | u64::from(RECORDS));
        for slot in [0, 1, MAX_RANKS - 1] {
            let key = key_of(slot, token);
            assert_eq!(token_of(slot, key), Some(token));
            assert_eq!(token_of(slot ^ 1, key), None);
        }
        assert_eq!(index_of(token), Some(RECORDS - 1));
        assert_eq!(index_of(Token(token.0 + 1)), None);
        assert_eq!(index_of(Token(1 << 32)), None);
    }
}
