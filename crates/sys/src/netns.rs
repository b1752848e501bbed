//! Unnamed network namespaces: a namespace, with its interfaces, exists as long as somebody holds a
//! descriptor of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::{Purpose, check, with_errno};

/// A network namespace, kept alive by its descriptor.
#[derive(Debug)]
pub struct NetworkNamespace(OwnedFd);

impl NetworkNamespace {
    /// A new namespace with only a loopback, which is down. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// If the privilege is missing.
    pub fn create() -> io::Result<Self> {
        // A thread of its own moves into it: this one stays where it is.
        let made = std::thread::spawn(|| {
            // SAFETY: no descriptors are unshared, on which other code could rely; changes this thread only.
            let made = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            made.to("unshare", || {
                "make a network namespace (needs CAP_SYS_ADMIN)".into()
            })?;
            File::open("/proc/thread-self/ns/net").map(|file| Self(file.into()))
        });
        made.join().unwrap_or_else(|_| {
            Err(io::Error::other(
                "the thread that makes a namespace panicked",
            ))
        })
    }

    /// A namespace that was handed over, or opened under `/proc`.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Calls a function in a thread that lives in the namespace; what it opens or starts is there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the function's error.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                self.enter()?;
                act()
            });
            worker
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace panicked")))
        })
    }

    /// Moves the calling thread into the namespace. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// If the privilege is missing.
    pub fn enter(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(self.0.as_fd(), network).to("setns", || {
            "enter a network namespace (needs CAP_SYS_ADMIN)".into()
        })
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Asks about an interface of the caller's namespace, or changes it. `value`: the data that the request
/// contains or points to.
fn request(
    interface: &str,
    number: libc::c_ulong,
    purpose: impl Fn() -> String,
    fill: impl FnOnce(&mut libc::ifreq),
) -> io::Result<libc::ifreq> {
    if interface.len() >= libc::IFNAMSIZ {
        return Err(with_errno("ioctl", libc::ENODEV, purpose()));
    }
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .to("socket", &purpose)?;
    // SAFETY: an ifreq of zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    fill(&mut request);
    // SAFETY: `request` lives until the call returns, and so does what it points to: callers (three, all
    // in this file) keep that.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) };
    check(done, "ioctl", &purpose)?;
    Ok(request)
}

/// The request that reaches the settings of a card.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Makes an interface of the caller's namespace compute checksums before frames leave the host, and hence
/// also cut large segments: a reader then finds its frames as on a wire.
///
/// # Errors
/// If there is no such interface, or the privilege is missing.
pub fn disable_checksum_offload(interface: &str) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value {
        command: ETHTOOL_STXCSUM,
        data: 0,
    };
    let purpose = || format!("switch off the checksum offload of {interface}");
    request(interface, SIOCETHTOOL, purpose, |request| {
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
    })
    .map(drop)
}

/// How many receive queues an interface of the caller's namespace spreads frames over; 1 if its driver
/// does not say.
#[must_use]
pub fn receive_queues(interface: &str) -> u32 {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    // Command; most for receiving, sending, other, both; the same four as they are.
    let mut value = [0u32; 9];
    value[0] = ETHTOOL_GCHANNELS;
    let purpose = || format!("ask for the queues of {interface}");
    let asked = request(interface, SIOCETHTOOL, purpose, |request| {
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
    });
    match asked {
        Ok(_) => (value[5] + value[8]).max(1),
        Err(_) => 1,
    }
}

/// Switches an interface of the caller's namespace on.
///
/// # Errors
/// If there is no such interface, or the privilege is missing.
pub fn set_up(interface: &str) -> io::Result<()> {
    let purpose = || format!("switch the interface {interface} on (needs CAP_NET_ADMIN)");
    let known = request(interface, libc::SIOCGIFFLAGS, purpose, |_| {})?;
    // SAFETY: the kernel has just filled the flags.
    let flags = unsafe { known.ifr_ifru.ifru_flags };
    request(interface, libc::SIOCSIFFLAGS, purpose, |request| {
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = set_up("weft-none").expect_err("no such interface");
        assert!(error.to_string().contains("weft-none"), "{error}");
        assert!(disable_checksum_offload("a-name-that-is-too-long").is_err());
        assert_eq!(receive_queues("lo"), 1);
    }
}
