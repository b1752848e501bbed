//! Jobs on a test network: started on its first host, joined from any.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use crate::harness::{Job, Running, default_signals, weft};
use crate::network::Network;

/// `weft run` on the first host.
pub fn job(network: &Network, words: &[&str]) -> Job {
    let mut command = network.on(0, &weft().to_string_lossy());
    command.arg("run").args(words);
    Job::of(command)
}

/// The output of each of eight ranks when it has heard from all others, on that many hosts.
pub fn expected(hosts: usize) -> Vec<String> {
    let each = 8 / hosts;
    let lines = (0..8).map(|rank| {
        let local = rank % each;
        format!("rank {rank} heard all, is {local} of {each} on one of {hosts}")
    });
    lines.collect()
}

/// `weft join` on a host.
pub fn join(network: &Network, host: usize, words: &[&str]) -> Child {
    let mut command = network.on(host, &weft().to_string_lossy());
    command
        .arg("join")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    default_signals(&mut command);
    command.spawn().expect("starts")
}

/// Reads the messages of the head until it waits; returns the token.
pub fn token(running: &mut Running) -> String {
    let line = running.said();
    assert!(line.starts_with("weft: waiting for "), "{line}");
    let mut words = line.split_whitespace();
    words.find(|word| *word == "--token");
    words.next().expect("a token").to_owned()
}

/// How it ended: its code, its output, its errors.
pub fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("our child");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}
