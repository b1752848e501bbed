//! Elements of buffers: the Rust types that have a datatype (MPI 5.0, chapter 5).
//!
//! | Rust | datatype |
//! |---|---|
//! | `i8` … `u64`, `isize`, `usize`, `f32`, `f64` | that of the same C type |
//! | `i128`, `u128` | two of 64 bits, to be moved, not computed with |
//! | `bool`, `char` | `MPI_C_BOOL`, four bytes; received values are checked |
//! | [`Complex<f32>`](Complex), `Complex<f64>` | `MPI_C_FLOAT_COMPLEX`, `MPI_C_DOUBLE_COMPLEX` |
//! | [`Located<T>`](Located) | `MPI_DOUBLE_INT` and the other pairs of a value and an index |
//! | arrays, tuples of up to six | of their elements |
//! | structs, enums without data | by `#[derive(Element)]` |
#![allow(unsafe_code)]

use std::any::TypeId;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::{Arc, PoisonError, RwLock};

use weft_mpi::datatype::{Basic, Datatype, Recipe};

/// A type whose values can be elements of messages: `#[derive(Element)]` makes a struct or an enum an element.
///
/// A message carries the values as they lie in memory, without padding. Both sides must use types of the same layout, as
/// in C; between different programs that requires `#[repr(C)]`.
///
/// ```
/// use weft::mpi::{self, Element};
///
/// #[derive(Clone, Copy, PartialEq, Debug, Element)]
/// struct Particle {
///     place: [f64; 3],
///     charge: i8,
///     kind: Kind,
/// }
///
/// #[derive(Clone, Copy, PartialEq, Debug, Element)]
/// #[repr(u8)]
/// enum Kind {
///     Electron,
///     Ion,
/// }
///
/// mpi::test(2, |world| {
///     let ion = Particle { place: [0.5, 1.0, 1.5], charge: 2, kind: Kind::Ion };
///     if world.rank() == 0 {
///         world.send(&ion, 1, 0)
///     } else {
///         let (came, _) = world.receive::<Particle>(0, 0)?;
///         assert_eq!(came, ion);
///         Ok(())
///     }
/// });
/// ```
///
/// # Safety
/// The datatype must cover only bytes of the value that are always initialised, consecutive elements must begin
/// `size_of::<Self>()` bytes apart, and bytes received from another rank must be a value of the type if
/// [`is_valid`](Self::is_valid) returns true for them, or if [`CHECKED`](Self::CHECKED) is false.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Whether some bit patterns are no value of the type, so that received bytes must be checked.
    const CHECKED: bool;

    /// The datatype of one element, committed.
    fn datatype() -> &'static Arc<Datatype>;

    /// Whether the bytes at an address are a value of the type.
    ///
    /// # Safety
    /// The bytes that the datatype covers can be read and are initialised. The address need not be aligned.
    unsafe fn is_valid(at: *const Self) -> bool;
}

const _: () = assert!(size_of::<usize>() == 8, "usize is MPI_UINT64_T");

macro_rules! any_bits {
    ($($type:ty => $basic:ident,)*) => {$(
        // SAFETY: the datatype is that of the same type in C, and each pattern of bits is a value.
        unsafe impl Element for $type {
            const CHECKED: bool = false;

            #[inline]
            fn datatype() -> &'static Arc<Datatype> {
                Basic::$basic.datatype()
            }

            #[inline]
            unsafe fn is_valid(_at: *const Self) -> bool {
                true
            }
        }
    )*};
}

any_bits! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, isize => Int64,
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64, usize => Uint64,
    f32 => Float, f64 => Double,
    Complex<f32> => FloatComplex, Complex<f64> => DoubleComplex,
    Located<f32> => FloatInt, Located<f64> => DoubleInt, Located<i64> => LongInt,
    Located<i32> => TwoInt, Located<i16> => ShortInt,
}

macro_rules! two_words {
    ($($type:ty => $basic:ident,)*) => {$(
        // SAFETY: two words of 64 bits are all of it, and each pattern of bits is a value.
        unsafe impl Element for $type {
            const CHECKED: bool = false;

            fn datatype() -> &'static Arc<Datatype> {
                cached::<Self>(|| row(2, Basic::$basic.datatype()))
            }

            unsafe fn is_valid(_at: *const Self) -> bool {
                true
            }
        }
    )*};
}

