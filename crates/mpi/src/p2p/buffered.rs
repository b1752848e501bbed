//! Buffered sends (MPI 5.0, section 3.6): attaching, detaching and flushing their buffer.

use crate::engine::WaitFor;
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
        self.lock().wait_for(WaitFor::Arrivals, |engine| {
            engine.is_buffer_flushed(&concerns).then_some(())
        });
    }

    /// `MPI_Buffer_detach`: as [`Self::flush_buffer`], and allows none any more.
    pub fn detach_buffer(&self) {
        self.flush_buffer();
        self.lock().attach_buffer(0);
    }
}
