//! Epoch: the current epoch of a rank in a window, and which it may begin (MPI 5.0, section 12.5).
//!
//! ```text
//!             fence            start           lock            lock_all
//!   None ──► Fence    None ──► Started  None ──► Locked  None ──► LockedAll        access epochs
//!             │  ▲             complete        unlock          unlock_all
//!             └──┘ fence
//!   None ──post──► Posted ──wait, test──► None                                     exposure epoch
//! ```
//!
//! A fence begins an epoch only if an operation follows: until then any other epoch may begin. The words are atomics because
//! threads may call at the same time; which calls may overlap is the program's matter (MPI 5.0, section 12.8).
//!
//! Threads lock and unlock different members at the same time. So locks are not counted: the caller that asks [which
//! epoch is open](Epoch::access) finds out that the last one was released, not an operation, which looks only at its own
//! member.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_atomic::Ordering::{AcqRel, Relaxed};
use weft_atomic::{AtomicBool, AtomicU8};

use crate::engine::one_sided::LockKind;
use crate::error::{Error, ErrorClass, Result};

const NONE: u8 = 0;
/// A fence was called, and no operation since.
const FENCED: u8 = 1;
/// Operations since the fence.
const FENCE: u8 = 2;
const STARTED: u8 = 3;
const LOCKED: u8 = 4;
const LOCKED_ALL: u8 = 5;

/// Bits of a member.
/// Its lock is held by `MPI_Win_lock`, or will be asked for.
const LOCK: u8 = 1;
/// That lock is an exclusive one.
const EXCLUSIVE: u8 = 2;
/// Its lock is held, or was asked for.
const HELD: u8 = 4;
const IN_START: u8 = 8;
/// Nothing has to be waited for before an operation goes to it.
const READY: u8 = 16;
/// A thread asks for its lock.
const CLAIMED: u8 = 32;
/// Another thread waits for that.
const AWAITED: u8 = 64;
/// No member has it.
const NEVER: u8 = 128;

/// The bits that a member needs for an operation to go to it at once, and for a flush, in an epoch.
const fn needed(access: u8) -> (u8, u8) {
    match access {
        FENCE => (0, NEVER),
        STARTED => (IN_START | READY, NEVER),
        LOCKED => (LOCK, LOCK),
        LOCKED_ALL => (HELD, 0),
        _ => (NEVER, NEVER),
    }
}

/// Promises of the program (`MPI_MODE_…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Assertion {
    /// The other side needs not be asked.
    pub no_check: bool,
    /// No operation precedes the fence.
    pub no_precede: bool,
    /// No operation follows the fence.
    pub no_succeed: bool,
}

/// Which epochs of a window are open.
#[derive(Debug)]
pub(super) struct Epoch {
    access: AtomicU8,
    /// What [`needed`] says of it.
    for_operation: AtomicU8,
    for_flush: AtomicU8,
    members: Box<[AtomicU8]>,
    /// Members of the access epoch that was started, in order.
    started: Mutex<Vec<u32>>,
    /// Members of the exposure epoch, if there is one.
    posted: Mutex<Option<Vec<u32>>>,
    /// Whether there is one, for who asks nothing else; written while the members are held.
    is_posted: AtomicBool,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn sync(text: String) -> Error {
    Error::new(ErrorClass::RmaSync, text)
}

impl Epoch {
    pub(super) fn new(members: u32) -> Self {
        Self {
            access: AtomicU8::new(NONE),
            for_operation: AtomicU8::new(NEVER),
            for_flush: AtomicU8::new(NEVER),
            members: (0..members).map(|_| AtomicU8::new(0)).collect(),
            started: Mutex::default(),
            posted: Mutex::default(),
            is_posted: AtomicBool::new(false),
        }
    }

    /// The epoch that is open.
    fn access(&self) -> u8 {
        match self.access.load(Relaxed) {
            LOCKED if !self.has_locks() => NONE,
            access => access,
        }
    }

