//! Split collective access: begun by one call and ended by another; one at a time for each file (MPI 5.0, section
//! 14.4.5).

use std::sync::{Arc, Mutex, PoisonError};

use super::File;
use super::access::{Access, Direction, FilePosition};
use crate::Status;
use crate::engine::RequestId;
use crate::error::{Error, ErrorClass, Result};

/// Kind of a split call: both calls of a pair must be of the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitCall {
    /// `MPI_File_read_all_begin` and `_end`, or those of write.
    All(Direction),
    /// `MPI_File_read_at_all_begin` and `_end`, or those of write.
    AtAll(Direction),
    /// `MPI_File_read_ordered_begin` and `_end`, or those of write.
    Ordered(Direction),
}

impl SplitCall {
    fn of(access: &Access) -> Self {
        match access.place {
            FilePosition::At(_) => Self::AtAll(access.direction),
            FilePosition::Individual => Self::All(access.direction),
            FilePosition::Shared => Self::Ordered(access.direction),
        }
    }

    fn name(self) -> String {
        let (direction, name) = match self {
            Self::All(direction) => (direction, "all"),
            Self::AtAll(direction) => (direction, "at_all"),
            Self::Ordered(direction) => (direction, "ordered"),
        };
        match direction {
            Direction::Read => format!("MPI_File_read_{name}"),
            Direction::Write => format!("MPI_File_write_{name}"),
        }
    }
}

/// The split access of a file that is under way.
#[derive(Debug, Default)]
pub(super) struct Split(Mutex<Option<(SplitCall, RequestId)>>);

impl File {
    /// Begins a split collective access.
    ///
    /// # Errors
    /// `Io` if one is under way already; as for [`Self::begin`].
    pub fn begin_split(self: &Arc<Self>, access: Access) -> Result<()> {
        let mut active = self.split.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((call, _)) = *active {
            return Err(Error::new(
                ErrorClass::Io,
                format!(
                    "{}_begin is under way on this file; a file has one split collective access at a time: end it first",
                    call.name()
                ),
            ));
        }
        let call = SplitCall::of(&access);
        *active = Some((call, self.begin_half(&access)?));
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// `Io` if none of this kind is under way; what the access failed with.
    pub fn end_split(&self, call: SplitCall) -> Result<Status> {
        let mut active = self.split.0.lock().unwrap_or_else(PoisonError::into_inner);
        let request = match *active {
            Some((begun, request)) if begun == call => request,
            other => {
                let there = other.map_or_else(
                    || "none is under way".to_owned(),
                    |(begun, _)| format!("{}_begin is under way", begun.name()),
                );
                return Err(Error::new(
                    ErrorClass::Io,
                    format!(
                        "{}_end without its beginning on this file: {there}; call the end of the call that was begun",
                        call.name()
                    ),
                ));
            }
        };
        *active = None;
        drop(active);
        self.comm().process().wait(request)
    }

    /// Whether a split access is under way.
    pub(super) fn has_split(&self) -> bool {
        let active = self.split.0.lock();
        active.unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
