//! Chunks: the portal's method that always works. Bytes go through the lanes, copied in by one side's `poll` and out by
//! the other's, several transfers under way at a time.
//!
//! ```text
//!   get:   origin ── Get{id, token, offset, length} ─► owner
//!                 ◄─ Chunk{id, at} + bytes, in order ──
//!                 ◄─ End{id, code} ────────────────────
//!   put:   origin ── Put{id, token, offset, length} ─► owner
//!                 ── Chunk{id, at} + bytes, in order ─►
//!                 ◄─ End{id, code} ────────────────────
//! ```
//!
//! The chunks of a transfer share the lane with messages. They use at most half of it, so that
//! messages get through, and a piece is at most a quarter of the bulk area, so that a drained lane
//! always takes one (credit is published by quarters, see `lane.rs`).
//!
//! # Trust
//! The origin accepts a chunk only if it continues a get of its own from that peer. The owner decides about each request
//! by its private table of grants, and accepts at most [`OUTSTANDING`] of a peer at a time, as many as an honest peer
//! asks for; so what it must remember is bounded.
//!
//! A revoked grant ends its transfers at once: the rest is not sent, or not written, and the origin is told.

use std::collections::{HashMap, VecDeque};

use weft_fabric::{FabricError, Peer, Posted, Region, Result, SharedBytes, Sink, Token};

use super::grants::{Access, GrantTable, Refusal};
use super::transfer::{self, TransferRequest};
use crate::lane::{Packet, PacketKind, head, words};
use crate::layout::Shape;
use crate::outbound::Link;

/// Transfers between one origin and one owner at a time.
const OUTSTANDING: u32 = 32;

/// Chunks of one transfer before the next has its turn.
const TURN: usize = 4;

const DONE: u64 = 0;
const NOT_GRANTED: u64 = 1;
const OUTSIDE: u64 = 2;

/// Bytes of an answer to a get, or of a put: the third word of a chunk's head.
const ANSWER: u64 = 0;
const PUT: u64 = 1;

/// Transfer that this rank asked for.
#[derive(Debug)]
struct OwnTransfer {
    request: TransferRequest,
    received: usize,
}

/// Bytes on their way out.
#[derive(Debug)]
struct Outgoing {
    to: Peer,
    id: u64,
    source: Region,
    sent: usize,
    /// The grant that they answer for; `None` for a put of ours.
    grant: Option<Token>,
}

/// Put of a peer on its way in.
#[derive(Debug)]
struct IncomingPut {
    from: Peer,
    id: u64,
    target: Region,
    received: usize,
    grant: Token,
}

/// End of a transfer that a peer asked for, not sent yet.
#[derive(Debug)]
struct EndReply {
    to: Peer,
    id: u64,
    code: u64,
}

/// All transfers that are under way through chunks. See the [module page](self).
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Most bytes of a chunk.
    piece: usize,
    next_id: u64,
    own: HashMap<u64, OwnTransfer>,
    outgoing: VecDeque<Outgoing>,
    incoming: Vec<IncomingPut>,
    replies: VecDeque<EndReply>,
    /// Transfers asked for by us, per peer.
    ours: HashMap<u32, u32>,
    /// Transfers asked for by the peer and not answered yet.
    theirs: HashMap<u32, u32>,
}

impl Chunks {
    /// No transfers, through lanes of this shape.
    pub fn new(shape: &Shape) -> Self {
        Self {
            piece: piece(shape),
            next_id: 0,
            own: HashMap::new(),
            outgoing: VecDeque::new(),
            incoming: Vec::new(),
            replies: VecDeque::new(),
            ours: HashMap::new(),
            theirs: HashMap::new(),
        }
    }

