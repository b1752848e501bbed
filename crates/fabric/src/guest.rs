//! Guest: a second layer that shares an endpoint with the layer that drives it.

use std::any::Any;

use crate::{Fabric, Sink};

/// A layer that shares an endpoint which another layer, the host, polls. The host hands over what is not its own:
/// messages whose head it does not know, operations that it did not start, every loss and every signal; and it lets the
/// guest settle after each poll. Heads are told apart by their first byte, operations by the top bit, which is the
/// guest's, and keys of signals by the two top bits, which are both set for a guest.
pub trait Guest: Sink + Send {
    /// Does deferred work after a poll. True if something moved, so that waiting threads should look again.
    fn settle(&mut self, fabric: &mut dyn Fabric) -> bool;
    /// Whether [`settle`](Self::settle) has nothing to do until something arrives or is requested.
    fn is_settled(&self) -> bool;
    /// The guest as its concrete type, for its own calls.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// Operations with this bit are the guest's.
pub const GUEST_OPERATION: u64 = 1 << 63;

/// Keys of signals with these bits are the guest's.
pub const GUEST_KEY: u64 = 0b11 << 62;
