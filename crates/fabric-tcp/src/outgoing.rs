//! Outgoing frames of one peer: frames to be sent, frames kept until the peer has processed them, and what
//! our frames acknowledge. They survive a broken connection.
//!
//! ```text
//!   ring   frames of mailbox, sync and control, in order: before everything else
//!   bulk   portals: one chunk of each in turn, when the ring is empty
//!   log    one entry for each counted frame that is not acknowledged, in the order of the wire
//! ```
//!
//! A frame of the ring enters the log when it is pushed, a chunk when its first byte is sent; since a chunk
//! begins only when all of the ring is sent, the log has the order of the wire.
//!
//! On a new connection the peer says how many frames it has processed. The log is shortened by these, and the
//! rest of the ring and of the chunks is sent again. Chunks may then come in another order among frames of
//! the ring, which nobody relies on: they carry their place.
//!
//! The ring is the credit: a message finds room in it or is refused. Acknowledgements, which the peer sends
//! for what it has handed out, free its room. In the other direction each frame says how many frames of the
//! peer were processed; if no frame is sent for [`ACKNOWLEDGE`] bytes, an acknowledgement is sent alone.
//!
//! | file | what |
//! |---|---|
//! | `bulk` | portals, a chunk of each in turn |
//! | `chunk` | one chunk, and one of which some bytes are sent |
//! | `log` | frames that were begun and are not acknowledged |
//! | here | in which order all of them are sent |

mod bulk;
mod chunk;
mod log;

use std::collections::VecDeque;
use std::io;

use weft_fabric::Token;
use weft_sys::socket::{MOST_SLICES, SendSlice};

use crate::link::Link;
use crate::network::Stream;
use crate::ring::Ring;
use crate::wire::{FrameKind, HEADER, Header, Malformed, TransferKind};
use bulk::BulkQueue;
use chunk::{Chunk, Current};
use log::Log;

pub use bulk::Bulk;

/// Bytes of the ring.
pub const RING: usize = 1 << 20;

/// Bytes of the peer's counted frames after which an acknowledgement is due, if no frame carries it earlier.
pub const ACKNOWLEDGE: usize = RING / 4;

/// What a chunk counts towards that: its bytes take no room in the sender's ring, but the sender remembers
/// the chunk.
pub const CHUNK_UNACKED: usize = ACKNOWLEDGE / 16;

/// Bytes of the ring that are reserved for control frames.
const RESERVE: usize = 16 << 10;

/// Most chunks handed over in one call.
const TOGETHER: usize = 16;

const _: () = assert!(2 + 2 + 2 * TOGETHER <= MOST_SLICES);

/// Frames to one peer: to be sent, or sent and not acknowledged; and the acknowledgements that they carry.
pub struct Outgoing {
    ring: Ring,
    bulk: BulkQueue,
    current: Option<Current>,
    log: Log,
    /// Control frames that found no room in the ring.
    waiting: VecDeque<(FrameKind, Vec<u8>)>,
    /// The peer's counted frames that were processed: each of our frames carries this.
    processed: u64,
    /// Bytes of these that no message of ours has acknowledged.
    unacked_bytes: usize,
}

/// How far sending went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pumped {
    /// Nothing is left to send.
    Empty,
    /// The connection has no room.
    Full,
}

impl Outgoing {
    pub fn new() -> Self {
        Self {
            ring: Ring::new(RING),
            bulk: BulkQueue::default(),
            current: None,
            log: Log::default(),
            waiting: VecDeque::new(),
            processed: 0,
            unacked_bytes: 0,
        }
    }

    /// Whether a message (or a request) with a body of `body` bytes has credit.
    #[inline]
    pub fn has_room(&self, body: usize) -> bool {
        self.ring.free() >= HEADER + body + RESERVE && self.waiting.is_empty()
    }

    /// Appends a counted frame of our own accord, which carries the acknowledgement; the body is given in
    /// parts. The caller has checked for room.
    #[inline]
    pub fn post(&mut self, kind: FrameKind, parts: &[&[u8]]) {
        self.push(kind, parts);
        self.unacked_bytes = 0;
    }

