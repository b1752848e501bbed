//! Outbox: messages that the fabric did not take yet, in order per peer. Sending never blocks and never overtakes: while
//! a message waits for a peer, all later ones for it wait behind.

use std::collections::VecDeque;

use weft_fabric::{Fabric, Head, Peer, Posted, Region};

use super::Engine;
use super::pieces::Pieces;
use super::request_id::RequestId;
use super::sending::AfterLeaving;
use super::windows::Windows;
use crate::buffer;
use crate::error::Error;

/// The data of a waiting message.
#[derive(Debug)]
pub(super) enum Load {
    None,
    /// The caller's, which the request keeps in use.
    Lent(Region),
    Owned(Box<[u8]>),
    /// Data behind heads of their own. The request keeps them in use.
    Pieces(Pieces),
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub head: Head,
    pub load: Load,
    /// The send that it is the message of; `None` for an answer.
    pub request: Option<RequestId>,
}

impl Waiting {
    /// Offers it to the fabric. Also true if a part of it has left.
    #[inline]
    fn send(&mut self, fabric: &mut dyn Fabric, to: Peer) -> (bool, weft_fabric::Result<Posted>) {
        let data = match &mut self.load {
            Load::None => &[],
            Load::Lent(region) => buffer::bytes_of(region),
            Load::Owned(bytes) => &**bytes,
            Load::Pieces(pieces) => return pieces.send(fabric, to),
        };
        (false, fabric.try_send(to, &self.head, data))
    }
}

/// What a message has ended with that was offered to the fabric; `None` if it still waits.
fn end_of(posted: weft_fabric::Result<Posted>) -> Option<Option<Error>> {
    match posted {
        Ok(Posted::Retry) => None,
        Ok(_) => Some(None),
        Err(cause) => Some(Some(Error::from(cause))),
    }
}

/// What waits, per peer.
#[derive(Debug)]
pub(super) struct Outbox {
    queues: Vec<VecDeque<Waiting>>,
    /// Peers with something waiting.
    busy: Vec<Peer>,
    /// How much may leave without having been asked for; nothing while something waits.
    pub windows: Windows,
}

impl Outbox {
    pub(super) fn new(peers: usize, window: u32) -> Self {
        Self {
            windows: Windows::new(peers, window),
            queues: std::iter::repeat_with(VecDeque::new).take(peers).collect(),
            busy: Vec::new(),
        }
    }

    /// There are so many peers from now on.
    pub(super) fn make_room(&mut self, peers: usize) {
        self.windows.make_room(peers);
        if peers > self.queues.len() {
            self.queues.resize_with(peers, VecDeque::new);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether the message of a send waits for this peer. Asked right after it was put there.
    pub(super) fn has(&self, to: Peer, request: RequestId) -> bool {
        let last = self.queues[to.index()].back();
        last.is_some_and(|waiting| waiting.request == Some(request))
    }

    /// How many messages wait.
    pub(super) fn len(&self) -> usize {
        let queues = self.busy.iter().map(|peer| &self.queues[peer.index()]);
        queues.map(VecDeque::len).sum()
    }

    /// Whether nothing waits for this peer.
    #[inline]
    pub(super) fn is_clear(&self, to: Peer) -> bool {
        self.busy.is_empty() || self.queues[to.index()].is_empty()
    }

    pub(super) fn push(&mut self, to: Peer, waiting: Waiting) {
        let queue = &mut self.queues[to.index()];
        if queue.is_empty() {
            self.busy.push(to);
            self.windows.set_queued(to, true);
        }
        queue.push_back(waiting);
    }

    /// Forgets what waits for a lost peer. The sends of it are ended by the caller.
    pub(super) fn drop_peer(&mut self, peer: Peer) {
        if let Some(queue) = self.queues.get_mut(peer.index()) {
            queue.clear();
            self.windows.reset(peer);
        }
        self.busy.retain(|other| *other != peer);
    }

    /// Forgets the message of one send, and so what it refers to.
    #[cold]
    pub(super) fn withdraw(&mut self, to: Peer, request: RequestId) {
        let queue = &mut self.queues[to.index()];
        queue.retain(|waiting| waiting.request != Some(request));
        if queue.is_empty() {
            self.busy.retain(|other| *other != to);
            self.windows.set_queued(to, false);
        }
    }
}

impl Engine {
    /// Sends what waits, as far as there is credit. True if anything went.
    #[cold]
    pub(super) fn flush(&mut self) -> bool {
        let mut sent = false;
        let mut place = 0;
        while let Some(&to) = self.outbox.busy.get(place) {
            while let Some(waiting) = self.outbox.queues[to.index()].front_mut() {
                let (left, posted) = waiting.send(&mut *self.fabric, to);
                sent |= left;
                let Some(error) = end_of(posted) else {
                    break;
                };
                sent = true;
                let waiting = self.outbox.queues[to.index()]
                    .pop_front()
                    .expect("the front was there");
                if let Some(request) = waiting.request {
                    self.left(request, error);
                }
            }
            if self.outbox.queues[to.index()].is_empty() {
                self.outbox.busy.swap_remove(place);
                self.outbox.windows.set_queued(to, false);
            } else {
                place += 1;
            }
        }
        sent
    }

    /// Sends the message of a send, now or when there is room: behind what waits for the same peer.
    pub(super) fn post_waiting(&mut self, to: Peer, mut waiting: Waiting) {
        if !self.outbox.is_clear(to) {
            self.outbox.push(to, waiting);
            self.flush();
            return;
        }
        let (_, posted) = waiting.send(&mut *self.fabric, to);
        match (end_of(posted), waiting.request) {
            (None, _) => self.outbox.push(to, waiting),
            (Some(error), Some(request)) => self.left(request, error),
            (Some(_), None) => {}
        }
    }

    /// The message of a send has left, or never will.
    fn left(&mut self, request: RequestId, error: Option<Error>) {
        let Some(slot) = self.core.requests.get_mut(request) else {
            return;
        };
        match slot.message_left(error) {
            AfterLeaving::GoesOn => {}
            AfterLeaving::Ends { grant } => {
                if let Some(grant) = grant {
                    self.fabric.revoke(grant);
                }
                self.core.complete(request);
            }
        }
    }

    /// Sends a message without data, now or when there is room.
    pub(super) fn post_control(&mut self, to: Peer, head: Head) {
        if self.outbox.is_clear(to) {
            match self.fabric.try_send(to, &head, &[]) {
                Ok(Posted::Retry) => {}
                // A lost peer needs no answer any more; its loss is reported by the fabric itself.
                Ok(_) | Err(_) => return,
            }
        }
        self.outbox.push(
            to,
            Waiting {
                head,
                load: Load::None,
                request: None,
            },
        );
    }
}
