//! StridedBlock: pieces of equal size at equal distances, as which another process is told where the data of elements lie.

use super::Datatype;
use super::layout::Visit;

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

/// Collects blocks; the first of them may go on behind the last.
struct StridedBlocks(Vec<StridedBlock>);

impl Visit for StridedBlocks {
    fn block(&mut self, offset: isize, bytes: usize) {
        match self.0.last_mut() {
            Some(last) if last.count == 1 && last.offset + last.bytes.cast_signed() == offset => {
                last.bytes += bytes;
            }
            Some(last) if last.count == 1 && last.bytes == bytes && last.offset < offset => {
                (last.count, last.stride) = (2, offset - last.offset);
            }
            Some(last)
                if last.bytes == bytes
                    && last.count > 1
                    && last
                        .offset
                        .wrapping_add(last.stride.wrapping_mul(last.count.cast_signed()))
                        == offset =>
            {
                last.count += 1;
            }
            _ => self.0.push(StridedBlock {
                offset,
                bytes,
                count: 1,
                stride: 0,
            }),
        }
    }

    fn strided(&mut self, offset: isize, count: usize, stride: isize, bytes: usize) {
        if count == 1 || stride == bytes.cast_signed() {
            return self.block(offset, bytes * count);
        }
        self.0.push(StridedBlock {
            offset,
            bytes,
            count,
            stride,
        });
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
            blocks.block(offset + from.cast_signed(), length);
        } else {
            self.walk(count, from, length, &mut blocks);
        }
        blocks.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

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
}
