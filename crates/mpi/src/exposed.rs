//! Exposed memory: the part of a window that one member lets the others read, write and combine.
//!
//! All accesses are checked against its bounds. Elements are combined while the [`ElementLock`] of the memory is held:
//! one by a few plain instructions, many as fast as in any reduction.
//!
//! If the lock is not *for all*, an element that the processor can change at once (1, 2, 4 or 8 bytes, aligned to its
//! size) is combined by an atomic instruction instead, by every party: the rank itself, another rank that shares the
//! memory, or the rank's engine for a rank that does not. The choice depends only on the window, the element's address
//! and its size, so that all parties agree (MPI 5.0, section 12.7.1).

#![allow(unsafe_code)]

mod atomic;
mod lock;

use std::mem::MaybeUninit;
use std::sync::Arc;

use weft_fabric::{Region, SharedBytes};
use weft_sys::SharedMemory;

use crate::buffer::{self, Buffer, TypedBuffer};
use crate::datatype::{Datatype, StridedBlock};
use crate::op::Combine;

pub(crate) use atomic::WordOperation;
use atomic::{Exchange, Others};
pub(crate) use lock::{ElementLock, IsLost, LOCK_BYTES, lost_after_sleeps};

/// Bytes that are combined while the lock is held once: others are held up for a microsecond or two.
const PIECE: usize = 64 << 10;

/// Bytes that are packed at a time: on the stack, which is small for fibers. Holds whole elements of every size.
pub(crate) const CHUNK: usize = 2048 / 96 * 96;

/// Two regions of a dynamic window as one, if the second begins where the first ends: elements may lie across both.
pub(crate) fn joined(first: Region, second: Region) -> Option<Region> {
    let end = first.as_ptr().addr().checked_add(first.len())?;
    let touch = end == second.as_ptr().addr() && !first.is_empty() && !second.is_empty();
    // SAFETY: whoever attached them promises that each stays valid until it is detached, when what has both is taken apart. No byte
    // lies between them, and the length of two regions of one address space does not overflow.
    touch.then(|| unsafe { Region::new(first.as_ptr(), first.len() + second.len()) })
}

/// Memory that members of a window use. Whoever makes one promises, as for [`Region`], that it stays valid while the window
/// lives.
#[derive(Clone, Debug)]
pub(crate) struct Exposed {
    region: Region,
    lock: ElementLock,
    /// What keeps shared memory mapped.
    kept: Option<SharedMemory>,
}

impl Exposed {
    /// This memory.
    pub(crate) fn new(region: Region, lock: ElementLock) -> Self {
        Self {
            region,
            lock,
            kept: None,
        }
    }

    /// `length` bytes from `offset` of memory that others share, who have the same lock; `None` if they do not lie within.
    pub(crate) fn shared(
        memory: &SharedMemory,
        offset: usize,
        length: usize,
        lock: ElementLock,
    ) -> Option<Self> {
        // SAFETY: the handle that keeps the memory mapped lives as long as this; only atomics and copies that may be torn
        // touch it.
        let region = unsafe { memory.region(offset, length) }?;
        Some(Self {
            region,
            lock,
            kept: Some(memory.clone()),
        })
    }

    /// Whether others load and store it.
    pub(crate) fn is_shared(&self) -> bool {
        self.kept.is_some()
    }

    /// All of it.
    #[inline]
    pub(crate) fn region(&self) -> Region {
        self.region
    }

    /// Whether all pieces of the blocks, counted from `base`, lie within, and hold `bytes` bytes in all.
    pub(crate) fn holds(&self, base: i64, blocks: &[StridedBlock], bytes: usize) -> bool {
        let mut sum = 0usize;
        let within = blocks.iter().all(|block| {
            sum = sum.saturating_add(block.data());
            block.count == 0 || self.holds_block(base, block)
        });
        within && sum == bytes
    }

