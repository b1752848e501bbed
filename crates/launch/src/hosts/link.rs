//! Link between the head and an agent: sealed messages over any stream of bytes, without waiting.
//!
//! ```text
//!   u32 big endian   message          inside of sealed records (weft-secure)
//! ```
//!
//! Both sides send something at least every fifth of the agreed time; a side that is silent for all of it counts as dead.
//! While one side does not read, because its own output is blocked, it does not judge.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use weft_secure::{Channel, LENGTH, Opener, Sealer};
use weft_sys::descriptor;
use weft_sys::poll::{self, Interest, PollFd};

use super::message::{decode, encode};

/// Longest message in bytes: an assignment with the environments of several programs.
const LONGEST: usize = 16 << 20;
/// From so many unsent bytes on, nothing that can wait should be added.
const FULL: usize = 1 << 20;

/// Why a link is of no use any more.
#[derive(Debug)]
pub enum LinkError {
    /// The other side has closed it.
    Closed,
    /// It has not proved the key in time.
    Late,
    /// It has been silent for this long.
    Silent(Duration),
    /// It sent something that no member of the job sends.
    Broken(String),
    /// The system refuses.
    System(io::Error),
}

impl fmt::Display for LinkError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => out.write_str("the connection was closed"),
            Self::Silent(time) => write!(
                out,
                "nothing was heard for {} s (--heartbeat)",
                (time.as_secs_f64() * 10.0).round() / 10.0
            ),
            Self::Late => out.write_str("it has not proved the key of the job in time"),
            Self::Broken(what) => out.write_str(what),
            Self::System(error) => write!(out, "{error}"),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                Self::Closed
            }
            _ => Self::System(error),
        }
    }
}

/// The transport of a connection, without waiting: two streams, or one in both directions on one descriptor.
#[derive(Debug)]
pub struct Streams {
    input: File,
    /// `None`: `input` goes both ways.
    output: Option<File>,
}

impl Streams {
    /// One for each way.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn two(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        descriptor::set_nonblocking(&input, true)?;
        descriptor::set_nonblocking(&output, true)?;
        Ok(Self {
            input: File::from(input),
            output: Some(File::from(output)),
        })
    }

    /// A socket.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn one(socket: OwnedFd) -> io::Result<Self> {
        descriptor::set_nonblocking(&socket, true)?;
        Ok(Self {
            input: File::from(socket),
            output: None,
        })
    }

    fn output(&self) -> &File {
        self.output.as_ref().unwrap_or(&self.input)
    }

    /// To wait for something to read.
    pub fn reading(&self) -> PollFd<'_> {
        PollFd::new(&self.input, Interest::Read)
    }

    /// To wait for room to write.
    pub fn writing(&self) -> PollFd<'_> {
        PollFd::new(self.output(), Interest::Write)
    }
}

impl Read for Streams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Streams {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection whose sides have proved the key.
pub struct Link {
    streams: Streams,
    sealer: Sealer,
    opener: Opener,
    /// Sealed and not yet sent.
    unsent: Vec<u8>,
    /// Read and not yet opened.
    sealed: Vec<u8>,
    /// Opened and not yet taken.
    opened: Vec<u8>,
    /// Longest message that is taken, in bytes.
    longest: usize,
    /// After so long without a word the other side is dead.
    silence: Duration,
    heard: Instant,
    said: Instant,
}

impl Link {
    /// Between sides that have proved the key.
    pub fn new(channel: Channel, streams: Streams, silence: Duration) -> Self {
        let now = Instant::now();
        Self {
            streams,
            sealer: channel.sealer,
            opener: channel.opener,
            unsent: Vec::new(),
            sealed: Vec::new(),
            opened: Vec::new(),
            longest: LONGEST,
            silence,
            heard: now,
            said: now,
        }
    }

