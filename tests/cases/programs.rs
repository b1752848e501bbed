//! C programs of `tests/programs`, built with `mpicc`, under `mpiexec` with few and many ranks.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_tests::sanitizer::{REPORTED, Sanitizer, most_ranks};
use weft_tests::{Ended, build, mpiexec, run, tool};

fn passes(name: &str, ranks: &[u32], arguments: &[&str]) {
    let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
    for &ranks in ranks.iter().filter(|ranks| **ranks <= most_ranks()) {
        let ended = mpiexec(ranks, &program, arguments);
        ended.expect_success();
        assert!(
            ended.out.contains(&format!(": ok with {ranks} rank")),
            "{ended:?}"
        );
    }
}

#[test]
fn rings_and_barriers_end_promptly_however_many_ranks() {
    passes("ring", &[1, 2, 3, 4, 17, 64], &["100"]);
}

#[test]
fn point_to_point() {
    passes("point_to_point", &[1, 2, 4], &[]);
}

#[test]
fn communicators() {
    passes("communicators", &[1, 2, 3, 4, 9], &[]);
}

#[test]
fn collectives() {
    passes("collectives", &[1, 2, 3, 4, 7, 8], &[]);
}

#[test]
fn intercommunicators() {
    passes("intercommunicators", &[1, 2, 3, 4, 9], &[]);
}

#[test]
fn topologies() {
    passes("topologies", &[1, 2, 3, 4, 6, 12], &[]);
}

#[test]
fn services_alone_and_beside_mpi() {
    passes("services", &[1, 2, 3, 17], &[]);
    passes("services", &[1, 2, 17], &["mpi"]);
}

/// The server is killed twice in the middle: all clients hear of it, by its number, and finish with the
/// one that was started anew.
#[test]
fn a_server_that_is_killed_is_started_anew_and_nothing_hangs() {
    let program = build("examples/key_value.c", &[]);
    let mut command = tool("mpiexec");
    command.args(["--on-death=restart", "--timeout=60", "-v", "-n", "17"]);
    let rounds = match Sanitizer::of_this_run() {
        Some(_) => "1000",
        None => "10000",
    };
    command.arg(&program).arg(rounds);
    let mut job = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let out = job.stdout.take().expect("piped");
    let out = std::thread::spawn(move || std::io::read_to_string(out));
    let (mut said, mut killed) = (String::new(), 0);
    for line in BufReader::new(job.stderr.take().expect("piped")).lines() {
        let line = line.expect("text");
        let server = [
            "weft: rank 0 is process ",
            "weft: rank 0 killed by signal 9 (SIGKILL); started anew as process ",
        ];
        let number = server.iter().find_map(|start| line.strip_prefix(start));
        if let (Some(number), true) = (number, killed < 2) {
            killed += 1;
            let number = number.split(':').next().unwrap_or(number).to_owned();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                let killed = Command::new("kill").args(["-9", &number]).status();
                assert!(killed.expect("kill exists").success(), "it serves still");
            });
        }
        said += &line;
        said.push('\n');
    }
    let status = job.wait().expect("ends");
    let out = out.join().expect("reads").expect("text");
    assert!(status.success(), "{status}\n{said}\n{out}");
    assert_eq!(
        out.matches(&format!(": {rounds} rounds, ")).count(),
        16,
        "{out}"
    );
    let told =
        (1..17).filter(|client| said.contains(&format!("client {client}: node 0 is lost: ")));
    // One that is quick may have finished before.
    assert!(told.count() >= 8, "{said}");
}

/// With `report` the others are told and end as they like; the exit code is that of the death.
#[test]
fn a_death_that_is_reported_ends_nobody_else() {
    let program = build("tests/programs/mourners.c", &[]);
    let mut command = tool("mpiexec");
    command.args(["--on-death=report", "--timeout=30", "-n", "5"]);
    let ended: Ended = run(command.arg(program), Duration::from_secs(40));
    assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
    assert_eq!(ended.out.matches("mourned node 4").count(), 4, "{ended:?}");
    assert!(ended.err.contains("rank 4 killed by signal 9"), "{ended:?}");
}

#[test]
fn requests() {
    passes("requests", &[1, 2, 4], &[]);
}

#[test]
fn wrong_arguments_give_the_right_class() {
    passes("errors", &[1, 2], &[]);
}

#[test]
fn threads_of_both_kinds() {
    passes("threads", &[2, 4], &["16"]);
    passes("threads", &[2], &["64"]);
    passes("threads", &[2], &["256"]);
}

#[test]
fn fibers_of_c() {
    passes("fibers", &[1, 2, 3], &[]);
}

/// The examples as they say that they are started, smaller.
#[test]
fn fibers_of_the_examples() {
    let of = |name: &str, argument: &str, expected: &str| {
        let program = build(&format!("examples/fibers/{name}.c"), &[]);
        let ended = mpiexec(2, &program, &[argument]);
        ended.expect_success();
        assert!(ended.out.contains(expected), "{ended:?}");
    };
    of("ring", "500", "passed 1000 fibers");
    of("echo", "5000", "5000 clients");
    of("million", "16384", "all have received theirs");
}

#[test]
fn singleton_needs_no_launcher() {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    run(&mut Command::new(program), Duration::from_secs(20)).expect_success();
}

#[test]
fn a_profiling_library_intercepts() {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    let library = build("tests/programs/profile.c", &["-shared", "-fPIC"]);
    let mut command = tool("mpiexec");
    command
        .args([
            "-n",
            "2",
            "-x",
            &format!("LD_PRELOAD={}", library.display()),
        ])
        .arg(program)
        .arg("10");
    let ended: Ended = run(&mut command, Duration::from_secs(20));
    ended.expect_success();
    for rank in 0..2 {
        assert!(
            ended
                .err
                .contains(&format!("profile: rank {rank} sent 10 times")),
            "{}",
            ended.err
        );
    }
}

#[test]
fn a_blocked_rank_sleeps() {
    let program = build("tests/programs/idle.c", &[]);
    let ended = mpiexec(2, &program, &["2"]);
    ended.expect_success();
    let used: f64 = ended
        .out
        .split("used ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no figure in {:?}", ended.out));
    assert!(used <= 0.04, "{used} s of CPU while blocked");
}

#[test]
fn over_tcp_plain_and_encrypted() {
    for (name, ranks, arguments) in [
        ("point_to_point", 4, &[][..]),
        ("collectives", 4, &[]),
        ("communicators", 4, &[]),
        ("ring", 9, &["20"]),
    ] {
        let program = build(&format!("tests/programs/{name}.c"), &["-pthread"]);
        for extra in [&[][..], &["--encrypt"]] {
            let mut command = tool("mpiexec");
            command.args(["--fabric", "tcp", "-n", &ranks.to_string()]);
            command.args(extra).arg(&program).args(arguments);
            let ended: Ended = run(&mut command, std::time::Duration::from_secs(60));
            ended.expect_success();
            let said = format!(": ok with {ranks} rank");
            assert!(ended.out.contains(&said), "{ended:?}");
        }
    }
}

/// The library is what a sanitizer watches, not the program alone: it reads what the program has freed, or
/// writes at the same time.
#[test]
fn a_sanitizer_sees_what_the_library_does() {
    if Sanitizer::of_this_run().is_none() {
        return;
    }
    let program = build("tests/programs/misuse.c", &["-pthread"]);
    let ended = mpiexec(1, &program, &[]);
    assert_eq!(ended.code(), Some(REPORTED), "{ended:?}");
    assert!(ended.err.contains("PMPI_S"), "{ended:?}");
}
