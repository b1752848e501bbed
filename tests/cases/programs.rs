//! C programs of `tests/programs`, built with `mpicc`, under `mpiexec` with few and many ranks.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weft_tests::sanitizer::{REPORTED, Sanitizer, looks_for_races, most_ranks, telling};
use weft_tests::{
    Ended, build, check_sessions_beside, mpiexec, processes_of, root, run, run_with_input, running,
    scratch, tool,
};

fn passes(name: &str, ranks: &[u32], arguments: &[&str]) {
    let source = format!("tests/programs/{name}.c");
    let program = build(&source, &["-pthread"]);
    let few = ranks.iter().copied().filter(|ranks| *ranks <= most_ranks());
    let few: Vec<u32> = few.collect();
    for &ranks in telling(&root().join(source), &few) {
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
fn nobody_waits_at_the_end_for_a_rank_that_uses_sessions_only() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for what in ["early", "late", "stays", "returns", "meets"] {
        for ranks in [2, 3, 5] {
            let ended = mpiexec(ranks, &program, &[what]);
            check_sessions_beside(&ended, ranks, what);
        }
    }
}

/// This holds for every fabric, and whatever the rank does that only uses sessions.
#[test]
fn a_rank_that_uses_sessions_only_may_go_on_until_the_others_have_ended() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    let folder = Folder::new("sessions-beside");
    for fabric in ["auto", "tcp"] {
        for what in [
            "early", "late", "returns", "meets", "awaits", "met", "alone",
        ] {
            for ranks in [2, 3] {
                let file = format!("{}/{fabric}-{what}-{ranks}", folder.name());
                let mut start = tool("mpiexec");
                start.args(["--timeout=40", "--fabric", fabric, "-n", &ranks.to_string()]);
                let ended = run(
                    start.arg(&program).args([what, &file]),
                    Duration::from_secs(60),
                );
                check_sessions_beside(&ended, ranks, &format!("{fabric}, {what}"));
            }
        }
    }
}

#[test]
fn a_wait_for_a_rank_that_has_ended_its_session_is_reported() {
    let program = build("tests/programs/sessions_beside.c", &[]);
    for what in ["wanted", "missed"] {
        let ended = mpiexec(2, &program, &[what]);
        assert_ne!(ended.code(), Some(0), "{what}: {ended:?}");
        assert!(ended.err.contains("MPI_Recv"), "{what}: {ended:?}");
    }
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

/// A folder for this test only, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files() {
    let folder = Folder::new("files");
    passes("files", &[1, 2, 3, 4], &[folder.name()]);
}

/// A file system of half a megabyte, which is visible only to this job.
#[test]
fn files_on_a_full_disk() {
    let program = build("tests/programs/files.c", &["-pthread"]);
    let folder = Folder::new("full-disk");
    for ranks in ["1", "3"] {
        let mut command = Command::new("unshare");
        let script = "mount -t tmpfs -o size=512k weft \"$1\" && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh", folder.name()]);
        command.arg(tool("mpiexec").get_program());
        command.args(["--timeout=60", "-n", ranks]).arg(&program);
        command.args([folder.name(), "full"]);
        let ended = run(&mut command, Duration::from_secs(70));
        ended.expect_success();
        assert!(ended.out.contains("files: ok"), "{ended:?}");
    }
}

/// Every case of `large.c` that also works with few elements.
#[test]
fn large_counts_in_small() {
    passes("large", &[2, 3], &["all", "3000001"]);
    passes("large", &[2, 3], &["all", "300001", "gaps"]);
}

/// Whether that many GiB of memory are free; prints a message if not.
fn has_memory(gibibytes: u64, case: &str) -> bool {
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = facts
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let words = available.and_then(|rest| rest.split_whitespace().next());
    let free = words.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) >> 20;
    if free < gibibytes {
        eprintln!("left out: {case} needs {gibibytes} GiB of memory, and {free} are free");
    }
    free >= gibibytes
}

