//! Buffered sends (MPI 5.0, section 3.6): attaching, detaching and flushing their buffer.

use std::sync::Arc;
use std::task::{Wake, Waker};

use weft_fiber::Waiter;

use crate::engine::{RequestId, WaitFor};
use crate::error::Result;
use crate::process::Process;

/// A flush of several engines. It ends when none of them has it any more.
struct Flush {
    process: Arc<Process>,
    whole: RequestId,
}

impl Wake for Flush {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Flush {
    /// Without any engine: wakers are dropped then.
    fn drop(&mut self) {
        // It may have been freed.
        let _ = self.process.complete_general(self.whole);
    }
}

impl Process {
    /// `MPI_Buffer_attach`: allows buffered sends of `bytes` in all, in each engine.
    pub fn attach_buffer(&self, bytes: usize) {
        for engine in self.engines().all() {
            engine.lock().attach_buffer(bytes);
        }
    }

    /// `MPI_Buffer_flush`: waits until all buffered messages have left.
    pub fn flush_buffer(&self) {
        self.flush_buffer_of(|_| true);
    }

    /// Like [`Self::flush_buffer`], for the messages of the communicators for whose context `concerns` is true.
    ///
    /// # Panics
    /// If `concerns` calls this process, which is in use meanwhile.
    pub fn flush_buffer_of(&self, concerns: impl Fn(u32) -> bool) {
        for engine in self.engines().all() {
            engine.lock().wait_for(WaitFor::Buffered, |engine| {
                engine.is_buffer_flushed(&concerns).then_some(())
            });
        }
    }

    /// `MPI_Buffer_iflush` and the like: a request that ends when all messages have left that are buffered now for the
    /// communicators for whose context `concerns` is true. Its errors go to the communicator of `context`; `None` stands
    /// for `MPI_COMM_SELF`.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn begin_flush_of(
        self: &Arc<Self>,
        context: Option<u32>,
        concerns: impl Fn(u32) -> bool,
    ) -> Result<RequestId> {
        let context = context.unwrap_or(self.itself_context());
        if !self.engines().are_several() {
            return self.lock().start_flush(context, concerns);
        }
        // A request of each engine, and one that ends with the last of them.
        let whole = self.lock().start_general(context)?;
        let left = Arc::new(Flush {
            process: Arc::clone(self),
            whole,
        });
        let waker = Waker::from(left);
        for engine in self.engines().all() {
            let mut engine = engine.lock();
            let part = engine.start_flush(context, &concerns)?;
            engine.await_end(part, Waiter::Task(waker.clone()));
            drop(engine.detach(part)?);
        }
        drop(waker);
        Ok(whole)
    }

    /// `MPI_Buffer_detach`: as [`Self::flush_buffer`], and allows none any more.
    pub fn detach_buffer(&self) {
        self.flush_buffer();
        self.attach_buffer(0);
    }
}
