//! Partitioned messages (MPI 5.0, chapter 4): a send and a receive that are matched once, and whose data go in
//! pieces, each as soon as it is ready.
//!
//! ```text
//!   MPI_Psend_init ──announcement──► MPI_Precv_init     matched by source and tag, in the order of the calls
//!
//!   MPI_Start                        MPI_Start          a receive is posted for each piece
//!   MPI_Pready(2) ──piece 2──────►                      MPI_Parrived
//!   MPI_Pready_range(0, 1) ─pieces 0 and 1─►            small pieces that are ready together share a message
//! ```
//!
//! All of these are ordinary messages of the one send path, in the context that a communicator has for collectives.
//! Their tags are negative, which no other message there has:
//!
//! | bits 31, 30 | the others | message |
//! |---|---|---|
//! | `10` | the program's tag | announcement |
//! | `11` | number of a piece, counted from the [first tag](tags::TagRanges) of its send | pieces |
//!
//! A message of several pieces has the tag of the first. The receives posted for the others are withdrawn when it
//! arrives: the next message with their tags belongs to the next round, and comes after it.

mod division;
mod receiving;
mod sending;
mod tags;

use std::ops::Range;
use std::sync::Arc;

use weft_fabric::Peer;

use super::deferred::Deferred;
use super::on_complete::PersistentOperation;
use super::protocol::SendMode;
use super::request::{Phase, Work};
use super::request_id::RequestId;
use super::{Core, Engine};
use crate::buffer::{self, Buffer};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use division::Division;
use receiving::{Announcement, Piece, Receiving};
use sending::Sending;
use tags::TagRanges;

/// Tag bits of announcements, and of pieces.
const ANNOUNCEMENT: i32 = i32::MIN;
const PIECE: i32 = i32::MIN | 0x4000_0000;

/// Name of a partitioned message of this rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChannelId(u32);

/// What a request carries of a partitioned message.
#[derive(Clone, Debug)]
pub(super) enum PartitionedPart {
    /// The announcement, to the receiver.
    Announcement(ChannelId),
    /// Pieces that leave.
    Sent(ChannelId, Range<u32>),
    /// A piece, or more from this one on.
    Received(ChannelId, u32),
}

/// One side of a partitioned message.
#[derive(Debug)]
enum Channel {
    Sending(Box<Sending>),
    Receiving(Box<Receiving>),
}

/// All that were initialised and not freed.
#[derive(Debug, Default)]
pub(super) struct Channels {
    slots: Vec<Option<Channel>>,
    free: Vec<u32>,
    tags: TagRanges,
}

impl Channels {
    fn insert(&mut self, channel: Channel) -> ChannelId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[index as usize] = Some(channel);
        ChannelId(index)
    }

    fn sending(&mut self, id: ChannelId) -> Option<&mut Sending> {
        match self.slots.get_mut(id.0 as usize)? {
            Some(Channel::Sending(sending)) => Some(sending),
            _ => None,
        }
    }

    fn receiving(&mut self, id: ChannelId) -> Option<&mut Receiving> {
        match self.slots.get_mut(id.0 as usize)? {
            Some(Channel::Receiving(receiving)) => Some(receiving),
            _ => None,
        }
    }

    /// Its request, which is inactive, is freed. A receive whose announcement has not come stays until then, so that no
    /// later one takes it.
    pub(super) fn free(&mut self, id: ChannelId) {
        if let Some(receiving) = self.receiving(id)
            && receiving.is_expecting()
        {
            receiving.is_freed = true;
            return;
        }
        if let Some(sending) = self.sending(id) {
            let first = sending.first_tag();
            self.tags.give_back(first);
        }
        self.slots[id.0 as usize] = None;
        self.free.push(id.0);
    }
}

/// Initialisation.
impl Engine {
    /// An inactive partitioned send: `buffer` consists of so many equal partitions.
    pub(crate) fn keep_partitioned_send(
        &mut self,
        context: u32,
        buffer: Buffer,
        partitions: u32,
        to: Peer,
        tag: i32,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let collective = context | 1;
        let division = Division::new(partitions, buffer.bytes() as u64);
        let Some(first_tag) = self.core.channels.tags.take(division.pieces()) else {
            return Err(Error::new(
                ErrorClass::NoMem,
                "this rank has partitioned sends with 2^30 partitions together, and no more can be named; free some first",
            ));
        };
        let signature = buffer.code();
        let made = Sending::new((to, collective), buffer, division, first_tag);
        let announcement = Announcement {
            partitions,
            first_tag,
            bytes: division.bytes(),
            signature,
        };
        let sending = made.and_then(|sending| {
            self.announce((to, collective), tag, announcement)?;
            Ok(sending)
        });
        let sending = match sending {
            Ok(sending) => sending,
            Err(error) => {
                self.core.channels.tags.give_back(first_tag);
                return Err(error);
            }
        };
        let id = self
            .core
            .channels
            .insert(Channel::Sending(Box::new(sending)));
        let request = self.keep(context, None, PersistentOperation::Partitioned(Some(id)))?;
        if let Some(sending) = self.core.channels.sending(id) {
            sending.set_request(request);
        }
        Ok(request)
    }

