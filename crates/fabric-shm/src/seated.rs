//! The endpoint of a job whose dead may be replaced: ranks outside, seats inside.
//!
//! A rank keeps its number when its process is started anew, and gets another seat. [`Seated`] wraps
//! the endpoint among seats and translates. The old seat is lost before the new one is heard of,
//! always: a message of a seat that was not known before says that the one before it is gone.

use std::sync::Arc;

use weft_fabric::{
    Fabric, FabricError, Head, Operation, Peer, Posted, Region, Result, Rights, SharedBytes, Sink,
    SyncKey, Token, Uses, forward_fabric,
};

use crate::endpoint::Shm;
use crate::layout::Segment;

/// An endpoint of this process as ranks see it, whether or not the job has spare seats.
#[must_use]
pub fn seated(endpoint: Shm) -> Box<dyn Fabric> {
    if endpoint.segment.members() == endpoint.segment.shape().ranks {
        return Box::new(endpoint);
    }
    Box::new(Seated::new(endpoint))
}

/// An endpoint among seats, as ranks see it.
struct Seated {
    inner: Shm,
    seats: Seats,
}

/// Which seat each rank has, as far as was heard.
struct Seats {
    segment: Arc<Segment>,
    me: u32,
    of_rank: Vec<u32>,
    /// Of each rank: its seat is lost, and that was said.
    lost: Vec<bool>,
}

impl Seated {
    fn new(inner: Shm) -> Self {
        let segment = inner.segment.clone();
        let me = segment.rank_of(inner.me).unwrap_or(inner.me);
        let of_rank: Vec<u32> = (0..segment.members())
            .map(|rank| segment.seat_of(rank))
            .collect();
        Self {
            seats: Seats {
                me,
                lost: vec![false; of_rank.len()],
                of_rank,
                segment,
            },
            inner,
        }
    }

    /// The seat of a rank; of none, a seat that does not exist.
    #[inline]
    fn seat(&self, rank: Peer) -> Peer {
        let seat = self.seats.of_rank.get(rank.index());
        Peer(seat.copied().unwrap_or(u32::MAX))
    }

