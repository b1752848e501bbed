//! Wire ends: both halves of a driver's wire, or one of them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use weft_sys::packet::PacketSocket;
use weft_sys::tap::TapDevice;

use crate::buffers::Buffers;
use crate::wire::{
    DeviceRx, DeviceTx, Far, PacketRx, PacketTx, Plug, RxWire, Shape, TxWire, VirtualRx, VirtualTx,
    XdpPlug, XdpTx, virtual_wire,
};

/// The receiving half of a wire.
enum RxEnd {
    /// A virtual wire.
    Virtual(VirtualRx),
    /// Packet sockets on an interface.
    Packet(PacketSocket),
    /// An AF_XDP socket; binding it leaves the other half here.
    Xdp(XdpPlug, OtherHalf),
    /// A TAP interface.
    Device(TapDevice),
}

/// The transmitting half of an AF_XDP socket, once the receiving half is built.
type OtherHalf = Arc<Mutex<Option<XdpTx>>>;

/// The transmitting half of a wire.
enum TxEnd {
    /// A virtual wire.
    Virtual(VirtualTx),
    /// Packet sockets on an interface.
    Packet(PacketSocket),
    /// An AF_XDP socket that the receiving half has bound.
    Xdp(OtherHalf),
    /// A TAP interface.
    Device(TapDevice),
}

/// The wire of a driver, or of one of two drivers, not yet attached to buffers.
pub struct WireEnds {
    rx: Option<RxEnd>,
    tx: Option<TxEnd>,
}

impl WireEnds {
    /// A virtual wire with `far` at its far end.
    #[must_use]
    pub fn virtual_wire(shape: Shape, far: Box<dyn Far>) -> Self {
        let (rx, tx) = virtual_wire(shape, far);
        Self {
            rx: Some(RxEnd::Virtual(rx)),
            tx: Some(TxEnd::Virtual(tx)),
        }
    }

    /// An interface of the host.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn plug(plug: Plug) -> io::Result<Self> {
        let (rx, tx) = match plug {
            Plug::Packet(socket) => (RxEnd::Packet(socket.share()?), TxEnd::Packet(socket)),
            Plug::Tap(device) => (RxEnd::Device(device.share()?), TxEnd::Device(device)),
            Plug::Xdp(plug) => {
                let half = OtherHalf::default();
                (RxEnd::Xdp(plug, half.clone()), TxEnd::Xdp(half))
            }
        };
        Ok(Self {
            rx: Some(rx),
            tx: Some(tx),
        })
    }

    /// The receiving and the transmitting half, for two drivers.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let rx = Self {
            rx: self.rx,
            tx: None,
        };
        let tx = Self {
            rx: None,
            tx: self.tx,
        };
        (rx, tx)
    }

    /// The receiving half, attached to the card's region, which is mapped here.
    ///
    /// # Errors
    /// If there is no receiving half, or the region cannot be mapped or bound.
    pub(super) fn receiver(&mut self, card: OwnedFd) -> io::Result<Box<dyn RxWire>> {
        let mapped = |card| Buffers::adopt_card(card, true);
        Ok(match self.rx.take() {
            Some(RxEnd::Virtual(wire)) => Box::new(wire.attached(mapped(card)?)),
            Some(RxEnd::Packet(socket)) => Box::new(PacketRx::new(socket, mapped(card)?)),
            Some(RxEnd::Device(device)) => Box::new(DeviceRx::new(device, mapped(card)?)),
            Some(RxEnd::Xdp(plug, other)) => {
                let (rx, tx) = plug.bind(card)?;
                *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(tx);
                Box::new(rx)
            }
            None => {
                return Err(io::Error::other(
                    "this driver receives and got no wire to receive from",
                ));
            }
        })
    }

    /// The transmitting half, attached to the regions that frames are sent from, by client.
    ///
    /// # Errors
    /// If there is no transmitting half, or it is that of an AF_XDP socket whose receiving half is not built
    /// yet.
    pub(super) fn sender(&mut self, from: Vec<Buffers>) -> io::Result<Box<dyn TxWire>> {
        Ok(match self.tx.take() {
            Some(TxEnd::Virtual(wire)) => Box::new(wire.attached(from)),
            Some(TxEnd::Packet(socket)) => Box::new(PacketTx::new(socket, from)),
            Some(TxEnd::Device(device)) => Box::new(DeviceTx::new(device, from)),
            Some(TxEnd::Xdp(half)) => {
                let bound = half.lock().unwrap_or_else(PoisonError::into_inner).take();
                let bound = bound.ok_or_else(|| {
                    io::Error::other("the receiving half of an AF_XDP socket comes first")
                })?;
                Box::new(bound.attached(from))
            }
            None => {
                return Err(io::Error::other(
                    "this driver sends and got no wire to send to",
                ));
            }
        })
    }
}
