//! Mailbox: small messages of many nodes to one port, in order per sender.
//!
//! ```text
//!   Output ── window of (node, port) ──► fabric lane ──► Port: letters in order of arrival ──► Input
//!      ▲                                                        │ read
//!      └───────────────────── Credit, half a window at a time ──┘
//! ```
//!
//! A port keeps what arrives whether or not an input was created, so nobody needs to wait for a
//! receiver to come up and nothing is dropped. A sender has at most [`WINDOW`] messages on their way
//! to or unread at one port of one node; then its writes wait. Ports do not hold each other up.

use std::collections::{HashMap, VecDeque};

use weft_fabric::{Fabric, Peer, Posted, Region, SharedBytes};

use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, lost};
use crate::frame::{Frame, Kind};
use crate::state::{self, Core, PORTS};
use crate::table::Table;

/// Bytes of the longest message.
pub const MAX: usize = 120;

/// Messages of one node to one port that may be unread.
pub const WINDOW: u32 = 256;

/// A node or port number that means any.
pub const ANY: i32 = -1;

/// Which messages a read takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Filter {
    node: Option<u32>,
    source: Option<u8>,
}

impl Filter {
    #[inline]
    fn is_open(self) -> bool {
        self.node.is_none() && self.source.is_none()
    }

    fn takes(self, letter: &Letter) -> bool {
        self.node.is_none_or(|node| node == letter.from)
            && self.source.is_none_or(|source| source == letter.source)
    }
}

/// A message that has arrived.
#[derive(Debug)]
struct Letter {
    from: u32,
    source: u8,
    length: u8,
    body: [u8; MAX],
}

const _: () = assert!(size_of::<Letter>() <= 128);

/// A port of this node.
#[derive(Debug)]
struct Port {
    /// The input that reads it, if there is one.
    input: bool,
    letters: VecDeque<Letter>,
    /// Of each node: letters unread.
    unread: Vec<u32>,
    /// Of each node: letters read and not credited yet.
    read: Vec<u32>,
}

/// How many more messages a port of a node takes from us.
#[derive(Debug)]
struct Window {
    node: u32,
    used: u32,
}

/// An operation under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// None.
    #[default]
    Idle,
    /// Begun by `aread` or `awrite`: somebody must call `wait`.
    Begun,
    /// Somebody is in `wait`, `read` or `write`.
    Waited,
}

#[derive(Debug)]
struct Input {
    port: u8,
    stage: Stage,
    filter: Filter,
    /// Where the read under way puts the message.
    into: Option<Region>,
    /// Who wrote what was read last.
    source: Option<(u32, u8)>,
    /// Deaths that readers were told of.
    told: usize,
    spent: u64,
    meter: Meter,
}

#[derive(Debug)]
struct Output {
    node: u32,
    port: u8,
    source: u8,
    window: usize,
    stage: Stage,
    /// What waits for credit or for room in the lane.
    stalled: Option<([u8; MAX], u8)>,
    size: usize,
    error: Option<Error>,
    /// Its node has died since: what comes next is told so, once. A process that was started anew
    /// knows nothing of what was written before.
    broken: Option<Error>,
    spent: u64,
    meter: Meter,
}

#[derive(Debug)]
enum End {
    In(Input),
    Out(Output),
}

/// The mailboxes of a node.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    nodes: u32,
    ends: Table<End>,
    ports: Vec<Option<Box<Port>>>,
    windows: Vec<Window>,
    window_of: HashMap<(u32, u8), usize>,
    sources: SourcePorts,
    counts: Counts,
    /// Outputs with something stalled.
    stalled: Vec<i32>,
}

/// Source ports in use, per remote node: the lowest free one is given out.
#[derive(Debug, Default)]
pub(crate) struct SourcePorts(HashMap<u32, [u64; PORTS / 64]>);

impl SourcePorts {
    pub(crate) fn take(&mut self, node: u32) -> Result<u8> {
        let used = self.0.entry(node).or_default();
        for (place, word) in used.iter_mut().enumerate() {
            if *word != u64::MAX {
                let bit = word.trailing_ones();
                *word |= 1 << bit;
                return Ok((place as u32 * 64 + bit) as u8);
            }
        }
        Err(Error::new(
            Code::Again,
            format!(
                "all {PORTS} source ports from here to node {node} are in use; close some outputs first"
            ),
        ))
    }

