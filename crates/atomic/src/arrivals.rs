//! Arrivals: the members of a group tell each other how far they have come, epoch by epoch, each by stamps of its own.
//!
//! ```text
//!              member 0   member 1   member 2         epoch e has its stamps in row e mod ROWS
//!   row e        [e]        [e]        [e-ROWS]       member 2 has not come to epoch e yet
//!   row e-1      [e-1]      [e-1]      [e-1]          all have
//! ```
//!
//! A member *arrives* at one epoch after the other. What it has to tell in an epoch it writes beside its stamp before it
//! arrives; the others read it once they see the stamp. A row is reused after [`ROWS`] epochs, so a member may run ahead
//! of others, but only that far; the data beside the stamps may have fewer rows.
//!
//! # Who may touch what
//! A member writes only its own stamps and the data beside them. Everybody reads everything.
//!
//! # Why nothing that is still read is overwritten
//! A member that arrives at epoch `e + lag` has read everything that it will ever read of epoch `e`. The lag is 1 where epochs are
//! used one after the other; with a [longer one](Arrivals::with_lag) a member arrives at the next epochs while it still waits for
//! earlier ones, but never at one more when `lag` of them are outstanding. A member writes to the row of `e` again for epoch
//! `e + ROWS`, and only if it [has room](Arrivals::has_room): all have arrived at `e + lag`. Its look at their stamps acquires what
//! they released (SYNC arrivals.stamp), their reads included.
//!
//! # Why one member sees all others
//! If it matters who is last, a [`fence`](Arrivals::fence) separates a member's stamp from its look at the stamps of others. Of members that arrive
//! at the same time, the one whose fence is last in the order of fences sees all stamps. So at least one [sees all](Arrivals::have_all) at its first
//! look, and can wake sleepers; a sleeper has announced itself, fenced, and looked once more, as [`fence`](mod@crate::fence) says.
//!
//! # Trust
//! Stamps of others may hold anything. One that is too large makes its owner's data count as written when they are not;
//! the data are trusted as little as the stamp.

use crate::{AtomicU64, FenceMode, Ordering};

/// Epochs that may be under way at a time: the most that a member can be ahead of another.
#[cfg(not(loom))]
pub const ROWS: usize = 32;
/// Few, so that models reuse rows.
#[cfg(loom)]
pub const ROWS: usize = 3;

/// Access to the stamps.
pub trait Stamps {
    /// The stamp of a member (less than the number of members) in a row (less than [`ROWS`]). At first it is 0.
    fn stamp(&self, row: usize, member: usize) -> &AtomicU64;
}

/// The row of an epoch.
#[inline]
#[must_use]
pub fn row(epoch: u64) -> usize {
    (epoch % ROWS as u64) as usize
}

/// Arrivals seen by one member. See the [module page](self).
#[derive(Debug)]
pub struct Arrivals {
    members: usize,
    me: usize,
    /// A member that arrives at an epoch has read all of the one that is so many before.
    lag: u64,
    /// The epoch that this member has arrived at; 0 before the first.
    epoch: u64,
    /// The last epoch at which all were seen to have arrived.
    complete: u64,
    /// How many members, counted from the first, were seen to have arrived at `epoch`.
    seen: usize,
}

impl Arrivals {
    /// The arrivals of a group of `members`, seen by member `me`, before the first epoch.
    #[must_use]
    pub fn new(members: usize, me: usize) -> Self {
        Self::with_lag(members, me, 1)
    }

    /// The same where a member may have up to `lag` epochs outstanding (less than [`ROWS`]): all members have the same lag.
    #[must_use]
    pub fn with_lag(members: usize, me: usize, lag: usize) -> Self {
        debug_assert!((1..ROWS).contains(&lag));
        Self {
            members,
            me,
            lag: lag as u64,
            epoch: 0,
            complete: 0,
            seen: 0,
        }
    }

    /// How many members there are.
    #[inline]
    #[must_use]
    pub fn members(&self) -> usize {
        self.members
    }

    /// This member.
    #[inline]
    #[must_use]
    pub fn me(&self) -> usize {
        self.me
    }

    /// The epoch that this member has arrived at.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether this member may write for the next epoch, and arrive at it, if its data have `rows` rows: more than the lag, at
    /// most [`ROWS`].
    #[inline]
    pub fn has_room(&mut self, stamps: &impl Stamps, rows: usize) -> bool {
        let needed = self.needed(rows);
        self.complete >= needed || self.look_for_room(stamps, needed)
    }

    /// Whether this member does not block the room.
    #[must_use]
    pub fn leaves_room(&self, stamps: &impl Stamps, rows: usize, member: usize) -> bool {
        Self::came(stamps, self.needed(rows), member)
    }

