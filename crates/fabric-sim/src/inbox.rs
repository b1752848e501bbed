//! Inbox of one rank: what is under way to it, by time of arrival. Ties are broken by a random draw.

use std::collections::BTreeMap;

use weft_fabric::{FabricError, Head, Operation, Peer, Result, SyncKey};

use crate::grants::Transfer;

/// An arrival at a rank.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    /// There is room again after a refusal.
    Room,
    /// A peer has stored something that the rank may wait for.
    Wake {
        from: Peer,
    },
    /// A transfer of the rank ends, if it is still permitted.
    Transfer(Transfer),
    /// A transfer of the rank has failed.
    FailedTransfer {
        operation: Operation,
        error: FabricError,
    },
    Loss {
        peer: Peer,
        reason: &'static str,
    },
}

/// Things that a poll hands out.
#[derive(Debug)]
pub(crate) enum Delivery {
    Message {
        from: Peer,
        head: Head,
        data: Vec<u8>,
    },
    Signal {
        from: Peer,
        key: SyncKey,
    },
    Room,
    Wake,
    TransferCompleted(Operation, Result<()>),
    Lost(Peer, &'static str),
}

/// Everything that is under way to one rank.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// By time, draw and serial number.
    arrivals: BTreeMap<(u64, u64, u64), Arrival>,
    serial: u64,
}

impl Inbox {
    /// Something will arrive at `time`. Among equal times the lowest `draw` is first.
    pub(crate) fn push(&mut self, time: u64, draw: u64, arrival: Arrival) {
        self.serial += 1;
        self.arrivals.insert((time, draw, self.serial), arrival);
    }

    /// When the next one arrives.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.arrivals.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Takes the next one, if it has arrived by then.
    pub(crate) fn pop_by(&mut self, time: u64) -> Option<Arrival> {
        if self.next_arrival()? > time {
            return None;
        }
        self.arrivals.pop_first().map(|(_, arrival)| arrival)
    }

    pub(crate) fn clear(&mut self) {
        self.arrivals.clear();
    }
}