    /// Tells the receiver of a partitioned send.
    fn announce(
        &mut self,
        (to, context): (Peer, u32),
        tag: i32,
        announcement: Announcement,
    ) -> Result<()> {
        let mut bytes = announcement.to_bytes();
        let buffer = Buffer::untyped(buffer::region_of(&mut bytes));
        // Buffered: the engine has a copy if it does not leave at once.
        let sent = self.start_send(SendMode::Buffered, buffer, context, to, ANNOUNCEMENT | tag)?;
        if let Some(request) = sent
            && let Some(slot) = self.core.requests.get_mut(request)
        {
            slot.on_complete_mut().detached = true;
            if !slot.is_active() {
                self.core.requests.release(request);
            }
        }
        Ok(())
    }

    /// An inactive partitioned receive: `buffer` consists of so many equal partitions.
    pub(crate) fn keep_partitioned_receive(
        &mut self,
        (context, group): (u32, Option<Arc<Group>>),
        buffer: Buffer,
        partitions: u32,
        from: Peer,
        tag: i32,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let collective = context | 1;
        let receiving = Receiving::new((from, collective), tag, buffer, partitions)?;
        let id = self
            .core
            .channels
            .insert(Channel::Receiving(Box::new(receiving)));
        let request = self.keep(context, group, PersistentOperation::Partitioned(Some(id)))?;
        let Some(receiving) = self.core.channels.receiving(id) else {
            return Ok(request);
        };
        receiving.set_request(request);
        let work = Work::receive(Buffer::untyped(receiving.announcement()));
        let part = PartitionedPart::Announcement(id);
        self.post_part(work, part, (from, collective), ANNOUNCEMENT | tag);
        Ok(request)
    }

    /// An inactive one to or from `MPI_PROC_NULL`.
    pub(crate) fn keep_partitioned_nothing(&mut self, context: u32) -> Result<RequestId> {
        self.keep(context, None, PersistentOperation::Partitioned(None))
    }

    /// Posts the receive of a part.
    fn post_part(
        &mut self,
        work: Work,
        part: PartitionedPart,
        (from, context): (Peer, u32),
        tag: i32,
    ) {
        let request = self.core.requests.insert(context, None, work);
        if let PartitionedPart::Received(id, piece) = part
            && let Some(receiving) = self.core.channels.receiving(id)
        {
            let into = Buffer::untyped(receiving.post(piece, request));
            if let Some(slot) = self.core.requests.get_mut(request) {
                slot.set_work(Work::receive(into));
            }
        }
        if let Some(slot) = self.core.requests.get_mut(request) {
            slot.on_complete_mut().part = Some(part);
        }
        self.post_receive(request, context, Some(from), Some(tag));
    }
}

/// From the start to the end.
impl Engine {
    /// A request was started.
    pub(super) fn begin_partitioned(&mut self, id: ChannelId) {
        if let Some(sending) = self.core.channels.sending(id) {
            if sending.start() {
                let request = sending.request();
                self.core.complete(request);
            }
            return;
        }
        if let Some(receiving) = self.core.channels.receiving(id) {
            receiving.start();
            self.expect_pieces(id);
        }
    }

    /// Posts receives for the pieces of a message, if it is started and its sender known.
    pub(super) fn expect_pieces(&mut self, id: ChannelId) {
        let Some(receiving) = self.core.channels.receiving(id) else {
            return;
        };
        if !receiving.is_active() || receiving.is_expecting() {
            return;
        }
        let source = receiving.source();
        let Some((pieces, first_tag)) = receiving.expect_pieces() else {
            return self.core.finish_partitioned_receive(id);
        };
        if pieces == 0 {
            return self.core.finish_partitioned_receive(id);
        }
        for piece in 0..pieces {
            let receiving = self.core.channels.receiving(id);
            // Another one may have come with it.
            if receiving.and_then(|receiving| receiving.piece(piece)) != Some(Piece::Waiting) {
                continue;
            }
            let tag = PIECE | (first_tag.wrapping_add(piece) & 0x3fff_ffff).cast_signed();
            let part = PartitionedPart::Received(id, piece);
            self.post_part(Work::Nothing, part, source, tag);
        }
    }

