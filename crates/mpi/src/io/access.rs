//! Access: what one call reads or writes, of which bytes, with whom (MPI 5.0, section 14.4).

use std::sync::Arc;

use weft_atomic::Ordering;

use super::File;
use super::agreement::agree;
use super::alone;
use super::cursor::Cursor;
use super::hints::Aggregation;
use super::sieve;
use super::storage::Storage;
use super::stream::Stream;
use super::together;
use super::view::View;
use super::writers::{self, Alone, Locked};
use crate::Status;
use crate::buffer::{TypedBuffer, region_of};
use crate::engine::RequestId;
use crate::error::{Error, ErrorClass, Result};
use crate::memory;

/// Direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Position in the view, in etypes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilePosition {
    /// There.
    At(i64),
    /// At this rank's file pointer.
    Individual,
    /// At the file pointer that all ranks share: of a collective access, one after the other in the order of ranks.
    Shared,
}

/// The access that a call asks for.
#[derive(Clone, Debug)]
pub struct Access {
    /// Direction.
    pub direction: Direction,
    /// Position.
    pub place: FilePosition,
    /// Whether all ranks take part.
    pub together: bool,
    /// The memory.
    pub elements: TypedBuffer,
}

/// An access whose bytes are known, but for where that of an ordered one begins.
#[derive(Debug)]
pub(super) struct Resolved {
    pub direction: Direction,
    pub view: Arc<View>,
    /// First byte of the view's data; `None` if the order of ranks decides.
    pub from: Option<u64>,
    /// Bytes in the file.
    pub bytes: u64,
    pub elements: TypedBuffer,
}

impl Resolved {
    /// Number of etypes.
    pub fn etypes(&self) -> u64 {
        self.bytes / self.view.unit()
    }

    /// The first byte of the file and the one after the last.
    pub fn range(&self) -> (u64, u64) {
        let from = self.from.unwrap_or(0);
        if self.bytes == 0 {
            return (0, 0);
        }
        let last = self.view.place_of(from + self.bytes - 1);
        (self.view.place_of(from), last + 1)
    }

    /// The first byte of the file that may be touched, and how many there are from it to the last. In a view whose pieces come in
    /// any order, all data.
    pub fn whole(&self) -> (u64, u64) {
        if self.view.is_sorted() {
            let (first, end) = self.range();
            (first, end - first)
        } else {
            (0, writers::REGISTER)
        }
    }

    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(&self.view, self.from.unwrap_or(0), self.bytes)
    }

    /// Bytes of memory that so many bytes of the file are.
    fn memory_bytes(&self, file_bytes: u64) -> u64 {
        if file_bytes == self.bytes {
            return self.elements.bytes() as u64;
        }
        file_bytes
    }
}

impl File {
    /// Reads or writes, and returns when the memory may be used again. The status says how many bytes of memory it was.
    ///
    /// # Errors
    /// `Access`, `ReadOnly` or `UnsupportedOperation` if the mode of the file does not allow it; `Io` if the data are no
    /// whole number of etypes, or if all ranks access together while a split access is under way; what the system refuses
    /// with, of any rank if they do it together.
    pub fn access(&self, access: Access) -> Result<Status> {
        let resolved = self.resolve_whole(&access);
        if access.together {
            self.tasks.wait_together();
            self.perform_together(resolved)
        } else {
            self.perform_alone(&resolved?)
        }
        .map(status)
    }

    /// Begins to read or write. The request ends when the memory may be used again.
    ///
    /// # Errors
    /// As for [`Self::access`], as far as it is known at once.
    pub fn begin(self: &Arc<Self>, access: Access) -> Result<RequestId> {
        let resolved = self.resolve_whole(&access);
        self.begin_resolved(resolved, access.together)
    }

    /// Begins the access that a split call is the first half of.
    pub(super) fn begin_half(self: &Arc<Self>, access: &Access) -> Result<RequestId> {
        self.begin_resolved(self.resolve(access), access.together)
    }

    fn begin_resolved(
        self: &Arc<Self>,
        resolved: Result<Resolved>,
        together: bool,
    ) -> Result<RequestId> {
        if let (false, Err(error)) = (together, &resolved) {
            return Err(error.clone());
        }
        let process = Arc::clone(self.comm.process());
        let request = process.begin_outside(self.comm.context())?;
        let file = Arc::clone(self);
        let task = move || {
            let outcome = if together {
                file.perform_together(resolved)
            } else {
                resolved.and_then(|resolved| file.perform_alone(&resolved))
            };
            let error = outcome.as_ref().err().cloned();
            let awaited = file.comm.process().end_outside(request, outcome);
            match error {
                Some(error) if awaited => file.keep_failed(request, error),
                Some(error) => file.keep_error(error),
                None => {}
            }
        };
        if let Err(error) = self.tasks.begin(together, task) {
            let _ = process.end_outside(request, Ok(0));
            let _ = process.wait(request);
            return Err(error);
        }
        Ok(request)
    }

