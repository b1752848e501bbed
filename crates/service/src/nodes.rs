//! Nodes of the job: which one this is, and which ones are gone.
//!
//! A node that is gone is back as soon as anything from it arrives, or a message to it is taken: it was started anew.

use std::collections::BTreeMap;

use weft_fabric::{Fabric, Peer};

use crate::error::{Code, Error, Result, lost};

/// A node that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Gone {
    reason: String,
    /// It said that it leaves: nothing more is sent to it.
    left: bool,
}

/// All nodes, as this one knows them.
#[derive(Debug)]
pub(crate) struct Nodes {
    me: u32,
    count: u32,
    /// Nodes that are dead or have left, until something from them arrives again.
    gone: BTreeMap<u32, Gone>,
    /// Every death so far, in order: inputs tell their readers once each.
    deaths: Vec<u32>,
}

impl Nodes {
    /// All of them are there, as far as `me` knows.
    pub(crate) fn new(me: u32, count: u32) -> Self {
        Self {
            me,
            count,
            gone: BTreeMap::new(),
            deaths: Vec::new(),
        }
    }

    /// Number of this node.
    #[inline]
    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    /// How many nodes there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The others.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.me;
        (0..self.count).filter(move |node| *node != me)
    }

    /// Whether any node is gone.
    #[inline]
    pub(crate) fn any_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether a node is gone.
    pub(crate) fn is_gone(&self, node: u32) -> bool {
        self.gone.contains_key(&node)
    }

    /// Whether a node has said that it leaves.
    pub(crate) fn has_left(&self, node: u32) -> bool {
        self.gone.get(&node).is_some_and(|gone| gone.left)
    }

    /// A node has died, or has left in order.
    pub(crate) fn note_gone(&mut self, node: u32, reason: &str, died: bool) {
        let gone = Gone {
            reason: reason.to_owned(),
            left: !died,
        };
        self.gone.insert(node, gone);
        if died {
            self.deaths.push(node);
        }
    }

    /// How many deaths there were so far.
    pub(crate) fn deaths(&self) -> usize {
        self.deaths.len()
    }

    /// Who died as number `index`, if so many did.
    pub(crate) fn death(&self, index: usize) -> Option<u32> {
        self.deaths.get(index).copied()
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

    /// Whether all other nodes are gone, and none of them is started anew.
    pub(crate) fn is_last(&self, fabric: &dyn Fabric) -> bool {
        let mut gone = self.gone.iter();
        self.count > 1
            && self.gone.len() + 1 >= self.count as usize
            && gone.all(|(node, gone)| gone.left || !fabric.may_return(Peer(*node)))
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
            Ok(known) if known < self.count => Ok(known),
            _ => Err(Error::new(
                Code::Invalid,
                format!(
                    "there is no node {node}: the job has nodes 0 to {}",
                    self.count - 1
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
}
