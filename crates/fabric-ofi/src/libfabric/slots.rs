//! Slots: what an endpoint can have under way at a time, with a buffer for each message and a [`Context`] for each operation.
//!
//! ```text
//!   receives      a buffer each, posted until something arrives, and again when it was looked at
//!   sends         a buffer each, taken until what it holds has left
//!   transfers     reads and writes of remote memory under way
//! ```
//!
//! *Invariant:* contexts are in this order, as are buffers of the first two kinds; a completion names a context, whose
//! address says which slot it is.

use std::ffi::c_void;

use weft_fabric::Region;

use super::layout::Context;

/// The number of slots of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Buffers for arriving messages.
    pub receives: usize,
    /// Buffers for leaving messages.
    pub sends: usize,
    /// Transfers under way.
    pub transfers: usize,
    /// Bytes of a buffer.
    pub buffer: usize,
    /// Addresses of peers.
    pub peers: usize,
}

impl Slots {
    /// All kinds together.
    pub fn all(&self) -> usize {
        self.receives + self.sends + self.transfers
    }
}

/// One slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// For an arriving message.
    Receive(usize),
    /// For a leaving message.
    Send(usize),
    /// For a read or write.
    Transfer(usize),
}

/// All of one endpoint.
pub struct SlotTable {
    slots: Slots,
    contexts: Box<[Context]>,
    buffers: Box<[u8]>,
}

impl SlotTable {
    /// With nothing under way.
    pub fn new(slots: Slots) -> Self {
        Self {
            slots,
            contexts: vec![Context([0; 8]); slots.all()].into_boxed_slice(),
            buffers: vec![0; (slots.receives + slots.sends) * slots.buffer].into_boxed_slice(),
        }
    }

    /// All buffers, for registering. Must not be used after `self` is dropped.
    pub fn memory(&mut self) -> Region {
        let (start, length) = (self.buffers.as_mut_ptr(), self.buffers.len());
        // SAFETY: the memory is `self`'s until that is dropped, and is used as the slots say.
        unsafe { Region::new(start, length) }
    }

    /// The bytes of a receive buffer.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn received(&self, slot: usize) -> &[u8] {
        let start = slot * self.slots.buffer;
        &self.buffers[..self.slots.receives * self.slots.buffer][start..start + self.slots.buffer]
    }

    /// The same buffer, to be posted.
    ///
    /// # Panics
    /// As [`received`](Self::received).
    #[inline]
    pub fn receive_buffer(&mut self, slot: usize) -> &mut [u8] {
        let start = slot * self.slots.buffer;
        &mut self.buffers[..self.slots.receives * self.slots.buffer]
            [start..start + self.slots.buffer]
    }

    /// The buffer of a leaving message.
    ///
    /// # Panics
    /// As [`received`](Self::received).
    #[inline]
    pub fn send_buffer(&mut self, slot: usize) -> &mut [u8] {
        let start = (self.slots.receives + slot) * self.slots.buffer;
        &mut self.buffers[start..start + self.slots.buffer]
    }

    /// The context that is lent with an operation of a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn context(&mut self, slot: Slot) -> *mut c_void {
        let index = match slot {
            Slot::Receive(index) => index,
            Slot::Send(index) => self.slots.receives + index,
            Slot::Transfer(index) => self.slots.receives + self.slots.sends + index,
        };
        (&raw mut self.contexts[index]).cast()
    }

    /// The slot of a context that was lent.
    #[inline]
    pub fn slot(&self, context: *mut c_void) -> Option<Slot> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let index = offset / size_of::<Context>();
        let Slots {
            receives, sends, ..
        } = self.slots;
        match index {
            _ if index < receives => Some(Slot::Receive(index)),
            _ if index < receives + sends => Some(Slot::Send(index - receives)),
            _ if index < self.contexts.len() => Some(Slot::Transfer(index - receives - sends)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SlotTable {
        SlotTable::new(Slots {
            receives: 3,
            sends: 2,
            transfers: 1,
            buffer: 8,
            peers: 1,
        })
    }

    #[test]
    fn contexts_name_their_slots() {
        let mut table = table();
        let all = [
            Slot::Receive(0),
            Slot::Receive(2),
            Slot::Send(0),
            Slot::Send(1),
            Slot::Transfer(0),
        ];
        for slot in all {
            let context = table.context(slot);
            assert_eq!(table.slot(context), Some(slot));
        }
        let beyond = table.context(Slot::Transfer(0)).wrapping_byte_add(64);
        assert_eq!(table.slot(beyond), None);
        assert_eq!(table.slot(std::ptr::null_mut()), None);
    }

    #[test]
    fn buffers_lie_apart() {
        let mut table = table();
        for slot in 0..3 {
            table.receive_buffer(slot).fill(slot as u8);
        }
        for slot in 0..2 {
            table.send_buffer(slot).fill(9);
        }
        for slot in 0..3 {
            assert_eq!(table.received(slot), [slot as u8; 8]);
        }
        assert_eq!(table.memory().len(), 5 * 8);
    }
}
