//! Access to the frames of an interface: the best way that works, or the one that was asked for.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};
use weft_sys::interfaces::interfaces;
use weft_sys::netns::{self, NetworkNamespace};
use weft_sys::packet::{PacketSocket, interface_index};
use weft_sys::tap::TapDevice;
use weft_sys::xdp::XdpSocket;

use super::xdp::{XdpAccess, XdpPlug};
use super::{TapInterface, Veth};
use crate::description::WireDriver;

/// Access to an interface of the host by the system.
pub struct Access {
    method: AccessMethod,
    namespace: Option<NetworkNamespace>,
    /// The way of access, and why not a better one, for people.
    pub how: String,
}

enum AccessMethod {
    Packet(PacketSocket),
    Xdp(XdpAccess),
    Tap(TapDevice),
}

/// The access that a driver gets: one descriptor, and its kind.
#[derive(Debug)]
pub enum Plug {
    /// A packet socket.
    Packet(PacketSocket),
    /// An AF_XDP socket, to be bound.
    Xdp(XdpPlug),
    /// A TAP interface.
    Tap(TapDevice),
}

/// The kind of the descriptor of a [`Plug`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum PlugKind {
    /// A packet socket.
    Packet,
    /// An AF_XDP socket for the interface of this number.
    Xdp(u32),
    /// A TAP interface.
    Tap,
}

impl Plug {
    /// The kind and the descriptor, to be passed on.
    #[must_use]
    pub fn into_parts(self) -> (PlugKind, OwnedFd) {
        match self {
            Self::Packet(socket) => (PlugKind::Packet, socket.into_descriptor()),
            Self::Xdp(plug) => (PlugKind::Xdp(plug.interface), plug.socket.into_descriptor()),
            Self::Tap(device) => (PlugKind::Tap, device.into_descriptor()),
        }
    }

    /// A plug that was handed over.
    #[must_use]
    pub fn adopt(kind: PlugKind, descriptor: OwnedFd) -> Self {
        match kind {
            PlugKind::Packet => Self::Packet(PacketSocket::adopt(descriptor)),
            PlugKind::Xdp(interface) => Self::Xdp(XdpPlug {
                socket: XdpSocket::adopt(descriptor),
                interface,
            }),
            PlugKind::Tap => Self::Tap(TapDevice::adopt(descriptor)),
        }
    }
}

impl Access {
    /// Access to an interface of our network namespace, for a card of `buffers` buffers. Without `wish`:
    /// AF_XDP if it works and takes nothing from the host, packet sockets otherwise.
    ///
    /// # Errors
    /// If the wished way does not work, or none does; the error says why.
    pub fn to_interface(name: &str, wish: Option<WireDriver>, buffers: u32) -> io::Result<Self> {
        let reason = match wish {
            Some(WireDriver::Packet) => None,
            Some(WireDriver::Xdp) => return xdp(name, buffers),
            None => match address_of_host(name)? {
                Some(address) => Some(format!(
                    "AF_XDP would take every frame from the host, which has the address {address} \
                     there; write driver = \"xdp\" if it may"
                )),
                None => match xdp(name, buffers) {
                    Ok(access) => return Ok(access),
                    Err(error) => Some(error.to_string()),
                },
            },
        };
        Ok(Self {
            method: AccessMethod::Packet(PacketSocket::open(name)?),
            namespace: None,
            how: match reason {
                Some(reason) => format!("AF_PACKET ({reason})"),
                None => "AF_PACKET".into(),
            },
        })
    }

    /// Access to the driver's end of a veth.
    ///
    /// # Errors
    /// As [`to_interface`](Self::to_interface).
    pub fn to_veth(veth: &Veth, wish: Option<WireDriver>, buffers: u32) -> io::Result<Self> {
        let opened = veth
            .namespace
            .run(|| Self::to_interface(super::NEAR, wish, buffers))?;
        let descriptor = veth.namespace.as_fd().try_clone_to_owned()?;
        Ok(Self {
            namespace: Some(NetworkNamespace::adopt(descriptor)),
            ..opened
        })
    }