two_words! { i128 => Int64, u128 => Uint64, }

// SAFETY: one byte, which is 0 or 1 in each value.
unsafe impl Element for bool {
    const CHECKED: bool = true;

    fn datatype() -> &'static Arc<Datatype> {
        Basic::Bool.datatype()
    }

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: the byte can be read, by the promise of the caller.
        unsafe { at.cast::<u8>().read() <= 1 }
    }
}

// SAFETY: four bytes, which are a number of a character in each value.
unsafe impl Element for char {
    const CHECKED: bool = true;

    fn datatype() -> &'static Arc<Datatype> {
        Basic::Uint32.datatype()
    }

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: the four bytes can be read, by the promise of the caller.
        char::from_u32(unsafe { at.cast::<u32>().read_unaligned() }).is_some()
    }
}

// SAFETY: the elements of an array lie after each other, as those of the datatype do.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const CHECKED: bool = T::CHECKED;

    fn datatype() -> &'static Arc<Datatype> {
        const { assert!(N > 0, "an array of no elements cannot be sent") };
        cached::<Self>(|| row(N, T::datatype()))
    }

    unsafe fn is_valid(at: *const Self) -> bool {
        // SAFETY: an element of the array that the caller promises.
        (0..N).all(|place| unsafe { T::is_valid(at.cast::<T>().add(place)) })
    }
}

macro_rules! tuples {
    ($(($($part:ident $place:tt),+),)*) => {$(
        // SAFETY: each part is at the place where the compiler has it, and an element.
        unsafe impl<$($part: Element),+> Element for ($($part,)+) {
            const CHECKED: bool = $($part::CHECKED)||+;

            fn datatype() -> &'static Arc<Datatype> {
                cached::<Self>(|| {
                    let parts = [$((offset_of!(Self, $place), $part::datatype())),+];
                    structure(size_of::<Self>(), &parts)
                })
            }

            unsafe fn is_valid(at: *const Self) -> bool {
                // SAFETY: a part of the tuple that the caller promises.
                unsafe { $($part::is_valid(&raw const (*at).$place))&&+ }
            }
        }
    )*};
}

tuples! {
    (A 0, B 1),
    (A 0, B 1, C 2),
    (A 0, B 1, C 2, D 3),
    (A 0, B 1, C 2, D 3, E 4),
    (A 0, B 1, C 2, D 3, E 4, F 5),
}

/// A complex number as in C: the real part first.
///
/// ```
/// use weft::mpi::{self, Complex, op};
///
/// mpi::test(2, |world| {
///     let one = Complex { re: 1.0_f64, im: -0.5 };
///     assert_eq!(world.allreduce(&one, op::sum())?, Complex { re: 2.0, im: -1.0 });
///     Ok(())
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

/// A value and its index, as [`op::min_location`](super::op::min_location) and
/// [`op::max_location`](super::op::max_location) compare them.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[repr(C)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its index: of equal values the one with the least index is kept.
    pub index: i32,
}

/// `count` elements in a row.
fn row(count: usize, of: &Arc<Datatype>) -> Arc<Datatype> {
    let count = i64::try_from(count).expect("memory holds fewer");
    let row = Datatype::contiguous(count, of).expect("a type that the compiler has accepted fits");
    row.commit();
    row
}

/// The datatype of a struct of `size` bytes: each part with its place. For `#[derive(Element)]`.
///
/// # Panics
/// If the parts are not those of a type: the compiler has accepted it.
#[must_use]
pub fn structure(size: usize, parts: &[(usize, &Arc<Datatype>)]) -> Arc<Datatype> {
    let recipe = Recipe::Struct {
        blocks: vec![1; parts.len()].into(),
        displacements: parts.iter().map(|(place, _)| *place as i64).collect(),
        of: parts.iter().map(|(_, part)| Arc::clone(part)).collect(),
    };
    let parts = Datatype::build(recipe, false);
    let whole = parts.and_then(|parts| Datatype::resized(0, size as i64, &parts));
    let whole = whole.expect("a type that the compiler has accepted fits");
    whole.commit();
    whole
}

/// The datatypes that were built so far: one of a type, for the life of the process.
static BUILT: RwLock<Option<HashMap<TypeId, &'static Arc<Datatype>>>> = RwLock::new(None);

