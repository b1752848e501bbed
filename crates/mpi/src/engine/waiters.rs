//! Waiters for arrivals: threads, fibers and tasks that look again whenever something unexpected arrives, or when what they wait for changes at
//! the guest.
//!
//! A waiter for a request is kept with the request ([`OnComplete`](super::on_complete::OnComplete)); all others are here.
//! The [`Callbacks`] wake both, because the waker of a task is the program's code.

use std::collections::HashMap;

use weft_fabric::{Changes, Subject};
use weft_fiber::Waiter;

use super::callbacks::Callbacks;

/// Waiters for anything that arrives.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    for_arrivals: Vec<Waiter>,
    /// By what they wait for at the guest. No list is empty.
    for_changes: HashMap<Subject, Vec<Waiter>>,
    /// A thread was woken that may need the core of the one that drives.
    thread_woken: bool,
}

impl Waiters {
    /// Has somebody woken when something arrives next.
    pub(super) fn await_arrival(&mut self, waiter: Waiter) {
        self.for_arrivals.push(waiter);
    }

    /// Something has arrived.
    pub(super) fn wake_for_arrival(&mut self, callbacks: &mut Callbacks) {
        for waiter in self.for_arrivals.drain(..) {
            callbacks.wake(waiter);
        }
    }

    /// Has somebody woken when this changes at the guest, until [`end_wait_for_change`](Self::end_wait_for_change).
    pub(super) fn await_change(&mut self, subject: Subject, waiter: Waiter) {
        self.for_changes.entry(subject).or_default().push(waiter);
    }

    /// Somebody waits no more, woken for this or for something else.
    pub(super) fn end_wait_for_change(&mut self, subject: Subject, waiter: &Waiter) {
        let Some(waiters) = self.for_changes.get_mut(&subject) else {
            return;
        };
        if let Some(place) = waiters.iter().position(|other| other.is_same(waiter)) {
            waiters.swap_remove(place);
        }
        if waiters.is_empty() {
            self.for_changes.remove(&subject);
        }
    }

    /// This has changed at the guest.
    pub(super) fn wake_for_changes(&mut self, changes: &Changes, callbacks: &mut Callbacks) {
        if self.for_changes.is_empty() {
            return;
        }
        if changes.is_everything() {
            let all = self.for_changes.drain();
            all.flat_map(|(_, waiters)| waiters)
                .for_each(|waiter| callbacks.wake(waiter));
            return;
        }
        for subject in changes.subjects() {
            for waiter in self.for_changes.remove(subject).into_iter().flatten() {
                callbacks.wake(waiter);
            }
        }
    }

    /// The request of this one has ended.
    pub(super) fn wake_for_request(&mut self, waiter: Waiter, callbacks: &mut Callbacks) {
        self.thread_woken |= waiter.is_thread();
        callbacks.wake(waiter);
    }

    /// Whether a thread was woken for its request since this was asked last.
    #[inline]
    pub(super) fn take_thread_woken(&mut self) -> bool {
        std::mem::take(&mut self.thread_woken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    use weft_atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_change_wakes_those_who_wait_for_it() {
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let wakers = counts
            .each_ref()
            .map(|count| Waker::from(Arc::clone(count)));
        let mut waiters = Waiters::default();
        let mut callbacks = Callbacks::default();
        let mut woken = |waiters: &mut Waiters, note: &dyn Fn(&mut Changes)| {
            for (number, waker) in wakers.iter().enumerate() {
                // One and two wait for the same.
                let subject = Subject(number.min(1) as u64);
                let waiter = Waiter::Task(waker.clone());
                waiters.end_wait_for_change(subject, &waiter);
                waiters.await_change(subject, waiter);
            }
            let mut changes = Changes::default();
            note(&mut changes);
            waiters.wake_for_changes(&changes, &mut callbacks);
            callbacks.take().run();
            counts
                .each_ref()
                .map(|count| count.0.swap(0, Ordering::Relaxed))
        };
        assert_eq!(woken(&mut waiters, &|_| ()), [0; 3]);
        assert_eq!(
            woken(&mut waiters, &|changes| changes.note(Subject(2))),
            [0; 3]
        );
        let note_first = |changes: &mut Changes| {
            changes.note(Subject(0));
            changes.note(Subject(0));
        };
        assert_eq!(woken(&mut waiters, &note_first), [1, 0, 0]);
        assert_eq!(
            woken(&mut waiters, &|changes| changes.note(Subject(1))),
            [0, 1, 1]
        );
        assert_eq!(woken(&mut waiters, &Changes::note_everything), [1; 3]);
        assert!(waiters.for_changes.is_empty());
    }
}