    fn holds_block(&self, base: i64, block: &StridedBlock) -> bool {
        if block.bytes == 0 {
            // However many there are of them, nobody has a reason to say so.
            return false;
        }
        let Some((first, end)) = block.bounds() else {
            return false;
        };
        let place = |at: isize| base.checked_add(at as i64);
        let within = |at: i64| u64::try_from(at).is_ok_and(|at| at <= self.region.len() as u64);
        place(first).is_some_and(within) && place(end).is_some_and(within)
    }

    /// The pieces of blocks that [lie within](Self::holds), one after the other.
    fn pieces(&self, base: i64, blocks: &[StridedBlock]) -> impl Iterator<Item = (usize, usize)> {
        let place = move |offset: isize| (base.wrapping_add(offset as i64)) as usize;
        blocks
            .iter()
            .flat_map(move |block| block.offsets().map(move |at| (place(at), block.bytes)))
    }

    fn part(&self, at: usize, bytes: usize) -> Region {
        self.region.part(at, bytes).unwrap_or(Region::EMPTY)
    }

    /// The span of `length` bytes from byte `at`; `None` if it does not lie within.
    #[inline]
    pub(crate) fn span(&self, at: i64, length: usize) -> Option<Region> {
        self.region.part(usize::try_from(at).ok()?, length)
    }

    /// Where `count` elements of a datatype from byte `base` on are counted from; `None` if they, or gaps between them, do not lie within.
    #[inline(always)]
    fn elements(&self, base: i64, count: usize, datatype: &Datatype) -> Option<*mut u8> {
        let (lower, length) = datatype.footprint(count).ok()?;
        self.span(base.checked_add(lower as i64)?, length)?;
        let start = self.region.as_ptr();
        Some(start.wrapping_offset(isize::try_from(base).ok()?))
    }

    /// Copies the data of a buffer, which are as many bytes, to elements with gaps, without packing them on the way. False, and nothing
    /// written, if the elements, or gaps between them, do not lie within.
    pub(crate) fn put_elements(
        &self,
        base: i64,
        (count, datatype): (usize, &Arc<Datatype>),
        source: &Buffer,
    ) -> bool {
        let Some(start) = self.elements(base, count, datatype) else {
            return false;
        };
        // SAFETY: all that the elements cover lies within the region, which stays valid while the window lives. As in any copy to a
        // region, others may access it at the same time: of bytes that they do, either value is copied.
        unsafe {
            match source {
                Buffer::Flat(source, _) => {
                    datatype.unpack_from(start, count, 0, buffer::shared(source));
                }
                Buffer::Typed(source) => {
                    let Ok(elements) = TypedBuffer::checked(start, count, datatype) else {
                        return false;
                    };
                    source.copy_to(&elements);
                }
            }
        }
        true
    }

    /// Copies elements with gaps to a buffer, as [`put_elements`](Self::put_elements) does to them.
    pub(crate) fn get_elements(
        &self,
        base: i64,
        (count, datatype): (usize, &Arc<Datatype>),
        into: &Buffer,
    ) -> bool {
        let Some(start) = self.elements(base, count, datatype) else {
            return false;
        };
        // SAFETY: as in `put_elements`.
        unsafe {
            match into {
                Buffer::Flat(into, _) => {
                    datatype.pack_to(start, count, 0, into);
                }
                Buffer::Typed(into) => {
                    let Ok(elements) = TypedBuffer::checked(start, count, datatype) else {
                        return false;
                    };
                    elements.copy_to(into);
                }
            }
        }
        true
    }

