//! Variables that Open MPI exports besides the [`objects`](super::object): what Fortran has instead of `MPI_STATUS_IGNORE`, in C; what its library for C++
//! asks for when it is loaded; and addresses with a meaning, which are numbers.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use crate::number::{UNWEIGHTED, WEIGHTS_EMPTY};

/// The value of `MPI_UNWEIGHTED`.
pub const fn unweighted() -> *const c_int {
    core::ptr::without_provenance(UNWEIGHTED as usize)
}

/// The value of `MPI_WEIGHTS_EMPTY`.
pub const fn weights_empty() -> *const c_int {
    core::ptr::without_provenance(WEIGHTS_EMPTY as usize)
}

/// A pointer that never changes.
#[repr(transparent)]
pub struct Constant(*const [c_int; 6]);

// SAFETY: nobody writes through it.
unsafe impl Sync for Constant {}

macro_rules! ignored {
    ($($pointer:ident $block:ident;)*) => {$(
        #[doc = "A common block of Fortran: its address is that of the constant; nobody reads what is in it."]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static $block: [c_int; 6] = [0; 6];

        #[doc = concat!("`", stringify!($pointer), "`.")]
        #[unsafe(no_mangle)]
        pub static $pointer: Constant = Constant(&raw const $block);
    )*};
}

ignored! {
    MPI_F_STATUS_IGNORE mpi_fortran_status_ignore_;
    MPI_F_STATUSES_IGNORE mpi_fortran_statuses_ignore_;
}

/// `MPI_F08_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Constant = Constant(&raw const mpi_fortran_status_ignore_);

/// `MPI_F08_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Constant = Constant(&raw const mpi_fortran_statuses_ignore_);

/// A list of Open MPI's own, which `libmpi_cxx.so.40` looks through: it has no elements.
#[repr(C, align(8))]
pub struct Nothing<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: nothing here accesses it.
unsafe impl<const SIZE: usize> Sync for Nothing<SIZE> {}

macro_rules! nothing {
    ($($name:ident $size:literal;)*) => {$(
        #[doc = "Of Open MPI's own; nothing is in it."]
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static $name: Nothing<$size> = Nothing(UnsafeCell::new([0; $size]));
    )*};
}

nothing! {
    ompi_errcode_intern_lastused 8;
    ompi_errcodes_intern 0x78;
    ompi_registered_datareps 0x40;
}
