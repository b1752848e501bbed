//! Making and ending portals, permission, and what is asked of them.

use super::{ANSWERS, End, Portals, Reader, Side, Writer};
use crate::common::Common;
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy, wrong_end};
use crate::ports;

impl Portals {
    /// Makes the input at a port of this node.
    pub(crate) fn create(&mut self, common: &Common, node: i32, port: i32) -> Result<i32> {
        common.nodes.own_node(node)?;
        let number = ports::port(port)?;
        if self.inputs[usize::from(number)].is_some() {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "port {port} has an input already; unlink that one first, or take another port"
                ),
            ));
        }
        let id = self.ends.insert(End {
            side: Side::In(Reader {
                port: number,
                allowed: None,
            }),
            transfer: None,
            broken: None,
            meter: Meter::default(),
        })?;
        self.inputs[usize::from(number)] = Some(id);
        self.counts.creates += 1;
        Ok(id)
    }

    /// Opens an output from this node to a port of any node.
    pub(crate) fn open(
        &mut self,
        common: &Common,
        local: i32,
        node: i32,
        port: i32,
    ) -> Result<i32> {
        if common.nodes.node(local)? != common.nodes.me() {
            return Err(Error::new(
                Code::Invalid,
                format!(
                    "an output was to be opened at node {local}, but this is node {}",
                    common.nodes.me()
                ),
            ));
        }
        let node = common.nodes.node(node)?;
        let port = ports::port(port)?;
        let source = self.sources.take(node, usize::from(ANSWERS))?;
        let opened = self.open_from(node, port, source);
        if opened.is_err() {
            self.sources.give_back(node, source);
        }
        opened
    }

    /// Opens the output by which a server gives a value.
    pub(crate) fn open_answer(&mut self, node: u32, port: u8) -> Result<i32> {
        if self.outputs.contains_key(&(node, port, ANSWERS)) {
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
        let id = self.ends.insert(End {
            side: Side::Out(Writer { node, port, source }),
            transfer: None,
            broken: None,
            meter: Meter::default(),
        })?;
        self.outputs.insert((node, port, source), id);
        self.counts.opens += 1;
        Ok(id)
    }

    /// Permits one transfer.
    pub(crate) fn allow(&mut self, common: &Common, id: i32, node: i32, source: i32) -> Result<()> {
        let node = common.nodes.node(node)?;
        let source = ports::port(source)?;
        let end = self.ends.get(id)?;
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
    pub(crate) fn remove(&mut self, id: i32, input: bool) -> Result<()> {
        let end = self.ends.get(id)?;
        match (&end.side, input) {
            (Side::In(_), false) => return Err(wrong_end(id, "input", "create", "output")),
            (Side::Out(_), true) => return Err(wrong_end(id, "output", "open", "input")),
            _ if end.transfer.is_some() => return Err(busy(id)),
            _ => {}
        }
        match self.ends.remove(id).map(|end| end.side) {
            Some(Side::In(reader)) => {
                self.inputs[usize::from(reader.port)] = None;
                self.counts.unlinks += 1;
            }
            Some(Side::Out(writer)) => {
                let Writer { node, port, source } = writer;
                self.outputs.remove(&(node, port, source));
                self.sources.give_back(node, source);
                self.counts.closes += 1;
            }
            None => {}
        }
        Ok(())
    }

    /// The port of an input, the source port of an output.
    pub(crate) fn port_of(&mut self, id: i32) -> Result<u8> {
        Ok(match &self.ends.get(id)?.side {
            Side::In(reader) => reader.port,
            Side::Out(writer) => writer.source,
        })
    }

    /// What was counted of an id and of all.
    pub(crate) fn counters(&mut self, id: i32) -> Result<(Meter, Counts)> {
        let end = self.ends.get(id)?;
        if end.transfer.is_some() {
            return Err(busy(id));
        }
        let meter = end.meter;
        Ok((meter, self.counts))
    }
}