    /// Whether the lock of any member is held by `MPI_Win_lock`.
    fn has_locks(&self) -> bool {
        self.members
            .iter()
            .any(|bits| bits.load(Relaxed) & LOCK != 0)
    }

    /// Whether the lock of any member was asked for by `MPI_Win_lock`, and is held.
    pub(super) fn has_asked_for_locks(&self) -> bool {
        let asked = |bits: u8| bits & (LOCK | HELD) == LOCK | HELD;
        self.access.load(Relaxed) == LOCKED
            && self.members.iter().any(|bits| asked(bits.load(Relaxed)))
    }

    /// The epoch that is open, for people.
    fn name(&self) -> &'static str {
        match self.access() {
            FENCED | FENCE => "an epoch of MPI_Win_fence",
            STARTED => "an epoch of MPI_Win_start",
            LOCKED => "an epoch of MPI_Win_lock",
            LOCKED_ALL => "an epoch of MPI_Win_lock_all",
            _ => "no epoch",
        }
    }

    #[inline]
    fn member(&self, rank: u32) -> u8 {
        self.members[rank as usize].load(Relaxed)
    }

    #[inline(always)]
    fn set(&self, rank: u32, bits: u8) {
        self.members[rank as usize].store(bits, Relaxed);
    }

    /// Whether an operation to this member can go at once. False: more has to be looked at ([`Self::check_operation`]).
    #[inline(always)]
    pub(super) fn is_ready(&self, rank: u32) -> bool {
        self.has(rank, &self.for_operation)
    }

    #[inline(always)]
    fn has(&self, rank: u32, needed: &AtomicU8) -> bool {
        let member = self.members.get(rank as usize);
        member.is_some_and(|bits| !bits.load(Relaxed) & needed.load(Relaxed) == 0)
    }

    /// This epoch is open now.
    #[inline(always)]
    fn enter(&self, access: u8) {
        let (for_operation, for_flush) = needed(access);
        self.access.store(access, Relaxed);
        self.for_operation.store(for_operation, Relaxed);
        self.for_flush.store(for_flush, Relaxed);
    }

    /// Whether an operation may be called for this member. True: it can go at once; else something has to be asked or waited
    /// for first.
    #[inline]
    pub(super) fn check_operation(&self, rank: u32) -> Result<bool> {
        let bits = self.members[rank as usize].load(Relaxed);
        match self.access.load(Relaxed) {
            LOCKED if bits & LOCK != 0 => Ok(true),
            LOCKED_ALL => Ok(bits & HELD != 0),
            STARTED if bits & IN_START != 0 => Ok(bits & READY != 0),
            FENCE => Ok(true),
            FENCED => {
                self.enter(FENCE);
                Ok(true)
            }
            _ => Err(self.no_access(rank)),
        }
    }

    #[cold]
    fn no_access(&self, rank: u32) -> Error {
        match self.access() {
            LOCKED => sync(format!(
                "an operation to rank {rank} of the window, whose lock is not held; call MPI_Win_lock for that rank before"
            )),
            STARTED => sync(format!(
                "an operation to rank {rank} of the window, which is not in the group of MPI_Win_start; add it to the group"
            )),
            _ => sync(format!(
                "an operation to rank {rank} of the window outside of an epoch; call MPI_Win_fence, MPI_Win_start or MPI_Win_lock before"
            )),
        }
    }

    /// Whether operations may go to all members, since a fence was called: from now on some have.
    pub(super) fn begin_fence_access(&self) -> bool {
        if self.access.load(Relaxed) == FENCED {
            self.enter(FENCE);
        }
        self.access.load(Relaxed) == FENCE
    }

