//! Respawnable endpoint: the endpoint of a job whose dead processes may be replaced. Ranks outside, process slots inside.
//!
//! A rank keeps its number when its process is started anew, and gets another process slot: its next incarnation.
//! [`RespawnableEndpoint`] wraps the endpoint among process slots and translates. The loss of the old incarnation is
//! always reported before anything of the new one: a message of an incarnation that was not known before implies that the
//! one before it is gone.

use std::ops::Range;
use std::sync::Arc;

use weft_fabric::{
    Fabric, FabricError, Head, Next, Operation, Peer, Posted, Region, Result, Rights, SharedBytes,
    SharedKey, SharedMemory, Sink, Source, SyncKey, Token, Uses, forward_fabric,
};

use crate::endpoint::Shm;
use crate::segment::Segment;

/// The endpoint of this process as ranks see it, whether or not the job has spare process slots.
#[must_use]
pub fn respawnable(endpoint: Shm) -> Box<dyn Fabric> {
    let segment = endpoint.members().segment().clone();
    if segment.members() == segment.shape().process_slots {
        return Box::new(endpoint);
    }
    let slots = SlotTable::new(segment, endpoint.members().me());
    Box::new(RespawnableEndpoint {
        inner: endpoint,
        slots,
    })
}

/// An endpoint among process slots, as ranks see it.
struct RespawnableEndpoint {
    inner: Shm,
    slots: SlotTable,
}

/// Slot table: the process slot of each rank's incarnation, as far as was heard.
struct SlotTable {
    segment: Arc<Segment>,
    /// The rank of this process.
    me: u32,
    of_rank: Vec<u32>,
    /// Of each rank: its incarnation is lost, and that was said.
    lost: Vec<bool>,
}

impl RespawnableEndpoint {
    /// The process slot of a rank; of none, a slot that does not exist.
    #[inline]
    fn slot(&self, rank: Peer) -> Peer {
        self.slots.slot(rank)
    }

    /// An error about a process slot, as one about its rank.
    #[cold]
    fn named(&self, error: FabricError, rank: Peer) -> FabricError {
        match error {
            FabricError::PeerLost { reason, .. } => FabricError::PeerLost { peer: rank, reason },
            FabricError::NotGranted { .. } => FabricError::NotGranted { peer: rank },
            FabricError::NotShared { .. } => FabricError::NotShared { peer: rank },
            FabricError::NotAllocated { .. } => FabricError::NotAllocated { peer: rank },
            FabricError::OutsideGrant { offset, length, .. } => FabricError::OutsideGrant {
                peer: rank,
                offset,
                length,
            },
            FabricError::NoSuchPeer { .. } => FabricError::NoSuchPeer {
                peer: rank,
                peers: self.peers(),
            },
            other => other,
        }
    }
}

impl SlotTable {
    #[inline]
    fn slot(&self, rank: Peer) -> Peer {
        let slot = self.of_rank.get(rank.index());
        Peer(slot.copied().unwrap_or(u32::MAX))
    }

    /// The table of the process in slot `me`, as things stand in the segment.
    fn new(segment: Arc<Segment>, me: Peer) -> Self {
        let of_rank: Vec<u32> = (0..segment.members())
            .map(|rank| segment.slot_of(rank))
            .collect();
        Self {
            me: segment.rank_of(me.0).unwrap_or(me.0),
            lost: vec![false; of_rank.len()],
            of_rank,
            segment,
        }
    }

    /// A rank was heard of in a process slot: if it is another one than before, that incarnation is gone.
    fn hear(&mut self, rank: u32, slot: u32, sink: &mut dyn Sink) {
        let index = rank as usize;
        if self.of_rank[index] == slot {
            return;
        }
        if !self.lost[index] {
            sink.lost(Peer(rank), "its process was started anew");
        }
        self.of_rank[index] = slot;
        self.lost[index] = false;
    }

    /// The rank whose incarnation in this slot is lost; `None` if that was said, or does not matter any more.
    fn lose(&mut self, slot: u32) -> Option<u32> {
        let rank = self.segment.rank_of(slot)?;
        let index = rank as usize;
        if self.of_rank[index] != slot || self.lost[index] || rank == self.me {
            return None;
        }
        self.lost[index] = true;
        Some(rank)
    }

    /// The launcher has told of changes: ranks whose loss was said may have another slot by now. `is_lost`: whether the
    /// process in a slot is.
    #[cold]
    fn hear_of_changes(&mut self, is_lost: impl Fn(Peer) -> bool, sink: &mut dyn Sink) {
        for rank in 0..self.segment.members() {
            let slot = self.segment.slot_of(rank);
            // One that is gone as well was lost along with the one before it.
            if self.lost[rank as usize] && !is_lost(Peer(slot)) {
                self.hear(rank, slot, sink);
            }
        }
    }
}

