//! Sockets for a program that is a client of a running system: unprivileged, with a network stack of its own.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use weft_net::socket::Network;
//!
//! let network = Network::attach("weft", "guest")?;
//! let socket = network.udp(7)?;
//! let mut buffer = [0; 1500];
//! let (length, from) = socket.recv_from(&mut buffer)?;
//! socket.send_to(&buffer[..length], from)?;
//!
//! let mut stream = network.connect("10.77.0.1:8000".parse().unwrap())?;
//! stream.write_all(b"hello")?;
//! stream.read(&mut buffer)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! All sockets of a [`Network`] share its stack. A waiting call keeps the stack until it is done: a program
//! that wants to wait in several threads at once attaches several clients.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::{tcp, udp};
use smoltcp::wire::{IpAddress, IpEndpoint};
use weft_sys::event::EventWaiter;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::{clock, random};

use crate::broker;
use crate::client::Stack;
use crate::control_loop::ControlLoop;
use crate::plan;
use crate::system::Capabilities;

/// A place in a system.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Mutex<Inner>>,
    client: usize,
}

struct Inner {
    stack: ControlLoop<Stack>,
    waiter: EventWaiter,
    next_port: u16,
    /// Keeps the place, and closes when the system ends; `None` where there is no broker.
    place: Option<UnixStream>,
}

/// First port that is assigned to a socket that asks for none.
const EPHEMERAL: u16 = 49_152;

impl Network {
    /// Takes the place of a client in a running system of this user. The place belongs to this process: a
    /// forked child that outlives it has no place any more, and its waiting calls end with an error of kind
    /// `ConnectionAborted`, as they do when the system goes down.
    ///
    /// # Errors
    /// If there is no such system or place, or it is taken.
    pub fn attach(system: &str, client: &str) -> io::Result<Self> {
        let (capabilities, place) = broker::attach(system, client)?;
        Self::of(capabilities, Some(place))
    }

    /// A network from the capabilities of a client, for instance of a system in this process.
    ///
    /// # Errors
    /// If they are those of another component.
    pub fn of(capabilities: Capabilities, place: Option<UnixStream>) -> io::Result<Self> {
        let end = capabilities.into_client()?;
        let client = end.index;
        let mut seed = [0; 8];
        random::fill(&mut seed)?;
        let seed = u64::from_le_bytes(seed);
        if let Some(place) = &place {
            end.waiter.register_readable(place)?;
        }
        let inner = Inner {
            stack: ControlLoop::new(
                end.control,
                Stack::new(end.port, client, seed, clock::monotonic()),
            ),
            waiter: end.waiter,
            next_port: EPHEMERAL + (seed % 8_192) as u16,
            place,
        };
        Ok(Self {
            inner: Arc::new(Mutex::new(inner)),
            client,
        })
    }

    /// The address of this client.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from(plan::ip(self.client))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A UDP socket on this port; 0: any port.
    ///
    /// # Errors
    /// None today; for stacks that refuse a port in use.
    pub fn udp(&self, port: u16) -> io::Result<UdpSocket> {
        let mut inner = self.lock();
        let port = if port == 0 { inner.port() } else { port };
        let handle = inner.stack.stage().udp(port).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("port {port} cannot be bound"),
            )
        })?;
        Ok(UdpSocket {
            network: self.clone(),
            handle,
        })
    }

    /// A stream that is not connected.
    fn stream(&self) -> TcpStream {
        TcpStream {
            handle: self.lock().stack.stage().tcp(),
            network: self.clone(),
        }
    }

    /// Opens a TCP connection.
    ///
    /// # Errors
    /// If the other side refuses, or does not answer within ten seconds.
    pub fn connect(&self, to: SocketAddrV4) -> io::Result<TcpStream> {
        let stream = self.stream();
        let handle = stream.handle;
        // Declared after the stream: released before it, as the stream locks when it is dropped.
        let mut inner = self.lock();
        let local = inner.port();
        let connected = inner
            .stack
            .stage()
            .connect(handle, (to.ip().octets(), to.port()), local);
        connected.map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{to}: {error}"))
        })?;
        let limit = clock::deadline_after(Duration::from_secs(10));
        inner.wait_for(Some(limit), |stack| {
            let socket = stack.tcp_socket(handle);
            match socket.state() {
                tcp::State::Established => Some(Ok(())),
                tcp::State::Closed => Some(Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    format!("{to} refuses the connection"),
                ))),
                _ => None,
            }
        })?;
        drop(inner);
        Ok(stream)
    }

    /// Waits for one TCP connection on this port.
    ///
    /// # Errors
    /// If the port is 0, or the kernel refuses to let it wait.
    pub fn accept(&self, port: u16) -> io::Result<TcpStream> {
        let stream = self.stream();
        let handle = stream.handle;
        // As in `connect`.
        let mut inner = self.lock();
        let listening = inner.stack.stage().tcp_socket(handle).listen(port);
        listening.map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("port {port}: {error}"))
        })?;
        inner.wait_for(None, |stack| {
            let socket = stack.tcp_socket(handle);
            socket.may_send().then_some(Ok(()))
        })?;
        drop(inner);
        Ok(stream)
    }
}