/// The datatype of `T`, built by the first who asks. For `#[derive(Element)]`.
pub fn cached<T: 'static>(build: impl FnOnce() -> Arc<Datatype>) -> &'static Arc<Datatype> {
    let id = TypeId::of::<T>();
    let known = BUILT.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(datatype) = known.as_ref().and_then(|known| known.get(&id)) {
        return datatype;
    }
    drop(known);
    // Not while the table is locked: the parts may have to be built, too.
    let built = build();
    let mut known = BUILT.write().unwrap_or_else(PoisonError::into_inner);
    known
        .get_or_insert_default()
        .entry(id)
        .or_insert_with(|| Box::leak(Box::new(built)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::Element as Derive;

    /// Padding inside and at the end.
    #[derive(Clone, Copy, Derive)]
    #[repr(C)]
    struct Padded {
        small: u8,
        large: f64,
        last: bool,
    }

    #[derive(Clone, Copy, Derive)]
    #[repr(C, packed)]
    struct Packed {
        flag: bool,
        sign: char,
    }

    #[derive(Clone, Copy, Derive)]
    #[repr(i16)]
    #[allow(dead_code)]
    enum Level {
        Low = -5,
        High = 300,
    }

    #[derive(Clone, Copy, Derive)]
    struct Pair<T>(T, [u16; 3]);

    fn shape<T: Element>() -> (usize, isize) {
        (T::datatype().size(), T::datatype().extent())
    }

    fn extent_is_size<T: Element>() {
        assert_eq!(T::datatype().extent(), size_of::<T>() as isize);
        assert!(T::datatype().is_committed());
        assert_eq!(T::datatype().lower_bound(), 0);
    }

    #[test]
    fn padding_is_not_data() {
        assert_eq!(shape::<Padded>(), (10, 24));
        assert_eq!(shape::<(u8, f64, bool)>(), (10, 16), "as Rust lays it out");
        assert_eq!(shape::<[Padded; 3]>(), (30, 72));
        assert_eq!(shape::<Packed>(), (5, 5));
        assert_eq!(shape::<u128>(), (16, 16));
        assert_eq!(shape::<Located<f64>>(), (12, 16));
        extent_is_size::<Padded>();
        extent_is_size::<(u8, u32, u8)>();
        extent_is_size::<Pair<u8>>();
        extent_is_size::<Pair<[Padded; 2]>>();
        extent_is_size::<Located<f32>>();
        extent_is_size::<Located<i64>>();
        extent_is_size::<Located<i16>>();
        extent_is_size::<Complex<f64>>();
    }

    #[test]
    fn a_generic_struct_has_a_datatype_for_each_type() {
        assert_eq!(shape::<Pair<u8>>().0, 7);
        assert_eq!(shape::<Pair<u64>>().0, 14);
        const { assert!(!Pair::<u64>::CHECKED && Pair::<bool>::CHECKED) };
    }

    #[test]
    fn what_is_no_value_is_seen() {
        // SAFETY: all bytes are there, and `is_valid` alone looks at them.
        unsafe {
            assert!(bool::is_valid([1_u8].as_ptr().cast()));
            assert!(!bool::is_valid([2_u8].as_ptr().cast()));
            assert!(!char::is_valid([0xd800_u32].as_ptr().cast()));
            assert!(Level::is_valid([300_i16].as_ptr().cast()));
            assert!(Level::is_valid([-5_i16].as_ptr().cast()));
            assert!(!Level::is_valid([0_i16].as_ptr().cast()));
            let mut bytes = [0_u8; 24];
            assert!(Padded::is_valid(bytes.as_ptr().cast()));
            bytes[9] = 255;
            assert!(
                Padded::is_valid(bytes.as_ptr().cast()),
                "a byte of the number"
            );
            bytes[16] = 2;
            assert!(!Padded::is_valid(bytes.as_ptr().cast()));
            assert!(Packed::is_valid([1_u8, 65, 0, 0, 0].as_ptr().cast()));
            assert!(!Packed::is_valid([1_u8, 0, 0, 0, 1].as_ptr().cast()));
            assert!(!<[bool; 2]>::is_valid([1_u8, 9].as_ptr().cast()));
        }
        const { assert!(Padded::CHECKED && Level::CHECKED && <(u8, [char; 1])>::CHECKED) };
        const { assert!(!<(u8, [f64; 2])>::CHECKED) };
    }
}
