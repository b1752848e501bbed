//! Ends of jobs: deaths, aborts, and who survives them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_tests::sanitizer::{Sanitizer, telling};
use weft_tests::{Ended, build, root, run, run_with_input, tool};

/// According to which processes the standard calls connected (MPI 5.0, section 11.10.4).
#[test]
fn a_death_ends_connected_processes_only() {
    let program = build("tests/programs/spawn_deaths.c", &["-pthread"]);
    let cases = [
        ("connected", 128 + 9, "rank 1 of spawned world 1"),
        ("independent", 128 + 9, "the job goes on without its world"),
        (
            "aborting",
            7,
            "called MPI_Abort with code 7; the job goes on",
        ),
        ("without", 1, "without MPI_Init"),
    ];
    let all = ["--fabric=auto", "--fabric=tcp"].map(|fabric| cases.map(|case| (fabric, case)));
    for (fabric, (what, code, said)) in all.into_iter().flatten() {
        let mut command = tool("mpiexec");
        command.args([fabric, "--timeout=30", "-n", "2"]);
        let ended: Ended = run(command.arg(&program).arg(what), Duration::from_secs(40));
        assert_eq!(ended.code(), Some(code), "{what}: {ended:?}");
        assert!(ended.err.contains(said), "{what}: {ended:?}");
        let goes_on = ended.out.contains("spawn_deaths: ok with 2 ranks");
        assert_eq!(goes_on, said.contains("goes on"), "{what}: {ended:?}");
    }
}

/// Its connections are closed before its parent learns of its end, and others end because of that.
#[test]
fn a_rank_that_dies_slowly_is_the_one_at_fault() {
    let program = build("tests/programs/slow_death.c", &["-pthread"]);
    let mut command = tool("mpiexec");
    command.args(["--fabric=tcp", "--timeout=30", "-n", "3"]);
    let ended = run(command.arg(&program), Duration::from_secs(40));
    assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
    let last = "weft: rank 1 failed first: killed by signal 9";
    assert!(ended.err.contains(last), "{ended:?}");
}

/// The message about an abort names the communicator, even if it has no name.
#[test]
fn an_abort_of_what_has_no_name_is_told_in_words() {
    let mut command = tool("mpiexec");
    command.args(["-n", "2"]);
    command.arg(build("tests/programs/job_ends.c", &["-pthread"]));
    let ended = run(command.arg("nameless"), Duration::from_secs(60));
    assert_eq!(ended.code(), Some(7), "{ended:?}");
    let said = "MPI_Abort called by rank 0 of 1 of a communicator without name, exit code 7";
    assert!(ended.err.contains(said), "{ended:?}");
}

/// The server is killed twice in the middle: all clients learn of it, with its number, and finish with the
/// restarted one.
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
    let told = |said: &str| {
        (1..17)
            .filter(|client| said.contains(&format!("client {client}: node 0 is lost: ")))
            .count()
    };
    // It is killed at least twice, and until half of its clients have met a death: when they start and when
    // they are done depends on the machine.
    let (mut said, mut killed) = (String::new(), 0);
    for line in BufReader::new(job.stderr.take().expect("piped")).lines() {
        let line = line.expect("text");
        let server = [
            "weft: rank 0 is process ",
            "weft: rank 0 killed by signal 9 (SIGKILL); started anew as process ",
        ];
        let number = server.iter().find_map(|start| line.strip_prefix(start));
        let wanted = killed < 2 || (killed < 12 && told(&said) < 8);
        if let (Some(number), true) = (number, wanted) {
            killed += 1;
            let number = number.split(':').next().unwrap_or(number).to_owned();
            let patience = Duration::from_millis(200 * (killed - 1).max(1));
            std::thread::spawn(move || {
                std::thread::sleep(patience);
                // Meanwhile it may have served all clients and ended.
                let killed = Command::new("kill").args(["-9", &number]).status();
                killed.expect("kill exists");
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
    // A quick client may have finished before.
    assert!(told(&said) >= 8, "{said}");
}

/// With `report` the others are informed and end in their own way; the exit code is that of the death.
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

/// A rank that waits for the lock of a dead rank, or for its memory, gets an error.
#[test]
fn a_window_whose_member_dies_holds_nobody_up() {
    let program = build("tests/programs/window_death.c", &[]);
    for allocated in ["0", "1", "2"] {
        for fabric in [&[][..], &["--fabric", "tcp"]] {
            let mut command = tool("mpiexec");
            command.args(["--on-death=report", "--timeout=30", "-n", "3"]);
            command.args(fabric).arg(&program).arg(allocated);
            let ended: Ended = run(&mut command, Duration::from_secs(40));
            assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
            for rank in 0..2 {
                let told = format!("rank {rank}: told");
                assert!(ended.out.contains(&told), "{fabric:?}: {ended:?}");
            }
        }
    }
}

/// A living rank gets all bytes and success, or an error, whatever the root does with its buffer after its
/// own call has returned.
#[test]
fn a_broadcast_in_which_a_rank_dies_is_right_or_an_error() {
    let source = "tests/programs/broadcast_death.c";
    let program = build(source, &[]);
    let delays = [0, 1000, 3000, 5000, 7000, 10_000, 15_000, 20_000];
    for delay in telling(&root().join(source), &delays) {
        let mut command = tool("mpiexec");
        command.args(["--on-death=report", "--timeout=30", "-n", "3"]);
        command.arg(&program).arg(delay.to_string());
        let ended: Ended = run(&mut command, Duration::from_secs(40));
        assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
        for rank in 0..2 {
            let known = ["success", "error"].iter().any(|end| {
                ended
                    .out
                    .contains(&format!("rank {rank}: {end}, 0 bytes wrong"))
            });
            assert!(known, "after {delay} µs: {ended:?}");
        }
    }
}

/// A thread that reads standard input holds the lock of that stream as long as there is no input. Neither an
/// abort nor a fatal error waits for it, and earlier output is not lost.
#[test]
fn the_end_of_a_job_does_not_wait_for_a_reader_of_standard_input() {
    let program = build("tests/programs/reader.c", &["-pthread"]);
    for reader in ["getchar", "fgets"] {
        for (end, code) in [("abort", 42), ("error", 2)] {
            for launched in [false, true] {
                let mut command = if launched {
                    let mut command = tool("mpiexec");
                    command.args(["-n", "2"]).arg(&program);
                    command
                } else {
                    Command::new(&program)
                };
                // Open until the job has ended, and never written to.
                let (input, _held) = std::io::pipe().expect("a pipe");
                let limit = Duration::from_secs(20);
                let ended = run_with_input(command.args([reader, end]), input, limit);
                assert_eq!(ended.code(), Some(code), "{reader}, {end}: {ended:?}");
                assert!(ended.out.contains("said before"), "{ended:?}");
                let word = if end == "abort" {
                    "MPI_Abort"
                } else {
                    "MPI_ERR_COUNT"
                };
                assert!(ended.err.contains(word), "{ended:?}");
            }
        }
    }
}
