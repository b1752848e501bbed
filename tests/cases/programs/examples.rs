//! Examples of the documentation, started as their comments say.

use weft_tests::{build, mpiexec};

#[test]
fn examples_of_queues_and_partitions() {
    let queues = build("examples/queues.c", &[]);
    let ended = mpiexec(3, &queues, &[]);
    ended.expect_success();
    let last = ended
        .out
        .lines()
        .find(|line| line.starts_with("at the end:"));
    let last = last.expect("the last line of the queues");
    assert!(
        last.contains("unexpected_messages 0  unexpected_bytes 0"),
        "{ended:?}"
    );
    let partitioned = build("examples/partitioned.c", &["-pthread"]);
    let ended = mpiexec(2, &partitioned, &[]);
    ended.expect_success();
    assert!(ended.out.contains("the sum is 600000"), "{ended:?}");
}

/// A user who starts an example with a number of ranks for which it is not written gets a message and an exit
/// code.
#[test]
fn examples_say_how_many_ranks_they_need() {
    for (source, ranks) in [
        ("examples/partitioned.c", 1),
        ("examples/queues.c", 1),
        ("examples/key_value.c", 1),
        ("examples/fibers/echo.c", 1),
        ("examples/fibers/million.c", 1),
        ("examples/fibers/million.c", 3),
    ] {
        let ended = mpiexec(ranks, &build(source, &["-pthread"]), &["1000"]);
        assert_eq!(ended.code(), Some(2), "{source}: {ended:?}");
        assert!(ended.err.starts_with("start with "), "{source}: {ended:?}");
    }
}

#[test]
fn examples_of_one_sided_access_and_of_a_grid() {
    let one_sided = build("examples/one_sided.c", &[]);
    for ranks in [1, 3, 4] {
        let ended = mpiexec(ranks, &one_sided, &[]);
        ended.expect_success();
        let counts = ended
            .out
            .lines()
            .map(|line| line.rsplit(' ').next().expect("a word"));
        let counts: Vec<u32> = counts.map(|word| word.parse().expect("a number")).collect();
        assert_eq!(counts.len(), 8, "{ended:?}");
        assert_eq!(counts.iter().sum::<u32>(), 1000, "{ended:?}");
    }
    let heat = build("examples/heat.c", &[]);
    for ranks in [1, 2, 4, 6] {
        let ended = mpiexec(ranks, &heat, &[]);
        ended.expect_success();
        // No heat leaves a plate whose edges are joined.
        assert!(
            ended
                .out
                .starts_with("1000.000 in all, the hottest place has "),
            "{ended:?}"
        );
    }
}

/// The examples, started as their comments say, but with smaller sizes.
#[test]
fn fibers_of_the_examples() {
    let of = |name: &str, argument: &str, expected: &str| {
        let program = build(&format!("examples/fibers/{name}.c"), &[]);
        let ended = mpiexec(2, &program, &[argument]);
        ended.expect_success();
        assert!(ended.out.contains(expected), "{ended:?}");
    };
    of("ring", "500", "passed 1000 fibers");
    of("echo", "5000", "5000 clients");
    of("million", "16384", "all have received theirs");
}

#[test]
fn a_queue_of_work_needs_no_server() {
    let program = build("examples/work_queue.c", &[]);
    for ranks in [1, 2, 5] {
        let ended = mpiexec(ranks, &program, &["200"]);
        ended.expect_success();
        let expected = "200 pieces: 9592 primes below 100000, 1224 of them with a twin";
        assert!(ended.out.contains(expected), "{ended:?}");
    }
}
