//! Stacks: numbered, cut from slabs, guarded, coloured, kept when a fiber ends.
//!
//! ```text
//!   slab: one mapping of 1024 stacks of one size        numbers 1024·s … 1024·s + 1023
//!   ┌──────┬────────────────────────┬───────────┬────────┐
//!   │guard │ … frames ◄──────────── │ closure   │Control │ colour   next stack …
//!   └──────┴────────────────────────┴───────────┴────────┘
//!     1 page                    payload of the fiber       0 to 63 cache lines
//! ```
//!
//! * A number is the name of a fiber in every table of the runtime. Its stack is found by a shift and an addition: the
//!   table of slabs has the start of each slab and the size of its stacks.
//! * Memory is taken when it is first touched: a waiting fiber has one page, seldom two. A stack that is reused keeps its
//!   pages, since it will need them; the deep part of a stack that was used far down is released when the stack goes to
//!   the depot.
//! * The guard is an entry of the page table if the kernel supports it (6.13 and later): it costs no mapping, so a
//!   million stacks are guarded. Otherwise it cuts the mapping in two, and only the first [`GUARDED_BY_MAPPING`] stacks
//!   can have one.
//! * Each number is in one place: with a fiber or its [handle](crate::JoinHandle), kept by a worker, in the depot, or
//!   retired. When the runtime has ended, no worker keeps any, so the depot knows how many handles are left; the memory
//!   is released when the last of them is gone.
//! * Tops at the same offset of each stack would map to the same few sets of the cache: from a thousand fibers on a
//!   switch would take two to four times as long. Hence the colour.

use std::io;
use std::sync::Mutex;

use weft_atomic::{AtomicBool, Ordering};
use weft_sys::Mapping;

use crate::config::{Guard, Guarded};

/// The smallest stack: 16 KiB, of which one page is the guard.
pub const SMALLEST_STACK: usize = 1 << SMALLEST_SHIFT;
/// The largest stack: 64 MiB.
pub const LARGEST_STACK: usize = 1 << LARGEST_SHIFT;

const SMALLEST_SHIFT: u32 = 14;
const LARGEST_SHIFT: u32 = 26;

/// How many sizes there are: powers of two.
pub(crate) const CLASSES: usize = (LARGEST_SHIFT - SMALLEST_SHIFT + 1) as usize;

/// How many stacks get a guard that takes two mappings. The process may have 65 530 in all.
pub(crate) const GUARDED_BY_MAPPING: u32 = 16_384;

/// Stacks in a slab.
const SLAB: usize = if cfg!(miri) { 64 } else { 1024 };
/// Stacks that go between a worker and the depot at a time.
pub(crate) const BATCH: usize = 32;
/// Bytes at the top of each stack for the control block of its fiber.
pub(crate) const BLOCK: usize = 64;
/// From so many stacks on it pays to fetch the next fiber's frames ahead.
const MANY: usize = 128;
/// Bytes of a page of x86-64.
const PAGE: usize = 4096;
/// Colours, and the distance between two.
const COLOURS: usize = 64;
const COLOUR: usize = 64;

/// A size of stacks: 0 is the smallest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(u8);

impl Class {
    /// The smallest that has so many bytes, guard included; `None` if there is none.
    #[inline]
    pub(crate) fn for_bytes(bytes: usize) -> Option<Self> {
        let shift = bytes
            .max(SMALLEST_STACK)
            .checked_next_power_of_two()?
            .trailing_zeros();
        (shift <= LARGEST_SHIFT).then_some(Self((shift - SMALLEST_SHIFT) as u8))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// That with this index, below [`CLASSES`].
    pub(crate) fn at(index: usize) -> Self {
        Self(index as u8)
    }

    fn shift(self) -> u32 {
        u32::from(self.0) + SMALLEST_SHIFT
    }
}

/// All stacks of a runtime.
pub(crate) struct Stacks {
    /// By slab: its start, with the shift of its size in the low bits (a start is a multiple of a page).
    table: Mapping,
    limit: usize,
    depot: Mutex<Depot>,
    /// There are, or have been, many fibers.
    many: AtomicBool,
}

/// What no worker holds.
struct Depot {
    slabs: Vec<Mapping>,
    free: [Vec<u32>; CLASSES],
    /// By class: the numbers of the newest slab that were not handed out yet.
    fresh: [std::ops::Range<u32>; CLASSES],
    guard: Guard,
    guarded: u32,
    /// Numbers that are not used again.
    retired: usize,
    /// The runtime has ended.
    closed: bool,
    /// Guards that cost a mapping each, because the kernel does not know the light ones.
    heavy: bool,
}

impl Stacks {
    pub(crate) fn new(limit: usize, guard: Guard) -> io::Result<Self> {
        Ok(Self {
            table: Mapping::private(limit.div_ceil(SLAB).max(1) * 8)?,
            limit,
            depot: Mutex::new(Depot {
                slabs: Vec::new(),
                free: Default::default(),
                fresh: std::array::from_fn(|_| 0..0),
                guard,
                guarded: 0,
                retired: 0,
                closed: false,
                heavy: false,
            }),
            many: AtomicBool::new(false),
        })
    }

