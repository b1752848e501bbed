use super::super::arrivals::late;
use super::super::layout::{EventKind, mark};
use super::super::messages::pairs;
use super::super::record::{Arrival, EventRecord, SiteRecord, ThreadRecord, WaitRecord};
use super::super::{table, timeline};
use super::*;

fn site(place: Option<&str>, count: u64, time: u64, waits: Vec<WaitRecord>) -> SiteRecord {
    SiteRecord {
        call: "MPI_Recv".into(),
        place: place.map(str::to_owned),
        object: "heat+0x10".into(),
        count,
        estimated: 0,
        count_error: 0,
        time_error: 0,
        bytes: 8 * count,
        time,
        waited: waits.iter().map(|wait| wait.time).sum(),
        longest: time,
        waits,
    }
}

fn late_sender(peer: u32, time: u64) -> WaitRecord {
    WaitRecord {
        cause: Cause::LateSender,
        peer: Some(peer),
        time,
        times: 1,
    }
}

fn record(rank: u32, sites: Vec<SiteRecord>) -> RankRecord {
    RankRecord {
        rank,
        sites,
        ..RankRecord::default()
    }
}

#[test]
fn ranks_are_added_up_by_place_also_those_that_were_killed() {
    let records = [
        record(
            0,
            vec![site(
                Some("heat.c:17 (exchange)"),
                10,
                3_000_000_000,
                vec![late_sender(1, 1_000_000_000), late_sender(2, 500)],
            )],
        ),
        // It has named nothing.
        record(
            1,
            vec![site(
                None,
                20,
                1_000_000_000,
                vec![late_sender(0, 100_000_000)],
            )],
        ),
    ];
    let summary = Summary::of(&records);
    assert_eq!((summary.ranks, summary.calls.len()), (2, 1));
    let row = &summary.calls[0];
    assert_eq!(row.place, "heat.c:17 (exchange)");
    assert_eq!((row.count, row.bytes, row.seconds), (30, 240, 4.0));
    let PerRank {
        ranks,
        min,
        mean,
        max,
        max_rank,
    } = row.per_rank;
    assert_eq!((ranks, min, mean, max, max_rank), (2, 1.0, 2.0, 3.0, 0));
    let first = row.waited_for[0];
    assert_eq!((first.rank, first.seconds), (Some(1), 1.0));
    let text = table::text(&summary);
    assert!(text.contains("late sender 1: 1.00 s"), "{text}");
    assert!(
        !text.contains("late sender 2"),
        "too little to be told: {text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 160),
        "{text}"
    );
}

fn arrival(leader: u32, number: u32, begun: u64, time: u64) -> Arrival {
    Arrival {
        communicator: (1, leader),
        number,
        begun,
        time,
        site: 0,
    }
}

#[test]
fn the_last_at_each_collective_is_named() {
    let waited = WaitRecord {
        cause: Cause::Collective,
        peer: None,
        time: 400,
        times: 2,
    };
    let mut records = [
        record(0, vec![site(Some("a.c:1"), 2, 500, vec![waited])]),
        record(5, vec![site(Some("a.c:1"), 2, 500, vec![waited])]),
        // It has not waited: it is the root, and what the others send is there.
        record(9, vec![site(Some("a.c:1"), 2, 500, vec![])]),
    ];
    // Of two communicators that share a context: what one member is in is no collective.
    records[0].arrivals = vec![
        arrival(0, 0, 100, 60),
        arrival(0, 1, 300, 5),
        arrival(7, 0, 1, 1),
    ];
    records[1].arrivals = vec![arrival(0, 0, 150, 10), arrival(0, 1, 200, 20)];
    records[2].arrivals = vec![arrival(0, 0, 120, 40), arrival(0, 1, 290, 20)];
    let found: Vec<_> = late(&records)
        .iter()
        .map(|one| (one.record, one.last, one.time))
        .collect();
    // At most as long as the call itself has taken.
    assert_eq!(found, [(0, 5, 50), (2, 5, 30), (1, 0, 20), (2, 0, 10)]);
    // One rank has kept those of every second number alone.
    records[0].arrivals_shift = 1;
    let found: Vec<_> = late(&records)
        .iter()
        .map(|one| (one.last, one.weight))
        .collect();
    assert_eq!(found, [(5, 2), (5, 2)]);
    let summary = Summary::of(&records);
    let found: Vec<_> = summary.calls[0]
        .waited_for
        .iter()
        .map(|one| (one.rank, one.times))
        .collect();
    assert_eq!(found, [(None, 4), (Some(5), 2)]);
}

