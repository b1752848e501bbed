//! Arguments, in the form in which calls get them: addresses of results, lists of counts of either width,
//! statuses that may be ignored, buffers to be [checked later](buffers).
//!
//! # Safety
//! Each of these is made from an address of the C caller by an `unsafe` constructor, whose promise is
//! that of the C binding: the address may be written (or read) as the type of the parameter says until
//! the call returns. The methods rely on it and are safe.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::c;
use crate::fault::code_of;
use crate::generated::constants as k;

mod buffers;

pub use buffers::{
    AddressArgument, BlocksArgument, BufferArgument, TypedBlocksArgument, check_lists,
};

/// Which of the two forms of a function was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Counts are `int`.
    Small,
    /// Counts are `MPI_Count`.
    Large,
}

/// Address of a result (OUT parameter).
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// The address may be written until the call returns.
    pub const unsafe fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// Stores the result.
    #[inline]
    pub fn set(&mut self, value: T) {
        // SAFETY: promised to `new`. Callers may align it in any way.
        unsafe { self.0.write_unaligned(value) }
    }
}

impl<T> Out<T> {
    /// The address, for a result that is written when a request ends.
    pub const fn address(&self) -> *mut T {
        self.0
    }
}

impl Out<c_int> {
    /// Stores a truth value.
    #[inline]
    pub fn flag(&mut self, value: bool) {
        self.set(c_int::from(value));
    }
}

/// A variable of the caller that is read and written.
#[derive(Debug)]
pub struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// # Safety
    /// The address may be read and written until the call returns.
    pub const unsafe fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// The address, for a result that is written when a request ends.
    pub const fn address(&self) -> *mut T {
        self.0
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: promised to `new`.
        unsafe { self.0.read_unaligned() }
    }

    /// Stores a value.
    #[inline]
    pub fn set(&mut self, value: T) {
        // SAFETY: promised to `new`.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// Address of something that the caller may omit, in the tool interface (MPI 5.0, section 15.3.3).
#[derive(Debug)]
pub struct Optional<T>(*mut T);

impl<T> Optional<T> {
    /// # Safety
    /// Null, or the address may be read and written, in the way of the call, until it returns; lists in the
    /// length that other parameters say.
    pub const unsafe fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// Whether it is null.
    pub const fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The address as it was given.
    pub const fn raw(&self) -> *mut T {
        self.0
    }

    /// The address, if there is one.
    pub fn address(&self) -> Option<*mut T> {
        (!self.0.is_null()).then_some(self.0)
    }

    /// The same, with the type that the call gives it.
    pub const fn cast<U>(&self) -> Optional<U> {
        Optional(self.0.cast())
    }

    /// The same, which must not be null.
    ///
    /// # Errors
    /// If it is null.
    pub fn needed(self) -> crate::fault::Checked<Self> {
        if self.is_null() {
            return Err(crate::fault::Fault::new(
                k::MPI_T_ERR_INVALID,
                "room for the value is needed, not a null pointer",
            ));
        }
        Ok(self)
    }

    /// Stores the result, if the caller wants it.
    pub fn set(&mut self, value: T) {
        self.set_at(0, value);
    }

    /// Stores an element of a list, if it is wanted. The caller has checked the length.
    pub fn set_at(&mut self, place: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: promised to `new`.
            unsafe { self.0.add(place).write_unaligned(value) }
        }
    }
}

impl<T: Copy> Optional<T> {
    /// The value, if there is one.
    pub fn get(&self) -> Option<T> {
        // SAFETY: promised to `new`.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

/// Integers of C of either width.
pub trait Number: Copy {
    /// The value.
    fn wide(self) -> i64;
    /// The value in this width; `None` if it does not fit.
    fn narrow(value: i64) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            fn wide(self) -> i64 {
                self as i64
            }

            fn narrow(value: i64) -> Option<Self> {
                Self::try_from(value).ok()
            }
        }
    )*};
}

numbers! { i32 i64 isize }

/// Address of a count that is a result, of either width.
#[derive(Debug)]
pub enum CountOut {
    /// `int *`.
    Int(Out<c_int>),
    /// `MPI_Count *` or `MPI_Aint *`.
    Wide(Out<i64>),
}

impl CountOut {
    /// Stores a count; `MPI_UNDEFINED` if there is none, or it does not fit.
    pub fn set(&mut self, value: Option<i64>) {
        let value = value.unwrap_or_else(|| k::MPI_UNDEFINED.into());
        match self {
            Self::Int(out) => out.set(c_int::try_from(value).unwrap_or(k::MPI_UNDEFINED)),
            Self::Wide(out) => out.set(value),
        }
    }
}

/// A list of counts or displacements, of either width, in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    address: *const c_void,
    wide: bool,
    length: usize,
}

impl Counts {
    /// # Safety
    /// The number of elements given to [`Self::with_length`], of this width, may be read until the call
    /// returns.
    pub const unsafe fn new(address: *const c_void, wide: bool) -> Self {
        Self {
            address,
            wide,
            length: 0,
        }
    }

