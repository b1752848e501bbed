//! Names of ports: which port has which name, as far as this node knows.
//!
//! A node that gives a name to a port tells all nodes, so a look-up asks none. A node that waits for a name that it does
//! not know asks all once; the owner answers. This is also how a node that was started anew learns of names that were
//! given before. Names end with the node that has them.
//!
//! If two nodes take a name at the same time, the lower one keeps it, at all nodes alike.

use std::collections::HashMap;

use weft_fabric::{Fabric, SharedBytes};

use crate::awaited::On;
use crate::common::Common;
use crate::error::{Code, Error, Result};
use crate::frame::{Frame, FrameKind};
use crate::ports;

/// Bytes of the longest name.
pub const MAX: usize = 63;

/// The names known.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<String, (u32, u8)>,
    /// Nodes that asked for a name that may be ours.
    questions: Vec<(u32, String)>,
}

impl Names {
    /// A node says that it has a name.
    pub(crate) fn named(&mut self, from: u32, port: u8, data: SharedBytes<'_>) -> bool {
        let Some(name) = name_of(data) else {
            return false;
        };
        match self.known.get(&name) {
            Some((other, _)) if *other < from => {}
            _ => _ = self.known.insert(name, (from, port)),
        }
        true
    }

    /// A node gives a name up.
    pub(crate) fn unnamed(&mut self, from: u32, data: SharedBytes<'_>) -> bool {
        let Some(name) = name_of(data) else {
            return false;
        };
        if self.known.get(&name).is_some_and(|(node, _)| *node == from) {
            self.known.remove(&name);
        }
        true
    }

    /// A node wants to know who has a name.
    pub(crate) fn asked(&mut self, from: u32, data: SharedBytes<'_>) -> bool {
        let Some(name) = name_of(data) else {
            return false;
        };
        self.questions.push((from, name));
        true
    }

    /// A node is gone, and its names with it.
    pub(crate) fn drop_node(&mut self, node: u32) {
        self.known.retain(|_, (owner, _)| *owner != node);
    }
}

/// The name in a frame, if it has one.
fn name_of(data: SharedBytes<'_>) -> Option<String> {
    if data.is_empty() || data.len() > MAX {
        return None;
    }
    String::from_utf8(data.to_vec()).ok()
}

fn check(name: &str) -> Result<()> {
    if (1..=MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::new(
        Code::Invalid,
        format!(
            "a name has 1 to {MAX} bytes, this one {}: '{name}'",
            name.len()
        ),
    ))
}

/// Sends a frame with a name to all other nodes that have not left.
fn tell_all(common: &mut Common, fabric: &mut dyn Fabric, frame: Frame, name: &str) {
    for node in common.nodes.others() {
        if common.nodes.check_reachable(node).is_ok() {
            common.outbox.post(fabric, node, frame, name.as_bytes());
        }
    }
}

#[cold]
pub(crate) fn unknown(name: &str) -> Error {
    Error::new(
        Code::NoEntry,
        format!("nobody is known to have the name '{name}'; find it to wait until somebody has"),
    )
}

impl Names {
    /// Gives a name to a port of this node.
    pub(crate) fn link(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        name: &str,
        port: i32,
    ) -> Result<()> {
        check(name)?;
        let port = ports::port(port)?;
        if let Some((node, other)) = self.known.get(name) {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "port {other} of node {node} has the name '{name}' already; unlink it there first, or take another name"
                ),
            ));
        }
        self.known
            .insert(name.to_owned(), (common.nodes.me(), port));
        common.changes.note(On::Names.subject());
        tell_all(common, fabric, Frame::new(FrameKind::Named, port, 0), name);
        Ok(())
    }

    /// Takes a name of this node back.
    pub(crate) fn unlink(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        name: &str,
    ) -> Result<()> {
        check(name)?;
        match self.known.get(name) {
            None => Err(unknown(name)),
            Some((node, _)) if *node != common.nodes.me() => Err(Error::new(
                Code::Busy,
                format!("node {node} has the name '{name}', so only it can give it up"),
            )),
            Some(_) => {
                self.known.remove(name);
                tell_all(common, fabric, Frame::new(FrameKind::Unnamed, 0, 0), name);
                Ok(())
            }
        }
    }

    /// The owner of a name, as far as this node knows.
    pub(crate) fn lookup(&self, name: &str) -> Result<(u32, u8)> {
        check(name)?;
        self.known.get(name).copied().ok_or_else(|| unknown(name))
    }

    /// Asks all nodes for a name.
    pub(crate) fn ask(&mut self, common: &mut Common, fabric: &mut dyn Fabric, name: &str) {
        tell_all(common, fabric, Frame::new(FrameKind::Asked, 0, 0), name);
    }

    /// Answers questions, and repeats our claim if a name of ours was taken at the same time.
    pub(crate) fn settle(&mut self, common: &mut Common, fabric: &mut dyn Fabric) -> bool {
        let questions = std::mem::take(&mut self.questions);
        let asked = !questions.is_empty();
        for (from, name) in questions {
            if let Some(&(node, port)) = self.known.get(&name)
                && node == common.nodes.me()
            {
                let frame = Frame::new(FrameKind::Named, port, 0);
                common.outbox.post(fabric, from, frame, name.as_bytes());
            }
        }
        asked
    }

    /// Whether anybody asked for a name.
    pub(crate) fn has_work(&self) -> bool {
        !self.questions.is_empty()
    }
}
