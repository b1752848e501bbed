//! Under Hydra, the `mpiexec` of MPICH: it starts our ranks, and they make a job.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Job, rank};
use crate::network::Network;

/// Hydra's launcher, if it is installed.
fn hydra() -> Option<PathBuf> {
    let weft = crate::harness::weft();
    crate::network::hydra(weft.parent()?.parent()?)
}

/// Hydra with these words. Ranks keep the variable with which the test marks them.
fn job(words: &[&str]) -> Option<Job> {
    let mut command = Command::new(hydra()?);
    command.args(words).env_remove("WEFT_JOB");
    Some(Job::of(command))
}

#[test]
fn its_ranks_are_ranks_of_a_job() {
    let rank = rank();
    let Some(ranks) = job(&["-n", "4", &rank, "exchange"]) else {
        return;
    };
    let ended = ranks.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let expected: Vec<_> = (0..4)
        .map(|rank| format!("rank {rank} heard all, is {rank} of 4 on one of 1"))
        .collect();
    assert_eq!(ended.sorted(), expected);
    // Wrappers, several programs, a single rank.
    for (words, expected) in [
        (
            &[
                "-n", "1", &rank, "where", ":", "-n", "2", "env", &rank, "where",
            ][..],
            &[
                "rank 0 of 3 program 0 singleton false",
                "rank 1 of 3 program 1 singleton false",
                "rank 2 of 3 program 1 singleton false",
            ][..],
        ),
        (
            &["-n", "1", &rank, "where"],
            &["rank 0 of 1 program 0 singleton false"],
        ),
    ] {
        let ended = job(words).expect("it is there").run();
        assert_eq!((ended.code(), ended.sorted()), (Some(0), expected.to_vec()));
    }
}

#[test]
fn its_ranks_on_several_hosts_find_each_other() {
    let Some(hydra) = hydra() else {
        return;
    };
    for count in [2, 4] {
        let Some(network) = Network::new(count) else {
            return;
        };
        let each = 8 / count;
        let mut command = network.hydra(&hydra, each);
        command.args([&rank(), "exchange"]);
        let ended = Job::of(command).run();
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let expected: Vec<_> = (0..8)
            .map(|rank| {
                let local = rank % each;
                format!("rank {rank} heard all, is {local} of {each} on one of {count}")
            })
            .collect();
        assert_eq!(ended.sorted(), expected);
    }
}

#[test]
fn what_a_rank_starts_there_is_no_rank() {
    let Some(ranks) = job(&["-n", "2", &rank(), "start"]) else {
        return;
    };
    let ended = ranks.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(
        ended.out,
        "rank 0 of 1 program 0 singleton true\n".repeat(2)
    );
}

#[test]
fn the_code_of_an_abort_is_that_of_the_job() {
    let Some(ranks) = job(&["-n", "3", &rank(), "abort", "1", "7", "no luck"]) else {
        return;
    };
    // Hydra does not wait for the ranks that it ends.
    let mut running = ranks.start();
    let ended = running.end();
    assert!(running.until_nothing().is_some(), "{:?}", running.left());
    // The last output of the rank may be lost: Hydra ends without waiting for its output.
    assert_eq!(ended.code(), Some(7), "{ended:?}");
}

#[test]
fn what_the_launcher_answers_ends_nobody() {
    // A rank can read an answer before the call of the launcher that sent it has ended; and only then does
    // the kernel report the event on the lifeline.
    let Some(ranks) = job(&["-n", "2", &rank(), "chat"]) else {
        return;
    };
    let ended = ranks.run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.sorted(), ["rank 0 lives", "rank 1 lives"]);
}
