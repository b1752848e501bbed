//! The state of one node: what the fabric reports to while it is polled, and what is done after.
//!
//! ```text
//!   calls ──► mailbox · portal · sync · name ──► fabric.try_send · put · get · signal
//!                      ▲                               │
//!                      │ settle: stalled writes, pulls, queued frames, losses
//!                      └── Core (a Sink) ◄── fabric.poll
//! ```
//!
//! Nothing here blocks, and nothing here polls: [`Host`](crate::Host) does both.

use weft_fabric::{Changes, Fabric, Guest, Head, Operation, Peer, SharedBytes, Sink, SyncKey};

use crate::awaited::On;
use crate::common::Common;
use crate::error::{Error, lost};
use crate::frame::{Frame, FrameKind};
use crate::mailbox::Mailboxes;
use crate::name::Names;
use crate::portal::Portals;
use crate::sync::Syncs;

/// One node's services, without the endpoint that they use.
#[derive(Debug)]
pub struct Core {
    common: Common,
    mailboxes: Mailboxes,
    portals: Portals,
    syncs: Syncs,
    names: Names,
    /// Whose transfers are to be ended.
    newly_lost: Vec<(u32, Error)>,
    /// Frames that made no sense.
    refused: u64,
}

impl Core {
    /// The services of the node at this endpoint.
    #[must_use]
    pub fn new(fabric: &dyn Fabric) -> Self {
        Self::among(fabric, fabric.peers())
    }

    /// As [`new`](Self::new), of so many nodes: the first peers of the fabric.
    #[must_use]
    pub fn among(fabric: &dyn Fabric, nodes: u32) -> Self {
        Self {
            common: Common::of(fabric, nodes),
            mailboxes: Mailboxes::new(fabric.peers()),
            portals: Portals::new(),
            syncs: Syncs::new(),
            names: Names::default(),
            newly_lost: Vec::new(),
            refused: 0,
        }
    }

    /// What all services share.
    #[inline]
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// The mailboxes, and what their operations are given.
    #[inline]
    pub(crate) fn mailboxes(&mut self) -> (&mut Mailboxes, &mut Common) {
        (&mut self.mailboxes, &mut self.common)
    }

    /// The portals, and what their operations are given.
    #[inline]
    pub(crate) fn portals(&mut self) -> (&mut Portals, &mut Common) {
        (&mut self.portals, &mut self.common)
    }

    /// The syncs, and what their operations are given.
    #[inline]
    pub(crate) fn syncs(&mut self) -> (&mut Syncs, &mut Common) {
        (&mut self.syncs, &mut self.common)
    }

    /// The names, and what their operations are given.
    #[inline]
    pub(crate) fn names(&mut self) -> (&mut Names, &mut Common) {
        (&mut self.names, &mut self.common)
    }

    /// Tells everybody that this node leaves. To be called once, when no operation is under way.
    pub(crate) fn leave(&mut self, fabric: &mut dyn Fabric) {
        let Common { nodes, outbox, .. } = &mut self.common;
        for node in nodes.others() {
            if !nodes.is_gone(node) {
                outbox.post(fabric, node, Frame::new(FrameKind::Left, 0, 0), &[]);
            }
        }
    }

    /// Whether [`settle`](Guest::settle) has anything to do.
    #[inline]
    fn has_work(&self) -> bool {
        !self.common.outbox.is_empty()
            || !self.newly_lost.is_empty()
            || self.mailboxes.has_work()
            || self.portals.has_work()
            || self.syncs.has_work()
            || self.names.has_work()
    }

    /// A node is gone. What needs the fabric is done by `settle`; all else at once, so that what
    /// arrives of a node that was started anew comes after it.
    #[cold]
    fn note_gone(&mut self, node: u32, reason: &str, died: bool) {
        let error = lost(node, reason);
        self.common.nodes.note_gone(node, reason, died);
        self.common.changes.note_everything();
        self.names.drop_node(node);
        self.mailboxes.lose(node, &error, died);
        self.portals.forget(node, &error);
        self.newly_lost.push((node, error));
    }
}

impl Sink for Core {
    #[inline]
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let node = from.0;
        self.common.nodes.is_back(node);
        let Some(frame) = Frame::from_head(head) else {
            self.refused += 1;
            return;
        };
        let accepted = match frame.kind {
            FrameKind::Mail => {
                let Self {
                    mailboxes, common, ..
                } = self;
                mailboxes.arrive(common, node, frame, data)
            }
            FrameKind::Credit => self.mailboxes.credit(node, frame),
            FrameKind::Permit => self.portals.permitted(node, frame),
            FrameKind::Offer => self.portals.offered(node, frame),
            FrameKind::Data => self.portals.data(node, frame, data),
            FrameKind::Placed => self.portals.placed(node, frame),
            FrameKind::Taken => self.portals.taken(node, frame),
            FrameKind::Named => {
                self.common.changes.note(On::Names.subject());
                self.names.named(node, frame.target, data)
            }
            FrameKind::Unnamed => self.names.unnamed(node, data),
            FrameKind::Asked => self.names.asked(node, data),
            FrameKind::Left => {
                self.note_gone(node, "it has left the job", false);
                true
            }
        };
        self.refused += u64::from(!accepted);
    }

    fn transfer_completed(&mut self, operation: Operation, result: weft_fabric::Result<()>) {
        self.portals.transfer_completed(operation, result);
    }

    fn lost(&mut self, peer: Peer, reason: &str) {
        // What left in order may end as it likes.
        if !self.common.nodes.has_left(peer.0) {
            self.note_gone(peer.0, reason, true);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        // Counted by the fabric; those who wait look again.
        self.common.nodes.is_back(from.0);
        self.syncs.signalled(&mut self.common.changes, key);
    }
}

impl Guest for Core {
    #[inline]
    fn settle(&mut self, fabric: &mut dyn Fabric) -> bool {
        if !self.has_work() {
            return false;
        }
        let mut moved = false;
        for (node, error) in std::mem::take(&mut self.newly_lost) {
            moved = true;
            self.common.outbox.drop_node(node);
            self.portals.lose(fabric, node, &error);
        }
        let common = &mut self.common;
        if !common.outbox.is_empty() {
            moved |= common.outbox.flush(fabric);
            if common.outbox.is_empty() {
                common.changes.note(On::Outbox.subject());
            }
        }
        moved |= self.mailboxes.settle(common, fabric);
        moved |= self.portals.settle(common, fabric);
        moved |= self.syncs.settle(common, fabric);
        moved |= self.names.settle(common, fabric);
        moved
    }

    #[inline]
    fn is_settled(&self) -> bool {
        !self.has_work()
    }

    #[inline]
    fn changes(&mut self) -> &mut Changes {
        &mut self.common.changes
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
