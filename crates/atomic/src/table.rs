//! Object table: read without a lock; a removed object stays readable for a while.
//!
//! ```text
//!   chunks: [ptr; CHUNKS] ──► [Slot; CHUNK]      a slot: name, object       name: kind │ generation │ index
//!
//!            insert               remove                QUARANTINE more removals
//!   free ───────────► occupied ───────────► quarantined ───────────────────────► free
//!                     name                  vacant(name), object still in place   object dropped
//! ```
//!
//! A chunk is made when the first object needs it, and stays. A slot holds the name of its object, or, made [`vacant`], the name of the
//! next one: so one comparison shows whether a name belongs to a live object of this table. A removal advances the generation, so that
//! an old name is noticed. Inserting and removing take the lock of the free list; readers take none:
//!
//! | writer | reader |
//! |---|---|
//! | object written, then name stored, Release (`SYNC table.insert`) | name loaded, Acquire |
//! | chunk filled, then its address stored, Release (`SYNC table.chunk`) | address loaded, Acquire |
//!
//! # Safety
//! A reader gets a reference without a lock, and may still hold it when the object is removed. Therefore a
//! removal touches neither the object nor its slot: the *index* waits in a queue of [`QUARANTINE`] entries,
//! and until it leaves that queue nothing is written to the slot and the object is not dropped. When it
//! leaves, the object is moved out under the lock and dropped after the lock was given back, since dropping
//! may call back into the same table.
//!
//! The promise to readers is therefore: a reference is valid until [`QUARANTINE`] objects of the same table
//! have been removed after its own. Removing more than that while a call still uses the reference breaks the
//! promise; an object that must live longer has to be cloned out of the table (objects that are counted
//! references are cloned wherever an operation outlives its call).

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::PoisonError;

use crate::types::{Mutex, MutexGuard};
use crate::{AtomicPtr, AtomicUsize, Ordering, UnsafeCell};

/// Bits of the index of a slot; few under tools that examine every step.
pub const INDEX_BITS: u32 = if cfg!(loom) {
    2
} else if cfg!(miri) {
    9
} else {
    20
};
/// Bits of the generation of a slot.
pub const GENERATION_BITS: u32 = 6;
/// From this bit on a name holds the kind of its table.
pub const KIND_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;

/// The index of a slot in the name of its object.
pub const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: usize = ((1 << GENERATION_BITS) - 1) << INDEX_BITS;
/// The content of a slot without a live object, from the name, and the other way round. It holds the index of the neighbouring slot: no name that
/// leads to this slot is equal to it.
const fn vacant(name: usize) -> usize {
    name ^ 1
}

const CHUNK_BITS: u32 = INDEX_BITS / 2;
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (INDEX_BITS - CHUNK_BITS);

/// How many removed objects wait before the oldest is dropped.
pub const QUARANTINE: usize = if cfg!(loom) {
    1
} else if cfg!(miri) {
    8
} else {
    64
};

struct Slot<T> {
    name: AtomicUsize,
    object: UnsafeCell<MaybeUninit<T>>,
}

/// The name after this one in the same slot.
const fn next(name: usize) -> usize {
    let generation = name.wrapping_add(1 << INDEX_BITS) & GENERATION_MASK;
    name & !GENERATION_MASK | generation
}

/// A table of objects, each named by the table's kind, its generation and its index.
pub struct Table<T> {
    kind: u8,
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    writers: Mutex<Writers>,
}

/// The state that inserting and removing change under the lock.
struct Writers {
    /// Entries without an object.
    free: Vec<u32>,
    /// Entries that have ever been used.
    used: u32,
    /// Entries whose object was removed and is still in place, oldest first.
    quarantine: VecDeque<u32>,
}

impl Writers {
    const fn new() -> Self {
        Self {
            free: Vec::new(),
            used: 0,
            quarantine: VecDeque::new(),
        }
    }
}

// SAFETY: an object is written under the lock before its stamp shows it, and only shared afterwards,
// until it is moved out under the lock; `T: Send + Sync` allows both.
unsafe impl<T: Send + Sync> Sync for Table<T> {}
// SAFETY: the table owns its objects and chunks.
unsafe impl<T: Send> Send for Table<T> {}

