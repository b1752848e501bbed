//! Guest slot: the place of another layer that uses the engine's endpoint, such as the services.
//!
//! Arrivals that do not concern the engine go to the guest at once, without the fabric, which is being polled. The guest
//! is then *called*: after the poll it settles what needs the fabric, repeatedly until it says that nothing is left.
//!
//! Who waits for the guest looks again when something has changed there, and not for the looks of others that wait: or each
//! of them would wake all.

use weft_fabric::{Fabric, GUEST_KEY, Guest, Head, Operation, Peer, SharedBytes, SyncKey};

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
    /// Since the last time that it settled: who waits for it is to look again.
    changed: bool,
}

/// What a guest did when it settled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// Something moved.
    pub(super) moved: bool,
    /// What somebody waits for may have come.
    pub(super) changed: bool,
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

    /// A call of the program has changed what others may wait for.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// Lets the guest do what it has left to do; `None` if there is no guest.
    pub(super) fn settle(&mut self, fabric: &mut dyn Fabric) -> Option<Settled> {
        let guest = self.guest.as_mut()?;
        let moved = guest.settle(fabric);
        self.called = !guest.is_settled();
        let changed = std::mem::take(&mut self.changed) || moved;
        Some(Settled { moved, changed })
    }

    /// The guest, if there is one, which is told of an event.
    fn called(&mut self) -> Option<&mut dyn Guest> {
        let guest = self.guest.as_mut()?;
        (self.called, self.was_called, self.changed) = (true, true, true);
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

#[cfg(test)]
mod tests {
    use std::any::Any;

    use weft_fabric::Sink;
    use weft_fabric_local::Local;

    use super::*;

    /// A guest that never has anything to settle.
    struct Idle;

    impl Sink for Idle {
        fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
        fn transfer_completed(&mut self, _: Operation, _: weft_fabric::Result<()>) {}
        fn lost(&mut self, _: Peer, _: &str) {}
        fn signalled(&mut self, _: Peer, _: SyncKey) {}
    }

    impl Guest for Idle {
        fn settle(&mut self, _: &mut dyn Fabric) -> bool {
            false
        }
        fn is_settled(&self) -> bool {
            true
        }
        fn as_any(&mut self) -> &mut dyn Any {
            self
        }
    }

    #[test]
    fn who_waits_looks_again_after_events_and_calls_and_not_after_looks_of_others() {
        let mut fabric = Local::group(1).swap_remove(0);
        let mut slot = GuestSlot::default();
        assert_eq!(slot.settle(&mut fabric), None);
        slot.install(Box::new(Idle), 1);
        let mut changes = |act: &dyn Fn(&mut GuestSlot)| {
            act(&mut slot);
            assert!(slot.is_called());
            let settled = slot.settle(&mut fabric).expect("there is a guest");
            assert!(!settled.moved && !slot.is_called());
            settled.changed
        };
        let look = |slot: &mut GuestSlot| {
            slot.call();
        };
        assert!(!changes(&look), "a look of one that waits");
        assert!(changes(&|slot| slot.signalled(Peer(0), SyncKey(GUEST_KEY))));
        assert!(changes(&|slot| {
            look(slot);
            slot.change();
        }));
        assert!(!changes(&look));
    }
}
