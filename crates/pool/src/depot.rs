//! Depot: workers exchange full magazines for empty ones here. Two lock-free stacks over a fixed array of slots.
//!
//! ```text
//!   filled ─► slot 4 ─► slot 0 ─► nil        slots that hold a full magazine
//!   vacant ─► slot 2 ─► slot 1 ─► nil        slots that hold an empty one
//!             (slot 3 is being exchanged: on neither stack)
//! ```
//!
//! A stack's head is one word `{ turn: 32, slot: 32 }`. Each change of the head increments its turn, so that
//! a compare-and-swap by a thread that looked long ago fails even if the same slot is on top again. (A thread
//! would have to sleep through 2³² changes.)
//!
//! # Who may touch what
//! The content of a slot belongs to the thread that took the slot off a stack, until it is on a stack again.
//! That owner writes `next`, and any thread that looks at the head reads it; what a late reader reads is
//! discarded when its swap fails.
//!
//! # Ordering
//! SYNC depot.head: the pushing swap releases the content and `next`; the popping swap, and the load
//! of the head before it, acquire them. Swaps in between are read-modify-writes and carry the release
//! on.

use weft_atomic::{AtomicU32, AtomicU64, CacheLine, Ordering, UnsafeCell};

/// No slot.
const NIL: u32 = u32::MAX;

/// The head of a stack: `{ turn: 32, slot: 32 }`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head(u64);

impl Head {
    fn slot(self) -> Option<u32> {
        let slot = self.0 as u32;
        (slot != NIL).then_some(slot)
    }

    /// The head after this one, with `slot` on top.
    fn then(self, slot: u32) -> Self {
        let turn = (self.0 >> 32).wrapping_add(1) << 32;
        Self(turn | u64::from(slot))
    }
}

struct Slot<T> {
    next: AtomicU32,
    content: UnsafeCell<T>,
}

/// A bag of `T` that any thread may put into and take from, without locks or allocation: a full item that is
/// put in is exchanged for an empty one that a taker left, and the other way round.
pub(crate) struct Depot<T> {
    filled: CacheLine<AtomicU64>,
    vacant: CacheLine<AtomicU64>,
    slots: Box<[Slot<T>]>,
}

// SAFETY: contents are handed from owner to owner by the stacks, never reached by two at once; so they
// are sent, not shared.
unsafe impl<T: Send> Send for Depot<T> {}
// SAFETY: a shared depot gives a content only to the one who took its slot off a stack, by value; nobody gets a
// reference to a `T` that another thread can reach.
unsafe impl<T: Send> Sync for Depot<T> {}

impl<T: Default> Depot<T> {
    /// A depot with room for `slots` items, which it fills with empty ones (`T::default()`).
    pub(crate) fn new(slots: u32) -> Self {
        let slots = slots.min(NIL - 1);
        Self {
            filled: CacheLine(AtomicU64::new(u64::from(NIL))),
            vacant: CacheLine(AtomicU64::new(u64::from(if slots == 0 { NIL } else { 0 }))),
            slots: (1..=slots)
                .map(|next| Slot {
                    next: AtomicU32::new(if next == slots { NIL } else { next }),
                    content: UnsafeCell::new(T::default()),
                })
                .collect(),
        }
    }

    /// Exchanges the caller's item for an empty one. False, without effect, if there is no room.
    pub(crate) fn put(&self, item: &mut T) -> bool {
        self.exchange(&self.vacant, item, &self.filled)
    }

    /// Exchanges the caller's empty item for one that was put in. False, without effect, if there is none.
    pub(crate) fn take(&self, empty: &mut T) -> bool {
        self.exchange(&self.filled, empty, &self.vacant)
    }

    fn exchange(&self, from: &AtomicU64, item: &mut T, to: &AtomicU64) -> bool {
        let Some(slot) = self.pop(from) else {
            return false;
        };
        self.slots[slot as usize].content.with_mut(|content| {
            // SAFETY: popped, so the content is ours until pushed.
            core::mem::swap(unsafe { &mut *content }, item);
        });
        self.push(to, slot);
        true
    }

