//! Requests as futures, for an executor of the caller's choice.
//!
//! A task that awaits a request leaves its waker with it, as a waiting thread or fiber leaves itself. Progress must be
//! driven meanwhile: while any future is pending, one thread of the process waits on their behalf like any other waiter
//! (and drives if no other does). It exists only as long.
//!
//! An executor that is a loop over descriptors can sleep on the one of [`EventWaker`](weft_sys::wake::EventWaker) and
//! poll its futures with that waker.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weft_fiber::Waiter;

use crate::engine::{RequestId, WaitFor};
use crate::error::{Error, ErrorClass, Result};
use crate::{Process, Status};

/// The end of a request. Dropping it before that lets the operation go on by itself, as
/// `MPI_Request_free` does: its buffer stays in use.
#[derive(Debug)]
pub struct Completion {
    process: Arc<Process>,
    id: RequestId,
    /// Whether it is counted among the pending.
    counted: bool,
    taken: bool,
}

impl Process {
    /// The end of a request as a future; its output is that of [`Process::wait`].
    #[must_use]
    pub fn completion(self: &Arc<Self>, id: RequestId) -> Completion {
        Completion {
            process: Arc::clone(self),
            id,
            counted: false,
            taken: false,
        }
    }
}

impl Completion {
    /// From now on somebody has to drive.
    fn count(&mut self) -> Result<()> {
        if self.counted {
            return Ok(());
        }
        let mut engine = self.process.lock();
        self.counted = true;
        if !engine.add_future() {
            return Ok(());
        }
        let process = Arc::clone(&self.process);
        let started = std::thread::Builder::new()
            .name("weft futures".into())
            .spawn(move || {
                let mut engine = process.lock();
                engine.wait_for(WaitFor::Futures, |engine| {
                    engine.end_future_driver().then_some(())
                });
            });
        match started {
            Ok(_detached) => Ok(()),
            Err(error) => {
                engine.no_future_driver();
                Err(Error::new(
                    ErrorClass::Other,
                    format!(
                        "no thread could be started that drives progress for futures: {error}; raise the limit of threads, or wait in a call"
                    ),
                ))
            }
        }
    }

    /// Ends the wait, not the request: true if its outcome was not taken, so that it is the caller's again.
    #[must_use]
    pub fn release(mut self) -> bool {
        let live = !std::mem::replace(&mut self.taken, true);
        if live {
            self.process.lock_of(self.id).forget_waiter(self.id);
        }
        live
    }

    fn discount(&mut self) {
        if std::mem::take(&mut self.counted) {
            let mut engine = self.process.lock();
            let last = engine.remove_future();
            drop(engine);
            if last {
                self.process.ring();
            }
        }
    }
}

impl Future for Completion {
    type Output = Result<Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.taken, "a future is not polled after its end");
        // The executor's code: not while the engine is held.
        let waker = context.waker().clone();
        let mut engine = this.process.lock_of(this.id);
        let mut ended = engine.has_ended(this.id);
        if let Ok(false) = ended {
            engine.look();
            ended = engine.has_ended(this.id);
        }
        match ended {
            Ok(false) => {
                if let Some(error) = engine.held_up(this.id) {
                    let outcome = engine.end_held_up(this.id, &error);
                    drop(engine);
                    this.taken = true;
                    this.discount();
                    return Poll::Ready(outcome);
                }
                engine.await_end(this.id, Waiter::Task(waker));
                drop(engine);
                match this.count() {
                    Ok(()) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
            Ok(true) => {
                let outcome = engine.take_outcome(this.id);
                drop(engine);
                this.taken = true;
                this.discount();
                Poll::Ready(outcome)
            }
            Err(error) => {
                drop(engine);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.taken {
            self.process.lock_of(self.id).forget_waiter(self.id);
            // A stale name was reported by `poll`.
            _ = self.process.free_request(self.id);
        }
        self.discount();
    }
}
