//! Outbound lanes: this rank's send queue to each peer, and the steps after each packet by which its receiver finds it:
//! fence, announcement, doorbell.
//!
//! ```text
//!   room in the lane? ─ write the slot ─ fence ─ hot? ─ announced? ─ somebody asleep?
//!        no: retry                                no: add a bit      yes: ring
//! ```
//!
//! All rare cases are `#[cold]` functions. `poll_set.rs` says why nothing is missed, and which fences are needed.

use std::ops::Range;
use std::sync::Arc;

use weft_atomic::{FenceMode, Ordering};
use weft_fabric::{Head, Peer, Posted, Result, SharedBytes, SlotWriter, Source};
use weft_sys::span::SHORT;

use crate::bell::ShmBell;
use crate::lane::{self, OutLane, PacketKind};
use crate::layout::Control;
use crate::membership::JobMembership;
use crate::poll_set;
use crate::segment::Segment;

/// Bytes of data that are put together at a time: little beside a first-level cache of 32 KiB, in which those that they come from
/// lie as well, and enough that finding one's place in a datatype anew does not count.
const STAGE: usize = 4096;

/// Lane to one peer.
#[derive(Debug)]
struct Outbound {
    lane: OutLane,
    /// The receiver fences for us: see [`Outbound::fence_mode`].
    light: bool,
    /// The peer is lost: nothing goes there any more.
    closed: bool,
}

impl Outbound {
    fn new(segment: &Segment, me: u32, peer: u32, writers: &Arc<[SlotWriter]>) -> Self {
        Self {
            lane: OutLane::new(segment, me, peer, Arc::clone(writers)),
            light: false,
            closed: false,
        }
    }

    /// How to fence between publishing to the peer of `control` and looking whether it sleeps. `fences`: this process
    /// fences when others ask for it.
    #[inline]
    fn fence_mode(&mut self, control: &Control, fences: bool) -> FenceMode {
        if self.light {
            return FenceMode::Asymmetric;
        }
        // SYNC rank.fences.
        let theirs = control.fences.load(Ordering::Acquire);
        self.light = fences && theirs == 1;
        if self.light {
            self.lane.set_open(!self.closed);
            FenceMode::Asymmetric
        } else {
            FenceMode::Symmetric
        }
    }

    /// Whether the peer finds the packet that was just published without being told, as it does as a rule.
    #[inline(always)]
    fn is_found(&self) -> bool {
        if !self.light {
            return false;
        }
        FenceMode::Asymmetric.light();
        self.lane.is_hot() && !self.lane.receiver().doorbell.somebody_sleeps()
    }
}

/// Lanes to all peers, by process slot. See the [module page](self).
#[derive(Debug)]
pub(crate) struct OutboundLanes {
    segment: Arc<Segment>,
    me: u32,
    bell: Arc<ShmBell>,
    /// This process executes a full fence when another one asks the kernel for it.
    fences: bool,
    /// Bytes of data that a message may have.
    limit: usize,
    lanes: Vec<Outbound>,
    /// Where data are put together on their way into a lane: [`OutLane::push_part`].
    stage: Box<[u8; STAGE]>,
    writers: Arc<[SlotWriter]>,
}

impl OutboundLanes {
    /// The lanes from process slot `me`. `fences`: as shown by [`JobMembership::join`].
    pub fn new(segment: Arc<Segment>, me: u32, bell: Arc<ShmBell>, fences: bool) -> Self {
        let lanes = 0..segment.shape().process_slots;
        let writers = lane::writers(&segment, me);
        Self {
            lanes: lanes
                .map(|peer| Outbound::new(&segment, me, peer, &writers))
                .collect(),
            writers,
            stage: Box::new([0; STAGE]),
            limit: segment.shape().data as usize,
            segment,
            me,
            bell,
            fences,
        }
    }

