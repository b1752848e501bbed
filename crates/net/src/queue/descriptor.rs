//! A descriptor: the buffer, the bytes, the client.

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
    /// The region, if a queue carries buffers of several: a client in the lower bits, and the number of its
    /// region among successive ones in the upper bits ([`of_region`](Self::of_region)).
    pub tag: u16,
}

/// Bits of a tag that name the client.
const CLIENT_BITS: u32 = 6;

/// Number of different tags of one client: after this many regions the tags repeat.
const EPOCHS: u32 = 1 << (u16::BITS - CLIENT_BITS);

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

    /// The same buffer in region number `epoch` (counted from 0, modulo 1024) of this client (0 to 63).
    #[inline]
    #[must_use]
    pub const fn of_region(self, client: usize, epoch: u32) -> Self {
        let client = client as u16 & ((1 << CLIENT_BITS) - 1);
        let epoch = (epoch % EPOCHS) as u16;
        Self {
            tag: client | epoch << CLIENT_BITS,
            ..self
        }
    }

    /// Which client's region it is in.
    #[inline]
    #[must_use]
    pub const fn client(self) -> usize {
        (self.tag & ((1 << CLIENT_BITS) - 1)) as usize
    }

    /// Whether it is in the region of its client with this number.
    #[inline]
    #[must_use]
    pub const fn is_of_epoch(self, epoch: u32) -> bool {
        (self.tag >> CLIENT_BITS) as u32 == epoch % EPOCHS
    }

    /// The word in the ring.
    #[inline]
    #[must_use]
    pub const fn to_word(self) -> u64 {
        self.offset as u64 | (self.length as u64) << 32 | (self.tag as u64) << 48
    }

    /// From the ring. Any word is a descriptor; the [`Ledger`](super::Ledger) decides whether it names
    /// anything.
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

    #[test]
    fn a_tag_names_client_and_epoch() {
        for (client, epoch) in [(0, 0), (63, 1), (5, 1023), (63, 1024), (1, u32::MAX)] {
            let named = Descriptor::empty(2048).of_region(client, epoch);
            assert_eq!((named.client(), named.offset), (client, 2048));
            assert!(named.is_of_epoch(epoch) && !named.is_of_epoch(epoch.wrapping_add(1)));
        }
    }
}
