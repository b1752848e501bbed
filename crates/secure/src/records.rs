//! Sealed bytes: a stream of records, each of which opens only in its place.
//!
//! ```text
//!   u16 big endian   sealed bytes              tag
//!   length           1 … RECORD                TAG bytes       length = sealed bytes + TAG
//! ```
//!
//! The number of a record is not sent: both sides count, from 0. A record that is changed, repeated,
//! left out or moved is opened with another number than it was sealed with, and fails; the channel is
//! broken from then on. The two directions have keys of their own, so a record does not open where it
//! came from. The length is not protected by itself; a wrong one makes the record fail.

use std::fmt;
use std::sync::Arc;

use snow::StatelessTransportState;

/// Bytes of the tag of a record.
pub const TAG: usize = 16;

/// Bytes before a record that say its length, the tag included.
pub const LENGTH: usize = 2;

/// Most bytes that one record carries.
pub const RECORD: usize = 65_535 - TAG;

/// The record is not what the other side sealed next: changed, repeated, moved, or one was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            "what arrived is not what the peer sealed: changed, repeated or reordered on the way",
        )
    }
}

impl std::error::Error for Broken {}

/// Seals what goes out.
pub struct Sealer {
    keys: Arc<StatelessTransportState>,
    next: u64,
    gathered: Vec<u8>,
}

/// Opens what comes in.
pub struct Opener {
    keys: Arc<StatelessTransportState>,
    next: u64,
    broken: bool,
}

impl Sealer {
    pub(crate) fn new(keys: Arc<StatelessTransportState>) -> Self {
        Self {
            keys,
            next: 0,
            gathered: Vec::new(),
        }
    }

    /// Appends `parts`, one after the other, to `out` as records (length, sealed bytes, tag): as many
    /// as their sum needs, none if they are empty.
    pub fn seal(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        if let [one] = parts {
            for piece in one.chunks(RECORD) {
                self.seal_one(piece, out);
            }
            return;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                let (now, rest) = part.split_at(part.len().min(RECORD - gathered.len()));
                gathered.extend_from_slice(now);
                part = rest;
                if gathered.len() == RECORD {
                    self.seal_one(&gathered, out);
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() {
            self.seal_one(&gathered, out);
        }
        self.gathered = gathered;
    }

    fn seal_one(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let sealed = piece.len() + TAG;
        out.extend_from_slice(&(sealed as u16).to_be_bytes());
        out.resize(start + LENGTH + sealed, 0);
        self.seal_raw(piece, &mut out[start + LENGTH..]);
    }

    /// Seals one piece of at most [`RECORD`] bytes into `out`, which has [`TAG`] bytes more.
    ///
    /// # Panics
    /// If the sizes do not fit; after 2^64 records.
    pub fn seal_raw(&mut self, piece: &[u8], out: &mut [u8]) {
        let written = self
            .keys
            .write_message(self.next, piece, out)
            .expect("a piece that fits, and fewer than 2^64 of them");
        debug_assert_eq!(written, piece.len() + TAG);
        self.next += 1;
    }
}

impl Opener {
    pub(crate) fn new(keys: Arc<StatelessTransportState>) -> Self {
        Self {
            keys,
            next: 0,
            broken: false,
        }
    }

    /// Opens the next record (sealed bytes and tag, without the length before them) and appends what
    /// it carries to `out`.
    ///
    /// # Errors
    /// [`Broken`], now and for ever; nothing is appended.
    pub fn open(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<usize, Broken> {
        let start = out.len();
        out.resize(start + record.len(), 0);
        let opened = self.open_raw(record, &mut out[start..]);
        out.truncate(start + opened.unwrap_or(0));
        opened
    }

    /// Opens the next record into `out`, which must be as long as the record with its tag; answers how
    /// many bytes of it are the record's.
    ///
    /// # Errors
    /// [`Broken`], now and for ever; what `out` holds then means nothing.
    pub fn open_raw(&mut self, record: &[u8], out: &mut [u8]) -> Result<usize, Broken> {
        if self.broken || record.len() < TAG {
            self.broken = true;
            return Err(Broken);
        }
        match self.keys.read_message(self.next, record, out) {
            Ok(length) => {
                self.next += 1;
                Ok(length)
            }
            Err(_) => {
                self.broken = true;
                Err(Broken)
            }
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sealer(record {})", self.next)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Opener(record {}, broken: {})", self.next, self.broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{Channel, Handshake, Step};
    use crate::key::Key;

    fn done(side: &mut Handshake, bytes: &[u8]) -> Option<Channel> {
        match side.feed(bytes).expect("the same key").1 {
            Step::Done(channel) => Some(*channel),
            Step::More => None,
        }
    }

    fn pair() -> (Channel, Channel) {
        let key = Key::from_bytes([9; Key::BYTES]);
        let mut left = Handshake::initiator(&key, "test", b"");
        let mut right = Handshake::responder(&key, "test", b"");
        done(&mut right, &left.take_outgoing());
        let here = done(&mut left, &right.take_outgoing()).expect("done");
        let there = done(&mut right, &left.take_outgoing()).expect("done");
        (here, there)
    }

    /// The records of a stream, without their lengths.
    fn split(mut stream: &[u8]) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        while let Some((length, rest)) = stream.split_first_chunk::<LENGTH>() {
            let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
            records.push(record.to_vec());
            stream = rest;
        }
        records
    }

    #[test]
    fn any_length_in_any_parts_arrives_whole() {
        let (mut here, mut there) = pair();
        let bytes: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        for length in [0, 1, 1000, RECORD - 1, RECORD, RECORD + 1, 200_000] {
            for cut in [0, 1, length / 2, length] {
                let (left, right) = bytes[..length].split_at(cut.min(length));
                let (mut stream, mut opened) = (Vec::new(), Vec::new());
                here.sealer.seal(&[left, right], &mut stream);
                for record in split(&stream) {
                    there.opener.open(&record, &mut opened).expect("in order");
                }
                assert!(opened == bytes[..length], "{length} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_record_opens_only_in_its_place() {
        type Disturb = fn(&mut Vec<Vec<u8>>);
        let repeated: Disturb = |records| records.insert(1, records[0].clone());
        let swapped: Disturb = |records| records.swap(0, 1);
        let lost: Disturb = |records| drop(records.remove(0));
        let changed: Disturb = |records| records[1][3] ^= 1;
        let shortened: Disturb = |records| records[1].truncate(8);
        for disturb in [repeated, swapped, lost, changed, shortened] {
            let (mut here, mut there) = pair();
            let mut stream = Vec::new();
            for _ in 0..3 {
                here.sealer.seal(&[b"record"], &mut stream);
            }
            let mut records = split(&stream);
            disturb(&mut records);
            let mut opened = Vec::new();
            let results: Vec<_> = records
                .iter()
                .map(|record| there.opener.open(record, &mut opened))
                .collect();
            assert_eq!(results.last(), Some(&Err(Broken)), "broken for ever");
            assert!(opened.len() <= b"record".len(), "nothing beyond the break");
        }
    }

    #[test]
    fn a_record_does_not_open_where_it_came_from() {
        let (mut here, _) = pair();
        let mut stream = Vec::new();
        here.sealer.seal(&[b"mine"], &mut stream);
        let opened = here.opener.open(&split(&stream)[0], &mut Vec::new());
        assert_eq!(opened, Err(Broken));
    }
}