    fn pop(&self, stack: &AtomicU64) -> Option<u32> {
        // Acquire: SYNC depot.head.
        let mut head = Head(stack.load(Ordering::Acquire));
        loop {
            let slot = head.slot()?;
            let next = self.slots[slot as usize].next.load(Ordering::Relaxed);
            // Acquire: SYNC depot.head, also on failure, for `next` of the slot found instead.
            match stack.compare_exchange_weak(
                head.0,
                head.then(next).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(slot),
                Err(found) => head = Head(found),
            }
        }
    }

    fn push(&self, stack: &AtomicU64, slot: u32) {
        let mut head = Head(stack.load(Ordering::Relaxed));
        loop {
            let next = head.slot().unwrap_or(NIL);
            self.slots[slot as usize]
                .next
                .store(next, Ordering::Relaxed);
            // Release: SYNC depot.head.
            match stack.compare_exchange_weak(
                head.0,
                head.then(slot).0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => head = Head(found),
            }
        }
    }
}

#[cfg(test)]
impl<T> Depot<Option<T>> {
    fn give(&self, item: T) -> bool {
        let mut item = Some(item);
        let fits = self.put(&mut item);
        assert_eq!(fits, item.is_none());
        fits
    }

    fn get(&self) -> Option<T> {
        let mut place = None;
        assert_eq!(self.take(&mut place), place.is_some());
        place
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_depot_refuses_what_does_not_fit() {
        let depot = Depot::new(2);
        assert_eq!(depot.get(), None);
        assert_eq!([1, 2, 3].map(|item| depot.give(item)), [true, true, false]);
        assert_eq!([(); 3].map(|()| depot.get()), [Some(2), Some(1), None]);
        assert!(!Depot::new(0).give(1));
    }

    #[test]
    fn threads_neither_lose_nor_double() {
        let rounds = if cfg!(miri) { 30 } else { 20_000 };
        let depot = std::sync::Arc::new(Depot::new(4));
        for item in 0..3 {
            assert!(depot.give(Box::new(item)));
        }
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let depot = depot.clone();
                std::thread::spawn(move || {
                    for _ in 0..rounds {
                        if let Some(item) = depot.get() {
                            // A slot may be on neither stack for a moment: with four slots, three items and
                            // two other threads, a refusal is possible.
                            let mut item = Some(item);
                            while !depot.put(&mut item) {
                                std::thread::yield_now();
                            }
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        let mut left: Vec<i32> = std::iter::from_fn(|| depot.get())
            .map(|item| *item)
            .collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2]);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use weft_atomic::Arc;

    fn drain(depot: &Depot<Option<Box<u32>>>) -> Vec<u32> {
        std::iter::from_fn(|| depot.get())
            .map(|item| *item)
            .collect()
    }

    #[test]
    fn one_puts_while_another_takes() {
        loom::model(|| {
            let depot = Arc::new(Depot::new(2));
            let putter = {
                let depot = depot.clone();
                loom::thread::spawn(move || depot.give(Box::new(1)))
            };
            let mut seen: Vec<u32> = depot.get().into_iter().map(|item| *item).collect();
            assert!(putter.join().unwrap());
            seen.extend(drain(&depot));
            assert_eq!(seen, [1]);
        });
    }

    /// The sequence in which a stack without turns would go wrong: one thread looks at the head and its next,
    /// another takes both and puts the first back.
    #[test]
    fn a_head_that_comes_back_is_not_mistaken() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let depot = Arc::new(Depot::new(4));
            assert!(depot.give(Box::new(1)) && depot.give(Box::new(2)));
            let other = {
                let depot = depot.clone();
                loom::thread::spawn(move || {
                    let (first, second) = (depot.get(), depot.get());
                    if let Some(first) = first {
                        assert!(depot.give(first));
                    }
                    second.map(|item| *item)
                })
            };
            let mut seen: Vec<u32> = depot.get().into_iter().map(|item| *item).collect();
            seen.extend(other.join().unwrap());
            seen.extend(drain(&depot));
            seen.sort_unstable();
            assert_eq!(seen, [1, 2]);
        });
    }
}
