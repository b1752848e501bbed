//! Join listener: the port to which `weft join` connects.
//!
//! A connection is a candidate until it has proved the token: each has a short time for it, none delays another, and if
//! there are too many, [`EvictionPolicy`] says which is closed. When no descriptor is left, accepting pauses for a while.

use std::io;
use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weft_secure::{Channel, EvictionPolicy, Key, SILENT, Source};
use weft_sys::interfaces::{Interface, interfaces};
use weft_sys::poll::{Interest, PollFd};
use weft_sys::socket::NotAccepted;

use super::handshake::LinkHandshake;
use super::link::{Link, Streams};

/// How long somebody may take to prove the token.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that the kernel keeps until we look: at 10,000 a second for 400 ms.
const BACKLOG: i32 = 4096;
/// How many are let in at a time, before something else gets its turn.
const BATCH: usize = 64;
/// How long nobody is let in when no descriptor is left, and none that a stranger holds.
const REST: Duration = Duration::from_millis(100);

/// Somebody who has not proved the token.
#[derive(Debug)]
struct Candidate {
    /// In the order in which they came.
    number: u64,
    source: Source,
    handshake: LinkHandshake,
}

/// A port, and the candidates that have connected to it.
#[derive(Debug)]
pub struct JoinListener {
    listener: TcpListener,
    key: Key,
    /// Most members that may come at the same time.
    ranks: usize,
    /// Processes of this host connect by other means.
    refuses_this_host: bool,
    candidates: Vec<Candidate>,
    /// They have, in this turn.
    proved: Vec<(LinkHandshake, Channel)>,
    next: u64,
    eviction: EvictionPolicy,
    rests_until: Option<Instant>,
    turned_away: u64,
}

