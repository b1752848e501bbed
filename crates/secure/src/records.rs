//! Sealed records: a stream of records, each of which opens only in its place.
//!
//! ```text
//!   u16 big endian   sealed bytes              tag
//!   length           1 … RECORD                TAG bytes       length = sealed bytes + TAG
//! ```
//!
//! The number of a record is not sent: both sides count, from 0. A record that is changed fails to open; so
//! does one that is repeated, omitted or moved, as it is opened with another number than it was sealed with.
//! The channel is broken from then on. The two directions have different keys, so a record does not open on
//! the side that sent it. The length is not protected by itself; a wrong one makes the record fail.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Bytes of the tag of a record.
pub const TAG: usize = 16;

/// Bytes before a record that say its length, the tag included.
pub const LENGTH: usize = 2;

/// Most bytes that one record carries.
pub const RECORD: usize = 65_535 - TAG;

/// Bytes of the key of one direction.
pub(crate) const SECRET: usize = 32;

/// The record is not the one that the other side sealed next: changed, repeated, moved, or one was lost.
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

/// Seals outgoing bytes.
pub struct Sealer {
    key: LessSafeKey,
    next: u64,
}

/// Opens incoming bytes.
pub struct Opener {
    key: LessSafeKey,
    next: u64,
    broken: bool,
}

fn key(secret: &[u8; SECRET]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, secret).expect("a key of its length"))
}

/// The nonce of a record as Noise has it: four zeros and the number, big endian.
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Writes the length of a record before it; returns its sealed bytes and its tag.
fn split_record(record: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    let carried = record.len() - LENGTH - TAG;
    assert!(carried <= RECORD, "a record carries at most {RECORD} bytes");
    record[..LENGTH].copy_from_slice(&((carried + TAG) as u16).to_be_bytes());
    record[LENGTH..].split_at_mut(carried)
}

impl Sealer {
    pub(crate) fn new(secret: &[u8; SECRET]) -> Self {
        Self {
            key: key(secret),
            next: 0,
        }
    }

    /// Appends `parts`, one after the other, to `out` as records (length, sealed bytes, tag): as many
    /// as their sum needs, none if they are empty.
    pub fn seal(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + Self::sealed_length(parts), 0);
        self.seal_into(parts, &mut out[start..]);
    }

    /// How many bytes the records of these parts take.
    #[must_use]
    pub fn sealed_length(parts: &[&[u8]]) -> usize {
        let carried: usize = parts.iter().map(|part| part.len()).sum();
        carried + carried.div_ceil(RECORD) * (LENGTH + TAG)
    }

    /// As [`seal`](Self::seal), into memory of [`sealed_length`](Self::sealed_length) bytes.
    ///
    /// # Panics
    /// If `out` is shorter than that.
    pub fn seal_into(&mut self, parts: &[&[u8]], mut out: &mut [u8]) {
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = parts.iter().copied();
        let mut part: &[u8] = &[];
        while left > 0 {
            let carried = left.min(RECORD);
            let (record, rest) = out.split_at_mut(LENGTH + carried + TAG);
            let mut at = LENGTH;
            while at < LENGTH + carried {
                if part.is_empty() {
                    part = bytes.next().unwrap_or_default();
                }
                let (now, later) = part.split_at(part.len().min(LENGTH + carried - at));
                record[at..at + now.len()].copy_from_slice(now);
                at += now.len();
                part = later;
            }
            self.seal_record(record);
            out = rest;
            left -= carried;
        }
    }

    /// Seals `bytes` as the next record, into `record`, which has [`LENGTH`] bytes more before them and
    /// [`TAG`] behind. Only the cipher copies.
    ///
    /// # Panics
    /// If `record` has another length than that, or `bytes` are more than [`RECORD`]; after 2^64 records.
    pub fn seal_from(&mut self, bytes: &[u8], record: &mut [u8]) {
        let (sealed, tag) = split_record(record);
        assert_eq!(sealed.len(), bytes.len(), "room for these bytes");
        self.key
            .seal_out_of_place_scatter(nonce(self.next), Aad::empty(), bytes, sealed, &[], tag)
            .expect("a record is short");
        self.count();
    }

    /// Makes a record in memory that holds its bytes already, with [`LENGTH`] bytes before and [`TAG`] bytes
    /// behind them.
    ///
    /// # Panics
    /// If there is no room for these, or for more than [`RECORD`]; after 2^64 records.
    pub fn seal_record(&mut self, record: &mut [u8]) {
        let (bytes, tag) = split_record(record);
        self.seal_in_place(bytes, tag);
    }

    /// Seals these bytes as the next record, without its length.
    pub(crate) fn seal_in_place(&mut self, bytes: &mut [u8], tag: &mut [u8]) {
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce(self.next), Aad::empty(), bytes)
            .expect("a record is short");
        tag.copy_from_slice(sealed.as_ref());
        self.count();
    }

    fn count(&mut self) {
        self.next = self.next.checked_add(1).expect("fewer than 2^64 records");
    }
}