    /// Operations with a request are for epochs of locks (MPI 5.0, section 12.3.5).
    pub(super) fn check_request(&self, rank: u32) -> Result<()> {
        match self.access() {
            LOCKED | LOCKED_ALL => Ok(()),
            NONE => Err(self.no_access(rank)),
            _ => Err(sync(format!(
                "an operation with a request in {}; such operations are for epochs of MPI_Win_lock and MPI_Win_lock_all",
                self.name()
            ))),
        }
    }

    /// What was to be waited for before operations to this member is done.
    pub(super) fn note_ready(&self, rank: u32) {
        self.members[rank as usize].fetch_or(READY, AcqRel);
    }

    #[inline]
    fn check_idle(&self, call: &str) -> Result<()> {
        match self.access() {
            NONE | FENCED => Ok(()),
            _ => Err(sync(format!(
                "{call} within {}, which is open; end it before",
                self.name()
            ))),
        }
    }

    /// Whether the window may be freed.
    pub(super) fn check_free(&self) -> Result<()> {
        self.check_fence("MPI_Win_free")
    }

    fn check_fence(&self, call: &str) -> Result<()> {
        match self.access() {
            NONE | FENCED | FENCE => {}
            _ => {
                return Err(sync(format!(
                    "{call} within {}, which is open; end it before",
                    self.name()
                )));
            }
        }
        if self.is_posted.load(Relaxed) {
            return Err(sync(format!(
                "{call} within an exposure epoch; call MPI_Win_wait before"
            )));
        }
        Ok(())
    }

    /// A fence may be called.
    pub(super) fn begin_fence(&self) -> Result<()> {
        self.check_fence("MPI_Win_fence")
    }

    /// A fence was called.
    pub(super) fn end_fence(&self, assertion: Assertion) {
        let next = if assertion.no_succeed { NONE } else { FENCED };
        self.enter(next);
    }

    /// An access epoch to these members is started.
    pub(super) fn start(&self, ranks: &[u32], assertion: Assertion) -> Result<()> {
        self.check_idle("MPI_Win_start")?;
        let ready = if assertion.no_check { READY } else { 0 };
        for rank in ranks {
            self.set(*rank, IN_START | ready);
        }
        ranks.clone_into(&mut open(&self.started));
        self.enter(STARTED);
        Ok(())
    }

    /// The members of the access epoch that was started.
    pub(super) fn started(&self) -> Result<Vec<u32>> {
        if self.access.load(Relaxed) != STARTED {
            return Err(sync(format!(
                "MPI_Win_complete within {}; it ends what MPI_Win_start has begun",
                self.name()
            )));
        }
        Ok(open(&self.started).clone())
    }

    /// That epoch has ended.
    pub(super) fn complete(&self, ranks: &[u32]) {
        for rank in ranks {
            self.set(*rank, 0);
        }
        self.enter(NONE);
    }

    /// An exposure epoch for these members begins.
    pub(super) fn post(&self, ranks: &[u32]) -> Result<()> {
        let mut posted = open(&self.posted);
        if posted.is_some() {
            return Err(sync(
                "MPI_Win_post within an exposure epoch; call MPI_Win_wait before".to_owned(),
            ));
        }
        if self.access.load(Relaxed) == FENCE {
            return Err(sync(
                "MPI_Win_post within an epoch of MPI_Win_fence with operations; end it by a fence before"
                    .to_owned(),
            ));
        }
        *posted = Some(ranks.to_vec());
        self.is_posted.store(true, Relaxed);
        Ok(())
    }

    /// The members of the exposure epoch.
    pub(super) fn posted(&self, call: &str) -> Result<Vec<u32>> {
        open(&self.posted).clone().ok_or_else(|| {
            sync(format!(
                "{call} outside of an exposure epoch; it ends what MPI_Win_post has begun"
            ))
        })
    }

    /// The exposure epoch has ended.
    pub(super) fn end_exposure(&self) {
        let mut posted = open(&self.posted);
        *posted = None;
        self.is_posted.store(false, Relaxed);
    }

