//! The trial of deaths: each component killed in turn, as a process on a veth, while a client is under load: how long it did
//! not answer, and what was lost.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;

use weft_net::broker::{self, Answer, Broker, Question, Start, Status};
use weft_net::description::Description;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::{self, SIGKILL};
use weft_sys::{clock, netns::NetworkNamespace};

use crate::load;
use crate::payload::{self, FILL};

/// Nanoseconds between two datagrams: 59 Mbit/s.
const INTERVAL: u64 = 200_000;

/// How long a component is watched after it was killed.
const WATCH: Duration = Duration::from_millis(700);

const DESCRIPTION: &str = r#"
wire = { kind = "veth" }
[[client]]
name = "a"
work = { kind = "echo" }
tx-copier = true
[[client]]
name = "b"
work = { kind = "echo" }
"#;

pub(super) fn run(start: Start) -> io::Result<()> {
    let name = format!("trial-{}", process::id());
    let description =
        Description::parse(&format!("name = \"{name}\"{DESCRIPTION}")).map_err(io::Error::other)?;
    let mut system = Broker::up(description, start)?;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || system.serve());
        let tried = try_all(&name);
        let _ = broker::ask(&name, &Question::Down);
        let served = serving
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the broker panicked")));
        tried.and(served)
    })
}

fn status(name: &str) -> io::Result<Status> {
    match broker::ask(name, &Question::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(io::Error::other(format!("an unexpected answer: {other:?}"))),
    }
}

/// The results of a watch.
#[derive(Default)]
struct Seen {
    sent: u64,
    replies: u64,
    /// The longest time without a reply, in nanoseconds.
    gap: u64,
}

/// Datagrams to client A at a steady rate for `length`, then a pause until the last reply.
fn watch(socket: &UdpSocket, length: Duration, mut first: impl FnMut()) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut bytes = vec![FILL; payload::LARGEST];
    let mut buffer = [0; 2048];
    let began = clock::monotonic();
    let ends = began + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let kill_at = began + 100_000_000;
    let mut killed = false;
    let mut last = began;
    loop {
        let now = clock::monotonic();
        if now > ends + 100_000_000 {
            return Ok(seen);
        }
        if !killed && now > kill_at {
            killed = true;
            first();
        }
        let due = began + seen.sent * INTERVAL;
        if now < ends && now >= due {
            payload::write(&mut bytes, seen.sent, now);
            let _ = socket.send(&bytes);
            seen.sent += 1;
        }
        while socket.recv(&mut buffer).is_ok() {
            let now = clock::monotonic();
            seen.replies += 1;
            if last < ends {
                seen.gap = seen.gap.max(now - last);
            }
            last = now;
        }
        let next = began + seen.sent * INTERVAL;
        let left = next.saturating_sub(clock::monotonic());
        let left = if now < ends { left } else { 10_000_000 };
        let mut entries = [PollFd::new(socket, Interest::Read)];
        poll::wait(&mut entries, Some(Duration::from_nanos(left)))?;
    }
}

fn try_all(name: &str) -> io::Result<()> {
    let known = status(name)?;
    let path = known.namespace.clone().unwrap_or_default();
    let namespace = NetworkNamespace::adopt(std::fs::File::open(&path)?.into());
    let socket = namespace.run(|| UdpSocket::bind("0.0.0.0:0"))?;
    socket.connect(load::client_address(0))?;
    socket.set_nonblocking(true)?;
    super::say!("wire: {}", known.wire);
    super::say!("5 000 datagrams of 1472 bytes a second to client A, which echoes them.");
    super::say!("killed          longest gap ms   sent  replies  lost");
    let show = |what: &str, seen: &Seen| {
        super::say!(
            "{what:16} {:13.1} {:6} {:8} {:5}",
            seen.gap as f64 / 1e6,
            seen.sent,
            seen.replies,
            seen.sent.saturating_sub(seen.replies)
        );
    };
    // Until addresses are known and all components run: a lost ARP request is repeated after a second.
    for _ in 0..50 {
        if watch(&socket, Duration::from_millis(100), || ())?.replies > 400 {
            break;
        }
    }
    show("(none)", &watch(&socket, WATCH, || ())?);
    let mut worst = 0;
    for victim in &known.components {
        if victim.name == "b" || victim.name == "rx-copier-b" {
            continue;
        }
        let seen = watch(&socket, WATCH, || {
            let _ = process::signal(victim.process, SIGKILL);
        })?;
        worst = worst.max(seen.gap);
        show(&victim.name, &seen);
    }
    let now = status(name)?;
    let restarts: u32 = now.components.iter().map(|one| one.restarts).sum();
    super::say!(
        "{restarts} restarts; service was back within {:.1} ms, 100 ms are promised",
        worst as f64 / 1e6
    );
    Ok(())
}
