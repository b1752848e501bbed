//! Inbound lanes: the lanes from each peer to this rank, polled in turn by a poll set.
//!
//! ```text
//!   poll ─┬─ hot lanes, in turn, each a share at a time
//!         └─ pending lanes, in turn, each a share at a time;
//!            first, if the budget was used up before they had their turn
//! ```
//!
//! A poll that finds nothing reads one word per hot lane and the summary of the pending lanes: all of them stay in the
//! reader's cache until they are written.
//!
//! # Invariant
//! A lane is hot here (it is in the poll set's hot lanes) if and only if its sender is told so by
//! [`LaneHead::hot`](crate::layout::LaneHead), except within [`InboundLanes::promote`].

use std::sync::Arc;

use weft_fabric::{Head, Next, Peer, Region, SharedBytes};
use weft_sys::span::SHORT;

use crate::bell::ShmBell;
use crate::lane::{Found, InLane, Packet};
use crate::layout::Control;
use crate::poll_set::{PollSet, Promotion};
use crate::segment::Segment;

/// So many packets are taken from one lane before the next has its turn.
const SHARE: usize = 16;

/// State of a lane after a packet of it was delivered.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// Its next packet may be delivered.
    Open,
    /// Its sender is lost: nothing of it is looked at any more.
    Closed,
}

/// Result of the usual look.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// Nothing is in any lane.
    Nothing,
    /// Something else than a short message in a hot lane: see [`InboundLanes::poll`].
    Other,
    /// Messages were handed out.
    Taken {
        /// Their sender.
        from: Peer,
        /// How many.
        count: usize,
        /// Whether the lane has room again, which the sender is to be told.
        freed: bool,
    },
}

/// Receiver of what is found in the lanes.
pub(crate) trait Deliver {
    /// The next packet of a peer. It is gone afterwards.
    fn packet(&mut self, from: Peer, packet: &Packet<'_>) -> After;

    /// A peer has written something that no honest sender writes: its lane is closed.
    fn malformed(&mut self, from: Peer);

    /// The lane from a peer has room again.
    fn has_room(&mut self, from: Peer);
}

/// [`InboundLanes::take_next`] of a message that is not short: a function of its own, as it calls functions, for which registers are
/// saved.
#[inline(never)]
fn take_long(lane: &mut InLane, head: &Head, into: &Region) -> (Next, bool) {
    let (next, mark) = lane.take_long(head, into);
    (next, next == Next::Taken && lane.consume_long(mark))
}

/// Lanes from all peers, by process slot. See the [module page](self).
#[derive(Debug)]
pub(crate) struct InboundLanes {
    segment: Arc<Segment>,
    me: u32,
    /// Fences for a lane that becomes cold.
    bell: Arc<ShmBell>,
    lanes: Vec<InLane>,
    poll_set: PollSet,
    /// The next poll begins with the pending lanes.
    pending_first: bool,
    /// The hot lane with which the next poll begins, by its index in the poll set.
    turn: usize,
    /// So much was taken from lanes that were asked for by name that the others have their turn.
    all_are_due: bool,
}

impl InboundLanes {
    /// The lanes to process slot `me`, whose bell this is.
    pub fn new(segment: Arc<Segment>, me: u32, bell: Arc<ShmBell>) -> Self {
        let slots = segment.shape().process_slots;
        Self {
            lanes: (0..slots)
                .map(|peer| InLane::new(&segment, peer, me))
                .collect(),
            poll_set: PollSet::new(slots as usize),
            segment,
            me,
            bell,
            pending_first: false,
            turn: 0,
            all_are_due: false,
        }
    }

    #[inline]
    fn control(&self) -> &Control {
        self.segment.control(self.me)
    }

