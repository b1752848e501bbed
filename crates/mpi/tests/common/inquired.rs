//! Endpoint whose bells tell of inquiries, as that of a job does under a launcher.

use std::sync::{Arc, Mutex};

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::{Bell, Fabric, forward_bell, forward_fabric};

/// An endpoint, in each channel, whose bells tell of inquiries.
pub struct Inquired {
    pub inner: Box<dyn Fabric>,
    pub inquiry: Arc<AtomicU32>,
    /// Those of the channels that are opened are added.
    pub bells: Arc<Mutex<Vec<Arc<dyn Bell>>>>,
}

/// Its bell.
struct InquiredBell {
    inner: Arc<dyn Bell>,
    inquiry: Arc<AtomicU32>,
}

impl Bell for InquiredBell {
    forward_bell!(self => self.inner; prepare, cancel, wait, ring, load, yield_core, shares_core, change_core, stands_apart,
        polls_per_clock_read);

    fn inquiry(&self) -> u32 {
        self.inquiry.load(Ordering::Acquire)
    }

    fn ring_as_well(&self, channel: Option<u32>) {
        self.inner.ring_as_well(channel);
    }
}

impl Fabric for Inquired {
    forward_fabric!(self => self.inner; me, peers, limits, now, route, try_send, inject, take_next, poll, grant,
        offer, revoke, get, put, signal, signals, take_signals, forget, shares_memory, allocate_shared, release_shared,
        attach_shared, is_asleep, wake, is_any_beside, is_flushed, traffic, say_goodbye, channels);

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(InquiredBell {
            inner: self.inner.bell(),
            inquiry: Arc::clone(&self.inquiry),
        })
    }

    fn open_channel(&mut self, number: u32) -> weft_fabric::Result<Box<dyn Fabric>> {
        let inner = self.inner.open_channel(number)?;
        self.bells.lock().unwrap().push(inner.bell());
        Ok(Box::new(Self {
            inner,
            inquiry: Arc::clone(&self.inquiry),
            bells: Arc::clone(&self.bells),
        }))
    }
}
