//! Counters: what the engine counts of its work, for tools that ask while it runs (MPI 5.0, section 15.3).
//!
//! The holder of the engine counts, by plain loads and stores: there is one writer at a time, which the lock of the
//! engine orders. A reader needs no lock: a counter is one load, and two counters may be from different moments. A
//! queue's length is not kept, but computed from arrivals and departures.

use weft_atomic::{AtomicU64, Ordering};

use super::protocol::Protocol;

/// One number that only goes up. Its writers have the engine.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value now, or a moment ago.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        // A count says nothing of other memory.
        self.0.load(Ordering::Relaxed)
    }

    /// Counts; the caller has the engine.
    #[inline]
    pub(super) fn add(&self, more: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(more);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Keeps the larger one; the caller has the engine.
    #[inline]
    pub(super) fn raise(&self, value: u64) {
        if value > self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }
}

/// Messages, and their bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// How many.
    pub messages: Counter,
    /// Bytes of data of all of them.
    pub bytes: Counter,
}

impl Traffic {
    #[inline]
    pub(super) fn add(&self, bytes: u64) {
        self.messages.add(1);
        self.bytes.add(bytes);
    }
}

/// Collectives that are counted by name; all others together.
pub const COLLECTIVES: [&str; 17] = [
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Gather",
    "MPI_Gatherv",
    "MPI_Scatter",
    "MPI_Scatterv",
    "MPI_Allgather",
    "MPI_Allgatherv",
    "MPI_Alltoall",
    "MPI_Alltoallv",
    "MPI_Alltoallw",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Reduce_scatter",
    "MPI_Reduce_scatter_block",
    "MPI_Scan",
    "MPI_Exscan",
];

/// All counters of one rank.
#[derive(Debug, Default)]
pub struct Counters {
    sent: [Traffic; 3],
    /// Messages to ranks of other hosts, among the sent ones.
    pub sent_far: Traffic,
    /// Bytes of the messages that were received, counted when each was matched.
    pub bytes_received: Counter,
    /// Messages that met a receive which looked for them and was in no table. They count as if it had been posted.
    pub(super) met: Counter,
    /// Messages that came before their receive.
    pub unexpected: Traffic,
    /// Messages of those that are gone: received, or given up with their communicator.
    pub unexpected_gone: Traffic,
    /// Largest number of messages that have waited.
    pub unexpected_most: Counter,
    /// Largest number of bytes that have waited here.
    pub unexpected_bytes_most: Counter,
    pub(super) posted: Counter,
    /// Receives that waited and were not matched: cancelled or failed.
    pub(super) posted_withdrawn: Counter,
    pub(super) posted_most: Counter,
    /// Receives that waited and were matched.
    pub(super) matched_posted: Counter,
    /// Receives that met a waiting message.
    pub matched_unexpected: Counter,
    /// Transfers by portal that this rank as the receiver began.
    pub pulls_begun: Counter,
    /// Those of them that have ended.
    pub pulls_ended: Counter,
    /// Transfers that were put off for want of room.
    pub pulls_refused: Counter,
    /// Messages that the fabric had no room for at once.
    pub held_back: Counter,
    /// Waits that found nothing at first.
    pub waits: Counter,
    /// Waits that slept, each time.
    pub sleeps: Counter,
    /// Waits for another thread that drove progress.
    pub waits_parked: Counter,
    /// Nanoseconds slept.
    pub slept: Counter,
    /// Nanoseconds in which others drove.
    pub parked: Counter,
    /// Collectives begun.
    pub collectives_begun: Counter,
    /// Collectives ended.
    pub collectives_ended: Counter,
    /// Collectives that ended with an error.
    pub collectives_failed: Counter,
    by_name: [Counter; COLLECTIVES.len() + 1],
    /// Partitions of partitioned messages that have left, in pieces.
    pub pieces_sent: Counter,
    /// One-sided operations that this rank carried out by loads and stores, as far as windows have told.
    pub one_sided_direct: Counter,
    /// Messages of one-sided operations that this rank sent to targets.
    pub one_sided_messages: Counter,
    /// One-sided operations whose data the fabric moved.
    pub one_sided_portal: Counter,
    /// Messages of one-sided communication that came, and were such as were due.
    pub one_sided_arrived: Counter,
    /// Peers lost.
    pub lost: Counter,
    /// Messages that nobody could use.
    pub refused: Counter,
}

