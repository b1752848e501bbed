//! Ring of descriptors in memory that two processes share and neither trusts.
//!
//! ```text
//!   shared:   tail │ head │ waiting │ slot 0 … slot capacity-1      (each group on lines of its own)
//!   producer: capacity, mask, own tail, limit, head as last seen    (private)
//!   consumer: capacity, mask, own head, tail as last seen           (private)
//! ```
//!
//! # Who may touch what
//! The producer writes `tail` and the slots, the consumer writes `head`; both write `waiting`. Shared memory
//! only holds what the *other* side must know: each side works from its private copy and never reads its own
//! word back. Capacity and mask are not shared at all.
//!
//! # What a peer can do
//! A peer can write anything anywhere. An index outside of the window of `capacity` places is a
//! [fault](Consumer::faults), counted and otherwise treated as "nothing new": no slot is read or written
//! because of it. A slot is read once, as one word. So a peer can starve or flood its own ring, but nothing
//! else; the [`Ledger`](super::Ledger) checks what the descriptors *name*.
//!
//! # Generations
//! Indices count items since the beginning of a *generation*, in the lower 40 bits; the upper 24 are the
//! generation itself. When one side is replaced, both take a handle of the next generation, each in its own
//! time: until both have it, the words of one lie outside the window of the other, and the ring appears
//! empty.
//!
//! # Signalling
//! ```text
//!   consumer, about to sleep             producer
//!   waiting = 1              (W)         slots, tail = …          (P)
//!   full fence                           full fence
//!   look at tail once more   (L)         waiting == 0 ?  done     (S)
//!   something: go on                     waiting = 0, notify
//!   nothing: sleep until notified
//! ```
//! If L misses P, the fences order W before S: S sees it and notifies. The event remembers a notification that comes
//! before the sleep. A busy consumer has `waiting == 0` and is never notified. Two notifications for one sleep are
//! possible and harmless. `models/queue.pml` models this protocol on a machine with store buffers; the models below
//! explore the code.
//!
//! # Ordering
//! * SYNC queue.publish: the producer's Release of `tail`, the consumer's Acquire: slots and the
//!   contents of the buffers are written before they are seen.
//! * SYNC queue.release: the consumer's Release of `head`, the producer's Acquire: a slot has been
//!   read before it is written again.

use core::any::Any;

use weft_atomic::{Arc, AtomicU32, AtomicU64, CacheLine, FenceMode, Ordering};

use super::Descriptor;

/// The shared words of a ring. All zeros is an empty ring of generation 0.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Words {
    tail: CacheLine<AtomicU64>,
    head: CacheLine<AtomicU64>,
    waiting: CacheLine<AtomicU32>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Words>() == 384 && align_of::<Words>() == 128);

/// Most entries of a ring.
pub const MOST: u32 = 1 << 15;

/// Slots of a cache line.
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
const LINE: u64 = 8;

/// Bits of an index below its generation.
const GENERATION: u32 = 40;

/// The shared memory of a ring, for both handles.
#[derive(Clone)]
pub(super) struct RingMemory {
    words: *const Words,
    slots: *const AtomicU64,
    capacity: u32,
    /// Keeps the memory that the pointers lead to.
    _memory: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointers lead to atomics in memory that `_memory` keeps for all threads.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// # Safety
    /// `words` and `capacity` atomics from `slots` must be aligned and stay readable and writable as
    /// long as `memory` lives. Others may write to them at any time.
    ///
    /// # Panics
    /// If the capacity is not a power of two, or larger than [`MOST`].
    pub(super) unsafe fn new(
        words: *const Words,
        slots: *const AtomicU64,
        capacity: u32,
        memory: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= MOST);
        Self {
            words,
            slots,
            capacity,
            _memory: memory,
        }
    }

    #[inline]
    fn words(&self) -> &Words {
        // SAFETY: aligned and mapped as long as `_memory` lives, which we keep, as promised to `new`. Only atomics are
        // in there.
        unsafe { &*self.words }
    }

    /// Prefetches the lines of the slots in between, except the first, which is read at once: so they are
    /// fetched together and not one after the other.
    #[inline]
    fn fetch(&self, from: u64, until: u64) {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let mut next = (from | (LINE - 1)) + 1;
            let most = until.min(from + 8 * LINE);
            while next < most {
                // SAFETY: a hint, with the address of a slot.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(self.slot(next)).cast()) };
                next += LINE;
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
        let _ = (from, until);
    }

    /// How many items wait, for an observer: 0 while the sides are of different generations.
    pub(super) fn waiting(&self) -> u32 {
        // Relaxed: nothing is read because of it.
        let head = self.words().head.load(Ordering::Relaxed);
        let waiting = self.words().tail.load(Ordering::Relaxed).wrapping_sub(head);
        u32::try_from(waiting)
            .ok()
            .filter(|&waiting| waiting <= self.capacity)
            .unwrap_or(0)
    }

    #[inline]
    fn slot(&self, index: u64) -> &AtomicU64 {
        let place = index as usize & (self.capacity as usize - 1);
        // SAFETY: the mask keeps the place below the capacity, as promised to `new`.
        unsafe { &*self.slots.add(place) }
    }
}

