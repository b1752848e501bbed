//! Pieces of a datatype: where its data lie, for whoever looks at a file through it (MPI 5.0, section 14.3).

use std::collections::HashMap;

use super::Datatype;
use super::layout::{Node, Shape, Visit};

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

/// A visit that hands on what it gets.
struct Handing<F>(F);

impl<F: FnMut(isize, usize, isize, usize)> Visit for Handing<F> {
    fn block(&mut self, offset: isize, bytes: usize) {
        (self.0)(offset, 1, 0, bytes);
    }

    fn strided(&mut self, offset: isize, count: usize, stride: isize, bytes: usize) {
        (self.0)(offset, count, stride, bytes);
    }
}

impl Datatype {
    /// Calls `visit` with (offset, number, stride, bytes of each) of the pieces that hold the `length` bytes of data from byte `from`
    /// of elements repeated without end.
    pub fn pieces(
        &self,
        from: usize,
        length: usize,
        visit: impl FnMut(isize, usize, isize, usize),
    ) {
        self.walk(usize::MAX, from, length, &mut Handing(visit));
    }

    /// How many pieces an element has: those that touch may be counted apart.
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
        });
        assert_eq!(found, [(2, 2), (12, 4), (32, 4), (44, 4), (64, 1)]);
    }
}
