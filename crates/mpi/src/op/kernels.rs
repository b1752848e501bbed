//! The loops of the predefined operations: one generic loop, one small function per operation.
//!
//! Memory of users need not be aligned, so elements are read and written by unaligned accesses, which
//! the compiler turns into vector instructions all the same.
//!
//! Safety: [`Kernel::run`] is safe because it bounds the bytes by what both regions hold, and a
//! [`Region`] is valid for as long as the operation runs by its maker's promise. A kernel touches
//! as many whole elements from the start of each as the bytes hold. That they are elements of the
//! datatype is no matter of safety: [`find`] pairs a kernel only with datatypes of its element's size,
//! asserted in the tests.
#![allow(unsafe_code)]

use std::cmp::Ordering;

use weft_fabric::Region;

use super::Predefined;
use super::extended::{self, Extended};
use crate::datatype::{Basic, BasicKind, Scalar};

/// A loop: `into = operand op into`, for so many bytes. It knows the size of an element itself: to divide by one that is
/// not known takes longer than to combine a few elements.
type Loop = unsafe fn(*const u8, *mut u8, usize);

/// A loop for one operation and datatype.
#[derive(Clone, Copy)]
pub(super) struct Kernel(Loop);

impl Kernel {
    /// Runs over the elements in so many bytes, or in as many as both regions hold.
    #[inline]
    pub fn run(self, operand: &Region, into: &Region, bytes: usize) {
        let bytes = bytes.min(operand.len()).min(into.len());
        // SAFETY: both regions hold so many bytes and are valid by their makers' promise.
        unsafe { (self.0)(operand.as_ptr(), into.as_ptr(), bytes) }
    }
}

/// Loops over elements of type `T`.
///
/// # Safety
/// `operand` must be readable and `into` readable and writable for `bytes`.
#[inline(always)]
unsafe fn zip<T: Copy>(
    operand: *const u8,
    into: *mut u8,
    bytes: usize,
    combine: impl Fn(T, T) -> T,
) {
    let (operand, into) = (operand.cast::<T>(), into.cast::<T>());
    for index in 0..bytes / size_of::<T>() {
        // SAFETY: the element lies within the bytes for which the caller promised the memory; any bytes are a
        // value of the plain number types that this is used with.
        unsafe {
            let place = into.add(index);
            let one = operand.add(index).read_unaligned();
            place.write_unaligned(combine(one, place.read_unaligned()));
        }
    }
}

