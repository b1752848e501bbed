//! Checks of arguments, one for each kind of the tables. All take constant time; none reads the contents of
//! buffers.
//!
//! | module | what |
//! |---|---|
//! | `handles` | the object that a handle names |
//! | `numbers` | counts, ranks, roots, tags |
//! | `addresses` | buffers, results, lists, texts |
//! | [`left_over`] | messages never received, requests never completed, objects never freed |
//! | [`findings`] | the findings of the modules below |
//! | [`threads`], [`races`] | by `mpiexec --check`: calls from threads that may not, receives that any of several messages could match |
//! | [`under_way`] | requests, by `mpiexec --check`: where they were made, and their buffers meanwhile |
//! | [`accesses`], [`fences`], [`epochs`] | one-sided accesses of an epoch, by `mpiexec --check`: which conflict |
//! | [`development`] | the other checks that `mpiexec --check` asks for |
//!
//! # Safety
//! Addresses of the caller become references in `addresses`, under the promises of the C binding: a
//! parameter's type and direction hold until the call returns. Null is checked; a wild address cannot be.

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

/// The checks besides those of arguments, and the consequence of a finding.
#[inline]
pub fn mode() -> CheckMode {
    static MODE: OnceLock<CheckMode> = OnceLock::new();
    *MODE.get_or_init(|| {
        let mode = CheckMode::of_environment();
        FULL.store(mode.is_full(), Ordering::Relaxed);
        mode
    })
}

/// Whether everything is checked; set at initialisation.
static FULL: AtomicBool = AtomicBool::new(false);

/// Whether everything is checked.
#[inline(always)]
pub fn is_full() -> bool {
    FULL.load(Ordering::Relaxed)
}

/// Addresses below this are constants of the standard or mistakes, never memory.
pub(crate) const PAGE: usize = 4096;
