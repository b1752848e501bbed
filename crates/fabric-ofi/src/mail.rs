//! Mail: the device with the links of all peers. Each message takes a credit of its link, and a buffer if it is too
//! large for the provider's inject.

mod members;

use weft_fabric::{FabricError, Membership, Peer, Posted, Result};

use crate::held::{Held, NOBODY, Remains};
use crate::libfabric::device::{Device, Event, Outcome};
use crate::links::{Answer, Link};
use crate::passes::Passes;
use crate::wire::{FrameKind, HEADER, Header, gather};

/// Most bytes that are injected, whatever the provider allows: they are gathered on the stack.
const SHORT: usize = 256;

/// Device, links and members.
pub struct Mail {
    me: u32,
    passes: Passes,
    pub device: Device,
    links: Vec<Option<Box<Link>>>,
    /// Peers with a link, in the order of their first message.
    begun: Vec<u32>,
    /// Links with something to do by themselves.
    listed: Vec<u32>,
    pub members: Membership,
    /// Peers that were lost and not reported yet.
    losses: Vec<(u32, String)>,
    pub held: Held,
    /// The provider had no room: nothing reports when there is room again.
    was_full: bool,
    /// Messages without a valid pass, or malformed.
    turned_away: u64,
}

impl Mail {
    pub fn new(me: u32, peers: usize, passes: Passes, device: Device, sends: usize) -> Self {
        Self {
            me,
            passes,
            device,
            links: std::iter::repeat_with(|| None).take(peers).collect(),
            begun: Vec::new(),
            listed: Vec::new(),
            members: Membership::new(peers as u32),
            losses: Vec::new(),
            held: Held::new(sends),
            was_full: false,
            turned_away: 0,
        }
    }

    pub fn me(&self) -> u32 {
        self.me
    }

    #[inline]
    pub fn link(&mut self, peer: u32) -> Option<&mut Link> {
        self.links.get_mut(peer as usize)?.as_deref_mut()
    }

    pub fn link_ref(&self, peer: u32) -> Option<&Link> {
        self.links.get(peer as usize)?.as_deref()
    }

    /// Peers with a link.
    pub fn begun(&self) -> &[u32] {
        &self.begun
    }

    /// Messages that were turned away so far.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// The link with a peer, begun if needed.
    #[inline]
    pub fn open(&mut self, peer: Peer) -> Result<&mut Link> {
        if self.links.get(peer.index()).is_none_or(Option::is_none) || self.members.is_lost(peer) {
            self.begin(peer)?;
        }
        let peers = self.members.peers();
        self.link(peer.0)
            .ok_or(FabricError::NoSuchPeer { peer, peers })
    }

    #[cold]
    fn begin(&mut self, peer: Peer) -> Result<()> {
        self.members.check(peer)?;
        let lost = |reason: String| FabricError::PeerLost { peer, reason };
        let unknown = || lost("it has not said where it can be reached over libfabric".into());
        let card = self.passes.card(peer.0).ok_or_else(unknown)?;
        let address = self.device.insert(&card.address).map_err(lost)?;
        let passes = self.passes.to(peer.0).zip(self.passes.of(peer.0));
        let (out, own) = passes.ok_or_else(unknown)?;
        let link = Link::new(address, out, own);
        self.links[peer.index()] = Some(Box::new(link));
        self.begun.push(peer.0);
        Ok(())
    }

    /// Sends a message of these parts, or nothing at all.
    #[inline]
    pub fn post(&mut self, to: Peer, kind: FrameKind, parts: &[&[u8]]) -> Result<Posted> {
        self.post_asking(to, kind, parts, false)
    }