/// A sink of ranks, as one of process slots.
struct Translated<'a> {
    slots: &'a mut SlotTable,
    sink: &'a mut dyn Sink,
}

impl Translated<'_> {
    /// The rank in a process slot, if it still has it.
    #[inline]
    fn heard(&mut self, slot: Peer) -> Option<Peer> {
        if self.slots.of_rank.get(slot.index()) == Some(&slot.0) {
            return Some(slot);
        }
        let rank = self.slots.segment.rank_of(slot.0)?;
        // What an older incarnation has left behind comes after its loss: too late.
        if self.slots.segment.slot_of(rank) != slot.0 && self.slots.of_rank[rank as usize] != slot.0
        {
            return None;
        }
        self.slots.hear(rank, slot.0, self.sink);
        Some(Peer(rank))
    }
}

impl Sink for Translated<'_> {
    fn message(&mut self, from: Peer, head: &Head, data: SharedBytes<'_>) {
        if let Some(rank) = self.heard(from) {
            self.sink.message(rank, head, data);
        }
    }

    fn transfer_completed(&mut self, operation: Operation, result: Result<()>) {
        self.sink.transfer_completed(operation, result);
    }

    fn lost(&mut self, slot: Peer, reason: &str) {
        if let Some(rank) = self.slots.lose(slot.0) {
            self.sink.lost(Peer(rank), reason);
        }
    }

    fn departed(&mut self, slot: Peer, reason: &str) {
        if let Some(rank) = self.heard(slot) {
            self.sink.departed(rank, reason);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        if let Some(rank) = self.heard(from) {
            self.sink.signalled(rank, key);
        }
    }
}

impl Fabric for RespawnableEndpoint {
    forward_fabric!(self => self.inner; limits, bell, now, revoke, forget, allocate_shared,
        release_shared, is_flushed, traffic, say_goodbye, channels);

    fn me(&self) -> Peer {
        Peer(self.slots.me)
    }

    fn peers(&self) -> u32 {
        self.slots.segment.members()
    }

    fn may_return(&self, peer: Peer) -> bool {
        self.slots.segment.may_return(peer.0)
    }

