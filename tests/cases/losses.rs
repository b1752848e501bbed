//! Programs that continue after losses, and those that do not: C programs under `mpiexec`.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;
#[path = "losses_over_hosts.rs"]
mod over_hosts;

use std::path::Path;
use std::time::Duration;

use weft_tests::{Ended, build, run, tool};

const FABRICS: [&str; 2] = ["--fabric=auto", "--fabric=tcp"];

fn job(program: &Path, (fabric, ranks): (&str, u32), arguments: &[&str]) -> Ended {
    let mut command = tool("mpiexec");
    command.args([fabric, "--timeout=60", "-n", &ranks.to_string()]);
    run(
        command.arg(program).args(arguments),
        Duration::from_secs(70),
    )
}

/// The smallest number of losses: a run of the program has two fewer losses than ranks.
fn losses() -> u32 {
    let named = std::env::var("WEFT_SEEDS").ok();
    named.map_or(54, |_| 1000)
}

/// In every second group of eight runs, the victims are drawn at random, with seeds from this one on.
fn first_seed() -> usize {
    let named = std::env::var("WEFT_FIRST_SEED").ok();
    named.and_then(|named| named.parse().ok()).unwrap_or(1)
}

#[test]
fn ranks_die_and_the_others_go_on() {
    let program = build("tests/programs/ulfm.c", &[]);
    let (mut lost, mut jobs) = (0, 0);
    while lost < losses() {
        let fabric = FABRICS[jobs % 2];
        let ranks = [8, 5, 8, 11][jobs / 2 % 4];
        let quiet = [1, 2, 3, 5][jobs % 4];
        let seed = match jobs / 8 % 2 {
            0 => 0,
            _ => first_seed() + jobs,
        };
        jobs += 1;
        let ended = job(
            &program,
            (fabric, ranks),
            &[&quiet.to_string(), &seed.to_string()],
        );
        ended.expect_success();
        let left = format!("2 are left of {ranks}");
        assert!(
            ended.out.contains(&left),
            "{fabric} {quiet} {seed}: {ended:?}"
        );
        let told = ended.err.matches("the job goes on").count();
        assert_eq!(told as u32, ranks - 2, "{fabric} {quiet} {seed}: {ended:?}");
        lost += ranks - 2;
    }
}

#[test]
fn what_becomes_of_a_job_is_what_its_ranks_are_prepared_for() {
    let program = build("tests/programs/ulfm_ends.c", &[]);
    let killed = 128 + 9;
    for fabric in FABRICS {
        for what in ["nothing", "ack", "replaces"] {
            let ended = job(&program, (fabric, 4), &[what]);
            ended.expect_success();
            assert_eq!(
                ended.out.matches(" goes on\n").count(),
                3,
                "{what}: {ended:?}"
            );
        }
        for what in ["fatal", "gives up"] {
            let ended = job(&program, (fabric, 4), &[what]);
            assert_eq!(ended.code(), Some(killed), "{what}: {ended:?}");
            let first = "weft: rank 1 failed first: killed by signal 9";
            assert!(ended.err.contains(first), "{what}: {ended:?}");
        }
    }
}

/// An error handler alone does not mean that a program continues: many libraries set one.
#[test]
fn a_job_of_programs_without_the_extension_ends_with_the_first_death() {
    let program = build("tests/programs/ulfm_ends.c", &["-DWITHOUT"]);
    let ended = job(&program, ("--fabric=auto", 3), &["without"]);
    assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
    let first = "weft: rank 1 failed first: killed by signal 9";
    assert!(ended.err.contains(first), "{ended:?}");
    assert!(!ended.err.contains("goes on"), "{ended:?}");
}

#[test]
fn the_example_in_c_ends_with_two_ranks() {
    let program = build("examples/recover.c", &[]);
    let ended = job(&program, ("--fabric=auto", 6), &[]);
    ended.expect_success();
    for line in [
        "step 40: 2 ranks are left",
        "50 steps done, by 2 ranks in the end",
    ] {
        assert!(ended.out.contains(line), "{ended:?}");
    }
}

/// To measure how long that takes, run the program by itself: this test only checks that all ranks learn of
/// each loss.
#[test]
fn all_ranks_of_a_host_hear_of_each_loss() {
    let program = build("tests/programs/loss_latency.c", &[]);
    let ended = job(&program, ("--fabric=auto", 12), &[]);
    ended.expect_success();
    assert_eq!(ended.out.lines().count(), 10, "{ended:?}");
}

