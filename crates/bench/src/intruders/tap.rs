//! Tap: records traffic on this host's network from the first byte, as an attacker would.

use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, recv, socket_with, sockopt};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use weft_atomic::{AtomicBool, Ordering};

/// The kernel's number of IP version 4.
const IP: u16 = 0x0800;
/// TCP, as a packet names it.
const TCP: u8 = 6;
/// Flag of a segment that begins a connection.
const BEGINS: u8 = 0x02;
/// Bytes that are kept of each connection, and connections.
const KEPT: usize = 1024;
const MOST: usize = 10_000;
/// Packets that are read after the end.
const REST: usize = 100_000;

/// Records all connections that begin from now on.
pub(super) struct Tap {
    stops: Arc<AtomicBool>,
    thread: JoinHandle<Flows>,
}

/// The first bytes of each caller.
#[derive(Default)]
struct Flows(HashMap<(SocketAddrV4, SocketAddrV4), Flow>);

struct Flow {
    /// Number of its first byte.
    first: u32,
    /// The bytes from the first one, up to the first gap.
    said: Vec<u8>,
}

impl Tap {
    /// Begins.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW`.
    pub fn begin() -> Result<Tap> {
        let protocol = NonZeroU32::new(u32::from(IP.to_be())).map(Protocol::from_raw);
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, protocol)
            .context("a packet socket needs CAP_NET_RAW")?;
        let turn = Some(Duration::from_millis(20));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, turn)?;
        // A large buffer, as others use the network, too: nothing is lost while this thread does not run.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20);
        let stops = Arc::new(AtomicBool::new(false));
        let told = stops.clone();
        let thread = std::thread::spawn(move || listen(&socket, &told));
        Ok(Tap { stops, thread })
    }

    /// Ends; returns the first `bytes` bytes that were sent to one of these addresses.
    ///
    /// # Errors
    /// If nobody has sent that much there, or the thread that listens panicked.
    pub fn close(self, at: &[SocketAddr], bytes: usize) -> Result<Vec<u8>> {
        self.stops.store(true, Ordering::Relaxed);
        let flows = self.thread.join();
        let flows = flows.ok().context("the thread that overhears panicked")?;
        let of_target = |(ends, flow): (&(SocketAddrV4, SocketAddrV4), &Flow)| {
            let wanted = at.contains(&SocketAddr::V4(ends.1)) && flow.said.len() >= bytes;
            wanted.then(|| flow.said[..bytes].to_vec())
        };
        match flows.0.iter().find_map(of_target) {
            Some(said) => Ok(said),
            None => bail!(
                "nobody was overheard who said {bytes} bytes to {at:?}; {} connections were begun",
                flows.0.len()
            ),
        }
    }
}

fn listen(socket: &OwnedFd, stops: &AtomicBool) -> Flows {
    let mut flows = Flows::default();
    let mut packet = [0; 2048];
    let mut left = REST;
    while left > 0 {
        // A turn without a packet ends in an error: the flag is looked at again.
        match recv(socket, &mut packet[..], rustix::net::RecvFlags::empty()) {
            Ok((length, _)) => drop(flows.take(&packet[..length])),
            Err(_) if stops.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
        // Packets from before the end are still read, up to a limit, as packets never stop on a busy host.
        left -= usize::from(stops.load(Ordering::Relaxed));
    }
    flows
}

impl Flows {
    /// Adds the contents of a packet. Packets other than TCP are ignored; a packet may come twice.
    fn take(&mut self, packet: &[u8]) -> Option<()> {
        let header = usize::from(packet.first()? & 0x0f) * 4;
        let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        if packet[0] >> 4 != 4 || *packet.get(9)? != TCP {
            return None;
        }
        let address = |at: usize| -> Option<Ipv4Addr> {
            Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into())
        };
        let (from, to) = (address(12)?, address(16)?);
        // With large segments (offload) the header says 0.
        let end = if length == 0 {
            packet.len()
        } else {
            length.min(packet.len())
        };
        let segment = packet.get(header..end)?;
        let port = |at: usize| {
            Some(u16::from_be_bytes([
                *segment.get(at)?,
                *segment.get(at + 1)?,
            ]))
        };
        let ends = (
            SocketAddrV4::new(from, port(0)?),
            SocketAddrV4::new(to, port(2)?),
        );
        let number = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
        let data = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
        if segment.get(13)? & BEGINS != 0 {
            if self.0.len() < MOST {
                let first = number.wrapping_add(1);
                let said = Vec::new();
                self.0.insert(ends, Flow { first, said });
            }
            return Some(());
        }
        let flow = self.0.get_mut(&ends)?;
        let offset = number.wrapping_sub(flow.first) as usize;
        if offset == flow.said.len() && offset < KEPT {
            flow.said
                .extend_from_slice(&data[..data.len().min(KEPT - offset)]);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_is_said_is_overheard() {
        let Ok(tap) = Tap::begin() else {
            println!("skipped: a packet socket needs CAP_NET_RAW");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is left");
        let at = listener.local_addr().expect("bound");
        let mut caller = TcpStream::connect(at).expect("connects");
        caller.write_all(b"what was ").expect("writes");
        caller.write_all(b"once said in earnest").expect("writes");
        let found = tap.close(&[at], 20).expect("was overheard");
        assert_eq!(found, b"what was once said i");
    }

    #[test]
    fn what_is_no_segment_is_passed_over() {
        let mut flows = Flows::default();
        for length in 0..60 {
            let packet: Vec<u8> = (0..length).map(|index| 0x45 ^ index).collect();
            flows.take(&packet);
            let mut packet = vec![0xff; usize::from(length)];
            flows.take(&packet);
            packet.fill(0x46);
            flows.take(&packet);
        }
        assert!(flows.0.is_empty());
    }
}
