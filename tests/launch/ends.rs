//! Ends: whichever process is killed or asked to end, all of the job ends, and nothing else does.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::{
    Job, OWN_NAMESPACES, Running, namespaces, new_names_in_shared_memory, rank, signal, weft,
};

/// Ranks with children that have moved into sessions of their own.
const FLEEING: &str = "setsid sleep 600 & setsid sh -c 'sleep 601 & sleep 602' & sleep 603";

fn fleeing() -> Running {
    let running = Job::new(["-n", "2", "sh", "-c", FLEEING]).start();
    running.until_names("sleep", 8);
    running
}

#[test]
fn nothing_is_left_of_a_job_that_ends_well() {
    let script = "setsid sleep 600 & exit 0";
    let ended = Job::new(["-n", "2", "sh", "-c", script]).run();
    assert_eq!((ended.code(), &*ended.error), (Some(0), ""));
}

#[test]
fn a_killed_rank_takes_all_with_it() {
    let mut running = fleeing();
    signal(running.ranks()[1], libc::SIGKILL);
    let ended = running.end();
    assert_eq!(ended.code(), Some(137));
    assert!(
        ended
            .last()
            .contains("rank 1 failed first: killed by signal 9"),
        "{ended:?}"
    );
    assert_eq!(running.left(), Vec::<String>::new());
}

#[test]
fn a_killed_launcher_takes_all_with_it() {
    let mut running = fleeing();
    signal(running.frontend(), libc::SIGKILL);
    assert!(running.until_nothing().is_some(), "{:?}", running.left());
}

#[test]
fn a_killed_supervisor_takes_all_with_it() {
    let mut running = fleeing();
    signal(running.supervisor().expect("there"), libc::SIGKILL);
    let ended = running.end();
    assert_eq!(ended.code(), Some(137));
    assert!(
        ended.last().contains("supervisor") && ended.last().contains("SIGKILL"),
        "{ended:?}"
    );
    assert_eq!(running.left(), Vec::<String>::new());
}

#[test]
fn a_killed_process_group_takes_all_with_it() {
    let mut running = fleeing();
    // The job was started in a group of its own, that of the frontend.
    weft_sys::process::signal_group(running.frontend(), libc::SIGKILL).expect("there");
    assert!(running.until_nothing().is_some(), "{:?}", running.left());
}

/// No process of the launcher is left; the kernel ends the ranks.
#[test]
fn if_both_are_killed_the_ranks_end_by_themselves() {
    let rank = rank();
    let behind_a_shell = format!("{rank} wait; :");
    let mut cases: Vec<Vec<&str>> = vec![
        vec!["sleep", "600"],
        vec![&rank, "spin"],
        vec!["sh", "-c", &behind_a_shell],
    ];
    if namespaces() {
        cases.push([&OWN_NAMESPACES[..], &[&rank, "wait"]].concat());
        cases.push([&OWN_NAMESPACES[..], &["sh", "-c", &behind_a_shell]].concat());
    }
    for case in cases {
        let mut running = Job::new(["-n", "2"].iter().chain(&case)).start();
        if case.concat().contains("rank") {
            let mut heard = String::new();
            while heard.matches("ing\n").count() < 2 {
                heard += &running.hear("ing\n");
            }
        } else {
            running.until_names("sleep", 2);
        }
        let (frontend, supervisor) = (running.frontend(), running.supervisor().expect("there"));
        signal(supervisor, libc::SIGKILL);
        signal(frontend, libc::SIGKILL);
        assert!(
            running.until_nothing().is_some(),
            "{case:?}: {:?}",
            running.left()
        );
    }
}

#[test]
fn signals_end_the_job_with_their_code() {
    for (number, name) in [
        (libc::SIGINT, "SIGINT"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGHUP, "SIGHUP"),
    ] {
        let mut running = fleeing();
        signal(running.frontend(), number);
        let ended = running.end();
        assert_eq!(ended.code(), Some(128 + number), "{ended:?}");
        assert!(ended.last().contains(name), "{ended:?}");
        assert_eq!(running.left(), Vec::<String>::new());
    }
}

#[test]
fn ranks_are_told_first_and_may_tidy_up() {
    let script =
        "trap 'echo tidy $WEFT_RANK; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Job::new(["-n", "2", "sh", "-c", script]).start();
    both_are_ready(&mut running);
    signal(running.frontend(), libc::SIGTERM);
    let ended = running.end();
    assert_eq!(ended.sorted(), ["tidy 0", "tidy 1"]);
    assert_eq!(ended.code(), Some(143));
}

#[test]
fn ranks_that_ignore_signals_are_ended_all_the_same() {
    let mut running = Job::new([
        "-n",
        "2",
        "sh",
        "-c",
        "trap '' INT TERM; echo ready; while :; do sleep 600; done",
    ])
    .start();
    running.until_names("sleep", 2);
    signal(running.frontend(), libc::SIGINT);
    assert_eq!(running.end().code(), Some(130));
    assert_eq!(running.left(), Vec::<String>::new());
}

/// A host that is reached only after the job was asked to end starts nothing.
#[test]
fn a_signal_while_hosts_are_being_reached_starts_no_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let shown = |name: &str| file(name).to_string_lossy().into_owned();
    let (called, go, ran) = (shown("called"), shown("go"), shown("ran"));
    let text = format!(
        "#!/bin/sh\nshift\ntouch {called}\nuntil [ -e {go} ]; do sleep 0.02; done\nexec \"$@\"\n"
    );
    fs::write(file("reach"), text).expect("writes");
    fs::set_permissions(file("reach"), PermissionsExt::from_mode(0o755)).expect("ours");
    let program = format!("touch {ran}; sleep 600");
    let reach = ["--launch-command", &shown("reach"), "--hosts", "one:1"];
    let mut running = Job::new([&reach[..], &["sh", "-c", &program]].concat()).start();
    running.until("the host is called", |_| file("called").exists());
    signal(running.frontend(), libc::SIGTERM);
    // Time for the signal to be handled; with less time the test would only pass more easily.
    thread::sleep(Duration::from_millis(300));
    fs::write(&go, "").expect("writes");
    let ended = running.end();
    assert_eq!(ended.code(), Some(143), "{ended:?}");
    assert!(!file("ran").exists(), "a rank was started: {ended:?}");
    assert_eq!(running.left(), Vec::<String>::new());
}

