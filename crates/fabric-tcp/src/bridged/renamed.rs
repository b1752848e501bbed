//! Renamed: a sink that gives members of a bridge the numbers that they have at this process.

use weft_fabric::{FabricError, Head, Operation, Peer, Result, SharedBytes, Sink, SyncKey};

use super::bridge::GREETING;
use super::places::Places;

/// An error of a bridge, with the number that the peer has here.
#[cold]
pub(super) fn named(error: FabricError, peer: Peer) -> FabricError {
    match error {
        FabricError::PeerLost { reason, .. } => FabricError::PeerLost { peer, reason },
        FabricError::NotGranted { .. } => FabricError::NotGranted { peer },
        FabricError::OutsideGrant { offset, length, .. } => FabricError::OutsideGrant {
            peer,
            offset,
            length,
        },
        FabricError::NotShared { .. } => FabricError::NotShared { peer },
        FabricError::NotAllocated { .. } => FabricError::NotAllocated { peer },
        other => other,
    }
}

/// Gives members of a bridge the numbers that they have here.
pub(super) struct Renamed<'a> {
    sink: &'a mut dyn Sink,
    places: &'a Places,
}

impl<'a> Renamed<'a> {
    pub fn new(sink: &'a mut dyn Sink, places: &'a Places) -> Self {
        Self { sink, places }
    }

    fn peer(&self, number: Peer) -> Option<Peer> {
        self.places.peer(number)
    }
}

impl Sink for Renamed<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if let Some(from) = self.peer(from) {
            self.sink.message(from, head, data);
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        let result = result.map_err(|error| match &error {
            FabricError::PeerLost { peer, .. }
            | FabricError::NotGranted { peer }
            | FabricError::OutsideGrant { peer, .. } => match self.peer(*peer) {
                Some(peer) => named(error, peer),
                None => error,
            },
            _ => error,
        });
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        let index = self.places.index(peer).unwrap_or(0);
        if let Some(peer) = self.peer(peer) {
            let reason =
                format!("{reason} (rank {index} of the group that was connected from another job)");
            self.sink.lost(peer, &reason);
        }
    }

    fn departed(&mut self, peer: Peer, reason: &str) {
        if let Some(peer) = self.peer(peer) {
            self.sink.departed(peer, reason);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        if let Some(from) = self.peer(from).filter(|_| key != GREETING) {
            self.sink.signalled(from, key);
        }
    }
}
