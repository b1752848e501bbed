//! A runtime: the tables of all fibers, the workers, and how they start and end.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use weft_atomic::Ordering;

use weft_atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use weft_sys::{Futex, Mapping, cores};

use crate::fiber::{Fiber, Word, owner_of};
use crate::incarnation::{Freed, Incarnation};
use crate::spawn::{Builder, JoinHandle};
use crate::stack::Stacks;
use crate::worker::{self, Worker};

/// From so many stacks on it pays to fetch the next fiber's frames ahead.
const MANY: usize = 128;

/// Which stacks have guards. A fiber that uses up a stack without one writes into its neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guard(pub(crate) Guarded);

/// See [`Guard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Guarded {
    #[default]
    All,
    Possible,
    None,
}

impl Guard {
    /// Every stack has one: the default. Where guards cost mappings (before Linux 6.13) a runtime has
    /// 16 384 stacks, and one more is refused.
    pub const ALL: Self = Self(Guarded::All);

    /// As many as can be had: all, or the first 16 384 stacks of the runtime where guards cost mappings.
    ///
    /// # Safety
    /// On such a kernel the fibers beyond must not use up their stacks.
    #[must_use]
    pub const unsafe fn where_possible() -> Self {
        Self(Guarded::Possible)
    }

    /// None.
    ///
    /// # Safety
    /// No fiber of the runtime may use up its stack.
    #[must_use]
    pub const unsafe fn never() -> Self {
        Self(Guarded::None)
    }
}

/// In which order a worker runs its runnable fibers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Each once before any twice.
    #[default]
    Fair,
    /// By chance, from this seed: for finding mistakes in what the fibers do together. The same seed gives
    /// the same order if nothing else differs. A fiber may wait long for its turn.
    Seeded(u64),
}

/// How a runtime is made. All fields have defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many workers there may be, at most 64; 0 for one a core. A worker's thread is started when it
    /// first has a fiber.
    pub workers: usize,
    /// How many fibers may be live at once, in steps of 1024. What is not used costs address space only.
    pub fibers: usize,
    /// Bytes of a stack, guard included, rounded up to a power of two; memory is taken as it is touched.
    pub stack: usize,
    /// Which stacks have guards.
    pub guard: Guard,
    /// The order of runnable fibers.
    pub order: Order,
    /// Pins worker `i` to the core at place `first + i` of those that the process may use, around. None
    /// pins nobody, as does a runtime with more workers than cores.
    pub pin: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: 0,
            fibers: if cfg!(miri) { 1024 } else { 1 << 22 },
            stack: if cfg!(miri) { 16 } else { 64 } * 1024,
            guard: Guard::ALL,
            order: Order::Fair,
            pin: Some(0),
        }
    }
}

/// What all of a runtime share. It lives for ever, so that a [`Fiber`] may be a plain value that outlives
/// everything: a runtime that has ended gives back its threads and stacks, and leaves the tables, of which
/// only the pages of numbers that were in use are memory.
pub(crate) struct Inner {
    pub config: Config,
    pub stacks: Stacks,
    pub futex: Futex,
    /// By number: where it goes on (SYNC worker.give), whose it is, which use of it this is.
    contexts: Mapping,
    owners: Mapping,
    incarnations: Mapping,
    /// By word of numbers: which may migrate.
    migrating: Mapping,
    workers: OnceLock<Box<[Worker]>>,
    /// The cores of this process.
    cores: Vec<usize>,
    threads: Mutex<Threads>,
    /// Bit of each worker that has nothing to do.
    pub idle: AtomicU64,
    /// Whether there are many stacks.
    pub many: AtomicBool,
    /// Fibers started from outside.
    outside: AtomicU64,
    /// Where the next one from outside goes.
    turn: AtomicUsize,
    phase: AtomicU32,
}

/// A value that lives for ever.
pub(crate) fn forever<T: Sync>(value: T) -> &'static T {
    let kept: &'static T = Box::leak(Box::new(value));
    #[cfg(miri)]
    {
        /// What no static reaches is a leak for Miri.
        struct Kept(#[expect(dead_code, reason = "to be reached")] *const ());
        // SAFETY: never used.
        unsafe impl Send for Kept {}
        static ALL: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
        ALL.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Kept(std::ptr::from_ref(kept).cast()));
    }
    kept
}