    /// Combines elements with gaps with an operand, which is as many bytes, some of them at a time in a packed copy. What they were goes to
    /// `fetched`, if given. Without an operand they are only read. False, and nothing done, if the elements, or gaps between them, do not lie
    /// within, or if they are combined without the lock.
    // Not inlined: its copy needs a large frame, which puts and gets shall not make.
    #[inline(never)]
    pub(crate) fn combine_elements(
        &self,
        base: i64,
        (count, datatype): (usize, &Arc<Datatype>),
        combine: &Combine,
        (operand, fetched): (Option<&Buffer>, Option<&Buffer>),
        is_lost: IsLost<'_>,
    ) -> bool {
        let size = combine.basic().size();
        if atomic::is_word(size) && !self.lock.is_for_all() {
            return false;
        }
        let Some(start) = self.elements(base, count, datatype) else {
            return false;
        };
        let mut room = [MaybeUninit::<u8>::uninit(); CHUNK];
        let (total, step) = (datatype.size() * count, CHUNK / size * size);
        for from in (0..total).step_by(step) {
            let bytes = step.min(total - from);
            let _held = self.lock.hold(is_lost);
            // SAFETY: `bytes` of `room`, which only this loop uses; all that the elements cover lies within the region, which stays valid
            // while the window lives. Others who combine elements wait for the lock; of bytes that others put, either value is copied.
            let packed = unsafe {
                let packed = Region::new(room.as_mut_ptr().cast(), bytes);
                datatype.pack_to(start, count, from, &packed);
                packed
            };
            if let Some(fetched) = fetched {
                packed.read_by(|packed| fetched.unpack_from(from, packed));
            }
            let Some(operand) = operand else { continue };
            match operand {
                Buffer::Flat(operand, _) => {
                    let part = operand.part(from, bytes).unwrap_or(Region::EMPTY);
                    combine.run_at(&part, &packed);
                }
                Buffer::Typed(operand) => {
                    let mut part = [0; CHUNK];
                    operand.pack_part(from, &mut part[..bytes]);
                    combine.run_at(&buffer::region_of(&mut part[..bytes]), &packed);
                }
            }
            // SAFETY: as above.
            unsafe { datatype.unpack_from(start, count, from, buffer::shared(&packed)) };
        }
        true
    }

    /// Writes data to the pieces. False, and nothing written, if they do not lie within or are not as long.
    pub(crate) fn put(
        &self,
        base: i64,
        blocks: &[StridedBlock],
        mut data: SharedBytes<'_>,
    ) -> bool {
        if !self.holds(base, blocks, data.len()) {
            return false;
        }
        for (at, bytes) in self.pieces(base, blocks) {
            let (now, later) = data.split_at(bytes);
            now.copy_to_region(&self.part(at, bytes));
            data = later;
        }
        true
    }

    /// Reads the pieces. False, and nothing read, if they do not lie within or are not as long.
    pub(crate) fn get(&self, base: i64, blocks: &[StridedBlock], mut into: &mut [u8]) -> bool {
        if !self.holds(base, blocks, into.len()) {
            return false;
        }
        for (at, bytes) in self.pieces(base, blocks) {
            let (now, later) = into.split_at_mut(bytes);
            self.part(at, bytes).copy_to_slice(now);
            into = later;
        }
        true
    }

    /// Combines the elements that the pieces consist of with the operand, each at once. What they were goes to
    /// `fetched`, if given, which is as long as the operand. False, and nothing done, if the pieces do not lie within or do not
    /// fit the operand.
    pub(crate) fn combine(
        &self,
        base: i64,
        blocks: &[StridedBlock],
        combine: &Combine,
        (operand, mut fetched): (&mut [u8], Option<&mut [u8]>),
        is_lost: IsLost<'_>,
    ) -> bool {
        let size = combine.basic().size();
        let whole = |block: &StridedBlock| block.bytes.is_multiple_of(size);
        let simple = atomic::is_word(size) && blocks.iter().all(whole);
        let fits = operand.len().is_multiple_of(size) && (simple || !atomic::is_word(size));
        if !fits || !self.holds(base, blocks, operand.len()) {
            return false;
        }
        let for_all = self.lock.is_for_all();
        let _held = (for_all || !simple).then(|| self.lock.hold(is_lost));
        if !simple {
            self.combine_packed(base, blocks, combine, operand, fetched);
            return true;
        }
        let mut done = 0;
        for (at, bytes) in self.pieces(base, blocks) {
            let operand = buffer::region_of(&mut operand[done..done + bytes]);
            let fetched = fetched.as_deref_mut();
            let fetched = fetched.map(|all| buffer::region_of(&mut all[done..done + bytes]));
            done += bytes;
            let part = self.part(at, bytes);
            if !for_all && part.as_ptr().addr().is_multiple_of(size) {
                atomic::combine(&part, combine, &operand, fetched.as_ref());
                continue;
            }
            let _held = (!for_all).then(|| self.lock.hold(is_lost));
            if let Some(fetched) = fetched {
                fetched.copy_from(&part);
            }
            combine.run_at(&operand, &part);
        }
        true
    }

