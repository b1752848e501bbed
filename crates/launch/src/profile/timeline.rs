//! Timeline of a job as JSON of trace events, which Perfetto and Chromium open.
//!
//! | in the file | meaning |
//! |---|---|
//! | process | a rank |
//! | thread | a thread of it that calls MPI, or a fiber |
//! | slice | a call; within it its waits, and within these the time that it slept: during the rest of a wait it polled |
//! | flow | a message, from the call that sends it to the end of the call that completes its receive |
//! | slice "receives" | that end, a nanosecond long |
//! | slice "frequent calls are not recorded" | on a track of its own: the time in which they are not |
//!
//! Each event is a line, so the file is as long as the events, and no part of it is kept in memory.
//!
//! # Perfetto's interpretation
//! Processes and threads are numbered from 1, as 0 is the idle one to Perfetto. It turns microseconds into nanoseconds by
//! truncation, so times are written an eighth of a nanosecond later: otherwise a slice now and then would end a
//! nanosecond early, and a slice within it reach beyond it, or the end of an arrow miss it. An arrow leads from the
//! innermost slice around one of its ends to that around the other, *from the one that begins first*: if the receiver has
//! waited since before the message was sent, that would be its wait. So the end has a slice of its own.
//! No display unit is given: some versions take it for the unit of the times.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::layout::{Cause, EventKind};
use super::record::{EventRecord, RankRecord};
use super::{arrivals, messages};

/// Summary of a written file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Events of ranks.
    pub events: usize,
    /// Messages with both ends.
    pub messages: usize,
    /// Older events that had given way.
    pub dropped: u64,
    /// Nanoseconds in which frequent calls were left out, of all ranks …
    pub left_out: u64,
    /// … and of how many.
    pub whole: u64,
}

impl Written {
    /// For the user.
    #[must_use]
    pub fn line(&self, file: &Path) -> String {
        let dropped = match self.dropped {
            0 => String::new(),
            some => format!("; {some} older events had no room and are not there"),
        };
        let gaps = match self.left_out {
            0 => String::new(),
            some => format!(
                "; in {} % of the time frequent calls are not recorded (--record-each records all, and is slower)",
                (some.saturating_mul(100) / self.whole.max(1)).max(1)
            ),
        };
        format!(
            "the timeline is in {}: {} events, {} messages{dropped}{gaps}; open it at https://ui.perfetto.dev",
            file.display(),
            self.events,
            self.messages
        )
    }
}

/// The first bit of the number of a track that belongs to a fiber.
const FIBER: u32 = 1 << 31;
/// Where the numbers of fibers begin in the file: threads have smaller ones.
const FIRST_FIBER: u32 = 1000;
/// The number of the track of what is not recorded.
const GAPS: u32 = 999;

fn thread(track: u32) -> u32 {
    match track & FIBER {
        0 => track + 1,
        _ => FIRST_FIBER.saturating_add(track & !FIBER),
    }
}

/// The number of a rank's process.
fn process(rank: u32) -> u64 {
    u64::from(rank) + 1
}

/// Microseconds, as the format has them, from the first moment of the job: such that these nanoseconds are what is left when
/// smaller parts are cut off.
fn micros(nanoseconds: u64) -> f64 {
    (nanoseconds as f64 + 0.125) / 1e3
}

/// Writes the whole timeline.
///
/// # Errors
/// If it cannot be written.
pub fn write(out: &mut impl Write, records: &[RankRecord]) -> io::Result<Written> {
    let all = records.iter().flat_map(RankRecord::events);
    let start = all.map(|event| event.begun).min().unwrap_or(0);
    let mut written = Written {
        events: 0,
        messages: 0,
        dropped: records
            .iter()
            .map(RankRecord::dropped)
            .fold(0, u64::saturating_add),
        left_out: 0,
        whole: 0,
    };
    out.write_all(b"{\"traceEvents\":[\n")?;
    let mut first = true;
    let mut line = |out: &mut dyn Write, value: &Value| {
        if !std::mem::take(&mut first) {
            out.write_all(b",\n")?;
        }
        serde_json::to_writer(out, value).map_err(io::Error::from)
    };
    let late = arrivals::late(records);
    let last: BTreeMap<(usize, u64), u32> = late
        .iter()
        .map(|one| ((one.record, one.begun), one.last))
        .collect();
    for (number, record) in records.iter().enumerate() {
        for value in names(record) {
            line(out, &value)?;
        }
        let ends = record.events().map(|event| event.ended).max();
        written.whole += ends.map_or(0, |end| end.saturating_sub(start));
        // Each thread tells of a gap.
        let gaps: BTreeMap<u64, u64> = record
            .events()
            .filter(|event| event.kind == EventKind::Gap)
            .map(|event| (event.begun, event.ended))
            .collect();
        for (begun, ended) in gaps {
            written.left_out += ended.saturating_sub(begun);
            line(out, &gap(record, (begun, ended), start))?;
        }
        for event in record.events() {
            let last = last.get(&(number, event.begun)).copied();
            if let Some(value) = slice(record, event, last, start) {
                line(out, &value)?;
                written.events += 1;
            }
        }
    }
    let mut points = BTreeSet::new();
    for (number, message) in messages::pairs(records).iter().enumerate() {
        let (sent, received) = (message.sent, message.received);
        // Within the slice of the call that completes it.
        let end = received.ended.saturating_sub(1).max(sent.begun);
        if points.insert((message.to, received.track, end)) {
            line(
                out,
                &json!({"ph": "X", "name": "receives", "cat": "message", "pid": process(message.to),
                        "tid": thread(received.track), "ts": micros(end - start), "dur": micros(1)}),
            )?;
        }
        line(
            out,
            &json!({"ph": "s", "id": number, "name": "message", "cat": "message", "pid": process(message.from),
                    "tid": thread(sent.track), "ts": micros(sent.begun - start)}),
        )?;
        line(
            out,
            &json!({"ph": "f", "bp": "e", "id": number, "name": "message", "cat": "message", "pid": process(message.to),
                    "tid": thread(received.track), "ts": micros(end - start)}),
        )?;
        written.messages += 1;
    }
    let other = json!({"dropped_events": written.dropped, "unrecorded_ns": written.left_out, "whole_ns": written.whole, "events": written.events, "messages": written.messages});
    write!(out, "\n],\"otherData\":{other}}}\n")?;
    Ok(written)
}

