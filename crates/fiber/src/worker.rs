//! Worker: a thread that runs fibers, one after the other, and sleeps when there is none.
//!
//! ```text
//!   fiber A ──yield/park──► fiber B ──► fiber C           directly, as long as any is ready
//!      │                       ▲
//!      └─ none is ready ─► native context ─ look · spin · sleep
//!      ├─ ended, and a fiber of this worker joins it ─► that fiber
//!      └─ ended ─────────► native context ─ tell whoever joins, keep the stack ─► next
//! ```
//!
//! # Who may touch what
//! A fiber has one owner at a time, the worker in the table of owners. Only the owner runs it, has it in its queue,
//! stores its context, and gives it to another (SYNC worker.give: the owner stores the context, then the new owner in the
//! table, then signals there; the new owner takes the bit). So a fiber that yields or parks cannot be started on another
//! worker before it is off its stack, and no fiber has a state that needs a lock.
//!
//! A signaller reads the owner and sets the fiber's bit there. If the fiber was given away in between, the old owner
//! finds a bit of a fiber that is not its own, and passes it on. A bit of a fiber that has ended is dropped; if the
//! number is in use again, the new fiber looks once for nothing.
//!
//! Fields of [`Worker`] that are not atomic are touched only by its thread.

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_atomic::Ordering;

use weft_atomic::bits::{Bits, summaries_for, words_for};
use weft_atomic::{AtomicU64, CacheLine, FenceMode, spin_loop};
use weft_sys::Mapping;
use weft_sys::patience::Patience;

use crate::completion::Ended;
use crate::control::{self, Control};
use crate::fiber_table::{NOBODY, owner_of};
use crate::forever::forever;
use crate::placement::{CoreOf, Placement};
use crate::run_queue::RunQueue;
use crate::runnable::{GROUP, Runnable};
use crate::sanitizer;
use crate::scheduler::Scheduler;
use crate::stack::Class;
use crate::stack_cache::StackCache;
use crate::switch::{Context, finish, reclaim, switch};
use crate::waiter::Waiter;

/// No fiber runs: the native context does.
const NONE: u32 = u32::MAX;

/// Looks of an idle worker between two reads of the clock, each some tens of nanoseconds.
const LOOKS: u32 = if cfg!(miri) { 4 } else { 64 };

/// How long an idle worker spins on a core that nobody else wants. Longer than a rank: a program whose workers have cores of
/// their own has them for its fibers, and a signal that has to wake a worker takes its sender a hundred times as long.
const SPIN: Duration = Duration::from_millis(1);

thread_local! {
    /// The worker that this thread is.
    static HERE: Cell<Option<&'static Worker>> = const { Cell::new(None) };
}

/// How to wake a worker that sleeps elsewhere than on its own doorbell.
pub(crate) type Ringer = Arc<dyn Fn() + Send + Sync>;

/// One worker: the thread of the kernel that runs the fibers of its queue.
pub(crate) struct Worker {
    pub index: usize,
    pub runtime: &'static Scheduler,
    queue: RunQueue,
    running: Cell<u32>,
    native: Cell<Context>,
    ended: Cell<u32>,
    stacks: StackCache,
    /// How many fibers were started and have ended here; written by the worker, read by all.
    started: CacheLine<AtomicU64>,
    finished: AtomicU64,
    shared: CacheLine<Runnable<'static>>,
    placement: Placement,
    /// Where it sleeps, if not on its own bell.
    elsewhere: Mutex<Option<Ringer>>,
}

// SAFETY: cells are touched only by the thread that plays the worker (see the module page), of which
// there is one ever: whoever plays a worker has marked it in `WorkerThreads`; and after that thread was
// joined, or has returned from `work`, by `Scheduler::join`. The rest is atomics and a mutex.
unsafe impl Sync for Worker {}
// SAFETY: as above: before it is played, nothing of it belongs to a thread.
unsafe impl Send for Worker {}

