//! Two jobs that are connected by the name of a port: two `mpiexec` that do not know each other.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};
use std::time::Duration;

#[path = "../launch/network.rs"]
mod network;
#[path = "two_jobs/on_hosts.rs"]
mod on_hosts;

use weft_tests::{Ended, build, processes_of, run, scratch, tool};

const LIMIT: Duration = Duration::from_secs(90);

fn program() -> PathBuf {
    build("tests/programs/two_jobs.c", &["-pthread"])
}

/// A file for the name of a port, not yet written.
fn meeting_place() -> String {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut next = NEXT.lock().expect("nobody panics with it");
        *next += 1;
        *next
    };
    let file = scratch("two_jobs").join(format!("{}-{number}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file.to_string_lossy().into_owned()
}

fn job(options: &[&str], ranks: u32, words: &[&str]) -> Command {
    let mut command = tool("mpiexec");
    command.args(options).arg("-n").arg(ranks.to_string());
    command.arg(program()).args(words);
    command
}

fn beside(mut command: Command) -> JoinHandle<Ended> {
    thread::spawn(move || run(&mut command, LIMIT))
}

/// Both jobs end well, each with its last line of output.
fn both_pass(serve: Command, ask: Command, ranks: (u32, u32)) {
    let serve = beside(serve);
    let ask = beside(ask);
    for (job, ranks) in [(serve, ranks.0), (ask, ranks.1)] {
        let ended = job.join().expect("it has run");
        ended.expect_success();
        assert!(
            ended.out.contains(&format!("ok with {ranks} rank")),
            "{ended:?}"
        );
        assert_eq!(ended.err, "", "nothing is complained of");
    }
}

#[test]
fn two_jobs_use_what_they_have_in_common() {
    for (serving, asking) in [(1, 1), (3, 2), (2, 4)] {
        let file = meeting_place();
        let serve = job(&[], serving, &["serve", &file, "1"]);
        let ask = job(&[], asking, &["ask", &file, "1"]);
        both_pass(serve, ask, (serving, asking));
    }
}

/// A connection releases all its resources when it ends, at once: a process can have 255 connections at a
/// time.
#[test]
fn two_jobs_connect_many_times() {
    for (rounds, serving, asking) in [("40", 2, 1), ("300", 1, 1)] {
        let file = meeting_place();
        let serve = job(&[], serving, &["serve", &file, rounds]);
        let ask = job(&[], asking, &["ask", &file, rounds]);
        both_pass(serve, ask, (serving, asking));
    }
}

/// A partner that does not answer for long is not considered lost, and no deadlock is reported for a rank
/// that waits for it.
#[test]
fn a_partner_may_compute_for_long() {
    let file = meeting_place();
    let serve = job(&[], 2, &["serve", &file, "1"]);
    let late = job(&[], 2, &["late", &file, "1"]);
    both_pass(serve, late, (2, 2));
}

#[test]
fn a_deadlock_is_proven_again_when_the_connection_is_gone() {
    let file = meeting_place();
    let stuck = beside(job(&[], 2, &["stuck", &file]));
    let ask = beside(job(&[], 1, &["ask", &file, "1"]));
    ask.join().expect("it has run").expect_success();
    let ended = stuck.join().expect("it has run");
    assert!(ended.err.contains("deadlock"), "{ended:?}");
}

#[test]
fn what_is_under_way_goes_on_when_its_communicator_is_freed() {
    let file = meeting_place();
    let one = job(&[], 1, &["free", &file]);
    let other = job(&[], 1, &["freed", &file]);
    both_pass(one, other, (1, 1));
}

#[test]
fn also_where_one_of_them_talks_by_tcp() {
    for (serving, asking) in [
        (&["--fabric", "tcp"][..], &[][..]),
        (&[], &["--fabric", "tcp"]),
    ] {
        let file = meeting_place();
        let serve = job(serving, 2, &["serve", &file, "2"]);
        let ask = job(asking, 3, &["ask", &file, "2"]);
        both_pass(serve, ask, (2, 3));
    }
}

/// The root waits to be accepted when another member of its group dies; nobody accepts the call that it gives up.
pub(crate) fn a_loss_while_connecting_is_heard_of(on: impl Fn(usize, Command) -> Command) {
    let program = build("tests/programs/loss_connecting.c", &[]);
    let file = meeting_place();
    let part = |host: usize, ranks: &str, what: &str| {
        let mut command = tool("mpiexec");
        command.args(["--timeout=60", "-n", ranks]);
        command.arg(&program).args([what, &file]);
        beside(on(host, command))
    };
    let (opens, calls) = (part(0, "1", "opens"), part(1, "2", "calls"));
    for (job, said) in [(opens, "accepted\n"), (calls, "connected\n")] {
        let ended = job.join().expect("it has run");
        ended.expect_success();
        assert_eq!(ended.out, said, "{ended:?}");
    }
}

#[test]
fn the_root_of_who_connects_hears_of_a_loss_in_its_group() {
    a_loss_while_connecting_is_heard_of(|_, command| command);
}

/// It was not started by a launcher.
#[test]
fn a_program_alone_connects_to_a_job() {
    let file = meeting_place();
    let serve = job(&[], 3, &["serve", &file, "2"]);
    let mut ask = Command::new(program());
    ask.args(["ask", &file, "2"]);
    both_pass(serve, ask, (3, 1));
}

#[test]
fn processes_of_two_jobs_join_by_a_socket() {
    let file = meeting_place();
    let serve = job(&[], 1, &["join-serve", &file]);
    let ask = job(&[], 1, &["join-ask", &file]);
    both_pass(serve, ask, (1, 1));
}

/// Starts a job that connects, and kills all of it by its launcher when it has.
fn killed_when_connected(file: &str) {
    use std::io::Read;
    let mut stay = job(&[], 2, &["stay", file])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut heard = [0; 9];
    let said = stay.stdout.as_mut().expect("piped").read_exact(&mut heard);
    said.expect("it connects");
    stay.kill().expect("our child");
    stay.wait().expect("our child");
}

#[test]
fn a_job_goes_on_when_the_other_is_killed() {
    let file = meeting_place();
    let mourn = beside(job(&[], 2, &["mourn", &file]));
    killed_when_connected(&file);
    let ended = mourn.join().expect("it has run");
    ended.expect_success();
    assert!(
        ended.out.contains("a process of another job is lost"),
        "{ended:?}"
    );
    assert!(ended.out.contains("mourn: ok with 2 ranks"), "{ended:?}");
}

#[test]
fn a_job_is_told_when_the_other_ends_without_disconnecting() {
    let file = meeting_place();
    let reap = beside(job(&[], 2, &["reap", &file]));
    let leave = beside(job(&[], 1, &["leave", &file]));
    leave.join().expect("it has run").expect_success();
    let ended = reap.join().expect("it has run");
    ended.expect_success();
    assert!(
        ended.out.contains("a process of another job is lost"),
        "{ended:?}"
    );
}

#[test]
fn a_port_that_cannot_be_reached_is_an_error_with_a_reason() {
    let user = weft_sys::process::user();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("there");
    let (host, stranger) = (host.trim(), user + 1);
    let cases = [
        (
            format!("weft:0123456789abcdef:0:1:{user}@{host}"),
            "nobody is there",
        ),
        (
            format!("weft:0123456789abcdef:0:1:{stranger}@{host}"),
            "a job of user",
        ),
        (
            format!("weft:0123456789abcdef:0:1:{user}@elsewhere"),
            "none that other hosts can come to",
        ),
        ("weft:0123456789abcdef:0:1".to_owned(), "another release"),
        ("nothing".to_owned(), "no name of a port"),
    ];
    for (name, reason) in cases {
        let ended = run(&mut job(&[], 2, &["wrong", &name]), LIMIT);
        ended.expect_success();
        assert!(ended.out.contains(reason), "{name}: {ended:?}");
    }
}

/// Whatever happened to the jobs, no process of them is left.
#[test]
fn nothing_is_left_of_either() {
    let copy = |name: &str| {
        let own = scratch("two_jobs").join(format!("{name}-{}", std::process::id()));
        std::fs::copy(program(), &own).expect("can be written");
        own
    };
    let (mourner, stayer) = (copy("mourner"), copy("stayer"));
    let file = meeting_place();
    let start = |program: &Path, what: &str| {
        let mut command = tool("mpiexec");
        command.args(["-n", "2"]).arg(program).args([what, &file]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let mut mourn = start(&mourner, "mourn").spawn().expect("starts");
    let mut stay = start(&stayer, "stay").spawn().expect("starts");
    {
        use std::io::Read;
        let mut heard = [0; 9];
        let said = stay.stdout.as_mut().expect("piped").read_exact(&mut heard);
        said.expect("it connects");
    }
    mourn.kill().expect("our child");
    mourn.wait().expect("our child");
    // The other job gets a fatal error, and ends.
    assert_ne!(stay.wait().expect("our child").code(), Some(0));
    for program in [mourner, stayer] {
        assert_eq!(processes_of(&program), [0; 0], "{}", program.display());
        std::fs::remove_file(program).expect("ours");
    }
}

/// Windows, files and threads on a communicator of all processes of both jobs.
fn they_share(what: &str, at: impl Fn(usize, &Command) -> Command) {
    let program = build("tests/programs/two_jobs_share.c", &["-pthread"]);
    for (accepting, connecting) in [(1, 1), (2, 3)] {
        let file = meeting_place();
        let job = |side: usize, ranks: u32| {
            let role = ["accept", "connect"][side];
            let mut command = tool("mpiexec");
            command.args(["-n", &ranks.to_string()]).arg(&program);
            at(side, command.args([role, &file, what]))
        };
        both_pass(
            job(0, accepting),
            job(1, connecting),
            (accepting, connecting),
        );
    }
}

/// The same command, here.
fn here(_: usize, command: &Command) -> Command {
    let mut same = Command::new(command.get_program());
    same.args(command.get_args());
    same
}

#[test]
fn two_jobs_reach_each_others_windows() {
    they_share("windows", here);
}

#[test]
fn two_jobs_use_a_file_together() {
    they_share("files", here);
}

#[test]
fn threads_of_two_jobs_use_what_they_have_in_common() {
    they_share("threads", here);
}
