//! Direct access: an operation on memory that this rank can reach, its own or memory that it shares, without a message.

use std::sync::Arc;

use weft_fabric::SharedBytes;

use super::WindowMemory;
use super::operation::Access;
use crate::buffer::{self, Buffer};
use crate::datatype::{Datatype, Run};
use crate::exposed::Exposed;

/// Bytes that are packed at a time: on the stack, which is small for fibers. Holds whole elements of every size.
const CHUNK: usize = 2048 / 96 * 96;

/// Bytes of the largest element that the processor can change at once.
const WORD: usize = 8;

/// Bytes of an operation on an element or a few: less of the stack has to be made zeros.
const FEW: usize = 64;

/// Finds the memory that runs lie in, with what their base is there.
pub(crate) trait Reach {
    fn reach(&self, base: i64, runs: &[Run], bytes: usize) -> Option<(&Exposed, i64)>;
}

impl Reach for Exposed {
    #[inline]
    fn reach(&self, base: i64, _: &[Run], _: usize) -> Option<(&Exposed, i64)> {
        Some((self, base))
    }
}

impl Reach for WindowMemory {
    fn reach(&self, base: i64, runs: &[Run], bytes: usize) -> Option<(&Exposed, i64)> {
        self.find(base, runs, bytes)
    }
}

/// Does the access on `count` elements of `datatype` from byte `base` of `memory`. False if it does not hold them: what lies
/// before the first element that is missing may be done.
#[inline]
pub(crate) fn apply(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    count: usize,
    datatype: &Arc<Datatype>,
) -> bool {
    if let Some((offset, bytes)) = datatype.flat(count) {
        if let Some(done) = apply_whole(memory, access, base, &[Run::once(offset, bytes)], bytes) {
            return done;
        }
        if bytes <= WORD
            && let Some(done) = apply_element(memory, access, base, offset, bytes)
        {
            return done;
        }
        let runs = |from: usize, bytes| [Run::once(offset + from.cast_signed(), bytes)];
        return match bytes {
            ..=FEW => apply_chunks::<FEW, _>(memory, access, base, bytes, runs),
            _ => apply_chunks::<CHUNK, _>(memory, access, base, bytes, runs),
        };
    }
    let runs = |from, bytes| datatype.runs(count, from, bytes);
    apply_chunks::<CHUNK, _>(memory, access, base, datatype.size() * count, runs)
}

/// Contiguous data on both sides, in one go; `None` if it must be done chunk by chunk.
#[inline]
fn apply_whole(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    runs: &[Run],
    bytes: usize,
) -> Option<bool> {
    match access {
        Access::Put(Buffer::Flat(source)) => {
            let data = SharedBytes::of(buffer::bytes_of(source));
            let found = memory.reach(base, runs, bytes);
            Some(found.is_some_and(|(exposed, base)| exposed.put(base, runs, data)))
        }
        Access::Get(Buffer::Flat(into)) => {
            let found = memory.reach(base, runs, bytes);
            Some(found.is_some_and(|(exposed, base)| exposed.get_into(base, runs, into)))
        }
        _ => None,
    }
}

/// One element that the processor can change at once; `None` if it is none, or must be done as others are.
#[inline]
fn apply_element(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    offset: isize,
    bytes: usize,
) -> Option<bool> {
    let (combine, source, result) = match access {
        Access::Accumulate(combine, source) => (combine, Some(source), None),
        Access::GetAccumulate(combine, source, result) => (combine, source.as_ref(), Some(result)),
        Access::Put(_) | Access::Get(_) | Access::CompareAndSwap { .. } => return None,
    };
    let (exposed, base) = memory.reach(base, &[Run::once(offset, bytes)], bytes)?;
    let at = usize::try_from(base.checked_add(offset as i64)?).ok()?;
    let (mut operand, mut fetched) = ([0; WORD], [0; WORD]);
    let (operand, fetched) = (&mut operand[..bytes], &mut fetched[..bytes]);
    match source {
        Some(Buffer::Flat(source)) => _ = source.copy_to_slice(operand),
        Some(Buffer::Typed(_)) => return None,
        None => {}
    }
    let wanted = result.is_some().then_some(&mut *fetched);
    if !exposed.combine_element(at, combine, operand, wanted) {
        return None;
    }
    if let Some(result) = result {
        result.unpack_from(0, fetched);
    }
    Some(true)
}

/// `ROOM` bytes at a time. `runs` says where so many bytes of the data lie from a given one on.
fn apply_chunks<const ROOM: usize, R: AsRef<[Run]>>(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    total: usize,
    runs: impl Fn(usize, usize) -> R,
) -> bool {
    let unit = access.unit();
    // All of it, if it fits: then it is whole elements.
    let chunk = if total <= ROOM {
        total
    } else {
        (ROOM / unit).max(1) * unit
    };
    let (mut operand, mut fetched) = ([0; ROOM], [0; ROOM]);
    let mut from = 0;
    while from < total {
        let bytes = chunk.min(total - from);
        let (operand, fetched) = (&mut operand[..bytes], &mut fetched[..bytes]);
        let runs = runs(from, bytes);
        let runs = runs.as_ref();
        if let Some(source) = access.source() {
            source.pack_from(from, operand);
        }
        let Some((exposed, base)) = memory.reach(base, runs, bytes) else {
            return false;
        };
        let done = match access {
            Access::Put(_) => exposed.put(base, runs, SharedBytes::of(operand)),
            Access::Get(_) => exposed.get(base, runs, fetched),
            Access::Accumulate(combine, _) => exposed.combine(base, runs, combine, operand, None),
            Access::GetAccumulate(combine, ..) => {
                exposed.combine(base, runs, combine, operand, Some(fetched))
            }
            Access::CompareAndSwap { compare, new, .. } => {
                let at = base.wrapping_add(runs.first().map_or(0, |run| run.offset as i64));
                exposed.compare_and_swap(at, &compare[..bytes], &new[..bytes], fetched)
            }
        };
        if !done {
            return false;
        }
        if let Some(result) = access.result() {
            result.unpack_from(from, fetched);
        }
        from += bytes;
    }
    true
}
