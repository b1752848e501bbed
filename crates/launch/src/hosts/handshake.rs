//! Handshake before a link: both sides prove the key of the job, before any other byte is interpreted. It
//! never waits, unless asked to.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use weft_secure::{Channel, Handshake, Key, Step};
use weft_sys::poll::{self, PollFd};

use super::link::{Link, LinkError, Streams};

/// What both sides say that they are doing, so that a connection of the fabric is not taken for one.
const PURPOSE: &str = "launch";

/// A handshake over streams, fed as bytes come.
pub struct LinkHandshake {
    handshake: Handshake,
    streams: Streams,
    unsent: Vec<u8>,
    /// When patience ends.
    deadline: Instant,
}

impl LinkHandshake {
    /// We prove the key first: the side that connects.
    ///
    /// # Errors
    /// As all of these: if the kernel refuses, the other side is gone, or does not know the key.
    pub fn begin(key: &Key, streams: Streams, patience: Duration) -> Result<Self, LinkError> {
        Self::with(Handshake::initiator(key, PURPOSE, b""), streams, patience)
    }

    /// The other side proves the key first: the side that was connected to.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn expect(key: &Key, streams: Streams, patience: Duration) -> Result<Self, LinkError> {
        Self::with(Handshake::responder(key, PURPOSE, b""), streams, patience)
    }

    fn with(handshake: Handshake, streams: Streams, patience: Duration) -> Result<Self, LinkError> {
        let mut started = Self {
            handshake,
            streams,
            unsent: Vec::new(),
            deadline: Instant::now() + patience,
        };
        started.send()?;
        Ok(started)
    }

    /// Sends what the handshake wants to say. Its messages are shorter than any buffer of a kernel.
    fn send(&mut self) -> Result<(), LinkError> {
        self.unsent.extend(self.handshake.take_outgoing());
        while !self.unsent.is_empty() {
            match self.streams.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// To wait for something to read.
    pub fn reading(&self) -> PollFd<'_> {
        self.streams.reading()
    }

    /// Goes on with what has come; answers the channel once both have proved the key.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn proceed(&mut self) -> Result<Option<Channel>, LinkError> {
        let mut buffer = [0; 1024];
        loop {
            let wanted = self.handshake.wanted().min(buffer.len());
            let count = match self.streams.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => count,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => return Ok(None),
                    _ => return Err(error.into()),
                },
            };
            let (_, step) = self
                .handshake
                .feed(&buffer[..count])
                .map_err(|refusal| LinkError::Broken(refusal.to_string()))?;
            self.send()?;
            if let Step::Done(channel) = step {
                return Ok(Some(*channel));
            }
        }
    }

    /// Whether the other side, which speaks first, has sent a message that only a member can send, or a repetition of it.
    pub fn is_answered(&self) -> bool {
        self.handshake.is_answered()
    }

    /// When patience ends: the key must be proved by then.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The link, once [`proceed`](Self::proceed) has answered its channel.
    pub fn link(self, channel: Channel, silence: Duration) -> Link {
        Link::new(channel, self.streams, silence)
    }

    /// Waits until both have proved the key.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), and if that takes too long.
    pub fn wait(mut self, silence: Duration) -> Result<Link, LinkError> {
        loop {
            if let Some(channel) = self.proceed()? {
                return Ok(self.link(channel, silence));
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if poll::wait(&mut [self.reading()], Some(left))? == 0 {
                return Err(LinkError::Late);
            }
        }
    }
}

impl fmt::Debug for LinkHandshake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LinkHandshake({:?})", self.handshake)
    }
}
