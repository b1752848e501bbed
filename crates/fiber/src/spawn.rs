//! Starting fibers, and what comes back from them.

use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use weft_atomic::Ordering;

use crate::completion::{Completion, Detached};
use crate::fiber::{Control, Fiber, owner_of};
use crate::runtime::{Inner, Runtime};
use crate::stack::Class;
use crate::switch::{Context, prepare};
use crate::waiter::{Waiter, park};
use crate::worker::{self, Worker};

/// The result of a fiber: what its closure returned, or what it panicked with.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send>>;

/// What stands below the control block: the closure first, its result after.
union Payload<F, T> {
    body: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T>>,
}

/// Bytes of a payload. Larger closures and results are kept on the heap, so that small stacks are not filled
/// by them.
const LARGEST_PAYLOAD: usize = 1024;

fn payload<F, T>(control: *mut Control) -> *mut Payload<F, T> {
    let size = size_of::<Payload<F, T>>();
    let align = align_of::<Payload<F, T>>().max(16);
    control
        .cast::<u8>()
        .map_addr(|address| (address - size) & !(align - 1))
        .cast()
}

unsafe fn run<F: FnOnce() -> T, T>(control: *mut Control) {
    let place = payload::<F, T>(control);
    // SAFETY: the closure was written there when the fiber was made, and this is called once.
    let body = unsafe { ManuallyDrop::take(&mut (*place).body) };
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    // SAFETY: the place is the fiber's own until its end is published, and then whoever joins finds the
    // result there. Detached, nobody else touches either.
    unsafe {
        (*place).result = ManuallyDrop::new(result);
        if (*control).completion.is_unwanted() {
            drop_result(control);
        }
    }
}

unsafe fn discard<F: FnOnce() -> T, T>(control: *mut Control) {
    // SAFETY: the result is there; called once, by whoever cleans up.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
        ManuallyDrop::drop(&mut (*payload::<F, T>(control)).result);
    }));
    if let Err(panic) = dropped {
        // The hook has told of it. To drop what it was thrown with may panic as well, and so on.
        let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
        if let Err(panic) = dropped {
            std::mem::forget(panic);
        }
    }
}

/// Drops the result of a fiber that was detached, as a part of that fiber.
unsafe fn drop_result(control: *mut Control) {
    // SAFETY: detached, with the result there: nobody else touches it, and this is called once.
    unsafe {
        ((*control).discard)(control);
        (*control).completion.result_dropped();
    }
}

/// A context in which a fiber that has ended drops its result.
///
/// # Safety
/// It must be detached and off its stack, and its result must be there.
pub(crate) unsafe fn to_drop_result(control: *mut Control) -> Context {
    // Below the payload, whatever its type is.
    let top = control
        .cast::<u8>()
        .map_addr(|address| (address - LARGEST_PAYLOAD - 64) & !15);
    // SAFETY: nobody else touches the block and the stack of a fiber that is detached and off its stack;
    // the smallest stack has more than these bytes.
    unsafe {
        (*control).run = drop_result;
        prepare(top, worker::begin, control.cast())
    }
}

/// How a fiber is started.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    stack: Option<usize>,
    worker: Option<usize>,
    migrating: bool,
    unclaimed: bool,
}

impl Builder {
    /// With the defaults of the runtime: its size of stacks, bound to a worker.
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

    /// Starts on this worker (modulo their number). Without, a fiber starts on the worker of the fiber
    /// that starts it; one that is started from outside goes to the workers in turn.
    #[must_use]
    pub fn worker(mut self, index: usize) -> Self {
        self.worker = Some(index);
        self
    }

    /// Lets the fiber go on on another worker after a suspension.
    ///
    /// # Safety
    /// What the fiber holds across a suspension must be fit to be sent to another thread, though the
    /// compiler does not check it: no `Rc`, no guard of a lock, no borrow of a thread-local. It must not
    /// rely on a thread-local having the same value after.
    #[must_use]
    pub unsafe fn migrating(mut self) -> Self {
        self.migrating = true;
        self
    }

    /// Starts a fiber from a fiber of the same runtime, or from anywhere by [`Builder::spawn_on`].
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

