//! Deadlocks of jobs that other launchers have started, on one host and on two, which are network namespaces: the same programs with the same
//! messages as under `mpiexec`.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_tests::{build, root, run, running, scratch};

use super::network::Network;
use super::{Case, LIMIT, check_by, deadlocks_over_hosts, network};

/// The exit code of a job with a deadlock.
const DEADLOCK: i32 = 35;

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| root().join("target"), PathBuf::from)
}

/// Hydra, if it is installed, for a number of ranks; the program is appended.
fn hydra() -> Option<impl Fn(u32) -> Command + Sync> {
    let hydra = network::hydra(&target())?;
    Some(move |ranks: u32| {
        let mut command = Command::new(&hydra);
        command.args(["-n", &ranks.to_string()]);
        command
    })
}

/// The launcher of Open MPI, in the same way.
fn prterun() -> Option<impl Fn(u32) -> Command + Sync> {
    let prefix = network::open_mpi(&target())?;
    Some(move |ranks: u32| {
        let mut command = Command::new(prefix.join("bin/prterun"));
        command.args(["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]);
        command.args(["-n", &ranks.to_string()]);
        // The place of the texts of its messages.
        command
            .env("PRTE_PREFIX", &prefix)
            .env("PMIX_PREFIX", &prefix);
        command
    })
}

/// Excluded are: cases with options, which only `mpiexec` has; processes that a program starts, whose launcher is ours and does not
/// search; and other ends of a job, because Hydra may end before it has passed on the messages.
fn by_all(case: &Case) -> bool {
    let spawns = case.arguments.iter().any(|word| word.contains("spawn"));
    case.options.is_empty() && !spawns && [0, DEADLOCK].contains(&case.exit)
}

/// Those of them with few ranks.
fn of_few_ranks(case: &Case) -> bool {
    by_all(case) && case.ranks <= 2
}

/// The groups `few`, or `all` in a long run of the tests. The ranks find the same under each launcher.
fn groups<'a>(few: &'a [&'a str], all: &'a [&'a str]) -> &'a [&'a str] {
    if weft_tests::is_long() { all } else { few }
}

/// Under the second launcher, one program for each kind of waiting. The cases of `deadlock-others` differ
/// only in the call that waits.
fn wrong_in_short() -> &'static [&'static str] {
    let few = &[
        "deadlock-apart",
        "deadlock-fibers",
        "deadlock-groups",
        "deadlock-pairs",
        "deadlock-threads",
    ];
    groups(few, &["deadlock-"])
}

/// The programs that wait for long, or in many ways. Messages about types and about things left over do not
/// depend on who waits.
fn right_in_short() -> &'static [&'static str] {
    let few = &[
        "busy",
        "collectives-",
        "epochs",
        "fibers",
        "threads-",
        "waits",
        "windows",
    ];
    groups(few, &[""])
}

fn check_groups(
    folder: &str,
    groups: &[&str],
    wanted: &dyn Fn(&Case) -> bool,
    launch: &(dyn Fn(u32) -> Command + Sync),
) {
    for group in groups {
        check_by(folder, group, wanted, launch);
    }
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
    check_groups("tests/right", right_in_short(), &by_all, &launch);
}

#[test]
fn they_are_proven_under_prterun() {
    let Some(launch) = prterun() else {
        return;
    };
    check_groups("tests/wrong", wrong_in_short(), &of_few_ranks, &launch);
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

/// On several hosts, whose memory is not shared.
fn over_hosts(case: &Case) -> bool {
    by_all(case) && deadlocks_over_hosts::of_few_ranks(case)
}

/// Those of them in pairs.
fn of_pairs_over_hosts(case: &Case) -> bool {
    of_few_ranks(case) && over_hosts(case)
}

#[test]
fn they_are_proven_under_hydra_on_two_hosts() {
    let (Some(hydra), Some(network)) = (network::hydra(&target()), Network::new(2)) else {
        return;
    };
    let launch = |ranks: u32| network.hydra_of(&hydra, ranks);
    check_by("tests/wrong", "deadlock-", &over_hosts, &launch);
}

#[test]
fn nothing_is_said_of_right_programs_under_hydra_on_two_hosts() {
    let (Some(hydra), Some(network)) = (network::hydra(&target()), Network::new(2)) else {
        return;
    };
    let launch = |ranks: u32| network.hydra_of(&hydra, ranks);
    check_groups("tests/right", right_in_short(), &over_hosts, &launch);
}

/// The launcher of Open MPI on two hosts, if it is installed.
fn on_two_hosts_by_prterun(check: impl Fn(&(dyn Fn(u32) -> Command + Sync))) {
    let (Some(prefix), Some(network)) = (network::open_mpi(&target()), Network::new(2)) else {
        return;
    };
    check(&|ranks: u32| {
        let slots = ranks.div_ceil(2) as usize;
        let mut start = network.open_mpi(&prefix, "prterun", 2, slots);
        start.args(["--bind-to", "none", "-n", &ranks.to_string()]);
        start
    });
}

#[test]
fn they_are_proven_under_prterun_on_two_hosts() {
    on_two_hosts_by_prterun(|launch| {
        check_groups(
            "tests/wrong",
            wrong_in_short(),
            &of_pairs_over_hosts,
            launch,
        );
    });
}

#[test]
fn nothing_is_said_of_right_programs_under_prterun_on_two_hosts() {
    on_two_hosts_by_prterun(|launch| {
        check_by("tests/right", "waits", &over_hosts, launch);
        check_by("tests/right", "busy", &over_hosts, launch);
        check_by("tests/right", "threads-", &over_hosts, launch);
    });
}

/// Cases in which a rank that used only sessions ends while another one waits for it; the ending rank may be the one that searches. Each
/// has the number of ranks, the rank that ends, and the rank that waits.
const ABSENT: [(u32, u32, u32); 4] = [(2, 1, 0), (2, 0, 1), (4, 0, 1), (4, 3, 0)];
/// … on two hosts: the ending rank is the one that judges, the only one on the other host, one beside rank 0, or either of two on the
/// other host. The remaining ranks end without waiting for it.
const ABSENT_ON_TWO_HOSTS: [(u32, u32, u32); 5] =
    [(2, 0, 1), (2, 1, 0), (4, 1, 0), (4, 2, 0), (4, 3, 0)];

fn check_absent(all: &[(u32, u32, u32)], launch: impl Fn(u32) -> Command) {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for (ranks, who, waits) in all.iter().copied() {
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
fn a_wait_for_an_absent_rank_is_reported_under_hydra() {
    if let Some(launch) = hydra() {
        check_absent(&ABSENT, launch);
    }
}

#[test]
fn a_wait_for_an_absent_rank_is_reported_under_prterun() {
    if let Some(launch) = prterun() {
        check_absent(&ABSENT, launch);
    }
}

#[test]
fn a_wait_for_an_absent_rank_is_reported_on_two_hosts() {
    if let (Some(hydra), Some(network)) = (network::hydra(&target()), Network::new(2)) {
        check_absent(&ABSENT_ON_TWO_HOSTS, |ranks| {
            network.hydra_of(&hydra, ranks)
        });
    }
    on_two_hosts_by_prterun(|launch| {
        check_absent(&ABSENT_ON_TWO_HOSTS, |ranks| {
            let mut start = launch(ranks);
            start.args(["-x", "WHO"]);
            start
        });
    });
}

/// The same as with `--no-deadlock-check` and `--on-deadlock=stop`.
#[test]
fn what_becomes_of_the_job_is_said_by_the_environment() {
    if let Some(launch) = hydra() {
        check_variable(launch, &["", ""]);
    }
    if let (Some(hydra), Some(network)) = (network::hydra(&target()), Network::new(2)) {
        // The hosts have the name of the system, which is the same for both.
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("it has a name");
        let on = format!(" on {}", host.trim());
        check_variable(|ranks| network.hydra_of(&hydra, ranks), &[&on, &on]);
    }
}

/// `hosts`: the text after each rank that names its host.
fn check_variable(launch: impl Fn(u32) -> Command, hosts: &[&str; 2]) {
    // A copy that no other test runs.
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
    // The message of a rank passes through Hydra's processes, and arrives after the rank has stopped.
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
    for (rank, host) in hosts.iter().enumerate() {
        assert!(said.contains(&format!("{host} (rank {rank})")), "{said}");
    }
}

fn is_stopped(process: u32) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = line.rsplit(')').next().unwrap_or_default();
    state.trim_start().starts_with('T')
}