impl Worker {
    pub(crate) fn new(
        index: usize,
        runtime: &'static Scheduler,
        limit: usize,
        chance: u64,
    ) -> io::Result<Self> {
        let zeros = |count: usize| -> io::Result<&'static [AtomicU64]> {
            // Lives as long as the runtime's tables: for ever, see `Scheduler`. Only touched pages are taken.
            let memory = forever(Mapping::private(count.max(1) * 8)?);
            Ok(memory.atomic_u64s(0, count).unwrap_or_default())
        };
        let bits = |length: usize| -> io::Result<Bits<'static>> {
            let (summaries, words) = (zeros(summaries_for(length))?, zeros(words_for(length))?);
            Ok(Bits::over(summaries, words, length).expect("as many words as asked for"))
        };
        let words = words_for(limit);
        let groups = limit.div_ceil(GROUP);
        Ok(Self {
            index,
            runtime,
            queue: RunQueue::new(
                zeros(words)?,
                zeros(groups)?,
                zeros(groups.div_ceil(64))?,
                chance,
            ),
            running: Cell::new(NONE),
            native: Cell::new(ptr::null_mut()),
            ended: Cell::new(NONE),
            stacks: StackCache::default(),
            started: CacheLine(AtomicU64::new(0)),
            finished: AtomicU64::new(0),
            // A signal is an exchange, which is a full fence already: the other mode would gain nothing.
            shared: CacheLine(Runnable::new(
                bits(groups)?,
                bits(limit)?,
                FenceMode::Symmetric,
            )),
            placement: Placement::default(),
            elsewhere: Mutex::new(None),
        })
    }

    /// Whether this worker is the owner `owner` of that runtime.
    #[inline]
    pub(crate) fn serves(&self, runtime: &'static Scheduler, owner: u32) -> bool {
        owner == owner_of(self.index) && ptr::eq(self.runtime, runtime)
    }

    /// Where it was last seen awake, and where the other workers of the runtime were.
    pub(crate) fn placements(&self) -> (&Placement, impl Iterator<Item = &Placement>) {
        let all = self.runtime.workers().iter();
        let others = all.filter(|other| other.index != self.index);
        (&self.placement, others.map(|other| &other.placement))
    }

    /// The fiber that runs.
    #[inline]
    pub(crate) fn running(&self) -> Option<u32> {
        let number = self.running.get();
        (number != NONE).then_some(number)
    }

    /// Another thread, or a signal handler's successor, has made a fiber of ours runnable.
    pub(crate) fn signal(&self, number: u32) {
        self.shared
            .signal(number as usize, &self.runtime.futex, || {
                self.ring_elsewhere()
            });
    }

    /// Has the worker look at the state of the runtime.
    pub(crate) fn ring(&self) {
        self.shared
            .ring(&self.runtime.futex, || self.ring_elsewhere());
    }

    #[cold]
    fn ring_elsewhere(&self) {
        let ring = self.elsewhere().clone();
        // Not under the lock: it is the caller's function.
        if let Some(ring) = ring {
            ring();
        }
    }

    fn elsewhere(&self) -> MutexGuard<'_, Option<Ringer>> {
        self.elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The next fiber to run, if any is ready.
    #[inline(always)]
    fn pick(&self) -> Option<u32> {
        loop {
            let Some(number) = self.queue.next() else {
                if !self.refill() {
                    return None;
                }
                continue;
            };
            if self.runtime.stacks.are_many()
                && let Some(ahead) = self.queue.ahead()
            {
                self.prefetch(ahead);
            }
            if self.runtime.fibers.owner(number).load(Ordering::Acquire) == owner_of(self.index) {
                return Some(number);
            }
            self.stray(number);
        }
    }

    /// Fetches the top frames of a fiber that will run soon.
    #[inline]
    fn prefetch(&self, number: u32) {
        #[cfg(miri)]
        let _ = number;
        #[cfg(not(miri))]
        let context = self.runtime.fibers.context(number).load(Ordering::Relaxed) as *const i8;
        // SAFETY: a prefetch of any address has no effect but on the cache.
        #[cfg(not(miri))]
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(context);
            _mm_prefetch::<_MM_HINT_T0>(context.wrapping_add(64));
        }
    }

    /// A bit of a fiber that is not ours (any more).
    #[cold]
    fn stray(&self, number: u32) {
        let owner = self.runtime.fibers.owner(number).load(Ordering::Acquire);
        self.runtime.signal_at(owner, number);
    }

    /// Takes what others signalled, and the next word of runnable fibers.
    #[inline(never)]
    fn refill(&self) -> bool {
        if self.shared.may_have_any() {
            self.shared
                .take(|word, bits| self.queue.add_word(word, bits));
        }
        if !self.queue.refill() {
            return false;
        }
        if self.runtime.idle.has_any() {
            self.give();
        }
        true
    }

    /// Gives half of the current word's fibers that may migrate to a worker that has nothing to do.
    #[cold]
    fn give(&self) {
        let (word, current) = self.queue.current();
        let mut movable = current & self.runtime.fibers.migrating_in(word);
        // The first of the word is about to run here.
        movable &= !(current & current.wrapping_neg());
        // Who yields, or was signalled while parking, may be in the word and is still on its stack.
        let running = self.running.get();
        if running as usize / 64 == word {
            movable &= !(1 << (running % 64));
        }
        if movable == 0 {
            return;
        }
        let Some(other) = self.runtime.claim_idle(self.index) else {
            return;
        };
        let mut given = 0;
        for _ in 0..movable.count_ones().div_ceil(2) {
            let bit = movable & movable.wrapping_neg();
            movable &= !bit;
            let number = (word * 64) as u32 + bit.trailing_zeros();
            let owner = self.runtime.fibers.owner(number);
            // A bit may have come to us late, of a fiber that is another's by now or has ended: only an
            // owner may say who is the next. `pick` finds such bits.
            if owner.load(Ordering::Acquire) == owner_of(self.index) {
                given |= bit;
                // Release: SYNC worker.give.
                owner.store(owner_of(other.index), Ordering::Release);
            }
        }
        self.queue.remove_from_current(given);
        if given == 0 {
            // It was claimed, so it has to look and be idle anew.
            other.ring();
        }
        while given != 0 {
            let number = (word * 64) as u32 + given.trailing_zeros();
            given &= given - 1;
            other.signal(number);
        }
    }

    /// Stores the running context at `save` and runs `next`.
    #[inline]
    fn switch_to(&self, save: *mut Context, next: u32) {
        self.running.set(next);
        let context = self.runtime.fibers.context(next).load(Ordering::Relaxed);
        // SAFETY: `next` is ours and not running, so its context was stored when it was suspended or made;
        // `save` is the place of whoever runs now.
        unsafe { switch(save, context) };
    }

    /// Goes to the native context. `number` is the fiber that runs now.
    fn switch_home(&self, number: u32) {
        self.running.set(NONE);
        // SAFETY: the native context was stored when it switched to the first fiber.
        unsafe {
            switch(
                self.runtime.fibers.context(number).as_ptr(),
                self.native.get(),
            )
        };
    }

    /// The life of the worker on the calling thread: until the runtime ends.
    pub(crate) fn work(&'static self) {
        let before = HERE.replace(Some(self));
        let _stack = weft_sys::fault::AlternateStack::install();
        loop {
            self.tell_the_end();
            if let Some(next) = self.pick() {
                self.switch_to(self.native.as_ptr(), next);
            } else if !self.idle() {
                break;
            }
        }
        HERE.set(before);
    }

    /// A fiber has ended and is off its stack: whoever waits is told.
    fn tell_the_end(&self) {
        let number = self.ended.replace(NONE);
        if number == NONE {
            return;
        }
        let control = self.runtime.control(number);
        let owner = self.runtime.fibers.owner(number);
        // SAFETY: the fiber has switched home for the last time; its frames are below the block.
        unsafe { sanitizer::ended(self.runtime.fibers.context(number), control.cast()) };
        // SAFETY: the last context of a fiber that has left it for good.
        unsafe { reclaim(self.runtime.fibers.context(number).load(Ordering::Relaxed)) };
        // From here on a bit that is still set for it means nothing.
        owner.store(NOBODY, Ordering::Release);
        // SAFETY: the block of a fiber that nobody has freed: its end is published here.
        let ended = unsafe { (*control).completion.end() };
        if let Ended::Unwanted = ended {
            // It goes on as a fiber: what drops the result may do all that a fiber may.
            // SAFETY: detached, off its stack, and its result is there.
            let context = unsafe { control::to_drop_result(control, begin) };
            self.runtime
                .fibers
                .context(number)
                .store(context, Ordering::Relaxed);
            owner.store(owner_of(self.index), Ordering::Release);
            self.queue.add(number);
            return;
        }
        self.count_end();
        match ended {
            Ended::Alone | Ended::Unwanted => {}
            Ended::Awaited(waiter) => waiter.wake(),
            Ended::Dropped => self.runtime.release(number),
        }
    }

    /// Nothing is ready: looks for a while, then sleeps. False when the runtime has ended.
    #[cold]
    fn idle(&self) -> bool {
        if self.runtime.has_stopped() {
            return false;
        }
        self.runtime.idle.set(self.index, true);
        let found = self.spin();
        if !found {
            self.placement.hide();
            self.shared
                .sleep(&self.runtime.futex, || self.runtime.may_stop(), |own| own());
            self.placement.show();
        }
        self.runtime.idle.set(self.index, false);
        if !found {
            self.runtime.stop_if_over();
        }
        true
    }

    /// Looks for as long as it is worth it; true if there may be something. Not at all where workers have to share
    /// cores.
    fn spin(&self) -> bool {
        if !self.runtime.have_cores() {
            return self.shared.may_have_any();
        }
        let mut patience = Patience::up_to(SPIN);
        loop {
            for _ in 0..LOOKS {
                if self.shared.may_have_any() {
                    return true;
                }
                spin_loop();
            }
            if cfg!(miri) || !patience.lasts(&CoreOf(self)) {
                return false;
            }
        }
    }

    /// A free stack of a class, from those kept here.
    #[inline]
    pub(crate) fn take_stack(&self, class: Class) -> io::Result<u32> {
        self.stacks.take(&self.runtime.stacks, class)
    }

    /// Keeps a stack for the next fiber.
    #[inline]
    pub(crate) fn keep_stack(&self, class: Class, number: u32) {
        self.stacks.keep(&self.runtime.stacks, class, number);
    }

    /// Gives all stacks that are kept here to the depot. The worker must not be played any more.
    pub(crate) fn give_stacks_back(&self) {
        self.stacks.give_all_back(&self.runtime.stacks);
    }

    /// One more fiber was started here. By the thread of the worker.
    #[inline]
    pub(crate) fn count_start(&self) {
        let started = self.started.load(Ordering::Relaxed);
        self.started.store(started + 1, Ordering::Release);
    }

    /// How many fibers this worker has started.
    #[inline]
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Acquire)
    }

    /// How many fibers have ended on this worker.
    #[inline]
    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether this worker has never started a fiber; a moment's view.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.started.load(Ordering::Relaxed) == 0
    }

    /// Makes a fiber of this worker runnable. By the thread of the worker.
    #[inline]
    pub(crate) fn make_runnable(&self, number: u32) {
        self.queue.add(number);
    }

    /// Whether the worker knows of a fiber that is runnable.
    #[inline]
    pub(crate) fn has_runnable(&self) -> bool {
        self.queue.has_any()
    }

    /// Publishes the end of the running fiber, if one of this worker waits for it: that one goes on next, and nobody else
    /// may give the stack back. It goes on before others that are runnable, but once only for each fiber that has had its
    /// turn: who joins again waits for another one, behind those others. So nobody starves.
    #[inline]
    fn end_for_joiner(&self, number: u32, control: *const Control) -> Option<u32> {
        // Tools that follow stacks are told of the end from another one; an order by chance is to be one.
        if sanitizer::FOLLOWS_STACKS || self.queue.is_by_chance() {
            return None;
        }
        let owner = |number| self.runtime.fibers.owner(number);
        let is_here = |waiter: &Waiter| match waiter {
            // Only its owner runs a fiber or gives it away: it does neither before the switch.
            Waiter::Fiber(fiber) => {
                ptr::eq(fiber.runtime(), self.runtime)
                    && owner(fiber.number()).load(Ordering::Acquire) == owner_of(self.index)
            }
            Waiter::Thread(_) | Waiter::Task(_) => false,
        };
        // SAFETY: the block of the running fiber, which nobody has freed: its end is published here.
        let completion = unsafe { &(*control).completion };
        let Some(Waiter::Fiber(joiner)) = completion.end_on_stack(is_here) else {
            return None;
        };
        // From here on a bit that is still set for it means nothing.
        owner(number).store(NOBODY, Ordering::Release);
        self.count_end();
        Some(joiner.number())
    }

    /// One more fiber has ended here. By the thread of the worker.
    #[inline]
    fn count_end(&self) {
        let finished = self.finished.load(Ordering::Relaxed);
        self.finished.store(finished + 1, Ordering::Release);
    }

    /// The running fiber, of this block, ends. Never returns.
    fn leave(&self, number: u32, control: *const Control) -> ! {
        if let Some(joiner) = self.end_for_joiner(number, control) {
            self.running.set(joiner);
            let context = |number| self.runtime.fibers.context(number);
            // SAFETY: as for `switch_to`: the joiner is ours, is not running, and goes on next.
            unsafe {
                finish(
                    context(number).as_ptr(),
                    context(joiner).load(Ordering::Relaxed),
                )
            }
        }
        self.ended.set(number);
        self.running.set(NONE);
        // SAFETY: as for `switch_home`.
        unsafe {
            finish(
                self.runtime.fibers.context(number).as_ptr(),
                self.native.get(),
            )
        }
    }
}

