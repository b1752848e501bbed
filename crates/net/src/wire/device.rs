//! TAP: a wire that is a descriptor, whose other end is an interface of the host. It costs one system call
//! and one copy for each frame, and needs a privilege only to be made.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::Region;
use weft_sys::netns::NetworkNamespace;
use weft_sys::tap::TapDevice;

use super::veth::{HOST, prepare_far};
use super::{RETRY, RxWire, TxWire, put_region};
use crate::buffers::{Buffers, ROOM};
use crate::queue::Descriptor;

/// A TAP interface in an unnamed network namespace; the driver has its descriptor.
pub struct TapInterface {
    /// Where programs that talk to the clients run.
    pub namespace: NetworkNamespace,
    /// The driver's end.
    pub device: TapDevice,
}

impl TapInterface {
    /// Makes the interface. Needs CAP_SYS_ADMIN, CAP_NET_ADMIN and the program `ip`.
    ///
    /// # Errors
    /// If a privilege or the program is missing; it says which.
    pub fn create() -> io::Result<Self> {
        let namespace = NetworkNamespace::create()?;
        let device = namespace.run(|| {
            let device = TapDevice::create(HOST)?;
            prepare_far()?;
            Ok(device)
        })?;
        Ok(Self { namespace, device })
    }
}

/// The receiving half.
pub struct DeviceRx {
    device: TapDevice,
    card: Buffers,
    empty: Vec<u32>,
    most: usize,
}

impl DeviceRx {
    /// Receives into the buffers of this region.
    #[must_use]
    pub fn new(device: TapDevice, card: Buffers) -> Self {
        Self {
            most: card.count() as usize,
            device,
            card,
            empty: Vec::new(),
        }
    }
}

impl RxWire for DeviceRx {
    fn supply(&mut self, offset: u32) -> bool {
        if self.empty.len() >= self.most {
            return false;
        }
        self.empty.push(offset);
        true
    }

    fn receive(&mut self, _now: u64) -> Option<(u32, u16)> {
        let &offset = self.empty.last()?;
        let place = self.card.lend(offset, ROOM as usize)?;
        // An interface that is gone receives nothing: the broker handles that.
        let length = self.device.receive(&place).ok().flatten()?;
        self.empty.pop();
        Some((offset, length.min(ROOM as usize) as u16))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }
}

/// The transmitting half.
pub struct DeviceTx {
    device: TapDevice,
    regions: Vec<Buffers>,
    done: VecDeque<Descriptor>,
    retry: Option<u64>,
}

impl DeviceTx {
    /// Sends from these regions, named by the tags of descriptors.
    #[must_use]
    pub fn new(device: TapDevice, regions: Vec<Buffers>) -> Self {
        Self {
            device,
            regions,
            done: VecDeque::new(),
            retry: None,
        }
    }
}

impl TxWire for DeviceTx {
    fn submit(&mut self, frame: Descriptor, now: u64) -> bool {
        let lent = self
            .regions
            .get(frame.client())
            .and_then(|buffers| buffers.lend_readable(frame.offset, frame.length.into()));
        // A frame that the kernel refuses for good counts as sent.
        let gone = match lent.unwrap_or(Region::EMPTY) {
            empty if empty.is_empty() => true,
            frame => self.device.send(&frame).unwrap_or(true),
        };
        if gone {
            self.done.push_back(frame);
        }
        self.retry = (!gone).then_some(now + RETRY);
        gone
    }

    fn completed(&mut self, _now: u64) -> Option<Descriptor> {
        self.done.pop_front()
    }

    fn flush(&mut self, _now: u64) {}

    fn replace(&mut self, client: usize, region: Buffers) {
        // Nothing waits here: a frame is sent or refused at once.
        put_region(&mut self.regions, std::iter::empty(), client, region);
    }

    fn deadline(&self) -> Option<u64> {
        self.retry
    }
}