/// What `MPI_SUM` and `MPI_PROD` need.
pub(super) trait Arithmetic: Copy {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// What `MPI_MAX` and `MPI_MIN` need.
pub(super) trait Ordered: Copy {
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

/// What the bitwise and logical operations need.
trait Bits: Copy {
    fn both(self, other: Self) -> Self;
    fn either(self, other: Self) -> Self;
    fn differ(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn truth(is: bool) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
        impl Ordered for $type {
            #[inline(always)]
            fn larger(self, other: Self) -> Self { Ord::max(self, other) }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { Ord::min(self, other) }
        }
        impl Bits for $type {
            #[inline(always)]
            fn both(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn either(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn differ(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn is_true(self) -> bool { self != 0 }
            #[inline(always)]
            fn truth(is: bool) -> Self { Self::from(is) }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Arithmetic for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
        }
        impl Ordered for $type {
            // The number if the other is not one: the same on all ranks, in whatever order.
            #[inline(always)]
            fn larger(self, other: Self) -> Self { self.max(other) }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { self.min(other) }
        }
    )*};
}

floats!(f32 f64);

/// A complex number as C and Fortran lay it out.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T> {
    pub real: T,
    pub imaginary: T,
}

macro_rules! complex {
    ($($type:ty)*) => {$(
        impl Arithmetic for Complex<$type> {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Self { real: self.real + other.real, imaginary: self.imaginary + other.imaginary }
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                Self {
                    real: self.real * other.real - self.imaginary * other.imaginary,
                    imaginary: self.real * other.imaginary + self.imaginary * other.real,
                }
            }
        }
    )*};
}

complex!(f32 f64);

/// From so many bytes on it is worth to ask which vectors the processor has.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE: usize = 256;

/// Whether it has those of 64 bytes, for elements of every size.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vl")
}

macro_rules! loops {
    ($($name:ident $bound:ident $combine:expr;)*) => {
        $(
            /// # Safety
            /// As for [`zip`].
            unsafe fn $name<T: $bound>(operand: *const u8, into: *mut u8, bytes: usize) {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if bytes >= WIDE {
                    if has_avx512() {
                        // SAFETY: passed on from the caller; the processor has these instructions.
                        return unsafe { with_avx512::$name::<T>(operand, into, bytes) };
                    }
                    if std::is_x86_feature_detected!("avx2") {
                        // SAFETY: passed on from the caller; the processor has these instructions.
                        return unsafe { with_avx2::$name::<T>(operand, into, bytes) };
                    }
                }
                let combine: fn(T, T) -> T = $combine;
                // SAFETY: passed on from the caller.
                unsafe { zip::<T>(operand, into, bytes, #[inline(always)] |one, two| combine(one, two)) }
            }
        )*

        loops! { with_avx2 "avx2": $($name $bound $combine;)* }
        loops! { with_avx512 "avx512f,avx512bw,avx512dq,avx512vl": $($name $bound $combine;)* }
    };
    ($module:ident $feature:literal: $($name:ident $bound:ident $combine:expr;)*) => {
        /// The same loops, in wider vectors. The results are the same: elements are combined one by one.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        mod $module {
            use super::*;
            $(
                /// # Safety
                /// As for [`zip`], on a processor that has these instructions.
                #[target_feature(enable = $feature)]
                pub(super) unsafe fn $name<T: $bound>(operand: *const u8, into: *mut u8, bytes: usize) {
                    let combine: fn(T, T) -> T = $combine;
                    // SAFETY: passed on from the caller.
                    unsafe { zip::<T>(operand, into, bytes, #[inline(always)] |one, two| combine(one, two)) }
                }
            )*
        }
    };
}

loops! {
    sum Arithmetic T::plus;
    product Arithmetic T::times;
    maximum Ordered T::larger;
    minimum Ordered T::smaller;
    band Bits T::both;
    bor Bits T::either;
    bxor Bits T::differ;
    land Bits |one, two| T::truth(one.is_true() & two.is_true());
    lor Bits |one, two| T::truth(one.is_true() | two.is_true());
    lxor Bits |one, two| T::truth(one.is_true() ^ two.is_true());
}

macro_rules! sums_of_vectors {
    ($($name:ident $number:ident $vector:ident $plus:ident;)*) => {
        $(
            /// # Safety
            /// As for [`zip`].
            unsafe fn $name(operand: *const u8, into: *mut u8, bytes: usize) {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                if bytes >= WIDE && has_avx512() {
                    // SAFETY: passed on from the caller; the processor has these instructions.
                    return unsafe { vectors::$name(operand, into, bytes) };
                }
                // SAFETY: passed on from the caller.
                unsafe { sum::<$number>(operand, into, bytes) }
            }
        )*

        /// Sums of numbers, a vector of 64 bytes at a time: each is stored before the next one is loaded. The compiler, which makes
        /// vectors of the loop over numbers, loads four of both sides and then stores four: that is slower by a few hundredths
        /// in the first two levels of the cache.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        mod vectors {
            use super::*;
            use std::arch::x86_64::*;
            $(
                /// # Safety
                /// As for [`zip`], on a processor that has these instructions.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                pub(super) unsafe fn $name(operand: *const u8, into: *mut u8, bytes: usize) {
                    let whole = bytes - bytes % size_of::<$vector>();
                    // SAFETY: passed on from the caller; the vectors, and the numbers behind them, lie within the bytes.
                    unsafe {
                        zip::<$vector>(operand, into, whole, #[inline(always)] |one, two| $plus(one, two));
                        let (operand, into) = (operand.add(whole), into.add(whole));
                        zip::<$number>(operand, into, bytes - whole, $number::plus);
                    }
                }
            )*
        }
    };
}

sums_of_vectors! {
    sum_of_singles f32 __m512 _mm512_add_ps;
    sum_of_doubles f64 __m512d _mm512_add_pd;
}

/// A value of a pair.
pub(super) trait Value: Copy {
    fn compare(self, other: Self) -> Option<Ordering>;
}

macro_rules! values {
    ($($type:ty)*) => {$(
        impl Value for $type {
            #[inline(always)]
            fn compare(self, other: Self) -> Option<Ordering> { self.partial_cmp(&other) }
        }
    )*};
}

values!(i16 i32 i64 f32 f64);

impl Value for Extended {
    fn compare(self, other: Self) -> Option<Ordering> {
        extended::compare(self, other)
    }
}

/// `MPI_MINLOC` (`WANTED` -1) and `MPI_MAXLOC` (1): of equal values the one with the lower index. The
/// data lie without gaps: the index right behind the value.
///
/// # Safety
/// As for [`zip`].
unsafe fn locate<V: Value, I: Value, const WANTED: i8>(
    operand: *const u8,
    into: *mut u8,
    bytes: usize,
) {
    let size = size_of::<V>() + size_of::<I>();
    for index in 0..bytes / size {
        // SAFETY: the element lies within the bytes for which the caller promised the memory.
        unsafe {
            let (one, two) = (operand.add(index * size), into.add(index * size));
            let ours = one.cast::<V>().read_unaligned();
            let theirs = two.cast::<V>().read_unaligned();
            let place = two.add(size_of::<V>()).cast::<I>();
            let here = one.add(size_of::<V>()).cast::<I>().read_unaligned();
            let take = match ours.compare(theirs) {
                Some(Ordering::Equal) => {
                    here.compare(place.read_unaligned()) == Some(Ordering::Less)
                }
                Some(order) => order as i8 == WANTED,
                None => false,
            };
            if take {
                two.cast::<V>().write_unaligned(ours);
                place.write_unaligned(here);
            }
        }
    }
}

/// # Safety
/// As for [`zip`].
unsafe fn replace(operand: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: both sides are valid for so many bytes, as the caller of this function promises; `copy`
    // allows both to be the same memory.
    unsafe { std::ptr::copy(operand, into, bytes) }
}

/// # Safety
/// Nothing is touched.
unsafe fn nothing(_: *const u8, _: *mut u8, _: usize) {}

/// `MPI_REPLACE` or `MPI_NO_OP`, which are the same for all datatypes.
pub(super) const fn plain(operation: Predefined) -> Kernel {
    match operation {
        Predefined::Replace => Kernel(replace),
        _ => Kernel(nothing),
    }
}

macro_rules! integer_loop {
    ($scalar:expr, $name:ident) => {
        match $scalar {
            Scalar::I8 => $name::<i8>,
            Scalar::I16 => $name::<i16>,
            Scalar::I32 => $name::<i32>,
            Scalar::I64 => $name::<i64>,
            Scalar::I128 => $name::<i128>,
            Scalar::U8 => $name::<u8>,
            Scalar::U16 => $name::<u16>,
            Scalar::U32 => $name::<u32>,
            Scalar::U64 => $name::<u64>,
            _ => return None,
        }
    };
}

macro_rules! ordered_loop {
    ($scalar:expr, $name:ident) => {
        match $scalar {
            Scalar::F32 => $name::<f32>,
            Scalar::F64 => $name::<f64>,
            Scalar::F80 if extended::AVAILABLE => $name::<Extended>,
            other => integer_loop!(other, $name),
        }
    };
}

const OPERATIONS: usize = Predefined::ALL.len();
const BASICS: usize = Basic::ALL.len();

/// The loops of all operations for all datatypes, in the orders of their enumerations.
static ALL: [[Option<Kernel>; BASICS]; OPERATIONS] = {
    let mut all = [[None; BASICS]; OPERATIONS];
    let mut operation = 0;
    while operation < OPERATIONS {
        let mut basic = 0;
        while basic < BASICS {
            let (one, of) = (Predefined::ALL[operation], Basic::ALL[basic]);
            all[one as usize][of as usize] = choose(one, of);
            basic += 1;
        }
        operation += 1;
    }
    all
};

/// The loop of an operation for a datatype, if it is defined for it and this machine can do it.
#[inline]
pub(super) fn find(operation: Predefined, basic: Basic) -> Option<Kernel> {
    ALL[operation as usize][basic as usize]
}

const fn choose(operation: Predefined, basic: Basic) -> Option<Kernel> {
    if !operation.is_defined_for(basic) {
        return None;
    }
    let scalar = match basic.kind() {
        BasicKind::Integer(scalar)
        | BasicKind::FortranInteger(scalar)
        | BasicKind::Address(scalar)
        | BasicKind::Floating(scalar)
        | BasicKind::Logical(scalar)
        | BasicKind::Character(scalar) => scalar,
        BasicKind::Byte | BasicKind::Packed => Scalar::U8,
        BasicKind::Complex(part) => return complex_loop(operation, part),
        BasicKind::Pair(value, index) => return pair_loop(operation, value, index),
    };
    let chosen: Loop = match operation {
        Predefined::Sum => match scalar {
            Scalar::F32 => sum_of_singles,
            Scalar::F64 => sum_of_doubles,
            other => ordered_loop!(other, sum),
        },
        Predefined::Prod => ordered_loop!(scalar, product),
        Predefined::Max => ordered_loop!(scalar, maximum),
        Predefined::Min => ordered_loop!(scalar, minimum),
        Predefined::Band => integer_loop!(scalar, band),
        Predefined::Bor => integer_loop!(scalar, bor),
        Predefined::Bxor => integer_loop!(scalar, bxor),
        Predefined::Land => integer_loop!(scalar, land),
        Predefined::Lor => integer_loop!(scalar, lor),
        Predefined::Lxor => integer_loop!(scalar, lxor),
        Predefined::Minloc | Predefined::Maxloc => return None,
        Predefined::Replace | Predefined::NoOp => return Some(plain(operation)),
    };
    Some(Kernel(chosen))
}

const fn complex_loop(operation: Predefined, part: Scalar) -> Option<Kernel> {
    let chosen: Loop = match (operation, part) {
        (Predefined::Sum, Scalar::F32) => sum::<Complex<f32>>,
        (Predefined::Prod, Scalar::F32) => product::<Complex<f32>>,
        (Predefined::Sum, Scalar::F64) => sum::<Complex<f64>>,
        (Predefined::Prod, Scalar::F64) => product::<Complex<f64>>,
        (Predefined::Sum, Scalar::F80) if extended::AVAILABLE => sum::<Complex<Extended>>,
        (Predefined::Prod, Scalar::F80) if extended::AVAILABLE => product::<Complex<Extended>>,
        (Predefined::Replace | Predefined::NoOp, _) => return Some(plain(operation)),
        _ => return None,
    };
    Some(Kernel(chosen))
}

const fn pair_loop(operation: Predefined, value: Basic, index: Basic) -> Option<Kernel> {
    macro_rules! locate {
        ($value:ty, $index:ty) => {
            match operation {
                Predefined::Minloc => locate::<$value, $index, -1>,
                _ => locate::<$value, $index, 1>,
            }
        };
    }
    if matches!(operation, Predefined::Replace | Predefined::NoOp) {
        return Some(plain(operation));
    }
    let chosen: Loop = match (value, index) {
        (Basic::Float, Basic::Int) => locate!(f32, i32),
        (Basic::Double, Basic::Int) => locate!(f64, i32),
        (Basic::Long, Basic::Int) => locate!(i64, i32),
        (Basic::Int, Basic::Int) | (Basic::FortranInteger, Basic::FortranInteger) => {
            locate!(i32, i32)
        }
        (Basic::Short, Basic::Int) => locate!(i16, i32),
        (Basic::LongDouble, Basic::Int) if extended::AVAILABLE => locate!(Extended, i32),
        (Basic::FortranReal, Basic::FortranReal) => locate!(f32, f32),
        (Basic::FortranDoublePrecision, Basic::FortranDoublePrecision) => locate!(f64, f64),
        _ => return None,
    };
    Some(Kernel(chosen))
}