/// The first frame of each fiber.
pub(crate) unsafe extern "C-unwind" fn begin(control: *mut u8) -> ! {
    let control = control.cast::<Control>();
    // SAFETY: handed over by whoever prepared this context; run once.
    unsafe { ((*control).run)(control) };
    end(control)
}

/// Not inlined: the fiber may have come to another thread meanwhile.
#[inline(never)]
fn end(control: *const Control) -> ! {
    let worker = HERE.get().expect("fibers run on workers");
    worker.leave(worker.running.get(), control)
}

/// The worker that the calling thread is. Not inlined into functions that switch: see [`switch`].
#[inline(never)]
pub(crate) fn here() -> Option<&'static Worker> {
    HERE.get()
}

/// Makes the calling thread this worker, or none; the answer is what it was.
#[cfg(miri)]
pub(crate) fn be(worker: Option<&'static Worker>) -> Option<&'static Worker> {
    HERE.replace(worker)
}

/// Whether the caller is a fiber.
#[must_use]
#[inline(never)]
pub fn is_fiber() -> bool {
    HERE.get()
        .is_some_and(|worker| worker.running.get() != NONE)
}

/// The index of the worker that runs the calling fiber, if it is one.
#[must_use]
pub fn current_worker() -> Option<usize> {
    let worker = here()?;
    worker.running().map(|_| worker.index)
}

/// Lets every other runnable fiber of this worker run first. On a thread that is no fiber: lets other threads run.
#[inline(never)]
pub fn yield_now() {
    let Some(worker) = HERE.get() else {
        return std::thread::yield_now();
    };
    let me = worker.running.get();
    if me == NONE {
        return;
    }
    worker.queue.add(me);
    // There is one: the caller.
    if let Some(next) = worker.pick()
        && next != me
    {
        worker.switch_to(worker.runtime.fibers.context(me).as_ptr(), next);
    }
}

/// Like [`yield_now`], and the fiber comes back on the same worker, even if it may migrate.
pub fn yield_in_place() {
    let Some(worker) = here() else {
        return std::thread::yield_now();
    };
    let Some(me) = worker.running() else {
        return;
    };
    let fibers = &worker.runtime.fibers;
    let migrating = fibers.may_migrate(me);
    fibers.set_migrating(me, false);
    yield_now();
    fibers.set_migrating(me, migrating);
}

/// Suspends the calling fiber until its bit is set; false if the caller is none.
#[inline(never)]
pub(crate) fn park() -> bool {
    let Some(worker) = HERE.get() else {
        return false;
    };
    let me = worker.running.get();
    if me == NONE {
        return false;
    }
    match worker.pick() {
        Some(next) if next == me => {}
        Some(next) => worker.switch_to(worker.runtime.fibers.context(me).as_ptr(), next),
        None => worker.switch_home(me),
    }
    true
}

/// Whether another fiber of the calling worker may be runnable: if so, a fiber that only waits should
/// [`yield_now`]. False on a thread that is no worker.
#[must_use]
#[inline(never)]
pub fn others_runnable() -> bool {
    HERE.get()
        .is_some_and(|worker| worker.queue.has_any() || worker.shared.may_have_any())
}

/// See [`crate::sleep_elsewhere`].
pub(crate) fn sleep_elsewhere(ring: &Ringer, wait: impl FnOnce()) -> bool {
    let Some(worker) = here() else {
        wait();
        return true;
    };
    /// Takes back what says that the worker sleeps, also when `wait` panics.
    struct Asleep(&'static Worker);
    impl Drop for Asleep {
        fn drop(&mut self) {
            self.0.runtime.idle.set(self.0.index, false);
            *self.0.elsewhere() = None;
        }
    }
    *worker.elsewhere() = Some(ring.clone());
    worker.runtime.idle.set(worker.index, true);
    let _asleep = Asleep(worker);
    let mut slept = false;
    // The caller's own fiber lives, so the runtime does not end meanwhile.
    worker.shared.sleep(
        &worker.runtime.futex,
        || worker.queue.has_any(),
        |_own| {
            slept = true;
            wait();
        },
    );
    slept
}
