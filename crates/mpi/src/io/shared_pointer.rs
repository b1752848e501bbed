//! Shared file pointer: one position for all ranks of a file (MPI 5.0, section 14.4.4).

use std::fmt::Debug;

use weft_atomic::{AtomicI64, Ordering};

use crate::comm::Comm;
use crate::error::{Error, ErrorClass, Result};

/// A position in etypes that all ranks see and move.
pub(super) trait SharedPointer: Debug + Send + Sync {
    /// Moves it on by so many etypes; answers where it was.
    fn advance(&self, by: i64) -> Result<i64>;

    /// Puts it there.
    fn set(&self, position: i64) -> Result<()>;

    /// The end of the file's last use.
    fn close(&self) {}
}

/// That of a file of one rank.
#[derive(Debug, Default)]
pub(super) struct OwnPointer(AtomicI64);

impl SharedPointer for OwnPointer {
    fn advance(&self, by: i64) -> Result<i64> {
        Ok(self.0.fetch_add(by, Ordering::Relaxed))
    }

    fn set(&self, position: i64) -> Result<()> {
        self.0.store(position, Ordering::Relaxed);
        Ok(())
    }
}

/// That of a file of several ranks, which cannot be moved yet.
#[derive(Debug)]
struct Unmoved;

impl SharedPointer for Unmoved {
    fn advance(&self, _by: i64) -> Result<i64> {
        Err(Error::new(
            ErrorClass::UnsupportedOperation,
            "the shared file pointer of a file of several ranks is not implemented yet; use individual pointers",
        ))
    }

    fn set(&self, _position: i64) -> Result<()> {
        Ok(())
    }
}

/// The shared pointer of a new file.
///
/// # Errors
/// When a rank is lost.
pub(super) fn of(comm: &Comm) -> Result<Box<dyn SharedPointer>> {
    if comm.size() == 1 {
        Ok(Box::new(OwnPointer::default()))
    } else {
        Ok(Box::new(Unmoved))
    }
}
