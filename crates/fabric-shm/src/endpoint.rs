//! Endpoint of one rank: membership, outbound lanes, inbound lanes and portal, composed to the [`Fabric`] that the
//! layers above see.
//!
//! ```text
//!   receive ─┬─ the portal's own work: chunks to send, answers, blocks of others' transfers
//!            ├─ inbound lanes ──► delivery
//!            └─ has a rank aborted? has the launcher told of changes?
//! ```
//!
//! A look that finds nothing reads what [`InboundLanes::take_short`] reads, and the abort and change words of the
//! header: all of it in the reader's cache until somebody writes.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_fabric::{
    Bell, Fabric, FabricError, HEAD, Head, Limits, Next, Operation, Peer, Posted, Region, Result,
    Rights, SharedBlock, SharedBytes, SharedKey, SharedMemory, SignalTable, Sink, SlotWriter,
    Source, SyncKey, Token, Traffic, Uses, no_such_channel,
};
use weft_sys::{Availability, MemoryNode, clock, membarrier};

use crate::addresses::Addresses;
use crate::bell::ShmBell;
use crate::delivery::Delivery;
use crate::heap::Blocks;
use crate::inbound::{InboundLanes, Look};
use crate::lane::PacketKind;
use crate::layout::ProcessState;
use crate::membership::JobMembership;
use crate::options::{Options, Use};
use crate::outbound::{Link, OutboundLanes};
use crate::placement;
use crate::portal::{Access, Portal, TransferRequest};
use crate::segment::Segment;
use crate::sleep_elsewhere::SleepElsewhere;

/// Messages of up to this size go through the lane with their envelope: decision 75 has what was measured. It is not larger because more
/// would wait in lanes and at late receivers; what is longer is [asked for](crate::portal), and goes through the lane as well where
/// its sender has time.
const BULK: usize = 64 << 10;

/// Endpoint of one rank of a job on one host. See [`attach`](Self::attach).
#[derive(Debug)]
pub struct Shm {
    members: JobMembership,
    outbound: OutboundLanes,
    inbound: InboundLanes,
    portal: Portal,
    /// One for all channels, as the memory is.
    blocks: Arc<Mutex<Blocks>>,
    signals: SignalTable,
    bell: Arc<ShmBell>,
    limits: Limits,
    /// As it was joined; for channels that are opened later.
    options: Options,
    fences: bool,
    within_process: bool,
    /// This is channel 0.
    is_first: bool,
}

impl Shm {
    /// Takes a process slot of a job, and composes the endpoint of whoever has it.
    pub(crate) fn join(segment: Arc<Segment>, slot: u32, options: &Options) -> Result<Self> {
        // Asking the kernel to fence other cores costs a sleeper 0.2 µs if they are idle, 1.5 µs if they run and 4 to 10 µs in a
        // crowd; it saves each sender the wait until its slot has reached the cache. Where it does not pay, the bell has senders fence.
        let fences = options.kernel_fences != Use::Off && membarrier::register_all().is_available();
        let members = JobMembership::join(segment.clone(), slot, fences)?;
        let blocks = Arc::new(Mutex::new(Blocks::new(segment.clone(), slot)));
        Ok(Self::compose(members, blocks, options, fences))
    }

    /// The endpoint of a process in the channel that its membership is of.
    fn compose(
        members: JobMembership,
        blocks: Arc<Mutex<Blocks>>,
        options: &Options,
        fences: bool,
    ) -> Self {
        let (segment, slot) = (members.segment().clone(), members.me().0);
        if let Some(node) = MemoryNode::to_choose() {
            segment.keep_lanes_near(slot, node);
        }
        let kernel_fences = if fences {
            options.kernel_fences
        } else {
            Use::Off
        };
        let bell = Arc::new(ShmBell::new(segment.clone(), slot, kernel_fences));
        let data = segment.shape().data as usize;
        Self {
            is_first: segment.is_first_channel(),
            members,
            outbound: OutboundLanes::new(segment.clone(), slot, bell.clone(), fences),
            inbound: InboundLanes::new(segment.clone(), slot, bell.clone()),
            portal: Portal::new(segment, slot, options),
            blocks,
            signals: SignalTable::default(),
            bell,
            limits: Limits {
                data,
                bulk: BULK.min(data),
            },
            options: *options,
            fences,
            within_process: false,
        }
    }

