//! Processes that ranks of a job start while it runs, and groups that meet at ports.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_tests::sanitizer::Sanitizer;
use weft_tests::{build, processes_of, run, scratch, tool};

use super::passes;

#[test]
fn processes_that_start_others() {
    passes("spawn", &[1, 2, 3, 4], &[]);
}

#[test]
fn processes_that_start_others_over_tcp() {
    for (name, ranks) in [
        ("spawn", 1),
        ("spawn", 2),
        ("spawn", 4),
        ("ports", 2),
        ("ports", 5),
    ] {
        let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        let mut command = tool("mpiexec");
        command.args(["--fabric=tcp", "--timeout=60", "-n", &ranks.to_string()]);
        let ended = run(command.arg(&program), Duration::from_secs(70));
        ended.expect_success();
        let ok = format!("{name}: ok with {ranks} rank");
        assert!(ended.out.contains(&ok), "{ended:?}");
    }
}

/// The slots of processes that have ended are reused: there are only a few.
#[test]
fn processes_one_after_the_other_without_end() {
    let program = build("tests/programs/spawn.c", &["-pthread"]);
    let rounds = match Sanitizer::of_this_run() {
        Some(_) => "20",
        None => "300",
    };
    for fabric in ["--fabric=auto", "--fabric=tcp"] {
        let mut command = tool("mpiexec");
        command.args([fabric, "--universe=5", "--timeout=90", "-n", "2"]);
        let ended = run(command.arg(&program).arg(rounds), Duration::from_secs(100));
        ended.expect_success();
        assert!(ended.out.contains("spawn: ok with 2 ranks"), "{ended:?}");
    }
}

/// They begin with MPI_Init, with a session only, or with the services of Weft, and the ranks that have started them continue.
/// This also holds if the first process was not started by a launcher.
#[test]
fn started_processes_may_begin_with_a_session() {
    let program = build("tests/programs/spawn_beginnings.c", &["-pthread"]);
    for fabric in ["--fabric=auto", "--fabric=tcp"] {
        for ranks in [1, 2] {
            let mut command = tool("mpiexec");
            command.args([fabric, "--timeout=50", "-n", &ranks.to_string()]);
            let ended = run(command.arg(&program), Duration::from_secs(60));
            ended.expect_success();
            let ok = format!("spawn_beginnings: ok with {ranks} ranks");
            assert!(ended.out.contains(&ok), "{ended:?}");
        }
    }
    let ended = run(&mut Command::new(&program), Duration::from_secs(60));
    ended.expect_success();
    assert_eq!(processes_of(&program), [0; 0], "{ended:?}");
}

/// A parent waits for a program that was started and never begins with MPI, but a message says so.
#[test]
fn a_started_process_that_does_not_begin_with_mpi_is_named() {
    let built = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    // Other tests run the original meanwhile.
    let program = scratch("does-not-begin").join("spawn_deaths");
    std::fs::copy(built, &program).expect("copies");
    let mut command = tool("mpiexec");
    command.args(["-n", "2"]).arg(&program).arg("idle");
    let mut job = command.stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(job.stderr.take().expect("a pipe")).lines();
    let said = lines.find_map(|line| line.ok().filter(|line| line.contains("not begun with MPI")));
    let said = said.expect("it says so before it ends");
    assert!(
        said.contains("rank 0 of spawned world 1") && said.contains("posix_spawn"),
        "{said}"
    );
    let end = Command::new("kill").arg(job.id().to_string()).status();
    assert!(end.expect("kill").success());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(job.wait().expect("ours").code(), Some(128 + 15), "{rest:?}");
    assert_eq!(processes_of(&program), [0; 0], "{rest:?}");
}

#[test]
fn what_processes_that_were_started_later_write_is_labelled() {
    let program = build("examples/spawn.c", &[]);
    let mut command = tool("mpiexec");
    let ended = run(
        command.args(["-v", "-n", "1"]).arg(&program).arg("4"),
        Duration::from_secs(40),
    );
    ended.expect_success();
    assert!(ended.out.contains("worker 3 says 16"), "{ended:?}");
    assert!(
        ended.err.contains("rank 3 of spawned world 1 is process"),
        "{ended:?}"
    );
}

#[test]
fn groups_that_meet_at_ports() {
    passes("ports", &[1, 2, 3, 4, 5], &[]);
}
