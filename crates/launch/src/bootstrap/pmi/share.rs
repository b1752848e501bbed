//! Shared memory among ranks that inherited nothing: the lowest rank of a host makes it, the others
//! fetch the descriptor.
//!
//! ```text
//!   each rank:  binds a socket with a random abstract name ── card ──▶ launcher
//!   fence
//!   lowest:     makes the memory; answers who proves the key with the descriptor
//!   others:     connect to the name on the lowest one's card, show the key, receive
//! ```
//!
//! The name stands in no file system and is gone with the socket; only processes of the same network
//! namespace can reach it, which is what makes a *host* here. Who connects must run as the same user, as
//! the kernel tells, and know the job's key; all others are dropped, and a slow one delays nobody. Who
//! listens must run as the same user too, before the key is shown to it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, socket_with,
};
use weft_sys::passing;
use weft_sys::poll::{self, Entry, Interest};
use weft_sys::{process, random};

use super::super::BootstrapError;
use weft_secure::Key;

use crate::hex::hex;

/// How long the ranks of a host wait for each other at most. All of them have passed a fence: who is
/// not here after that has died, and the launcher is about to end the job.
const PATIENCE: Duration = Duration::from_secs(30);
/// Strangers that may be connected at a time; more push out the oldest.
const STRANGERS: usize = 64;

/// A socket where others of this host may ask.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    /// Its abstract name.
    pub name: String,
}

fn messages() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

impl Door {
    /// Opens one under a name that cannot be guessed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> io::Result<Self> {
        let name = format!("weft-{}", hex(&random::bytes::<16>()?));
        let socket = messages()?;
        bind(&socket, &address(&name)?)?;
        listen(&socket, 4096)?;
        Ok(Self { socket, name })
    }

    /// Hands the memory to so many others, each of which knows the key. Meanwhile the launcher says nothing.
    ///
    /// # Errors
    /// If they do not come, the launcher is gone, or the kernel refuses.
    pub fn hand_out(
        self,
        memory: &impl AsFd,
        key: &Key,
        others: u32,
        launcher: &impl AsFd,
    ) -> Result<(), BootstrapError> {
        let deadline = Instant::now() + PATIENCE;
        let mut waiting: Vec<OwnedFd> = Vec::new();
        let mut served = 0;
        while served < others {
            let mut entries = vec![
                Entry::new(&self.socket, Interest::Read),
                Entry::new(launcher, Interest::Nothing),
            ];
            entries.extend(
                waiting
                    .iter()
                    .map(|guest| Entry::new(guest, Interest::Read)),
            );
            let left = deadline.saturating_duration_since(Instant::now());
            let found = poll::wait(&mut entries, Some(left)).map_err(system)?;
            if found == 0 {
                return Err(BootstrapError::new(format!(
                    "only {served} of {others} other ranks of this host came for the shared memory \
                     within {} s: the others have ended, or are stopped; look at their output",
                    PATIENCE.as_secs()
                )));
            }
            if entries[1].ended() {
                return Err(launcher_gone());
            }
            let knocks = entries[0].readable();
            let ready: Vec<bool> = entries[2..].iter().map(Entry::is_ready).collect();
            drop(entries);
            let mut index = 0;
            waiting.retain(|guest| {
                index += 1;
                if !ready[index - 1] {
                    return true;
                }
                if proves(guest, key) && passing::send(guest, b"m", &[memory.as_fd()]).is_ok() {
                    served += 1;
                }
                false
            });
            if knocks {
                self.admit(&mut waiting);
            }
        }
        Ok(())
    }

    /// Takes in those who run as our user.
    fn admit(&self, waiting: &mut Vec<OwnedFd>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(guest) = accept_with(&self.socket, flags) {
            if !runs_as_us(&guest) {
                continue;
            }
            if waiting.len() == STRANGERS {
                waiting.remove(0);
            }
            waiting.push(guest);
        }
    }
}

fn runs_as_us(socket: &OwnedFd) -> bool {
    passing::peer_credentials(socket).is_ok_and(|peer| peer.user == process::user())
}