    /// The blocks of this process.
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint of this process in another channel. See [`Fabric::open_channel`].
    pub(crate) fn open(&self, number: u32) -> Result<Self> {
        let channels = self.members.segment().shape().channels;
        let segment = self.members.segment().channel(number);
        let segment = segment
            .filter(|_| number > 0 && self.is_first)
            .ok_or_else(|| no_such_channel(number, channels))?;
        let members = self.members.open_channel(segment, self.fences)?;
        let blocks = Arc::clone(&self.blocks);
        let mut opened = Self::compose(members, blocks, &self.options, self.fences);
        if self.within_process {
            opened.all_within_process();
        }
        Ok(opened)
    }

    /// All peers are endpoints of this process, and nobody else has mapped the segment: bytes of grants may be copied
    /// by pointer.
    pub(crate) fn all_within_process(&mut self) {
        self.within_process = true;
        self.portal.all_within_process();
    }

    /// This process as a member of the job.
    pub(crate) fn members(&self) -> &JobMembership {
        &self.members
    }

    /// Tells the launcher how far this rank has come.
    pub fn set_state(&self, state: ProcessState) {
        self.members.set_state(state);
    }

    /// Says that this endpoint is used for nothing but the state of its rank, because the job has another fabric: nobody
    /// waits for it to hear of deaths.
    pub fn mark_state_only(&self) {
        self.members.mark_state_only();
    }

    /// What this process shows and hears here while it sleeps at the bell of that other fabric.
    #[must_use]
    pub fn sleep_elsewhere(&self) -> SleepElsewhere {
        SleepElsewhere::new(self.members.segment().clone(), self.members.me().0)
    }

    /// Where processes of the job that are started later can be reached over a network.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::of(self.members.segment().clone())
    }

    /// Records that this rank aborts the job, for the launcher and for all others, and wakes them.
    pub fn abort(&self, code: i32) {
        self.members.abort(code);
        self.bell.wake_all_regardless();
    }

    /// Why bulk data to and from this peer goes through chunks; `None` if it does not, or if that was
    /// not found out yet.
    #[must_use]
    pub fn why_not_direct(&self, peer: Peer) -> Option<&str> {
        self.portal.why_not_direct(peer)
    }

    /// One look at everything; at most about `budget` items.
    // Apart from the usual looks, which so save fewer registers.
    #[inline(never)]
    fn receive(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut done = 0;
        if self.portal.has_work() {
            let mut link = Link::new(&self.members, &mut self.outbound);
            done += self.portal.advance(&mut link, sink);
        }
        let mut delivery = Delivery::new(
            &mut self.members,
            &mut self.outbound,
            &mut self.portal,
            &mut self.signals,
            sink,
        );
        // First: what arrives may be of a process that is new.
        if delivery.has_untold() {
            done += delivery.hear_of_others(&mut self.inbound);
        }
        done + self.inbound.poll(&mut delivery, budget, done)
    }

    /// Carries out a get or a put, or gets it under way.
    fn transfer(&mut self, request: TransferRequest) -> Result<Posted> {
        self.members.check(request.peer)?;
        let mut link = Link::new(&self.members, &mut self.outbound);
        self.portal.transfer(&mut link, request)
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // Whose memory it was may use it as it likes from now on.
        self.portal.revoke_all();
        if self.is_first {
            self.blocks().release_all();
            self.members.leave();
        }
    }
}

impl Shm {
    /// The message that was taken has made room in the lane of its sender.
    #[cold]
    fn end_taking(&mut self, from: Peer) -> Next {
        self.inbound.end_taking(from);
        self.outbound.tell_room(from);
        Next::Taken
    }
}

impl Fabric for Shm {
    fn me(&self) -> Peer {
        self.members.me()
    }