/// The writing end of a ring.
pub struct Producer {
    memory: RingMemory,
    /// Entries in use at most: the capacity, or less if the queue is limited.
    limit: u64,
    next: u64,
    published: u64,
    /// The consumer's head as last seen: never ahead of the true one, unless the consumer cheats.
    head: u64,
    faults: u64,
}

/// The reading end of a ring.
pub struct Consumer {
    memory: RingMemory,
    head: u64,
    released: u64,
    /// The producer's tail as last seen.
    tail: u64,
    faults: u64,
}

/// The ring is full: the descriptor was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full(pub Descriptor);

const fn start(generation: u32) -> u64 {
    (generation as u64) << GENERATION
}

impl Producer {
    pub(super) fn new(memory: RingMemory, generation: u32, limit: u32) -> Self {
        let next = start(generation);
        // Release: SYNC queue.publish. Until the consumer is of this generation, it sees nothing.
        memory.words().tail.store(next, Ordering::Release);
        Self {
            limit: u64::from(limit.clamp(1, memory.capacity)),
            next,
            published: next,
            head: next,
            faults: 0,
            memory,
        }
    }

    /// How many descriptors can be pushed now.
    #[inline]
    #[must_use]
    pub fn room(&mut self) -> u32 {
        let used = self.next.wrapping_sub(self.head);
        if used >= self.limit {
            self.look();
        }
        self.limit.saturating_sub(self.next.wrapping_sub(self.head)) as u32
    }

    /// The most that wait: those not yet taken when the consumer's index was last read.
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> u32 {
        self.next.wrapping_sub(self.head) as u32
    }

    /// How many were pushed and are not yet taken, as last seen.
    #[must_use]
    pub fn depth(&mut self) -> u32 {
        self.look();
        self.next.wrapping_sub(self.head) as u32
    }

    /// Reads the consumer's index, and accepts it only if it lies between its last value and what was
    /// published.
    #[inline]
    fn look(&mut self) {
        // Acquire: SYNC queue.release.
        let head = self.memory.words().head.load(Ordering::Acquire);
        if head.wrapping_sub(self.head) <= self.published.wrapping_sub(self.head) {
            self.head = head;
        } else if head >> GENERATION == self.next >> GENERATION {
            self.faults += 1;
        }
    }

    /// Appends a descriptor, which the consumer sees after [`publish`](Self::publish).
    ///
    /// # Errors
    /// Gives it back when the ring is full.
    #[inline]
    pub fn push(&mut self, descriptor: Descriptor) -> Result<(), Full> {
        if self.next.wrapping_sub(self.head) >= self.limit {
            self.look();
            if self.next.wrapping_sub(self.head) >= self.limit {
                return Err(Full(descriptor));
            }
        }
        // Ordered by the Release of the tail.
        self.memory
            .slot(self.next)
            .store(descriptor.to_word(), Ordering::Relaxed);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Makes all pushed items visible to the consumer. True: it waits, and must be notified.
    #[inline]
    #[must_use = "a consumer that waits and is not notified sleeps on"]
    pub fn publish(&mut self) -> bool {
        if self.published == self.next {
            return false;
        }
        self.published = self.next;
        let words = self.memory.words();
        // P. Release: SYNC queue.publish.
        words.tail.store(self.next, Ordering::Release);
        FenceMode::Symmetric.light();
        // S.
        if words.waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        words.waiting.store(0, Ordering::Relaxed);
        true
    }

    /// For the model that shows the need for the fence.
    #[cfg(all(test, loom))]
    pub(super) fn publish_without_fence(&mut self) -> bool {
        self.published = self.next;
        let words = self.memory.words();
        words.tail.store(self.next, Ordering::Release);
        let waiting = words.waiting.load(Ordering::Relaxed) != 0;
        if waiting {
            words.waiting.store(0, Ordering::Relaxed);
        }
        waiting
    }

    /// Whether something is pushed and not published.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.published != self.next
    }