    /// The list with its length, which the standard fixes: a parameter, or the size of the group.
    #[must_use]
    pub const fn with_length(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    /// Whether there is no list.
    pub const fn is_null(self) -> bool {
        self.address.is_null()
    }

    /// Its length.
    pub const fn len(self) -> usize {
        self.length
    }

    /// An element; 0 beyond the end.
    #[inline]
    pub fn at(self, place: usize) -> i64 {
        debug_assert!(place < self.length, "element {place} of {}", self.length);
        if place >= self.length {
            return 0;
        }
        // SAFETY: inside the length given to `with_length`, promised to `new`.
        unsafe {
            if self.wide {
                self.address.cast::<i64>().add(place).read_unaligned()
            } else {
                self.address
                    .cast::<c_int>()
                    .add(place)
                    .read_unaligned()
                    .into()
            }
        }
    }

    /// All elements.
    pub fn iter(self) -> impl Iterator<Item = i64> {
        (0..self.length).map(move |place| self.at(place))
    }

    /// All elements, copied.
    pub fn to_vec(self) -> Vec<i64> {
        self.iter().collect()
    }
}

/// Address of a status, or `MPI_STATUS_IGNORE`.
#[derive(Debug)]
pub struct StatusOut(*mut c::Status);

impl StatusOut {
    /// # Safety
    /// `MPI_STATUS_IGNORE`, or a status that may be written until the call returns.
    pub const unsafe fn new(address: *mut c::Status) -> Self {
        Self(address)
    }

    /// Stores the status of a completed operation. `MPI_ERROR` is left alone, as the standard asks of calls
    /// that return one status; the empty status is written completely.
    #[inline]
    pub fn set(&mut self, status: &weft_mpi::Status) {
        if self.0.is_null() {
            return;
        }
        // SAFETY: promised to `new`.
        unsafe {
            let mut value = status_of(status);
            let empty = !status.message && !status.null && !status.cancelled;
            value.error = if empty {
                k::MPI_SUCCESS
            } else {
                (*self.0).error
            };
            *self.0 = value;
        }
    }

    /// The status, to be changed in place.
    pub fn get_mut(&mut self) -> Option<&mut c::Status> {
        // SAFETY: promised to `new`.
        unsafe { self.0.as_mut() }
    }
}

/// Address of an array of statuses, or `MPI_STATUSES_IGNORE`.
#[derive(Debug)]
pub struct StatusesOut {
    address: *mut c::Status,
    length: usize,
}

impl StatusesOut {
    /// # Safety
    /// `MPI_STATUSES_IGNORE`, or `length` statuses that may be written until the call returns.
    pub const unsafe fn new(address: *mut c::Status, length: usize) -> Self {
        Self { address, length }
    }

    /// Whether the caller wants them.
    #[inline]
    pub const fn are_wanted(&self) -> bool {
        !self.address.is_null()
    }

    /// A status, to be changed in place.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut c::Status> {
        if self.address.is_null() || place >= self.length {
            return None;
        }
        // SAFETY: promised to `new`, and inside the length.
        unsafe { self.address.add(place).as_mut() }
    }

    /// Stores a status; its `MPI_ERROR` only if `errors` (when the call returns
    /// `MPI_ERR_IN_STATUS`).
    pub fn set(&mut self, place: usize, status: &weft_mpi::Status, errors: bool) {
        if self.address.is_null() || place >= self.length {
            return;
        }
        // SAFETY: promised to `new`, and inside the length.
        unsafe {
            let slot = self.address.add(place);
            let mut value = status_of(status);
            value.error = match &status.error {
                Some(error) if errors => code_of(error.class()),
                _ if errors => k::MPI_SUCCESS,
                _ => (*slot).error,
            };
            *slot = value;
        }
    }
}

/// A status of the engine in its C form.
#[inline]
pub fn status_of(status: &weft_mpi::Status) -> c::Status {
    let source = match status.source {
        Some(rank) => rank.cast_signed(),
        None if status.null => k::MPI_PROC_NULL,
        None => k::MPI_ANY_SOURCE,
    };
    let tag = if status.message {
        status.tag
    } else {
        k::MPI_ANY_TAG
    };
    let mut value = c::Status::new(source, tag);
    value.set_bytes(status.bytes);
    value.set_cancelled(status.cancelled);
    value.set_mark(status.mark);
    value
}

/// Address of a text buffer.
#[derive(Debug)]
pub struct TextOut(*mut c_char);

impl TextOut {
    /// # Safety
    /// May be written, up to the capacity that the standard names for it, until the call returns.
    pub const unsafe fn new(address: *mut c_char) -> Self {
        Self(address)
    }

    /// Stores as much of the text as fits into `capacity` bytes with the terminating zero; returns the stored
    /// length.
    pub fn set(&mut self, text: &str, capacity: usize) -> usize {
        let Some(room) = capacity.checked_sub(1) else {
            return 0;
        };
        let mut length = text.len().min(room);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: `length + 1 <= capacity` bytes, promised to `new`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), length);
            *self.0.add(length) = 0;
        }
        length
    }
}

/// A text of the caller as a Rust string; bytes that are not UTF-8 are replaced.
pub fn text_of(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_either_width() {
        let (narrow, wide) = ([1 as c_int, -2, 3], [1_i64 << 40, -2, 3]);
        // SAFETY: both lists outlive their views and have three elements.
        let (narrow, wide) = unsafe {
            (
                Counts::new(narrow.as_ptr().cast(), false).with_length(3),
                Counts::new(wide.as_ptr().cast(), true).with_length(3),
            )
        };
        assert_eq!(narrow.to_vec(), [1, -2, 3]);
        assert_eq!(wide.to_vec(), [1 << 40, -2, 3]);
    }

    #[test]
    fn counts_that_do_not_fit_are_undefined() {
        let mut value: c_int = 0;
        // SAFETY: the variable outlives the result.
        let mut out = CountOut::Int(unsafe { Out::new(&raw mut value) });
        out.set(Some(1 << 40));
        assert_eq!(value, k::MPI_UNDEFINED);
    }

    #[test]
    fn texts_are_cut_at_characters() {
        let mut room = [1 as c_char; 4];
        // SAFETY: four bytes are there.
        let mut out = unsafe { TextOut::new(room.as_mut_ptr()) };
        assert_eq!(out.set("a\u{20ac}", 4), 1, "the euro sign does not fit");
        assert_eq!(room[..2], [b'a' as c_char, 0]);
    }
}