    /// How many transfers and answers have something to send.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.outgoing.len() + self.replies.len()
    }

    fn reply(&mut self, to: Peer, id: u64, code: u64) {
        self.replies.push_back(EndReply { to, id, code });
    }

    /// Ends a transfer of ours.
    fn end(&mut self, id: u64) -> Option<OwnTransfer> {
        let transfer = self.own.remove(&id)?;
        if let Some(count) = self.ours.get_mut(&transfer.request.peer.0) {
            *count = count.saturating_sub(1);
        }
        self.outgoing
            .retain(|bytes| bytes.grant.is_some() || bytes.id != id);
        Some(transfer)
    }

    /// Asks the owner of a grant for a transfer.
    ///
    /// # Errors
    /// If the owner is lost or has left.
    pub fn request(&mut self, link: &mut Link<'_>, request: TransferRequest) -> Result<Posted> {
        let TransferRequest {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = request;
        let count = self.ours.entry(peer.0).or_default();
        if *count >= OUTSTANDING {
            return Ok(Posted::Retry);
        }
        let id = self.next_id;
        let kind = match access {
            Access::Read => PacketKind::Get,
            Access::Write => PacketKind::Put,
        };
        let asked = head([id, token.0, offset, region.len() as u64]);
        if link.post(peer, kind, &asked, SharedBytes::of(&[]))? != Posted::Done {
            return Ok(Posted::Retry);
        }
        self.next_id += 1;
        *count += 1;
        let received = 0;
        self.own.insert(id, OwnTransfer { request, received });
        if access == Access::Write && !region.is_empty() {
            self.outgoing.push_back(Outgoing {
                to: peer,
                id,
                source: region,
                sent: 0,
                grant: None,
            });
        }
        Ok(Posted::Pending)
    }

    /// Sends what there is to send, as far as the lanes have room. Answers how much that was.
    #[cold]
    pub fn advance(&mut self, grants: &mut GrantTable, link: &mut Link<'_>) -> usize {
        let mut done = 0;
        for _ in 0..self.outgoing.len() {
            let Some(mut bytes) = self.outgoing.pop_front() else {
                break;
            };
            done += self.send_chunks(&mut bytes, link);
            if bytes.sent < bytes.source.len() && !link.is_lost(bytes.to) {
                self.outgoing.push_back(bytes);
            } else if let Some(token) = bytes.grant {
                grants.served(token);
                self.reply(bytes.to, bytes.id, DONE);
            }
        }
        for _ in 0..self.replies.len() {
            let Some(reply) = self.replies.pop_front() else {
                break;
            };
            let end = head([reply.id, reply.code, 0, 0]);
            match link.post(reply.to, PacketKind::End, &end, SharedBytes::of(&[])) {
                Ok(Posted::Retry) => self.replies.push_back(reply),
                Ok(_) => {
                    self.answered(reply.to);
                    done += 1;
                }
                // The origin has left: nobody waits for the answer.
                Err(_) => self.answered(reply.to),
            }
        }
        done
    }

    fn answered(&mut self, to: Peer) {
        if let Some(count) = self.theirs.get_mut(&to.0) {
            *count = count.saturating_sub(1);
        }
    }

    /// Sends chunks of one transfer until its turn ends or the lane has no spare room.
    fn send_chunks(&self, bytes: &mut Outgoing, link: &mut Link<'_>) -> usize {
        let role = if bytes.grant.is_some() { ANSWER } else { PUT };
        let role = (bytes.to, bytes.id, role);
        // SAFETY: whoever made the region promised that it is valid until the transfer has ended, or until the
        // grant was revoked: then it was taken off `outgoing`, by `end` or `cancel_served`.
        unsafe { send_chunks(link, role, bytes.source, &mut bytes.sent, self.piece) }
    }

    /// Handles what a peer sent about transfers. False if no honest peer sends it.
    #[cold]
    pub fn receive(
        &mut self,
        grants: &mut GrantTable,
        from: Peer,
        packet: &Packet<'_>,
        sink: &mut dyn Sink,
    ) -> bool {
        let head = words(&packet.head);
        match packet.kind {
            PacketKind::Get => self.receive_request(grants, from, head, Access::Read),
            PacketKind::Put => self.receive_request(grants, from, head, Access::Write),
            PacketKind::Chunk if head[2] == ANSWER => self.receive_answer(from, head, packet.data),
            PacketKind::Chunk => self.receive_put(grants, from, head, packet.data),
            PacketKind::End => self.receive_end(from, head, sink),
            PacketKind::Assist | PacketKind::Ask | PacketKind::Message | PacketKind::Signal => true,
        }
    }

    fn receive_request(
        &mut self,
        grants: &mut GrantTable,
        from: Peer,
        head: [u64; 4],
        access: Access,
    ) -> bool {
        let [id, token, offset, length] = head;
        let (token, count) = (Token(token), self.theirs.entry(from.0).or_default());
        if *count >= OUTSTANDING {
            return false;
        }
        *count += 1;
        match grants.serve(token, access, from, offset, length) {
            Err(Refusal::NotGranted) => self.reply(from, id, NOT_GRANTED),
            Err(Refusal::Outside) => self.reply(from, id, OUTSIDE),
            Ok(region) if access == Access::Read => self.outgoing.push_back(Outgoing {
                to: from,
                id,
                source: region,
                sent: 0,
                grant: Some(token),
            }),
            Ok(region) if region.is_empty() => {
                grants.served(token);
                self.reply(from, id, DONE);
            }
            Ok(region) => self.incoming.push(IncomingPut {
                from,
                id,
                target: region,
                received: 0,
                grant: token,
            }),
        }
        true
    }

    fn receive_answer(&mut self, from: Peer, head: [u64; 4], data: SharedBytes<'_>) -> bool {
        let [id, at, ..] = head;
        let Some(transfer) = self.own.get_mut(&id) else {
            return false;
        };
        if transfer.request.peer != from || transfer.request.access != Access::Read {
            return false;
        }
        take_chunk(transfer.request.region, &mut transfer.received, at, data)
    }

    fn receive_put(
        &mut self,
        grants: &mut GrantTable,
        from: Peer,
        head: [u64; 4],
        data: SharedBytes<'_>,
    ) -> bool {
        let [id, at, ..] = head;
        let mut puts = self.incoming.iter();
        let Some(index) = puts.position(|put| put.from == from && put.id == id) else {
            // Refused or revoked; its sender has not heard of it yet.
            return true;
        };
        let put = &mut self.incoming[index];
        if !take_chunk(put.target, &mut put.received, at, data) {
            return false;
        }
        if put.received == put.target.len() {
            let put = self.incoming.swap_remove(index);
            grants.served(put.grant);
            self.reply(from, id, DONE);
        }
        true
    }

    fn receive_end(&mut self, from: Peer, head: [u64; 4], sink: &mut dyn Sink) -> bool {
        let [id, code, ..] = head;
        match self.own.get(&id) {
            Some(transfer) if transfer.request.peer == from => {}
            _ => return false,
        }
        let Some(OwnTransfer { request, received }) = self.end(id) else {
            return false;
        };
        let length = request.region.len() as u64;
        let result = match code {
            DONE if request.access == Access::Read && received < request.region.len() => {
                Err(FabricError::System {
                    what: format!(
                        "peer {from} ended a transfer after {received} of {length} bytes"
                    ),
                })
            }
            DONE => Ok(()),
            OUTSIDE => Err(Refusal::Outside.error(from, request.offset, length)),
            _ => Err(Refusal::NotGranted.error(from, request.offset, length)),
        };
        sink.transfer_completed(request.operation, result);
        true
    }

    /// Ends the transfers that are being served from a grant which is no more.
    pub fn cancel_served(&mut self, token: Token) {
        let Self {
            outgoing,
            incoming,
            replies,
            ..
        } = self;
        let mut end = |to: Peer, id: u64| {
            replies.push_back(EndReply {
                to,
                id,
                code: NOT_GRANTED,
            });
        };
        outgoing.retain(|bytes| {
            let keep = bytes.grant != Some(token);
            if !keep {
                end(bytes.to, bytes.id);
            }
            keep
        });
        incoming.retain(|put| {
            let keep = put.grant != token;
            if !keep {
                end(put.from, put.id);
            }
            keep
        });
    }

    /// Ends all transfers with a peer that is lost.
    pub fn end_transfers_with(
        &mut self,
        grants: &mut GrantTable,
        peer: Peer,
        reason: &str,
        sink: &mut dyn Sink,
    ) {
        for bytes in &self.outgoing {
            if let (true, Some(token)) = (bytes.to == peer, bytes.grant) {
                grants.served(token);
            }
        }
        self.outgoing.retain(|bytes| bytes.to != peer);
        for put in &self.incoming {
            if put.from == peer {
                grants.served(put.grant);
            }
        }
        self.incoming.retain(|put| put.from != peer);
        self.replies.retain(|reply| reply.to != peer);
        self.ours.remove(&peer.0);
        self.theirs.remove(&peer.0);
        let mut ended: Vec<u64> = self
            .own
            .iter()
            .filter(|(_, transfer)| transfer.request.peer == peer)
            .map(|(&id, _)| id)
            .collect();
        ended.sort_unstable();
        for id in ended {
            if let Some(ended) = self.own.remove(&id) {
                transfer::lose(&ended.request, reason, sink);
            }
        }
    }
}

