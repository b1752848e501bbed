//! Link: one authenticated connection. It moves bytes in and out, recognises frames, and seals them if the
//! job wants it. The layers above interpret the frames and keep what must survive a broken connection.
//!
//! ```text
//!   plain    socket ──────────────────────────────► buffer ─► frames
//!                └─ while a chunk lands: straight into the memory it is for
//!   sealed   socket ─► records, opened from there ─► buffer ─► frames
//!                └─ while a chunk lands: opened into the memory it is for
//! ```

use std::io;

use weft_secure::{Channel, RECORD, TAG};
use weft_sys::Region;
use weft_sys::socket::SendSlice;

use crate::network::{EventSource, Poller, Stream};
use crate::sealed::Sealed;
use crate::sockets::is_silence;
use crate::wire::{CHUNK_HEAD, ChunkHead, FrameKind, HEADER, Header, Malformed, TransferKind};

/// Most bytes read at once: more than the longest message.
const BUFFER: usize = 256 << 10;

/// Where the bytes of a chunk go.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Dropped: its transfer has ended here.
    Nowhere,
    /// Memory of the asker.
    Lent(Region),
    /// Our own memory: [`Link::take_kept`].
    Kept,
}

/// A chunk whose bytes are arriving.
#[derive(Clone, Copy, Debug)]
struct Landing {
    head: ChunkHead,
    remaining: usize,
    length: usize,
    /// Where the rest goes.
    target: Target,
}

/// The findings of a look at a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// Nothing is there.
    Nothing,
    /// Bytes came.
    Some {
        /// The read was filled: there may be more bytes.
        more: bool,
    },
    /// The other side has closed.
    Closed,
}

/// What comes next in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// No whole frame.
    Nothing,
    /// A whole frame: [`Link::body`], then [`Link::consume`].
    Frame(Header),
    /// The beginning of a chunk and its length in bytes: [`Link::land`].
    Chunk(Header, ChunkHead, usize),
    /// A chunk has arrived whole.
    Landed(ChunkHead, usize),
}

/// The failure that broke a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The system's description.
    pub what: String,
    /// The other host has answered nothing for the set time.
    pub silent: bool,
}

impl Failure {
    /// A failure caused by the other side, which is there, or by us.
    pub fn of(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            silent: false,
        }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        Self {
            what: error.to_string(),
            silent: is_silence(error),
        }
    }
}

/// One connection.
pub struct Link<S> {
    /// The socket, which does not wait.
    socket: S,
    /// It waits for room to send.
    blocked: bool,
    /// Its socket is watched: for reading, and for room if it waits for that.
    watched: bool,
    /// Bytes that the kernel has taken.
    sent: u64,
    /// Sending has failed. What came before is still to be read.
    failed: Option<Failure>,
    /// Uncounted frames, before everything else.
    urgent: Vec<u8>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    landing: Option<Landing>,
    kept: Vec<u8>,
    sealed: Option<Box<Sealed>>,
}

impl<S: Stream> Link<S> {
    /// Takes over an authenticated connection.
    pub fn new(socket: S, channel: Channel, seal: bool) -> Self {
        let sealed = seal.then(|| Box::new(Sealed::new(channel)));
        Self {
            socket,
            blocked: false,
            watched: true,
            sent: 0,
            failed: None,
            urgent: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            landing: None,
            kept: Vec::new(),
            sealed,
        }
    }

