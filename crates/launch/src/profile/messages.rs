//! Messages of a timeline: which receive belongs to which send.
//!
//! Messages with the same sender, receiver, communicator and tag are received in the order in which they were sent, by receives in
//! the order in which they were posted (MPI 5.0, section 3.5): the n-th of the one belongs to the n-th of the other. Where old events
//! have given way they are counted from the end. What does not fit (other bytes, received before it was sent) gets no arrow.
//!
//! Between hosts messages say more of the clocks than these: none was received before it was sent.

use std::collections::BTreeMap;

use super::layout::EventKind;
use super::record::{EventRecord, RankRecord};

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Who has sent it.
    pub from: u32,
    /// When.
    pub sent: &'a EventRecord,
    /// Who has received it.
    pub to: u32,
    /// When.
    pub received: &'a EventRecord,
}

/// Sender, receiver, context and tag.
type Key = (u32, u32, u32, i32);

/// All that were sent and received.
#[must_use]
pub fn pairs(records: &[RankRecord]) -> Vec<Message<'_>> {
    let mut sent: BTreeMap<Key, Vec<&EventRecord>> = BTreeMap::new();
    let mut received: BTreeMap<Key, Vec<&EventRecord>> = BTreeMap::new();
    for record in records {
        for event in record.events() {
            let Some(peer) = event.peer else {
                continue;
            };
            let (me, context, tag) = (record.rank, event.context, event.tag);
            match event.kind {
                EventKind::Sent => sent
                    .entry((me, peer, context, tag))
                    .or_default()
                    .push(event),
                EventKind::Received => received
                    .entry((peer, me, context, tag))
                    .or_default()
                    .push(event),
                _ => {}
            }
        }
    }
    // From its first gap on nobody knows which message of a rank is the n-th, and of receives from the first one that was given up then.
    let first_gap = |record: &RankRecord| {
        let gaps = record.events();
        let gaps = gaps.filter(|one| matches!(one.kind, EventKind::Gap | EventKind::Unfollowed));
        gaps.map(|gap| gap.begun).min().unwrap_or(u64::MAX)
    };
    let followed: BTreeMap<u32, u64> = records
        .iter()
        .map(|record| (record.rank, first_gap(record)))
        .collect();
    let until = |rank: u32| followed.get(&rank).copied().unwrap_or(u64::MAX);
    let dropped = |rank: u32| {
        let record = records.iter().find(|record| record.rank == rank);
        record.is_some_and(|record| record.dropped() > 0)
    };
    let hosts: BTreeMap<u32, &str> = records
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let mut found = Vec::new();
    for (key, sends) in &mut sent {
        let Some(receives) = received.get_mut(key) else {
            continue;
        };
        sends.sort_by_key(|event| event.begun);
        receives.sort_by_key(|event| event.begun);
        if dropped(key.0) || dropped(key.1) {
            if until(key.0).min(until(key.1)) < u64::MAX {
                continue;
            }
            let both = sends.len().min(receives.len());
            sends.drain(..sends.len() - both);
            receives.drain(..receives.len() - both);
        }
        sends.retain(|event| event.begun < until(key.0));
        receives.retain(|event| event.begun < until(key.1));
        let pairs = sends.iter().zip(receives.iter());
        let is_far = hosts.get(&key.0) != hosts.get(&key.1);
        let fits = |sent: &EventRecord, received: &EventRecord| {
            (is_far || received.ended >= sent.begun)
                && received
                    .bytes
                    .zip(sent.bytes)
                    .is_none_or(|(one, other)| one == other)
        };
        found.extend(pairs.filter(|(sent, received)| fits(sent, received)).map(
            |(sent, received)| Message {
                from: key.0,
                sent,
                to: key.1,
                received,
            },
        ));
    }
    found
}

/// Sets the clocks of other hosts so that no message to or from the first one was received before it was sent. What was measured
/// between launchers is wrong by microseconds; this makes it no worse.
pub fn align(records: &mut [RankRecord]) {
    let Some(first) = records.first().map(|record| record.host.clone()) else {
        return;
    };
    let host_of: BTreeMap<u32, String> = records
        .iter()
        .map(|record| (record.rank, record.host.clone()))
        .collect();
    // Of each other host: how far its clock must be moved on at least, and may be at most.
    let mut bounds: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for message in pairs(records) {
        let (Some(from), Some(to)) = (host_of.get(&message.from), host_of.get(&message.to)) else {
            continue;
        };
        let spare = message
            .received
            .ended
            .wrapping_sub(message.sent.begun)
            .cast_signed();
        let others = (i64::MIN, i64::MAX);
        if *from == first && *to != first {
            let bound = bounds.entry(to).or_insert(others);
            bound.0 = bound.0.max(spare.saturating_neg());
        } else if *to == first && *from != first {
            let bound = bounds.entry(from).or_insert(others);
            bound.1 = bound.1.min(spare);
        }
    }
    for record in records {
        if let Some(&(least, most)) = bounds.get(record.host.as_str()) {
            // Clocks that run unevenly may ask for both: then nothing is right.
            if least <= most {
                record.shift(0.clamp(least, most));
            }
        }
    }
}
