//! Blocks: elements with one part for each rank, of different lengths.

use weft_mpi::{Error, ErrorClass, Result};

use super::Element;

/// Elements in blocks, one for each rank, in the order of the ranks: arguments and results of the collectives whose names
/// end in `v` in the standard.
///
/// ```
/// use weft::mpi::Blocks;
///
/// let blocks = Blocks::from_iter([vec![1, 2], vec![], vec![3]]);
/// assert_eq!(blocks.counts(), [2, 0, 1]);
/// assert_eq!(blocks.block(0), [1, 2]);
/// assert_eq!(blocks.iter().map(<[i32]>::len).sum::<usize>(), 3);
/// assert_eq!(blocks.into_elements(), [1, 2, 3]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocks<T> {
    elements: Vec<T>,
    counts: Vec<usize>,
}

impl<T> Blocks<T> {
    /// Makes blocks of elements that lie one block after the other.
    ///
    /// # Errors
    /// `Count` if the sum of the counts is not the number of elements.
    pub fn new(elements: Vec<T>, counts: Vec<usize>) -> Result<Self> {
        let sum = counts
            .iter()
            .try_fold(0usize, |sum, count| sum.checked_add(*count));
        if sum == Some(elements.len()) {
            return Ok(Self { elements, counts });
        }
        Err(Error::new(
            ErrorClass::Count,
            format!(
                "{} elements in blocks of {counts:?}; the counts must be as many in all",
                elements.len()
            ),
        ))
    }

    pub(super) fn made(elements: Vec<T>, counts: Vec<usize>) -> Self {
        debug_assert_eq!(elements.len(), counts.iter().sum::<usize>());
        Self { elements, counts }
    }

    /// Number of elements of each block.
    #[must_use]
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The block of a rank.
    ///
    /// # Panics
    /// If there is none, as for an index of a slice.
    #[must_use]
    pub fn block(&self, rank: usize) -> &[T] {
        let start: usize = self.counts[..rank].iter().sum();
        &self.elements[start..start + self.counts[rank]]
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl Iterator<Item = &[T]> {
        let mut rest = &self.elements[..];
        self.counts.iter().map(move |count| {
            let (block, behind) = rest.split_at(*count);
            rest = behind;
            block
        })
    }

    /// All elements, one block after the other.
    #[must_use]
    pub fn elements(&self) -> &[T] {
        &self.elements
    }

    /// All elements, one block after the other.
    #[must_use]
    pub fn into_elements(self) -> Vec<T> {
        self.elements
    }
}

/// A block of each.
impl<T: Element, B: AsRef<[T]>> FromIterator<B> for Blocks<T> {
    fn from_iter<I: IntoIterator<Item = B>>(blocks: I) -> Self {
        let (mut elements, mut counts) = (Vec::new(), Vec::new());
        for block in blocks {
            elements.extend_from_slice(block.as_ref());
            counts.push(block.as_ref().len());
        }
        Self { elements, counts }
    }
}
