//! A foreign ABI: entry points for programs that were built with another implementation. `libmpi.so.12`, the ABI of MPICH, Intel MPI, MVAPICH and Cray
//! MPI; and `libmpi.so.40`, that of Open MPI: package `weft-abi-openmpi`, which is this code with the feature `openmpi`.
//!
//! ```text
//!   MPI_Send ──jmp──► PMPI_Send          generated/   one for each function of tables/functions
//!                        │  each argument is translated to the standard ABI                   handle, number, status, …
//!                        ▼
//!                     PMPI_Send of libmpi_abi.so.1    found when this library is loaded       standard
//!                        │
//!                        ▼  the outcome, handles and statuses are translated to the program's   error, handle, status
//!                     program
//! ```
//!
//! This library only translates; it implements nothing of MPI. The generated functions follow from the kinds of the
//! parameters in `tables/functions` and are the same for each ABI; the values are those in `tables/mpich.toml` or `tables/openmpi.toml`. The functions that
//! `tables/foreign.toml` lists as written by hand are in [`by_hand`]. What else differs is in a module for each ABI, here `own`: how handles and statuses
//! look, the variables and functions that only one has.
//!
//! A handle of an object that the program has made is the handle of the standard ABI in a form that no predefined one has, so that no
//! table is needed: [`own::handle`]. Predefined ones are found by index, or at the address that they are.
//!
//! # Safety
//! Memory that C programs pass is accessed under the promises of the C binding (MPI 5.0, section 2.5): a pointer to a handle,
//! a status or a number is null or valid, an array has as many elements as the call says. What is the same in the standard ABI
//! is passed on unchanged.

// Without the standard library, where a panic ends the process: see `weft_bare`.
#![no_std]

extern crate alloc;
#[cfg(any(test, not(panic = "abort")))]
extern crate std;

mod array;
mod by_hand;
mod callback;
mod error;
mod fortran;
mod generated;
mod handle;
#[cfg(not(feature = "openmpi"))]
mod mpich;
mod number;
#[cfg(feature = "openmpi")]
mod openmpi;
mod standard;
mod status;

#[cfg(not(feature = "openmpi"))]
pub(crate) use mpich as own;
#[cfg(feature = "openmpi")]
pub(crate) use openmpi as own;

/// Defines `MPI_X` as a jump to `PMPI_X`, so that a tool that defines `MPI_X` itself and calls `PMPI_X` is called between the
/// program and this library.
macro_rules! alias {
    ($name:ident => $target:ident) => {
        #[doc = concat!("Jumps to [`", stringify!($target), "`]; has its signature.")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {target}", target = sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {target}", target = sym $target);
        }
    };
}
pub(crate) use alias;
