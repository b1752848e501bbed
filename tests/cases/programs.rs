//! C programs of `tests/programs`, built with `mpicc`, under `mpiexec` with few and many ranks. Here are those of single subjects of
//! MPI; others are in the modules.
#![allow(missing_docs)]

#[path = "programs/arguments.rs"]
mod arguments;
#[path = "programs/ends.rs"]
mod ends;
#[path = "programs/examples.rs"]
mod examples;
#[path = "programs/files.rs"]
mod files;
#[path = "programs/large_counts.rs"]
mod large_counts;
#[path = "programs/later_processes.rs"]
mod later_processes;
#[path = "programs/sessions.rs"]
mod sessions;
#[path = "programs/started_alone.rs"]
mod started_alone;
#[path = "programs/under_way.rs"]
mod under_way;
#[path = "programs/windows.rs"]
mod windows;

use std::path::PathBuf;
use std::time::Duration;

use weft_tests::sanitizer::{REPORTED, Sanitizer, looks_for_races, most_ranks, telling};
use weft_tests::{Ended, build, mpiexec, root, run, tool};

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
fn outstanding() {
    passes("outstanding", &[1, 2, 3, 4, 8, 17], &[]);
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
fn neighbours_of_all_sizes() {
    passes("neighbours", &[1, 2, 3, 5], &[]);
}

#[test]
fn services_alone_and_beside_mpi() {
    passes("services", &[1, 2, 3, 17], &[]);
    passes("services", &[1, 2, 17], &["mpi"]);
}

#[test]
fn partitioned() {
    passes("partitioned", &[1, 2, 3, 4], &[]);
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
fn the_fine_print() {
    passes("fine_print", &[1, 2, 3, 4], &[]);
}

/// `mpiexec -initial-errhandler`: those of the program that it stands before begin with that handler.
#[test]
fn the_initial_error_handler_is_that_of_the_command_line() {
    let program = build("tests/programs/initial_handler.c", &[]);
    let mut command = tool("mpiexec");
    command.args(["-n", "1", "-initial-errhandler", "mpi_errors_return"]);
    command.arg(&program).args(["returns", ":", "-n", "1"]);
    let ended = run(command.arg(&program).arg("fatal"), Duration::from_secs(60));
    ended.expect_success();
    assert!(ended.out.contains("initial_handler: ok"), "{ended:?}");
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

#[test]
fn datatypes_nested_a_million_deep() {
    passes("chains", &[1], &[]);
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
        ("outstanding", 4, &[]),
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