/// Most bytes of a chunk.
pub(super) fn piece(shape: &Shape) -> usize {
    shape.data.min(shape.bulk / 4) as usize
}

/// Sends chunks of a transfer from `sent` on until its turn ends or the lane has no spare room: to whom, and the transfer's number
/// and what its bytes are for, as a chunk says it. Answers how many.
///
/// # Safety
/// `source` is valid for reads.
pub(super) unsafe fn send_chunks(
    link: &mut Link<'_>,
    (to, id, role): (Peer, u64, u64),
    source: Region,
    sent: &mut usize,
    piece: usize,
) -> usize {
    let mut done = 0;
    while done < TURN && *sent < source.len() {
        let length = piece.min(source.len() - *sent);
        if !link.has_spare_room(to, length) {
            break;
        }
        let Some(part) = source.part(*sent, length) else {
            break;
        };
        // SAFETY: as the caller promises.
        let data = unsafe { SharedBytes::new(part.as_ptr(), length) };
        let chunk = head([id, *sent as u64, role, 0]);
        match link.post(to, PacketKind::Chunk, &chunk, data) {
            Ok(Posted::Done) => {
                *sent += length;
                done += 1;
            }
            _ => break,
        }
    }
    done
}

/// Takes the next chunk of a transfer; false if it is not the next.
pub(super) fn take_chunk(
    target: Region,
    received: &mut usize,
    at: u64,
    data: SharedBytes<'_>,
) -> bool {
    if at != *received as u64 || data.is_empty() {
        return false;
    }
    let Some(part) = target.part(*received, data.len()) else {
        return false;
    };
    data.copy_to_region(&part);
    *received += data.len();
    true
}
