//! A bucket: one cache line with a control word, four keys and four values of 48 bits.
//!
//! ```text
//!  control  lock 1 │ born 1 │ … │ taken 4 │ receives 4 │ queues 4 │ … │ next line 32
//!  keys     8 · 4
//!  values   low 32 bits: 4 · 4, high 16 bits: 2 · 4
//! ```
//!
//! The lock is a bit of the control word, so one compare-and-swap takes the lock and reads what the line
//! holds, and one store writes what it holds now and releases the lock: SYNC bucket.lock. Between the two
//! everything else in the line, and in the lines behind it, belongs to the holder; it is read and written by
//! relaxed operations, which are ordinary loads and stores to the processor.
//!
//! A line of the same form continues a bucket that is full (its control word has no lock: the bucket's
//! guards it), or holds four waiting values of one key (see [`chain`](super::chain)).

use weft_atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, spin_loop, yield_now};

use super::memory::same_keys;

/// Entries of a line.
pub(super) const ENTRIES: usize = 4;

/// Looks at a held lock before letting others run: the holder needs some 20 ns, unless it was descheduled.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

const LOCKED: u64 = 1;
const BORN: u64 = 1 << 1;
const TAKEN: u32 = 8;
const RECEIVES: u32 = 12;
const QUEUES: u32 = 16;
const NEXT: u32 = 32;
const ALL: u64 = (1 << ENTRIES) - 1;

/// The contents of a line. Never has the bit of the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Control(pub(super) u64);

impl Control {
    /// A line without entries that may be used.
    pub(super) const EMPTY: Self = Self(BORN);

    /// Whether the bucket has taken over its part of the parent bucket.
    #[inline]
    pub(super) fn is_born(self) -> bool {
        self.0 & BORN != 0
    }

    /// Whether the bucket is born and one line is all of it.
    #[inline]
    pub(super) fn is_one_line(self) -> bool {
        const ALONE: u64 = BORN | (u32::MAX as u64) << NEXT;
        self.0 & ALONE == BORN
    }

    /// Whether the entry is of the other side than this one, and a single value.
    #[inline]
    pub(super) fn is_single_of_other(self, place: usize, receive: bool) -> bool {
        const KIND: u64 = 1 << RECEIVES | 1 << QUEUES;
        self.0 >> place & KIND == u64::from(!receive) << RECEIVES
    }

    /// The taken entries, one bit each.
    #[inline]
    pub(super) fn taken(self) -> u64 {
        self.0 >> TAKEN & ALL
    }

    /// The first entry that is not taken.
    #[inline]
    pub(super) fn vacant(self) -> Option<usize> {
        let place = (!(self.0 >> TAKEN)).trailing_zeros() as usize;
        (place < ENTRIES).then_some(place)
    }

    /// Whether the entry is a receive, not a message.
    #[inline]
    pub(super) fn is_receive(self, place: usize) -> bool {
        self.0 >> (RECEIVES as usize + place) & 1 != 0
    }

    /// Whether the entry's value is a queue of values.
    #[inline]
    pub(super) fn is_queue(self, place: usize) -> bool {
        self.0 >> (QUEUES as usize + place) & 1 != 0
    }

    /// The line behind this one; 0 if there is none.
    #[inline]
    pub(super) fn next(self) -> u32 {
        (self.0 >> NEXT) as u32
    }

    /// The same, with this line behind it.
    pub(super) fn before(self, line: u32) -> Self {
        Self(self.0 & u64::from(u32::MAX) | u64::from(line) << NEXT)
    }

    /// The same, with the entry taken by a single value.
    #[inline]
    pub(super) fn with(self, place: usize, receive: bool) -> Self {
        let entry = 1 << TAKEN | u64::from(receive) << RECEIVES;
        Self(self.0 | entry << place)
    }

    /// The same, with the entry's value a queue, or single again.
    pub(super) fn queued(self, place: usize, queue: bool) -> Self {
        let bit = 1 << (QUEUES as usize + place);
        Self(if queue { self.0 | bit } else { self.0 & !bit })
    }