    /// Access to the driver's end of a TAP interface.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn to_tap(place: &TapInterface) -> io::Result<Self> {
        Ok(Self {
            method: AccessMethod::Tap(place.device.share()?),
            namespace: None,
            how: "TAP".into(),
        })
    }

    /// A plug for a driver; an earlier driver then gets no more frames.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn plug(&self) -> io::Result<Plug> {
        match &self.method {
            AccessMethod::Packet(socket) => Ok(Plug::Packet(socket.share()?)),
            AccessMethod::Tap(device) => Ok(Plug::Tap(device.share()?)),
            AccessMethod::Xdp(access) => match &self.namespace {
                Some(namespace) => namespace.run(|| access.plug()).map(Plug::Xdp),
                None => access.plug().map(Plug::Xdp),
            },
        }
    }

    /// The plug for a driver's sending half in a separate process. An AF_XDP socket belongs to one process,
    /// so that half then sends through a packet socket.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sending_plug(&self, interface: &str) -> io::Result<Plug> {
        match (&self.method, &self.namespace) {
            (AccessMethod::Xdp(_), Some(namespace)) => namespace
                .run(|| PacketSocket::open(interface))
                .map(Plug::Packet),
            (AccessMethod::Xdp(_), None) => PacketSocket::open(interface).map(Plug::Packet),
            _ => self.plug(),
        }
    }
}

fn xdp(name: &str, buffers: u32) -> io::Result<Access> {
    let queues = netns::receive_queues(name);
    if queues > 1 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "AF_XDP reads one queue, {name} spreads frames over {queues}: ethtool -L {name} combined 1"
            ),
        ));
    }
    let access = XdpAccess::open(interface_index(name)?, buffers)?;
    Ok(Access {
        how: access.describe(),
        method: AccessMethod::Xdp(access),
        namespace: None,
    })
}

/// An address of the host on an interface: if there is one, others read its frames, too.
fn address_of_host(name: &str) -> io::Result<Option<IpAddr>> {
    let all = interfaces()?;
    let here = |one: &&weft_sys::interfaces::Interface| one.name == name;
    Ok(all.iter().find(here).map(|one| one.address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn veth() -> Option<Veth> {
        Veth::create()
            .inspect_err(|why| eprintln!("left out: {why}"))
            .ok()
    }

    #[test]
    fn the_best_way_is_chosen_and_a_wish_is_followed() {
        let Some(veth) = veth() else { return };
        for (wish, word) in [
            (None, "AF_XDP"),
            (Some(WireDriver::Xdp), "AF_XDP"),
            (Some(WireDriver::Packet), "AF_PACKET"),
        ] {
            let access = Access::to_veth(&veth, wish, 64).expect("a veth can do both");
            assert!(access.how.starts_with(word), "{}", access.how);
        }
    }

    #[test]
    fn what_the_host_uses_is_not_taken_and_the_reason_is_said() {
        let Some(veth) = veth() else { return };
        let here = |wish| {
            veth.namespace
                .run(|| Access::to_interface(super::super::HOST, wish, 64))
        };
        let access = here(None).expect("packet sockets can");
        assert!(access.how.contains("10.77.0.1"), "{}", access.how);
        assert!(access.how.starts_with("AF_PACKET"), "{}", access.how);
        assert!(here(Some(WireDriver::Xdp)).is_ok(), "it was said");
    }

    #[test]
    fn an_interface_that_has_a_program_is_read_otherwise() {
        let Some(veth) = veth() else { return };
        let first = Access::to_veth(&veth, None, 64).expect("free");
        let second = Access::to_veth(&veth, None, 64).expect("packet sockets can");
        assert!(second.how.contains("XDP program"), "{}", second.how);
        assert!(Access::to_veth(&veth, Some(WireDriver::Xdp), 64).is_err());
        drop(first);
        assert!(Access::to_veth(&veth, Some(WireDriver::Xdp), 64).is_ok());
    }
}
