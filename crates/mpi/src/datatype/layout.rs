//! Layout of a datatype: where its bytes lie, as a tree that stays small for any number of elements.
//!
//! ```text
//!   Block            bytes in one piece
//!   Repeat           the same body again and again, a stride apart        (vector)
//!   Even             pieces of one size at given displacements            (indexed block)
//!   Blocks           pieces at given displacements                        (indexed, struct)
//!   Sequence         bodies at given displacements                        (struct of vectors)
//! ```
//!
//! The order is that of the type map, which is the order of packing; it need not be that of memory. Pieces that follow
//! each other both in the map and in memory are one piece. A [walk](super::walk) turns a tree into loop nests; only
//! [`copying`](super::copying) touches memory.

use std::sync::Arc;

use super::nested::{Nested, drop_children};
use super::walk::{Run, Spot, Visit};
use crate::error::{Error, ErrorClass, Result};

/// Nesting of a tree. A walk descends so many levels for each subtree that it recurs into.
const DEEPEST: u32 = 64;
/// Pieces that a tree which is nested deeper may be spread out to.
const SPREAD: u64 = 1 << 22;
/// A list of at most so many pieces is spliced into the list around it.
const SPLICED: usize = 4;

/// A part of a layout, at displacement 0.
#[derive(Debug)]
pub(super) struct Node {
    /// Bytes of data, at least 1.
    pub bytes: usize,
    pub shape: Shape,
    pub depth: u32,
    /// How many pieces.
    pieces: u64,
}

/// The kinds of node: see the drawing at the head of this file.
#[derive(Debug)]
pub(super) enum Shape {
    Block,
    Repeat {
        count: usize,
        stride: isize,
        body: Arc<Node>,
    },
    Even {
        piece: usize,
        offsets: Box<[isize]>,
    },
    Blocks(Box<[Piece]>),
    Sequence(Box<[Subtree]>),
}

/// One piece of [`Shape::Blocks`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Its offset.
    pub offset: isize,
    /// Bytes of data before it.
    pub before: usize,
    pub bytes: usize,
}

/// One subtree of [`Shape::Sequence`].
#[derive(Debug)]
pub(super) struct Subtree {
    pub offset: isize,
    pub before: usize,
    pub node: Arc<Node>,
}

/// A layout: a tree at a displacement, or nothing.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub offset: isize,
    /// `None` if there are no data.
    pub node: Option<Arc<Node>>,
}

impl Layout {
    pub const EMPTY: Self = Self {
        offset: 0,
        node: None,
    };

    /// One piece of `bytes` bytes.
    pub fn block(bytes: usize) -> Self {
        if bytes == 0 {
            Self::EMPTY
        } else {
            Self {
                offset: 0,
                node: Some(Node::block(bytes)),
            }
        }
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.node.as_ref().map_or(0, |node| node.bytes)
    }

    /// The piece that it is, if it is one.
    pub fn span(&self) -> Option<(isize, usize)> {
        match &self.node {
            None => Some((0, 0)),
            Some(node) if matches!(node.shape, Shape::Block) => Some((self.offset, node.bytes)),
            Some(_) => None,
        }
    }

    /// `count` times the same, `stride` apart. The caller has checked that all bounds and the sum of
    /// bytes fit (see `Bounds`).
    pub fn repeated(&self, count: usize, stride: isize) -> Result<Self> {
        let Some(node) = &self.node else {
            return Ok(Self::EMPTY);
        };
        if count == 0 {
            return Ok(Self::EMPTY);
        }
        let repeated = match &node.shape {
            _ if count == 1 => return Ok(self.clone()),
            Shape::Block if stride == node.bytes.cast_signed() => Self::block(node.bytes * count),
            Shape::Repeat {
                count: inner,
                stride: step,
                body,
            } if stride == step.wrapping_mul(inner.cast_signed()) => {
                Node::repeat(inner * count, *step, body)?
            }
            _ => Node::repeat(count, stride, node)?,
        };
        Ok(repeated.shifted(self.offset))
    }

    /// The same, `by` bytes further on.
    pub fn shifted(&self, by: isize) -> Self {
        Self {
            offset: self.offset.wrapping_add(by),
            node: self.node.clone(),
        }
    }

    /// These one after the other.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut list = List::default();
        for part in parts {
            if let Some(node) = &part.node {
                list.push(part.offset, node);
            }
        }
        list.finish()
    }
}

