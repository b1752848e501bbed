//! Sockets: created, bound and tuned as connections need them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use weft_sys::socket;

/// Bytes that the kernel takes beyond what it can send at present.
const UNSENT: u32 = 2 << 20;

/// A path with a shorter round trip is short: [`NEAR`] bytes in that time are 40 Gbit/s.
const SHORT: Duration = Duration::from_micros(200);

/// Bytes under way on a short path. The kernel doubles this, for its own needs.
const NEAR: usize = 512 << 10;

/// A control of congestion that each kernel has, and each user may choose.
const SIMPLEST: &str = "reno";

/// Listens at an address, on a port that the system chooses. Accepted connections inherit their settings from
/// the listener, which saves eight system calls for each connection of an intruder.
pub(crate) fn listen(
    address: IpAddr,
    patience: Duration,
) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let socket = stream(&address)?;
    prepare(&socket, patience);
    rustix::net::bind(&socket, &SocketAddr::new(address, 0))?;
    rustix::net::listen(&socket, 1024)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, bound))
}

pub(crate) fn stream(address: &IpAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Sets what a connection needs: small messages are sent at once, and a side that only receives notices a
/// dead host, too.
pub(crate) fn prepare(socket: &OwnedFd, patience: Duration) {
    // A refusal of the kernel here costs speed or patience, not correctness.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = socket::limit_unsent(socket, UNSENT);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let seconds = patience.as_secs().clamp(2, 600);
    let interval = (seconds / 5).max(1);
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(interval));
    let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval));
    let _ = sockopt::set_tcp_keepcnt(socket, 5);
    let limit = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    let _ = sockopt::set_tcp_user_timeout(socket, limit.max(1000));
}

/// On a short path, what is under way stays small enough for the cache of a core: the sender's copy into the
/// kernel and the receiver's copy out of it then touch memory in the cache. On a long one the kernel finds out how
/// much must be under way.
///
/// Within a host nobody else uses the path: the simplest control of congestion is enough there. Others cost each message more, and
/// those that pace a stream have it wait for a timer.
pub(crate) fn fit(socket: &OwnedFd) {
    // A refusal of the kernel here costs speed, not correctness.
    if is_within_host(socket) {
        let _ = sockopt::set_tcp_congestion(socket, SIMPLEST);
    }
    if socket::round_trip(socket).is_ok_and(|time| time < SHORT) {
        let _ = sockopt::set_socket_send_buffer_size(socket, NEAR);
    }
}

/// Whether both ends of a connection have the same address: then it leads through no network.
fn is_within_host(socket: &OwnedFd) -> bool {
    let address = |end: rustix::io::Result<rustix::net::SocketAddrAny>| {
        let address = SocketAddr::try_from(end.ok()?).ok()?;
        Some(address.ip())
    };
    let here = address(rustix::net::getsockname(socket));
    let there = rustix::net::getpeername(socket).ok().flatten();
    here.is_some() && here == there.and_then(|there| address(Ok(there)))
}

/// The error that ended a connection. The kernel also ends a connection after the set time if the other host answers but has no more
/// room, because its process takes nothing: perhaps it computes. That is not silence; the peer is called anew, and its kernel answers at
/// once if the peer is there.
#[cold]
pub(crate) fn broken(socket: &OwnedFd, error: std::io::Error) -> std::io::Error {
    match is_silence(&error) && socket::seems_answered(socket).unwrap_or(false) {
        true => std::io::Error::new(
            std::io::ErrorKind::ConnectionAborted,
            "the process at the other end has taken nothing for long",
        ),
        false => error,
    }
}

/// Whether an error of a connection means that the other host was silent for the set time: then the kernel
/// says so, or reports the last error of the path.
pub(crate) fn is_silence(error: &std::io::Error) -> bool {
    let silent = [Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::NETUNREACH];
    let number = weft_sys::error::errno(error);
    silent.iter().any(|one| Some(one.raw_os_error()) == number)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use weft_sys::socket::SendSlice;

    use super::*;
    use crate::network::Stream as _;

    /// The kernel's time limit for untaken data is over, and the other side is there.
    #[test]
    fn who_takes_nothing_is_not_silent() {
        let patience = Duration::from_secs(1);
        let (listener, address) = listen([127, 0, 0, 1].into(), patience).expect("loopback");
        let mut there = std::net::TcpStream::connect(address).expect("it listens");
        let here = rustix::net::accept(&listener).expect("somebody has called");
        let bytes = vec![7; 1 << 16];
        let mut sent = 0;
        let error = loop {
            match here.send(&[SendSlice::Bytes(&bytes)]) {
                Ok(Some(count)) => sent += count,
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
        assert!(!is_silence(&error), "{error}");
        let mut received = vec![0; sent];
        assert!(there.read(&mut received).is_ok_and(|count| count > 0));
    }

    #[test]
    fn who_is_accepted_has_what_a_connection_needs() {
        let patience = Duration::from_secs(7);
        let (listener, address) = listen([127, 0, 0, 1].into(), patience).expect("loopback");
        let _caller = std::net::TcpStream::connect(address).expect("it listens");
        let socket = rustix::net::accept(&listener).expect("somebody has called");
        assert_eq!(sockopt::tcp_nodelay(&socket), Ok(true));
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
        assert_eq!(sockopt::tcp_keepcnt(&socket), Ok(5));
        assert_eq!(sockopt::tcp_keepidle(&socket), Ok(Duration::from_secs(1)));
        assert_eq!(sockopt::tcp_keepintvl(&socket), Ok(Duration::from_secs(1)));
        assert_eq!(sockopt::tcp_user_timeout(&socket), Ok(7000));
    }

    /// The control of congestion of a connection between these two addresses of this host, once it is tuned.
    fn congestion(from: [u8; 4], to: [u8; 4]) -> String {
        let (_listener, address) = listen(to.into(), Duration::from_secs(7)).expect("loopback");
        let socket = stream(&address.ip()).expect("a descriptor is left");
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).expect("an address of this host");
        let _ = rustix::net::connect(&socket, &address);
        fit(&socket);
        sockopt::tcp_congestion(&socket).expect("it is one of TCP")
    }

    #[test]
    fn the_simplest_control_of_congestion_is_for_connections_within_a_host() {
        let untouched = stream(&[127, 0, 0, 1].into()).expect("a descriptor is left");
        let usual = sockopt::tcp_congestion(&untouched).expect("it is one of TCP");
        assert_eq!(congestion([127, 0, 0, 1], [127, 0, 0, 1]), SIMPLEST);
        let looks_remote = congestion([127, 0, 0, 1], [127, 0, 0, 2]);
        assert_eq!(looks_remote, usual, "it may lead through a network");
    }
}
