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
        let run = Run {
            offset,
            bytes,
            count: 1,
            stride: 0,
        };
        if let Some(done) = apply_whole(memory, access, base, &[run], bytes) {
            return done;
        }
    }
    apply_chunks(memory, access, base, count, datatype)
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

fn apply_chunks(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    count: usize,
    datatype: &Arc<Datatype>,
) -> bool {
    let total = datatype.size() * count;
    let unit = access.unit();
    let chunk = (CHUNK / unit).max(1) * unit;
    let (mut operand, mut fetched) = ([0; CHUNK], [0; CHUNK]);
    let mut from = 0;
    while from < total {
        let bytes = chunk.min(total - from);
        let (operand, fetched) = (&mut operand[..bytes], &mut fetched[..bytes]);
        let runs = datatype.runs(count, from, bytes);
        if let Some(source) = access.source() {
            source.pack_from(from, operand);
        }
        let Some((exposed, base)) = memory.reach(base, &runs, bytes) else {
            return false;
        };
        let done = match access {
            Access::Put(_) => exposed.put(base, &runs, SharedBytes::of(operand)),
            Access::Get(_) => exposed.get(base, &runs, fetched),
            Access::Accumulate(combine, _) => exposed.combine(base, &runs, combine, operand, None),
            Access::GetAccumulate(combine, ..) => {
                exposed.combine(base, &runs, combine, operand, Some(fetched))
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
