//! Persistent requests: the arguments are kept, the operation starts again (MPI 5.0, section 3.9).

use std::sync::Arc;

use weft_fabric::{Peer, Written};
use weft_sys::span::SHORT;

use super::Engine;
use super::on_complete::PersistentOperation;
use super::protocol::SendMode;
use super::request::{Phase, Request, Work};
use super::request_id::RequestId;
use super::start::pattern;
use crate::buffer::Buffer;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

impl Engine {
    /// An inactive request for an operation.
    pub(crate) fn keep(
        &mut self,
        context: u32,
        group: Option<Arc<Group>>,
        operation: PersistentOperation,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let request = self.core.requests.insert(context, group, Work::Nothing);
        if let Some(slot) = self.core.requests.get_mut(request) {
            slot.make_inactive();
            slot.on_complete_mut().persistent = Some(Box::new(operation));
        }
        Ok(request)
    }

    /// Whether a request may be started.
    #[inline]
    pub(crate) fn is_startable(&self, id: RequestId) -> bool {
        let slot = self.core.requests.get(id);
        slot.is_some_and(|slot| slot.startable().is_some())
    }

    /// Whether a request may be started; otherwise why not.
    pub(crate) fn check_startable(&mut self, id: RequestId) -> Result<()> {
        self.startable(id).map(drop)
    }

    /// The slot of a request that may be started.
    fn startable(&mut self, id: RequestId) -> Result<&mut Request> {
        let slot = self.core.requests.checked(id)?;
        if !slot.is_persistent() {
            return Err(not_startable(
                "is not persistent: only requests of MPI_Send_init, MPI_Recv_init and the like can be started",
            ));
        }
        if slot.phase() != Phase::Inactive {
            return Err(not_startable(
                "is under way: wait for its end before it is started again",
            ));
        }
        Ok(slot)
    }

    /// Starts a standard send of few bytes that leaves at once, or a receive for which nothing waits here: as calls do that [end at
    /// once](super::at_once), but everything is known and checked, and as a rule nothing is called. A written message that is not
    /// announced is to be [announced](Self::announce_written), to this peer.
    #[inline(always)]
    pub(crate) fn start_short_at_once(&mut self, id: RequestId) -> (Written, Peer) {
        let refused = (Written::Refused, Peer(0));
        let core = &mut self.core;
        if !core.lost.is_quiet() || core.events.are_wanted() {
            return refused;
        }
        let Some(slot) = core.requests.slot_mut(id) else {
            return refused;
        };
        if !slot.has_no_error_left() {
            return refused;
        }
        let context = slot.context();
        match slot.startable() {
            Some(&PersistentOperation::Send {
                mode: SendMode::Standard,
                buffer: Buffer::Flat(region, code),
                to: Some(to),
                tag,
            }) if region.len() <= SHORT => {
                let written = self.write_at_once((region, code), context, to, tag);
                if written != Written::Refused
                    && let Some(slot) = self.core.requests.slot_mut(id)
                {
                    slot.end_in_start();
                }
                (written, to)
            }
            Some(&PersistentOperation::Receive {
                buffer: Buffer::Flat(region, code),
                from: Some(from),
                tag,
            }) if slot.owns_no_work() && core.matching.unexpected_len() == 0 => {
                let handle = core.matching.wait(pattern(context, from, tag), id);
                slot.restart_posted((region, code), (from, handle));
                core.counters.posted.add(1);
                let posted = core.matching.posted_len() as u64;
                core.counters.posted_most.raise(posted);
                (Written::Done, Peer(0))
            }
            _ => refused,
        }
    }

    /// The same of a send of any length, or of a collective on a board. False, without effect, in any unusual case.
    pub(crate) fn start_at_once(&mut self, id: RequestId) -> bool {
        match self.start_short_at_once(id) {
            (Written::Done, _) => true,
            (Written::Unannounced, to) => {
                self.announce_written(to);
                true
            }
            (Written::Refused, _) => self.start_otherwise_at_once(id),
        }
    }

