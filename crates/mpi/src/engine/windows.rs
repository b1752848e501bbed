//! Windows of flow control, at the sender: how much each peer is sent before it has received the messages before.
//!
//! ```text
//!  credit     a window of bytes ── spent ──► asks for more, the same again ── spent ──► no credit until the answer
//!  no credit  messages of any size are only announced: their data stay here until they are matched
//!  announced  as many as fit a window ──► later ones are held back, in order for each communicator
//! ```
//!
//! A usual message only uses [`Windows::spend`]: bytes that may leave to a peer right now. None may leave while messages
//! wait for it (of the fabric or held back), so that a caller that may spend need not check whether any do. The remaining
//! credit is kept aside meanwhile. See [`flow`](super::flow) for what both sides send each other, and why no rank waits
//! for ever.

use std::collections::VecDeque;

use weft_fabric::Peer;

use super::envelope::Envelope;
use super::request_id::RequestId;

/// Bytes that a message takes at its receiver beside its data.
pub(super) const OVERHEAD: u32 = 256;

/// Windows of all peers together, and the smallest and largest one of a peer, in bytes.
const TOGETHER: u32 = 32 << 20;
const SMALLEST: u32 = 256 << 10;
const LARGEST: u32 = 4 << 20;

/// The window of each peer in a job of so many ranks.
pub(super) fn window_of(ranks: u32) -> u32 {
    (TOGETHER / ranks.max(1)).clamp(SMALLEST, LARGEST)
}

/// What a message of so many bytes takes of a window.
#[inline(always)]
pub(super) fn cost(bytes: usize) -> u32 {
    // No message that goes with its envelope is as long as a word.
    (bytes as u32).wrapping_add(OVERHEAD)
}

/// Windows of all peers.
#[derive(Debug)]
pub(super) struct Windows {
    /// Bytes that may leave to each peer now.
    open: Box<[u32]>,
    peers: Box<[Window]>,
    held: Vec<HeldBack>,
    /// That of a peer which has not said anything.
    first: u32,
}

/// The window of one peer.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Bytes that may leave once nothing waits for the peer.
    kept: u32,
    /// What the peer gives each time.
    size: u32,
    /// Messages that it was told of and has not matched, as far as is known here.
    announced: u32,
    /// Messages wait for the fabric to take them.
    is_queued: bool,
    /// Messages are held back.
    holds: bool,
    /// It was asked for more and has not answered.
    has_asked: bool,
}

const _: () = assert!(size_of::<Window>() <= 16);

impl Window {
    fn new(size: u32) -> Self {
        Self {
            kept: 0,
            size,
            announced: 0,
            is_queued: false,
            holds: false,
            has_asked: false,
        }
    }

    fn is_closed(&self) -> bool {
        self.is_queued || self.holds
    }

    fn most_announced(&self) -> u32 {
        (self.size / OVERHEAD).max(4)
    }
}

/// Messages to a peer in one context that it was not told of, oldest first.
#[derive(Debug)]
pub(super) struct HeldBack {
    to: Peer,
    context: u32,
    messages: VecDeque<(RequestId, Envelope)>,
    /// Tags that the peer waits for, and that none of these has; `None` for any.
    wanted: Vec<Option<i32>>,
}

impl HeldBack {
    fn is(&self, to: Peer, context: u32) -> bool {
        (self.to, self.context) == (to, context)
    }

    /// How many messages there are up to and with the first one of a tag.
    fn until(&self, tag: Option<i32>) -> Option<usize> {
        let has_tag = |(_, envelope): &(RequestId, Envelope)| fits(tag, envelope.tag);
        let place = self.messages.iter().position(has_tag)?;
        Some(place + 1)
    }
}

fn fits(wanted: Option<i32>, tag: i32) -> bool {
    wanted.is_none_or(|wanted| wanted == tag)
}

impl Windows {
    pub(super) fn new(peers: usize, first: u32) -> Self {
        Self {
            open: vec![first; peers].into_boxed_slice(),
            peers: vec![Window::new(first); peers].into_boxed_slice(),
            held: Vec::new(),
            first,
        }
    }

    /// There are so many peers from now on.
    pub(super) fn make_room(&mut self, peers: usize) {
        let (mut open, mut windows) = (
            std::mem::take(&mut self.open).into_vec(),
            std::mem::take(&mut self.peers).into_vec(),
        );
        if peers > open.len() {
            open.resize(peers, self.first);
            windows.resize(peers, Window::new(self.first));
        }
        (self.open, self.peers) = (open.into(), windows.into());
    }

    /// Every window has this size from now on, and no more may leave before the peer says so.
    pub(super) fn set_size(&mut self, size: u32) {
        self.first = size;
        for (open, window) in self.open.iter_mut().zip(&mut self.peers) {
            window.size = size;
            window.kept = window.kept.min(size);
            *open = (*open).min(size);
        }
    }

    /// What may leave to a peer, if that is enough for a message of so many bytes, and what is left of it once that has left.
    #[inline(always)]
    pub(super) fn open_for(&mut self, to: Peer, bytes: usize) -> Option<(&mut u32, u32)> {
        let open = self.open.get_mut(to.index())?;
        let left = open.checked_sub(cost(bytes))?;
        Some((open, left))
    }

