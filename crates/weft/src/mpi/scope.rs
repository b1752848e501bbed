//! Scopes: requests that borrow their buffers.
//!
//! As in [`std::thread::scope`], operations that are begun within end before the scope does, so they may borrow what
//! existed before it. It does not matter whether requests are waited for, dropped or leaked.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_mpi::{RequestId, Result, SendMode};

use super::communicator::PointToPoint;
use super::envelope::{Destination, Source, Tag, check_tag};
use super::memory::{Arriving, View};
use super::request::Request;
use super::state::Handle;
use super::{Buffer, BufferMut, Status};

/// A scope in which requests borrow their buffers. Made by [`scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    begun: Begun<'scope>,
    // Invariant, as for threads.
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// Requests of a scope, each at its index until it has ended. Emptied by [`finish`](Self::finish), which the compiler
/// must not take for the end of `'scope`: nothing is dropped by itself.
#[derive(Default, Debug)]
struct Begun<'scope> {
    requests: Mutex<ManuallyDrop<Vec<Option<Entry<'scope>>>>>,
}

struct Entry<'scope> {
    handle: Arc<Handle>,
    id: RequestId,
    receives: bool,
    /// What the operation needs, if its request was dropped.
    kept: Option<Box<dyn Send + 'scope>>,
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(out)
    }
}

/// A request's place in its scope.
pub(super) struct Ticket<'scope> {
    begun: &'scope Begun<'scope>,
    index: usize,
}

impl<'scope> Ticket<'scope> {
    /// The request has ended: nothing is left to wait for.
    pub(super) fn ended(self) {
        let ended = self.begun.requests()[self.index].take();
        drop(ended);
    }

    /// The request was dropped: the scope waits for its end, which needs `kept`.
    pub(super) fn leave(self, kept: Box<dyn Send + 'scope>) {
        if let Some(entry) = &mut self.begun.requests()[self.index] {
            entry.kept = Some(kept);
        }
    }
}

impl<'scope> Begun<'scope> {
    fn requests(&self) -> MutexGuard<'_, ManuallyDrop<Vec<Option<Entry<'scope>>>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'scope self, handle: &Arc<Handle>, id: RequestId, receives: bool) -> Ticket<'scope> {
        let mut requests = self.requests();
        requests.push(Some(Entry {
            handle: Arc::clone(handle),
            id,
            receives,
            kept: None,
        }));
        Ticket {
            begun: self,
            index: requests.len() - 1,
        }
    }

    fn take(&self) -> Vec<Entry<'scope>> {
        let all = std::mem::take(&mut **self.requests());
        all.into_iter().flatten().collect()
    }

    /// Waits for all that are left. If the scope has failed, receives are cancelled first: what they wait for may
    /// never come.
    fn finish(&self, failed: bool) -> Result<()> {
        let left = self.take();
        if failed {
            for entry in left.iter().filter(|entry| entry.receives) {
                _ = entry.handle.comm.process().cancel(entry.id);
            }
        }
        let mut outcome = Ok(());
        for entry in left {
            let ended = entry.handle.comm.process().wait(entry.id).map(drop);
            outcome = outcome.and(ended);
            drop(entry.kept);
        }
        outcome
    }
}

/// Ends the process if a panic would end borrows that operations still use.
struct Unwinding<'a, 'scope>(&'a Begun<'scope>);

impl Drop for Unwinding<'_, '_> {
    fn drop(&mut self) {
        for entry in self.0.take() {
            let process = entry.handle.comm.process();
            if entry.receives {
                _ = process.cancel(entry.id);
            }
            if matches!(process.test(entry.id), Ok(None)) {
                eprintln!(
                    "weft: rank {} panicked in a scope while a message was under way whose buffer is borrowed; \
                     the process ends, because others may still use that memory",
                    entry.handle.comm.rank()
                );
                std::process::abort();
            }
        }
    }
}

