//! Outbox: frames that the fabric did not take yet, in order per node. While one waits for a node, all later frames for
//! it wait behind; other nodes are not delayed.

use std::collections::VecDeque;

use weft_fabric::{Fabric, Head, Peer, Posted};

use crate::frame::Frame;

/// What waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queues: Vec<VecDeque<(Head, Vec<u8>)>>,
    /// Nodes whose queue is not empty.
    busy: Vec<u32>,
}

impl Outbox {
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            queues: (0..nodes).map(|_| VecDeque::new()).collect(),
            busy: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether nothing waits for this node.
    #[inline]
    pub(crate) fn is_clear(&self, to: u32) -> bool {
        self.busy.is_empty() || self.queues[to as usize].is_empty()
    }

    /// Sends a frame now or later. To a node that is lost: never, and the fabric says so by itself.
    pub(crate) fn post(&mut self, fabric: &mut dyn Fabric, to: u32, frame: Frame, data: &[u8]) {
        let head = frame.to_head();
        if self.is_clear(to) {
            match fabric.try_send(Peer(to), &head, data) {
                Ok(Posted::Retry) => self.busy.push(to),
                Ok(_) | Err(_) => return,
            }
        }
        self.queues[to as usize].push_back((head, data.to_vec()));
    }

    /// Sends what goes. True if something went.
    pub(crate) fn flush(&mut self, fabric: &mut dyn Fabric) -> bool {
        let mut moved = false;
        let Self { queues, busy } = self;
        busy.retain(|&to| {
            let queue = &mut queues[to as usize];
            while let Some((head, data)) = queue.front() {
                if let Ok(Posted::Retry) = fabric.try_send(Peer(to), head, data) {
                    return true;
                }
                queue.pop_front();
                moved = true;
            }
            false
        });
        moved
    }

    /// Forgets what waits for a node.
    pub(crate) fn drop_node(&mut self, node: u32) {
        self.queues[node as usize].clear();
        self.busy.retain(|&busy| busy != node);
    }
}
