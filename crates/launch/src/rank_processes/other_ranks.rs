//! Other ranks of a host: those of another launcher, which come to this one when they first need it, each over a connection of
//! its own on which it shows the job's key and its rank.
//!
//! What comes is untrusted until then: only processes of the same user are let in, what shows anything else is dropped, and of
//! too many that show nothing the oldest goes.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use weft_secure::{Key, SILENT};
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::{descriptor, passing};

use crate::adoption::{AdoptedProcess, OtherRanks, shown_by};
use crate::bootstrap::runs_as_us;

/// How many are let in at a time.
const BATCH: usize = 64;
const SHOWN: usize = Key::BYTES + size_of::<u32>();

/// Where they come. See the [module page](self).
pub struct OtherRanksOfHost {
    /// The listener, the pipe that closes with the last of them, and those that have shown nothing so far, in order.
    sockets: Vec<OwnedFd>,
    key: Key,
}

const LISTENER: usize = 0;
const ENDS: usize = 1;
const FIRST: usize = 2;

impl OtherRanksOfHost {
    pub fn new(others: OtherRanks) -> io::Result<Self> {
        descriptor::set_nonblocking(&others.listener, true)?;
        Ok(Self {
            sockets: vec![others.listener, others.ends],
            key: others.key,
        })
    }

    /// Those to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter()
    }

    /// Whether all ranks of the host have ended.
    pub fn have_ended(&self) -> bool {
        let mut entries = [PollFd::new(&self.sockets[ENDS], Interest::Nothing)];
        poll::wait(&mut entries, Some(Duration::ZERO)).is_ok() && entries[0].ended()
    }

    /// Those that have come and shown the key.
    pub fn take(&mut self) -> Vec<AdoptedProcess> {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(&self.sockets[LISTENER], flags) else {
                break;
            };
            if !runs_as_us(&socket) {
                continue;
            }
            if self.sockets.len() >= FIRST + SILENT {
                self.sockets.remove(FIRST);
            }
            self.sockets.push(socket);
        }
        let mut come = Vec::new();
        for socket in self.sockets.split_off(FIRST) {
            let mut shown = [0; SHOWN + 1];
            match passing::receive(&socket, &mut shown) {
                Ok((count, lifeline)) => come.extend(self.admit(&shown[..count], socket, lifeline)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.sockets.push(socket),
                Err(_) => {}
            }
        }
        come
    }

    /// The rank at the other end; `None` if it is none.
    fn admit(
        &self,
        shown: &[u8],
        control: OwnedFd,
        lifeline: Vec<OwnedFd>,
    ) -> Option<AdoptedProcess> {
        let rank = shown.last_chunk().map(|rank| u32::from_le_bytes(*rank))?;
        let expected = shown_by(rank, &self.key);
        let [lifeline] = <[OwnedFd; 1]>::try_from(lifeline).ok()?;
        let process = passing::peer_process(&control).ok()?;
        is_same(shown, &expected).then_some(AdoptedProcess {
            process,
            rank,
            control,
            lifeline,
        })
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
    use std::os::fd::AsFd;

    use super::*;
    use weft_sys::descriptor::{Carries, socket_pair};

    #[test]
    fn who_shows_the_key_with_a_lifeline_is_a_rank_and_nobody_else() {
        let (listener, _other) = socket_pair(Carries::Messages).expect("descriptors are left");
        let (ends, living) = descriptor::pipe().expect("descriptors are left");
        let [key, wrong] = [(); 2].map(|()| Key::random().expect("random"));
        let others = OtherRanks {
            listener,
            key: key.clone(),
            ends,
        };
        let mut others = OtherRanksOfHost::new(others).expect("sockets");
        let mut come = |shown: &[u8], lifeline: bool| {
            let (ours, theirs) = socket_pair(Carries::Messages).expect("descriptors are left");
            descriptor::set_nonblocking(&theirs, true).expect("sockets");
            let (_reading, writing) = descriptor::pipe().expect("descriptors are left");
            let descriptors = if lifeline {
                vec![writing.as_fd()]
            } else {
                vec![]
            };
            if !shown.is_empty() {
                passing::send(&ours, shown, &descriptors).expect("there is room");
            }
            others.sockets.push(theirs);
            let ranks: Vec<u32> = others.take().iter().map(|found| found.rank).collect();
            (ranks, others.sockets.len() - FIRST)
        };
        let right = shown_by(7, &key);
        assert_eq!(come(&right, true), (vec![7], 0));
        assert_eq!(come(&right, false), (vec![], 0), "no lifeline");
        assert_eq!(come(&shown_by(7, &wrong), true), (vec![], 0), "another key");
        assert_eq!(come(&right[1..], true), (vec![], 0), "too short");
        assert_eq!(
            come(&[&right[..], &[0]].concat(), true),
            (vec![], 0),
            "too long"
        );
        assert_eq!(come(&[], true).0, [0; 0], "it says nothing, and closes");
        assert!(!others.have_ended());
        drop(living);
        assert!(others.have_ended());
    }
}