impl Opener {
    pub(crate) fn new(secret: &[u8; SECRET]) -> Self {
        Self {
            key: key(secret),
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
        out.extend_from_slice(record);
        let opened = self
            .open_in_place(&mut out[start..])
            .map(|bytes| bytes.len());
        out.truncate(start + opened.unwrap_or(0));
        opened
    }

    /// Opens the next record in place; returns the bytes that it carries, which are at its beginning.
    ///
    /// # Errors
    /// [`Broken`], now and for ever; the contents of `record` are then meaningless.
    pub fn open_in_place<'a>(&mut self, record: &'a mut [u8]) -> Result<&'a mut [u8], Broken> {
        if self.broken {
            return Err(Broken);
        }
        let opened = self
            .key
            .open_in_place(nonce(self.next), Aad::empty(), record)
            .map_err(|_| Broken);
        self.broken = opened.is_err();
        self.next = self.next.wrapping_add(1);
        opened
    }

    /// Opens the next record into memory of as many bytes as it carries. Only the cipher copies.
    ///
    /// # Errors
    /// [`Broken`], now and for ever, also if `into` has another length; the contents of `into` are then
    /// meaningless.
    pub fn open_into(&mut self, record: &[u8], into: &mut [u8]) -> Result<(), Broken> {
        if self.broken {
            return Err(Broken);
        }
        let opened = match record.split_last_chunk::<TAG>() {
            Some((sealed, tag)) if sealed.len() == into.len() => self
                .key
                .open_separate_gather(nonce(self.next), Aad::empty(), sealed, tag, into)
                .map_err(|_| Broken),
            _ => Err(Broken),
        };
        self.broken = opened.is_err();
        self.next = self.next.wrapping_add(1);
        opened
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

    /// From memory to memory gives the same as in place, record by record, on both sides.
    #[test]
    fn from_memory_to_memory_is_as_in_place() {
        let (mut here, mut there) = pair();
        for length in [1, 15, 16, 1000, RECORD] {
            let bytes: Vec<u8> = (0..length).map(|number| (number * 7) as u8).collect();
            let mut record = vec![0; LENGTH + length + TAG];
            here.sealer.seal_from(&bytes, &mut record);
            let mut opened = Vec::new();
            there
                .opener
                .open(&record[LENGTH..], &mut opened)
                .expect("sealed from memory");
            assert!(opened == bytes, "{length}");
            record[LENGTH..LENGTH + length].copy_from_slice(&bytes);
            here.sealer.seal_record(&mut record);
            let mut opened = vec![0; length];
            there
                .opener
                .open_into(&record[LENGTH..], &mut opened)
                .expect("opened into memory");
            assert!(opened == bytes, "{length}");
        }
        let mut record = vec![0; LENGTH + 8 + TAG];
        here.sealer.seal_from(b"changed!", &mut record);
        record[LENGTH + 3] ^= 1;
        let mut opened = [0; 8];
        for _ in 0..2 {
            let result = there.opener.open_into(&record[LENGTH..], &mut opened);
            assert_eq!(result, Err(Broken));
        }
        assert_ne!(&opened, b"changed!");
    }

    #[test]
    fn a_record_shorter_than_its_tag_or_its_room_is_broken() {
        for (record, room) in [(TAG - 1, 0), (TAG + 4, 3), (TAG + 4, 5)] {
            let (_, mut there) = pair();
            let result = there.opener.open_into(&vec![0; record], &mut vec![0; room]);
            assert_eq!(result, Err(Broken), "{record} bytes into {room}");
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

    /// Records sealed here are those of Noise: another implementation opens them.
    #[test]
    fn records_are_those_of_noise() {
        let build = |initiator: bool| {
            let builder =
                snow::Builder::new("Noise_NN_25519_AESGCM_SHA256".parse().expect("known"));
            match initiator {
                true => builder.build_initiator(),
                false => builder.build_responder(),
            }
            .expect("random bytes")
        };
        let (mut left, mut right) = (build(true), build(false));
        let (mut message, mut ignored) = ([0; 200], [0; 200]);
        let length = left.write_message(&[], &mut message).expect("fits");
        right
            .read_message(&message[..length], &mut ignored)
            .expect("well-formed");
        let length = right.write_message(&[], &mut message).expect("fits");
        left.read_message(&message[..length], &mut ignored)
            .expect("well-formed");
        let (here, there) = left.dangerously_get_raw_split();
        let right = right.into_stateless_transport_mode().expect("done");
        let (mut sealer, mut opener) = (Sealer::new(&here), Opener::new(&there));
        for number in 0..3 {
            let mut stream = Vec::new();
            sealer.seal(&[b"to the ", b"right"], &mut stream);
            let length = right.read_message(number, &stream[LENGTH..], &mut ignored);
            assert_eq!(&ignored[..length.expect("opens")], b"to the right");
            let length = right
                .write_message(number, b"to the left", &mut message)
                .expect("fits");
            let mut opened = Vec::new();
            opener.open(&message[..length], &mut opened).expect("opens");
            assert_eq!(opened, b"to the left");
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
