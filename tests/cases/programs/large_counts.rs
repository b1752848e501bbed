//! Counts of elements that 31 bits, and 32 bits, cannot hold.

use std::time::Duration;

use weft_tests::{build, run, tool};

use super::passes;

/// Every case of `large.c` that also works with few elements.
#[test]
fn large_counts_in_small() {
    passes("large", &[2, 3], &["all", "3000001"]);
    passes("large", &[2, 3], &["all", "300001", "gaps"]);
}

/// Whether that many GiB of memory are free; prints a message if not.
fn has_memory(gibibytes: u64, case: &str) -> bool {
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = facts
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let words = available.and_then(|rest| rest.split_whitespace().next());
    let free = words.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) >> 20;
    if free < gibibytes {
        eprintln!("left out: {case} needs {gibibytes} GiB of memory, and {free} are free");
    }
    free >= gibibytes
}

/// More elements than 31 bits can count, and than 32 bits can. This takes up to 14 GiB of memory, or 26 GiB with gaps if each rank
/// gets something from each; it takes minutes; and only one such test may run at a time: `cargo test -p weft-tests --test programs
/// many_elements -- --ignored`.
#[test]
#[ignore = "takes minutes, and more memory than most machines have to spare"]
fn many_elements() {
    let program = build("tests/programs/large.c", &[]);
    let from_each_to_each = [
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "alltoallw",
    ];
    let others = [
        "point_to_point",
        "bcast",
        "gather",
        "gatherv",
        "scatter",
        "scatterv",
    ];
    let reducing = [
        "reduce",
        "allreduce",
        "scan",
        "exscan",
        "reduce_scatter",
        "reduce_scatter_block",
    ];
    let beyond_31_bits = "2147483655";
    let cases = others.iter().chain(&from_each_to_each).chain(&reducing);
    let runs = cases.map(|case| vec![*case, beyond_31_bits]);
    let with_gaps = others.iter().chain(&from_each_to_each);
    let with_gaps = with_gaps.filter(|case| match from_each_to_each.contains(case) {
        true => has_memory(26, &format!("{case} with gaps")),
        false => true,
    });
    let runs = runs.chain(with_gaps.map(|case| vec![*case, beyond_31_bits, "gaps"]));
    let runs = runs.chain([
        vec!["point_to_point", "4294967311"],
        vec!["bcast", "8589934592"],
    ]);
    for arguments in runs {
        let mut command = tool("mpiexec");
        command.args(["-n", "2"]).arg(&program).args(&arguments);
        let ended = run(&mut command, Duration::from_secs(600));
        ended.expect_success();
        eprint!("{}", ended.err);
    }
}
