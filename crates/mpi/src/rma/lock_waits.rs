//! Lock waits: taking, waiting for and releasing locks.
//!
//! If all members share memory, locks are words there ([`SharedLock`]); else a lock is requested by a message, and the
//! engine of the target grants it. Both let a rank that has other locks, of any window, go past waiting writers:
//! [`ticket_lock`](weft_atomic::ticket_lock) says when, and why no rank waits for ever. Its time belongs to a rank in a
//! window: it is here for locks in shared memory, and in the engine for the others. Only for locks in shared memory is it
//! known who waits for what a rank [keeps](super::kept_locks).

use weft_atomic::Ordering::Relaxed;
use weft_atomic::reader_bias::Entered;
use weft_atomic::ticket_lock::{EARLIEST, Turn};

use super::shared_lock::SharedLock;
use super::target::LockWait;
use super::{LockKind, Window};
use crate::engine::one_sided::AtWindow;
use crate::engine::{Engine, WaitFor};
use crate::error::{Error, ErrorClass, Result};

impl Window {
    /// Takes the lock of a member. `has_others`: this rank has other locks of the window; it may also have some of other windows.
    pub(super) fn take_lock(&self, rank: u32, kind: LockKind, has_others: bool) -> Result<()> {
        if !self.shared_locks {
            let context = self.context();
            let has_others = has_others || self.comm.process().kept_locks.is_any();
            self.engine()
                .request_lock(context, rank, kind, has_others)?;
            return self.await_open(rank);
        }
        let lock = self.shared_lock(rank)?;
        if kind == LockKind::Exclusive {
            if self.lock_exclusive_at_once(lock) {
                return Ok(());
            }
            let _waits = self.begin_lock_wait(rank)?;
            return self.await_exclusive(rank, lock);
        }
        match lock.enter_by_flag(self.flag_at) {
            Entered::Inside => return Ok(()),
            Entered::Retreated => self.tell_waiters(lock),
            Entered::Off => {}
        }
        if lock.try_take(LockKind::Shared) {
            self.count_reader(rank, lock);
            return Ok(());
        }
        let _waits = self.begin_lock_wait(rank)?;
        if has_others || self.comm.process().kept_locks.is_any() {
            return self.await_shared_further(rank, lock);
        }
        self.await_shared(rank, lock)?;
        self.count_reader(rank, lock);
        Ok(())
    }

