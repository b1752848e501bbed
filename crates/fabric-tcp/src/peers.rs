//! Peers: the sessions of one rank, by rank; which of them have a connection, and which peers are gone.
//!
//! ```text
//!   Unknown ──first use, or it has called──► Known(session) ──lost──► Lost(why)
//!      ▲                                          │ another process    │ another process
//!      └──────────────────────────────────────────┴────────────────────┘
//! ```
//!
//! A session lasts until its peer is lost. A peer that has left in order keeps one, which refuses what is sent to
//! it. Losses, and transfers that ended with a peer, are kept until the next look [reports](Peers::report) them.

use std::sync::Arc;

use weft_fabric::{FabricError, LinkTraffic, Operation, Peer, Result, SignalTable, Sink, Token};

use crate::link::Link;
use crate::network::Network;
use crate::session::life::{Broke, Unreachable};
use crate::session::{Post, Sent, Session};
use crate::wire::{FrameKind, Malformed};

/// The report about a peer whose number another process has.
const SUCCEEDED: &str = "its process has ended, and another one has its number";

/// The knowledge about one rank.
enum Slot<S> {
    /// Nothing was ever exchanged.
    Unknown,
    Known(Box<Session<S>>),
    /// It is lost, for this reason.
    Lost(String),
}

/// The reason of what ends with a peer whose process has ended in order.
const LEFT: &str = "it has left the job";

/// An event of a member.
enum Fate {
    /// It is lost, for this reason.
    Lost(String),
    /// Its process has ended in order.
    Departed,
    /// Another process has its number.
    Replaced,
}

/// The state shared with each peer.
pub struct Peers<N: Network> {
    slots: Vec<Slot<N::Stream>>,
    /// Peers about which something is known, in the order in which that began. There may be many more about
    /// which nothing is known.
    begun: Vec<u32>,
    /// Peers with a connection, for looking at them directly.
    connected: Vec<u32>,
    bell: Arc<N::Bell>,
    /// Lost, departed or replaced, and not reported yet.
    fates: Vec<(u32, Fate)>,
    /// Transfers that ended outside of a look.
    ended: Vec<(Operation, Result<()>)>,
    /// Where the next round of [`Self::in_turn`] begins.
    turn: usize,
    /// Events that handed nothing to the sink.
    progressed: usize,
}

impl<N: Network> Peers<N> {
    /// `count` ranks, about which nothing is known. The bell watches connections, and is rung if a peer is
    /// lost.
    pub fn new(count: u32, bell: Arc<N::Bell>) -> Self {
        Self {
            slots: (0..count).map(|_| Slot::Unknown).collect(),
            begun: Vec::new(),
            connected: Vec::new(),
            bell,
            fates: Vec::new(),
            ended: Vec::new(),
            turn: 0,
            progressed: 0,
        }
    }

    /// How many ranks there are.
    pub fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The session with a peer, if there is one.
    #[inline]
    pub fn get(&self, peer: u32) -> Option<&Session<N::Stream>> {
        match self.slots.get(peer as usize) {
            Some(Slot::Known(session)) => Some(session),
            _ => None,
        }
    }

    /// As [`Self::get`].
    #[inline]
    pub fn get_mut(&mut self, peer: u32) -> Option<&mut Session<N::Stream>> {
        match self.slots.get_mut(peer as usize) {
            Some(Slot::Known(session)) => Some(session),
            _ => None,
        }
    }

    /// Peers about which something is known.
    #[inline]
    pub fn begun(&self) -> &[u32] {
        &self.begun
    }

