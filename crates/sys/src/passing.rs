//! Descriptor passing to another process over a local socket, and the identity of that process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::error::{Purpose, check, errno};
use crate::process::ProcessHandle;

/// Descriptors in one message at most (the kernel's limit is 253).
pub const MOST: usize = 64;

/// Room for the control part of a message with [`MOST`] descriptors, and somewhat more.
const CONTROL: usize = 512;

const _: () = assert!(MOST * size_of::<RawFd>() + 64 <= CONTROL);

/// Sends bytes (at least one) with descriptors. Returns how many bytes were sent, as for any socket; the
/// descriptors go with the first byte.
///
/// # Errors
/// If the peer is gone, more than [`MOST`] descriptors or no byte are given, or the kernel refuses.
pub fn send(socket: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if bytes.is_empty() || descriptors.len() > MOST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} descriptors with {} bytes: at most {MOST} can go along with at least one byte",
                descriptors.len(),
                bytes.len()
            ),
        ));
    }
    let mut memory = [MaybeUninit::uninit(); CONTROL];
    let mut control = SendAncillaryBuffer::new(&mut memory);
    if !descriptors.is_empty() {
        // It fits, see the assertion beside `CONTROL`.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        let parts = [IoSlice::new(bytes)];
        match sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => {
                return sent.to("sendmsg", || {
                    format!("send {} descriptors", descriptors.len())
                });
            }
        }
    }
}

/// Receives bytes and the descriptors that come with them, which close on `exec`. Zero bytes: the peer has
/// closed.
///
/// # Errors
/// If the kernel refuses, or more descriptors came than could be taken (none is kept then).
pub fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut memory = [MaybeUninit::uninit(); CONTROL];
    let mut control = RecvAncillaryBuffer::new(&mut memory);
    let message = loop {
        let mut parts = [IoSliceMut::new(bytes)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received.to("recvmsg", || "receive descriptors".into())?,
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            descriptors.extend(some);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} descriptors came and others were lost: raise the limit of open descriptors",
                descriptors.len()
            ),
        ));
    }
    Ok((message.bytes, descriptors))
}

/// The process at the other end of a local socket, according to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Its process, in our PID namespace; 0 if it has no number there.
    pub process: u32,
    /// Its effective user when it connected.
    pub user: u32,
    /// Its effective group when it connected.
    pub group: u32,
}

/// Asks the kernel who is at the other end.
///
/// # Errors
/// If it is not a local socket.
pub fn peer_credentials(socket: &impl AsFd) -> io::Result<Credentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `found`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    check(answer, "getsockopt", || {
        "ask who is at the other end".into()
    })?;
    Ok(Credentials {
        process: u32::try_from(found.pid).unwrap_or(0),
        user: found.uid,
        group: found.gid,
    })
}

/// A handle of the process that connected the other end, whoever holds that end now.
///
/// Kernels before 6.5 cannot get it from the socket: there the id from [`peer_credentials`] is opened, which
/// may name another process if the one that connected has ended.
///
/// # Errors
/// If it has ended, or cannot be identified from here.
pub fn peer_process(socket: &impl AsFd) -> io::Result<ProcessHandle> {
    let peer = peer_credentials(socket)?;
    match peer_descriptor(socket) {
        Ok(descriptor) => Ok(ProcessHandle::adopt(descriptor, peer.process)),
        Err(error) if errno(&error) == Some(libc::ENOPROTOOPT) => ProcessHandle::open(peer.process),
        Err(error) => Err(error),
    }
}

fn peer_descriptor(socket: &impl AsFd) -> io::Result<OwnedFd> {
    /// Not in every version of the bindings; the number is the same on all machines that we know.
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut found: RawFd = -1;
    let mut length = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `found`.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    check(answer, "getsockopt", || {
        "open a handle of the process at the other end".into()
    })?;
    // SAFETY: just made for us; it closes on exec by itself.
    Ok(unsafe { OwnedFd::from_raw_fd(found) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{Carries, pipe, socket_pair};
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn descriptors_arrive_and_work() {
        let (left, right) = socket_pair(Carries::Messages).expect("descriptors are left");
        let (reader, writer) = pipe().expect("descriptors are left");
        let sent = send(&left, b"two", &[reader.as_fd(), writer.as_fd()]).expect("sent");
        drop((reader, writer));
        let mut bytes = [0; 16];
        let (count, mut descriptors) = receive(&right, &mut bytes).expect("received");
        assert_eq!((sent, &bytes[..count]), (3, b"two".as_slice()));
        assert_eq!(descriptors.len(), 2);
        let writer = descriptors.pop().expect("the second");
        File::from(writer).write_all(b"through").expect("open");
        let mut heard = String::new();
        let reader = descriptors.pop().expect("the first");
        File::from(reader).read_to_string(&mut heard).expect("open");
        assert_eq!(heard, "through");
    }

    #[test]
    fn too_many_or_none_to_go_with_is_refused() {
        let (left, right) = socket_pair(Carries::Bytes).expect("descriptors are left");
        assert!(send(&left, b"", &[left.as_fd()]).is_err());
        assert!(send(&left, b"x", &[left.as_fd(); MOST + 1]).is_err());
        assert_eq!(send(&left, b"x", &[left.as_fd(); MOST]).ok(), Some(1));
        let (_, descriptors) = receive(&right, &mut [0; 1]).expect("received");
        assert_eq!(descriptors.len(), MOST);
        drop((left, descriptors));
        assert_eq!(receive(&right, &mut [0; 1]).expect("an end").0, 0);
    }

    #[test]
    fn the_peer_is_known() {
        let (left, _right) = socket_pair(Carries::Bytes).expect("descriptors are left");
        let peer = peer_credentials(&left).expect("a local socket");
        assert_eq!(peer.process, std::process::id());
        let process = peer_process(&left).expect("we live");
        assert_eq!(process.id(), std::process::id());
        let ended = process.wait_end(Some(std::time::Duration::ZERO));
        assert!(!ended.expect("polls"));
    }
}
