use super::*;
use crate::reader_bias::Entered;
use crate::testing::Park;
use crate::{FenceMode, UnsafeCell};

#[cfg(loom)]
use crate::{Arc, yield_now};

/// A lock with a flag for each of some, and a value that it guards.
struct Guarded<const FLAGS: usize> {
    tickets: AtomicU64,
    first: AtomicU64,
    off: AtomicU32,
    flags: [AtomicU32; FLAGS],
    value: UnsafeCell<u32>,
    park: Park,
}

// SAFETY: what the tests show: the value is read by those who share the lock, and written by the one that is
// alone.
unsafe impl<const FLAGS: usize> Sync for Guarded<FLAGS> {}

impl<const FLAGS: usize> Guarded<FLAGS> {
    fn new() -> Self {
        Self {
            tickets: AtomicU64::new(0),
            first: AtomicU64::new(0),
            off: AtomicU32::new(0),
            flags: std::array::from_fn(|_| AtomicU32::new(0)),
            value: UnsafeCell::new(0),
            park: Park::new(),
        }
    }

    fn lock(&self) -> TicketLock<'_> {
        TicketLock::new(&self.tickets, &self.first)
    }

    fn bias(&self) -> ReaderBias<'_> {
        ReaderBias::new(&self.off, FenceMode::Symmetric)
    }

    fn value(&self) -> u32 {
        // SAFETY: the caller shares the lock.
        self.value.with(|value| unsafe { *value })
    }

    fn add(&self) {
        // SAFETY: the caller is alone.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// A writer looks; if it becomes first, it takes a time of this clock.
    fn look(&self, writer: &mut Writer, clock: &AtomicU64) -> Turn {
        let turn = (self.lock()).look(writer, self.bias(), || &self.flags, &self.park);
        if turn == Turn::First {
            let since = clock.fetch_add(1, Ordering::SeqCst) + 1;
            self.lock().announce(writer, since);
        }
        turn
    }

    /// Enters by a flag if that is possible.
    fn enter_by_flag(&self, me: usize) -> bool {
        self.bias().enter(&self.flags[me]) == Entered::Inside
    }

    fn leave_by_flag(&self, me: usize) {
        self.bias().leave(&self.flags[me]);
    }
}

#[cfg(loom)]
impl<const FLAGS: usize> Guarded<FLAGS> {
    fn write(&self, clock: &AtomicU64) {
        let mut writer = self.lock().stand_in_line();
        while self.look(&mut writer, clock) != Turn::Alone {
            yield_now();
        }
        self.add();
        self.lock().leave_alone();
    }

    /// Reads as a thread that has other locks, if two looks are enough.
    fn read_further(&self) -> Option<u32> {
        let mut listed = false;
        for _ in [0, 1] {
            if self.lock().share_further(0, &mut listed).is_some() {
                let found = self.value();
                self.lock().leave();
                return Some(found);
            }
        }
        if listed {
            self.lock().unlist();
        }
        None
    }

    /// Reads by a flag, or else without standing in line, which turns the flags on again.
    fn read(&self, me: usize) -> Option<u32> {
        if self.enter_by_flag(me) {
            let found = self.value();
            self.leave_by_flag(me);
            return Some(found);
        }
        let has = self.lock().try_share();
        has.then(|| {
            let found = self.value();
            self.bias().turn_on();
            self.lock().leave();
            found
        })
    }
}

/// One thread enters by its flag or by a number, one has other locks, one is alone.
#[cfg(loom)]
#[test]
fn a_writer_excludes_all_others() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let guarded = Arc::new(Guarded::<1>::new());
        let clock = AtomicU64::new(0);
        let theirs = Arc::clone(&guarded);
        let reader = loom::thread::spawn(move || theirs.read(0));
        let theirs = Arc::clone(&guarded);
        let further = loom::thread::spawn(move || theirs.read_further());
        guarded.write(&clock);
        let found = [reader, further].map(|one| one.join().unwrap());
        assert!(found.into_iter().flatten().all(|found| found <= 1));
        assert_eq!(guarded.read(0), Some(1));
    });
}

