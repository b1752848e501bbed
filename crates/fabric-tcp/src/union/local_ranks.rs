//! Ranks of this host: the numbers that they have in the job and in the fabric of the host.
//!
//! *Invariant:* what the local fabric says of its members has their numbers in the job when it leaves the union.

use weft_fabric::{FabricError, Head, Operation, Peer, Result, SharedBytes, Sink, SyncKey};

/// The ranks on this host, and their numbers in the fabric of the host.
#[derive(Clone, Debug)]
pub struct LocalRanks {
    local: Vec<Option<u32>>,
    ranks: Vec<u32>,
}

impl LocalRanks {
    /// From the ranks of this host in the order of their numbers there, `size` is the number of all ranks.
    #[must_use]
    pub fn new(size: u32, here: Vec<u32>) -> Self {
        let mut local = vec![None; size as usize];
        for (number, rank) in here.iter().enumerate() {
            if let Some(place) = local.get_mut(*rank as usize) {
                *place = Some(number as u32);
            }
        }
        Self { local, ranks: here }
    }

    /// The number of a member of the job in the host's fabric; `None`: it is on another host.
    #[inline]
    #[must_use]
    pub fn local(&self, peer: Peer) -> Option<Peer> {
        self.local.get(peer.index()).copied().flatten().map(Peer)
    }

    /// The number in the job of a member of the host's fabric.
    #[inline]
    pub(super) fn global(&self, peer: Peer) -> Peer {
        Peer(self.ranks.get(peer.index()).copied().unwrap_or(u32::MAX))
    }

    /// An error of the local fabric, with the peer's number in the job.
    #[cold]
    pub(super) fn error(&self, error: FabricError) -> FabricError {
        match error {
            FabricError::PeerLost { peer, reason } => FabricError::PeerLost {
                peer: self.global(peer),
                reason,
            },
            FabricError::NotGranted { peer } => FabricError::NotGranted {
                peer: self.global(peer),
            },
            FabricError::OutsideGrant {
                peer,
                offset,
                length,
            } => FabricError::OutsideGrant {
                peer: self.global(peer),
                offset,
                length,
            },
            FabricError::NotShared { peer } => FabricError::NotShared {
                peer: self.global(peer),
            },
            FabricError::NotAllocated { peer } => FabricError::NotAllocated {
                peer: self.global(peer),
            },
            other => other,
        }
    }
}

/// Gives peers of the local fabric their numbers in the job.
pub(super) struct Renamed<'a> {
    sink: &'a mut dyn Sink,
    ranks: &'a LocalRanks,
}

impl<'a> Renamed<'a> {
    /// For what the local fabric of these ranks hands out.
    #[inline]
    pub fn new(sink: &'a mut dyn Sink, ranks: &'a LocalRanks) -> Self {
        Self { sink, ranks }
    }
}

impl Sink for Renamed<'_> {
    #[inline]
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        self.sink.message(self.ranks.global(from), head, data);
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.sink
            .transfer_completed(operation, result.map_err(|error| self.ranks.error(error)));
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        self.sink.lost(self.ranks.global(peer), reason);
    }

    fn departed(&mut self, peer: Peer, reason: &str) {
        self.sink.departed(self.ranks.global(peer), reason);
    }

    fn replaced(&mut self, peer: Peer) {
        self.sink.replaced(self.ranks.global(peer));
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        self.sink.signalled(self.ranks.global(from), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_host_are_those_of_its_ranks_and_others_have_none() {
        let ranks = LocalRanks::new(4, vec![3, 1]);
        let local: Vec<_> = (0..5).map(|rank| ranks.local(Peer(rank))).collect();
        assert_eq!(local, [None, Some(Peer(1)), None, Some(Peer(0)), None]);
        let error = FabricError::NotGranted { peer: Peer(0) };
        let of_the_job = FabricError::NotGranted { peer: Peer(3) };
        assert_eq!(ranks.error(error), of_the_job);
    }
}
