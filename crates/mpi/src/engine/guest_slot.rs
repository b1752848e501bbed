//! Guest slot: the place of another layer that uses the engine's endpoint, such as the services.
//!
//! Arrivals that do not concern the engine go to the guest at once, without the fabric, which is being polled. The guest
//! is then *called*: after the poll it settles what needs the fabric, repeatedly until it says that nothing is left.
//!
//! The guest says [what has changed](Guest::changes), and those look again that wait for it. If all looked after each event, and for the looks of
//! the others, each message to one of many threads that wait would wake them all.

use weft_fabric::{Changes, Fabric, GUEST_KEY, Guest, Head, Operation, Peer, SharedBytes, SyncKey};

/// The place, empty until somebody is installed.
#[derive(Default)]
pub(super) struct GuestSlot {
    guest: Option<Box<dyn Guest>>,
    /// Those that it knows: processes of other jobs are none of them.
    peers: u32,
    /// It may have something to settle.
    called: bool,
    /// Ever.
    was_called: bool,
}

impl GuestSlot {
    pub(super) fn install(&mut self, guest: Box<dyn Guest>, peers: u32) {
        self.guest = Some(guest);
        self.peers = peers;
    }

    /// Whether there is one that has been called: its peers may call it, too.
    pub(super) fn is_there(&self) -> bool {
        self.guest.is_some() && self.was_called
    }

    /// Whether the guest may have something to settle.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.called
    }

    /// The guest, for a call of the program or the look of one that waits; it may have something to settle afterwards.
    ///
    /// # Panics
    /// If none was installed.
    pub(super) fn call(&mut self) -> &mut dyn Guest {
        (self.called, self.was_called) = (true, true);
        &mut **self.guest.as_mut().expect("a guest was installed")
    }

    /// Lets the guest do what it has left to do; `None` if there is no guest, else whether it did anything, and what has changed there, which
    /// the caller empties.
    pub(super) fn settle(&mut self, fabric: &mut dyn Fabric) -> Option<(bool, &mut Changes)> {
        let guest = self.guest.as_mut()?;
        let moved = guest.settle(fabric);
        self.called = !guest.is_settled();
        Some((moved, guest.changes()))
    }

    /// The guest, if there is one, which is told of an event.
    fn called(&mut self) -> Option<&mut dyn Guest> {
        let guest = self.guest.as_mut()?;
        (self.called, self.was_called) = (true, true);
        Some(&mut **guest)
    }

    /// A head that is no envelope is the guest's. False if there is no guest.
    pub(super) fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) -> bool {
        if from.0 >= self.peers {
            return false;
        }
        let guest = self.called();
        guest.map(|guest| guest.message(from, head, data)).is_some()
    }

    /// An operation that is none of the engine's has ended.
    pub(super) fn transfer_completed(
        &mut self,
        operation: Operation,
        result: weft_fabric::Result<()>,
    ) {
        if let Some(guest) = self.called() {
            guest.transfer_completed(operation, result);
        }
    }

    pub(super) fn lost(&mut self, peer: Peer, reason: &str) {
        if peer.0 < self.peers
            && let Some(guest) = self.called()
        {
            guest.lost(peer, reason);
        }
    }

    /// A signal has come; it is the guest's if its key is.
    pub(super) fn signalled(&mut self, from: Peer, key: SyncKey) {
        if key.0 & GUEST_KEY == GUEST_KEY
            && from.0 < self.peers
            && let Some(guest) = self.called()
        {
            guest.signalled(from, key);
        }
    }
}