    /// Takes up to [`BATCH`] stacks of a size, at least one.
    pub(crate) fn take(&self, class: Class, into: &mut Vec<u32>) -> io::Result<()> {
        let mut depot = self.depot.lock().unwrap_or_else(|held| held.into_inner());
        let free = &mut depot.free[class.index()];
        if !free.is_empty() {
            into.extend(free.drain(free.len().saturating_sub(BATCH)..));
            return Ok(());
        }
        if depot.fresh[class.index()].is_empty() {
            self.grow(&mut depot, class)?;
        }
        let start = into.len();
        for _ in 0..BATCH {
            let Some(number) = depot.fresh[class.index()].clone().next() else {
                break;
            };
            match self.set_guard(&mut depot, number) {
                Ok(()) => {}
                Err(error) if into.len() == start => return Err(error),
                Err(_) => break,
            }
            // Not before it has its guard: each number is in one place.
            depot.fresh[class.index()].next();
            into.push(number);
        }
        // The lowest is handed out first.
        into[start..].reverse();
        Ok(())
    }

    /// Takes back what a worker has too much of.
    pub(crate) fn give_back(&self, class: Class, numbers: &mut dyn Iterator<Item = u32>) {
        let mut depot = self.depot.lock().unwrap_or_else(|held| held.into_inner());
        for number in numbers {
            depot.free[class.index()].push(number);
        }
        Self::clear_if_over(&self.table, &mut depot);
    }

    /// A number that is not used again.
    #[cold]
    pub(crate) fn retire(&self) {
        let mut depot = self.depot.lock().unwrap_or_else(|held| held.into_inner());
        depot.retired += 1;
        Self::clear_if_over(&self.table, &mut depot);
    }

    #[cold]
    fn grow(&self, depot: &mut Depot, class: Class) -> io::Result<()> {
        let slab = depot.slabs.len();
        if (slab + 1) * SLAB > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!(
                    "all {} fibers of this runtime are in use; let some end, or make it with a larger Config::fibers",
                    self.limit
                ),
            ));
        }
        let memory = Mapping::private(SLAB << class.shift())?;
        memory.prefer_small_pages();
        if let Some(entry) = self.table.atomic_u64(slab * 8) {
            let start = memory.as_ptr().expose_provenance() as u64;
            // Release: SYNC stack.slab; whoever has a number of it got it later, under the depot's lock
            // or along with a bit.
            entry.store(start | u64::from(class.shift()), Ordering::Release);
        }
        depot.slabs.push(memory);
        let first = (slab * SLAB) as u32;
        depot.fresh[class.index()] = first..first + SLAB as u32;
        Ok(())
    }

    fn set_guard(&self, depot: &mut Depot, number: u32) -> io::Result<()> {
        if depot.guard.0 == Guarded::None || cfg!(miri) {
            return Ok(());
        }
        let memory = &depot.slabs[number as usize / SLAB];
        let offset = (number as usize % SLAB) << self.entry(number).1;
        if !depot.heavy {
            if memory.guard_lightly(offset, PAGE).is_ok() {
                return Ok(());
            }
            depot.heavy = true;
        }
        if depot.guarded < GUARDED_BY_MAPPING {
            memory.guard_by_mapping(offset, PAGE)?;
            depot.guarded += 1;
            return Ok(());
        }
        if depot.guard.0 == Guarded::Possible {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "{GUARDED_BY_MAPPING} stacks have a guard, and this kernel has no more for a runtime (Linux 6.13 has); let some fibers end, or make the runtime with Guard::where_possible"
            ),
        ))
    }

    #[inline]
    fn entry(&self, number: u32) -> (usize, u32) {
        let entry = self
            .table
            .atomic_u64(number as usize / SLAB * 8)
            .map_or(0, |entry| entry.load(Ordering::Acquire)) as usize;
        (entry & !(PAGE - 1), (entry & (PAGE - 1)) as u32)
    }

    /// The size of a number's stack.
    #[inline]
    pub(crate) fn class_of(&self, number: u32) -> Class {
        Class((self.entry(number).1 - SMALLEST_SHIFT) as u8)
    }

    /// A stack is used: are there many now?
    #[inline]
    pub(crate) fn note_use(&self, number: u32) {
        if number as usize >= MANY && !self.many.load(Ordering::Relaxed) {
            self.many.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there are so many stacks that their tops do not stay in the cache.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.many.load(Ordering::Relaxed)
    }

    /// Where the [`BLOCK`] of a fiber stands: the top of what it may use.
    #[inline]
    pub(crate) fn block(&self, number: u32) -> *mut u8 {
        let (start, shift) = self.entry(number);
        let place = number as usize;
        let end = start + ((place % SLAB + 1) << shift);
        let colour = (place % COLOURS) * COLOUR;
        std::ptr::with_exposed_provenance_mut(end - colour - BLOCK)
    }

    /// First and last address of a number's stack, guard included; `None` if it was never made.
    pub(crate) fn bounds(&self, number: u32) -> Option<(usize, usize)> {
        let (start, shift) = self.entry(number);
        let low = start + ((number as usize % SLAB) << shift);
        (start != 0).then_some((low, low + (1 << shift)))
    }

    /// The runtime has ended, and its workers keep no stacks: gives all memory back when the last handle is
    /// gone.
    pub(crate) fn close(&self) {
        let mut depot = self.depot.lock().unwrap_or_else(|held| held.into_inner());
        depot.closed = true;
        Self::clear_if_over(&self.table, &mut depot);
    }

    fn clear_if_over(table: &Mapping, depot: &mut Depot) {
        if !depot.closed {
            return;
        }
        let free: usize = depot.free.iter().map(Vec::len).sum();
        let fresh: usize = depot.fresh.iter().map(ExactSizeIterator::len).sum();
        if free + fresh + depot.retired < depot.slabs.len() * SLAB {
            return;
        }
        for slab in 0..depot.slabs.len() {
            if let Some(entry) = table.atomic_u64(slab * 8) {
                entry.store(0, Ordering::Release);
            }
        }
        depot.slabs.clear();
        depot.free = Default::default();
        depot.fresh = std::array::from_fn(|_| 0..0);
        depot.retired = 0;
    }

    /// Whether any memory is held; for tests.
    #[cfg(test)]
    pub(crate) fn are_held(&self) -> bool {
        let depot = self.depot.lock().unwrap_or_else(|held| held.into_inner());
        !depot.slabs.is_empty()
    }
}

