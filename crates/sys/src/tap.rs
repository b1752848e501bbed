//! TAP: an interface whose other end is a descriptor: frames that the host sends to it are read here, frames
//! written here arrive there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::{Purpose, check, failed, last_errno, with_errno};
use crate::span::Region;

/// The other end of an interface that lives as long as somebody holds it.
#[derive(Debug)]
pub struct TapDevice(OwnedFd);

impl TapDevice {
    /// Creates an interface of this name in our network namespace. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If the privilege is missing, there is no `/dev/net/tun`, or an interface of this name exists.
    pub fn create(interface: &str) -> io::Result<Self> {
        let purpose =
            || format!("make the interface {interface} (needs CAP_NET_ADMIN and /dev/net/tun)");
        if interface.len() >= libc::IFNAMSIZ {
            return Err(with_errno("ioctl", libc::EINVAL, purpose()));
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open("/dev/net/tun", flags, Mode::empty());
        let device = Self(opened.to("open", purpose)?);
        // SAFETY: an ifreq of zeros is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        let kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = kind as libc::c_short;
        // SAFETY: the kernel reads and writes `request`.
        let made =
            unsafe { libc::ioctl(device.0.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        check(made, "ioctl", purpose)?;
        Ok(device)
    }

    /// One that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// A second handle of the same.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn share(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The descriptor, to be passed on.
    #[must_use]
    pub fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Receives one frame without waiting; returns its length, cut to the region. `None`: none is there.
    ///
    /// # Errors
    /// If the interface is gone or down.
    pub fn receive(&self, into: &Region) -> io::Result<Option<usize>> {
        // SAFETY: the region is valid for writes until this returns, as promised to `Region::new`.
        let read = unsafe { libc::read(self.0.as_raw_fd(), into.as_ptr().cast(), into.len()) };
        match usize::try_from(read) {
            Ok(length) => Ok(Some(length)),
            Err(_) if matches!(last_errno(), libc::EAGAIN | libc::EINTR) => Ok(None),
            Err(_) => Err(failed("read", "receive a frame from a TAP interface")),
        }
    }

    /// Sends one frame without waiting; false: there is no room now.
    ///
    /// # Errors
    /// If the kernel refuses this frame for good, or the interface is down.
    pub fn send(&self, frame: &Region) -> io::Result<bool> {
        // SAFETY: the region is valid for reads until this returns, as promised to `Region::new`.
        let sent = unsafe { libc::write(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        if sent >= 0 {
            return Ok(true);
        }
        match last_errno() {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM => Ok(false),
            _ => Err(failed("write", "send a frame to a TAP interface")),
        }
    }
}

impl AsFd for TapDevice {
    /// Readable while frames wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::NetworkNamespace;

    #[test]
    fn an_interface_is_made_and_gone_with_its_descriptor() {
        let Ok(namespace) = NetworkNamespace::create() else {
            return eprintln!("left out: no namespace can be made here");
        };
        let exists = || namespace.run(|| crate::packet::interface_index("weft-tap"));
        match namespace.run(|| TapDevice::create("weft-tap")) {
            Ok(device) => {
                assert!(exists().is_ok());
                assert!(namespace.run(|| TapDevice::create("weft-tap")).is_err());
                drop(device);
                // A child that another test starts holds the descriptor until its `exec`.
                let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
                while exists().is_ok() {
                    assert!(std::time::Instant::now() < end, "it is still there");
                    crate::cores::yield_core();
                }
            }
            Err(why) => assert!(why.to_string().contains("/dev/net/tun"), "{why}"),
        }
        assert!(TapDevice::create("a-name-that-is-too-long").is_err());
    }
}
