//! Buffered sends (MPI 5.0, section 3.6): the message is copied, and the send ends at once.
//!
//! The copy stands in memory of the engine; the attached buffer is the *allowance*: what is under way
//! counts against it with [`OVERHEAD`] bytes a message, as the standard's model does.

use weft_fabric::Peer;

use super::SendMode;
use crate::buffer::Buffer;
use crate::engine::request::{Phase, Request};
use crate::engine::{Engine, Interest};
use crate::error::{Error, ErrorClass, Result};
use crate::process::Process;

/// `MPI_BSEND_OVERHEAD`: bytes that a buffered message takes beside its data.
pub const OVERHEAD: usize = 128;

impl Engine {
    pub(crate) fn start_buffered(
        &mut self,
        buffer: Buffer,
        context: u32,
        to: Peer,
        tag: i32,
    ) -> Result<()> {
        let needed = buffer.bytes() + OVERHEAD;
        let free = self.allowance.saturating_sub(self.core.buffered);
        if needed > free {
            self.progress();
            let free = self.allowance.saturating_sub(self.core.buffered);
            if needed > free {
                return Err(Error::new(
                    ErrorClass::Buffer,
                    format!(
                        "a buffered send of {} bytes needs {needed} bytes (with the overhead of {OVERHEAD}), and {free} of {} are free; attach a larger buffer with MPI_Buffer_attach, or receive more in between",
                        buffer.bytes(),
                        self.allowance
                    ),
                ));
            }
        }
        if let Some(request) = self.start_send(SendMode::Buffered, buffer, context, to, tag)? {
            let slot = self.core.requests.checked(request)?;
            let duties = slot.duties_mut();
            duties.detached = true;
            duties.buffered = needed;
            self.core.buffered += needed;
            if slot.phase == Phase::Complete {
                self.core.complete(request);
            }
        }
        Ok(())
    }
}

impl Process {
    /// `MPI_Buffer_attach`: allows buffered sends of `bytes` in all.
    pub fn attach_buffer(&self, bytes: usize) {
        self.lock().allowance = bytes;
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
        self.lock().wait_for(Interest::Arrivals, |engine| {
            let core = &engine.core;
            let waits = |slot: &Request| slot.duties().buffered > 0 && concerns(slot.context);
            let left = core.buffered == 0 || !core.requests.live().any(|(_, slot)| waits(slot));
            left.then_some(())
        });
    }

    /// `MPI_Buffer_detach`: as [`Self::flush_buffer`], and allows none any more.
    pub fn detach_buffer(&self) {
        self.flush_buffer();
        self.lock().allowance = 0;
    }
}
