//! Session: the state that this rank shares with one peer, across connections.
//!
//! ```text
//!   Session ── Life        the connection, or what is known of the peer without one
//!           ── Outgoing    frames to be sent, or kept until they are acknowledged
//!           ── Transfers   gets and puts under way, in both directions, and offers
//!           ── goodbyes    who has said that it may end, and nothing since
//! ```
//!
//! A session reads and interprets the peer's frames ([`Session::receive`]), in the order in which they were
//! sent, and hands out the bytes of messages where they arrived. What a session cannot do by itself is in its
//! results: the peer is to be [dialled](Post::Absent), its connection [has ended](Ended).

mod goodbyes;
pub mod life;

use std::io;

use weft_fabric::{
    LinkTraffic, Operation, Peer, Posted, Region, SharedBytes, SignalTable, Sink, SyncKey, Token,
};

use crate::link::{Failure, Found, Link, Read};
use crate::network::{EventSource, Poller, Stream};
use crate::outgoing::{CHUNK_UNACKED, Outgoing, Pumped};
use crate::portal::transfers::{Asking, Transfers};
use crate::portal::{Opened, Portal, Request};
use crate::wire::{self, Ask, End, FrameKind, HEADER, Header, Malformed, Offer};
use goodbyes::Goodbyes;
use life::{Broke, Circumstances, Confirmed, Life, Unreachable};

/// The state shared with one peer.
pub struct Session<S> {
    life: Life<S>,
    /// Number of the connection that was last used; 0: none yet.
    generation: u32,
    /// The address at which the peer was reached, as an index in its card.
    agreed: Option<usize>,
    /// Both sides have agreed on a connection, at some time.
    was_live: bool,
    out: Outgoing,
    transfers: Transfers,
    goodbyes: Goodbyes,
    /// How many frames had been begun when the peer was last asked to have its kernel acknowledge them.
    asked: u64,
}

/// The outcome of posting a frame.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Post {
    /// It was taken, and what there is room for was sent.
    Taken(Sent),
    /// There is no room: retry.
    Full,
    /// The connection has ended after the peer's goodbye: the peer is to be dialled, or has left.
    Absent,
}

/// The result of a pump.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// As much as there is room for was sent.
    Done,
    /// Sending has failed, as the next look finds.
    Failed,
    /// Something is to be sent, and there is no connection.
    Unconnected,
}

/// The receiver of a peer's frames.
pub struct Receiving<'a> {
    /// The peer.
    pub from: Peer,
    /// Whether this rank decides which connection of the two is used.
    pub decides: bool,
    pub portal: &'a mut Portal,
    pub signals: &'a mut SignalTable,
    pub sink: &'a mut dyn Sink,
}

/// The findings of a look at a session.
#[must_use]
pub struct Received {
    /// The number of frames.
    pub found: usize,
    /// Whether answers are to be sent.
    pub answers: bool,
    /// Why the connection, or the peer, has ended.
    pub ended: Option<Ended>,
}

/// The end of a connection.
#[derive(Debug)]
pub enum Ended {
    /// It has broken.
    Broke(Failure),
    /// The peer violated the protocol: it is lost.
    Misbehaved(String),
}

impl Ended {
    /// The peer has sent what no peer sends.
    fn malformed() -> Self {
        Self::Misbehaved(MALFORMED.into())
    }
}

/// How to go on after a frame.
enum Next {
    /// With the next frame.
    More,
    /// In a later look: the other fabric must be asked first, or the layer above, told of an offer, may take
    /// it.
    Later,
}

/// From this size on a frame goes straight from the poster's memory, by a call with several slices, if the peer has processed
/// all others: then somebody may wait for just this one. In a stream of frames, and for shorter ones, the copy costs less than the
/// slices.
const THROUGH: usize = 16 << 10;

/// The report about a peer that sends other bytes.
pub const MALFORMED: &str =
    "it sent bytes that are no frame, or a frame that does not fit what was asked";

impl<S: Stream> Session<S> {
    /// A session in which nothing is shared yet.
    pub fn new() -> Self {
        Self {
            life: Life::Unconnected,
            generation: 0,
            agreed: None,
            was_live: false,
            out: Outgoing::new(),
            transfers: Transfers::default(),
            goodbyes: Goodbyes::default(),
            asked: 0,
        }
    }

    /// Number of the connection that was last used; 0: none yet.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The address at which the peer was reached, as an index in its card.
    pub fn agreed(&self) -> Option<usize> {
        self.agreed
    }

