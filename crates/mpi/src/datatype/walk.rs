//! Walk over a layout: turns any part of a tree into loop nests over pieces of one size.
//!
//! ```text
//!   Times { count, stride, Node } ──walk(from, length)──► Run, Run, scattered pieces, Run, …
//!
//!   Run:  for outer { for inner { one piece of `bytes` bytes } }
//!           each loop: how often, how far apart in memory, how far apart among the packed data
//! ```
//!
//! A run knows both where its pieces lie in memory and where their data are when packed, so loops may be taken in the
//! fastest order. Elements of a struct are taken piece by piece, [two at a time](Visit::pairs), for some elements at a
//! time, not element by element: the method of copying is then chosen once for all of them, and they are still in the
//! cache when the next ones are taken. Short loops go outside.
//!
//! Everything here is arithmetic. `from` and `length` may cut pieces anywhere.

use super::layout::{Node, Piece, Shape};

/// Nesting that a walk recurs into: stacks of fibers are small.
const SHALLOW: u32 = 6;
/// Elements that are taken together, piece by piece, wherever they lie: few enough that those a page
/// apart stay in the first-level cache, many enough that choosing how to copy costs little beside copying.
const TOGETHER: usize = 32;
/// Bytes that elements which are taken together have, or cover with their gaps: half of a first-level cache.
const NEAR: usize = 16 << 10;
/// A loop of fewer turns is not worth being the inner one, if another is longer.
const SHORT: usize = 4;

/// A place: in memory, and among the packed data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// From the address of the first element.
    pub offset: isize,
    /// From the first byte of the walk.
    pub position: usize,
}

/// A loop over something that is `stride` apart in memory and `step` apart among the packed data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub count: usize,
    pub stride: isize,
    pub step: usize,
}

/// A loop nest over pieces of `bytes` bytes. No loop is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub first: Spot,
    pub bytes: usize,
    pub inner: Loop,
    pub outer: Loop,
}

/// Receives the pieces of a walk. Their order is not that of packing.
pub(super) trait Visit {
    /// A loop nest.
    fn run(&mut self, run: &Run);

    /// Pieces of one size, the first of which is at `first.position`; their offsets count from
    /// `first.offset`.
    #[inline]
    fn even(&mut self, mut first: Spot, bytes: usize, offsets: &[isize]) {
        for offset in offsets {
            self.run(&Run::once(first.moved(*offset, 0), bytes));
            first.position += bytes;
        }
    }

    /// Two pieces of each element, for each turn of a loop.
    #[inline]
    fn pairs(&mut self, first: Spot, turns: Loop, pieces: [Piece; 2]) {
        for piece in pieces {
            self.run(&Run::of_elements(first, turns, piece));
        }
    }

    /// All pieces of each element, for each turn of a loop.
    #[inline]
    fn elements(&mut self, first: Spot, turns: Loop, mut pieces: impl Iterator<Item = Piece>) {
        while let Some(one) = pieces.next() {
            match pieces.next() {
                Some(other) => self.pairs(first, turns, [one, other]),
                None => self.run(&Run::of_elements(first, turns, one)),
            }
        }
    }

    /// Pieces of any size; likewise.
    #[inline]
    fn pieces(&mut self, first: Spot, pieces: &[Piece]) {
        let before = pieces.first().map_or(0, |piece| piece.before);
        for piece in pieces {
            let spot = first.moved(piece.offset, piece.before - before);
            self.run(&Run::once(spot, piece.bytes));
        }
    }
}

impl Spot {
    pub const START: Self = Self {
        offset: 0,
        position: 0,
    };

    /// So much further on.
    #[inline]
    pub fn moved(self, offset: isize, position: usize) -> Self {
        Self {
            offset: self.offset.wrapping_add(offset),
            position: self.position + position,
        }
    }

    /// Where turn `index` of a loop is that begins here.
    #[inline]
    pub fn turn(self, index: usize, of: Loop) -> Self {
        let offset = of.stride.wrapping_mul(index.cast_signed());
        self.moved(offset, of.step * index)
    }
}

