//! Input of rank 0 on another host: read here, and sent as it is taken there. Rank 0 may never read it, so only a bounded
//! amount is in flight.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

use weft_sys::poll::{Interest, PollFd};

/// Bytes for rank 0 that may be under way.
const MOST: u64 = 256 << 10;

/// What rank 0 is to read.
#[derive(Debug, Default)]
pub struct RemoteInput {
    /// `None` once it has ended.
    file: Option<File>,
    /// Bytes that were sent and that rank 0 has not taken.
    untaken: u64,
}

impl RemoteInput {
    /// Reads this; nothing if `None`.
    pub fn new(file: Option<File>) -> Self {
        Self { file, untaken: 0 }
    }

    /// Whether more may come.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// To wait for something to read, if more may be sent.
    pub fn entry(&self) -> Option<PollFd<'_>> {
        let file = self.file.as_ref().filter(|_| self.untaken < MOST)?;
        Some(PollFd::new(file, Interest::Read))
    }

    /// Reads once, waiting if nothing is there: bytes to be sent, none at the end, and what has ended it before its time.
    pub fn read(&mut self) -> Option<(Vec<u8>, Option<io::Error>)> {
        let mut bytes = [0; 16 << 10];
        let (count, trouble) = match self.file.as_mut()?.read(&mut bytes) {
            Ok(count) => (count, None),
            Err(error) if error.kind() == ErrorKind::Interrupted => return None,
            Err(error) => (0, Some(error)),
        };
        if count == 0 {
            self.file = None;
        }
        self.untaken += count as u64;
        Some((bytes[..count].to_vec(), trouble))
    }

    /// Rank 0 has taken so many bytes.
    pub fn note_taken(&mut self, bytes: u64) {
        self.untaken = self.untaken.saturating_sub(bytes);
    }

    /// Reads no more.
    pub fn close(&mut self) {
        self.file = None;
    }
}
