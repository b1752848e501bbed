//! Ranks that srun starts on two hosts: two nodes, each with a network namespace and a name of its own. Messages between them go over
//! TCP, and Slurm's own daemons talk over the same network.

use std::path::PathBuf;
use std::process::Command;

use weft_tests::{Ended, build, check_sessions_beside, processes_of, run, scratch};

use super::slurm::Slurm;
use super::{ENDS, LIMIT, program};

/// The protocols that srun can be told to use with ranks.
fn ways(slurm: &Slurm) -> Vec<&'static str> {
    let _ = slurm;
    match Slurm::speaks_pmix() {
        true => vec!["pmi2", "pmix"],
        false => vec!["pmi2"],
    }
}

/// srun, with `each` ranks on each of both nodes.
fn srun(slurm: &Slurm, way: &str, each: u32) -> Command {
    let mut start = slurm.command("srun");
    start.arg(format!("--mpi={way}"));
    start.args(["-N2", "-n", &(2 * each).to_string()]);
    start.arg(format!("--ntasks-per-node={each}"));
    start
}

/// A program that no other test runs.
fn copy_of(name: &str) -> PathBuf {
    let built = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    let copy = scratch("srun-hosts").join(name);
    std::fs::copy(built, &copy).expect("copies");
    copy
}

fn is_bad_end(ended: &Ended) -> bool {
    ended.code().is_some_and(|code| code != 0)
}

/// A rank that dies is named and the job ends, even if it is alone on its host and no rank communicates with
/// it.
#[test]
fn ends_of_jobs() {
    let Some(slurm) = Slurm::on_two_hosts() else {
        return;
    };
    for way in ways(&slurm) {
        for (each, (end, code, _)) in [1, 2]
            .into_iter()
            .flat_map(|each| ENDS.map(|end| (each, end)))
        {
            let last = 2 * each - 1;
            let mut start = srun(&slurm, way, each);
            let ended = run(start.arg(program()).arg(end), LIMIT);
            let of = format!("{way}, {each} on each: {end}: {ended:?}");
            match end {
                "well" | "code" => assert_eq!(ended.code(), Some(code), "{of}"),
                _ => assert!(is_bad_end(&ended), "{of}"),
            }
            let said = match end {
                "well" => "job_ends: ok with".to_owned(),
                // srun itself reports exit codes.
                "code" => format!("task {last}"),
                _ => format!("rank {last}"),
            };
            let is_said = [&ended.out, &ended.err].map(|text| text.contains(&said));
            assert!(is_said.contains(&true), "{of}");
            if end == "unasked" {
                assert!(ended.err.contains(&format!("{said} on host n2")), "{of}");
            }
        }
        // Rank 0 is missed like the others, and so is a rank that dies as early as possible.
        for (end, rank, host) in [("unasked", 0, "n1"), ("at_once", 1, "n2")] {
            let mut start = srun(&slurm, way, 1);
            let ended = run(start.arg(program()).args([end, &rank.to_string()]), LIMIT);
            assert!(is_bad_end(&ended), "{way}: {end}: {ended:?}");
            let named = format!("rank {rank} on host {host}");
            assert!(ended.err.contains(&named), "{way}: {end}: {ended:?}");
        }
    }
}

/// A rank that only uses sessions informs the ranks of the other host itself.
#[test]
fn nobody_waits_for_a_rank_that_uses_sessions_only() {
    let Some(slurm) = Slurm::on_two_hosts() else {
        return;
    };
    let program = build("tests/programs/sessions_beside.c", &[]);
    for way in ways(&slurm) {
        for who in ["0", "3"] {
            for what in [
                "early", "late", "stays", "returns", "meets", "awaits", "met",
            ] {
                let file = slurm.file(&format!("{way}-{what}{who}"));
                let mut start = srun(&slurm, way, 2);
                // The previous job may not have left the nodes yet, which srun would report.
                start.arg("-Q").env("WHO", who);
                let ended = run(start.arg(&program).arg(what).arg(&file), LIMIT);
                check_sessions_beside(&ended, 4, &format!("{way}: {what}, rank {who}"));
            }
        }
    }
}

