//! Sender's end of a lane: what it has sent, and how much room it knows of.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use weft_atomic::{AtomicU64, Ordering};
use weft_fabric::{Head, SharedBytes, Source};
use weft_sys::slots::{Reader, SlotWriter};
use weft_sys::span::{copy_if_short, copy_short};

use super::{BULK, DATA_AT, KIND_SHIFT, LaneMemory, PacketKind, atomics};
use crate::layout::{Control, INLINE, LaneSlot};
use crate::segment::Segment;

/// The slot of the next packet of a lane, which is free. One is asked for each packet.
pub(crate) struct NextSlot(*mut LaneSlot);

/// Sender's end of a lane.
#[derive(Debug)]
pub(crate) struct OutLane {
    memory: LaneMemory,
    /// Those of all lanes of the sender. That of this one counts the messages sent, and is lent to whoever has the endpoint: see
    /// [`slots`](weft_sys::slots).
    writers: Arc<[SlotWriter]>,
    to: u32,
    /// Its receiver fences for us and is there: short messages may be written by the writer alone.
    is_open: bool,
    /// Messages known to be consumed.
    seen: u32,
    /// Where the next data goes in the bulk area.
    bulk_next: u32,
    /// Bytes of the bulk area given away so far, waste at its end included.
    bulk_sent: u32,
    /// Of these known to be consumed.
    bulk_seen: u32,
}

// SAFETY: the pointers lead into the segment, which is shared memory mapped for the whole process;
// `OutboundLanes`, which owns the lane ends, keeps the segment alive.
unsafe impl Send for OutLane {}

/// The bulk area takes data in pieces of so many bytes.
const PIECE: u32 = 64;

/// The writers of all lanes from a process slot, closed.
pub(crate) fn writers(segment: &Segment, from: u32) -> Arc<[SlotWriter]> {
    let writer = |to| {
        let memory = LaneMemory::of(segment, from, to);
        let reader = Reader {
            looks: NonNull::from(&memory.head().hot),
            doorbell: NonNull::from(&memory.control().doorbell),
        };
        let slots = NonNull::new(memory.slot(0)).expect("within the segment");
        // SAFETY: `LaneMemory::of` has so many slots within the segment's mapping, which the writer keeps, as it has the
        // head and the control block; whoever receives checks what it finds.
        unsafe { SlotWriter::new(segment.mapping().clone(), slots, memory.mask, reader) }
    };
    (0..segment.shape().process_slots).map(writer).collect()
}

impl OutLane {
    /// That to a process slot, of which these are the [`writers`].
    pub fn new(segment: &Segment, from: u32, to: u32, writers: Arc<[SlotWriter]>) -> Self {
        writers[to as usize].set_sent(0, false);
        Self {
            memory: LaneMemory::of(segment, from, to),
            writers,
            to,
            is_open: false,
            seen: 0,
            bulk_next: 0,
            bulk_sent: 0,
            bulk_seen: 0,
        }
    }

    #[inline]
    fn writer(&self) -> &SlotWriter {
        &self.writers[self.to as usize]
    }

    /// Messages sent.
    #[inline]
    fn sent(&self) -> u32 {
        self.writer().sent()
    }

