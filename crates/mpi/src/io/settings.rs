//! Settings of an open file: view, pointers, size, hints, atomicity, and its end (MPI 5.0, sections 14.2, 14.3 and 14.6).

use std::sync::{Arc, PoisonError};

use weft_atomic::Ordering;
use weft_sys::file;

use super::File;
use super::agreement::{agree, agree_with};
use super::hints::Hints;
use super::representation::Representation;
use super::storage::{Storage, failure, write_fully};
use super::view::View;
use crate::buffer::region_of;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::info::Info;

/// Base of a new position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// The beginning of the view.
    Set,
    /// The current pointer.
    Current,
    /// The end of the file, as the view sees it.
    End,
}

/// Bytes of zeros that are written at a time where space cannot be set aside otherwise.
const ZEROS: usize = 1 << 20;

fn different(what: &str) -> Error {
    Error::new(
        ErrorClass::NotSame,
        format!("the ranks of the file give different {what}; all must give the same"),
    )
}

fn all_same<const N: usize>(said: &[[u64; N]], what: &str) -> Result<()> {
    if said.iter().all(|one| *one == said[0]) {
        Ok(())
    } else {
        Err(different(what))
    }
}

impl File {
    /// `MPI_File_set_view`. `displacement` is `None` for `MPI_DISPLACEMENT_CURRENT`. Both file pointers are then at the
    /// beginning of the view.
    ///
    /// # Errors
    /// `Type` or `Arg` for an invalid view; `NotSame` if etypes or representations of the ranks differ.
    pub fn set_view(
        &self,
        displacement: Option<i64>,
        etype: &Arc<Datatype>,
        filetype: &Arc<Datatype>,
        representation: Result<Representation>,
        info: &Info,
    ) -> Result<()> {
        self.tasks.wait_together();
        let view = representation.and_then(|representation| {
            self.check_no_split("MPI_File_set_view")?;
            let displacement = self.displacement(displacement)?;
            View::new(
                displacement,
                etype,
                filetype,
                representation,
                self.mode.writes(),
            )
        });
        let words = view.as_ref().map_or([0; 2], |view| {
            let name = view.representation().name().bytes();
            // FNV-1a.
            let name = name.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            [view.unit(), name]
        });
        let (view, said) = agree_with(&self.comm, view, words)?;
        all_same(&said, "sizes of etypes, or data representations")?;
        self.set_hints(info)?;
        if self.comm.rank() == 0 {
            self.shared.set(0)?;
        }
        let mut state = self.state();
        state.view = Arc::new(view);
        state.position = 0;
        drop(state);
        // Nobody moves the shared pointer before it is there.
        agree(&self.comm, Ok(()))?;
        self.agree_on_guard()
    }

    fn displacement(&self, given: Option<i64>) -> Result<u64> {
        let Some(displacement) = given else {
            if !self.mode.sequential {
                return Err(Error::new(
                    ErrorClass::Arg,
                    "MPI_DISPLACEMENT_CURRENT is for files of MPI_MODE_SEQUENTIAL; give the displacement",
                ));
            }
            let position = self.shared.advance(0)?;
            let view = self.view();
            return Ok(view.place_of(view.byte_of(position)?));
        };
        if self.mode.sequential {
            return Err(Error::new(
                ErrorClass::Arg,
                "a file of MPI_MODE_SEQUENTIAL goes on where it is; give MPI_DISPLACEMENT_CURRENT as displacement",
            ));
        }
        u64::try_from(displacement).map_err(|_| {
            Error::new(
                ErrorClass::Arg,
                format!("a displacement of {displacement}; give at least 0"),
            )
        })
    }

    pub(super) fn check_no_split(&self, call: &str) -> Result<()> {
        if self.has_split() {
            return Err(Error::new(
                ErrorClass::Io,
                format!("{call} while a split collective access is under way; end that first"),
            ));
        }
        Ok(())
    }

    fn check_individual(&self) -> Result<()> {
        if self.mode.sequential {
            return Err(Error::new(
                ErrorClass::UnsupportedOperation,
                "a file of MPI_MODE_SEQUENTIAL has the shared file pointer only",
            ));
        }
        Ok(())
    }

    /// `MPI_File_get_position`: in etypes.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a sequential file.
    pub fn position(&self) -> Result<i64> {
        self.check_individual()?;
        Ok(self.state().position)
    }

    /// `MPI_File_get_position_shared`.
    ///
    /// # Errors
    /// When the rank that has it is lost.
    pub fn shared_position(&self) -> Result<i64> {
        self.shared.advance(0)
    }