impl Loop {
    /// One turn.
    pub const ONCE: Self = Self {
        count: 1,
        stride: 0,
        step: 0,
    };

    /// So many of its turns.
    fn of(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

impl Run {
    /// One piece.
    #[inline]
    pub fn once(first: Spot, bytes: usize) -> Self {
        Self {
            first,
            bytes,
            inner: Loop::ONCE,
            outer: Loop::ONCE,
        }
    }

    /// One piece of each element, for each turn of a loop.
    #[inline]
    pub fn of_elements(first: Spot, turns: Loop, piece: Piece) -> Self {
        Self {
            first: first.moved(piece.offset, piece.before),
            bytes: piece.bytes,
            inner: turns,
            outer: Loop::ONCE,
        }
    }

    /// The end of its last piece among the packed data.
    #[inline]
    pub fn end(&self) -> usize {
        let last = |of: Loop| (of.count - 1) * of.step;
        self.first.position + last(self.inner) + last(self.outer) + self.bytes
    }

    /// Calls back with position and offset of each piece.
    pub fn for_each(&self, mut once: impl FnMut(usize, isize)) {
        for outer in 0..self.outer.count {
            for inner in 0..self.inner.count {
                let spot = self.first.turn(outer, self.outer).turn(inner, self.inner);
                once(spot.position, spot.offset);
            }
        }
    }
}

/// A body repeated: an inner node, or the elements of a buffer.
#[derive(Clone, Copy)]
pub(super) struct Times<'a> {
    pub count: usize,
    pub stride: isize,
    pub body: &'a Node,
}

impl Times<'_> {
    /// Visits the `length` bytes of data from byte `from`, where the first element lies at `spot.offset`
    /// and the data go to `spot.position`; all of them must be there.
    pub fn walk(&self, spot: Spot, from: usize, length: usize, visit: &mut impl Visit) {
        let bytes = self.body.bytes;
        let all = self.turns();
        if from == 0 && bytes.checked_mul(self.count) == Some(length) {
            return match self.one_loop() {
                Some((bytes, inner)) => visit.run(&Run {
                    first: spot,
                    bytes,
                    inner,
                    outer: Loop::ONCE,
                }),
                None => self.whole(spot, visit),
            };
        }
        // Of element `index`, whose data from byte `skip` on go to `position`.
        let at = |index: usize, position: usize| Spot {
            offset: spot.turn(index, all).offset,
            position,
        };
        let (mut index, skip) = (from / bytes, from % bytes);
        let (mut position, mut left) = (spot.position, length);
        if skip > 0 {
            let part = left.min(bytes - skip);
            self.body.walk(at(index, position), skip, part, visit);
            left -= part;
            position += part;
            index += 1;
        }
        let whole = (left / bytes).min(self.count.saturating_sub(index));
        if whole > 0 {
            let times = Self {
                count: whole,
                ..*self
            };
            times.whole(at(index, position), visit);
            index += whole;
            position += whole * bytes;
            left -= whole * bytes;
        }
        if left > 0 {
            self.body.walk(at(index, position), 0, left, visit);
        }
    }

    /// The bytes of each piece and the loop over them, if that is all: of elements without gaps, and of one vector of such, as most are
    /// for which finding the way would take longer than to copy them.
    #[inline]
    fn one_loop(&self) -> Option<(usize, Loop)> {
        let turns = match (self.count, &self.body.shape) {
            (1.., Shape::Block) => *self,
            (
                1,
                Shape::Repeat {
                    count,
                    stride,
                    body,
                },
            ) => Self {
                count: *count,
                stride: *stride,
                body,
            },
            _ => return None,
        };
        let is_loop = turns.count > 0 && matches!(turns.body.shape, Shape::Block);
        is_loop.then(|| (turns.body.bytes, turns.turns()))
    }

