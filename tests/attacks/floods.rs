//! A rank that receives messages faster than it takes them.

use weft_tests::sanitizer::most_ranks;
use weft_tests::{build, mpiexec};

/// All others send thousands of messages to a rank that first sleeps, then only probes, then takes the oldest
/// ones last. `floods.c` checks each message.
#[test]
fn a_flooded_rank_gets_everything_in_order() {
    let program = build("tests/attacks/flood.c", &[]);
    let messages = match most_ranks() {
        u32::MAX => "4000",
        _ => "400",
    };
    for ranks in [2, 4] {
        let ended = mpiexec(ranks, &program, &[messages]);
        ended.expect_success();
        assert!(ended.out.contains("flood: ok with"), "{ended:?}");
    }
}
