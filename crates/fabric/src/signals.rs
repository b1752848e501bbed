//! Counts of signals that have arrived, for fabrics that carry them as messages.

use std::collections::HashMap;

use crate::{Peer, SyncKey};

/// Signals that have arrived and were not taken, per key and sender. A key exists from its first signal on, so an early
/// signal is kept.
#[derive(Default, Debug)]
pub struct SignalTable {
    /// Keys of a job's own peers: a hash that withstands an attacker is not needed, a fast one is.
    counts: HashMap<(SyncKey, Peer), u64, foldhash::fast::RandomState>,
}

impl SignalTable {
    /// One more signal of `from` under `key`.
    pub fn arrive(&mut self, from: Peer, key: SyncKey) {
        *self.counts.entry((key, from)).or_default() += 1;
    }

    /// Number of signals that can be taken.
    #[must_use]
    pub fn count(&self, from: Peer, key: SyncKey) -> u64 {
        self.counts.get(&(key, from)).copied().unwrap_or(0)
    }

    /// Takes `count`, or takes nothing and returns false.
    pub fn take(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        if count == 0 {
            return true;
        }
        match self.counts.get_mut(&(key, from)) {
            Some(there) if *there > count => {
                *there -= count;
                true
            }
            Some(there) if *there == count => {
                self.counts.remove(&(key, from));
                true
            }
            _ => false,
        }
    }

    /// Drops all signals of `from`, whose number another process has.
    pub fn forget_peer(&mut self, from: Peer) {
        self.counts.retain(|(_, of), _| *of != from);
    }

    /// Drops all signals under `key`.
    pub fn forget(&mut self, key: SyncKey) {
        self.counts.retain(|(of, _), _| *of != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_and_double_signals_are_kept_and_taken_once() {
        let mut table = SignalTable::default();
        let (peer, key) = (Peer(3), SyncKey(7));
        table.arrive(peer, key);
        table.arrive(peer, key);
        assert_eq!(table.count(peer, key), 2);
        assert!(!table.take(peer, key, 3), "not as many");
        assert!(table.take(peer, key, 2));
        assert!(!table.take(peer, key, 1));
        table.arrive(peer, key);
        table.forget(key);
        assert_eq!(table.count(peer, key), 0);
    }
}