    /// Takes part in a collective call only to report an error of this rank: one of its arguments is wrong. Every such
    /// call begins with an agreement.
    pub fn refuse(&self, error: Error) {
        self.tasks.wait_together();
        // The caller has the error, and a rank that is lost is told by its next call.
        _ = agree::<()>(&self.comm, Err(error));
    }

    /// As [`Self::refuse`], in the order of the calls that do not wait.
    pub fn refuse_later(self: &Arc<Self>, error: Error) {
        let (file, told) = (Arc::clone(self), error.clone());
        let begun = self.tasks.begin(true, move || {
            _ = agree::<()>(&file.comm, Err(told));
        });
        if begun.is_err() {
            // No thread for it: this one waits for the others.
            self.refuse(error);
        }
    }

    /// As [`Self::resolve`], for an access by one call: all ranks make none while a split one is under way (MPI 5.0,
    /// section 14.4.5).
    fn resolve_whole(&self, access: &Access) -> Result<Resolved> {
        if access.together {
            self.check_no_split("a collective access")?;
        }
        self.resolve(access)
    }

    /// Checks an access, and moves the file pointer that it goes by.
    fn resolve(&self, access: &Access) -> Result<Resolved> {
        self.check_mode(access)?;
        let mut state = self.state();
        let view = Arc::clone(&state.view);
        let bytes = view.representation().file_bytes(&access.elements)?;
        if !bytes.is_multiple_of(view.unit()) {
            return Err(Error::new(
                ErrorClass::Io,
                format!(
                    "{bytes} bytes are no whole number of etypes of {} bytes; choose count and datatype to make whole etypes",
                    view.unit()
                ),
            ));
        }
        let etypes = (bytes / view.unit()).cast_signed();
        let position = match access.place {
            FilePosition::At(position) => Some(position),
            FilePosition::Individual => Some(state.position),
            FilePosition::Shared if access.together => None,
            FilePosition::Shared => {
                drop(state);
                let position = self.shared.advance(etypes)?;
                state = self.state();
                Some(position)
            }
        };
        let from = position
            .map(|position| check_reach(&view, position, bytes))
            .transpose()?;
        if access.place == FilePosition::Individual {
            state.position += etypes;
        }
        Ok(Resolved {
            direction: access.direction,
            view,
            from,
            bytes,
            elements: access.elements.clone(),
        })
    }

    fn check_mode(&self, access: &Access) -> Result<()> {
        let (class, what) = match access.direction {
            Direction::Read if !self.mode.reads() => (
                ErrorClass::Access,
                "is open for writing only; open it with MPI_MODE_RDWR or MPI_MODE_RDONLY to read",
            ),
            Direction::Write if !self.mode.writes() => (
                ErrorClass::ReadOnly,
                "is open for reading only; open it with MPI_MODE_RDWR or MPI_MODE_WRONLY to write",
            ),
            _ if self.mode.sequential && access.place != FilePosition::Shared => (
                ErrorClass::UnsupportedOperation,
                "is open with MPI_MODE_SEQUENTIAL; use the calls of the shared file pointer",
            ),
            _ => return Ok(()),
        };
        Err(Error::new(class, format!("{} {what}", self.path.display())))
    }

    /// An access of this rank alone; answers how many bytes of memory it was.
    pub(super) fn perform_alone(&self, resolved: &Resolved) -> Result<u64> {
        if resolved.bytes == 0 {
            return Ok(0);
        }
        let storage = self.storage()?;
        if resolved.direction == Direction::Write {
            self.note_written();
        }
        if self.atomic.load(Ordering::Relaxed) {
            return self.perform_locked(resolved, &*storage);
        }
        self.move_alone(resolved, &*storage)
    }

    /// Whether independent writes of this rank may be sieved, by its view and the hints.
    pub(super) fn may_sieve_writes(&self) -> bool {
        let state = self.state();
        let (hint, _) = state.hints.write_sieve();
        hint != Aggregation::Disable
            && self.mode.reads()
            && state.view.is_sorted()
            && state.view.piece_length() <= sieve::LONGEST
    }

    /// Whether a write is to be sieved, by windows of how many bytes.
    fn sieves(&self, resolved: &Resolved) -> Option<u64> {
        let (first, end) = resolved.range();
        let piece = resolved.view.piece_length();
        let pays = self.writers.are_guarded()
            && self.may_sieve_writes()
            && sieve::pays_for_writes(resolved.bytes, piece, first, end);
        let (_, window) = self.state().hints.write_sieve();
        pays.then_some(window.min(end - first))
    }

