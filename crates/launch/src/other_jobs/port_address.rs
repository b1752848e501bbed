//! Port address: the part of a port's name for other jobs: its owner and its address.
//!
//! ```text
//!   weft:JOB:OWNER:NUMBER : USER@HOST / KEY / PORT,ADDRESS,ADDRESS
//!                                       └── the door, if other hosts can come to it: a secret
//! ```
//!
//! A name fits the 256 bytes that programs of MPICH's ABI have for it.

use std::fmt;
use std::net::SocketAddr;

use weft_secure::Key;
use weft_sys::process;

use crate::bootstrap::name_of_this_host;
use crate::hosts::listen_addresses;

/// Longest name, without the zero behind it.
pub(super) const LONGEST: usize = 255;

/// Where a port is, and whose.
pub(super) struct PortAddress<'a> {
    pub user: u32,
    pub host: &'a str,
    pub door: Option<Door>,
}

/// Where other hosts come in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Door {
    /// The key that callers have to prove.
    pub key: Key,
    /// Best first.
    pub addresses: Vec<SocketAddr>,
}

impl<'a> PortAddress<'a> {
    /// That of a name; `None` if it says none.
    pub fn of(name: &'a str) -> Option<Self> {
        let (user, rest) = name.splitn(5, ':').nth(4)?.split_once('@')?;
        let (host, door) = match rest.split_once('/') {
            Some((host, door)) => (host, Some(Door::parse(door)?)),
            None => (rest, None),
        };
        let user = user.parse().ok()?;
        Some(Self { user, host, door })
    }
}

/// The name of this host, as a name of a port has it.
pub(super) fn this_host() -> String {
    name_of_this_host().replace([':', '/', '@'], "-")
}

/// What is said of a port that is `name` within its job.
pub(super) fn full_name(name: &str, door: Option<&Door>) -> String {
    let local = format!("{name}:{}@{}", process::user(), this_host());
    match door.and_then(|door| door.text(LONGEST.saturating_sub(local.len() + 1))) {
        Some(door) => format!("{local}/{door}"),
        None => local,
    }
}

impl Door {
    fn parse(text: &str) -> Option<Self> {
        let (key, addresses) = text.split_once('/')?;
        Some(Self {
            key: key.parse().ok()?,
            addresses: listen_addresses::parse(addresses)?,
        })
    }

    /// With as many addresses as fit; `None` if none does.
    fn text(&self, room: usize) -> Option<String> {
        let key = self.key.to_text();
        let addresses =
            listen_addresses::text(&self.addresses, room.saturating_sub(key.len() + 1))?;
        Some(format!("{key}/{addresses}"))
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Door({:?})", self.addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(addresses: &[&str]) -> Door {
        let whole = addresses
            .iter()
            .map(|one| SocketAddr::new(one.parse().expect("an address"), 4000));
        Door {
            key: Key::from_bytes([7; Key::BYTES]),
            addresses: whole.collect(),
        }
    }

    #[test]
    fn a_name_says_whose_it_is_and_where() {
        let port_address = PortAddress::of("weft:0a:3:7:1000@node-1").expect("entire");
        assert_eq!((port_address.user, port_address.host), (1000, "node-1"));
        assert!(port_address.door.is_none());
        for name in ["weft:0a:3:7", "weft:0a:3:7:", "weft:0a:3:7:x@y", ""] {
            assert!(PortAddress::of(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_door_survives_its_name_and_is_not_shown() {
        let door = door(&["10.0.0.1", "fe80::1", "2001:db8::2"]);
        let name = full_name("weft:0a:3:7", Some(&door));
        let port_address = PortAddress::of(&name).expect("entire");
        assert_eq!(port_address.door.as_ref(), Some(&door));
        assert!(!format!("{:?}", port_address.door).contains("0707"));
        for end in [
            "/",
            "/12",
            "/12/4000",
            "/12/4000,1.2.3.4",
            "/zz/4000,1.2.3.4",
        ] {
            assert!(
                PortAddress::of(&format!("weft:0a:3:7:0@a{end}")).is_none(),
                "{end}"
            );
        }
    }

    #[test]
    fn a_name_fits_whatever_addresses_there_are() {
        let long = "2001:db8:1111:2222:3333:4444:5555:6666";
        let name = full_name(
            "weft:0123456789abcdef:4095:1073741823",
            Some(&door(&[long; 9])),
        );
        assert!(name.len() <= LONGEST, "{name}");
        let port_address = PortAddress::of(&name).expect("entire");
        assert!(
            port_address
                .door
                .is_some_and(|door| !door.addresses.is_empty())
        );
    }
}
