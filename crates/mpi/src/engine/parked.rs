//! Parked waiters: those that wait while another drives progress, in queues by where they run. A waiter can be removed
//! from anywhere in a queue. There may be a million in all.
//!
//! ```text
//!   threads    T1 ─ T2                 the kernel runs them: one that is called comes
//!   worker 0   A ─ B ─ C ─ …           run one at a time, and none while another fiber of the worker computes
//!   worker 1   D ─ …
//! ```
//!
//! A driver that gives up progress [calls](Parked::call) others to take over, and more than one if that one may be kept
//! from running. The first to come drives.

use weft_fiber::{Fiber, Waiter, WorkerId};

/// No entry.
const NONE: u32 = u32::MAX;

/// Lists in a table: each entry knows its neighbours.
#[derive(Debug)]
pub(crate) struct Parked {
    entries: Vec<ParkedWaiter>,
    free: u32,
    count: usize,
    /// Those that are not empty: at most one for each worker, and one of threads.
    queues: Vec<Queue>,
    /// Workers with a fiber that drove, and looks again when others of its worker have run.
    resting: Vec<WorkerId>,
}

#[derive(Debug)]
struct ParkedWaiter {
    waiter: Option<Waiter>,
    worker: Option<WorkerId>,
    before: u32,
    /// The next in the list; of a free entry, the next free one.
    after: u32,
}

#[derive(Debug)]
struct Queue {
    /// Whose fibers; `None`: threads.
    worker: Option<WorkerId>,
    first: u32,
    last: u32,
    /// The first was woken and has not come yet.
    called: bool,
}

impl Default for Parked {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            count: 0,
            queues: Vec::new(),
            resting: Vec::new(),
        }
    }
}

impl Parked {
    /// Puts one at the end of its queue; the answer is for [`remove`](Self::remove).
    pub(crate) fn push(&mut self, waiter: Waiter) -> u32 {
        let worker = waiter.worker();
        let queue = match self.queues.iter().position(|queue| queue.worker == worker) {
            Some(queue) => &mut self.queues[queue],
            None => self.queues.push_mut(Queue {
                worker,
                first: NONE,
                last: NONE,
                called: false,
            }),
        };
        let new = ParkedWaiter {
            waiter: Some(waiter),
            worker,
            before: queue.last,
            after: NONE,
        };
        let entry = self.free;
        let entry = if entry == NONE {
            self.entries.push(new);
            u32::try_from(self.entries.len() - 1).expect("fewer waiters than numbers")
        } else {
            self.free = self.entries[entry as usize].after;
            self.entries[entry as usize] = new;
            entry
        };
        match queue.last {
            NONE => queue.first = entry,
            last => self.entries[last as usize].after = entry,
        }
        queue.last = entry;
        self.count += 1;
        entry
    }

