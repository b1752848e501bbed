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
//! # The word of a slot
//! ```text
//!   63 … 32   31     30 … 28   27 … 0
//!   sequence  bulk   kind      length of the data
//! ```
//! `sequence` is the position of the packet in the lane plus one (modulo 2³²). The receiver knows
//! which one it expects, so it polls the word of the next slot and nothing else: what an earlier lap
//! left there carries another number. If `bulk` is set, the first eight bytes of the slot's data are
//! {offset in the bulk area, bulk bytes sent up to and with this message}.
//!
//! A message of at most 24 bytes of data moves one cache line.
//!
//! # Credit
//! The sender counts what it has sent, privately, and reads `progress` only when its last look at it
//! leaves no room. The receiver publishes `progress` each time a quarter of the slots or of the bulk
//! area has become free, so the line with it, which the sender reads for each message because of
//! `hot`, stays in the sender's cache.
//!
//! A message of D bytes may waste up to D bytes at the end of the bulk area, and less than a quarter
//! of it is consumed but not published, so a drained lane takes any message as long as 2·D ≤ ¾ of the
//! area. `Shape` keeps D ≤ ⅜.
//!
//! # Ordering
//! * SYNC lane.publish: the word is stored with Release after head and data, and loaded with Acquire
//!   before them.
//! * SYNC lane.credit: `progress` is stored with Release after the last read of what it frees, and
//!   loaded with Acquire before that is overwritten.
//! * `hot` and the doorbell are looked at after the word was stored, with a fence between: see
//!   `poll_set.rs`.
//!
//! # Safety
//! Both sides keep cursors, sizes and pointers in private memory. What the other side writes is read
//! once and checked: the receiver checks length and bulk offset, the sender accepts a progress only
//! if it lies between what it knew and what it sent. A lying peer can spoil what it sends or
//! receives on its own lane, and make the lane be closed.

use std::ptr::NonNull;
use std::sync::Arc;

use weft_atomic::{AtomicU64, Ordering};
use weft_fabric::{HEAD, Head, Next, Region, SharedBytes};
use weft_sys::slots::{Reader, SlotWriter};
use weft_sys::span::{SHORT, copy_if_short, copy_short};

use crate::layout::{Control, INLINE, LaneHead, LaneSlot, Shape};
use crate::segment::Segment;

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

    /// Puts a message of at most [`SHORT`] bytes into the [next slot](Self::room), without a call: false if it is longer.
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
        let Some(NextSlot(slot)) = self.next_slot() else {
            return false;
        };
        let Some(offset) = self.reserve(data.len() as u32) else {
            return false;
        };
        // SAFETY: `reserve` gave `data.len()` bytes of the bulk area to this message alone; whoever made the
        // `SharedBytes` promised that the source is readable.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), self.memory.bulk(offset), data.len());
        }
        let span = u64::from(offset) | u64::from(self.bulk_sent) << 32;
        // SAFETY: eight aligned bytes (40 = 5 · 8) of the data of a slot of ours, as in `push_short`.
        unsafe { &*slot.cast::<u8>().add(DATA_AT).cast::<AtomicU64>() }
            .store(span, Ordering::Relaxed);
        let bits = (kind as u32) << KIND_SHIFT | data.len() as u32 | BULK;
        self.publish(slot, bits, head);
        true
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

    /// Whether it is polled directly and not closed: then [`take_short`](Self::take_short) may be asked.
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
        let length = bits & LENGTH;
        let Some(kind) = PacketKind::from_bits(bits >> KIND_SHIFT & 7) else {
            return Found::Malformed;
        };
        // SAFETY: the data of a slot within the lane.
        let inline = unsafe { slot.cast::<u8>().add(DATA_AT) };
        let (start, bulk_end) = if bits & BULK == 0 {
            if length as usize > INLINE {
                return Found::Malformed;
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
                return Found::Malformed;
            }
            (self.memory.bulk(offset), Some(end))
        };
        let mut head = [0; HEAD];
        for (bytes, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(head_words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        // SAFETY: within the slot or, as checked, within the bulk area.
        let data = unsafe { SharedBytes::new(start, length as usize) };
        Found::Packet(Packet {
            kind,
            head,
            data,
            bulk_end,
        })
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
        let mut words = head_words.iter().zip(head.as_chunks::<8>().0);
        if words.any(|(word, bytes)| word.load(Ordering::Relaxed) != u64::from_ne_bytes(*bytes)) {
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

    /// Frees the slot of a short message. True if the sender is to be told of room by [`publish_room`](Self::publish_room).
    #[inline]
    pub fn consume_short(&mut self) -> bool {
        self.next = self.next.wrapping_add(1);
        // As in `consume`.
        self.next.wrapping_sub(self.published) > self.memory.mask / 4
    }

    /// Shows the sender what was consumed.
    #[cold]
    pub fn publish_room(&mut self) {
        self.publish();
    }

    /// Frees the slot that was looked at. True if the sender was told of new room.
    #[inline]
    pub fn consume(&mut self, mark: Mark) -> bool {
        self.next = self.next.wrapping_add(1);
        if let Some(end) = mark.0 {
            self.bulk_done = end;
        }
        // At least a quarter of the slots, whose number is a multiple of four.
        if self.next.wrapping_sub(self.published) > self.memory.mask / 4
            || self.bulk_done.wrapping_sub(self.bulk_published) >= self.memory.bulk / 4
        {
            self.publish();
            return true;
        }
        false
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
