//! A process tied to a pipe ends when the other end closes, also in namespaces of its own.

use std::io::{Read, Write};
use std::os::fd::RawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use weft_sys::{descriptor, lifeline, poll, process};

const NUMBER: &str = "WEFT_TEST_LIFELINE";

/// Not a test by itself: the role that the others start.
#[test]
#[ignore = "a role in the other tests"]
fn tied() {
    let number: RawFd = std::env::var(NUMBER)
        .expect("given")
        .parse()
        .expect("number");
    let reading = descriptor::inherited(number).expect("left open for us");
    lifeline::tie(&reading).expect("a pipe");
    println!("tied");
    std::io::stdout().flush().expect("open");
    std::thread::sleep(Duration::from_secs(60));
    println!("still here");
}

/// Starts the role above, by way of `prefix`, and closes the pipe; true if it ended.
fn ends_with_the_pipe(prefix: &[&str]) -> bool {
    let (reading, writing) = descriptor::pipe().expect("descriptors are left");
    let us = std::env::current_exe().expect("we are a program");
    let mut command = match prefix.first() {
        Some(first) => Command::new(first),
        None => Command::new(&us),
    };
    if !prefix.is_empty() {
        command.args(&prefix[1..]).arg(&us);
    }
    let number = descriptor::hand_over(&mut command, reading);
    let mut child = command
        .args(["--exact", "tied", "--nocapture", "--include-ignored"])
        .env(NUMBER, number.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("we can be started again");
    drop(command);
    let mut said = child.stdout.take().expect("piped");
    let mut heard = String::new();
    while !heard.contains("tied\n") {
        let mut some = [0; 512];
        match said.read(&mut some).expect("readable") {
            0 => break,
            count => heard.push_str(&String::from_utf8_lossy(&some[..count])),
        }
    }
    drop(writing);
    // Its standard output closes when the last process behind it has ended.
    let mut entries = [poll::PollFd::new(&said, poll::Interest::Read)];
    let ready = poll::wait(&mut entries, Some(Duration::from_secs(20))).expect("polls");
    let ended =
        heard.contains("tied\n") && ready == 1 && entries[0].ended() && !heard.contains("still");
    let handle = process::ProcessHandle::open(child.id()).expect("not waited for yet");
    if !ended {
        let _ = handle.signal(process::SIGKILL);
    }
    let _ = child.wait();
    ended
}

#[test]
fn a_closed_pipe_ends_the_process() {
    assert!(ends_with_the_pipe(&[]));
}

#[test]
fn also_behind_a_shell_and_in_namespaces() {
    assert!(ends_with_the_pipe(&["sh", "-c", "\"$0\" \"$@\"; :"]));
    let namespaces = ["unshare", "--user", "--map-root-user", "--pid", "--fork"];
    let possible = Command::new(namespaces[0])
        .args(&namespaces[1..])
        .arg("true")
        .status();
    if possible.is_ok_and(|status| status.success()) {
        assert!(ends_with_the_pipe(&namespaces), "as its first process");
        let mut deeper = namespaces.to_vec();
        deeper.extend(["sh", "-c", "\"$0\" \"$@\"; :"]);
        assert!(ends_with_the_pipe(&deeper), "as another one");
    } else {
        eprintln!("namespaces cannot be made here: that half was not tested");
    }
}

#[test]
fn a_pipe_closed_before_is_an_error() {
    let (reading, writing) = descriptor::pipe().expect("descriptors are left");
    drop(writing);
    // This must fail or end us, not pass silently. The order of the calls makes it an error here: the kernel
    // signals only closings to come, and this one is past.
    assert!(lifeline::tie(&reading).is_err());
}
