//! Ring: a queue from one producer to one consumer within a process.
//!
//! ```text
//!            head (consumer's)              tail (producer's)
//!              │                              │
//!   ┌────┬────┬▼───┬────┬────┬────┬────┬────┬─▼──┬────┐
//!   │    │    │ a  │ b  │ c  │ d  │ e  │ f  │    │    │   capacity: a power of two
//!   └────┴────┴────┴────┴────┴────┴────┴────┴────┴────┘
//!              └── published ──────┘└ staged ┘
//! ```
//!
//! `head` and `tail` count items since the beginning and wrap around; the slot of item `i` is
//! `i & mask`. Each side keeps the other's index as it last saw it and looks again only when the ring
//! seems full or empty, so that in steady use each line moves between the cores once per lap and not
//! once per item. A producer can stage several items and publish them by one store.
//!
//! # Who may touch what
//! `tail` is written by the producer, `head` by the consumer. Slots `head..tail` belong to the
//! consumer, the others to the producer.
//!
//! # Ordering
//! * SYNC ring.publish: the producer's Release of `tail` with the consumer's Acquire: the items are
//!   written before they are seen.
//! * SYNC ring.free: the consumer's Release of `head` with the producer's Acquire: an item is moved
//!   out before its slot is used again.
//!
//! # Safety
//! Each side has one handle, which is not `Clone` and needs `&mut`, so there is one producer and one
//! consumer. By the two pairs above a slot has one owner at a time.

use core::mem::MaybeUninit;

use crate::{Arc, AtomicUsize, CacheLine, Ordering, UnsafeCell};

struct Shared<T> {
    tail: CacheLine<AtomicUsize>,
    head: CacheLine<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: items pass from the producer's thread to the consumer's, which is what `Send` allows; the
// protocol on the module page gives each slot one owner at a time.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The writing end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    mask: usize,
    /// Index of the next item; those from the published tail on are staged.
    next: usize,
    /// The index that others see.
    published: usize,
    /// The consumer's head as last seen: never ahead of the true one.
    head: usize,
}

/// The reading end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    mask: usize,
    head: usize,
    /// The producer's tail as last seen: never ahead of the true one.
    tail: usize,
}

/// A ring of at least `capacity` items (rounded up to a power of two).
#[must_use]
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let shared = Arc::new(Shared {
        tail: CacheLine(AtomicUsize::new(0)),
        head: CacheLine(AtomicUsize::new(0)),
        slots: (0..capacity)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
    });
    let mask = capacity - 1;
    let producer = Producer {
        shared: shared.clone(),
        mask,
        next: 0,
        published: 0,
        head: 0,
    };
    let consumer = Consumer {
        shared,
        mask,
        head: 0,
        tail: 0,
    };
    (producer, consumer)
}