    /// All sessions.
    pub fn sessions(&mut self) -> impl Iterator<Item = &mut Session<N::Stream>> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Known(session) => Some(&mut **session),
            _ => None,
        })
    }

    /// Checks that the peer exists and is not lost.
    ///
    /// # Errors
    /// [`FabricError::NoSuchPeer`], [`FabricError::PeerLost`].
    pub fn check(&self, peer: Peer) -> Result<()> {
        match self.slots.get(peer.index()) {
            None => Err(self.no_such(peer)),
            Some(Slot::Lost(reason)) => Err(FabricError::PeerLost {
                peer,
                reason: reason.clone(),
            }),
            Some(_) => Ok(()),
        }
    }

    /// The error for a peer that does not exist.
    #[cold]
    pub fn no_such(&self, peer: Peer) -> FabricError {
        FabricError::NoSuchPeer {
            peer,
            peers: self.count(),
        }
    }

    /// Begins a session, unless there is one or the peer is lost.
    pub fn begin(&mut self, peer: u32) {
        if let Some(slot @ Slot::Unknown) = self.slots.get_mut(peer as usize) {
            *slot = Slot::Known(Box::new(Session::new()));
            self.begun.push(peer);
        }
    }

    /// Whether to let in a peer that has proved the key: not if it has left, or is lost.
    pub fn admits(&self, peer: u32) -> bool {
        match self.slots.get(peer as usize) {
            Some(Slot::Known(session)) => !session.has_left(),
            Some(Slot::Unknown) => true,
            Some(Slot::Lost(_)) | None => false,
        }
    }

    /// Peers with a connection.
    #[inline]
    pub fn connected(&self) -> &[u32] {
        &self.connected
    }

    /// The connected peer at `step` of a round; each [new round](Self::next_turn) begins with another one.
    #[inline]
    pub fn in_turn(&self, step: usize, count: usize) -> Option<u32> {
        self.connected.get((self.turn + step) % count).copied()
    }

    /// Makes the next round begin one peer further.
    #[inline]
    pub fn next_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Whether one of the connections waits for the bell to say that there is room to send.
    pub fn is_blocked(&self) -> bool {
        let blocked = |peer: &u32| self.get(*peer).is_some_and(Session::is_blocked);
        self.connected.iter().any(blocked)
    }

    /// Selects a connection. False: it cannot be watched, and is broken.
    #[must_use]
    pub fn select(&mut self, peer: u32, link: Box<Link<N::Stream>>, offer: Option<usize>) -> bool {
        let Some(session) = self.get_mut(peer) else {
            return false;
        };
        session.select(link, offer);
        self.note_connected(peer)
    }

    /// Resumes on a connection that the peer has selected. False: it cannot be watched, and is broken.
    ///
    /// # Errors
    /// The peer claims to have processed what was never sent.
    pub fn resume(
        &mut self,
        peer: u32,
        link: Box<Link<N::Stream>>,
        offer: Option<usize>,
        said: (u32, u64),
    ) -> std::result::Result<bool, Malformed> {
        let Some(session) = self.get_mut(peer) else {
            return Ok(false);
        };
        session.resume(link, offer, said)?;
        Ok(self.note_connected(peer))
    }

    fn note_connected(&mut self, peer: u32) -> bool {
        let bell = self.bell.clone();
        let watched = self
            .get(peer)
            .is_some_and(|session| session.watch(&*bell, peer).is_ok());
        if watched && !self.connected.contains(&peer) {
            self.connected.push(peer);
        }
        watched
    }

    /// Watches all connections for reading again, or stops watching. True: the system has not refused.
    pub fn set_watched(&mut self, watched: bool) -> bool {
        let bell = self.bell.clone();
        let mut all = true;
        for index in 0..self.connected.len() {
            let peer = self.connected[index];
            if let Some(session) = self.get_mut(peer) {
                all &= session.set_watched(&*bell, peer, watched).is_ok();
            }
        }
        all
    }

    /// Lets go of the connection with a peer; the next one resends what it carried.
    pub fn disconnect(&mut self, peer: u32) {
        self.connected.retain(|other| *other != peer);
        if let Some(session) = self.get_mut(peer) {
            session.disconnect();
        }
    }

    /// The connection with a peer has broken; `silent`: its host has answered nothing for the set time.
    pub fn broke(&mut self, peer: u32, silent: bool) -> Broke {
        self.progressed += 1;
        self.disconnect(peer);
        let Some(session) = self.get_mut(peer) else {
            return Broke::Over;
        };
        let broke = session.broke(silent);
        if broke == Broke::Left {
            self.leave(peer);
        }
        broke
    }

    /// Nobody can be reached at a peer's address.
    pub fn unreachable(&mut self, peer: u32) -> Unreachable {
        let Some(session) = self.get_mut(peer) else {
            return Unreachable::Lost;
        };
        let unreachable = session.unreachable();
        if unreachable == Unreachable::Left {
            self.leave(peer);
        }
        unreachable
    }

    /// The process of a peer that has no connection has ended in order. False if that was known.
    pub fn depart(&mut self, peer: u32) -> bool {
        self.begin(peer);
        let departs = self.get_mut(peer).is_some_and(Session::depart);
        if departs {
            self.leave(peer);
        }
        departs
    }

    /// A peer has left in order: what it has sent was handed out.
    fn leave(&mut self, peer: u32) {
        self.disconnect(peer);
        if let Slot::Known(session) = &mut self.slots[peer as usize] {
            let lost = lost_with(peer, LEFT);
            self.ended.extend(session.leave().map(lost));
            self.fates.push((peer, Fate::Departed));
            // Sleepers must learn of it.
            weft_fabric::Bell::ring(&*self.bell);
        }
    }

    /// A peer is lost: what was under way with it ends, as the next look reports.
    pub fn lose(&mut self, peer: u32, reason: String) {
        let Some(slot) = self.slots.get_mut(peer as usize) else {
            return;
        };
        if let Slot::Lost(_) = slot {
            return;
        }
        self.connected.retain(|other| *other != peer);
        if let Slot::Known(session) = slot {
            self.ended
                .extend(session.abandon().map(lost_with(peer, &reason)));
        }
        *slot = Slot::Lost(reason.clone());
        self.fates.push((peer, Fate::Lost(reason)));
        self.progressed += 1;
        // Sleepers must learn of it.
        weft_fabric::Bell::ring(&*self.bell);
    }

    /// Peers with a session with which no connection was ever agreed on.
    pub fn unreached(&self) -> Vec<u32> {
        let never = |peer: &u32| self.get(*peer).is_some_and(|session| !session.was_live());
        self.begun.iter().copied().filter(never).collect()
    }

    /// Drops what was taken for a peer, and forgets the peer.
    pub fn abandon(&mut self, peer: u32) {
        self.disconnect(peer);
        self.begun.retain(|other| *other != peer);
        if let Some(slot @ Slot::Known(_)) = self.slots.get_mut(peer as usize)
            && let Slot::Known(mut session) = std::mem::replace(slot, Slot::Unknown)
        {
            let lost = lost_with(peer, "it was never reached, and is not waited for");
            self.ended.extend(session.abandon().map(lost));
        }
    }

    /// The process of a peer has ended, as another one has its number: it is lost, unless it has said goodbye, or nothing was ever
    /// exchanged with it.
    pub fn part(&mut self, peer: u32) {
        if self.get(peer).is_some_and(|session| !session.may_end()) {
            self.lose(peer, SUCCEEDED.into());
        }
    }

    /// Another process has the number of a peer: what was under way with the process before ends, and nothing is
    /// known about the new one. The next look reports it.
    pub fn succeed(&mut self, peer: u32) {
        self.part(peer);
        self.disconnect(peer);
        self.begun.retain(|other| *other != peer);
        let Some(slot) = self.slots.get_mut(peer as usize) else {
            return;
        };
        if let Slot::Known(mut session) = std::mem::replace(slot, Slot::Unknown) {
            self.ended
                .extend(session.abandon().map(lost_with(peer, SUCCEEDED)));
        }
        self.fates.push((peer, Fate::Replaced));
    }

    /// Appends a frame to a peer, if there is credit, and sends as much as there is room for. `None`: there
    /// is no session.
    #[inline]
    pub fn post(&mut self, peer: u32, frame: (FrameKind, &[&[u8]])) -> Option<Post> {
        let Some(Slot::Known(session)) = self.slots.get_mut(peer as usize) else {
            return None;
        };
        let post = session.post(frame, &*self.bell, peer);
        if post == Post::Taken(Sent::Failed) {
            self.progressed += 1;
        }
        Some(post)
    }

    /// Sends to a peer as much as there is room for.
    #[inline]
    pub fn pump(&mut self, peer: u32) -> Sent {
        let Some(Slot::Known(session)) = self.slots.get_mut(peer as usize) else {
            return Sent::Done;
        };
        let sent = session.pump(&*self.bell, peer);
        if sent == Sent::Failed {
            self.progressed += 1;
        }
        sent
    }

    /// There is room to send to a peer again. True: the session waited for it, and is to be pumped.
    #[must_use]
    pub fn unblock(&mut self, peer: u32) -> bool {
        let Some(Slot::Known(session)) = self.slots.get_mut(peer as usize) else {
            return false;
        };
        let waited = session.unblock(&*self.bell, peer);
        self.progressed += usize::from(waited);
        waited
    }

    /// See [`Session::try_again`].
    #[inline]
    pub fn try_again(&mut self, peer: u32) {
        let Some(Slot::Known(session)) = self.slots.get_mut(peer as usize) else {
            return;
        };
        let (sent, moved) = session.try_again(&*self.bell, peer);
        self.progressed += usize::from(moved || sent == Sent::Failed);
    }

    /// Ends a grant: nothing is read or written by it after this. True: the session with this peer is to be
    /// pumped.
    #[must_use]
    pub fn withdraw(&mut self, peer: u32, token: Token) -> bool {
        self.get_mut(peer)
            .is_some_and(|session| session.withdraw(token))
    }

    /// Whether the peers' kernels have everything that was taken for them, or need it no more.
    pub fn are_handed_over(&self) -> bool {
        let sessions = self.begun.iter().filter_map(|peer| self.get(*peer));
        sessions.into_iter().all(Session::is_handed_over)
    }

    /// Asks peers whose kernels have not acknowledged all that was sent for an acknowledgement, once.
    #[cold]
    pub fn ask_for_acknowledgements(&mut self) {
        for index in 0..self.begun.len() {
            let peer = self.begun[index];
            if self
                .get_mut(peer)
                .is_some_and(Session::ask_for_acknowledgement)
            {
                // It has a connection: nobody is to be dialled. The next look reports a failure.
                let _ = self.pump(peer);
            }
        }
    }

    /// The amount exchanged with each peer; and whether nothing is to be sent, mended or reported.
    pub fn traffic(&self) -> (Vec<LinkTraffic>, bool) {
        let sessions = self.begun.iter();
        let sessions = sessions.filter_map(|peer| Some((*peer, self.get(*peer)?)));
        let mut all_at_rest = self.fates.is_empty() && self.ended.is_empty();
        let links = sessions.filter_map(|(peer, session)| {
            all_at_rest &= session.is_at_rest();
            // Before the first connection nothing can have come, and what is to be sent is not at rest.
            (session.generation() > 0).then(|| session.traffic(Peer(peer)))
        });
        let links = links.collect();
        (links, all_at_rest)
    }

    /// Reports what was found out outside of a look; returns how many events that were.
    #[inline]
    pub fn report(&mut self, sink: &mut dyn Sink, signals: &mut SignalTable) -> usize {
        if self.fates.is_empty() && self.ended.is_empty() {
            return 0;
        }
        self.report_some(sink, signals)
    }

    #[cold]
    fn report_some(&mut self, sink: &mut dyn Sink, signals: &mut SignalTable) -> usize {
        let mut count = 0;
        for (operation, result) in std::mem::take(&mut self.ended) {
            sink.transfer_completed(operation, result);
            count += 1;
        }
        for (peer, fate) in std::mem::take(&mut self.fates) {
            match fate {
                Fate::Lost(reason) => sink.lost(Peer(peer), &reason),
                Fate::Departed => sink.departed(Peer(peer), LEFT),
                Fate::Replaced => {
                    signals.forget_peer(Peer(peer));
                    sink.replaced(Peer(peer));
                }
            }
            count += 1;
        }
        count
    }

    /// Events since the last call.
    #[inline]
    pub fn take_progress(&mut self) -> usize {
        std::mem::take(&mut self.progressed)
    }

    /// Forgets all peers, without a report.
    pub fn forget_all(&mut self) {
        self.slots.clear();
        self.begun.clear();
        self.connected.clear();
    }
}

/// The report for a transfer with a peer that is gone.
fn lost_with(peer: u32, reason: &str) -> impl Fn(Operation) -> (Operation, Result<()>) {
    move |operation| {
        let lost = FabricError::PeerLost {
            peer: Peer(peer),
            reason: reason.into(),
        };
        (operation, Err(lost))
    }
}
