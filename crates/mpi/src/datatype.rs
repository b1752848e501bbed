//! Datatypes (MPI 5.0, chapter 5): which bytes of a user's memory a message consists of.
//!
//! ```text
//!   Recipe ──build──► Datatype ─┬─ layout      where the bytes lie, compact      pack, unpack, flat
//!   (the call and               ├─ bounds      extent, true extent
//!    its arguments)             ├─ signature   basic elements in order           elements, external32
//!                               └─ recipe      kept for envelope and contents
//! ```
//!
//! A datatype never changes once built, except for its committed flag and the attributes that users attach; it is always
//! behind an `Arc`, and datatypes built from it keep it alive. Sizes and bounds are checked when it is built: everything
//! later may rely on `size`, `extent` and all displacements fitting `isize`.
//!
//! A `walk` turns layouts into loop nests; only `copying` touches memory.

mod array;
mod basic;
mod bounds;
mod construct;
mod contents;
mod copying;
mod digest;
mod external;
mod layout;
mod nested;
mod packing;
mod parameterised;
mod pieces;
mod recipe;
mod signature;
mod strided;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;
use weft_atomic::{AtomicBool, Ordering};

pub use array::{Distribution, Order};
pub use basic::{Basic, BasicKind, Scalar, TypeClass};
pub use contents::{Combiner, Contents, Envelope};
pub use digest::SignatureCode;
pub(crate) use packing::{decode_external, encode_external};
pub use packing::{pack, pack_external, unpack, unpack_external};
pub use pieces::PieceOrder;
pub use recipe::Recipe;
pub(crate) use strided::StridedBlock;

use crate::error::{Error, ErrorClass, Result};
use crate::extras::Extras;
use bounds::Bounds;
use layout::Layout;
use signature::Signature;

/// A datatype. Always behind an `Arc`.
pub struct Datatype {
    size: usize,
    extent: isize,
    /// The one piece that an element is, if it is one.
    span: Option<(isize, usize)>,
    layout: Layout,
    bounds: Bounds,
    signature: Arc<Signature>,
    /// The code of a message of one element.
    code: SignatureCode,
    /// The predefined datatype that it is or is a duplicate of.
    basic: Option<Basic>,
    /// The predefined datatype that all its data are elements of.
    element: Option<Basic>,
    committed: AtomicBool,
    recipe: Recipe,
    /// Built by a call with `MPI_Count` arguments.
    large: bool,
    extras: Extras,
}

impl Datatype {
    /// Bytes of data of one element.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// From an element to the next one.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> isize {
        self.extent
    }

    /// Offset at which an element begins, by its markers.
    #[must_use]
    pub fn lower_bound(&self) -> isize {
        self.bounds.lower() as isize
    }

    /// Offset at which the data of an element begin.
    #[must_use]
    pub fn true_lower_bound(&self) -> isize {
        self.bounds.data.map_or(0, |(lower, _)| lower as isize)
    }

    /// Extent of the data of an element.
    #[must_use]
    pub fn true_extent(&self) -> isize {
        self.bounds
            .data
            .map_or(0, |(lower, upper)| (upper - lower) as isize)
    }

    /// Whether it may be used for communication.
    #[inline]
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// `MPI_Type_commit`.
    pub fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Whether it is one of the standard's own.
    #[must_use]
    pub fn is_predefined(&self) -> bool {
        matches!(self.recipe, Recipe::Named(_))
    }

    /// Whether it was found by the numbers that it must hold: it is never freed then.
    #[must_use]
    pub fn is_parameterised(&self) -> bool {
        matches!(self.recipe, Recipe::Parameterised { .. })
    }

    /// The predefined datatype that it is, or is a duplicate of. Operations ask for this.
    #[inline]
    #[must_use]
    pub fn basic(&self) -> Option<Basic> {
        self.basic
    }

    /// The predefined datatype that all its data are elements of, if it is one: what the operations of one-sided
    /// communication work on (MPI 5.0, section 12.3.4).
    #[inline]
    #[must_use]
    pub fn element(&self) -> Option<Basic> {
        self.element
    }

    /// The name; that of the standard for a predefined one, else empty until one is set.
    #[must_use]
    pub fn name(&self) -> String {
        self.extras.name()
    }

    /// `MPI_Type_set_name`.
    pub fn set_name(&self, name: &str) {
        self.extras.set_name(name);
    }

    /// Attributes and name.
    #[must_use]
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// The call that built it.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Offset from the buffer's address, and bytes, if `count` elements are one piece.
    #[inline]
    #[must_use]
    pub fn flat(&self, count: usize) -> Option<(isize, usize)> {
        let (offset, bytes) = self.span?;
        if self.extent == bytes.cast_signed() || count == 1 {
            Some((offset, bytes.checked_mul(count)?))
        } else {
            (count == 0 || bytes == 0).then_some((0, 0))
        }
    }

    /// Bytes of data of `count` elements.
    ///
    /// # Errors
    /// `Count` if they do not fit.
    #[inline]
    pub fn bytes(&self, count: usize) -> Result<usize> {
        self.size
            .checked_mul(count)
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(|| too_many(count, self.size))
    }

    /// Offset of the first byte, and number of bytes, that `count` elements cover; gaps included.
    ///
    /// # Errors
    /// `Count` if they do not fit.
    pub fn footprint(&self, count: usize) -> Result<(isize, usize)> {
        let Some((lower, upper)) = self.bounds.data.filter(|_| count > 0) else {
            return Ok((0, 0));
        };
        // Those of one element can be addressed: see `Bounds::checked`.
        let (lower, length) = (lower as isize, (upper - lower) as usize);
        let of_many = || {
            let last = self.extent.checked_mul(isize::try_from(count - 1).ok()?)?;
            let length = length.checked_add(last.unsigned_abs())?;
            let fits = isize::try_from(length).is_ok();
            Some((lower.checked_add(last.min(0))?, length)).filter(|_| fits)
        };
        match count {
            1 => Ok((lower, length)),
            _ => of_many().ok_or_else(|| too_many(count, self.size)),
        }
    }

    /// Whole elements of this datatype in `bytes` bytes of data (`MPI_Get_count`); `None` stands for
    /// `MPI_UNDEFINED`.
    #[must_use]
    pub fn count_of(&self, bytes: u64) -> Option<u64> {
        match self.size as u64 {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then_some(bytes / size),
        }
    }

    /// Basic elements in `bytes` bytes of data (`MPI_Get_elements`); `None` stands for
    /// `MPI_UNDEFINED`.
    #[must_use]
    pub fn elements(&self, bytes: u64) -> Option<u64> {
        self.signature.elements_in(bytes)
    }

    /// Bytes of the first `elements` basic elements of data (`MPI_Status_set_elements`).
    #[must_use]
    pub fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        self.signature.bytes_of(elements)
    }
}

impl std::fmt::Debug for Datatype {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.basic {
            Some(basic) => write!(out, "Datatype({})", basic.name()),
            None => write!(
                out,
                "Datatype({:?}, {} bytes, extent {})",
                self.recipe.combiner(),
                self.size,
                self.extent
            ),
        }
    }
}

#[cold]
fn too_many(count: usize, size: usize) -> Error {
    Error::new(
        ErrorClass::Count,
        format!("{count} elements of {size} bytes are more than memory can hold; check the count"),
    )
}