    #[inline]
    fn turns(&self) -> Loop {
        Loop {
            count: self.count,
            stride: self.stride,
            step: self.body.bytes,
        }
    }

    /// Visits all of it.
    fn whole(&self, spot: Spot, visit: &mut impl Visit) {
        let turns = self.turns();
        let (bytes, count) = (self.body.bytes, self.count);
        if self.body.depth > SHALLOW {
            for index in 0..count {
                self.body.walk(spot.turn(index, turns), 0, bytes, visit);
            }
            return;
        }
        if count == 1 {
            return self.body.whole(spot, turns, visit);
        }
        let together = match &self.body.shape {
            Shape::Block => count,
            // In the order of memory, and in one run.
            Shape::Repeat {
                body, count: inner, ..
            } if matches!(body.shape, Shape::Block) && *inner >= SHORT => count,
            // Likewise, as a pair.
            Shape::Even { offsets, .. } if offsets.len() == 2 => count,
            Shape::Blocks(pieces) if pieces.len() == 2 => count,
            _ => {
                let close = NEAR / self.stride.unsigned_abs().max(1);
                close.max(TOGETHER).min(NEAR / bytes).max(1)
            }
        };
        let mut index = 0;
        while index < count {
            let some = together.min(count - index);
            self.body
                .whole(spot.turn(index, turns), turns.of(some), visit);
            index += some;
        }
    }
}