    /// The row of the next epoch is free when all have arrived at the epoch that is the lag after the one that had it.
    #[inline]
    fn needed(&self, rows: usize) -> u64 {
        (self.epoch + 1 + self.lag).saturating_sub(rows as u64)
    }

    /// First looks further than needed, so that a member that is ahead need not look each time.
    #[cold]
    fn look_for_room(&mut self, stamps: &impl Stamps, needed: u64) -> bool {
        let far = needed.midpoint(self.epoch).max(needed);
        for epoch in [far, needed] {
            let all = (0..self.members).all(|member| Self::came(stamps, epoch, member));
            if all {
                self.complete = self.complete.max(epoch);
                return true;
            }
        }
        false
    }

    #[inline]
    fn came(stamps: &impl Stamps, epoch: u64, member: usize) -> bool {
        // Acquire: SYNC arrivals.stamp.
        stamps.stamp(row(epoch), member).load(Ordering::Acquire) >= epoch
    }

    /// Arrives at the next epoch, for which there is room: what was written before is visible to members that
    /// see the stamp.
    #[inline]
    pub fn arrive(&mut self, stamps: &impl Stamps) {
        self.arrive_by(stamps.stamp(row(self.epoch + 1), self.me));
    }

    /// The same; `stamp` is this member's stamp in that epoch's row.
    #[inline]
    pub fn arrive_by(&mut self, stamp: &AtomicU64) {
        self.epoch += 1;
        self.seen = 0;
        // Release: SYNC arrivals.stamp.
        stamp.store(self.epoch, Ordering::Release);
    }

    /// Whether a member has arrived at this epoch; `stamp` is its stamp in the epoch's row.
    #[inline]
    #[must_use]
    pub fn has_by(&self, stamp: &AtomicU64) -> bool {
        // Acquire: SYNC arrivals.stamp.
        stamp.load(Ordering::Acquire) >= self.epoch
    }

    /// All have been seen to have arrived at this epoch.
    #[inline]
    pub fn note_all(&mut self) {
        self.seen = self.members;
        self.complete = self.epoch;
    }

    /// All have been seen to have arrived at an epoch at which this member has arrived.
    #[inline]
    pub fn note_all_at(&mut self, epoch: u64) {
        self.complete = self.complete.max(epoch);
    }

    /// Whether a member has arrived at an epoch; `stamp` is its stamp in the epoch's row.
    #[inline]
    #[must_use]
    pub fn has_at_by(epoch: u64, stamp: &AtomicU64) -> bool {
        // Acquire: SYNC arrivals.stamp.
        stamp.load(Ordering::Acquire) >= epoch
    }

    /// Whether a member has arrived at the next epoch, and so waits there for this one; `stamp` is its stamp
    /// in that epoch's row.
    #[inline]
    #[must_use]
    pub fn is_ahead(&self, stamp: &AtomicU64) -> bool {
        // Acquire: SYNC arrivals.stamp.
        stamp.load(Ordering::Acquire) > self.epoch
    }

    /// Arrives at the next epoch; `stamp` is this member's stamp in that epoch's row. All others [have
    /// arrived](Self::is_ahead) there, so there is room for it.
    #[inline]
    pub fn arrive_last(&mut self, stamp: &AtomicU64) {
        self.arrive_by(stamp);
        self.note_all();
    }

    /// The fence after arriving, before the look that decides who is the last.
    #[inline]
    pub fn fence(&self) {
        FenceMode::Symmetric.light();
    }

    /// Whether a member has arrived at this epoch.
    #[inline]
    #[must_use]
    pub fn has(&self, stamps: &impl Stamps, member: usize) -> bool {
        Self::came(stamps, self.epoch, member)
    }

    /// How many members, counted from the first, have arrived at this epoch.
    #[inline]
    pub fn have_from_first(&mut self, stamps: &impl Stamps) -> usize {
        while self.seen < self.members && Self::came(stamps, self.epoch, self.seen) {
            self.seen += 1;
        }
        self.seen
    }

