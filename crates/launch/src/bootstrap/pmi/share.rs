//! Shared memory of ranks that inherited none: the lowest rank of a host makes it, the others fetch its
//! descriptor.
//!
//! ```text
//!   each rank:  binds a socket with a random abstract name ── card ──▶ launcher
//!   fence
//!   lowest:     makes the memory; answers who proves the key with the descriptor
//!   others:     connect to the name on the lowest one's card, show the key, receive
//! ```
//!
//! The name is in no file system and disappears with the socket; only processes of the same network namespace can reach
//! it, which defines a *host* here. A connecting process must run as the same user, by the kernel's word, and know the
//! job's key; all others are dropped, and a slow one delays no other. If too many have not shown the key,
//! [`EvictionPolicy`] says which is closed. The listening process must run as the same user too, before the key is shown
//! to it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use weft_sys::passing;
use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::socket::NotAccepted;
use weft_sys::{process, random};

use super::super::BootstrapError;
use super::super::abstract_socket::{self, runs_as_us};
use super::watch::Neighbour;
use weft_secure::{EvictionPolicy, Key, SILENT, Source};

use crate::hex::hex;

/// How long the ranks of a host wait for each other at most. All of them have passed a fence: who is
/// not here after that has died, and the launcher is about to end the job.
const PATIENCE: Duration = Duration::from_secs(30);
/// Descriptors of what the ranks of a host have in common: its memory, and a pipe that closes when all of them have ended.
pub const COMMON: usize = 3;
/// How many are let in at a time.
const BATCH: usize = 64;
/// How long nobody is let in when no descriptor is left, and none that a stranger holds.
const REST: Duration = Duration::from_millis(100);

/// A socket over which the other ranks of this host fetch the memory.
#[derive(Debug)]
pub struct SegmentListener {
    socket: OwnedFd,
    /// Its abstract name.
    name: String,
}

impl SegmentListener {
    /// Opens one under a name that cannot be guessed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> io::Result<Self> {
        let name = format!("weft-{}", hex(&random::bytes::<16>()?));
        let socket = abstract_socket::listen(&name)?;
        Ok(Self { socket, name })
    }

    /// The name by which the other ranks find it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands the host's shared descriptors to this many other ranks, each of which knows the key. Meanwhile the launcher
    /// says nothing.
    ///
    /// # Errors
    /// If they do not come, the launcher is gone, or the kernel refuses.
    pub fn hand_out(
        self,
        common: &[OwnedFd; COMMON],
        key: &Key,
        others: u32,
        launcher: Option<BorrowedFd<'_>>,
    ) -> Result<Vec<Neighbour>, BootstrapError> {
        let deadline = Instant::now() + PATIENCE;
        let mut candidates = Candidates {
            common: common.each_ref().map(OwnedFd::as_fd),
            key,
            waiting: Vec::new(),
            next: 0,
            eviction: EvictionPolicy::new(),
            served: Vec::new(),
        };
        let mut rests_until: Option<Instant> = None;
        // A listener has no end.
        let launcher = launcher.unwrap_or_else(|| self.socket.as_fd());
        while candidates.served.len() < others as usize {
            // A connection that waits keeps the listener readable, also while none can be accepted.
            let now = Instant::now();
            rests_until = rests_until.filter(|until| now < *until);
            let listening = match rests_until {
                None => Interest::Read,
                Some(_) => Interest::Nothing,
            };
            let mut entries = vec![
                PollFd::new(&self.socket, listening),
                PollFd::new(&launcher, Interest::Nothing),
            ];
            let waiting = candidates.waiting.iter();
            entries.extend(waiting.map(|(_, candidate)| PollFd::new(candidate, Interest::Read)));
            let until = rests_until.map_or(deadline, |until| until.min(deadline));
            let left = until.saturating_duration_since(now);
            poll::wait(&mut entries, Some(left)).map_err(system)?;
            if Instant::now() >= deadline {
                return Err(BootstrapError::new(format!(
                    "only {} of {others} other ranks of this host came for the shared memory \
                     within {} s: the others have ended, or are stopped; look at their output",
                    candidates.served.len(),
                    PATIENCE.as_secs()
                )));
            }
            if entries[1].ended() {
                return Err(launcher_gone());
            }
            let connecting = entries[0].readable();
            let ready: Vec<bool> = entries[2..].iter().map(PollFd::is_ready).collect();
            drop(entries);
            let waiting = std::mem::take(&mut candidates.waiting);
            for ((number, candidate), ready) in waiting.into_iter().zip(ready) {
                match ready {
                    true => candidates.hear(number, candidate),
                    false => candidates.waiting.push((number, candidate)),
                }
            }
            if connecting && !self.admit(&mut candidates, others as usize) {
                rests_until = Some(Instant::now() + REST);
            }
        }
        Ok(candidates.served)
    }

    /// Takes in those who run as our user. False: no descriptor is left for them.
    fn admit(&self, candidates: &mut Candidates<'_>, others: usize) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..BATCH {
            let candidate = match accept_with(&self.socket, flags) {
                Ok(candidate) => candidate,
                Err(error) => match NotAccepted::from_errno(error.raw_os_error()) {
                    NotAccepted::Nobody => return true,
                    NotAccepted::Lost => continue,
                    NotAccepted::Exhausted if candidates.drop_one() => continue,
                    NotAccepted::Exhausted => return false,
                },
            };
            if !runs_as_us(&candidate) {
                continue;
            }
            if candidates.waiting.len() >= SILENT.max(others) {
                candidates.drop_one();
            }
            candidates.next += 1;
            // The key is often here already.
            candidates.hear(candidates.next, candidate);
        }
        true
    }
}

