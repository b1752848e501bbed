//! Bounce buffer: memory of the endpoint into which a transfer reads, before the bytes are copied to where
//! they may go by then.

use weft_fabric::Region;

use super::device::Device;
use super::registration::{Access, Registration};

/// A buffer for one transfer at a time.
pub struct Bounce {
    /// Dropped before the memory.
    registration: Option<Registration>,
    memory: Region,
}

impl Bounce {
    /// A buffer of `length` bytes, registered if the provider wants that.
    ///
    /// # Errors
    /// The provider's error.
    pub fn new(device: &Device, length: usize) -> Result<Self, String> {
        let memory = Box::leak(vec![0; length].into_boxed_slice());
        // SAFETY: the memory is `self`'s alone until it is dropped.
        let memory = unsafe { Region::new(memory.as_mut_ptr(), length) };
        let mut bounce = Self {
            registration: None,
            memory,
        };
        if device.registers_own_memory() {
            bounce.registration = Some(device.register(&memory, Access::Local)?);
        }
        Ok(bounce)
    }

    /// Its first bytes. They must not be used after `self` is dropped; a transfer under way in them keeps `self`.
    pub fn region(&self, length: usize) -> Region {
        self.memory.prefix(length)
    }

    /// Its registration, if it has one.
    pub fn registration(&self) -> Option<&Registration> {
        self.registration.as_ref()
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        self.registration = None;
        let memory = std::ptr::slice_from_raw_parts_mut(self.memory.as_ptr(), self.memory.len());
        // SAFETY: leaked from a box of this length by `new`, and taken back once.
        drop(unsafe { Box::from_raw(memory) });
    }
}
