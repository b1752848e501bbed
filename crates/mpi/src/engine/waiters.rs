//! Waiters: threads, fibers and tasks that look again when something happens, in queues by what that is.
//!
//! ```text
//!   a message of this context and tag comes unexpected     probes for it, and for any tag
//!   a board, a window, a subject of the guest changes      those who wait for it
//!   any of these                                           the others, who wait for several things
//!   a loss, a revocation, a mismatch                       all
//! ```
//!
//! With one queue for all, each message to one of many threads would wake them all. A waiter for a request is kept with the request
//! ([`OnComplete`](super::on_complete::OnComplete)); all others are here. The [`Callbacks`] wake both, because the waker of a
//! task is the program's code.

use std::collections::HashMap;

use weft_fabric::{Changes, Subject};
use weft_fiber::Waiter;

use super::boards::BoardId;
use super::callbacks::Callbacks;

/// A queue: what those in it wait for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Queue {
    /// A message that comes before its receive, with this tag or any.
    Message { context: u32, tag: Option<i32> },
    /// Members of a collective on this board.
    Board(BoardId),
    /// Something at the window with this context.
    Window(u32),
    /// A change at the guest.
    Guest(Subject),
    /// Anything else.
    Other,
}

/// All who wait for something that is no request.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// None is empty.
    queues: HashMap<Queue, Vec<Waiter>>,
    /// A thread was woken that may need the core of the one that drives.
    thread_woken: bool,
}

impl Waiters {
    /// Has somebody woken with this queue, until [`end_wait`](Self::end_wait).
    pub(super) fn begin_wait(&mut self, queue: Queue, waiter: Waiter) {
        self.queues.entry(queue).or_default().push(waiter);
    }

    /// Somebody waits no more, woken with this queue or for something else.
    pub(super) fn end_wait(&mut self, queue: Queue, waiter: &Waiter) {
        let Some(waiters) = self.queues.get_mut(&queue) else {
            return;
        };
        if let Some(place) = waiters.iter().position(|other| other.is_same(waiter)) {
            waiters.swap_remove(place);
        }
        if waiters.is_empty() {
            self.queues.remove(&queue);
        }
    }

    /// What those in this queue wait for has happened.
    #[inline]
    pub(super) fn wake(&mut self, queue: Queue, callbacks: &mut Callbacks) {
        if !self.queues.is_empty() {
            self.wake_queue(queue, callbacks);
            self.wake_queue(Queue::Other, callbacks);
        }
    }

    #[cold]
    fn wake_queue(&mut self, queue: Queue, callbacks: &mut Callbacks) {
        for waiter in self.queues.remove(&queue).into_iter().flatten() {
            callbacks.wake(waiter);
        }
    }

    /// A message of this context and tag has come before its receive.
    #[inline]
    pub(super) fn wake_for_message(&mut self, context: u32, tag: i32, callbacks: &mut Callbacks) {
        if !self.queues.is_empty() {
            self.wake_queue(Queue::Message { context, tag: None }, callbacks);
            let tag = Some(tag);
            self.wake(Queue::Message { context, tag }, callbacks);
        }
    }

    /// Something has happened at windows.
    pub(super) fn wake_for_windows(&mut self, callbacks: &mut Callbacks) {
        let concerned = |queue: &Queue| matches!(queue, Queue::Window(_) | Queue::Other);
        let woken = self.queues.extract_if(|queue, _| concerned(queue));
        woken
            .flat_map(|(_, waiters)| waiters)
            .for_each(|waiter| callbacks.wake(waiter));
    }

    /// This has changed at the guest.
    pub(super) fn wake_for_changes(&mut self, changes: &Changes, callbacks: &mut Callbacks) {
        if changes.is_everything() {
            return self.wake_all(callbacks);
        }
        for subject in changes.subjects() {
            self.wake(Queue::Guest(*subject), callbacks);
        }
    }

    /// Everybody is to look.
    pub(super) fn wake_all(&mut self, callbacks: &mut Callbacks) {
        let all = self.queues.drain();
        all.flat_map(|(_, waiters)| waiters)
            .for_each(|waiter| callbacks.wake(waiter));
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

    /// Which of those in the queues are woken by what `happens`, if all wait before.
    fn woken(queues: &[Queue], happens: impl Fn(&mut Waiters, &mut Callbacks)) -> Vec<Queue> {
        let (mut waiters, mut callbacks) = (Waiters::default(), Callbacks::default());
        let counts: Vec<_> = queues.iter().map(|_| Arc::new(Count::default())).collect();
        for (queue, count) in queues.iter().zip(&counts) {
            let waiter = Waiter::Task(Waker::from(Arc::clone(count)));
            // One that was woken for something else waits again, once.
            waiters.begin_wait(*queue, waiter.clone());
            waiters.end_wait(*queue, &waiter);
            waiters.begin_wait(*queue, waiter);
        }
        happens(&mut waiters, &mut callbacks);
        callbacks.take().run();
        assert!(waiters.queues.values().all(|queue| !queue.is_empty()));
        let count = |(_, count): &(&Queue, &Arc<Count>)| count.0.load(Ordering::Relaxed) == 1;
        let woken = queues.iter().zip(&counts).filter(count);
        woken.map(|(queue, _)| *queue).collect()
    }

    #[test]
    fn those_are_woken_who_wait_for_it_and_those_who_wait_for_several_things() {
        let message = |context, tag| Queue::Message { context, tag };
        let subject = |number| Queue::Guest(Subject(number));
        let boards = [Queue::Board(BoardId(0)), Queue::Board(BoardId(1))];
        let all = [
            message(2, Some(7)),
            message(2, Some(8)),
            message(2, None),
            message(4, None),
            boards[0],
            boards[1],
            Queue::Window(6),
            Queue::Window(8),
            subject(1),
            subject(2),
            Queue::Other,
        ];
        let by_message = woken(&all, |waiters, callbacks| {
            waiters.wake_for_message(2, 7, callbacks);
        });
        assert_eq!(by_message, [all[0], all[2], Queue::Other]);
        let by_board = woken(&all, |waiters, callbacks| {
            waiters.wake(boards[1], callbacks);
        });
        assert_eq!(by_board, [boards[1], Queue::Other]);
        let by_window = woken(&all, Waiters::wake_for_windows);
        assert_eq!(by_window, [all[6], all[7], Queue::Other]);
        let by_guest = |note: &dyn Fn(&mut Changes)| {
            woken(&all, |waiters, callbacks| {
                let mut changes = Changes::default();
                note(&mut changes);
                waiters.wake_for_changes(&changes, callbacks);
            })
        };
        assert_eq!(by_guest(&|_| ()), []);
        let twice = by_guest(&|changes| {
            changes.note(Subject(2));
            changes.note(Subject(2));
        });
        assert_eq!(twice, [subject(2), Queue::Other]);
        assert_eq!(by_guest(&Changes::note_everything), all);
        assert_eq!(woken(&all, Waiters::wake_all), all);
    }
}