    /// Takes one out, by the answer of [`push`](Self::push).
    pub(crate) fn remove(&mut self, entry: u32) {
        let ParkedWaiter {
            worker,
            before,
            after,
            ..
        } = self.entries[entry as usize];
        let place = self
            .queues
            .iter()
            .position(|queue| queue.worker == worker)
            .expect("the queue of one that is parked");
        let queue = &mut self.queues[place];
        match before {
            NONE => queue.first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => queue.last = before,
            after => self.entries[after as usize].before = before,
        }
        queue.called = false;
        if queue.first == NONE {
            self.queues.swap_remove(place);
        }
        self.entries[entry as usize] = ParkedWaiter {
            waiter: None,
            worker: None,
            before: NONE,
            after: self.free,
        };
        self.free = entry;
        self.count -= 1;
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Wakes such that one of them comes and drives, though no fiber of the worker `but` may run for long: a
    /// thread, or if none waits, of each other worker the fiber that has waited longest.
    pub(crate) fn call(&mut self, but: Option<WorkerId>) {
        let entries = &self.entries;
        let call = |queue: &mut Queue| {
            if !std::mem::replace(&mut queue.called, true)
                && let Some(waiter) = &entries[queue.first as usize].waiter
            {
                waiter.wake_by_ref();
            }
        };
        if let Some(threads) = self.queues.iter_mut().find(|queue| queue.worker.is_none()) {
            return call(threads);
        }
        self.queues
            .iter_mut()
            .filter(|queue| queue.worker != but)
            .for_each(call);
    }

    /// Wakes all threads, to look for themselves.
    pub(crate) fn wake_threads(&self) {
        let waiters = self
            .entries
            .iter()
            .filter_map(|entry| entry.waiter.as_ref());
        let threads = waiters.filter(|waiter| waiter.is_thread());
        threads.for_each(Waiter::wake_by_ref);
    }

    /// How many threads wait.
    pub(crate) fn threads(&self) -> usize {
        let waiters = self
            .entries
            .iter()
            .filter_map(|entry| entry.waiter.as_ref());
        waiters.filter(|waiter| waiter.is_thread()).count()
    }

    /// Some of the fibers, at most so many.
    pub(crate) fn fibers(&self, most: usize) -> impl Iterator<Item = Fiber> {
        let fibers = self.entries.iter().filter_map(|entry| match entry.waiter {
            Some(Waiter::Fiber(fiber)) => Some(fiber),
            _ => None,
        });
        fibers.take(most)
    }

    /// The driver, a fiber of this worker, lets the others of it run.
    pub(crate) fn rest(&mut self, worker: WorkerId) {
        self.resting.push(worker);
    }

    /// It is back.
    pub(crate) fn end_rest(&mut self, worker: WorkerId) {
        let place = self.resting.iter().position(|resting| *resting == worker);
        self.resting.swap_remove(place.expect("it rests"));
    }

    /// Whether a fiber of this worker rests. Then others of the worker need not drive: it runs when they do not.
    pub(crate) fn rests_at(&self, worker: Option<WorkerId>) -> bool {
        worker.is_some_and(|worker| self.resting.contains(&worker))
    }

    /// Whether any fiber rests.
    #[inline]
    pub(crate) fn any_rests(&self) -> bool {
        !self.resting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};
    use weft_atomic::{AtomicBool, Ordering};

    /// The longest waiter among the threads.
    fn first(parked: &Parked) -> u32 {
        parked.queues.first().map_or(NONE, |queue| queue.first)
    }

    #[test]
    fn places_are_used_again_and_the_order_stays() {
        let mut parked = Parked::default();
        assert_eq!(first(&parked), NONE);
        let me = Waiter::current();
        let [one, two, three] = [0; 3].map(|_| parked.push(me.clone()));
        assert_eq!((first(&parked), parked.queues[0].last), (one, three));
        assert_eq!(parked.len(), 3);
        parked.remove(two);
        parked.remove(one);
        assert_eq!((first(&parked), parked.queues[0].last), (three, three));
        assert_eq!(parked.push(me.clone()), one, "the last freed is used first");
        parked.remove(three);
        assert_eq!(first(&parked), one);
        parked.remove(one);
        assert!(parked.queues.is_empty() && parked.len() == 0);
        assert_eq!(parked.push(me), one);
    }

    #[test]
    fn a_thread_is_called_before_fibers_and_once_until_it_comes() {
        let config = weft_fiber::Config {
            workers: 2,
            ..Default::default()
        };
        let runtime = weft_fiber::Runtime::new(config).expect("memory");
        // Fibers that have not ended: where one runs is asked when it is called.
        let over = Arc::new(AtomicBool::new(false));
        let on = |worker| {
            let (tell, told) = mpsc::channel();
            let over = Arc::clone(&over);
            let fiber = weft_fiber::Builder::new()
                .worker(worker)
                .spawn_on(&runtime, move || {
                    tell.send(Waiter::current()).expect("it is awaited");
                    while !over.load(Ordering::Relaxed) {
                        weft_fiber::yield_now();
                    }
                })
                .expect("memory");
            (told.recv().expect("it tells"), fiber)
        };
        let ((left, one), (right, other)) = (on(0), on(1));
        assert_ne!(left.worker(), right.worker());
        let mut parked = Parked::default();
        let called = |parked: &Parked| -> Vec<Option<WorkerId>> {
            let called = parked.queues.iter().filter(|queue| queue.called);
            called.map(|queue| queue.worker).collect()
        };
        let both = [left.clone(), right.clone(), right.clone()].map(|one| parked.push(one));
        parked.call(left.worker());
        assert_eq!(called(&parked), [right.worker()]);
        parked.remove(both[2]);
        assert!(called(&parked).is_empty(), "one of it is back");
        parked.call(None);
        assert_eq!(called(&parked), [left.worker(), right.worker()]);
        both[..2].iter().for_each(|one| parked.remove(*one));
        parked.push(left);
        let thread = parked.push(Waiter::current());
        parked.call(None);
        assert_eq!(called(&parked), [None]);
        parked.remove(thread);
        parked.call(None);
        assert_eq!(called(&parked).len(), 1);
        assert!(!parked.any_rests());
        over.store(true, Ordering::Relaxed);
        for fiber in [one, other] {
            fiber.join().expect("no panic");
        }
    }
}
