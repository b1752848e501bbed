//! Run: pieces of equal size at equal distances, as which another process is told where the data of elements lie.

use super::Datatype;
use super::walk::{self, Visit};

/// `count` pieces of `bytes` bytes, the first at `offset` from where the elements begin, `stride` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub offset: isize,
    pub bytes: usize,
    pub count: usize,
    pub stride: isize,
}

impl Run {
    /// One piece.
    pub(crate) fn once(offset: isize, bytes: usize) -> Self {
        Self {
            offset,
            bytes,
            count: 1,
            stride: 0,
        }
    }

    /// Bytes of data.
    pub(crate) fn data(&self) -> usize {
        self.bytes.saturating_mul(self.count)
    }

    /// Where its pieces begin.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = isize> + use<> {
        let run = *self;
        let at = move |index: usize| {
            run.offset
                .wrapping_add(run.stride.wrapping_mul(index.cast_signed()))
        };
        (0..run.count).map(at)
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

/// Runs in the order of packing; the first piece of one may go on behind the last.
#[derive(Default)]
struct Runs(Vec<Run>);

impl Runs {
    fn add(&mut self, run: Run) {
        if run.count == 1 || run.stride == run.bytes.cast_signed() {
            return self.add_piece(run.offset, run.data());
        }
        self.0.push(run);
    }

    fn add_piece(&mut self, offset: isize, bytes: usize) {
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
            _ => self.0.push(Run {
                offset,
                bytes,
                count: 1,
                stride: 0,
            }),
        }
    }
}

/// Collects runs with their positions among the packed data, in the order of a walk, which is another.
#[derive(Default)]
struct Visited(Vec<(usize, Run)>);

impl Visit for Visited {
    fn run(&mut self, nest: &walk::Run) {
        let bytes = nest.bytes;
        // The loop whose turns follow each other among the packed data makes a run; the other one makes several of them.
        let (of_run, others) = if nest.inner.step == bytes || nest.inner.count == 1 {
            (nest.inner, nest.outer)
        } else if nest.outer.step == bytes {
            (nest.outer, nest.inner)
        } else {
            nest.for_each(|position, offset| self.0.push((position, Run::once(offset, bytes))));
            return;
        };
        for turn in 0..others.count {
            let first = nest.first.turn(turn, others);
            let run = Run {
                offset: first.offset,
                bytes,
                count: of_run.count,
                stride: of_run.stride,
            };
            self.0.push((first.position, run));
        }
    }
}

impl Datatype {
    /// The runs of `length` bytes of the data of `count` elements from byte `from`, in the order of packing.
    pub(crate) fn runs(&self, count: usize, from: usize, length: usize) -> Vec<Run> {
        if length == 0 {
            return Vec::new();
        }
        if let Some((offset, _)) = self.flat(count) {
            return vec![Run::once(offset + from.cast_signed(), length)];
        }
        let mut visited = Visited::default();
        self.walk(count, from, length, &mut visited);
        let mut visited = visited.0;
        if !visited.is_sorted_by_key(|(position, _)| *position) {
            visited.sort_unstable_by_key(|(position, _)| *position);
        }
        let mut runs = Runs::default();
        for (_, run) in visited {
            runs.add(run);
        }
        runs.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;

    #[test]
    fn runs_are_few_where_the_layout_is_regular() {
        let int = Basic::Int.datatype();
        let run = |offset, bytes, count, stride| Run {
            offset,
            bytes,
            count,
            stride,
        };
        assert_eq!(int.runs(10, 4, 8), [run(4, 8, 1, 0)]);
        let column = Datatype::vector(5, 1, 3, int).unwrap();
        assert_eq!(column.runs(1, 0, 20), [run(0, 4, 5, 12)]);
        assert_eq!(column.runs(1, 8, 8), [run(24, 4, 2, 12)]);
        // Two elements side by side: the order is that of packing, whatever that of a walk.
        let rows = Datatype::vector(3, 2, 5, int).unwrap();
        let rows = Datatype::resized(0, 8, &rows).unwrap();
        let pieces: Vec<isize> = rows.runs(2, 0, 48).iter().flat_map(Run::offsets).collect();
        assert_eq!(pieces, [0, 20, 40, 8, 28, 48]);
        let pair = Basic::ShortInt.datatype();
        assert_eq!(pair.runs(1, 0, 6), [run(0, 2, 1, 0), run(4, 4, 1, 0)]);
        assert_eq!(pair.element(), Some(Basic::ShortInt));
        assert_eq!(column.element(), Some(Basic::Int));
        assert_eq!(run(8, 4, 3, -4).bounds(), Some((0, 12)));
        assert_eq!(run(0, 4, usize::MAX, 4).bounds(), None);
    }
}