    /// A thread of this rank begins to wait for the lock of a member. Only one may: the bit by which others know of it is the rank's, and so is the
    /// epoch that the lock begins.
    fn begin_lock_wait(&self, rank: u32) -> Result<LockWait<'_>> {
        self.targets[rank as usize].begin_lock_wait().ok_or_else(|| {
            Error::new(
                ErrorClass::RmaSync,
                format!(
                    "MPI_Win_lock for rank {rank} of the window, for whose lock another thread of this rank waits; let one thread at a time lock it"
                ),
            )
        })
    }

    /// The lock of a member in shared memory.
    #[inline]
    pub(super) fn shared_lock(&self, rank: u32) -> Result<SharedLock<'_>> {
        let control = self.control(rank)?;
        Ok(SharedLock::new(control, self.size(), self.fences))
    }

    /// This rank shares a lock by a number: when it has done so often enough, flags are on again.
    fn count_reader(&self, rank: u32, lock: SharedLock<'_>) {
        if self.targets[rank as usize].count_reader() {
            lock.turn_flags_on();
            // A writer that waits meanwhile waits for flags, too, from now on.
            self.tell_waiters(lock);
        }
    }

    /// Has those look who wait for a lock.
    #[cold]
    pub(super) fn tell_waiters(&self, lock: SharedLock<'_>) {
        let mut engine = self.engine();
        for rank in lock.waiters() {
            engine.tell_freed(self.context(), rank);
        }
    }

    /// Has those look who wait for a lock beside this rank.
    fn tell_other_waiters(&self, engine: &mut Engine, lock: SharedLock<'_>) {
        let me = self.comm.rank();
        for rank in lock.waiters().filter(|rank| *rank != me) {
            engine.tell_freed(self.context(), rank);
        }
    }

    /// Waits until a look at a lock says that this rank has it.
    fn await_lock(
        &self,
        (rank, lock): (u32, SharedLock<'_>),
        mut look: impl FnMut(&mut Engine) -> bool,
    ) -> Result<()> {
        let (me, context) = (self.comm.rank(), self.context());
        lock.wait(me);
        let awaited = WaitFor::Window(context, AtWindow::Lock(rank));
        let outcome = self.engine().wait_for(awaited, |engine| {
            if look(engine) {
                return Some(Ok(()));
            }
            let lost = engine.window(context).lost();
            lost.map(|error| Err(error.clone()))
        });
        lock.end_wait(me);
        outcome
    }

    /// Stands in line to share a lock.
    #[cold]
    fn await_shared(&self, rank: u32, lock: SharedLock<'_>) -> Result<()> {
        let number = lock.draw();
        self.await_lock((rank, lock), |engine| {
            let shares = lock.share(number);
            if shares {
                // The next one may be a reader, too.
                self.tell_other_waiters(engine, lock);
            }
            shares
        })
    }

    /// Waits until it may share a lock, not in line: past those who wait to be alone, if that is due; it always is while somebody waits for a
    /// lock that this rank keeps.
    #[cold]
    fn await_shared_further(&self, rank: u32, lock: SharedLock<'_>) -> Result<()> {
        let mut listed = false;
        let outcome = self.await_lock((rank, lock), |_| {
            let time = match self.comm.process().kept_locks.is_waited_for() {
                true => EARLIEST,
                false => self.time.load(Relaxed),
            };
            let overtaken = lock.share_further(time, &mut listed);
            overtaken
                .map(|overtaken| self.targets[rank as usize].note_overtaken(overtaken))
                .is_some()
        });
        if listed {
            // The next writer waits for whoever is listed.
            lock.unlist();
            self.tell_waiters(lock);
        }
        outcome
    }

    /// Stands in line to be alone, and waits for those who share the lock by their flags: its bit is set before it turns those off, and the
    /// fence of that stands before its look at them, so that whoever takes its flag back finds the bit.
    #[cold]
    fn await_exclusive(&self, rank: u32, lock: SharedLock<'_>) -> Result<()> {
        let clock = self.control(0)?;
        let mut writer = lock.stand_in_line();
        self.await_lock((rank, lock), |engine| {
            let turn = lock.look(&mut writer, clock);
            if turn == Turn::First {
                // Those with other locks may go past it now.
                self.tell_other_waiters(engine, lock);
            }
            turn == Turn::Alone
        })
    }

    /// Gives back the lock of a member in shared memory.
    #[inline]
    pub(super) fn leave_lock(&self, rank: u32, lock: SharedLock<'_>, kind: LockKind) {
        if kind == LockKind::Exclusive {
            lock.leave(kind);
            self.stores.drained();
        } else if !lock.leave_by_flag(self.flag_at) {
            lock.leave(kind);
            self.stores.drained();
            if let Some(since) = self.targets[rank as usize].take_overtaken() {
                self.time.fetch_max(since, Relaxed);
            }
        }
        if lock.has_waiters() {
            self.tell_waiters(lock);
        }
    }

    /// Gives back the lock of a member.
    pub(super) fn give_back(&self, rank: u32, kind: LockKind) -> Result<()> {
        let context = self.context();
        if !self.shared_locks {
            // A rank that gave back a lock before it was granted would be granted it later.
            let open = self.await_open(rank);
            self.stores.drain();
            let released = self.engine().release_lock(context, rank);
            return open.and(released);
        }
        let lock = self.shared_lock(rank)?;
        self.leave_lock(rank, lock, kind);
        Ok(())
    }
}
