//! Checks of arguments, one for each kind of the tables. All are constant time; none looks into the
//! contents of buffers.
//!
//! | module | what |
//! |---|---|
//! | `handles` | what a handle stands for |
//! | `numbers` | counts, ranks, roots, tags |
//! | `addresses` | buffers, results, lists, texts |
//! | [`left_over`] | what was never received, completed or freed |
//! | [`findings`] | what the following have found |
//! | [`threads`], [`races`] | by `mpiexec --check`: calls from threads that may not, receives that any of several messages could match |
//! | [`under_way`] | requests, by `mpiexec --check`: where they were made, and their buffers meanwhile |
//! | [`accesses`], [`fences`], [`epochs`] | one-sided accesses of an epoch, by `mpiexec --check`: which conflict |
//! | [`development`] | what `mpiexec --check` asks for besides |
//!
//! # Safety
//! Addresses of the caller become references in `addresses`, under the promises of the C binding: what
//! a parameter's type and direction say is true until the call returns. Null is checked; a wild address
//! cannot be.

use std::sync::OnceLock;

use weft_atomic::{AtomicBool, Ordering};
use weft_launch::check_mode::CheckMode;

pub mod accesses;
mod addresses;
pub mod development;
pub mod epochs;
pub mod fences;
pub mod findings;
mod handles;
pub mod left_over;
mod numbers;
pub mod races;
pub mod threads;
pub mod under_way;

pub use addresses::*;
pub use handles::*;
pub use numbers::*;

/// What is checked besides the arguments, and what a finding means.
#[inline]
pub fn mode() -> CheckMode {
    static MODE: OnceLock<CheckMode> = OnceLock::new();
    *MODE.get_or_init(|| {
        let mode = CheckMode::of_environment();
        FULL.store(mode.is_full(), Ordering::Relaxed);
        mode
    })
}

/// Whether everything is checked: known from initialisation on.
static FULL: AtomicBool = AtomicBool::new(false);

/// Whether everything is checked.
#[inline(always)]
pub fn is_full() -> bool {
    FULL.load(Ordering::Relaxed)
}

/// Addresses below this are constants of the standard or mistakes, never memory.
pub(crate) const PAGE: usize = 4096;
