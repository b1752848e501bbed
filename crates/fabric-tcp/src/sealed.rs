//! Sealed bytes of one connection, on their way in and out.
//!
//! ```text
//!   in    socket ─► raw, whole records ── opened ──► where the bytes are to be
//!   out   bytes, where they are ── sealed ──► out ─► socket
//! ```
//!
//! A record of a chunk is opened into, and sealed from, the memory of the transfer: only the cipher copies.

use std::io;
use std::ops::Range;

use weft_secure::{Broken, Channel, LENGTH, Opener, RECORD, Sealer, TAG};
use weft_sys::Region;
use weft_sys::socket::SendSlice;

use crate::link::Read;
use crate::network::Stream;

/// Sealed bytes that are held: several records.
const RAW: usize = 4 * (RECORD + TAG + LENGTH);

/// Both directions of a sealed connection.
pub struct Sealed {
    sealer: Sealer,
    opener: Opener,
    /// Sealed bytes that came: from `start` to `end`, records not yet opened.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    /// Sealed bytes to be sent: those of `out` from `at` to `filled`. The space behind is not cleared, which
    /// would take as long as copying.
    out: Vec<u8>,
    at: usize,
    filled: usize,
}

impl Sealed {
    /// With the keys that the handshake has agreed on.
    pub fn new(channel: Channel) -> Self {
        Self {
            sealer: channel.sealer,
            opener: channel.opener,
            raw: vec![0; RAW].into_boxed_slice(),
            start: 0,
            end: 0,
            out: Vec::new(),
            at: 0,
            filled: 0,
        }
    }

    /// Whether bytes have come that are not opened.
    pub fn holds_bytes(&self) -> bool {
        self.end > self.start
    }

    /// Whether all that was sealed was sent.
    pub fn is_flushed(&self) -> bool {
        self.at == self.filled
    }

    /// Bytes that are sealed and not sent.
    pub fn unsent(&self) -> usize {
        self.filled - self.at
    }

    /// The place of the next record in `raw`, without the length before it, if it has arrived whole.
    fn whole(&self) -> Option<Range<usize>> {
        let (length, rest) = self.raw[self.start..self.end].split_first_chunk::<LENGTH>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let begin = self.start + LENGTH;
        (length <= rest.len()).then_some(begin..begin + length)
    }

    /// How many bytes the next record carries; `None`: it has not arrived whole.
    pub fn next_carries(&self) -> Option<usize> {
        self.whole().map(|record| record.len().saturating_sub(TAG))
    }

    /// Reads once.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self, socket: &impl Stream) -> io::Result<Read> {
        self.raw.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match socket.receive(Region::EMPTY, &mut self.raw[self.end..])? {
            None => Ok(Read::Nothing),
            Some(0) => Ok(Read::Closed),
            Some(count) => {
                self.end += count;
                let more = self.end == self.raw.len();
                Ok(Read::Some { more })
            }
        }
    }

    /// Opens the next record: its first bytes into lent memory, the others into `rest`. Together both have room
    /// for what [it carries](Self::next_carries).
    ///
    /// # Errors
    /// Its bytes were changed. What was written is then meaningless.
    pub fn open(&mut self, lent: Region, rest: &mut [u8]) -> io::Result<()> {
        let Some(record) = self.whole() else {
            return Ok(());
        };
        self.start = record.end;
        let record = &mut self.raw[record];
        let opened = if rest.is_empty() {
            lent.write_by(|lent| self.opener.open_into(record, lent))
        } else if lent.is_empty() {
            self.opener.open_into(record, rest)
        } else {
            self.opener.open_in_place(record).map(|opened| {
                let (first, others) = opened.split_at(lent.len());
                lent.copy_from_slice(first);
                rest.copy_from_slice(others);
            })
        };
        opened.map_err(|broken: Broken| io::Error::new(io::ErrorKind::InvalidData, broken))
    }

    /// Makes room for `bytes` bytes after those to be sent.
    fn room(&mut self, bytes: usize) -> Range<usize> {
        let room = self.filled..self.filled + bytes;
        if self.out.len() < room.end {
            self.out.resize(room.end, 0);
        }
        self.filled = room.end;
        room
    }

    /// Seals these bytes for sending.
    pub fn seal(&mut self, parts: &[&[u8]]) {
        let room = self.room(Sealer::sealed_length(parts));
        self.sealer.seal_into(parts, &mut self.out[room]);
    }

    /// Seals lent memory for sending.
    pub fn seal_lent(&mut self, lent: Region) {
        let mut done = 0;
        while let Some(piece) = lent.part(done, (lent.len() - done).min(RECORD))
            && !piece.is_empty()
        {
            let room = self.room(LENGTH + piece.len() + TAG);
            piece.read_by(|bytes| self.sealer.seal_from(bytes, &mut self.out[room]));
            done += piece.len();
        }
    }

    /// Sends what is sealed. True: all was sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self, socket: &impl Stream) -> io::Result<bool> {
        while self.at < self.filled {
            let rest = [SendSlice::Bytes(&self.out[self.at..self.filled])];
            match socket.send(&rest)? {
                None => return Ok(false),
                Some(count) => self.at += count,
            }
        }
        (self.at, self.filled) = (0, 0);
        Ok(true)
    }
}