    /// As [`Self::combine`] of elements in one piece with a caller's memory, without a copy. `None`, and nothing done, if it
    /// takes one; else whether they lie within.
    pub(crate) fn combine_piece(
        &self,
        at: i64,
        combine: &Combine,
        operand: &Region,
        is_lost: IsLost<'_>,
    ) -> Option<bool> {
        let size = combine.basic().size();
        let Some(part) = self.span(at, operand.len()) else {
            return Some(false);
        };
        if !self.lock.is_for_all() {
            let simple = atomic::is_word(size) && part.len().is_multiple_of(size);
            if !simple || !part.as_ptr().addr().is_multiple_of(size) {
                return None;
            }
            atomic::combine(&part, combine, operand, None);
            return Some(true);
        }
        self.combine_under_lock(&part, combine, operand, is_lost);
        Some(true)
    }

    /// Combines the word at byte `at`, and fetches what it was. `None`, and nothing done, if another has the lock, or the word is
    /// not within or not aligned; else whether something is stored that no atomic instruction has stored.
    #[inline(always)]
    pub(crate) fn try_combine_word(
        &self,
        at: usize,
        operation: WordOperation,
        operand: &Region,
        fetched: Option<&Region>,
    ) -> Option<bool> {
        let word = operation.word(&self.region, at, operand, fetched)?;
        if !self.lock.is_for_all() || operation.only_reads() {
            word.combine_among_others();
            return Some(false);
        }
        let _held = self.lock.try_hold()?;
        word.combine_alone();
        Some(true)
    }

    /// As [`Self::combine_piece`]; of few elements only if nobody has the lock. False, and nothing done, if another has it, if elements
    /// are combined without it, or if they do not lie within.
    #[inline]
    pub(crate) fn try_combine_piece(
        &self,
        at: usize,
        combine: &Combine,
        operand: &Region,
        is_lost: IsLost<'_>,
    ) -> bool {
        let Some(part) = self.region.part(at, operand.len()) else {
            return false;
        };
        if !self.lock.is_for_all() {
            return false;
        }
        if operand.len() > PIECE {
            self.combine_under_lock(&part, combine, operand, is_lost);
            return true;
        }
        let Some(_held) = self.lock.try_hold() else {
            return false;
        };
        combine.run_at(operand, &part);
        true
    }

    /// Combines a part of this memory, as long as the operand, while the lock is held, but not all the time.
    #[inline(never)]
    fn combine_under_lock(
        &self,
        part: &Region,
        combine: &Combine,
        operand: &Region,
        is_lost: IsLost<'_>,
    ) {
        let size = combine.basic().size();
        let step = PIECE / size * size;
        for from in (0..part.len()).step_by(step) {
            let bytes = step.min(part.len() - from);
            if let (Some(part), Some(operand)) = (part.part(from, bytes), operand.part(from, bytes))
            {
                let _held = self.lock.hold(is_lost);
                combine.run_at(&operand, &part);
            }
        }
    }

    /// Combines elements that are in several pieces, or that the processor cannot change at once, by a copy. The lock is
    /// held.
    #[cold]
    fn combine_packed(
        &self,
        base: i64,
        blocks: &[StridedBlock],
        combine: &Combine,
        operand: &mut [u8],
        fetched: Option<&mut [u8]>,
    ) {
        let mut current = vec![0; operand.len()];
        self.get(base, blocks, &mut current);
        if let Some(fetched) = fetched {
            fetched.copy_from_slice(&current);
        }
        combine.run(operand, &mut current);
        self.put(base, blocks, SharedBytes::of(&current));
    }