impl Counters {
    /// A message is sent by a protocol.
    #[inline]
    pub(super) fn sent(&self, protocol: Protocol, bytes: usize) {
        self.sent[protocol as usize].add(bytes as u64);
    }

    /// Messages sent with their envelope.
    #[must_use]
    pub fn eager(&self) -> &Traffic {
        &self.sent[Protocol::Eager as usize]
    }

    /// Messages sent with their envelope, whose sender waited for the receive.
    #[must_use]
    pub fn eager_synchronous(&self) -> &Traffic {
        &self.sent[Protocol::EagerSynchronous as usize]
    }

    /// Messages that receivers pull.
    #[must_use]
    pub fn rendezvous(&self) -> &Traffic {
        &self.sent[Protocol::Rendezvous as usize]
    }

    /// A collective of this name begins.
    pub(super) fn collective(&self, name: &str) {
        let place = COLLECTIVES.iter().position(|one| *one == name);
        self.collective_at(place.unwrap_or(COLLECTIVES.len()));
    }

    /// As [`collective`](Self::collective), by the place of the name in [`COLLECTIVES`], or the one behind them.
    #[inline]
    pub(super) fn collective_at(&self, place: usize) {
        self.collectives_begun.add(1);
        if let Some(count) = self.by_name.get(place) {
            count.add(1);
        }
    }

    /// How often the collective at this place of [`COLLECTIVES`] was begun; of the place behind it: all others.
    #[must_use]
    pub fn collectives(&self, place: usize) -> u64 {
        self.by_name.get(place).map_or(0, Counter::get)
    }

    /// Messages that were received, each counted when it was matched.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.matched_posted() + self.matched_unexpected.get()
    }

    /// Receives that found no message and waited for it.
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.posted.get() + self.met.get()
    }

    /// Largest number of receives that have waited.
    #[must_use]
    pub fn posted_most(&self) -> u64 {
        self.posted_most.get().max(self.met.get().min(1))
    }

    /// Messages that met a waiting receive.
    #[must_use]
    pub fn matched_posted(&self) -> u64 {
        self.matched_posted.get() + self.met.get()
    }

    /// What came and is not gone. The two counters may be of different moments.
    fn present(came: &Counter, gone: &Counter) -> u64 {
        let gone = gone.get();
        came.get().saturating_sub(gone)
    }

    /// Messages that wait for their receive.
    #[must_use]
    pub fn unexpected_now(&self) -> u64 {
        Self::present(&self.unexpected.messages, &self.unexpected_gone.messages)
    }

    /// Bytes of them that are held here.
    #[must_use]
    pub fn unexpected_bytes_now(&self) -> u64 {
        Self::present(&self.unexpected.bytes, &self.unexpected_gone.bytes)
    }

    /// Receives that wait.
    #[must_use]
    pub fn posted_now(&self) -> u64 {
        // What is gone first: see `present`.
        let gone = self.matched_posted.get() + self.posted_withdrawn.get();
        self.posted.get().saturating_sub(gone)
    }

    /// Transfers under way.
    #[must_use]
    pub fn pulls_now(&self) -> u64 {
        Self::present(&self.pulls_begun, &self.pulls_ended)
    }

    /// Collectives under way.
    #[must_use]
    pub fn collectives_now(&self) -> u64 {
        Self::present(&self.collectives_begun, &self.collectives_ended)
    }
}

impl Counters {
    /// What several engines have counted together; of what is the largest number of something, the largest of any.
    #[must_use]
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let sum = Self::default();
        for one in all {
            let sums = sum.added().into_iter().zip(one.added());
            sums.for_each(|(sum, one)| sum.add(one.get()));
            let largest = sum.largest().into_iter().zip(one.largest());
            largest.for_each(|(sum, one)| sum.raise(one.get()));
        }
        sum
    }

    /// Those that are the largest number of something.
    fn largest(&self) -> [&Counter; 3] {
        [
            &self.unexpected_most,
            &self.unexpected_bytes_most,
            &self.posted_most,
        ]
    }

    /// All others.
    fn added(&self) -> Vec<&Counter> {
        let traffic =
            self.sent
                .iter()
                .chain([&self.sent_far, &self.unexpected, &self.unexpected_gone]);
        let mut all: Vec<&Counter> = traffic
            .flat_map(|one| [&one.messages, &one.bytes])
            .collect();
        all.extend(&self.by_name);
        all.extend([
            &self.bytes_received,
            &self.met,
            &self.posted,
            &self.posted_withdrawn,
            &self.matched_posted,
            &self.matched_unexpected,
            &self.pulls_begun,
            &self.pulls_ended,
            &self.pulls_refused,
            &self.held_back,
            &self.waits,
            &self.sleeps,
            &self.waits_parked,
            &self.slept,
            &self.parked,
            &self.collectives_begun,
            &self.collectives_ended,
            &self.collectives_failed,
            &self.pieces_sent,
            &self.one_sided_direct,
            &self.one_sided_messages,
            &self.one_sided_portal,
            &self.one_sided_arrived,
            &self.lost,
            &self.refused,
        ]);
        all
    }
}

