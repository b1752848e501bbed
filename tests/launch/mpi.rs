//! Programs of MPI in Rust, as processes: the examples, alone, on one host and on two.

use crate::harness::{Job, example, weft};
use crate::network::Network;

#[test]
fn around_the_ring_by_each_fabric() {
    let program = example("ring");
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let words = [fabric, &["-n", "4", &program]].concat();
        let ended = Job::new(words).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        assert_eq!(ended.out.trim(), "around the ring: 1 2 3", "{ended:?}");
    }
}

#[test]
fn items_are_sorted_by_their_samples() {
    for ranks in ["1", "3", "4"] {
        let ended = Job::new(["-n", ranks, &example("sample_sort"), "5000"]).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let total = 5000 * ranks.parse::<usize>().expect("a number");
        let said = format!("{total} items on {ranks} ranks, at most ");
        assert!(ended.out.starts_with(&said), "{ended:?}");
    }
}

/// All of the heat is there still, but for what has left at the ends of the rod.
#[test]
fn heat_is_exchanged_by_tasks() {
    let ended = Job::new(["-n", "3", &example("async_halo")]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.trim(), "1000.000 after 500 steps", "{ended:?}");
}

#[test]
fn workers_are_started_and_end_with_the_job() {
    let ended = Job::new(["-n", "2", &example("workers"), "3"]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.out.trim(), "3.1416 by 3 workers", "{ended:?}");
}

#[test]
fn started_alone_it_is_a_job_of_one() {
    let ended = Job::of(std::process::Command::new(example("sample_sort"))).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.starts_with("10000 items on 1 ranks"), "{ended:?}");
}

/// Its neighbours wait in a barrier: the launcher ends them.
#[test]
fn an_error_that_leaves_main_ends_the_job() {
    let ended = Job::new(["-n", "3", &example("failing")]).run();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(
        ended.error.contains("Error: Rank: there is no rank 99"),
        "{ended:?}"
    );
    assert!(ended.last().contains("rank 1 failed first"), "{ended:?}");
}

#[test]
fn ranks_of_two_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let hosts: Vec<_> = network
        .hosts
        .iter()
        .map(|host| format!("{host}:2"))
        .collect();
    let mut command = network.on(0, &weft().to_string_lossy());
    command
        .args(["run", "--launch-command", "ip netns exec", "--hosts"])
        .args([&hosts.join(","), &example("sample_sort"), "3000"]);
    let ended = Job::of(command).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.out.starts_with("12000 items on 4 ranks"), "{ended:?}");
}