impl Node {
    /// Visits the `length` bytes of data from byte `from`, where the tree lies at `spot.offset` and the
    /// data go to `spot.position`.
    pub fn walk(&self, spot: Spot, from: usize, length: usize, visit: &mut impl Visit) {
        let length = length.min(self.bytes - from.min(self.bytes));
        if length == 0 {
            return;
        }
        if self.depth > SHALLOW {
            return self.walk_deep(spot, from, length, visit);
        }
        if length == self.bytes {
            return self.whole(spot, Loop::ONCE, visit);
        }
        match &self.shape {
            Shape::Block => visit.run(&Run::once(spot.moved(from.cast_signed(), 0), length)),
            Shape::Repeat {
                count,
                stride,
                body,
            } => {
                let times = Times {
                    count: *count,
                    stride: *stride,
                    body,
                };
                times.walk(spot, from, length, visit);
            }
            Shape::Even { piece, offsets } => {
                let piece_at = |index| Piece {
                    offset: offsets[index],
                    before: index * piece,
                    bytes: *piece,
                };
                let touched = (from / piece, (from + length) / piece);
                let (whole, spot) = cut(spot, (from, length), touched, piece_at, visit);
                visit.even(spot, *piece, &offsets[whole]);
            }
            Shape::Blocks(pieces) => {
                let ends_by = |limit| move |piece: &Piece| piece.before + piece.bytes <= limit;
                let touched = (
                    pieces.partition_point(ends_by(from)),
                    pieces.partition_point(ends_by(from + length)),
                );
                let piece_at = |index: usize| pieces[index];
                let (whole, spot) = cut(spot, (from, length), touched, piece_at, visit);
                visit.pieces(spot, &pieces[whole]);
            }
            Shape::Sequence(parts) => {
                let first = parts.partition_point(|part| part.before + part.node.bytes <= from);
                let (mut position, mut left) = (0, length);
                let mut skip = from - parts[first].before;
                for part in &parts[first..] {
                    let bytes = left.min(part.node.bytes - skip);
                    let spot = spot.moved(part.offset, position);
                    part.node.walk(spot, skip, bytes, visit);
                    position += bytes;
                    left -= bytes;
                    skip = 0;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
    }
}

impl Node {
    /// Visits all of it, for each turn of a loop.
    fn whole(&self, spot: Spot, turns: Loop, visit: &mut impl Visit) {
        match &self.shape {
            Shape::Block => visit.run(&Run {
                first: spot,
                bytes: self.bytes,
                inner: turns,
                outer: Loop::ONCE,
            }),
            Shape::Repeat {
                count,
                stride,
                body,
            } => {
                let times = Times {
                    count: *count,
                    stride: *stride,
                    body,
                };
                times.whole_nested(spot, turns, visit);
            }
            Shape::Even { piece, offsets } if turns.count < SHORT => {
                for index in 0..turns.count {
                    visit.even(spot.turn(index, turns), *piece, offsets);
                }
            }
            Shape::Even { piece, offsets } => {
                let piece = |(index, offset): (usize, &isize)| Piece {
                    offset: *offset,
                    before: index * piece,
                    bytes: *piece,
                };
                visit.elements(spot, turns, offsets.iter().enumerate().map(piece));
            }
            Shape::Blocks(pieces) if turns.count < SHORT => {
                for index in 0..turns.count {
                    visit.pieces(spot.turn(index, turns), pieces);
                }
            }
            Shape::Blocks(pieces) => {
                visit.elements(spot, turns, pieces.iter().copied());
            }
            Shape::Sequence(parts) => {
                for part in parts {
                    let spot = spot.moved(part.offset, part.before);
                    part.node.whole(spot, turns, visit);
                }
            }
        }
    }

    /// As [`walk`](Self::walk), one shallow subtree after the other, each found from the top.
    fn walk_deep(&self, spot: Spot, from: usize, length: usize, visit: &mut impl Visit) {
        let mut done = 0;
        while done < length {
            let (node, offset, skip) = self.descend(spot.offset, from + done);
            let bytes = (length - done).min(node.bytes - skip);
            let at = Spot {
                offset,
                position: spot.position + done,
            };
            node.walk(at, skip, bytes, visit);
            done += bytes;
        }
    }

    /// The shallow subtree that byte `from` of the data is in, where it lies, and which of its bytes
    /// that is.
    fn descend(&self, mut offset: isize, mut from: usize) -> (&Self, isize, usize) {
        let mut node = self;
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
}

impl Times<'_> {
    /// Visits all of it, for each turn of a loop around it.
    #[inline]
    fn whole_nested(&self, spot: Spot, around: Loop, visit: &mut impl Visit) {
        let own = self.turns();
        if matches!(self.body.shape, Shape::Block) {
            let (inner, outer) = if own.count >= SHORT || own.count >= around.count {
                (own, around)
            } else {
                (around, own)
            };
            visit.run(&Run {
                first: spot,
                bytes: self.body.bytes,
                inner,
                outer,
            });
        } else if around.count == 1 {
            self.whole(spot, visit);
        } else if own.count >= around.count {
            for index in 0..around.count {
                self.whole(spot.turn(index, around), visit);
            }
        } else {
            for index in 0..own.count {
                self.body.whole(spot.turn(index, own), around, visit);
            }
        }
    }
}

/// Visits the first and the last of pieces that are touched, if only a part of them is; answers which
/// others there are, and the spot of the first of these. `touched`: the piece that byte `from` is in, and the
/// first that does not end by `from + length`.
fn cut(
    spot: Spot,
    (from, length): (usize, usize),
    (mut first, end): (usize, usize),
    piece_at: impl Fn(usize) -> Piece,
    visit: &mut impl Visit,
) -> (std::ops::Range<usize>, Spot) {
    let mut done = 0;
    let head = piece_at(first);
    let skip = from - head.before;
    if skip > 0 || end <= first {
        done = length.min(head.bytes - skip);
        let at = spot.moved(head.offset.wrapping_add(skip.cast_signed()), 0);
        visit.run(&Run::once(at, done));
        first += 1;
    }
    let end = end.max(first);
    let whole = if first < end {
        let last = piece_at(end - 1);
        last.before + last.bytes - piece_at(first).before
    } else {
        0
    };
    let tail = length - done - whole;
    if tail > 0 {
        let at = spot.moved(piece_at(end).offset, done + whole);
        visit.run(&Run::once(at, tail));
    }
    (first..end, spot.moved(0, done))
}