    /// Replaces one element by `new` if it is `compare`, and reads what it was into `fetched`; all three are as long as the
    /// element, at most 16 bytes. False, and nothing done, if it does not lie within.
    pub(crate) fn compare_and_swap(
        &self,
        at: i64,
        compare: &[u8],
        new: &[u8],
        fetched: &mut [u8],
        is_lost: IsLost<'_>,
    ) -> bool {
        let bytes = new.len();
        let Some(part) = self.span(at, bytes) else {
            return false;
        };
        if compare.len() != bytes || fetched.len() != bytes {
            return false;
        }
        let aligned = part.as_ptr().addr().is_multiple_of(bytes.max(1));
        if atomic::is_word(bytes) && aligned && !self.lock.is_for_all() {
            let [mut compared, mut put] = [[0; 8]; 2];
            compared[..bytes].copy_from_slice(compare);
            put[..bytes].copy_from_slice(new);
            let sides = [&mut compared, &mut put].map(|side| buffer::region_of(side));
            let fetched = buffer::region_of(fetched);
            let sides = [&sides[0], &sides[1], &fetched];
            let exchange = Exchange::new(&part, 0, bytes, sides);
            return exchange.map(|word| word.run(Others::Any)).is_some();
        }
        let _held = self.lock.hold(is_lost);
        part.copy_to_slice(fetched);
        if fetched == compare {
            part.copy_from_slice(new);
        }
        true
    }

