//! Losses in jobs on several hosts, which are network namespaces: as on one host.

use std::path::Path;
use std::time::Duration;

use weft_tests::{Ended, build, installation, run};

use super::network::Network;

/// A job with so many ranks on each host.
fn job(network: &Network, numbers: &[u32], options: &[&str], program: (&Path, &[&str])) -> Ended {
    let launcher = installation().join("bin/mpiexec");
    let mut start = network.on(0, &launcher.to_string_lossy());
    start.arg("--timeout=60").args(options);
    start.args(network.so_many(numbers));
    let (program, arguments) = program;
    run(start.arg(program).args(arguments), Duration::from_secs(70))
}

/// Also those that have no connection with it: the launcher reports its end, and how it has ended.
#[test]
fn all_ranks_hear_of_a_loss_on_another_host_and_its_cause() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/loss_heard.c", &[]);
    for numbers in [&[3, 3][..], &[1, 1]] {
        for (arguments, code, how) in [
            (&["0"][..], 128 + 9, "its process was killed by signal 9"),
            (&["100"], 128 + 9, "its process was killed by signal 9"),
            (&["0", "3"], 3, "its process exited with code 3"),
            (&["100", "3"], 3, "its process exited with code 3"),
        ] {
            let ended = job(
                &network,
                numbers,
                &["--on-death=report"],
                (&program, arguments),
            );
            let which = format!("{numbers:?} {arguments:?}");
            let heard = ended.out.matches("has heard of it").count() as u32;
            assert_eq!(heard, numbers.iter().sum::<u32>() - 1, "{which}: {ended:?}");
            assert_eq!(
                ended.out.matches(how).count() as u32,
                heard,
                "{which}: {ended:?}"
            );
            assert_eq!(ended.code(), Some(code), "{which}: {ended:?}");
        }
    }
}

/// Whether others are on its host or not.
#[test]
fn a_rank_of_another_host_that_dies_before_it_begins_is_not_waited_for() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/loss_early.c", &[]);
    for numbers in [[1, 1], [1, 2], [2, 1]] {
        let options = ["--on-death=report"];
        let ended = job(&network, &numbers, &options, (&program, &[]));
        let heard = ended.out.matches("has heard of it").count() as u32;
        assert_eq!(heard + 1, numbers[0] + numbers[1], "{numbers:?}: {ended:?}");
        assert_eq!(ended.code(), Some(128 + 9), "{numbers:?}: {ended:?}");
    }
}

/// The code is that of a lost host; if the ranks handle losses, the job has gone well.
#[test]
fn the_loss_of_a_host_is_that_of_each_of_its_ranks() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/loss_host.c", &[]);
    for (option, code) in [("--on-death=report", 1), ("--on-death=end", 0)] {
        for each in [1, 2] {
            let options = [option, "--universe=8"];
            let ended = job(&network, &[each, each], &options, (&program, &[]));
            let which = format!("{option} {each}");
            let heard = ended.out.matches("has heard of ").count() as u32;
            assert_eq!(heard, each * each, "{which}: {ended:?}");
            let causes = ended.out.matches("its host is lost").count() as u32;
            assert_eq!(causes, heard, "{which}: {ended:?}");
            let going = ended.out.matches("goes on\n").count() as u32;
            assert_eq!(going, each, "{which}: {ended:?}");
            let told = format!("weft: host {} is lost with its ranks: ", network.hosts[1]);
            assert!(ended.err.contains(&told), "{which}: {ended:?}");
            assert_eq!(ended.code(), Some(code), "{which}: {ended:?}");
        }
    }
}

#[test]
fn ranks_die_on_two_hosts_and_the_others_go_on() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/ulfm.c", &[]);
    for (option, code) in [("--on-death=report", 128 + 9), ("--on-death=end", 0)] {
        for (quiet, seed) in [("1", "0"), ("2", "5"), ("3", "6")] {
            let ended = job(&network, &[4, 4], &[option], (&program, &[quiet, seed]));
            let which = format!("{option} {quiet} {seed}");
            assert_eq!(ended.code(), Some(code), "{which}: {ended:?}");
            assert!(ended.out.contains("2 are left of 8"), "{which}: {ended:?}");
        }
    }
}

/// On the host of the root, or on one of its own: together with the slow one it would have to wait for that, as data are gathered
/// within each host first.
#[test]
fn a_rank_that_has_finished_is_no_loss_on_another_host() {
    let Some(network) = Network::new(3) else {
        return;
    };
    let program = build("tests/programs/loss_finished.c", &[]);
    for numbers in [&[2, 2][..], &[1, 1, 2]] {
        for how in ["well", "with code", "killed", "session"] {
            let ended = job(
                &network,
                numbers,
                &["--on-death=report"],
                (&program, &[how]),
            );
            let which = format!("{numbers:?} {how}");
            let going = ended.out.matches(" goes on\n").count();
            assert_eq!(going, 2, "{which}: {ended:?}");
            // That of the first death.
            assert_eq!(ended.code(), Some(128 + 9), "{which}: {ended:?}");
        }
    }
}

/// Whether the message comes before that one finishes, before its process ends, or later.
#[test]
fn a_send_to_a_rank_of_another_host_that_has_just_finished_is_an_error() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/loss_sent.c", &[]);
    for (option, code) in [("--on-death=end", 0), ("--on-death=report", 128 + 9)] {
        for bytes in ["8", "3000000"] {
            for pause in ["0", "300", "1000", "3000", "100000"] {
                let ended = job(&network, &[1, 2], &[option], (&program, &[bytes, pause]));
                let which = format!("{option} {bytes} {pause}");
                assert!(ended.out.contains("has left the job"), "{which}: {ended:?}");
                assert_eq!(ended.code(), Some(code), "{which}: {ended:?}");
            }
        }
    }
}

/// A process that a rank has forked holds its connections, and may outlive it.
#[test]
fn a_rank_is_missed_on_another_host_although_a_process_holds_its_connections() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let program = build("tests/programs/loss_forked.c", &[]);
    let options = ["--on-death=report", "--heartbeat=2"];
    let ended = job(&network, &[2, 2], &options, (&program, &[]));
    let heard = ended.out.matches("has heard of it").count();
    assert_eq!(heard, 3, "{ended:?}");
    assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
}