    /// `MPI_File_seek`.
    ///
    /// # Errors
    /// `Arg` for a place before the beginning; `UnsupportedOperation` for a sequential file.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.check_individual()?;
        let position = self.place(offset, whence, || Ok(self.state().position))?;
        self.state().position = position;
        Ok(())
    }

    /// `MPI_File_seek_shared`: all ranks, to the same place.
    ///
    /// # Errors
    /// `NotSame` if they give different ones; `Arg` for one before the beginning.
    pub fn seek_shared(&self, offset: i64, whence: Whence) -> Result<()> {
        self.tasks.wait_together();
        let checked = self.check_seek_shared();
        let words = [offset.cast_unsigned(), whence as u64];
        let ((), said) = agree_with(&self.comm, checked, words)?;
        all_same(&said, "places to seek the shared file pointer to")?;
        let moved = if self.comm.rank() == 0 {
            self.place(offset, whence, || self.shared.advance(0))
                .and_then(|position| self.shared.set(position))
        } else {
            Ok(())
        };
        agree(&self.comm, moved)
    }

    fn check_seek_shared(&self) -> Result<()> {
        if self.mode.sequential {
            return Err(Error::new(
                ErrorClass::UnsupportedOperation,
                "a file of MPI_MODE_SEQUENTIAL cannot be sought in",
            ));
        }
        Ok(())
    }

    fn place(
        &self,
        offset: i64,
        whence: Whence,
        current: impl FnOnce() -> Result<i64>,
    ) -> Result<i64> {
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => current()?,
            Whence::End => {
                let size = self.size()?;
                self.view().etypes_before(size).cast_signed()
            }
        };
        base.checked_add(offset)
            .filter(|position| *position >= 0)
            .ok_or_else(|| {
                Error::new(
                    ErrorClass::Arg,
                    format!(
                        "a seek by {offset} from etype {base} leads before the beginning of the view, or further than any file"
                    ),
                )
            })
    }

    /// `MPI_File_get_byte_offset`: where in the file an etype of the view begins.
    ///
    /// # Errors
    /// `Arg` for a place that no file has.
    pub fn byte_offset(&self, position: i64) -> Result<i64> {
        self.check_individual()?;
        let view = self.view();
        Ok(view.place_of(view.byte_of(position)?).cast_signed())
    }

    /// `MPI_File_get_type_extent`: distance of consecutive elements in a file of the view's representation.
    ///
    /// # Errors
    /// The error of the program's function for the representation.
    pub fn type_extent(&self, datatype: &Arc<Datatype>) -> Result<i64> {
        let in_file = self.view().representation().in_file(datatype)?;
        Ok(in_file.extent() as i64)
    }

    /// `MPI_File_get_size`: in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn size(&self) -> Result<u64> {
        self.storage()?.size().map_err(|error| failure(&error))
    }

    /// `MPI_File_set_size`: all ranks, the same.
    ///
    /// # Errors
    /// `NotSame` if they give different sizes; what the system refuses with.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.resize(size, "MPI_File_set_size", |storage, size| {
            storage.set_size(size).map_err(|error| failure(&error))
        })
    }

    /// `MPI_File_preallocate`: all ranks, the same.
    ///
    /// # Errors
    /// As for [`Self::set_size`].
    pub fn preallocate(&self, size: i64) -> Result<()> {
        self.resize(size, "MPI_File_preallocate", preallocate)
    }

    fn resize(
        &self,
        size: i64,
        call: &str,
        change: impl FnOnce(&dyn Storage, u64) -> Result<()>,
    ) -> Result<()> {
        self.tasks.wait_together();
        let checked = self.check_resize(size, call);
        let ((), said) = agree_with(&self.comm, checked, [size.cast_unsigned()])?;
        all_same(&said, "sizes")?;
        let changed = if self.comm.rank() == 0 {
            self.note_written();
            self.storage()
                .and_then(|storage| change(&*storage, size.cast_unsigned()))
        } else {
            Ok(())
        };
        agree(&self.comm, changed)
    }

    fn check_resize(&self, size: i64, call: &str) -> Result<()> {
        self.check_no_split(call)?;
        if size < 0 {
            return Err(Error::new(
                ErrorClass::Arg,
                format!("a size of {size} bytes; give at least 0"),
            ));
        }
        if self.mode.sequential {
            return Err(Error::new(
                ErrorClass::UnsupportedOperation,
                "the size of a file of MPI_MODE_SEQUENTIAL cannot be changed",
            ));
        }
        if !self.mode.writes() {
            return Err(Error::new(
                ErrorClass::ReadOnly,
                format!("{} is open for reading only", self.path.display()),
            ));
        }
        Ok(())
    }

    /// `MPI_File_set_info`: all ranks; those of rank 0 hold.
    ///
    /// # Errors
    /// When a rank is lost.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.set_hints(info)?;
        self.agree_on_guard()
    }

    fn set_hints(&self, info: &Info) -> Result<()> {
        let mut hints = self.state().hints.clone();
        hints.take(info);
        let ((), said) = agree_with(&self.comm, Ok(()), hints.to_words())?;
        let hints = Hints::from_words(&said[0]);
        let mut state = self.state();
        state.aggregators = self.candidates.aggregators(&hints);
        state.hints = hints;
        Ok(())
    }

    /// `MPI_File_get_info`: the hints in use.
    #[must_use]
    pub fn info(&self) -> Info {
        let state = self.state();
        let hints = state.hints.info(state.aggregators.ranks.len());
        hints.answered()
    }

    /// `MPI_File_get_atomicity`.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    /// `MPI_File_set_atomicity`: all ranks, the same.
    ///
    /// # Errors
    /// `NotSame` if they do not; `UnsupportedOperation` where the file system has no locks.
    pub fn set_atomicity(&self, atomic: bool) -> Result<()> {
        self.tasks.wait_together();
        let checked = self.check_locks(atomic);
        let ((), said) = agree_with(&self.comm, checked, [u64::from(atomic)])?;
        all_same(&said, "atomicities")?;
        self.atomic.store(atomic, Ordering::Relaxed);
        Ok(())
    }

    fn check_locks(&self, atomic: bool) -> Result<()> {
        self.check_no_split("MPI_File_set_atomicity")?;
        if !atomic {
            return Ok(());
        }
        let storage = self.storage()?;
        // Far behind all data, where nobody waits for long. What the mode allows: readers have no exclusive locks.
        let place = 1 << 62;
        let exclusive = self.mode.writes();
        let locked = storage.lock(exclusive, place, 1);
        locked
            .and_then(|()| storage.unlock(place, 1))
            .map_err(|error| {
                Error::new(
                    ErrorClass::UnsupportedOperation,
                    format!(
                        "{error}; the atomic mode needs locks: use a file system that has them"
                    ),
                )
            })
    }

    /// `MPI_File_sync`: then everything this rank has written is on the device, and data that others have synchronised
    /// can be read.
    ///
    /// # Errors
    /// A delayed write error of any rank.
    pub fn sync(&self) -> Result<()> {
        self.tasks.wait_together();
        let synced = self
            .check_no_split("MPI_File_sync")
            .and_then(|()| self.kept_error())
            .and_then(|()| self.sync_own());
        agree(&self.comm, synced)
    }

    fn sync_own(&self) -> Result<()> {
        if !self.written.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.storage()?.sync().map_err(|error| failure(&error))
    }

    /// `MPI_File_close`: all ranks. The file is closed even if there is an error, unless a split collective access is under way at one of
    /// them: then it [stays open](Self::is_open) at all.
    ///
    /// # Errors
    /// A delayed write error of any rank; `Io` if a split access is under way.
    pub fn close(&self) -> Result<()> {
        agree(&self.comm, self.check_no_split("MPI_File_close"))?;
        self.tasks.end();
        let mut outcome = self.kept_error();
        if let Ok(storage) = self.storage() {
            let keeps = !self.mode.delete_on_close;
            if keeps && self.state().hints.syncs_on_close() {
                outcome = outcome.and(self.sync_own());
            }
            if self.mode.writes() && keeps {
                let flushed = storage.flush().map_err(|error| failure(&error));
                outcome = outcome.and(flushed);
            }
        }
        let open = self.storage.write();
        open.unwrap_or_else(PoisonError::into_inner).take();
        // Nobody uses it any more.
        let mut outcome = agree(&self.comm, outcome);
        let pointer = self.shared.close();
        outcome = outcome.and(pointer);
        if self.mode.delete_on_close {
            let removed = if self.comm.rank() == 0 {
                file::remove(&self.path).map_err(|error| failure(&error))
            } else {
                Ok(())
            };
            let removed = agree(&self.comm, removed);
            outcome = outcome.and(removed);
        }
        self.comm.drop_messages();
        outcome
    }
}

impl File {
    /// Whether it was not [closed](Self::close).
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.storage().is_ok()
    }
}

/// Sets space aside; by zeros behind the end where the file system has no other way.
fn preallocate(storage: &dyn Storage, size: u64) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let error = match storage.allocate(size) {
        Ok(()) => return Ok(()),
        Err(error) => failure(&error),
    };
    if error.class() != ErrorClass::UnsupportedOperation {
        return Err(error);
    }
    let mut place = storage.size().map_err(|error| failure(&error))?;
    let mut zeros = vec![0; ZEROS];
    while place < size {
        let length = (size - place).min(ZEROS as u64);
        write_fully(
            storage,
            region_of(&mut zeros).prefix(length as usize),
            place,
        )?;
        place += length;
    }
    Ok(())
}
