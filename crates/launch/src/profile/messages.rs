//! Messages of a timeline: which receive belongs to which send.
//!
//! Messages with the same sender, receiver, communicator and tag are received in the order in which they were sent, by receives in
//! the order in which they were posted (MPI 5.0, section 3.5): the n-th of the one belongs to the n-th of the other. What does not
//! fit (other bytes, received before it was sent) gets no arrow.
//!
//! ```text
//!   sender     1 2 3 4 ·········gap········· -4 -3 -2 -1 ■ MPI_Finalize
//!   receiver   1 2 3 4 5 6 ·····gap······ -6 -5 -4 -3 -2 -1 ■
//! ```
//!
//! Until the first of the two begins to leave out calls messages are counted from the beginning; from where both record all of them
//! again, until the end, from the end: when both have come through `MPI_Finalize` the last one that was sent is the last one that was received.
//! So it is where old events have given way. Between a rank's first gap and its last one nobody knows which message is the n-th.
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
    let known: BTreeMap<u32, Known> = records
        .iter()
        .map(|record| (record.rank, Known::of(record)))
        .collect();
    let of = |rank: u32| known.get(&rank).copied().unwrap_or(Known::ALL);
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
        let is_far = hosts.get(&key.0) != hosts.get(&key.1);
        let fits = |sent: &EventRecord, received: &EventRecord| {
            (is_far || received.ended >= sent.begun)
                && received
                    .bytes
                    .zip(sent.bytes)
                    .is_none_or(|(one, other)| one == other)
        };
        let pairs = counted(sends, receives, (of(key.0), of(key.1)));
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

/// In which time all messages of a rank are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    /// From the beginning until then, …
    until: u64,
    /// … and from then until the end.
    since: u64,
}

impl Known {
    /// All of them.
    const ALL: Self = Self {
        until: u64::MAX,
        since: 0,
    };

    fn of(record: &RankRecord) -> Self {
        let mut found = Self::ALL;
        for event in record.events() {
            // Receives that were given up have begun before.
            if matches!(event.kind, EventKind::Gap | EventKind::Unfollowed) {
                found.until = found.until.min(event.begun);
                found.since = found.since.max(event.ended);
            }
        }
        for thread in record.threads.iter().filter(|one| one.dropped > 0) {
            found.until = 0;
            // What has given way had ended before the first that is there: what began later is there.
            let first = thread.events.first().map_or(u64::MAX, |one| one.ended);
            found.since = found.since.max(first);
        }
        if found != Self::ALL && !has_finished(record) {
            found.since = u64::MAX;
        }
        found
    }
}

/// Whether a rank has come to the end of `MPI_Finalize`: whatever was sent to it was received, or it was told otherwise.
fn has_finished(record: &RankRecord) -> bool {
    record.events().any(|event| {
        let site = record.sites.get(event.site as usize);
        event.kind == EventKind::Call && site.is_some_and(|site| site.call == "MPI_Finalize")
    })
}

