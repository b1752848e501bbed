//! A table of objects that is read without a lock.
//!
//! ```text
//!   chunks: [ptr; 1024] ──► [Entry; 1024]      an entry: stamp, object
//! ```
//!
//! A chunk is made when the first object needs it, and stays. The stamp of an entry is
//! `generation * 2 + 1` while it holds an object and even otherwise. Inserting and removing take the
//! lock of the free list; readers take none:
//!
//! | writer | reader |
//! |---|---|
//! | object written, then stamp stored, Release (`SYNC table.insert`) | stamp loaded, Acquire |
//! | chunk filled, then its address stored, Release (`SYNC table.chunk`) | address loaded, Acquire |
//!
//! # Safety
//! The reader gets a reference without a lock, so an object must not be dropped while a call uses it.
//! The standard forbids a program to free a handle while another thread passes it to a call; a thread
//! still *inside* a blocking call may be overtaken by a free. Removed objects therefore wait in a
//! queue of [`QUARANTINE`] before they are dropped, which no program that keeps the rule can outrun by
//! accident: each step is a collective call or at least a free of its own.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicPtr, AtomicU32, Ordering};

use super::{GENERATION_BITS, INDEX_BITS};

const CHUNK_BITS: u32 = 10;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (INDEX_BITS - CHUNK_BITS);

/// How many removed objects wait before the oldest is dropped.
const QUARANTINE: usize = 64;

struct Entry<T> {
    stamp: AtomicU32,
    object: UnsafeCell<MaybeUninit<T>>,
}

/// A table of objects.
pub struct Table<T> {
    chunks: [AtomicPtr<Entry<T>>; CHUNKS],
    writers: Mutex<Writers<T>>,
}

struct Writers<T> {
    free: Vec<u32>,
    used: u32,
    quarantine: VecDeque<T>,
}

// SAFETY: an object is written under the lock before its stamp shows it, and only shared afterwards;
// `T: Send + Sync` allows both.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            writers: Mutex::new(Writers {
                free: Vec::new(),
                used: 0,
                quarantine: VecDeque::new(),
            }),
        }
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        // SYNC table.chunk
        let chunk = self
            .chunks
            .get(index as usize >> CHUNK_BITS)?
            .load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk has CHUNK entries and is never freed; the mask keeps inside it.
        Some(unsafe { &*chunk.add(index as usize & (CHUNK - 1)) })
    }

    /// The object of that generation at that place.
    #[inline]
    pub fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let entry = self.entry(index)?;
        // SYNC table.insert
        if entry.stamp.load(Ordering::Acquire) != generation << 1 | 1 {
            return None;
        }
        // SAFETY: the stamp says that the object has been written; it is dropped as the head of the
        // module says.
        Some(unsafe { (*entry.object.get()).assume_init_ref() })
    }

    /// Puts an object in; answers its index and generation, or `None` when the table is full.
    pub fn insert(&self, object: T) -> Option<(u32, u32)> {
        let mut writers = self.lock();
        let index = match writers.free.pop() {
            Some(index) => index,
            None => {
                let index = writers.used;
                if index >= 1 << INDEX_BITS {
                    return None;
                }
                if index as usize & (CHUNK - 1) == 0 {
                    let chunk: Box<[Entry<T>]> = (0..CHUNK)
                        .map(|_| Entry {
                            stamp: AtomicU32::new(0),
                            object: UnsafeCell::new(MaybeUninit::uninit()),
                        })
                        .collect();
                    let first = Box::leak(chunk).as_mut_ptr();
                    // SYNC table.chunk
                    self.chunks[index as usize >> CHUNK_BITS].store(first, Ordering::Release);
                }
                writers.used += 1;
                index
            }
        };
        let entry = self.entry(index)?;
        let generation = entry.stamp.load(Ordering::Relaxed) >> 1;
        // SAFETY: the stamp is even, so nobody reads the object; the lock keeps other writers away.
        unsafe { (*entry.object.get()).write(object) };
        // SYNC table.insert
        entry.stamp.store(generation << 1 | 1, Ordering::Release);
        Some((index, generation))
    }

    /// Takes an object out; answers whether it was there.
    pub fn remove(&self, index: u32, generation: u32) -> bool {
        let mut writers = self.lock();
        let Some(entry) = self.entry(index) else {
            return false;
        };
        if entry.stamp.load(Ordering::Relaxed) != generation << 1 | 1 {
            return false;
        }
        let next = (generation + 1) & ((1 << GENERATION_BITS) - 1);
        entry.stamp.store(next << 1, Ordering::Release);
        // SAFETY: the stamp said that the object was there, and says now that it is not: it is moved
        // out once. Late readers still find its bytes, and what they point to waits in the quarantine.
        let object = unsafe { (*entry.object.get()).assume_init_read() };
        writers.free.push(index);
        writers.quarantine.push_back(object);
        let oldest = if writers.quarantine.len() > QUARANTINE {
            writers.quarantine.pop_front()
        } else {
            None
        };
        drop(writers);
        // Outside the lock: dropping may call back.
        drop(oldest);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Writers<T>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_place_is_noticed() {
        let table = Table::new();
        let (index, generation) = table.insert("first").unwrap();
        assert_eq!(table.get(index, generation), Some(&"first"));
        assert!(table.remove(index, generation));
        assert_eq!(table.get(index, generation), None);
        assert!(
            !table.remove(index, generation),
            "a second free has no effect"
        );
        let (again, later) = table.insert("second").unwrap();
        assert_eq!(
            (again, table.get(index, generation)),
            (index, None),
            "the place is reused under another name"
        );
        assert_eq!(table.get(again, later), Some(&"second"));
    }

    #[test]
    fn objects_beyond_a_chunk() {
        let table = Table::new();
        let names: Vec<_> = (0..3 * CHUNK)
            .map(|number| table.insert(number).unwrap())
            .collect();
        for (number, (index, generation)) in names.iter().enumerate() {
            assert_eq!(table.get(*index, *generation), Some(&number));
        }
        assert_eq!(table.get(1 << 19, 0), None, "a chunk that is not there");
    }

    #[test]
    fn removed_objects_are_dropped_in_the_end() {
        let table = Table::new();
        let probe = std::sync::Arc::new(());
        for _ in 0..10 * QUARANTINE {
            let (index, generation) = table.insert(std::sync::Arc::clone(&probe)).unwrap();
            assert!(table.remove(index, generation));
        }
        assert_eq!(std::sync::Arc::strong_count(&probe), 1 + QUARANTINE);
    }
}