    /// Longest message that is taken from now on, in bytes.
    pub fn set_longest(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Sets the silence after which the other side counts as dead.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Says something; sent by [`flush`](Self::flush).
    pub fn say<M: Serialize>(&mut self, message: &M) {
        let message = encode(message);
        let length = (message.len() as u32).to_be_bytes();
        self.sealer.seal(&[&length, &message], &mut self.unsent);
        self.said = Instant::now();
    }

    /// Whether something waits to be sent.
    pub fn is_waiting(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether so much waits that nothing should be added that can wait.
    pub fn is_full(&self) -> bool {
        self.unsent.len() >= FULL
    }

    /// Sends what goes without waiting.
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        let mut sent = 0;
        let result = loop {
            if sent == self.unsent.len() {
                break Ok(());
            }
            match self.streams.write(&self.unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        self.unsent.drain(..sent);
        result
    }

    /// Reads what has arrived, a bounded part of it at a time. Messages are then taken by [`next`](Self::next).
    ///
    /// # Errors
    /// If the other side has closed, or what it sent was changed on the way.
    pub fn fill(&mut self) -> Result<(), LinkError> {
        let mut buffer = [0; 64 << 10];
        match self.streams.read(&mut buffer) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(count) => self.sealed.extend_from_slice(&buffer[..count]),
            Err(error) => {
                return match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(()),
                    _ => Err(error.into()),
                };
            }
        }
        self.heard = Instant::now();
        let mut done = 0;
        while let Some((length, rest)) = self.sealed[done..].split_first_chunk::<LENGTH>() {
            let Some(record) = rest.get(..usize::from(u16::from_be_bytes(*length))) else {
                break;
            };
            self.opener
                .open(record, &mut self.opened)
                .map_err(|error| LinkError::Broken(error.to_string()))?;
            done += LENGTH + record.len();
        }
        self.sealed.drain(..done);
        Ok(())
    }

    /// The next message that is here.
    ///
    /// # Errors
    /// If it is none.
    pub fn next<M: for<'a> Deserialize<'a>>(&mut self) -> Result<Option<M>, LinkError> {
        let Some((length, rest)) = self.opened.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.longest {
            return Err(LinkError::Broken(format!(
                "a message of {length} bytes was announced; at most {} are possible",
                self.longest
            )));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = decode(message).ok_or_else(|| {
            LinkError::Broken(
                "a message is not understood: all hosts need the same release of Weft".into(),
            )
        })?;
        self.opened.drain(..4 + length);
        Ok(Some(message))
    }

    /// Whether it is time to say something, so that the other side knows that we live.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.said + self.silence / 5
    }

    /// When to look again at the latest.
    pub fn next_look(&self) -> Instant {
        (self.said + self.silence / 5).min(self.heard + self.silence)
    }

    /// Restarts the clock: nothing was read meanwhile.
    pub fn restart_clock(&mut self) {
        self.heard = Instant::now();
    }

    /// Fails if nothing was received for too long.
    ///
    /// # Errors
    /// [`LinkError::Silent`].
    pub fn check(&self, now: Instant) -> Result<(), LinkError> {
        if now >= self.heard + self.silence {
            return Err(LinkError::Silent(self.silence));
        }
        Ok(())
    }

    /// Has the kernel close a socket whose other host has not answered it for this long, whatever the processes do.
    pub fn notice_silence_of_host(&self, silence: Duration) {
        const PROBES: u32 = 5;
        let socket = &self.streams.input;
        let interval = (silence / (PROBES + 1)).max(Duration::from_secs(1));
        // A refusal of the kernel costs the probe, and nothing else.
        let _ = sockopt::set_tcp_keepidle(socket, interval);
        let _ = sockopt::set_tcp_keepintvl(socket, interval);
        let _ = sockopt::set_tcp_keepcnt(socket, PROBES);
        let _ = sockopt::set_socket_keepalive(socket, true);
    }

    /// To wait for something to read.
    pub fn reading(&self) -> PollFd<'_> {
        self.streams.reading()
    }

    /// To wait for room to write.
    pub fn writing(&self) -> PollFd<'_> {
        self.streams.writing()
    }

    /// Waits until everything is sent, at most for so long.
    pub fn drain(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.flush().is_ok() && self.is_waiting() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || poll::wait(&mut [self.writing()], Some(left)).is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Link({} bytes to send)", self.unsent.len())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::handshake::LinkHandshake;
    use super::super::message::{FromAgent, ToAgent};
    use super::*;
    use weft_secure::Key;
    use weft_sys::descriptor::{Carries, socket_pair};

    const LONG: Duration = Duration::from_secs(20);

    /// Two sides that have proved the key.
    pub(crate) fn pair() -> (Link, Link) {
        let key = Key::random().expect("random");
        let (left, right) = socket_pair(Carries::Bytes).expect("descriptors are left");
        let streams = Streams::one(left).expect("its mode is set");
        let left = LinkHandshake::begin(&key, streams, LONG).expect("begins");
        let streams = Streams::one(right).expect("its mode is set");
        let right = LinkHandshake::expect(&key, streams, LONG).expect("begins");
        std::thread::scope(|scope| {
            let left = scope.spawn(|| left.wait(LONG));
            let right = right.wait(LONG).expect("proves");
            (left.join().expect("no panic").expect("proves"), right)
        })
    }

    #[test]
    fn messages_go_both_ways_and_the_end_is_noticed() {
        let (mut left, mut right) = pair();
        left.say(&ToAgent::Signal { number: 2 });
        left.say(&ToAgent::End);
        left.drain(LONG);
        right.fill().expect("open");
        let signal = right.next().expect("a message");
        assert_eq!(signal, Some(ToAgent::Signal { number: 2 }));
        assert_eq!(right.next().expect("a message"), Some(ToAgent::End));
        assert_eq!(right.next::<ToAgent>().expect("no more"), None);
        let output = FromAgent::Output {
            rank: 0,
            error: false,
            bytes: vec![7; 200_000],
        };
        right.say(&output);
        let heard = loop {
            right.flush().expect("open");
            left.fill().expect("open");
            if let Some(heard) = left.next::<FromAgent>().expect("whole") {
                break heard;
            }
        };
        assert_eq!(heard, output);
        drop(right);
        assert!(matches!(left.fill(), Err(LinkError::Closed)));
    }

    #[test]
    fn a_peer_without_the_key_and_a_silent_one_are_told_apart() {
        let (mut left, right) = pair();
        left.set_silence(Duration::from_millis(1));
        let later = Instant::now() + Duration::from_millis(1);
        assert!(left.is_due(later));
        assert!(matches!(left.check(later), Err(LinkError::Silent(_))));
        drop(right);
        let keys = [0, 1].map(|_| Key::random().expect("random"));
        let (one, other) = socket_pair(Carries::Bytes).expect("descriptors are left");
        let streams = Streams::one(one).expect("its mode is set");
        let _wrong = LinkHandshake::begin(&keys[0], streams, LONG).expect("begins");
        let streams = Streams::one(other).expect("its mode is set");
        let right = LinkHandshake::expect(&keys[1], streams, LONG).expect("begins");
        assert!(matches!(right.wait(LONG), Err(LinkError::Broken(_))));
    }
}
