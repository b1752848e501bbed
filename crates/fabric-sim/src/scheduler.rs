//! Scheduler: the threads of the ranks, of which exactly one runs at a time.
//!
//! ```text
//!   running: schedules itself (or falls asleep) ─ asks the machine which rank is next ─ gives it the permit
//!            ─ waits for its own permit ─ is the run over, or is it dead?  unwinds
//! ```
//!
//! A permit is a flag and an unpark. SYNC permit: `give` releases what the former thread did, `take` acquires
//! it; apart from that the lock of the machine guards everything shared.
//!
//! A rank that must end (death, deadlock, panic of another) is unwound by `resume_unwind` from within the
//! call that it made. A thread that unwinds keeps running; its calls find nothing and fail, so that
//! destructors end.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use weft_atomic::{AtomicBool, Ordering};
use weft_sys::cores;

use crate::config::Config;
use crate::inbox::Delivery;
use crate::machine::{IdlePoll, Machine};
use crate::report::{Failure, Report};

/// Thrown to unwind a rank that has to end.
struct MustEnd;

/// Why the thread of a rank ends.
pub(crate) enum Ending {
    /// It returned.
    Returned,
    /// It had to end, and was unwound: it died, or the run is over.
    Unwound,
    /// It panicked with these words.
    Panicked(String),
}

impl Ending {
    /// The meaning of a caught unwinding.
    pub(crate) fn of(thrown: Box<dyn Any + Send>) -> Self {
        if thrown.is::<MustEnd>() {
            return Self::Unwound;
        }
        let message = match thrown.downcast_ref::<&str>() {
            Some(text) => (*text).to_string(),
            None => match thrown.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => "something that is not text".into(),
            },
        };
        Self::Panicked(message)
    }
}

/// The permit of one thread to run.
#[derive(Default)]
struct Permit {
    given: AtomicBool,
    /// Set before the first permit is given.
    thread: OnceLock<Thread>,
}

impl Permit {
    fn give(&self) {
        // SYNC permit.
        self.given.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn take(&self) {
        // SYNC permit.
        while !self.given.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// The state that all ranks of a run share: the machine, and which rank may run.
pub(crate) struct Scheduler {
    machine: Mutex<Machine>,
    permits: Vec<Permit>,
    /// Whether each rank has a thread; otherwise one thread drives all.
    threaded: bool,
    core: Option<usize>,
}

impl Scheduler {
    pub(crate) fn new(config: Config, threaded: bool) -> Self {
        let core = cores::current().filter(|_| config.one_core);
        let mut permits = Vec::new();
        permits.resize_with(config.ranks, Permit::default);
        Self {
            machine: Mutex::new(Machine::new(config)),
            permits,
            threaded,
            core,
        }
    }

    /// The machine. Our code does not panic while it is locked; a sink that does holds no lock.
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.machine().is_over()
    }

    /// There is no thread for `rank` or the ranks after it.
    pub(crate) fn cannot_start(&self, rank: usize, error: &std::io::Error) {
        self.machine().cannot_start(rank, error);
    }

    /// Gives the first permit.
    pub(crate) fn start(&self, threads: impl Iterator<Item = Thread>) {
        let mut machine = self.machine();
        for ((rank, permit), thread) in (0..).zip(&self.permits).zip(threads) {
            let _ = permit.thread.set(thread);
            machine.schedule(rank, 0);
        }
        let first = machine.next();
        drop(machine);
        self.permit(first);
    }

    fn permit(&self, next: Option<u32>) {
        if let Some(next) = next {
            self.permits[next as usize].give();
        }
    }

    pub(crate) fn await_first_permit(&self, rank: usize) {
        if let Some(core) = self.core {
            // Only a matter of speed: if it is refused, threads run anywhere.
            let _ = cores::pin(&[core]);
        }
        self.permits[rank].take();
    }

    /// The rank has ended: the next one runs.
    pub(crate) fn leave(&self, rank: u32, ending: Ending) {
        let panicked = match ending {
            Ending::Panicked(message) => Some(message),
            Ending::Returned | Ending::Unwound => None,
        };
        let mut machine = self.machine();
        machine.leave(rank, panicked);
        let next = machine.next();
        drop(machine);
        self.permit(next);
    }

    /// The report, once all threads have ended.
    pub(crate) fn report<R>(&self, results: Vec<Option<R>>) -> Result<Report<R>, Failure> {
        self.machine().report(results)
    }

    /// Lets the next rank run, and returns when `me` is next.
    fn switch<'a>(
        &'a self,
        mut machine: MutexGuard<'a, Machine>,
        me: u32,
    ) -> MutexGuard<'a, Machine> {
        let next = machine.next();
        if next == Some(me) {
            return machine;
        }
        drop(machine);
        self.permit(next);
        self.permits[me as usize].take();
        self.machine()
    }

    /// Whether the calling rank may be suspended: it has a thread of its own, which does not unwind.
    fn may_switch(&self) -> bool {
        self.threaded && !std::thread::panicking()
    }

    /// Ends `me` if it has to end.
    fn check<'a>(&self, mut machine: MutexGuard<'a, Machine>, me: u32) -> MutexGuard<'a, Machine> {
        if !machine.must_end(me) || !self.may_switch() {
            return machine;
        }
        drop(machine);
        if cfg!(panic = "abort") {
            self.give_up();
        }
        std::panic::resume_unwind(Box::new(MustEnd));
    }

    /// In a build that cannot unwind, the end of a rank is the end of the process.
    fn give_up(&self) -> ! {
        match self.report::<()>(Vec::new()) {
            Err(failure) => eprintln!("{failure}"),
            Ok(_) => eprintln!("a rank died by a simulated fault; build with panic = \"unwind\""),
        }
        std::process::abort();
    }

    /// Lets ranks whose clocks are behind run first.
    fn let_pass(&self, me: u32) -> MutexGuard<'_, Machine> {
        let mut machine = self.machine();
        if self.may_switch() && machine.let_pass(me) {
            machine = self.switch(machine, me);
        }
        self.check(machine, me)
    }

    /// One poll of `me`: takes at most `budget` items into `found`.
    pub(crate) fn poll(&self, me: u32, budget: usize, found: &mut Vec<Delivery>) {
        let mut machine = self.let_pass(me);
        if machine.poll(me, budget, found) {
            return;
        }
        if !self.may_switch() {
            machine.skip_idle_poll(me);
            return;
        }
        match machine.idle_poll(me) {
            IdlePoll::GoOn => return,
            IdlePoll::Yield => machine = self.switch(machine, me),
            IdlePoll::Over => {}
        }
        drop(self.check(machine, me));
    }

    /// `me` sleeps until something wakes it or the limit is reached.
    pub(crate) fn sleep(&self, me: u32, limit: Option<Duration>) {
        let mut machine = self.machine();
        if !self.may_switch() {
            machine.skip_sleep(me, limit);
            return;
        }
        machine.sleep(me, limit);
        machine = self.switch(machine, me);
        machine.prepare_sleep(me);
        drop(self.check(machine, me));
    }

    /// `me` has done something that others may see: this may kill it.
    pub(crate) fn acted(&self, me: u32) {
        let mut machine = self.machine();
        if machine.acted(me) {
            drop(self.check(machine, me));
        }
    }

    /// `me` computes for `time`.
    pub(crate) fn compute(&self, me: u32, time: Duration) {
        self.machine().compute(me, time);
        drop(self.let_pass(me));
    }
}