    /// Whether short messages may be written by the writer alone from now on: towards a receiver that fences for us.
    #[cold]
    pub fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
        if is_open {
            self.lend_room();
        } else {
            self.writer().close();
        }
    }

    /// The writer gets all the room that there is as far as is known.
    fn lend_room(&self) {
        self.writer()
            .open_until(self.seen.wrapping_add(self.memory.slots()));
    }

    /// Whether the receiver polls this lane directly. Look after publishing, with a fence between.
    #[inline]
    pub fn is_hot(&self) -> bool {
        self.memory.head().hot.load(Ordering::Relaxed) != 0
    }

    /// The control block of the receiver.
    #[inline]
    pub fn receiver(&self) -> &Control {
        self.memory.control()
    }

    /// Puts one packet into the lane; false, and no effect, if there is no room. The length of
    /// `data` is at most what `Shape::data` allows (callers check it against the limit).
    #[inline]
    pub fn push(&mut self, kind: PacketKind, head: &Head, data: SharedBytes<'_>) -> bool {
        if data.len() <= INLINE {
            return self.push_short(kind, head, data);
        }
        self.push_long(kind, head, data)
    }

    /// The same for data that fit the slot.
    #[inline]
    fn push_short(&mut self, kind: PacketKind, head: &Head, data: SharedBytes<'_>) -> bool {
        let Some(NextSlot(slot)) = self.next_slot() else {
            return false;
        };
        assert!(data.len() <= INLINE);
        // SAFETY: the data of a slot of ours: the receiver has consumed what was there (SYNC
        // lane.credit), and does not look before the word says so.
        let inline = unsafe { slot.cast::<u8>().add(DATA_AT) };
        // SAFETY: at most INLINE bytes into the data of the slot; whoever made the
        // `SharedBytes` promised that the source is readable; it is not this slot, since slots are handed out by this
        // lane only.
        unsafe { copy_short(data.as_ptr(), inline, data.len()) };
        self.publish(slot, (kind as u32) << KIND_SHIFT | data.len() as u32, head);
        true
    }

    /// Puts a message of at most [`SHORT`](weft_sys::span::SHORT) bytes into the [next slot](Self::room), without a call: false if it is longer.
    #[inline(always)]
    #[must_use]
    pub fn push_few_at(&mut self, slot: NextSlot, head: &Head, data: SharedBytes<'_>) -> bool {
        let NextSlot(slot) = slot;
        // SAFETY: as in `push_short`, since SHORT is at most INLINE.
        let copied = unsafe {
            let inline = slot.cast::<u8>().add(DATA_AT);
            copy_if_short(data.as_ptr(), inline, data.len())
        };
        if copied {
            // The kind of a message is zero.
            self.publish(slot, data.len() as u32, head);
        }
        copied
    }

    /// The same for data that need the bulk area.
    #[inline(never)]
    fn push_long(&mut self, kind: PacketKind, head: &Head, data: SharedBytes<'_>) -> bool {
        let Some((slot, offset)) = self.next_span(data.len()) else {
            return false;
        };
        // SAFETY: `next_span` gave `data.len()` bytes of the bulk area to this message alone, which is published below; whoever
        // made the `SharedBytes` promised that the source is readable.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.memory.bulk(offset), data.len());
        }
        self.publish_span(slot, offset, kind, data.len(), head);
        true
    }

    /// Puts a message of a part of some data into the lane, piece by piece over `stage`, which stays in the first-level cache.
    /// False, and no effect, if there is no room.
    pub fn push_part(
        &mut self,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
        stage: &mut [u8],
    ) -> bool {
        let length = part.len();
        if length <= INLINE {
            // The source is not read if the message is refused.
            return self.next_slot().is_some() && {
                let data = &mut stage[..length];
                source.read(part.start, data);
                self.push_short(PacketKind::Message, head, SharedBytes::of(data))
            };
        }
        let Some((slot, offset)) = self.next_span(length) else {
            return false;
        };
        let into = self.memory.bulk(offset);
        let mut done = 0;
        while done < length {
            let most = stage.len().min(length - done);
            let piece = &mut stage[..most];
            source.read(part.start + done, piece);
            // SAFETY: `next_span` gave `length` bytes of the bulk area to this message alone, which is published below; these are a
            // part of them.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), into.add(done), piece.len()) };
            done += piece.len();
        }
        self.publish_span(slot, offset, PacketKind::Message, length, head);
        true
    }

    /// The slot of the next packet, and so many bytes of the bulk area for it, if there is room.
    fn next_span(&mut self, length: usize) -> Option<(*mut LaneSlot, u32)> {
        let NextSlot(slot) = self.next_slot()?;
        Some((slot, self.reserve(length as u32)?))
    }

    /// Shows the receiver the packet in the next slot, whose data are in the bulk area.
    #[inline]
    fn publish_span(
        &mut self,
        slot: *mut LaneSlot,
        offset: u32,
        kind: PacketKind,
        length: usize,
        head: &Head,
    ) {
        let span = u64::from(offset) | u64::from(self.bulk_sent) << 32;
        // SAFETY: eight aligned bytes (40 = 5 · 8) of the data of a slot of ours, as in `push_short`.
        unsafe { &*slot.cast::<u8>().add(DATA_AT).cast::<AtomicU64>() }
            .store(span, Ordering::Relaxed);
        let bits = (kind as u32) << KIND_SHIFT | length as u32 | BULK;
        self.publish(slot, bits, head);
    }

    /// The slot of the next packet, if there is room as far as is known.
    #[inline]
    pub fn room(&self) -> Option<NextSlot> {
        let sent = self.sent();
        let free = sent.wrapping_sub(self.seen) <= self.memory.mask;
        free.then(|| NextSlot(self.memory.slot(sent)))
    }

    /// The slot of the next packet, if there is room.
    #[inline]
    fn next_slot(&mut self) -> Option<NextSlot> {
        self.room().or_else(|| {
            let found = self.look_for_slots();
            found.then(|| NextSlot(self.memory.slot(self.sent())))
        })
    }

    /// Shows the receiver the packet in the next slot, whose data are there: `bits` are the low half of its word.
    #[inline]
    fn publish(&mut self, slot: *mut LaneSlot, bits: u32, head: &Head) {
        // SAFETY: from `LaneMemory::slot`; the segment outlives this call.
        let (word, head_words) = unsafe { atomics(slot) };
        for (word, bytes) in head_words.iter().zip(head.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        let sent = self.sent().wrapping_add(1);
        self.writer().set_sent(sent, self.is_open);
        // SYNC lane.publish.
        word.store(u64::from(sent) << 32 | u64::from(bits), Ordering::Release);
    }

    /// Whether background traffic may use the lane now: it leaves half of it to messages.
    pub fn has_spare_room(&mut self, data: u32) -> bool {
        self.refresh();
        self.sent().wrapping_sub(self.seen) < self.memory.slots() / 2
            && self.bulk_sent.wrapping_sub(self.bulk_seen) + data <= self.memory.bulk / 2
    }

    #[cold]
    fn look_for_slots(&mut self) -> bool {
        self.refresh();
        self.sent().wrapping_sub(self.seen) < self.memory.slots()
    }

    /// Reads the receiver's progress and believes as much of it as is possible.
    fn refresh(&mut self) {
        // SYNC lane.credit.
        let progress = self.memory.head().progress.load(Ordering::Acquire);
        let (slots, bulk) = (progress as u32, (progress >> 32) as u32);
        // More is outstanding than before, or more was consumed than sent: a lie.
        let sent = self.sent();
        if sent.wrapping_sub(slots) <= sent.wrapping_sub(self.seen) {
            self.seen = slots;
            if self.is_open {
                self.lend_room();
            }
        }
        if self.bulk_sent.wrapping_sub(bulk) <= self.bulk_sent.wrapping_sub(self.bulk_seen) {
            self.bulk_seen = bulk;
        }
    }

    /// Takes `length` contiguous bytes of the bulk area.
    fn reserve(&mut self, length: u32) -> Option<u32> {
        let length = length.next_multiple_of(PIECE);
        self.fit(length).or_else(|| {
            self.refresh();
            self.fit(length)
        })
    }

    fn fit(&mut self, length: u32) -> Option<u32> {
        let used = self.bulk_sent.wrapping_sub(self.bulk_seen);
        if used == 0 {
            // Nothing is in use: start over, on lines that the caches know.
            self.bulk_next = 0;
        }
        let tail = self.memory.bulk - self.bulk_next;
        let (start, taken) = if length <= tail {
            (self.bulk_next, length)
        } else {
            (0, tail.checked_add(length)?)
        };
        // The used bytes end, going round, where the next ones start. What is taken follows them and
        // must not reach their beginning.
        if used.checked_add(taken)? > self.memory.bulk {
            return None;
        }
        self.bulk_sent = self.bulk_sent.wrapping_add(taken);
        self.bulk_next = start + length;
        Some(start)
    }
}

#[cfg(test)]
impl OutLane {
    /// As if so many messages, and bytes of the bulk area, had passed.
    pub(super) fn pretend_passed(&mut self, many: u32) {
        self.writer().set_sent(many, false);
        (self.seen, self.bulk_sent, self.bulk_seen) = (many, many, many);
    }

    /// Messages, and bytes of the bulk area, sent.
    pub(super) fn all_sent(&self) -> (u32, u32) {
        (self.sent(), self.bulk_sent)
    }

    /// No more is under way than the lane holds.
    pub(super) fn assert_bounds(&self) {
        assert!(self.sent().wrapping_sub(self.seen) <= self.memory.slots());
        assert!(self.bulk_sent.wrapping_sub(self.bulk_seen) <= self.memory.bulk);
        assert!(self.bulk_next <= self.memory.bulk);
    }
}
