//! Sieve: small pieces with small gaps are moved many at a time by one system call, with the gaps between them (data
//! sieving: Thakur, Gropp, Lusk 1999).
//!
//! ```text
//!   pieces in the file   ██··██··██··██··          window: from the first piece to the end of the last
//!   read                 one call, pieces are copied out of the window
//!   write                lock, read, pieces are copied into the window, one call, unlock
//! ```
//!
//! A write rewrites the gaps with their former contents: no other writer may write into them meanwhile, see
//! [writers](super::writers).

#[cfg(test)]
mod tests;

use super::cursor::Cursor;
use super::run::RunList;
use super::storage::{Storage, read_fully, write_fully};
use super::stream::Stream;
use super::writers::Locked;
use crate::buffer::region_of;
use crate::error::Result;
use crate::memory;

/// Pieces are sieved if as many as this are in an access, and they are no longer, and their distances on average neither: measured
/// with 1 KiB one call for each is as quick, for what is read and written comes to more than what is wanted. Gaps of less than a page
/// need no block of a file system that the pieces do not need.
const LEAST: u64 = 8;
pub(super) const LONGEST: u64 = 512;
const DISTANCE: u64 = 2048;

/// Whether a write of so many bytes, in pieces of `piece` bytes on average, from byte `first` to byte `end` of the file is sieved.
pub(super) fn pays_for_writes(bytes: u64, piece: u64, first: u64, end: u64) -> bool {
    let count = bytes / piece.max(1);
    piece <= LONGEST && count >= LEAST && (end - first) / count <= DISTANCE
}

/// Memory for a window of the file, and for its pieces where they do not come from, or go to, one piece of memory.
struct Window {
    bytes: Box<[u8]>,
    pieces: Vec<u8>,
    list: RunList,
}

impl Window {
    fn of(bytes: u64) -> Result<Self> {
        Ok(Self {
            bytes: memory::zeroed(bytes as usize)?,
            pieces: Vec::new(),
            list: RunList::default(),
        })
    }

    /// Takes the pieces of the next window; answers its first byte and its length, if there is one.
    fn take(&mut self, cursor: &mut Cursor) -> Option<(u64, u64)> {
        let first = cursor.place()?;
        self.list.clear();
        cursor.take_before(first + self.bytes.len() as u64, &mut self.list);
        let end = self.list.runs().last()?.end();
        Some((first, end - first))
    }

    /// Copies the pieces of a stream from byte `position` to their places in the window.
    fn scatter(&mut self, stream: &Stream, position: u64, first: u64) {
        let bytes = self.list.bytes();
        let region = stream.region(position, bytes);
        if region.is_none() {
            // Elements with gaps are walked once for all pieces.
            self.pieces.resize(bytes as usize, 0);
            stream.copy_out(position, &mut self.pieces);
        }
        let from = region.unwrap_or_else(|| region_of(&mut self.pieces));
        let mut done = 0;
        for (place, length) in self.list.runs().iter().flat_map(|run| run.pieces()) {
            let (place, length) = ((place - first) as usize, length as usize);
            if let Some(piece) = from.part(done, length) {
                piece.copy_to_slice(&mut self.bytes[place..place + length]);
            }
            done += length;
        }
    }

    /// Copies the pieces from the first `there` bytes of the window to a stream, from byte `position` on; answers how many bytes of
    /// them there are.
    fn gather(&mut self, stream: &Stream, position: u64, first: u64, there: u64) -> u64 {
        let bytes = self.list.bytes();
        let region = stream.region(position, bytes);
        if region.is_none() {
            self.pieces.resize(bytes as usize, 0);
        }
        let into = region.unwrap_or_else(|| region_of(&mut self.pieces));
        let mut done = 0;
        for (place, length) in self.list.runs().iter().flat_map(|run| run.pieces()) {
            let place = place - first;
            let got = there.saturating_sub(place).min(length) as usize;
            if let Some(piece) = into.part(done, got) {
                piece.copy_from_slice(&self.bytes[place as usize..place as usize + got]);
            }
            done += got;
            if (got as u64) < length {
                break;
            }
        }
        if region.is_none() {
            stream.copy_in(position, &self.pieces[..done]);
        }
        done as u64
    }
}

/// Writes the data of a stream to the pieces of a cursor, in windows of so many bytes, more than none. `locks`: each window is locked while its gaps
/// are rewritten; otherwise the caller holds a lock of all.
///
/// # Errors
/// What the system refuses with; windows before that are written.
pub(super) fn write(
    storage: &dyn Storage,
    mut cursor: Cursor,
    stream: &Stream,
    window: u64,
    locks: bool,
) -> Result<()> {
    let mut window = Window::of(window)?;
    let mut position = 0;
    while let Some((first, length)) = window.take(&mut cursor) {
        let locked = locks.then(|| Locked::new(storage, true, (first, length)));
        let locked = locked.transpose()?;
        let whole = region_of(&mut window.bytes).prefix(length as usize);
        if window.list.bytes() < length {
            let read = read_fully(storage, whole, first)?;
            // Behind the end of the file there are zeros, not what the last window had.
            window.bytes[read..length as usize].fill(0);
        }
        window.scatter(stream, position, first);
        position += window.list.bytes();
        let whole = region_of(&mut window.bytes).prefix(length as usize);
        write_fully(storage, whole, first)?;
        locked.map_or(Ok(()), Locked::end)?;
    }
    Ok(())
}

/// Reads the pieces of a cursor to a stream, in windows of so many bytes; answers how many bytes there were before the end of the file.
///
/// # Errors
/// What the system refuses with.
pub(super) fn read(
    storage: &dyn Storage,
    mut cursor: Cursor,
    stream: &Stream,
    window: u64,
) -> Result<u64> {
    let mut window = Window::of(window)?;
    let mut position = 0;
    while let Some((first, length)) = window.take(&mut cursor) {
        let whole = region_of(&mut window.bytes).prefix(length as usize);
        let read = read_fully(storage, whole, first)?;
        let got = window.gather(stream, position, first, read as u64);
        position += got;
        if got < window.list.bytes() {
            break;
        }
    }
    Ok(position)
}
