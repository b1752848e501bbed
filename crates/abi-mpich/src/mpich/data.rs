//! Variables that MPICH exports: the address or the value is a constant.

use core::ffi::{c_int, c_void};

use super::status::Classic;
use crate::number::STANDARD_T_PVAR_ALL_HANDLES;

/// A pointer that never changes.
#[repr(transparent)]
pub struct Constant<T>(*const T);

// SAFETY: nobody writes through it.
unsafe impl<T> Sync for Constant<T> {}

/// The two constants for weights point to it. Nothing reads it, but no other variable may have its address.
static NO_WEIGHTS: [c_int; 2] = [0; 2];

/// `MPI_UNWEIGHTED`.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Constant<c_int> = Constant(unweighted());

/// `MPI_WEIGHTS_EMPTY`.
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Constant<c_int> = Constant(weights_empty());

/// The value of `MPI_UNWEIGHTED`.
pub const fn unweighted() -> *const c_int {
    &raw const NO_WEIGHTS[0]
}

/// The value of `MPI_WEIGHTS_EMPTY`.
pub const fn weights_empty() -> *const c_int {
    &raw const NO_WEIGHTS[1]
}

/// `MPI_T_PVAR_ALL_HANDLES`.
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Constant<c_void> = Constant(core::ptr::without_provenance(
    STANDARD_T_PVAR_ALL_HANDLES as usize,
));

/// The `MPI_STATUS_IGNORE` of Fortran, as an address in C. This library has no Fortran, so it is null.
#[unsafe(no_mangle)]
pub static MPI_F_STATUS_IGNORE: Constant<c_int> = Constant(core::ptr::null());

/// As [`MPI_F_STATUS_IGNORE`], for arrays.
#[unsafe(no_mangle)]
pub static MPI_F_STATUSES_IGNORE: Constant<c_int> = Constant(core::ptr::null());

const NOTHING: Classic = Classic::empty(0, 0);

/// [`MPI_F08_STATUS_IGNORE`] points to it.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Classic = NOTHING;

/// [`MPI_F08_STATUSES_IGNORE`] points to it.
#[unsafe(no_mangle)]
pub static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [Classic; 1] = [NOTHING];

/// `MPI_F08_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Constant<Classic> =
    Constant(&raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ);

/// `MPI_F08_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Constant<Classic> =
    Constant((&raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast());
