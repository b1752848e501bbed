//! Shared lock: the lock of a member's memory, as words in memory that all members share (MPI 5.0, section 12.5.3).
//!
//! ```text
//!   byte 0           64              128                            (a line further)
//!        element     tickets, off    who waits: a bit for each rank   flags: one for each rank
//!        lock
//!
//!   tickets:  next (16) │ serving (16) │ readers (32)
//! ```
//!
//! A rank that shares the lock goes by its flag alone, without any atomic instruction, until a writer turns that
//! [off](weft_atomic::reader_bias), and waits for those who are in by their flags. From then on readers take tickets, too; who
//! has done so [often enough](READERS_IN_A_ROW) turns the flags on again.
//!
//! First come, first served: whoever wants the lock draws the number `next`, and has its turn when `serving` has come to
//! it. A reader lets the next one in at once, and counts itself; a writer waits until no reader is left, and lets the next one
//! in when it is done. Taken and given back without a wait, a ticket costs one atomic instruction each.
//!
//! Who has to wait sets its bit, looks again, and waits for messages; whoever changes the tickets wakes those whose bit is
//! set. Either sees what the other has done, because both are sequentially consistent (`SYNC shared_lock`).
//!
//! A member that dies with the lock, or while it waits for it, ends the waits of all others in an error.

use weft_atomic::reader_bias::{Entered, ReaderBias};
use weft_atomic::{AtomicU32, AtomicU64, FenceMode, Ordering};
use weft_sys::{Futex, SharedMemory};

use crate::engine::one_sided::LockKind;
use crate::exposed::{ElementLock, LOCK_BYTES};

const TICKETS: usize = 64;
const OFF: usize = TICKETS + 8;
const WAITERS: usize = 128;
const LINE: usize = 64;
/// A block is a whole number of these, so that the memory behind it is aligned as such.
const PAGE: usize = 4096;

/// Readers by tickets of one rank after which all of that member go by their flags again. To turn that off takes as long as some
/// hundred tickets: a tenth of what it saves at most.
pub(super) const READERS_IN_A_ROW: u32 = 1000;

/// Where the flags of the ranks begin, and how far apart they are: a line each, if the page has room for that.
fn flags(members: u32) -> (usize, usize) {
    let members = members as usize;
    let first = (WAITERS + members.div_ceil(64) * 8).next_multiple_of(LINE);
    let apart = if first + members * LINE <= PAGE {
        LINE
    } else {
        size_of::<AtomicU32>()
    };
    (first, apart)
}

/// Where the flag of a rank is among the words of each member, for a window of so many.
pub(super) fn flag_at(members: u32, rank: u32) -> usize {
    let (first, apart) = flags(members);
    first + rank as usize * apart
}

/// Bytes of the words of a member, for a window of so many.
pub(super) fn bytes(members: u32) -> usize {
    let (first, apart) = flags(members);
    (first + members as usize * apart).next_multiple_of(PAGE)
}

