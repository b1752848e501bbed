//! Writing: at once if there is credit and room, later otherwise.

use weft_fabric::{Fabric, Peer, Posted};

use super::{MAX, Mailboxes, Stage, WINDOW, check_size};
use crate::awaited::On;
use crate::common::Common;
use crate::error::{Result, busy};
use crate::frame::{Frame, FrameKind};

impl Mailboxes {
    /// Begins to write `body`. `waited`: the caller will stay until it has ended.
    #[inline]
    pub(crate) fn begin_write(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        id: i32,
        body: &[u8],
        waited: bool,
        start: u64,
    ) -> Result<()> {
        let output = self.output(id)?;
        check_size(body.len())?;
        if output.stage != Stage::Idle {
            return Err(busy(id));
        }
        output.size = body.len();
        output.error = None;
        if let Some(lost) = output.broken.take() {
            return Err(lost);
        }
        if !self.inject(common, fabric, id, body)? {
            let output = self.output(id)?;
            let mut copy = [0; MAX];
            copy[..body.len()].copy_from_slice(body);
            output.stalled = Some((copy, body.len() as u8));
            self.stalled.push(id);
        }
        let output = self.output(id)?;
        output.stage = if waited { Stage::Waited } else { Stage::Begun };
        if !waited {
            output.spent = common.clock.read(fabric).saturating_sub(start);
        }
        Ok(())
    }

    /// Sends a message if there is credit and room.
    #[inline]
    fn inject(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        id: i32,
        body: &[u8],
    ) -> Result<bool> {
        let output = self.output(id)?;
        let (node, window) = (output.node, output.window);
        let head = Frame::new(FrameKind::Mail, output.port, output.source).to_head();
        if common.nodes.any_gone() {
            common.nodes.check_reachable(node)?;
        }
        if self.windows[window].used >= WINDOW || !common.outbox.is_clear(node) {
            return Ok(false);
        }
        match fabric.try_send(Peer(node), &head, body) {
            Ok(Posted::Retry) => Ok(false),
            Ok(_) => {
                self.windows[window].used += 1;
                common.nodes.is_back(node);
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a write under way has ended, and how.
    #[inline]
    pub(crate) fn poll_write(
        &mut self,
        common: &Common,
        fabric: &dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let output = match self.output(id) {
            Ok(output) => output,
            Err(error) => return Some(Err(error)),
        };
        if output.stalled.is_some() {
            return None;
        }
        output.stage = Stage::Idle;
        let spent =
            std::mem::take(&mut output.spent) + common.clock.read(fabric).saturating_sub(start);
        if let Some(error) = output.error.take() {
            return Some(Err(error));
        }
        let size = output.size;
        output.meter.volume += size as u64;
        output.meter.latency += spent;
        self.counts.writes += 1;
        Some(Ok(size))
    }

    /// Tries again to send what is stalled.
    pub(crate) fn settle(&mut self, common: &mut Common, fabric: &mut dyn Fabric) -> bool {
        if self.stalled.is_empty() {
            return false;
        }
        let mut moved = false;
        let mut still = Vec::new();
        for id in std::mem::take(&mut self.stalled) {
            let Ok(output) = self.output(id) else {
                continue;
            };
            let Some((body, length)) = output.stalled else {
                moved = true;
                continue;
            };
            match self.inject(common, fabric, id, &body[..usize::from(length)]) {
                Ok(false) => {
                    still.push(id);
                    continue;
                }
                Ok(true) => {}
                Err(error) => {
                    if let Ok(output) = self.output(id) {
                        output.error = Some(error);
                    }
                }
            }
            if let Ok(output) = self.output(id) {
                output.stalled = None;
            }
            common.changes.note(On::Mailbox(id).subject());
            moved = true;
        }
        self.stalled = still;
        moved
    }
}
