//! Network: the system that an endpoint runs on. byte streams, a clock, and which streams are ready.
//! [`Kernel`] is the real one.
//!
//! ```text
//!   Network   connect, accept ─► Stream     send, receive
//!      └────► Poller          watch(stream, EventSource) … poll ─► Readiness { source, writable }
//! ```
//!
//! The endpoint is generic over the network, so that its whole protocol also runs over a simulated one, which
//! a seed decides, without a branch in the path of a message. Nothing here names a type of either: a poll
//! yields a [`Readiness`], errors are those of [`std::io`].

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};
use weft_fabric::{Bell, Region};
use weft_secure::Source;
use weft_sys::clock;
use weft_sys::socket::{self, NotAccepted, SendSlice};

use crate::bell::NetworkBell;
use crate::sockets::{broken, fit, prepare, stream};

/// One end of a connection: bytes in order, both ways, until it breaks. Nothing here waits.
pub trait Stream: Send {
    /// Sends as much of these parts as there is room for; `None`: no room.
    ///
    /// # Errors
    /// The connection is broken.
    fn send(&self, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>>;

    /// Reads what is there, first into lent memory. `Some(0)`: closed; `None`: nothing is there.
    ///
    /// # Errors
    /// The connection is broken.
    fn receive(&self, lent: Region, rest: &mut [u8]) -> io::Result<Option<usize>>;

    /// How many bytes of what was sent the other host has not acknowledged.
    ///
    /// # Errors
    /// If that is not known.
    fn unacknowledged(&self) -> io::Result<usize>;

    /// Acknowledges now what was received, instead of with the next data or some 40 ms later: the other side waits for that.
    fn acknowledge(&self);

    /// Tunes the stream to its path, which is known now.
    fn fit(&self);

    /// Whether a call has been answered.
    ///
    /// # Errors
    /// It will not be answered.
    fn is_connected(&self) -> io::Result<bool>;
}

/// The stream that an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventSource {
    /// The bell itself.
    Bell,
    /// A listener, by its index: somebody has connected.
    Listener(u32),
    /// A connection that is not chosen yet, by its number.
    Candidate(u32),
    /// The connection with a peer.
    Peer(u32),
}

/// A stream that is ready: something can be read, which may be its end, or there is room to send and it was
/// watched for that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Readiness {
    /// Which stream.
    pub source: EventSource,
    /// There is room to send.
    pub writable: bool,
}

/// Tells which streams are ready.
pub trait Poller<S>: Bell {
    /// Watches one more stream, for reading and perhaps for room to send.
    ///
    /// # Errors
    /// If the system refuses.
    fn watch(&self, stream: &S, source: EventSource, room: bool) -> io::Result<()>;

    /// Changes what it is watched for.
    ///
    /// # Errors
    /// If the system refuses.
    fn rewatch(&self, stream: &S, source: EventSource, room: bool) -> io::Result<()>;

    /// Stops watching it. It stays open.
    fn unwatch(&self, stream: &S);

    /// Reports the streams that are ready now, at most
    /// [`AT_ONCE`](weft_sys::readiness::AT_ONCE); the others are reported by the next call.
    fn poll(&self, report: impl FnMut(Readiness));

    /// When the endpoint has something to do by itself, by [`Network::now`]; `u64::MAX`: never.
    fn set_due(&self, due: u64);

    /// The next sleep is to be short: the awaited event makes nothing ready.
    fn hurry(&self);

    /// Whether somebody slept since this was last asked.
    fn slept(&self) -> bool;

    /// Whether somebody was about to sleep since this was last asked. A look on behalf of a sleeper sees it: it is announced
    /// before that look.
    fn take_prepared(&self) -> bool;

    /// Whether somebody has announced a sleep and not yet woken.
    fn has_sleepers(&self) -> bool;

    /// Sets whether connections to peers are being made.
    fn set_reaching(&self, under_way: bool);

    /// Notes a look at the connections that are being made.
    fn note_reached_for(&self);

    /// Sets whether some arrivals make nothing ready: then nobody sleeps.
    fn set_deaf(&self, deaf: bool);
}

/// A system that an endpoint runs on.
pub trait Network: Send {
    /// Connections, and what listens for them.
    type Stream: Stream;
    /// Where the rank sleeps.
    type Bell: Poller<Self::Stream> + 'static;

    /// The time in nanoseconds. It never goes back.
    fn now(&self) -> u64;

    /// Calls an address. The result comes later: [`Stream::is_connected`].
    ///
    /// # Errors
    /// It is known at once that nobody answers there.
    fn connect(&self, address: &SocketAddr, patience: Duration) -> io::Result<Self::Stream>;

    /// Accepts a connection, and says from where.
    ///
    /// # Errors
    /// None was accepted.
    fn accept(&self, listener: &Self::Stream) -> Result<(Self::Stream, Source), NotAccepted>;

    /// The time after `time` has passed.
    fn after(&self, time: Duration) -> u64 {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.now().saturating_add(time)
    }
}

/// TCP as the kernel offers it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Stream for OwnedFd {
    #[inline]
    fn send(&self, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>> {
        socket::send(self, parts).map_err(|error| broken(self, error))
    }

    #[inline]
    fn receive(&self, lent: Region, rest: &mut [u8]) -> io::Result<Option<usize>> {
        socket::receive(self, lent, rest).map_err(|error| broken(self, error))
    }

    fn unacknowledged(&self) -> io::Result<usize> {
        socket::unacknowledged(self)
    }

    fn acknowledge(&self) {
        // If refused, the kernel acknowledges in its own time.
        let _ = sockopt::set_tcp_quickack(self, true);
    }

    fn fit(&self) {
        fit(self);
    }

    fn is_connected(&self) -> io::Result<bool> {
        sockopt::socket_error(self)??;
        // Without a peer name it is not connected yet.
        Ok(rustix::net::getpeername(self).is_ok())
    }
}

impl Network for Kernel {
    type Stream = OwnedFd;
    type Bell = NetworkBell;

    fn now(&self) -> u64 {
        clock::monotonic()
    }

    fn connect(&self, address: &SocketAddr, patience: Duration) -> io::Result<OwnedFd> {
        let socket = stream(&address.ip())?;
        prepare(&socket, patience);
        match rustix::net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&self, listener: &OwnedFd) -> Result<(OwnedFd, Source), NotAccepted> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let came = rustix::net::acceptfrom_with(listener, flags);
        let (socket, from) = came.map_err(|error| NotAccepted::from_errno(error.raw_os_error()))?;
        let from = from.and_then(|address| SocketAddr::try_from(address).ok());
        let source = from.map_or(Source::LOCAL, |address| Source::of(address.ip()));
        Ok((socket, source))
    }
}
