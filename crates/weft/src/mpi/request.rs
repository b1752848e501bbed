//! Requests: operations under way (MPI 5.0, section 3.7).
//!
//! A request owns its buffer and gives it back at its end, or borrows it within a [scope](super::scope()). Either way the
//! buffer is not accessible meanwhile, whatever is dropped or leaked.
//!
//! | what a program does with a request | effect |
//! |---|---|
//! | [`wait`](Request::wait), `.await` | gives the result, and the buffer |
//! | [`test`](Request::test) | the same, or the request again |
//! | drops it | a receive is cancelled; any other operation goes on by itself, and its buffer is kept until its end |
//! | drops it in a scope | the scope waits for its end, or cancels it if it fails |
//! | leaks it (`mem::forget`) | the operation goes on, the buffer is never given back |

use std::sync::Arc;

use weft_mpi::{Error, ErrorClass, RequestId, Result};

use super::Status;
use super::scope::Ticket;
use super::state::Handle;

/// What makes an outcome of a status; owns what the operation needs until its end.
pub(super) type Finish<'scope, R> = Box<dyn FnOnce(Status) -> Result<R> + Send + 'scope>;

/// An operation under way whose result is an `R`.
///
/// `'scope` is `'static` if it owns its buffer.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(2, |world| {
///     let other = 1 - world.rank();
///     let came = world.ireceive(vec![0; 3], other, 0)?;
///     let sent = world.isend(vec![world.rank(); 3], other, 0)?;
///     let (came, status) = came.wait()?;
///     assert_eq!((came, status.source()), (vec![other; 3], Some(other)));
///     let _again: Vec<usize> = sent.wait()?;
///     Ok(())
/// });
/// ```
///
/// A borrowed buffer needs a [scope](super::scope()); it is not accepted here:
///
/// ```compile_fail
/// # use weft::mpi;
/// mpi::test(2, |world| {
///     let mut buffer = [0; 3];
///     world.ireceive(&mut buffer, 0, 0)?;
///     Ok(())
/// });
/// ```
#[must_use = "a receive that is dropped is cancelled; wait for its end"]
pub struct Request<'scope, R: 'scope> {
    /// Until it has ended or is left.
    active: Option<Active<'scope, R>>,
}

struct Active<'scope, R: 'scope> {
    handle: Arc<Handle>,
    id: RequestId,
    /// Whether dropping it cancels: receives alone.
    cancels: bool,
    finish: Finish<'scope, R>,
    owner: Owner<'scope>,
}

/// Who keeps what an operation needs, when its request is dropped.
enum Owner<'scope> {
    /// The rank: nothing is borrowed.
    Rank(fn(&Arc<Handle>, RequestId, Box<dyn Send + 'scope>)),
    /// A scope.
    Scope(Ticket<'scope>),
}

/// The answer of [`Request::test`].
#[derive(Debug)]
pub enum Tested<'scope, R: 'scope> {
    /// It has ended.
    Ended(R),
    /// It is still under way.
    Pending(Request<'scope, R>),
}

impl<'scope, R: 'scope> std::fmt::Debug for Request<'scope, R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.active {
            Some(active) => write!(out, "Request({:?})", active.id),
            None => out.write_str("Request"),
        }
    }
}

impl<R: 'static> Request<'static, R> {
    /// A request whose memory belongs to `finish`.
    pub(super) fn owning(
        handle: &Arc<Handle>,
        id: RequestId,
        cancels: bool,
        finish: impl FnOnce(Status) -> Result<R> + Send + 'static,
    ) -> Self {
        let leave: fn(&Arc<Handle>, RequestId, Box<dyn Send>) =
            |handle, id, kept| handle.state.adopt(Arc::clone(handle), id, kept);
        Self {
            active: Some(Active {
                handle: Arc::clone(handle),
                id,
                cancels,
                finish: Box::new(finish),
                owner: Owner::Rank(leave),
            }),
        }
    }
}