    /// As [`spawn_on`](Self::spawn_on), but nobody has the handle: the answer is the name alone, from which
    /// [`JoinHandle::claim`] makes it, once. The fiber may do so itself.
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
        Ok(ManuallyDrop::new(unclaimed.spawn_on(runtime, body)?).fiber)
    }

    #[inline]
    fn spawn_from<T: Send + 'static>(
        &self,
        inner: &'static Inner,
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
    fn where_to(&self, inner: &'static Inner, here: &Worker) -> usize {
        if let Some(idle) = inner.claim_idle(here.index) {
            return idle.index;
        }
        let unused = |worker: &&Worker| {
            worker.index != here.index && worker.started.load(Ordering::Relaxed) == 0
        };
        let unused = || inner.workers().iter().find(unused);
        if here.ready.has_any()
            && let Some(unused) = unused()
        {
            return unused.index;
        }
        here.index
    }

    pub(crate) fn spawn_at<F, T>(
        &self,
        inner: &'static Inner,
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
                .place(inner, here, index, body, take_boxed::<T>)
                .map(JoinHandle::new);
        }
        self.place(inner, here, index, body, take::<F, T>)
            .map(JoinHandle::new)
    }

    #[inline]
    fn place<F, T>(
        &self,
        inner: &'static Inner,
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
        inner.note(number);
        let control = inner.stacks.control(number);
        // SAFETY: the number is free and ours, so its stack is; the block lies at its top and the payload
        // and the first context below it, within a stack of at least 16 KiB.
        unsafe {
            control.write(Control {
                completion: Completion::new(),
                run: run::<F, T>,
                take,
                discard: discard::<F, T>,
            });
            let place = payload::<F, T>(control);
            (*place).body = ManuallyDrop::new(body);
            let context = prepare(place.cast(), worker::begin, control.cast());
            inner.context(number).store(context, Ordering::Relaxed);
        }
        let word = inner.migrating(number as usize / 64);
        let bit = 1 << (number % 64);
        if (word.load(Ordering::Relaxed) & bit != 0) != self.migrating {
            word.fetch_xor(bit, Ordering::Relaxed);
        }
        match here {
            Some(here) => here
                .started
                .store(here.started.load(Ordering::Relaxed) + 1, Ordering::Release),
            None => inner.count_outside(),
        }
        let incarnation = inner.incarnation(number).start(!self.unclaimed);
        let fiber = Fiber {
            runtime: inner,
            number,
            incarnation,
        };
        // Release: SYNC worker.give.
        inner
            .owner(number)
            .store(owner_of(index), Ordering::Release);
        match local {
            Some(local) => local.ready.set(number),
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

unsafe fn take<F: FnOnce() -> T, T>(control: *mut Control, into: *mut u8) {
    // SAFETY: the fiber has ended, so the result is there; taken once, by who joins, who has room for it.
    unsafe {
        let result = ManuallyDrop::take(&mut (*payload::<F, T>(control)).result);
        into.cast::<Result<T>>().write(result);
    }
}

unsafe fn take_boxed<T>(control: *mut Control, into: *mut u8) {
    type Body<T> = Box<dyn FnOnce() -> Box<T> + Send>;
    let mut boxed = MaybeUninit::<Result<Box<T>>>::uninit();
    // SAFETY: as for `take`; what is taken was spawned with these types.
    unsafe {
        take::<Body<T>, Box<T>>(control, boxed.as_mut_ptr().cast());
        let result = boxed.assume_init().map(|value| *value);
        into.cast::<Result<T>>().write(result);
    }
}

/// The right to the result of a fiber. It may outlive the runtime, which keeps the result until then.
///
/// Dropping it lets the fiber go on by itself. The result is then dropped by the fiber, or, if it has ended, by
/// whoever drops the handle; a panic of that ends there.
pub struct JoinHandle<T> {
    fiber: Fiber,
    result: PhantomData<T>,
}

// SAFETY: the handle is the right to one result, which may be sent if the result may.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle only names the fiber.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    fn new(fiber: Fiber) -> Self {
        Self {
            fiber,
            result: PhantomData,
        }
    }

    /// The fiber.
    #[must_use]
    pub fn fiber(&self) -> Fiber {
        self.fiber
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // SAFETY: the stack is not given back while the handle lives (module page of `stack`).
        unsafe { (*self.control()).completion.is_done() }
    }

    /// Suspends the caller (a fiber, or a thread) until the fiber has ended.
    ///
    /// # Errors
    /// What it panicked with.
    #[inline]
    pub fn join(self) -> Result<T> {
        let this = ManuallyDrop::new(self);
        let control = this.control();
        // SAFETY: the stack, with this block, is not given back before `release` below.
        let completion = unsafe { &(*control).completion };
        if !completion.is_done() && completion.join(Waiter::current()) {
            while !completion.is_done() {
                park();
            }
        }
        // SAFETY: it has ended, and this is called once: the handle is consumed.
        let result = unsafe {
            let mut result = MaybeUninit::<Result<T>>::uninit();
            ((*control).take)(control, result.as_mut_ptr().cast());
            result.assume_init()
        };
        this.fiber.runtime.release(this.fiber.number);
        result
    }

    /// The name alone, from which [`claim`](Self::claim) makes the handle again.
    #[must_use]
    pub fn into_fiber(self) -> Fiber {
        let fiber = ManuallyDrop::new(self).fiber;
        fiber.incarnation_word().open();
        fiber
    }

    /// The handle of a fiber, if nobody has it, and it was not joined or detached: of all who claim a fiber
    /// one gets the handle.
    ///
    /// # Safety
    /// The result of the fiber must be a `T`.
    #[must_use]
    pub unsafe fn claim(fiber: Fiber) -> Option<Self> {
        fiber
            .incarnation_word()
            .claim(fiber.incarnation)
            .then(|| Self::new(fiber))
    }

    fn control(&self) -> *mut Control {
        self.fiber.runtime.stacks.control(self.fiber.number)
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let control = self.control();
        // SAFETY: the stack is not given back while the handle lives, also when the runtime has ended; if the
        // fiber has ended already, cleaning up is ours.
        unsafe {
            if (*control).completion.detach() == Detached::Done {
                ((*control).discard)(control);
                self.fiber.runtime.release(self.fiber.number);
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "JoinHandle({:?})", self.fiber)
    }
}
