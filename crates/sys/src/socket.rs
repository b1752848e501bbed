//! Stream sockets that do not wait, with memory that a caller has lent: several slices in one call, no
//! copy in between.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::error::{failed, last_errno};
use crate::span::Region;

/// Most slices of one call.
pub const MOST_SLICES: usize = 36;

/// Bytes to be sent.
#[derive(Clone, Copy, Debug)]
pub enum SendSlice<'a> {
    /// Ordinary bytes.
    Bytes(&'a [u8]),
    /// Memory that is lent.
    Lent(Region),
}

impl SendSlice<'_> {
    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Lent(region) => region.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn vector(&self) -> libc::iovec {
        let (start, length) = match self {
            Self::Bytes(bytes) => (bytes.as_ptr().cast_mut(), bytes.len()),
            Self::Lent(region) => (region.as_ptr(), region.len()),
        };
        libc::iovec {
            iov_base: start.cast(),
            iov_len: length,
        }
    }
}

#[inline]
fn answer(count: isize, call: &'static str, purpose: &str) -> io::Result<Option<usize>> {
    match usize::try_from(count) {
        Ok(count) => Ok(Some(count)),
        Err(_) => match last_errno() {
            libc::EAGAIN | libc::EINTR => Ok(None),
            _ => Err(failed(call, purpose)),
        },
    }
}

/// Why no connection was accepted. In all these cases the listening socket stays usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAccepted {
    /// No connection waits.
    Nobody,
    /// The next connection is gone already, or not permitted: the one after it may be accepted.
    Lost,
    /// This process or the system has no descriptor or no memory left. Waiting connections remain, and the
    /// socket stays readable: a thread that sleeps on it must stop watching it for a while.
    Exhausted,
}

impl NotAccepted {
    /// The meaning of an error of `accept`.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EAGAIN => Self::Nobody,
            // Errors of the one connection; see accept(2) for those that Linux passes on from the network.
            libc::EINTR
            | libc::ECONNABORTED
            | libc::EPERM
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENONET => Self::Lost,
            // EMFILE, ENFILE, ENOBUFS, ENOMEM, and unknown errors.
            _ => Self::Exhausted,
        }
    }

    /// The same for an error of the standard library or of this crate.
    #[must_use]
    pub fn from_error(error: &io::Error) -> Self {
        Self::from_errno(crate::error::errno(error).unwrap_or(0))
    }
}

/// Whether an error says that no descriptor is left, in this process or in the system.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let errno = crate::error::errno(error);
    matches!(errno, Some(libc::EMFILE | libc::ENFILE))
}

/// Sends the first [`MOST_SLICES`] slices, as much of them as there is room for. `None`: no room at all, or a
/// signal came. Never waits, never raises SIGPIPE.
///
/// # Errors
/// The connection is broken.
#[inline]
pub fn send(socket: &impl AsFd, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>> {
    const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let descriptor = socket.as_fd().as_raw_fd();
    let sent = if let [part] = parts {
        let only = part.vector();
        // SAFETY: the kernel reads the one part: borrowed bytes, or a region that its maker lends.
        unsafe { libc::send(descriptor, only.iov_base, only.iov_len, FLAGS) }
    } else {
        let mut vectors = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; MOST_SLICES];
        let count = parts.len().min(MOST_SLICES);
        for (vector, part) in vectors.iter_mut().zip(parts) {
            *vector = part.vector();
        }
        // SAFETY: all zeros is a message header without address and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = count as _;
        // SAFETY: the kernel reads `count` parts, each borrowed bytes or a lent region; their vectors live until
        // the call returns.
        unsafe { libc::sendmsg(descriptor, &raw const message, FLAGS) }
    };
    answer(sent, "sendmsg", "send to a peer")
}

/// Reads what is there, first into lent memory, then into `rest`. `Some(0)`: the other side has closed
/// (or there was no room). `None`: nothing is there. Never waits.
///
/// # Errors
/// The connection is broken.
#[inline]
pub fn receive(socket: &impl AsFd, lent: Region, rest: &mut [u8]) -> io::Result<Option<usize>> {
    let descriptor = socket.as_fd().as_raw_fd();
    let came = if lent.is_empty() {
        // SAFETY: the kernel writes at most the bytes of `rest`, which is ours alone.
        unsafe {
            libc::recv(
                descriptor,
                rest.as_mut_ptr().cast(),
                rest.len(),
                libc::MSG_DONTWAIT,
            )
        }
    } else {
        let mut vectors = [
            SendSlice::Lent(lent).vector(),
            libc::iovec {
                iov_base: rest.as_mut_ptr().cast(),
                iov_len: rest.len(),
            },
        ];
        // SAFETY: all zeros is a message header without address and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = 2;
        // SAFETY: the vectors live until the call returns. The lent region is valid for writes, as promised to
        // `Region::new`; `rest` is ours alone.
        unsafe { libc::recvmsg(descriptor, &raw mut message, libc::MSG_DONTWAIT) }
    };
    answer(came, "recv", "receive from a peer")
}