impl JoinListener {
    /// Listens there.
    ///
    /// # Errors
    /// If that is no address of this host, or the port is taken.
    pub fn open(listen: &str, key: Key, ranks: usize) -> io::Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "--listen {listen}: {error}; ADDRESS:PORT was expected, with an address of this \
                     host (0.0.0.0 and [::] mean all of them, port 0 any)"
                ),
            )
        };
        let addresses: Vec<_> = listen
            .to_socket_addrs()
            .map_err(|error| wrong(&error))?
            .collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(|error| wrong(&error))?;
        Self::over(listener, key, ranks)
    }

    /// Lets in at a port that is open already.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn over(listener: TcpListener, key: Key, ranks: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // A second time, with a longer queue than the standard library asks for.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Self {
            listener,
            key,
            ranks,
            refuses_this_host: false,
            candidates: Vec::new(),
            proved: Vec::new(),
            next: 0,
            eviction: EvictionPolicy::new(),
            rests_until: None,
            turned_away: 0,
        })
    }

    /// From now on turns away callers from this host, before they have sent anything.
    pub fn refuse_this_host(&mut self) {
        self.refuses_this_host = true;
    }

    /// Its address, with the port that was chosen.
    pub fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|_| "?".into(), |address| address.to_string())
    }

    /// How many were turned away.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// Counts one more that is turned away, although it has proved the token.
    pub fn note_turned_away(&mut self) {
        self.turned_away += 1;
    }

    /// The descriptors to wait for: first the port, then the candidates.
    pub fn entries(&self) -> impl Iterator<Item = PollFd<'_>> {
        // A connection that waits keeps it readable, also while none can be accepted.
        let interest = match self.rests_until {
            None => Interest::Read,
            Some(_) => Interest::Nothing,
        };
        let port = std::iter::once(PollFd::new(&self.listener, interest));
        port.chain(
            self.candidates
                .iter()
                .map(|candidate| candidate.handshake.reading()),
        )
    }

    /// When the time of a candidate, or a pause, ends.
    pub fn next_look(&self) -> Option<Instant> {
        let candidates = self
            .candidates
            .iter()
            .map(|candidate| candidate.handshake.deadline());
        candidates.chain(self.rests_until).min()
    }

    /// Continues with those that are ready (in the order of [`entries`](Self::entries)), and returns those that have
    /// proved the token.
    pub fn proceed(&mut self, ready: &[bool], now: Instant, silence: Duration) -> Vec<Link> {
        for (index, candidate) in std::mem::take(&mut self.candidates).into_iter().enumerate() {
            if ready.get(index + 1) == Some(&true) {
                self.hear(candidate, now);
            } else {
                self.keep(candidate, now);
            }
        }
        if self.rests_until.is_some_and(|until| now >= until) {
            self.rests_until = None;
        } else if ready.first() == Some(&true) {
            self.admit(now);
        }
        let proved = self.proved.drain(..);
        proved
            .map(|(handshake, channel)| handshake.link(channel, silence))
            .collect()
    }

    /// Goes on with a candidate as far as what it has said allows.
    fn hear(&mut self, mut candidate: Candidate, now: Instant) {
        match candidate.handshake.proceed() {
            Ok(Some(channel)) => self.proved.push((candidate.handshake, channel)),
            Ok(None) => self.keep(candidate, now),
            Err(_) => self.turned_away += 1,
        }
    }

    fn keep(&mut self, candidate: Candidate, now: Instant) {
        if now < candidate.handshake.deadline() {
            self.candidates.push(candidate);
        } else {
            self.turned_away += 1;
        }
    }

    fn admit(&mut self, now: Instant) {
        for _ in 0..BATCH {
            let (stream, from) = match self.listener.accept() {
                Ok(came) => came,
                Err(error) => match NotAccepted::from_error(&error) {
                    NotAccepted::Nobody => return,
                    NotAccepted::Lost => continue,
                    NotAccepted::Exhausted => {
                        if self.drop_one(false, now) || self.drop_one(true, now) {
                            continue;
                        }
                        self.rests_until = Some(now + REST);
                        return;
                    }
                },
            };
            if self.refuses_this_host && is_of_this_host(from.ip()) {
                self.turned_away += 1;
                continue;
            }
            if self.waiting(false).count() >= SILENT.max(self.ranks) {
                self.drop_one(false, now);
            }
            // Small messages, each of which somebody waits for.
            let _ = stream.set_nodelay(true);
            let begun = Streams::one(OwnedFd::from(stream))
                .map_err(Into::into)
                .and_then(|streams| LinkHandshake::expect(&self.key, streams, PATIENCE));
            let Ok(handshake) = begun else {
                self.turned_away += 1;
                continue;
            };
            self.next += 1;
            let candidate = Candidate {
                number: self.next,
                source: Source::of(from.ip()),
                handshake,
            };
            // Its first message is often here already.
            self.hear(candidate, now);
            if self.waiting(true).count() > SILENT + self.ranks {
                self.drop_one(true, now);
            }
        }
    }

    /// Those whose first message was answered, or was not.
    fn waiting(&self, answered: bool) -> impl Iterator<Item = &Candidate> {
        let candidates = self.candidates.iter();
        candidates.filter(move |candidate| candidate.handshake.is_answered() == answered)
    }

    /// Drops one of them, after what it has said was heard. False: all were heard, and none is left.
    fn drop_one(&mut self, answered: bool, now: Instant) -> bool {
        loop {
            let mut waiting: Vec<_> = self
                .waiting(answered)
                .map(|candidate| (candidate.number, candidate.source))
                .collect();
            waiting.sort_unstable_by_key(|(number, _)| *number);
            let Some(victim) = self.eviction.victim(&waiting) else {
                return false;
            };
            let position = |candidates: &[Candidate]| {
                candidates
                    .iter()
                    .position(|candidate| candidate.number == victim)
            };
            let Some(found) = position(&self.candidates) else {
                return false;
            };
            let candidate = self.candidates.swap_remove(found);
            self.hear(candidate, now);
            match position(&self.candidates) {
                Some(found) if self.candidates[found].handshake.is_answered() == answered => {
                    self.candidates.swap_remove(found);
                    self.turned_away += 1;
                    return true;
                }
                // It has come further.
                Some(_) => {}
                None => return true,
            }
        }
    }
}

