//! Asked gets: large ones that this rank could fetch by itself, but asks the owner to send, who copies them into the lane while
//! this rank copies them out.
//!
//! ```text
//!   origin                                         owner
//!   ── Ask{id, token, offset, length} ───────────► remembers it; its next polls:
//!   ◄─ Chunk{id, at, ASKED} + bytes, in order ───  while the grant is live: holds it, copies some in, releases it
//!   ◄─ Chunk … ──────────────────────────────────
//!   all there: enters the grant, and leaves
//!   nothing came for QUIET polls: enters the grant, fetches the rest, and leaves
//! ```
//!
//! Two copies by two cores, through caches, take half of the time of one copy by the kernel, which finds and pins each page
//! of both sides (decision 75). But they need the owner's attention, which may go and compute at any time. So the bytes stay
//! the origin's to fetch: the owner sends as long as it polls, and once nothing comes the origin fetches the rest
//! itself. The owner of whom nothing came at all is not asked for the next [`DECLINED`] gets. It is not asked when it sleeps, unless there is
//! much to move, nor when ranks outnumber cores.
//!
//! # When the memory of the owner is free again
//! The owner reads a grant for a peer only while it [holds](weft_atomic::admission::Admission::hold) it: live, and counted in. The origin
//! uses a grant for one use up only at the end, and then waits until the owner has let go. Chunks that come after that
//! are dropped.
//!
//! # Trust
//! The origin accepts a chunk only if it continues an asked get of its own from that peer, or is one of a get that has ended. The owner
//! sends only what its private table of grants allows the peer that asks; more than [`MOST`] asked gets are ignored.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use weft_fabric::{Peer, Posted, Region, Result, SharedBytes, Sink, Token};

use super::chunks::{self, take_chunk};
use super::grants::{self, Access, GrantTable, TransferError};
use super::transfer::{self, TransferRequest, copy_by_attach};
use crate::lane::{Packet, PacketKind, head, words};
use crate::options::Use;
use crate::outbound::Link;
use crate::segment::Segment;

/// In the third word of a chunk's head: bytes of an asked get.
const ASKED: u64 = 2;

/// From this length on it is worth asking. Messages of up to 64 KiB travel with their envelope where there are few processes; with more, shorter ones.
const WORTH_ASKING: usize = 16 << 10;

/// From this length on it is worth waking the owner for it, if it has a core to wake on: that takes 15 to 35 µs.
const WORTH_WAKING: usize = 2 << 20;

/// Most bytes of a chunk: one end copies out while the other copies the next one in, so the first one is not to be long; and short ones
/// cost a packet each. Of 8, 12, 16, 24, 32 and 48 KiB this took the least, for cores near to each other and far.
const MOST_OF_CHUNK: usize = 16 << 10;

/// Polls in a row without a chunk from an owner, after which its bytes are fetched: some ten microseconds. One that sleeps has to
/// wake first.
const QUIET: u32 = 500;
const QUIET_IF_ASLEEP: u32 = 2000;

/// Gets for which an owner is not asked that did not answer the last time.
const DECLINED: u32 = 15;

/// Asked gets of others that are remembered; further ones are ignored.
const MOST: usize = 64;

/// Whether a chunk is one of an asked get.
pub(super) fn is_of_one(chunk: &Packet<'_>) -> bool {
    words(&chunk.head)[2] == ASKED
}

/// Get that this rank has asked for.
#[derive(Debug)]
struct AskedGet {
    request: TransferRequest,
    /// The owner's process, for fetching.
    process: u32,
    received: usize,
}

/// What is known of an owner that is asked, or was.
#[derive(Debug, Default)]
struct Attention {
    /// Gets under way.
    gets: u32,
    /// Polls since it was asked, or the last chunk came.
    quiet: u32,
    /// Polls after which nothing is expected any more.
    patience: u32,
    /// Something has come since it was last asked while nothing was under way.
    answers: bool,
    /// Gets for which it is not asked.
    declined: u32,
}

/// Get of a peer that this rank sends the bytes of.
#[derive(Debug)]
struct Sending {
    to: Peer,
    id: u64,
    token: Token,
    source: Region,
    sent: usize,
}

/// A get whose bytes the kernel did not let us fetch, for this reason.
#[derive(Debug)]
pub(crate) struct Unfetched {
    pub request: TransferRequest,
    pub reason: String,
}