impl Inner {
    fn port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = if port == u16::MAX {
            EPHEMERAL
        } else {
            port + 1
        };
        port
    }

    /// Drives the stack until `look` returns a result.
    fn wait_for<T>(
        &mut self,
        limit: Option<u64>,
        mut look: impl FnMut(&mut Stack) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        // Woken although nothing has arrived: the cause must be checked.
        let mut woken = false;
        loop {
            let now = clock::monotonic();
            let (found, moved) = self.stack.round(|stack, counters| {
                let came = stack.poll(now);
                let found = look(stack);
                let went = stack.send(now, counters);
                (found, came || went)
            });
            if let Some(found) = found {
                return found;
            }
            if limit.is_some_and(|limit| now >= limit) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answered"));
            }
            if moved || self.stack.announce() {
                woken = false;
                continue;
            }
            if woken {
                self.has_place()?;
            }
            let own = self.stack.stage().poll_at(now);
            let deadline = match (own, limit) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            self.waiter.wait(deadline)?;
            woken = true;
        }
    }

    /// Whether the place is still ours: the broker never sends over the connection, only closes it.
    fn has_place(&self) -> io::Result<()> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        let mut entries = [PollFd::new(place, Interest::Read)];
        match poll::wait(&mut entries, Some(Duration::ZERO))? {
            0 => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the system is gone or has taken this place back: attach again",
            )),
        }
    }
}

/// A UDP socket of a [`Network`].
pub struct UdpSocket {
    network: Network,
    handle: SocketHandle,
}

impl UdpSocket {
    /// Sends a datagram; waits while there is no room.
    ///
    /// # Errors
    /// If the address cannot be sent to.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddrV4) -> io::Result<usize> {
        let to = IpEndpoint::new(IpAddress::Ipv4(*to.ip()), to.port());
        self.network.lock().wait_for(None, |stack| {
            let socket = stack.udp_socket(self.handle);
            match socket.send_slice(bytes, to) {
                Ok(()) => Some(Ok(bytes.len())),
                Err(udp::SendError::BufferFull) => None,
                Err(error) => Some(Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{to}: {error}"),
                ))),
            }
        })
    }

    /// Waits for a datagram; the part that does not fit is cut off.
    ///
    /// # Errors
    /// If the kernel refuses to let it wait.
    pub fn recv_from(&self, bytes: &mut [u8]) -> io::Result<(usize, SocketAddrV4)> {
        self.receive(bytes, None)
    }

    /// Like [`recv_from`](Self::recv_from), with a time limit.
    ///
    /// # Errors
    /// Of kind `TimedOut` if nothing arrived.
    pub fn recv_within(
        &self,
        bytes: &mut [u8],
        limit: Duration,
    ) -> io::Result<(usize, SocketAddrV4)> {
        self.receive(bytes, Some(clock::deadline_after(limit)))
    }

    fn receive(&self, bytes: &mut [u8], limit: Option<u64>) -> io::Result<(usize, SocketAddrV4)> {
        self.network.lock().wait_for(limit, |stack| {
            let socket = stack.udp_socket(self.handle);
            let (data, from) = socket.recv().ok()?;
            let length = data.len().min(bytes.len());
            bytes[..length].copy_from_slice(&data[..length]);
            let IpAddress::Ipv4(ip) = from.endpoint.addr;
            Some(Ok((length, SocketAddrV4::new(ip, from.endpoint.port))))
        })
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.network.lock().stack.stage().remove(self.handle);
    }
}

/// A TCP connection of a [`Network`].
pub struct TcpStream {
    network: Network,
    handle: SocketHandle,
}

impl Read for TcpStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.network.lock().wait_for(None, |stack| {
            let socket = stack.tcp_socket(self.handle);
            match socket.recv_slice(bytes) {
                Ok(0) => None,
                Ok(count) => Some(Ok(count)),
                Err(tcp::RecvError::Finished) => Some(Ok(0)),
                Err(tcp::RecvError::InvalidState) => {
                    Some(Err(io::ErrorKind::ConnectionReset.into()))
                }
            }
        })
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.network.lock().wait_for(None, |stack| {
            let socket = stack.tcp_socket(self.handle);
            match socket.send_slice(bytes) {
                Ok(0) => None,
                Ok(count) => Some(Ok(count)),
                Err(_) => Some(Err(io::ErrorKind::BrokenPipe.into())),
            }
        })
    }

    /// Waits until the other side has confirmed everything.
    fn flush(&mut self) -> io::Result<()> {
        self.network.lock().wait_for(None, |stack| {
            let socket = stack.tcp_socket(self.handle);
            (socket.send_queue() == 0 || !socket.is_open()).then_some(Ok(()))
        })
    }
}

impl TcpStream {
    /// Announces that nothing more will be sent, and waits until the other side has everything.
    ///
    /// # Errors
    /// If the kernel refuses to let it wait.
    pub fn finish(&mut self) -> io::Result<()> {
        let handle = self.handle;
        let mut inner = self.network.lock();
        inner.stack.stage().tcp_socket(handle).close();
        inner.wait_for(None, |stack| {
            let socket = stack.tcp_socket(handle);
            use tcp::State::{Closed, Closing, FinWait2, TimeWait};
            matches!(socket.state(), Closed | Closing | FinWait2 | TimeWait).then_some(Ok(()))
        })
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let mut inner = self.network.lock();
        let now = clock::monotonic();
        // Unflushed data is sent once; the other side is told that we are gone.
        inner.stack.round(|stack, counters| {
            stack.poll(now);
            stack.send(now, counters);
            stack.tcp_socket(self.handle).abort();
            stack.send(now, counters);
            stack.remove(self.handle);
        });
    }
}
