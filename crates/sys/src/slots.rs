//! Slots in memory that others read: the sender's end of a ring of slots, for short packets, usable by safe
//! code.
//!
//! ```text
//!   slot    ┌──── first cache line ────┐┌──── second ─────┐
//!           word │ head 32 │ data 24 …… │ …… data 64       │      word: number of the packet │ what it is and how long
//!   writer  sent ──► end      positions: it may write at `sent` while that is not `end`
//! ```
//!
//! A ring has an owner, which knows how far the reader has come, sends what is not short, and decides everything else. The owner lends the
//! part that most packets need as a [`SlotWriter`]: a thread that may use the owner may write a short packet itself, without a call through
//! the owner's interface. The owner [opens](SlotWriter::open_until) the writer up to a position and [closes](SlotWriter::close) it; both
//! the owner and the writer advance `sent`.
//!
//! # Who may write
//! Any thread that may use the owner, and so one at a time. Concurrent writes would be torn, as in
//! [`shared`](crate::shared), without other effects: the memory is never a slice, and its reader trusts
//! nothing.
//!
//! # Ordering
//! SYNC lane.publish: the word is stored with Release after head and data; the reader loads it with Acquire before them.
//! Afterwards, behind a light fence, the writer checks whether the reader looks at the ring and whether it sleeps: so a
//! writer is open only if its reader makes the matching fence.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;

use weft_atomic::{AtomicU32, AtomicU64, Doorbell, FenceMode, Ordering};

use crate::memory::Mapping;
use crate::span::{SHORT, SharedBytes, copy_if_short};

/// Words of the head of a packet.
pub const HEAD_WORDS: usize = 4;

/// Bytes of data that lie in a slot.
pub const INLINE: usize = 88;

/// One element of a ring. Never referenced as a whole: `data` is accessed by pointer.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    /// The number of the packet (its position plus one) in the upper half; its kind and length in the lower
    /// one.
    pub word: AtomicU64,
    /// Its head.
    pub head: [AtomicU64; HEAD_WORDS],
    /// Data that fit.
    pub data: [u8; INLINE],
}

const _: () = assert!(size_of::<Slot>() == 128 && SHORT <= INLINE);

/// The outcome of writing a packet.
#[must_use = "a packet that is not announced may not be found"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is written, and its reader finds it.
    Done,
    /// It is written. The owner of the ring must make sure that its reader finds it.
    Unannounced,
    /// It is not written: the writer is closed, there is no room, or the data are not short. The owner may
    /// have another way.
    Refused,
}

/// Words by which the reader of a ring says how to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Not 0: the reader looks at the ring without being notified.
    pub looks: NonNull<AtomicU32>,
    /// The doorbell on which the reader sleeps.
    pub doorbell: NonNull<Doorbell>,
}

/// The sender's end of a ring, for short packets. See the [module page](self).
#[derive(Debug)]
#[repr(align(64))]
pub struct SlotWriter {
    slots: NonNull<Slot>,
    /// The number of slots, a power of two, less one.
    mask: u32,
    /// Packets sent: the position of the next one.
    sent: AtomicU32,
    /// Packets may be written up to this position; equal to `sent` while it is closed.
    end: AtomicU32,
    reader: Reader,
    /// Keeps the memory mapped.
    _mapping: Arc<Mapping>,
}

// SAFETY: the memory belongs to the process, not to a thread, and is counted.
unsafe impl Send for SlotWriter {}
// SAFETY: the positions are atomics; what is written to the ring may be written by anybody at any time (module page).
unsafe impl Sync for SlotWriter {}

impl SlotWriter {
    /// A closed writer of a fresh ring.
    ///
    /// # Safety
    /// `slots` are `mask + 1` slots, a power of two, and they and what `reader` names lie in the mapping, aligned. All their users are
    /// prepared for any bytes there at any time.
    #[must_use]
    pub unsafe fn new(
        mapping: Arc<Mapping>,
        slots: NonNull<Slot>,
        mask: u32,
        reader: Reader,
    ) -> Self {
        debug_assert!(mask.wrapping_add(1).is_power_of_two());
        Self {
            slots,
            mask,
            sent: AtomicU32::new(0),
            end: AtomicU32::new(0),
            reader,
            _mapping: mapping,
        }
    }

