//! MPI 5 standard ABI: C entry points over the engine.
//!
//! ```text
//!   MPI_Send ──jmp──► PMPI_Send          generated/   one for each function of tables/functions
//!                        │  checks and decodes each argument by its kind     check, args, handle/
//!                        ▼
//!                     calls::p2p::send   calls/       written by hand, both forms (int and MPI_Count)
//!                        │
//!                        ▼
//!                     weft_mpi::Comm     the engine
//! ```
//!
//! An error of any layer is a [`fault::Fault`]; [`entry`] passes it to the error handler of the object
//! concerned. This crate holds the only globals of Weft: [`state`] and the tables of [`handle`].
//!
//! # Safety
//! Memory that C programs pass is accessed only by `args`, `check` and the engine, under the promises of the
//! C binding (MPI 5.0, section 2.5). Each check says what it relies on.

pub mod c;

mod args;
mod at_once;
mod calls;
mod check;
mod entry;
mod fault;
mod fibers;
pub mod generated;
mod handle;
mod last_error;
mod losses;
mod profile;
mod servers;
mod services;
mod state;
mod tool;

/// Defines `MPI_X` as a jump to `PMPI_X`. So a tool that defines `MPI_X` itself and calls `PMPI_X` is between the program and
/// us, whether it is preloaded or linked in. The target of the jump is in a word, which [`profile`] changes when the program is
/// profiled.
macro_rules! alias {
    ($name:ident => $target:ident) => {
        #[doc = concat!("Jumps to [`", stringify!($target), "`]; has its signature.")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp qword ptr [rip + {target}]", target = sym $name::TARGET);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {target}", target = sym $target);
        }

        /// The jump target of the entry point of the same name.
        pub(crate) mod $name {
            pub(crate) static TARGET: weft_atomic::AtomicPtr<()> =
                weft_atomic::AtomicPtr::new(super::$target as *mut ());
        }
    };
}
pub(crate) use alias;
