//! Notices: messages to peers, each a first message alone that needs no answer. They say that this process is
//! absent.
//!
//! ```text
//!   to be told ─► called at all its addresses ─► connected: the message ─► acknowledged by its kernel: told
//!                                            └─► refused, or too late: given up
//! ```
//!
//! All addresses are called, since one may lead to another process, which takes the message and ignores it.
//!
//! A peer that computes, or is absent itself, does not look at its listener, and this process is about to end, so a handshake might
//! never complete. The peer's kernel accepts a connection and its first bytes without the peer, keeps them after this process has ended,
//! and shows them at the peer's next look. The message proves the job's key. A stranger that saw the message may repeat it, which says
//! nothing new: an absent process stays absent.
//!
//! Nothing is watched: a thread that waits for notices asks again after a millisecond, as for
//! acknowledgements of kernels.

use std::collections::VecDeque;
use std::time::Duration;

use weft_sys::socket::SendSlice;

use super::handshakes::Handshakes;
use super::members::Members;
use crate::network::{Network, Stream};

/// For how long this process tries. A peer that was not told by then waits until this process ends.
pub const LIMIT: Duration = Duration::from_secs(3);

/// For how long the other addresses of a peer are tried after the message was taken at one, which may belong
/// to another process.
const GRACE: Duration = Duration::from_millis(300);

/// Most calls at a time: few compared with the descriptors that a process may have.
const AT_ONCE: usize = 64;

/// See the [module page](self).
pub struct Notices<S> {
    to_be_told: VecDeque<u32>,
    calls: Vec<Call<S>>,
    /// When all that is left is given up.
    until: u64,
}

/// A call of one address of a peer.
struct Call<S> {
    peer: u32,
    socket: S,
    /// The bytes to send once it is connected.
    rest: Option<Vec<u8>>,
    /// When it is given up.
    until: u64,
}

/// The outcome of a call.
enum Came {
    UnderWay,
    Told,
    ToNothing,
}

impl<S: Stream> Call<S> {
    fn advance(&mut self, message: impl FnOnce() -> Vec<u8>) -> Came {
        match self.try_to_advance(message) {
            Ok(true) => Came::Told,
            Ok(false) => Came::UnderWay,
            Err(_) => Came::ToNothing,
        }
    }

    fn try_to_advance(&mut self, message: impl FnOnce() -> Vec<u8>) -> std::io::Result<bool> {
        let is_connected = self.socket.is_connected()?;
        let rest = match &mut self.rest {
            // Broken: unacknowledged bytes stay unacknowledged.
            Some(_) if !is_connected => return Err(std::io::ErrorKind::NotConnected.into()),
            Some(rest) => rest,
            None if !is_connected => return Ok(false),
            empty => empty.insert(message()),
        };
        while !rest.is_empty() {
            match self.socket.send(&[SendSlice::Bytes(rest)])? {
                Some(count) => drop(rest.drain(..count)),
                None => return Ok(false),
            }
        }
        Ok(self.socket.unacknowledged()? == 0)
    }
}

impl<S: Stream> Notices<S> {
    /// No peer has to be informed.
    pub fn new() -> Self {
        Self {
            to_be_told: VecDeque::new(),
            calls: Vec::new(),
            until: 0,
        }
    }

    /// Whether no peer has to be informed, or none can be.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.to_be_told.is_empty() && self.calls.is_empty()
    }

    /// Adds a peer that is to be told, until this time.
    pub fn add(&mut self, peer: u32, until: u64) {
        self.until = until;
        self.to_be_told.push_back(peer);
    }

    /// Advances the call. Returns whether it is over.
    pub fn advance<N: Network<Stream = S>>(
        &mut self,
        network: &N,
        members: &Members,
        handshakes: &Handshakes<N>,
        patience: Duration,
    ) -> bool {
        let now = network.now();
        if now >= self.until {
            self.to_be_told.clear();
        }
        let mut told = Vec::new();
        self.calls.retain_mut(|call| {
            let peer = (call.peer, members.incarnation(call.peer));
            match call.advance(|| handshakes.notice(peer)) {
                Came::UnderWay => now < call.until,
                Came::ToNothing => false,
                Came::Told => {
                    told.push(call.peer);
                    false
                }
            }
        });
        let grace = network.after(GRACE);
        for call in &mut self.calls {
            if told.contains(&call.peer) {
                call.until = call.until.min(grace);
            }
        }
        while self.calls.len() < AT_ONCE
            && let Some(peer) = self.to_be_told.pop_front()
        {
            for offer in members.addresses().of(peer) {
                // A call refused at once fails like one refused later.
                if let Ok(socket) = network.connect(&offer.address, patience) {
                    self.calls.push(Call {
                        peer,
                        socket,
                        rest: None,
                        until: self.until,
                    });
                }
            }
        }
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use weft_fabric::Region;

    use super::*;

    /// A stream whose other side takes and acknowledges as the test says.
    struct Scripted {
        connected: Cell<bool>,
        broken: Cell<bool>,
        room: Cell<usize>,
        unacknowledged: Cell<usize>,
    }

    impl Stream for Scripted {
        fn send(&self, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>> {
            let SendSlice::Bytes(bytes) = parts[0] else {
                unreachable!("bytes of its own")
            };
            let taken = bytes.len().min(self.room.get());
            self.unacknowledged.set(self.unacknowledged.get() + taken);
            Ok((taken > 0).then_some(taken))
        }

        fn receive(&self, _: Region, _: &mut [u8]) -> io::Result<Option<usize>> {
            unreachable!("nobody answers")
        }

        fn unacknowledged(&self) -> io::Result<usize> {
            Ok(self.unacknowledged.get())
        }

        fn acknowledge(&self) {
            unreachable!("nobody answers")
        }

        fn fit(&self) {}

        fn is_connected(&self) -> io::Result<bool> {
            match self.broken.get() {
                true => Err(io::ErrorKind::ConnectionReset.into()),
                false => Ok(self.connected.get()),
            }
        }
    }

    fn call() -> Call<Scripted> {
        Call {
            peer: 0,
            socket: Scripted {
                connected: Cell::new(false),
                broken: Cell::new(false),
                room: Cell::new(0),
                unacknowledged: Cell::new(0),
            },
            rest: None,
            until: 0,
        }
    }

    fn advance(call: &mut Call<Scripted>) -> Came {
        call.advance(|| vec![7; 10])
    }

    #[test]
    fn who_has_acknowledged_all_is_told() {
        let mut call = call();
        assert!(matches!(advance(&mut call), Came::UnderWay) && call.rest.is_none());
        call.socket.connected.set(true);
        assert!(matches!(advance(&mut call), Came::UnderWay));
        call.socket.room.set(4);
        assert!(matches!(advance(&mut call), Came::UnderWay));
        assert_eq!(call.socket.unacknowledged.get(), 10, "in three pieces");
        call.socket.unacknowledged.set(1);
        assert!(matches!(advance(&mut call), Came::UnderWay));
        call.socket.unacknowledged.set(0);
        assert!(matches!(advance(&mut call), Came::Told));
    }

    #[test]
    fn who_ends_before_it_has_is_not_waited_for() {
        for has_closed in [false, true] {
            let mut call = call();
            call.socket.connected.set(true);
            call.socket.room.set(10);
            assert!(matches!(advance(&mut call), Came::UnderWay));
            // The kernel reports a reset once, and has no other side to name from then on.
            call.socket.broken.set(!has_closed);
            call.socket.connected.set(false);
            assert!(matches!(advance(&mut call), Came::ToNothing));
        }
    }
}