/// Who plays the workers.
#[derive(Default)]
struct Threads {
    /// Bit of each worker that is played. It stays: nobody plays a worker after another.
    played: u64,
    /// Threads of the runtime's own that nobody has joined yet.
    own: Vec<thread::JoinHandle<()>>,
}

/// Nobody has asked for the end.
const RUNNING: u32 = 0;
/// It ends when the last fiber does.
const CLOSING: u32 = 1;
/// The last fiber has ended.
const STOPPED: u32 = 2;

impl Inner {
    fn new(mut config: Config) -> io::Result<&'static Self> {
        let cores = cores::allowed().unwrap_or_else(|_| vec![0]);
        if config.workers == 0 {
            config.workers = cores::cores_available();
        }
        config.workers = config.workers.clamp(1, 64);
        config.fibers = config.fibers.clamp(1024, 1 << 26).next_multiple_of(1024);
        weft_sys::fault::explain_with(crate::overflow::explain)?;
        let limit = config.fibers;
        let inner = forever(Self {
            stacks: Stacks::new(limit, config.guard)?,
            futex: Futex::private(),
            contexts: Mapping::private(limit * 8)?,
            owners: Mapping::private(limit * 4)?,
            incarnations: Mapping::private(limit * 4)?,
            migrating: Mapping::private(limit.div_ceil(64) * 8)?,
            workers: OnceLock::new(),
            cores,
            threads: Mutex::default(),
            idle: AtomicU64::new(0),
            many: AtomicBool::new(false),
            outside: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            phase: AtomicU32::new(RUNNING),
            config,
        });
        let chance = |index: usize| match inner.config.order {
            Order::Fair => 0,
            // Any value but 0 starts the generator.
            Order::Seeded(seed) => {
                (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64 * 0xD1B5_4A32_D192_ED03)
                    | 1
            }
        };
        let workers: io::Result<Box<[Worker]>> = (0..inner.config.workers)
            .map(|index| Worker::new(index, inner, limit, chance(index)))
            .collect();
        _ = inner.workers.set(workers?);
        Ok(inner)
    }

    /// All workers, whether their threads run or not.
    #[inline]
    pub(crate) fn workers(&self) -> &[Worker] {
        self.workers.get().map_or(&[], |workers| workers)
    }

    #[inline]
    pub(crate) fn owner(&self, number: u32) -> &Word {
        // SAFETY: numbers lie below the limit (`Stacks::grow`), for which the mapping was made.
        unsafe { AtomicU32::from_ptr(self.owners.as_ptr().cast::<u32>().add(number as usize)) }
    }

    #[inline]
    pub(crate) fn incarnation(&self, number: u32) -> Incarnation<'_> {
        let words = self.incarnations.as_ptr().cast::<u32>();
        // SAFETY: as for `owner`.
        Incarnation(unsafe { AtomicU32::from_ptr(words.add(number as usize)) })
    }

    /// Where a fiber goes on. Read and written by its owner alone.
    #[inline]
    pub(crate) fn context(&self, number: u32) -> &AtomicPtr<u8> {
        // SAFETY: as for `owner`.
        unsafe {
            AtomicPtr::from_ptr(
                self.contexts
                    .as_ptr()
                    .cast::<*mut u8>()
                    .add(number as usize),
            )
        }
    }

    /// Which fibers of a word may migrate.
    #[inline]
    pub(crate) fn migrating(&self, word: usize) -> &AtomicU64 {
        // SAFETY: as for `owner`: a word of numbers below the limit.
        unsafe { AtomicU64::from_ptr(self.migrating.as_ptr().cast::<u64>().add(word)) }
    }

    pub(crate) fn fiber(&'static self, number: u32) -> Fiber {
        Fiber {
            runtime: self,
            number,
            incarnation: self.incarnation(number).name(),
        }
    }

    /// Sets the bit of a fiber at the worker that owns it.
    #[inline]
    pub(crate) fn signal_at(&self, owner: u32, number: u32) {
        if let Some(index) = (owner as usize).checked_sub(owner_of(0) as usize)
            && let Some(worker) = self.workers().get(index)
        {
            worker.signal(number);
        }
    }

    /// A fiber has ended and its result is taken: the number is free. By whoever has the claim.
    pub(crate) fn release(&'static self, number: u32) {
        if self.incarnation(number).free() == Freed::Retired {
            self.stacks.retire();
            return;
        }
        let class = self.stacks.class_of(number);
        match worker::here() {
            Some(here) if std::ptr::eq(here.runtime, self) => here.keep_stack(class, number),
            _ => self.stacks.give_back(class, &mut std::iter::once(number)),
        }
    }

    pub(crate) fn set_idle(&self, index: usize, idle: bool) {
        if idle {
            self.idle.fetch_or(1 << index, Ordering::Relaxed);
        } else {
            self.idle.fetch_and(!(1 << index), Ordering::Relaxed);
        }
    }

    /// Takes a worker that has nothing to do, other than `mine`.
    pub(crate) fn claim_idle(&self, mine: usize) -> Option<&Worker> {
        let idle = self.idle.load(Ordering::Relaxed) & !(1 << mine);
        if idle == 0 {
            return None;
        }
        let bit = idle & idle.wrapping_neg();
        let before = self.idle.fetch_and(!bit, Ordering::Relaxed);
        (before & bit != 0).then(|| &self.workers()[bit.trailing_zeros() as usize])
    }

    /// How long an idle worker looks before it sleeps: not at all where workers have to share cores.
    pub(crate) fn spins(&self, usual: u32) -> u32 {
        if self.config.workers <= self.cores.len() {
            usual
        } else {
            0
        }
    }

    /// Starts the thread of a worker, if it does not run yet.
    pub(crate) fn start(&'static self, index: usize) -> io::Result<()> {
        let mut threads = self.threads();
        if threads.played & 1 << index != 0 {
            return Ok(());
        }
        let started = thread::Builder::new()
            .name(format!("weft worker {index}"))
            .spawn(move || {
                self.pin(index);
                self.workers()[index].work();
            })?;
        threads.played |= 1 << index;
        threads.own.push(started);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin(&self, index: usize) {
        if let Some(first) = self.config.pin
            && self.config.workers <= self.cores.len()
        {
            // Running elsewhere is slower and not wrong.
            _ = cores::pin(&[self.cores[(first + index) % self.cores.len()]]);
        }
    }

    /// A worker for a fiber that does not care: one that has nothing to do, or the next in turn.
    pub(crate) fn next_worker(&self) -> usize {
        let next = self.turn.fetch_add(1, Ordering::Relaxed);
        next % self.config.workers
    }

    pub(crate) fn count_outside(&self) {
        self.outside.fetch_add(1, Ordering::SeqCst);
    }

    /// How many fibers are live. Exact if nothing changes meanwhile; 0 only if there was a moment without.
    fn live(&self) -> u64 {
        // What has ended is read first: who reads as many starts as ends after that has seen a moment when
        // all that had been started had ended.
        let ended: u64 = self
            .workers()
            .iter()
            .map(|worker| worker.finished.load(Ordering::Acquire))
            .sum();
        let started: u64 = self
            .workers()
            .iter()
            .map(|worker| worker.started.load(Ordering::Acquire))
            .sum();
        (started + self.outside.load(Ordering::Acquire)).saturating_sub(ended)
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.phase.load(Ordering::Acquire) == STOPPED
    }

    /// Whether the end was asked for; for tests.
    #[cfg(test)]
    pub(crate) fn is_closing(&self) -> bool {
        self.phase.load(Ordering::Acquire) != RUNNING
    }

    /// Whether an idle worker has something to do about the end.
    pub(crate) fn may_stop(&self) -> bool {
        match self.phase.load(Ordering::Acquire) {
            RUNNING => false,
            CLOSING => self.live() == 0,
            _ => true,
        }
    }

    /// The last one to become idle ends it for all.
    pub(crate) fn stop_if_over(&self) {
        if self.phase.load(Ordering::Acquire) == CLOSING
            && self.live() == 0
            && self
                .phase
                .compare_exchange(CLOSING, STOPPED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            self.ring_all();
        }
    }

    fn ring_all(&self) {
        for worker in self.workers() {
            worker.ring();
        }
    }

    /// Ends when the last fiber has: to be followed by joining the threads, or by returning from `work`.
    fn close(&self) {
        self.phase.store(CLOSING, Ordering::SeqCst);
        self.ring_all();
    }

    fn join_threads(&self) {
        loop {
            // The last fibers may start more.
            let thread = self.threads().own.pop();
            let Some(thread) = thread else {
                break;
            };
            // A worker's thread does not panic: its fibers catch their own.
            _ = thread.join();
        }
        self.phase.store(STOPPED, Ordering::SeqCst);
        for worker in self.workers() {
            worker.give_stacks_back();
        }
        self.stacks.close();
    }

    /// A new stack was taken: are there many now?
    pub(crate) fn note(&self, number: u32) {
        if number as usize >= MANY && !self.many.load(Ordering::Relaxed) {
            self.many.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.config)
    }
}