/// Counters of a running rank that are shown to the outside: each is the sum of some counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Shown {
    /// Messages sent, by any protocol.
    MessagesSent,
    /// Their bytes.
    BytesSent,
    /// Messages received.
    MessagesReceived,
    /// Their bytes.
    BytesReceived,
    /// Collectives begun.
    Collectives,
    /// Times that a wait slept.
    Sleeps,
}

impl Shown {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::MessagesSent,
        Self::BytesSent,
        Self::MessagesReceived,
        Self::BytesReceived,
        Self::Collectives,
        Self::Sleeps,
    ];
}

impl Counters {
    /// Addresses, in the memory of this process, of the counters that are shown, each with the value it adds to. They
    /// stay valid until this value is dropped. Any process that may read this memory may read them: each is one aligned
    /// word.
    #[must_use]
    pub fn addresses(&self) -> Vec<(Shown, u64)> {
        let mut found = Vec::new();
        for traffic in &self.sent {
            found.push((Shown::MessagesSent, &traffic.messages));
            found.push((Shown::BytesSent, &traffic.bytes));
        }
        for received in [&self.matched_posted, &self.met, &self.matched_unexpected] {
            found.push((Shown::MessagesReceived, received));
        }
        found.push((Shown::BytesReceived, &self.bytes_received));
        found.push((Shown::Collectives, &self.collectives_begun));
        found.push((Shown::Sleeps, &self.sleeps));
        let address =
            |(shown, counter)| (shown, std::ptr::from_ref::<Counter>(counter).addr() as u64);
        found.into_iter().map(address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_all_counters() {
        let (one, two) = (Counters::default(), Counters::default());
        let words = one.added().len() + one.largest().len();
        assert_eq!(words * size_of::<Counter>(), size_of::<Counters>());
        one.added()
            .into_iter()
            .zip(1..)
            .for_each(|(counter, value)| counter.add(value));
        two.sent(Protocol::Eager, 9);
        two.posted_most.raise(7);
        one.posted_most.raise(5);
        let sum = Counters::sum([&one, &two].into_iter());
        assert_eq!(sum.eager().messages.get(), one.eager().messages.get() + 1);
        assert_eq!(sum.posted_most(), 7);
        assert_eq!(sum.refused.get(), one.refused.get());
    }

    #[test]
    fn what_is_shown_lies_within_the_counters() {
        let counters = Counters::default();
        let begin = std::ptr::from_ref(&counters).addr() as u64;
        let end = begin + size_of::<Counters>() as u64;
        for (shown, address) in counters.addresses() {
            assert!(
                (begin..end).contains(&address) && address % 8 == 0,
                "{shown:?}"
            );
        }
        for shown in Shown::ALL {
            assert_eq!(Shown::ALL[shown as usize], shown);
            let mut addresses = counters.addresses().into_iter();
            assert!(addresses.any(|(other, _)| other == shown), "{shown:?}");
        }
    }

    #[test]
    fn queues_follow_from_what_came_and_went() {
        let counters = Counters::default();
        for bytes in [10, 20, 30] {
            counters.unexpected.add(bytes);
            counters.unexpected_most.raise(counters.unexpected_now());
        }
        counters.unexpected_gone.add(20);
        assert_eq!(counters.unexpected_now(), 2);
        assert_eq!(counters.unexpected_bytes_now(), 40);
        assert_eq!(counters.unexpected_most.get(), 3);
        counters.collective("MPI_Bcast");
        counters.collective("MPI_Ibarrier of tomorrow");
        assert_eq!(counters.collectives(1), 1);
        assert_eq!(counters.collectives(COLLECTIVES.len()), 1);
        assert_eq!(counters.collectives(99), 0);
    }
}
