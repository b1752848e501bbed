//! Dial: connecting to a listener on another host. All its addresses are tried at once; the first that answers, and whose
//! host proves the key, is used.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use weft_sys::poll::{self, Interest, PollFd};

use weft_secure::Key;

use super::handshake::LinkHandshake;
use super::link::{Link, LinkError, Streams};

/// How long it may take until one answers, and until it has proved the key.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A side that sends nothing for so long is gone, unless something else is agreed on.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// A port at which many strangers knock may close one that it has not heard: then again, after these.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];

/// A link to whoever listens at these addresses and knows the key.
///
/// # Errors
/// An attempt, and its result.
pub(crate) fn dial(key: &Key, addresses: &[SocketAddr]) -> Result<Link, String> {
    let end = Instant::now() + LIMIT;
    let mut pauses = PAUSES.iter();
    loop {
        let (answer, tried) = match once(key, addresses, end) {
            Ok(link) => return Ok(link),
            Err(tried) => tried,
        };
        match pauses.next().filter(|_| answer == Answer::Closed) {
            Some(pause) => _ = poll::wait(&mut [], Some(*pause)),
            None => return Err(tried),
        }
    }
}

/// How the best try has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Closed,
}

/// Tries each address once, until then at the latest.
fn once(key: &Key, addresses: &[SocketAddr], end: Instant) -> Result<Link, (Answer, String)> {
    let patience = |end: Instant| {
        let left = end.saturating_duration_since(Instant::now());
        left.min(PATIENCE)
    };
    let answered = Instant::now() + patience(end);
    let mut tried = Vec::new();
    let mut waiting = Vec::new();
    for address in addresses {
        match begin(*address) {
            Ok(socket) => waiting.push((*address, socket)),
            Err(error) => tried.push(told(*address, &std::io::Error::from(error))),
        }
    }
    let mut answer = Answer::None;
    while !waiting.is_empty() {
        let left = patience(answered);
        let mut waited: Vec<_> = waiting
            .iter()
            .map(|(_, socket)| PollFd::new(socket, Interest::Write))
            .collect();
        let found = poll::wait(&mut waited, Some(left)).unwrap_or(0);
        let Some(ready) = waited
            .iter()
            .position(PollFd::is_ready)
            .filter(|_| found > 0)
        else {
            let silent = waiting
                .iter()
                .map(|(address, _)| format!("{address}: no answer in {} s", PATIENCE.as_secs()));
            tried.extend(silent);
            break;
        };
        drop(waited);
        let (address, socket) = waiting.swap_remove(ready);
        if let Err(error) = sockopt::socket_error(&socket).and_then(|outcome| outcome) {
            tried.push(told(address, &std::io::Error::from(error)));
            continue;
        }
        match prove(socket, key, patience(end)) {
            Ok(link) => return Ok(link),
            Err(error) => {
                if matches!(error, LinkError::Closed) {
                    answer = Answer::Closed;
                }
                tried.push(told(address, &error));
            }
        }
    }
    Err((answer, tried.join("; ")))
}

fn told(address: SocketAddr, error: &dyn std::fmt::Display) -> String {
    format!("{address}: {error}")
}

fn begin(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Small messages, each of which somebody waits for.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn prove(socket: OwnedFd, key: &Key, patience: Duration) -> Result<Link, LinkError> {
    LinkHandshake::begin(key, Streams::one(socket)?, patience)?.wait(SILENCE)
}
