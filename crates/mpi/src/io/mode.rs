//! Access mode: the purposes for which a file is opened (MPI 5.0, section 14.2.1).

use crate::error::{Error, ErrorClass, Result};

/// An access mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "these are the flags of the standard"
)]
pub struct AccessMode {
    /// `MPI_MODE_RDONLY`.
    pub read_only: bool,
    /// `MPI_MODE_RDWR`.
    pub read_write: bool,
    /// `MPI_MODE_WRONLY`.
    pub write_only: bool,
    /// `MPI_MODE_CREATE`.
    pub create: bool,
    /// `MPI_MODE_EXCL`.
    pub exclusive: bool,
    /// `MPI_MODE_DELETE_ON_CLOSE`.
    pub delete_on_close: bool,
    /// `MPI_MODE_UNIQUE_OPEN`: the file is not open elsewhere. It has no effect.
    pub unique_open: bool,
    /// `MPI_MODE_SEQUENTIAL`: only by the shared file pointer.
    pub sequential: bool,
    /// `MPI_MODE_APPEND`: the file pointers begin at the end.
    pub append: bool,
}

impl AccessMode {
    /// Whether the flags go together.
    ///
    /// # Errors
    /// `Amode` if not.
    pub fn check(self) -> Result<()> {
        let wrong = |what: &str| {
            Err(Error::new(
                ErrorClass::Amode,
                format!("the access mode {what}"),
            ))
        };
        let ways = [self.read_only, self.read_write, self.write_only];
        match ways.iter().filter(|set| **set).count() {
            0 => {
                return wrong(
                    "says neither read nor write; give one of MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY",
                );
            }
            1 => {}
            _ => {
                return wrong(
                    "has more than one of MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY; give one",
                );
            }
        }
        if self.read_only && (self.create || self.exclusive) {
            return wrong(
                "has MPI_MODE_CREATE or MPI_MODE_EXCL with MPI_MODE_RDONLY; a file that is made is to be written",
            );
        }
        if self.read_write && self.sequential {
            return wrong(
                "has MPI_MODE_SEQUENTIAL with MPI_MODE_RDWR; a sequential file is read or written",
            );
        }
        Ok(())
    }

    /// Whether it may be read.
    #[must_use]
    pub fn reads(self) -> bool {
        !self.write_only
    }

    /// Whether it may be written.
    #[must_use]
    pub fn writes(self) -> bool {
        !self.read_only
    }

    /// A bit for each flag, to be compared with those of other ranks.
    pub(super) fn bits(self) -> u64 {
        let flags = [
            self.read_only,
            self.read_write,
            self.write_only,
            self.create,
            self.exclusive,
            self.delete_on_close,
            self.unique_open,
            self.sequential,
            self.append,
        ];
        let bits = flags.iter().enumerate();
        bits.fold(0, |bits, (place, set)| bits | u64::from(*set) << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let all = 0..1_u32 << 9;
        let mode = |bits: u32| AccessMode {
            read_only: bits & 1 != 0,
            read_write: bits & 2 != 0,
            write_only: bits & 4 != 0,
            create: bits & 8 != 0,
            exclusive: bits & 16 != 0,
            delete_on_close: bits & 32 != 0,
            unique_open: bits & 64 != 0,
            sequential: bits & 128 != 0,
            append: bits & 256 != 0,
        };
        let accepted = all
            .clone()
            .filter(|bits| mode(*bits).check().is_ok())
            .count();
        // Of the six free flags: read-only forbids two, read-write one.
        assert_eq!(accepted, (1 << 4) + (1 << 5) + (1 << 6));
        assert!(all.clone().all(|bits| mode(bits).bits() == u64::from(bits)));
    }
}
