//! Attached buffer: how many bytes buffered sends may use, and do use (MPI 5.0, section 3.6).
//!
//! The copy of a message is in memory of the engine; only the size of the attached buffer is used. Each message under way
//! counts against it with [`OVERHEAD`] additional bytes, as in the standard's model.

use std::collections::HashSet;

use weft_fabric::Peer;

use super::protocol::SendMode;
use super::request::{Request, Work};
use super::request_id::RequestId;
use super::{Core, Engine};
use crate::buffer::Buffer;
use crate::error::{Error, ErrorClass, Result};

/// Bytes that a buffered message takes beside its data: no more than `MPI_BSEND_OVERHEAD` is in any ABI that programs are built
/// for (512 in the standard one, 96 in that of MPICH).
pub const OVERHEAD: usize = 96;

/// The account of buffered sends.
#[derive(Debug, Default)]
pub(super) struct AttachedBuffer {
    /// Bytes that buffered sends may take in all.
    size: usize,
    /// Bytes of those under way; more than `size` only after a smaller buffer was attached.
    used: usize,
    /// Flushes under way. None of them waits for nothing.
    flushes: Vec<Flush>,
}

/// A flush that was begun, and the buffered sends that it waits for still.
#[derive(Debug)]
struct Flush {
    request: RequestId,
    sends: HashSet<RequestId>,
}

impl AttachedBuffer {
    /// Bytes that buffered sends may take in all.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    fn free(&self) -> usize {
        self.size.saturating_sub(self.used)
    }

    fn is_unused(&self) -> bool {
        self.used == 0
    }

    fn take(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// A send that took so many bytes has ended.
    fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    /// The flushes that waited for this send last.
    fn flushes_ended_by(&mut self, send: RequestId) -> Vec<RequestId> {
        let mut ended = Vec::new();
        self.flushes.retain_mut(|flush| {
            let last = flush.sends.remove(&send) && flush.sends.is_empty();
            if last {
                ended.push(flush.request);
            }
            !last
        });
        ended
    }
}

impl Core {
    /// A buffered send that took so many bytes has ended: there is room again, and a flush may be over.
    pub(super) fn end_buffered(&mut self, send: RequestId, bytes: usize) {
        self.attached_buffer.give_back(bytes);
        for flush in self.attached_buffer.flushes_ended_by(send) {
            self.complete(flush);
        }
        self.wake_others();
    }
}

impl Engine {
    /// Begins a buffered send, which needs no request of the caller's.
    pub(crate) fn start_buffered(
        &mut self,
        buffer: Buffer,
        context: u32,
        to: Peer,
        tag: i32,
    ) -> Result<()> {
        let needed = buffer.bytes() + OVERHEAD;
        if needed > self.core.attached_buffer.free() {
            self.progress();
            let free = self.core.attached_buffer.free();
            if needed > free {
                return Err(Error::new(
                    ErrorClass::Buffer,
                    format!(
                        "a buffered send of {} bytes needs {needed} bytes (with the overhead of {OVERHEAD}), and {free} of {} are free; attach a larger buffer with MPI_Buffer_attach, or receive more in between",
                        buffer.bytes(),
                        self.core.attached_buffer.size
                    ),
                ));
            }
        }
        if let Some(request) = self.start_send(SendMode::Buffered, buffer, context, to, tag)? {
            let slot = self.core.requests.checked(request)?;
            let on_complete = slot.on_complete_mut();
            on_complete.detached = true;
            on_complete.buffered = needed;
            let has_ended = !slot.is_active();
            self.core.attached_buffer.take(needed);
            if has_ended {
                self.core.complete(request);
            }
        }
        Ok(())
    }

    /// Allows buffered sends of `bytes` in all.
    pub(crate) fn attach_buffer(&mut self, bytes: usize) {
        self.core.attached_buffer.size = bytes;
    }

    /// Begins a request of this context that ends when all messages have left that are buffered now for the
    /// communicators whose context `concerns`.
    pub(crate) fn start_flush(
        &mut self,
        context: u32,
        concerns: impl Fn(u32) -> bool,
    ) -> Result<RequestId> {
        let core = &mut self.core;
        core.requests.check_room()?;
        let waits = |slot: &Request| slot.on_complete().buffered > 0 && concerns(slot.context());
        let sends: HashSet<RequestId> = core
            .requests
            .live()
            .filter(|(_, slot)| waits(slot))
            .map(|(id, _)| id)
            .collect();
        let request = core.requests.insert(context, None, Work::Nothing);
        if sends.is_empty() {
            core.complete(request);
        } else {
            core.attached_buffer.flushes.push(Flush { request, sends });
        }
        Ok(request)
    }

    /// Whether all buffered messages of the communicators whose context `concerns` have left.
    pub(crate) fn is_buffer_flushed(&self, concerns: impl Fn(u32) -> bool) -> bool {
        let waits = |slot: &Request| slot.on_complete().buffered > 0 && concerns(slot.context());
        let core = &self.core;
        core.attached_buffer.is_unused() || !core.requests.live().any(|(_, slot)| waits(slot))
    }
}