impl<'scope, R: 'scope> Request<'scope, R> {
    /// A request of a scope, which waits for it at the latest.
    pub(super) fn borrowing(
        handle: &Arc<Handle>,
        id: RequestId,
        ticket: Ticket<'scope>,
        finish: impl FnOnce(Status) -> Result<R> + Send + 'scope,
    ) -> Self {
        Self {
            active: Some(Active {
                handle: Arc::clone(handle),
                id,
                cancels: false,
                finish: Box::new(finish),
                owner: Owner::Scope(ticket),
            }),
        }
    }

    /// Its name in the engine, while it is under way.
    pub(super) fn id(&self) -> Option<RequestId> {
        self.active.as_ref().map(|active| active.id)
    }

    pub(super) fn handle(&self) -> Option<&Arc<Handle>> {
        self.active.as_ref().map(|active| &active.handle)
    }

    /// The operation has ended with this status.
    pub(super) fn ended(mut self, outcome: Result<weft_mpi::Status>) -> Result<R> {
        let active = self.active.take().expect("it has not ended before");
        if let Owner::Scope(ticket) = active.owner {
            ticket.ended();
        }
        (active.finish)(Status::of(outcome?))
    }

    /// Waits for its end (`MPI_Wait`).
    ///
    /// # Errors
    /// The error of the operation; its buffer is then dropped.
    pub fn wait(self) -> Result<R> {
        let active = self.active.as_ref().expect("it has not ended before");
        let outcome = active.handle.comm.process().wait(active.id);
        self.ended(outcome)
    }

    /// Its result if it has ended, else the request again (`MPI_Test`).
    ///
    /// ```
    /// use weft::mpi::{self, Tested};
    ///
    /// mpi::test(2, |world| {
    ///     let mut request = world.ibarrier()?;
    ///     loop {
    ///         match request.test()? {
    ///             Tested::Ended(()) => return Ok(()),
    ///             Tested::Pending(again) => request = again, // something else is done meanwhile
    ///         }
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(self) -> Result<Tested<'scope, R>> {
        let active = self.active.as_ref().expect("it has not ended before");
        match active.handle.comm.process().test(active.id) {
            Ok(None) => Ok(Tested::Pending(self)),
            Ok(Some(status)) => self.ended(Ok(status)).map(Tested::Ended),
            Err(error) => self.ended(Err(error)).map(Tested::Ended),
        }
    }

    /// Asks to cancel a receive that no message has matched yet (`MPI_Cancel`); [`wait`](Self::wait) says whether it was
    /// cancelled ([`Status::is_cancelled`]). Any other operation goes on.
    ///
    /// # Errors
    /// None that a request under way could cause.
    pub fn cancel(&self) -> Result<()> {
        let active = self.active.as_ref().expect("it has not ended before");
        active.handle.comm.process().cancel(active.id)
    }
}

impl<'scope, R: 'scope> Drop for Request<'scope, R> {
    fn drop(&mut self) {
        let Some(active) = self.active.take() else {
            return;
        };
        let process = active.handle.comm.process();
        if active.cancels {
            // It may have ended, or be about to.
            _ = process.cancel(active.id);
        }
        match active.owner {
            Owner::Rank(leave) => {
                if matches!(process.test(active.id), Ok(None)) {
                    leave(&active.handle, active.id, Box::new(active.finish));
                }
            }
            Owner::Scope(ticket) => ticket.leave(Box::new(active.finish)),
        }
    }
}

/// Waits for all of them (`MPI_Waitall`); the results are in the same order.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(4, |world| {
///     let others = (0..4).filter(|rank| *rank != world.rank());
///     let came = others.clone().map(|rank| world.ireceive(vec![0], rank, 0));
///     let came = came.collect::<mpi::Result<Vec<_>>>()?;
///     for rank in others.clone() {
///         world.send(&(10 * world.rank()), rank, 0)?;
///     }
///     for ((value, _), rank) in mpi::wait_all(came)?.into_iter().zip(others) {
///         assert_eq!(value, [10 * rank]);
///     }
///     Ok(())
/// });
/// ```
///
/// # Errors
/// The error of the first that failed. All have ended.
pub fn wait_all<'scope, R: 'scope>(
    requests: impl IntoIterator<Item = Request<'scope, R>>,
) -> Result<Vec<R>> {
    let requests: Vec<_> = requests.into_iter().collect();
    let outcomes: Vec<Result<R>> = requests.into_iter().map(Request::wait).collect();
    outcomes.into_iter().collect()
}

/// Waits for one of them (`MPI_Waitany`), and removes it from the list: returns its index and its result. `None` if the
/// list is empty.
///
/// ```
/// use weft::mpi;
///
/// mpi::test(3, |world| {
///     if world.rank() > 0 {
///         return world.send(&world.rank(), 0, 0);
///     }
///     let mut open = vec![world.ireceive(vec![0_usize], 1, 0)?, world.ireceive(vec![0], 2, 0)?];
///     let mut sum = 0;
///     while let Some((_, (value, _))) = mpi::wait_any(&mut open)? {
///         sum += value[0];
///     }
///     assert_eq!(sum, 3);
///     Ok(())
/// });
/// ```
///
/// # Errors
/// The error of the operation that ended.
pub fn wait_any<'scope, R: 'scope>(
    requests: &mut Vec<Request<'scope, R>>,
) -> Result<Option<(usize, R)>> {
    let ids: Vec<_> = requests.iter().map(Request::id).collect();
    let Some(process) = requests
        .iter()
        .find_map(|request| Some(Arc::clone(request.handle()?.comm.process())))
    else {
        return Ok(None);
    };
    if requests
        .iter()
        .filter_map(Request::handle)
        .any(|handle| !Arc::ptr_eq(handle.comm.process(), &process))
    {
        return Err(Error::new(
            ErrorClass::Request,
            "the requests are of several ranks, which are threads here; let each rank wait for its own",
        ));
    }
    let mut ended = process.wait_any(&ids)?;
    let Some((place, status)) = &mut ended else {
        return Ok(None);
    };
    let outcome = match status.error.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(status)),
    };
    let place = *place;
    let outcome = requests.remove(place).ended(outcome)?;
    Ok(Some((place, outcome)))
}