/// Processes that have connected, and may be ranks of this host.
struct Candidates<'a> {
    common: [BorrowedFd<'a>; COMMON],
    key: &'a Key,
    /// Those without a key so far, in the order of their arrival.
    waiting: Vec<(u64, OwnedFd)>,
    next: u64,
    eviction: EvictionPolicy,
    /// The ranks that have got it.
    served: Vec<Neighbour>,
}

impl Candidates<'_> {
    /// Answers who has shown the key, drops who has shown another one, keeps who has shown none.
    fn hear(&mut self, number: u64, candidate: OwnedFd) {
        match shown(&candidate) {
            None => self.waiting.push((number, candidate)),
            Some(shown) => {
                let Some((key, rank)) = shown.split_last_chunk() else {
                    return;
                };
                if same(key, self.key.as_bytes())
                    && passing::send(&candidate, b"m", &self.common).is_ok()
                {
                    let rank = u32::from_le_bytes(*rank);
                    self.served.push(Neighbour::new(rank, candidate));
                }
            }
        }
    }

    /// Drops one of those who wait, after what it has shown was looked at. False: there is none.
    fn drop_one(&mut self) -> bool {
        self.waiting.sort_unstable_by_key(|(number, _)| *number);
        let numbers = self.waiting.iter().map(|(number, _)| *number);
        let all: Vec<_> = numbers.map(|number| (number, Source::LOCAL)).collect();
        let Some(victim) = self.eviction.victim(&all) else {
            return false;
        };
        let position = |waiting: &[(u64, OwnedFd)]| {
            let mut all = waiting.iter();
            all.position(|(number, _)| *number == victim)
        };
        if let Some(found) = position(&self.waiting) {
            let (number, candidate) = self.waiting.remove(found);
            self.hear(number, candidate);
        }
        if let Some(found) = position(&self.waiting) {
            self.waiting.remove(found);
        }
        true
    }
}

/// What a candidate has shown, the key and its rank; `None`: nothing so far.
fn shown(candidate: &OwnedFd) -> Option<Vec<u8>> {
    let mut shown = [0; Key::BYTES + size_of::<u32>() + 1];
    match recv(candidate, &mut shown[..], RecvFlags::empty()) {
        Ok((count, _)) => Some(shown[..count].to_vec()),
        Err(Errno::AGAIN | Errno::INTR) => None,
        // It is gone.
        Err(_) => Some(Vec::new()),
    }
}

/// Whether two texts are the same; how long that takes does not depend on where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let differing = pairs.fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

