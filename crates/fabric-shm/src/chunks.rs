//! The portal's way that always works: chunks through the lanes, copied in by one side's `poll` and
//! out by the other's, several under way at a time.
//!
//! ```text
//!   get:   asker ── Get{id, token, offset, length} ─► owner
//!                ◄─ Chunk{id, at} + bytes, in order ──
//!                ◄─ End{id, code} ────────────────────
//!   put:   asker ── Put{id, token, offset, length} ─► owner
//!                ── Chunk{id, at} + bytes, in order ─►
//!                ◄─ End{id, code} ────────────────────
//! ```
//!
//! The chunks of a transfer share the lane with messages. They use at most half of it, so that
//! messages get through, and a piece is at most a quarter of the bulk area, so that a drained lane
//! always takes one (credit is published by quarters, see `lane.rs`).
//!
//! # Who is trusted with what
//! The asker believes of a chunk only that it continues a get of its own from that peer. The owner
//! decides about each request by its private table of grants, and accepts at most [`OUTSTANDING`]
//! of a peer at a time, as many as an honest one asks for; so what it must remember is bounded.
//!
//! A revoked grant ends its transfers at once: the rest is not sent, or not written, and the asker
//! is told.

use std::collections::{HashMap, VecDeque};

use weft_fabric::{FabricError, Operation, Peer, Posted, Region, Result, SharedBytes, Sink, Token};

use crate::endpoint::Shm;
use crate::grants::{Access, Refusal};
use crate::lane::{Item, Kind};
use crate::portal::Asked;
use crate::receive::{head, words};

/// Transfers between one asker and one owner at a time.
const OUTSTANDING: u32 = 32;

/// Chunks of one transfer before the next has its turn.
const TURN: usize = 4;

const DONE: u64 = 0;
const NOT_GRANTED: u64 = 1;
const OUTSIDE: u64 = 2;

/// Bytes of an answer to a get, or of a put: the third word of a chunk's head.
const ANSWER: u64 = 0;
const PUT: u64 = 1;

/// A transfer that this rank asked for.
#[derive(Debug)]
struct Transfer {
    asked: Asked,
    received: usize,
}

/// Bytes on their way out.
#[derive(Debug)]
struct Job {
    to: Peer,
    id: u64,
    source: Region,
    sent: usize,
    /// The grant that they answer for; `None` for a put of ours.
    grant: Option<Token>,
}

/// A put of a peer on its way in.
#[derive(Debug)]
struct Incoming {
    from: Peer,
    id: u64,
    target: Region,
    received: usize,
    grant: Token,
}

/// The end of a transfer that a peer asked for, not sent yet.
#[derive(Debug)]
struct Reply {
    to: Peer,
    id: u64,
    code: u64,
}

/// All transfers that are under way through chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    piece: usize,
    next_id: u64,
    asked: HashMap<u64, Transfer>,
    jobs: VecDeque<Job>,
    incoming: Vec<Incoming>,
    replies: VecDeque<Reply>,
    /// Transfers asked for by us, per peer.
    ours: HashMap<u32, u32>,
    /// Transfers asked for by the peer and not answered yet.
    theirs: HashMap<u32, u32>,
}

impl Chunks {
    pub fn new(piece: u32) -> Self {
        Self {
            piece: piece as usize,
            next_id: 0,
            asked: HashMap::new(),
            jobs: VecDeque::new(),
            incoming: Vec::new(),
            replies: VecDeque::new(),
            ours: HashMap::new(),
            theirs: HashMap::new(),
        }
    }

    /// Whether there is anything to send.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.jobs.is_empty() || !self.replies.is_empty()
    }

    fn reply(&mut self, to: Peer, id: u64, code: u64) {
        self.replies.push_back(Reply { to, id, code });
    }

    /// Ends a transfer of ours.
    fn end(&mut self, id: u64) -> Option<Transfer> {
        let transfer = self.asked.remove(&id)?;
        if let Some(count) = self.ours.get_mut(&transfer.asked.peer.0) {
            *count = count.saturating_sub(1);
        }
        self.jobs.retain(|job| job.grant.is_some() || job.id != id);
        Some(transfer)
    }
}

