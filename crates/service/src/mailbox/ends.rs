//! Making and ending mailboxes, and what is asked of them.

use super::{ANY, End, Filter, Input, Output, Stage, Window};
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy};
use crate::state::{self, Core, PORTS};

impl Core {
    /// Makes the input at a port of this node.
    pub(crate) fn mailbox_create(&mut self, node: i32, port: i32) -> Result<i32> {
        self.own_node(node)?;
        let number = state::port(port)?;
        let told = self.deaths.len();
        let mailboxes = &mut self.mailboxes;
        if mailboxes.port(number).input {
            return Err(Error::new(
                Code::Busy,
                format!(
                    "port {port} has an input already; unlink that one first, or take another port"
                ),
            ));
        }
        let id = mailboxes.ends.insert(End::In(Input {
            port: number,
            stage: Stage::Idle,
            filter: Filter::default(),
            into: None,
            source: None,
            told,
            spent: 0,
            meter: Meter::default(),
        }))?;
        mailboxes.port(number).input = true;
        mailboxes.counts.creates += 1;
        Ok(id)
    }

    /// Opens an output to a port of any node.
    pub(crate) fn mailbox_open(&mut self, node: i32, port: i32) -> Result<i32> {
        let node = self.node(node)?;
        let port = state::port(port)?;
        let mailboxes = &mut self.mailboxes;
        let window = match mailboxes.window_of.get(&(node, port)) {
            Some(&window) => window,
            None => {
                let window = mailboxes.windows.len();
                mailboxes.windows.push(Window { node, used: 0 });
                mailboxes.window_of.insert((node, port), window);
                window
            }
        };
        let source = mailboxes.sources.take(node, PORTS)?;
        let opened = mailboxes.ends.insert(End::Out(Output {
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
            Ok(_) => mailboxes.counts.opens += 1,
            Err(_) => mailboxes.sources.give_back(node, source),
        }
        opened
    }

    /// Ends an input.
    pub(crate) fn mailbox_unlink(&mut self, id: i32) -> Result<()> {
        let input = self.mailboxes.input(id)?;
        if input.stage != Stage::Idle {
            return Err(busy(id));
        }
        let port = input.port;
        let unread = self.mailboxes.port(port).letters.len();
        if unread > 0 {
            return Err(Error::new(
                Code::Busy,
                format!("{unread} messages at port {port} are unread; read them before unlink"),
            ));
        }
        self.mailboxes.port(port).input = false;
        self.mailboxes.ends.remove(id);
        self.mailboxes.counts.unlinks += 1;
        Ok(())
    }

    /// Ends an output.
    pub(crate) fn mailbox_close(&mut self, id: i32) -> Result<()> {
        let output = self.mailboxes.output(id)?;
        if output.stage != Stage::Idle {
            return Err(busy(id));
        }
        let (node, source) = (output.node, output.source);
        self.mailboxes.sources.give_back(node, source);
        self.mailboxes.ends.remove(id);
        self.mailboxes.counts.closes += 1;
        Ok(())
    }

    /// Restricts the next read.
    pub(crate) fn mailbox_set_remote(&mut self, id: i32, node: i32, source: i32) -> Result<()> {
        let node = match node {
            ANY => None,
            node => Some(self.node(node)?),
        };
        let source = match source {
            ANY => None,
            source => Some(state::port(source)?),
        };
        let refused = |what: &str| {
            Err(Error::new(
                Code::Fault,
                format!("the remote of mailbox {id} cannot be set: {what}"),
            ))
        };
        match self.mailboxes.ends.get(id)? {
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
    pub(crate) fn mailbox_source(&mut self, id: i32) -> Result<(u32, u8)> {
        self.mailboxes.input(id)?.source.ok_or_else(|| {
            Error::new(
                Code::Access,
                format!(
                    "nothing was read from mailbox {id} yet; read first, then ask who wrote it"
                ),
            )
        })
    }

    /// The port of an input, the source port of an output.
    pub(crate) fn mailbox_port(&mut self, id: i32) -> Result<u8> {
        Ok(match self.mailboxes.ends.get(id)? {
            End::In(input) => input.port,
            End::Out(output) => output.source,
        })
    }

    /// What was counted of an id and of all.
    pub(crate) fn mailbox_counters(&mut self, id: i32) -> Result<(Meter, Counts)> {
        let (stage, meter) = match self.mailboxes.ends.get(id)? {
            End::In(input) => (input.stage, input.meter),
            End::Out(output) => (output.stage, output.meter),
        };
        if stage != Stage::Idle {
            return Err(busy(id));
        }
        Ok((meter, self.mailboxes.counts))
    }
}
