//! Other ranks of a host: those of another launcher, which connect to this one when they first need it, each over a
//! [connection](KeyListener) of its own, with a lifeline.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use weft_sys::passing;
use weft_sys::poll::{self, Interest, PollFd};

use crate::adoption::{AdoptedProcess, OtherRanks};
use crate::bootstrap::key_listener::{Arrival, KeyListener};

/// Where they come. See the [module page](self).
pub struct OtherRanksOfHost {
    listener: KeyListener,
    /// Closes with the last of them.
    ends: OwnedFd,
}

impl OtherRanksOfHost {
    pub fn new(others: OtherRanks) -> io::Result<Self> {
        Ok(Self {
            listener: KeyListener::new(others.listener, others.key)?,
            ends: others.ends,
        })
    }

    /// Those to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.listener.sockets().chain([&self.ends])
    }

    /// Whether all ranks of the host have ended.
    pub fn have_ended(&self) -> bool {
        let mut entries = [PollFd::new(&self.ends, Interest::Nothing)];
        poll::wait(&mut entries, Some(Duration::ZERO)).is_ok() && entries[0].ended()
    }

    /// Those that have come.
    pub fn take(&mut self) -> Vec<AdoptedProcess> {
        self.listener.take().into_iter().filter_map(admit).collect()
    }
}

/// The rank that has come; `None` if it has brought no lifeline.
fn admit(came: Arrival) -> Option<AdoptedProcess> {
    let [lifeline] = <[OwnedFd; 1]>::try_from(came.descriptors).ok()?;
    Some(AdoptedProcess {
        process: passing::peer_process(&came.socket).ok()?,
        rank: came.rank,
        control: came.socket,
        lifeline,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_secure::Key;
    use weft_sys::descriptor::{self, Carries, socket_pair};

    #[test]
    fn an_adopted_rank_brings_a_lifeline() {
        for brought in [1, 0, 2] {
            let (_ours, socket) = socket_pair(Carries::Messages).expect("descriptors are left");
            let lifeline = || descriptor::pipe().expect("descriptors are left").1;
            let came = Arrival {
                rank: 7,
                socket,
                descriptors: std::iter::repeat_with(lifeline).take(brought).collect(),
            };
            let rank = admit(came).map(|process| process.rank);
            assert_eq!(rank, (brought == 1).then_some(7));
        }
    }

    #[test]
    fn the_end_of_the_last_one_shows() {
        let (listener, _other) = socket_pair(Carries::Messages).expect("descriptors are left");
        let (ends, living) = descriptor::pipe().expect("descriptors are left");
        let key = Key::random().expect("random");
        let others = OtherRanks {
            listener,
            key,
            ends,
        };
        let others = OtherRanksOfHost::new(others).expect("sockets");
        assert!(!others.have_ended());
        drop(living);
        assert!(others.have_ended());
    }
}