    /// The usual look: hands `deliver` the next packets of the hot lane that has its turn, as many as are short messages, at most
    /// `most` and its share, if no other lane comes first.
    #[inline]
    pub fn take_short(
        &mut self,
        most: usize,
        mut deliver: impl FnMut(Peer, &Head, SharedBytes<'_>),
    ) -> Look {
        self.all_are_due = false;
        if self.pending_first || self.poll_set.waiting() != 0 {
            return Look::Other;
        }
        let hot = self.poll_set.hot_lanes();
        let index = if self.turn < hot.len() { self.turn } else { 0 };
        let Some(&from) = hot.get(index) else {
            return self.look_at_others();
        };
        let lane = &mut self.lanes[from as usize];
        if PollSet::may_be_announced(lane.receiver()) {
            return Look::Other;
        }
        let most = most.min(SHARE);
        let (mut count, mut freed) = (0, false);
        // SAFETY: `self` holds the segment, and the data are not used after `consume_short` below.
        while let Some((head, data)) = unsafe { lane.peek_short() } {
            deliver(Peer(from), &head, data);
            count += 1;
            freed = lane.consume_short();
            if freed || count >= most {
                break;
            }
        }
        if count == 0 {
            return self.look_at_others();
        }
        if freed {
            lane.publish_room();
        }
        self.turn = index + 1;
        self.poll_set.hit(index);
        Look::Taken {
            from: Peer(from),
            count,
            freed,
        }
    }

    /// Copies the data of the next message of a peer if it is this one, and its lane is hot: see
    /// [`Fabric::take_next`](weft_fabric::Fabric::take_next). True if the lane has room again: then
    /// [`end_taking`](Self::end_taking) is to follow.
    #[inline(always)]
    pub fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> (Next, bool) {
        let Some(lane) = self.lanes.get_mut(from.index()) else {
            return (Next::Other, false);
        };
        if self.all_are_due || !lane.is_hot_and_open() {
            return (Next::Other, false);
        }
        match lane.take_short(head, into) {
            Next::Taken => (Next::Taken, lane.consume_short()),
            Next::Other if into.len() > SHORT => take_long(lane, head, into),
            next => (next, false),
        }
    }

    /// So many messages of a peer were taken that its lane has room again, which the sender is to be told. First of all, the others
    /// have their turn.
    pub fn end_taking(&mut self, from: Peer) {
        self.lanes[from.index()].publish_room();
        self.poll_set.earned(from.0);
        self.all_are_due = true;
    }

    /// The lane that has its turn holds no short message: whether anything is in any hot lane.
    #[inline]
    fn look_at_others(&self) -> Look {
        let mut hot = self.poll_set.hot_lanes().iter();
        if PollSet::may_be_announced(self.control()) {
            return Look::Other;
        }
        if hot.all(|&lane| self.lanes[lane as usize].is_empty()) {
            Look::Nothing
        } else {
            Look::Other
        }
    }

    /// One look at all lanes. Answers how many packets were delivered: as many as `budget` leaves after `before`, or a
    /// few more.
    #[inline]
    pub fn poll(&mut self, deliver: &mut impl Deliver, budget: usize, before: usize) -> usize {
        let mut done = before;
        self.all_are_due = false;
        if self.pending_first {
            done += self.poll_pending(deliver, budget);
            self.pending_first = false;
        }
        done += self.poll_hot(deliver, budget.saturating_sub(done));
        if self.poll_set.waiting() > 0 || PollSet::may_be_announced(self.control()) {
            if done >= budget {
                self.pending_first = true;
            } else {
                done += self.poll_pending(deliver, budget - done);
            }
        }
        done - before
    }

    /// The lanes that are polled directly.
    #[inline]
    fn poll_hot(&mut self, deliver: &mut impl Deliver, budget: usize) -> usize {
        let hot = self.poll_set.hot();
        let mut done = 0;
        let mut idle = 0;
        // Round and round, until all were empty once or the budget is used up.
        while idle < hot && done < budget {
            if self.turn >= hot {
                self.turn = 0;
            }
            let index = self.turn;
            self.turn += 1;
            let share = SHARE.min(budget - done);
            let found = self.drain(self.poll_set.hot_lane(index), deliver, share);
            if found > 0 {
                self.poll_set.hit(index);
                done += found;
            }
            idle = if found == share { 0 } else { idle + 1 };
        }
        done
    }

    /// The lanes that were announced.
    #[cold]
    fn poll_pending(&mut self, deliver: &mut impl Deliver, budget: usize) -> usize {
        let control = self.segment.control(self.me);
        if PollSet::may_be_announced(control) {
            self.poll_set.take_announced(control, self.lanes.len());
        }
        let mut done = 0;
        while done < budget {
            let Some(lane) = self.poll_set.next() else {
                break;
            };
            let share = SHARE.min(budget - done);
            let found = self.drain(lane, deliver, share);
            done += found;
            if found < share {
                self.poll_set.done(lane);
            }
            if found > 0 && !self.lanes[lane].is_hot() {
                self.promote(lane);
            }
        }
        done
    }

    /// A lane that is not hot was productive: makes it hot if it should be.
    fn promote(&mut self, lane: usize) {
        match self.poll_set.cold_hit(lane) {
            Promotion::None => {}
            Promotion::Hot => self.lanes[lane].set_hot(true),
            Promotion::InPlaceOf(other) => {
                self.lanes[lane].set_hot(true);
                self.lanes[other].set_hot(false);
                self.bell.heavy_fence();
                // Its sender may have published without announcing: look once more.
                self.poll_set.note(other);
            }
        }
    }

    /// Delivers at most `share` packets of one lane. Answers how many.
    #[inline]
    fn drain(&mut self, from: usize, deliver: &mut impl Deliver, share: usize) -> usize {
        let peer = Peer(from as u32);
        let lane = &mut self.lanes[from];
        let mut done = 0;
        while done < share {
            // SAFETY: `self` holds the segment, and the packet is not used after `consume` below.
            let packet = match unsafe { lane.peek() } {
                Found::Nothing => break,
                Found::Packet(packet) => packet,
                Found::Malformed => {
                    lane.close();
                    deliver.malformed(peer);
                    break;
                }
            };
            let after = deliver.packet(peer, &packet);
            done += 1;
            let freed = lane.consume(packet.mark());
            if after == After::Closed {
                lane.close();
            }
            if freed {
                deliver.has_room(peer);
            }
        }
        done
    }

    /// Delivers all packets of one peer, however many. Answers how many.
    pub fn drain_all(&mut self, from: Peer, deliver: &mut impl Deliver) -> usize {
        let mut done = 0;
        loop {
            let found = self.drain(from.index(), deliver, 64);
            done += found;
            if found == 0 {
                return done;
            }
        }
    }

    /// A peer is lost: nothing of it is looked at any more.
    pub fn close(&mut self, peer: Peer) {
        self.lanes[peer.index()].close();
    }

    /// Another process has the slot of a peer: its lane is looked at from the beginning.
    pub fn open(&mut self, peer: Peer) {
        self.lanes[peer.index()] = InLane::new(&self.segment, peer.0, self.me);
        self.poll_set.cool(peer.index());
        // It may have announced the lane while that was closed.
        self.poll_set.note(peer.index());
    }
}
