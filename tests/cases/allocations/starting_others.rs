//! Programs that start others under launchers that speak PMIx.

use std::process::Command;

use weft_tests::{build, has_libfabric, processes_of, run, scratch};

use super::network::Network;
use super::slurm::Slurm;
use super::{LIMIT, open_mpi};

/// Programs that start others, with their argument and number of ranks.
const STARTERS: [(&str, &str, u32); 4] = [
    ("spawn", "", 1),
    ("spawn", "", 2),
    ("spawn", "20", 2),
    ("ports", "", 2),
];

/// Each of them passes under a launcher, and leaves no process. `start` returns the command for a number of
/// ranks.
fn others_are_started(of: &str, start: impl Fn(u32) -> Command) {
    for (name, argument, ranks) in STARTERS {
        let built = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        let program = scratch(of).join(name);
        std::fs::copy(built, &program).expect("copies");
        let mut start = start(ranks);
        start
            .arg(&program)
            .args((!argument.is_empty()).then_some(argument));
        let ended = run(&mut start, LIMIT);
        ended.expect_success();
        let ok = format!("{name}: ok with {ranks} rank");
        assert!(ended.out.contains(&ok), "{ended:?}");
        assert_eq!(processes_of(&program), [0; 0], "{ended:?}");
    }
}

/// Both nodes are on this host, and share its memory.
#[test]
fn processes_that_start_others_under_srun_over_pmix() {
    let Some(slurm) = Slurm::start() else {
        return;
    };
    if !Slurm::speaks_pmix() {
        return;
    }
    others_are_started("srun-others", |ranks| {
        let mut start = slurm.command("srun");
        start.args([
            "--mpi=pmix",
            &format!("-N{}", ranks.min(2)),
            "-n",
            &ranks.to_string(),
        ]);
        start
    });
}

/// According to which processes the standard calls connected (MPI 5.0, section 11.10.4). The launcher of the
/// ranks reports how they end.
#[test]
fn a_death_ends_connected_processes_only_under_prterun_and_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let built = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    let program = scratch("prterun-deaths").join("spawn_deaths");
    std::fs::copy(built, &program).expect("copies");
    let cases = [
        ("connected", false),
        ("independent", true),
        ("aborting", true),
        ("killed", false),
        ("without", false),
    ];
    let all = [("prterun", 1), ("mpiexec", 1), ("prterun", 2)];
    let all = all.map(|under| cases.map(|case| (under, case)));
    for ((launcher, hosts), (what, well)) in all.into_iter().flatten() {
        let mut start = network.open_mpi(&prefix, launcher, hosts, 2);
        start.args(["--map-by", "node", "-n", "2"]);
        let ended = run(start.arg(&program).arg(what), LIMIT);
        let of = format!("{launcher} on {hosts}: {what}: {ended:?}");
        assert_eq!(ended.code() == Some(0), well, "{of}");
        assert_eq!(processes_of(&program), [0; 0], "{of}");
    }
}

/// It is PRRTE's launcher under another name, with variables of its own.
#[test]
fn processes_that_start_others_under_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(1) else {
        return;
    };
    others_are_started("mpiexec-others", |ranks| {
        let mut start = network.open_mpi(&prefix, "mpiexec", 1, 2);
        start.args(["-n", &ranks.to_string()]);
        start
    });
}

#[test]
fn processes_that_start_others_under_prterun() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(1) else {
        return;
    };
    others_are_started("prterun-others", |ranks| {
        let mut start = network.open_mpi(&prefix, "prterun", 1, 2);
        start.args(["-n", &ranks.to_string()]);
        start
    });
}

/// On two hosts, two ranks on each; no process is left.
#[test]
fn processes_that_start_others_on_two_hosts_under_prterun_and_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    for (name, argument) in [
        ("spawn", String::new()),
        ("spawn", "20".to_owned()),
        ("ports", String::new()),
        ("spawn_away", network.file("done").display().to_string()),
    ] {
        let built = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        let program = scratch("prterun-two").join(name);
        std::fs::copy(built, &program).expect("copies");
        for launcher in ["prterun", "mpiexec"] {
            let mut start = network.open_mpi(&prefix, launcher, 2, 2);
            start.args(["-n", "4"]).arg(&program);
            let argument = (!argument.is_empty()).then_some(&argument);
            let ended = run(start.args(argument), LIMIT);
            ended.expect_success();
            let ok = format!("{name}: ok with 4 ranks");
            assert!(ended.out.contains(&ok), "{launcher}: {ended:?}");
            assert_eq!(processes_of(&program), [0; 0], "{launcher}: {ended:?}");
            let _ = std::fs::remove_file(network.file("done"));
        }
    }
}

/// The networks that a variable selects are also used for processes that are started later.
#[test]
fn processes_that_start_others_on_two_hosts_by_each_network() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    let built = build("tests/programs/spawn.c", &["-pthread"]);
    let program = scratch("prterun-networks").join("spawn");
    std::fs::copy(built, &program).expect("copies");
    for (variable, value) in [
        ("WEFT_FABRIC", "tcp"),
        ("WEFT_ENCRYPT", "1"),
        ("WEFT_FABRIC", "ofi:tcp"),
    ] {
        if value.starts_with("ofi") && !has_libfabric() {
            continue;
        }
        let mut start = network.open_mpi(&prefix, "prterun", 2, 2);
        start.args(["-x", &format!("{variable}={value}"), "-n", "4"]);
        let ended = run(start.arg(&program), LIMIT);
        let of = format!("{variable}={value}: {ended:?}");
        assert_eq!(ended.code(), Some(0), "{of}");
        assert!(ended.out.contains("spawn: ok with 4 ranks"), "{of}");
        assert_eq!(processes_of(&program), [0; 0], "{of}");
    }
}
