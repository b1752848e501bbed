//! The same program in environments where other implementations need flags or fail: ranks with user and PID
//! namespaces of their own, `/dev/shm` small or read-only, a network namespace whose `lo` is down.
#![allow(missing_docs)]

use std::process::Command;
use std::time::Duration;

use weft_tests::{build, run, tool};

/// Two ranks, each behind `wrapper`, exchange messages of all sizes, by a single copy or in chunks.
fn works_behind(wrapper: &[&str]) {
    let allowed = Command::new("unshare").args(["-Ur", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("skipped: this machine does not let us make user namespaces");
        return;
    }
    let program = build("tests/programs/point_to_point.c", &["-pthread"]);
    let mut command = tool("mpiexec");
    command.args(["-n", "2"]).args(wrapper).arg(&program);
    let ended = run(&mut command, Duration::from_secs(120));
    ended.expect_success();
    assert!(
        ended.out.contains("point-to-point: ok with 2 ranks"),
        "{ended:?}"
    );
}

#[test]
fn user_namespaces() {
    works_behind(&["unshare", "-U"]);
}

#[test]
fn process_namespaces() {
    works_behind(&["unshare", "-Urpf"]);
}

#[test]
fn network_without_loopback() {
    works_behind(&["unshare", "-Urn"]);
}

#[test]
fn small_shared_memory_folder() {
    works_behind(&[
        "unshare",
        "-Urm",
        "sh",
        "-c",
        "mount -t tmpfs -o size=1m none /dev/shm && exec \"$0\"",
    ]);
}

#[test]
fn read_only_shared_memory_folder() {
    works_behind(&[
        "unshare",
        "-Urm",
        "sh",
        "-c",
        "mount -t tmpfs -o ro none /dev/shm && exec \"$0\"",
    ]);
}

/// As during the update of a package: the file of the program is gone.
#[test]
fn what_works_here_is_tried_by_a_program_whose_file_is_gone() {
    let weft = weft_tests::installation().join("bin/weft");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("weft");
    std::fs::copy(weft, &copy).expect("a copy");
    let mut command = Command::new("sh");
    let script = "exec 3<\"$0\"; rm \"$0\"; exec /proc/self/fd/3 info";
    command.args(["-c", script]).arg(copy);
    let ended = run(&mut command, Duration::from_secs(20));
    ended.expect_success();
    assert!(ended.out.contains("cross-memory attach"), "{ended:?}");
    assert!(!ended.out.contains("could not be tried"), "{ended:?}");
}

/// As in many containers: the kernel refuses to copy between the memories of two processes.
#[test]
fn no_access_to_the_memory_of_other_processes() {
    let (deny, program) = (
        build("tests/programs/deny.c", &[]),
        build("tests/programs/point_to_point.c", &["-pthread"]),
    );
    let ended = run(
        Command::new(&deny)
            .arg(weft_tests::installation().join("bin/weft"))
            .arg("info"),
        Duration::from_secs(20),
    );
    if ended.code() == Some(77) {
        println!("skipped: this machine does not let us filter system calls");
        return;
    }
    ended.expect_success();
    let lines: Vec<&str> = ended
        .out
        .lines()
        .filter(|line| line.contains("cross-memory attach"))
        .collect();
    assert_eq!(lines.len(), 1, "one line about it: {}", ended.out);
    assert!(
        lines[0].contains("two copies") && lines[0].contains("not permitted"),
        "it says what was switched off, and why: {}",
        lines[0]
    );
    let mut command = tool("mpiexec");
    command.args(["-n", "2"]).arg(&deny).arg(&program);
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
    assert!(
        ended.out.contains("point-to-point: ok with 2 ranks"),
        "{ended:?}"
    );
    // One of the two ranks may copy, the other may not.
    let mut command = tool("mpiexec");
    command.args(["-n", "1"]).arg(&deny).arg(&program);
    command.args([":", "-n", "1"]).arg(&program);
    let ended = run(&mut command, Duration::from_secs(60));
    ended.expect_success();
}

/// A whole job whose launcher and ranks are refused one system call at a time: there is another way, or they
/// do without it.
#[test]
fn refused_system_calls_one_by_one() {
    let (deny, program, ends) = (
        build("tests/programs/deny.c", &[]),
        build("tests/programs/point_to_point.c", &["-pthread"]),
        build("tests/programs/job_ends.c", &[]),
    );
    let under = |call: &str, arguments: &[&str]| {
        let mpiexec = weft_tests::installation().join("bin/mpiexec");
        let mut command = Command::new(&deny);
        command.arg(format!("-{call}")).arg(mpiexec).args(arguments);
        run(&mut command, Duration::from_secs(60))
    };
    for call in [
        "memfd_create",
        "pidfd_open",
        "signalfd",
        "prctl",
        "sched_setaffinity",
        "membarrier",
        "io_uring",
    ] {
        let ended = under(call, &["-n", "2", &program.display().to_string()]);
        if ended.code() == Some(77) {
            println!("skipped: this machine does not let us filter system calls");
            return;
        }
        ended.expect_success();
        assert!(
            ended.out.contains("point-to-point: ok with 2 ranks"),
            "{call}: {ended:?}"
        );
        // A rank that dies ends the others, and is named.
        let ended = under(call, &["-n", "3", &ends.display().to_string(), "kill"]);
        assert_ne!(ended.code(), Some(0), "{call}: {ended:?}");
        assert!(ended.err.contains("rank"), "{call}: {ended:?}");
    }
    // All of the calls at once.
    let mut command = Command::new(&deny);
    for call in ["memfd_create", "pidfd_open", "signalfd", "prctl"] {
        command.arg(format!("-{call}"));
    }
    command.arg(weft_tests::installation().join("bin/mpiexec"));
    command.args(["-n", "2"]).arg(&program);
    run(&mut command, Duration::from_secs(60)).expect_success();
}

/// The cores that each rank may run on, according to the kernel, by rank.
fn allowed_cores(mpiexec: &mut Command) -> Vec<String> {
    let ended = run(mpiexec, Duration::from_secs(30));
    ended.expect_success();
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let list = |line: &str| line.rsplit('\t').next().unwrap_or("").to_owned();
    lines.into_iter().map(list).collect()
}

/// Ranks are bound to the cores that were asked for, and to no others; they do not get cores that their
/// launcher may not use.
#[test]
fn ranks_run_on_the_cores_that_were_named() {
    let ours = weft_sys::cores::allowed().expect("readable");
    let all = weft_launch::binding::ranges(&ours);
    let look = [
        "--tag-output",
        "grep",
        "Cpus_allowed_list",
        "/proc/self/status",
    ];
    let on = |options: &[&str]| {
        let mut command = tool("mpiexec");
        allowed_cores(command.args(["-n", "2"]).args(options).args(look))
    };
    // Two jobs at the same time may each use the whole machine: by default no rank is bound.
    assert_eq!(on(&[]), [all.clone(), all.clone()]);
    assert_eq!(on(&["--bind-to", "none"]), [all.clone(), all.clone()]);
    let (first, last) = (ours[0], *ours.last().expect("one at least"));
    let set = first.to_string();
    assert_eq!(on(&["--cpu-set", &set]), [set.clone(), set.clone()]);
    let user = format!("user:{last},{first}");
    assert_eq!(on(&["-bind-to", &user]), [last.to_string(), set.clone()]);
    let each = on(&["--bind-to", "hwthread"]);
    assert_eq!(each[0] == each[1], ours.len() == 1, "{each:?}");
    assert!(
        each.iter().all(|list| list.parse::<usize>().is_ok()),
        "{each:?}"
    );
    // Within a control group, or a scheduler's binding: as if the other cores did not exist.
    let narrow = std::thread::spawn(move || {
        weft_sys::cores::pin(&[last]).expect("one of ours");
        let mut command = tool("mpiexec");
        command
            .args(["-n", "2", "--bind-to", "hwthread"])
            .args(look);
        allowed_cores(&mut command)
    });
    let narrow = narrow.join().expect("no panic");
    assert_eq!(narrow, [last.to_string(), last.to_string()]);
    let mut nowhere = tool("mpiexec");
    nowhere.args(["-n", "2", "--cpu-set", "4095", "true"]);
    let ended = run(&mut nowhere, Duration::from_secs(30));
    assert_ne!(ended.code(), Some(0));
    assert!(
        ended.err.contains("none of the cores 4095 (--cpu-set)"),
        "{ended:?}"
    );
}

#[test]
fn it_is_said_where_ranks_run() {
    let mut command = tool("mpiexec");
    command.args([
        "-n",
        "2",
        "--report-bindings",
        "--bind-to",
        "hwthread",
        "true",
    ]);
    let ended = run(&mut command, Duration::from_secs(30));
    ended.expect_success();
    for rank in 0..2 {
        let line = format!("weft: rank {rank} is bound to ");
        assert!(ended.err.contains(&line), "{ended:?}");
    }
}

/// A job behind a wrapper; `None` if the wrapper needs a user namespace and this machine does not allow that.
fn within(script: &str, arguments: &[&str], namespaces: bool) -> Option<weft_tests::Ended> {
    let allowed = || Command::new("unshare").args(["-Urm", "true"]).status();
    if namespaces && !allowed().is_ok_and(|status| status.success()) {
        println!("skipped: this machine does not let us make user namespaces");
        return None;
    }
    let mut command = match namespaces {
        true => Command::new("unshare"),
        false => Command::new("sh"),
    };
    if namespaces {
        command.args(["-Urm", "sh"]);
    }
    let mpiexec = weft_tests::installation().join("bin/mpiexec");
    command.arg("-c").arg(script).arg(mpiexec).args(arguments);
    Some(run(&mut command, Duration::from_secs(60)))
}

/// A job works without folders, variables or limits that other launchers need.
#[test]
fn poor_environments() {
    let program = build("tests/programs/point_to_point.c", &["-pthread"]);
    let program = program.display().to_string();
    for (script, namespaces) in [
        ("mount -t tmpfs none /proc && exec \"$0\" \"$@\"", true),
        ("mount -t tmpfs -o ro none /tmp && exec \"$0\" \"$@\"", true),
        (
            "mount -t tmpfs -o size=4k none /tmp && { yes > /tmp/full; exec \"$0\" \"$@\"; } 2> /dev/null",
            true,
        ),
        (
            "mount -t tmpfs -o ro none /dev/shm && exec \"$0\" \"$@\"",
            true,
        ),
        (
            "mount --rbind / /mnt && mount -o remount,bind,ro /mnt && exec chroot /mnt \"$0\" \"$@\"",
            true,
        ),
        ("exec env -i \"$0\" \"$@\"", false),
        ("HOME=/nowhere exec \"$0\" \"$@\"", false),
        ("ulimit -n 64; exec \"$0\" \"$@\"", false),
        ("ulimit -l 0; exec \"$0\" \"$@\"", false),
        ("ulimit -c 0; ulimit -s 512; exec \"$0\" \"$@\"", false),
    ] {
        // Files below /tmp are hidden as well.
        if script.contains("/tmp") && program.starts_with("/tmp") {
            continue;
        }
        let Some(ended) = within(script, &["-n", "4", &program], namespaces) else {
            continue;
        };
        assert_eq!(ended.code(), Some(0), "{script}: {ended:?}");
        assert!(
            ended.out.contains("point-to-point: ok with 4 ranks"),
            "{script}: {ended:?}"
        );
    }
}

/// If it cannot work, the message says what to do.
#[test]
fn limits_that_are_too_low_are_named() {
    for (script, remedy) in [
        ("ulimit -n 20; exec \"$0\" \"$@\"", "ulimit -n"),
        ("ulimit -f 0; exec \"$0\" \"$@\"", "ulimit -f"),
        ("ulimit -v 500000; exec \"$0\" \"$@\"", "ulimit -v"),
    ] {
        let ended = within(script, &["-n", "4", "true"], false).expect("no namespace");
        assert_ne!(ended.code(), Some(0), "{script}: {ended:?}");
        assert!(ended.err.contains(remedy), "{script}: {ended:?}");
    }
    // A message cannot be written to a file that may not grow; that must not end the launcher by a signal.
    let folder = weft_tests::scratch("file-limit");
    let file = folder.join("said").display().to_string();
    let script = format!("ulimit -f 0; exec \"$0\" \"$@\" 2> {file}");
    let ended = within(&script, &["-n", "2", "true"], false).expect("no namespace");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
}
