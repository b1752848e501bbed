//! Attacks on running jobs: ranks that are killed or stopped at any moment, a rank that is flooded, threads
//! that race. Whatever happens, data arrive as they were sent, nothing hangs, and no process or file is left.
//!
//! The seed of an attack determines what it does. `WEFT_SEEDS=1000` runs more of them than usual,
//! `WEFT_SEED=7` repeats a single one; `cargo xtask test --long` runs many.

#![allow(missing_docs)]

#[path = "../launch/harness.rs"]
mod harness;

mod floods;
mod races;
mod signals;

/// Makes a panic print the seed at which it happened, and how to repeat it.
struct Playing {
    test: &'static str,
    seed: u64,
}

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!("again: WEFT_SEED={seed} cargo test -p weft-tests --test attacks {test}");
        }
    }
}
