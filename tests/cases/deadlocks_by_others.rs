//! Deadlocks of jobs that other launchers have started on one host: the same programs, and the same is said of them, as under
//! `mpiexec`.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_tests::{build, root, run, running, scratch};

use super::{Case, LIMIT, check_by, network};

/// The exit code of a job that is in one.
const DEADLOCK: i32 = 35;

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| root().join("target"), PathBuf::from)
}

/// Hydra, if it is there, with so many ranks of what is appended.
fn hydra() -> Option<impl Fn(u32) -> Command + Sync> {
    let hydra = network::hydra(&target())?;
    Some(move |ranks: u32| {
        let mut command = Command::new(&hydra);
        command.args(["-n", &ranks.to_string()]);
        command
    })
}

/// The launcher of Open MPI, likewise.
fn prterun() -> Option<impl Fn(u32) -> Command + Sync> {
    let prefix = network::open_mpi(&target())?;
    Some(move |ranks: u32| {
        let mut command = Command::new(prefix.join("bin/prterun"));
        command.args(["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]);
        command.args(["-n", &ranks.to_string()]);
        // Where it finds the texts of its messages.
        command
            .env("PRTE_PREFIX", &prefix)
            .env("PMIX_PREFIX", &prefix);
        command
    })
}

/// Options are those of `mpiexec`; processes that a program starts have a launcher of ours, which does not search. What else ends a
/// job, Hydra may end before it has passed on what is said of it.
fn by_all(case: &Case) -> bool {
    let spawns = case.arguments.iter().any(|word| word.contains("spawn"));
    case.options.is_empty() && !spawns && [0, DEADLOCK].contains(&case.exit)
}

/// A part of them.
fn of_few_ranks(case: &Case) -> bool {
    by_all(case) && case.ranks <= 2
}

#[test]
fn they_are_proven_under_hydra() {
    let Some(launch) = hydra() else {
        return;
    };
    check_by("tests/wrong", "deadlock-", &by_all, &launch);
}

#[test]
fn they_are_proven_under_hydra_over_tcp() {
    let Some(launch) = hydra() else {
        return;
    };
    let launch = |ranks| {
        let mut command = launch(ranks);
        command.env("WEFT_FABRIC", "tcp");
        command
    };
    check_by("tests/wrong", "deadlock-pairs", &of_few_ranks, &launch);
    check_by("tests/right", "waits", &of_few_ranks, &launch);
}

#[test]
fn nothing_is_said_of_right_programs_under_hydra() {
    let Some(launch) = hydra() else {
        return;
    };
    check_by("tests/right", "", &by_all, &launch);
}

#[test]
fn they_are_proven_under_prterun() {
    let Some(launch) = prterun() else {
        return;
    };
    check_by("tests/wrong", "deadlock-", &of_few_ranks, &launch);
}

#[test]
fn nothing_is_said_of_right_programs_under_prterun() {
    let Some(launch) = prterun() else {
        return;
    };
    check_by("tests/right", "waits", &by_all, &launch);
    check_by("tests/right", "busy", &by_all, &launch);
    check_by("tests/right", "threads-", &by_all, &launch);
}

/// One that has used sessions only, and ends, while another one waits for it: it may be the one that searches.
fn check_absent(launch: impl Fn(u32) -> Command) {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for (ranks, who, waits) in [(2, 1, 0), (2, 0, 1), (4, 0, 1), (4, 3, 0)] {
        for what in ["wanted", "missed"] {
            let mut command = launch(ranks);
            command.env("WHO", who.to_string());
            let ended = run(command.arg(&program).arg(what), LIMIT);
            assert_eq!(
                ended.code(),
                Some(DEADLOCK),
                "{what}, rank {who}: {ended:?}"
            );
            for said in [
                format!("weft: deadlock: rank {waits} waits for rank {who}, which has left MPI"),
                format!("  rank {waits}: MPI_Recv for a message from rank {who}, tag 3"),
                format!("  remedy: rank {who} sends nothing any more"),
                format!("weft: ended by a deadlock: rank {waits} waits for rank {who}"),
            ] {
                let times = ended.err.matches(&said).count();
                assert_eq!(times, 1, "{what}, rank {who}: {said}: {ended:?}");
            }
        }
    }
}

#[test]
fn who_waits_for_one_that_is_absent_is_told_under_hydra() {
    if let Some(launch) = hydra() {
        check_absent(launch);
    }
}

#[test]
fn who_waits_for_one_that_is_absent_is_told_under_prterun() {
    if let Some(launch) = prterun() {
        check_absent(launch);
    }
}

/// As `--no-deadlock-check` and `--on-deadlock=stop`.
#[test]
fn what_becomes_of_the_job_is_said_by_the_environment() {
    let Some(launch) = hydra() else {
        return;
    };
    // One that no other test runs.
    let program = scratch("deadlocks-stop").join("stands");
    let built = build("tests/wrong/deadlock-pairs.c", &["-g", "-pthread"]);
    std::fs::copy(built, &program).expect("copies");
    let start = |what: &str| {
        let mut command = launch(2);
        command.env("WEFT_ON_DEADLOCK", what);
        command.arg(&program).arg("receives");
        command
    };
    let ended = run(start("ignore").env("MPIEXEC_TIMEOUT", "4"), LIMIT);
    assert_ne!(ended.code(), Some(DEADLOCK), "{ended:?}");
    assert!(!ended.err.contains("deadlock"), "{ended:?}");

    let ended = run(&mut start("no"), LIMIT);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    assert!(
        ended.err.contains("WEFT_ON_DEADLOCK was given 'no'"),
        "{ended:?}"
    );

    let log = scratch("deadlocks-stop").join("said");
    let said = std::fs::File::create(&log).expect("creates");
    let mut job = start("stop").stderr(said).spawn().expect("starts");
    let until = Instant::now() + LIMIT;
    let stopped = || {
        let of = running(&program).into_iter();
        let of = of.filter(|process| is_stopped(*process));
        of.count()
    };
    // What a rank has said comes by Hydra's processes, later than it stops.
    let is_said = || std::fs::read_to_string(&log).is_ok_and(|said| said.contains("are stopped"));
    while (stopped() < 2 || !is_said()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (count, said) = (stopped(), std::fs::read_to_string(&log));
    let _ = job.kill();
    let _ = job.wait();
    for process in running(&program) {
        let _ = weft_sys::process::signal(process, weft_sys::process::SIGKILL);
    }
    let said = said.expect("it is there");
    assert_eq!(count, 2, "{said}");
    assert!(
        said.contains("are stopped (WEFT_ON_DEADLOCK=stop)"),
        "{said}"
    );
}

fn is_stopped(process: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = line.rsplit(')').next().unwrap_or_default();
    state.trim_start().starts_with('T')
}