impl Node {
    fn block(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            shape: Shape::Block,
            depth: 0,
            pieces: 1,
        })
    }

    fn repeat(count: usize, stride: isize, body: &Arc<Self>) -> Result<Layout> {
        Arc::new(Self {
            bytes: body.bytes * count,
            depth: body.depth + 1,
            pieces: body.pieces.saturating_mul(count as u64),
            shape: Shape::Repeat {
                count,
                stride,
                body: Arc::clone(body),
            },
        })
        .bounded()
    }

    /// The same, but not nested deeper than a walk may go.
    fn bounded(self: Arc<Self>) -> Result<Layout> {
        if self.depth <= DEEPEST {
            return Ok(Layout {
                offset: 0,
                node: Some(self),
            });
        }
        if self.pieces > SPREAD {
            return Err(Error::new(
                ErrorClass::NoMem,
                format!(
                    "the datatype is nested {} deep and has {} pieces, too many to list; build it from fewer constructors",
                    self.depth, self.pieces
                ),
            ));
        }
        let mut list = List::default();
        for (offset, bytes) in self.spread() {
            list.push_block(offset, bytes);
        }
        list.finish()
    }

    /// Number of pieces.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// All pieces, in the order of packing.
    fn spread(&self) -> Vec<(isize, usize)> {
        #[derive(Default)]
        struct Gather(Vec<(usize, isize, usize)>);
        impl Visit for Gather {
            fn run(&mut self, run: &Run) {
                let once = |position, offset| self.0.push((position, offset, run.bytes));
                run.for_each(once);
            }
        }
        let mut gather = Gather::default();
        self.walk(Spot::START, 0, self.bytes, &mut gather);
        // A walk takes loops in the order that suits the processor.
        gather.0.sort_unstable();
        let piece = |(_, offset, bytes)| (offset, bytes);
        gather.0.into_iter().map(piece).collect()
    }
}

impl Nested for Node {
    fn take_children(&mut self, into: &mut Vec<Arc<Self>>) {
        match std::mem::replace(&mut self.shape, Shape::Block) {
            Shape::Block | Shape::Even { .. } | Shape::Blocks(_) => {}
            Shape::Repeat { body, .. } => into.push(body),
            Shape::Sequence(parts) => into.extend(parts.into_iter().map(|part| part.node)),
        }
    }

    fn has_children(&self) -> bool {
        matches!(self.shape, Shape::Repeat { .. } | Shape::Sequence(_))
    }

    fn has_grandchildren(&self) -> bool {
        match &self.shape {
            Shape::Block | Shape::Even { .. } | Shape::Blocks(_) => false,
            Shape::Repeat { body, .. } => body.has_children(),
            Shape::Sequence(parts) => parts.iter().any(|part| part.node.has_children()),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop_children(self);
    }
}

/// One part of a sequence.
#[derive(Clone)]
enum Part {
    /// One piece of so many bytes.
    Block(usize),
    Tree(Arc<Node>),
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Block(bytes) => *bytes,
            Self::Tree(node) => node.bytes,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Block(bytes), Self::Block(others)) => bytes == others,
            (Self::Tree(node), Self::Tree(other)) => Arc::ptr_eq(node, other),
            _ => false,
        }
    }

    fn into_node(self) -> Arc<Node> {
        match self {
            Self::Block(bytes) => Node::block(bytes),
            Self::Tree(node) => node,
        }
    }
}

/// Collects the parts of a sequence, by their displacements, and finds its simplest shape.
#[derive(Default)]
pub(super) struct List {
    parts: Vec<(isize, Part)>,
    /// The last tree that was repeated, how often and how far apart, and the result: blocks that follow each other are mostly the same.
    repeated: Option<(Arc<Node>, (usize, isize), Layout)>,
}

impl List {
    pub fn with_room_for(parts: usize) -> Self {
        Self {
            parts: Vec::with_capacity(parts),
            repeated: None,
        }
    }

    /// Appends `count` times a layout, `stride` apart, from `at` on. The caller has checked that the sum of bytes fits, and checks
    /// the bounds of all.
    pub fn append(
        &mut self,
        layout: &Layout,
        (count, stride): (usize, isize),
        at: isize,
    ) -> Result<()> {
        let Some(node) = &layout.node else {
            return Ok(());
        };
        let offset = layout.offset.wrapping_add(at);
        match node.shape {
            Shape::Block if count == 1 || stride == node.bytes.cast_signed() => {
                self.push_block(offset, node.bytes * count);
            }
            _ if count == 1 => self.push(offset, node),
            _ => {
                let tree = match self.repeated.take() {
                    Some(last) if Arc::ptr_eq(&last.0, node) && last.1 == (count, stride) => last.2,
                    _ => Layout {
                        offset: 0,
                        node: Some(Arc::clone(node)),
                    }
                    .repeated(count, stride)?,
                };
                if let Some(node) = &tree.node {
                    self.push(offset.wrapping_add(tree.offset), node);
                }
                self.repeated = Some((Arc::clone(node), (count, stride), tree));
            }
        }
        Ok(())
    }

