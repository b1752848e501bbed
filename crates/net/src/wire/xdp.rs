//! AF_XDP: a wire through rings shared with the kernel. Arriving frames are written into the card's buffers,
//! by the card itself if it can; leaving frames are copied once into chunks of the socket, so that a driver
//! need not map clients' memory for writing.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sys::bpf::{Mode, Redirection};
use weft_sys::xdp::{Sizes, XdpReceiver, XdpSender, XdpSocket};
use weft_sys::{Mapping, MemoryFile, Region};

use super::{ASK, RETRY, RxWire, TxWire, put_region};
use crate::buffers::{Buffers, SIZE};
use crate::queue::Descriptor;

/// Chunks to send from, and places of the rings for sending.
const SEND: u32 = 256;

fn sizes(buffers: u32) -> Sizes {
    Sizes {
        receive: buffers.next_power_of_two(),
        send: SEND,
    }
}

/// An interface whose frames are redirected, as long as this lives.
#[derive(Debug)]
pub struct XdpAccess {
    redirection: Redirection,
    interface: u32,
    sizes: Sizes,
    without_copy: bool,
}

impl XdpAccess {
    /// Access for a card of `buffers` buffers, on an interface of our network namespace; tested with a socket
    /// that is closed again.
    ///
    /// # Errors
    /// If a privilege is missing or the kernel refuses; the error says at which step.
    pub fn open(interface: u32, buffers: u32) -> io::Result<Self> {
        let mut access = Self {
            redirection: Redirection::attach(interface)?,
            interface,
            sizes: sizes(buffers),
            without_copy: false,
        };
        let plug = access.plug()?;
        let area = Mapping::private(4 * SIZE as usize)?;
        let (receiver, _) =
            plug.socket
                .bind(interface, area, 2 * SIZE as usize, SIZE, access.sizes)?;
        access.without_copy = receiver.is_without_copy();
        Ok(access)
    }

    /// A new socket to which frames go from now on. To be called in the namespace of the interface.
    ///
    /// # Errors
    /// If a privilege is missing.
    pub fn plug(&self) -> io::Result<XdpPlug> {
        let socket = XdpSocket::open(self.sizes)?;
        self.redirection.direct_to(&socket)?;
        Ok(XdpPlug {
            socket,
            interface: self.interface,
        })
    }

    /// A description of the access, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let mode = match self.redirection.mode {
            Mode::Native => "native",
            Mode::Generic => "generic",
        };
        let copy = match self.without_copy {
            true => "without a copy by the kernel",
            false => "copied by the kernel",
        };
        format!("AF_XDP, {mode}, {copy}")
    }
}

/// A socket that is not bound yet, on its way to a driver.
#[derive(Debug)]
pub struct XdpPlug {
    pub(super) socket: XdpSocket,
    pub(super) interface: u32,
}

impl XdpPlug {
    /// Binds it to the card's buffers, which were handed over; returns both halves.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn bind(self, card: OwnedFd) -> io::Result<(XdpRx, XdpTx)> {
        let card = MemoryFile::adopt(card)?;
        let lent = card.len();
        let buffers = (lent / SIZE as usize) as u32;
        let area = card.map_with_tail((SEND * SIZE) as usize)?;
        let (receiver, sender) =
            self.socket
                .bind(self.interface, area, lent, SIZE, sizes(buffers))?;
        let rx = XdpRx {
            receiver,
            missed: 0,
            asked: 0,
        };
        let tx = XdpTx {
            sender,
            regions: Vec::new(),
            taken: VecDeque::new(),
            done: VecDeque::new(),
            blocked: false,
            retry: None,
        };
        Ok((rx, tx))
    }
}

/// The receiving half.
pub struct XdpRx {
    receiver: XdpReceiver,
    missed: u64,
    /// When the kernel was last asked for lost frames.
    asked: u64,
}

impl RxWire for XdpRx {
    fn supply(&mut self, offset: u32) -> bool {
        self.receiver.lend(offset)
    }

    fn receive(&mut self, now: u64) -> Option<(u32, u16)> {
        if now >= self.asked + ASK {
            self.asked = now;
            self.missed = self.receiver.missed();
        }
        let frame = self.receiver.take()?;
        // At most a chunk.
        Some((frame.chunk, frame.length as u16))
    }

    fn flush(&mut self) {
        self.receiver.settle();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

/// The transmitting half.
pub struct XdpTx {
    sender: XdpSender,
    regions: Vec<Buffers>,
    /// Copied, and not yet taken by the kernel.
    taken: VecDeque<Descriptor>,
    done: VecDeque<Descriptor>,
    /// The last frame found no room.
    blocked: bool,
    retry: Option<u64>,
}

impl XdpTx {
    /// The half with the regions that frames are sent from, by tag.
    #[must_use]
    pub fn attached(self, regions: Vec<Buffers>) -> Self {
        Self { regions, ..self }
    }
}

impl TxWire for XdpTx {
    fn submit(&mut self, frame: Descriptor, now: u64) -> bool {
        let lent = self
            .regions
            .get(frame.client())
            .and_then(|buffers| buffers.lend_readable(frame.offset, frame.length.into()));
        let lent = lent.unwrap_or(Region::EMPTY);
        if lent.is_empty() {
            // It cannot be sent: it counts as sent.
            self.done.push_back(frame);
            return true;
        }
        self.blocked = !self.sender.push(&lent);
        if self.blocked {
            self.flush(now);
            self.blocked = !self.sender.push(&lent);
        }
        if !self.blocked {
            self.taken.push_back(frame);
        }
        !self.blocked
    }

    fn completed(&mut self, _now: u64) -> Option<Descriptor> {
        self.done.pop_front()
    }

    fn flush(&mut self, now: u64) {
        let pending = self.sender.settle() as usize;
        let gone = self.taken.len().saturating_sub(pending);
        self.done.extend(self.taken.drain(..gone));
        self.retry = (pending > 0 || self.blocked).then_some(now + RETRY);
    }

    fn replace(&mut self, client: usize, region: Buffers) {
        // Submitted frames have been copied.
        put_region(&mut self.regions, std::iter::empty(), client, region);
    }

    fn deadline(&self) -> Option<u64> {
        self.retry
    }
}
