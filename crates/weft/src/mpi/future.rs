//! Requests as futures, for any executor.
//!
//! A task that awaits a request does not block its thread. Progress is made by threads that wait in a call of this rank,
//! or by a thread that exists while any request is awaited.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use weft_mpi::Result;
use weft_mpi::p2p::future::Completion;

use super::request::Request;

/// A future that awaits a request. Dropping it drops the request.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Completing<'scope, R: 'scope> {
    completion: Option<Completion>,
    request: Option<Request<'scope, R>>,
}

impl<'scope, R: 'scope> std::fmt::Debug for Completing<'scope, R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Completing({:?})", self.request)
    }
}

/// ```
/// use weft::mpi;
///
/// async fn swap(world: &mpi::Communicator, value: u32) -> mpi::Result<u32> {
///     let other = 1 - world.rank();
///     let came = world.ireceive(vec![0], other, 0)?;
///     world.isend(vec![value], other, 0)?.await?;
///     let (came, _) = came.await?;
///     Ok(came[0])
/// }
///
/// mpi::test(2, |world| {
///     let rank = world.rank() as u32;
///     assert_eq!(mpi::block_on(swap(&world, rank))?, 1 - rank);
///     Ok(())
/// });
/// ```
impl<'scope, R: 'scope> IntoFuture for Request<'scope, R> {
    type Output = Result<R>;
    type IntoFuture = Completing<'scope, R>;

    fn into_future(self) -> Completing<'scope, R> {
        let completion = self
            .handle()
            .zip(self.id())
            .map(|(handle, id)| handle.comm.process().completion(id));
        Completing {
            completion,
            request: Some(self),
        }
    }
}

impl<'scope, R: 'scope> Future for Completing<'scope, R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<R>> {
        let this = &mut *self;
        let completion = this
            .completion
            .as_mut()
            .expect("a future is not polled after its end");
        let Poll::Ready(outcome) = Pin::new(completion).poll(context) else {
            return Poll::Pending;
        };
        let under_way = this.completion.take().is_some_and(Completion::release);
        let request = this.request.take().expect("it ends once");
        Poll::Ready(match outcome {
            // Nobody could wait for it: the operation goes on.
            Err(error) if under_way => Err(error),
            outcome => request.ended(outcome),
        })
    }
}

impl<'scope, R: 'scope> Drop for Completing<'scope, R> {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            // The request is there still, and drops what it has.
            _ = completion.release();
        }
    }
}

/// Runs a future to its end on this thread: an executor of one task, for programs that have no executor.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