    #[inline]
    fn post_asking(
        &mut self,
        to: Peer,
        kind: FrameKind,
        parts: &[&[u8]],
        answer: bool,
    ) -> Result<Posted> {
        let me = self.me;
        let link = self.open(to)?;
        if !link.has_credit(kind) {
            return Ok(Posted::Retry);
        }
        let (header, address) = (link.header(me, kind, answer), link.address());
        let is_first = link.waiting.is_empty();
        let length = HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut outcome = Outcome::Full;
        if is_first && length <= self.device.inject_limit().min(SHORT) {
            let mut bytes = [0; SHORT];
            gather(&mut bytes, &header, parts);
            outcome = self.device.inject(address, &bytes[..length]);
        }
        if outcome == Outcome::Full {
            // An acknowledgement is generated again when there is room.
            let Some(slot) = self.held.take(to.0) else {
                return Ok(Posted::Retry);
            };
            gather(self.device.send_buffer(slot), &header, parts);
            if is_first {
                outcome = self.device.send(address, slot, length);
            }
            if outcome == Outcome::Full && kind.is_counted() {
                self.wait_for_room(to.0, slot, length);
                outcome = Outcome::Begun;
            } else if outcome != Outcome::Begun {
                self.held.release(slot);
            }
        }
        match outcome {
            Outcome::Begun => {
                if let Some(link) = self.link(to.0) {
                    link.note_sent(&header);
                }
                Ok(Posted::Done)
            }
            Outcome::Full => {
                self.was_full = true;
                Ok(Posted::Retry)
            }
            Outcome::Refused(reason) => {
                self.lose(to.0, format!("libfabric cannot reach it: {reason}"));
                self.members.check(to).map(|()| Posted::Retry)
            }
        }
    }

    /// Whether a piece of a transfer may be sent to a peer now: half of the credits and of the buffers are left to messages.
    pub fn has_room_for_pieces(&self, peer: u32) -> bool {
        let has_credit = |link: &Link| link.has_credit_for_pieces();
        self.held.is_half_free() && self.link_ref(peer).is_none_or(has_credit)
    }

    /// Keeps a message that was taken until the provider has room; also while its first connection is being
    /// made.
    #[cold]
    fn wait_for_room(&mut self, peer: u32, slot: usize, length: usize) {
        self.was_full = true;
        if let Some(link) = self.link(peer) {
            link.waiting.push_back((slot, length));
        }
        self.list(peer);
    }

    /// Sends what the provider had no room for. True if nothing of that is left.
    fn send_waiting(&mut self, peer: u32, moved: &mut usize) -> bool {
        while let Some(link) = self.link(peer)
            && let Some((slot, length)) = link.waiting.front().copied()
        {
            let address = link.address();
            match self.device.send(address, slot, length) {
                Outcome::Begun => {
                    *moved += 1;
                    if let Some(link) = self.link(peer) {
                        link.waiting.pop_front();
                    }
                }
                Outcome::Full => {
                    self.was_full = true;
                    return false;
                }
                Outcome::Refused(reason) => {
                    self.lose(peer, format!("libfabric cannot reach it: {reason}"));
                    return false;
                }
            }
        }
        true
    }

    /// Whether the provider had no room since the last call.
    #[inline]
    pub fn take_full(&mut self) -> bool {
        std::mem::take(&mut self.was_full)
    }

    /// Notes that the provider had no room for something else.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    /// Whether the sender has the pass; before there is a link with it, too.
    #[inline]
    fn is_ours(&self, header: &Header) -> bool {
        match self.link_ref(header.from) {
            Some(link) => link.admits(header),
            None if header.from == self.me || header.from >= self.members.peers() => false,
            None => Some(header.pass) == self.passes.of(header.from),
        }
    }

    /// The sender of a message that has arrived, if it is one of ours; and its header.
    pub fn admit(&mut self, slot: usize, length: usize) -> Option<Header> {
        let header = Header::parse(self.device.received(slot, length));
        let admitted =
            header.filter(|header| self.is_ours(header) && self.open(Peer(header.from)).is_ok());
        let Some(header) = admitted else {
            self.turned_away += 1;
            return None;
        };
        if !self
            .link(header.from)
            .is_some_and(|link| link.note_received(&header))
        {
            self.lose(header.from, "its messages are out of order: the provider has lost one, or it runs another release".into());
            return None;
        }
        let owes = self.link_ref(header.from).is_some_and(Link::is_pending);
        if owes {
            self.list(header.from);
        }
        Some(header)
    }

    /// Makes the next look do what a link has to do.
    pub fn list(&mut self, peer: u32) {
        if let Some(link) = self.link(peer)
            && !link.is_listed
        {
            link.is_listed = true;
            self.listed.push(peer);
        }
    }