    /// Sends one packet, which has to fit a slot: `data` has at most [`Shape::data`](crate::layout::Shape) bytes.
    ///
    /// # Errors
    /// If there is no such peer, or it is lost, or has left and its lane is full.
    #[inline]
    pub fn post(
        &mut self,
        members: &JobMembership,
        to: Peer,
        kind: PacketKind,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> Result<Posted> {
        let outbound = match self.lanes.get_mut(to.index()) {
            Some(outbound) if !outbound.closed => outbound,
            _ => {
                members.check(to)?;
                return Ok(Posted::Retry);
            }
        };
        if !outbound.lane.push(kind, head, data) {
            return members.lane_is_full(to);
        }
        self.tell(to);
        Ok(Posted::Done)
    }

    /// Sends one message of a part of some data, of at most as many bytes: as [`post`](Self::post).
    ///
    /// # Errors
    /// As of [`post`](Self::post).
    pub fn post_part(
        &mut self,
        members: &JobMembership,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Result<Posted> {
        let outbound = match self.lanes.get_mut(to.index()) {
            Some(outbound) if !outbound.closed => outbound,
            _ => {
                members.check(to)?;
                return Ok(Posted::Retry);
            }
        };
        let stage = &mut self.stage[..];
        if !outbound.lane.push_part(head, source, part, stage) {
            return members.lane_is_full(to);
        }
        self.tell(to);
        Ok(Posted::Done)
    }

    /// Sends one message if all goes as usual: true if it has left; false without effect. Short or not is asked first, since a
    /// function for both saves registers for the one and gives them back for the other.
    #[inline]
    pub fn inject(&mut self, to: Peer, head: &Head, data: SharedBytes<'_>) -> bool {
        if data.len() > SHORT {
            return self.inject_longer(to, head, data);
        }
        self.inject_short(to, head, data)
    }

    /// The same for what is short.
    #[inline(never)]
    fn inject_short(&mut self, to: Peer, head: &Head, data: SharedBytes<'_>) -> bool {
        let Some(outbound) = self.lanes.get_mut(to.index()) else {
            return false;
        };
        if outbound.closed {
            return false;
        }
        let Some(slot) = outbound.lane.room() else {
            return self.inject_longer(to, head, data);
        };
        if !outbound.lane.push_few_at(slot, head, data) {
            return self.inject_longer(to, head, data);
        }
        outbound.is_found() || self.tell(to)
    }

    /// The same for what takes longer, or does not go.
    #[inline(never)]
    fn inject_longer(&mut self, to: Peer, head: &Head, data: SharedBytes<'_>) -> bool {
        let Some(outbound) = self.lanes.get_mut(to.index()) else {
            return false;
        };
        !outbound.closed
            && data.len() <= self.limit
            && outbound.lane.push(PacketKind::Message, head, data)
            && (outbound.is_found() || self.tell(to))
    }

    /// A packet was published to a peer: sees to it that the peer finds it. Always true.
    #[inline(never)]
    fn tell(&mut self, to: Peer) -> bool {
        let count = self.lanes.len();
        let outbound = &mut self.lanes[to.index()];
        let control = self.segment.control(to.0);
        let mode = outbound.fence_mode(control, self.fences);
        mode.light();
        if !outbound.lane.is_hot() {
            if mode == FenceMode::Asymmetric {
                FenceMode::Symmetric.light();
            }
            poll_set::announce(control, count, self.me as usize);
        }
        if control.doorbell.somebody_sleeps() {
            self.bell.wake(to.0);
        }
        true
    }

    /// Tells a peer that its lane to us has room again, in case it waits for that.
    #[cold]
    pub fn tell_room(&mut self, to: Peer) {
        let control = self.segment.control(to.0);
        let outbound = &mut self.lanes[to.index()];
        outbound.fence_mode(control, self.fences).light();
        if control.doorbell.somebody_sleeps() {
            self.bell.wake(to.0);
        }
        self.bell.took_a_quarter();
    }

    /// Whether somebody sleeps at the doorbell of a peer, or is about to, after all that was stored before.
    #[inline]
    pub fn is_asleep(&mut self, peer: Peer) -> bool {
        let Some(outbound) = self.lanes.get_mut(peer.index()) else {
            return false;
        };
        let control = self.segment.control(peer.0);
        outbound.fence_mode(control, self.fences).light();
        control.doorbell.somebody_sleeps()
    }

    /// Whether background traffic of so many bytes may use the lane to a peer now: it leaves half of it to messages.
    pub fn has_spare_room(&mut self, to: Peer, data: usize) -> bool {
        let outbound = self.lanes.get_mut(to.index());
        outbound.is_some_and(|outbound| outbound.lane.has_spare_room(data as u32))
    }

    /// The writers of all lanes, by process slot: open towards peers that are there and fence for us.
    pub fn writers(&self) -> &Arc<[SlotWriter]> {
        &self.writers
    }

    /// A message was written to the lane of a peer, who is to find it.
    #[cold]
    pub fn announce(&mut self, to: Peer) {
        if to.index() < self.lanes.len() {
            self.tell(to);
        }
    }

    /// A peer is lost: nothing goes there any more.
    pub fn close(&mut self, peer: Peer) {
        let outbound = &mut self.lanes[peer.index()];
        outbound.closed = true;
        outbound.lane.set_open(false);
    }

    /// Another process has the slot of a peer: the lane to it begins anew.
    pub fn open(&mut self, peer: Peer) {
        self.lanes[peer.index()] = Outbound::new(&self.segment, self.me, peer.0, &self.writers);
    }
}

/// Outbound lanes together with who is there to receive: what the portal sends through.
pub(crate) struct Link<'a> {
    members: &'a JobMembership,
    outbound: &'a mut OutboundLanes,
}

impl<'a> Link<'a> {
    /// The lanes to these members.
    #[inline]
    pub fn new(members: &'a JobMembership, outbound: &'a mut OutboundLanes) -> Self {
        Self { members, outbound }
    }

    /// Whether a peer is lost.
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.members.is_lost(peer)
    }

    /// Whether there is such a peer, which is not lost.
    pub fn is_known(&self, peer: Peer) -> bool {
        self.members.check(peer).is_ok()
    }

    /// Whether background traffic may use the lane to a peer: [`OutboundLanes::has_spare_room`].
    pub fn has_spare_room(&mut self, to: Peer, data: usize) -> bool {
        self.outbound.has_spare_room(to, data)
    }

    /// Sends one packet: [`OutboundLanes::post`].
    pub fn post(
        &mut self,
        to: Peer,
        kind: PacketKind,
        head: &Head,
        data: SharedBytes<'_>,
    ) -> Result<Posted> {
        self.outbound.post(self.members, to, kind, head, data)
    }
}
