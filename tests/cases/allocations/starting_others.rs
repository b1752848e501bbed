//! Programs that start others under launchers that speak PMIx.

use std::process::Command;

use weft_tests::{build, processes_of, run, scratch};

use super::network::Network;
use super::slurm::Slurm;
use super::{LIMIT, by_open_mpi, open_mpi};

/// Programs that start others, with what they are told, and as how many ranks.
const STARTERS: [(&str, &str, u32); 4] = [
    ("spawn", "", 1),
    ("spawn", "", 2),
    ("spawn", "20", 2),
    ("ports", "", 2),
];

/// Each of them passes under a launcher, started by what this answers for a number of ranks, and leaves nothing.
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

/// As the standard says who is connected (MPI 5.0, section 11.10.4). How the ranks end, their own launcher says.
#[test]
fn who_dies_with_whom_under_prterun_and_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(1) else {
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
    let all = ["prterun", "mpiexec"].map(|launcher| cases.map(|case| (launcher, case)));
    for (launcher, (what, well)) in all.into_iter().flatten() {
        let mut start = by_open_mpi(&network, &prefix, launcher, 1);
        start.args(["-n", "2"]).arg(&program).arg(what);
        let ended = run(&mut start, LIMIT);
        assert_eq!(
            ended.code() == Some(0),
            well,
            "{launcher} {what}: {ended:?}"
        );
        assert_eq!(
            processes_of(&program),
            [0; 0],
            "{launcher} {what}: {ended:?}"
        );
    }
}

/// It is PRRTE's launcher by another name, with variables of its own.
#[test]
fn processes_that_start_others_under_the_launcher_of_open_mpi() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(1) else {
        return;
    };
    others_are_started("mpiexec-others", |ranks| {
        let mut start = by_open_mpi(&network, &prefix, "mpiexec", 1);
        start.args(["-n", &ranks.to_string()]);
        start
    });
}

#[test]
fn processes_that_start_others_under_prterun() {
    let Some(prefix) = open_mpi() else {
        return;
    };
    let Some(network) = Network::new(2) else {
        return;
    };
    others_are_started("prterun-others", |ranks| {
        let mut start = by_open_mpi(&network, &prefix, "prterun", 1);
        start.args(["-n", &ranks.to_string()]);
        start
    });
    // On two hosts it is refused, with what to do instead.
    let spawn = build("tests/programs/spawn.c", &["-pthread"]);
    let mut start = by_open_mpi(&network, &prefix, "prterun", 2);
    start.args(["--map-by", "ppr:1:node", "-n", "2"]);
    let ended = run(start.arg(spawn), LIMIT);
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    for said in [
        "MPI_ERR_SPAWN",
        "another launcher than Weft's mpiexec on several hosts",
    ] {
        assert!(ended.err.contains(said), "{said}: {ended:?}");
    }
}
