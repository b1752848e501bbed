//! Checks of arguments, one for each kind of the tables. All are constant time; none looks into the
//! contents of buffers.
//!
//! | module | what |
//! |---|---|
//! | `handles` | what a handle stands for |
//! | `numbers` | counts, ranks, roots, tags |
//! | `addresses` | buffers, results, lists, texts |
//! | [`left_over`] | what was never received, completed or freed |
//! | [`under_way`] | requests, by `mpiexec --check`: where they were made, and their buffers meanwhile |
//! | [`development`] | what `mpiexec --check` asks for besides |
//!
//! # Safety
//! Addresses of the caller become references in `addresses`, under the promises of the C binding: what
//! a parameter's type and direction say is true until the call returns. Null is checked; a wild address
//! cannot be.

use std::sync::OnceLock;

use weft_launch::check_mode::CheckMode;

mod addresses;
pub mod development;
mod handles;
pub mod left_over;
mod numbers;
pub mod under_way;

pub use addresses::*;
pub use handles::*;
pub use numbers::*;

/// What is checked besides the arguments, and what a finding means.
#[inline]
pub fn mode() -> CheckMode {
    static MODE: OnceLock<CheckMode> = OnceLock::new();
    *MODE.get_or_init(CheckMode::of_environment)
}

/// Addresses below this are constants of the standard or mistakes, never memory.
pub(crate) const PAGE: usize = 4096;
