//! Direct access: one piece of memory that this rank loads and stores itself, if there is nothing to wait for.
//!
//! Most operations are such accesses, and cost little more than their checks: the epoch, the bounds, the sizes of both
//! sides. Errors, and anything that takes longer, are left to the general path.
//!
//! # What a flush has to wait for
//! Nothing: stores leave the processor in order, so a rank that learns of the flush by anything that this rank does later
//! sees what it has stored before. But a *load* of this rank must not be ahead of its stores
//! ([`StoresInFlight`](weft_atomic::StoresInFlight)):
//!
//! ```text
//!   put, what is stored under a lock       note
//!   flush                                  publish        (x86-64: no instruction)
//!   get, an atomic that only reads,
//!   whatever begins or ends an epoch       drain          (an atomic exchange, if anything was noted)
//! ```
//!
//! Atomic instructions and the lock of elements drain by themselves on x86-64. A program that itself loads the memory of
//! a window calls `MPI_Win_sync` before, as MPI demands (12.5.4): that is a fence. The argument is in [decision
//! 55](../../../../docs/decisions/0055-what-a-flush-waits-for.md).

use weft_atomic::Ordering::Relaxed;
use weft_fabric::Region;

use super::{TargetBuffer, Window};
use crate::buffer::Buffer;
use crate::datatype::{Basic, SignatureCode};
use crate::exposed::{Exposed, WordOperation};
use crate::op::{Combine, Op, Predefined};

/// One element of a predefined datatype in the memory of a member.
#[derive(Clone, Copy, Debug)]
pub struct TargetElement {
    /// The target.
    pub rank: u32,
    /// From the start of its memory, in its displacement units.
    pub displacement: i64,
    /// Its basic datatype.
    pub basic: Basic,
}

impl Window {
    /// The memory of a member, if an operation on it can be carried out at once, and the byte of a displacement there.
    #[inline(always)]
    fn place(&self, rank: u32, displacement: i64) -> Option<(&Exposed, usize)> {
        let member = self.targets.get(rank as usize)?;
        let at = member.byte_at(displacement)?;
        let exposed = member.attached()?;
        self.epoch.is_ready(rank).then_some((exposed, at))
    }

    /// The bytes of a member's memory from a displacement, if an operation on them can be carried out at once.
    #[inline(always)]
    fn bytes_at(&self, rank: u32, displacement: i64, bytes: usize) -> Option<Region> {
        let (exposed, at) = self.place(rank, displacement)?;
        exposed.region().part(at, bytes)
    }

    /// As [`bytes_at`](Self::bytes_at), from an offset behind the displacement, also for the first operation of an epoch to a member, if that has to
    /// wait for nobody.
    #[inline]
    fn bytes_of_first(
        &self,
        (rank, displacement, offset): (u32, i64, isize),
        bytes: usize,
    ) -> Option<Region> {
        let member = self.targets.get(rank as usize)?;
        let at = member.byte_at(displacement)?.checked_add_signed(offset)?;
        let part = member.attached()?.region().part(at, bytes)?;
        let is_ready = self.epoch.is_ready(rank) || self.begin_access_at_once(rank);
        is_ready.then_some(part)
    }

    /// `MPI_Put` of a few contiguous bytes, to contiguous bytes, if that can be done at once, without calling any
    /// function. Returns whether it was done; else nothing has happened, and [`put`](Self::put) does it, or returns the
    /// error.
    #[inline(always)]
    pub fn put_short_at_once(&self, source: &Region, rank: u32, displacement: i64) -> bool {
        let part = self.bytes_at(rank, displacement, source.len());
        let done = part.is_some_and(|part| part.copy_from_if_short(source));
        self.count_stores_if(done)
    }

    /// As [`put_short_at_once`](Self::put_short_at_once), of many bytes.
    #[inline]
    pub fn put_at_once(&self, source: &Region, rank: u32, displacement: i64) -> bool {
        let part = self.bytes_of_first((rank, displacement, 0), source.len());
        let done = part.map(|part| part.copy_from(source));
        self.count_stores_if(done.is_some())
    }

    /// `MPI_Get` as [`put_short_at_once`](Self::put_short_at_once).
    #[inline(always)]
    pub fn get_short_at_once(&self, into: &Region, rank: u32, displacement: i64) -> bool {
        let Some(part) = self.bytes_at(rank, displacement, into.len()) else {
            return false;
        };
        self.stores.drain();
        self.count_if(into.copy_from_if_short(&part))
    }

    /// As [`get_short_at_once`](Self::get_short_at_once), of many bytes.
    #[inline]
    pub fn get_at_once(&self, into: &Region, rank: u32, displacement: i64) -> bool {
        let Some(part) = self.bytes_of_first((rank, displacement, 0), into.len()) else {
            return false;
        };
        self.stores.drain();
        into.copy_from(&part);
        self.count_if(true)
    }

    /// `MPI_Win_flush`, if nothing went by messages or by portal. Whether it was done.
    #[inline(always)]
    pub fn flush_at_once(&self, rank: u32) -> bool {
        let Some(member) = self.targets.get(rank as usize) else {
            return false;
        };
        if member.is_used() || !self.epoch.may_flush(rank) {
            return false;
        }
        self.stores.publish();
        self.look_at_times();
        true
    }

