//! Common to all services of a node: the nodes, frames that wait, the clock and the limits of the fabric.

use weft_fabric::{Changes, Fabric, Limits};

use crate::counters::Clock;
use crate::nodes::Nodes;
use crate::outbox::Outbox;

/// Parts of a node that every operation of a service is given beside its own state.
#[derive(Debug)]
pub(crate) struct Common {
    pub nodes: Nodes,
    pub outbox: Outbox,
    pub clock: Clock,
    pub limits: Limits,
    /// For whom of those that wait something has changed.
    pub changes: Changes,
}

impl Common {
    /// That of the node at this endpoint, one of so many.
    pub(crate) fn of(fabric: &dyn Fabric, nodes: u32) -> Self {
        Self {
            nodes: Nodes::new(fabric.me().0, nodes),
            outbox: Outbox::new(fabric.peers()),
            clock: Clock::of(fabric),
            limits: fabric.limits(),
            changes: Changes::default(),
        }
    }
}
