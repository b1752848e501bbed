//! Starting fibers: where, on which stack, and by which closure.

use std::io;
use std::mem::ManuallyDrop;

use weft_atomic::Ordering;

use crate::control::{self, Control, LARGEST_PAYLOAD, Result};
use crate::fiber::Fiber;
use crate::fiber_table::owner_of;
use crate::join::JoinHandle;
use crate::runtime::Runtime;
use crate::scheduler::Scheduler;
use crate::stack::Class;
use crate::worker::{self, Worker};

/// Settings for starting a fiber.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    stack: Option<usize>,
    worker: Option<usize>,
    migrating: bool,
    unclaimed: bool,
}

impl Builder {
    /// The defaults of the runtime: its size of stacks, bound to a worker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the stack, guard included, rounded up to a power of two from 16 KiB to 64 MiB.
    #[must_use]
    pub fn stack(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// Starts on this worker (modulo their number). By default a fiber starts on the worker of the fiber that starts it;
    /// one that is started from outside goes to the workers in turn.
    #[must_use]
    pub fn worker(mut self, index: usize) -> Self {
        self.worker = Some(index);
        self
    }

    /// Lets the fiber continue on another worker after a suspension.
    ///
    /// # Safety
    /// Everything the fiber holds across a suspension must be fit to be sent to another thread, though the compiler does
    /// not check it: no `Rc`, no guard of a lock, no borrow of a thread-local. It must not rely on a thread-local having
    /// the same value afterwards.
    #[must_use]
    pub unsafe fn migrating(mut self) -> Self {
        self.migrating = true;
        self
    }

    /// Starts a fiber from a fiber of the same runtime; [`Builder::spawn_on`] does so from anywhere.
    ///
    /// # Errors
    /// If the caller is no fiber; if all fibers of the runtime are in use; if there is no memory for a
    /// stack or no thread for a worker.
    pub fn spawn<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(here) = worker::here() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "spawn from a thread that is no fiber: name the runtime with Builder::spawn_on or Runtime::spawn",
            ));
        };
        self.spawn_from(here.runtime, Some(here), body)
    }

    /// Starts a fiber of this runtime, from anywhere.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_on<T: Send + 'static>(
        &self,
        runtime: &Runtime,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let inner = runtime.inner();
        let here = worker::here().filter(|here| std::ptr::eq(here.runtime, inner));
        self.spawn_from(inner, here, body)
    }

    /// Like [`spawn_on`](Self::spawn_on), but returns only the name, from which [`JoinHandle::claim`] makes the handle,
    /// once. The fiber may do so itself.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_unclaimed_on<T: Send + 'static>(
        &self,
        runtime: &Runtime,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Fiber> {
        let unclaimed = Self {
            unclaimed: true,
            ..self.clone()
        };
        let handle = ManuallyDrop::new(unclaimed.spawn_on(runtime, body)?);
        Ok(handle.fiber())
    }

    #[inline]
    fn spawn_from<T: Send + 'static>(
        &self,
        inner: &'static Scheduler,
        here: Option<&'static Worker>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let place = match (self.worker, here) {
            (Some(index), _) => index % inner.config.workers,
            (None, Some(here)) if self.migrating => self.where_to(inner, here),
            (None, Some(here)) => here.index,
            (None, None) => inner.next_worker(),
        };
        self.spawn_at(inner, place, body)
    }

    /// A worker that has nothing to do, one that was never started, or this one.
    fn where_to(&self, inner: &'static Scheduler, here: &Worker) -> usize {
        if let Some(idle) = inner.claim_idle(here.index) {
            return idle.index;
        }
        let unused = |worker: &&Worker| worker.index != here.index && worker.is_unused();
        let unused = || inner.workers().iter().find(unused);
        if here.has_runnable()
            && let Some(unused) = unused()
        {
            return unused.index;
        }
        here.index
    }

    pub(crate) fn spawn_at<F, T>(
        &self,
        inner: &'static Scheduler,
        index: usize,
        body: F,
    ) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let here = worker::here().filter(|here| std::ptr::eq(here.runtime, inner));
        if const {
            size_of::<F>() > LARGEST_PAYLOAD
                || size_of::<Result<T>>() > LARGEST_PAYLOAD
                || align_of::<F>() > 64
                || align_of::<T>() > 64
        } {
            // Boxed once; the boxes are small, so this ends.
            let body: Box<dyn FnOnce() -> Box<T> + Send> = Box::new(move || Box::new(body()));
            return self
                .place(inner, here, index, body, control::take_boxed::<T>)
                .map(JoinHandle::new);
        }
        self.place(inner, here, index, body, control::take::<F, T>)
            .map(JoinHandle::new)
    }

    #[inline]
    fn place<F, T>(
        &self,
        inner: &'static Scheduler,
        here: Option<&'static Worker>,
        index: usize,
        body: F,
        take: unsafe fn(*mut Control, *mut u8),
    ) -> io::Result<Fiber>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let bytes = self.stack.unwrap_or(inner.config.stack);
        let class = Class::for_bytes(bytes).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a stack of {bytes} bytes was asked for; 67108864 bytes are the most"),
            )
        })?;
        let worker = &inner.workers()[index];
        let local = here.filter(|here| here.index == index);
        if local.is_none() {
            inner.start(index)?;
        }
        let number = match here {
            Some(here) => here.take_stack(class)?,
            None => {
                let mut taken = Vec::new();
                inner.stacks.take(class, &mut taken)?;
                let number = taken.pop();
                inner.stacks.give_back(class, &mut taken.drain(..));
                number.ok_or_else(|| io::Error::other("the depot of stacks gave none"))?
            }
        };
        inner.stacks.note_use(number);
        // SAFETY: the number is free and ours, so its stack is, which is of a class; `take` is of these types, as the
        // caller sees to; `worker::begin` runs the block.
        let context = unsafe { control::install(inner.control(number), body, take, worker::begin) };
        inner
            .fibers
            .context(number)
            .store(context, Ordering::Relaxed);
        inner.fibers.set_migrating(number, self.migrating);
        match here {
            Some(here) => here.count_start(),
            None => inner.count_outside(),
        }
        let incarnation = inner.fibers.incarnation(number).start(!self.unclaimed);
        let fiber = Fiber::of_name(inner, number, incarnation);
        // Release: SYNC worker.give.
        inner
            .fibers
            .owner(number)
            .store(owner_of(index), Ordering::Release);
        match local {
            Some(local) => local.make_runnable(number),
            None => worker.signal(number),
        }
        Ok(fiber)
    }
}

/// Starts a fiber on the worker of the calling fiber, bound to it.
///
/// # Panics
/// If the caller is no fiber, or there is no memory for a stack: see [`Builder::spawn`].
#[inline]
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new()
        .spawn(body)
        .expect("a fiber that starts another, and a stack for it")
}
