//! Failures: a rank fails, the job ends with the code of the first failure, and the last line names the rank.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::{Job, rank, weft};

/// Runs a job, and compares the exit code and the last line.
fn expect(words: &[&str], code: i32, last: &str) {
    let ended = Job::new(words).run();
    assert_eq!(ended.code(), Some(code), "{words:?}: {ended:?}");
    assert_eq!(ended.last(), last, "{words:?}");
}

#[test]
fn a_code_of_a_rank_is_the_code_of_the_job() {
    let script = "test $WEFT_RANK = 2 && exit 7; sleep 600";
    expect(
        &["-n", "4", "sh", "-c", script],
        7,
        "weft: rank 2 failed first: exited with code 7; 3 other ranks were ended",
    );
    expect(
        &["-n", "1", "sh", "-c", "exit 255"],
        255,
        "weft: rank 0 failed first: exited with code 255",
    );
    expect(
        &["-n", "2", &rank(), "leave", "1", "3"],
        3,
        "weft: rank 1 failed first: exited with code 3 before MPI_Finalize; 1 other rank was ended",
    );
}

#[test]
fn a_signal_is_named() {
    let rank = rank();
    let line = "weft: rank 3 failed first: killed by signal 11 (SIGSEGV) before MPI_Finalize; 7 other ranks were ended";
    expect(&["-n", "8", &rank, "kill", "3", "11"], 139, line);
    let ended = Job::new(["-n", "2", &rank, "kill", "0", "9"]).run();
    assert_eq!(ended.code(), Some(137));
    assert!(
        ended.last().contains("SIGKILL") && ended.last().contains("memory"),
        "{ended:?}"
    );
}

/// A folder with a command that uses this host in place of any other.
fn reach() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let reach = folder.path().join("reach");
    std::fs::write(&reach, "#!/bin/sh\nshift\nexec \"$@\"\n").expect("writes");
    std::fs::set_permissions(&reach, PermissionsExt::from_mode(0o755)).expect("ours");
    let reach = reach.to_string_lossy().into_owned();
    (folder, reach)
}

/// On this host rank 0 gets the error itself.
#[test]
fn input_that_cannot_be_read_is_said_where_rank_0_is_elsewhere() {
    let (folder, reach) = reach();
    let job = Job::new(["--launch-command", &reach, "--hosts", "one:1", "cat"]);
    let ended = job.input(folder.path()).run();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let said = "weft: standard input could not be read: Is a directory";
    assert!(ended.error.contains(said), "{ended:?}");
}

/// On this host, ranks start there nevertheless; but there is no path to tell another host.
#[test]
fn a_folder_that_was_removed_is_named_for_other_hosts() {
    let (folder, reach) = reach();
    let weft = weft();
    let start = format!(
        "mkdir here && cd here && rmdir ../here && exec {} run --launch-command \"$REACH\" --hosts one:1 true",
        weft.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &start]).current_dir(folder.path());
    let ended = Job::of(command).variable("REACH", &reach).run();
    assert_eq!(ended.code(), Some(126), "{ended:?}");
    let said = "the folder in which the job was started is there no more";
    assert!(ended.last().contains(said), "{ended:?}");
}

#[test]
fn an_exit_without_finalize_is_a_failure() {
    let line = "weft: rank 1 failed first: exited with code 0 after MPI_Init, but without MPI_Finalize; 2 other ranks were ended";
    expect(&["-n", "3", &rank(), "leave", "1", "0"], 1, line);
}

#[test]
fn a_rank_that_never_initialises_fails_those_that_do() {
    let rank = rank();
    let line = "weft: rank 1 failed first: exited with code 0 without MPI_Init, while rank 0 has initialised MPI and counts on it; 1 other rank was ended";
    // Either rank may be first.
    for script in ["true", "sleep 0.3"] {
        expect(
            &["-n", "1", &rank, "wait", ":", "-n", "1", "sh", "-c", script],
            1,
            line,
        );
    }
    // Programs without MPI may end in any way.
    let ended = Job::new(["-n", "1", "true", ":", "-n", "1", "sleep", "0.1"]).run();
    assert_eq!((ended.code(), &*ended.error), (Some(0), ""));
}

#[test]
fn an_abort_ends_all_with_its_code() {
    let rank = rank();
    expect(
        &["-n", "4", &rank, "abort", "2", "42", "no convergence"],
        42,
        "weft: rank 2 failed first: called MPI_Abort with code 42: no convergence; 3 other ranks were ended",
    );
    expect(
        &["-n", "2", &rank, "abort", "0", "256", ""],
        1,
        "weft: rank 0 failed first: called MPI_Abort with code 256; 1 other rank was ended",
    );
    // The abort is known only from the shared memory: even then it is reported as an abort, not an exit.
    let ended = Job::new(["-n", "3", &rank, "abort-by-fabric", "1", "5"]).run();
    assert_eq!(ended.code(), Some(5), "{ended:?}");
    assert!(
        ended
            .last()
            .contains("rank 1 failed first: called MPI_Abort with code 5"),
        "{ended:?}"
    );
}

#[test]
fn what_was_written_before_the_end_is_shown_before_the_last_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("written");
    let script = "test $WEFT_RANK = 1 && until [ -e \"$WRITTEN\" ]; do sleep 0.02; done
        echo out $WEFT_RANK; echo error $WEFT_RANK >&2
        test $WEFT_RANK = 1 && exit 5; touch \"$WRITTEN\"; sleep 600";
    let job = Job::new(["-n", "2", "sh", "-c", script]);
    let ended = job.variable("WRITTEN", &written.to_string_lossy()).run();
    assert_eq!(ended.sorted(), ["out 0", "out 1"]);
    // The ranks have a pipe each: which is read first is not said.
    let mut lines: Vec<_> = ended.error.lines().collect();
    let last = lines.pop().unwrap_or_default();
    lines.sort_unstable();
    assert_eq!(lines, ["error 0", "error 1"], "{ended:?}");
    assert!(last.starts_with("weft: rank 1 failed first"), "{ended:?}");
}

#[test]
fn a_time_limit_ends_the_job() {
    expect(
        &["-n", "3", "--timeout", "0.2", "sleep", "600"],
        124,
        "weft: the job did not end within 0.2 s (--timeout): ranks 0, 1, 2 were still running and were ended",
    );
    let ended = Job::line("-n 2 --timeout 50 true").run();
    assert_eq!((ended.code(), &*ended.error), (Some(0), ""));
}

#[test]
fn success_is_silent() {
    let ended = Job::line(&format!("-n 3 {} where", rank())).run();
    assert_eq!((ended.code(), &*ended.error), (Some(0), ""));
}

#[test]
fn a_limit_that_is_reached_is_told_with_the_remedy() {
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "ulimit -n 80; exec {} run -n 40 sleep 600",
        crate::harness::weft().display()
    );
    command.args(["-c", &line]);
    let ended = Job::of(command).run();
    assert_eq!(ended.code(), Some(126), "{ended:?}");
    assert!(
        ended.last().contains("could not be started") && ended.last().contains("ulimit -n"),
        "{ended:?}"
    );
}
