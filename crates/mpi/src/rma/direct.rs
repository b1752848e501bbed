//! Direct access: one piece of memory that this rank loads and stores by itself, where nothing has to be waited for.
//!
//! That is what most operations are, and it costs little more than its checks: the epoch, the bounds, the sizes of both sides.
//! Whatever is not as it should be, or takes longer, is left to the general path, which finds out what it is.
//!
//! # What a flush has to wait for
//! An operation that is carried out here has been carried out for all when its stores have left the processor. An
//! atomic instruction drains those before it on x86-64, as does the one that takes a lock; a load takes no time to be seen. So
//! only a put, and what is stored under a lock, leaves something to a flush, and says so:
//!
//! ```text
//!   who stores           who flushes (any thread)
//!   data                 if stored: stored = false, by an atomic exchange, which drains the stores of this processor
//!   stored = true
//! ```
//!
//! `SYNC window.stored`: a store in order on x86-64. Whoever finds it false, set back by another thread, knows that its own
//! stores had left before: they stand before that of the word. On other processors every flush is a fence.

use weft_atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use weft_atomic::fence;
use weft_fabric::Region;

use super::{TargetBuffer, Window};
use crate::buffer::Buffer;
use crate::datatype::Basic;
use crate::exposed::{Exposed, WordOperation};
use crate::op::{Op, Predefined};

/// One element of a predefined datatype in the memory of a member.
#[derive(Clone, Copy, Debug)]
pub struct TargetElement {
    /// Whose.
    pub rank: u32,
    /// From the start of its memory, in its displacement units.
    pub displacement: i64,
    /// What it is.
    pub basic: Basic,
}

impl Window {
    /// The memory of a member, if an operation on it can be carried out at once, and the byte of a displacement there.
    #[inline]
    fn place(&self, rank: u32, displacement: i64) -> Option<(&Exposed, i64)> {
        let member = self.targets.get(rank as usize)?;
        let exposed = member.attached()?;
        if displacement < 0 || !self.epoch.is_ready(rank) {
            return None;
        }
        Some((exposed, displacement.checked_mul(member.unit())?))
    }

    /// The bytes of a member's memory from a displacement, if an operation on them can be carried out at once.
    #[inline(always)]
    fn bytes_at(&self, rank: u32, displacement: i64, bytes: usize) -> Option<Region> {
        let (exposed, at) = self.place(rank, displacement)?;
        exposed.span(at, bytes)
    }

    /// `MPI_Put` of bytes that lie together, to bytes that do, if that can be done at once. Whether it was done; else nothing
    /// has happened, and [`put`](Self::put) does it, or says what is wrong.
    #[inline]
    pub fn put_at_once(&self, source: &Region, rank: u32, displacement: i64) -> bool {
        let Some(part) = self.bytes_at(rank, displacement, source.len()) else {
            return false;
        };
        part.copy_from(source);
        self.count();
        self.note_stores();
        true
    }

    /// `MPI_Get` as [`put_at_once`](Self::put_at_once).
    #[inline]
    pub fn get_at_once(&self, into: &Region, rank: u32, displacement: i64) -> bool {
        let Some(part) = self.bytes_at(rank, displacement, into.len()) else {
            return false;
        };
        into.copy_from(&part);
        self.count();
        true
    }

    /// `MPI_Win_flush`, if nothing but stores of this processor have to be waited for. Whether it was done.
    #[inline]
    pub fn flush_at_once(&self, rank: u32) -> bool {
        let Some(member) = self.targets.get(rank as usize) else {
            return false;
        };
        if member.is_used() || !self.epoch.may_flush(rank) {
            return false;
        }
        self.order_stores();
        self.look_at_times();
        true
    }

    /// The elements at the target, if an operation can be carried out on them at once and they are one piece of `bytes`.
    #[inline]
    fn piece(&self, target: &TargetBuffer<'_>, bytes: usize) -> Option<Region> {
        let (exposed, base) = self.place(target.rank, target.displacement)?;
        let (offset, length) = target.datatype.flat(target.count)?;
        if length != bytes {
            return None;
        }
        exposed.span(base.checked_add(offset as i64)?, length)
    }