/// More elements than 31 bits can count, and than 32 bits can. This takes up to 14 GiB of memory, or 26 GiB with gaps if each rank
/// gets something from each; it takes minutes; and only one such test may run at a time: `cargo test -p weft-tests --test programs
/// many_elements -- --ignored`.
#[test]
#[ignore = "takes minutes, and more memory than most machines have to spare"]
fn many_elements() {
    let program = build("tests/programs/large.c", &[]);
    let from_each_to_each = [
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "alltoallw",
    ];
    let others = [
        "point_to_point",
        "bcast",
        "gather",
        "gatherv",
        "scatter",
        "scatterv",
    ];
    let reducing = [
        "reduce",
        "allreduce",
        "scan",
        "exscan",
        "reduce_scatter",
        "reduce_scatter_block",
    ];
    let beyond_31_bits = "2147483655";
    let cases = others.iter().chain(&from_each_to_each).chain(&reducing);
    let runs = cases.map(|case| vec![*case, beyond_31_bits]);
    let with_gaps = others.iter().chain(&from_each_to_each);
    let with_gaps = with_gaps.filter(|case| match from_each_to_each.contains(case) {
        true => has_memory(26, &format!("{case} with gaps")),
        false => true,
    });
    let runs = runs.chain(with_gaps.map(|case| vec![*case, beyond_31_bits, "gaps"]));
    let runs = runs.chain([
        vec!["point_to_point", "4294967311"],
        vec!["bcast", "8589934592"],
    ]);
    for arguments in runs {
        let mut command = tool("mpiexec");
        command.args(["-n", "2"]).arg(&program).args(&arguments);
        let ended = run(&mut command, Duration::from_secs(600));
        ended.expect_success();
        eprint!("{}", ended.err);
    }
}

#[test]
fn intercommunicators() {
    passes("intercommunicators", &[1, 2, 3, 4, 9], &[]);
}

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

#[test]
fn topologies() {
    passes("topologies", &[1, 2, 3, 4, 6, 12], &[]);
}

#[test]
fn one_sided() {
    passes("one_sided", &[1, 2, 3, 4, 7], &[]);
}

/// After its own flush, a rank sees everything that another one has put and flushed before.
#[test]
fn stores_and_loads_of_two_ranks_are_in_order() {
    passes("store_order", &[2], &[]);
}

/// Holders of a shared and of an exclusive lock find the same value in all words, whichever way they acquire
/// the lock.
#[test]
fn locks_of_windows_are_shared_or_had_alone() {
    passes("window_locks", &[1, 2, 3], &[]);
    passes("window_locks", &[2, 3], &["threads"]);
}

/// A rank that shares several locks does not wait for ever while others wait for one of them exclusively, and
/// neither do those others.
#[test]
fn locks_of_windows_are_taken_in_any_order() {
    passes("window_circles", &[1, 2, 4, 5, 8], &[]);
}

#[test]
fn services_alone_and_beside_mpi() {
    passes("services", &[1, 2, 3, 17], &[]);
    passes("services", &[1, 2, 17], &["mpi"]);
}

