//! Chains: lines that continue full buckets, and queues of keys under which several values wait. Both are off
//! the common path.
//!
//! ```text
//!  bucket ─► line ─► line             entries that do not fit, in no order: each key stands once
//!    entry of a queue
//!      └─► line ─► line ─► line       values 0…3, 4…7, …, oldest first
//!          first: tail, begin, end    last: end
//! ```
//!
//! A key has one entry, whichever side waits: the other side would have matched it. So entries need no order,
//! and first in, first out holds within the queue of a key, both ends of which are found directly.
//!
//! All of this happens under the lock of the bucket, which also guards its chain and the queues of its
//! entries.

use weft_atomic::{AtomicUsize, CacheLine, Ordering};

use super::bucket::{BucketLine, Control, ENTRIES};
use super::spare::Spares;

/// Word of a queue's first line that holds the number of its last line.
const TAIL: usize = 0;
/// Word of a queue's line that says where its first value is.
const BEGIN: usize = 1;
/// Word of a queue's line that says where its values end.
const END: usize = 2;

/// The lines behind the buckets.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) spares: Spares,
    /// Lines that continue a bucket (without those of queues): they show that the table is too small.
    pub(super) continued: CacheLine<AtomicUsize>,
}

impl Behind {
    pub(super) fn new() -> Self {
        Self {
            spares: Spares::new(),
            continued: CacheLine(AtomicUsize::new(0)),
        }
    }

    fn word(&self, line: u32, word: usize) -> u32 {
        self.spares.line(line).low[word].load(Ordering::Relaxed)
    }

    fn set_word(&self, line: u32, word: usize, value: u32) {
        self.spares.line(line).low[word].store(value, Ordering::Relaxed);
    }

    fn queued(&self, line: u32, place: u32) -> u64 {
        self.spares.line(line).key(place as usize)
    }

    fn set_queued(&self, line: u32, place: u32, value: u64) {
        self.spares.line(line).keys[place as usize].store(value, Ordering::Relaxed);
    }

    /// A new line of a queue with one value.
    fn queue_line(&self, value: u64) -> u32 {
        let line = self.spares.take();
        self.spares.line(line).set_control(Control::default());
        self.set_queued(line, 0, value);
        self.set_word(line, BEGIN, 0);
        self.set_word(line, END, 1);
        line
    }

    /// Adds a value at the end of a queue.
    fn push(&self, first: u32, value: u64) {
        let last = self.word(first, TAIL);
        let end = self.word(last, END);
        if (end as usize) < ENTRIES {
            self.set_queued(last, end, value);
            self.set_word(last, END, end + 1);
        } else {
            let line = self.queue_line(value);
            self.spares
                .line(last)
                .set_control(Control::default().before(line));
            self.set_word(first, TAIL, line);
        }
    }

    /// Takes the oldest value of a queue; returns it, and the queue's first line after that (0: it is empty
    /// and its line is given back).
    fn pop(&self, first: u32) -> (u64, u32) {
        let begin = self.word(first, BEGIN);
        let value = self.queued(first, begin);
        if begin + 1 < self.word(first, END) {
            self.set_word(first, BEGIN, begin + 1);
            return (value, first);
        }
        let next = self.spares.line(first).control().next();
        if next != 0 {
            self.set_word(next, TAIL, self.word(first, TAIL));
        }
        self.spares.give_back(first);
        (value, next)
    }
}

/// A bucket that the caller has locked, with the lines behind it. Its new control word is
/// [`control`](Self::control), with which the caller unlocks it.
pub(super) struct Chain<'a> {
    behind: &'a Behind,
    bucket: &'a BucketLine,
    control: Control,
}

/// The position of an entry: line (0 is the bucket itself), place.
type EntryPosition = (u32, usize);

impl<'a> Chain<'a> {
    /// The chain of a bucket that the caller has locked, whose control word was `control`.
    #[inline]
    pub(super) fn new(behind: &'a Behind, bucket: &'a BucketLine, control: Control) -> Self {
        Self {
            behind,
            bucket,
            control,
        }
    }

    /// The present control word.
    #[inline]
    pub(super) fn control(&self) -> Control {
        self.control
    }

