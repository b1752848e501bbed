//! Passive target synchronisation: lock, unlock, flush (MPI 5.0, sections 12.5.3 and 12.5.4).
//!
//! [`lock_waits`](super::lock_waits) takes locks and waits for them. `MPI_Win_lock` waits for the lock.
//! `MPI_Win_lock_all` waits for that of the rank's own memory, and in a window of shared memory, which the program may
//! load and store, for those of all; any other lock is requested when the first operation goes there, by any thread, once
//! for all threads; the holder of the engine decides which.

use weft_atomic::FenceMode;
use weft_atomic::Ordering::Relaxed;
use weft_atomic::reader_bias::Entered;

use super::{Assertion, Flavor, LockKind, Window};
use crate::engine::WaitFor;
use crate::engine::one_sided::{AtWindow, WindowState};
use crate::error::Result;

impl Window {
    /// `MPI_Win_lock`.
    ///
    /// # Errors
    /// `Rank`; `RmaSync` if an epoch is open that does not end at a lock, or the lock is held; `ProcFailed` if the target, or a
    /// member that has the lock, is lost.
    pub fn lock(&self, kind: LockKind, rank: u32, assertion: Assertion) -> Result<()> {
        self.target(rank)?;
        self.epoch.check_lock(rank)?;
        self.stores.drain();
        if !assertion.no_check {
            self.take_lock(rank, kind, self.epoch.has_asked_for_locks())?;
        }
        self.epoch.lock(rank, kind, !assertion.no_check);
        Ok(())
    }

    /// `MPI_Win_unlock`: the operations to this member have been carried out when it returns.
    ///
    /// # Errors
    /// `Rank`; `RmaSync` if the lock is not held; what operations have failed with.
    pub fn unlock(&self, rank: u32) -> Result<()> {
        self.target(rank)?;
        let held = self.epoch.locked(rank, "MPI_Win_unlock")?;
        let mut outcome = self.flush_members(Some(rank));
        if let Some(kind) = held {
            outcome = outcome.and(self.give_back(rank, kind));
        }
        self.stores.drain();
        self.epoch.unlock(rank);
        outcome
    }