    /// Whether a message of so many bytes may leave, which it takes of the window.
    #[inline(always)]
    pub(super) fn spend(&mut self, to: Peer, bytes: usize) -> bool {
        let open = self.open_for(to, bytes);
        open.map(|(open, left)| *open = left).is_some()
    }

    /// A message that was to leave does not.
    #[cold]
    pub(super) fn give_back(&mut self, to: Peer, bytes: usize) {
        self.open[to.index()] += cost(bytes);
    }

    /// The same while messages wait for the fabric: what is sent goes behind them.
    pub(super) fn spend_kept(&mut self, to: Peer, bytes: usize) -> bool {
        let window = &mut self.peers[to.index()];
        if window.holds || !window.is_queued || window.kept < cost(bytes) {
            return false;
        }
        window.kept -= cost(bytes);
        true
    }

    /// Messages wait for the fabric to take them, or do not any more.
    pub(super) fn set_queued(&mut self, to: Peer, is_queued: bool) {
        self.change(to, |window| window.is_queued = is_queued);
    }

    fn change(&mut self, to: Peer, change: impl FnOnce(&mut Window)) {
        let (window, open) = (&mut self.peers[to.index()], &mut self.open[to.index()]);
        window.kept += std::mem::take(open);
        change(window);
        if !window.is_closed() {
            *open = std::mem::take(&mut window.kept);
        }
    }

    /// Whether a peer was asked for more and has not answered.
    pub(super) fn has_asked(&self, to: Peer) -> bool {
        self.peers[to.index()].has_asked
    }

    /// The peer is asked, and as much as before may leave meanwhile.
    pub(super) fn ask(&mut self, to: Peer) {
        self.change(to, |window| {
            window.has_asked = true;
            window.kept = window.size;
        });
    }

    /// The peer has answered what it was asked: what is given the next time.
    pub(super) fn answered(&mut self, from: Peer, size: u64) {
        let window = &mut self.peers[from.index()];
        if std::mem::take(&mut window.has_asked) {
            window.size = u32::try_from(size).unwrap_or(LARGEST).min(LARGEST);
        }
    }

    /// A peer is lost, or another process has its number: nothing is under way to it.
    pub(super) fn reset(&mut self, peer: Peer) {
        self.held.retain(|held| held.to != peer);
        self.open[peer.index()] = self.first;
        self.peers[peer.index()] = Window::new(self.first);
    }
}

/// Announcements.
impl Windows {
    /// The peer is told of a message.
    pub(super) fn note_announced(&mut self, to: Peer) {
        self.peers[to.index()].announced += 1;
    }

    /// One of them is matched, or ended. True if messages are held back that it may be told of now.
    #[must_use]
    pub(super) fn end_announced(&mut self, to: Peer) -> bool {
        let window = &mut self.peers[to.index()];
        window.announced = window.announced.saturating_sub(1);
        window.holds && window.announced <= window.most_announced() / 2
    }

    /// How many more it may be told of.
    pub(super) fn room(&self, to: Peer) -> usize {
        let window = &self.peers[to.index()];
        window.most_announced().saturating_sub(window.announced) as usize
    }

    /// Whether messages are held back from this peer.
    pub(super) fn holds(&self, to: Peer) -> bool {
        self.peers[to.index()].holds
    }

    /// Whether a message that is announced must wait: others of its context do, or there is no room.
    pub(super) fn must_hold(&self, to: Peer, context: u32) -> bool {
        let held = || self.held.iter().any(|held| held.is(to, context));
        self.room(to) == 0 || self.holds(to) && held()
    }

    /// How many messages are held back.
    pub(super) fn held(&self) -> usize {
        self.held.iter().map(|held| held.messages.len()).sum()
    }

    /// Holds a message back. True if it is the first one of its context.
    #[must_use]
    pub(super) fn hold(&mut self, to: Peer, request: RequestId, envelope: Envelope) -> bool {
        let message = (request, envelope);
        let mut all = self.held.iter_mut();
        if let Some(held) = all.find(|held| held.is(to, envelope.context)) {
            held.messages.push_back(message);
            return false;
        }
        self.held.push(HeldBack {
            to,
            context: envelope.context,
            messages: VecDeque::from([message]),
            wanted: Vec::new(),
        });
        self.change(to, |window| window.holds = true);
        true
    }

    /// The peer waits for a message with such a tag. Answers how many of those held back it is to be told of.
    pub(super) fn want(&mut self, to: Peer, context: u32, tag: Option<i32>) -> usize {
        let mut all = self.held.iter_mut();
        let Some(held) = all.find(|held| held.is(to, context)) else {
            return 0;
        };
        let until = held.until(tag);
        if until.is_none() && !held.wanted.contains(&tag) {
            held.wanted.push(tag);
        }
        until.unwrap_or(0)
    }

