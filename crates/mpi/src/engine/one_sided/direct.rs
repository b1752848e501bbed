//! Direct access: an operation on memory that this rank can access, its own or shared memory, without a message.

use std::ops::Range;
use std::sync::Arc;

use weft_fabric::SharedBytes;

use super::WindowMemory;
use super::operation::{Access, ELEMENT_MAX};
use crate::buffer::Buffer;
use crate::datatype::{Datatype, StridedBlock};
use crate::exposed::{CHUNK, Exposed, IsLost};

/// What is done to blocks of a span of memory, with what their base is there, and which bytes of all they are.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&Exposed, i64, &[StridedBlock], Range<usize>) -> bool;

/// Memory that operations reach.
pub(crate) trait Reach {
    /// The span of memory that all blocks lie in, with what their base is there.
    fn reach(&self, base: i64, blocks: &[StridedBlock], bytes: usize) -> Option<(&Exposed, i64)>;

    /// Visits all blocks in their order, or, if no span has all, parts of them that lie in one each. False if that said so, or if
    /// there is no memory for some: those before have been visited.
    fn visit(&self, base: i64, blocks: &[StridedBlock], bytes: usize, visit: Visit<'_>) -> bool {
        self.reach(base, blocks, bytes)
            .is_some_and(|(exposed, base)| visit(exposed, base, blocks, 0..bytes))
    }
}

impl Reach for Exposed {
    #[inline]
    fn reach(&self, base: i64, _: &[StridedBlock], _: usize) -> Option<(&Exposed, i64)> {
        Some((self, base))
    }
}

impl Reach for WindowMemory {
    fn reach(&self, base: i64, blocks: &[StridedBlock], bytes: usize) -> Option<(&Exposed, i64)> {
        match self {
            Self::Fixed(exposed) => exposed
                .holds(base, blocks, bytes)
                .then_some((exposed, base)),
            Self::Attached(all) => all.find(base, blocks, bytes),
        }
    }

    fn visit(&self, base: i64, blocks: &[StridedBlock], bytes: usize, visit: Visit<'_>) -> bool {
        match (self.reach(base, blocks, bytes), self) {
            (Some((exposed, base)), _) => visit(exposed, base, blocks, 0..bytes),
            (None, Self::Attached(all)) => all.visit_parts(base, blocks, visit),
            (None, Self::Fixed(_)) => false,
        }
    }
}

/// Does the access on `count` elements of `datatype` from byte `base` of `memory`. False if it does not hold them: what lies
/// before the first element that is missing may be done. `is_lost` is asked while another member combines elements.
#[inline]
pub(crate) fn apply(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    count: usize,
    datatype: &Arc<Datatype>,
    is_lost: IsLost<'_>,
) -> bool {
    let Some((offset, bytes)) = datatype.flat(count) else {
        return apply_in_place(memory, access, base, count, datatype, is_lost)
            || apply_chunks(memory, access, base, count, datatype, is_lost);
    };
    let block = StridedBlock {
        offset,
        bytes,
        count: 1,
        stride: 0,
    };
    let Some((exposed, own)) = memory.reach(base, &[block], bytes) else {
        return false;
    };
    let at = own.wrapping_add(offset as i64);
    match access {
        Access::Put(Buffer::Flat(source, _)) => {
            let span = exposed.span(at, bytes);
            span.is_some_and(|span| span.copy_from(source) == bytes)
        }
        Access::Get(Buffer::Flat(into, _)) => {
            let span = exposed.span(at, bytes);
            span.is_some_and(|span| into.copy_from(&span) == bytes)
        }
        Access::Put(source @ Buffer::Typed(_)) => {
            let span = exposed.span(at, bytes).map(Buffer::untyped);
            span.map(|span| source.copy_to(&span)).is_some()
        }
        Access::Get(into @ Buffer::Typed(_)) => {
            let span = exposed.span(at, bytes).map(Buffer::untyped);
            span.map(|span| span.copy_to(into)).is_some()
        }
        Access::Accumulate(combine, Buffer::Flat(source, _))
            if let Some(done) = exposed.combine_piece(at, combine, source, is_lost) =>
        {
            done
        }
        _ if bytes <= ELEMENT_MAX && bytes == access.unit() => {
            let (mut operand, mut fetched) = ([0; ELEMENT_MAX], [0; ELEMENT_MAX]);
            let chunk = Chunk {
                from: 0,
                operand: &mut operand[..bytes],
                fetched: &mut fetched[..bytes],
            };
            chunk.apply(exposed, access, own, &[block], is_lost)
        }
        _ => apply_chunks(memory, access, base, count, datatype, is_lost),
    }
}

