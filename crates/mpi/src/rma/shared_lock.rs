//! Shared lock: the lock of a member's memory, as words in memory that all members share (MPI 5.0, section 12.5.3).
//!
//! ```text
//!   byte 0           64                              128                            (a line further)
//!        element     tickets, first, clock, off      who waits: a bit for each rank   flags: one for each rank
//!        lock
//! ```
//!
//! A reader uses only its flag, without any atomic instruction, until a writer turns flags
//! [off](weft_atomic::reader_bias), and waits for the readers that are in by their flags. From then on readers take
//! [tickets](weft_atomic::ticket_lock), too; a reader that has done so [often enough](READERS_IN_A_ROW) turns the flags
//! on again.
//!
//! First come, first served, except for a reader that has other locks: it goes past a writer that has waited since a
//! later time than the reader's, and past any while a rank waits for a lock that the reader keeps. The clock of the
//! window is a word beside the lock of its first member, which a writer advances that is first in line and has to wait;
//! the others are not used.
//!
//! A rank that has to wait sets its bit, looks again, and waits for messages; a rank that changes the tickets wakes those
//! whose bit is set. Either sees what the other has done, because both are sequentially consistent (`SYNC shared_lock`).
//!
//! If a member dies with the lock, or while it waits for it, the waits of all others end in an error.

use weft_atomic::reader_bias::{Entered, ReaderBias};
use weft_atomic::ticket_lock::{Number, Overtaken, TicketLock, Time, Turn, Writer};
use weft_atomic::{AtomicU32, AtomicU64, FenceMode, Ordering};
use weft_sys::{Futex, SharedMemory};

use crate::engine::one_sided::LockKind;
use crate::exposed::{ElementLock, LOCK_BYTES};

const TICKETS: usize = 64;
const OFF: usize = TICKETS + 24;
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

/// Tickets, the first in line, and the clock; every member that has attached a block has them.
#[inline]
fn words(control: &SharedMemory) -> Option<&[AtomicU64; 3]> {
    control.atomic_u64s(TICKETS)
}

