//! The concurrent matching table: any number of threads post receives and hand in messages under exact
//! keys, without a global lock.
//!
//! ```text
//!  key ─ hash ─► bucket: one cache line    control │ key key key key │ value value value value
//!                   └─► more lines, only while five or more keys share the bucket
//! ```
//!
//! [`Table::insert`] of a message finds the oldest receive that waits under the key and takes it out, or
//! leaves the message to be found; likewise with the sides exchanged. In the common case that is one cache
//! line, taken by a compare-and-swap on its control word, written, and released by a store.
//!
//! **Guaranteed.** Each inserted value is returned at most once, to an insertion of the other side under the
//! same key. Values of one side under one key come out in the order in which they went in (two insertions of
//! different threads, neither of which happens before the other, take some order). At no time do both sides
//! wait under one key. A thread that gets a value sees what its inserter did before inserting.
//!
//! **No wildcards.** A receive from any source or with any tag has no key. The engine,
//! [`Matching`](crate::Matching), has them, for one owner at a time.
//!
//! # Growth
//! When one bucket in eight is continued, the number of buckets doubles, by one store. Nothing moves at that
//! moment: a bucket of the new half is *born* when first looked for. The thread that looks for it locks its
//! parent (the bucket whose number lacks the highest bit), then the new bucket, and moves what belongs there.
//! No other bucket is locked. Buckets stay where they are until the table is dropped, so no memory has to be
//! reclaimed while readers may use it.
//!
//! # Why a key is in only one place
//! An operation reads the mask, locks the bucket that it gives, and reads the mask again. Let P be that
//! bucket, and C the bucket that the newest mask gives.
//! * C was born before P was locked. The thread that created C had read a mask that covers C, and had locked
//!   and released P (or an ancestor, before P was born); locking P acquires that release, so the second look
//!   at the mask shows C, and the operation starts again.
//! * C is born later. Then the entry that the operation leaves in P moves with the others.
//!
//! Only a birth locks two buckets at once, the parent first, which has the smaller number: so waiting cannot
//! form a circle.
//!
//! # Ordering
//! SYNC bucket.lock: releasing a bucket's control word publishes its line and those behind it.
//! SYNC table.mask: publishes the memory of new buckets. SYNC spare.free: passes a spare line from thread to
//! thread.
//!
//! Buckets of one line under a spin lock, and insertion that is matching, are the idea of the matching table
//! of Dang, Snir and Gropp, "Towards millions of communicating threads" (2016); doubling with buckets that
//! are filled when first looked for is from the concurrent hash map of Threading Building Blocks.

mod bucket;
mod chain;
mod memory;
mod spare;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use weft_atomic::{AtomicBool, AtomicU64, CacheLine, Ordering};

use crate::key::{Source, Tag};
use bucket::{BucketLine, Control, ENTRIES};
use chain::{Behind, Chain};
use memory::{Lines, prefetch};

/// One bucket in this many may be continued before the table grows: that happens when two thirds of the
/// places are taken.
const CROWDED: usize = 8;

/// How many insertions ahead [`Table::insert_all`] prefetches buckets: enough to hide the latency of memory,
/// fewer than the lines that a core can wait for at once.
const AHEAD: usize = 8;

/// Doublings of the first buckets that a table can go through.
const DOUBLINGS: usize = 40;

/// The key under which a message and a receive meet: 64 bits, which the table only compares for equality.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key(pub u64);

impl Key {
    /// The key of a source and a tag, for a table that serves one context.
    #[inline]
    #[must_use]
    pub const fn new(source: Source, tag: Tag) -> Self {
        Self((source.0 as u64) << 32 | tag.0 as u32 as u64)
    }
}

/// The value that a table keeps for its user: a number below 2⁴⁸, such as an address of user space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(u64);

impl Value {
    /// The value of a number; `None` if it has more than 48 bits.
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number >> 48 == 0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The side that inserts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// A message that arrived.
    Message,
    /// A receive that was posted.
    Receive,
}

/// The result of an insertion.
#[must_use = "a match that nobody looks at is a lost message"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insertion {
    /// The value waits in the table.
    Waits,
    /// It met this value of the other side, which is no longer in the table; nor is the inserted one.
    Matched(Value),
}