/// By launchers of ours, one on each host, which end as well.
#[test]
fn processes_that_start_others() {
    let Some(slurm) = Slurm::on_two_hosts() else {
        return;
    };
    let done = slurm.file("done").display().to_string();
    for way in ways(&slurm) {
        for (name, argument, each) in [
            ("spawn", "", 1),
            ("spawn", "20", 2),
            ("ports", "", 2),
            ("spawn_away", &*done, 2),
        ] {
            let program = copy_of(name);
            let mut start = srun(&slurm, way, each);
            start.arg(&program);
            let argument = (!argument.is_empty()).then_some(argument);
            let ended = run(start.args(argument), LIMIT);
            let of = format!("{way}: {name}: {ended:?}");
            assert_eq!(ended.code(), Some(0), "{of}");
            let ok = format!("{name}: ok with {} rank", 2 * each);
            assert!(ended.out.contains(&ok), "{of}");
            assert_eq!(processes_of(&program), [0; 0], "{of}");
            let _ = std::fs::remove_file(&done);
        }
        // On hosts that the program names.
        let program = copy_of("spawn_hosts");
        let mut start = srun(&slurm, way, 1);
        let ended = run(start.arg(&program).args(slurm.nodes()), LIMIT);
        assert_eq!(ended.code(), Some(0), "{way}: {ended:?}");
        assert_eq!(processes_of(&program), [0; 0], "{way}: {ended:?}");
    }
}

/// According to which processes the standard calls connected (MPI 5.0, section 11.10.4).
#[test]
fn a_death_ends_connected_processes_only() {
    let Some(slurm) = Slurm::on_two_hosts() else {
        return;
    };
    let program = copy_of("spawn_deaths");
    for way in ways(&slurm) {
        for (what, well) in [
            ("connected", false),
            ("independent", true),
            ("aborting", true),
            ("killed", false),
            ("without", false),
        ] {
            let mut start = srun(&slurm, way, 1);
            let ended = run(start.arg(&program).arg(what), LIMIT);
            let of = format!("{way}: {what}: {ended:?}");
            assert_eq!(ended.code() == Some(0), well, "{of}");
            assert!(ended.code().is_some(), "{of}");
            assert_eq!(processes_of(&program), [0; 0], "{of}");
        }
    }
}

/// A deadlock is reported once, whether it is on both hosts or on one of them, and ends the job; nothing is
/// reported about the same ranks if they continue.
#[test]
fn deadlocks_are_told() {
    let Some(slurm) = Slurm::on_two_hosts() else {
        return;
    };
    let wrong = build("tests/wrong/deadlock-pairs.c", &["-g", "-pthread"]);
    let right = build("tests/right/waits.c", &["-g", "-pthread"]);
    for way in ways(&slurm) {
        for nodes in ["-N2", "-N1"] {
            let start = || {
                let mut start = slurm.command("srun");
                start.arg("-Q").arg(format!("--mpi={way}"));
                start.args([nodes, "-n2"]);
                start
            };
            let ended = run(start().arg(&wrong).arg("receives"), LIMIT);
            let of = format!("{way}, {nodes}: {ended:?}");
            assert!(is_bad_end(&ended), "{of}");
            for said in [
                "weft: deadlock: ranks 0 and 1 wait for each other",
                "  rank 1: MPI_Recv for a message from rank 0",
                "weft: ended by a deadlock",
            ] {
                assert_eq!(ended.err.matches(said).count(), 1, "{said}: {of}");
            }
            let ended = run(start().arg(&right).arg("bounces"), LIMIT);
            let of = format!("{way}, {nodes}: {ended:?}");
            assert_eq!(ended.code(), Some(0), "{of}");
            assert!(!ended.err.contains("deadlock"), "{of}");
        }
    }
}