    fn move_alone(&self, resolved: &Resolved, storage: &dyn Storage) -> Result<u64> {
        match resolved.direction {
            Direction::Read => self.read_alone(resolved, storage),
            Direction::Write if self.writers.are_guarded() => {
                let _turn = self.own_turn();
                self.write_guarded(resolved, storage, true)
            }
            Direction::Write => convert(resolved, |stream| {
                alone::write(storage, resolved.cursor(), stream).map(|()| resolved.bytes)
            }),
        }
    }

    fn read_alone(&self, resolved: &Resolved, storage: &dyn Storage) -> Result<u64> {
        let (hint, window) = self.state().hints.read_sieve();
        let (first, end) = resolved.range();
        let sorted = resolved.view.is_sorted();
        let piece = resolved.view.piece_length();
        let sieves = hint != Aggregation::Disable
            && sorted
            && alone::pays_for_reads(resolved.bytes, piece, first, end);
        convert(resolved, |stream| {
            if sieves {
                return sieve::read(storage, resolved.cursor(), stream, window.min(end - first));
            }
            let window = match (hint, sorted) {
                // One piece at a time.
                (Aggregation::Disable, _) => 1,
                (_, true) => window.min(end - first),
                (_, false) => window.min(resolved.bytes.saturating_mul(8)),
            };
            alone::read(storage, resolved.cursor(), stream, window.max(1))
        })
    }

    /// A write beside others that may rewrite gaps. `locks`: the caller holds no lock of the range.
    fn write_guarded(
        &self,
        resolved: &Resolved,
        storage: &dyn Storage,
        locks: bool,
    ) -> Result<u64> {
        let sieve = self.sieves(resolved);
        let alone = sieve.and_then(|window| Some((window, Alone::with(storage)?)));
        convert(resolved, |stream| {
            if let Some((window, _alone)) = &alone {
                sieve::write(storage, resolved.cursor(), stream, *window, locks)?;
                return Ok(resolved.bytes);
            }
            let locked = locks.then(|| self.lock_of(resolved, storage)).transpose()?;
            alone::write(storage, resolved.cursor(), stream)?;
            locked.map_or(Ok(()), Locked::end)?;
            Ok(resolved.bytes)
        })
    }

    /// A lock of all that a write touches, together with others that touch their own bytes only.
    fn lock_of<'a>(&self, resolved: &Resolved, storage: &'a dyn Storage) -> Result<Locked<'a>> {
        // A rank that cannot read has exclusive locks only.
        Locked::new(storage, !self.mode.reads(), resolved.whole())
    }

    /// As [`Self::move_alone`], such that others see all of a write or nothing, and a read sees no part of one.
    fn perform_locked(&self, resolved: &Resolved, storage: &dyn Storage) -> Result<u64> {
        let writes = resolved.direction == Direction::Write;
        let _turn = self.own_turn();
        let locked = Locked::new(storage, writes, resolved.whole())?;
        let outcome = if writes {
            self.write_guarded(resolved, storage, false)
        } else {
            self.read_alone(resolved, storage)
        };
        locked.end()?;
        outcome
    }

    /// An access that all ranks take part in, whatever has gone wrong here.
    pub(super) fn perform_together(&self, resolved: Result<Resolved>) -> Result<u64> {
        together::perform(self, resolved)
    }
}

/// Moves the data of an access in the representation of its view; answers how many bytes of memory that was.
pub(super) fn convert(
    resolved: &Resolved,
    move_data: impl FnOnce(&Stream) -> Result<u64>,
) -> Result<u64> {
    let representation = resolved.view.representation();
    if representation.is_native() {
        return move_data(&Stream::of(&resolved.elements));
    }
    match resolved.direction {
        Direction::Write => {
            let Some(mut file) = representation.encode(&resolved.elements)? else {
                return move_data(&Stream::of(&resolved.elements));
            };
            let moved = move_data(&Stream::Flat(region_of(&mut file)))?;
            Ok(resolved.memory_bytes(moved))
        }
        Direction::Read => {
            let mut file = memory::zeroed(resolved.bytes as usize)?;
            let moved = move_data(&Stream::Flat(region_of(&mut file)))?;
            representation.decode(&mut file[..moved as usize], &resolved.elements)
        }
    }
}

/// The byte of the data at which an access begins that some file has room for.
pub(super) fn check_reach(view: &View, position: i64, bytes: u64) -> Result<u64> {
    let from = view.byte_of(position)?;
    let end = from
        .checked_add(bytes)
        .filter(|end| bytes == 0 || (view.filetype().size() > 0 && view.reaches(end - 1)));
    match end {
        Some(_) => Ok(from),
        None => Err(Error::new(
            ErrorClass::Arg,
            format!(
                "{bytes} bytes from etype {position} on reach further than this view of a file does; check offset, count and filetype"
            ),
        )),
    }
}

/// The status of an access of so many bytes.
fn status(bytes: u64) -> Status {
    Status {
        bytes,
        ..Status::empty()
    }
}