/// Gets that this rank has asked for, and those that it is asked for. See the [module page](self).
#[derive(Debug)]
pub(crate) struct AskedGets {
    segment: Arc<Segment>,
    me: u32,
    wish: Use,
    /// Most bytes of a chunk.
    piece: usize,
    next_id: u64,
    /// By their id: the oldest first.
    own: BTreeMap<u64, AskedGet>,
    owners: HashMap<u32, Attention>,
    sending: VecDeque<Sending>,
}

/// Asking.
impl AskedGets {
    /// None, of process slot `me`. `wish`: whether to ask.
    pub fn new(segment: Arc<Segment>, me: u32, wish: Use) -> Self {
        Self {
            piece: MOST_OF_CHUNK.min(chunks::piece(segment.shape())),
            segment,
            me,
            wish,
            next_id: 0,
            own: BTreeMap::new(),
            owners: HashMap::new(),
            sending: VecDeque::new(),
        }
    }

    /// How many there are.
    #[inline]
    pub fn under_way(&self) -> usize {
        self.own.len() + self.sending.len()
    }

    /// Whether this rank waits for bytes that it has asked for.
    pub fn expect_something(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether to ask the owner for the bytes of a transfer.
    pub fn are_wanted(&mut self, request: &TransferRequest) -> bool {
        let length = request.region.len();
        if request.access != Access::Read || length <= WORTH_ASKING || self.wish == Use::Off {
            return false;
        }
        if self.wish == Use::On {
            return true;
        }
        if let Some(owner) = self.owners.get_mut(&request.peer.0)
            && owner.declined > 0
        {
            owner.declined -= 1;
            return false;
        }
        let load = self.segment.load();
        if self.is_asleep(request.peer) {
            length >= WORTH_WAKING && load.awake < load.cores
        } else {
            load.awake <= load.cores
        }
    }

    fn is_asleep(&self, peer: Peer) -> bool {
        self.segment.header().run_states.sleeps(peer.0)
    }

    /// Asks the owner for the bytes of a get.
    ///
    /// # Errors
    /// If the owner is lost or has left.
    pub fn ask(
        &mut self,
        link: &mut Link<'_>,
        request: TransferRequest,
        process: u32,
    ) -> Result<Posted> {
        let (id, peer, length) = (self.next_id, request.peer, request.region.len());
        let slept = self.is_asleep(peer);
        let asked = head([id, request.token.0, request.offset, length as u64]);
        if link.post(peer, PacketKind::Ask, &asked, SharedBytes::of(&[]))? != Posted::Done {
            return Ok(Posted::Retry);
        }
        self.next_id += 1;
        let get = AskedGet {
            request,
            process,
            received: 0,
        };
        self.own.insert(id, get);
        let owner = self.owners.entry(peer.0).or_default();
        if owner.gets == 0 {
            owner.quiet = 0;
            owner.answers = false;
            owner.patience = if slept { QUIET_IF_ASLEEP } else { QUIET };
        }
        owner.gets += 1;
        Ok(Posted::Pending)
    }

    /// Takes a chunk of an asked get. False if no honest peer sends it.
    #[must_use]
    pub fn receive_chunk(&mut self, from: Peer, packet: &Packet<'_>, sink: &mut dyn Sink) -> bool {
        let [id, at, ..] = words(&packet.head);
        let Some(get) = self.own.get_mut(&id) else {
            // Late, of a get whose rest was fetched.
            return id < self.next_id;
        };
        if get.request.peer != from
            || !take_chunk(get.request.region, &mut get.received, at, packet.data)
        {
            return false;
        }
        let is_whole = get.received == get.request.region.len();
        if let Some(owner) = self.owners.get_mut(&from.0) {
            (owner.quiet, owner.answers, owner.declined) = (0, true, 0);
        }
        if is_whole && let Some(get) = self.take(id) {
            // There is nothing left to fetch, so the kernel has no say.
            _ = self.fetch_rest(&get, sink);
        }
        true
    }

    /// Takes out a get that ends.
    fn take(&mut self, id: u64) -> Option<AskedGet> {
        let get = self.own.remove(&id)?;
        if let Some(owner) = self.owners.get_mut(&get.request.peer.0) {
            owner.gets -= 1;
        }
        Some(get)
    }

    /// One more poll has passed: fetches what an owner has not sent, of one that seems to have gone away. Answers a get that the
    /// kernel did not let us fetch.
    pub fn fetch_from_the_quiet(&mut self, sink: &mut dyn Sink) -> Option<Unfetched> {
        let mut gone = None;
        for (peer, owner) in &mut self.owners {
            if owner.gets > 0 {
                owner.quiet += 1;
                if owner.quiet > owner.patience {
                    gone = Some(*peer);
                }
            }
        }
        let gone = gone?;
        let is_from = |get: &AskedGet| get.request.peer.0 == gone;
        let id = self.own.iter().find(|(_, get)| is_from(get))?.0;
        let get = self.take(*id)?;
        if let Some(owner) = self.owners.get_mut(&gone)
            && !owner.answers
        {
            owner.declined = DECLINED;
        }
        match self.fetch_rest(&get, sink) {
            Ok(()) => None,
            Err(reason) => Some(Unfetched {
                request: get.request,
                reason,
            }),
        }
    }

    /// Uses the grant, and fetches what has not come. The reason if the kernel does not let us.
    fn fetch_rest(&self, get: &AskedGet, sink: &mut dyn Sink) -> std::result::Result<(), String> {
        let AskedGet {
            request,
            process,
            received,
        } = *get;
        let fetched = request.enter_and(&self.segment, self.me, |address, region, access| {
            let rest = region.part(received, region.len() - received);
            rest.map_or(Ok(()), |rest| {
                copy_by_attach(process, address + received as u64, rest, access)
            })
        });
        let result = match fetched {
            Err(TransferError::Unable(reason)) => return Err(reason),
            Err(TransferError::Refused(error)) => Err(error),
            Ok(()) => {
                self.until_the_owner_lets_go(&request);
                Ok(())
            }
        };
        sink.transfer_completed(request.operation, result);
        Ok(())
    }

    /// The owner may be copying a chunk that nobody needs any more.
    fn until_the_owner_lets_go(&self, request: &TransferRequest) {
        let record = grants::index_of(request.token)
            .and_then(|index| self.segment.grant(request.peer.0, index));
        if let Some(record) = record {
            let is_free = || !grants::is_occupied(record, request.token);
            // One that has died lets go, too.
            _ = transfer::until(&self.segment, request.peer, is_free);
        }
    }
}

/// Being asked.
impl AskedGets {
    /// A peer asks for bytes. What it may not have is not sent: it finds out itself.
    pub fn receive_ask(&mut self, grants: &GrantTable, from: Peer, packet: &Packet<'_>) {
        let [id, token, offset, length] = words(&packet.head);
        let Ok(length) = usize::try_from(length) else {
            return;
        };
        let token = Token(token);
        if self.sending.len() < MOST
            && let Some(source) = grants.part(token, Access::Read, from, offset, length)
        {
            self.sending.push_back(Sending {
                to: from,
                id,
                token,
                source,
                sent: 0,
            });
        }
    }

