//! Pieces of a datatype: where its data lie, for access to a file through it (MPI 5.0, section 14.3).

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::Datatype;
use super::layout::{Node, Shape};

/// Whether the pieces of a datatype come in the order in which they lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PieceOrder {
    /// Some piece begins before the one that it follows.
    Decreasing,
    /// None does, but some overlap.
    Overlapping,
    /// Each begins where the one before has ended, or later.
    Disjoint,
}

/// What is known of the pieces of a subtree.
#[derive(Clone, Copy)]
struct Bounds {
    order: PieceOrder,
    /// Where the first piece begins.
    first: isize,
    /// Where the last piece begins, and where it ends.
    last: (isize, isize),
}

impl Bounds {
    /// How a piece that begins at `next` follows.
    fn followed_by(&self, next: isize) -> PieceOrder {
        if next >= self.last.1 {
            PieceOrder::Disjoint
        } else if next >= self.last.0 {
            PieceOrder::Overlapping
        } else {
            PieceOrder::Decreasing
        }
    }
}

/// Nesting that a walk recurs into: stacks of fibers are small.
const SHALLOW: u32 = 6;

/// Whether a walk goes on.
type Going = ControlFlow<()>;

impl Datatype {
    /// Calls `visit` with (offset, number, stride, bytes of each) of the pieces that hold the `length` bytes of data from
    /// byte `from` of endlessly repeated elements, in the order of the data, until `visit` stops it.
    pub fn pieces(
        &self,
        from: usize,
        length: usize,
        mut visit: impl FnMut(isize, usize, isize, usize) -> ControlFlow<()>,
    ) {
        if let Some(body) = self.layout.node.as_deref() {
            let first = self.layout.offset;
            let _ended = repeat(body, self.extent(), first, from, length, &mut visit);
        }
    }

    /// Number of pieces of an element; touching pieces may be counted separately.
    #[must_use]
    pub fn piece_count(&self) -> u64 {
        self.layout.node.as_ref().map_or(0, |node| node.pieces())
    }

    /// Whether the pieces of an element come in order.
    #[must_use]
    pub fn piece_order(&self) -> PieceOrder {
        let Some(node) = &self.layout.node else {
            return PieceOrder::Disjoint;
        };
        bounds(node, &mut HashMap::new()).order
    }

    /// Whether the pieces of elements repeated without end come in order.
    #[must_use]
    pub fn repeated_order(&self) -> PieceOrder {
        let Some(node) = &self.layout.node else {
            return PieceOrder::Disjoint;
        };
        let inner = bounds(node, &mut HashMap::new());
        let next = inner.first.saturating_add(self.extent());
        inner.order.min(inner.followed_by(next))
    }
}

/// Visits `length` bytes of the data from byte `from` of a body repeated without end.
fn repeat(
    body: &Node,
    stride: isize,
    first: isize,
    from: usize,
    length: usize,
    visit: &mut impl FnMut(isize, usize, isize, usize) -> Going,
) -> Going {
    let bytes = body.bytes;
    let at = |index: usize| first.wrapping_add(stride.wrapping_mul(index.cast_signed()));
    let (mut index, mut skip) = (from / bytes, from % bytes);
    let mut left = length;
    while left > 0 {
        let whole = left / bytes;
        if skip == 0 && whole > 0 && matches!(body.shape, Shape::Block) {
            visit(at(index), whole, stride, bytes)?;
            left -= whole * bytes;
            index += whole;
            continue;
        }
        let part = left.min(bytes - skip);
        walk(body, at(index), skip, part, visit)?;
        left -= part;
        skip = 0;
        index += 1;
    }
    Going::Continue(())
}