/// Workers and the fibers that they run.
///
/// Dropping it waits until all fibers have ended, and gives the memory of their stacks back as soon as no
/// [`JoinHandle`] is left. A fiber of its own that drops it does not wait: the runtime ends with its last
/// fiber, and keeps that memory.
#[derive(Debug)]
pub struct Runtime {
    inner: &'static Inner,
}

impl Runtime {
    /// A runtime without fibers; threads are started as they are needed.
    ///
    /// # Errors
    /// If there is no memory for the tables.
    pub fn new(config: Config) -> io::Result<Self> {
        Ok(Self {
            inner: Inner::new(config)?,
        })
    }

    /// Runs `first` as a fiber on the calling thread, which is worker 0 until all fibers have ended.
    /// Nothing is pinned. For a thread that something else belongs to, as a rank of the simulation.
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// # Panics
    /// If `first` does, or the caller is a fiber itself.
    pub fn run<T: Send>(config: Config, first: impl FnOnce() -> T + Send) -> io::Result<T> {
        assert!(
            worker::here().is_none(),
            "Runtime::run within a fiber: spawn one instead, or make the runtime with Runtime::new"
        );
        let inner = Inner::new(Config {
            pin: None,
            ..config
        })?;
        // Worker 0 needs no thread of its own.
        inner.threads().played = 1;
        let mut result = None;
        let place = Borrowed(&raw mut result);
        let body = move || {
            let place = place;
            // SAFETY: `result` lives until all fibers have ended, and nobody else touches it.
            unsafe { *place.0 = Some(first()) };
        };
        let body: Box<dyn FnOnce() + Send + '_> = Box::new(body);
        // SAFETY: what it borrows lives until this function returns or unwinds, which is after the fiber
        // has ended: `work` returns only then.
        let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
        let fiber = Builder::new().spawn_at(inner, 0, body)?;
        inner.close();
        inner.workers()[0].work();
        inner.join_threads();
        match fiber.join() {
            Ok(()) => Ok(result.expect("the first fiber has ended")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Starts a fiber, bound to a worker in turn.
    ///
    /// # Panics
    /// If there is no memory for a stack, or no thread for a worker: see [`Builder::spawn_on`].
    pub fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        Builder::new()
            .spawn_on(self, body)
            .expect("a stack and a worker for another fiber")
    }

    /// How many workers there may be.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.config.workers
    }

    /// How many fibers are live; a moment's view.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.inner.live()
    }

    /// The fiber of this [number](Fiber::number) and [incarnation](Fiber::incarnation), if it lives or its
    /// result waits to be taken. Any two numbers may be asked for.
    #[must_use]
    pub fn find(&self, number: u32, incarnation: u32) -> Option<Fiber> {
        let used = (number as usize) < self.inner.config.fibers
            && self.inner.incarnation(number).is(incarnation);
        used.then_some(Fiber {
            runtime: self.inner,
            number,
            incarnation,
        })
    }

    pub(crate) fn inner(&self) -> &'static Inner {
        self.inner
    }
}

/// A pointer that is sent to the fiber whose end is awaited.
struct Borrowed<T>(*mut T);
// SAFETY: used by one fiber, whose end happens before its maker looks again.
unsafe impl<T: Send> Send for Borrowed<T> {}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.inner.close();
        if worker::here().is_some_and(|here| std::ptr::eq(here.runtime, self.inner)) {
            return;
        }
        self.inner.join_threads();
    }
}
