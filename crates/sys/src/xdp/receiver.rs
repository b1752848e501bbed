//! Receiver: the half of an AF_XDP socket that lends empty chunks and takes full ones.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::net::xdp::XdpOptionsFlags;
use rustix::net::{RecvFlags, recv, sockopt};

use super::ring::{Frame, Ring};
use super::{LEAD, Shared};

/// The receiving half.
#[derive(Debug)]
pub struct XdpReceiver {
    fill: Ring<u64>,
    receive: Ring<Frame>,
    lent: u64,
    chunk: u32,
    shared: Arc<Shared>,
}

/// A frame that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Where its chunk begins.
    pub chunk: u32,
    /// Its bytes, from [`LEAD`] on.
    pub length: u32,
}

impl XdpReceiver {
    /// The receiving half, with its rings; chunks below `lent` are the caller's.
    pub(super) fn new(
        (fill, receive): (Ring<u64>, Ring<Frame>),
        lent: u64,
        chunk: u32,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            fill,
            receive,
            lent,
            chunk,
            shared,
        }
    }

    #[cfg(test)]
    pub(super) fn area(&self) -> &crate::memory::Mapping {
        &self.shared.area
    }

    /// Lends the chunk that begins here; false if the ring has no room, or it is not in the lent part.
    #[inline]
    pub fn lend(&mut self, chunk: u32) -> bool {
        let lies = u64::from(chunk) < self.lent && chunk.is_multiple_of(self.chunk);
        if !lies || self.fill.room(1) == 0 {
            return false;
        }
        self.fill.push(chunk.into());
        true
    }

    /// The next frame; its chunk is the caller's again.
    #[inline]
    pub fn take(&mut self) -> Option<Received> {
        let frame = self.receive.pop()?;
        let chunk = frame.address & !(u64::from(self.chunk) - 1);
        let length = frame.length.min(self.chunk - LEAD);
        if frame.address != chunk + u64::from(LEAD) {
            self.straighten(frame.address, chunk, length);
        }
        Some(Received {
            chunk: chunk as u32,
            length,
        })
    }

    /// Moves a frame of a card that does not write at the kernel's usual offset.
    #[cold]
    fn straighten(&self, from: u64, chunk: u64, length: u32) {
        let area = &self.shared.area;
        let place = |start: u64| area.place(start as usize, length as usize, 1);
        if let (Some(from), Some(onto)) = (place(from), place(chunk + u64::from(LEAD))) {
            // SAFETY: both lie within the area; the kernel has given the chunk to us. They may overlap.
            unsafe { std::ptr::copy(from.as_ptr(), onto.as_ptr(), length as usize) };
        }
    }

    /// Publishes to the kernel what was lent and taken, after a batch. A system call only if the kernel asks
    /// for one.
    #[inline]
    pub fn settle(&mut self) {
        self.receive.release();
        if self.fill.publish() && self.fill.wants_call() {
            // Receives no bytes: this only makes the kernel look at its ring.
            let _ = recv(&self.shared.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Frames that were lost so far because no chunk was lent or the ring was full: a system call.
    #[must_use]
    pub fn missed(&self) -> u64 {
        // Old kernels know only the first half.
        sockopt::xdp_statistics(&self.shared.socket).map_or(0, |found| {
            found.rx_dropped + found.rx_ring_full.unwrap_or(0)
        })
    }

    /// Whether the card itself writes into the area, and the kernel copies nothing.
    #[must_use]
    pub fn is_without_copy(&self) -> bool {
        sockopt::xdp_options(&self.shared.socket)
            .is_ok_and(|found| found.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }
}

impl AsFd for XdpReceiver {
    /// Readable while untaken frames wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }
}