    /// Puts, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn put_directly(&self, source: &Buffer, target: &TargetBuffer<'_>) -> bool {
        let Buffer::Flat(source) = source else {
            return false;
        };
        let Some(part) = self.piece(target, source.len()) else {
            return false;
        };
        part.copy_from(source);
        self.count();
        self.note_stores();
        true
    }

    /// Gets, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn get_directly(&self, into: &Buffer, target: &TargetBuffer<'_>) -> bool {
        let Buffer::Flat(into) = into else {
            return false;
        };
        let Some(part) = self.piece(target, into.len()) else {
            return false;
        };
        into.copy_from(&part);
        self.count();
        true
    }

    /// Accumulates one element, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn accumulate_directly(
        &self,
        source: &Buffer,
        target: &TargetBuffer<'_>,
        op: &Op,
    ) -> bool {
        let (Buffer::Flat(source), 1) = (source, target.count) else {
            return false;
        };
        let (Some(operation), Some(basic)) = (op.as_predefined(), target.datatype.basic()) else {
            return false;
        };
        let element = TargetElement {
            rank: target.rank,
            displacement: target.displacement,
            basic,
        };
        source.len() == basic.size()
            && self.combine_element(&element, operation, Some(source), None)
    }

    /// `MPI_Fetch_and_op`, if it can be done at once: of an element that the processor changes at once, in memory that this
    /// rank loads and stores, within an epoch. Whether it was done; else [`get_accumulate`](Self::get_accumulate) does it, or
    /// says what is wrong.
    #[inline]
    pub fn fetch_and_op_at_once(
        &self,
        target: &TargetElement,
        operation: Predefined,
        source: Option<Region>,
        into: Region,
    ) -> bool {
        let source = source.filter(|_| operation != Predefined::NoOp);
        self.combine_element(target, operation, source.as_ref(), Some(&into))
    }

    #[inline]
    fn combine_element(
        &self,
        target: &TargetElement,
        operation: Predefined,
        source: Option<&Region>,
        into: Option<&Region>,
    ) -> bool {
        let Some(operation) = WordOperation::of(operation, target.basic) else {
            return false;
        };
        let Some((exposed, at)) = self.place(target.rank, target.displacement) else {
            return false;
        };
        let Ok(at) = usize::try_from(at) else {
            return false;
        };
        let stored = exposed.try_combine_word(at, operation, source, into);
        if stored == Some(true) {
            self.note_stores();
        }
        self.count_if(stored.is_some())
    }

    /// `MPI_Compare_and_swap`, if it can be done at once, as [`fetch_and_op_at_once`](Self::fetch_and_op_at_once). `sides`:
    /// what to compare with, what to write, where to fetch to.
    #[inline]
    pub fn compare_and_swap_at_once(&self, target: &TargetElement, sides: [&Region; 3]) -> bool {
        if !target.basic.is_compared() {
            return false;
        }
        let Some((exposed, at)) = self.place(target.rank, target.displacement) else {
            return false;
        };
        let Ok(at) = usize::try_from(at) else {
            return false;
        };
        let stored = exposed.try_swap_word(at, target.basic.size(), sides);
        if stored == Some(true) {
            self.note_stores();
        }
        self.count_if(stored.is_some())
    }

    /// An operation was carried out. Those of threads at the same moment may be counted once.
    #[inline]
    pub(super) fn count(&self) {
        let count = self.direct.load(Relaxed);
        self.direct.store(count.wrapping_add(1), Relaxed);
    }

    #[inline]
    fn count_if(&self, done: bool) -> bool {
        if done {
            self.count();
        }
        done
    }

    /// Something was stored that a flush has to wait for.
    #[inline]
    pub(super) fn note_stores(&self) {
        // SYNC window.stored
        self.stored.store(true, Release);
    }

    /// What was stored directly is there for everybody.
    #[inline]
    pub(super) fn order_stores(&self) {
        if !cfg!(all(target_arch = "x86_64", not(loom), not(miri))) {
            fence(SeqCst);
        } else if self.stored.load(Acquire) {
            // SYNC window.stored
            self.stored.swap(false, AcqRel);
        }
    }
}
