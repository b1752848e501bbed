//! Attacks on running jobs: ranks that are killed or stopped at any moment, a rank that is flooded, threads
//! that race. Whatever happens, what arrives is what was sent, nothing hangs, and nothing is left.
//!
//! What an attack does follows from its seed. `WEFT_SEEDS=1000` plays more of them than usual, `WEFT_SEED=7`
//! a single one again; `cargo xtask test --long` plays many.

#![allow(missing_docs)]

#[path = "../launch/harness.rs"]
mod harness;

mod floods;
mod races;
mod signals;

/// Has a panic name the seed that it happened with, and how to play it again.
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
