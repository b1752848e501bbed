//! The face of Weft: the library and the command.

/// Sockets of a program that is a client of a shared network card (`weft net`).
pub mod net {
    pub use weft_net::socket::{Network, TcpStream, UdpSocket};
}