/// Does the access on elements with gaps that lie in one piece of memory, gaps included, without lists of blocks. False, and nothing done, for
/// any others, and if elements are combined without a lock.
#[inline]
fn apply_in_place(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    count: usize,
    datatype: &Arc<Datatype>,
    is_lost: IsLost<'_>,
) -> bool {
    let Ok((offset, bytes)) = datatype.footprint(count) else {
        return false;
    };
    let whole = StridedBlock {
        offset,
        bytes,
        count: 1,
        stride: 0,
    };
    let Some((exposed, own)) = memory.reach(base, &[whole], bytes) else {
        return false;
    };
    let elements = (count, datatype);
    match access {
        Access::Put(source) => exposed.put_elements(own, elements, source),
        Access::Get(into) => exposed.get_elements(own, elements, into),
        Access::Accumulate(combine, source) => {
            exposed.combine_elements(own, elements, combine, (Some(source), None), is_lost)
        }
        Access::GetAccumulate(combine, source, into) => {
            let sides = (source.as_ref(), Some(into));
            exposed.combine_elements(own, elements, combine, sides, is_lost)
        }
        Access::CompareAndSwap { .. } => false,
    }
}

/// Some bytes of an access, with room for what goes there and what comes from there.
struct Chunk<'a> {
    /// Bytes of data before it.
    from: usize,
    operand: &'a mut [u8],
    fetched: &'a mut [u8],
}

impl Chunk<'_> {
    #[inline]
    fn apply(
        self,
        exposed: &Exposed,
        access: &Access,
        base: i64,
        blocks: &[StridedBlock],
        is_lost: IsLost<'_>,
    ) -> bool {
        let Self {
            from,
            operand,
            fetched,
        } = self;
        let bytes = operand.len();
        if let Some(source) = access.source() {
            source.pack_from(from, operand);
        }
        let done = match access {
            Access::Put(_) => exposed.put(base, blocks, SharedBytes::of(operand)),
            Access::Get(_) => exposed.get(base, blocks, fetched),
            Access::Accumulate(combine, _) => {
                exposed.combine(base, blocks, combine, (operand, None), is_lost)
            }
            Access::GetAccumulate(combine, ..) => {
                exposed.combine(base, blocks, combine, (operand, Some(fetched)), is_lost)
            }
            Access::CompareAndSwap { compare, new, .. } => {
                let at = base.wrapping_add(blocks.first().map_or(0, |block| block.offset as i64));
                let (compare, new) = (&compare[..bytes], &new[..bytes]);
                exposed.compare_and_swap(at, compare, new, fetched, is_lost)
            }
        };
        if done && let Some(result) = access.result() {
            result.unpack_from(from, fetched);
        }
        done
    }
}

fn apply_chunks(
    memory: &impl Reach,
    access: &Access,
    base: i64,
    count: usize,
    datatype: &Arc<Datatype>,
    is_lost: IsLost<'_>,
) -> bool {
    let total = datatype.size() * count;
    let unit = access.unit();
    let chunk = (CHUNK / unit).max(1) * unit;
    let (mut operand, mut fetched) = ([0; CHUNK], [0; CHUNK]);
    let mut from = 0;
    while from < total {
        let bytes = chunk.min(total - from);
        let blocks = datatype.strided_blocks(count, from, bytes);
        let done = memory.visit(base, &blocks, bytes, &mut |exposed, base, blocks, part| {
            let chunk = Chunk {
                from: from + part.start,
                operand: &mut operand[part.clone()],
                fetched: &mut fetched[part],
            };
            chunk.apply(exposed, access, base, blocks, is_lost)
        });
        if !done {
            return false;
        }
        from += bytes;
    }
    true
}
