//! Operations of reductions (MPI 5.0, section 6.9): the predefined ones, and a program's own.
//!
//! ```
//! use weft::mpi::{self, Op, op};
//!
//! mpi::test(3, |world| {
//!     let rank = world.rank();
//!     assert_eq!(world.allreduce(&rank, op::sum())?, 3);
//!     assert_eq!(world.allreduce(&[rank, 5], op::max())?, [2, 5]);
//!     // Any function, on any element: here of text, which does not commute.
//!     let word = [b'a' + rank as u8, b' ', b' '];
//!     let joined = Op::new(|left: &[u8; 3], right: &[u8; 3]| {
//!         let filled = left.iter().position(|byte| *byte == b' ').unwrap_or(3);
//!         let mut both = *left;
//!         both[filled..].copy_from_slice(&right[..3 - filled]);
//!         both
//!     });
//!     assert_eq!(world.allreduce(&vec![word], joined)?, [*b"abc"]);
//!     Ok(())
//! });
//! ```

use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use weft_mpi::op::Predefined;

use super::element::{Complex, Element, Located};
use super::memory;

/// An operation on elements of type `T`.
pub struct Op<T> {
    op: Arc<weft_mpi::Op>,
    _on: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Op<T> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.op))
    }
}

impl<T> std::fmt::Debug for Op<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.op.fmt(out)
    }
}

impl<T> Op<T> {
    fn of(op: Arc<weft_mpi::Op>) -> Self {
        Self {
            op,
            _on: PhantomData,
        }
    }

    pub(super) fn shared(&self) -> Arc<weft_mpi::Op> {
        Arc::clone(&self.op)
    }
}

impl<T: Element> Op<T> {
    /// An operation of the program, which must be associative: `function(left, right)` gets operands in the order of the
    /// ranks. If it panics, the collective ends with an error.
    #[must_use]
    pub fn new(function: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Self {
        Self::of(weft_mpi::Op::user(memory::combining(function), false))
    }

    /// Like [`new`](Self::new), for an operation whose operands may come in any order, which may be faster.
    #[must_use]
    pub fn commutative(function: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Self {
        Self::of(weft_mpi::Op::user(memory::combining(function), true))
    }
}

static PREDEFINED: LazyLock<Vec<Arc<weft_mpi::Op>>> =
    LazyLock::new(|| Predefined::ALL.map(weft_mpi::Op::predefined).into());

fn predefined<T>(operation: Predefined) -> Op<T> {
    Op::of(Arc::clone(&PREDEFINED[operation as usize]))
}

/// `MPI_NO_OP`: the target's value is read, and stays.
pub(super) fn no_op() -> Arc<weft_mpi::Op> {
    Arc::clone(&PREDEFINED[Predefined::NoOp as usize])
}

/// Numbers, which can be added and multiplied.
pub trait Number: Element + sealed::Sealed {}
/// Numbers with an order.
pub trait Ordered: Number {}
/// Integers, whose bits can be combined.
pub trait Bits: Element + sealed::Sealed {}
/// Truth values: `bool`, and integers as in C.
pub trait Logical: Element + sealed::Sealed {}
/// Values with an index.
pub trait WithLocation: Element + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! allow {
    ($($trait:ident: $($type:ty),*;)*) => {
        $($(impl $trait for $type {})*)*
    };
}

use sealed::Sealed;

allow! {
    Sealed: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Complex<f32>, Complex<f64>, bool,
        Located<f32>, Located<f64>, Located<i64>, Located<i32>, Located<i16>;
    Number: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Complex<f32>, Complex<f64>;
    Ordered: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    Bits: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize;
    Logical: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, bool;
    WithLocation: Located<f32>, Located<f64>, Located<i64>, Located<i32>, Located<i16>;
}

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident: $bound:ident = $operation:ident;)*) => {$(
        $(#[doc = $doc])*
        #[must_use]
        pub fn $name<T: $bound>() -> Op<T> {
            predefined(Predefined::$operation)
        }
    )*};
}

operations! {
    /// `MPI_SUM`. Integers wrap.
    sum: Number = Sum;
    /// `MPI_PROD`. Integers wrap.
    product: Number = Prod;
    /// `MPI_MAX`.
    max: Ordered = Max;
    /// `MPI_MIN`.
    min: Ordered = Min;
    /// `MPI_LAND`.
    logical_and: Logical = Land;
    /// `MPI_LOR`.
    logical_or: Logical = Lor;
    /// `MPI_LXOR`.
    logical_xor: Logical = Lxor;
    /// `MPI_BAND`.
    bit_and: Bits = Band;
    /// `MPI_BOR`.
    bit_or: Bits = Bor;
    /// `MPI_BXOR`.
    bit_xor: Bits = Bxor;
    /// `MPI_MINLOC`: the least value, with its index.
    ///
    /// ```
    /// use weft::mpi::{self, Located, op};
    ///
    /// mpi::test(3, |world| {
    ///     let rank = world.rank() as i32;
    ///     let mine = Located { value: f64::from((rank - 1).pow(2)), index: rank };
    ///     assert_eq!(world.allreduce(&mine, op::min_location())?.index, 1);
    ///     Ok(())
    /// });
    /// ```
    min_location: WithLocation = Minloc;
    /// `MPI_MAXLOC`: the largest value, with its index.
    max_location: WithLocation = Maxloc;
}