    /// Whether an epoch of locks of all may begin. False: it may, or may not.
    #[inline(always)]
    pub(super) fn is_idle_at_once(&self) -> bool {
        matches!(self.access.load(Relaxed), NONE | FENCED)
    }

    /// Whether a lock of this member may be asked for. False: it may, or may not.
    #[inline(always)]
    pub(super) fn may_lock_at_once(&self, rank: u32) -> bool {
        match self.access.load(Relaxed) {
            LOCKED => self
                .members
                .get(rank as usize)
                .is_some_and(|bits| bits.load(Relaxed) & LOCK == 0),
            access => matches!(access, NONE | FENCED) && (rank as usize) < self.members.len(),
        }
    }

    /// The lock of this member that is held, if one is, and whether it was asked for.
    #[inline(always)]
    pub(super) fn locked_at_once(&self, rank: u32) -> Option<(LockKind, bool)> {
        let bits = self.members.get(rank as usize)?.load(Relaxed);
        if self.access.load(Relaxed) != LOCKED || bits & LOCK == 0 {
            return None;
        }
        let kind = match bits & EXCLUSIVE {
            0 => LockKind::Shared,
            _ => LockKind::Exclusive,
        };
        Some((kind, bits & HELD != 0))
    }

    /// A lock of this member may be asked for.
    pub(super) fn check_lock(&self, rank: u32) -> Result<()> {
        if self.access.load(Relaxed) != LOCKED {
            return self.check_idle("MPI_Win_lock");
        }
        if self.member(rank) & LOCK != 0 {
            return Err(sync(format!(
                "MPI_Win_lock for rank {rank} of the window, whose lock this rank holds; call MPI_Win_unlock before"
            )));
        }
        Ok(())
    }

    /// A lock of this member is held; it was asked for if `held`.
    #[inline]
    pub(super) fn lock(&self, rank: u32, kind: LockKind, held: bool) {
        let kind = match kind {
            LockKind::Shared => LOCK,
            LockKind::Exclusive => LOCK | EXCLUSIVE,
        };
        self.set(rank, kind | if held { HELD } else { 0 });
        if self.access.load(Relaxed) != LOCKED {
            self.enter(LOCKED);
        }
    }

    /// The lock of this member that is held, if it was asked for.
    pub(super) fn locked(&self, rank: u32, call: &str) -> Result<Option<LockKind>> {
        match self.locked_at_once(rank) {
            Some((kind, held)) => Ok(held.then_some(kind)),
            None => Err(sync(format!(
                "{call} for rank {rank} of the window, whose lock this rank does not hold; call MPI_Win_lock before"
            ))),
        }
    }

    /// The lock of this member was given back.
    #[inline]
    pub(super) fn unlock(&self, rank: u32) {
        self.set(rank, 0);
    }

    /// The locks of all members may be asked for.
    pub(super) fn check_lock_all(&self) -> Result<()> {
        self.check_idle("MPI_Win_lock_all")
    }

    /// The locks of all are held, but are asked for only when they are needed; with `no_check` never.
    #[inline]
    pub(super) fn lock_all(&self, assertion: Assertion) {
        let bits = if assertion.no_check { READY | HELD } else { 0 };
        for rank in 0..self.members.len() as u32 {
            self.set(rank, bits);
        }
        self.enter(LOCKED_ALL);
    }

    /// Whether the locks of all are held.
    #[inline(always)]
    pub(super) fn is_lock_all(&self) -> bool {
        self.access.load(Relaxed) == LOCKED_ALL
    }

    /// Whether it is for the caller, which has the engine, to ask for the lock of this member, within `MPI_Win_lock_all`.
    pub(super) fn claim(&self, rank: u32) -> bool {
        let was = self.members[rank as usize].fetch_or(CLAIMED, AcqRel);
        // It may be held since the caller looked.
        was & (CLAIMED | HELD) == 0
    }

