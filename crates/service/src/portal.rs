//! Portal: bulk data, moved only where and when the receiver permits. The side that comes second moves them.
//!
//! ```text
//!   the reader first:   aread ── Permit (token) ──►            awrite finds it: puts ── Placed ──► done
//!   the writer first:   awrite ── Offer (token) ──►            aread finds it:  gets ── Taken ───► done
//!   both at once:       Permit and Offer cross: the writer forgets the permit, the reader gets
//!   little data:        in place of put and Placed, one message with the data
//! ```
//!
//! So no node is woken only to begin a copy: a writer to sixteen readers that wait serves all of them without sleeping,
//! and a reader of sixteen writers that wait takes one after the other. Frames of a pair of nodes arrive in order, so the
//! crossing has one outcome: the reader sees an offer after its permit only if the writer had not seen the permit, and
//! the writer sees that permit while its offer stands.
//!
//! # Who may touch what
//! The buffer of a reader is granted to that one node for one transfer, and only between `aread` and
//! the end of it; so is the buffer of a writer. A grant that is not used up is revoked before the
//! operation ends.

mod arrival;
mod ends;
mod transfer;

use std::collections::HashMap;

use weft_fabric::{Fabric, Operation, Region, Token};

use crate::awaited::Awaited;
use crate::counters::{Counts, Meter};
use crate::error::{Code, Error, Result};
use crate::ports::{PORTS, SourcePorts};
use crate::table::Table;

/// Bytes of the largest transfer.
pub const MAX: usize = 1 << 30;

/// The source port by which servers give values, to any port: never assigned by `open`, so that a client can permit it in
/// advance.
pub(crate) const ANSWERS: u8 = 255;

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

    /// What the transfer under way waits for.
    pub(crate) fn awaited(&mut self, id: i32) -> Awaited {
        let Ok(end) = self.ends.get(id) else {
            return Awaited::of_any("a portal");
        };
        let Some((node, port, source)) = end.pair() else {
            return Awaited::of_any("data at its portal");
        };
        let is_moving = end
            .transfer
            .as_ref()
            .is_some_and(|transfer| matches!(transfer.step, Step::Move { .. } | Step::Moving(_)));
        let what = match &end.side {
            Side::In(_) if is_moving => format!("the data of node {node} to come"),
            Side::In(_) => format!(
                "node {node} to write, from its source port {source}, to port {port} of its portal"
            ),
            Side::Out(_) if is_moving => format!("the data to reach node {node}"),
            Side::Out(_) => {
                format!("node {node} to allow this one, and read, at port {port} of its portal")
            }
        };
        Awaited::of(node, what)
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

    /// A node is gone: every transfer with it ends; one that the fabric moves, when it says so, since until
    /// then it may touch the memory.
    pub(crate) fn lose(&mut self, fabric: &mut dyn Fabric, node: u32, error: &Error) {
        for (_, end) in self.ends.all() {
            if end.pair().is_none_or(|pair| pair.0 != node) {
                continue;
            }
            let Some(transfer) = &mut end.transfer else {
                continue;
            };
            end.broken = None;
            if matches!(transfer.step, Step::Moving(_)) && transfer.result.is_none() {
                continue;
            }
            if let Step::Granted(token) = transfer.step {
                fabric.revoke(token);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Common;
    use crate::error::lost;
    use weft_fabric::{FabricError, GUEST_OPERATION, Peer};
    use weft_fabric_local::Local;

    const OPERATION: Operation = Operation(GUEST_OPERATION | 7);

    /// A node whose input, of this id, reads by [`OPERATION`] of the fabric.
    fn moving() -> (Local, Common, Portals, i32) {
        let fabric = Local::group(2).into_iter().next().expect("two");
        let (common, mut portals) = (Common::of(&fabric, fabric.peers()), Portals::new());
        let id = portals.create(&common, 0, 5).expect("free");
        portals
            .allow(&common, id, 1, 0)
            .expect("there is such a node");
        let mut transfer = Transfer::new(Region::EMPTY, false);
        transfer.step = Step::Moving(OPERATION);
        portals.ends.get(id).expect("live").transfer = Some(transfer);
        (fabric, common, portals, id)
    }

    #[test]
    fn a_transfer_that_the_fabric_moves_outlives_the_loss_of_its_node() {
        let (mut fabric, mut common, mut portals, id) = moving();

        portals.lose(&mut fabric, 1, &lost(1, "it has left"));
        assert_eq!(
            portals.poll(&common, &fabric, id, 0),
            None,
            "its memory is in use"
        );

        let peer = Peer(1);
        let reason = "it has left".into();
        let failed = Err(FabricError::PeerLost { peer, reason });
        portals.transfer_completed(OPERATION, failed);
        portals.settle(&mut common, &mut fabric);
        let ended = portals.poll(&common, &fabric, id, 0).expect("it has ended");
        assert_eq!(ended.expect_err("it was lost").code(), Code::NodeLost);
    }

    #[test]
    fn a_transfer_that_the_fabric_moves_is_not_abandoned() {
        let (mut fabric, mut common, mut portals, id) = moving();

        assert!(!portals.abandon(&mut fabric, id));
        assert_eq!(
            portals.poll(&common, &fabric, id, 0),
            None,
            "its memory is in use"
        );
        portals.transfer_completed(OPERATION, Ok(()));
        portals.settle(&mut common, &mut fabric);
        assert_eq!(portals.poll(&common, &fabric, id, 0), Some(Ok(0)));
        assert!(portals.abandon(&mut fabric, id), "there is none");
    }
}
