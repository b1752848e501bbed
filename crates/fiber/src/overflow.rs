//! Overflow: the message for a stack that has overflowed.

use std::fmt::Write;

use crate::stack::GUARD;
use crate::worker;

/// Text into a buffer of fixed size, without allocation: this runs within a signal handler.
struct Message<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.buffer.len() - self.length;
        let taken = text.len().min(room);
        self.buffer[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// What an address means if it lies in the guard of the running fiber; an
/// [`Explain`](weft_sys::fault::Explain).
pub(crate) fn explain(address: usize, buffer: &mut [u8]) -> usize {
    let Some((worker, number)) = worker::here().and_then(|worker| {
        let number = worker.running()?;
        Some((worker, number))
    }) else {
        return 0;
    };
    let Some((low, high)) = worker.runtime.stacks.bounds(number) else {
        return 0;
    };
    if !(low..low + GUARD).contains(&address) {
        return 0;
    }
    let mut message = Message { buffer, length: 0 };
    _ = writeln!(
        message,
        "weft: fiber {number} has used up its stack of {} KiB (at {address:#x}, on worker {}); give it a larger one: weft_fiber_attributes.stack in C, weft::fiber::Builder::stack in Rust",
        (high - low) / 1024,
        worker.index,
    );
    message.length
}