/// A folder, the writing end of a pipe in it, and a script that a rank runs until a line comes from that. It starts no other process:
/// a shell whose child is stopped before it has become another program is not seen as stopped.
fn until_go() -> (tempfile::TempDir, fs::File, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let made = Command::new("mkfifo").arg(&go).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let script = format!("echo ready; read line < {}; echo done", go.display());
    // Also for reading, or the opening would wait for a rank.
    let pipe = fs::File::options().read(true).write(true).open(go);
    (folder, pipe.expect("it was made"), script)
}

/// Waits until both of two ranks are at that script.
fn both_are_ready(running: &mut Running) {
    let mut heard = running.hear("ready");
    while heard.matches("ready").count() < 2 {
        heard += &running.hear("ready");
    }
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let (_folder, mut go, script) = until_go();
    let line = format!(
        "trap '' HUP; exec {} run -n 2 sh -c '{script}'",
        weft().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]);
    let mut running = Job::of(command).start();
    both_are_ready(&mut running);
    signal(running.frontend(), libc::SIGHUP);
    go.write_all(b"\n\n").expect("writes");
    let ended = running.end();
    assert_eq!((ended.code(), &*ended.out), (Some(0), "done\ndone\n"));
}

#[test]
fn a_user_signal_reaches_the_ranks() {
    let script = "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let mut running = Job::new(["-n", "2", "sh", "-c", script]).start();
    both_are_ready(&mut running);
    signal(running.frontend(), libc::SIGUSR1);
    let ended = running.end();
    assert_eq!((ended.code(), &*ended.out), (Some(0), "got\ngot\n"));
}

#[test]
fn a_stopped_job_stands_still_and_goes_on() {
    let (_folder, mut go, script) = until_go();
    let mut running = Job::new(["-n", "2", "sh", "-c", &script]).start();
    both_are_ready(&mut running);
    let stopped = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    signal(running.frontend(), libc::SIGTSTP);
    running.until("a stop", |job| {
        stopped(job.frontend()) && job.ranks().into_iter().all(stopped)
    });
    assert_eq!(running.ranks().len(), 2);
    go.write_all(b"\n\n").expect("writes");
    signal(running.frontend(), libc::SIGCONT);
    let ended = running.end();
    assert_eq!((ended.code(), &*ended.error), (Some(0), ""));
}

/// A shell that became the launcher may have had children before: they do not belong to the job.
#[test]
fn only_what_belongs_to_the_job_is_ended() {
    let line = format!(
        "sleep 604 >/dev/null 2>&1 & exec {} run -n 2 sh -c 'sleep 605 & exit 3'",
        weft().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]);
    let mut running = Job::of(command).start();
    let ended = running.end();
    assert_eq!(ended.code(), Some(3), "{ended:?}");
    let left = running.members();
    assert_eq!(
        left.len(),
        1,
        "the earlier sleep lives, the later ones do not: {left:?}"
    );
    let words = fs::read(format!("/proc/{}/cmdline", left[0].id)).expect("it lives");
    assert_eq!(words, b"sleep\x00604\0");
    // The same when the launcher is killed.
    let line = line.replace("exit 3", "sleep 606");
    for supervisor in [false, true] {
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdout(Stdio::null());
        let mut running = Job::of(command).start();
        running.until_names("sleep", 5);
        let victim = if supervisor {
            running.supervisor().expect("there")
        } else {
            running.frontend()
        };
        signal(victim, libc::SIGKILL);
        running.until("one sleep only", |job| {
            job.members().iter().all(|member| member.name == "sleep") && job.members().len() == 1
        });
        let ended = running.end();
        assert_eq!(
            ended.status.signal().or(ended.code()),
            Some(if supervisor { 137 } else { 9 })
        );
    }
}

/// The descriptors of all processes of a job: no network socket, no named file.
#[test]
fn a_local_job_opens_no_port_and_makes_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = new_names_in_shared_memory(&[]);
    let mut running = Job::new(["-n", "4", &rank(), "wait"])
        .variable("TMPDIR", &folder.path().to_string_lossy())
        .start();
    running.until("4 ranks", |job| job.ranks().len() == 4);
    running.hear("waiting");
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"] {
        let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        ports.extend(
            text.lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned)),
        );
    }
    let mut sockets = 0;
    for member in running.members() {
        for entry in fs::read_dir(format!("/proc/{}/fd", member.id))
            .expect("ours")
            .flatten()
        {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            let target = target.to_string_lossy().into_owned();
            if let Some(inode) = target
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'))
            {
                sockets += 1;
                assert!(
                    !ports.iter().any(|port| port == inode),
                    "{member:?} has a port"
                );
            }
            assert!(
                !target.starts_with("/dev/shm/")
                    && !target.contains(&*folder.path().to_string_lossy()),
                "{target}"
            );
        }
    }
    assert!(sockets >= 8, "the control sockets are there: {sockets}");
    signal(running.frontend(), libc::SIGKILL);
    assert!(running.until_nothing().is_some(), "{:?}", running.left());
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    let left = new_names_in_shared_memory(&before);
    assert!(left.is_empty(), "{left:?}");
}
