//! Watch: the ranks of one host watch each other, if the launcher does not report a death.
//!
//! ```text
//!   lowest rank ── socket ── each other rank of the host     (those over which the memory was fetched)
//!        └── watches all of them                └── the second lowest watches the lowest
//! ```
//!
//! `srun` leaves the others waiting for a rank that was killed; `hydra` does not, and there is no watch under it. So a
//! thread of the lowest rank waits for the ends of the others, and one of the second lowest for that of the lowest; all
//! others do nothing. A rank that finalises says goodbye before. If one ends without it, the thread reports it by name
//! and has the launcher end the job.
//!
//! The loss of a rank that is alone on its host is detected by another host: [`calls`](super::super::calls).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::ProcessHandle;
use weft_sys::{passing, signal};

use super::super::hosts::name_of_this_host;

/// How long `srun` needs to pass on what a rank has said. It ends a step without reading the rest.
const PASSING_ON: Duration = Duration::from_millis(100);

/// Waits until the readers of this process's last output have it: the launcher is about to end the process.
pub fn wait_for_output_readers() {
    let _ = poll::wait(&mut [], Some(PASSING_ON));
}

/// The message before an orderly end.
const GOODBYE: &[u8] = b"g";

/// Another rank of this host.
#[derive(Debug)]
pub struct Neighbour {
    rank: u32,
    socket: OwnedFd,
    /// Its process, where that can be told: what it has forked may hold its end of the socket open.
    process: Option<ProcessHandle>,
}

impl Neighbour {
    /// The rank at the other end of this socket.
    pub fn new(rank: u32, socket: OwnedFd) -> Self {
        let process = passing::peer_process(&socket).ok();
        Self {
            rank,
            socket,
            process,
        }
    }

    /// Says goodbye to it. One that is gone does not hear it.
    fn part(&self) {
        let _ = send(
            &self.socket,
            GOODBYE,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
    }

    /// Whether it has said goodbye; `None` if it has said nothing.
    fn heard(&self) -> Option<bool> {
        let receive = || recv(&self.socket, &mut [0; 4][..], RecvFlags::DONTWAIT);
        let received = match receive() {
            // It has ended with something unread, which the kernel says before it gives what was said to us.
            Err(rustix::io::Errno::CONNRESET) => receive(),
            received => received,
        };
        match received {
            Ok((1.., _)) => Some(true),
            Ok(_) => Some(false),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Err(_) => Some(false),
        }
    }
}

/// Says goodbye to all of them.
pub fn part(neighbours: &[Neighbour]) {
    neighbours.iter().for_each(Neighbour::part);
}

/// Begins the watch of the rank with this number among those of its host: a thread, if it is one that watches. `end` is
/// called with the name of one that ends without goodbye: to report it and to have the launcher end the job, unless this
/// rank has finalised itself. The thread ends when all have said goodbye.
pub fn begin(
    neighbours: &Arc<Vec<Neighbour>>,
    local_rank: u32,
    end: impl FnOnce(&str) + Send + 'static,
) {
    // The lowest rank of a host watches all others there, the second lowest the lowest.
    if local_rank >= 2 || neighbours.is_empty() {
        return;
    }
    let neighbours = Arc::clone(neighbours);
    let host = name_of_this_host();
    let watch = move || {
        if let Some(rank) = first_lost(&neighbours) {
            end(&format!(
                "rank {rank} on host {host} has ended without MPI_Finalize; the job ends"
            ));
        }
    };
    // Without a thread it is as without a watch: a launcher that tells us will do.
    let _ = signal::spawn_without_signals("weft-watch", watch);
}

/// The first that ends without goodbye; `None` if all have said it, or nothing can be waited for.
fn first_lost(neighbours: &[Neighbour]) -> Option<u32> {
    let mut left: Vec<&Neighbour> = neighbours.iter().collect();
    while !left.is_empty() {
        let mut entries = Vec::with_capacity(2 * left.len());
        for neighbour in &left {
            entries.push(PollFd::new(&neighbour.socket, Interest::Read));
        }
        for neighbour in &left {
            if let Some(process) = &neighbour.process {
                entries.push(PollFd::new(process, Interest::Read));
            }
        }
        poll::wait(&mut entries, None).ok()?;
        let spoken: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
        drop(entries);
        let mut processes = spoken[left.len()..].iter();
        let mut still = Vec::with_capacity(left.len());
        for (neighbour, spoken) in left.iter().zip(&spoken) {
            let ended = neighbour.process.is_some() && processes.next() == Some(&true);
            // Messages from before the end count.
            match (*spoken || ended).then(|| neighbour.heard()).flatten() {
                Some(true) => {}
                Some(false) => return Some(neighbour.rank),
                None if ended => return Some(neighbour.rank),
                None => still.push(*neighbour),
            }
        }
        left = still;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sys::descriptor::{Carries, socket_pair};

    fn pair(rank: u32) -> (Neighbour, OwnedFd) {
        let (ours, theirs) = socket_pair(Carries::Messages).expect("sockets");
        let neighbour = Neighbour {
            rank,
            socket: ours,
            process: None,
        };
        (neighbour, theirs)
    }

    #[test]
    fn a_rank_that_ends_without_a_goodbye_is_named() {
        let (one, with) = pair(1);
        let (two, without) = pair(2);
        let (three, alive) = pair(3);
        let there = Neighbour::new(0, with);
        part(std::slice::from_ref(&there));
        drop((there, without));
        assert_eq!(first_lost(&[one, two, three]), Some(2));
        drop(alive);
    }

    /// Both have said goodbye, and the other one has ended without reading ours.
    #[test]
    fn a_goodbye_is_heard_from_a_rank_that_has_not_read_ours() {
        let (one, other) = pair(1);
        let there = Neighbour::new(0, other);
        there.part();
        one.part();
        drop(there);
        assert_eq!(first_lost(&[one]), None);
    }

    #[test]
    fn no_rank_is_lost_when_all_have_said_goodbye() {
        let (one, other) = pair(1);
        part(&[Neighbour::new(0, other)]);
        assert_eq!(first_lost(&[one]), None);
    }
}
