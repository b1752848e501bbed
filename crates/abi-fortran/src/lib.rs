//! Fortran's bindings, `libmpi_fortran.so.1`: entry points for `mpif.h` and the modules `mpi` and `mpi_f08`.
//!
//! ```text
//!   call MPI_Send(…)     mpif.h, use mpi: mpi_send_      use mpi_f08: mpi_send_f08_, one code under both names
//!        │  every argument is an address
//!        ▼
//!   mpi_send_            generated/   loads numbers and handles, knows addresses with a meaning of their own    data, sentinel
//!        │
//!        ▼
//!   MPI_Send of libmpi_abi.so.1       or of a tool that is loaded before it
//!        │
//!        ▼  the outcome, handles, logicals, texts and indices are translated to Fortran's       error, logical, text, array
//!     program
//! ```
//!
//! The same code over the ABI of MPICH is `libmpifort.so.12` (package `weft-abi-mpich-fortran`, feature `mpich`), which calls `MPI_Send` of
//! `libmpi.so.12`: for programs that were built with MPICH or Intel MPI. And over that of Open MPI `libmpi_mpifh.so.40` (package
//! `weft-abi-openmpi-fortran`, feature `openmpi`). The differences are in [`abi`], [`sentinel`] and the constants; `of_mpich` and `section` are what
//! programs with MPICH's modules of `mpi_f08` ask for besides.
//!
//! This library only translates; it implements nothing of MPI. The generated procedures follow from `tables/functions`; those
//! that `tables/fortran.toml` lists as written by hand are in [`by_hand`]. The integer of Fortran that names an object is the
//! handle of C, whose numbers fit into it; a status has the same integers in both. The modules in the folder `modules` consist of
//! interfaces and constants: no compiled code belongs to them.
//!
//! # Safety
//! A program passes the addresses of variables as the bindings of Fortran declare them (MPI 5.0, appendix A): arrays have as
//! many elements as the call says, and the lengths of texts follow after all arguments. The address of `ierror` may be null:
//! module `mpi_f08` has it as an optional argument.

// Without the standard library, where a panic ends the process: see `weft_bare`.
#![no_std]

extern crate alloc;
#[cfg(any(test, not(panic = "abort")))]
extern crate std;

mod abi;
mod array;
mod by_hand;
mod data;
mod error;
mod generated;
mod logical;
mod neighbors;
#[cfg(feature = "mpich")]
mod of_mpich;
#[cfg(feature = "mpich")]
mod section;
mod sentinel;
mod text;

// In memory, a handle of C begins with the integer that names it, so that both have the same address:
// functions of the program for operations and errors are passed on as they are.
const _: () = assert!(cfg!(target_endian = "little"));

/// Defines other names of an entry point, which jump to it.
macro_rules! also {
    ($target:ident: $($name:ident)*) => {$(
        #[doc = concat!("Jumps to [`", stringify!($target), "`]; has its signature.")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {target}", target = sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {target}", target = sym $target);
        }
    )*};
}
pub(crate) use also;

/// Defines further names of entry points of this library, by the symbols of both.
#[cfg(feature = "openmpi")]
macro_rules! also_of {
    ($($name:ident $target:ident;)*) => {$(
        #[doc = concat!("Jumps to `", stringify!($target), "`; has its signature.")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(concat!("jmp ", stringify!($target), "@PLT"));
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("b ", stringify!($target)));
        }
    )*};
}
#[cfg(feature = "openmpi")]
pub(crate) use also_of;