/// This is for a value that no launcher of ours has checked: otherwise a user who misspells it would believe
/// that everything is checked.
#[test]
fn a_mode_of_checks_that_is_not_known_is_refused() {
    let mut command = Command::new(build("tests/programs/job_ends.c", &["-pthread"]));
    let ended = run(command.env("WEFT_CHECK", "stric"), Duration::from_secs(60));
    assert_ne!(ended.code(), Some(0), "{ended:?}");
    assert!(ended.err.contains("WEFT_CHECK is 'stric'"), "{ended:?}");
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

/// The receiver establishes the connection while the sender makes no call.
#[test]
fn a_first_message_is_received_while_its_sender_is_outside_of_mpi() {
    let program = build("tests/programs/first_message.c", &[]);
    let folder = Folder::new("first-message");
    for (index, options) in [&[][..], &["--encrypt"]].into_iter().enumerate() {
        for sender in ["0", "1"] {
            let fifo = format!("{}/{index}-{sender}", folder.name());
            let made = Command::new("mkfifo").arg(&fifo).status();
            assert!(made.is_ok_and(|made| made.success()), "{fifo}");
            let mut command = tool("mpiexec");
            command.args(["--fabric", "tcp", "-n", "2"]).args(options);
            command.arg(&program).args([sender, &fifo]);
            let ended = run(&mut command, Duration::from_secs(60));
            ended.expect_success();
            assert!(ended.out.contains("first_message: ok"), "{ended:?}");
        }
    }
}

/// Twenty thousand large messages are under way before one is received, and do not delay other messages.
#[test]
fn there_is_no_limit_to_large_messages_under_way() {
    passes("flood", &[2, 3, 17], &[]);
}

/// Ten million small messages, with `WEFT_SEEDS`; otherwise fewer, which are still more than fit.
#[test]
fn a_flooding_sender_waits_instead_of_filling_the_memory_of_a_slow_receiver() {
    let program = build("tests/programs/overrun.c", &["-pthread"]);
    let count = if weft_tests::is_long() {
        "10000000"
    } else {
        "500000"
    };
    for fabric in ["auto", "tcp"] {
        let mut command = tool("mpiexec");
        command.args(["--fabric", fabric, "-n", "3"]);
        command.arg(&program).arg(count);
        let ended = run(&mut command, Duration::from_secs(300));
        ended.expect_success();
        assert!(
            ended.out.contains(": ok with 3 ranks"),
            "{fabric}: {ended:?}"
        );
    }
}

#[test]
fn partitioned() {
    passes("partitioned", &[1, 2, 3, 4], &[]);
}

#[test]
fn examples_of_queues_and_partitions() {
    let queues = build("examples/queues.c", &[]);
    let ended = mpiexec(3, &queues, &[]);
    ended.expect_success();
    let last = ended
        .out
        .lines()
        .find(|line| line.starts_with("at the end:"));
    let last = last.expect("the last line of the queues");
    assert!(
        last.contains("unexpected_messages 0  unexpected_bytes 0"),
        "{ended:?}"
    );
    let partitioned = build("examples/partitioned.c", &["-pthread"]);
    let ended = mpiexec(2, &partitioned, &[]);
    ended.expect_success();
    assert!(ended.out.contains("the sum is 600000"), "{ended:?}");
}

/// A user who starts an example with a number of ranks for which it is not written gets a message and an exit
/// code.
#[test]
fn examples_say_how_many_ranks_they_need() {
    for (source, ranks) in [
        ("examples/partitioned.c", 1),
        ("examples/queues.c", 1),
        ("examples/key_value.c", 1),
        ("examples/fibers/echo.c", 1),
        ("examples/fibers/million.c", 1),
        ("examples/fibers/million.c", 3),
    ] {
        let ended = mpiexec(ranks, &build(source, &["-pthread"]), &["1000"]);
        assert_eq!(ended.code(), Some(2), "{source}: {ended:?}");
        assert!(ended.err.starts_with("start with "), "{source}: {ended:?}");
    }
}

#[test]
fn examples_of_one_sided_access_and_of_a_grid() {
    let one_sided = build("examples/one_sided.c", &[]);
    for ranks in [1, 3, 4] {
        let ended = mpiexec(ranks, &one_sided, &[]);
        ended.expect_success();
        let counts = ended
            .out
            .lines()
            .map(|line| line.rsplit(' ').next().expect("a word"));
        let counts: Vec<u32> = counts.map(|word| word.parse().expect("a number")).collect();
        assert_eq!(counts.len(), 8, "{ended:?}");
        assert_eq!(counts.iter().sum::<u32>(), 1000, "{ended:?}");
    }
    let heat = build("examples/heat.c", &[]);
    for ranks in [1, 2, 4, 6] {
        let ended = mpiexec(ranks, &heat, &[]);
        ended.expect_success();
        // No heat leaves a plate whose edges are joined.
        assert!(
            ended
                .out
                .starts_with("1000.000 in all, the hottest place has "),
            "{ended:?}"
        );
    }
}

#[test]
fn tools() {
    passes("tools", &[1, 2, 4], &[]);
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
fn the_fine_print() {
    passes("fine_print", &[1, 2, 3, 4], &[]);
}

/// Things that work with Weft but need not elsewhere are reported if asked for, once by each process.
#[test]
fn checks_for_development() {
    let program = build("tests/programs/fine_print.c", &["-pthread"]);
    for (option, times) in [(None, 0), (Some("--check"), 2)] {
        let mut command = tool("mpiexec");
        command.args(option).args(["-n", "2"]).arg(&program);
        let ended = run(&mut command, Duration::from_secs(60));
        ended.expect_success();
        let said = "reduces MPI_CHAR with MPI_SUM; MPI 5.0, section 6.9.2";
        assert_eq!(ended.err.matches(said).count(), times, "{ended:?}");
        let named = |rank| {
            ended
                .err
                .contains(&format!("rank {rank} of MPI_COMM_WORLD"))
        };
        assert_eq!(named(0) && named(1), times == 2, "{ended:?}");
    }
}

/// The wrapper for C++ under the names for which build systems look.
#[test]
fn the_wrapper_for_cxx_has_three_names() {
    let shown = |name: &str| {
        let ended = run(tool(name).arg("-show"), Duration::from_secs(20));
        ended.expect_success();
        ended.out
    };
    assert!(shown("mpicxx").contains("-lmpi_abi"));
    assert_eq!(shown("mpic++"), shown("mpicxx"));
    assert_eq!(shown("mpiCC"), shown("mpicxx"));
}

/// Messages that were not received when their communicator is freed are reported, once for each process. This is
/// not an error: programs that forget messages run everywhere else.
#[test]
fn forgotten_messages_are_named_once() {
    let program = build("tests/programs/fine_print.c", &["-pthread"]);
    let ended = mpiexec(1, &program, &["forgotten"]);
    ended.expect_success();
    let (before, after) = ended.err.split_once("so far\n").expect("said in between");
    assert!(!before.contains("nobody has received"), "{ended:?}");
    assert_eq!(after.matches("nobody has received").count(), 1, "{ended:?}");
    for part in [
        "of second",
        "2 messages",
        "from rank 0",
        "tag 5",
        "12 bytes",
        "receive all",
    ] {
        assert!(after.contains(part), "{part} is missing in {after}");
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

#[test]
fn datatypes_nested_a_million_deep() {
    passes("chains", &[1], &[]);
}

/// Every function of the C binding with the extremes of each argument in turn, 26 000 calls: each ends
/// in success or in an error of MPI.
#[test]
fn every_function_with_the_extremes_of_every_argument() {
    let program = build("tests/programs/extremes.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(500));
    assert!(ended.out.contains(" 0 failures"), "{ended:?}");
    ended.expect_success();
}

/// One wrong value for each parameter of every function that is implemented, made from the tables: the class that it
/// must give, with the name of the parameter and a remedy.
#[test]
fn every_wrong_argument_gets_its_class_and_a_remedy() {
    let program = build("tests/programs/wrong.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(120));
    assert!(ended.out.contains(" 0 failures"), "{ended:?}");
    ended.expect_success();
}

/// The same for the functions of MPI_T, whose codes are classes of their own.
#[test]
fn every_wrong_argument_of_tools_gets_its_code() {
    passes("wrong_tools", &[1, 2], &[]);
}

/// The same for the functions of weft.h, which has no table.
#[test]
fn every_service_with_the_extremes_of_every_argument() {
    let program = build("tests/programs/extremes_weft.c", &["-w"]);
    let ended = run(&mut Command::new(program), Duration::from_secs(60));
    ended.expect_success();
}

#[test]
fn threads_of_both_kinds() {
    passes("threads", &[2, 4], &["16"]);
    passes("threads", &[2], &["64"]);
    // Under a sanitizer, a few show as much.
    if Sanitizer::of_this_run().is_none() {
        passes("threads", &[2], &["256"]);
    }
    let program = build("tests/programs/threads.c", &["-pthread"]);
    let mut command = tool("mpiexec");
    command.args(["--fabric=tcp", "--timeout=60", "-n", "2"]);
    let ended = run(command.arg(&program).arg("16"), Duration::from_secs(70));
    ended.expect_success();
    assert!(ended.out.contains("threads: ok with 2 ranks"), "{ended:?}");
}

#[test]
fn threads_that_wait_and_poll_at_once() {
    passes("threads_mixed", &[1, 2, 4], &["12", "60"]);
    passes("threads_mixed", &[2], &["24", "100"]);
    let program = build("tests/programs/threads_mixed.c", &["-pthread"]);
    let mut command = tool("mpiexec");
    command.args(["--fabric=tcp", "--timeout=60", "-n", "2"]);
    let ended = run(
        command.arg(&program).args(["12", "60"]),
        Duration::from_secs(70),
    );
    ended.expect_success();
}

#[test]
fn threads_on_communicators_with_hints() {
    passes("hints", &[2], &["8", "20"]);
}

#[test]
fn fibers_of_c() {
    passes("fibers", &[1, 2, 3], &[]);
}

/// The examples, started as their comments say, but with smaller sizes.
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
fn a_queue_of_work_needs_no_server() {
    let program = build("examples/work_queue.c", &[]);
    for ranks in [1, 2, 5] {
        let ended = mpiexec(ranks, &program, &["200"]);
        ended.expect_success();
        let expected = "200 pieces: 9592 primes below 100000, 1224 of them with a twin";
        assert!(ended.out.contains(expected), "{ended:?}");
    }
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
        ("one_sided", 4, &[]),
        ("window_circles", 4, &[]),
        ("window_circles", 7, &["20"]),
    ] {
        // Collectives are just many messages, which the other programs also send.
        let tells_nothing = looks_for_races() && name == "collectives";
        if ranks > most_ranks() || tells_nothing {
            continue;
        }
        let source = format!("tests/programs/{name}.c");
        let program = build(&source, &["-pthread"]);
        for extra in telling(&root().join(source), &[&[][..], &["--encrypt"]]) {
            let mut command = tool("mpiexec");
            command.args(["--fabric", "tcp", "-n", &ranks.to_string()]);
            command.args(*extra).arg(&program).args(arguments);
            let ended: Ended = run(&mut command, std::time::Duration::from_secs(60));
            ended.expect_success();
            let said = format!(": ok with {ranks} rank");
            assert!(ended.out.contains(&said), "{ended:?}");
        }
    }
}

/// A sanitizer watches the library as well as the program: here the library reads what the program has freed,
/// or what it writes at the same time.
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