impl<T> Table<T> {
    /// An empty table, whose names hold this kind.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(kind: u8) -> Self {
        Self {
            kind,
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            writers: Mutex::new(Writers::new()),
        }
    }

    /// An empty table. Types of loom cannot be made at compile time.
    #[cfg(loom)]
    pub fn new(kind: u8) -> Self {
        Self {
            kind,
            chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            writers: Mutex::new(Writers::new()),
        }
    }

    /// The slot of a name; another slot if the name is not of this table.
    #[inline]
    fn slot(&self, name: usize) -> Option<&Slot<T>> {
        let index = name & INDEX_MASK;
        // SYNC table.chunk
        let chunk = self
            .chunks
            .get(index >> CHUNK_BITS)?
            .load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk has CHUNK slots and is freed by dropping the table only; the mask keeps
        // inside it.
        Some(unsafe { &*chunk.add(index & (CHUNK - 1)) })
    }

    /// The object of that name, if it is a live one of this table. The module page says how long the reference may
    /// be used.
    #[inline]
    pub fn get(&self, name: usize) -> Option<&T> {
        let slot = self.slot(name)?;
        // SYNC table.insert
        if slot.name.load(Ordering::Acquire) != name {
            return None;
        }
        // SAFETY: the name has the index of this slot, and so has none that is vacant: the object has been written. It stays in place, unwritten, until it
        // leaves the quarantine, as the head of the module says.
        Some(
            slot.object
                .with(|object| unsafe { (*object).assume_init_ref() }),
        )
    }

    /// The names of the live objects.
    pub fn names(&self) -> Vec<usize> {
        // What is under the lock does not change.
        let writers = self.lock();
        let names = (0..writers.used).filter_map(|index| {
            let name = self.slot(index as usize)?.name.load(Ordering::Relaxed);
            (name & INDEX_MASK == index as usize).then_some(name)
        });
        names.collect()
    }

    /// Inserts an object; returns its name.
    ///
    /// # Errors
    /// The object, when the table is full.
    pub fn insert(&self, object: T) -> Result<usize, T> {
        let mut writers = self.lock();
        let index = match writers.free.pop() {
            Some(index) => index,
            None => {
                let index = writers.used;
                if index >= 1 << INDEX_BITS {
                    drop(writers);
                    return Err(object);
                }
                if index as usize & (CHUNK - 1) == 0 {
                    self.add_chunk(index as usize >> CHUNK_BITS);
                }
                writers.used += 1;
                index
            }
        };
        let Some(slot) = self.slot(index as usize) else {
            drop(writers);
            return Err(object);
        };
        let name = vacant(slot.name.load(Ordering::Relaxed));
        // SAFETY: the slot is free: never used, or its object has left the quarantine; the lock keeps
        // other writers away.
        slot.object
            .with_mut(|content| unsafe { (*content).write(object) });
        // SYNC table.insert
        slot.name.store(name, Ordering::Release);
        Ok(name)
    }

    fn add_chunk(&self, chunk_index: usize) {
        let first = (self.kind as usize) << KIND_SHIFT | chunk_index << CHUNK_BITS;
        let chunk: Box<[Slot<T>]> = (first..first + CHUNK)
            .map(|name| Slot {
                name: AtomicUsize::new(vacant(name)),
                object: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        // SYNC table.chunk
        self.chunks[chunk_index].store(Box::into_raw(chunk).cast(), Ordering::Release);
    }

    /// Removes an object; returns whether it was there. It is dropped after as many others as the quarantine
    /// holds have been removed, in the call that removes the last of these.
    pub fn remove(&self, name: usize) -> bool {
        let mut writers = self.lock();
        let Some(slot) = self.slot(name) else {
            return false;
        };
        if slot.name.load(Ordering::Relaxed) != name {
            return false;
        }
        // Publishes nothing: a reader that sees it turns away.
        slot.name.store(vacant(next(name)), Ordering::Relaxed);
        writers.quarantine.push_back((name & INDEX_MASK) as u32);
        let oldest = if writers.quarantine.len() > QUARANTINE {
            self.release_oldest(&mut writers)
        } else {
            None
        };
        drop(writers);
        // Outside the lock: dropping may call back.
        drop(oldest);
        true
    }

    /// Frees the slot that has been in the quarantine for longest, and hands its object over.
    fn release_oldest(&self, writers: &mut Writers) -> Option<T> {
        let index = writers.quarantine.pop_front()?;
        let object = self.take_object(index)?;
        writers.free.push(index);
        Some(object)
    }

    /// Moves the object of a quarantined slot out.
    fn take_object(&self, index: u32) -> Option<T> {
        let slot = self.slot(index as usize)?;
        // SAFETY: the slot was in the quarantine, so it holds an object, which nobody reads any more by
        // the promise at the head of the module. Its index has been taken from the quarantine under the
        // lock, so the object is moved out once.
        Some(
            slot.object
                .with_mut(|object| unsafe { (*object).assume_init_read() }),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        let (used, quarantine) = {
            let mut writers = self.lock();
            (writers.used, std::mem::take(&mut writers.quarantine))
        };
        for index in quarantine {
            drop(self.take_object(index));
        }
        for index in 0..used {
            let occupied = self.slot(index as usize).is_some_and(|slot| {
                slot.name.load(Ordering::Relaxed) & INDEX_MASK == index as usize
            });
            if occupied {
                drop(self.take_object(index));
            }
        }
        for chunk in &self.chunks {
            let first = chunk.load(Ordering::Relaxed);
            if !first.is_null() {
                let slots = ptr::slice_from_raw_parts_mut(first, CHUNK);
                // SAFETY: made by `add_chunk` from a box of this length, and nobody has a reference into
                // a table that is dropped. The objects are gone already.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_freed_slot_is_noticed() {
        let table = Table::new(3);
        let name = table.insert("first").unwrap();
        assert_eq!(table.get(name), Some(&"first"));
        assert_eq!(table.names(), [name]);
        assert!(table.remove(name));
        assert!(table.names().is_empty());
        assert_eq!(table.get(name), None);
        assert_eq!(table.get(vacant(next(name))), None, "what the slot says");
        assert!(!table.remove(name), "a second removal has no effect");
        for _ in 0..QUARANTINE {
            let other = table.insert("another").unwrap();
            assert_ne!(
                other & INDEX_MASK,
                name & INDEX_MASK,
                "the slot is not used again yet"
            );
            table.remove(other);
        }
        let again = table.insert("second").unwrap();
        assert_eq!(
            (again, table.get(name)),
            (next(name), None),
            "the slot is used again under another name"
        );
        assert_eq!(table.get(again), Some(&"second"));
    }

    /// A call under way keeps its object when the handle is freed and new ones are made.
    #[test]
    fn a_live_reference_outlasts_removal_and_insertion() {
        let table = Table::new(3);
        let name = table.insert("first".to_owned()).unwrap();
        let held = table.get(name).unwrap();
        assert!(table.remove(name));
        for _ in 0..QUARANTINE - 1 {
            let name = table.insert("another".to_owned()).unwrap();
            assert_eq!(held, "first");
            assert!(table.remove(name));
        }
        table.insert("last".to_owned()).unwrap();
        assert_eq!(held, "first");
    }

    #[test]
    fn readers_beside_a_writer_see_whole_objects() {
        let rounds = if cfg!(miri) { 40 } else { 10_000 };
        let table = Arc::new(Table::<Box<(u64, u64)>>::new(3));
        let name = Arc::new(crate::AtomicUsize::new(usize::MAX));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (table, name) = (Arc::clone(&table), Arc::clone(&name));
                std::thread::spawn(move || {
                    loop {
                        let looked_for = name.load(Ordering::Acquire);
                        if looked_for == 0 {
                            return;
                        }
                        if let Some(object) = table.get(looked_for) {
                            assert_eq!(object.0, !object.1);
                        }
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        // Fewer removals between two stores than the quarantine holds: a reader that has just looked a
        // name up keeps the promise.
        for round in 0..rounds {
            let inserted = table.insert(Box::new((round, !round))).unwrap();
            name.store(inserted, Ordering::Release);
            if round % 8 == 0 {
                std::thread::yield_now();
            }
            if round < QUARANTINE as u64 {
                assert!(table.remove(inserted));
            }
        }
        name.store(0, Ordering::Release);
        for reader in readers {
            reader.join().expect("no reader saw half an object");
        }
    }

    #[test]
    fn objects_beyond_a_chunk() {
        let table = Table::new(3);
        let names: Vec<_> = (0..3 * CHUNK)
            .map(|number| table.insert(number).unwrap())
            .collect();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(table.get(*name), Some(&number));
        }
        let far = 3 << KIND_SHIFT | 1 << (INDEX_BITS - 1);
        assert_eq!(table.get(far), None, "a chunk that is not there");
        let other_kind = names[7] ^ 1 << KIND_SHIFT;
        assert_eq!(table.get(other_kind), None, "a name of another table");
        assert_eq!(table.get(names[7] | 1 << 40), None, "no name at all");
        assert!(!table.remove(other_kind));
    }

    #[test]
    fn removed_objects_are_dropped_in_the_end() {
        let table = Table::new(3);
        let probe = Arc::new(());
        for _ in 0..10 * QUARANTINE {
            let name = table.insert(Arc::clone(&probe)).unwrap();
            assert!(table.remove(name));
        }
        assert_eq!(Arc::strong_count(&probe), 1 + QUARANTINE);
        let _live = table.insert(Arc::clone(&probe)).unwrap();
        drop(table);
        assert_eq!(Arc::strong_count(&probe), 1, "a table owns its objects");
    }

    /// Dropping an object may use the table that it was in: no lock is held at that time.
    #[test]
    fn a_drop_may_call_back() {
        struct Caller(Option<std::sync::Weak<Table<Self>>>);
        impl Drop for Caller {
            fn drop(&mut self) {
                if let Some(table) = self.0.take().and_then(|table| table.upgrade()) {
                    let name = table.insert(Self(None)).ok().expect("room");
                    table.remove(name);
                }
            }
        }
        let table = Arc::new(Table::new(3));
        for _ in 0..2 * QUARANTINE {
            let caller = Caller(Some(Arc::downgrade(&table)));
            let name = table.insert(caller).ok().expect("room");
            assert!(table.remove(name));
        }
    }

    #[test]
    fn a_full_table_hands_the_object_back() {
        let table = Table::new(3);
        let first = table.insert(0).unwrap();
        for number in 1..1u32 << INDEX_BITS {
            table.insert(number).unwrap();
        }
        assert_eq!(table.insert(7), Err(7));
        for index in 0..=QUARANTINE {
            assert!(table.remove(first + index));
        }
        assert_eq!(
            table.insert(8),
            Ok(next(first)),
            "the first of them is free"
        );
        assert_eq!(table.insert(9), Err(9), "the others wait in the quarantine");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::Arc;

    /// An object whose reads and end loom can see.
    struct Watched(UnsafeCell<u32>);

    impl Watched {
        fn new(value: u32) -> Self {
            Self(UnsafeCell::new(value))
        }

        fn read(&self) -> u32 {
            // SAFETY: written before it was inserted; loom reports any thread that writes meanwhile.
            self.0.with(|value| unsafe { *value })
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            // SAFETY: exclusive by `&mut self`; loom reports any thread that reads meanwhile.
            self.0.with_mut(|value| unsafe { *value = 0 });
        }
    }

    /// A reader looks a name up while the object is removed and another one is put in: it sees the old
    /// object or none, whole, and nothing is written to what it reads.
    #[test]
    fn a_reader_beside_removal_and_insertion() {
        loom::model(|| {
            let table = Arc::new(Table::new(3));
            let name = table.insert(Watched::new(7)).ok().expect("room");
            let reader = {
                let table = table.clone();
                loom::thread::spawn(move || {
                    if let Some(object) = table.get(name) {
                        assert_eq!(object.read(), 7);
                    }
                })
            };
            assert!(table.remove(name));
            let other = table.insert(Watched::new(8)).ok().expect("room");
            let found = table.get(other).map(Watched::read);
            assert_eq!(found, Some(8));
            reader.join().unwrap();
        });
    }

    /// An object inserted by one thread is seen whole by another one that learns its name by other means.
    #[test]
    fn an_inserted_object_is_seen_whole() {
        loom::model(|| {
            let table = Arc::new(Table::new(3));
            let inserting = {
                let table = table.clone();
                loom::thread::spawn(move || {
                    // Three: the second chunk is made as well.
                    for number in 1..=3 {
                        table.insert(Watched::new(number)).ok().expect("room");
                    }
                })
            };
            for index in 0..3 {
                if let Some(object) = table.get(3 << KIND_SHIFT | index) {
                    assert_eq!(object.read(), index as u32 + 1);
                }
            }
            inserting.join().unwrap();
        });
    }

    /// Two threads remove the same object: one of them succeeds, and it is dropped once.
    #[test]
    fn an_object_is_removed_once() {
        loom::model(|| {
            let table = Arc::new(Table::new(3));
            let name = table.insert(Watched::new(7)).ok().expect("room");
            let other = {
                let table = table.clone();
                loom::thread::spawn(move || table.remove(name))
            };
            let here = table.remove(name);
            let there = other.join().unwrap();
            assert!(here != there);
        });
    }
}
