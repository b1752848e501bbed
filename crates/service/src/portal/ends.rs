//! Making and ending portals, permission, and what is asked of them.

use super::{ANSWERS, End, Reader, Side, Writer};
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy, wrong_end};
use crate::state::{self, Core};

impl Core {
    /// Makes the input at a port of this node.
    pub(crate) fn portal_create(&mut self, node: i32, port: i32) -> Result<i32> {
        self.own_node(node)?;
        let number = state::port(port)?;
        let portals = &mut self.portals;
        if portals.inputs[usize::from(number)].is_some() {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "port {port} has an input already; unlink that one first, or take another port"
                ),
            ));
        }
        let id = portals.ends.insert(End {
            side: Side::In(Reader {
                port: number,
                allowed: None,
            }),
            transfer: None,
            broken: None,
            meter: Meter::default(),
        })?;
        portals.inputs[usize::from(number)] = Some(id);
        portals.counts.creates += 1;
        Ok(id)
    }

    /// Opens an output from this node to a port of any node.
    pub(crate) fn portal_open(&mut self, local: i32, node: i32, port: i32) -> Result<i32> {
        if self.node(local)? != self.me {
            return Err(Error::new(
                Code::Invalid,
                format!(
                    "an output was to be opened at node {local}, but this is node {}",
                    self.me
                ),
            ));
        }
        let node = self.node(node)?;
        let port = state::port(port)?;
        let source = self.portals.sources.take(node, usize::from(ANSWERS))?;
        let opened = self.open_from(node, port, source);
        if opened.is_err() {
            self.portals.sources.give_back(node, source);
        }
        opened
    }

    /// Opens the output by which a server gives a value.
    pub(crate) fn portal_open_answer(&mut self, node: u32, port: u8) -> Result<i32> {
        if self.portals.outputs.contains_key(&(node, port, ANSWERS)) {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "another thread gives a value to port {port} of node {node}; one at a time"
                ),
            ));
        }
        self.open_from(node, port, ANSWERS)
    }

    fn open_from(&mut self, node: u32, port: u8, source: u8) -> Result<i32> {
        let portals = &mut self.portals;
        let id = portals.ends.insert(End {
            side: Side::Out(Writer { node, port, source }),
            transfer: None,
            broken: None,
            meter: Meter::default(),
        })?;
        portals.outputs.insert((node, port, source), id);
        portals.counts.opens += 1;
        Ok(id)
    }

    /// Permits one transfer.
    pub(crate) fn portal_allow(&mut self, id: i32, node: i32, source: i32) -> Result<()> {
        let node = self.node(node)?;
        let source = state::port(source)?;
        let end = self.portals.ends.get(id)?;
        let underway = end.transfer.is_some();
        match &mut end.side {
            Side::Out(_) => Err(wrong_end(id, "output", "open", "input")),
            Side::In(_) if underway => Err(busy(id)),
            Side::In(reader) => match reader.allowed {
                Some((other, _)) => Err(Error::new(
                    Code::Busy,
                    format!(
                        "portal {id} allows a transfer of node {other} already; read that one first"
                    ),
                )),
                None => {
                    reader.allowed = Some((node, source));
                    Ok(())
                }
            },
        }
    }

    /// Ends an input (`input`) or an output.
    pub(crate) fn portal_end(&mut self, id: i32, input: bool) -> Result<()> {
        let portals = &mut self.portals;
        let end = portals.ends.get(id)?;
        match (&end.side, input) {
            (Side::In(_), false) => return Err(wrong_end(id, "input", "create", "output")),
            (Side::Out(_), true) => return Err(wrong_end(id, "output", "open", "input")),
            _ if end.transfer.is_some() => return Err(busy(id)),
            _ => {}
        }
        match portals.ends.remove(id).map(|end| end.side) {
            Some(Side::In(reader)) => {
                portals.inputs[usize::from(reader.port)] = None;
                portals.counts.unlinks += 1;
            }
            Some(Side::Out(writer)) => {
                let Writer { node, port, source } = writer;
                portals.outputs.remove(&(node, port, source));
                portals.sources.give_back(node, source);
                portals.counts.closes += 1;
            }
            None => {}
        }
        Ok(())
    }

    /// The port of an input, the source port of an output.
    pub(crate) fn portal_port(&mut self, id: i32) -> Result<u8> {
        Ok(match &self.portals.ends.get(id)?.side {
            Side::In(reader) => reader.port,
            Side::Out(writer) => writer.source,
        })
    }

    /// What was counted of an id and of all.
    pub(crate) fn portal_counters(&mut self, id: i32) -> Result<(Meter, Counts)> {
        let end = self.portals.ends.get(id)?;
        if end.transfer.is_some() {
            return Err(busy(id));
        }
        let meter = end.meter;
        Ok((meter, self.portals.counts))
    }
}
