//! The network interfaces of this host and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::failed;

/// One address of one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name of the interface ("eth0").
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Whether it is up. The carrier is not checked: the kernel reports it up to a second late.
    pub up: bool,
    /// Whether it reaches this host alone.
    pub loopback: bool,
}

/// All interfaces, in the order of the kernel.
///
/// # Errors
/// If the kernel refuses to tell.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: on success `first` is a list that belongs to us until it is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(failed("getifaddrs", "list the network interfaces"));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an entry of the list, which lives until it is freed.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let Some(address) = address(entry.ifa_addr) else {
            continue;
        };
        // SAFETY: the name is a string of the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            address,
            up: has(libc::IFF_UP),
            loopback: has(libc::IFF_LOOPBACK),
        });
    }
    // SAFETY: the list of above, freed once; nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn address(socket: *const libc::sockaddr) -> Option<IpAddr> {
    if socket.is_null() {
        return None;
    }
    // SAFETY: an address of the kernel's list begins with its family.
    let family = unsafe { (*socket).sa_family };
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in.
            let inner = unsafe { *socket.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(inner.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6.
            let inner = unsafe { *socket.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(inner.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn loopback_is_there_and_known_as_such() {
        let found = super::interfaces().expect("the kernel tells");
        assert!(
            found
                .iter()
                .filter(|one| one.address.is_loopback())
                .all(|one| one.loopback),
            "{found:?}"
        );
    }
}
