//! Raw Ethernet frames through a packet socket (AF_PACKET), in batches.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::error::{Purpose, check, failed, last_errno, with_errno};
use crate::span::Region;

/// The largest number of frames in one call.
pub const BATCH: usize = 32;

/// A packet socket on one interface: receives every frame that arrives there, sends what it is given.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

/// The number of an interface in our network namespace.
///
/// # Errors
/// If there is none of this name.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let purpose = || format!("find the network interface {name}");
    if name.contains('\0') {
        return Err(with_errno("if_nametoindex", libc::EINVAL, purpose()));
    }
    let any = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    any.and_then(|any| name_to_index(any, name))
        .to("if_nametoindex", purpose)
}

impl PacketSocket {
    /// On an interface of our network namespace. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// If there is no such interface, or the privilege is missing.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = interface_index(interface)?;
        let purpose = || format!("open a packet socket on {interface} (needs CAP_NET_RAW)");
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // No protocol: nothing arrives before it is bound.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
        let socket = Self(made.to("socket", purpose)?);
        // Our own frames do not count as arriving; and there is no kernel queue between us and the device,
        // which would delay frames and hide drops.
        for (option, value) in [
            (libc::PACKET_IGNORE_OUTGOING, 1i32),
            (libc::PACKET_QDISC_BYPASS, 1),
        ] {
            socket.set(option, value)?;
        }
        // Bursts of a millisecond at several Gbit/s; a refusal only means a smaller buffer.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket.0, 4 << 20);
        // SAFETY: a sockaddr_ll of zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        // SAFETY: the kernel reads `address`, whose size is told.
        let bound = unsafe {
            libc::bind(
                socket.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        check(bound, "bind", purpose)?;
        Ok(socket)
    }

    /// A socket that was handed over.
    #[must_use]
    pub fn adopt(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// A second handle of the same socket.
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

    fn set(&self, option: i32, value: i32) -> io::Result<()> {
        // SAFETY: the kernel reads four bytes of `value`.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const value).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        check(set, "setsockopt", || {
            "set PACKET_IGNORE_OUTGOING or QDISC_BYPASS of a packet socket".into()
        })
        .map(drop)
    }

    /// Frames that were lost for lack of room since the last call: a system call.
    #[must_use]
    pub fn take_lost(&self) -> u64 {
        // Frames that came, frames that were dropped.
        let mut found = [0u32; 2];
        let mut length = size_of_val(&found) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `found`.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if got == 0 { found[1].into() } else { 0 }
    }

    /// Receives frames into the regions, one each, without waiting; returns their lengths. A frame longer
    /// than its region is cut.
    ///
    /// # Errors
    /// If the kernel refuses. An empty queue is not an error.
    pub fn receive(&self, into: &[Region], lengths: &mut [usize; BATCH]) -> io::Result<usize> {
        let (mut headers, _vectors) = messages(into);
        let count = into.len().min(BATCH);
        // SAFETY: the headers point to vectors that are kept, these to regions that are valid
        // for writes until this returns, as promised to `Region::new`.
        let received = unsafe {
            libc::recvmmsg(
                self.0.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(received) {
            Ok(received) => {
                for (length, header) in lengths.iter_mut().zip(&headers[..received]) {
                    *length = header.msg_len as usize;
                }
                Ok(received)
            }
            Err(_) if is_transient(last_errno()) => Ok(0),
            Err(_) => Err(failed("recvmmsg", "receive frames")),
        }
    }

    /// Sends frames, one each, without waiting; returns how many were sent.
    ///
    /// # Errors
    /// If the kernel refuses the first one for good, for instance because it is too long.
    pub fn send(&self, frames: &[Region]) -> io::Result<usize> {
        let (mut headers, _vectors) = messages(frames);
        let count = frames.len().min(BATCH);
        // SAFETY: the headers point to vectors that are kept, these to regions that are valid for reads until this
        // returns, as promised to `Region::new`.
        let sent = unsafe {
            libc::sendmmsg(
                self.0.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => Ok(sent),
            Err(_) if is_transient(last_errno()) => Ok(0),
            Err(_) => Err(failed("sendmmsg", "send a frame")),
        }
    }
}

/// Nothing there, no room, or the other end of a veth is down for the moment.
fn is_transient(errno: i32) -> bool {
    matches!(
        errno,
        libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENETDOWN | libc::ENOMEM
    )
}

type Vectors = Box<[libc::iovec; BATCH]>;

/// Headers for these regions; they point into the vectors.
fn messages(regions: &[Region]) -> ([libc::mmsghdr; BATCH], Vectors) {
    // SAFETY: iovec and mmsghdr of zeros are valid and empty.
    let mut vectors: Vectors = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for ((header, vector), region) in headers.iter_mut().zip(vectors.iter_mut()).zip(regions) {
        vector.iov_base = region.as_ptr().cast();
        vector.iov_len = region.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
    }
    (headers, vectors)
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = PacketSocket::open("weft-none").expect_err("no such interface");
        assert!(error.to_string().contains("weft-none"), "{error}");
        assert!(interface_index("lo").is_ok());
        assert!(interface_index("a\0b").is_err());
    }
}
