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
    /// What has changed since it was asked last: the host wakes those who wait for it, and empties this after each
    /// [`settle`](Self::settle).
    fn changes(&mut self) -> &mut Changes;
    /// The guest as its concrete type, for its own calls.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What somebody waits for at a guest; the guest gives out the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Subject(pub u64);

/// What has changed at a guest: who waits for that may go on, and looks.
#[derive(Debug, Default)]
pub struct Changes {
    everything: bool,
    subjects: Vec<Subject>,
}

impl Changes {
    /// Whoever waits for this is to look.
    #[inline]
    pub fn note(&mut self, subject: Subject) {
        self.subjects.push(subject);
    }

    /// Everybody who waits is to look.
    pub fn note_everything(&mut self) {
        self.everything = true;
    }

    /// Whether nobody is to look.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.everything && self.subjects.is_empty()
    }

    /// Whether everybody is to look.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// What was noted, one by one; some of it may be there twice.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Forgets all.
    #[inline]
    pub fn clear(&mut self) {
        self.everything = false;
        self.subjects.clear();
    }
}

/// Operations with this bit are the guest's.
pub const GUEST_OPERATION: u64 = 1 << 63;

/// Keys of signals with these bits are the guest's.
pub const GUEST_KEY: u64 = 0b11 << 62;
