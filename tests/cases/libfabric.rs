//! C programs of `tests/programs` as ranks that reach each other by libfabric: on one host, on several, when one dies, and
//! when the library or a provider is missing.
#![allow(missing_docs)]

#[path = "../launch/network.rs"]
mod network;

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use network::Network;
use weft_tests::{
    PROGRAMS, build, check_sessions_beside, has_libfabric, installation, passes, run, scratch, tool,
};

const LIMIT: Duration = Duration::from_secs(90);

/// The same command with an empty table of kernel symbols, if that is allowed: libfabric reads all of the table in each process, to
/// search for support of graphics cards, and that takes half of the time to start a rank.
fn without_symbols(start: Command) -> Command {
    const SCRIPT: &str = "mount --bind /dev/null /proc/kallsyms && exec \"$@\"";
    let hidden = |line: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", SCRIPT, "sh"])
            .args(line);
        command
    };
    static MAY_BE: OnceLock<bool> = OnceLock::new();
    let may_be = || run(&mut hidden(&["true"]), LIMIT).code() == Some(0);
    if !*MAY_BE.get_or_init(may_be) {
        return start;
    }
    let mut command = hidden(&[]);
    command.arg(start.get_program()).args(start.get_args());
    for (name, value) in start.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn on_one_host() {
    if !has_libfabric() {
        return;
    }
    for (name, argument) in PROGRAMS {
        let mut start = without_symbols(tool("mpiexec"));
        passes(
            name,
            argument,
            4,
            start.args(["--fabric", "ofi:tcp", "-n", "4"]),
        );
    }
}

/// Ranks on one host share its memory; libfabric connects the hosts.
#[test]
fn on_two_hosts() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2).filter(|_| has_libfabric()) else {
        return;
    };
    for each in [1, 2] {
        for (name, argument) in PROGRAMS {
            let mut start = without_symbols(network.on(0, &launcher.to_string_lossy()));
            start
                .args(["--fabric", "ofi"])
                .args(network.everywhere(each));
            passes(name, argument, each as u32 * 2, &mut start);
        }
    }
}

/// As with providers that can do less: without remote access to memory; with memory that is registered and has the provider's keys, and
/// writes without order.
#[test]
fn over_providers_that_can_do_less() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2).filter(|_| has_libfabric()) else {
        return;
    };
    for without in ["remote-access", "ordered-writes,unregistered,chosen-keys"] {
        for (name, argument) in PROGRAMS {
            let mut start = without_symbols(network.on(0, &launcher.to_string_lossy()));
            start
                .args(["--fabric", "ofi:tcp"])
                .args(["-x", &format!("WEFT_LIBFABRIC_WITHOUT={without}")])
                .args(network.everywhere(2));
            passes(name, argument, 4, &mut start);
        }
    }
}

/// No rank waits in `MPI_Finalize` for one that only uses sessions, and continues without MPI until the
/// others have ended.
#[test]
fn a_rank_that_uses_sessions_only_is_not_waited_for() {
    if !has_libfabric() {
        return;
    }
    let program = build("tests/programs/sessions_beside.c", &[]);
    let folder = scratch("sessions-beside-ofi");
    for what in ["early", "late", "awaits", "met", "alone"] {
        for who in ["0", "1"] {
            let file = folder.join(format!("{what}{who}"));
            // It may be left of an earlier run.
            let _ = std::fs::remove_file(&file);
            let mut start = without_symbols(tool("mpiexec"));
            start.args(["--timeout=60", "--fabric", "ofi:tcp", "-n", "3"]);
            start.env("WHO", who).arg(&program).arg(what).arg(&file);
            let ended = run(&mut start, LIMIT);
            check_sessions_beside(&ended, 3, &format!("{what}, rank {who}"));
        }
    }
}