/// Runs `work` with a scope, in which requests may borrow. When `work` has returned, waits for all operations begun in it
/// and not waited for; if `work` failed, receives are cancelled.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     let other = 1 - world.rank();
///     let halo = [world.rank(); 4];
///     let mut came = [9; 4];
///     mpi::scope(|scope| {
///         scope.isend(&world, &halo, other, 0)?;
///         let (came, status) = scope.ireceive(&world, &mut came, other, 0)?.wait()?;
///         assert_eq!((came[3], status.source()), (other, Some(other)));
///         Ok(())
///     })?;
///     assert_eq!(came, [other; 4]);
///     Ok(())
/// });
/// ```
///
/// A buffer that is received into cannot be accessed meanwhile:
///
/// ```compile_fail
/// # use weft::mpi;
/// # mpi::test(2, |world| {
/// let mut came = [0; 4];
/// mpi::scope(|scope| {
///     let request = scope.ireceive(&world, &mut came, 0, 0)?;
///     came[0] = 1; // borrowed
///     request.wait().map(drop)
/// })
/// # });
/// ```
///
/// # Errors
/// The error of `work`; otherwise the error of the first failed request that `work` did not wait for.
///
/// # Panics
/// If `work` does: its receives are cancelled. If an operation is then under way that cannot be cancelled, such as a
/// large send that is not received yet, the process says so and aborts, because other ranks may use the memory that the
/// panic would free.
pub fn scope<'env, R>(
    work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
) -> Result<R> {
    let scope = Scope {
        begun: Begun::default(),
        _scope: PhantomData,
        _env: PhantomData,
    };
    let unwinding = Unwinding(&scope.begun);
    let outcome = work(&scope);
    std::mem::forget(unwinding);
    let ended = scope.begun.finish(outcome.is_err());
    outcome.and_then(|outcome| ended.map(|()| outcome))
}

impl<'scope> Scope<'scope, '_> {
    /// Begins a send (`MPI_Isend`); its result is the buffer.
    ///
    /// # Errors
    /// As for [`PointToPoint::send`].
    pub fn isend<B: Buffer + Sync + ?Sized>(
        &'scope self,
        comm: &PointToPoint,
        buffer: &'scope B,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<Request<'scope, &'scope B>> {
        self.begin_send(comm, SendMode::Standard, buffer, to.into(), tag)
    }

    /// Like [`isend`](Self::isend), but ends only when the receive was matched (`MPI_Issend`).
    ///
    /// # Errors
    /// As for [`PointToPoint::send`].
    pub fn issend<B: Buffer + Sync + ?Sized>(
        &'scope self,
        comm: &PointToPoint,
        buffer: &'scope B,
        to: impl Into<Destination>,
        tag: i32,
    ) -> Result<Request<'scope, &'scope B>> {
        self.begin_send(comm, SendMode::Synchronous, buffer, to.into(), tag)
    }

    fn begin_send<B: Buffer + Sync + ?Sized>(
        &'scope self,
        comm: &PointToPoint,
        mode: SendMode,
        buffer: &'scope B,
        to: Destination,
        tag: i32,
    ) -> Result<Request<'scope, &'scope B>> {
        let handle = comm.handle();
        let elements = View::reading(buffer.elements()).buffer();
        let id = handle.comm.isend(mode, elements, to.0, check_tag(tag)?)?;
        let ticket = self.begun.add(handle, id, false);
        Ok(Request::borrowing(handle, id, ticket, move |_| Ok(buffer)))
    }

    /// Begins a receive (`MPI_Irecv`); its result is the elements, all of the buffer, and the status.
    ///
    /// # Errors
    /// As for [`PointToPoint::receive_into`].
    #[allow(clippy::type_complexity)]
    pub fn ireceive<B: BufferMut + ?Sized>(
        &'scope self,
        comm: &PointToPoint,
        buffer: &'scope mut B,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<'scope, (&'scope mut [B::Element], Status)>> {
        let handle = comm.handle();
        let tag = tag.into().checked()?;
        let arriving = Arriving::into(buffer.elements_mut())?;
        let elements = arriving.view().buffer();
        let id = handle.comm.irecv(elements, from.into().0, tag)?;
        let ticket = self.begun.add(handle, id, true);
        Ok(Request::borrowing(handle, id, ticket, move |status| {
            let count = status.elements::<B::Element>()?;
            Ok((arriving.finish(count)?, status))
        }))
    }
}
