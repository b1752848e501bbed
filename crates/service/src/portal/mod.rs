//! Portal: bulk data, moved only where and when the receiver permits. Who comes second moves them.
//!
//! ```text
//!   the reader first:   aread ── Permit (token) ──►            awrite finds it: puts ── Placed ──► done
//!   the writer first:   awrite ── Offer (token) ──►            aread finds it:  gets ── Taken ───► done
//!   both at once:       Permit and Offer cross: the writer forgets the permit, the reader gets
//!   little data:        in place of put and Placed, one message with the data
//! ```
//!
//! So nobody is woken only to begin a copy: a writer to sixteen readers that wait goes through all of
//! them without sleeping, and a reader of sixteen writers that wait takes one after the other. Frames of
//! a pair of nodes arrive in order, which is why the crossing has one outcome: the reader sees an offer
//! after its permit only if the writer had not seen the permit, and the writer sees that permit while
//! its offer stands.
//!
//! # Who may touch what
//! The buffer of a reader is granted to that one node for one transfer, and only between `aread` and
//! the end of it; so is the buffer of a writer. A grant that is not used up is revoked before the
//! operation ends.

use std::collections::HashMap;

use weft_fabric::{
    Fabric, FabricError, GUEST_OPERATION, Operation, Peer, Posted, Region, Rights, SharedBytes,
    Token, Uses,
};

use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result};
use crate::frame::{DONE, Frame, Kind, REFUSED, TOO_LONG};
use crate::mailbox::{SourcePorts, busy, nothing_begun, wrong_end};
use crate::state::{self, Core, PORTS};
use crate::table::Table;

/// Bytes of the largest transfer.
pub const MAX: usize = 1 << 30;

/// A transfer as both sides know it: the other node, the port of the reader, the source port of the
/// writer.
type Pair = (u32, u8, u8);

/// What the other side lets us use, once.
#[derive(Clone, Copy, Debug)]
struct Leave {
    token: Token,
    size: u64,
}

/// What is to be done next for a transfer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    /// Nothing: the other side moves. Our grant, to be revoked if it comes to nothing.
    Granted(Token),
    /// To move by the token of the other side, when the fabric has room. A reader gets, a writer puts.
    Move { token: Token },
    /// To send the data as a message, when there is room.
    Send,
    /// The fabric moves them.
    Moving(Operation),
    /// Ended, as `result` says.
    Ended,
}

/// One end of a transfer under way.
#[derive(Debug)]
struct Transfer {
    region: Region,
    /// Bytes to be moved, once that is known.
    size: usize,
    step: Step,
    /// A grant of ours that the other side will not use: to be revoked.
    stale: Option<Token>,
    result: Option<Result<usize>>,
    waited: bool,
    spent: u64,
}

#[derive(Debug)]
struct Reader {
    port: u8,
    /// Whose transfer is permitted: node and source port.
    allowed: Option<(u32, u8)>,
}

#[derive(Debug)]
struct Writer {
    node: u32,
    port: u8,
    source: u8,
}

#[derive(Debug)]
enum Side {
    In(Reader),
    Out(Writer),
}

#[derive(Debug)]
struct End {
    side: Side,
    transfer: Option<Transfer>,
    /// Of an output, whose node has died since: what comes next is told so, once.
    broken: Option<Error>,
    meter: Meter,
}

impl End {
    /// The transfer that this end takes part in.
    fn pair(&self) -> Option<Pair> {
        match &self.side {
            Side::In(reader) => reader
                .allowed
                .map(|(node, source)| (node, reader.port, source)),
            Side::Out(writer) => Some((writer.node, writer.port, writer.source)),
        }
    }

    fn is_input(&self) -> bool {
        matches!(self.side, Side::In(_))
    }
}

/// The portals of a node.
#[derive(Debug)]
pub(crate) struct Portals {
    ends: Table<End>,
    /// The input at each port.
    inputs: Vec<Option<i32>>,
    /// The output of each pair.
    outputs: HashMap<Pair, i32>,
    sources: SourcePorts,
    /// Of readers that came first.
    permits: HashMap<Pair, Leave>,
    /// Of writers that came first.
    offers: HashMap<Pair, Leave>,
    counts: Counts,
    operations: u64,
    /// Ends with something to do that needs the fabric.
    work: Vec<i32>,
}

