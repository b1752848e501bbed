//! Strided block: pieces of equal size at equal distances, the form in which another process is told where the data of
//! elements lie.

use super::Datatype;
use super::walk::{self, Loop, Spot, Visit};

/// `count` pieces of `bytes` bytes, the first at `offset` from where the elements begin, `stride` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StridedBlock {
    pub offset: isize,
    pub bytes: usize,
    pub count: usize,
    pub stride: isize,
}

impl StridedBlock {
    /// Bytes of data.
    pub(crate) fn data(&self) -> usize {
        self.bytes.saturating_mul(self.count)
    }

    /// Where its pieces begin.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = isize> + use<> {
        let block = *self;
        let at = move |index: usize| {
            block
                .offset
                .wrapping_add(block.stride.wrapping_mul(index.cast_signed()))
        };
        (0..block.count).map(at)
    }

    /// Its pieces, each as a block.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> + use<> {
        let piece = Self {
            count: 1,
            stride: 0,
            ..*self
        };
        self.offsets().map(move |offset| Self { offset, ..piece })
    }

    /// First byte that it covers and the first behind it; `None` if these are no addresses.
    pub(crate) fn bounds(&self) -> Option<(isize, isize)> {
        let last = self.count.checked_sub(1)?;
        let last = self.stride.checked_mul(isize::try_from(last).ok()?)?;
        let last = self.offset.checked_add(last)?;
        let end = isize::try_from(self.bytes).ok()?;
        Some((
            self.offset.min(last),
            self.offset.max(last).checked_add(end)?,
        ))
    }
}

/// Collects runs with the place of their data among the packed ones: a walk visits them in another order.
struct StridedBlocks(Vec<(usize, StridedBlock)>);

impl StridedBlocks {
    fn push(&mut self, first: Spot, bytes: usize, along: Loop) {
        let block = if along.stride == bytes.cast_signed() {
            StridedBlock {
                offset: first.offset,
                bytes: bytes * along.count,
                count: 1,
                stride: 0,
            }
        } else {
            StridedBlock {
                offset: first.offset,
                bytes,
                count: along.count,
                stride: if along.count == 1 { 0 } else { along.stride },
            }
        };
        self.0.push((first.position, block));
    }

    /// In the order of the data, those that go on behind one another as one.
    fn joined(mut self) -> Vec<StridedBlock> {
        self.0.sort_unstable_by_key(|(position, _)| *position);
        let mut joined: Vec<StridedBlock> = Vec::with_capacity(self.0.len());
        for (_, block) in self.0 {
            if !joined.last_mut().is_some_and(|last| last.append(block)) {
                joined.push(block);
            }
        }
        joined
    }
}

impl StridedBlock {
    /// The piece that would come next.
    fn next(&self) -> isize {
        let reach = self.stride.wrapping_mul(self.count.cast_signed());
        self.offset.wrapping_add(reach)
    }

    /// Takes a block whose data follow its own, if one block can say both. The one rule by which lists of pieces are kept short, in
    /// memory and in files.
    #[inline]
    pub(crate) fn append(&mut self, next: Self) -> bool {
        if self.count == 1
            && next.count == 1
            && self.offset + self.bytes.cast_signed() == next.offset
        {
            self.bytes += next.bytes;
            return true;
        }
        if self.bytes != next.bytes {
            return false;
        }
        let stride = match self.count {
            1 if self.offset < next.offset => next.offset.wrapping_sub(self.offset),
            1 => return false,
            _ if self.next() == next.offset => self.stride,
            _ => return false,
        };
        if next.count > 1 && next.stride != stride {
            return false;
        }
        self.stride = stride;
        self.count += next.count;
        true
    }
}