    /// Sends what the lanes have room for. Answers how many chunks that were.
    pub fn send(&mut self, grants: &GrantTable, link: &mut Link<'_>) -> usize {
        let mut done = 0;
        for _ in 0..self.sending.len() {
            let Some(mut get) = self.sending.pop_front() else {
                break;
            };
            // Used up or revoked: whoever asked has the bytes, or gets no more.
            let Some(held) = grants.hold(get.token) else {
                continue;
            };
            let Sending { to, id, source, .. } = get;
            let role = (to, id, ASKED);
            // SAFETY: the grant is held, so it is neither used up nor revoked, and whoever uses it up meanwhile waits until it is
            // released: its maker promised that the region is valid until then.
            done += unsafe { chunks::send_chunks(link, role, source, &mut get.sent, self.piece) };
            grants.release(held);
            if get.sent < source.len() && !link.is_lost(to) {
                self.sending.push_back(get);
            }
        }
        done
    }

    /// Ends all that has to do with a peer that is lost, for this reason.
    pub fn end_with(&mut self, peer: Peer, reason: &str, sink: &mut dyn Sink) {
        self.sending.retain(|get| get.to != peer);
        self.owners.remove(&peer.0);
        let of_it = |(_, get): &(&u64, &AskedGet)| get.request.peer == peer;
        let ended: Vec<u64> = self.own.iter().filter(of_it).map(|(id, _)| *id).collect();
        for get in ended.iter().filter_map(|id| self.own.remove(id)) {
            transfer::lose(&get.request, reason, sink);
        }
    }
}

#[cfg(test)]
mod tests;
