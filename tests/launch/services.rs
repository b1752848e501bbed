//! Nodes that are Rust programs: the example, with its nodes in various places.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use crate::harness::{Ended, Job, example, rank, signal, weft};
use crate::network::Network;

fn succeeded(ended: &Ended, clients: usize, rounds: u32) {
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let ends = ended.out.matches(&format!(": {rounds} rounds, ")).count();
    assert_eq!(ends, clients, "{ended:?}");
}

#[test]
fn on_one_host_by_each_fabric() {
    let program = example("key_value");
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let words = [fabric, &["-n", "5", &program, "40"]].concat();
        succeeded(&Job::new(words).run(), 4, 40);
    }
}

#[test]
fn on_two_hosts() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let hosts: Vec<_> = network
        .hosts
        .iter()
        .map(|host| format!("{host}:3"))
        .collect();
    let mut command = network.on(0, &weft().to_string_lossy());
    command
        .args(["run", "--launch-command", "ip netns exec", "--hosts"])
        .args([&hosts.join(","), &example("key_value"), "40"]);
    succeeded(&Job::of(command).run(), 5, 40);
}

/// The start of a line that names the server's process.
const STARTED: [&str; 2] = [
    "weft: rank 0 is process ",
    "weft: rank 0 killed by signal 9 (SIGKILL); started anew as process ",
];

/// The server is killed in the middle: its clients learn which node it was, and finish with the next one.
#[test]
fn a_server_in_rust_that_is_killed_is_started_anew() {
    let program = example("key_value");
    let words = ["--on-death=restart", "-v", "-n", "17", &program, "4000"];
    let mut running = Job::new(words).start();
    // It is killed until half of its clients have met a death: when they start depends on the machine.
    let told = |said: &str| {
        (1..17)
            .filter(|client| said.contains(&format!("client {client}: node 0 is lost: ")))
            .count()
    };
    let (mut said, mut killed) = (String::new(), 0);
    for line in BufReader::new(running.child.stderr.take().expect("piped")).lines() {
        let line = line.expect("text");
        let number = STARTED.iter().find_map(|start| line.strip_prefix(start));
        if let Some(rest) = number
            && killed < 12
            && told(&said) < 8
        {
            killed += 1;
            let number = rest.split(':').next().and_then(|word| word.parse().ok());
            let number = number.expect("a process");
            let patience = Duration::from_millis(200 * killed);
            std::thread::spawn(move || {
                std::thread::sleep(patience);
                signal(number, 9);
            });
        }
        said.push_str(&line);
        said.push('\n');
    }
    let ended = running.end();
    assert!(said.contains("started anew"), "{said}");
    succeeded(&ended, 16, 4000);
    // A quick client may have finished before.
    assert!(told(&said) >= 8, "{said}");
}

/// The only other node is the server: its client waits for the restarted one.
#[test]
fn a_server_that_panics_is_started_anew_for_its_only_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = folder.path().join("first").display().to_string();
    let ended = Job::new(["--on-death=restart", "-n", "2", &rank(), "serve", &first]).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let told = "weft: rank 0 exited with code 101; started anew as process ";
    assert!(ended.error.contains(told), "{ended:?}");
    assert_eq!(ended.out.trim(), "asked anew", "{ended:?}");
}

/// The system refuses to start the server anew, though there is room for it: its only client hears that nobody is left.
#[test]
fn a_client_does_not_wait_for_a_server_that_cannot_be_started_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("vanishing");
    std::fs::copy(rank(), &program).expect("a copy");
    let program = program.display().to_string();
    let ended = Job::new(["--on-death=restart", "-n", "2", &program, "vanish"]).run();
    assert_eq!(ended.code(), Some(101), "{ended:?}");
    assert!(ended.error.contains("; not started anew: "), "{ended:?}");
    let last = ended.out.lines().last().unwrap_or_default();
    assert!(last.contains("all other nodes are gone"), "{ended:?}");
}

/// Nodes in Rust say what they wait for, as those in C do: a deadlock is told with calls and places.
#[test]
fn nodes_that_wait_for_each_other_end_with_what_each_waits_for() {
    let program = rank();
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let words = [fabric, &["-n", "2", &program, "wait-in-services"]].concat();
        let ended = Job::new(words).run();
        assert_ne!(ended.code(), Some(0), "{ended:?}");
        for text in [
            "deadlock: ranks 0 and 1 wait for each other",
            "rank 0: read for a message from any node at port 3 of its mailbox, at rank.rs:",
            " for some node to take the name 'nobody', at rank.rs:",
        ] {
            assert!(ended.error.contains(text), "{text}: {ended:?}");
        }
    }
}

/// A node that panics has not left properly.
#[test]
fn a_node_that_panics_has_failed_before_its_end() {
    for fabric in [&[][..], &["--fabric", "tcp"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder.path().join("first").display().to_string();
        let program = rank();
        let words = [fabric, &["-n", "2", &program, "serve", &first]].concat();
        let ended = Job::new(words).run();
        assert_eq!(ended.code(), Some(101), "{ended:?}");
        // The other node may have learned of it, and ended, before the launcher ends it.
        let last = "weft: rank 0 failed first: exited with code 101 before MPI_Finalize";
        assert!(ended.error.contains(last), "{ended:?}");
    }
}
