//! Losses: whether this program continues when other ranks die. If so, the launcher is told, once, and a death does not
//! end the job.
//!
//! A program continues if it uses the extension for fault tolerance (it is linked with a function that handles losses,
//! or has called one) *and* has set a non-fatal error handler on a communicator. Neither alone suffices: many libraries
//! set `MPI_ERRORS_RETURN` to print their own text before they end, and without a handler the first error ends the job
//! anyway. See `docs/decisions/0053`.

use std::sync::LazyLock;

use weft_atomic::{AtomicBool, Ordering};
use weft_sys::symbols;

use crate::generated::constants as k;
use crate::{c, state};

/// An error handler was set that lets the program continue.
static HANDLER: AtomicBool = AtomicBool::new(false);
/// A function of the extension was called.
static CALLED: AtomicBool = AtomicBool::new(false);
/// The launcher was told.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Whether the program, or a library of it, is linked with the extension.
static LINKED: LazyLock<bool> = LazyLock::new(|| {
    symbols::is_any_needed(&[
        c"MPIX_Comm_revoke",
        c"MPIX_Comm_shrink",
        c"MPIX_Comm_ishrink",
        c"MPIX_Comm_agree",
        c"MPIX_Comm_iagree",
    ])
});

/// The program has set an error handler on a communicator.
pub fn note_errhandler(handler: c::Errhandler) {
    if ![k::MPI_ERRORS_ARE_FATAL, k::MPI_ERRORS_ABORT].contains(&handler) {
        HANDLER.store(true, Ordering::Relaxed);
        tell();
    }
}

/// The program has called a function of the extension.
pub fn note_call() {
    CALLED.store(true, Ordering::Relaxed);
    tell();
}

fn tell() {
    let handles = || HANDLER.load(Ordering::Relaxed) && (CALLED.load(Ordering::Relaxed) || *LINKED);
    if TOLD.load(Ordering::Relaxed) || !handles() {
        return;
    }
    if let Some(runtime) = state::runtime()
        && !TOLD.swap(true, Ordering::Relaxed)
    {
        runtime.process.prepare_for_losses();
        runtime.launcher.handles_losses();
    }
}