impl<T> Producer<T> {
    /// How many items fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Appends and publishes an item.
    ///
    /// # Errors
    /// Gives the item back when the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        self.stage(item)?;
        self.publish();
        Ok(())
    }

    /// Appends an item that the consumer sees only after [`publish`](Self::publish).
    ///
    /// # Errors
    /// Gives the item back when the ring is full.
    #[inline]
    pub fn stage(&mut self, item: T) -> Result<(), T> {
        if self.next.wrapping_sub(self.head) > self.mask {
            // Acquire: SYNC ring.free.
            self.head = self.shared.head.load(Ordering::Acquire);
            if self.next.wrapping_sub(self.head) > self.mask {
                return Err(item);
            }
        }
        self.shared.slots[self.next & self.mask].with_mut(|slot| {
            // SAFETY: the slot is outside `head..tail`, hence the producer's, and this is the
            // producer. What it held was moved out.
            unsafe { (*slot).write(item) };
        });
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Lets the consumer see all that was staged.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            // Release: SYNC ring.publish.
            self.shared.tail.store(self.next, Ordering::Release);
        }
    }

    /// Whether the other end is gone: nobody will take pushed items.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.publish();
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail {
            // Acquire: SYNC ring.publish.
            self.tail = self.shared.tail.load(Ordering::Acquire);
            if self.head == self.tail {
                return None;
            }
        }
        let item = self.shared.slots[self.head & self.mask].with(|slot| {
            // SAFETY: the slot lies in `head..tail`: written, published, and the consumer's. Its item
            // is not read again, because the head moves past it below.
            unsafe { (*slot).assume_init_read() }
        });
        self.head = self.head.wrapping_add(1);
        // Release: SYNC ring.free.
        self.shared.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Whether nothing is published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Acquire: SYNC ring.publish.
        self.head == self.tail && self.head == self.shared.tail.load(Ordering::Acquire)
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both handles are gone, and the last reference was dropped after acquiring what they did.
        let tail = self.tail.load(Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        while head != tail {
            self.slots[head & (self.slots.len() - 1)].with_mut(|slot| {
                // SAFETY: published and never popped; nobody else is left to touch it.
                unsafe { (*slot).assume_init_drop() };
            });
            head = head.wrapping_add(1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_full_ring_gives_the_item_back() {
        let (mut producer, mut consumer) = ring(3);
        assert_eq!(producer.capacity(), 4);
        for item in 0..4 {
            assert_eq!(producer.push(item), Ok(()));
        }
        assert_eq!(producer.push(4), Err(4));
        assert_eq!(consumer.pop(), Some(0));
        assert_eq!(producer.push(4), Ok(()));
        assert_eq!(
            std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(),
            [1, 2, 3, 4]
        );
    }

    #[test]
    fn staged_items_are_seen_after_publishing() {
        let (mut producer, mut consumer) = ring(4);
        producer.stage(1).expect("there is room");
        producer.stage(2).expect("there is room");
        assert!(consumer.is_empty());
        assert_eq!(consumer.pop(), None);
        producer.publish();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
    }

    #[test]
    fn items_left_behind_are_dropped_once() {
        let item = Rc::new(());
        let (mut producer, mut consumer) = ring(4);
        for _ in 0..3 {
            producer.push(item.clone()).expect("there is room");
        }
        drop(consumer.pop());
        assert_eq!(Rc::strong_count(&item), 3);
        drop((producer, consumer));
        assert_eq!(Rc::strong_count(&item), 1);
    }

    #[test]
    fn order_holds_between_threads() {
        let count = if cfg!(miri) { 100 } else { 100_000 };
        let (mut producer, mut consumer) = ring(8);
        let sender = std::thread::spawn(move || {
            for item in 0..count {
                let mut item = Box::new(item);
                while let Err(back) = producer.push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        for expected in 0..count {
            loop {
                if let Some(item) = consumer.pop() {
                    assert_eq!(*item, expected);
                    break;
                }
                std::thread::yield_now();
            }
        }
        sender.join().expect("the sender ends");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    #[test]
    fn items_arrive_once_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring::<Box<u32>>(2);
            let sender = loom::thread::spawn(move || {
                let mut sent = 0;
                for item in 0..3 {
                    // Never waits: a full ring ends the sequence.
                    if producer.push(Box::new(item)).is_err() {
                        break;
                    }
                    sent += 1;
                }
                sent
            });
            let mut seen = 0;
            for _ in 0..3 {
                if let Some(item) = consumer.pop() {
                    assert_eq!(*item, seen);
                    seen += 1;
                }
            }
            let sent = sender.join().unwrap();
            while let Some(item) = consumer.pop() {
                assert_eq!(*item, seen);
                seen += 1;
            }
            assert_eq!(seen, sent);
        });
    }

    #[test]
    fn a_staged_batch_arrives_whole() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring::<u32>(2);
            let sender = loom::thread::spawn(move || {
                producer.stage(1).unwrap();
                producer.stage(2).unwrap();
                producer.publish();
            });
            if consumer.pop().is_some() {
                assert_eq!(consumer.pop(), Some(2));
            }
            sender.join().unwrap();
        });
    }
}
