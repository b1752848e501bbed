//! Threads that call although the requested level does not permit it (MPI 5.0, section 11.6).

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::findings;
use crate::generated::constants as k;
use crate::handle::creation::NamedCallSite;
use crate::state;

/// Words in the names of calls that any thread may make at any time.
const ANY: [&str; 7] = [
    "MPI_T_",
    "nitialized",
    "inalized",
    "Query_thread",
    "Is_thread_main",
    "_version",
    "MPI_Error_",
];

/// Threads that are inside of calls, once for each call.
static INSIDE: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

fn inside() -> MutexGuard<'static, Vec<ThreadId>> {
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread begins a call.
#[cold]
pub fn enter(call: &'static str) {
    let this = thread::current().id();
    let others = {
        let mut inside = inside();
        inside.push(this);
        inside.iter().any(|one| *one != this)
    };
    if let Some(runtime) = state::runtime() {
        look(
            call,
            runtime.thread_level,
            runtime.main_thread == this,
            others,
        );
    }
}

/// A thread ends a call.
#[cold]
pub fn leave() {
    let this = thread::current().id();
    let mut inside = inside();
    if let Some(place) = inside.iter().rposition(|one| *one == this) {
        inside.swap_remove(place);
    }
}

fn look(call: &'static str, level: c_int, is_main: bool, others: bool) {
    let (name, what) = match level {
        k::MPI_THREAD_SINGLE if !is_main => ("MPI_THREAD_SINGLE", "a second thread"),
        k::MPI_THREAD_FUNNELED if !is_main => (
            "MPI_THREAD_FUNNELED",
            "a thread that has not called MPI_Init_thread",
        ),
        k::MPI_THREAD_SERIALIZED if others => (
            "MPI_THREAD_SERIALIZED",
            "a thread while another one is inside of a call",
        ),
        _ => return,
    };
    // Checked last: programs that keep to their level do not pay for the search.
    if ANY.iter().any(|word| call.contains(word)) {
        return;
    }
    findings::tell(&format!(
        "{} is called by {what}, but the level asked for is {name}; ask MPI_Init_thread for more",
        NamedCallSite::here(call).describe()
    ));
}
