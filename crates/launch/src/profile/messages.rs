//! Messages of a timeline: which receive belongs to which send.
//!
//! A message that carries a [mark] is known by it: the receive that was told with the same one belongs to it, whatever was
//! left out before. So is one that was announced, and a synchronous one, by the word of its transfer, which no other one of its sender has.
//!
//! Others are counted. Messages with the same sender, receiver, communicator and tag are received in the order in which they were sent, by receives in
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
//! So it is where old events have given way. Between a rank's first gap and its last one nobody knows which message without a mark is the n-th.
//!
//! Between hosts messages say more of the clocks than these: none was received before it was sent.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::layout::{EventKind, NO_CONTEXT, mark};
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

/// What a message is known by: its sender, what it has carried, and where that alone is not its own, what it was sent as.
type Mark = (u32, u64, Option<Key>);

/// The mark of what was sent or received, by whom.
fn mark_of(event: &EventRecord, me: u32) -> Option<Mark> {
    let (from, to) = match event.kind {
        EventKind::Sent => (Some(me), event.peer),
        EventKind::Received => (event.peer, Some(me)),
        _ => return None,
    };
    if event.mark == 0 {
        return None;
    }
    if mark::rank_of(event.mark) == from {
        return Some((from?, event.mark, None));
    }
    let key = (from?, to?, event.context, event.tag);
    Some((from?, event.mark, Some(key)))
}

/// Events by their marks; `None` for those that several have.
fn by_mark(records: &[RankRecord], kind: EventKind) -> HashMap<Mark, Option<(u32, &EventRecord)>> {
    let mut found = HashMap::new();
    for record in records {
        for event in record.events().filter(|event| event.kind == kind) {
            if let Some(mark) = mark_of(event, record.rank) {
                found
                    .entry(mark)
                    .and_modify(|one| *one = None)
                    .or_insert(Some((record.rank, event)));
            }
        }
    }
    found
}

/// All that were sent and received, in the order of their senders.
#[must_use]
pub fn pairs(records: &[RankRecord]) -> Vec<Message<'_>> {
    let hosts: BTreeMap<u32, &str> = records
        .iter()
        .map(|record| (record.rank, record.host.as_str()))
        .collect();
    let fits = |message: &Message<'_>| {
        let is_far = hosts.get(&message.from) != hosts.get(&message.to);
        let bytes = message.received.bytes.zip(message.sent.bytes);
        (is_far || message.received.ended >= message.sent.begun)
            && bytes.is_none_or(|(one, other)| one == other)
    };
    let received = by_mark(records, EventKind::Received);
    let sent = by_mark(records, EventKind::Sent);
    let marked = sent.into_iter().filter_map(|(mark, sent)| {
        let ((from, sent), (to, received)) = sent.zip(*received.get(&mark)?)?;
        Some(Message {
            from,
            sent,
            to,
            received,
        })
    });
    let mut found: Vec<Message<'_>> = marked.filter(|message| fits(message)).collect();
    let known: HashSet<*const EventRecord> = found
        .iter()
        .flat_map(|one| [one.sent, one.received])
        .map(std::ptr::from_ref)
        .collect();
    // Whoever has a mark of its own is known by nothing else.
    let is_open = |event: &EventRecord, from: u32| {
        !known.contains(&std::ptr::from_ref(event)) && mark::rank_of(event.mark) != Some(from)
    };
    let counted = all_counted(records).into_iter();
    found.extend(
        counted.filter(|one| {
            is_open(one.sent, one.from) && is_open(one.received, one.from) && fits(one)
        }),
    );
    found.sort_by_key(|one| (one.from, one.sent.begun));
    found
}

/// Which send belongs to which receive, as far as they can be counted.
fn all_counted(records: &[RankRecord]) -> Vec<Message<'_>> {
    let mut sent: BTreeMap<Key, Vec<&EventRecord>> = BTreeMap::new();
    let mut received: BTreeMap<Key, Vec<&EventRecord>> = BTreeMap::new();
    for record in records {
        for event in record.events() {
            let Some(peer) = event.peer else {
                continue;
            };
            let (me, context, tag) = (record.rank, event.context, event.tag);
            match event.kind {
                _ if context == NO_CONTEXT => {}
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
    let mut found = Vec::new();
    for (key, sends) in &mut sent {
        let Some(receives) = received.get_mut(key) else {
            continue;
        };
        sends.sort_by_key(|event| event.begun);
        receives.sort_by_key(|event| event.begun);
        let pairs = counted(sends, receives, (of(key.0), of(key.1)));
        found.extend(pairs.map(|(sent, received)| Message {
            from: key.0,
            sent,
            to: key.1,
            received,
        }));
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
            mark: 0,
        }
    }

    /// The same, where each message carries a mark.
    fn marked(mut records: Vec<RankRecord>) -> Vec<RankRecord> {
        let first = mark::first_of(0).expect("a small rank");
        for record in &mut records {
            for event in &mut record.threads[0].events {
                if matches!(event.kind, EventKind::Sent | EventKind::Received) {
                    event.mark = first + event.begun / 10;
                }
            }
        }
        records
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
    fn what_is_marked_is_found_between_gaps_as_well() {
        let gaps: [&[(u64, u64)]; 2] = [&[(100, 150), (300, 400)], &[(220, 250), (333, 380)]];
        // Those that one of them has left out are none.
        let there = |at: &u64| {
            let times = [*at, *at + 5];
            let left_out = |(gaps, at): (&[(u64, u64)], u64)| {
                gaps.iter().any(|gap| (gap.0..gap.1).contains(&at))
            };
            !gaps.into_iter().zip(times).any(left_out)
        };
        let expected: Vec<_> = (0..100).map(|at| at * 10).filter(there).collect();
        assert_eq!(sent(&marked(ranks(100, gaps))), expected);
        // Whoever has not finished as well.
        let mut records = marked(ranks(100, gaps));
        records[1].threads[0].events.pop();
        assert_eq!(sent(&records), expected);
    }

    #[test]
    fn a_mark_that_two_have_says_nothing() {
        let mut records = marked(ranks(10, [&[], &[]]));
        let events = &mut records[1].threads[0].events;
        events[3].mark = events[4].mark;
        let expected = [0, 10, 20, 50, 60, 70, 80, 90];
        assert_eq!(sent(&records), expected);
    }

    #[test]
    fn the_word_of_a_transfer_counts_among_what_was_sent_alike() {
        let mut records = ranks(10, [&[(30, 50)], &[(0, 20), (60, 70)]]);
        for record in &mut records {
            for event in &mut record.threads[0].events {
                event.mark = event.begun / 10 + 1;
            }
        }
        assert_eq!(sent(&records), [20, 50, 70, 80, 90]);
        // To another communicator, or of another sender, it is another one.
        records[1].threads[0].events[0].context = 10;
        assert_eq!(sent(&records)[0], 50);
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