/// The table, to be shared by reference.
///
/// ```
/// use weft_matching::concurrent::{Insertion, Key, Side, Table, Value};
/// use weft_matching::{Source, Tag};
/// let table = Table::new(1 << 16);
/// let key = Key::new(Source(3), Tag(7));
/// let value = |number| Value::new(number).expect("48 bits");
/// assert_eq!(table.insert(key, Side::Receive, value(1)), Insertion::Waits);
/// assert_eq!(table.insert(key, Side::Message, value(2)), Insertion::Matched(value(1)));
/// assert_eq!(table.insert(key, Side::Message, value(4)), Insertion::Waits);
/// ```
pub struct Table {
    /// Number of buckets, a power of two, less one.
    mask: CacheLine<AtomicU64>,
    /// Bits of the key that are flipped before hashing, different in each table.
    secret: u64,
    /// The first buckets, born from the start.
    first: Lines,
    /// The number of the first buckets is two to this power.
    first_shift: u32,
    /// The buckets of each doubling; born when looked for.
    later: Box<[OnceLock<Lines>; DOUBLINGS]>,
    behind: Behind,
    /// Whether somebody is making new buckets.
    growing: AtomicBool,
}

impl Table {
    /// A table with `places` places (rounded up), four to a bucket. It grows when about two thirds of them
    /// are taken.
    ///
    /// # Panics
    /// If there is no memory for it.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let buckets = places.div_ceil(ENTRIES).max(1).next_power_of_two();
        let Some(first) = Lines::new(buckets) else {
            panic!("no memory for a matching table of {places} places")
        };
        // This also makes the kernel provide the memory, page by page, before it is needed.
        for line in first.iter() {
            line.set_control(Control::EMPTY);
        }
        Self {
            mask: CacheLine(AtomicU64::new(buckets as u64 - 1)),
            secret: if cfg!(loom) {
                0 // a model runs the same way each time
            } else {
                RandomState::new().hash_one(buckets)
            },
            first_shift: buckets.ilog2(),
            first,
            later: Box::new([const { OnceLock::new() }; DOUBLINGS]),
            behind: Behind::new(),
            growing: AtomicBool::new(false),
        }
    }

    /// Matches the value with the oldest of the other side under this key, or leaves it to be found.
    #[inline]
    pub fn insert(&self, key: Key, side: Side, value: Value) -> Insertion {
        let receive = side == Side::Receive;
        // Acquire: SYNC table.mask.
        let mask = self.mask.load(Ordering::Acquire);
        let line = self.line(self.hash(key.0) & mask);
        // Whatever is not common is done elsewhere, in calls at the end of this function: so it keeps nothing
        // across a call, and is short.
        let Some(control) = line.try_lock() else {
            return self.insert_anew(key, receive, value);
        };
        if self.mask.load(Ordering::Relaxed) != mask {
            line.unlock(control);
            return self.insert_anew(key, receive, value);
        }
        if control.is_one_line() {
            if let Some(place) = line.find(control, key.0) {
                if control.is_single_of_other(place, receive) {
                    let found = line.value(place);
                    line.unlock(control.without(place));
                    return Insertion::Matched(Value(found));
                }
            } else if let Some(place) = control.vacant() {
                line.set(place, key.0, value.0);
                line.unlock(control.with(place, receive));
                return Insertion::Waits;
            }
        }
        if control.is_born() {
            self.insert_slowly(line, control, key, receive, value)
        } else {
            line.unlock(control);
            self.insert_anew(key, receive, value)
        }
    }

    /// Inserts many values of one side, in order, and passes each with its result to `visit`. Like
    /// [`insert`](Self::insert) for each, but the buckets of the next few are prefetched: several times
    /// faster when they are in no cache.
    pub fn insert_all(
        &self,
        side: Side,
        entries: impl IntoIterator<Item = (Key, Value)>,
        mut visit: impl FnMut(Key, Value, Insertion),
    ) {
        let mut ahead = [(Key(0), Value(0)); AHEAD];
        let mut fetched = 0;
        let mut inserted = 0;
        let mut insert = |(key, value)| visit(key, value, self.insert(key, side, value));
        for entry in entries {
            if fetched - inserted == AHEAD {
                insert(ahead[inserted % AHEAD]);
                inserted += 1;
            }
            // Acquire: SYNC table.mask.
            let mask = self.mask.load(Ordering::Acquire);
            prefetch(self.line(self.hash(entry.0.0) & mask));
            ahead[fetched % AHEAD] = entry;
            fetched += 1;
        }
        (inserted..fetched).for_each(|at| insert(ahead[at % AHEAD]));
    }

    /// Inserts after the lock was held, or the table has grown.
    #[cold]
    #[inline(never)]
    fn insert_anew(&self, key: Key, receive: bool, value: Value) -> Insertion {
        let (bucket, control) = self.lock(key);
        self.insert_slowly(bucket, control, key, receive, value)
    }

    #[cold]
    #[inline(never)]
    fn insert_slowly(
        &self,
        bucket: &BucketLine,
        control: Control,
        key: Key,
        receive: bool,
        value: Value,
    ) -> Insertion {
        let behind = &self.behind;
        let mut chain = Chain::new(behind, bucket, control);
        let found = chain.insert(key.0, receive, value.0);
        bucket.unlock(chain.control());
        if found.is_none() {
            self.grow_if_crowded();
        }
        match found {
            Some(number) => Insertion::Matched(Value(number)),
            None => Insertion::Waits,
        }
    }

    /// Takes back a value that waits (the oldest, if it was inserted more than once); false if it does not
    /// wait, for instance because it was matched. Takes time proportional to the number of values under its
    /// key.
    pub fn remove(&self, key: Key, side: Side, value: Value) -> bool {
        let (bucket, control) = self.lock(key);
        let behind = &self.behind;
        let mut chain = Chain::new(behind, bucket, control);
        let found = chain.remove(key.0, side == Side::Receive, value.0);
        bucket.unlock(chain.control());
        found
    }

    /// How many buckets there are: 64 bytes each, for four entries.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.mask.load(Ordering::Relaxed) as usize + 1
    }

    /// A multiplication to 128 bits whose halves are folded: neighbouring keys go to unrelated buckets,
    /// and which keys collide differs from table to table.
    #[inline]
    fn hash(&self, key: u64) -> u64 {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(key ^ self.secret) * u128::from(MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    }

    #[inline]
    fn line(&self, index: u64) -> &BucketLine {
        match self.first.get(index as usize) {
            Some(line) => line,
            None => self.later_line(index),
        }
    }

    #[inline]
    fn later_line(&self, index: u64) -> &BucketLine {
        // The first buckets are a power of two in number, like each doubling.
        let doubling = index.ilog2() - self.first_shift;
        let start = 1 << index.ilog2();
        match self.later[doubling as usize].get() {
            Some(lines) => &lines[(index - start) as usize],
            None => unreachable!("the mask covers buckets that were not made"),
        }
    }

    /// Locks the bucket that is responsible for a key.
    #[inline]
    fn lock(&self, key: Key) -> (&BucketLine, Control) {
        let hash = self.hash(key.0);
        // Acquire: SYNC table.mask.
        let mask = self.mask.load(Ordering::Acquire);
        let line = self.line(hash & mask);
        let control = line.lock();
        if control.is_born() && self.mask.load(Ordering::Relaxed) == mask {
            return (line, control);
        }
        line.unlock(control);
        self.lock_slowly(hash)
    }

    #[cold]
    fn lock_slowly(&self, hash: u64) -> (&BucketLine, Control) {
        loop {
            // Acquire: SYNC table.mask.
            let mask = self.mask.load(Ordering::Acquire);
            let (line, control) = self.lock_born(hash & mask);
            if hash & self.mask.load(Ordering::Relaxed) == hash & mask {
                return (line, control);
            }
            line.unlock(control);
        }
    }

    /// Locks a bucket, after creating its contents if it is not born.
    fn lock_born(&self, index: u64) -> (&BucketLine, Control) {
        let bucket = self.line(index);
        let control = bucket.lock();
        if control.is_born() {
            return (bucket, control);
        }
        // The parent has to be locked first. The first buckets are born, so this ends.
        bucket.unlock(control);
        let highest = 1 << index.ilog2();
        let (parent, from) = self.lock_born(index & !highest);
        let control = bucket.lock();
        let behind = &self.behind;
        if control.is_born() {
            parent.unlock(from);
            return (bucket, control);
        }
        let mut child = Chain::new(behind, bucket, Control::EMPTY);
        let mut full = Chain::new(behind, parent, from);
        let mask = 2 * highest - 1;
        full.split(&mut child, |key| self.hash(key) & mask == index);
        parent.unlock(full.control());
        (bucket, child.control())
    }

    /// Doubles the buckets if too many of them are continued.
    fn grow_if_crowded(&self) {
        let crowded = |mask: u64| {
            let continued = self.behind.continued.load(Ordering::Relaxed) as u64;
            CROWDED as u64 * continued > mask
        };
        if !crowded(self.mask.load(Ordering::Relaxed)) {
            return;
        }
        // Acquire: SYNC table.growing. A thread that finds it set leaves the work to the other.
        if self.growing.swap(true, Ordering::Acquire) {
            return;
        }
        let mask = self.mask.load(Ordering::Relaxed);
        let buckets = mask + 1;
        let doubling = (buckets / self.first.len() as u64).ilog2() as usize;
        if crowded(mask)
            && let Some(place) = self.later.get(doubling)
            // Without memory the table continues as it is: buckets are continued by more lines.
            && let Some(lines) = Lines::new(buckets as usize)
            && place.set(lines).is_ok()
        {
            // Release: SYNC table.mask.
            self.mask.store(2 * buckets - 1, Ordering::Release);
        }
        // Release: SYNC table.growing.
        self.growing.store(false, Ordering::Release);
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "Table({} buckets)", self.buckets())
    }
}
