//! Network namespaces without a name: one lives as long as somebody holds a descriptor of it, and its
//! interfaces go with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{check, with_errno};

/// A network namespace, held.
#[derive(Debug)]
pub struct NetworkNamespace(OwnedFd);

impl NetworkNamespace {
    /// A fresh one with nothing but a loopback that is down. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// If the privilege is missing.
    pub fn create() -> io::Result<Self> {
        // A thread of its own moves into it: this one stays where it is.
        let made = std::thread::spawn(|| {
            // SAFETY: takes a number; changes this thread only.
            let made = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            check(made, "unshare", || {
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

    /// One that was handed over, or opened under `/proc`.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Calls a function in a thread that lives in the namespace; what it opens or starts is there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or what the function answers.
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
        // SAFETY: takes numbers; changes this thread only.
        let entered = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
        check(entered, "setns", || {
            "enter a network namespace (needs CAP_SYS_ADMIN)".into()
        })
        .map(drop)
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has an interface of the caller's namespace compute checksums before frames leave the host, and
/// hence cut large segments too: whoever reads its frames then finds them as on a wire.
///
/// # Errors
/// If there is no such interface, or the privilege is missing.
pub fn disable_checksum_offload(interface: &str) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let purpose = || format!("switch off the checksum offload of {interface}");
    if interface.len() >= libc::IFNAMSIZ {
        return Err(with_errno("ioctl", libc::ENODEV, purpose()));
    }
    // SAFETY: takes numbers only.
    let number = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(number, "socket", purpose)?;
    // SAFETY: just made for us.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let mut value = Value {
        command: ETHTOOL_STXCSUM,
        data: 0,
    };
    // SAFETY: an ifreq of zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` and the value that it points to live until the call returns.
    let set = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    check(set, "ioctl", purpose).map(drop)
}