/// With a network only, a rank has no connection with ranks with which it has not communicated: the launcher
/// reports their ends.
#[test]
fn a_rank_hears_of_the_loss_of_one_it_never_talked_to() {
    let program = build("tests/programs/loss_heard.c", &[]);
    for fabric in FABRICS {
        for pause in ["0", "100"] {
            let mut command = tool("mpiexec");
            command.args(["--on-death=report", fabric, "--timeout=60", "-n", "6"]);
            let ended = run(command.arg(&program).arg(pause), Duration::from_secs(70));
            let heard = ended.out.matches("has heard of it").count();
            assert_eq!(heard, 5, "{fabric}, {pause}: {ended:?}");
        }
    }
}

/// Over TCP ranks exchange their addresses when they begin.
#[test]
fn a_rank_that_dies_before_it_begins_is_not_waited_for() {
    let program = build("tests/programs/loss_early.c", &[]);
    for fabric in FABRICS {
        let mut command = tool("mpiexec");
        command.args(["--on-death=report", fabric, "--timeout=30", "-n", "3"]);
        let ended = run(command.arg(&program), Duration::from_secs(40));
        let heard = ended.out.matches("has heard of it").count();
        assert_eq!(heard, 2, "{fabric}: {ended:?}");
        assert_eq!(ended.code(), Some(128 + 9), "{fabric}: {ended:?}");
    }
}

/// The kernel ends a connection if its peer accepts no data for that long; but a computing rank is still
/// alive.
#[test]
fn a_rank_that_computes_in_the_middle_of_a_message_is_not_lost() {
    let program = build("tests/programs/computes_long.c", &[]);
    for more in [&[][..], &["--encrypt"]] {
        let mut command = tool("mpiexec");
        command.args(["--fabric=tcp", "--timeout=60", "-n", "2"]);
        command.args(more).env("WEFT_PATIENCE", "1");
        let ended = run(command.arg(&program).arg("4"), Duration::from_secs(70));
        ended.expect_success();
        assert!(ended.out.contains("ok with 2 ranks"), "{ended:?}");
    }
}

/// The victim is one of the ranks that start processes: the root, which the new processes call, or another
/// one. Processes that are only half started do not disturb the others.
#[test]
fn a_spawn_that_loses_a_parent_ends_what_it_has_started_and_nobody_else() {
    let program = build("tests/programs/spawn_loss.c", &[]);
    for fabric in FABRICS {
        for (victim, moment, pause) in [
            // It never reaches the call; the children come at once or, as far as this test is concerned, never: the root is not to
            // wait for them.
            ("2", "0", "0"),
            ("2", "0", "600000000"),
            ("5", "0", "0"),
            // In the middle of a call, while the parents wait for the children.
            ("2", "50000", "100000"),
            ("0", "50000", "100000"),
            // At any point of the call.
            ("0", "300", "0"),
            ("0", "5000", "0"),
            ("2", "1500", "0"),
            ("2", "8000", "0"),
        ] {
            let mut command = tool("mpiexec");
            command.args(["--on-death=report", fabric, "--timeout=60", "-n", "6"]);
            command.arg(&program).args([victim, moment, pause]);
            let folder = tempfile::tempdir().expect("a folder");
            let child_is_there = moment == "0" && pause != "0";
            if child_is_there {
                command.env("STARTED", folder.path().join("started"));
            }
            if fabric == "--fabric=auto" {
                command.arg("again");
            }
            let ended = run(&mut command, Duration::from_secs(70));
            let which = format!("{fabric}, {victim} {moment} {pause}");
            assert_eq!(ended.code(), Some(128 + 9), "{which}: {ended:?}");
            let going = ended.out.matches("goes on\n").count();
            assert_eq!(going, 5, "{which}: {ended:?}");
            assert!(!ended.err.contains("another error"), "{which}: {ended:?}");
            // The rank died when a child was there, or the others might have heard of its death before they had one started; and the
            // child does not leave by itself.
            if child_is_there {
                let told = "weft: spawned world 1 is ended: MPI_Comm_spawn has failed";
                assert!(ended.err.contains(told), "{which}: {ended:?}");
            }
        }
    }
}