fn proves(guest: &OwnedFd, key: &Key) -> bool {
    let mut shown = [0; Key::BYTES + 1];
    let flags = rustix::net::RecvFlags::empty();
    recv(guest, &mut shown[..], flags).is_ok_and(|(count, _)| same(&shown[..count], key.as_bytes()))
}

/// Whether two texts are the same; how long that takes does not depend on where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differing = pairs.fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// Fetches the memory from the lowest rank of this host, whose door has this name.
///
/// # Errors
/// If it is not there, runs as another user, or does not answer, or the launcher is gone.
pub fn fetch(name: &str, key: &Key, launcher: &impl AsFd) -> Result<OwnedFd, BootstrapError> {
    let socket = messages().map_err(system)?;
    let address = address(name).map_err(system)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            // Its queue is full, which only strangers can bring about: they will be dropped.
            Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => {
                poll::wait(&mut [], Some(Duration::from_millis(1))).map_err(system)?;
            }
            Err(error) => return Err(system(error.into())),
        }
    }
    if !runs_as_us(&socket) {
        return Err(BootstrapError::new(format!(
            "the lowest rank of this host runs as another user than this one (user {}): start all \
             ranks of a job as one user",
            process::user()
        )));
    }
    passing::send(&socket, key.as_bytes(), &[]).map_err(system)?;
    let mut entries = [
        Entry::new(&socket, Interest::Read),
        Entry::new(launcher, Interest::Nothing),
    ];
    let left = deadline.saturating_duration_since(Instant::now());
    poll::wait(&mut entries, Some(left)).map_err(system)?;
    if entries[1].ended() {
        return Err(launcher_gone());
    }
    let (_, mut found) = passing::receive(&socket, &mut [0; 8]).map_err(system)?;
    found.pop().ok_or_else(|| {
        system(io::Error::new(
            ErrorKind::UnexpectedEof,
            "it has closed the connection without an answer",
        ))
    })
}

fn launcher_gone() -> BootstrapError {
    BootstrapError::new(
        "the launcher has ended while the ranks of this host were meeting; its last lines say why",
    )
}

fn system(error: io::Error) -> BootstrapError {
    BootstrapError::new(format!(
        "the shared memory of the ranks of this host cannot be passed on: {error}; if the ranks run in \
         containers, let them share one, or start the program with Weft's mpiexec"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use weft_sys::MemoryFile;
    use weft_sys::descriptor::{Carries, socket_pair};

    #[test]
    fn who_knows_the_key_gets_the_memory_and_nobody_else() {
        let key = Key::random().expect("random");
        let other = Key::random().expect("random");
        let door = Door::open().expect("sockets");
        let name = door.name.clone();
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let (launcher, _other) = socket_pair(Carries::Bytes).expect("sockets");
        let launcher = &launcher;
        thread::scope(|scope| {
            let idle = messages().expect("sockets");
            connect(&idle, &address(&name).expect("a name")).expect("listens");
            let (ours, theirs) = (key.clone(), file.as_fd());
            let lowest = scope.spawn(move || door.hand_out(&theirs, &ours, 2, launcher));
            let refused = fetch(&name, &other, launcher).expect_err("a wrong key");
            assert!(
                refused.to_string().contains("without an answer"),
                "{refused}"
            );
            let all: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| fetch(&name, &key, launcher)))
                .collect();
            for fetched in all {
                let memory = fetched.join().expect("no panic").expect("the right key");
                assert!(MemoryFile::adopt(memory).is_ok());
            }
            lowest.join().expect("no panic").expect("all came");
        });
        assert!(fetch(&name, &key, launcher).is_err(), "the name is gone");
    }

    #[test]
    fn nobody_waits_for_others_without_a_launcher() {
        let key = Key::random().expect("random");
        let door = Door::open().expect("sockets");
        let name = door.name.clone();
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let (launcher, other) = socket_pair(Carries::Bytes).expect("sockets");
        drop(other);
        let begun = Instant::now();
        for error in [
            fetch(&name, &key, &launcher).expect_err("nobody answers"),
            door.hand_out(&file.as_fd(), &key, 1, &launcher)
                .expect_err("nobody comes"),
        ] {
            assert!(error.to_string().contains("launcher has ended"), "{error}");
        }
        assert!(begun.elapsed() < PATIENCE, "it has waited all the same");
    }
}