/// Processes that a program starts, and that take the slots of others that have ended; with one rank on each host, where the
/// started processes are reached by libfabric even on the same host, and with two.
#[test]
fn later_processes_on_two_hosts() {
    let launcher = installation().join("bin/mpiexec");
    let Some(network) = Network::new(2).filter(|_| has_libfabric()) else {
        return;
    };
    for (each, room) in [(1, None), (1, Some("--universe=5")), (2, None)] {
        let mut start = without_symbols(network.on(0, &launcher.to_string_lossy()));
        start.args(["--fabric", "ofi:tcp"]).args(room);
        start.args(network.everywhere(each));
        passes("spawn", "6", each as u32 * 2, &mut start);
    }
}

/// With libfabric between all of them.
#[test]
fn later_processes_on_one_host() {
    if !has_libfabric() {
        return;
    }
    let mut start = without_symbols(tool("mpiexec"));
    start.args(["--fabric", "ofi:tcp", "-n", "2"]);
    passes("spawn", "6", 2, &mut start);
}

#[test]
fn a_killed_rank_is_named() {
    if !has_libfabric() {
        return;
    }
    let program = build("tests/programs/broadcast_death.c", &["-pthread"]);
    let mut start = without_symbols(tool("mpiexec"));
    let ended = run(
        start
            .args(["--fabric", "ofi:tcp", "-n", "3"])
            .arg(&program)
            .arg("2000"),
        LIMIT,
    );
    assert!(ended.code() != Some(0), "{ended:?}");
    assert!(ended.err.contains("rank 2"), "{ended:?}");
    // If the job goes on, the living ranks learn of the death, and none of them keeps waiting.
    let mut start = without_symbols(tool("mpiexec"));
    start.args(["--on-death=report", "--timeout=60", "--fabric", "ofi:tcp"]);
    let ended = run(start.args(["-n", "3"]).arg(&program).arg("2000"), LIMIT);
    assert_eq!(ended.code(), Some(128 + 9), "{ended:?}");
    for rank in 0..2 {
        let known = ["success", "error"].iter().any(|end| {
            let line = format!("rank {rank}: {end}, 0 bytes wrong");
            ended.out.contains(&line)
        });
        assert!(known, "{ended:?}");
    }
}

/// Libraries with which libfabric is linked install signal handlers when they are loaded, which write a file
/// beside the program.
#[test]
fn handlers_of_the_program_stay_and_nothing_is_left_behind() {
    if !has_libfabric() {
        return;
    }
    let program = build("tests/programs/own_signals.c", &["-pthread"]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut start = without_symbols(tool("mpiexec"));
    start
        .current_dir(folder.path())
        .args(["--fabric", "ofi:tcp"]);
    let ended = run(start.args(["-n", "2"]).arg(program), LIMIT);
    assert_eq!(ended.code(), Some(128 + 15), "{ended:?}");
    let left = std::fs::read_dir(folder.path()).expect("there").count();
    assert_eq!(left, 0, "{ended:?}");
}

fn fails(environment: &[(&str, &str)], options: &[&str], said: &[&str]) {
    let program = build("tests/programs/ring.c", &["-pthread"]);
    let mut start = without_symbols(tool("mpiexec"));
    start.envs(environment.iter().copied()).args(options);
    let ended = run(start.args(["-n", "2"]).arg(program).arg("1"), LIMIT);
    assert!(ended.code() != Some(0), "{ended:?}");
    for text in said {
        assert!(ended.err.contains(text), "{text}: {ended:?}");
    }
}

#[test]
fn a_library_that_is_not_there_is_named_with_a_remedy() {
    fails(
        &[("WEFT_LIBFABRIC", "/nowhere/libfabric.so.1")],
        &["--fabric", "ofi"],
        &[
            "/nowhere/libfabric.so.1 cannot be opened",
            "package libfabric1",
            "--fabric tcp",
        ],
    );
}

#[test]
fn a_provider_that_is_not_there_is_named_with_those_that_are() {
    if !has_libfabric() {
        return;
    }
    fails(
        &[],
        &["--fabric", "ofi:nosuch"],
        &[
            "no provider nosuch here",
            "tcp",
            "--fabric ofi:NAME",
            "exited with code 16 before MPI_Finalize",
        ],
    );
}

#[test]
fn encryption_is_not_promised() {
    fails(
        &[],
        &["--fabric", "ofi", "--encrypt"],
        &["not encrypted", "--fabric tcp"],
    );
}
