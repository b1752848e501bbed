//! Programs that were started without a launcher, and get one when they start others.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weft_tests::{build, processes_of, run, running, scratch};

#[test]
fn singleton_needs_no_launcher() {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    run(&mut Command::new(program), Duration::from_secs(20)).expect_success();
}

/// Without a launcher: one is started when it is needed, and does not outlive the program.
#[test]
fn a_program_that_was_started_alone_starts_others() {
    for (name, arguments) in [("spawn", &[][..]), ("spawn", &["20"]), ("ports", &[])] {
        let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        let ended = run(
            Command::new(&program).args(arguments),
            Duration::from_secs(60),
        );
        ended.expect_success();
        let ok = format!("{name}: ok with 1 rank");
        assert!(ended.out.contains(&ok), "{ended:?}");
        assert_eq!(processes_of(&program), [0; 0], "{ended:?}");
    }
}

#[test]
fn a_death_beside_a_program_that_was_started_alone_ends_connected_processes_only() {
    let program = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    for (what, code, said) in [
        // The kernel ends it, because its launcher is gone.
        ("connected", None, "rank 1 of spawned world 1"),
        ("independent", Some(0), "the job goes on without its world"),
        (
            "aborting",
            Some(0),
            "called MPI_Abort with code 7; the job goes on",
        ),
        ("killed", None, ""),
    ] {
        let ended = run(Command::new(&program).arg(what), Duration::from_secs(60));
        assert_eq!(ended.code(), code, "{what}: {ended:?}");
        assert!(ended.err.contains(said), "{what}: {ended:?}");
        assert_eq!(processes_of(&program), [0; 0], "{what}: {ended:?}");
    }
}

/// SIGKILL of each kind of process of a job of a program that was started without a launcher.
#[test]
fn nothing_is_left_of_a_program_that_was_started_alone() {
    let built = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    let program = scratch("alone").join("alone");
    std::fs::copy(built, &program).expect("copies");
    for victim in ["program", "supervisor", "frontend", "later"] {
        let mut first = Command::new(&program)
            .arg("waiting")
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        let out = first.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("reads");
        assert_eq!(line, "waiting\n");
        let all = running(&program);
        let later = *all
            .iter()
            .find(|process| **process != first.id())
            .expect("some");
        let supervisor = parent_of(later).expect("runs");
        let frontend = parent_of(supervisor).expect("runs");
        let killed = match victim {
            "program" => first.id(),
            "supervisor" => supervisor,
            "frontend" => frontend,
            _ => later,
        };
        let kill = Command::new("kill")
            .args(["-9", &killed.to_string()])
            .status();
        assert!(kill.expect("kill").success());
        let status = first.wait().expect("ours");
        assert!(!status.success(), "{victim}: {status}");
        assert_eq!(processes_of(&program), [0; 0], "{victim}");
        let deadline = Instant::now() + Duration::from_secs(20);
        while [supervisor, frontend]
            .iter()
            .any(|process| parent_of(*process).is_some())
        {
            assert!(Instant::now() < deadline, "{victim}: the launcher is left");
            std::thread::yield_now();
        }
    }
}

/// The parent of a process that runs.
fn parent_of(process: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    (words.next()? != "Z").then(|| words.next()?.parse().ok())?
}