    /// As [`Self::compare_and_swap`] of the word of `bytes` at byte `at`, with what to compare with, what to write, and
    /// where to fetch to. `None`, and nothing done, if another has the lock, or it is no word, or not within or not aligned;
    /// else whether something may be stored that no atomic instruction has stored.
    #[inline(always)]
    pub(crate) fn try_swap_word(
        &self,
        at: usize,
        bytes: usize,
        sides: [&Region; 3],
    ) -> Option<bool> {
        let exchange = Exchange::new(&self.region, at, bytes, sides)?;
        if !self.lock.is_for_all() {
            exchange.run(Others::Any);
            return Some(false);
        }
        let _held = self.lock.try_hold()?;
        exchange.run(Others::None);
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{elements_of, region_of};
    use crate::datatype::Basic;
    use crate::op::Predefined;

    fn block(offset: isize, bytes: usize) -> StridedBlock {
        StridedBlock {
            offset,
            bytes,
            count: 1,
            stride: 0,
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mut memory = vec![0u8; 64];
        let exposed = Exposed::new(region_of(&mut memory), ElementLock::Engine);
        let data = SharedBytes::of(&[1; 8]);
        assert!(exposed.put(56, &[block(0, 8)], data));
        for (base, block) in [
            (57, block(0, 8)),
            (-1, block(0, 8)),
            (i64::MAX, block(1, 8)),
            (0, block(isize::MAX, 8)),
            (0, block(-4, 8)),
            (0, block(0, 7)),
        ] {
            assert!(!exposed.put(base, &[block], data), "{base} {block:?}");
        }
        let many = StridedBlock {
            offset: 0,
            bytes: 1,
            count: 8,
            stride: isize::MAX / 4,
        };
        assert!(!exposed.put(0, &[many], data));
        let mut out = [0; 9];
        assert!(!exposed.get(56, &[block(0, 9)], &mut out));
        assert!(exposed.get(55, &[block(0, 9)], &mut out));
        assert_eq!(out, [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    /// Gaps are not touched, and what reaches outside, be it by a gap, is refused.
    #[test]
    fn elements_with_gaps_are_copied_in_place() {
        let byte = Basic::Byte.datatype();
        let pairs = Datatype::vector(3, 2, 4, byte).unwrap();
        let thirds = Datatype::vector(2, 3, 5, byte).unwrap();
        let backwards = Datatype::vector(3, 2, -4, byte).unwrap();
        let data: Vec<u8> = (1..=6).collect();
        let origins = [(6, None), (8, Some(&thirds)), (10, Some(&pairs))];
        for (length, origin) in origins {
            let mut outside = vec![0; length];
            let buffer = match origin {
                None => Buffer::untyped(region_of(&mut outside)),
                Some(datatype) => Buffer::Typed(elements_of(&mut outside, 1, datatype)),
            };
            buffer.unpack_from(0, &data);
            let mut memory = vec![0u8; 12];
            let exposed = Exposed::new(region_of(&mut memory), ElementLock::Engine);
            let seen = || {
                let mut seen = [0; 12];
                exposed.region().copy_to_slice(&mut seen);
                seen
            };
            assert!(exposed.put_elements(1, (1, &pairs), &buffer));
            let pattern = [0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0];
            assert_eq!(seen(), pattern);
            for outside in [3, -1, i64::MAX, i64::MIN] {
                assert!(!exposed.put_elements(outside, (1, &pairs), &buffer));
                assert!(!exposed.get_elements(outside, (1, &pairs), &buffer));
            }
            assert!(!exposed.put_elements(7, (1, &backwards), &buffer));
            assert!(!exposed.put_elements(0, (usize::MAX, &pairs), &buffer));
            assert_eq!(seen(), pattern);
            assert!(exposed.get_elements(9, (1, &backwards), &buffer));
            let mut packed = [0; 6];
            assert_eq!(buffer.pack_from(0, &mut packed), 6);
            assert_eq!(packed, [5, 6, 3, 4, 1, 2]);
        }
    }

    /// Locks of every kind: elements are combined by atomic instructions, or under a lock for all.
    fn locks() -> [ElementLock; 3] {
        let word = SharedMemory::of_this_process(64).expect("maps");
        let shared = |for_all| ElementLock::Shared {
            words: word.clone(),
            me: 0,
            for_all,
        };
        [ElementLock::Engine, shared(false), shared(true)]
    }

    /// Every operation on every datatype, aligned or not, gives what a plain reduction gives.
    #[test]
    fn elements_are_combined_as_in_a_reduction() {
        for &basic in Basic::ALL {
            for operation in Predefined::ALL {
                let Ok(combine) = Combine::new(operation, basic) else {
                    continue;
                };
                let size = basic.size();
                for (askew, lock) in (0..2).flat_map(|askew| locks().map(|lock| (askew, lock))) {
                    let mut memory: Vec<u8> = (0..200u8).map(|byte| byte % 5).collect();
                    let datatype = Datatype::contiguous(3, basic.datatype()).unwrap();
                    let blocks = datatype.strided_blocks(1, 0, 3 * size);
                    let mut operand: Vec<u8> = (0..3 * size as u8).map(|byte| byte % 3).collect();
                    let exposed = Exposed::new(region_of(&mut memory), lock);
                    let mut before = vec![0; 3 * size];
                    assert!(exposed.get(16 + askew, &blocks, &mut before));
                    let mut fetched = vec![0; 3 * size];
                    assert!(exposed.combine(
                        16 + askew,
                        &blocks,
                        &combine,
                        (&mut operand, Some(&mut fetched)),
                        &|_| false
                    ));
                    assert_eq!(fetched, before, "{combine:?}");
                    let source = region_of(&mut operand);
                    combine.run_at(&source, &region_of(&mut before));
                    let mut after = vec![0; 3 * size];
                    assert!(exposed.get(16 + askew, &blocks, &mut after));
                    assert_eq!(after, before, "{combine:?}, askew by {askew}");
                    let done = exposed.combine_piece(16 + askew, &combine, &source, &|_| false);
                    // Pairs with gaps are in several pieces.
                    if let (Some(done), Some(_)) = (done, datatype.flat(1)) {
                        assert!(done && exposed.get(16 + askew, &blocks, &mut after));
                        combine.run_at(&source, &region_of(&mut before));
                        assert_eq!(after, before, "{combine:?}, in one piece");
                        let outside = exposed.combine_piece(199, &combine, &source, &|_| false);
                        assert_eq!(outside, Some(false));
                    }
                }
            }
        }
    }

    /// Elements with gaps, more than are packed at a time, are combined as by the list of their blocks, from data with gaps and without. Gaps
    /// are not touched. Elements that others change by atomic instructions are left alone.
    #[test]
    fn elements_with_gaps_are_combined_as_by_blocks() {
        for (lock, basic) in locks()
            .into_iter()
            .flat_map(|lock| [Basic::Int, Basic::DoubleComplex].map(|basic| (lock.clone(), basic)))
        {
            let size = basic.size();
            let count = CHUNK / size + 3;
            let vector = Datatype::vector(count as i64, 1, 2, basic.datatype()).unwrap();
            let combine = Combine::new(Predefined::Sum, basic).unwrap();
            let bytes = |seed: usize, length: usize| -> Vec<u8> {
                (0..length).map(|at| (at * seed % 61) as u8).collect()
            };
            let data = bytes(7, count * size);
            let (mut flat, mut apart) = (data.clone(), vec![0; 2 * count * size]);
            let typed = elements_of(&mut apart, 1, &vector);
            typed.unpack_part(0, &data);
            let operands = [
                Some(Buffer::untyped(region_of(&mut flat))),
                Some(Buffer::Typed(typed)),
                None,
            ];
            for operand in operands {
                let mut memory = bytes(5, 2 * count * size + 8);
                let mut expected = memory.clone();
                let other = Exposed::new(region_of(&mut expected), ElementLock::Engine);
                let blocks = vector.strided_blocks(1, 0, count * size);
                let mut before = vec![0; count * size];
                assert!(other.get(3, &blocks, &mut before));
                let by_blocks = (&mut data.clone()[..], None);
                let is_combined =
                    operand.is_none() || other.combine(3, &blocks, &combine, by_blocks, &|_| false);
                assert!(is_combined);

                let exposed = Exposed::new(region_of(&mut memory), lock.clone());
                let mut found = vec![0; count * size];
                let fetched = Buffer::untyped(region_of(&mut found));
                let run = |base| {
                    let sides = (operand.as_ref(), Some(&fetched));
                    exposed.combine_elements(base, (1, &vector), &combine, sides, &|_| false)
                };
                for outside in [-1, 9 + size as i64, i64::MAX] {
                    assert!(!run(outside));
                }
                let is_locked = lock.is_for_all() || !atomic::is_word(size);
                assert_eq!(run(3), is_locked, "{basic:?}");
                if is_locked {
                    assert_eq!(found, before);
                    assert_eq!(memory, expected, "{basic:?}");
                } else {
                    assert_eq!(memory, bytes(5, 2 * count * size + 8));
                }
            }
        }
    }

    #[test]
    fn a_swap_compares_all_bytes() {
        for lock in locks() {
            swap_compares_all_bytes(lock);
        }
    }

    fn swap_compares_all_bytes(lock: ElementLock) {
        let mut memory = vec![3u8; 64];
        let exposed = Exposed::new(region_of(&mut memory), lock);
        for bytes in [1, 2, 4, 8, 16] {
            for at in [16, 33] {
                let (mut old, new) = ([0; 16], [7; 16]);
                let mut other = [3; 16];
                other[bytes - 1] = 4;
                let swap = |compare: &[u8], new: &[u8], old: &mut [u8]| {
                    exposed.compare_and_swap(
                        at,
                        &compare[..bytes],
                        &new[..bytes],
                        &mut old[..bytes],
                        &|_| false,
                    )
                };
                assert!(swap(&other, &new, &mut old));
                assert_eq!(old[..bytes], [3; 16][..bytes]);
                assert!(swap(&[3; 16], &new, &mut old));
                assert!(swap(&[7; 16], &[3; 16], &mut old));
                assert_eq!(old[..bytes], new[..bytes], "the first swap was refused");
            }
        }
        assert!(!exposed.compare_and_swap(60, &[0; 8], &[0; 8], &mut [0; 8], &|_| false));
    }
}
