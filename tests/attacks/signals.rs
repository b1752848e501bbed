//! Ranks of a job under traffic are stopped, continued and killed at any moment, `MPI_Init` and
//! `MPI_Finalize` included.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weft_tests::sanitizer::Sanitizer;
use weft_tests::{build, installation, seeds};

use crate::Playing;
use crate::harness::{Job, Running, signal};

/// Pairs of ranks exchange data; see `traffic.c`.
const RANKS: u32 = 6;

/// The signals of one job are sent within this time, in milliseconds: about as long as the job runs.
const SPAN: u64 = 120;

/// The processes of the ranks that exist by now.
fn processes(job: &Running) -> BTreeMap<u32, u32> {
    let rank = |id: &u32| -> Option<u32> {
        let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|one| one.strip_prefix(b"WEFT_RANK="))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    let ids = job.ranks().into_iter();
    ids.filter_map(|id| Some((rank(&id)?, id))).collect()
}

/// Sends random signals to a job; returns the ranks that were killed, at most `kills`.
fn attack(job: &Running, random: &mut StdRng, kills: usize) -> Vec<u32> {
    let mut killed = Vec::new();
    let mut stopped: Vec<u32> = Vec::new();
    for _ in 0..12 {
        sleep(Duration::from_micros(
            random.random_range(0..SPAN * 1000 / 12),
        ));
        let there = processes(job);
        let Some((&rank, &id)) = there.iter().nth(random.random_range(0..RANKS as usize)) else {
            continue;
        };
        match random.random_range(0..3) {
            0 if killed.len() < kills && !killed.contains(&rank) => {
                signal(id, libc::SIGKILL);
                killed.push(rank);
            }
            1 => {
                signal(id, libc::SIGSTOP);
                stopped.push(id);
            }
            _ => {
                for id in stopped.drain(..) {
                    signal(id, libc::SIGCONT);
                }
            }
        }
    }
    for id in stopped {
        signal(id, libc::SIGCONT);
    }
    killed
}

/// Runs one seed.
fn play(seed: u64, kills: usize, options: &[&str]) {
    let program = build("tests/attacks/traffic.c", &[]);
    let mut random = StdRng::seed_from_u64(seed);
    let rounds = random.random_range(200..1500);
    // Ranks under a sanitizer take ten times as long; most of that time would be after the last signal.
    let rounds = match Sanitizer::of_this_run() {
        Some(_) => rounds / 8,
        None => rounds,
    };
    let mut command = Command::new(installation().join("bin/mpiexec"));
    command.args(["-n", &RANKS.to_string()]).args(options);
    command.arg(program).arg(rounds.to_string());
    // At the end, the address sanitizer searches for leaks from a process of its own, as a debugger does: a SIGCONT that arrives while it stops
    // the rank cancels its SIGSTOP, and it waits for ever (ptrace(2), BUGS). The other programs test for leaks.
    let watched = std::env::var("ASAN_OPTIONS").unwrap_or_default();
    command.env("ASAN_OPTIONS", format!("{watched}:detect_leaks=0"));
    let mut job = Job::of(command).start();
    let killed = attack(&job, &mut random, kills);
    let ended = job.end();
    let left = job.left();
    let context = format!("seed {seed}, killed {killed:?}: {ended:?}");
    assert!(left.is_empty(), "{context}: {left:?} are left");
    for rank in (0..RANKS).filter(|rank| !killed.contains(rank)) {
        let has = |what: &str| ended.out.contains(&format!("rank {rank}: {what}\n"));
        let bereft = killed.contains(&(rank ^ 1));
        assert!(
            has("done") || bereft && has("lost its partner"),
            "rank {rank} has not come to its end; {context}"
        );
    }
    assert!(
        !killed.is_empty() || !ended.error.contains("without all others"),
        "{context}"
    );
    // A rank that had already ended is not missed.
    let codes: &[i32] = if killed.is_empty() {
        &[0]
    } else {
        &[0, 128 + 9]
    };
    let code = ended.code().expect("it ended by itself");
    assert!(codes.contains(&code), "{context}");
}

#[test]
fn a_killed_process_is_missed_by_its_partner_only() {
    for seed in seeds(20) {
        let test = "a_killed_process_is_missed_by_its_partner_only";
        let _playing = Playing { test, seed };
        play(seed, 2, &["--on-death=report"]);
    }
}

#[test]
fn a_stopped_process_is_waited_for() {
    for seed in seeds(8) {
        let test = "a_stopped_process_is_waited_for";
        let _playing = Playing { test, seed };
        play(seed, 0, &[]);
    }
}

/// Over TCP, a rank learns only of the deaths of ranks with which it has a connection, so no rank is killed
/// here.
#[test]
fn a_stopped_process_is_waited_for_between_hosts() {
    for seed in seeds(6) {
        let test = "a_stopped_process_is_waited_for_between_hosts";
        let _playing = Playing { test, seed };
        play(seed, 0, &["--fabric", "tcp"]);
    }
}
