//! Memory that the properties of the portal lend to a fabric. The one place of this crate where a
//! [`Region`] is made.
//!
//! # Safety
//! A [`Region`] may be used until its operation has ended. A property lends memory only for
//! transfers and grants that it brings to their end, or for endpoints that it drops, before the
//! memory goes. When a property fails (panics), others may still move bytes: then nothing is freed.
//! The owner looks at its bytes only while no transfer is under way that touches them.

use crate::Region;

/// Bytes on the heap with a fixed place.
#[derive(Debug)]
pub struct Memory {
    region: Region,
}

impl Memory {
    /// Memory that holds these bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        let bytes = Box::leak(bytes.into_boxed_slice());
        // SAFETY: leaked, hence valid until Drop below, which comes after all uses: see the page.
        let region = unsafe { Region::new(bytes.as_mut_ptr(), bytes.len()) };
        Self { region }
    }

    /// `length` bytes that differ from their neighbours and between seeds.
    #[must_use]
    pub fn patterned(length: usize, seed: u64) -> Self {
        Self::of(pattern(length, seed))
    }

    /// `length` bytes of this value.
    #[must_use]
    pub fn filled(length: usize, value: u8) -> Self {
        Self::of(vec![value; length])
    }

    /// All of it, to lend.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region
    }

    /// A part of it, to lend.
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    pub fn part(&self, offset: usize, length: usize) -> Region {
        self.region.part(offset, length).expect("lies within")
    }

    /// What it holds now.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.region.len()];
        self.region.copy_to_slice(&mut bytes);
        bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let bytes = std::ptr::slice_from_raw_parts_mut(self.region.as_ptr(), self.region.len());
        // SAFETY: made by Box::leak in `of`, given back once; nobody uses it any more: see the page.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// `length` bytes, told apart by place and seed: a piece that is displaced, doubled or of another
/// message is seen.
#[must_use]
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; length];
    for piece in bytes.chunks_mut(8) {
        // xorshift64: any generator whose words differ would do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
    }
    bytes
}
