//! Findings of the checks: each is reported once, and fails the job if requested.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::{left_over, mode};
use crate::state;

/// Most findings that a rank reports.
const MOST: usize = 20;

/// Reports a finding: a sentence with the calls and places, and what to do.
#[cold]
pub fn tell(text: &str) {
    static TOLD: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() >= MOST || !told.insert(text.to_owned()) {
        return;
    }
    let last = told.len() == MOST;
    drop(told);
    let rank = state::world().map_or(0, |world| world.rank());
    let more = if last {
        "weft: further findings of this rank are not told\n"
    } else {
        ""
    };
    state::warn(&format!("weft: warning: rank {rank}: {text}\n{more}"));
    if mode().strict {
        left_over::fail();
    }
}