/// The lock of elements that is with these words, as the rank `me` takes it: for all of them, or for those that need it.
pub(super) fn element_lock(control: &SharedMemory, me: u32, for_all: bool) -> ElementLock {
    match control.part(0, LOCK_BYTES) {
        Some(words) => ElementLock::Shared { words, me, for_all },
        None => ElementLock::Engine,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tickets {
    next: u16,
    serving: u16,
    readers: u32,
}

impl Tickets {
    fn of(word: u64) -> Self {
        Self {
            next: word as u16,
            serving: (word >> 16) as u16,
            readers: (word >> 32) as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.next) | u64::from(self.serving) << 16 | u64::from(self.readers) << 32
    }

    /// Draws a number.
    fn draw(self) -> Self {
        Self {
            next: self.next.wrapping_add(1),
            ..self
        }
    }

    /// The number `ticket` has its turn; `None` if it has not.
    fn enter(self, ticket: u16, kind: LockKind) -> Option<Self> {
        if self.serving != ticket {
            return None;
        }
        match kind {
            LockKind::Shared => Some(Self {
                serving: self.serving.wrapping_add(1),
                readers: self.readers + 1,
                ..self
            }),
            LockKind::Exclusive => (self.readers == 0).then_some(self),
        }
    }

    fn leave(self, kind: LockKind) -> Self {
        match kind {
            LockKind::Shared => Self {
                readers: self.readers.saturating_sub(1),
                ..self
            },
            LockKind::Exclusive => Self {
                serving: self.serving.wrapping_add(1),
                ..self
            },
        }
    }
}

/// The lock of one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedLock<'a> {
    control: &'a SharedMemory,
    members: u32,
    mode: FenceMode,
}

/// A number drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket(u16);

impl<'a> SharedLock<'a> {
    /// `mode`: that of all members.
    #[inline]
    pub(super) fn new(control: &'a SharedMemory, members: u32, mode: FenceMode) -> Self {
        Self {
            control,
            members,
            mode,
        }
    }

    #[inline]
    fn bias(&self) -> Option<ReaderBias<'a>> {
        let off = self.control.atomic_u32(OFF)?;
        Some(ReaderBias::new(off, self.mode))
    }

    /// Shares it by the flag [`at`](flag_at) this place, if readers go by their flags. To be called by one thread of the rank at a
    /// time.
    #[inline]
    pub(super) fn enter_by_flag(&self, at: usize) -> Entered {
        match (self.bias(), self.control.atomic_u32(at)) {
            (Some(bias), Some(flag)) => bias.enter(flag),
            _ => Entered::Off,
        }
    }

    /// Gives back what is shared by the flag at this place. False: nothing is.
    #[inline]
    pub(super) fn leave_by_flag(&self, at: usize) -> bool {
        match (self.bias(), self.control.atomic_u32(at)) {
            (Some(bias), Some(flag)) if bias.is_inside(flag) => {
                bias.leave(flag);
                true
            }
            _ => false,
        }
    }

    /// Who has it by a ticket, and is not alone in it, lets readers go by their flags.
    #[cold]
    pub(super) fn turn_flags_on(&self) {
        if let Some(bias) = self.bias() {
            bias.turn_on();
        }
    }

    /// Whether readers go by their flags.
    #[inline]
    pub(super) fn are_flags_on(&self) -> bool {
        self.bias().is_some_and(ReaderBias::is_on)
    }

    /// Who has taken it, to be alone, makes readers take tickets. Whether nobody shares it by a flag; else
    /// [`are_flags_down`](Self::are_flags_down) says when.
    #[inline]
    pub(super) fn turn_flags_off(&self) -> bool {
        match self.bias() {
            Some(bias) if bias.is_on() => {
                bias.turn_off(&Futex::shared());
                self.are_flags_down()
            }
            _ => true,
        }
    }

    /// Who has taken it, to be alone, gives it back without having been: some may share it by their flags. Flags are on again, for
    /// who takes it next finds readers by turning them off.
    #[cold]
    pub(super) fn give_up_to_be_alone(&self) {
        self.turn_flags_on();
        self.leave(LockKind::Exclusive);
    }

    /// Whether nobody shares it by a flag, after they were turned off.
    #[cold]
    pub(super) fn are_flags_down(&self) -> bool {
        let flag = |rank| self.control.atomic_u32(flag_at(self.members, rank));
        let flags = (0..self.members).filter_map(flag);
        self.bias().is_none_or(|bias| bias.are_out(flags))
    }

    /// Stands between [`wait`](Self::wait) and the look at flags.
    pub(super) fn fence_of_waiter(&self) {
        self.mode.heavy(&Futex::shared());
    }

    fn tickets(&self) -> Option<&'a AtomicU64> {
        self.control.atomic_u64(TICKETS)
    }

    /// Replaces the tickets by what `change` makes of them; answers what they were, or `None` if it makes nothing of them.
    #[inline(always)]
    fn update(&self, change: impl Fn(Tickets) -> Option<Tickets>) -> Option<Tickets> {
        let change = |word| change(Tickets::of(word)).map(Tickets::word);
        // SYNC shared_lock
        let word = self.tickets()?;
        let was = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
        was.ok().map(Tickets::of)
    }

    /// Takes the lock if nobody is in the way.
    #[inline]
    pub(super) fn try_take(&self, kind: LockKind) -> bool {
        self.update(|now| now.draw().enter(now.next, kind))
            .is_some()
    }

    /// Draws a number.
    pub(super) fn draw(&self) -> Ticket {
        Ticket(
            self.update(|now| Some(now.draw()))
                .map_or(0, |was| was.next),
        )
    }

    /// Takes the lock if the number has its turn.
    pub(super) fn enter(&self, ticket: Ticket, kind: LockKind) -> bool {
        self.update(|now| now.enter(ticket.0, kind)).is_some()
    }

    /// Gives it back.
    #[inline]
    pub(super) fn leave(&self, kind: LockKind) {
        self.update(|now| Some(now.leave(kind)));
    }

    fn waiter(&self, rank: u32) -> Option<(&'a AtomicU64, u64)> {
        let word = self.control.atomic_u64(WAITERS + rank as usize / 64 * 8)?;
        Some((word, 1 << (rank % 64)))
    }

    /// A rank wants to be woken when the tickets change; call before looking again.
    pub(super) fn wait(&self, rank: u32) {
        if let Some((word, bit)) = self.waiter(rank) {
            // SYNC shared_lock
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// It wants that no more.
    pub(super) fn end_wait(&self, rank: u32) {
        if let Some((word, bit)) = self.waiter(rank) {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// Whether anybody wants to be woken, after a change. Costs a load for each 64 members.
    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        (0..self.members.div_ceil(64)).any(|group| {
            let word = self.control.atomic_u64(WAITERS + group as usize * 8);
            // SYNC shared_lock
            word.is_some_and(|word| word.load(Ordering::SeqCst) != 0)
        })
    }

    /// Those who want to be woken, after a change.
    #[inline]
    pub(super) fn waiters(&self) -> impl Iterator<Item = u32> + use<'a> {
        let Self {
            control, members, ..
        } = *self;
        let word = move |group: u32| {
            let word = control.atomic_u64(WAITERS + group as usize * 8);
            // SYNC shared_lock
            word.map_or(0, |word| word.load(Ordering::SeqCst))
        };
        let ranks = move |group: u32| {
            let mut bits = word(group);
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(group * 64 + bit)
            })
        };
        (0..members.div_ceil(64))
            .flat_map(ranks)
            .filter(move |rank| *rank < members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockKind::{Exclusive, Shared};

    #[test]
    fn first_come_first_served() {
        let control = SharedMemory::of_this_process(bytes(70)).expect("maps");
        let lock = SharedLock::new(&control, 70, FenceMode::Symmetric);
        for _ in 0..70_000 {
            // Numbers come round.
            assert!(lock.try_take(Exclusive));
            lock.leave(Exclusive);
        }
        assert!(lock.try_take(Shared) && lock.try_take(Shared) && !lock.try_take(Exclusive));
        let writer = lock.draw();
        assert!(!lock.enter(writer, Exclusive));
        assert!(!lock.try_take(Shared), "a writer waits");
        let reader = lock.draw();
        lock.leave(Shared);
        assert!(!lock.enter(writer, Exclusive) && !lock.enter(reader, Shared));
        lock.leave(Shared);
        assert!(!lock.enter(reader, Shared) && lock.enter(writer, Exclusive));
        assert!(!lock.enter(reader, Shared));
        lock.leave(Exclusive);
        assert!(lock.enter(reader, Shared) && lock.try_take(Shared));
        lock.wait(3);
        lock.wait(69);
        lock.wait(64);
        lock.end_wait(3);
        assert_eq!(lock.waiters().collect::<Vec<_>>(), [64, 69]);
    }

    #[test]
    fn a_reader_is_found_by_its_flag_also_after_another_writer_gave_up() {
        let control = SharedMemory::of_this_process(bytes(2)).expect("maps");
        let lock = SharedLock::new(&control, 2, FenceMode::Symmetric);
        let flag = flag_at(2, 0);
        assert_eq!(lock.enter_by_flag(flag), Entered::Inside);
        for _ in 0..2 {
            assert!(lock.try_take(Exclusive));
            assert!(!lock.turn_flags_off(), "a reader is inside");
            lock.give_up_to_be_alone();
        }
        assert!(lock.leave_by_flag(flag));
        assert!(lock.try_take(Exclusive) && lock.turn_flags_off());
    }

    #[test]
    fn readers_go_by_their_flags_until_a_writer_comes() {
        for members in [2, 70, 5000] {
            let control = SharedMemory::of_this_process(bytes(members)).expect("maps");
            let lock = SharedLock::new(&control, members, FenceMode::Symmetric);
            let [first, last] = [0, members - 1].map(|rank| flag_at(members, rank));
            assert_eq!(lock.enter_by_flag(first), Entered::Inside);
            assert_eq!(lock.enter_by_flag(last), Entered::Inside);
            assert!(lock.try_take(Exclusive) && !lock.turn_flags_off());
            assert!(lock.leave_by_flag(first) && !lock.leave_by_flag(first));
            assert_eq!(lock.enter_by_flag(first), Entered::Off);
            assert!(!lock.are_flags_down() && lock.leave_by_flag(last) && lock.are_flags_down());
            lock.leave(Exclusive);
            assert!(lock.try_take(Exclusive) && lock.turn_flags_off());
            lock.leave(Exclusive);
            assert!(lock.try_take(Shared));
            lock.turn_flags_on();
            assert_eq!(lock.enter_by_flag(last), Entered::Inside);
            assert!(!lock.leave_by_flag(first), "it has a ticket");
            lock.leave(Shared);
            assert_eq!(lock.waiters().count(), 0);
        }
    }
}