    pub(crate) fn give_back(&mut self, node: u32, port: u8) {
        if let Some(used) = self.0.get_mut(&node) {
            used[usize::from(port) / 64] &= !(1 << (port % 64));
        }
    }
}

impl Mailboxes {
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            nodes,
            ends: Table::new("mailbox"),
            ports: (0..PORTS).map(|_| None).collect(),
            windows: Vec::new(),
            window_of: HashMap::new(),
            sources: SourcePorts::default(),
            counts: Counts::default(),
            stalled: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.stalled.is_empty()
    }

    fn port(&mut self, port: u8) -> &mut Port {
        let nodes = self.nodes as usize;
        self.ports[usize::from(port)].get_or_insert_with(|| {
            Box::new(Port {
                input: false,
                letters: VecDeque::new(),
                unread: vec![0; nodes],
                read: vec![0; nodes],
            })
        })
    }

    /// A message has arrived. False if it is more than its sender may send.
    #[inline]
    pub(crate) fn arrive(&mut self, from: u32, frame: Frame, data: SharedBytes<'_>) -> bool {
        let port = self.port(frame.target);
        let sender = from as usize;
        if data.len() > MAX || port.unread[sender] + port.read[sender] >= WINDOW {
            return false;
        }
        port.unread[sender] += 1;
        let mut letter = Letter {
            from,
            source: frame.source,
            length: data.len() as u8,
            body: [0; MAX],
        };
        data.copy_to(&mut letter.body);
        port.letters.push_back(letter);
        true
    }

    /// A node has read some of what we wrote.
    pub(crate) fn credit(&mut self, from: u32, frame: Frame) -> bool {
        let Some(&window) = self.window_of.get(&(from, frame.target)) else {
            return false;
        };
        let used = &mut self.windows[window].used;
        *used = used.saturating_sub(frame.number);
        true
    }

    /// A node is gone: what waits for it alone ends, and a later node of this number starts afresh.
    pub(crate) fn lose(&mut self, node: u32, error: &Error, died: bool) {
        for (_, end) in self.ends.all() {
            let End::Out(output) = end else { continue };
            if output.node != node {
                continue;
            }
            if output.stalled.take().is_some() {
                output.error = Some(error.clone());
            } else if died {
                output.broken = Some(error.clone());
            }
        }
        if !died {
            return;
        }
        for window in self.windows.iter_mut().filter(|window| window.node == node) {
            window.used = 0;
        }
        for port in self.ports.iter_mut().flatten() {
            // What it wrote can still be read; it counts against nobody's window any more.
            port.unread[node as usize] = 0;
            port.read[node as usize] = 0;
        }
    }

    fn input(&mut self, id: i32) -> Result<&mut Input> {
        match self.ends.get(id)? {
            End::In(input) => Ok(input),
            End::Out(_) => Err(wrong_end(id, "output", "open", "input")),
        }
    }

    fn output(&mut self, id: i32) -> Result<&mut Output> {
        match self.ends.get(id)? {
            End::Out(output) => Ok(output),
            End::In(_) => Err(wrong_end(id, "input", "create", "output")),
        }
    }
}

#[cold]
pub(crate) fn wrong_end(id: i32, is: &str, made_by: &str, needed: &str) -> Error {
    Error::new(
        Code::BadId,
        format!("{id} is an {is}, made by {made_by}; this call needs an {needed}"),
    )
}

#[cold]
pub(crate) fn busy(id: i32) -> Error {
    Error::new(
        Code::Busy,
        format!("an operation of id {id} is under way; wait for it first, one at a time"),
    )
}

#[cold]
pub(crate) fn nothing_begun(id: i32) -> Error {
    Error::new(
        Code::BadId,
        format!(
            "nothing was begun with id {id}, so there is nothing to wait for; call aread or awrite first"
        ),
    )
}