    fn line(&self, number: u32) -> &'a BucketLine {
        match number {
            0 => self.bucket,
            _ => self.behind.spares.line(number),
        }
    }

    fn control_of(&self, number: u32) -> Control {
        match number {
            0 => self.control,
            _ => self.line(number).control(),
        }
    }

    fn set_control(&mut self, number: u32, control: Control) {
        match number {
            0 => self.control = control,
            _ => self.line(number).set_control(control),
        }
    }

    /// The entry of a key.
    fn find(&self, key: u64) -> Option<EntryPosition> {
        let mut number = 0;
        loop {
            let control = self.control_of(number);
            if let Some(place) = self.line(number).find(control, key) {
                return Some((number, place));
            }
            number = control.next();
            if number == 0 {
                return None;
            }
        }
    }

    /// A free place, in a new line if there is none.
    fn vacancy(&mut self) -> EntryPosition {
        let mut number = 0;
        loop {
            let control = self.control_of(number);
            if let Some(place) = control.vacant() {
                return (number, place);
            }
            number = control.next();
            if number == 0 {
                break;
            }
        }
        let line = self.behind.spares.take();
        self.behind.continued.fetch_add(1, Ordering::Relaxed);
        let empty = Control::EMPTY.before(self.control.next());
        self.behind.spares.line(line).set_control(empty);
        self.control = self.control.before(line);
        (line, 0)
    }

    /// Frees an entry, and its line if that continues the bucket and is empty now.
    fn free(&mut self, (number, place): EntryPosition) {
        let control = self.control_of(number).without(place);
        self.set_control(number, control);
        if number == 0 || control.taken() != 0 {
            return;
        }
        let mut before = 0;
        while self.control_of(before).next() != number {
            before = self.control_of(before).next();
        }
        self.set_control(before, self.control_of(before).before(control.next()));
        self.behind.spares.give_back(number);
        self.behind.continued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds an entry of a key that has none.
    fn add(&mut self, key: u64, receive: bool, value: u64, queue: bool) {
        let (number, place) = self.vacancy();
        self.line(number).set(place, key, value);
        let control = self.control_of(number).with(place, receive);
        self.set_control(number, control.queued(place, queue));
    }

    /// Insert or match: the oldest value of the other side under this key, which is taken out; or `None` if
    /// the value now waits behind those of its side.
    pub(super) fn insert(&mut self, key: u64, receive: bool, value: u64) -> Option<u64> {
        let Some(entry) = self.find(key) else {
            self.add(key, receive, value, false);
            return None;
        };
        let (number, place) = entry;
        let (line, control) = (self.line(number), self.control_of(number));
        if control.is_receive(place) != receive {
            return Some(self.oldest(entry));
        }
        if control.is_queue(place) {
            self.behind.push(line.value(place) as u32, value);
        } else {
            let first = self.behind.queue_line(line.value(place));
            self.behind.set_word(first, TAIL, first);
            self.behind.push(first, value);
            line.set_value(place, u64::from(first));
            self.set_control(number, control.queued(place, true));
        }
        None
    }

    /// Takes the oldest value of an entry.
    fn oldest(&mut self, entry: EntryPosition) -> u64 {
        let (number, place) = entry;
        let line = self.line(number);
        let kept = line.value(place);
        if !self.control_of(number).is_queue(place) {
            self.free(entry);
            return kept;
        }
        let (value, first) = self.behind.pop(kept as u32);
        match first {
            0 => self.free(entry),
            _ => line.set_value(place, u64::from(first)),
        }
        value
    }

    /// Takes out the oldest of these values that waits under the key; false if there is none.
    pub(super) fn remove(&mut self, key: u64, receive: bool, value: u64) -> bool {
        let Some(entry) = self.find(key) else {
            return false;
        };
        let (number, place) = entry;
        let (line, control) = (self.line(number), self.control_of(number));
        if control.is_receive(place) != receive {
            return false;
        }
        if !control.is_queue(place) {
            let found = line.value(place) == value;
            if found {
                self.free(entry);
            }
            return found;
        }
        // One round: each value is taken from the front and put behind the others, except the last, which
        // needs no turn when it is alone.
        let first = line.value(place) as u32;
        let count = self.length(first);
        let mut found = false;
        for _ in 0..count {
            let first = line.value(place) as u32;
            let front = self.behind.queued(first, self.behind.word(first, BEGIN));
            let is_wanted = !found && front == value;
            let is_alone = count - usize::from(found) == 1;
            if is_alone && !is_wanted {
                break;
            }
            self.oldest(entry);
            if is_wanted {
                found = true;
                if is_alone {
                    break;
                }
            } else {
                self.behind.push(line.value(place) as u32, front);
            }
        }
        found
    }

    /// The number of values in a queue.
    fn length(&self, first: u32) -> usize {
        let (mut line, mut count) = (first, 0);
        while line != 0 {
            count += (self.behind.word(line, END) - self.behind.word(line, BEGIN)) as usize;
            line = self.behind.spares.line(line).control().next();
        }
        count
    }

    /// Moves the entries that belong to the other bucket there, queues and all.
    pub(super) fn split(&mut self, other: &mut Self, belongs: impl Fn(u64) -> bool) {
        let mut number = 0;
        loop {
            // The loop leaves a line before it is given back below.
            let control = self.control_of(number);
            let next = control.next();
            for place in (0..ENTRIES).filter(|place| control.taken() >> place & 1 != 0) {
                let line = self.line(number);
                if belongs(line.key(place)) {
                    let (receive, queue) = (control.is_receive(place), control.is_queue(place));
                    other.add(line.key(place), receive, line.value(place), queue);
                    self.free((number, place));
                }
            }
            number = next;
            if number == 0 {
                break;
            }
        }
    }

    /// Calls `visit` with each value that waits: key, whether a receive, value.
    #[cfg(test)]
    pub(super) fn each(&self, mut visit: impl FnMut(u64, bool, u64)) {
        let mut number = 0;
        loop {
            let (line, control) = (self.line(number), self.control_of(number));
            for place in (0..ENTRIES).filter(|place| control.taken() >> place & 1 != 0) {
                let (key, receive) = (line.key(place), control.is_receive(place));
                if !control.is_queue(place) {
                    visit(key, receive, line.value(place));
                    continue;
                }
                let mut queue = line.value(place) as u32;
                while queue != 0 {
                    let (begin, end) =
                        (self.behind.word(queue, BEGIN), self.behind.word(queue, END));
                    (begin..end).for_each(|at| visit(key, receive, self.behind.queued(queue, at)));
                    queue = self.behind.spares.line(queue).control().next();
                }
            }
            number = control.next();
            if number == 0 {
                break;
            }
        }
    }
}