    /// An error about a seat, as one about its rank.
    #[cold]
    fn named(&self, error: FabricError, rank: Peer) -> FabricError {
        match error {
            FabricError::PeerLost { reason, .. } => FabricError::PeerLost { peer: rank, reason },
            FabricError::NotGranted { .. } => FabricError::NotGranted { peer: rank },
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

impl Seats {
    /// A rank was heard of at a seat: if it is another one than before, that one is gone.
    fn hear(&mut self, rank: u32, seat: u32, sink: &mut dyn Sink) {
        let place = rank as usize;
        if self.of_rank[place] == seat {
            return;
        }
        if !self.lost[place] {
            sink.lost(Peer(rank), "its process was started anew");
        }
        self.of_rank[place] = seat;
        self.lost[place] = false;
    }
}

/// A sink of ranks, as one of seats.
struct Translated<'a> {
    seats: &'a mut Seats,
    sink: &'a mut dyn Sink,
}

impl Translated<'_> {
    /// The rank at a seat, if it still has it.
    #[inline]
    fn heard(&mut self, seat: Peer) -> Option<Peer> {
        if self.seats.of_rank.get(seat.index()) == Some(&seat.0) {
            return Some(seat);
        }
        let rank = self.seats.segment.rank_of(seat.0)?;
        // What an older seat has left behind comes after its loss: too late.
        if self.seats.segment.seat_of(rank) != seat.0 && self.seats.of_rank[rank as usize] != seat.0
        {
            return None;
        }
        self.seats.hear(rank, seat.0, self.sink);
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

    fn lost(&mut self, seat: Peer, reason: &str) {
        let Some(rank) = self.seats.segment.rank_of(seat.0) else {
            return;
        };
        let place = rank as usize;
        if self.seats.of_rank[place] == seat.0 && !self.seats.lost[place] && rank != self.seats.me {
            self.seats.lost[place] = true;
            self.sink.lost(Peer(rank), reason);
        }
    }

    fn signalled(&mut self, from: Peer, key: SyncKey) {
        if let Some(rank) = self.heard(from) {
            self.sink.signalled(rank, key);
        }
    }
}

impl Fabric for Seated {
    forward_fabric!(self => self.inner; limits, bell, now, revoke, forget, is_flushed, farewell);

    fn me(&self) -> Peer {
        Peer(self.seats.me)
    }

    fn peers(&self) -> u32 {
        self.seats.segment.members()
    }

    fn route(&self, peer: Peer) -> &'static str {
        self.inner.route(self.seat(peer))
    }

    #[inline]
    fn try_send(&mut self, to: Peer, head: &Head, data: &[u8]) -> Result<Posted> {
        let sent = self.inner.try_send(self.seat(to), head, data);
        sent.map_err(|error| self.named(error, to))
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> usize {
        let Self { inner, seats } = self;
        let before = inner.changes_seen;
        let found = inner.poll(&mut Translated { seats, sink }, budget);
        if inner.changes_seen != before {
            // Those whose loss was said may have another seat by now.
            for rank in 0..seats.segment.members() {
                let seat = seats.segment.seat_of(rank);
                // One that is gone as well was lost along with the one before it.
                if seats.lost[rank as usize] && !inner.gone.contains_key(&seat) {
                    seats.hear(rank, seat, sink);
                }
            }
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
        let seat = to.map(|rank| self.seat(rank));
        let granted = self.inner.grant(region, seat, rights, uses);
        granted.map_err(|error| self.named(error, to.unwrap_or(Peer(self.seats.me))))
    }

    fn offer(&mut self, to: Peer, token: Token) {
        let seat = self.seat(to);
        self.inner.offer(seat, token);
    }

    fn get(
        &mut self,
        from: Peer,
        token: Token,
        offset: u64,
        into: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let seat = self.seat(from);
        let moved = self.inner.get(seat, token, offset, into, operation);
        moved.map_err(|error| self.named(error, from))
    }

    fn put(
        &mut self,
        to: Peer,
        token: Token,
        offset: u64,
        source: Region,
        operation: Operation,
    ) -> Result<Posted> {
        let seat = self.seat(to);
        let moved = self.inner.put(seat, token, offset, source, operation);
        moved.map_err(|error| self.named(error, to))
    }

    fn signal(&mut self, to: Peer, key: SyncKey) -> Result<Posted> {
        let signalled = self.inner.signal(self.seat(to), key);
        signalled.map_err(|error| self.named(error, to))
    }

    fn signals(&self, from: Peer, key: SyncKey) -> u64 {
        self.inner.signals(self.seat(from), key)
    }

    fn take_signals(&mut self, from: Peer, key: SyncKey, count: u64) -> bool {
        self.inner.take_signals(self.seat(from), key, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Watch, initialise_with_spares, segment_size};
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
            let size = segment_size(members + spares).expect("fits");
            let file = MemoryFile::create("weft-test", size).expect("memory files exist here");
            let mapping = file.map().expect("maps");
            initialise_with_spares(&mapping, members, spares, 2).expect("the right size");
            let watch = Watch::open(mapping).expect("initialised");
            Self { file, watch }
        }

        fn attach(&self, rank: u32) -> Box<dyn Fabric> {
            let descriptor = self.file.as_fd().try_clone_to_owned().expect("duplicates");
            let options = Options::default();
            seated(Shm::attach_with(descriptor, rank, &options).expect("joins"))
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
        assert!(!job.watch.seat_anew(1), "there is no spare seat");
        assert_eq!(job.watch.awake(), 1);
    }

    #[test]
    fn one_is_reached_whose_predecessor_was_never_heard_of() {
        let job = Job::new(2, 2);
        let (mut one, two) = (job.attach(0), job.attach(1));
        std::mem::forget(two);
        job.watch.tell_of_death(1, 9);
        assert!(job.watch.seat_anew(1));
        std::mem::forget(job.attach(1));
        job.watch.tell_of_death(1, 9);
        // Both deaths are heard of in one look.
        assert_eq!(
            poll(&mut *one),
            ["lost 1: its process was killed by signal 9"]
        );
        assert!(job.watch.seat_anew(1));
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
            assert!(job.watch.seat_anew(1), "{round}");
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
        assert!(!job.watch.seat_anew(1), "both spare seats are used");
    }
}
