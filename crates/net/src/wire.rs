//! Wires: a network seen by the driver, as two rings of buffers, like those of a card.

mod access;
#[cfg(test)]
mod conformance;
mod device;
mod packet;
mod veth;
mod virtual_wire;
mod xdp;

pub use access::{Access, Plug, PlugKind};
pub use device::{DeviceRx, DeviceTx, TapInterface};
pub use packet::{PacketRx, PacketTx};
pub use veth::{HOST, NEAR, Veth};
pub use virtual_wire::{Far, Shape, VirtualRx, VirtualTx, virtual_wire};
pub use xdp::{XdpAccess, XdpPlug, XdpRx, XdpTx};

use std::os::fd::BorrowedFd;

use crate::buffers::Buffers;
use crate::queue::Descriptor;

/// Puts a region in the place of a client's former one. Waiting frames of the former one are made empty.
fn put_region<'f>(
    regions: &mut [Buffers],
    waiting: impl Iterator<Item = &'f mut Descriptor>,
    client: usize,
    region: Buffers,
) {
    for frame in waiting.filter(|frame| frame.client() == client) {
        frame.length = 0;
    }
    if let Some(place) = regions.get_mut(client) {
        *place = region;
    }
}

/// Time until a frame that found no room in the kernel is tried again, in nanoseconds: nothing announces
/// room.
const RETRY: u64 = 50_000;

/// Interval at which the kernel is asked for lost frames, in nanoseconds.
const ASK: u64 = 50_000_000;

/// The receiving half of a wire.
pub trait RxWire: Send {
    /// Lends an empty buffer to be filled; false if the wire takes no more now.
    fn supply(&mut self, offset: u32) -> bool;

    /// The next full buffer and the length of its frame.
    fn receive(&mut self, now: u64) -> Option<(u32, u16)>;

    /// Tells the card what has changed, after a batch.
    fn flush(&mut self) {}

    /// When something may arrive that no descriptor announces.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Readable when something has arrived.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Frames that were lost because there was no buffer.
    fn missed(&self) -> u64 {
        0
    }
}

/// The transmitting half of a wire.
pub trait TxWire: Send {
    /// Takes a frame to be sent; false if there is no room now.
    fn submit(&mut self, frame: Descriptor, now: u64) -> bool;

    /// A frame that has left: its buffer is free.
    fn completed(&mut self, now: u64) -> Option<Descriptor>;

    /// Sends what was submitted.
    fn flush(&mut self, now: u64);

    /// Frames of this client are sent from another region from now on. Frames that were submitted and have
    /// not left complete unsent, since their memory is replaced.
    fn replace(&mut self, client: usize, region: Buffers);

    /// When a frame will have left that no descriptor announces.
    fn deadline(&self) -> Option<u64> {
        None
    }
}
