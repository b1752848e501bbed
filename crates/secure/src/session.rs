//! Session: handshake and records over a blocking stream, as whole messages, each way, with deadlines. It
//! serves the control connections of a launcher; the fabric uses its parts directly.
//!
//! ```text
//!   u32 big endian   message            inside of the records: always sealed
//!   length           0 … limit
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::handshake::{Handshake, Step};
use crate::key::Key;
use crate::records::{Broken, LENGTH, Opener, Sealer};
use crate::refusals::Refusal;

/// Longest message unless [`Session::set_limit`] says otherwise, in bytes.
pub const MESSAGE: usize = 1 << 20;

/// A stream whose reads and writes can have a time limit.
pub trait Stream: Read + Write {
    /// Reads and writes fail with `WouldBlock` or `TimedOut` after this long; `None`: they wait.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_patience(&self, limit: Option<Duration>) -> io::Result<()>;
}

macro_rules! timed {
    ($($stream:ty),*) => {$(
        impl Stream for $stream {
            fn set_patience(&self, limit: Option<Duration>) -> io::Result<()> {
                // Zero would mean for ever.
                let limit = limit.map(|limit| limit.max(Duration::from_millis(1)));
                self.set_read_timeout(limit)?;
                self.set_write_timeout(limit)
            }
        }
    )*};
}
timed!(TcpStream, UnixStream);

/// Why a session could not begin or go on.
#[derive(Debug)]
pub enum SessionError {
    /// The other side has not proved the key.
    Refused(Refusal),
    /// Bytes were changed, repeated or reordered on the way.
    Broken,
    /// A message is longer than the limit.
    TooLong {
        /// The length that it stated.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The stream ended in the middle of a message.
    Ended,
    /// Nothing came, or nothing could be sent, within the time that was allowed.
    Silent,
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for SessionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(out, "the connection was refused: {refusal}"),
            Self::Broken => Broken.fmt(out),
            Self::TooLong { length, limit } => write!(
                out,
                "a message of {length} bytes was announced; at most {limit} are taken"
            ),
            Self::Ended => out.write_str("the other side closed the connection"),
            Self::Silent => out.write_str("the other side did not answer in time"),
            Self::System(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<Refusal> for SessionError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Broken> for SessionError {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Ended,
            _ => Self::System(error),
        }
    }
}

/// A stream whose two sides have proved the key: sealed messages both ways.
#[derive(Debug)]
pub struct Session<S> {
    stream: S,
    hello: Vec<u8>,
    sealer: Sealer,
    opener: Opener,
    limit: usize,
    /// Opened bytes of messages that are not complete.
    opened: Vec<u8>,
    /// Bytes of a record that is not complete, its length included.
    sealed: Vec<u8>,
}

impl<S: Stream> Session<S> {
    /// Connects: proves the key over a stream, within `patience` in all.
    ///
    /// # Errors
    /// The other side does not know the key or is silent; the stream fails. Drop the stream.
    pub fn connect(
        stream: S,
        key: &Key,
        purpose: &str,
        hello: &[u8],
        patience: Duration,
    ) -> Result<Self, SessionError> {
        Self::begin(stream, Handshake::initiator(key, purpose, hello), patience)
    }

    /// Accepts: lets the other side prove the key, within `patience` in all. Without the key nobody gets a byte
    /// that depends on anything but random numbers. Count failures in [`Refusals`](crate::Refusals), by
    /// [`SessionError::refusal`].
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub fn accept(
        stream: S,
        key: &Key,
        purpose: &str,
        hello: &[u8],
        patience: Duration,
    ) -> Result<Self, SessionError> {
        Self::begin(stream, Handshake::responder(key, purpose, hello), patience)
    }