    /// Partitions of an active send are ready: `MPI_Pready` and its family.
    pub(crate) fn ready(&mut self, request: RequestId, partitions: Range<u32>) -> Result<()> {
        let id = self.channel_of(request)?;
        let eager = self.eager;
        let is_active = self.core.requests.checked(request)?.phase() == Phase::Active;
        let Some(id) = id else { return Ok(()) };
        let Some(sending) = self.core.channels.sending(id) else {
            return Err(wrong_request("a partitioned receive", "MPI_Psend_init"));
        };
        if !is_active {
            return Err(Error::new(
                ErrorClass::Request,
                "the partitioned send is not under way, so no partition of it can become ready; start it first",
            ));
        }
        sending.check(&partitions)?;
        let (to, context) = sending.destination();
        for pieces in sending.ready(partitions, eager) {
            let Some(sending) = self.core.channels.sending(id) else {
                break;
            };
            let (buffer, tag) = sending.message(pieces.clone());
            let tag = PIECE | tag.cast_signed();
            self.core.counters.pieces_sent.add(1);
            match self.start_send(SendMode::Standard, buffer, context, to, tag) {
                Ok(None) => self.core.end_sent(id, pieces, None),
                Ok(Some(begun)) => self.carry(begun, PartitionedPart::Sent(id, pieces)),
                // Said when the request ends.
                Err(error) => self.core.end_sent(id, pieces, Some(error)),
            }
        }
        Ok(())
    }

    /// Lets the end of a send count for a partitioned message.
    fn carry(&mut self, begun: RequestId, part: PartitionedPart) {
        let Some(slot) = self.core.requests.get_mut(begun) else {
            return;
        };
        slot.on_complete_mut().part = Some(part);
        if !slot.is_active() {
            self.core.run_on_complete(begun);
        }
    }

    /// Whether the bytes of a partition of a receive are there; always of one that is not under way.
    pub(crate) fn has_arrived(&mut self, request: RequestId, partition: u32) -> Result<bool> {
        let Some(id) = self.channel_of(request)? else {
            return Ok(true);
        };
        match self.core.channels.receiving(id) {
            Some(receiving) => receiving.has_arrived(partition),
            None => Err(wrong_request("a partitioned send", "MPI_Precv_init")),
        }
    }

    /// The message of a partitioned request; `None` if its peer is `MPI_PROC_NULL`.
    fn channel_of(&mut self, request: RequestId) -> Result<Option<ChannelId>> {
        let slot = self.core.requests.checked(request)?;
        match slot.on_complete().persistent.as_deref() {
            Some(PersistentOperation::Partitioned(channel)) => Ok(*channel),
            _ => Err(wrong_request(
                "not partitioned",
                "MPI_Psend_init or MPI_Precv_init",
            )),
        }
    }
}

impl Core {
    /// A request that carries a part of a partitioned message has ended.
    pub(super) fn end_part_of_message(&mut self, request: RequestId, part: PartitionedPart) {
        let Some(slot) = self.requests.get_mut(request) else {
            return;
        };
        let outcome = slot.take_outcome();
        self.requests.release(request);
        match part {
            PartitionedPart::Announcement(id) => self.end_announcement(id, outcome),
            PartitionedPart::Sent(id, pieces) => self.end_sent(id, pieces, outcome.error),
            PartitionedPart::Received(id, piece) => {
                let Some(receiving) = self.channels.receiving(id) else {
                    return;
                };
                let came = receiving.came(piece, &outcome);
                for other in came.start + 1..came.end {
                    let receiving = self.channels.receiving(id);
                    if let Some(Piece::Posted(posted)) =
                        receiving.and_then(|receiving| receiving.piece(other))
                    {
                        self.withdraw(posted);
                    }
                }
                if let Some(receiving) = self.channels.receiving(id)
                    && receiving.end(came)
                {
                    self.finish_partitioned_receive(id);
                }
            }
        }
    }

    fn end_announcement(&mut self, id: ChannelId, outcome: super::status::Outcome) {
        let Some(receiving) = self.channels.receiving(id) else {
            return;
        };
        receiving.learn(outcome);
        if receiving.is_freed {
            self.channels.free(id);
        } else if receiving.is_active() {
            self.deferred.push(Deferred::Announced(id));
        }
    }

    /// Takes a posted receive back.
    fn withdraw(&mut self, request: RequestId) {
        let posted = self
            .requests
            .get(request)
            .and_then(super::request::Request::posted);
        if let Some(handle) = posted {
            self.matching.cancel(handle);
            self.counters.posted_withdrawn.add(1);
        }
        self.requests.release(request);
    }

    /// Pieces have left, or never will.
    fn end_sent(&mut self, id: ChannelId, pieces: Range<u32>, error: Option<Error>) {
        let Some(sending) = self.channels.sending(id) else {
            return;
        };
        if !sending.end(pieces.len() as u32, error) {
            return;
        }
        let (request, error) = (sending.request(), sending.take_error());
        if let Some(slot) = self.requests.get_mut(request) {
            slot.fail(error);
        }
        self.complete(request);
    }

    /// All of a partitioned receive is there, or never will be.
    fn finish_partitioned_receive(&mut self, id: ChannelId) {
        let Some(receiving) = self.channels.receiving(id) else {
            return;
        };
        let (request, outcome) = (receiving.request(), receiving.finish());
        if let Some(slot) = self.requests.get_mut(request) {
            slot.set_outcome(outcome);
        }
        self.complete(request);
    }
}

#[cold]
fn wrong_request(found: &str, expected: &str) -> Error {
    Error::new(
        ErrorClass::Request,
        format!("the request is {found}; pass one of {expected}"),
    )
}
