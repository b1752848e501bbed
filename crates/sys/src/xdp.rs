//! AF_XDP: raw Ethernet frames through a socket whose rings are shared with the kernel over our own memory.
//!
//! ```text
//!               fill: empty chunks              transmit: full chunks
//!   receiver ─────────────────────▶ kernel ◀───────────────────────── sender
//!            ◀─────────────────────        ─────────────────────────▶
//!               receive: full chunks            completion: empty chunks
//!
//!   area   │ lent: chunks of the caller's │ chunks that are sent from │
//! ```
//!
//! The area is cut into chunks. Those of the first part are lent by the caller, chunk by chunk; the kernel
//! writes frames into them [`LEAD`] bytes after their beginning. Those of the second part belong to the
//! sender: frames are copied there, so that frames to be sent need not be in writable memory, which the
//! kernel requires of the whole area.
//!
//! A process with the privilege makes a socket and sizes its rings ([`XdpSocket::open`]); the process that
//! gets the descriptor [binds](XdpSocket::bind) it to an area of its own, once.
//!
//! `xdp/ring.rs` describes the ordering in the rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::error::Purpose;
use crate::memory::Mapping;
use crate::{clock, poll};
use ring::Ring;

mod receiver;
mod ring;
mod sender;

pub use receiver::{Received, XdpReceiver};
pub use sender::XdpSender;

/// Offset of a received frame in its chunk. The kernel reserves this much for programs that process the
/// frame.
pub const LEAD: u32 = 256;

/// Sizes of the rings: powers of two.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of the ring for receiving: as many as chunks are lent.
    pub receive: u32,
    /// Of the two rings for sending.
    pub send: u32,
}

impl Sizes {
    /// Of the ring of empty chunks. The kernel reports what it has taken only after it has used up everything
    /// that it saw at once, so as many places again as there are chunks may look occupied.
    fn fill(self) -> u32 {
        2 * self.receive
    }
}

const SET: &str = "setsockopt";

fn setting(name: &'static str) -> impl FnOnce() -> String {
    move || format!("set {name} of an AF_XDP socket")
}

/// A socket with rings, not bound yet.
#[derive(Debug)]
pub struct XdpSocket(OwnedFd);

impl XdpSocket {
    /// Opens a socket in our network namespace. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// If the privilege is missing or the kernel was built without such sockets.
    pub fn open(sizes: Sizes) -> io::Result<Self> {
        let made = socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = Self(made.to("socket", || {
            "open an AF_XDP socket (needs CAP_NET_RAW and a kernel with CONFIG_XDP_SOCKETS)".into()
        })?);
        let descriptor = &socket.0;
        sockopt::set_xdp_rx_ring_size(descriptor, sizes.receive).to(SET, setting("XDP_RX_RING"))?;
        sockopt::set_xdp_umem_fill_ring_size(descriptor, sizes.fill())
            .to(SET, setting("XDP_UMEM_FILL_RING"))?;
        sockopt::set_xdp_tx_ring_size(descriptor, sizes.send).to(SET, setting("XDP_TX_RING"))?;
        sockopt::set_xdp_umem_completion_ring_size(descriptor, sizes.send)
            .to(SET, setting("XDP_UMEM_COMPLETION_RING"))?;
        Ok(socket)
    }