    /// Whether all have arrived at this epoch.
    #[inline]
    pub fn have_all(&mut self, stamps: &impl Stamps) -> bool {
        let all = self.have_from_first(stamps) == self.members;
        if all {
            self.complete = self.epoch;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arc, UnsafeCell};

    /// Rows of stamps, with a cell beside each that is no atomic.
    struct Rows {
        members: usize,
        /// Rows of cells.
        rows: usize,
        stamps: Vec<AtomicU64>,
        data: Vec<UnsafeCell<u64>>,
    }

    // SAFETY: a cell is written by its owner and read by others as the module page says, which is what is tested.
    unsafe impl Sync for Rows {}
    // SAFETY: as above.
    unsafe impl Send for Rows {}

    impl Stamps for Rows {
        fn stamp(&self, row: usize, member: usize) -> &AtomicU64 {
            &self.stamps[row * self.members + member]
        }
    }

    impl Rows {
        fn new(members: usize) -> Arc<Self> {
            Self::with_cells(members, ROWS)
        }

        fn with_cells(members: usize, rows: usize) -> Arc<Self> {
            let all = || 0..members * ROWS;
            Arc::new(Self {
                members,
                rows,
                stamps: all().map(|_| AtomicU64::new(0)).collect(),
                data: all().map(|_| UnsafeCell::new(0)).collect(),
            })
        }

        fn cell(&self, epoch: u64, member: usize) -> &UnsafeCell<u64> {
            &self.data[(epoch % self.rows as u64) as usize * self.members + member]
        }

        fn write(&self, epoch: u64, member: usize) {
            // SAFETY: there is room for the epoch, so nobody reads this cell.
            self.cell(epoch, member)
                .with_mut(|cell| unsafe { *cell = epoch });
        }

        fn read(&self, epoch: u64, member: usize) -> u64 {
            // SAFETY: the member has arrived, and writes again only when all have arrived at the next epoch.
            self.cell(epoch, member).with(|cell| unsafe { *cell })
        }
    }

    fn until(mut ready: impl FnMut() -> bool) {
        while !ready() {
            crate::yield_now();
        }
    }

    /// One member's part: in each epoch it tells something, and reads what those tell that `reads` names.
    fn take_part(rows: &Rows, me: usize, epochs: u64, reads: impl Fn(u64, usize) -> bool) {
        let mut arrivals = Arrivals::new(rows.members, me);
        for epoch in 1..=epochs {
            until(|| arrivals.has_room(rows, rows.rows));
            rows.write(epoch, me);
            arrivals.arrive(rows);
            for other in (0..rows.members).filter(|other| reads(epoch, *other)) {
                until(|| arrivals.has(rows, other));
                assert_eq!(rows.read(epoch, other), epoch);
            }
        }
    }

    /// The same, where what was told in an epoch is read when `lag` epochs are outstanding, or at the end.
    fn take_part_late(rows: &Rows, me: usize, epochs: u64, lag: usize) {
        let mut arrivals = Arrivals::with_lag(rows.members, me, lag);
        let mut read = 0;
        let read_of = |epoch: u64| {
            for other in 0..rows.members {
                let stamp = rows.stamp(row(epoch), other);
                until(|| Arrivals::has_at_by(epoch, stamp));
                assert_eq!(rows.read(epoch, other), epoch);
            }
        };
        for epoch in 1..=epochs {
            if epoch - 1 - read == lag as u64 {
                read += 1;
                read_of(read);
            }
            until(|| arrivals.has_room(rows, rows.rows));
            rows.write(epoch, me);
            arrivals.arrive(rows);
        }
        (read + 1..=epochs).for_each(read_of);
    }

    #[cfg(not(loom))]
    mod threads {
        use super::*;

        #[test]
        fn epochs_may_be_outstanding() {
            let epochs = if cfg!(miri) { 70 } else { 1000 };
            for lag in [1, 2, ROWS / 2, ROWS - 1] {
                let rows = Rows::new(3);
                std::thread::scope(|scope| {
                    for me in 0..3 {
                        let rows = &rows;
                        scope.spawn(move || take_part_late(rows, me, epochs, lag));
                    }
                });
            }
        }

        #[test]
        fn with_a_lag_there_is_less_room() {
            let rows = Rows::new(2);
            let lag = ROWS / 2;
            let mut all = [0, 1].map(|me| Arrivals::with_lag(2, me, lag));
            for _ in 0..ROWS - lag {
                assert!(all[0].has_room(&*rows, ROWS));
                all[0].arrive(&*rows);
            }
            assert!(!all[0].has_room(&*rows, ROWS) && !all[0].leaves_room(&*rows, ROWS, 1));
            all[1].arrive(&*rows);
            assert!(all[0].has_room(&*rows, ROWS));
            all[0].note_all_at(1);
            assert!(all[0].has_room(&*rows, ROWS));
        }

        fn all_take_part(members: usize, epochs: u64, reads: impl Fn(u64, usize) -> bool + Sync) {
            let rows = Rows::new(members);
            std::thread::scope(|scope| {
                for me in 0..members {
                    let (rows, reads) = (&rows, &reads);
                    scope.spawn(move || take_part(rows, me, epochs, reads));
                }
            });
        }

        #[test]
        fn all_hear_all() {
            let epochs = if cfg!(miri) { 20 } else { 500 };
            all_take_part(3, epochs, |_, _| true);
        }

        #[test]
        fn a_root_that_hears_nobody_does_not_overtake() {
            let epochs = if cfg!(miri) { 20 } else { 500 };
            all_take_part(3, epochs, |_, other| other == 1);
            all_take_part(3, epochs, |epoch, other| other as u64 == epoch % 3);
        }

        #[test]
        fn a_member_is_ahead_by_a_number_of_rows_at_most() {
            let rows = Rows::new(2);
            let (mut one, mut two) = (Arrivals::new(2, 0), Arrivals::new(2, 1));
            // The other has read nothing of the first epoch before it arrives at the second.
            for _ in 1..ROWS {
                assert!(one.has_room(&*rows, ROWS) && one.leaves_room(&*rows, ROWS, 1));
                one.arrive(&*rows);
            }
            assert!(!one.has_room(&*rows, ROWS) && !one.leaves_room(&*rows, ROWS, 1));
            assert!(one.leaves_room(&*rows, ROWS, 0), "it waits for the other");
            two.arrive(&*rows);
            assert!(two.has(&*rows, 0) && two.have_all(&*rows));
            assert!(one.has_room(&*rows, ROWS) && !one.has_room(&*rows, ROWS / 2));
            one.arrive(&*rows);
            assert!(
                !one.has_room(&*rows, ROWS),
                "it may still read the first row"
            );
            two.arrive(&*rows);
            assert!(one.has_room(&*rows, ROWS) && !one.have_all(&*rows));
            assert_eq!((one.epoch(), two.epoch()), (ROWS as u64, 2));
        }

        #[test]
        fn those_from_the_first_on_are_counted() {
            let rows = Rows::new(3);
            let mut all = [0, 1, 2].map(|me| Arrivals::new(3, me));
            all[1].arrive(&*rows);
            assert_eq!(all[1].have_from_first(&*rows), 0);
            all[0].arrive(&*rows);
            assert_eq!(all[1].have_from_first(&*rows), 2);
            assert!(!all[0].have_all(&*rows));
            all[2].arrive(&*rows);
            assert!(all.iter_mut().all(|one| one.have_all(&*rows)));
        }
    }

    #[cfg(loom)]
    mod models {
        use super::*;
        use crate::testing::Park;
        use crate::{Doorbell, FenceMode};

        /// More epochs than rows.
        #[test]
        fn nothing_is_overwritten_that_is_read() {
            loom::model(|| {
                let rows = Rows::with_cells(2, 2);
                let other = Arc::clone(&rows);
                let thread = loom::thread::spawn(move || take_part(&other, 1, 3, |_, _| true));
                take_part(&rows, 0, 3, |_, _| true);
                thread.join().unwrap();
            });
        }

        /// The same with two epochs outstanding.
        #[test]
        fn nothing_is_overwritten_that_is_read_late() {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(3);
            builder.check(|| {
                let rows = Rows::new(2);
                let other = Arc::clone(&rows);
                let thread = loom::thread::spawn(move || take_part_late(&other, 1, 4, 2));
                take_part_late(&rows, 0, 4, 2);
                thread.join().unwrap();
            });
        }

        /// A root that hears nobody is held back by the room.
        #[test]
        fn a_root_is_held_back() {
            loom::model(|| {
                let rows = Rows::with_cells(2, 2);
                let other = Arc::clone(&rows);
                let thread =
                    loom::thread::spawn(move || take_part(&other, 1, 3, |_, other| other == 0));
                take_part(&rows, 0, 3, |_, other| other == 0);
                thread.join().unwrap();
            });
        }

        /// Two arrive at a time; the thread that sees all wakes the third, who has arrived before and sleeps. A
        /// wake-up that nobody gives is a deadlock, which loom reports.
        #[test]
        fn the_last_arrival_wakes_the_sleepers() {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(2);
            builder.check(|| {
                let scene = Arc::new((Rows::new(3), Doorbell::new(), Park::new()));
                let threads = [1, 2].map(|me| {
                    let scene = Arc::clone(&scene);
                    loom::thread::spawn(move || {
                        let (rows, bell, park) = &*scene;
                        let mut arrivals = Arrivals::new(3, me);
                        arrivals.arrive(&**rows);
                        arrivals.fence();
                        if arrivals.have_all(&**rows) && bell.somebody_sleeps() {
                            bell.ring(FenceMode::Symmetric, park);
                        }
                    })
                });
                let (rows, bell, park) = &*scene;
                let mut arrivals = Arrivals::new(3, 0);
                arrivals.arrive(&**rows);
                while !arrivals.have_all(&**rows) {
                    let ticket = bell.prepare(FenceMode::Symmetric, park);
                    if arrivals.have_all(&**rows) {
                        bell.cancel(ticket);
                        break;
                    }
                    let _ = bell.wait(ticket, None, park);
                }
                for thread in threads {
                    thread.join().unwrap();
                }
            });
        }
    }
}
