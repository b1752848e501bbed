//! Lane: the ring through which one rank sends packets to one other, in order. It has slots and a bulk area.
//!
//! ```text
//!   LaneHead   progress: slots consumed │ bulk bytes consumed     written by the receiver
//!              hot: is this lane polled directly?                 written by the receiver
//!   slots      ┌──── first cache line ────┐┌──── second ─────┐
//!              word │ head 32 │ data 24 …… │ …… data 64       │   written by the sender
//!              word │ head    │ …                             │
//!   bulk       data longer than 88 bytes, contiguous, 64-byte aligned, freed in order
//! ```
//!
//! The ends are separate types: [`OutLane`] of the sender, [`InLane`] of the receiver. This file has what both must agree
//! on.
//!
//! # The word of a slot
//! ```text
//!   63 … 32   31     30 … 28   27 … 0
//!   sequence  bulk   kind      length of the data
//! ```
//! `sequence` is the position of the packet in the lane plus one (modulo 2³²). The receiver knows which one it expects,
//! so it polls only the word of the next slot: what an earlier lap left there has another number. If `bulk` is set, the
//! first eight bytes of the slot's data are {offset in the bulk area, bulk bytes sent up to and with this message}.
//!
//! A message of at most 24 bytes of data moves one cache line.
//!
//! # Credit
//! The sender counts what it has sent, privately, and reads `progress` only when its last value of it leaves no room. The
//! receiver publishes `progress` each time a quarter of the slots or of the bulk area has become free, so the line with
//! it, which the sender reads for each message because of `hot`, stays in the sender's cache.
//!
//! A message of D bytes may waste up to D bytes at the end of the bulk area, and less than a quarter
//! of it is consumed but not published, so a drained lane takes any message as long as 2·D ≤ ¾ of the
//! area. `Shape` keeps D ≤ ⅜.
//!
//! # Ordering
//! * SYNC lane.publish: the word is stored with Release after head and data, and loaded with Acquire before them.
//! * SYNC lane.credit: `progress` is stored with Release after the last read of what it frees, and
//!   loaded with Acquire before that is overwritten.
//! * `hot` and the doorbell are checked after the word was stored, with a fence between: see `poll_set.rs`.
//!
//! # Safety
//! Both sides keep cursors, sizes and pointers in private memory. Words of the other side are read once and checked: the
//! receiver checks length and bulk offset, the sender accepts a progress only if it lies between what it knew and what it
//! sent. A lying peer can only spoil what it sends or receives on its own lane, and cause the lane to be closed.

mod in_lane;
mod out_lane;

use weft_atomic::AtomicU64;
use weft_fabric::{HEAD, Head};
use weft_sys::span::SHORT;

use crate::layout::{Control, INLINE, LaneHead, LaneSlot, Shape};
use crate::segment::Segment;

pub(crate) use in_lane::{Found, InLane, Packet};
pub(crate) use out_lane::{OutLane, writers};

const DATA_AT: usize = std::mem::offset_of!(LaneSlot, data);
const _: () = assert!(DATA_AT == 40 && SHORT <= INLINE);

/// Kind of a packet: what a slot carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum PacketKind {
    /// A message of the layer above.
    Message = 0,
    /// A signal; the head starts with its key.
    Signal = 1,
    /// Asks the owner of a grant to send bytes: `portal/chunks.rs`.
    Get = 2,
    /// Announces bytes to be written to a grant.
    Put = 3,
    /// Bytes of a get or a put.
    Chunk = 4,
    /// The end of a get or a put.
    End = 5,
    /// Asks the owner of a grant to move a part of a transfer: `portal/assist.rs`.
    Assist = 6,
    /// Asks the owner of a grant to send bytes while whoever asks has not fetched them: `portal/chunks.rs`.
    Ask = 7,
}

impl PacketKind {
    fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            0 => Self::Message,
            1 => Self::Signal,
            2 => Self::Get,
            3 => Self::Put,
            4 => Self::Chunk,
            5 => Self::End,
            6 => Self::Assist,
            7 => Self::Ask,
            _ => return None,
        })
    }
}

const BULK: u32 = 1 << 31;
const KIND_SHIFT: u32 = 28;
const LENGTH: u32 = (1 << KIND_SHIFT) - 1;

/// Memory of a lane: where its head, slots and bulk area are, and their sizes. Private copies.
#[derive(Clone, Copy, Debug)]
struct LaneMemory {
    head: *mut LaneHead,
    /// The control block of the receiver.
    control: *const Control,
    /// The number of slots, a power of two, less one.
    mask: u32,
    bulk: u32,
}

impl LaneMemory {
    fn of(segment: &Segment, from: u32, to: u32) -> Self {
        let Shape {
            lane_slots, bulk, ..
        } = *segment.shape();
        Self {
            head: segment.lane(from, to).cast::<LaneHead>(),
            control: segment.control(to),
            mask: lane_slots - 1,
            bulk,
        }
    }

    #[inline]
    fn head(&self) -> &LaneHead {
        // SAFETY: `Segment::lane` gave the pointer, aligned to a page; `OutboundLanes` and `InboundLanes` hold the
        // segment as long as its lanes, so it stays mapped; all atomics.
        unsafe { &*self.head }
    }

    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: `Segment::control` gave the reference; the segment stays mapped as for `head`; all atomics.
        unsafe { &*self.control }
    }

    /// How many slots there are.
    #[inline]
    fn slots(&self) -> u32 {
        self.mask + 1
    }

    /// The slot of a position.
    #[inline]
    fn slot(&self, position: u32) -> *mut LaneSlot {
        let index = (position & self.mask) as usize;
        // SAFETY: the slots follow the head, and `index` is below their number, which `Shape` placed
        // within the segment.
        unsafe { self.head.add(1).cast::<LaneSlot>().add(index) }
    }

    /// A byte of the bulk area. `offset` must not exceed its size.
    #[inline]
    fn bulk(&self, offset: u32) -> *mut u8 {
        debug_assert!(offset <= self.bulk);
        // SAFETY: the bulk area follows the slots, within the segment; `offset` is at most its size.
        unsafe {
            self.head
                .add(1)
                .cast::<LaneSlot>()
                .add(self.slots() as usize)
                .cast::<u8>()
                .add(offset as usize)
        }
    }
}

/// The atomics of a slot.
///
/// # Safety
/// `slot` must come from [`LaneMemory::slot`] of a lane whose segment outlives `'a`.
#[inline]
unsafe fn atomics<'a>(slot: *mut LaneSlot) -> (&'a AtomicU64, &'a [AtomicU64; HEAD / 8]) {
    // SAFETY: the caller promises that `LaneMemory::slot` gave the pointer, so it is in bounds and aligned, and that the
    // segment outlives `'a`; atomics only, the data bytes are not referred to.
    unsafe { (&(*slot).word, &(*slot).head) }
}

/// A head as four words.
pub(crate) fn words(head: &Head) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// Four words as a head.
pub(crate) fn head(words: [u64; 4]) -> Head {
    let mut head = [0; HEAD];
    for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    head
}

#[cfg(test)]
mod tests;