/// Which send belongs to which receive, of one sender, receiver, communicator and tag, both in order.
fn counted<'a>(
    sends: &[&'a EventRecord],
    receives: &[&'a EventRecord],
    (sender, receiver): (Known, Known),
) -> impl Iterator<Item = (&'a EventRecord, &'a EventRecord)> {
    let before = |all: &[&EventRecord], until| all.partition_point(|one| one.begun < until);
    let first = before(sends, sender.until).min(before(receives, receiver.until));
    let after = |all: &[&EventRecord], since| all.len() - before(all, since).max(first);
    let last = match (sender, receiver) {
        // Counted from the beginning.
        (Known::ALL, Known::ALL) => 0,
        _ => after(sends, sender.since).min(after(receives, receiver.since)),
    };
    let ends = |all: &[&'a EventRecord]| {
        let (head, tail) = (all[..first].to_vec(), all[all.len() - last..].to_vec());
        head.into_iter().chain(tail)
    };
    ends(sends).zip(ends(receives))
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

#[cfg(test)]
mod tests {
    use super::super::record::{SiteRecord, ThreadRecord};
    use super::*;

    fn event(kind: EventKind, (begun, ended): (u64, u64), peer: u32) -> EventRecord {
        EventRecord {
            kind,
            site: 0,
            track: 0,
            begun,
            ended,
            peer: Some(peer),
            tag: 3,
            context: 8,
            bytes: Some(4),
        }
    }

    /// Messages are sent at multiples of 10, and received 5 later. Each rank has gaps.
    fn ranks(count: u64, gaps: [&[(u64, u64)]; 2]) -> Vec<RankRecord> {
        let record = |rank: u32, gaps: &[(u64, u64)]| {
            let is_left_out = |at: u64| gaps.iter().any(|gap| (gap.0..gap.1).contains(&at));
            let mut events = Vec::new();
            for number in 0..count {
                let at = number * 10 + u64::from(rank) * 5;
                let kind = [EventKind::Sent, EventKind::Received][rank as usize];
                if !is_left_out(at) {
                    events.push(event(kind, (at, at), 1 - rank));
                }
            }
            let told = gaps.iter().map(|gap| event(EventKind::Gap, *gap, 0));
            events.extend(told);
            events.push(event(EventKind::Call, (count * 10, count * 10 + 1), 0));
            RankRecord {
                rank,
                sites: vec![SiteRecord {
                    call: "MPI_Finalize".to_owned(),
                    ..SiteRecord::default()
                }],
                threads: vec![ThreadRecord {
                    events,
                    ..ThreadRecord::default()
                }],
                ..RankRecord::default()
            }
        };
        vec![record(0, gaps[0]), record(1, gaps[1])]
    }

    /// When what has an arrow was sent; each is received 5 later.
    fn sent(records: &[RankRecord]) -> Vec<u64> {
        let pairs = pairs(records);
        let wrong = pairs
            .iter()
            .find(|one| one.received.begun != one.sent.begun + 5);
        assert_eq!(wrong, None);
        pairs.iter().map(|one| one.sent.begun).collect()
    }

    #[test]
    fn messages_before_the_first_gap_and_after_the_last_one_are_found() {
        let all: Vec<u64> = (0..100).map(|number| number * 10).collect();
        assert_eq!(sent(&ranks(100, [&[], &[]])), all);
        // Of one rank, of both, and neither at the same time nor equally long.
        let expected = |until: u64, since: u64| {
            let known = all.iter().filter(|at| **at < until || **at >= since);
            known.copied().collect::<Vec<_>>()
        };
        assert_eq!(sent(&ranks(100, [&[(300, 400)], &[]])), expected(300, 400));
        assert_eq!(sent(&ranks(100, [&[], &[(301, 402)]])), expected(300, 400));
        let both = ranks(100, [&[(300, 400)], &[(333, 512)]]);
        assert_eq!(sent(&both), expected(300, 510));
        let several = ranks(100, [&[(100, 150), (300, 400)], &[(220, 250), (333, 380)]]);
        assert_eq!(sent(&several), expected(100, 400));
    }

    #[test]
    fn of_who_has_not_finished_nothing_is_counted_from_the_end() {
        for rank in 0..2 {
            let mut records = ranks(100, [&[(300, 400)], &[(333, 512)]]);
            records[rank].threads[0].events.pop();
            assert_eq!(
                sent(&records),
                (0..30).map(|at| at * 10).collect::<Vec<_>>()
            );
        }
        // The gap lasts until the end.
        let records = ranks(100, [&[(300, 2000)], &[]]);
        assert_eq!(sent(&records).len(), 30);
    }

    #[test]
    fn where_old_events_have_given_way_the_others_are_counted_from_the_end() {
        let mut records = ranks(100, [&[], &[]]);
        for (rank, dropped) in [(0, 40), (1, 70)] {
            let thread = &mut records[rank].threads[0];
            thread.events.drain(..dropped);
            thread.dropped = dropped as u64;
        }
        assert_eq!(sent(&records).first(), Some(&700));
        assert_eq!(sent(&records).len(), 30);
    }
}