    /// The lock was not given. Whether another thread waits for it, which may ask now.
    #[must_use = "who waits is woken"]
    pub(super) fn unclaim(&self, rank: u32) -> bool {
        self.members[rank as usize].fetch_and(!(CLAIMED | AWAITED), AcqRel) & AWAITED != 0
    }

    /// Whether nobody asks for the lock of this member just now: it is held, or was not given.
    pub(super) fn is_decided(&self, rank: u32) -> bool {
        self.member(rank) & (HELD | CLAIMED) != CLAIMED
    }

    /// Whether the lock of this member was asked for since `MPI_Win_lock_all`.
    pub(super) fn is_held(&self, rank: u32) -> bool {
        self.member(rank) & HELD != 0
    }

    /// It was. Whether another thread waits for that.
    #[must_use = "who waits is woken"]
    pub(super) fn note_held(&self, rank: u32) -> bool {
        self.members[rank as usize].fetch_or(HELD, AcqRel) & AWAITED != 0
    }

    /// Whether it was not, and no thread asks for it just now.
    pub(super) fn is_unclaimed(&self, rank: u32) -> bool {
        self.member(rank) == 0
    }

    /// It was, while nobody else asks for it.
    #[inline]
    pub(super) fn note_taken(&self, rank: u32) {
        self.set(rank, HELD);
    }

    /// Another thread will look whether the lock is held, and wait.
    pub(super) fn note_awaited(&self, rank: u32) {
        self.members[rank as usize].fetch_or(AWAITED, AcqRel);
    }

    /// The members whose lock was asked for, within `MPI_Win_lock_all`.
    #[inline(always)]
    pub(super) fn held(&self) -> impl Iterator<Item = u32> {
        let held = |bits: u8| bits & (HELD | READY) == HELD;
        let members = (0..).zip(&self.members);
        members.filter_map(move |(rank, bits)| held(bits.load(Relaxed)).then_some(rank))
    }

    /// The locks that were asked for, by `MPI_Win_lock` or within `MPI_Win_lock_all`.
    pub(super) fn locks(&self) -> impl Iterator<Item = (u32, LockKind)> {
        self.held().map(|rank| match self.member(rank) & EXCLUSIVE {
            0 => (rank, LockKind::Shared),
            _ => (rank, LockKind::Exclusive),
        })
    }

    /// The members whose lock is to be given back at the end of `MPI_Win_lock_all`.
    pub(super) fn locked_all(&self) -> Result<impl Iterator<Item = u32>> {
        if !self.is_lock_all() {
            return Err(sync(format!(
                "MPI_Win_unlock_all within {}; it ends what MPI_Win_lock_all has begun",
                self.name()
            )));
        }
        Ok(self.held())
    }

    /// They were given back.
    #[inline]
    pub(super) fn unlock_all(&self) {
        for member in &self.members {
            member.store(0, Relaxed);
        }
        self.enter(NONE);
    }

    /// Operations may be flushed: to this member, or to all.
    #[inline]
    pub(super) fn check_flush(&self, rank: Option<u32>) -> Result<()> {
        let may = match rank {
            Some(rank) => self.may_flush(rank),
            None => matches!(self.access(), LOCKED | LOCKED_ALL),
        };
        if may {
            Ok(())
        } else {
            Err(self.no_flush(rank))
        }
    }

    /// Whether the lock of this member is held, by which operations to it are flushed.
    #[inline(always)]
    pub(super) fn may_flush(&self, rank: u32) -> bool {
        self.has(rank, &self.for_flush)
    }