/// A reader that had the lock before the writer was first turns flags on, and enters again by its flag.
#[cfg(loom)]
#[test]
fn flags_that_are_turned_on_meanwhile_are_waited_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let guarded = Arc::new(Guarded::<1>::new());
        guarded.bias().turn_off(&guarded.park);
        let clock = AtomicU64::new(0);
        let theirs = Arc::clone(&guarded);
        let reader = loom::thread::spawn(move || {
            let first = theirs.read(0);
            assert!(first <= theirs.read(0).or(first));
        });
        guarded.write(&clock);
        reader.join().unwrap();
    });
}

/// Two writers, of which one does not stand in line, and a reader that has other locks.
#[cfg(loom)]
#[test]
fn two_writers_and_one_reader_with_other_locks() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let guarded = Arc::new(Guarded::<0>::new());
        guarded.bias().turn_off(&guarded.park);
        let clock = AtomicU64::new(0);
        let theirs = Arc::clone(&guarded);
        let writer = loom::thread::spawn(move || {
            let alone = theirs.lock().try_be_alone();
            if alone {
                theirs.add();
                theirs.lock().leave_alone();
            }
            u32::from(alone)
        });
        let theirs = Arc::clone(&guarded);
        let further = loom::thread::spawn(move || theirs.read_further());
        guarded.write(&clock);
        let written = 1 + writer.join().unwrap();
        assert!(further.join().unwrap().is_none_or(|found| found <= written));
        assert!(guarded.lock().try_share() && guarded.value() == written);
    });
}

/// Two readers that have a lock each, with a writer first in line at both, and then want that of the other:
/// neither needs a step of the writers.
#[cfg(loom)]
#[test]
fn two_readers_pass_the_writers_between_them() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let locks = Arc::new([Guarded::<1>::new(), Guarded::<1>::new()]);
        let clock = AtomicU64::new(0);
        for lock in &*locks {
            assert!(lock.enter_by_flag(0));
        }
        let mut writers = [0, 1].map(|at: usize| locks[at].lock().stand_in_line());
        for (lock, writer) in locks.iter().zip(&mut writers) {
            assert_eq!(lock.look(writer, &clock), Turn::First);
        }
        let readers = [0, 1].map(|me: usize| {
            let locks = Arc::clone(&locks);
            loom::thread::spawn(move || {
                assert_eq!(locks[1 - me].read_further(), Some(0));
            })
        });
        for (lock, writer) in locks.iter().zip(&mut writers) {
            assert_ne!(lock.look(writer, &clock), Turn::Alone);
        }
        for reader in readers {
            reader.join().unwrap();
        }
        for (lock, writer) in locks.iter().zip(&mut writers) {
            lock.leave_by_flag(0);
            assert_eq!(lock.look(writer, &clock), Turn::Alone);
        }
    });
}

/// A reader that has met a writer alone enters before the next one.
#[cfg(loom)]
#[test]
fn a_listed_reader_is_waited_for() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::<0>::new());
        guarded.bias().turn_off(&guarded.park);
        let clock = AtomicU64::new(0);
        assert!(guarded.lock().try_be_alone());
        let mut next = guarded.lock().stand_in_line();
        let mut listed = false;
        assert_eq!(guarded.lock().share_further(0, &mut listed), None);
        assert!(listed);
        let theirs = Arc::clone(&guarded);
        let leaver = loom::thread::spawn(move || {
            theirs.add();
            theirs.lock().leave_alone();
        });
        assert_ne!(guarded.look(&mut next, &clock), Turn::Alone);
        leaver.join().unwrap();
        assert_ne!(guarded.look(&mut next, &clock), Turn::Alone);
        let overtaken = guarded.lock().share_further(0, &mut listed);
        assert!(overtaken.is_some() && !listed && guarded.value() == 1);
        guarded.lock().leave();
        assert_eq!(guarded.look(&mut next, &clock), Turn::Alone);
    });
}