fn event(kind: EventKind, peer: u32, tag: i32, begun: u64, bytes: u64) -> EventRecord {
    EventRecord {
        kind,
        site: 0,
        track: 0,
        begun,
        ended: begun + 10,
        peer: Some(peer),
        tag,
        context: 0,
        bytes: Some(bytes),
        // Each message has a tag of its own here.
        mark: mark(u64::from(tag.unsigned_abs())),
    }
}

fn with_events(rank: u32, dropped: u64, events: Vec<EventRecord>) -> RankRecord {
    let mut record = record(rank, vec![site(Some("a.c:1"), 1, 1, vec![])]);
    record.threads.push(ThreadRecord {
        dropped,
        events,
        ..ThreadRecord::default()
    });
    record
}

#[test]
fn no_message_between_hosts_is_received_before_it_was_sent() {
    use EventKind::{Received, Sent};
    let mut here = with_events(
        0,
        0,
        vec![event(Sent, 1, 3, 1_000, 8), event(Received, 1, 4, 900, 8)],
    );
    here.host = "a".into();
    // Its clock is behind by 500 at least, by 610 at most: sent at 300 and received at 910.
    let mut there = with_events(
        1,
        0,
        vec![event(Received, 0, 3, 490, 8), event(Sent, 0, 4, 300, 8)],
    );
    there.host = "b".into();
    let mut records = [here, there];
    super::super::messages::align(&mut records);
    let begun: Vec<_> = records[1].events().map(|event| event.begun).collect();
    assert_eq!(begun, [990, 800]);
    assert!(
        pairs(&records)
            .iter()
            .all(|one| one.received.ended >= one.sent.begun)
    );
}

#[test]
fn a_timeline_is_json_with_both_ends_of_each_arrow() {
    use EventKind::{Call, Received, Sent, Slept, Waited};
    let mut waited = event(Waited, 0, Cause::LateSender as i32, 105, 0);
    waited.ended = 180;
    let mut slept = event(Slept, 0, 0, 110, 0);
    slept.track = FIBER | 4;
    let records = [
        with_events(
            0,
            0,
            vec![event(Sent, 1, 3, 100, 8), event(Call, 1, 3, 100, 8)],
        ),
        with_events(1, 0, vec![waited, slept, event(Received, 0, 3, 100, 8)]),
        with_events(2, 2, vec![]),
    ];
    let mut text = Vec::new();
    let written = timeline::write(&mut text, &records).expect("memory");
    assert_eq!(
        (written.events, written.messages, written.dropped),
        (3, 1, 2)
    );
    let found: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let events = found["traceEvents"].as_array().expect("a list");
    let of = |phase: &str| {
        let mut found = Vec::new();
        for event in events.iter().filter(|event| event["ph"] == phase) {
            found.push((event["pid"].as_u64(), event["id"].as_u64()));
        }
        found
    };
    assert_eq!(of("s"), [(Some(1), Some(0))]);
    assert_eq!(of("f"), [(Some(2), Some(0))]);
    let named = |name: &str| events.iter().find(|event| event["name"] == name);
    let wait = named("waits for rank 0: late sender").expect("it is there");
    assert_eq!(
        (wait["ts"].as_f64(), wait["dur"].as_f64()),
        (Some(0.005_125), Some(0.075_125))
    );
    assert_eq!(named("sleeps").expect("it is there")["tid"], 1004);
    assert_eq!(found["otherData"]["dropped_events"], 2);
    // Without any rank it is one as well.
    let mut text = Vec::new();
    timeline::write(&mut text, &[]).expect("memory");
    assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
}

/// The first bit of the number of a track that belongs to a fiber.
const FIBER: u32 = 1 << 31;