    /// `MPI_Win_lock_all`.
    ///
    /// # Errors
    /// As for [`Self::lock`].
    pub fn lock_all(&self, assertion: Assertion) -> Result<()> {
        self.epoch.check_lock_all()?;
        self.stores.drain();
        self.epoch.lock_all(assertion);
        if assertion.no_check {
            return Ok(());
        }
        let me = self.comm.rank();
        let ranks = match self.flavor {
            Flavor::Shared => 0..self.size(),
            _ => me..me + 1,
        };
        let first = ranks.start;
        for rank in ranks {
            // No operation of another thread asks for a lock before the epoch is there.
            match self.take_lock(rank, LockKind::Shared, rank != first) {
                Ok(()) => self.epoch.note_taken(rank),
                Err(error) => {
                    let _ = self.unlock_all();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// `MPI_Win_unlock_all`: all operations have been carried out when it returns.
    ///
    /// # Errors
    /// As for [`Self::unlock`].
    pub fn unlock_all(&self) -> Result<()> {
        let ranks = self.epoch.locked_all()?;
        let mut outcome = self.flush_members(None);
        for rank in ranks {
            let released = self.give_back(rank, LockKind::Shared);
            outcome = outcome.and(released);
        }
        self.stores.drain();
        self.epoch.unlock_all();
        outcome
    }

    /// What has to be done before an operation goes to a member: its lock taken, within `MPI_Win_lock_all`; its post waited
    /// for, if the operation is done at once.
    #[cold]
    pub(super) fn prepare(&self, rank: u32, at_once: bool) -> Result<()> {
        if self.epoch.is_lock_all() {
            while !self.epoch.is_held(rank) {
                let claimed = {
                    let _alone = self.engine();
                    self.epoch.claim(rank)
                };
                if claimed {
                    self.claim_lock(rank, at_once)?;
                } else {
                    // Another thread asks for it, and may fail.
                    self.epoch.note_awaited(rank);
                    let decided = |_: &mut _| self.epoch.is_decided(rank).then_some(());
                    self.engine().wait_for(
                        WaitFor::Window(self.context(), AtWindow::OtherThread),
                        decided,
                    );
                }
            }
            // A lock in shared memory is had when it is taken.
            return if at_once && !self.shared_locks {
                self.await_open(rank)
            } else {
                Ok(())
            };
        }
        if at_once {
            self.await_open(rank)?;
        }
        self.epoch.note_ready(rank);
        Ok(())
    }

    /// Does what has to be done before the first operation of an epoch goes to a member, if that is but to note it, or to take a lock that
    /// nobody has. Whether operations may go there now.
    pub(super) fn begin_access_at_once(&self, rank: u32) -> bool {
        if !self.epoch.is_lock_all() || !self.shared_locks {
            return self.epoch.begin_fence_access();
        }
        if self.epoch.is_held(rank) {
            return true;
        }
        let Ok(lock) = self.shared_lock(rank) else {
            return false;
        };
        let Some(alone) = self.comm.shared().try_take() else {
            return false;
        };
        let entered = if self.epoch.is_unclaimed(rank) {
            lock.enter_by_flag(self.flag_at)
        } else {
            Entered::Off
        };
        if entered == Entered::Inside {
            self.epoch.note_taken(rank);
        }
        self.comm.shared().let_go(alone);
        if entered == Entered::Retreated {
            self.tell_waiters(lock);
        }
        entered == Entered::Inside || self.epoch.is_held(rank)
    }

    /// Asks for the lock of a member, for all threads of this rank.
    fn claim_lock(&self, rank: u32, at_once: bool) -> Result<()> {
        // That of the own memory was taken first.
        let has_others = true;
        let taken = if self.shared_locks || at_once {
            self.take_lock(rank, LockKind::Shared, has_others)
        } else {
            let context = self.context();
            self.engine()
                .request_lock(context, rank, LockKind::Shared, has_others)
        };
        let awaited = match &taken {
            Ok(()) => self.epoch.note_held(rank),
            Err(_) => self.epoch.unclaim(rank),
        };
        if awaited {
            self.engine().wake_for_windows();
        }
        taken
    }

    /// Waits until operations may go to a member.
    pub(super) fn await_open(&self, rank: u32) -> Result<()> {
        self.wait_until(AtWindow::Access(Some(&[rank])), |window| {
            let member = window.member_mut(rank);
            if !member.is_open() {
                return None;
            }
            Some(member.lost().map_or(Ok(()), |error| Err(error.clone())))
        })
    }

    /// `MPI_Win_flush`: the operations to this member have been carried out.
    ///
    /// # Errors
    /// `Rank`; `RmaSync` outside of an epoch of locks; what operations have failed with.
    #[inline]
    pub fn flush(&self, rank: u32) -> Result<()> {
        self.target(rank)?;
        self.epoch.check_flush(Some(rank))?;
        self.flush_members(Some(rank))
    }

    /// `MPI_Win_flush_all`.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.epoch.check_flush(None)?;
        self.flush_members(None)
    }

    /// `MPI_Win_flush_local`: the buffers of operations to this member may be used again, and results have arrived.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn flush_local(&self, rank: u32) -> Result<()> {
        self.target(rank)?;
        self.epoch.check_flush(Some(rank))?;
        if !self.targets[rank as usize].is_used() {
            return Ok(());
        }
        self.wait_until(AtWindow::Access(Some(&[rank])), |window| {
            if !window.member(rank).is_flushed_locally() {
                return None;
            }
            Some(window.take_failure(Some(rank)).map_or(Ok(()), Err))
        })
    }

    /// `MPI_Win_flush_local_all`.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn flush_local_all(&self) -> Result<()> {
        self.epoch.check_flush(None)?;
        if !self.used.load(Relaxed) {
            return Ok(());
        }
        self.wait_until(AtWindow::Access(None), |window| {
            if !window.members().all(|member| member.is_flushed_locally()) {
                return None;
            }
            Some(window.take_failure(None).map_or(Ok(()), Err))
        })
    }

    /// `MPI_Win_sync`: what others have stored is seen by loads after this, and the other way round.
    pub fn sync(&self) {
        FenceMode::Symmetric.light();
        self.look_at_times();
    }

    /// Waits until operations have been carried out: those to a member, or all.
    #[inline]
    pub(super) fn flush_members(&self, rank: Option<u32>) -> Result<()> {
        self.stores.publish();
        let used = match rank {
            Some(rank) => self.targets[rank as usize].is_used(),
            None => self.used.load(Relaxed),
        };
        if used {
            return self.flush_messages(rank);
        }
        self.look_at_times();
        Ok(())
    }

    #[cold]
    fn flush_messages(&self, rank: Option<u32>) -> Result<()> {
        let flushed = |window: &mut WindowState| {
            let done = match rank {
                Some(rank) => window.member(rank).is_flushed(),
                None => window.members().all(|member| member.is_flushed()),
            };
            done.then(|| window.take_failure(rank).map_or(Ok(()), Err))
        };
        self.wait_until(
            AtWindow::Access(rank.as_ref().map(std::slice::from_ref)),
            flushed,
        )
    }
}
