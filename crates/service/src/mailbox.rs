//! Mailbox: small messages of many nodes to one port, in order per sender.
//!
//! ```text
//!   Output ── window of (node, port) ──► fabric lane ──► Port: letters in order of arrival ──► Input
//!      ▲                                                        │ read
//!      └───────────────────── Credit, half a window at a time ──┘
//! ```
//!
//! A port keeps what arrives whether or not an input was created, so no sender needs to wait for a receiver to start and
//! nothing is dropped. A sender has at most [`WINDOW`] messages in flight to or unread at one port of one node; then its
//! writes wait. Ports do not delay each other.

mod ends;
mod read;
mod write;

use std::collections::{HashMap, VecDeque};

use weft_fabric::{Region, SharedBytes};

use crate::awaited::{Awaited, On};
use crate::common::Common;
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result, busy, nothing_begun, wrong_end};
use crate::frame::Frame;
use crate::ports::{PORTS, SourcePorts};
use crate::table::Table;

/// Bytes of the longest message.
pub const MAX: usize = 120;

/// Messages of one node to one port that may be unread.
pub const WINDOW: u32 = 256;

/// A node or port number that means any.
pub const ANY: i32 = -1;

/// The messages that a read takes.
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
    input: Option<i32>,
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
                input: None,
                letters: VecDeque::new(),
                unread: vec![0; nodes],
                read: vec![0; nodes],
            })
        })
    }

    /// A message has arrived. False if it is more than its sender may send.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        common: &mut Common,
        from: u32,
        frame: Frame,
        data: SharedBytes<'_>,
    ) -> bool {
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
        if let Some(input) = port.input {
            common.changes.note(On::Mailbox(input).subject());
        }
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

fn check_size(size: usize) -> Result<()> {
    if (1..=MAX).contains(&size) {
        return Ok(());
    }
    Err(Error::new(
        Code::Invalid,
        format!("a mailbox message has 1 to {MAX} bytes, {size} were given; use a portal for more"),
    ))
}

impl Mailboxes {
    /// What the operation under way waits for.
    pub(crate) fn awaited(&mut self, id: i32) -> Awaited {
        match self.ends.get(id) {
            Ok(End::In(input)) => {
                let Filter { node, source } = input.filter;
                let node_text = node.map_or("any node".to_owned(), |node| format!("node {node}"));
                let source = source.map_or(String::new(), |port| format!(", source port {port}"));
                Awaited {
                    what: format!(
                        "a message from {node_text}{source} at port {} of its mailbox",
                        input.port
                    ),
                    nodes: node.into_iter().collect(),
                }
            }
            Ok(End::Out(output)) => {
                let node = output.node;
                let what = match self.windows.get(output.window) {
                    Some(window) if window.used >= WINDOW => format!(
                        "node {node} to read at port {} of its mailbox: {WINDOW} messages are unread",
                        output.port
                    ),
                    _ => format!("room for a message to node {node}"),
                };
                Awaited::of(node, what)
            }
            Err(_) => Awaited::of_any("a mailbox"),
        }
    }

    /// Begins to wait for what `aread` or `awrite` began; answers whether it is a read.
    pub(crate) fn begin_wait(&mut self, id: i32) -> Result<bool> {
        let (stage, reads) = match self.ends.get(id)? {
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
}