/// Bytes of a stack that are its guard.
pub(crate) const GUARD: usize = PAGE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_within_bounds() {
        assert_eq!(Class::for_bytes(0), Some(Class(0)));
        assert_eq!(Class::for_bytes(SMALLEST_STACK), Some(Class(0)));
        assert_eq!(Class::for_bytes(SMALLEST_STACK + 1), Some(Class(1)));
        assert_eq!(
            Class::for_bytes(LARGEST_STACK).map(Class::index),
            Some(CLASSES - 1)
        );
        assert_eq!(Class::for_bytes(LARGEST_STACK + 1), None);
        assert_eq!(Class::for_bytes(usize::MAX), None);
    }

    #[test]
    fn numbers_have_stacks_of_their_size_that_do_not_overlap() {
        let stacks = Stacks::new(2 * SLAB, Guard::ALL).expect("maps");
        let (small, large) = (Class(0), Class(3));
        let (mut smalls, mut larges) = (Vec::new(), Vec::new());
        stacks.take(small, &mut smalls).expect("there are some");
        stacks.take(large, &mut larges).expect("there are some");
        assert_eq!(smalls.len(), BATCH);
        assert_eq!(stacks.class_of(larges[0]), large);
        let mut bounds: Vec<_> = smalls
            .iter()
            .chain(&larges)
            .map(|&number| {
                let block = stacks.block(number) as usize;
                let bounds = stacks.bounds(number).expect("made");
                assert!(block > bounds.0 && block + BLOCK <= bounds.1);
                assert!(block.is_multiple_of(64));
                bounds
            })
            .collect();
        bounds.sort_unstable();
        assert!(bounds.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert_eq!(stacks.bounds(SLAB as u32 * 2), None);
    }

    #[test]
    fn the_limit_is_said() {
        let stacks = Stacks::new(SLAB, Guard(Guarded::None)).expect("maps");
        let mut taken = Vec::new();
        for _ in 0..SLAB / BATCH {
            stacks.take(Class(0), &mut taken).expect("there are some");
        }
        let error = stacks.take(Class(0), &mut taken).expect_err("no more");
        assert!(
            error.to_string().contains(&format!("{SLAB} fibers")),
            "{error}"
        );
        stacks.give_back(Class(0), &mut taken.drain(..5));
        stacks.take(Class(0), &mut taken).expect("these are back");
    }

    /// As on a kernel whose guards cost mappings.
    #[test]
    #[cfg_attr(miri, ignore = "no guards there")]
    fn a_stack_that_cannot_have_a_guard_is_refused() {
        let stacks = |guard| {
            let stacks = Stacks::new(SLAB, guard).expect("maps");
            let mut depot = stacks.depot.lock().expect("no panic");
            depot.heavy = true;
            depot.guarded = GUARDED_BY_MAPPING - 5;
            drop(depot);
            stacks
        };
        let (all, mut taken) = (stacks(Guard::ALL), Vec::new());
        all.take(Class(0), &mut taken).expect("so many have one");
        assert_eq!(taken, [4, 3, 2, 1, 0]);
        let error = all
            .take(Class(0), &mut taken)
            .expect_err("one more has none");
        assert!(
            error.to_string().contains("Guard::where_possible"),
            "{error}"
        );
        all.give_back(Class(0), &mut taken.drain(..));
        all.close();
        assert!(
            !all.are_held(),
            "no number is lost where a guard was refused"
        );
        let some = stacks(Guard(Guarded::Possible));
        some.take(Class(0), &mut taken).expect("without a guard");
        assert_eq!(taken.len(), BATCH);
    }
}