    fn push(&mut self, offset: isize, node: &Arc<Node>) {
        match &node.shape {
            Shape::Blocks(pieces) if pieces.len() <= SPLICED => {
                for piece in pieces {
                    self.push_block(offset.wrapping_add(piece.offset), piece.bytes);
                }
            }
            Shape::Even { piece, offsets } if offsets.len() <= SPLICED => {
                for inner in offsets {
                    self.push_block(offset.wrapping_add(*inner), *piece);
                }
            }
            Shape::Block => self.push_block(offset, node.bytes),
            _ => self.parts.push((offset, Part::Tree(Arc::clone(node)))),
        }
    }

    fn push_block(&mut self, offset: isize, bytes: usize) {
        if let Some((place, Part::Block(last))) = self.parts.last_mut()
            && place.wrapping_add(last.cast_signed()) == offset
        {
            *last += bytes;
            return;
        }
        self.parts.push((offset, Part::Block(bytes)));
    }

    /// The stride, if the parts are the same thing at equal distances.
    fn regular(&self) -> Option<isize> {
        let [(first, part), (second, _), ..] = &self.parts[..] else {
            return None;
        };
        let stride = second.checked_sub(*first)?;
        let even = self
            .parts
            .windows(2)
            .all(|pair| pair[0].0.checked_add(stride) == Some(pair[1].0));
        (even && self.parts.iter().all(|(_, other)| part.is_same(other))).then_some(stride)
    }

    pub fn finish(mut self) -> Result<Layout> {
        if self.parts.len() <= 1 {
            return Ok(match self.parts.pop() {
                Some((offset, part)) => Layout {
                    offset,
                    node: Some(part.into_node()),
                },
                None => Layout::EMPTY,
            });
        }
        if let Some(stride) = self.regular() {
            let (count, (offset, part)) = (self.parts.len(), self.parts.swap_remove(0));
            return Layout {
                offset,
                node: Some(part.into_node()),
            }
            .repeated(count, stride);
        }
        self.irregular().bounded()
    }

    /// The node of parts of different kinds, or at different distances.
    fn irregular(self) -> Arc<Node> {
        let (mut depth, mut pieces, mut blocks, mut even) = (0, 0u64, true, true);
        let piece = self.parts.first().map_or(0, |(_, part)| part.bytes());
        for (_, part) in &self.parts {
            match part {
                Part::Block(bytes) => {
                    pieces = pieces.saturating_add(1);
                    even &= *bytes == piece;
                }
                Part::Tree(node) => {
                    pieces = pieces.saturating_add(node.pieces);
                    depth = depth.max(node.depth);
                    blocks = false;
                }
            }
        }
        let mut all = 0;
        let mut next = |bytes: usize| {
            all += bytes;
            all - bytes
        };
        let parts = self.parts.into_iter();
        let shape = if !blocks {
            let subtree = |(offset, part): (isize, Part)| Subtree {
                offset,
                before: next(part.bytes()),
                node: part.into_node(),
            };
            Shape::Sequence(parts.map(subtree).collect())
        } else if even {
            let offset = |(offset, part): (isize, Part)| {
                next(part.bytes());
                offset
            };
            Shape::Even {
                piece,
                offsets: parts.map(offset).collect(),
            }
        } else {
            let piece = |(offset, part): (isize, Part)| Piece {
                offset,
                before: next(part.bytes()),
                bytes: part.bytes(),
            };
            Shape::Blocks(parts.map(piece).collect())
        };
        Arc::new(Node {
            bytes: all,
            shape,
            depth: depth + 1,
            pieces,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks_of_trees_at_equal_distances_are_a_repetition() {
        let pair = Layout::block(8).repeated(2, 24).expect("small");
        let mut list = List::default();
        for block in 0..100 {
            list.append(&pair, (3, 64), block * 1000).expect("small");
        }
        let node = list.finish().expect("small").node.expect("it has data");
        let Shape::Repeat {
            count: 100,
            stride: 1000,
            ..
        } = node.shape
        else {
            panic!("{node:?}");
        };
        assert_eq!((node.bytes, node.pieces()), (4800, 600));
    }
}