    /// Like [`post`](Self::post) and [`pump`](Self::pump) when nothing else is to be sent: the bytes are sent from
    /// where they are, and copied into the ring once the connection has taken them. `parts` are at most two.
    ///
    /// # Errors
    /// The connection is broken; the frame is kept.
    pub fn post_through<S: Stream>(
        &mut self,
        link: &mut Link<S>,
        kind: FrameKind,
        parts: &[&[u8]],
    ) -> io::Result<Pumped> {
        debug_assert!(self.is_flushed() && parts.len() <= 2);
        let header = self.header(kind, parts).emit();
        let mut slices = [SendSlice::Bytes(&header); 3];
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = SendSlice::Bytes(part);
        }
        let sent = link.send(&slices[..1 + parts.len()]);
        self.post(kind, parts);
        let count = sent?.unwrap_or(0);
        self.ring.advance(count);
        Ok(match self.ring.unsent() {
            0 => Pumped::Empty,
            _ => Pumped::Full,
        })
    }

    /// The header of a frame to be sent next.
    #[inline]
    fn header(&self, kind: FrameKind, parts: &[&[u8]]) -> Header {
        Header {
            kind,
            length: parts.iter().map(|part| part.len()).sum(),
            processed: self.processed,
        }
    }

    #[inline]
    fn push(&mut self, kind: FrameKind, parts: &[&[u8]]) {
        debug_assert!(kind.is_counted());
        let header = self.header(kind, parts);
        let length = header.length;
        self.ring.push(&header.emit());
        for part in parts {
            self.ring.push(part);
        }
        self.log.push_control(HEADER + length);
    }

    /// Appends a control frame, which is never refused: it waits if there is no room.
    pub fn push_control(&mut self, kind: FrameKind, body: &[u8]) {
        if self.waiting.is_empty() && self.ring.free() >= HEADER + body.len() {
            self.push(kind, &[body]);
        } else {
            self.waiting.push_back((kind, body.to_vec()));
        }
    }

    /// A counted frame of the peer with this many bytes has arrived whole: frames that we send from now on
    /// acknowledge it. Frames sent while a chunk arrives do not acknowledge it yet.
    #[inline]
    pub fn note_processed(&mut self, bytes: usize) {
        self.processed += 1;
        self.unacked_bytes += bytes;
    }

    /// The number of the peer's counted frames that were processed.
    pub fn processed(&self) -> u64 {
        self.processed
    }

    /// Appends an acknowledgement, if none was sent for [`ACKNOWLEDGE`] bytes.
    #[inline]
    pub fn acknowledge_if_due(&mut self) {
        if self.unacked_bytes >= ACKNOWLEDGE {
            self.unacked_bytes = 0;
            self.push_control(FrameKind::Acknowledge, &[]);
        }
    }

    /// Appends a portal.
    pub fn push_bulk(&mut self, bulk: Bulk) {
        self.bulk.push(bulk);
    }

    /// Portals that are being sent for the peer's gets.
    pub fn served(&self) -> usize {
        self.bulk.served()
    }

    /// The number of counted frames that were begun: all frames, if [everything was handed
    /// over](Self::is_flushed).
    pub fn begun(&self) -> u64 {
        self.log.begun()
    }

    /// How many counted frames were begun in all, and how many bytes of those are kept.
    #[cfg(test)]
    pub fn held(&self) -> (u64, usize) {
        (self.begun(), self.log.kept(CHUNK_UNACKED))
    }

    /// Bytes of the peer's frames that no message of ours has acknowledged.
    #[cfg(test)]
    pub fn unacked_bytes(&self) -> usize {
        self.unacked_bytes
    }

    /// Whether the peer has acknowledged everything.
    pub fn is_acknowledged(&self) -> bool {
        self.log.is_empty()
    }

    /// Whether everything was handed to the connection.
    pub fn is_flushed(&self) -> bool {
        self.ring.unsent() == 0
            && self.bulk.is_empty()
            && self.current.is_none()
            && self.waiting.is_empty()
    }

    /// Notes that the peer has processed this many counted frames in all.
    ///
    /// # Errors
    /// That is more than were sent.
    #[inline]
    pub fn acknowledge(&mut self, processed: u64) -> Result<(), Malformed> {
        let ring = &mut self.ring;
        if !(self.log).acknowledge(processed, |length| ring.release(length))? {
            return Ok(());
        }
        while let Some((_, body)) = self.waiting.front()
            && self.ring.free() >= HEADER + body.len()
            && let Some((kind, body)) = self.waiting.pop_front()
        {
            self.push(kind, &[&body]);
        }
        Ok(())
    }

    /// Starts on a new connection, on which the peer says that it has processed this many frames: everything
    /// left is to be sent again. The order of the steps matters: until then the log is that of the old
    /// connection.
    ///
    /// # Errors
    /// As for [`Self::acknowledge`].
    pub fn resume(&mut self, processed: u64) -> Result<(), Malformed> {
        self.acknowledge(processed)?;
        self.rewind();
        Ok(())
    }

    fn rewind(&mut self) {
        self.current = None;
        self.ring.rewind();
        self.bulk.send_again(self.log.take_chunks());
    }

    /// Drops what is unsent of these portals and stops reading their memory; returns which they were.
    pub fn cancel(&mut self, matches: impl Fn(&Bulk) -> bool) -> Vec<(u32, TransferKind)> {
        self.bulk.cancel(matches)
    }

    /// The memory of this portal may not be read after this: what may have to be resent is copied.
    pub fn detach(&mut self, kind: TransferKind, transfer: u32) {
        self.detach_those(|chunk| chunk.is_of(kind, transfer));
    }

    /// As [`Self::detach`], for all that is read by a grant.
    pub fn detach_token(&mut self, token: Token) {
        self.detach_those(|chunk| chunk.is_from(token));
    }

    fn detach_those(&mut self, of: impl Fn(&Chunk) -> bool) {
        let current = self.current.as_mut().map(Current::chunk_mut);
        let begun = current.into_iter().chain(self.log.chunks_mut());
        for chunk in begun.chain(self.bulk.again_mut()).filter(|chunk| of(chunk)) {
            chunk.detach();
        }
    }

    /// Notes that the next chunk of the queue has begun.
    fn begin(&mut self, chunk: &Chunk) {
        self.bulk.begin(chunk);
        self.log.push_chunk(chunk.clone());
    }

    /// Sends as much as there is room for: urgent frames of this connection, then, once both sides have
    /// agreed on it (`live`), the rest.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn pump<S: Stream>(&mut self, link: &mut Link<S>, live: bool) -> io::Result<Pumped> {
        if link.is_sealed() {
            return self.pump_sealed(link, live);
        }
        loop {
            if link.has_urgent() && !link.flush_urgent()? {
                return Ok(Pumped::Full);
            }
            if !live {
                return Ok(Pumped::Empty);
            }
            if self.current.is_none() && self.bulk.is_empty() {
                // Nearly all messages take this path.
                if self.ring.unsent() == 0 {
                    return Ok(Pumped::Empty);
                }
                let (first, second) = self.ring.pieces();
                let parts = [SendSlice::Bytes(first), SendSlice::Bytes(second)];
                let used = 1 + usize::from(!second.is_empty());
                let Some(count) = link.send(&parts[..used])? else {
                    return Ok(Pumped::Full);
                };
                self.ring.advance(count);
                continue;
            }
            if !self.pump_bulk(link)? {
                return Ok(Pumped::Full);
            }
        }
    }

    /// One call with the rest of a chunk, the ring, and the next chunks: the kernel is faster with larger
    /// writes. False: no room.
    fn pump_bulk<S: Stream>(&mut self, link: &mut Link<S>) -> io::Result<bool> {
        let next: Vec<_> = (self.bulk.upcoming().take(TOGETHER))
            .map(|chunk| Current::new(chunk, self.processed))
            .collect();
        let mut parts = [SendSlice::Bytes(&[]); MOST_SLICES];
        let mut count = 0;
        let mut add = |part| {
            parts[count] = part;
            count += 1;
        };
        if let Some(current) = &self.current {
            current.rest().into_iter().for_each(&mut add);
        }
        let (first, second) = self.ring.pieces();
        add(SendSlice::Bytes(first));
        add(SendSlice::Bytes(second));
        for chunk in &next {
            chunk.rest().into_iter().for_each(&mut add);
        }
        let total: usize = parts[..count].iter().map(SendSlice::len).sum();
        let ring = first.len() + second.len();
        // If the connection is broken, nothing has begun: the next connection sends it.
        let Some(mut sent) = link.send(&parts[..count])? else {
            return Ok(false);
        };
        let all = sent == total;
        if let Some(current) = &mut self.current {
            sent = current.advance(sent);
            if current.is_sent() {
                self.current = None;
            }
        }
        let now = sent.min(ring);
        self.ring.advance(now);
        sent -= now;
        for mut next in next {
            if sent == 0 {
                break;
            }
            self.begin(next.chunk());
            sent = next.advance(sent);
            if !next.is_sent() {
                self.current = Some(next);
            }
        }
        Ok(all)
    }

    /// One call with the ring and a chunk: large enough to be fast in the kernel, small enough to stay in the cache;
    /// and the peer opens it while the next one is sealed.
    fn pump_sealed<S: Stream>(&mut self, link: &mut Link<S>, live: bool) -> io::Result<Pumped> {
        loop {
            if !link.flush_sealed()? {
                return Ok(Pumped::Full);
            }
            let mut idle = !link.seal_urgent();
            if live {
                let (first, second) = self.ring.pieces();
                let count = first.len() + second.len();
                if count > 0 {
                    link.seal(&[first, second]);
                    self.ring.advance(count);
                    idle = false;
                }
                let next = self.bulk.upcoming().next();
                if let Some(chunk) = next {
                    // Begun before it is sent: if the connection breaks in between, it is resent.
                    self.begin(&chunk);
                    link.seal(&[&chunk.header(self.processed)]);
                    match chunk.rest(0) {
                        SendSlice::Bytes(bytes) => link.seal(&[bytes]),
                        SendSlice::Lent(region) => link.seal_lent(region),
                    }
                    idle = false;
                }
            }
            if idle {
                return Ok(Pumped::Empty);
            }
        }
    }
}