/// Fetches the host's shared descriptors from its lowest rank, whose listener has this name, as the rank `own`. Returns
/// them, and the connection to that rank.
///
/// # Errors
/// If it does not exist, runs as another user, or does not answer, or the launcher is gone.
pub fn fetch(
    name: &str,
    key: &Key,
    own: u32,
    launcher: Option<BorrowedFd<'_>>,
) -> Result<([OwnedFd; COMMON], OwnedFd), BootstrapError> {
    let deadline = Instant::now() + PATIENCE;
    let socket = loop {
        match abstract_socket::connect(name) {
            Ok(socket) => break socket,
            // Its queue is full, which only strangers can bring about: they will be dropped.
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                poll::wait(&mut [], Some(Duration::from_millis(1))).map_err(system)?;
            }
            Err(error) => return Err(system(error.into())),
        }
    };
    if !runs_as_us(&socket) {
        return Err(BootstrapError::new(format!(
            "the lowest rank of this host runs as another user than this one (user {}): start all \
             ranks of a job as one user",
            process::user()
        )));
    }
    let shown = [key.as_bytes(), &own.to_le_bytes()[..]].concat();
    passing::send(&socket, &shown, &[]).map_err(system)?;
    let mut entries = vec![PollFd::new(&socket, Interest::Read)];
    let launcher = launcher.iter();
    entries.extend(launcher.map(|launcher| PollFd::new(launcher, Interest::Nothing)));
    let left = deadline.saturating_duration_since(Instant::now());
    poll::wait(&mut entries, Some(left)).map_err(system)?;
    if entries.get(1).is_some_and(PollFd::ended) {
        return Err(launcher_gone());
    }
    let (_, found) = passing::receive(&socket, &mut [0; 8]).map_err(system)?;
    let common = found.try_into().map_err(|_| {
        system(io::Error::new(
            ErrorKind::UnexpectedEof,
            "it has closed the connection without an answer",
        ))
    })?;
    Ok((common, socket))
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
    use weft_sys::descriptor::{self, Carries, socket_pair};

    fn common(memory: &MemoryFile) -> [OwnedFd; COMMON] {
        let memory = memory.as_fd().try_clone_to_owned();
        let (ends, living) = descriptor::pipe().expect("descriptors are left");
        [memory.expect("descriptors are left"), ends, living]
    }

    #[test]
    fn only_a_process_that_knows_the_key_gets_the_memory() {
        let key = Key::random().expect("random");
        let other = Key::random().expect("random");
        let listener = SegmentListener::open().expect("sockets");
        let name = listener.name().to_owned();
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let (launcher, _other) = socket_pair(Carries::Bytes).expect("sockets");
        let launcher = Some(launcher.as_fd());
        thread::scope(|scope| {
            let _idle = abstract_socket::connect(&name).expect("listens");
            let (ours, theirs) = (key.clone(), common(&file));
            let lowest = scope.spawn(move || listener.hand_out(&theirs, &ours, 2, launcher));
            let refused = fetch(&name, &other, 1, launcher).expect_err("a wrong key");
            assert!(
                refused.to_string().contains("without an answer"),
                "{refused}"
            );
            let all: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| fetch(&name, &key, 1, launcher)))
                .collect();
            for fetched in all {
                let ([memory, ..], _) = fetched.join().expect("no panic").expect("the right key");
                assert!(MemoryFile::adopt(memory).is_ok());
            }
            lowest.join().expect("no panic").expect("all came");
        });
        assert!(fetch(&name, &key, 1, launcher).is_err(), "the name is gone");
    }

    /// As many ranks as a large host has, all of which have come before the lowest one looks.
    #[test]
    fn ranks_do_not_push_each_other_out() {
        const RANKS: u32 = 300;
        let key = Key::random().expect("random");
        let listener = SegmentListener::open().expect("sockets");
        let name = listener.name().to_owned();
        let (launcher, _other) = socket_pair(Carries::Bytes).expect("sockets");
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let come = || abstract_socket::connect(&name).expect("listens");
        // Some that show nothing, among them.
        let _silent: Vec<OwnedFd> = (0..40).map(|_| come()).collect();
        let ranks: Vec<OwnedFd> = (0..RANKS).map(|_| come()).collect();
        for socket in &ranks {
            let shown = [key.as_bytes(), &[0; 4][..]].concat();
            passing::send(socket, &shown, &[]).expect("there is room");
        }
        listener
            .hand_out(&common(&file), &key, RANKS, Some(launcher.as_fd()))
            .expect("all have come");
        for socket in ranks {
            let (_, found) = passing::receive(&socket, &mut [0; 8]).expect("an answer");
            assert_eq!(found.len(), COMMON);
        }
    }

    #[test]
    fn nobody_waits_for_others_without_a_launcher() {
        let key = Key::random().expect("random");
        let listener = SegmentListener::open().expect("sockets");
        let name = listener.name().to_owned();
        let file = MemoryFile::create("weft-test", 4096).expect("memory files exist here");
        let (launcher, other) = socket_pair(Carries::Bytes).expect("sockets");
        drop(other);
        let launcher = Some(launcher.as_fd());
        let begun = Instant::now();
        for error in [
            fetch(&name, &key, 1, launcher).expect_err("nobody answers"),
            listener
                .hand_out(&common(&file), &key, 1, launcher)
                .map(drop)
                .expect_err("nobody comes"),
        ] {
            assert!(error.to_string().contains("launcher has ended"), "{error}");
        }
        assert!(begun.elapsed() < PATIENCE, "it has waited all the same");
    }
}
