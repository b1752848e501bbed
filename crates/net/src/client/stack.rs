//! IP stack of a client (smoltcp): interface and sockets on its port.

use std::io;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};

use super::ClientPort;
use crate::control::Counters;
use crate::control::orders::Reattachment;
use crate::plan::{self, FAR, PREFIX};
use crate::stage::{BURST, Stage};

/// Port, interface and sockets of a client.
pub struct Stack {
    port: ClientPort,
    sockets: SocketSet<'static>,
    interface: Interface,
    /// When it wants to run even if nothing arrives, as of the last step.
    deadline: Option<u64>,
}

/// Datagrams that a UDP socket holds in each direction.
const DATAGRAMS: usize = 64;

/// The stack's own time, from nanoseconds.
#[must_use]
pub fn instant(now: u64) -> Instant {
    Instant::from_micros(i64::try_from(now / 1_000).unwrap_or(i64::MAX))
}

impl Stack {
    /// The stack of the client with this index. `seed` makes its port and sequence numbers.
    #[must_use]
    pub fn new(mut port: ClientPort, client: usize, seed: u64, now: u64) -> Self {
        let mut config = Config::new(EthernetAddress(plan::address(client)).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut port, instant(now));
        interface.update_ip_addrs(|addresses| {
            let own = Ipv4Address::from(plan::ip(client));
            // The list of a fresh interface has room for one.
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(own), PREFIX));
        });
        // A fresh table has room for one.
        let _ = interface
            .routes_mut()
            .add_default_ipv4_route(Ipv4Address::from(FAR.ip));
        Self {
            port,
            sockets: SocketSet::new(Vec::new()),
            interface,
            deadline: None,
        }
    }

    /// A UDP socket bound to a port; `None` for port 0.
    pub fn udp(&mut self, port: u16) -> Option<SocketHandle> {
        let buffer = || {
            udp::PacketBuffer::new(
                vec![udp::PacketMetadata::EMPTY; DATAGRAMS],
                vec![0; DATAGRAMS * 1536],
            )
        };
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).ok()?;
        Some(self.sockets.add(socket))
    }

    /// A TCP socket, not yet connected.
    pub fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 128 * 1024]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    /// A UDP socket that was made by [`udp`](Self::udp).
    #[inline]
    pub fn udp_socket(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// A TCP socket that was made by [`tcp`](Self::tcp).
    #[inline]
    pub fn tcp_socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Gives a socket up.
    pub fn remove(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// Connects a TCP socket from a local port.
    ///
    /// # Errors
    /// If the socket is open already, or an address is not valid.
    pub fn connect(
        &mut self,
        handle: SocketHandle,
        remote: ([u8; 4], u16),
        local: u16,
    ) -> Result<(), tcp::ConnectError> {
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        let remote = (IpAddress::Ipv4(Ipv4Address::from(remote.0)), remote.1);
        socket.connect(self.interface.context(), remote, local)
    }

    /// Receives and sends a bounded number of frames; true if anything arrived.
    pub fn poll(&mut self, now: u64) -> bool {
        use smoltcp::iface::PollIngressSingleResult as Ingress;
        let now = instant(now);
        self.port.collect();
        let mut changed = false;
        for _ in 0..BURST {
            match self
                .interface
                .poll_ingress_single(now, &mut self.port, &mut self.sockets)
            {
                Ingress::None => break,
                Ingress::PacketProcessed | Ingress::SocketStateChanged => changed = true,
            }
        }
        changed | self.flush(now)
    }

    /// Sends out what the sockets hold, and counts what was received.
    pub fn send(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let changed = self.flush(instant(now));
        self.port.settle(counters);
        changed
    }

    fn flush(&mut self, now: Instant) -> bool {
        let mut changed = false;
        for _ in 0..BURST {
            match self
                .interface
                .poll_egress(now, &mut self.port, &mut self.sockets)
            {
                PollResult::None => break,
                PollResult::SocketStateChanged => changed = true,
            }
        }
        changed
    }

    /// When the stack wants to be polled even if nothing arrives, in nanoseconds.
    pub fn poll_at(&mut self, now: u64) -> Option<u64> {
        if self.port.is_hungry() {
            // The sockets' data is sent when a buffer comes back, which notifies.
            return None;
        }
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(u64::try_from(at.total_micros()).unwrap_or(0) * 1_000)
    }
}

/// A stack without other work than what its sockets hold.
impl Stage for Stack {
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool {
        let came = self.poll(now);
        let went = self.send(now, counters);
        self.deadline = self.poll_at(now);
        came | went
    }

    fn announce(&mut self) -> bool {
        self.port.announce()
    }

    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()> {
        self.port.reattach(change, counters)
    }

    fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn is_ahead(&mut self) -> bool {
        self.port.is_ahead()
    }
}