    /// Whether there is a connection, agreed or not.
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.life.link().is_some()
    }

    /// Whether there is a connection that both sides have agreed on.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.life.is_live()
    }

    /// Whether both sides have ever agreed on a connection.
    pub fn was_live(&self) -> bool {
        self.was_live
    }

    /// Whether the peer has ended after its goodbye.
    pub fn has_left(&self) -> bool {
        self.life.has_left()
    }

    /// Whether the peer has said goodbye, and nothing since: its end is no loss.
    pub fn may_end(&self) -> bool {
        self.goodbyes.is_received() || self.life.has_left()
    }

    /// Whether anything waits for this peer.
    pub fn is_needed(&self) -> bool {
        !self.out.is_flushed() || self.transfers.is_waiting()
    }

    /// Whether the connection waits for the bell to say that there is room to send.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.life.link().is_some_and(Link::is_blocked)
    }

    /// Appends a frame of our own accord, if there is credit, and sends as much as there is room for. This
    /// takes a goodbye back.
    #[inline]
    pub fn post(
        &mut self,
        (kind, parts): (FrameKind, &[&[u8]]),
        bell: &impl Poller<S>,
        peer: u32,
    ) -> Post {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if !self.life.is_present() {
            return Post::Absent;
        }
        if !self.out.has_room(length) {
            return Post::Full;
        }
        self.goodbyes.take_back();
        if length >= THROUGH
            && self.out.is_acknowledged()
            && let Life::Live(link) = &mut self.life
            && link.is_free()
            && self.out.is_flushed()
        {
            let pumped = self.out.post_through(link, kind, parts);
            return Post::Taken(settle(link, pumped, bell, peer));
        }
        self.out.post(kind, parts);
        Post::Taken(self.pump(bell, peer))
    }

    /// Asks for a transfer. `Ok` is the fabric's result for a request that was taken.
    pub fn ask(&mut self, asking: Asking) -> Result<Posted, Post> {
        if !self.transfers.has_room(&self.out) {
            return Err(Post::Full);
        }
        if !self.life.is_present() {
            return Err(Post::Absent);
        }
        self.goodbyes.take_back();
        Ok(self.transfers.ask(&mut self.out, asking))
    }

    /// Answers a request of the peer.
    ///
    /// # Errors
    /// It has too many transfers under way.
    pub fn serve(&mut self, ask: Ask, writes: bool, opened: Opened) -> Result<(), Malformed> {
        self.transfers.serve(&mut self.out, ask, writes, opened)
    }

    /// Says goodbye, if anything was ever sent or is to be, and no goodbye since. True: the session is to be
    /// pumped. A peer that is away is told if it comes back.
    pub fn say_goodbye(&mut self) -> bool {
        let spoken = self.generation > 0 || self.is_needed();
        if !spoken || self.life.has_left() || self.goodbyes.is_sent() {
            return false;
        }
        self.goodbyes.say();
        self.out.push_control(FrameKind::Goodbye, &[]);
        self.life.is_present()
    }

    /// Stops sending what the peer has asked for: our memory ends with us.
    pub fn stop_serving(&mut self) {
        self.out.cancel(|_| true);
    }

    /// Lets go of the connection; the next one resends what it carried.
    pub fn disconnect(&mut self) {
        self.life.disconnect();
    }

    /// The connection has broken.
    pub fn broke(&mut self, silent: bool) -> Broke {
        let peer = Circumstances {
            goodbye_received: self.goodbyes.is_received(),
            at_rest: !self.is_needed() && self.out.is_acknowledged(),
            silent,
        };
        self.life.broke(peer)
    }

    /// Nobody can be reached at the peer's address.
    pub fn unreachable(&mut self) -> Unreachable {
        self.life.unreachable(self.goodbyes.is_received())
    }

    /// The process of the peer, which has no connection, has ended in order. False if it had left before.
    pub fn depart(&mut self) -> bool {
        let before = self.life.has_left();
        self.life.depart();
        !before
    }

    /// The peer has left: what was taken for it is dropped. Returns our operations that were under way.
    pub fn leave(&mut self) -> impl Iterator<Item = Operation> + use<S> {
        self.out = Outgoing::new();
        self.abandon()
    }

    /// Returns our operations that were under way, which have failed.
    pub fn abandon(&mut self) -> impl Iterator<Item = Operation> + use<S> {
        self.transfers.abandon()
    }

    /// Selects a connection, the next of the pair. The other side is told before anything else.
    pub fn select(&mut self, mut link: Box<Link<S>>, offer: Option<usize>) {
        self.generation += 1;
        self.agreed = offer.or(self.agreed);
        link.set_urgent(self.uncounted(FrameKind::Select));
        self.life.select(link);
    }

    /// Goes on with the connection that the decider has taken, which says how many frames it has processed.
    ///
    /// # Errors
    /// That many were never sent; the connection is dropped.
    pub fn resume(
        &mut self,
        mut link: Box<Link<S>>,
        offer: Option<usize>,
        (generation, processed): (u32, u64),
    ) -> Result<(), Malformed> {
        self.out.resume(processed)?;
        self.generation = generation;
        self.agreed = offer.or(self.agreed);
        link.set_urgent(self.uncounted(FrameKind::Resume));
        self.life.resume(link);
        self.was_live = true;
        Ok(())
    }

    /// A frame that says which connection this is, and what was processed.
    fn uncounted(&self, kind: FrameKind) -> Vec<u8> {
        wire::uncounted(kind, self.generation, self.out.processed())
    }

    /// Watches the connection as that of a peer, for reading.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch(&self, bell: &impl Poller<S>, peer: u32) -> io::Result<()> {
        match self.life.link() {
            Some(link) => link.watch(bell, EventSource::Peer(peer), false),
            None => Ok(()),
        }
    }

    /// Watches the connection for reading again, or stops watching.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn set_watched(
        &mut self,
        bell: &impl Poller<S>,
        peer: u32,
        watched: bool,
    ) -> io::Result<()> {
        match (self.life.link_mut(), watched) {
            (Some(link), true) => link.enter(bell, EventSource::Peer(peer)),
            (Some(link), false) => {
                link.leave(bell);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Sends as much as there is room for.
    #[inline]
    pub fn pump(&mut self, bell: &impl Poller<S>, peer: u32) -> Sent {
        let (link, live) = match &mut self.life {
            Life::Live(link) => (link, true),
            Life::Selected(link) => (link, false),
            Life::Unconnected | Life::Away | Life::Left => {
                return match self.is_needed() {
                    true => Sent::Unconnected,
                    false => Sent::Done,
                };
            }
        };
        if !link.can_send() {
            return Sent::Done;
        }
        let pumped = self.out.pump(link, live);
        settle(link, pumped, bell, peer)
    }

    /// There is room to send again. True: the session waited for it, and is to be pumped.
    pub fn unblock(&mut self, bell: &impl Poller<S>, peer: u32) -> bool {
        self.life
            .link_mut()
            .is_some_and(|link| link.unblock(bell, EventSource::Peer(peer)))
    }

    /// Sends as much as there is room for if a connection that is not watched had none before: a stream is faster than if the
    /// bell is asked first whether there is room. Says also whether anything was sent.
    #[inline]
    pub fn try_again(&mut self, bell: &impl Poller<S>, peer: u32) -> (Sent, bool) {
        let Some(link) = self.life.link_mut() else {
            return (Sent::Done, false);
        };
        if !link.dare() {
            return (Sent::Done, false);
        }
        let before = link.sent();
        let sent = self.pump(bell, peer);
        let after = self.life.link().map_or(before, Link::sent);
        (sent, after > before)
    }

    /// Whether a look finds something although nothing arrives.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.life.link().is_some_and(Link::has_backlog)
    }

    /// Whether the peer's kernel has everything that was taken for it, or needs it no more.
    pub fn is_handed_over(&self) -> bool {
        match &self.life {
            Life::Away | Life::Left => true,
            Life::Live(link) => self.out.is_flushed() && link.is_delivered(),
            // Bytes on the last connection may be lost; a peer that has said goodbye may have ended.
            Life::Unconnected | Life::Selected(_) => {
                self.goodbyes.is_received() || self.out.is_flushed() && self.out.is_acknowledged()
            }
        }
    }

    /// Asks the peer's kernel, once for what was sent so far, to acknowledge it: the kernel may delay that for 40 ms, to send
    /// it with something else. True: the session is to be pumped. A goodbye includes this request.
    pub fn ask_for_acknowledgement(&mut self) -> bool {
        let Life::Live(link) = &self.life else {
            return false;
        };
        let is_over = self.goodbyes.is_sent() || self.goodbyes.is_received();
        let is_asked = self.asked == self.out.begun() || is_over;
        if is_asked || !self.out.is_flushed() || link.is_delivered() {
            return false;
        }
        self.out.push_control(FrameKind::Flush, &[]);
        self.asked = self.out.begun();
        true
    }

    /// The amount exchanged with this peer. The counts survive a broken connection, as the frames do.
    pub fn traffic(&self, peer: Peer) -> LinkTraffic {
        LinkTraffic {
            peer,
            sent: self.out.begun(),
            received: self.out.processed(),
            is_over: self.may_end(),
        }
    }

    /// Whether all frames were handed to a connection that both sides use, or there are no frames and no connection is to
    /// be made.
    pub fn is_at_rest(&self) -> bool {
        match &self.life {
            Life::Live(link) => self.out.is_flushed() && !link.has_failed(),
            Life::Away | Life::Left => !self.is_needed(),
            Life::Unconnected => self.generation == 0 && !self.is_needed(),
            Life::Selected(_) => false,
        }
    }

    /// Puts a grant on offer, if it is not too long and the connection has nothing else to send. Like any post,
    /// this takes a goodbye back.
    pub fn offer(&mut self, token: Token, region: Region) {
        if self.is_live()
            && self.out.is_flushed()
            && self.transfers.offer(&mut self.out, token, region)
        {
            self.goodbyes.take_back();
        }
    }

    /// Ends a grant: nothing is read or written by it after this. True: the session is to be pumped, to tell
    /// the peer.
    pub fn withdraw(&mut self, token: Token) -> bool {
        let link = self.life.link_mut();
        self.transfers.withdraw(token, link, &mut self.out)
    }

    /// Reads the connection and handles at most about `share` frames.
    pub fn receive(&mut self, to: &mut Receiving<'_>, share: usize) -> Received {
        let mut found = 0;
        let mut dry = false;
        let ended = loop {
            if found >= share {
                break None;
            }
            let item = match self.next_item(&mut dry) {
                Ok(Some(item)) => item,
                Ok(None) => break None,
                Err(ended) => break Some(ended),
            };
            found += 1;
            match self.handle(item, to) {
                Ok(Next::More) => {}
                Ok(Next::Later) => break None,
                Err(Malformed) => break Some(Ended::malformed()),
            }
        };
        self.out.acknowledge_if_due();
        Received {
            found,
            answers: found > 0 && !self.out.is_flushed(),
            ended,
        }
    }

    /// The next item of the connection, which is read if nothing is left of what was read before. `dry`: the last read took all
    /// that had arrived.
    #[inline]
    fn next_item(&mut self, dry: &mut bool) -> Result<Option<Found>, Ended> {
        let Some(link) = self.life.link_mut() else {
            return Ok(None);
        };
        loop {
            match link.next() {
                Ok(Found::Nothing) if *dry => return Ok(None),
                Ok(Found::Nothing) => {}
                Ok(item) => return Ok(Some(item)),
                Err(Malformed) => return Err(Ended::malformed()),
            }
            match link.read() {
                Ok(Read::Nothing) if !link.has_failed() => return Ok(None),
                Ok(Read::Some { more }) => *dry = !more,
                Ok(Read::Nothing | Read::Closed) => return Err(Ended::Broke(link.end())),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Ended::Misbehaved(error.to_string()));
                }
                Err(error) => return Err(Ended::Broke((&error).into())),
            }
        }
    }

    fn handle(&mut self, item: Found, to: &mut Receiving<'_>) -> Result<Next, Malformed> {
        let live = self.life.is_live();
        let Some(link) = self.life.link_mut() else {
            return Ok(Next::More);
        };
        let (out, transfers) = (&mut self.out, &mut self.transfers);
        let header = match item {
            Found::Nothing => return Ok(Next::More),
            Found::Landed(head, length) => {
                out.note_processed(CHUNK_UNACKED);
                transfers.landed(head, length, (link, out), to.sink);
                return Ok(Next::More);
            }
            Found::Chunk(_, head, _) if transfers.waits_for_taker(head) => {
                return Ok(Next::Later);
            }
            Found::Chunk(header, head, length) => {
                accept(out, &header, live)?;
                let target = transfers.target(head, length)?;
                link.land(head, length, target);
                return Ok(Next::More);
            }
            Found::Frame(header) => header,
        };
        if !header.kind.is_counted() {
            let generation = wire::generation(link.body(&header));
            link.consume(&header);
            return self.confirm(&header, generation, to.decides);
        }
        accept(out, &header, live)?;
        out.note_processed(HEADER + header.length);
        self.goodbyes.hear(header.kind);
        // A process that ends waits until its frames are acknowledged.
        if let FrameKind::Goodbye | FrameKind::Flush = header.kind {
            link.acknowledge();
        }
        let mut next = Next::More;
        match header.kind {
            FrameKind::Message => {
                let (head, data) = wire::message(link.body(&header))?;
                to.sink.message(to.from, head, SharedBytes::of(data));
            }
            FrameKind::Signal => {
                let key = SyncKey(wire::u64_at(link.body(&header), 0));
                to.signals.arrive(to.from, key);
                to.sink.signalled(to.from, key);
            }
            FrameKind::Get | FrameKind::Put => {
                let request = Request {
                    from: to.from,
                    ask: Ask::parse(link.body(&header))?,
                    writes: header.kind == FrameKind::Put,
                };
                match to.portal.open(request) {
                    Some(opened) => transfers.serve(out, request.ask, request.writes, opened)?,
                    None => next = Next::Later,
                }
            }
            FrameKind::Offer => transfers.offered(Offer::parse(link.body(&header))?)?,
            FrameKind::End => {
                let end = End::parse(link.body(&header))?;
                transfers.ended(to.from, end, (link, out), to.sink)?;
            }
            FrameKind::Goodbye
            | FrameKind::Acknowledge
            | FrameKind::Flush
            | FrameKind::Select
            | FrameKind::Resume
            | FrameKind::Chunk => {}
        }
        link.consume(&header);
        Ok(next)
    }

    /// Handles an uncounted frame on a connection that was taken: the answer to the decider, by which the
    /// other side goes on with the connection. No other is allowed there.
    fn confirm(
        &mut self,
        header: &Header,
        generation: u32,
        decides: bool,
    ) -> Result<Next, Malformed> {
        let is_it = header.kind == FrameKind::Resume && generation == self.generation;
        if self.life.is_live() || !decides || !is_it {
            return Err(Malformed);
        }
        self.out.resume(header.processed)?;
        match self.life.confirm() {
            Confirmed::Now => {
                self.was_live = true;
                Ok(Next::More)
            }
            Confirmed::Unexpected => Err(Malformed),
        }
    }
}

