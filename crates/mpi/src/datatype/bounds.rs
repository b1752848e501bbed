//! Bounds of a datatype: where it begins and ends (MPI 5.0, sections 5.1.6 to 5.1.8).
//!
//! Without markers the bounds follow from the data, the upper one rounded up so that the extent is a multiple of the
//! strictest alignment. Padding from this rounding belongs to a datatype when it is a part of another one: a vector ends
//! where its last element ends, padding included. The standard would let it end with the last byte of data, but MPICH and
//! Open MPI agree on this, and numpy relies on it. A resized part brings markers; then only markers count. Sums are made
//! in 128 bits, so that an overflow is detected and reported.

use crate::error::{Error, ErrorClass, Result};

/// First byte and byte after the last one, as displacements.
pub(super) type Range = (i128, i128);

/// The bounds of a type map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// What the data cover; `None` if there are none.
    pub data: Option<Range>,
    /// What the data cover with the padding of the datatypes that they are parts of.
    pub padded: Option<Range>,
    /// What the markers cover, if there are any.
    pub marked: Option<Range>,
    /// Strictest alignment of the data: a power of two.
    pub alignment: usize,
}

impl Bounds {
    /// The bounds of an empty type map.
    pub const EMPTY: Self = Self {
        data: None,
        padded: None,
        marked: None,
        alignment: 1,
    };

    /// Lower bound.
    pub fn lower(&self) -> i128 {
        self.marked.or(self.padded).map_or(0, |(lower, _)| lower)
    }

    /// Upper bound.
    pub fn upper(&self) -> i128 {
        match (self.marked, self.padded) {
            (Some((_, upper)), _) => upper,
            (None, Some((lower, upper))) => {
                debug_assert!(self.alignment.is_power_of_two());
                let rest = self.alignment as i128 - 1;
                lower + ((upper - lower + rest) & !rest)
            }
            (None, None) => 0,
        }
    }

    /// Upper less lower bound.
    pub fn extent(&self) -> i128 {
        self.upper() - self.lower()
    }

    /// The same as bounds of a part: what was rounded up belongs to it.
    pub fn settled(self) -> Self {
        match (self.marked, self.padded) {
            (None, Some((lower, _))) => Self {
                padded: Some((lower, self.upper())),
                ..self
            },
            _ => self,
        }
    }

    /// The bounds of the same, `by` bytes further on.
    pub fn shifted(&self, by: i128) -> Self {
        // Saturated sums are refused by `checked`.
        let shift = |range: Range| (range.0.saturating_add(by), range.1.saturating_add(by));
        Self {
            data: self.data.map(shift),
            padded: self.padded.map(shift),
            marked: self.marked.map(shift),
            ..*self
        }
    }

    /// The bounds of several of the same, of which the lowest is `first` bytes further on and the highest `last`.
    pub fn spread(&self, first: i128, last: i128) -> Self {
        debug_assert!(first <= last);
        // As for `shifted`.
        let spread = |range: Range| (range.0.saturating_add(first), range.1.saturating_add(last));
        Self {
            data: self.data.map(spread),
            padded: self.padded.map(spread),
            marked: self.marked.map(spread),
            ..*self
        }
    }

    /// The bounds of `count` of the same, each `stride` bytes after the one before.
    pub fn repeated(&self, count: i128, stride: i128) -> Result<Self> {
        if count == 0 {
            return Ok(Self::EMPTY);
        }
        let last = self.shifted((count - 1).checked_mul(stride).ok_or_else(too_large)?);
        Ok(self.joined(&last))
    }

    /// The bounds of both together.
    pub fn joined(&self, other: &Self) -> Self {
        let join = |one: Option<Range>, two: Option<Range>| match (one, two) {
            (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
            (one, two) => one.or(two),
        };
        Self {
            data: join(self.data, other.data),
            padded: join(self.padded, other.padded),
            marked: join(self.marked, other.marked),
            alignment: self.alignment.max(other.alignment),
        }
    }

    /// Whether all of it can be addressed.
    pub fn checked(self) -> Result<Self> {
        let fits = |range: Option<Range>| {
            range.is_none_or(|(lower, upper)| {
                isize::try_from(lower).is_ok() && isize::try_from(upper).is_ok()
            })
        };
        if !fits(self.data) || !fits(self.padded) || !fits(self.marked) {
            return Err(too_large());
        }
        let upper = isize::try_from(self.upper()).is_ok();
        let extent = isize::try_from(self.extent()).is_ok();
        let covered = self
            .data
            .is_none_or(|(lower, upper)| isize::try_from(upper - lower).is_ok());
        if upper && extent && covered {
            Ok(self)
        } else {
            Err(too_large())
        }
    }
}

#[cold]
pub(super) fn too_large() -> Error {
    Error::new(
        ErrorClass::Arg,
        format!(
            "the datatype would reach further than {} bytes, which no memory does; check counts, strides and displacements",
            isize::MAX
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_of_the_same_reach_from_the_lowest_to_the_highest() {
        let plain = Bounds {
            data: Some((-3, 9)),
            padded: Some((-3, 13)),
            marked: None,
            alignment: 8,
        };
        let marked = Bounds {
            marked: Some((5, -5)),
            ..plain
        };
        for bounds in [Bounds::EMPTY, plain, marked] {
            for (first, last) in [(0, 0), (-40, 24), (i128::MIN, i128::MAX)] {
                let both = bounds.shifted(first).joined(&bounds.shifted(last));
                assert_eq!(bounds.spread(first, last), both, "{first} to {last}");
            }
        }
    }
}