    /// Writes the next packet, with [short](SHORT) data; its kind is 0.
    #[inline(always)]
    pub fn write(&self, head: [u64; HEAD_WORDS], data: SharedBytes<'_>) -> Written {
        // Positions order no other memory: the writing thread has them in order.
        let sent = self.sent.load(Ordering::Relaxed);
        if sent == self.end.load(Ordering::Relaxed) || data.len() > SHORT {
            return Written::Refused;
        }
        // SAFETY: `new` was promised that many slots.
        let slot = unsafe { self.slots.as_ptr().add((sent & self.mask) as usize) };
        // SAFETY: at most SHORT bytes of the data of a slot; the maker of the `SharedBytes` promised that the source is
        // readable.
        unsafe {
            let inline = slot.cast::<u8>().add(offset_of!(Slot, data));
            let copied = copy_if_short(data.as_ptr(), inline, data.len());
            // From here on nothing is refused, so the compiler need not keep the caller's state for that
            // case.
            std::hint::assert_unchecked(copied);
        }
        // SAFETY: within the mapping, which this keeps; atomics only.
        let (word, words) = unsafe { (&(*slot).word, &(*slot).head) };
        for (place, value) in words.iter().zip(head) {
            place.store(value, Ordering::Relaxed);
        }
        let number = sent.wrapping_add(1);
        self.sent.store(number, Ordering::Relaxed);
        // SYNC lane.publish.
        word.store(
            u64::from(number) << 32 | data.len() as u64,
            Ordering::Release,
        );
        FenceMode::Asymmetric.light();
        // SAFETY: `new` was promised that both lie in the mapping; atomics only.
        let (looks, doorbell) =
            unsafe { (self.reader.looks.as_ref(), self.reader.doorbell.as_ref()) };
        if looks.load(Ordering::Relaxed) != 0 && !doorbell.somebody_sleeps() {
            Written::Done
        } else {
            Written::Unannounced
        }
    }
}

impl SlotWriter {
    /// Whether the reader sleeps, or is about to, for a caller that has stored what the reader may wait for; `None` while
    /// this is closed: then the owner knows.
    #[inline(always)]
    #[must_use]
    pub fn reader_sleeps(&self) -> Option<bool> {
        if self.sent() == self.end.load(Ordering::Relaxed) {
            return None;
        }
        FenceMode::Asymmetric.light();
        // SAFETY: as in `write`.
        Some(unsafe { self.reader.doorbell.as_ref() }.somebody_sleeps())
    }
}

/// For the owner of the ring.
impl SlotWriter {
    /// The position of the next packet.
    #[inline]
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The owner has sent a packet itself: the next one is at this position.
    #[inline]
    pub fn set_sent(&self, sent: u32, is_open: bool) {
        self.sent.store(sent, Ordering::Relaxed);
        if !is_open {
            self.close();
        }
    }

    /// Permits writing up to this position.
    #[inline]
    pub fn open_until(&self, end: u32) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Forbids writing.
    pub fn close(&self) {
        self.end.store(self.sent(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of four slots whose reader looks at it, in memory of this process.
    fn ring() -> (Arc<Mapping>, SlotWriter) {
        let mapping = Arc::new(Mapping::private(4096).expect("maps"));
        let place = |offset| mapping.place(offset, 64, 64).expect("within");
        let reader = Reader {
            looks: place(1024).cast(),
            doorbell: place(2048).cast(),
        };
        // SAFETY: four slots of 128 bytes, and both others, lie within the page.
        let writer = unsafe { SlotWriter::new(mapping.clone(), place(0).cast(), 3, reader) };
        (mapping, writer)
    }

    fn words(mapping: &Mapping, slot: usize) -> Vec<u64> {
        let words = mapping.atomic_u64s(128 * slot, 7).expect("within");
        words
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .collect()
    }

    #[test]
    fn what_is_written_stands_in_the_next_slot() {
        let (mapping, writer) = ring();
        let write = |value: u64| {
            let data = value.to_ne_bytes();
            writer.write([value; 4], SharedBytes::of(&data))
        };
        assert_eq!(write(1), Written::Refused, "it is closed at first");
        writer.open_until(4);
        for value in 1..=4 {
            assert_eq!(write(value), Written::Unannounced, "nobody looks");
        }
        assert_eq!(write(5), Written::Refused, "there is no room");
        writer.open_until(5);
        mapping.atomic_u64s(1024, 1).expect("within")[0].store(1, Ordering::Relaxed);
        assert_eq!(write(5), Written::Done);
        assert_eq!(words(&mapping, 0), [5 << 32 | 8, 5, 5, 5, 5, 5, 0]);
        assert_eq!(words(&mapping, 3), [4 << 32 | 8, 4, 4, 4, 4, 4, 0]);
        mapping.atomic_u64s(2048, 1).expect("within")[0].store(1 << 32, Ordering::Relaxed);
        assert_eq!(writer.reader_sleeps(), None, "there is no room");
        writer.open_until(6);
        assert_eq!(writer.reader_sleeps(), Some(true));
        assert_eq!(write(6), Written::Unannounced, "it sleeps");
    }

    #[test]
    fn what_is_not_short_is_left_to_the_owner() {
        let (mapping, writer) = ring();
        writer.open_until(4);
        let long = [1; SHORT + 1];
        assert_eq!(
            writer.write([9; 4], SharedBytes::of(&long)),
            Written::Refused
        );
        assert_eq!(words(&mapping, 0)[0], 0);
        writer.set_sent(1, true);
        assert_ne!(
            writer.write([9; 4], SharedBytes::of(&long[1..])),
            Written::Refused
        );
        assert_eq!(words(&mapping, 1)[0], 2 << 32 | SHORT as u64);
        writer.close();
        assert_eq!(writer.write([9; 4], SharedBytes::of(&[])), Written::Refused);
        writer.set_sent(3, false);
        assert_eq!(writer.write([9; 4], SharedBytes::of(&[])), Written::Refused);
    }
}