/// Records the result of sending over a connection.
#[inline]
fn settle<S: Stream>(
    link: &mut Link<S>,
    pumped: io::Result<Pumped>,
    bell: &impl Poller<S>,
    peer: u32,
) -> Sent {
    match pumped {
        Ok(Pumped::Empty) => {}
        Ok(Pumped::Full) => link.block(bell, EventSource::Peer(peer)),
        Err(error) => {
            // The bytes that the peer sent before it went are still there, perhaps a goodbye: the next look
            // reads it.
            link.fail(&error);
            return Sent::Failed;
        }
    }
    Sent::Done
}

/// A counted frame begins: takes its acknowledgement.
#[inline]
fn accept(out: &mut Outgoing, header: &Header, live: bool) -> Result<(), Malformed> {
    if !live {
        return Err(Malformed);
    }
    out.acknowledge(header.processed)
}

/// Values that the tests check.
#[cfg(test)]
#[derive(Debug)]
#[allow(dead_code, reason = "all is shown when a test fails")]
pub struct Inspection {
    pub generation: u32,
    pub live: bool,
    pub connected: bool,
    pub present: bool,
    pub left: bool,
    pub goodbye_received: bool,
    pub goodbye_sent: bool,
    pub processed: u64,
    pub unacked_bytes: usize,
    /// Counted frames that were begun, and bytes of those that are kept.
    pub held: (u64, usize),
    pub flushed: bool,
    /// Gets, puts, puts of the peer.
    pub transfers: [usize; 3],
}

#[cfg(test)]
impl<S: Stream> Session<S> {
    /// The state of the session.
    pub fn inspect(&self) -> Inspection {
        Inspection {
            generation: self.generation,
            live: self.life.is_live(),
            connected: self.life.link().is_some(),
            present: self.life.is_present(),
            left: self.life.has_left(),
            goodbye_received: self.goodbyes.is_received(),
            goodbye_sent: self.goodbyes.is_sent(),
            processed: self.out.processed(),
            unacked_bytes: self.out.unacked_bytes(),
            held: self.out.held(),
            flushed: self.out.is_flushed(),
            transfers: self.transfers.counts(),
        }
    }
}