impl Visit for StridedBlocks {
    fn run(&mut self, run: &walk::Run) {
        // Along one of the loops the data follow each other; if along none, each piece is a block.
        let loops = [run.inner, run.outer];
        let along = loops
            .iter()
            .position(|one| one.count > 1 && one.step == run.bytes);
        let (across, along) = match along {
            Some(place) => (vec![loops[1 - place]], loops[place]),
            None => (loops.to_vec(), Loop::ONCE),
        };
        let mut spots = vec![run.first];
        for one in across {
            spots = spots
                .iter()
                .flat_map(|spot| {
                    (0..one.count).map(|turn| Spot {
                        offset: spot
                            .offset
                            .wrapping_add(one.stride.wrapping_mul(turn.cast_signed())),
                        position: spot.position + one.step * turn,
                    })
                })
                .collect();
        }
        for spot in spots {
            self.push(spot, run.bytes, along);
        }
    }
}

impl Datatype {
    /// The blocks of `length` bytes of the data of `count` elements from byte `from`.
    pub(crate) fn strided_blocks(
        &self,
        count: usize,
        from: usize,
        length: usize,
    ) -> Vec<StridedBlock> {
        let mut blocks = StridedBlocks(Vec::new());
        if let (Some((offset, _)), true) = (self.flat(count), length > 0) {
            let first = Spot {
                offset: offset + from.cast_signed(),
                position: 0,
            };
            blocks.push(first, length, Loop::ONCE);
        } else {
            self.walk(count, from, length, &mut blocks);
        }
        blocks.joined()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::datatype::Basic;
    use crate::datatype::recipe::Recipe;

    #[test]
    fn runs_are_few_where_the_layout_is_regular() {
        let int = Basic::Int.datatype();
        let block = |offset, bytes, count, stride| StridedBlock {
            offset,
            bytes,
            count,
            stride,
        };
        assert_eq!(int.strided_blocks(10, 4, 8), [block(4, 8, 1, 0)]);
        let column = Datatype::vector(5, 1, 3, int).unwrap();
        assert_eq!(column.strided_blocks(1, 0, 20), [block(0, 4, 5, 12)]);
        assert_eq!(column.strided_blocks(1, 8, 8), [block(24, 4, 2, 12)]);
        let pair = Basic::ShortInt.datatype();
        assert_eq!(
            pair.strided_blocks(1, 0, 6),
            [block(0, 2, 1, 0), block(4, 4, 1, 0)]
        );
        assert_eq!(pair.element(), Some(Basic::ShortInt));
        assert_eq!(column.element(), Some(Basic::Int));
        assert_eq!(block(8, 4, 3, -4).bounds(), Some((0, 12)));
        assert_eq!(block(0, 4, usize::MAX, 4).bounds(), None);
    }

    /// A walk takes the pieces of many elements in another order than they are packed in.
    #[test]
    fn blocks_are_in_the_order_of_packing() {
        let byte = Basic::Byte.datatype();
        let three = Datatype::contiguous(3, byte).unwrap();
        let recipe = Recipe::Struct {
            blocks: [1, 2, 1].into(),
            displacements: [9, 0, 5].into(),
            of: [Arc::clone(&three), Arc::clone(byte), Arc::clone(byte)].into(),
        };
        let tile = Datatype::build(recipe, false).unwrap();
        let tile = Datatype::resized(0, 16, &tile).unwrap();
        let vector = Datatype::vector(3, 2, 3, &tile).unwrap();
        let places: Vec<isize> = [0, 1, 3, 4, 6, 7]
            .iter()
            .flat_map(|tile| [9, 10, 11, 0, 1, 5].map(|place| tile * 16 + place))
            .collect();
        let extent = vector.extent();
        let all: Vec<isize> = (0..50)
            .flat_map(|element| places.iter().map(move |place| element * extent + place))
            .collect();
        for (from, length) in [(0, all.len()), (1, 7), (35, 40), (100, 1500), (1799, 1)] {
            let blocks = vector.strided_blocks(50, from, length);
            let told: Vec<isize> = blocks
                .iter()
                .flat_map(|block| {
                    let bytes = block.bytes.cast_signed();
                    block.offsets().flat_map(move |at| at..at + bytes)
                })
                .collect();
            assert_eq!(told, all[from..from + length], "{length} from {from}");
        }
    }
}