/// Ranks that start processes learn of one that never reaches them, even if the job continues after deaths,
/// and can start others.
#[test]
fn a_spawned_process_that_ends_before_it_has_met_its_parents_is_an_error_of_the_spawn() {
    let reported = build("tests/programs/spawn_unmet.c", &[]);
    let handled = build("tests/programs/spawn_unmet.c", &["-DHANDLES"]);
    for fabric in FABRICS {
        for (how, code) in [
            (["killed", "0", "1"], 128 + 9),
            (["killed", "0", "3"], 128 + 9),
            (["killed", "2", "3"], 128 + 9),
            (["exits", "1", "2"], 3),
            (["leaves", "0", "2"], 1),
        ] {
            for (program, options, code) in [
                (&reported, &["--on-death=report"][..], code),
                (&handled, &[], 0),
            ] {
                let mut command = tool("mpiexec");
                command.args([fabric, "--timeout=60", "-n", "3"]);
                command.args(options).arg(program).args(how);
                let ended = run(&mut command, Duration::from_secs(70));
                let which = format!("{fabric}, {how:?}, {options:?}");
                assert_eq!(ended.code(), Some(code), "{which}: {ended:?}");
                let going = ended.out.matches("goes on\n").count();
                assert_eq!(going, 3, "{which}: {ended:?}");
                let told = format!("weft: rank {} of spawned world 1 ", how[1]);
                assert!(ended.err.contains(&told), "{which}: {ended:?}");
                let all = ended.err.matches("before it had met those").count();
                assert_eq!(all, 3, "{which}: {ended:?}");
                if how[1] == "0" {
                    let named = "MPI_Comm_spawn: rank 0 of spawned world ";
                    assert_eq!(ended.out.matches(named).count(), 3, "{which}: {ended:?}");
                }
            }
        }
    }
}

/// The others may still wait for slow ranks in a collective that it has finished.
#[test]
fn a_rank_that_has_finished_is_no_loss_however_its_process_ends() {
    let program = build("tests/programs/loss_finished.c", &[]);
    for fabric in FABRICS {
        for (how, ranks, line) in [
            ("well", 4, ""),
            (
                "with code",
                4,
                "weft: rank 1 exited with code 3 after MPI_Finalize; ",
            ),
            (
                "killed",
                4,
                "weft: rank 1 killed by signal 9 (SIGKILL) after MPI_Finalize; ",
            ),
            ("session", 4, ""),
            ("spawned", 1, ""),
        ] {
            let mut command = tool("mpiexec");
            command.args(["--on-death=report", fabric, "--timeout=60", "-n"]);
            command.arg(ranks.to_string()).arg(&program).arg(how);
            let ended = run(&mut command, Duration::from_secs(70));
            let going = ended.out.matches(" goes on\n").count();
            assert_eq!(going, 2, "{fabric}, {how}: {ended:?}");
            assert!(ended.err.contains(line), "{fabric}, {how}: {ended:?}");
            // That of the first death.
            assert_eq!(ended.code(), Some(128 + 9), "{fabric}, {how}: {ended:?}");
        }
    }
}

/// Whether the message comes before that one finishes, before its process ends, or later.
#[test]
fn a_send_to_a_rank_that_has_just_finished_is_an_error() {
    let program = build("tests/programs/loss_sent.c", &[]);
    for fabric in FABRICS {
        for bytes in ["8", "3000000"] {
            for pause in ["0", "100", "300", "1000", "3000", "100000"] {
                let mut command = tool("mpiexec");
                command.args(["--on-death=report", fabric, "--timeout=60", "-n", "3"]);
                let ended = run(
                    command.arg(&program).args([bytes, pause]),
                    Duration::from_secs(70),
                );
                let which = format!("{fabric}, {bytes} {pause}");
                let told = "has left the job";
                assert!(ended.out.contains(told), "{which}: {ended:?}");
                assert_eq!(ended.code(), Some(128 + 9), "{which}: {ended:?}");
            }
        }
    }
}

/// A process that a rank has forked holds its connections, and may outlive it.
#[test]
fn a_rank_is_missed_although_a_process_that_it_has_forked_holds_its_connections() {
    let program = build("tests/programs/loss_forked.c", &[]);
    for fabric in FABRICS {
        let mut command = tool("mpiexec");
        command.args(["--on-death=report", fabric, "--timeout=30", "-n", "4"]);
        let ended = run(command.arg(&program), Duration::from_secs(40));
        let heard = ended.out.matches("has heard of it").count();
        assert_eq!(heard, 3, "{fabric}: {ended:?}");
        assert_eq!(ended.code(), Some(128 + 9), "{fabric}: {ended:?}");
    }
}

/// The message names the rank, the limit, and a remedy.
#[test]
fn a_rank_without_descriptors_for_its_connections_says_so() {
    let program = build("tests/programs/all_to_all.c", &[]);
    let few = format!("ulimit -n 16; exec {}", program.display());
    let mut command = tool("mpiexec");
    command.args(["--fabric=tcp", "--timeout=60", "-n", "12", "sh", "-c"]);
    let ended = run(command.arg(few), Duration::from_secs(70));
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    let told = "has no descriptor left for that connection: a process may have no more than its limit of 16";
    assert!(ended.err.contains(told), "{ended:?}");
    assert!(
        ended.err.contains("raise the limit (ulimit -n)"),
        "{ended:?}"
    );
}
