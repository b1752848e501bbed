//! Intruders: callers that send nothing, send it slowly, send too much or never read: meanwhile components that die
//! are replaced, and proper requests are answered.

#![allow(
    clippy::disallowed_types,
    reason = "counters of a test; nothing for loom to explore"
)]

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_net::broker::address;
use weft_net::socket::Network;

use super::{TWO, Up, process, sent};

fn call(up: &Up) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(&up.name).expect("a short name"))
}

fn kill(process: u64) {
    let killed = Command::new("kill")
        .args(["-9", &process.to_string()])
        .status();
    assert!(killed.expect("there is kill").success());
}

/// One datagram there and back with a program that attaches.
fn attach_and_echo(up: &Up) {
    let network = Network::attach(&up.name, "guest").expect("the place is free");
    let socket = network.udp(7).expect("bound");
    let mut buffer = [0; 2048];
    let limit = Duration::from_secs(20);
    let (length, from) = socket.recv_within(&mut buffer, limit).expect("load comes");
    socket.send_to(&buffer[..length], from).expect("sent");
}

/// Descriptors that a process has open.
fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd"))
        .expect("it lives")
        .count()
}

#[test]
fn a_thousand_silent_callers_and_slow_ones_hold_nobody_up() {
    let up = Up::start("crowd", &format!("{TWO}[[client]]\nname = \"guest\"\n")).expect("up");
    up.until("both clients serve", |status| {
        sent(status, 0) > 10 && sent(status, 1) > 10
    });
    let over = Arc::new(AtomicBool::new(false));
    let connected = Arc::new(AtomicUsize::new(0));
    let name = address(&up.name).expect("a short name");
    let mut callers = Vec::new();
    {
        let (over, connected, name) = (over.clone(), connected.clone(), name.clone());
        callers.push(thread::spawn(move || {
            let mut silent = Vec::new();
            for _ in 0..1_000 {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                silent.extend(UnixStream::connect_addr(&name));
                connected.fetch_add(1, Ordering::Relaxed);
            }
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        }));
    }
    for _ in 0..4 {
        let (over, name) = (over.clone(), name.clone());
        callers.push(thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let Ok(mut stream) = UnixStream::connect_addr(&name) else {
                    continue;
                };
                for byte in br#"{"Attach":"guest"#.iter().cycle() {
                    if over.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }));
    }
    let end = Instant::now() + Duration::from_secs(30);
    while connected.load(Ordering::Relaxed) < 1_000 && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    for name in ["rx-copier-a", "tx-mux", "driver"] {
        let victim = process(&up.status(), name);
        kill(victim);
        let replaced = up.until(name, |status| {
            let now = process(status, name);
            now != 0 && now != victim
        });
        up.until(name, |status| {
            (0..2).all(|client| sent(status, client) > sent(&replaced, client) + 10)
        });
        attach_and_echo(&up);
        up.until("the place is free", |status| {
            status["clients"][2]["attached"] == false
        });
    }
    let reached = connected.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    assert_eq!(reached, 1_000);
    for caller in callers {
        caller.join().expect("it ends");
    }
}

#[test]
fn what_is_not_a_question_leaves_nothing_behind() {
    let up = Up::start("noise", TWO).expect("up");
    up.until("both clients serve", |status| {
        sent(status, 0) > 10 && sent(status, 1) > 10
    });
    let before = descriptors(up.child.id());
    let (bomb, _other) = UnixStream::pair().expect("descriptors are left");
    for round in 0..40 {
        let mut stream = call(&up).expect("it listens");
        match round % 5 {
            // More bytes than a line may have.
            0 => {
                let long = vec![b'['; 1 << 20];
                let _ = stream.write_all(&long);
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
            }
            // Descriptors that were not asked for.
            1 => {
                let many = vec![bomb.as_fd(); weft_sys::passing::MOST];
                for _ in 0..4 {
                    let _ = weft_sys::passing::send(&stream, b"\"Sta", &many);
                }
            }
            // A question whose answer is never read.
            2 => {
                let _ = stream.write_all(b"\"Status\"\n");
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            // Half a question.
            3 => {
                let _ = stream.write_all(b"\"Dow");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
            }
            _ => {
                let _ = stream.write_all(&[0xff, 0, b'\n', b'\n']);
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                assert!(answer.contains("not understood"), "{answer:?}");
            }
        }
    }
    up.until("all callers are forgotten", |_| {
        descriptors(up.child.id()) <= before
    });
}

#[test]
fn a_client_that_waits_in_a_system_that_is_gone_is_told() {
    let up = Up::start("gone", &format!("{TWO}[[client]]\nname = \"guest\"\n")).expect("up");
    let network = Network::attach(&up.name, "guest").expect("the place is free");
    let waiting = thread::spawn(move || {
        let socket = network.udp(7).expect("bound");
        let mut buffer = [0; 2048];
        loop {
            let limit = Duration::from_secs(60);
            if let Err(error) = socket.recv_within(&mut buffer, limit) {
                return error.kind();
            }
        }
    });
    drop(up);
    let told = waiting.join().expect("it ends");
    assert_eq!(told, std::io::ErrorKind::ConnectionAborted);
}

#[test]
fn nobody_need_read_what_is_printed() {
    let mut up = Up::start("unread", TWO).expect("up");
    // Its messages, that it is up and about processes that end, have no reader any more.
    drop((up.child.stdout.take(), up.child.stderr.take()));
    for name in ["rx-mux", "a", "rx-mux"] {
        let victim = process(&up.status(), name);
        kill(victim);
        up.until(name, |status| ![0, victim].contains(&process(status, name)));
    }
    for words in [&["status"][..], &["status", "--json"]] {
        let (reader, writer) = weft_sys::descriptor::pipe().expect("descriptors are left");
        drop(reader);
        let asked = Command::new(super::WEFT)
            .arg("net")
            .args(words)
            .arg(&up.name)
            .stdout(writer)
            .output()
            .expect("weft runs");
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(
            asked.status.success() && said.is_empty(),
            "{words:?}: {said}"
        );
    }
}