    fn peers(&self) -> u32 {
        self.members.process_slots()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::monotonic())
    }

    fn route(&self, peer: Peer) -> &'static str {
        self.portal.route(peer)
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        if data.len() > self.limits.data {
            return Err(FabricError::TooLong {
                length: data.len(),
                limit: self.limits.data,
            });
        }
        let data = SharedBytes::of(data);
        self.outbound
            .post(&self.members, to, PacketKind::Message, head, data)
    }

    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        if part.len() > self.limits.data {
            let (length, limit) = (part.len(), self.limits.data);
            return Some(Err(FabricError::TooLong { length, limit }));
        }
        let posted = self
            .outbound
            .post_part(&self.members, to, head, source, part);
        Some(posted)
    }

    #[inline]
    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        let data = SharedBytes::of(data);
        self.outbound.inject(to, head, data)
    }

    fn writers(&self) -> Arc<[SlotWriter]> {
        Arc::clone(self.outbound.writers())
    }

    fn announce(&mut self, to: Peer) {
        self.outbound.announce(to);
    }

    #[inline]
    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next {
        let (next, freed) = self.inbound.take_next(from, head, into);
        if freed {
            return self.end_taking(from);
        }
        next
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let mut done = 0;
        // Most looks find nothing, or a short message in a lane that is polled directly.
        while !self.portal.has_work() && !self.members.has_untold() {
            let look = self.inbound.take_short(budget - done, |from, head, data| {
                sink.message(from, head, data);
            });
            match look {
                Look::Nothing => return done,
                Look::Other => break,
                Look::Taken { from, count, freed } => {
                    done += count;
                    if freed {
                        self.outbound.tell_room(from);
                    }
                    if done >= budget {
                        return done;
                    }
                }
            }
        }
        done + self.receive(sink, budget - done)
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        if let Some(peer) = to {
            self.members.check(peer)?;
        }
        self.portal.grant(region, to, rights, uses)
    }

    /// Asking costs nothing here.
    fn offer(&mut self, _to: Peer, _token: Token) {}

    fn revoke(&mut self, token: Token) -> bool {
        self.portal.revoke(token)
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(TransferRequest {
            peer: from,
            token,
            offset,
            region: into,
            access: Access::Read,
            operation,
        })
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        self.transfer(TransferRequest {
            peer: to,
            token,
            offset,
            region: source,
            access: Access::Write,
            operation,
        })
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&key.0.to_ne_bytes());
        let none = SharedBytes::of(&[]);
        self.outbound
            .post(&self.members, to, PacketKind::Signal, &head, none)
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.signals.count(from, key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.signals.take(from, key, count)
    }

    fn forget(&mut self, key: SyncKey) {
        self.signals.forget(key);
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        self.blocks().are_shared_with(peer)
    }

    fn allocate_shared(&mut self, length: usize) -> Result<SharedBlock> {
        self.blocks().allocate(length)
    }

    fn release_shared(&mut self, key: SharedKey) -> bool {
        self.blocks().release(key)
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        self.members.check(peer)?;
        self.blocks().attach(peer, key, length)
    }

    #[inline]
    fn is_asleep(&mut self, peer: Peer) -> bool {
        self.outbound.is_asleep(peer)
    }

    #[inline]
    fn wake(&mut self, peer: Peer) {
        if self.members.is_asleep(peer) {
            self.bell.wake(peer.0);
        }
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        placement::is_any_beside(self.members.segment(), self.me().0, peers)
    }

    /// What was taken for sending lies in the memory of the receiver already.
    fn is_flushed(&mut self) -> bool {
        true
    }

    fn traffic(&self) -> Traffic {
        Traffic::none()
    }

    fn say_goodbye(&mut self) {}

    fn channels(&self) -> u32 {
        self.members.segment().shape().channels
    }

    fn open_channel(&mut self, number: u32) -> Result<Box<dyn Fabric>> {
        Ok(Box::new(self.open(number)?))
    }
}

/// Whether ranks of this host can be fenced lightly, for `weft info`.
pub fn fences_probe() -> Availability {
    membarrier::register_all()
}

/// Views of tests into what is private.
#[cfg(test)]
impl Shm {
    /// Whether this process is fenced by the kernel when another one asks for that.
    pub(crate) fn fences(&self) -> bool {
        self.fences
    }

    /// The portal.
    pub(crate) fn portal_mut(&mut self) -> &mut Portal {
        &mut self.portal
    }

    /// Sends any packet, as an honest endpoint would not.
    pub(crate) fn post_anything(
        &mut self,
        to: Peer,
        kind: PacketKind,
        words: [u64; 4],
        data: &[u8],
    ) {
        let head = crate::lane::head(words);
        let data = SharedBytes::of(data);
        let _ = self.outbound.post(&self.members, to, kind, &head, data);
    }

    /// Loses a peer, as if something had gone wrong with it.
    pub(crate) fn lose(&mut self, peer: Peer, reason: &str, sink: &mut dyn Sink) {
        let mut delivery = Delivery::new(
            &mut self.members,
            &mut self.outbound,
            &mut self.portal,
            &mut self.signals,
            sink,
        );
        delivery.lose(peer, reason);
        self.inbound.close(peer);
    }
}

#[cfg(test)]
mod tests;