    fn begin(
        mut stream: S,
        mut handshake: Handshake,
        patience: Duration,
    ) -> Result<Self, SessionError> {
        let end = Instant::now() + patience;
        let mut buffer = [0; crate::handshake::FIRST];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::Slow.into());
            }
            stream.set_patience(Some(left))?;
            stream.write_all(&handshake.take_outgoing())?;
            let wanted = handshake.wanted();
            let count = match stream.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(Refusal::Gone.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(match SessionError::from(error) {
                        SessionError::Silent => Refusal::Slow.into(),
                        SessionError::Ended => Refusal::Gone.into(),
                        other => other,
                    });
                }
            };
            if let (_, Step::Done(channel)) = handshake.feed(&buffer[..count])? {
                stream.write_all(&handshake.take_outgoing())?;
                stream.set_patience(None)?;
                let channel = *channel;
                return Ok(Self {
                    stream,
                    hello: channel.hello,
                    sealer: channel.sealer,
                    opener: channel.opener,
                    limit: MESSAGE,
                    opened: Vec::new(),
                    sealed: Vec::new(),
                });
            }
        }
    }

    /// The other side's hello.
    #[must_use]
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// The stream, for polling and for its addresses. Do not read from it or write to it.
    #[must_use]
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Longest message that is taken from now on, in bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Sends one message; waits for room.
    ///
    /// # Errors
    /// The stream fails, or the patience set on it ends; the session is then unusable.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SessionError> {
        let length = u32::try_from(message.len()).map_err(|_| SessionError::TooLong {
            length: message.len(),
            limit: u32::MAX as usize,
        })?;
        let mut out = Vec::new();
        self.sealer
            .seal(&[&length.to_be_bytes(), message], &mut out);
        Ok(self.stream.write_all(&out)?)
    }

    /// The next message; waits for it (at most as long as [`Stream::set_patience`] allows; it may then be
    /// called again). `None`: the other side closed, between two messages.
    ///
    /// # Errors
    /// The other side's bytes were changed on the way or are too long; the stream fails.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            if !self.fill()? {
                let between = self.opened.is_empty() && self.sealed.is_empty();
                return if between {
                    Ok(None)
                } else {
                    Err(SessionError::Ended)
                };
            }
        }
    }

    /// A message that has already arrived, without reading. After `poll` reports readable: [`Self::fill`],
    /// then this until it returns `None`.
    ///
    /// # Errors
    /// A message is longer than the limit.
    pub fn whole(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        let Some((length, rest)) = self.opened.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.limit {
            return Err(SessionError::TooLong {
                length,
                limit: self.limit,
            });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let message = rest[..length].to_vec();
        self.opened.drain(..4 + length);
        Ok(Some(message))
    }

    /// Reads once what has arrived and opens it. False: the other side closed.
    ///
    /// # Errors
    /// As for [`Self::receive`]; `Silent` if nothing is there on a stream that does not wait.
    pub fn fill(&mut self) -> Result<bool, SessionError> {
        let mut buffer = [0; 16 << 10];
        let count = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.sealed.extend_from_slice(&buffer[..count]);
        let mut done = 0;
        while let Some((length, rest)) = self.sealed[done..].split_first_chunk::<LENGTH>() {
            let Some(record) = rest.get(..usize::from(u16::from_be_bytes(*length))) else {
                break;
            };
            self.opener.open(record, &mut self.opened)?;
            done += LENGTH + record.len();
        }
        self.sealed.drain(..done);
        Ok(count > 0)
    }
}

impl SessionError {
    /// Why the other side was refused, if it was: to be counted.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Ended => Some(Refusal::Gone),
            Self::Silent => Some(Refusal::Slow),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn key() -> Key {
        Key::from_bytes([3; Key::BYTES])
    }

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let (left, right) = UnixStream::pair().expect("descriptors are left");
        let lengths = [0, 1, 1000, 70_000, 300_000];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut session =
                    Session::connect(left, &key(), "test", b"left", PATIENCE).expect("meets");
                assert_eq!(session.hello(), b"right");
                for length in lengths {
                    session.send(&vec![length as u8; length]).expect("sends");
                }
            });
            let mut session =
                Session::accept(right, &key(), "test", b"right", PATIENCE).expect("meets");
            assert_eq!(session.hello(), b"left");
            for length in lengths {
                let message = session.receive().expect("receives").expect("a message");
                assert!(message == vec![length as u8; length]);
            }
            assert!(session.receive().expect("the end").is_none());
        });
    }

    #[test]
    fn those_without_the_key_and_the_slow_are_refused_with_a_reason() {
        let cases: [(&[u8], bool, Refusal); 3] = [
            (&[5; 1000], false, Refusal::WrongKey),
            (&[5; 10], true, Refusal::Gone),
            (&[5; 10], false, Refusal::Slow),
        ];
        for (bytes, close, expected) in cases {
            let (mut left, right) = UnixStream::pair().expect("descriptors are left");
            left.write_all(bytes).expect("there is room");
            let left = (!close).then_some(left);
            let limit = if expected == Refusal::Slow {
                Duration::from_millis(20)
            } else {
                PATIENCE
            };
            let refused = Session::accept(right, &key(), "test", b"", limit).expect_err("refused");
            assert_eq!(refused.refusal(), Some(expected), "{refused}");
            drop(left);
        }
    }

    #[test]
    fn a_drip_does_not_prolong_the_patience() {
        let (mut left, right) = UnixStream::pair().expect("descriptors are left");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Ends when the other side closes.
                while left.write_all(&[5]).is_ok() {
                    std::thread::park_timeout(Duration::from_millis(2));
                }
            });
            let limit = Duration::from_millis(50);
            let refused = Session::accept(right, &key(), "test", b"", limit).expect_err("refused");
            assert_eq!(refused.refusal(), Some(Refusal::Slow));
        });
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused() {
        let (left, right) = UnixStream::pair().expect("descriptors are left");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut session =
                    Session::connect(left, &key(), "test", b"", PATIENCE).expect("meets");
                session.send(&[1; 101]).expect("sends");
            });
            let mut session = Session::accept(right, &key(), "test", b"", PATIENCE).expect("meets");
            session.set_limit(100);
            let refused = session.receive().expect_err("too long");
            assert!(matches!(
                refused,
                SessionError::TooLong {
                    length: 101,
                    limit: 100
                }
            ));
        });
    }
}
