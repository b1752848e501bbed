//! Transfers: one transfer from its beginning to its end.

use weft_fabric::{
    Fabric, FabricError, GUEST_OPERATION, Operation, Peer, Posted, Region, Rights, Uses,
};

use super::{Pair, Portals, Side, Step, Transfer, check_size, too_long};
use crate::awaited::On;
use crate::common::Common;
use crate::error::{Code, Error, Result, busy, nothing_begun, wrong_end};
use crate::frame::{DONE, Frame, FrameKind, REFUSED, TOO_LONG};

impl Portals {
    /// Begins a transfer: a read if `input`, else a write. The region must stay valid, for a read
    /// writable, until [`Self::poll`] answers. `begun_at` is when the call began, if it does not wait for the end.
    pub(crate) fn begin(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        id: i32,
        input: bool,
        region: Region,
        begun_at: Option<u64>,
    ) -> Result<()> {
        let end = self.ends.get(id)?;
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
            if let Err(lost) = common.nodes.check_there(pair.0) {
                // The permission ends with the read that it was for.
                if let Side::In(reader) = &mut self.ends.get(id)?.side {
                    reader.allowed = None;
                }
                return Err(lost);
            }
        } else {
            common.nodes.check_reachable(pair.0)?;
        }
        let mut transfer = Transfer::new(region, begun_at.is_none());
        if input {
            self.begin_read(common, fabric, pair, &mut transfer)?;
        } else {
            self.begin_write(common, fabric, pair, &mut transfer)?;
        }
        self.ends.get(id)?.transfer = Some(transfer);
        self.advance(common, fabric, id);
        if let Some(start) = begun_at
            && let Some(transfer) = &mut self.ends.get(id)?.transfer
        {
            transfer.spent = common.clock.read(fabric).saturating_sub(start);
        }
        Ok(())
    }

    fn begin_read(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        pair: Pair,
        transfer: &mut Transfer,
    ) -> Result<()> {
        if let Some(offer) = self.offers.remove(&pair) {
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
            ..Frame::new(FrameKind::Permit, port, source)
        };
        common.outbox.post(fabric, node, frame, &[]);
        Ok(())
    }

    fn begin_write(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        pair: Pair,
        transfer: &mut Transfer,
    ) -> Result<()> {
        let (node, port, source) = pair;
        let size = transfer.region.len();
        if let Some(permit) = self.permits.remove(&pair) {
            if size as u64 > permit.size {
                let frame = Frame {
                    number: TOO_LONG,
                    size: size as u64,
                    ..Frame::new(FrameKind::Placed, port, source)
                };
                common.outbox.post(fabric, node, frame, &[]);
                return Err(too_long(node, size as u64, permit.size as usize));
            }
            transfer.step = if size <= common.limits.bulk.min(common.limits.data) {
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
            ..Frame::new(FrameKind::Offer, port, source)
        };
        // The fabric alone knows whether a node that died is back.
        if common.outbox.is_clear(node) {
            match fabric.try_send(Peer(node), &frame.to_head(), &[]) {
                Ok(Posted::Retry) => common.outbox.post(fabric, node, frame, &[]),
                Ok(_) => common.nodes.is_back(node),
                Err(error) => {
                    fabric.revoke(token);
                    return Err(error.into());
                }
            }
        } else {
            common.outbox.post(fabric, node, frame, &[]);
        }
        transfer.step = Step::Granted(token);
        Ok(())
    }

    /// Does what can be done for a transfer now. True if it got on.
    fn advance(&mut self, common: &mut Common, fabric: &mut dyn Fabric, id: i32) -> bool {
        let Ok(end) = self.ends.get(id) else {
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
        let answer = if input {
            FrameKind::Taken
        } else {
            FrameKind::Placed
        };
        let told = Frame {
            size: transfer.size as u64,
            ..Frame::new(answer, port, source)
        };
        match transfer.step {
            Step::Granted(_) => false,
            Step::Ended => true,
            Step::Send => {
                let head = Frame::new(FrameKind::Data, port, source).to_head();
                if !common.outbox.is_clear(node) {
                    self.work.push(id);
                    return false;
                }
                match crate::memory::send(fabric, Peer(node), &head, region) {
                    Ok(Posted::Retry) => {
                        self.work.push(id);
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
                common.outbox.post(fabric, node, frame, &[]);
                true
            }
            Step::Move { token } => {
                self.operations += 1;
                let operation = Operation(GUEST_OPERATION | self.operations);
                let moved = if input {
                    let into = region.prefix(transfer.size);
                    fabric.get(Peer(node), token, 0, into, operation)
                } else {
                    fabric.put(Peer(node), token, 0, region, operation)
                };
                match moved {
                    Ok(Posted::Retry) => {
                        self.work.push(id);
                        return false;
                    }
                    Ok(Posted::Pending) => transfer.step = Step::Moving(operation),
                    Ok(Posted::Done) => {
                        let size = transfer.size;
                        transfer.end(Ok(size));
                        common.outbox.post(fabric, node, told, &[]);
                    }
                    Err(error) => {
                        transfer.end(Err(error.clone().into()));
                        if !matches!(error, FabricError::PeerLost { .. }) {
                            let frame = Frame {
                                number: REFUSED,
                                ..told
                            };
                            common.outbox.post(fabric, node, frame, &[]);
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
                common
                    .outbox
                    .post(fabric, node, Frame { number, ..told }, &[]);
                true
            }
            Step::Moving(_) => false,
        }
    }

    /// Does what arrivals have made possible, and tries again what the fabric had no room for.
    pub(crate) fn settle(&mut self, common: &mut Common, fabric: &mut dyn Fabric) -> bool {
        let mut moved = false;
        for id in std::mem::take(&mut self.work) {
            if self.advance(common, fabric, id) {
                common.changes.note(On::Portal(id).subject());
                moved = true;
            }
        }
        moved
    }

    /// Begins to wait for what `aread` or `awrite` began.
    pub(crate) fn begin_wait(&mut self, id: i32) -> Result<()> {
        match &mut self.ends.get(id)?.transfer {
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
    pub(crate) fn poll(
        &mut self,
        common: &Common,
        fabric: &dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let end = match self.ends.get(id) {
            Ok(end) => end,
            Err(error) => return Some(Err(error)),
        };
        let transfer = end.transfer.as_mut()?;
        if transfer.step != Step::Ended || transfer.stale.is_some() {
            return None;
        }
        let result = transfer.result.take()?;
        let spent = transfer.spent + common.clock.read(fabric).saturating_sub(start);
        end.transfer = None;
        if let Side::In(reader) = &mut end.side {
            reader.allowed = None;
        }
        if let Ok(size) = result {
            end.meter.volume += size as u64;
            end.meter.latency += spent;
            let input = end.is_input();
            let counts = &mut self.counts;
            *(if input {
                &mut counts.reads
            } else {
                &mut counts.writes
            }) += 1;
        }
        Some(result)
    }

    /// The operation of an id will not be waited for: nothing may reach its memory any more. False if the fabric
    /// moves its bytes already, which cannot be taken back: it has to be waited for all the same.
    #[must_use = "memory that the fabric still moves must not be given up"]
    pub(crate) fn abandon(&mut self, fabric: &mut dyn Fabric, id: i32) -> bool {
        if let Ok(end) = self.ends.get(id)
            && let Some(transfer) = end
                .transfer
                .take_if(|transfer| !matches!(transfer.step, Step::Moving(_)))
        {
            let granted = match transfer.step {
                Step::Granted(token) => Some(token),
                _ => None,
            };
            for token in [granted, transfer.stale].into_iter().flatten() {
                fabric.revoke(token);
            }
            if let Side::In(reader) = &mut end.side {
                reader.allowed = None;
            }
        }
        let end = self.ends.get(id);
        end.is_ok_and(|end| end.transfer.is_none())
    }
}