    /// Starts what is neither short nor a receive.
    #[inline(always)]
    pub(crate) fn start_otherwise_at_once(&mut self, id: RequestId) -> bool {
        let core = &mut self.core;
        if !core.lost.is_quiet() || core.events.are_wanted() {
            return false;
        }
        let Some(slot) = core.requests.get_mut(id) else {
            return false;
        };
        let context = slot.context();
        match slot.startable() {
            Some(&PersistentOperation::Send {
                mode: SendMode::Standard,
                buffer: Buffer::Flat(region, code),
                to: Some(to),
                tag,
            }) if slot.has_no_error_left() => {
                let is_sent = self.send_at_once((region, code), context, to, tag);
                if is_sent && let Some(slot) = self.core.requests.get_mut(id) {
                    slot.end_in_start();
                }
                is_sent
            }
            Some(PersistentOperation::Collective {
                on_board: Some(repeated),
                ..
            }) => {
                let board = repeated.board;
                let is_made = self.has_outstanding(board);
                if is_made && let Some(slot) = self.core.requests.get_mut(id) {
                    slot.restart();
                    self.start_collective_again(id);
                }
                is_made
            }
            _ => false,
        }
    }

    /// Starts a persistent request; it is inactive again if that fails.
    pub(crate) fn start(&mut self, id: RequestId) -> Result<()> {
        if self.start_at_once(id) {
            return Ok(());
        }
        if !self.has_no_losses() {
            let context = self.startable(id)?.context();
            self.check_usable(context)?;
        }
        let slot = self.startable(id)?;
        let context = slot.context();
        // What is needed of it is copied: the slot may move while it begins.
        let begun = match slot.restart() {
            PersistentOperation::Send {
                mode,
                buffer,
                to: Some(to),
                tag,
            } => {
                let (mode, buffer, to, tag) = (*mode, buffer.clone(), *to, *tag);
                self.begin_send(id, context, (mode, buffer, to, tag))
            }
            PersistentOperation::Receive {
                from: Some(from),
                tag,
                ..
            } => {
                let (from, tag) = (*from, *tag);
                self.post_receive(id, context, from, tag);
                Ok(())
            }
            PersistentOperation::Send { to: None, .. }
            | PersistentOperation::Receive { from: None, .. }
            | PersistentOperation::Partitioned(None) => {
                self.core.complete(id);
                Ok(())
            }
            PersistentOperation::Collective { .. } => {
                self.start_collective_again(id);
                Ok(())
            }
            PersistentOperation::Partitioned(Some(channel)) => {
                let channel = *channel;
                self.begin_partitioned(channel);
                Ok(())
            }
        };
        if begun.is_err()
            && let Some(slot) = self.core.requests.get_mut(id)
        {
            slot.make_inactive();
        }
        begun
    }

    /// Starts a persistent collective.
    fn start_collective_again(&mut self, id: RequestId) {
        // Nobody looks at the request meanwhile.
        let slot = self.core.requests.get_mut(id);
        let Some(operation) = slot.and_then(|slot| slot.on_complete_mut().persistent.take()) else {
            return;
        };
        if let PersistentOperation::Collective {
            by_messages,
            on_board,
        } = &*operation
        {
            let on_board = on_board.as_deref();
            if !on_board.is_some_and(|it| self.start_on_board(it, id, by_messages)) {
                let (schedule, context) = by_messages.clone();
                self.begin_schedule(schedule, context, id);
            }
        }
        if let Some(slot) = self.core.requests.get_mut(id) {
            slot.on_complete_mut().persistent = Some(operation);
        }
    }

    /// Begins the send of a persistent request.
    #[inline]
    fn begin_send(
        &mut self,
        id: RequestId,
        context: u32,
        (mode, buffer, to, tag): (SendMode, Buffer, Peer, i32),
    ) -> Result<()> {
        if mode == SendMode::Buffered {
            self.start_buffered(buffer, context, to, tag)?;
            self.core.complete(id);
        } else if let Some(begun) = self.start_send(mode, buffer, context, to, tag)? {
            self.follow(begun, id);
        } else {
            self.core.complete(id);
        }
        Ok(())
    }
}

#[cold]
fn not_startable(why: &str) -> Error {
    Error::new(ErrorClass::Request, format!("the request {why}"))
}
