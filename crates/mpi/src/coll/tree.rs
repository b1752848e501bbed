//! Binomial tree: members are numbered from the root, which is 0; the subtree of a member is the
//! run of members from it on whose length is its lowest bit.
//!
//! ```text
//!   0 ─┬─ 1          the parent of 6 is 4: the lowest bit goes
//!      ├─ 2 ── 3     the subtree of 4 is 4..8
//!      └─ 4 ─┬─ 5
//!            └─ 6 ── 7
//! ```

/// One member of a tree of `size`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreePosition {
    pub number: usize,
    pub size: usize,
}

impl TreePosition {
    /// The position of `rank` in a tree of which `root` is the root.
    pub fn of(rank: usize, root: usize, size: usize) -> Self {
        let number = (rank + size - root) % size;
        Self { number, size }
    }

    /// The parent's number.
    pub fn parent(self) -> Option<usize> {
        (self.number > 0).then(|| self.number & (self.number - 1))
    }

    /// How many members the subtree of `number` has, itself included.
    pub fn subtree(self, number: usize) -> usize {
        match number {
            0 => self.size,
            _ => (1 << number.trailing_zeros()).min(self.size - number),
        }
    }

    /// The children's numbers, the smallest subtree first.
    pub fn children(self) -> impl DoubleEndedIterator<Item = usize> {
        let bits = match self.number {
            0 => usize::BITS - (self.size - 1).leading_zeros(),
            number => number.trailing_zeros(),
        };
        let (number, size) = (self.number, self.size);
        (0..bits)
            .map(move |bit| number + (1 << bit))
            .filter(move |child| *child < size)
    }
}