    /// The elements at the target, if an operation can be carried out on them at once and they are one piece of `bytes`.
    #[inline]
    fn piece(&self, target: &TargetBuffer<'_>, bytes: usize) -> Option<Region> {
        let (offset, length) = target.datatype.flat(target.count)?;
        let place = (target.rank, target.displacement, offset);
        (length == bytes).then(|| self.bytes_of_first(place, bytes))?
    }

    /// Puts, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn put_directly(&self, source: &Buffer, target: &TargetBuffer<'_>) -> bool {
        let Buffer::Flat(source, _) = source else {
            return false;
        };
        let Some(part) = self.piece(target, source.len()) else {
            return false;
        };
        part.copy_from(source);
        self.count_stores_if(true)
    }

    /// Gets, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn get_directly(&self, into: &Buffer, target: &TargetBuffer<'_>) -> bool {
        let Buffer::Flat(into, _) = into else {
            return false;
        };
        let Some(part) = self.piece(target, into.len()) else {
            return false;
        };
        self.stores.drain();
        into.copy_from(&part);
        self.count_if(true)
    }

    /// Accumulates one element, if that can be done at once. Whether it was done.
    #[inline]
    pub(super) fn accumulate_directly(
        &self,
        source: &Buffer,
        target: &TargetBuffer<'_>,
        op: &Op,
    ) -> bool {
        let (Buffer::Flat(source, code), 1) = (source, target.count) else {
            return false;
        };
        let (Some(operation), Some(basic)) = (op.as_predefined(), target.datatype.basic()) else {
            return false;
        };
        if operation == Predefined::NoOp || !code.fits(SignatureCode::of(basic)) {
            return false;
        }
        let element = TargetElement {
            rank: target.rank,
            displacement: target.displacement,
            basic,
        };
        source.len() == basic.size() && self.combine_element(&element, operation, source, None)
    }

    /// `MPI_Accumulate` of contiguous elements of this many bytes, to contiguous elements from `target` on, if that can
    /// be done at once. Returns whether it was done; else [`accumulate`](Self::accumulate) does it, or returns the error.
    #[inline]
    pub fn accumulate_at_once(
        &self,
        source: &Region,
        target: &TargetElement,
        operation: Predefined,
    ) -> bool {
        if source.len() == target.basic.size()
            && WordOperation::of(operation, target.basic).is_some()
        {
            return self.combine_element(target, operation, source, None);
        }
        let Some((exposed, at)) = self.place(target.rank, target.displacement) else {
            return false;
        };
        let Ok(combine) = Combine::new(operation, target.basic) else {
            return false;
        };
        let is_lost = |rank| self.is_lost(rank);
        let done = exposed.try_combine_piece(at, &combine, source, &is_lost);
        self.count_stores_if(done)
    }

    /// `MPI_Fetch_and_op`, if it can be done at once: of an element that the processor changes at once, in memory that
    /// this rank loads and stores, within an epoch. Returns whether it was done; else
    /// [`get_accumulate`](Self::get_accumulate) does it, or returns the error. The source of `MPI_NO_OP` is not used, but
    /// has the same length.
    #[inline(always)]
    pub fn fetch_and_op_at_once(
        &self,
        target: &TargetElement,
        operation: Predefined,
        source: &Region,
        into: &Region,
    ) -> bool {
        self.combine_element(target, operation, source, Some(into))
    }

    #[inline(always)]
    fn combine_element(
        &self,
        target: &TargetElement,
        operation: Predefined,
        source: &Region,
        into: Option<&Region>,
    ) -> bool {
        let Some(operation) = WordOperation::of(operation, target.basic) else {
            return false;
        };
        let Some((exposed, at)) = self.place(target.rank, target.displacement) else {
            return false;
        };
        if operation.only_reads() {
            self.stores.drain();
        }
        let stored = exposed.try_combine_word(at, operation, source, into);
        if stored == Some(true) {
            self.stores.note();
        }
        self.count_if(stored.is_some())
    }

    /// `MPI_Compare_and_swap`, if it can be done at once, like [`fetch_and_op_at_once`](Self::fetch_and_op_at_once).
    /// `sides`: the value to compare with, the value to write, and where to fetch to.
    #[inline(always)]
    pub fn compare_and_swap_at_once(&self, target: &TargetElement, sides: [&Region; 3]) -> bool {
        if !target.basic.is_compared() {
            return false;
        }
        let Some((exposed, at)) = self.place(target.rank, target.displacement) else {
            return false;
        };
        let stored = exposed.try_swap_word(at, target.basic.size(), sides);
        if stored == Some(true) {
            self.stores.note();
        }
        self.count_if(stored.is_some())
    }

    /// An operation was carried out. Those of threads at the same moment may be counted once.
    #[inline(always)]
    pub(super) fn count(&self) {
        let count = self.direct.load(Relaxed);
        self.direct.store(count.wrapping_add(1), Relaxed);
    }

    #[inline(always)]
    fn count_if(&self, done: bool) -> bool {
        if done {
            self.count();
        }
        done
    }

    /// Something was stored, if it was done.
    #[inline(always)]
    fn count_stores_if(&self, done: bool) -> bool {
        if done {
            self.count();
            self.stores.note();
        }
        done
    }
}