/// Visits `length` bytes of the data of a tree from byte `from`; all of them are there.
fn walk(
    node: &Node,
    offset: isize,
    from: usize,
    length: usize,
    visit: &mut impl FnMut(isize, usize, isize, usize) -> Going,
) -> Going {
    if node.depth > SHALLOW {
        return walk_deep(node, offset, from, length, visit);
    }
    match &node.shape {
        Shape::Block => visit(offset.wrapping_add(from.cast_signed()), 1, 0, length),
        Shape::Repeat { stride, body, .. } => repeat(body, *stride, offset, from, length, visit),
        Shape::Even { piece, offsets } => {
            let (mut skip, mut left) = (from % piece, length);
            for place in &offsets[from / piece..] {
                if left == 0 {
                    break;
                }
                let bytes = left.min(piece - skip);
                let place = offset.wrapping_add(*place).wrapping_add(skip.cast_signed());
                visit(place, 1, 0, bytes)?;
                (left, skip) = (left - bytes, 0);
            }
            Going::Continue(())
        }
        Shape::Blocks(pieces) => {
            let first = pieces.partition_point(|piece| piece.before + piece.bytes <= from);
            let mut left = length;
            for piece in &pieces[first..] {
                if left == 0 {
                    break;
                }
                let skip = from.saturating_sub(piece.before);
                let bytes = left.min(piece.bytes - skip);
                let place = offset.wrapping_add(piece.offset);
                visit(place.wrapping_add(skip.cast_signed()), 1, 0, bytes)?;
                left -= bytes;
            }
            Going::Continue(())
        }
        Shape::Sequence(parts) => {
            let first = parts.partition_point(|part| part.before + part.node.bytes <= from);
            let mut left = length;
            for part in &parts[first..] {
                if left == 0 {
                    break;
                }
                let skip = from.saturating_sub(part.before);
                let bytes = left.min(part.node.bytes - skip);
                walk(
                    &part.node,
                    offset.wrapping_add(part.offset),
                    skip,
                    bytes,
                    visit,
                )?;
                left -= bytes;
            }
            Going::Continue(())
        }
    }
}

/// As [`walk`], one shallow subtree after the other, each found from the top.
fn walk_deep(
    node: &Node,
    offset: isize,
    mut from: usize,
    length: usize,
    visit: &mut impl FnMut(isize, usize, isize, usize) -> Going,
) -> Going {
    let end = from + length;
    while from < end {
        let (subtree, at, skip) = descend(node, offset, from);
        let bytes = (end - from).min(subtree.bytes - skip);
        walk(subtree, at, skip, bytes, visit)?;
        from += bytes;
    }
    Going::Continue(())
}

/// The shallow subtree that byte `from` of the data is in, where it lies, and which of its bytes that is.
fn descend(mut node: &Node, mut offset: isize, mut from: usize) -> (&Node, isize, usize) {
    while node.depth > SHALLOW {
        match &node.shape {
            Shape::Block | Shape::Even { .. } | Shape::Blocks(_) => break,
            Shape::Repeat { stride, body, .. } => {
                let index = (from / body.bytes).cast_signed();
                offset = offset.wrapping_add(stride.wrapping_mul(index));
                from %= body.bytes;
                node = body;
            }
            Shape::Sequence(parts) => {
                let place = parts.partition_point(|part| part.before + part.node.bytes <= from);
                offset = offset.wrapping_add(parts[place].offset);
                from -= parts[place].before;
                node = &parts[place].node;
            }
        }
    }
    (node, offset, from)
}