impl Shm {
    /// Asks the owner of a grant for a transfer.
    pub(crate) fn request(&mut self, asked: Asked) -> Result<Posted> {
        let Asked {
            peer,
            token,
            offset,
            region,
            access,
            ..
        } = asked;
        let count = self.chunks.ours.entry(peer.0).or_default();
        if *count >= OUTSTANDING {
            return Ok(Posted::Retry);
        }
        let id = self.chunks.next_id;
        let kind = match access {
            Access::Read => Kind::Get,
            Access::Write => Kind::Put,
        };
        let request = head([id, token.0, offset, region.len() as u64]);
        if self.post(peer, kind, &request, SharedBytes::of(&[]))? != Posted::Done {
            return Ok(Posted::Retry);
        }
        let chunks = &mut self.chunks;
        chunks.next_id += 1;
        *chunks.ours.entry(peer.0).or_default() += 1;
        chunks.asked.insert(id, Transfer { asked, received: 0 });
        if access == Access::Write && !region.is_empty() {
            chunks.jobs.push_back(Job {
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
    pub(crate) fn advance(&mut self) -> usize {
        let mut moved = 0;
        for _ in 0..self.chunks.jobs.len() {
            let Some(mut job) = self.chunks.jobs.pop_front() else {
                break;
            };
            moved += self.send_chunks(&mut job);
            if job.sent < job.source.len() && !self.gone.contains_key(&job.to.0) {
                self.chunks.jobs.push_back(job);
            } else if let Some(token) = job.grant {
                self.grants.served(token);
                self.chunks.reply(job.to, job.id, DONE);
            }
        }
        for _ in 0..self.chunks.replies.len() {
            let Some(reply) = self.chunks.replies.pop_front() else {
                break;
            };
            let end = head([reply.id, reply.code, 0, 0]);
            match self.post(reply.to, Kind::End, &end, SharedBytes::of(&[])) {
                Ok(Posted::Retry) => self.chunks.replies.push_back(reply),
                Ok(_) => {
                    self.answered(reply.to);
                    moved += 1;
                }
                // The asker has left: nobody waits for the answer.
                Err(_) => self.answered(reply.to),
            }
        }
        moved
    }

    fn answered(&mut self, to: Peer) {
        if let Some(count) = self.chunks.theirs.get_mut(&to.0) {
            *count = count.saturating_sub(1);
        }
    }

    /// Sends chunks of one job until its turn ends or the lane has no spare room.
    fn send_chunks(&mut self, job: &mut Job) -> usize {
        let mut moved = 0;
        while moved < TURN && job.sent < job.source.len() {
            let length = self.chunks.piece.min(job.source.len() - job.sent);
            let Some(lane) = self.out.get_mut(job.to.index()) else {
                break;
            };
            if !lane.has_spare_room(length as u32) {
                break;
            }
            let Some(part) = job.source.part(job.sent, length) else {
                break;
            };
            // SAFETY: the region is valid by its maker's promise until the transfer has ended.
            let data = unsafe { SharedBytes::new(part.as_ptr(), length) };
            let role = if job.grant.is_some() { ANSWER } else { PUT };
            let chunk = head([job.id, job.sent as u64, role, 0]);
            match self.post(job.to, Kind::Chunk, &chunk, data) {
                Ok(Posted::Done) => {
                    job.sent += length;
                    moved += 1;
                }
                _ => break,
            }
        }
        moved
    }

    /// Handles what a peer sent about transfers.
    #[cold]
    pub(crate) fn receive_portal(&mut self, from: Peer, item: Item<'_>, sink: &mut dyn Sink) {
        let head = words(&item.head);
        let honest = match item.kind {
            Kind::Get => self.receive_request(from, head, Access::Read),
            Kind::Put => self.receive_request(from, head, Access::Write),
            Kind::Chunk if head[2] == ANSWER => self.receive_answer(from, head, item.data),
            Kind::Chunk => self.receive_put(from, head, item.data),
            Kind::End => self.receive_end(from, head, sink),
            Kind::Help | Kind::Message | Kind::Signal => true,
        };
        if !honest {
            self.lose(from, "it sent bytes that belong to no transfer", sink);
        }
    }

    fn receive_request(&mut self, from: Peer, head: [u64; 4], access: Access) -> bool {
        let [id, token, offset, length] = head;
        let (token, count) = (Token(token), self.chunks.theirs.entry(from.0).or_default());
        if *count >= OUTSTANDING {
            return false;
        }
        *count += 1;
        match self
            .grants
            .serve(&self.segment, token, access, from, offset, length)
        {
            Err(Refusal::NotGranted) => self.chunks.reply(from, id, NOT_GRANTED),
            Err(Refusal::Outside) => self.chunks.reply(from, id, OUTSIDE),
            Ok(region) if access == Access::Read => self.chunks.jobs.push_back(Job {
                to: from,
                id,
                source: region,
                sent: 0,
                grant: Some(token),
            }),
            Ok(region) if region.is_empty() => {
                self.grants.served(token);
                self.chunks.reply(from, id, DONE);
            }
            Ok(region) => self.chunks.incoming.push(Incoming {
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
        let Some(transfer) = self.chunks.asked.get_mut(&id) else {
            return false;
        };
        if transfer.asked.peer != from || transfer.asked.access != Access::Read {
            return false;
        }
        take_chunk(transfer.asked.region, &mut transfer.received, at, data)
    }

    fn receive_put(&mut self, from: Peer, head: [u64; 4], data: SharedBytes<'_>) -> bool {
        let [id, at, ..] = head;
        let found = self
            .chunks
            .incoming
            .iter()
            .position(|put| put.from == from && put.id == id);
        let Some(place) = found else {
            // Refused or revoked; its sender has not heard of it yet.
            return true;
        };
        let put = &mut self.chunks.incoming[place];
        if !take_chunk(put.target, &mut put.received, at, data) {
            return false;
        }
        if put.received == put.target.len() {
            let put = self.chunks.incoming.swap_remove(place);
            self.grants.served(put.grant);
            self.chunks.reply(from, id, DONE);
        }
        true
    }

    fn receive_end(&mut self, from: Peer, head: [u64; 4], sink: &mut dyn Sink) -> bool {
        let [id, code, ..] = head;
        match self.chunks.asked.get(&id) {
            Some(transfer) if transfer.asked.peer == from => {}
            _ => return false,
        }
        let Some(Transfer { asked, received }) = self.chunks.end(id) else {
            return false;
        };
        let length = asked.region.len() as u64;
        let result = match code {
            DONE if asked.access == Access::Read && received < asked.region.len() => {
                Err(FabricError::System {
                    what: format!(
                        "peer {from} ended a transfer after {received} of {length} bytes"
                    ),
                })
            }
            DONE => Ok(()),
            OUTSIDE => Err(Refusal::Outside.error(from, asked.offset, length)),
            _ => Err(Refusal::NotGranted.error(from, asked.offset, length)),
        };
        sink.transfer_completed(asked.operation, result);
        true
    }

    /// Ends the transfers that are being served from a grant which is no more.
    pub(crate) fn cancel_served(&mut self, token: Token) {
        let Chunks {
            jobs,
            incoming,
            replies,
            ..
        } = &mut self.chunks;
        let mut end = |to: Peer, id: u64| {
            replies.push_back(Reply {
                to,
                id,
                code: NOT_GRANTED,
            });
        };
        jobs.retain(|job| {
            let keep = job.grant != Some(token);
            if !keep {
                end(job.to, job.id);
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

    /// Ends all transfers with a peer that is gone.
    pub(crate) fn drop_transfers(&mut self, peer: Peer, reason: &str, sink: &mut dyn Sink) {
        let ended: Vec<Operation> = {
            let chunks = &mut self.chunks;
            for job in &chunks.jobs {
                if let (true, Some(token)) = (job.to == peer, job.grant) {
                    self.grants.served(token);
                }
            }
            chunks.jobs.retain(|job| job.to != peer);
            for put in &chunks.incoming {
                if put.from == peer {
                    self.grants.served(put.grant);
                }
            }
            chunks.incoming.retain(|put| put.from != peer);
            chunks.replies.retain(|reply| reply.to != peer);
            chunks.ours.remove(&peer.0);
            chunks.theirs.remove(&peer.0);
            let mut gone: Vec<u64> = chunks
                .asked
                .iter()
                .filter(|(_, transfer)| transfer.asked.peer == peer)
                .map(|(&id, _)| id)
                .collect();
            gone.sort_unstable();
            gone.iter()
                .filter_map(|id| chunks.asked.remove(id))
                .map(|transfer| transfer.asked.operation)
                .collect()
        };
        for operation in ended {
            let reason = reason.to_owned();
            sink.transfer_completed(operation, Err(FabricError::PeerLost { peer, reason }));
        }
    }
}

/// Takes the next chunk of a transfer; false if it is not the next.
fn take_chunk(target: Region, received: &mut usize, at: u64, data: SharedBytes<'_>) -> bool {
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