    /// How many messages of a context the peer is to be told of because it waits for the last one of them.
    pub(super) fn wanted(&mut self, to: Peer, context: u32) -> usize {
        let mut all = self.held.iter_mut();
        let Some(held) = all.find(|held| held.is(to, context)) else {
            return 0;
        };
        let tag = held.messages.back().map(|(_, envelope)| envelope.tag);
        let before = held.wanted.len();
        held.wanted
            .retain(|wanted| !tag.is_some_and(|tag| fits(*wanted, tag)));
        match held.wanted.len() < before {
            true => held.messages.len(),
            false => 0,
        }
    }

    /// The contexts in which messages are held back from a peer.
    pub(super) fn contexts(&self, to: Peer) -> Vec<u32> {
        let held = self.held.iter().filter(|held| held.to == to);
        held.map(|held| held.context).collect()
    }

    /// The oldest message that is held back.
    pub(super) fn release(&mut self, to: Peer, context: u32) -> Option<(RequestId, Envelope)> {
        let mut all = self.held.iter_mut();
        let held = all.find(|held| held.is(to, context))?;
        held.messages.pop_front()
    }

    /// Some were released: whether more of this context are held back.
    #[must_use]
    pub(super) fn end_release(&mut self, to: Peer, context: u32) -> bool {
        self.held.retain(|held| !held.messages.is_empty());
        let (mut holds, mut holds_here) = (false, false);
        for held in self.held.iter().filter(|held| held.to == to) {
            (holds, holds_here) = (true, holds_here | (held.context == context));
        }
        self.change(to, |window| window.holds = holds);
        holds_here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Peer = Peer(1);

    fn spent(windows: &mut Windows, bytes: usize) -> usize {
        let mut count = 0;
        while windows.spend(PEER, bytes) {
            count += 1;
        }
        count
    }

    #[test]
    fn what_may_leave_is_kept_while_messages_wait() {
        let mut windows = Windows::new(2, 10 * OVERHEAD);
        assert!(windows.spend(PEER, 0) && windows.spend(Peer(0), 0));
        windows.set_queued(PEER, true);
        assert!(!windows.spend(PEER, 0));
        assert!(windows.spend_kept(PEER, 0));
        windows.set_queued(PEER, false);
        assert!(!windows.spend_kept(PEER, 0));
        assert_eq!(spent(&mut windows, 0), 8);
        assert!(!windows.spend(PEER, 0) && windows.spend(Peer(0), 0));
    }

    #[test]
    fn twice_a_window_leaves_without_an_answer() {
        let mut windows = Windows::new(2, 10 * OVERHEAD);
        assert_eq!(spent(&mut windows, OVERHEAD as usize), 5);
        windows.ask(PEER);
        assert_eq!(spent(&mut windows, OVERHEAD as usize), 5);
        assert!(windows.has_asked(PEER));
        windows.answered(PEER, u64::from(4 * OVERHEAD));
        assert_eq!(spent(&mut windows, 0), 0, "it is asked again first");
        windows.ask(PEER);
        assert_eq!(spent(&mut windows, 0), 4);
        windows.answered(PEER, u64::MAX);
        windows.answered(PEER, 1);
        windows.ask(PEER);
        assert_eq!(spent(&mut windows, 0), (LARGEST / OVERHEAD) as usize);
    }

    #[test]
    fn messages_are_held_back_in_order_for_each_context() {
        let mut windows = Windows::new(2, 4 * OVERHEAD);
        for _ in 0..4 {
            assert!(!windows.must_hold(PEER, 0));
            windows.note_announced(PEER);
        }
        assert!(windows.must_hold(PEER, 0) && windows.must_hold(PEER, 2));
        let message = |number: u32, context, tag| {
            let envelope = Envelope::eager(context, tag, 0);
            (RequestId::new(number, 0), envelope)
        };
        let all = [(1, 0, 7), (2, 2, 7), (3, 0, 8)].map(|(n, c, t)| message(n, c, t));
        let first = all.map(|(id, envelope)| windows.hold(PEER, id, envelope));
        assert_eq!(first, [true, true, false]);
        assert_eq!(windows.want(PEER, 2, Some(9)), 0, "there is none");
        assert_eq!(windows.want(PEER, 0, Some(8)), 2);
        assert_eq!(windows.want(PEER, 4, None), 0);
        assert_eq!(windows.wanted(PEER, 2), 0);
        let (id, envelope) = message(4, 2, 9);
        assert!(!windows.hold(PEER, id, envelope));
        assert_eq!(windows.wanted(PEER, 2), 2, "the one that is waited for");
        assert_eq!(windows.wanted(PEER, 2), 0, "once");
        let released: Vec<_> = std::iter::from_fn(|| windows.release(PEER, 2)).collect();
        assert_eq!(released, [all[1], (id, envelope)]);
        assert!(!windows.end_release(PEER, 2) && windows.holds(PEER));
        assert!(!windows.spend(PEER, 0), "others wait");
        while windows.release(PEER, 0).is_some() {}
        assert!(!windows.end_release(PEER, 0) && !windows.holds(PEER));
        assert!(windows.spend(PEER, 0));
    }
}
