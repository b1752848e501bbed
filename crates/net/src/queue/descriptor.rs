//! A descriptor: which buffer, how many bytes, whose.

/// Names a buffer of a region, in one 64-bit word, so that a peer that writes it while it is read can
/// produce another descriptor but never half of one.
///
/// ```text
///   63          48 47          32 31                           0
///  ┌──────────────┬──────────────┬──────────────────────────────┐
///  │ tag          │ length       │ offset                       │
///  └──────────────┴──────────────┴──────────────────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// Bytes from the beginning of the region to the buffer.
    pub offset: u32,
    /// Bytes of the frame in it; 0 for an empty buffer.
    pub length: u16,
    /// Which region, where a queue carries buffers of several.
    pub tag: u16,
}

impl Descriptor {
    /// An empty buffer.
    #[must_use]
    pub const fn empty(offset: u32) -> Self {
        Self {
            offset,
            length: 0,
            tag: 0,
        }
    }

    /// As it stands in the ring.
    #[inline]
    #[must_use]
    pub const fn to_word(self) -> u64 {
        self.offset as u64 | (self.length as u64) << 32 | (self.tag as u64) << 48
    }

    /// From the ring. Any word is a descriptor; whether it names anything is for the
    /// [`Ledger`](super::Ledger) to say.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self {
            offset: word as u32,
            length: (word >> 32) as u16,
            tag: (word >> 48) as u16,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_and_back() {
        let descriptor = Descriptor {
            offset: 0xfedc_ba98,
            length: 0x1234,
            tag: 0xf00d,
        };
        assert_eq!(descriptor.to_word(), 0xf00d_1234_fedc_ba98);
        assert_eq!(Descriptor::from_word(descriptor.to_word()), descriptor);
    }
}
