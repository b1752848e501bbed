//! Receiver's end of a lane: what it has consumed, and what it has published of that. What it reads is checked.

use weft_atomic::{AtomicU64, Ordering};
use weft_fabric::{HEAD, Head, Next, Region, SharedBytes};

use super::{BULK, DATA_AT, KIND_SHIFT, LENGTH, LaneMemory, PacketKind, atomics};
use crate::layout::{Control, INLINE, LaneSlot};
use crate::segment::Segment;

/// Result of a look at a lane.
pub(crate) enum Found<'a> {
    /// Nothing new.
    Nothing,
    /// The next packet. It stays until [`InLane::consume`].
    Packet(Packet<'a>),
    /// Something that no honest sender writes.
    Malformed,
}

/// Packet in a lane.
pub(crate) struct Packet<'a> {
    pub kind: PacketKind,
    pub head: Head,
    pub data: SharedBytes<'a>,
    bulk_end: Option<u32>,
}

impl Packet<'_> {
    /// What [`InLane::consume`] needs to know of the packet.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.bulk_end)
    }
}

/// End of a packet in the bulk area: so far it is free once the packet is consumed.
#[derive(Clone, Copy)]
pub(crate) struct Mark(Option<u32>);

/// Receiver's end of a lane.
#[derive(Debug)]
pub(crate) struct InLane {
    memory: LaneMemory,
    /// Messages consumed: also the position of the next one.
    next: u32,
    /// Of these published.
    published: u32,
    /// Bulk bytes consumed.
    bulk_done: u32,
    /// Of these published.
    bulk_published: u32,
    /// Longest data part.
    longest: u32,
    /// Nothing of it is looked at any more.
    closed: bool,
    /// Polled directly.
    hot: bool,
}

// SAFETY: as for OutLane, with `InboundLanes` as the owner.
unsafe impl Send for InLane {}

impl InLane {
    pub fn new(segment: &Segment, from: u32, to: u32) -> Self {
        Self {
            memory: LaneMemory::of(segment, from, to),
            next: 0,
            published: 0,
            bulk_done: 0,
            bulk_published: 0,
            longest: segment.shape().data,
            closed: false,
            hot: false,
        }
    }

    /// Whether this lane is polled directly.
    pub fn is_hot(&self) -> bool {
        self.hot
    }

    /// Whether it is polled directly and not closed: then [`take_short`](Self::take_short) and [`take_long`](Self::take_long) may be
    /// asked.
    #[inline]
    pub fn is_hot_and_open(&self) -> bool {
        self.hot && !self.closed
    }

    /// The control block of the receiver: one's own.
    #[inline]
    pub fn receiver(&self) -> &Control {
        self.memory.control()
    }

    /// Nothing of it is looked at any more.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Tells the sender whether it must add this lane to the pending ones.
    pub fn set_hot(&mut self, hot: bool) {
        self.hot = hot;
        self.memory
            .head()
            .hot
            .store(u32::from(hot), Ordering::Release);
    }