    /// Changes how many entries may be in use.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = u64::from(limit.clamp(1, self.memory.capacity));
    }

    /// How often the consumer's index was out of its window.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The same end in another generation: items that were pushed and not taken are dropped.
    #[must_use]
    pub fn reattach(self, generation: u32) -> Self {
        let limit = self.limit as u32;
        Self::new(self.memory, generation, limit)
    }
}

impl Consumer {
    pub(super) fn new(memory: RingMemory, generation: u32) -> Self {
        let head = start(generation);
        // Release: SYNC queue.release.
        memory.words().head.store(head, Ordering::Release);
        Self {
            head,
            released: head,
            tail: head,
            faults: 0,
            memory,
        }
    }

    /// Takes the oldest descriptor. Its place is free for the producer after
    /// [`release`](Self::release).
    #[inline]
    pub fn pop(&mut self) -> Option<Descriptor> {
        if self.head == self.tail && !self.look() {
            return None;
        }
        // Read once. Ordered by the Acquire of the tail.
        let word = self.memory.slot(self.head).load(Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        Some(Descriptor::from_word(word))
    }

    /// The oldest descriptor, left where it is. A peer may change it until it is taken.
    #[inline]
    pub fn peek(&mut self) -> Option<Descriptor> {
        if self.head == self.tail && !self.look() {
            return None;
        }
        let word = self.memory.slot(self.head).load(Ordering::Relaxed);
        Some(Descriptor::from_word(word))
    }

    /// Reads the producer's index; true if there is something.
    #[inline]
    fn look(&mut self) -> bool {
        // Acquire: SYNC queue.publish.
        let tail = self.memory.words().tail.load(Ordering::Acquire);
        // Items that were taken but not released are still in the ring.
        let filled = tail.wrapping_sub(self.released);
        let seen = self.head.wrapping_sub(self.released);
        if filled <= u64::from(self.memory.capacity) && filled >= seen {
            self.tail = tail;
            self.memory.fetch(self.head, tail);
        } else if tail >> GENERATION == self.head >> GENERATION {
            self.faults += 1;
        }
        self.head != self.tail
    }

    /// How many descriptors wait, as last seen and no more than fit.
    #[must_use]
    pub fn depth(&mut self) -> u32 {
        self.look();
        self.tail.wrapping_sub(self.head) as u32
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.head == self.tail && !self.look()
    }

    /// Gives the places of all taken items back to the producer.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.head {
            self.released = self.head;
            // Release: SYNC queue.release.
            self.memory.words().head.store(self.head, Ordering::Release);
        }
    }

    /// Asks to be notified when something arrives, and looks once more: true if something has arrived already
    /// (then the request is withdrawn, do not sleep).
    #[must_use = "with something in the queue there is no event to wait for"]
    pub fn announce(&mut self) -> bool {
        let waiting = &self.memory.words().waiting;
        // W.
        waiting.store(1, Ordering::Relaxed);
        FenceMode::Symmetric.light();
        // L.
        if self.look() {
            self.memory.words().waiting.store(0, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Withdraws the request of [`announce`](Self::announce), when the consumer was woken by something else.
    pub fn withdraw(&mut self) {
        self.memory.words().waiting.store(0, Ordering::Relaxed);
    }

    /// How often the producer's index was out of its window.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The same end in another generation: items in the ring are dropped.
    #[must_use]
    pub fn reattach(self, generation: u32) -> Self {
        Self::new(self.memory, generation)
    }
}

/// A ring in memory of this process, for tests and models.
#[cfg(test)]
pub(super) fn heap(capacity: u32, limit: u32) -> (Producer, Consumer, Arc<HeapRing>) {
    let ring = Arc::new(HeapRing {
        words: Words::default(),
        slots: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
    });
    let memory: std::sync::Arc<dyn Any + Send + Sync> = std::sync::Arc::new(ring.clone());
    #[cfg(loom)]
    let memory = Arc::from_std(memory);
    // SAFETY: the ring lives as long as the reference that `memory` holds.
    let place =
        unsafe { RingMemory::new(&raw const ring.words, ring.slots.as_ptr(), capacity, memory) };
    (
        Producer::new(place.clone(), 0, limit),
        Consumer::new(place, 0),
        ring,
    )
}

/// The memory of [`heap`], which a test may overwrite as a peer would.
#[cfg(test)]
pub(super) struct HeapRing {
    pub(super) words: Words,
    pub(super) slots: Box<[AtomicU64]>,
}

#[cfg(test)]
impl Words {
    pub(super) fn scribble(&self, tail: u64, head: u64, waiting: u32) {
        self.tail.store(tail, Ordering::Relaxed);
        self.head.store(head, Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
    }
}
