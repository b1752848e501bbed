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

use std::collections::BTreeMap;

use weft_fabric::{Fabric, Guest, Head, Limits, Operation, Peer, SharedBytes, Sink, SyncKey};

use crate::counters::Clock;
use crate::error::{Code, Error, Result, lost};
use crate::frame::{Frame, Kind};
use crate::mailbox::Mailboxes;
use crate::name::Names;
use crate::outbox::Outbox;
use crate::portal::Portals;
use crate::sync::Syncs;

/// Ports of a node, per service.
pub const PORTS: usize = 256;

/// A node that is not there any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    reason: String,
    /// It said that it leaves: nothing more is sent to it.
    left: bool,
}

/// One node's services, without the endpoint that they use.
#[derive(Debug)]
pub struct Core {
    pub(crate) me: u32,
    pub(crate) nodes: u32,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) outbox: Outbox,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) portals: Portals,
    pub(crate) syncs: Syncs,
    pub(crate) names: Names,
    /// Who is dead or has left, until something of it arrives again.
    pub(crate) gone: BTreeMap<u32, Gone>,
    /// Every death so far, in order: inputs tell their readers once each.
    pub(crate) deaths: Vec<u32>,
    /// Whose transfers are to be ended.
    newly_lost: Vec<(u32, Error)>,
    /// Frames that made no sense.
    refused: u64,
}

impl Core {
    /// The services of the node at this endpoint.
    #[must_use]
    pub fn new(fabric: &dyn Fabric) -> Self {
        let nodes = fabric.peers();
        Self {
            me: fabric.me().0,
            nodes,
            limits: fabric.limits(),
            clock: Clock::of(fabric),
            outbox: Outbox::new(nodes),
            mailboxes: Mailboxes::new(nodes),
            portals: Portals::new(),
            syncs: Syncs::new(),
            names: Names::default(),
            gone: BTreeMap::new(),
            deaths: Vec::new(),
            newly_lost: Vec::new(),
            refused: 0,
        }
    }

    /// Tells everybody that this node leaves. To be called once, when no operation is under way.
    pub(crate) fn leave(&mut self, fabric: &mut dyn Fabric) {
        for node in (0..self.nodes).filter(|node| *node != self.me) {
            if !self.gone.contains_key(&node) {
                self.outbox
                    .post(fabric, node, Frame::new(Kind::Left, 0, 0), &[]);
            }
        }
    }

    /// The error of whoever needs this node, if it is gone.
    #[inline]
    pub(crate) fn check_there(&self, node: u32) -> Result<()> {
        if self.gone.is_empty() {
            return Ok(());
        }
        match self.gone.get(&node) {
            None => Ok(()),
            Some(gone) => Err(lost(node, &gone.reason)),
        }
    }

    /// As [`Self::check_there`], for a sender: a node that died may have been started anew, which the
    /// fabric knows best.
    #[cold]
    pub(crate) fn check_reachable(&self, node: u32) -> Result<()> {
        match self.gone.get(&node) {
            Some(gone) if gone.left => Err(lost(node, &gone.reason)),
            _ => Ok(()),
        }
    }

    /// Why a node is lost, if it is.
    pub(crate) fn why_lost(&self, node: u32) -> String {
        match self.gone.get(&node) {
            Some(gone) => gone.reason.clone(),
            None => "it was lost, and started anew since".into(),
        }
    }

    /// Whether all other nodes are gone.
    pub(crate) fn is_last(&self) -> bool {
        self.nodes > 1 && self.gone.len() + 1 >= self.nodes as usize
    }

    /// A node takes messages: if it was gone, it is back.
    #[inline]
    pub(crate) fn is_back(&mut self, node: u32) {
        if !self.gone.is_empty() {
            self.gone.remove(&node);
        }
    }

    /// A node out of range.
    pub(crate) fn node(&self, node: i32) -> Result<u32> {
        match u32::try_from(node) {
            Ok(known) if known < self.nodes => Ok(known),
            _ => Err(Error::new(
                Code::Invalid,
                format!(
                    "there is no node {node}: the job has nodes 0 to {}",
                    self.nodes - 1
                ),
            )),
        }
    }

    /// This node, for inputs.
    pub(crate) fn own_node(&self, node: i32) -> Result<()> {
        if self.node(node)? == self.me {
            return Ok(());
        }
        Err(Error::new(
            Code::Invalid,
            format!(
                "an input was to be made at node {node}, but this is node {}: a node makes its own inputs, others open outputs to them",
                self.me
            ),
        ))
    }

    /// Whether [`settle`](Guest::settle) has anything to do.
    #[inline]
    fn has_work(&self) -> bool {
        !self.outbox.is_empty()
            || !self.newly_lost.is_empty()
            || self.mailboxes.has_work()
            || self.portals.has_work()
            || self.syncs.has_work()
            || self.has_questions()
    }

    /// A node is gone. What needs the fabric is done by `settle`; all else at once, so that what
    /// arrives of a node that was started anew comes after it.
    #[cold]
    fn note_gone(&mut self, node: u32, reason: &str, died: bool) {
        let error = lost(node, reason);
        self.gone.insert(
            node,
            Gone {
                reason: reason.to_owned(),
                left: !died,
            },
        );
        if died {
            self.deaths.push(node);
        }
        self.names.drop_node(node);
        self.mailboxes.lose(node, &error, died);
        self.portals.forget(node, &error);
        self.newly_lost.push((node, error));
    }
}

/// A port out of range.
pub(crate) fn port(port: i32) -> Result<u8> {
    u8::try_from(port).map_err(|_| {
        Error::new(
            Code::Invalid,
            format!("{port} is no port: ports lie between 0 and {}", PORTS - 1),
        )
    })
}

impl Sink for Core {
    #[inline]
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        let node = from.0;
        self.is_back(node);
        let Some(frame) = Frame::from_head(head) else {
            self.refused += 1;
            return;
        };
        let accepted = match frame.kind {
            Kind::Mail => self.mailboxes.arrive(node, frame, data),
            Kind::Credit => self.mailboxes.credit(node, frame),
            Kind::Permit => self.portals.permitted(node, frame),
            Kind::Offer => self.portals.offered(node, frame),
            Kind::Data => self.portals.data(node, frame, data),
            Kind::Placed => self.portals.placed(node, frame),
            Kind::Taken => self.portals.taken(node, frame),
            Kind::Named => self.names.named(node, frame.target, data),
            Kind::Unnamed => self.names.unnamed(node, data),
            Kind::Asked => self.names.asked(node, data),
            Kind::Left => {
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
        if !self.gone.get(&peer.0).is_some_and(|gone| gone.left) {
            self.note_gone(peer.0, reason, true);
        }
    }

    fn signalled(&mut self, from: Peer, _key: SyncKey) {
        // Counted by the fabric; those who wait look again.
        self.is_back(from.0);
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
            self.outbox.drop_node(node);
            self.portals.lose(fabric, node, &error);
        }
        if !self.outbox.is_empty() {
            moved |= self.outbox.flush(fabric);
        }
        moved |= self.settle_mail(fabric);
        moved |= self.settle_portals(fabric);
        moved |= self.settle_syncs(fabric);
        moved |= self.settle_names(fabric);
        moved
    }

    #[inline]
    fn is_settled(&self) -> bool {
        !self.has_work()
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