    /// Whether the next slot holds nothing new.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let slot = self.memory.slot(self.next);
        // SAFETY: from `LaneMemory::slot`; whoever holds the lane holds the segment.
        let (word, _) = unsafe { atomics(slot) };
        // What is behind the word is looked at by `peek` only.
        (word.load(Ordering::Relaxed) >> 32) as u32 != self.next.wrapping_add(1) || self.closed
    }

    /// Looks at the next slot; a closed lane has nothing. The lifetime of the answer is the caller's to bound: the view of the
    /// data holds until [`consume`](Self::consume).
    ///
    /// # Safety
    /// The answer must not outlive the segment, nor be used after `consume`.
    #[inline]
    pub unsafe fn peek<'a>(&self) -> Found<'a> {
        let slot = self.memory.slot(self.next);
        // SAFETY: from `LaneMemory::slot`; the caller bounds the lifetime by the segment's.
        let (word, head_words) = unsafe { atomics::<'a>(slot) };
        if self.closed {
            return Found::Nothing;
        }
        // SYNC lane.publish.
        let word = word.load(Ordering::Acquire);
        if (word >> 32) as u32 != self.next.wrapping_add(1) {
            return Found::Nothing;
        }
        let bits = word as u32;
        let Some(kind) = PacketKind::from_bits(bits >> KIND_SHIFT & 7) else {
            return Found::Malformed;
        };
        let Some((data, bulk_end)) = self.data_of(slot, bits) else {
            return Found::Malformed;
        };
        let mut head = [0; HEAD];
        for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(head_words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Found::Packet(Packet {
            kind,
            head,
            data,
            bulk_end,
        })
    }

    /// The data of the packet in the next slot, `bits` being the low half of its word, and where they end in the bulk area if they
    /// are there. `None` if no honest sender writes this. As long as what [`peek`](Self::peek) returns, so the lifetime is the
    /// caller's to bound.
    #[inline]
    fn data_of<'a>(
        &self,
        slot: *mut LaneSlot,
        bits: u32,
    ) -> Option<(SharedBytes<'a>, Option<u32>)> {
        let length = bits & LENGTH;
        // SAFETY: the data of a slot within the lane.
        let inline = unsafe { slot.cast::<u8>().add(DATA_AT) };
        let (start, bulk_end) = if bits & BULK == 0 {
            if length as usize > INLINE {
                return None;
            }
            (inline, None)
        } else {
            // SAFETY: eight aligned bytes of the slot's data.
            let span = unsafe { &*inline.cast::<AtomicU64>() }.load(Ordering::Relaxed);
            let (offset, end) = (span as u32, (span >> 32) as u32);
            if length > self.longest
                || offset
                    .checked_add(length)
                    .is_none_or(|end| end > self.memory.bulk)
            {
                return None;
            }
            (self.memory.bulk(offset), Some(end))
        };
        // SAFETY: within the slot or, as checked, within the bulk area.
        let data = unsafe { SharedBytes::new(start, length as usize) };
        Some((data, bulk_end))
    }

    /// The next packet, if it is a message whose data lie in the slot, as of most. It stays until
    /// [`consume_short`](Self::consume_short). Everything else is left to [`peek`](Self::peek).
    ///
    /// # Safety
    /// As for [`peek`](Self::peek).
    #[inline]
    pub unsafe fn peek_short<'a>(&self) -> Option<(Head, SharedBytes<'a>)> {
        let slot = self.memory.slot(self.next);
        // SAFETY: from `LaneMemory::slot`; the caller bounds the lifetime by the segment's.
        let (word, head_words) = unsafe { atomics::<'a>(slot) };
        // SYNC lane.publish.
        let word = word.load(Ordering::Acquire);
        // Kind and flag are zero in a short message.
        const _: () = assert!(PacketKind::Message as u32 == 0);
        let bits = word as u32;
        if (word >> 32) as u32 != self.next.wrapping_add(1) || bits > INLINE as u32 || self.closed {
            return None;
        }
        let mut head = [0; HEAD];
        for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(head_words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        // SAFETY: the data of a slot within the lane: at most INLINE bytes, as checked.
        let data = unsafe { SharedBytes::new(slot.cast::<u8>().add(DATA_AT), bits as usize) };
        Some((head, data))
    }

    /// Copies the data of the next packet into `into` if it is a short message with this head and as many bytes. It stays
    /// until [`consume_short`](Self::consume_short). For lanes that are not closed.
    #[inline(always)]
    pub fn take_short(&self, head: &Head, into: &Region) -> Next {
        let length = into.len();
        let slot = self.memory.slot(self.next);
        // SAFETY: from `LaneMemory::slot`; whoever holds the lane holds the segment.
        let (word, head_words) = unsafe { atomics(slot) };
        // SYNC lane.publish.
        let word = word.load(Ordering::Acquire);
        let number = self.next.wrapping_add(1);
        // As in `peek_short`: kind and flag are zero.
        if word != u64::from(number) << 32 | length as u64 {
            let is_there = (word >> 32) as u32 == number;
            return if is_there { Next::Other } else { Next::Nothing };
        }
        if !is_equal(head_words, head) {
            return Next::Other;
        }
        // SAFETY: the data of a slot within the lane, which are copied if they are at most SHORT bytes. They stay until the packet
        // is consumed.
        let data = unsafe { SharedBytes::new(slot.cast::<u8>().add(DATA_AT), length) };
        if data.fill_if_short(into) {
            Next::Taken
        } else {
            Next::Other
        }
    }

    /// The same of a message that is not short, wherever its data lie. With what [`consume_long`](Self::consume_long) needs to know
    /// if it was taken. For lanes that are not closed.
    #[inline]
    pub fn take_long(&self, head: &Head, into: &Region) -> (Next, Mark) {
        let slot = self.memory.slot(self.next);
        // SAFETY: from `LaneMemory::slot`; whoever holds the lane holds the segment.
        let (word, head_words) = unsafe { atomics(slot) };
        // SYNC lane.publish.
        let word = word.load(Ordering::Acquire);
        if (word >> 32) as u32 != self.next.wrapping_add(1) {
            return (Next::Nothing, Mark(None));
        }
        let bits = word as u32;
        // As in `peek_short`: the kind is zero.
        if (bits & !BULK) as usize != into.len() || !is_equal(head_words, head) {
            return (Next::Other, Mark(None));
        }
        // What is malformed is found by `peek`.
        let Some((data, bulk_end)) = self.data_of(slot, bits) else {
            return (Next::Other, Mark(None));
        };
        data.copy_to_region(into);
        (Next::Taken, Mark(bulk_end))
    }

    /// Frees the slot of a short message. True if the sender is to be told of room by [`publish_room`](Self::publish_room).
    #[inline]
    pub fn consume_short(&mut self) -> bool {
        self.next = self.next.wrapping_add(1);
        // As in `consume_long`.
        self.next.wrapping_sub(self.published) > self.memory.mask / 4
    }

    /// Shows the sender what was consumed.
    #[cold]
    pub fn publish_room(&mut self) {
        self.publish();
    }

    /// Frees the slot of a message and its part of the bulk area. True as for [`consume_short`](Self::consume_short).
    #[inline]
    pub fn consume_long(&mut self, mark: Mark) -> bool {
        if let Some(end) = mark.0 {
            self.bulk_done = end;
        }
        // At least a quarter of the slots, whose number is a multiple of four.
        self.consume_short()
            || self.bulk_done.wrapping_sub(self.bulk_published) >= self.memory.bulk / 4
    }

    /// Frees the slot that was looked at. True if the sender was told of new room.
    #[inline]
    pub fn consume(&mut self, mark: Mark) -> bool {
        let is_due = self.consume_long(mark);
        if is_due {
            self.publish();
        }
        is_due
    }

    fn publish(&mut self) {
        self.published = self.next;
        self.bulk_published = self.bulk_done;
        let progress = u64::from(self.next) | u64::from(self.bulk_done) << 32;
        // SYNC lane.credit.
        self.memory
            .head()
            .progress
            .store(progress, Ordering::Release);
    }
}

/// Whether the words of a slot are this head.
#[inline(always)]
fn is_equal(words: &[AtomicU64; HEAD / 8], head: &Head) -> bool {
    let mut words = words.iter().zip(head.as_chunks::<8>().0);
    words.all(|(word, bytes)| word.load(Ordering::Relaxed) == u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
impl InLane {
    /// As if so many messages, and bytes of the bulk area, had passed.
    pub(super) fn pretend_passed(&mut self, many: u32) {
        (self.next, self.published) = (many, many);
        (self.bulk_done, self.bulk_published) = (many, many);
    }
}