    #[cold]
    fn no_flush(&self, rank: Option<u32>) -> Error {
        let what = rank.map_or_else(String::new, |rank| {
            format!(" for rank {rank} of the window")
        });
        sync(format!(
            "a flush{what} within {}; operations are flushed while MPI_Win_lock or MPI_Win_lock_all holds the lock",
            self.name()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(outcome: Result<T>) -> bool {
        outcome.is_err_and(|error| error.class() == ErrorClass::RmaSync)
    }

    #[test]
    fn epochs_do_not_overlap() {
        let epoch = Epoch::new(3);
        let plain = Assertion::default();
        assert!(refused(epoch.check_operation(0)) && refused(epoch.check_flush(None)));
        assert!(refused(epoch.started()) && refused(epoch.posted("MPI_Win_wait")));
        assert!(
            refused(epoch.locked(0, "MPI_Win_unlock")) && refused(epoch.locked_all().map(drop))
        );
        // A fence begins nothing before an operation.
        epoch.begin_fence().unwrap();
        epoch.end_fence(plain);
        epoch.check_lock(1).unwrap();
        assert!(epoch.check_operation(2).unwrap());
        assert!(refused(epoch.check_lock(1)) && refused(epoch.start(&[1], plain)));
        assert!(refused(epoch.check_lock_all()) && refused(epoch.post(&[1])));
        assert!(refused(epoch.check_request(2)));
        epoch.end_fence(Assertion {
            no_succeed: true,
            ..plain
        });
        assert!(refused(epoch.check_operation(2)));
        // Locks of one and another.
        epoch.check_lock(1).unwrap();
        epoch.lock(1, LockKind::Exclusive, true);
        assert!(refused(epoch.check_lock(1)) && epoch.check_lock(0).is_ok());
        epoch.lock(0, LockKind::Shared, false);
        assert!(refused(epoch.begin_fence()) && refused(epoch.check_free()));
        assert!(refused(epoch.check_operation(2)) && epoch.check_operation(1).unwrap());
        assert!(refused(epoch.check_flush(Some(2))) && epoch.check_flush(None).is_ok());
        assert_eq!(epoch.locked(1, "").unwrap(), Some(LockKind::Exclusive));
        assert_eq!(epoch.locked(0, "").unwrap(), None);
        assert!(epoch.has_asked_for_locks());
        assert!(!epoch.may_lock_at_once(1) && epoch.may_lock_at_once(2));
        assert_eq!(epoch.locked_at_once(0), Some((LockKind::Shared, false)));
        epoch.unlock(1);
        assert!(
            !epoch.has_asked_for_locks(),
            "of the other one nobody was asked"
        );
        assert!(epoch.check_flush(None).is_ok() && refused(epoch.check_lock_all()));
        epoch.unlock(0);
        // Nobody has a lock any more.
        assert!(refused(epoch.check_operation(0)) && refused(epoch.check_request(0)));
        assert!(refused(epoch.check_flush(None)) && refused(epoch.check_flush(Some(0))));
        assert!(epoch.check_free().is_ok() && epoch.check_lock_all().is_ok());
        assert!(epoch.locked_at_once(0).is_none() && epoch.may_lock_at_once(0));
        // All locks, each when it is needed.
        epoch.lock_all(plain);
        assert!(!epoch.check_operation(2).unwrap() && refused(epoch.check_lock(1)));
        assert!(!epoch.note_held(2));
        assert!(epoch.check_operation(2).unwrap() && epoch.is_held(2));
        assert!(epoch.locked_all().unwrap().eq([2]));
        epoch.unlock_all();
        // Start and complete, post and wait.
        epoch.start(&[0, 2], plain).unwrap();
        assert!(!epoch.check_operation(2).unwrap() && refused(epoch.check_operation(1)));
        epoch.note_ready(2);
        assert!(epoch.check_operation(2).unwrap() && refused(epoch.check_lock(1)));
        epoch.post(&[1]).unwrap();
        assert!(refused(epoch.post(&[1])) && refused(epoch.begin_fence()));
        assert_eq!(epoch.started().unwrap(), [0, 2]);
        epoch.complete(&[0, 2]);
        assert!(refused(epoch.begin_fence()));
        assert_eq!(epoch.posted("").unwrap(), [1]);
        epoch.end_exposure();
        assert!(epoch.begin_fence().is_ok());
    }
}
