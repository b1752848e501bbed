//! Under Hydra, the `mpiexec` of MPICH: it starts our ranks, and they make a job.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Job, Running, rank, signal};
use crate::network::Network;

/// Hydra's launcher, where `cargo xtask peers` puts it; says so if it is not there.
pub fn hydra() -> Option<PathBuf> {
    let target = crate::harness::weft();
    let target = target.parent()?.parent()?;
    let found = target.join("peers/mpich/bin/mpiexec.hydra");
    if found.exists() {
        return Some(found);
    }
    println!(
        "skipped: there is no {} (cargo xtask peers)",
        found.display()
    );
    None
}

/// Hydra with these words. Ranks keep what the test marks them with.
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
    // Through wrappers, several programs, one rank.
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
    // It does not wait for those that it ends.
    let mut running = ranks.start();
    let ended = running.end();
    assert!(running.until_nothing().is_some(), "{:?}", running.left());
    // What the rank said last may be lost: Hydra ends without waiting for its output.
    assert_eq!(ended.code(), Some(7), "{ended:?}");
}

/// The processes of this name.
fn named(running: &Running, name: &str) -> Vec<u32> {
    let members = running.members();
    let found = members.iter().filter(|member| member.name == name);
    found.map(|member| member.id).collect()
}

#[test]
fn nothing_is_left_whichever_of_its_processes_dies() {
    let rank = rank();
    let wrapped = format!("{rank} wait; :");
    for victim in ["mpiexec.hydra", "hydra_pmi_proxy", "rank"] {
        for program in [&[&*rank, "wait"][..], &["sh", "-c", &wrapped]] {
            let Some(ranks) = job(&[&["-n", "3"][..], program].concat()) else {
                return;
            };
            let mut running = ranks.start();
            let mut heard = 0;
            while heard < 3 {
                heard += running.hear("waiting\n").matches("waiting\n").count();
            }
            let victims = named(&running, victim);
            signal(*victims.first().expect("it runs"), libc::SIGKILL);
            running.until("the ranks to end", |job| named(job, "rank").is_empty());
            let time = running.until_nothing();
            assert!(
                time.is_some_and(|time| time < Duration::from_secs(5)),
                "{victim} killed: {:?} is left",
                running.left()
            );
        }
    }
}