    /// A socket that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// The descriptor, to be passed on.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Binds to queue 0 of an interface, with an area of chunks of `chunk` bytes (a power of two from 2048 to
    /// a page), of which the first `lent` bytes are lent and the rest is sent from. `sizes` are those that
    /// the socket was opened with. The kernel makes no copy if the interface supports that. Keeps trying for
    /// a second while a predecessor's queue is being released.
    ///
    /// # Errors
    /// If the area is refused (the limit of locked memory counts without CAP_IPC_LOCK), or the interface
    /// has another such socket.
    pub fn bind(
        self,
        interface: u32,
        area: Mapping,
        lent: usize,
        chunk: u32,
        sizes: Sizes,
    ) -> io::Result<(XdpReceiver, XdpSender)> {
        let fits = lent <= area.len()
            && chunk.is_power_of_two()
            && lent.is_multiple_of(chunk as usize)
            && area.len().is_multiple_of(chunk as usize);
        if !fits {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "an area of {} bytes, {lent} of them lent, is not cut into chunks of {chunk}",
                    area.len()
                ),
            ));
        }
        // Both halves keep the area, and with it the socket.
        let memory = XdpUmemReg {
            addr: area.as_ptr() as u64,
            len: area.len() as u64,
            chunk_size: chunk,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&self.0, memory)
            .to(SET, setting("XDP_UMEM_REG (locks the memory)"))?;
        let layout = sockopt::xdp_mmap_offsets(&self.0)
            .to("getsockopt", || "read the layout of AF_XDP rings".into())?;
        let (incoming, outgoing) = (sizes.receive, sizes.send);
        let fill = Ring::map(&self, &layout.fr, XDP_UMEM_PGOFF_FILL_RING, sizes.fill())?;
        let receive = Ring::map(&self, &layout.rx, XDP_PGOFF_RX_RING, incoming)?;
        let transmit = Ring::map(&self, &layout.tx, XDP_PGOFF_TX_RING, outgoing)?;
        let completion = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Ring::map(&self, &layout.cr, completion, outgoing)?;
        self.bind_to_queue(interface)?;
        let shared = Arc::new(Shared { socket: self, area });
        let receiver = XdpReceiver::new((fill, receive), lent as u64, chunk, shared.clone());
        let sender = XdpSender::new((transmit, completion), lent, chunk, shared);
        Ok((receiver, sender))
    }

    fn bind_to_queue(&self, interface: u32) -> io::Result<()> {
        let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface, 0);
        let end = clock::deadline_after(Duration::from_secs(1));
        loop {
            let bound = rustix::net::bind(&self.0, &address);
            // The kernel releases the queue of a closed socket some time later, without notice.
            if bound != Err(Errno::BUSY) || clock::monotonic() > end {
                return bound.to("bind", || {
                    format!("bind an AF_XDP socket to queue 0 of interface {interface}")
                });
            }
            poll::wait(&mut [], Some(Duration::from_millis(1)))?;
        }
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The objects that both halves keep alive.
#[derive(Debug)]
struct Shared {
    socket: XdpSocket,
    area: Mapping,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::Redirection;
    use crate::packet::interface_index;
    use crate::span::Region;

    const SIZES: Sizes = Sizes {
        receive: 16,
        send: 16,
    };

    #[test]
    fn areas_that_are_not_whole_chunks_are_refused() {
        let Ok(socket) = XdpSocket::open(SIZES) else {
            return;
        };
        let area = Mapping::private(8192).expect("maps");
        let error = socket
            .bind(1, area, 1000, 2048, SIZES)
            .expect_err("1000 bytes");
        assert!(error.to_string().contains("chunks of 2048"), "{error}");
    }

    /// A loopback returns what is sent to it: all four rings and the program in one.
    #[test]
    fn frames_go_round_a_loopback_in_order() {
        let namespace = match crate::netns::NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(why) => return eprintln!("left out: {why}"),
        };
        let opened = namespace.run(|| {
            crate::netns::set_up("lo")?;
            let lo = interface_index("lo")?;
            let redirection = Redirection::attach(lo)?;
            let socket = XdpSocket::open(SIZES)?;
            redirection.direct_to(&socket)?;
            let area = Mapping::private(32 * 2048)?;
            let halves = socket.bind(lo, area, 16 * 2048, 2048, SIZES)?;
            Ok((redirection, halves))
        });
        let (_kept, (mut receiver, mut sender)) = match opened {
            Ok(opened) => opened,
            Err(why) if why.to_string().contains("CAP_") => return eprintln!("left out: {why}"),
            Err(why) => panic!("{why}"),
        };
        assert!(!receiver.lend(16 * 2048) && !receiver.lend(1));
        for chunk in 0..16 {
            assert!(receiver.lend(chunk * 2048));
        }
        receiver.settle();
        let mut bytes = [0u8; 1000];
        let (mut sent, mut came) = (0u8, 0u8);
        while came < 200 {
            while sent < 200 && sent - came < 16 {
                bytes.fill(sent);
                // A protocol without an answer.
                bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
                // SAFETY: `bytes` lives until the frame has been copied.
                let frame = unsafe { Region::new(bytes.as_mut_ptr(), 60 + usize::from(sent)) };
                if !sender.push(&frame) {
                    break;
                }
                sent += 1;
            }
            sender.settle();
            let mut entries = [poll::PollFd::new(&receiver, poll::Interest::Read)];
            let limit = Some(Duration::from_secs(5));
            assert_eq!(poll::wait(&mut entries, limit).expect("polls"), 1);
            while let Some(frame) = receiver.take() {
                assert_eq!(frame.length, 60 + u32::from(came));
                let place = (frame.chunk + LEAD) as usize;
                let found = receiver.area().bytes(place, frame.length as usize);
                let found = found.expect("within").to_vec();
                assert_eq!((found[0], found[59]), (came, came));
                assert!(receiver.lend(frame.chunk));
                came += 1;
            }
            receiver.settle();
        }
        assert_eq!(receiver.missed(), 0);
        assert!(!receiver.is_without_copy());
    }
}
