//! Writers: how the writers of one file avoid conflicts while one of them rewrites the gaps between its pieces
//! ([sieve](super::sieve)).
//!
//! ```text
//!   Plain                                             Guarded
//!   a write takes no lock            ◄──set_view──►   a write locks its range: shared if it touches its own bytes only,
//!   the rank is registered: it holds                  exclusively if it rewrites gaps
//!   a byte of the register exclusively                gaps are rewritten only while nobody is registered
//! ```
//!
//! All ranks of an opening write in one mode, and change it together: all set views, and without a view with gaps no rank
//! sieves. The register is a range of bytes far behind all data; its locks belong to the file, so that every other
//! opening of it, by any job on any host, is seen. A writer that rewrites gaps holds the whole register, shared,
//! meanwhile: that fails if any rank of any opening is registered, and keeps others from registering. No rank waits for
//! the register. A rank that cannot register because another sieves is guarded, which is always safe.
//!
//! | writer | beside one that rewrites gaps |
//! |---|---|
//! | of a guarded opening | waits until the window is written: locks of ranges |
//! | of a plain opening | does not exist: the register |
//! | the same rank, another thread | waits: [`own_turn`](super::File), because locks belong to openings |
//! | one that is no MPI program, or another implementation's | loses what it writes into the gaps; use the hint `romio_ds_write=disable` |
//!
//! Without locks no rank is guarded, and none sieves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicBool, Ordering};

use super::File;
use super::agreement::agree_with;
use super::storage::{Storage, failure};
use crate::error::Result;

/// The register: no file reaches so far, and the place where locks are tried is further on.
pub(super) const REGISTER: u64 = 1 << 61;
/// Bytes of it: two ranks draw the same one as good as never.
const BYTES: u64 = 1 << 40;

/// The manner of an opening, as one rank has it.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// The byte of this rank in the register.
    registered: Mutex<Option<u64>>,
    guarded: AtomicBool,
    /// Some rank has found that there are no locks.
    no_locks: AtomicBool,
}

/// What came of registering, as ranks tell it each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Registered {
    Yes = 0,
    /// Somebody rewrites gaps just now.
    Busy = 1,
    /// There are no locks here.
    NoLocks = 2,
}

impl Writers {
    fn registered(&self) -> MutexGuard<'_, Option<u64>> {
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, storage: &dyn Storage) -> Registered {
        let draw = weft_sys::random::bytes::<8>().map_or(0, u64::from_le_bytes);
        let byte = REGISTER + draw % BYTES;
        match storage.try_lock(true, byte, 1) {
            Ok(true) => {
                *self.registered() = Some(byte);
                Registered::Yes
            }
            Ok(false) => Registered::Busy,
            Err(_) => Registered::NoLocks,
        }
    }

    fn leave_register(&self, storage: &dyn Storage) {
        if let Some(byte) = self.registered().take() {
            // What was locked can be unlocked; if not, others do not sieve.
            _ = storage.unlock(byte, 1);
        }
    }

    /// Whether writes of this opening take locks.
    pub fn are_guarded(&self) -> bool {
        self.guarded.load(Ordering::Relaxed)
    }

    fn guard(&self, guarded: bool) {
        self.guarded.store(guarded, Ordering::Relaxed);
    }
}

/// That nobody is registered, for as long as it lives.
pub(super) struct Alone<'a>(&'a dyn Storage);

impl<'a> Alone<'a> {
    /// `None` if somebody is, or there are no locks.
    pub fn with(storage: &'a dyn Storage) -> Option<Self> {
        matches!(storage.try_lock(false, REGISTER, BYTES), Ok(true)).then_some(Self(storage))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // As in `leave_register`.
        _ = self.0.unlock(REGISTER, BYTES);
    }
}

/// A lock of a range, for as long as it lives.
pub(super) struct Locked<'a> {
    storage: &'a dyn Storage,
    offset: u64,
    length: u64,
}

impl<'a> Locked<'a> {
    /// Waits for a lock of the bytes from the first of `range` on, as many as its second.
    ///
    /// # Errors
    /// What the system refuses with.
    pub fn new(
        storage: &'a dyn Storage,
        exclusive: bool,
        (offset, length): (u64, u64),
    ) -> Result<Self> {
        let locked = storage.lock(exclusive, offset, length);
        locked.map_err(|error| failure(&error))?;
        Ok(Self {
            storage,
            offset,
            length,
        })
    }

    /// Gives it back.
    ///
    /// # Errors
    /// What the system refuses with.
    pub fn end(self) -> Result<()> {
        let unlocked = self.storage.unlock(self.offset, self.length);
        std::mem::forget(self);
        unlocked.map_err(|error| failure(&error))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // A rank that goes on after an error has one already.
        _ = self.storage.unlock(self.offset, self.length);
    }
}

impl File {
    /// All ranks, when the file has just been opened.
    ///
    /// # Errors
    /// When a rank is lost.
    pub(super) fn register_writers(&self) -> Result<()> {
        if !self.mode.writes() {
            return Ok(());
        }
        self.settle_register(self.writers.register(&*self.storage()?))
    }

    /// All ranks know what has come of registering: plain if all are registered.
    fn settle_register(&self, own: Registered) -> Result<()> {
        let ((), said) = agree_with(&self.comm, Ok(()), [own as u64])?;
        let any = |what: Registered| said.iter().any(|one| one[0] == what as u64);
        if any(Registered::NoLocks) {
            self.writers.no_locks.store(true, Ordering::Relaxed);
            self.writers.guard(false);
        } else if any(Registered::Busy) {
            self.writers.leave_register(&*self.storage()?);
            self.writers.guard(true);
        } else {
            self.writers.guard(false);
        }
        Ok(())
    }

    /// Writes a range, or parts of it, of which each byte is this rank's to write.
    ///
    /// # Errors
    /// What `write` fails with; what the system refuses a lock with.
    pub(super) fn write_beside_sieves(
        &self,
        storage: &dyn Storage,
        first: u64,
        length: u64,
        write: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if !self.writers.are_guarded() {
            return write();
        }
        let _turn = self.own_turn();
        // A rank that cannot read has exclusive locks only.
        let locked = Locked::new(storage, !self.mode.reads(), (first, length))?;
        write()?;
        locked.end()
    }

    /// All ranks, when views or hints have changed: whether writes are guarded from now on. No access is under way: a program
    /// completes its requests before it sets a view (MPI 5.0, section 14.3).
    ///
    /// # Errors
    /// When a rank is lost.
    pub(super) fn agree_on_guard(&self) -> Result<()> {
        if !self.mode.writes() || self.writers.no_locks.load(Ordering::Relaxed) {
            return Ok(());
        }
        let wants = self.may_sieve_writes();
        let ((), said) = agree_with(&self.comm, Ok(()), [u64::from(wants)])?;
        let wanted = said.iter().any(|one| one[0] != 0);
        if wanted == self.writers.are_guarded() {
            return Ok(());
        }
        let storage = self.storage()?;
        if !wanted {
            let own = self.writers.register(&*storage);
            return self.settle_register(own);
        }
        self.writers.guard(true);
        self.writers.leave_register(&*storage);
        // Nobody writes, and nobody finds the register empty, before all are guarded.
        agree_with(&self.comm, Ok(()), [0]).map(drop)
    }
}