/// Whether an address is one of this host's own. If the kernel does not say which those are, it is.
fn is_of_this_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is = |all: Vec<Interface>| all.iter().any(|one| one.address == address);
    address.is_loopback() || interfaces().map_or(true, is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;
    use weft_sys::poll;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_host_that_knows_the_token_joins_beside_any_number_of_strangers() {
        let key = Key::random().expect("random");
        let mut listener = JoinListener::open("127.0.0.1:0", key.clone(), 4).expect("a port");
        let address = listener.address();
        let mut strangers: Vec<TcpStream> = (0..SILENT + 20)
            .map(|_| TcpStream::connect(&address).expect("listens"))
            .collect();
        let _ = strangers[70].write_all(b"GET / HTTP/1.1\r\n\r\n");
        let _ = strangers[71].write_all(&[7; 4096]);
        let member = std::thread::spawn(move || {
            let stream = TcpStream::connect(address).expect("listens");
            LinkHandshake::begin(&key, Streams::one(stream.into())?, LONG)?.wait(LONG)
        });
        let mut met = Vec::new();
        while met.is_empty() {
            let mut entries: Vec<_> = listener.entries().collect();
            poll::wait(&mut entries, Some(LONG)).expect("polls");
            let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
            drop(entries);
            met = listener.proceed(&ready, Instant::now(), LONG);
        }
        assert!(member.join().expect("no panic").is_ok());
        assert!(listener.turned_away > 10);
    }

    /// Goes on until nobody is ready; answers who has come in, and how often it went round.
    fn attend(listener: &mut JoinListener, most: usize) -> (usize, usize) {
        let mut met = 0;
        for turn in 0..most {
            let mut entries: Vec<_> = listener.entries().collect();
            let found = poll::wait(&mut entries, Some(Duration::from_millis(50))).expect("polls");
            let ready: Vec<bool> = entries.iter().map(PollFd::is_ready).collect();
            drop(entries);
            met += listener.proceed(&ready, Instant::now(), LONG).len();
            if found == 0 {
                return (met, turn);
            }
        }
        (met, most)
    }

    /// Two hundred of a batch system at the same moment: all have said their first message, and then wait.
    #[test]
    fn members_do_not_push_each_other_out() {
        const MEMBERS: usize = 200;
        let key = Key::random().expect("random");
        let mut listener = JoinListener::open("127.0.0.1:0", key.clone(), 200).expect("a port");
        let address = listener.address();
        let mut members: Vec<LinkHandshake> = (0..MEMBERS)
            .map(|_| {
                let stream = TcpStream::connect(&address).expect("listens");
                let streams = Streams::one(stream.into()).expect("its mode is set");
                LinkHandshake::begin(&key, streams, LONG).expect("begins")
            })
            .collect();
        assert_eq!(attend(&mut listener, 1000).0, 0);
        let answers = members.iter_mut().map(LinkHandshake::proceed);
        let met = answers.filter(|answer| matches!(answer, Ok(Some(_))));
        assert_eq!(met.count(), MEMBERS);
        assert_eq!(attend(&mut listener, 1000).0, MEMBERS);
        assert_eq!(listener.turned_away, 0);
    }

    /// What this test program is told when it is started as a child of itself.
    const CHILD: &str = "WEFT_TEST_WITHOUT_DESCRIPTORS";

    /// In a process of its own: the limit is that of the whole process.
    #[test]
    fn without_descriptors_nobody_is_let_in_and_nothing_spins() {
        if std::env::var_os(CHILD).is_some() {
            return without_descriptors();
        }
        let test =
            "hosts::join_listener::tests::without_descriptors_nobody_is_let_in_and_nothing_spins";
        let us = std::env::current_exe().expect("this program");
        let child = std::process::Command::new(us)
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("starts");
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && said.contains("rested"), "{said}");
    }

    fn without_descriptors() {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let key = Key::random().expect("random");
        let mut listener = JoinListener::open("127.0.0.1:0", key.clone(), 4).expect("a port");
        let address = listener.address();
        let connect = || TcpStream::connect(&address).expect("listens");
        let waiting: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
        let mut few = getrlimit(Resource::Nofile);
        few.current = Some(64);
        setrlimit(Resource::Nofile, few).expect("less is allowed");
        let file = || std::fs::File::open("/dev/null").ok();
        let all: Vec<std::fs::File> = std::iter::from_fn(file).collect();
        let (met, turns) = attend(&mut listener, 10_000);
        assert_eq!(met, 0);
        assert!(turns < 100, "it went round {turns} times");
        assert!(listener.next_look().is_some(), "somebody has to come back");
        eprintln!("rested after {turns} turns");
        drop((all, waiting));
        let stream = connect();
        let member = std::thread::spawn(move || {
            LinkHandshake::begin(&key, Streams::one(stream.into())?, LONG)?.wait(LONG)
        });
        let came = (0..200).any(|_| attend(&mut listener, 1).0 == 1);
        assert!(came && member.join().expect("no panic").is_ok());
    }

    #[test]
    fn what_is_no_address_of_ours_is_refused() {
        let key = Key::random().expect("random");
        for listen in ["192.0.2.1:0", "7000"] {
            let error = JoinListener::open(listen, key.clone(), 4).expect_err(listen);
            assert!(error.to_string().contains("ADDRESS:PORT"), "{error}");
        }
    }
}