    fn route(&self, peer: Peer) -> &'static str {
        self.inner.route(self.slot(peer))
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let sent = self.inner.try_send(self.slot(to), head, data);
        sent.map_err(|error| self.named(error, to))
    }

    fn try_send_part(
        &mut self,
        to: Peer,
        head: &Head,
        source: &mut dyn Source,
        part: Range<usize>,
    ) -> Option<Result<Posted>> {
        let slot = self.slot(to);
        let sent = self.inner.try_send_part(slot, head, source, part)?;
        Some(sent.map_err(|error| self.named(error, to)))
    }

    fn inject(&mut self, to: Peer, head: &Head, data: &[u8]) -> bool {
        self.inner.inject(self.slot(to), head, data)
    }

    fn take_next(&mut self, from: Peer, head: &Head, into: &Region) -> Next {
        self.inner.take_next(self.slot(from), head, into)
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let Self { inner, slots } = self;
        let before = inner.members().changes_told();
        let found = inner.poll(&mut Translated { slots, sink }, budget);
        if inner.members().changes_told() != before {
            slots.hear_of_changes(|slot| inner.members().is_lost(slot), sink);
        }
        found
    }

    fn grant(
        &mut self,
        region: Region,
        to: Option<Peer>,
        rights: Rights,
        uses: Uses,
    ) -> Result<Token> {
        let slot = to.map(|rank| self.slot(rank));
        let granted = self.inner.grant(region, slot, rights, uses);
        granted.map_err(|error| self.named(error, to.unwrap_or(Peer(self.slots.me))))
    }

    fn offer(&mut self, to: Peer, token: Token) {
        let slot = self.slot(to);
        self.inner.offer(slot, token);
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let slot = self.slot(from);
        let posted = self.inner.get(slot, token, offset, into, operation);
        posted.map_err(|error| self.named(error, from))
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let slot = self.slot(to);
        let posted = self.inner.put(slot, token, offset, source, operation);
        posted.map_err(|error| self.named(error, to))
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let signalled = self.inner.signal(self.slot(to), key);
        signalled.map_err(|error| self.named(error, to))
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.inner.signals(self.slot(from), key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.inner.take_signals(self.slot(from), key, count)
    }

    fn shares_memory(&self, peer: Peer) -> bool {
        self.inner.shares_memory(self.slot(peer))
    }

    fn is_asleep(&mut self, peer: Peer) -> bool {
        let slot = self.slot(peer);
        self.inner.is_asleep(slot)
    }

    fn wake(&mut self, peer: Peer) {
        let slot = self.slot(peer);
        self.inner.wake(slot);
    }

    fn is_any_beside(&mut self, peers: &mut dyn Iterator<Item = Peer>) -> Option<bool> {
        let slots = &self.slots;
        self.inner
            .is_any_beside(&mut peers.map(|peer| slots.slot(peer)))
    }

    fn open_channel(&mut self, number: u32) -> Result<Box<dyn Fabric>> {
        Ok(respawnable(self.inner.open(number)?))
    }

    fn attach_shared(&mut self, peer: Peer, key: SharedKey, length: usize) -> Result<SharedMemory> {
        let attached = self.inner.attach_shared(self.slot(peer), key, length);
        attached.map_err(|error| self.named(error, peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobSize, Options, Watch, initialise_job};
    use std::os::fd::AsFd;
    use std::sync::Mutex;
    use weft_fabric::conformance::Stage;
    use weft_sys::MemoryFile;

    weft_fabric::conformance!(with_spares, |n| {
        let job = Job::new(n as u32, 2);
        (0..n).map(|rank| job.attach(rank as u32)).collect()
    });

    /// A job as a launcher makes it, with all ranks in this process.
    struct Job {
        file: MemoryFile,
        watch: Watch,
    }

    impl Job {
        fn new(members: u32, spares: u32) -> Self {
            let size = JobSize {
                ranks: members,
                room: 0,
                spares,
                addresses: 0,
                channels: 2,
            };
            let length = size.memory_size().expect("fits");
            let file = MemoryFile::create("weft-test", length).expect("memory files exist here");
            let segment = size.segment_size().expect("fits");
            let mapping = file.map_part(0, segment).expect("maps");
            initialise_job(&mapping, size, 2).expect("the right size");
            let watch = Watch::open(&file).expect("initialised");
            Self { file, watch }
        }

        fn attach(&self, rank: u32) -> Box<dyn Fabric> {
            let descriptor = self.file.as_fd().try_clone_to_owned().expect("duplicates");
            let options = Options::default();
            respawnable(Shm::attach_with(descriptor, rank, &options).expect("joins"))
        }
    }

    /// A stage whose members can die: their process, as it were, is killed and fetched.
    #[derive(Default)]
    struct Mortal(Mutex<Option<Watch>>);

    impl Stage for Mortal {
        fn endpoints(&self, count: usize) -> Vec<Box<dyn Fabric>> {
            let job = Job::new(count as u32, 0);
            *self.0.lock().expect("nobody panics with it") = Some(job.watch.clone());
            (0..count).map(|rank| job.attach(rank as u32)).collect()
        }

        fn end(&self, rank: usize, endpoint: Box<dyn Fabric>) {
            std::mem::forget(endpoint);
            let watch = self.0.lock().expect("nobody panics with it");
            watch
                .as_ref()
                .expect("there are members")
                .tell_of_death(rank as u32, 9);
        }

        fn shows_deaths(&self) -> bool {
            true
        }
    }

    weft_fabric::conformance!(with_deaths, Mortal::default());

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Sink for Heard {
        fn message(&mut self, from: Peer, head: &Head, _: SharedBytes<'_>) {
            self.0.push(format!("{} of {from}", head[0]));
        }
        fn transfer_completed(&mut self, _: Operation, _: Result<()>) {}
        fn lost(&mut self, peer: Peer, reason: &str) {
            self.0.push(format!("lost {peer}: {reason}"));
        }
        fn signalled(&mut self, from: Peer, key: SyncKey) {
            self.0.push(format!("signal {} of {from}", key.0));
        }
    }

    fn poll(endpoint: &mut dyn Fabric) -> Vec<String> {
        let mut heard = Heard::default();
        while endpoint.poll(&mut heard, 32) > 0 {}
        heard.0
    }

    fn send(from: &mut dyn Fabric, to: u32, number: u8) -> Result<()> {
        let posted = from.try_send(Peer(to), &[number; 32], &[])?;
        assert_eq!(posted, Posted::Done, "there is room");
        Ok(())
    }

    #[test]
    fn what_the_dead_had_sent_is_heard_then_that_it_is_lost() {
        let job = Job::new(2, 0);
        let (mut one, mut two) = (job.attach(0), job.attach(1));
        send(&mut *two, 0, 7).expect("goes");
        // Its process, as it were, is killed: it does not leave in order.
        std::mem::forget(two);
        job.watch.tell_of_death(1, 9);
        assert_eq!(
            poll(&mut *one),
            ["7 of 1", "lost 1: its process was killed by signal 9"]
        );
        assert!(poll(&mut *one).is_empty(), "said once");
        let refused = send(&mut *one, 1, 1);
        assert!(
            matches!(refused, Err(FabricError::PeerLost { peer: Peer(1), .. })),
            "{refused:?}"
        );
        assert!(!job.watch.assign_spare(1), "there is no spare process slot");
        assert_eq!(job.watch.awake(), 1);
    }

    #[test]
    fn one_is_reached_whose_predecessor_was_never_heard_of() {
        let job = Job::new(2, 2);
        let (mut one, two) = (job.attach(0), job.attach(1));
        std::mem::forget(two);
        job.watch.tell_of_death(1, 9);
        assert!(job.watch.assign_spare(1));
        std::mem::forget(job.attach(1));
        job.watch.tell_of_death(1, 9);
        // Both deaths are heard of in one look.
        assert_eq!(
            poll(&mut *one),
            ["lost 1: its process was killed by signal 9"]
        );
        assert!(job.watch.assign_spare(1));
        let mut three = job.attach(1);
        assert!(poll(&mut *one).is_empty());
        // It waits to be spoken to.
        send(&mut *one, 1, 5).expect("goes to the new one");
        assert_eq!(poll(&mut *three), ["5 of 0"]);
    }

    #[test]
    fn one_started_anew_has_the_rank_and_nothing_of_the_dead() {
        let job = Job::new(3, 2);
        let (mut one, mut two, mut three) = (job.attach(0), job.attach(1), job.attach(2));
        for round in 0..2 {
            // Unread by the dead, and unheard of it.
            send(&mut *one, 1, 1).expect("goes");
            let signalled = two.signal(Peer(2), SyncKey(5));
            assert_eq!(signalled, Ok(Posted::Done));
            std::mem::forget(two);
            job.watch.tell_of_death(1, 3 << 8);
            assert_eq!(poll(&mut *one), ["lost 1: its process exited with code 3"]);
            assert!(send(&mut *one, 1, 1).is_err());
            assert!(one.may_return(Peer(1)), "there is a spare");
            assert!(job.watch.assign_spare(1), "{round}");
            assert!(one.may_return(Peer(1)), "it is about to");
            two = job.attach(1);
            assert_eq!((two.me(), two.peers()), (Peer(1), 3));
            assert!(poll(&mut *two).is_empty(), "nothing of before");
            // One has heard of the death, three has not.
            assert!(poll(&mut *one).is_empty());
            send(&mut *one, 1, 2).expect("goes to the new one");
            assert_eq!(poll(&mut *two), ["2 of 0"]);
            send(&mut *two, 0, 3).expect("goes");
            send(&mut *two, 2, 4).expect("goes");
            assert_eq!(poll(&mut *one), ["3 of 1"]);
            let heard = poll(&mut *three);
            assert_eq!(heard[0], "signal 5 of 1");
            assert!(heard[1].starts_with("lost 1"), "{heard:?}");
            assert_eq!(heard[2..], ["4 of 1"], "after the loss");
            assert_eq!(
                three.signals(Peer(1), SyncKey(5)),
                0,
                "those were another's"
            );
        }
        assert!(
            !job.watch.assign_spare(1),
            "both spare process slots are used"
        );
        std::mem::forget(two);
        job.watch.tell_of_death(1, 9);
        assert!(!one.may_return(Peer(1)), "for good");
    }

    #[test]
    fn one_that_cannot_be_started_anew_does_not_return() {
        let job = Job::new(2, 2);
        let (mut one, two) = (job.attach(0), job.attach(1));
        std::mem::forget(two);
        job.watch.tell_of_death(1, 9);
        assert_eq!(
            poll(&mut *one),
            ["lost 1: its process was killed by signal 9"]
        );
        assert!(job.watch.assign_spare(1));
        assert!(one.may_return(Peer(1)), "it is about to");
        job.watch.tell_of_no_start(1);
        assert!(
            !one.may_return(Peer(1)),
            "though there is another spare: nobody tries again"
        );
        let refused = send(&mut *one, 1, 1);
        assert!(refused.is_err(), "{refused:?}");
    }

    #[test]
    fn one_that_ends_well_or_leaves_does_not_return() {
        let job = Job::new(3, 2);
        let (one, two, three) = (job.attach(0), job.attach(1), job.attach(2));
        std::mem::forget(two);
        job.watch.tell_of_death(1, 0);
        drop(three);
        job.watch.tell_of_end(2, 3 << 8, true);
        for gone in [1, 2] {
            assert!(!one.may_return(Peer(gone)), "{gone}");
        }
    }
}
