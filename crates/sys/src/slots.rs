//! Slots in memory that others read: the sender's end of a ring of them, as far as short packets go, for safe code.
//!
//! ```text
//!   slot    ┌──── first cache line ────┐┌──── second ─────┐
//!           word │ head 32 │ data 24 …… │ …… data 64       │      word: number of the packet │ what it is and how long
//!   writer  sent ──► end      positions: it may write at `sent` while that is not `end`
//! ```
//!
//! A ring belongs to an owner, who knows how far its reader has come, sends what is not short, and has everything else to say.
//! The owner lends the part that most packets need as a [`SlotWriter`]: whoever may use the owner may write a short packet himself, without
//! a call through the owner's interface. The owner [opens](SlotWriter::open_until) it up to a position and
//! [closes](SlotWriter::close) it; both move `sent` on.
//!
//! # Who may write
//! Whoever may use the owner, and so one thread at a time. What several write at a time is torn, as in
//! [`shared`](crate::shared), but nothing else: the memory is never a slice, and its reader trusts nothing.
//!
//! # Ordering
//! SYNC lane.publish: the word is stored with Release after head and data; the reader loads it with Acquire before them.
//! Whether the reader looks here, and whether it sleeps, is looked at afterwards, with a light fence between: so a writer
//! is open only where its reader fences for it.

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

/// One element of a ring. Never referred to as a whole: `data` is reached by pointer.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    /// The number of the packet in the upper half: its position plus one. What it is, and how long, in the lower one.
    pub word: AtomicU64,
    /// Its head.
    pub head: [AtomicU64; HEAD_WORDS],
    /// Data that fit.
    pub data: [u8; INLINE],
}

const _: () = assert!(size_of::<Slot>() == 128 && SHORT <= INLINE);

/// What became of a packet.
#[must_use = "a packet that is not announced may not be found"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// It is there, and its reader finds it.
    Done,
    /// It is there. The owner of the ring is to see to it that its reader finds it.
    Unannounced,
    /// It is not: the writer is closed, there is no room, or the data are not short. The owner may have another way.
    Refused,
}

/// Where the reader of a ring says how it is found.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Not 0: it looks at the ring without having been told.
    pub looks: NonNull<AtomicU32>,
    /// Where it sleeps.
    pub doorbell: NonNull<Doorbell>,
}

/// The sender's end of a ring, as far as short packets go. See the [module page](self).
#[derive(Debug)]
#[repr(align(64))]
pub struct SlotWriter {
    slots: NonNull<Slot>,
    /// The number of slots, a power of two, less one.
    mask: u32,
    /// Packets sent: the position of the next one.
    sent: AtomicU32,
    /// It may be written up to this position; the same while it is closed.
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
    /// A closed one of a fresh ring.
    ///
    /// # Safety
    /// `slots` are `mask + 1` slots, a power of two, and they and what `reader` names lie in the mapping, aligned. All that uses them is
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

    /// Writes the next packet, of data that are [short](SHORT): what it is is 0.
    #[inline(always)]
    pub fn write(&self, head: [u64; HEAD_WORDS], data: SharedBytes<'_>) -> Written {
        // Positions say nothing of other memory: whoever writes has them in order.
        let sent = self.sent.load(Ordering::Relaxed);
        if sent == self.end.load(Ordering::Relaxed) || data.len() > SHORT {
            return Written::Refused;
        }
        // SAFETY: `new` was promised so many slots.
        let slot = unsafe { self.slots.as_ptr().add((sent & self.mask) as usize) };
        // SAFETY: at most SHORT bytes of the data of a slot; whoever made the `SharedBytes` promised that the source is
        // readable.
        unsafe {
            let inline = slot.cast::<u8>().add(offset_of!(Slot, data));
            let copied = copy_if_short(data.as_ptr(), inline, data.len());
            // From here on nothing is refused: whoever asks need not keep what he would do then.
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
    /// Whether the reader sleeps, or is about to, for who has stored what it may wait for; `None` while this is closed: the
    /// owner knows.
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

    /// The owner has sent one itself: the next is at this position.
    #[inline]
    pub fn set_sent(&self, sent: u32, is_open: bool) {
        self.sent.store(sent, Ordering::Relaxed);
        if !is_open {
            self.close();
        }
    }

    /// It may be written up to this position, and no further.
    #[inline]
    pub fn open_until(&self, end: u32) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// It may not be written.
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