/// The lock of one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedLock<'a> {
    control: &'a SharedMemory,
    members: u32,
    mode: FenceMode,
}

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

    /// A rank that shares it by a number, or has it without having been alone, lets readers go by their flags. The caller then looks for waiters: a writer that is
    /// first in line turns that off again.
    #[cold]
    pub(super) fn turn_flags_on(&self) {
        if let Some(bias) = self.bias() {
            bias.turn_on();
            // SYNC shared_lock: between this and the look at who waits.
            FenceMode::Symmetric.light();
        }
    }

    /// Whether readers go by their flags.
    #[inline]
    pub(super) fn are_flags_on(&self) -> bool {
        self.bias().is_some_and(ReaderBias::is_on)
    }

    /// A writer that has taken it without having been in line makes readers take tickets. True if nobody shares it by a flag; else the
    /// caller [gives it back](Self::give_up_for_exclusive).
    #[inline]
    pub(super) fn turn_flags_off(&self) -> bool {
        match self.bias() {
            Some(bias) if bias.is_on() => {
                bias.turn_off(&Futex::shared());
                bias.are_out(self.all_flags())
            }
            _ => true,
        }
    }

    /// A writer that has taken it gives it back without having been alone: some may share it by their flags. Flags are on again, for
    /// who takes it next finds readers by turning them off.
    #[cold]
    pub(super) fn give_up_for_exclusive(&self) {
        self.turn_flags_on();
        self.leave(LockKind::Exclusive);
    }

    fn all_flags(&self) -> impl Iterator<Item = &'a AtomicU32> + use<'a> {
        let Self {
            control, members, ..
        } = *self;
        (0..members).filter_map(move |rank| control.atomic_u32(flag_at(members, rank)))
    }

    #[inline]
    fn tickets(&self) -> Option<TicketLock<'a>> {
        let [tickets, first, _] = words(self.control)?;
        Some(TicketLock::new(tickets, first))
    }

    /// Takes the lock if nobody is in the way, nor in line.
    #[inline]
    pub(super) fn try_take(&self, kind: LockKind) -> bool {
        self.tickets().is_some_and(|tickets| match kind {
            LockKind::Shared => tickets.try_share(),
            LockKind::Exclusive => tickets.try_be_alone(),
        })
    }

    /// Draws a number, to share the lock.
    pub(super) fn draw(&self) -> Option<Number> {
        self.tickets().map(TicketLock::draw)
    }

    /// Shares the lock if the number has its turn.
    pub(super) fn share(&self, number: Option<Number>) -> bool {
        let both = self.tickets().zip(number);
        both.is_some_and(|(tickets, number)| tickets.share(number))
    }

    /// Shares the lock for a rank that has other locks, and this time: see [`TicketLock::share_further`].
    pub(super) fn share_further(&self, mine: Time, listed: &mut bool) -> Option<Overtaken> {
        self.tickets()?.share_further(mine, listed)
    }

    /// Whether somebody waits for this rank, which has it.
    pub(super) fn is_waited_for(&self) -> bool {
        self.tickets().is_some_and(TicketLock::is_waited_for)
    }

    /// The listed reader waits no more.
    pub(super) fn unlist(&self) {
        if let Some(tickets) = self.tickets() {
            tickets.unlist();
        }
    }

    /// Gets in line, to be alone.
    pub(super) fn stand_in_line(&self) -> Option<Writer> {
        self.tickets().map(TicketLock::stand_in_line)
    }

    /// A writer in line looks whether it is alone. `clock`: the words of the window's first member.
    pub(super) fn look(&self, writer: &mut Option<Writer>, clock: &SharedMemory) -> Turn {
        let lock = self.tickets().zip(self.bias()).zip(writer.as_mut());
        let Some(((tickets, bias), writer)) = lock else {
            return Turn::Waits;
        };
        let turn = tickets.look(writer, bias, || self.all_flags(), &Futex::shared());
        if turn == Turn::First
            && let Some([_, _, clock]) = words(clock)
        {
            let before = clock.fetch_add(1, Ordering::SeqCst);
            tickets.announce(writer, before.wrapping_add(1));
        }
        turn
    }

    /// Gives it back.
    #[inline]
    pub(super) fn leave(&self, kind: LockKind) {
        if let Some(tickets) = self.tickets() {
            match kind {
                LockKind::Shared => tickets.leave(),
                LockKind::Exclusive => tickets.leave_alone(),
            }
        }
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

    /// The ranks that want to be woken after a change.
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

    fn look(lock: SharedLock<'_>, writer: &mut Option<Writer>, clock: &SharedMemory) -> bool {
        lock.look(writer, clock) == Turn::Alone
    }

    #[test]
    fn first_come_first_served() {
        let control = SharedMemory::of_this_process(bytes(70)).expect("maps");
        let lock = SharedLock::new(&control, 70, FenceMode::Symmetric);
        assert!(lock.try_take(Shared) && lock.try_take(Shared) && !lock.try_take(Exclusive));
        let mut writer = lock.stand_in_line();
        assert_eq!(lock.look(&mut writer, &control), Turn::First);
        assert!(!lock.try_take(Shared), "a writer waits");
        let reader = lock.draw();
        lock.leave(Shared);
        assert!(!look(lock, &mut writer, &control) && !lock.share(reader));
        lock.leave(Shared);
        assert!(!lock.share(reader) && look(lock, &mut writer, &control));
        assert!(!lock.share(reader));
        lock.leave(Exclusive);
        assert!(lock.share(reader) && lock.try_take(Shared));
        lock.wait(3);
        lock.wait(69);
        lock.wait(64);
        lock.end_wait(3);
        assert_eq!(lock.waiters().collect::<Vec<_>>(), [64, 69]);
    }

    #[test]
    fn a_rank_with_other_locks_goes_past_a_writer_by_the_clock_of_the_window() {
        let control = SharedMemory::of_this_process(bytes(3)).expect("maps");
        let clock = SharedMemory::of_this_process(bytes(3)).expect("maps");
        let lock = SharedLock::new(&control, 3, FenceMode::Symmetric);
        let mut times = Vec::new();
        for rank in 0..3 {
            assert_eq!(lock.enter_by_flag(flag_at(3, rank)), Entered::Inside);
            let (mut writer, mut listed) = (lock.stand_in_line(), false);
            assert_eq!(lock.look(&mut writer, &clock), Turn::First);
            let Some(Overtaken::Writer(since)) = lock.share_further(0, &mut listed) else {
                panic!("it is not let in");
            };
            assert_eq!(lock.share_further(since, &mut listed), None);
            times.push(since);
            lock.leave(Shared);
            assert!(lock.leave_by_flag(flag_at(3, rank)) && look(lock, &mut writer, &clock));
            assert_eq!(lock.share_further(0, &mut listed), None);
            lock.unlist();
            lock.give_up_for_exclusive();
        }
        assert_eq!(times, [1, 2, 3]);
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
            lock.give_up_for_exclusive();
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
            let mut writer = lock.stand_in_line();
            assert!(!look(lock, &mut writer, &control));
            assert!(lock.leave_by_flag(first) && !lock.leave_by_flag(first));
            assert_eq!(lock.enter_by_flag(first), Entered::Off);
            assert!(!look(lock, &mut writer, &control) && lock.leave_by_flag(last));
            assert!(look(lock, &mut writer, &control));
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