/// The names of a rank and its tracks.
fn names(record: &RankRecord) -> Vec<Value> {
    let rank = record.rank;
    let name = match record.host.as_str() {
        "" => format!("rank {rank}"),
        host => format!("rank {rank} on {host}"),
    };
    let mut found = vec![
        json!({"ph": "M", "name": "process_name", "pid": process(rank), "args": {"name": name}}),
        json!({"ph": "M", "name": "process_sort_index", "pid": process(rank), "args": {"sort_index": rank}}),
    ];
    let mut tracks: BTreeMap<u32, String> = BTreeMap::new();
    for one in &record.threads {
        let is_quiet =
            |event: &EventRecord| matches!(event.kind, EventKind::Gap | EventKind::Named);
        let tells_gaps = one.events.iter().all(is_quiet);
        if tells_gaps && !one.events.is_empty() {
            continue;
        }
        tracks.insert(thread(one.track), format!("thread {}", one.thread));
    }
    for event in record.events().filter(|event| event.track & FIBER != 0) {
        let number = event.track & !FIBER;
        tracks
            .entry(thread(event.track))
            .or_insert_with(|| format!("fiber {number}"));
    }
    if record.events().any(|event| event.kind == EventKind::Gap) {
        tracks.insert(GAPS, "not recorded".to_owned());
    }
    found.extend(tracks.iter().map(|(track, name)| {
        json!({"ph": "M", "name": "thread_name", "pid": process(rank), "tid": track, "args": {"name": name}})
    }));
    found
}

fn gap(record: &RankRecord, (begun, ended): (u64, u64), start: u64) -> Value {
    json!({
        "ph": "X", "name": "frequent calls are not recorded", "cat": "gap", "pid": process(record.rank), "tid": GAPS,
        "ts": micros(begun.saturating_sub(start)), "dur": micros(ended.saturating_sub(begun.max(start))),
    })
}

fn slice(record: &RankRecord, event: &EventRecord, last: Option<u32>, start: u64) -> Option<Value> {
    let site = record.sites.get(event.site as usize);
    let mut arguments = serde_json::Map::new();
    let mut set = |name: &str, value: Value| arguments.insert(name.to_owned(), value);
    let (name, category) = match event.kind {
        EventKind::Call => {
            let site = site?;
            set(
                "where",
                json!(site.place.as_deref().unwrap_or(&site.object)),
            );
            if let Some(peer) = event.peer {
                set("peer", json!(peer));
                set("tag", json!(event.tag));
                set("context", json!(event.context));
            }
            if let Some(bytes) = event.bytes.filter(|bytes| *bytes > 0) {
                set("bytes", json!(bytes));
            }
            if let Some(last) = last {
                set("last", json!(last));
            }
            (site.call.clone(), "call")
        }
        EventKind::Waited => {
            let cause = Cause::of(u64::from(event.tag.unsigned_abs()));
            let whom = match event.peer {
                Some(peer) => format!("waits for rank {peer}: {}", cause.name()),
                None => format!("waits: {}", cause.name()),
            };
            if let Some(peer) = event.peer {
                set("peer", json!(peer));
            }
            set("cause", json!(cause));
            (whom, "wait")
        }
        EventKind::Slept => ("sleeps".to_owned(), "sleep"),
        EventKind::Sent | EventKind::Received | EventKind::Gap | EventKind::Named => {
            return None;
        }
    };
    Some(json!({
        "ph": "X", "name": name, "cat": category, "pid": process(record.rank), "tid": thread(event.track),
        "ts": micros(event.begun - start), "dur": micros(event.ended.saturating_sub(event.begun)), "args": arguments,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_left_when_smaller_parts_are_cut_off() {
        let cut = |text: &str| (text.parse::<f64>().expect("a number") * 1000.0) as u64;
        // From a day on only every some is tried.
        let all = (0..200_000_u64).chain((0..200_000).map(|step| 86_400_000_000_000 + step * 7919));
        for nanoseconds in all {
            let text = serde_json::to_string(&micros(nanoseconds)).expect("a number");
            assert_eq!(cut(&text), nanoseconds, "{text}");
            // Or after the whole microseconds are taken away.
            let (whole, rest) = text.split_once('.').expect("a part");
            let rest = cut(&format!("0.{rest}"));
            assert_eq!(
                whole.parse::<u64>().expect("a number") * 1000 + rest,
                nanoseconds
            );
        }
    }
}
