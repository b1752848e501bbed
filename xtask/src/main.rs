//! Chores of the project: `cargo xtask <chore>`.
fn main() {}
