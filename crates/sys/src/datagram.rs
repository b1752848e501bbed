//! Datagrams of UDP in batches: one system call for many.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};

use crate::error::{failed, last_errno};

/// The largest number of datagrams in one call.
pub const BATCH: usize = 32;

/// The largest number of bytes in one datagram.
pub const LARGEST: usize = 2048;

struct Memory {
    bytes: [[u8; LARGEST]; BATCH],
    lengths: [usize; BATCH],
    addresses: [libc::sockaddr_in; BATCH],
    vectors: [libc::iovec; BATCH],
    headers: [libc::mmsghdr; BATCH],
}

/// Memory for a batch, with all headers that the kernel needs.
///
/// The headers point into the same allocation, which neither moves nor is lent while a call runs.
pub struct Batch(Box<Memory>);

impl Batch {
    /// Memory for [`BATCH`] datagrams.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: numbers and pointers of zeros are valid.
        let mut memory: Box<Memory> = Box::new(unsafe { std::mem::zeroed() });
        let Memory {
            bytes,
            addresses,
            vectors,
            headers,
            ..
        } = &mut *memory;
        let parts = bytes.iter_mut().zip(addresses).zip(vectors).zip(headers);
        for (((bytes, address), vector), header) in parts {
            vector.iov_base = bytes.as_mut_ptr().cast();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
        }
        Self(memory)
    }

    /// Receives datagrams that have arrived, without waiting; returns how many.
    ///
    /// # Errors
    /// If the socket is broken, or an error of an earlier send is reported.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let memory = &mut *self.0;
        for (vector, header) in memory.vectors.iter_mut().zip(&mut memory.headers) {
            vector.iov_len = LARGEST;
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        // SAFETY: each header points to a vector and an address of `memory`, each vector to bytes of it,
        // with their sizes; `new` has set them up, and nothing of it has moved.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                memory.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            return match last_errno() {
                libc::EAGAIN | libc::EINTR => Ok(0),
                _ => Err(failed("recvmmsg", "receive datagrams")),
            };
        };
        for (length, header) in memory.lengths.iter_mut().zip(&memory.headers[..received]) {
            *length = (header.msg_len as usize).min(LARGEST);
        }
        Ok(received)
    }

    /// A datagram of the last [`receive`](Self::receive), and who sent it.
    ///
    /// # Panics
    /// If there is no such place.
    #[must_use]
    pub fn datagram(&self, place: usize) -> (&[u8], SocketAddrV4) {
        let address = &self.0.addresses[place];
        let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
        let from = SocketAddrV4::new(ip, u16::from_be(address.sin_port));
        (&self.0.bytes[place][..self.0.lengths[place]], from)
    }

    /// The memory for a datagram of this length that is to be sent from this place; cut if it is longer than
    /// [`LARGEST`].
    ///
    /// # Panics
    /// If there is no such place.
    pub fn prepare(&mut self, place: usize, length: usize) -> &mut [u8] {
        let length = length.min(LARGEST);
        self.0.lengths[place] = length;
        &mut self.0.bytes[place][..length]
    }

    /// Sends the first `count` prepared datagrams through a connected socket, without waiting; returns how
    /// many were sent.
    ///
    /// # Errors
    /// If the first one is refused for another reason than that there is no room.
    pub fn send(&mut self, socket: &impl AsFd, count: usize) -> io::Result<usize> {
        let count = count.min(BATCH);
        let memory = &mut *self.0;
        for (place, header) in memory.headers.iter_mut().enumerate().take(count) {
            memory.vectors[place].iov_len = memory.lengths[place];
            // Connected: the address is known.
            header.msg_hdr.msg_namelen = 0;
        }
        // SAFETY: as in `receive`; bytes are only read, and the addresses have no length.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_fd().as_raw_fd(),
                memory.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).or_else(|_| match last_errno() {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS => Ok(0),
            _ => Err(failed("sendmmsg", "send datagrams")),
        })
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_batch_arrives_as_it_was_sent() {
        let (one, other) = (
            UdpSocket::bind("127.0.0.1:0").expect("loopback"),
            UdpSocket::bind("127.0.0.1:0").expect("loopback"),
        );
        one.connect(other.local_addr().expect("bound"))
            .expect("connects");
        let (mut sending, mut receiving) = (Batch::new(), Batch::default());
        assert_eq!(receiving.receive(&other).expect("nothing is no error"), 0);
        for place in 0..5 {
            sending.prepare(place, 10 + place).fill(place as u8);
        }
        assert_eq!(sending.send(&one, 5).expect("there is room"), 5);
        let mut seen = 0;
        while seen < 5 {
            for place in 0..receiving.receive(&other).expect("receives") {
                let (bytes, from) = receiving.datagram(place);
                assert_eq!(bytes, vec![seen as u8; 10 + seen]);
                assert_eq!(one.local_addr().expect("bound"), from.into());
                seen += 1;
            }
        }
        assert_eq!(sending.prepare(0, LARGEST + 1).len(), LARGEST);
    }
}
