//! Reading: the first message that the reader takes, or the error that none can come.

use weft_fabric::{Fabric, Region, SharedBytes};

use super::{End, Filter, MAX, Mailboxes, Stage, WINDOW, check_size};
use crate::common::Common;
use crate::error::{Code, Error, Result, busy, lost};
use crate::frame::{Frame, FrameKind};

impl Mailboxes {
    /// Begins to read into `into`, which must stay valid until [`Self::poll_read`] answers.
    #[inline]
    pub(crate) fn begin_read(
        &mut self,
        common: &Common,
        fabric: &dyn Fabric,
        id: i32,
        into: Region,
        waited: bool,
        start: u64,
    ) -> Result<()> {
        let input = self.input(id)?;
        check_size(into.len())?;
        if input.stage != Stage::Idle {
            return Err(busy(id));
        }
        input.into = Some(into);
        input.stage = if waited { Stage::Waited } else { Stage::Begun };
        if !waited {
            input.spent = common.clock.read(fabric).saturating_sub(start);
        }
        Ok(())
    }

    /// Whether a read under way has ended, and how: takes the first message that it may.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        common: &mut Common,
        fabric: &mut dyn Fabric,
        id: i32,
        start: u64,
    ) -> Option<Result<usize>> {
        let (number, filter, into) = match self.input(id) {
            Ok(input) => (input.port, input.filter, input.into?),
            Err(error) => return Some(Err(error)),
        };
        let port = self.port(number);
        let place = if filter.is_open() {
            (!port.letters.is_empty()).then_some(0)
        } else {
            port.letters.iter().position(|letter| filter.takes(letter))
        };
        let Some(place) = place else {
            let error = self.nobody_writes(common, fabric, id, filter)?;
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
        self.acknowledge(common, fabric, number, from);
        let now = common.clock.read(fabric);
        let input = self.input(id).ok()?;
        input.source = Some((from, source));
        input.meter.volume += length as u64;
        input.meter.latency += input.spent + now.saturating_sub(start);
        self.end_read(id);
        self.counts.reads += 1;
        Some(Ok(length))
    }

    /// One letter of `from` was read: tells it now and then.
    #[inline]
    fn acknowledge(&mut self, common: &mut Common, fabric: &mut dyn Fabric, port: u8, from: u32) {
        let kept = self.port(port);
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
                ..Frame::new(FrameKind::Credit, port, 0)
            };
            common.outbox.post(fabric, from, frame, &[]);
        }
    }

    /// A read has ended: the next one takes anything again.
    #[inline]
    fn end_read(&mut self, id: i32) {
        if let Ok(input) = self.input(id) {
            input.stage = Stage::Idle;
            input.into = None;
            input.filter = Filter::default();
            input.spent = 0;
        }
    }

    /// Whether a read would wait for somebody who is gone. Of each death a reader of any node is told
    /// once: whoever it waits for may be the one that died.
    #[cold]
    fn nobody_writes(
        &mut self,
        common: &Common,
        fabric: &dyn Fabric,
        id: i32,
        filter: Filter,
    ) -> Option<Error> {
        if let Some(node) = filter.node {
            return common.nodes.check_there(node).err();
        }
        let Ok(input) = self.input(id) else {
            return None;
        };
        if let Some(node) = common.nodes.death(input.told) {
            input.told += 1;
            return Some(lost(node, &common.nodes.why_lost(node)));
        }
        if !common.nodes.is_last(fabric) {
            return None;
        }
        let me = common.nodes.me();
        let own = self
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

    /// The operation of an id will not be waited for: its caller is being unwound.
    pub(crate) fn abandon(&mut self, id: i32) {
        self.end_read(id);
    }
}