fn check_size(size: usize) -> Result<()> {
    if (1..=MAX).contains(&size) {
        return Ok(());
    }
    Err(Error::new(
        Code::Invalid,
        format!("a mailbox message has 1 to {MAX} bytes, {size} were given; use a portal for more"),
    ))
}

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
        let source = mailboxes.sources.take(node)?;
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

    /// Begins to write `body`. `waited`: the caller will stay until it has ended.
    #[inline]
    pub(crate) fn mailbox_begin_write(
        &mut self,
        fabric: &mut dyn Fabric,
        id: i32,
        body: &[u8],
        waited: bool,
        start: u64,
    ) -> Result<()> {
        let output = self.mailboxes.output(id)?;
        check_size(body.len())?;
        if output.stage != Stage::Idle {
            return Err(busy(id));
        }
        output.size = body.len();
        output.error = None;
        if let Some(lost) = output.broken.take() {
            return Err(lost);
        }
        if !self.inject(fabric, id, body)? {
            let output = self.mailboxes.output(id)?;
            let mut copy = [0; MAX];
            copy[..body.len()].copy_from_slice(body);
            output.stalled = Some((copy, body.len() as u8));
            self.mailboxes.stalled.push(id);
        }
        let output = self.mailboxes.output(id)?;
        output.stage = if waited { Stage::Waited } else { Stage::Begun };
        if !waited {
            output.spent = self.clock.read(fabric).saturating_sub(start);
        }
        Ok(())
    }

    /// Sends a message if there is credit and room.
    #[inline]
    fn inject(&mut self, fabric: &mut dyn Fabric, id: i32, body: &[u8]) -> Result<bool> {
        let output = self.mailboxes.output(id)?;
        let (node, window) = (output.node, output.window);
        let head = Frame::new(Kind::Mail, output.port, output.source).to_head();
        if !self.gone.is_empty() {
            self.check_reachable(node)?;
        }
        if self.mailboxes.windows[window].used >= WINDOW || !self.outbox.is_clear(node) {
            return Ok(false);
        }
        match fabric.try_send(Peer(node), &head, body) {
            Ok(Posted::Retry) => Ok(false),
            Ok(_) => {
                self.mailboxes.windows[window].used += 1;
                self.is_back(node);
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a write under way has ended, and how.
    #[inline]
    pub(crate) fn mailbox_poll_write(
        &mut self,
        fabric: &dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let output = match self.mailboxes.output(id) {
            Ok(output) => output,
            Err(error) => return Some(Err(error)),
        };
        if output.stalled.is_some() {
            return None;
        }
        output.stage = Stage::Idle;
        let spent =
            std::mem::take(&mut output.spent) + self.clock.read(fabric).saturating_sub(start);
        if let Some(error) = output.error.take() {
            return Some(Err(error));
        }
        let size = output.size;
        output.meter.volume += size as u64;
        output.meter.latency += spent;
        self.mailboxes.counts.writes += 1;
        Some(Ok(size))
    }

    /// Tries again to send what is stalled.
    pub(crate) fn settle_mail(&mut self, fabric: &mut dyn Fabric) -> bool {
        if self.mailboxes.stalled.is_empty() {
            return false;
        }
        let mut moved = false;
        let mut still = Vec::new();
        for id in std::mem::take(&mut self.mailboxes.stalled) {
            let Ok(output) = self.mailboxes.output(id) else {
                continue;
            };
            let Some((body, length)) = output.stalled else {
                moved = true;
                continue;
            };
            match self.inject(fabric, id, &body[..usize::from(length)]) {
                Ok(false) => {
                    still.push(id);
                    continue;
                }
                Ok(true) => {}
                Err(error) => {
                    if let Ok(output) = self.mailboxes.output(id) {
                        output.error = Some(error);
                    }
                }
            }
            if let Ok(output) = self.mailboxes.output(id) {
                output.stalled = None;
            }
            moved = true;
        }
        self.mailboxes.stalled = still;
        moved
    }

    /// Begins to read into `into`, which must stay valid until [`Self::mailbox_poll_read`] answers.
    #[inline]
    pub(crate) fn mailbox_begin_read(
        &mut self,
        fabric: &dyn Fabric,
        id: i32,
        into: Region,
        waited: bool,
        start: u64,
    ) -> Result<()> {
        let input = self.mailboxes.input(id)?;
        check_size(into.len())?;
        if input.stage != Stage::Idle {
            return Err(busy(id));
        }
        input.into = Some(into);
        input.stage = if waited { Stage::Waited } else { Stage::Begun };
        if !waited {
            input.spent = self.clock.read(fabric).saturating_sub(start);
        }
        Ok(())
    }

    /// Whether a read under way has ended, and how: takes the first message that it may.
    #[inline]
    pub(crate) fn mailbox_poll_read(
        &mut self,
        fabric: &mut dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let mailboxes = &mut self.mailboxes;
        let (number, filter, into) = match mailboxes.input(id) {
            Ok(input) => (input.port, input.filter, input.into?),
            Err(error) => return Some(Err(error)),
        };
        let port = mailboxes.port(number);
        let place = if filter.is_open() {
            (!port.letters.is_empty()).then_some(0)
        } else {
            port.letters.iter().position(|letter| filter.takes(letter))
        };
        let Some(place) = place else {
            let error = self.nobody_writes(id, filter)?;
            self.end_read(id);
            return Some(Err(error));
        };
        let letter = &port.letters[place];
        let (from, source, length) = (letter.from, letter.source, usize::from(letter.length));
        if length > into.len() {
            self.end_read(id);
            return Some(Err(Error::new(
                Code::TooLong,
                format!(
                    "the next message, from node {from}, has {length} bytes and the buffer {}; read it with a larger one (at most {MAX} are needed)",
                    into.len()
                ),
            )));
        }
        SharedBytes::of(&letter.body[..length]).copy_to_region(&into);
        if place == 0 {
            port.letters.pop_front();
        } else {
            port.letters.remove(place);
        }
        self.acknowledge(fabric, number, from);
        let now = self.clock.read(fabric);
        let input = self.mailboxes.input(id).ok()?;
        input.source = Some((from, source));
        input.meter.volume += length as u64;
        input.meter.latency += input.spent + now.saturating_sub(start);
        self.end_read(id);
        self.mailboxes.counts.reads += 1;
        Some(Ok(length))
    }

    /// One letter of `from` was read: tells it now and then.
    #[inline]
    fn acknowledge(&mut self, fabric: &mut dyn Fabric, port: u8, from: u32) {
        let kept = self.mailboxes.port(port);
        let sender = from as usize;
        // Of a sender that has died since, nothing is counted.
        if kept.unread[sender] == 0 {
            return;
        }
        kept.unread[sender] -= 1;
        kept.read[sender] += 1;
        if kept.read[sender] >= WINDOW / 2 {
            let frame = Frame {
                number: std::mem::take(&mut kept.read[sender]),
                ..Frame::new(Kind::Credit, port, 0)
            };
            self.outbox.post(fabric, from, frame, &[]);
        }
    }

    /// A read has ended: the next one takes anything again.
    #[inline]
    fn end_read(&mut self, id: i32) {
        if let Ok(input) = self.mailboxes.input(id) {
            input.stage = Stage::Idle;
            input.into = None;
            input.filter = Filter::default();
            input.spent = 0;
        }
    }

    /// Whether a read would wait for somebody who is gone. Of each death a reader of any node is told
    /// once: whoever it waits for may be the one that died.
    #[cold]
    fn nobody_writes(&mut self, id: i32, filter: Filter) -> Option<Error> {
        if let Some(node) = filter.node {
            return self.check_there(node).err();
        }
        let deaths = &self.deaths;
        let Ok(input) = self.mailboxes.input(id) else {
            return None;
        };
        if let Some(&node) = deaths.get(input.told) {
            input.told += 1;
            return Some(lost(node, &self.why_lost(node)));
        }
        if !self.is_last() {
            return None;
        }
        let me = self.me;
        let own = self
            .mailboxes
            .ends
            .all()
            .any(|(_, end)| matches!(end, End::Out(output) if output.node == me));
        (!own).then(|| {
            Error::new(
                Code::NodeLost,
                "all other nodes are gone, so nobody can write to this mailbox any more; unlink it",
            )
        })
    }

    /// Begins to wait for what `aread` or `awrite` began; answers whether it is a read.
    pub(crate) fn mailbox_begin_wait(&mut self, id: i32) -> Result<bool> {
        let (stage, reads) = match self.mailboxes.ends.get(id)? {
            End::In(input) => (&mut input.stage, true),
            End::Out(output) => (&mut output.stage, false),
        };
        match *stage {
            Stage::Idle => Err(nothing_begun(id)),
            Stage::Waited => Err(busy(id)),
            Stage::Begun => {
                *stage = Stage::Waited;
                Ok(reads)
            }
        }
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

    /// The operation of an id will not be waited for: its caller is being unwound.
    pub(crate) fn mailbox_abandon(&mut self, id: i32) {
        self.end_read(id);
    }
}
