//! Checks of arguments, one for each kind of the tables. All are constant time; none looks into the
//! contents of buffers.
//!
//! | module | what |
//! |---|---|
//! | `handles` | what a handle stands for |
//! | `numbers` | counts, ranks, roots, tags |
//! | `addresses` | buffers, results, lists, texts |
//! | `development` | what `mpiexec --check` asks for |
//!
//! # Safety
//! Addresses of the caller become references in `addresses`, under the promises of the C binding: what
//! a parameter's type and direction say is true until the call returns. Null is checked; a wild address
//! cannot be.

mod addresses;
pub mod development;
mod handles;
mod numbers;

pub use addresses::*;
pub use handles::*;
pub use numbers::*;

/// Addresses below this are constants of the standard or mistakes, never memory.
pub(crate) const PAGE: usize = 4096;
