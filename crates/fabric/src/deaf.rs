//! Deaf: a sink that hears nothing.

use crate::{Head, Operation, Peer, Result, SharedBytes, Sink, SyncKey};

/// Whoever polls a fabric with it moves things along, and drops what comes: an endpoint that leaves.
#[derive(Clone, Copy, Default, Debug)]
pub struct Deaf;

impl Sink for Deaf {
    fn message(&mut self, _: Peer, _: &Head, _: SharedBytes<'_>) {}
    fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
    fn lost(&mut self, _: Peer, _: &str) {}
    fn signalled(&mut self, _: Peer, _: SyncKey) {}
}