    /// Watches it as `source`, for reading and perhaps for room to send.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch(&self, bell: &impl Poller<S>, source: EventSource, room: bool) -> io::Result<()> {
        bell.rewatch(&self.socket, source, room)
    }

    /// Watches it again, unless it is watched.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn enter(&mut self, bell: &impl Poller<S>, source: EventSource) -> io::Result<()> {
        if !self.watched {
            bell.watch(&self.socket, source, self.blocked)?;
        }
        self.watched = true;
        Ok(())
    }

    /// Stops watching it.
    pub fn leave(&mut self, bell: &impl Poller<S>) {
        if std::mem::take(&mut self.watched) {
            bell.unwatch(&self.socket);
        }
    }

    /// There was no room to send: nothing is sent until the bell says that there is, or, while it is not watched, until the
    /// next look tries.
    pub fn block(&mut self, bell: &impl Poller<S>, source: EventSource) {
        self.blocked = true;
        if self.watched {
            let _ = self.watch(bell, source, true);
        }
    }

    /// There is room again. False: nobody waited for room.
    pub fn unblock(&mut self, bell: &impl Poller<S>, source: EventSource) -> bool {
        let waited = std::mem::take(&mut self.blocked);
        if waited && self.watched {
            let _ = self.watch(bell, source, false);
        }
        waited
    }

    /// Whether it waits for the bell to say that there is room to send.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked && self.watched
    }

    /// It is not watched, and had no room to send: sending may be tried again. False: there is nothing to try.
    #[inline]
    pub fn dare(&mut self) -> bool {
        !self.watched && std::mem::take(&mut self.blocked)
    }

    /// Whether to try sending: there may be room, and sending has not failed.
    #[inline]
    pub fn can_send(&self) -> bool {
        !self.blocked && self.failed.is_none()
    }

    /// Whether plain bytes can be sent at once: nothing uncounted goes before them.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.can_send() && self.urgent.is_empty() && self.sealed.is_none()
    }

    /// Notes that sending has failed; the next [`Self::read`] that finds nothing returns this.
    pub fn fail(&mut self, error: &io::Error) {
        self.failed = Some(error.into());
    }

    /// Sends as much of these parts as there is room for; `None`: no room.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn send(&mut self, parts: &[SendSlice<'_>]) -> io::Result<Option<usize>> {
        let sent = self.socket.send(parts)?;
        self.sent += sent.unwrap_or(0) as u64;
        Ok(sent)
    }

    /// How many bytes the kernel has taken in all.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sets the uncounted frame that goes before everything else.
    pub fn set_urgent(&mut self, frame: Vec<u8>) {
        self.urgent = frame;
    }

    /// Whether an uncounted frame is to be sent.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Whether bytes are sealed.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Whether a look finds something although nothing arrives: a frame in the buffer, the rest of a chunk
    /// whose beginning was the last thing that an earlier look handled, a record that found no room, or a
    /// failed send.
    pub fn has_backlog(&self) -> bool {
        let sealed = self.sealed.as_ref();
        self.end > self.start
            || sealed.is_some_and(|sealed| sealed.holds_bytes())
            || self.landing.is_some_and(|landing| landing.remaining == 0)
            || self.failed.is_some()
    }

    /// Whether the other side's kernel has acknowledged all that was handed to this connection.
    pub fn is_delivered(&self) -> bool {
        let sealed = self.sealed.as_ref();
        self.urgent.is_empty()
            && sealed.is_none_or(|sealed| sealed.is_flushed())
            && self
                .socket
                .unacknowledged()
                .map_or(true, |count| count == 0)
    }

    /// Acknowledges at once what was read: the other side waits for that.
    pub fn acknowledge(&self) {
        self.socket.acknowledge();
    }

    /// The failure that broke the connection, once nothing is left to read: a failed send, or the other
    /// side's end.
    pub fn end(&mut self) -> Failure {
        let closed = || Failure::of("the connection was closed");
        self.failed.take().unwrap_or_else(closed)
    }

    /// Whether sending has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Reads once.
    ///
    /// # Errors
    /// The connection is broken, or its bytes were changed.
    pub fn read(&mut self) -> io::Result<Read> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < BUFFER / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.sealed.is_some() {
            return self.read_sealed();
        }
        let direct = match self.landing {
            Some(Landing {
                target: Target::Lent(target),
                remaining,
                ..
            }) if self.start == self.end => target.prefix(remaining),
            _ => Region::EMPTY,
        };
        // The rest of a chunk is followed by a header, often that of the next chunk, whose data shall also
        // land where they belong, not in the buffer.
        let most = match direct.is_empty() {
            true => self.buffer.len(),
            false => self.end + HEADER + CHUNK_HEAD,
        };
        let room = &mut self.buffer[self.end..most];
        let asked = direct.len() + room.len();
        let Some(count) = self.socket.receive(direct, room)? else {
            return Ok(Read::Nothing);
        };
        if count == 0 && asked > 0 {
            return Ok(Read::Closed);
        }
        let landed = count.min(direct.len());
        if let Some(landing) = &mut self.landing
            && landed > 0
        {
            landing.advance(landed);
        }
        self.end += count - landed;
        Ok(Read::Some {
            more: count == asked,
        })
    }

    fn read_sealed(&mut self) -> io::Result<Read> {
        let Some(sealed) = &mut self.sealed else {
            return Ok(Read::Nothing);
        };
        let mut more = true;
        if sealed.next_carries().is_none() {
            more = match sealed.receive(&self.socket)? {
                Read::Some { more } => more,
                nothing => return Ok(nothing),
            };
        }
        // While a chunk lands: into its memory; then one record, which may be the head of one.
        while let Some(carried) = sealed.next_carries() {
            let direct = match &self.landing {
                Some(Landing {
                    target: Target::Lent(target),
                    remaining,
                    ..
                }) if self.start == self.end => target.prefix(carried.min(*remaining)),
                _ => Region::EMPTY,
            };
            let kept = carried - direct.len();
            if kept > self.buffer.len() - self.end {
                // Frames in the buffer come first, and make room.
                break;
            }
            sealed.open(direct, &mut self.buffer[self.end..self.end + kept])?;
            self.end += kept;
            if let Some(landing) = &mut self.landing
                && !direct.is_empty()
            {
                landing.advance(direct.len());
            }
            if kept > 0 {
                break;
            }
        }
        Ok(Read::Some {
            more: more || sealed.next_carries().is_some(),
        })
    }

    /// What comes next in the buffer.
    ///
    /// # Errors
    /// The bytes are not a frame.
    #[inline]
    pub fn next(&mut self) -> Result<Found, Malformed> {
        if self.landing.is_some() {
            return Ok(self.go_on_landing());
        }
        let Some((header, rest)) = self.buffer[self.start..self.end].split_first_chunk::<HEADER>()
        else {
            return Ok(Found::Nothing);
        };
        let header = Header::parse(header)?;
        if header.kind == FrameKind::Chunk {
            return match rest.first_chunk::<CHUNK_HEAD>() {
                None => Ok(Found::Nothing),
                Some(head) => Ok(Found::Chunk(
                    header,
                    ChunkHead::parse(head)?,
                    header.length - CHUNK_HEAD,
                )),
            };
        }
        if rest.len() < header.length {
            return Ok(Found::Nothing);
        }
        Ok(Found::Frame(header))
    }

    /// The body of the frame that was found.
    #[inline]
    pub fn body(&self, header: &Header) -> &[u8] {
        &self.buffer[self.start + HEADER..][..header.length]
    }

    /// Removes the frame that was found.
    #[inline]
    pub fn consume(&mut self, header: &Header) {
        self.start += HEADER + header.length;
    }

    /// Sets where the bytes of the chunk that was found go.
    pub fn land(&mut self, head: ChunkHead, length: usize, target: Target) {
        debug_assert!(!matches!(target, Target::Lent(region) if region.len() != length));
        self.start += HEADER + CHUNK_HEAD;
        if let Target::Kept = target {
            self.kept.reserve(length);
        }
        self.landing = Some(Landing {
            head,
            remaining: length,
            length,
            target,
        });
    }

    fn go_on_landing(&mut self) -> Found {
        let Some(landing) = &mut self.landing else {
            return Found::Nothing;
        };
        let here = landing.remaining.min(self.end - self.start);
        if here > 0 {
            let bytes = &self.buffer[self.start..self.start + here];
            match landing.target {
                Target::Nowhere => {}
                Target::Lent(region) => _ = region.copy_from_slice(bytes),
                Target::Kept => self.kept.extend_from_slice(bytes),
            }
            landing.advance(here);
            self.start += here;
        }
        if landing.remaining > 0 {
            return Found::Nothing;
        }
        let (head, length) = (landing.head, landing.length);
        self.landing = None;
        Found::Landed(head, length)
    }

    /// The bytes of the chunk that has landed, if they were [kept](Target::Kept).
    pub fn take_kept(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// Drops, from now on, what arrives for this transfer.
    pub fn divert(&mut self, kind: TransferKind, transfer: u32) {
        if let Some(landing) = &mut self.landing
            && (landing.head.kind, landing.head.transfer) == (kind, transfer)
        {
            landing.target = Target::Nowhere;
        }
    }

    /// Sends the uncounted frames of a connection that is not chosen yet. True: all were sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush_urgent(&mut self) -> io::Result<bool> {
        let urgent = std::mem::take(&mut self.urgent);
        if self.is_sealed() {
            self.seal(&[&urgent]);
            return self.flush_sealed();
        }
        let sent = self.send(&[SendSlice::Bytes(&urgent)])?.unwrap_or(0);
        self.urgent = urgent[sent..].to_vec();
        Ok(self.urgent.is_empty())
    }

    /// Seals the uncounted frames. False: there are none.
    pub fn seal_urgent(&mut self) -> bool {
        let urgent = std::mem::take(&mut self.urgent);
        self.seal(&[&urgent]);
        !urgent.is_empty()
    }

    /// Seals these bytes for sending.
    pub fn seal(&mut self, parts: &[&[u8]]) {
        if let Some(sealed) = &mut self.sealed {
            sealed.seal(parts);
        }
    }

    /// Seals lent memory for sending.
    pub fn seal_lent(&mut self, lent: Region) {
        if let Some(sealed) = &mut self.sealed {
            sealed.seal_lent(lent);
        }
    }

    /// Sends what is sealed. True: all was sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush_sealed(&mut self) -> io::Result<bool> {
        match &mut self.sealed {
            Some(sealed) => {
                let unsent = sealed.unsent();
                let flushed = sealed.flush(&self.socket);
                self.sent += (unsent - sealed.unsent()) as u64;
                flushed
            }
            None => Ok(true),
        }
    }
}

const _: () = assert!(BUFFER >= 2 * (RECORD + TAG) && BUFFER / 2 > crate::wire::DATA + 64);

impl Landing {
    fn advance(&mut self, count: usize) {
        self.remaining -= count;
        if let Target::Lent(region) = self.target {
            let rest = region.part(count, region.len() - count);
            self.target = rest.map_or(Target::Nowhere, Target::Lent);
        }
    }
}
