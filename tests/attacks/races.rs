//! Threads that do everything at the same time.

use weft_tests::sanitizer::most_ranks;
use weft_tests::{build, mpiexec, seeds};

use crate::Playing;

#[test]
fn threads_that_race_keep_their_data_apart() {
    let program = build("tests/attacks/races.c", &["-pthread"]);
    // Threads, rounds: programs under a sanitizer are slower.
    let (threads, rounds) = match most_ranks() {
        u32::MAX => ("12", "40"),
        _ => ("6", "10"),
    };
    for seed in seeds(4) {
        let test = "threads_that_race_keep_their_data_apart";
        let _playing = Playing { test, seed };
        let ranks = [2, 2, 4, 6][seed as usize % 4].min(most_ranks());
        let ended = mpiexec(ranks, &program, &[threads, rounds, &seed.to_string()]);
        ended.expect_success();
        assert!(ended.out.contains("races: ok with"), "{ended:?}");
    }
}