    /// The same, with the entry free.
    #[inline]
    pub(super) fn without(self, place: usize) -> Self {
        const ENTRY: u64 = 1 << TAKEN | 1 << RECEIVES | 1 << QUEUES;
        Self(self.0 & !(ENTRY << place))
    }
}

/// One line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct BucketLine {
    pub(super) control: AtomicU64,
    pub(super) keys: [AtomicU64; ENTRIES],
    pub(super) low: [AtomicU32; ENTRIES],
    high: [AtomicU16; ENTRIES],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<BucketLine>() == 64);

impl BucketLine {
    /// Takes the lock; returns what the line holds.
    #[inline]
    pub(super) fn lock(&self) -> Control {
        match self.try_lock() {
            Some(control) => control,
            None => self.lock_slowly(),
        }
    }

    /// Takes the lock if it is free; returns what the line holds.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Control> {
        let free = self.control.load(Ordering::Relaxed) & !LOCKED;
        // Acquire: SYNC bucket.lock.
        let taken = self.control.compare_exchange(
            free,
            free | LOCKED,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        // What was loaded, not what was exchanged, which is the same: a processor goes on with it before its
        // turn to exchange has come.
        taken.is_ok().then_some(Control(free))
    }

    #[cold]
    fn lock_slowly(&self) -> Control {
        loop {
            for _ in 0..SPINS {
                let found = self.control.load(Ordering::Relaxed);
                // Acquire: SYNC bucket.lock.
                let is_free = found & LOCKED == 0;
                if is_free
                    && self
                        .control
                        .compare_exchange_weak(
                            found,
                            found | LOCKED,
                            Ordering::Acquire,
                            Ordering::Relaxed,
                        )
                        .is_ok()
                {
                    return Control(found);
                }
                spin_loop();
            }
            yield_now();
        }
    }

    /// Stores what the line holds now, and releases its lock.
    #[inline]
    pub(super) fn unlock(&self, control: Control) {
        // Release: SYNC bucket.lock.
        self.control.store(control.0, Ordering::Release);
    }

    /// The control word of a line whose bucket the caller has locked.
    #[inline]
    pub(super) fn control(&self) -> Control {
        Control(self.control.load(Ordering::Relaxed))
    }

    /// Sets the control word of a line whose bucket the caller has locked.
    pub(super) fn set_control(&self, control: Control) {
        self.control.store(control.0, Ordering::Relaxed);
    }

    /// The entry of this key among those taken.
    #[inline]
    pub(super) fn find(&self, control: Control, key: u64) -> Option<usize> {
        let found = same_keys(&self.keys, key) & control.taken();
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// The key of an entry.
    pub(super) fn key(&self, place: usize) -> u64 {
        self.keys[place].load(Ordering::Relaxed)
    }

    /// The value of an entry.
    #[inline]
    pub(super) fn value(&self, place: usize) -> u64 {
        let low = u64::from(self.low[place].load(Ordering::Relaxed));
        low | u64::from(self.high[place].load(Ordering::Relaxed)) << 32
    }

    /// Writes the value of an entry.
    #[inline]
    pub(super) fn set_value(&self, place: usize, value: u64) {
        self.low[place].store(value as u32, Ordering::Relaxed);
        self.high[place].store((value >> 32) as u16, Ordering::Relaxed);
    }

    /// Writes key and value of an entry.
    #[inline]
    pub(super) fn set(&self, place: usize, key: u64, value: u64) {
        self.keys[place].store(key, Ordering::Relaxed);
        self.set_value(place, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_word_keeps_its_fields_apart() {
        let mut control = Control::EMPTY.before(u32::MAX);
        assert!(control.is_born());
        for place in 0..ENTRIES {
            assert_eq!(control.vacant(), Some(place));
            control = control.with(place, place % 2 == 1);
        }
        assert_eq!((control.vacant(), control.taken()), (None, 0b1111));
        control = control.queued(2, true).without(1);
        assert!(control.is_queue(2) && !control.is_queue(3));
        assert!(control.is_receive(3) && !control.is_receive(1));
        assert_eq!((control.vacant(), control.next()), (Some(1), u32::MAX));
        assert_eq!(control.before(0).queued(2, false).next(), 0);
    }
}
