//! Deaf: a sink that ignores everything.

use crate::{Head, Operation, Peer, Result, SharedBytes, Sink, SyncKey};

/// Polling a fabric with it makes progress, and drops what arrives: for an endpoint that leaves.
#[derive(Clone, Copy, Default, Debug)]
pub struct Deaf;

impl Sink for Deaf {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {}
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}
