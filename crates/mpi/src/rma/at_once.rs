//! Lock epochs that begin and end at once: the locks are words in shared memory, no rank is in the way, and no operation
//! has gone by messages or by portal.
//!
//! ```text
//!   lock_all      own flag                      lock, shared      the flag at the target
//!   unlock_all    flags that were set           lock, exclusive   a ticket, where readers take tickets, too
//! ```
//!
//! Each returns false, without effect, in any other case; then the call takes the general path
//! ([`passive`](super::passive)), which finds out the reason.

use weft_atomic::Ordering::Relaxed;
use weft_atomic::reader_bias::Entered;

use super::shared_lock::SharedLock;
use super::{Assertion, Flavor, LockKind, Window};

impl Window {
    /// The lock of a member, if it is in shared memory that this rank has attached.
    #[inline(always)]
    pub(super) fn attached_lock(&self, rank: u32) -> Option<SharedLock<'_>> {
        let control = self.targets.get(rank as usize)?.attached_control()?;
        self.shared_locks
            .then(|| SharedLock::new(control, self.size(), self.fences))
    }

    /// Shares a lock by the flag of this rank. Whether that was done.
    #[inline(always)]
    fn lock_shared_at_once(&self, lock: SharedLock<'_>) -> bool {
        self.stores.drain();
        match lock.enter_by_flag(self.flag_at) {
            Entered::Inside => true,
            Entered::Off => false,
            Entered::Retreated => {
                self.tell_waiters(lock);
                false
            }
        }
    }

    /// `MPI_Win_lock_all`. Whether it was done.
    #[inline]
    pub fn lock_all_at_once(&self, no_check: bool) -> bool {
        if !self.epoch.is_idle_at_once() || self.flavor == Flavor::Shared {
            return false;
        }
        let me = self.comm.rank();
        if no_check {
            self.stores.drain();
        } else if !self
            .attached_lock(me)
            .is_some_and(|lock| self.lock_shared_at_once(lock))
        {
            return false;
        }
        self.epoch.lock_all(Assertion {
            no_check,
            ..Assertion::default()
        });
        if !no_check {
            self.epoch.note_taken(me);
        }
        true
    }

    /// `MPI_Win_unlock_all`. Whether it was done.
    #[inline]
    pub fn unlock_all_at_once(&self) -> bool {
        if !self.epoch.is_lock_all() || !self.shared_locks || self.used.load(Relaxed) {
            return false;
        }
        self.stores.publish();
        self.look_at_times();
        for rank in self.epoch.held() {
            if let Some(lock) = self.attached_lock(rank) {
                self.leave_lock(rank, lock, LockKind::Shared);
            }
        }
        self.stores.drain();
        self.epoch.unlock_all();
        true
    }

    /// `MPI_Win_lock`. Whether it was done.
    #[inline]
    pub fn lock_at_once(&self, kind: LockKind, rank: u32, no_check: bool) -> bool {
        if !self.epoch.may_lock_at_once(rank) {
            return false;
        }
        let taken = if no_check {
            self.stores.drain();
            true
        } else {
            let lock = self.attached_lock(rank);
            lock.is_some_and(|lock| match kind {
                LockKind::Shared => self.lock_shared_at_once(lock),
                LockKind::Exclusive => self.lock_exclusive_at_once(lock),
            })
        };
        if taken {
            self.epoch.lock(rank, kind, !no_check);
        }
        taken
    }

    /// Takes a lock to be alone, if nobody has it and readers take tickets. Whether that was done.
    #[inline(always)]
    pub(super) fn lock_exclusive_at_once(&self, lock: SharedLock<'_>) -> bool {
        if lock.are_flags_on() || !lock.try_take(LockKind::Exclusive) {
            return false;
        }
        self.stores.drained();
        lock.turn_flags_off() || self.give_up(lock)
    }

    /// Readers that go by their flags were there before a lock was taken.
    #[cold]
    fn give_up(&self, lock: SharedLock<'_>) -> bool {
        lock.give_up_for_exclusive();
        if lock.has_waiters() {
            self.tell_waiters(lock);
        }
        false
    }

    /// `MPI_Win_unlock`. Whether it was done.
    #[inline]
    pub fn unlock_at_once(&self, rank: u32) -> bool {
        let Some((kind, held)) = self.epoch.locked_at_once(rank) else {
            return false;
        };
        let member = &self.targets[rank as usize];
        let lock = self.attached_lock(rank);
        if member.is_used() || held && lock.is_none() {
            return false;
        }
        self.stores.publish();
        self.look_at_times();
        if let Some(lock) = lock.filter(|_| held) {
            self.leave_lock(rank, lock, kind);
        }
        self.stores.drain();
        self.epoch.unlock(rank);
        true
    }
}
