//! Messages of a timeline: which receive belongs to which send.
//!
//! A message is identified by a word that it has carried ([`Mark`](weft_mpi::marks::Mark)): a message of a recorded call
//! has a mark of its own, which its receiver finds in the status; for one that was announced, or is synchronous, it is
//! the word of its transfer, which is unique among those of its sender in the same engine. So it does not matter how many
//! calls were left out before, which thread made one, or in which order. A message that was held back is recorded as sent
//! with its mark, and later as *named*: with the word that it carries instead.
//!
//! A word that two messages have is ignored, and a pair that does not fit (other bytes, another receiver, received before
//! it was sent) gets no arrow.
//!
//! Between hosts the messages improve the comparison of clocks: none was received before it was sent.

use std::collections::{BTreeMap, HashMap};

use super::layout::EventKind;
use super::record::{EventRecord, RankRecord};

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The sender.
    pub from: u32,
    /// When.
    pub sent: &'a EventRecord,
    /// The receiver.
    pub to: u32,
    /// When.
    pub received: &'a EventRecord,
}

/// What a message is known by: its sender, the engine, and what it has carried.
type Mark = (u32, u32, u64);

/// An event of a rank, if no other one has its mark.
type Only<'a> = Option<(u32, &'a EventRecord)>;

fn by_mark<'a>(
    events: impl Iterator<Item = (Mark, (u32, &'a EventRecord))>,
) -> HashMap<Mark, Only<'a>> {
    let mut found = HashMap::new();
    for (mark, event) in events {
        found
            .entry(mark)
            .and_modify(|one| *one = None)
            .or_insert(Some(event));
    }
    found
}

/// The events of a kind, with their ranks.
fn events(records: &[RankRecord], kind: EventKind) -> impl Iterator<Item = (u32, &EventRecord)> {
    records.iter().flat_map(move |record| {
        let events = record.events().filter(move |event| event.kind == kind);
        events.map(|event| (record.rank, event))
    })
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
            && message.sent.peer.is_none_or(|peer| peer == message.to)
    };
    let named: HashMap<Mark, u64> = events(records, EventKind::Named)
        .filter_map(|(rank, event)| Some(((rank, event.context, event.mark), event.bytes?)))
        .collect();
    let sent = by_mark(events(records, EventKind::Sent).map(|(rank, event)| {
        let mark = (rank, event.context, event.mark);
        let word = named.get(&mark).copied().unwrap_or(event.mark);
        ((rank, event.context, word), (rank, event))
    }));
    let received = by_mark(
        events(records, EventKind::Received).filter_map(|(rank, event)| {
            Some(((event.peer?, event.context, event.mark), (rank, event)))
        }),
    );
    let both = sent.into_iter().filter_map(|(mark, sent)| {
        let ((from, sent), (to, received)) = sent.zip(*received.get(&mark)?)?;
        Some(Message {
            from,
            sent,
            to,
            received,
        })
    });
    let mut found: Vec<Message<'_>> = both.filter(fits).collect();
    found.sort_by_key(|one| (one.from, one.sent.begun, one.sent.track));
    found
}

/// Sets the clocks of other hosts so that no message to or from the first one was received before it was sent. The
/// measurement between launchers has an error of microseconds; this makes it no worse.
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
    use super::super::layout::mark;
    use super::super::record::ThreadRecord;
    use super::*;

    const BYTES: u64 = 4;

    fn event(kind: EventKind, at: u64, peer: u32, mark: u64) -> EventRecord {
        EventRecord {
            kind,
            site: 0,
            track: 0,
            begun: at,
            ended: at,
            peer: Some(peer),
            tag: 3,
            context: 0,
            bytes: Some(BYTES),
            mark,
        }
    }

    /// Rank 0 sends messages at multiples of 10, and rank 1 receives them 5 later, but for those that either has left out.
    fn ranks(count: u64, left_out: [&dyn Fn(u64) -> bool; 2]) -> Vec<RankRecord> {
        let kinds = [EventKind::Sent, EventKind::Received];
        let record = |rank: u32| {
            let numbers = (0..count).filter(|number| !left_out[rank as usize](*number));
            let at = |number| number * 10 + u64::from(rank) * 5;
            let events = numbers
                .map(|number| event(kinds[rank as usize], at(number), 1 - rank, mark(number)))
                .collect();
            RankRecord {
                rank,
                threads: vec![ThreadRecord {
                    events,
                    ..ThreadRecord::default()
                }],
                ..RankRecord::default()
            }
        };
        vec![record(0), record(1)]
    }

    fn all(_: u64) -> bool {
        false
    }

    /// The numbers of those that have an arrow; each is received 5 later.
    fn found(records: &[RankRecord]) -> Vec<u64> {
        let pairs = pairs(records);
        let wrong = pairs
            .iter()
            .find(|one| one.received.begun != one.sent.begun + 5);
        assert_eq!(wrong, None);
        pairs.iter().map(|one| one.sent.begun / 10).collect()
    }

    #[test]
    fn messages_that_both_sides_recorded_are_matched_although_others_were_left_out() {
        let everything: Vec<u64> = (0..100).collect();
        assert_eq!(found(&ranks(100, [&all, &all])), everything);
        let (one, other) = (|number| number % 7 < 3, |number| (20..50).contains(&number));
        let both: Vec<u64> = (0..100)
            .filter(|number| !one(*number) && !other(*number))
            .collect();
        assert_eq!(found(&ranks(100, [&one, &other])), both);
    }

    #[test]
    fn a_mark_that_two_have_says_nothing() {
        for rank in 0..2 {
            let mut records = ranks(10, [&all, &all]);
            let events = &mut records[rank].threads[0].events;
            events[3].mark = events[4].mark;
            assert_eq!(found(&records), [0, 1, 2, 5, 6, 7, 8, 9]);
        }
    }

    #[test]
    fn words_of_transfers_are_those_of_an_engine() {
        let mut records = ranks(10, [&all, &all]);
        for record in &mut records {
            for event in &mut record.threads[0].events {
                // Both engines number from the beginning.
                let number = event.begun / 10;
                (event.context, event.mark) = ((number % 2) as u32, number / 2 + 1);
            }
        }
        assert_eq!(found(&records).len(), 10);
        // One has left out those of the first engine, the other one those of the second.
        for (rank, engine) in [(0, 0), (1, 1)] {
            let events = &mut records[rank].threads[0].events;
            events.retain(|event| event.context != engine);
        }
        assert!(found(&records).is_empty());
    }

    #[test]
    fn what_was_held_back_is_found_by_the_word_that_it_has_left_with() {
        let mut records = ranks(4, [&all, &all]);
        let word = 77 << 24;
        records[1].threads[0].events[2].mark = word;
        assert_eq!(found(&records), [0, 1, 3]);
        records[0].threads[0].events.push(EventRecord {
            bytes: Some(word),
            ..event(EventKind::Named, 22, 1, mark(2))
        });
        assert_eq!(found(&records), [0, 1, 2, 3]);
    }

    #[test]
    fn what_does_not_fit_gets_no_arrow() {
        let mut records = ranks(5, [&all, &all]);
        let events = &mut records[1].threads[0].events;
        events[0].bytes = Some(BYTES + 1);
        (events[1].begun, events[1].ended) = (9, 9);
        // Of another sender, which this one takes for one of the job.
        events[2].peer = Some(1);
        let sent = &mut records[0].threads[0].events;
        sent[3].peer = Some(2);
        assert_eq!(found(&records), [4]);
    }
}