#[cfg(not(loom))]
mod by_steps;

#[cfg(not(loom))]
#[test]
fn first_come_first_served() {
    let guarded = Guarded::<0>::new();
    let (lock, clock) = (guarded.lock(), AtomicU64::new(0));
    guarded.bias().turn_off(&guarded.park);
    // Numbers wrap around, except where that takes minutes.
    for _ in 0..if cfg!(miri) { 100 } else { 70_000 } {
        assert!(lock.try_be_alone());
        lock.leave_alone();
    }
    assert!(lock.try_share() && lock.try_share() && !lock.try_be_alone());
    let mut writer = lock.stand_in_line();
    assert_eq!(guarded.look(&mut writer, &clock), Turn::First);
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Waits);
    assert!(!lock.try_share(), "a writer waits");
    let reader = lock.draw();
    lock.leave();
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Waits);
    assert!(!lock.share(reader));
    lock.leave();
    assert!(!lock.share(reader));
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Alone);
    assert!(!lock.share(reader));
    lock.leave_alone();
    assert!(lock.share(reader) && lock.try_share());
}

#[cfg(not(loom))]
#[test]
fn a_reader_with_other_locks_goes_past_a_writer_once() {
    let guarded = Guarded::<1>::new();
    let (lock, clock) = (guarded.lock(), AtomicU64::new(6));
    assert!(guarded.enter_by_flag(0));
    let mut writer = lock.stand_in_line();
    let mut listed = false;
    assert_eq!(lock.share_further(0, &mut listed), None, "who is first?");
    assert_eq!(guarded.look(&mut writer, &clock), Turn::First);
    let overtaken = lock.share_further(0, &mut listed);
    assert_eq!(overtaken, Some(Overtaken::Writer(7)));
    guarded.leave_by_flag(0);
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Waits);
    lock.leave();
    assert_eq!(lock.share_further(7, &mut listed), None);
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Alone);
    // It is listed now: the next writer waits for it, and others pass that one.
    assert_eq!(lock.share_further(7, &mut listed), None);
    let mut next = lock.stand_in_line();
    lock.leave_alone();
    assert!(listed);
    assert_eq!(guarded.look(&mut next, &clock), Turn::First);
    let overtaken = lock.share_further(7, &mut false);
    assert_eq!(overtaken, Some(Overtaken::Writer(8)));
    lock.leave();
    assert_eq!(guarded.look(&mut next, &clock), Turn::Waits);
    let overtaken = lock.share_further(7, &mut listed);
    assert!(overtaken == Some(Overtaken::Nobody) && !listed);
    lock.leave();
    assert_eq!(guarded.look(&mut next, &clock), Turn::Alone);
    // A listed reader may give up.
    assert_eq!(lock.share_further(8, &mut listed), None);
    assert!(listed);
    lock.unlist();
    lock.leave_alone();
    assert!(lock.try_be_alone());
}

#[cfg(not(loom))]
#[test]
fn a_writer_steps_back_if_a_reader_has_turned_flags_on() {
    let guarded = Guarded::<1>::new();
    let (lock, clock) = (guarded.lock(), AtomicU64::new(0));
    guarded.bias().turn_off(&guarded.park);
    assert!(lock.try_share());
    let mut writer = lock.stand_in_line();
    assert_eq!(guarded.look(&mut writer, &clock), Turn::First);
    guarded.bias().turn_on();
    assert!(guarded.enter_by_flag(0));
    lock.leave();
    assert_eq!(guarded.look(&mut writer, &clock), Turn::First, "anew");
    assert!(!guarded.bias().is_on());
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Waits);
    guarded.leave_by_flag(0);
    assert_eq!(guarded.look(&mut writer, &clock), Turn::Alone);
}