/// Trees share subtrees; each is looked at once. They are not nested deeper than walks may go.
fn bounds(node: &Node, known: &mut HashMap<*const Node, Bounds>) -> Bounds {
    if let Some(found) = known.get(&std::ptr::from_ref(node)) {
        return *found;
    }
    let join = |before: Option<Bounds>, next: Bounds| match before {
        None => next,
        Some(before) => Bounds {
            order: before
                .order
                .min(next.order)
                .min(before.followed_by(next.first)),
            first: before.first,
            last: next.last,
        },
    };
    let shifted = |inner: Bounds, by: isize| Bounds {
        order: inner.order,
        first: inner.first.wrapping_add(by),
        last: (inner.last.0.wrapping_add(by), inner.last.1.wrapping_add(by)),
    };
    let block = |offset: isize, bytes: usize| Bounds {
        order: PieceOrder::Disjoint,
        first: offset,
        last: (offset, offset.wrapping_add(bytes.cast_signed())),
    };
    let found = match &node.shape {
        Shape::Block => block(0, node.bytes),
        Shape::Repeat {
            count,
            stride,
            body,
        } => {
            let inner = bounds(body, known);
            let second = join(Some(inner), shifted(inner, *stride));
            let end = stride.wrapping_mul((count - 1).cast_signed());
            Bounds {
                last: shifted(inner, end).last,
                ..second
            }
        }
        Shape::Even { piece, offsets } => offsets
            .iter()
            .fold(None, |before, offset| {
                Some(join(before, block(*offset, *piece)))
            })
            .unwrap_or_else(|| block(0, 0)),
        Shape::Blocks(pieces) => pieces
            .iter()
            .fold(None, |before, piece| {
                Some(join(before, block(piece.offset, piece.bytes)))
            })
            .unwrap_or_else(|| block(0, 0)),
        Shape::Sequence(parts) => parts
            .iter()
            .fold(None, |before, part| {
                let inner = shifted(bounds(&part.node, known), part.offset);
                Some(join(before, inner))
            })
            .unwrap_or_else(|| block(0, 0)),
    };
    known.insert(std::ptr::from_ref(node), found);
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::datatype::{Basic, Recipe};

    fn indexed(places: &[i64]) -> Arc<Datatype> {
        let recipe = Recipe::IndexedBlock {
            block: 2,
            displacements: places.into(),
            of: Arc::clone(Basic::Int.datatype()),
        };
        Datatype::build(recipe, false).unwrap()
    }

    #[test]
    fn the_order_of_pieces_is_told() {
        use PieceOrder::{Decreasing, Disjoint, Overlapping};
        let int = Basic::Int.datatype();
        let vector = |stride| Datatype::vector(3, 2, stride, int).unwrap();
        let nested = |stride| Datatype::vector(4, 1, stride, &indexed(&[0, 3, 7])).unwrap();
        for (datatype, expected) in [
            (Arc::clone(int), Disjoint),
            (vector(2), Disjoint),
            (vector(5), Disjoint),
            (vector(1), Overlapping),
            (vector(-3), Decreasing),
            (indexed(&[0, 2, 9]), Disjoint),
            (indexed(&[0, 1, 9]), Overlapping),
            (indexed(&[4, 0]), Decreasing),
            (nested(1), Disjoint),
            (nested(-1), Decreasing),
        ] {
            assert_eq!(datatype.piece_order(), expected, "{datatype:?}");
        }
    }

    #[test]
    fn repeated_elements_have_an_order_of_their_own() {
        let int = Basic::Int.datatype();
        let column = Datatype::vector(3, 1, 4, int).unwrap();
        let narrow = Datatype::resized(0, 4, &column).unwrap();
        assert_eq!(column.repeated_order(), PieceOrder::Disjoint);
        assert_eq!(narrow.piece_order(), PieceOrder::Disjoint);
        assert_eq!(narrow.repeated_order(), PieceOrder::Decreasing);
        let empty = Datatype::contiguous(0, int).unwrap();
        assert_eq!(empty.repeated_order(), PieceOrder::Disjoint);
    }

    #[test]
    fn pieces_are_those_of_the_data() {
        let row = Datatype::vector(2, 1, 3, Basic::Int.datatype()).unwrap();
        let row = Datatype::resized(0, 32, &row).unwrap();
        let mut found = Vec::new();
        row.pieces(2, 15, |offset, count, stride, bytes| {
            for index in 0..count {
                found.push((offset + stride * index.cast_signed(), bytes));
            }
            Going::Continue(())
        });
        assert_eq!(found, [(2, 2), (12, 4), (32, 4), (44, 4), (64, 1)]);
    }
}
