//! Abstract sockets of whole messages: their names are in no file system, are bound once, and disappear with the socket.
//! Only processes of the same network namespace reach them.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use weft_sys::{passing, process};

/// Connections that wait to be taken in.
const BACKLOG: i32 = 4096;

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Listens under a name, without waiting.
///
/// # Errors
/// `ADDRINUSE` if it has another socket; else if the kernel refuses.
pub fn listen(name: &str) -> Result<OwnedFd, Errno> {
    let socket = socket(SocketFlags::NONBLOCK)?;
    net::bind(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to a name.
///
/// # Errors
/// `CONNREFUSED` if no process listens there.
pub fn connect(name: &str) -> Result<OwnedFd, Errno> {
    let socket = socket(SocketFlags::empty())?;
    net::connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

/// Whether the process at the other end runs as the user of this one.
pub fn runs_as_us(socket: &OwnedFd) -> bool {
    passing::peer_credentials(socket).is_ok_and(|peer| peer.user == process::user())
}
