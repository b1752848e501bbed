//! Key listener: the socket to which ranks of a host connect, at one of them or at a launcher, each by a connection of
//! its own on which it shows the job's key and its rank.
//!
//! A connection is untrusted until then: only processes of the same user are let in, a connection that sends anything
//! else is dropped, and of too many that send nothing the oldest is closed.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::net::{SocketFlags, accept_with};
use weft_secure::{Key, SILENT};
use weft_sys::{descriptor, passing};

use super::runs_as_us;

/// How many are let in at a time.
const BATCH: usize = 64;
const SHOWN: usize = Key::BYTES + size_of::<u32>();

/// The message that a rank shows.
pub fn shown_by(rank: u32, key: &Key) -> Vec<u8> {
    [key.as_bytes(), &rank.to_le_bytes()[..]].concat()
}

/// A rank that has come.
#[derive(Debug)]
pub struct Arrival {
    /// The rank, by its own word.
    pub rank: u32,
    /// Its connection; no thread waits on it.
    pub socket: OwnedFd,
    /// Descriptors that came with the key.
    pub descriptors: Vec<OwnedFd>,
}

/// The socket to which ranks connect. See the [module page](self).
#[derive(Debug)]
pub struct KeyListener {
    /// The listener, and those that have shown nothing so far, in order.
    sockets: Vec<OwnedFd>,
    key: Key,
}

const FIRST: usize = 1;

impl KeyListener {
    /// At this abstract socket, for processes that know the key.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(listener: OwnedFd, key: Key) -> io::Result<Self> {
        descriptor::set_nonblocking(&listener, true)?;
        let sockets = vec![listener];
        Ok(Self { sockets, key })
    }

    /// The sockets to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter()
    }

    /// The ranks that have connected and shown the key.
    pub fn take(&mut self) -> Vec<Arrival> {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.sockets[0], flags) else {
                break;
            };
            if runs_as_us(&socket) {
                self.let_in(socket);
            }
        }
        let mut come = Vec::new();
        for socket in self.sockets.split_off(FIRST) {
            let mut shown = [0; SHOWN + 1];
            match passing::receive(&socket, &mut shown) {
                Ok((count, descriptors)) => {
                    let rank = self.rank_of(&shown[..count]);
                    come.extend(rank.map(|rank| Arrival {
                        rank,
                        socket,
                        descriptors,
                    }));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.sockets.push(socket),
                Err(_) => {}
            }
        }
        come
    }

    fn let_in(&mut self, socket: OwnedFd) {
        if self.sockets.len() >= FIRST + SILENT {
            self.sockets.remove(FIRST);
        }
        self.sockets.push(socket);
    }

    /// The rank that has shown this; `None` if it is no rank of this job.
    fn rank_of(&self, shown: &[u8]) -> Option<u32> {
        let rank = shown.last_chunk().map(|rank| u32::from_le_bytes(*rank))?;
        is_same(shown, &shown_by(rank, &self.key)).then_some(rank)
    }
}

/// Whether two texts are the same; how long that takes does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differing = pairs.fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::descriptor::{Carries, socket_pair};

    #[test]
    fn only_a_process_that_shows_the_key_is_a_rank() {
        let (listener, _other) = socket_pair(Carries::Messages).expect("descriptors are left");
        let [key, wrong] = [(); 2].map(|()| Key::random().expect("random"));
        let mut listener = KeyListener::new(listener, key.clone()).expect("sockets");
        let mut come = |shown: &[u8]| {
            let (ours, theirs) = socket_pair(Carries::Messages).expect("descriptors are left");
            descriptor::set_nonblocking(&theirs, true).expect("sockets");
            if !shown.is_empty() {
                passing::send(&ours, shown, &[]).expect("there is room");
            }
            listener.let_in(theirs);
            let ranks: Vec<u32> = listener.take().iter().map(|found| found.rank).collect();
            let silent = listener.sockets.len() - FIRST;
            if shown.is_empty() {
                drop(ours);
                assert!(listener.take().is_empty() && listener.sockets.len() == FIRST);
            }
            (ranks, silent)
        };
        let right = shown_by(7, &key);
        assert_eq!(come(&right), (vec![7], 0));
        assert_eq!(come(&shown_by(7, &wrong)), (vec![], 0), "another key");
        assert_eq!(come(&right[1..]), (vec![], 0), "too short");
        assert_eq!(come(&[&right[..], &[0]].concat()), (vec![], 0), "too long");
        assert_eq!(come(&[]), (vec![], 1), "it says nothing, and closes");
    }
}
