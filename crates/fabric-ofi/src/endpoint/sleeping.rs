//! Sleeping: how long a thread may sleep after a look, and which descriptors wake it.
//!
//! The provider's own descriptors are in the bell's set while somebody sleeps now and then, like connections of TCP
//! ([`Watching`](weft_fabric_tcp::Watching)), because membership costs time for each message. The descriptor of a provider's set is
//! always in it.
//!
//! *Invariant:* the bell is due at once, unless the last look found nothing and was made for a thread that had announced its sleep.
//! So nobody sleeps on descriptors that are not in its set.

use weft_fabric_tcp::NetworkBell;

use super::Ofi;
use crate::libfabric::device::Device;
use crate::liveness::Liveness;

impl Ofi {
    /// Sets how long a thread may sleep after this look.
    #[inline]
    pub(super) fn prepare_sleep(&mut self, found: usize) {
        if self.mail.take_full() {
            self.bell.sleep_shortly();
        }
        if found == 0 {
            if self.bell.take_prepared() {
                self.may_sleep = self.arrived.is_empty() && self.sleeps_soundly();
                let rest = self.liveness.as_ref().map_or(u64::MAX, Liveness::due);
                self.bell.is_due_at(if self.may_sleep { rest } else { 0 });
            }
            return;
        }
        if self.may_sleep {
            self.bell.is_due_at(0);
            self.may_sleep = false;
        }
        if self.watching.note_found(self.bell.has_sleepers()) {
            self.watching.set(false);
            unwatch(&self.mail.device, &self.bell);
        }
    }

    /// Whether anything that arrives from here on wakes a sleeper.
    #[cold]
    fn sleeps_soundly(&mut self) -> bool {
        let device = &mut self.mail.device;
        if !device.has_descriptors() {
            // No descriptor reports events: a short sleep, then another look.
            self.bell.sleep_shortly();
            return true;
        }
        if self.watching.is_on() && device.are_descriptors_stale() {
            self.watching.set(false);
            unwatch(device, &self.bell);
        }
        if !self.watching.is_on() {
            device.renew_descriptors();
            if !watch(device, &self.bell) {
                return false;
            }
            self.watching.set(true);
        }
        device.may_sleep()
    }
}

/// Enters the descriptors into the set. False, with none entered, if the system refuses.
fn watch(device: &Device, bell: &NetworkBell) -> bool {
    let entered = device
        .descriptors()
        .all(|descriptor| bell.watch_descriptor(&descriptor).is_ok());
    if !entered {
        unwatch(device, bell);
    }
    entered
}

/// Takes them out.
fn unwatch(device: &Device, bell: &NetworkBell) {
    device
        .descriptors()
        .for_each(|descriptor| bell.unwatch_descriptor(&descriptor));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weft_fabric::conformance::{Inbox, PATIENCE};
    use weft_fabric::{Bell, Fabric, HEAD, Peer, Posted};

    use super::*;

    /// While nobody sleeps for long, own descriptors are not in the set; a thread that sleeps then is woken
    /// all the same.
    #[test]
    fn a_bell_whose_descriptors_were_removed_is_woken() {
        if crate::found().is_err() {
            return;
        }
        let group = Ofi::group(2, "tcp").expect("endpoints on loopback");
        let Ok([mut rank, mut peer]) = <[Ofi; 2]>::try_from(group) else {
            panic!("as many as were asked for");
        };
        if !rank.mail.device.has_own_descriptors() {
            return;
        }
        let (mut inbox, start) = (Inbox::default(), Instant::now());
        let mut sent = 0;
        while rank.watching.is_on() {
            sent += usize::from(peer.try_send(Peer(0), &[1; HEAD], &[]) == Ok(Posted::Done));
            peer.poll(&mut Inbox::default(), 16);
            rank.poll(&mut inbox, 1);
            assert!(start.elapsed() < PATIENCE, "they stay");
        }
        while inbox.messages() < sent {
            peer.poll(&mut Inbox::default(), 16);
            rank.poll(&mut inbox, 16);
        }
        std::thread::scope(|scope| {
            let start = Instant::now();
            let mut sender = Some(&mut peer);
            while inbox.messages() == sent {
                let bell = rank.bell.clone();
                let ticket = bell.prepare();
                if rank.poll(&mut inbox, 16) > 0 {
                    bell.cancel(ticket);
                    continue;
                }
                if rank.may_sleep
                    && let Some(peer) = sender.take()
                {
                    assert!(rank.watching.is_on());
                    scope.spawn(move || {
                        while peer.try_send(Peer(0), &[2; HEAD], &[]) != Ok(Posted::Done) {
                            peer.poll(&mut Inbox::default(), 16);
                        }
                    });
                }
                bell.wait(ticket, Some(PATIENCE));
                assert!(start.elapsed() < PATIENCE, "nobody has woken it");
            }
            assert!(sender.is_none(), "it has slept");
        });
    }
}
