//! Buffered sends (MPI 5.0, section 3.6): attaching, detaching and flushing their buffer.

use crate::engine::{RequestId, WaitFor};
use crate::error::Result;
use crate::process::Process;

impl Process {
    /// `MPI_Buffer_attach`: allows buffered sends of `bytes` in all.
    pub fn attach_buffer(&self, bytes: usize) {
        self.lock().attach_buffer(bytes);
    }

    /// `MPI_Buffer_flush`: waits until all buffered messages have left.
    pub fn flush_buffer(&self) {
        self.flush_buffer_of(|_| true);
    }

    /// As [`Self::flush_buffer`], for the messages of the communicators whose context `concerns`.
    ///
    /// # Panics
    /// If `concerns` calls this process, which is in use meanwhile.
    pub fn flush_buffer_of(&self, concerns: impl Fn(u32) -> bool) {
        self.lock().wait_for(WaitFor::Buffered, |engine| {
            engine.is_buffer_flushed(&concerns).then_some(())
        });
    }

    /// `MPI_Buffer_iflush` and its like: a request that ends when all messages have left that are buffered now
    /// for the communicators whose context `concerns`. Its errors go to the communicator of `context`; `None`
    /// stands for `MPI_COMM_SELF`.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    pub fn begin_flush_of(
        &self,
        context: Option<u32>,
        concerns: impl Fn(u32) -> bool,
    ) -> Result<RequestId> {
        let context = context.unwrap_or(self.itself_context());
        self.lock().start_flush(context, concerns)
    }

    /// `MPI_Buffer_detach`: as [`Self::flush_buffer`], and allows none any more.
    pub fn detach_buffer(&self) {
        self.flush_buffer();
        self.lock().attach_buffer(0);
    }
}