/// How many bytes of what was sent the other side's kernel has not acknowledged.
///
/// # Errors
/// If this is no stream socket.
pub fn unacknowledged(socket: &impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ) writes one int.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result != 0 {
        return Err(failed("ioctl", "ask how much of a stream is under way"));
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Makes the kernel take no more than about `bytes` bytes beyond what it can send at present: more urgent
/// data then wait behind no more than these.
///
/// # Errors
/// If this is no TCP socket.
pub fn limit_unsent(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    // SAFETY: the option takes one int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(failed("setsockopt", "limit what waits in a TCP connection"));
    }
    Ok(())
}

/// Information of the kernel about a TCP connection: the beginning of `struct tcp_info` in `linux/tcp.h`, and
/// how much of it there is.
fn information<const BYTES: usize>(socket: &impl AsFd) -> io::Result<([u8; BYTES], usize)> {
    let mut information = [0u8; BYTES];
    let mut length = BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and says how many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            information.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok((information, length as usize)),
        _ => Err(failed("getsockopt", "ask about a TCP connection")),
    }
}

/// The shortest time so far in which the other side has acknowledged anything on this path.
///
/// # Errors
/// If this is no TCP socket, or the kernel does not say (before Linux 4.6).
pub fn round_trip(socket: &impl AsFd) -> io::Result<Duration> {
    /// Offset of `tcpi_min_rtt`, which is in microseconds.
    const PLACE: usize = 148;
    let (information, length) = information::<{ PLACE + size_of::<u32>() }>(socket)?;
    match information.get(PLACE..length) {
        Some(&[a, b, c, d]) => {
            let microseconds = u32::from_ne_bytes([a, b, c, d]);
            Ok(Duration::from_micros(u64::from(microseconds)))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether nothing indicates that the other host is gone: nothing was resent, and no two probes are unanswered. (One may be: it has
/// just been sent, or the other kernel does not answer that often.) It may be called even after the connection has ended: a connection
/// to a process that takes nothing ends like one to a host that is gone, by `TCP_USER_TIMEOUT`, though its kernel keeps reporting that
/// there is no room.
///
/// # Errors
/// If this is no TCP socket.
pub fn seems_answered(socket: &impl AsFd) -> io::Result<bool> {
    // `tcpi_retransmits`, `tcpi_probes`.
    let ([_, _, again, probes], _) = information::<4>(socket)?;
    Ok(again == 0 && probes <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[test]
    fn the_round_trip_is_shorter_than_what_contains_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("bound");
        let begun = Instant::now();
        let left = TcpStream::connect(address).expect("listens");
        let _right = listener.accept().expect("called");
        let whole = begun.elapsed();
        assert!(round_trip(&left).expect("the kernel knows") <= whole);
        let (pair, _) = UnixStream::pair().expect("descriptors are left");
        assert!(round_trip(&pair).is_err());
    }

    #[test]
    fn parts_arrive_in_order_and_in_lent_memory() {
        let (left, right) = UnixStream::pair().expect("descriptors are left");
        let mut mine = *b"lent ";
        // SAFETY: `mine` outlives the call and is not touched meanwhile.
        let region = unsafe { Region::new(mine.as_mut_ptr(), mine.len()) };
        let parts = [
            SendSlice::Bytes(b"one "),
            SendSlice::Lent(region),
            SendSlice::Bytes(b"two"),
        ];
        assert_eq!(send(&left, &parts).expect("room"), Some(12));
        let mut first = [0u8; 4];
        // SAFETY: as above.
        let lent = unsafe { Region::new(first.as_mut_ptr(), first.len()) };
        let mut rest = [0; 20];
        assert_eq!(receive(&right, lent, &mut rest).expect("there"), Some(12));
        assert_eq!((&first, &rest[..8]), (b"one ", &b"lent two"[..]));
        let nothing = receive(&right, Region::EMPTY, &mut rest);
        assert_eq!(nothing.expect("open"), None);
        drop(left);
        let end = receive(&right, Region::EMPTY, &mut rest);
        assert_eq!(end.expect("closed in order"), Some(0));
    }
}