impl Portals {
    pub(crate) fn new() -> Self {
        Self {
            ends: Table::new("portal"),
            inputs: vec![None; PORTS],
            outputs: HashMap::new(),
            sources: SourcePorts::default(),
            permits: HashMap::new(),
            offers: HashMap::new(),
            counts: Counts::default(),
            operations: 0,
            work: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// The reader of this pair, if it has permitted it and waits.
    fn reading(&mut self, pair: Pair) -> Option<(i32, &mut Transfer)> {
        let id = self.inputs[usize::from(pair.1)]?;
        let end = self.ends.get(id).ok()?;
        if end.pair() != Some(pair) {
            return None;
        }
        Some((id, end.transfer.as_mut()?))
    }

    /// The writer of this pair, if it writes.
    fn writing(&mut self, pair: Pair) -> Option<(i32, &mut Transfer)> {
        let id = *self.outputs.get(&pair)?;
        Some((id, self.ends.get(id).ok()?.transfer.as_mut()?))
    }

    /// A reader permits us to put.
    pub(crate) fn permitted(&mut self, from: u32, frame: Frame) -> bool {
        let pair = (from, frame.target, frame.source);
        // Our offer crosses this permit: the reader will get by it.
        let offered = self
            .writing(pair)
            .is_some_and(|(_, transfer)| matches!(transfer.step, Step::Granted(_)));
        if !offered {
            let (token, size) = (frame.token, frame.size);
            self.permits.insert(pair, Leave { token, size });
        }
        true
    }

    /// A writer lets us get.
    pub(crate) fn offered(&mut self, from: u32, frame: Frame) -> bool {
        let pair = (from, frame.target, frame.source);
        let leave = Leave {
            token: frame.token,
            size: frame.size,
        };
        if let Some((id, transfer)) = self.reading(pair)
            && let Step::Granted(token) = transfer.step
        {
            transfer.stale = Some(token);
            transfer.accept(leave);
            self.work.push(id);
        } else {
            // For a read to come; the one before may have ended without anybody having looked yet.
            self.offers.insert(pair, leave);
        }
        true
    }

    /// The data of a transfer that we permitted.
    pub(crate) fn data(&mut self, from: u32, frame: Frame, data: SharedBytes<'_>) -> bool {
        let Some((id, transfer)) = self.reading((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        // The writer checks the length before it sends; one that does not spoils its own transfer.
        let fitted = data.copy_to_region(&transfer.region);
        transfer.stale = Some(token);
        transfer.end(Ok(fitted));
        self.work.push(id);
        true
    }

    /// A writer has put, or cannot.
    pub(crate) fn placed(&mut self, from: u32, frame: Frame) -> bool {
        let Some((id, transfer)) = self.reading((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        transfer.stale = Some(token);
        let room = transfer.region.len();
        transfer.end(match frame.number {
            DONE if frame.size <= room as u64 => Ok(frame.size as usize),
            TOO_LONG => Err(too_long(from, frame.size, room)),
            _ => Err(refused(from)),
        });
        self.work.push(id);
        true
    }

    /// A reader has taken what we offered, or cannot.
    pub(crate) fn taken(&mut self, from: u32, frame: Frame) -> bool {
        let Some((id, transfer)) = self.writing((from, frame.target, frame.source)) else {
            return false;
        };
        let Step::Granted(token) = transfer.step else {
            return false;
        };
        transfer.stale = Some(token);
        let size = transfer.size;
        transfer.end(match frame.number {
            DONE => Ok(size),
            TOO_LONG => Err(too_long(from, size as u64, frame.size as usize)),
            _ => Err(refused(from)),
        });
        self.work.push(id);
        true
    }

    /// A transfer of the fabric has ended.
    pub(crate) fn moved(&mut self, operation: Operation, result: weft_fabric::Result<()>) {
        let found = self.ends.all().find_map(|(id, end)| {
            let transfer = end.transfer.as_mut()?;
            (transfer.step == Step::Moving(operation)).then_some((id, transfer))
        });
        if let Some((id, transfer)) = found {
            let size = transfer.size;
            transfer.end(result.map(|()| size).map_err(Error::from));
            // The other side is told by `settle`.
            transfer.step = Step::Moving(Operation(0));
            self.work.push(id);
        }
    }

    /// A node is gone: what it has permitted and offered is void.
    pub(crate) fn forget(&mut self, node: u32, error: &Error) {
        for (_, end) in self.ends.all() {
            if matches!(&end.side, Side::Out(writer) if writer.node == node) {
                end.broken = Some(error.clone());
            }
        }
        self.permits.retain(|pair, _| pair.0 != node);
        self.offers.retain(|pair, _| pair.0 != node);
    }

    /// A node is gone: every transfer with it ends.
    pub(crate) fn lose(&mut self, fabric: &mut dyn Fabric, node: u32, error: &Error) {
        for (_, end) in self.ends.all() {
            if end.pair().is_none_or(|pair| pair.0 != node) {
                continue;
            }
            let Some(transfer) = &mut end.transfer else {
                continue;
            };
            if let Step::Granted(token) = transfer.step {
                fabric.revoke(token);
            }
            end.broken = None;
            if transfer.result.is_none() {
                transfer.end(Err(error.clone()));
            }
            transfer.step = Step::Ended;
        }
    }
}

impl Transfer {
    fn new(region: Region, waited: bool) -> Self {
        Self {
            region,
            size: region.len(),
            step: Step::Ended,
            stale: None,
            result: None,
            waited,
            spent: 0,
        }
    }

    fn end(&mut self, result: Result<usize>) {
        self.result = Some(result);
        self.step = Step::Ended;
    }

    /// As a reader: will get what was offered, up to the room there is.
    fn accept(&mut self, offer: Leave) {
        self.size = usize::try_from(offer.size).unwrap_or(usize::MAX);
        self.step = Step::Move { token: offer.token };
    }
}

#[cold]
fn too_long(node: u32, size: u64, room: usize) -> Error {
    Error::new(
        Code::TooLong,
        format!(
            "node {node} and this one disagree on a transfer: {size} bytes were to be written, {room} to be read; nothing was moved: read with a larger buffer"
        ),
    )
}

#[cold]
fn refused(node: u32) -> Error {
    Error::new(
        Code::Io,
        format!("the fabric of node {node} could not move the data; its own error says why"),
    )
}

fn check_size(size: usize) -> Result<()> {
    if (1..=MAX).contains(&size) {
        return Ok(());
    }
    Err(Error::new(
        Code::Invalid,
        format!("a portal transfer has 1 to {MAX} bytes, {size} were given; make several of it"),
    ))
}

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
        let source = self.portals.sources.take(node)?;
        let portals = &mut self.portals;
        let opened = portals.ends.insert(End {
            side: Side::Out(Writer { node, port, source }),
            transfer: None,
            broken: None,
            meter: Meter::default(),
        });
        match &opened {
            Ok(id) => {
                portals.outputs.insert((node, port, source), *id);
                portals.counts.opens += 1;
            }
            Err(_) => portals.sources.give_back(node, source),
        }
        opened
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

    /// Begins a transfer: a read if `input`, else a write. The region must stay valid, for a read
    /// writable, until [`Self::portal_poll`] answers.
    pub(crate) fn portal_begin(
        &mut self,
        fabric: &mut dyn Fabric,
        id: i32,
        input: bool,
        region: Region,
        waited: bool,
        start: u64,
    ) -> Result<()> {
        let end = self.portals.ends.get(id)?;
        match (&end.side, input) {
            (Side::In(_), false) => return Err(wrong_end(id, "input", "create", "output")),
            (Side::Out(_), true) => return Err(wrong_end(id, "output", "open", "input")),
            _ => check_size(region.len())?,
        }
        if end.transfer.is_some() {
            return Err(busy(id));
        }
        if let Some(lost) = end.broken.take() {
            return Err(lost);
        }
        let Some(pair) = end.pair() else {
            return Err(Error::new(
                Code::Access,
                format!(
                    "portal {id} allows nobody: call allow with the node and source port to read from, once for each read"
                ),
            ));
        };
        if input {
            if let Err(lost) = self.check_there(pair.0) {
                // The permission ends with the read that it was for.
                if let Side::In(reader) = &mut self.portals.ends.get(id)?.side {
                    reader.allowed = None;
                }
                return Err(lost);
            }
        } else {
            self.check_reachable(pair.0)?;
        }
        let mut transfer = Transfer::new(region, waited);
        if input {
            self.begin_read(fabric, pair, &mut transfer)?;
        } else {
            self.begin_write(fabric, pair, &mut transfer)?;
        }
        self.portals.ends.get(id)?.transfer = Some(transfer);
        self.advance_portal(fabric, id);
        let now = if waited {
            start
        } else {
            self.clock.read(fabric)
        };
        if let Some(transfer) = &mut self.portals.ends.get(id)?.transfer {
            transfer.spent = now.saturating_sub(start);
        }
        Ok(())
    }

    fn begin_read(
        &mut self,
        fabric: &mut dyn Fabric,
        pair: Pair,
        transfer: &mut Transfer,
    ) -> Result<()> {
        if let Some(offer) = self.portals.offers.remove(&pair) {
            transfer.accept(offer);
            return Ok(());
        }
        let (node, port, source) = pair;
        let region = transfer.region;
        let token = fabric.grant(region, Some(Peer(node)), Rights::Write, Uses::Once)?;
        transfer.step = Step::Granted(token);
        let frame = Frame {
            token,
            size: region.len() as u64,
            ..Frame::new(Kind::Permit, port, source)
        };
        self.outbox.post(fabric, node, frame, &[]);
        Ok(())
    }

    fn begin_write(
        &mut self,
        fabric: &mut dyn Fabric,
        pair: Pair,
        transfer: &mut Transfer,
    ) -> Result<()> {
        let (node, port, source) = pair;
        let size = transfer.region.len();
        if let Some(permit) = self.portals.permits.remove(&pair) {
            if size as u64 > permit.size {
                let frame = Frame {
                    number: TOO_LONG,
                    size: size as u64,
                    ..Frame::new(Kind::Placed, port, source)
                };
                self.outbox.post(fabric, node, frame, &[]);
                return Err(too_long(node, size as u64, permit.size as usize));
            }
            transfer.step = if size < self.limits.bulk && size <= self.limits.data {
                Step::Send
            } else {
                Step::Move {
                    token: permit.token,
                }
            };
            return Ok(());
        }
        let token = fabric.grant(transfer.region, Some(Peer(node)), Rights::Read, Uses::Once)?;
        let frame = Frame {
            token,
            size: size as u64,
            ..Frame::new(Kind::Offer, port, source)
        };
        // The fabric alone knows whether a node that died is back.
        if self.outbox.is_clear(node) {
            match fabric.try_send(Peer(node), &frame.to_head(), &[]) {
                Ok(Posted::Retry) => self.outbox.post(fabric, node, frame, &[]),
                Ok(_) => self.is_back(node),
                Err(error) => {
                    fabric.revoke(token);
                    return Err(error.into());
                }
            }
        } else {
            self.outbox.post(fabric, node, frame, &[]);
        }
        transfer.step = Step::Granted(token);
        Ok(())
    }

    /// Does what can be done for a transfer now. True if it got on.
    fn advance_portal(&mut self, fabric: &mut dyn Fabric, id: i32) -> bool {
        let Ok(end) = self.portals.ends.get(id) else {
            return false;
        };
        let (Some((node, port, source)), input) = (end.pair(), end.is_input()) else {
            return false;
        };
        let Some(transfer) = &mut end.transfer else {
            return false;
        };
        if let Some(token) = transfer.stale.take() {
            fabric.revoke(token);
        }
        let region = transfer.region;
        let answer = if input { Kind::Taken } else { Kind::Placed };
        let told = Frame {
            size: transfer.size as u64,
            ..Frame::new(answer, port, source)
        };
        match transfer.step {
            Step::Granted(_) => false,
            Step::Ended => true,
            Step::Send => {
                let head = Frame::new(Kind::Data, port, source).to_head();
                if !self.outbox.is_clear(node) {
                    self.portals.work.push(id);
                    return false;
                }
                match crate::memory::send(fabric, Peer(node), &head, region) {
                    Ok(Posted::Retry) => {
                        self.portals.work.push(id);
                        return false;
                    }
                    Ok(_) => transfer.end(Ok(region.len())),
                    Err(error) => transfer.end(Err(error.into())),
                }
                true
            }
            Step::Move { .. } if input && transfer.size > region.len() => {
                transfer.end(Err(too_long(node, transfer.size as u64, region.len())));
                let frame = Frame {
                    number: TOO_LONG,
                    size: region.len() as u64,
                    ..told
                };
                self.outbox.post(fabric, node, frame, &[]);
                true
            }
            Step::Move { token } => {
                self.portals.operations += 1;
                let operation = Operation(GUEST_OPERATION | self.portals.operations);
                let moved = if input {
                    let into = region.prefix(transfer.size);
                    fabric.get(Peer(node), token, 0, into, operation)
                } else {
                    fabric.put(Peer(node), token, 0, region, operation)
                };
                match moved {
                    Ok(Posted::Retry) => {
                        self.portals.work.push(id);
                        return false;
                    }
                    Ok(Posted::Pending) => transfer.step = Step::Moving(operation),
                    Ok(Posted::Done) => {
                        let size = transfer.size;
                        transfer.end(Ok(size));
                        self.outbox.post(fabric, node, told, &[]);
                    }
                    Err(error) => {
                        transfer.end(Err(error.clone().into()));
                        if !matches!(error, FabricError::PeerLost { .. }) {
                            let frame = Frame {
                                number: REFUSED,
                                ..told
                            };
                            self.outbox.post(fabric, node, frame, &[]);
                        }
                    }
                }
                true
            }
            Step::Moving(_) if transfer.result.is_some() => {
                transfer.step = Step::Ended;
                let number = match &transfer.result {
                    Some(Ok(_)) => DONE,
                    _ => REFUSED,
                };
                self.outbox
                    .post(fabric, node, Frame { number, ..told }, &[]);
                true
            }
            Step::Moving(_) => false,
        }
    }

    /// Does what arrivals have made possible, and tries again what the fabric had no room for.
    pub(crate) fn settle_portals(&mut self, fabric: &mut dyn Fabric) -> bool {
        let mut moved = false;
        for id in std::mem::take(&mut self.portals.work) {
            moved |= self.advance_portal(fabric, id);
        }
        moved
    }

    /// Begins to wait for what `aread` or `awrite` began.
    pub(crate) fn portal_begin_wait(&mut self, id: i32) -> Result<()> {
        match &mut self.portals.ends.get(id)?.transfer {
            None => Err(nothing_begun(id)),
            Some(transfer) if transfer.waited => Err(busy(id)),
            Some(transfer) => {
                transfer.waited = true;
                Ok(())
            }
        }
    }

    /// Whether the transfer under way has ended, and how.
    #[inline]
    pub(crate) fn portal_poll(
        &mut self,
        fabric: &dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let end = match self.portals.ends.get(id) {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        let transfer = end.transfer.as_mut()?;
        if transfer.step != Step::Ended || transfer.stale.is_some() {
            return None;
        }
        let result = transfer.result.take()?;
        let spent = transfer.spent + self.clock.read(fabric).saturating_sub(start);
        end.transfer = None;
        if let Side::In(reader) = &mut end.side {
            reader.allowed = None;
        }
        if let Ok(size) = result {
            end.meter.volume += size as u64;
            end.meter.latency += spent;
            let input = end.is_input();
            let counts = &mut self.portals.counts;
            *(if input {
                &mut counts.reads
            } else {
                &mut counts.writes
            }) += 1;
        }
        Some(result)
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

    /// The operation of an id will not be waited for: nothing may reach its memory any more.
    pub(crate) fn portal_abandon(&mut self, fabric: &mut dyn Fabric, id: i32) {
        if let Ok(end) = self.portals.ends.get(id)
            && let Some(transfer) = end.transfer.take()
        {
            let granted = match transfer.step {
                Step::Granted(token) => Some(token),
                _ => None,
            };
            for token in [granted, transfer.stale].into_iter().flatten() {
                fabric.revoke(token);
            }
        }
    }
}