    /// Sends an answer to a peer now, or when there is a credit.
    pub fn answer(&mut self, to: u32, answer: Answer) {
        if let Some(link) = self.link(to) {
            link.answers.push_back(answer);
            self.list(to);
        }
    }

    /// Sends answers, goodbyes and acknowledgements as far as there is room.
    #[inline]
    pub fn advance(&mut self) -> usize {
        if self.listed.is_empty() {
            return 0;
        }
        let mut moved = 0;
        for peer in std::mem::take(&mut self.listed) {
            moved += self.advance_link(peer);
            if let Some(link) = self.link(peer) {
                link.is_listed = false;
            }
            let waits = self.link_ref(peer).is_some_and(Link::is_pending);
            if waits && !self.members.is_lost(Peer(peer)) {
                self.list(peer);
            }
        }
        moved
    }

    fn advance_link(&mut self, peer: u32) -> usize {
        let mut moved = 0;
        let to = Peer(peer);
        if self.members.is_lost(to) || !self.send_waiting(peer, &mut moved) {
            return moved;
        }
        while let Some(answer) = self.link(peer).and_then(|link| link.answers.pop_front()) {
            let posted = match &answer {
                Answer::End(end) => self.post(to, FrameKind::End, &[&end.emit()]),
                Answer::Data(number, bytes) => {
                    self.post(to, FrameKind::Data, &[&number.to_le_bytes(), bytes])
                }
            };
            match posted {
                Ok(Posted::Done) => moved += 1,
                Ok(_) => {
                    if let Some(link) = self.link(peer) {
                        link.answers.push_front(answer);
                    }
                    break;
                }
                Err(_) => return moved,
            }
        }
        let wants = |link: &Link| link.goodbye_wanted && link.answers.is_empty();
        if self.link_ref(peer).is_some_and(wants)
            && self.post(to, FrameKind::Goodbye, &[]) == Ok(Posted::Done)
            && let Some(link) = self.link(peer)
        {
            link.goodbye_wanted = false;
            moved += 1;
        }
        if self.link_ref(peer).is_some_and(Link::owes_ack) {
            let posted = self.post(to, FrameKind::Ack, &[]);
            moved += usize::from(posted == Ok(Posted::Done));
        }
        moved
    }

    /// Asks a peer to acknowledge everything at once.
    pub fn ask_for_acks(&mut self, peer: u32) {
        let _ = self.post_asking(Peer(peer), FrameKind::Ack, &[], true);
    }

    /// Whether everything that was posted has left.
    pub fn has_left(&self) -> bool {
        self.held.is_empty() && self.listed.is_empty()
    }

    /// Whether nothing has to leave any more: a peer that has said goodbye may be gone, and a provider
    /// retries forever.
    pub fn needs_nobody(&self) -> bool {
        self.remains() != Remains::ForOthers
    }

    /// How much has not left yet, and for which peers.
    pub fn remains(&self) -> Remains {
        if self.has_left() {
            return Remains::Nothing;
        }
        let is_over = |peer: u32| self.link_ref(peer).is_none_or(Link::needs_nothing);
        let mut awaited = self.held.peers().chain(self.listed.iter().copied());
        match awaited.all(is_over) {
            true => Remains::AfterGoodbye,
            false => Remains::ForOthers,
        }
    }

    /// Notes that a message has left.
    #[inline]
    pub fn sent(&mut self, slot: usize) {
        self.held.release(slot);
    }

    /// A message has failed. A failure of a message to a process whose number has a new owner says nothing
    /// about anybody.
    #[cold]
    pub fn send_failed(&mut self, slot: usize, reason: &str) {
        if let Some(peer) = self.held.release(slot)
            && peer != NOBODY
        {
            self.lose(peer, format!("a message to it failed: {reason}"));
        }
    }

    /// Posts a receive buffer again.
    #[inline]
    pub fn post_receive(&mut self, slot: usize) -> bool {
        self.device.post_receive(slot) == Outcome::Begun
    }

    /// The next completion, of those that the device's last [query](Device::ask) returned.
    #[inline]
    pub fn completion(&mut self) -> Option<Event> {
        self.device.next()
    }
}
