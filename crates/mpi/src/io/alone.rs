//! Access of one rank by itself, piece by piece, if it is not [sieved](super::sieve). Reads of views whose pieces come in
//! any order, or with gaps of any size, fetch pieces that lie close to each other by one call.

use weft_fabric::Region;

use super::cursor::Cursor;
use super::storage::{Storage, read_fully, write_fully};
use super::stream::Stream;
use crate::buffer::region_of;
use crate::error::Result;
use crate::memory;

/// Bytes that elements with gaps in memory are packed to at a time.
const STAGE: u64 = 1 << 20;
/// Pieces that are read by one call have gaps of at most so many bytes on average: copying these costs what another
/// call does.
const GAP: u64 = 16 << 10;
/// Pieces that are looked at together.
const BATCH: usize = 4096;

/// Whether a read of so many bytes, in pieces of `piece` bytes on average in order, from byte `first` to byte `end` of the file comes
/// by windows with all their gaps.
pub(super) fn pays_for_reads(bytes: u64, piece: u64, first: u64, end: u64) -> bool {
    let count = bytes / piece.max(1);
    count > 1 && piece <= GAP && (end - first - bytes.min(end - first)) / count <= GAP
}

/// Writes the data of a stream to the pieces of a cursor.
///
/// # Errors
/// What the system refuses with; pieces before that are written.
pub(super) fn write(storage: &dyn Storage, mut cursor: Cursor, stream: &Stream) -> Result<()> {
    let mut stage = Stage::default();
    let mut position = 0;
    while let Some(run) = cursor.next_run() {
        for (mut place, mut length) in run.pieces() {
            while length > 0 {
                let part = stage.part(stream, position, length)?;
                write_fully(storage, part, place)?;
                let done = part.len() as u64;
                (position, place, length) = (position + done, place + done, length - done);
            }
        }
    }
    Ok(())
}

/// Data on their way from elements with gaps.
#[derive(Default)]
struct Stage {
    bytes: Box<[u8]>,
    /// Which bytes of the stream are there.
    first: u64,
    end: u64,
}

impl Stage {
    /// At least one of the `length` bytes from `position`, in one piece.
    fn part(&mut self, stream: &Stream, position: u64, length: u64) -> Result<Region> {
        if let Some(region) = stream.region(position, length) {
            return Ok(region);
        }
        if position < self.first || position >= self.end {
            if self.bytes.is_empty() {
                self.bytes = memory::zeroed(STAGE.min(stream.len()) as usize)?;
            }
            self.first = position;
            self.end = (position + self.bytes.len() as u64).min(stream.len());
            let filled = (self.end - self.first) as usize;
            stream.copy_out(position, &mut self.bytes[..filled]);
        }
        let offset = (position - self.first) as usize;
        let length = length.min(self.end - position) as usize;
        let staged = region_of(&mut self.bytes).part(offset, length);
        Ok(staged.expect("it was just filled so far"))
    }
}

/// Reads the pieces of a cursor to a stream; answers how many bytes there were before the end of the file. `sieve` is
/// how many bytes, gaps included, come by one call.
///
/// # Errors
/// What the system refuses with.
pub(super) fn read(
    storage: &dyn Storage,
    mut cursor: Cursor,
    stream: &Stream,
    sieve: u64,
) -> Result<u64> {
    let mut reader = Reader {
        storage,
        stream,
        sieve,
        sieved: Box::default(),
        batch: Vec::new(),
        position: 0,
    };
    while let Some(run) = cursor.next_run() {
        for (place, length) in run.pieces() {
            if !reader.add(place, length)? {
                return Ok(reader.position);
            }
        }
    }
    reader.flush()?;
    Ok(reader.position)
}

struct Reader<'a> {
    storage: &'a dyn Storage,
    stream: &'a Stream<'a>,
    sieve: u64,
    sieved: Box<[u8]>,
    /// Pieces that are not read yet.
    batch: Vec<(u64, u64)>,
    /// Bytes of the stream that are there.
    position: u64,
}

impl Reader<'_> {
    /// Adds a piece. False at the end of the file.
    fn add(&mut self, mut place: u64, mut length: u64) -> Result<bool> {
        // The usual piece, long enough for a call of its own.
        if length > GAP && matches!(self.stream, Stream::Flat(_)) {
            return Ok(self.flush()? && self.read_directly(place, length)?);
        }
        while length > 0 {
            let part = length.min(self.sieve);
            let fits = match (self.batch.first(), self.batch.last()) {
                (Some((first, _)), Some((last, _))) => {
                    place >= *last && place + part - first <= self.sieve && self.batch.len() < BATCH
                }
                _ => true,
            };
            if !fits && !self.flush()? {
                return Ok(false);
            }
            self.batch.push((place, part));
            (place, length) = (place + part, length - part);
        }
        Ok(true)
    }

    /// Reads a piece to where it belongs. False at the end of the file.
    fn read_directly(&mut self, place: u64, length: u64) -> Result<bool> {
        let read = if let Some(region) = self.stream.region(self.position, length) {
            read_fully(self.storage, region, place)? as u64
        } else {
            self.room()?;
            let room = region_of(&mut self.sieved).prefix(length as usize);
            let read = read_fully(self.storage, room, place)?;
            self.stream.copy_in(self.position, &self.sieved[..read]);
            read as u64
        };
        self.position += read;
        Ok(read == length)
    }

    fn room(&mut self) -> Result<()> {
        if self.sieved.is_empty() {
            // No access of this call needs more.
            self.sieved = memory::zeroed(self.sieve as usize)?;
        }
        Ok(())
    }

    /// Reads what was added. False at the end of the file.
    fn flush(&mut self) -> Result<bool> {
        let batch = std::mem::take(&mut self.batch);
        let going_on = self.read_batch(&batch);
        self.batch = batch;
        self.batch.clear();
        going_on
    }

    fn read_batch(&mut self, batch: &[(u64, u64)]) -> Result<bool> {
        let Some((first, _)) = batch.first() else {
            return Ok(true);
        };
        let end = batch.iter().map(|(place, length)| place + length).max();
        let span = end.unwrap_or(*first) - first;
        let data: u64 = batch.iter().map(|(_, length)| length).sum();
        if batch.len() == 1 || span.saturating_sub(data) > GAP * (batch.len() as u64 - 1) {
            for &(place, length) in batch {
                if !self.read_directly(place, length)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        self.room()?;
        let room = region_of(&mut self.sieved).prefix(span as usize);
        let read = read_fully(self.storage, room, *first)? as u64;
        for (place, length) in batch {
            let offset = place - first;
            let there = read.saturating_sub(offset).min(*length);
            let bytes = offset as usize..(offset + there) as usize;
            if there > 0 {
                self.stream.copy_in(self.position, &self.sieved[bytes]);
            }
            self.position += there;
            if there < *length {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
