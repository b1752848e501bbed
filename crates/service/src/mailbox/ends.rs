//! Making and ending mailboxes, and what is asked of them.

use super::{ANY, End, Filter, Input, Mailboxes, Output, Stage, Window};
use crate::common::Common;
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy};
use crate::ports::{self, PORTS};

impl Mailboxes {
    /// Makes the input at a port of this node.
    pub(crate) fn create(&mut self, common: &Common, node: i32, port: i32) -> Result<i32> {
        common.nodes.own_node(node)?;
        let number = ports::port(port)?;
        let told = common.nodes.deaths();
        if self.port(number).input.is_some() {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "port {port} has an input already; unlink that one first, or take another port"
                ),
            ));
        }
        let id = self.ends.insert(End::In(Input {
            port: number,
            stage: Stage::Idle,
            filter: Filter::default(),
            into: None,
            source: None,
            told,
            spent: 0,
            meter: Meter::default(),
        }))?;
        self.port(number).input = Some(id);
        self.counts.creates += 1;
        Ok(id)
    }

    /// Opens an output to a port of any node.
    pub(crate) fn open(&mut self, common: &Common, node: i32, port: i32) -> Result<i32> {
        let node = common.nodes.node(node)?;
        let port = ports::port(port)?;
        let window = match self.window_of.get(&(node, port)) {
            Some(&window) => window,
            None => {
                let window = self.windows.len();
                self.windows.push(Window { node, used: 0 });
                self.window_of.insert((node, port), window);
                window
            }
        };
        let source = self.sources.take(node, PORTS)?;
        let opened = self.ends.insert(End::Out(Output {
            node,
            port,
            source,
            window,
            stage: Stage::Idle,
            stalled: None,
            size: 0,
            error: None,
            broken: None,
            spent: 0,
            meter: Meter::default(),
        }));
        match opened {
            Ok(_) => self.counts.opens += 1,
            Err(_) => self.sources.give_back(node, source),
        }
        opened
    }

    /// Ends an input.
    pub(crate) fn unlink(&mut self, id: i32) -> Result<()> {
        let input = self.input(id)?;
        if input.stage != Stage::Idle {
            return Err(busy(id));
        }
        let port = input.port;
        let unread = self.port(port).letters.len();
        if unread > 0 {
            return Err(Error::new(
                Code::Busy,
                format!("{unread} messages at port {port} are unread; read them before unlink"),
            ));
        }
        self.port(port).input = None;
        self.ends.remove(id);
        self.counts.unlinks += 1;
        Ok(())
    }

    /// Ends an output.
    pub(crate) fn close(&mut self, id: i32) -> Result<()> {
        let output = self.output(id)?;
        if output.stage != Stage::Idle {
            return Err(busy(id));
        }
        let (node, source) = (output.node, output.source);
        self.sources.give_back(node, source);
        self.ends.remove(id);
        self.counts.closes += 1;
        Ok(())
    }

    /// Restricts the next read.
    pub(crate) fn set_remote(
        &mut self,
        common: &Common,
        id: i32,
        node: i32,
        source: i32,
    ) -> Result<()> {
        let node = match node {
            ANY => None,
            node => Some(common.nodes.node(node)?),
        };
        let source = match source {
            ANY => None,
            source => Some(ports::port(source)?),
        };
        let refused = |what: &str| {
            Err(Error::new(
                Code::Fault,
                format!("the remote of mailbox {id} cannot be set: {what}"),
            ))
        };
        match self.ends.get(id)? {
            End::Out(_) => refused("it is an output, and only reads are selective"),
            End::In(input) if input.stage != Stage::Idle => Err(busy(id)),
            End::In(input) if !input.filter.is_open() => {
                refused("it was set already, for the read that comes next")
            }
            End::In(input) => {
                input.filter = Filter { node, source };
                Ok(())
            }
        }
    }

    /// Who wrote the message that was read last.
    pub(crate) fn source(&mut self, id: i32) -> Result<(u32, u8)> {
        self.input(id)?.source.ok_or_else(|| {
            Error::new(
                Code::Access,
                format!(
                    "nothing was read from mailbox {id} yet; read first, then ask who wrote it"
                ),
            )
        })
    }

    /// The port of an input, the source port of an output.
    pub(crate) fn port_of(&mut self, id: i32) -> Result<u8> {
        Ok(match self.ends.get(id)? {
            End::In(input) => input.port,
            End::Out(output) => output.source,
        })
    }

    /// What was counted of an id and of all.
    pub(crate) fn counters(&mut self, id: i32) -> Result<(Meter, Counts)> {
        let (stage, meter) = match self.ends.get(id)? {
            End::In(input) => (input.stage, input.meter),
            End::Out(output) => (output.stage, output.meter),
        };
        if stage != Stage::Idle {
            return Err(busy(id));
        }
        Ok((meter, self.counts))
    }
}
