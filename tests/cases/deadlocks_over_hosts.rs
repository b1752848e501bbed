//! Deadlocks of jobs that communicate over TCP, on one host and on two hosts, which are network namespaces: the same programs
//! with the same messages as for jobs with shared memory.

use std::time::{Duration, Instant};

use weft_tests::{build, installation, run, tool};

use super::network::Network;
use super::{Case, LIMIT, check_by};

/// Messages about memory that the ranks share do not occur without such memory.
fn over_a_network(case: &Case) -> bool {
    let of_shared_memory = ["shared", "board"];
    case.options.is_empty()
        && !case
            .arguments
            .iter()
            .any(|word| of_shared_memory.contains(&&**word))
}

/// Those of them with few ranks.
pub fn of_few_ranks(case: &Case) -> bool {
    over_a_network(case) && case.ranks <= 5
}

fn by_tcp(ranks: u32) -> std::process::Command {
    let mut command = tool("mpiexec");
    command.args(["--fabric", "tcp", "-n", &ranks.to_string()]);
    command
}

#[test]
fn they_are_proven_over_tcp() {
    check_by("tests/wrong", "deadlock-", &over_a_network, &by_tcp);
}

#[test]
fn nothing_is_said_of_right_programs_over_tcp() {
    check_by("tests/right", "waits", &over_a_network, &by_tcp);
    check_by("tests/right", "threads-", &over_a_network, &by_tcp);
}

#[test]
fn the_same_on_two_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let launcher = installation().join("bin/mpiexec");
    let hosts = network.hosts.clone();
    let launch = move |ranks: u32| {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", &hosts[0]]).arg(&launcher);
        let each = ranks.div_ceil(2);
        let list = format!("{}:{each},{}:{each}", hosts[0], hosts[1]);
        command.args(["--launch-command", "ip netns exec", "--hosts", &list]);
        command.args(["-n", &ranks.to_string()]);
        command
    };
    check_by("tests/wrong", "deadlock-", &of_few_ranks, &launch);
    check_by("tests/right", "waits", &of_few_ranks, &launch);
    check_by("tests/right", "threads-", &of_few_ranks, &launch);
}

/// A message that is held up counts as on its way as long as its connection is retried: all ranks sleep meanwhile, and no
/// deadlock is reported.
#[test]
fn what_the_network_holds_up_is_waited_for() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let launcher = installation().join("bin/mpiexec");
    let program = build("tests/right/waits.c", &["-g", "-pthread"]);
    let mut start = network.on(0, &launcher.to_string_lossy());
    start
        .args(network.everywhere(1))
        .arg(&program)
        .arg("bounces");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&mut start, LIMIT));
        // The ranks communicate for more than a second.
        std::thread::sleep(Duration::from_millis(500));
        network.set_line(1, false);
        std::thread::sleep(Duration::from_millis(2500));
        network.set_line(1, true);
        let ended = running.join().expect("no panic");
        ended.expect_success();
        assert_eq!(ended.err, "", "{ended:?}");
    });
}

/// The processes stay on all hosts, and the message names them with their hosts.
#[test]
fn on_two_hosts_they_may_stay_stopped_or_alone() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let launcher = installation().join("bin/mpiexec");
    let program = build("tests/wrong/deadlock-pairs.c", &["-g", "-pthread"]);
    // If the deadlock has to be found, there is enough time for it, even on a busy machine.
    for (option, seconds, said) in [
        ("--on-deadlock=stop", 12, Some("the processes are stopped")),
        ("--no-deadlock-check", 3, None),
    ] {
        let begun = Instant::now();
        let mut start = network.on(0, &launcher.to_string_lossy());
        start
            .args([option, &format!("--timeout={seconds}")])
            .args(network.everywhere(1));
        let ended = run(start.arg(&program).arg("receives"), LIMIT);
        assert!(begun.elapsed() >= Duration::from_secs(seconds), "{ended:?}");
        assert_ne!(ended.code(), Some(35), "{ended:?}");
        assert_eq!(ended.err.contains("deadlock"), said.is_some(), "{ended:?}");
        if let Some(said) = said {
            assert!(ended.err.contains(said), "{ended:?}");
            for (rank, host) in network.hosts.iter().enumerate() {
                let named = format!(" on {host} (rank {rank})");
                assert!(ended.err.contains(&named), "{ended:?}");
            }
        }
    }
}
