//! Record of a rank: the data that it has written into the memory of its profile, read once, bounded, with times in
//! nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_sys::MemoryFile;
use weft_sys::clock::{Stopwatch, monotonic};

use super::estimate::{Estimate, Slice};
use super::layout::{
    self, ARRIVAL_WORDS, ARRIVALS, ARRIVALS_AT, CALL_ROWS, CALLS_AT, Cause, EVENT_WORDS, EVENTS,
    EVENTS_AT, EventKind, MOST_THREADS, SITES, SITES_AT, START, WAIT_WORDS, WAITS, WAITS_AT, area,
    call, head, site,
};

/// Longest text that is read.
const LONGEST_TEXT: usize = 512;

/// The data that one rank has written.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RankRecord {
    /// Its number in the job.
    pub rank: u32,
    /// Its host; empty if the job has only one.
    pub host: String,
    /// Its calls, by site.
    pub sites: Vec<SiteRecord>,
    /// When it came to collectives.
    pub arrivals: Vec<Arrival>,
    /// … of every 2^n-th of a communicator.
    pub arrivals_shift: u32,
    /// Records of its threads.
    pub threads: Vec<ThreadRecord>,
    /// Calls, waits and threads for which there was no room.
    pub left_out: u64,
}

/// The calls at one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SiteRecord {
    /// The call.
    pub call: String,
    /// The place as file and line, if the rank has given it.
    pub place: Option<String>,
    /// The place as object and offset.
    pub object: String,
    /// Number of calls.
    pub count: u64,
    /// Calls among these that were left out, so that their values are estimated from the others.
    pub estimated: u64,
    /// Standard error of the count.
    pub count_error: u64,
    /// … of the time, in nanoseconds.
    pub time_error: u64,
    /// Bytes of data of all of them.
    pub bytes: u64,
    /// Nanoseconds in them: where not all were timed, as if the others had taken as long, but for what they waited.
    pub time: u64,
    /// … of which waited.
    pub waited: u64,
    /// Ticks of the longest one that was timed.
    pub longest: u64,
    /// Waits by rank.
    pub waits: Vec<WaitRecord>,
}

/// Waits for one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WaitRecord {
    /// Why.
    pub cause: Cause,
    /// The rank that was waited for; `None` if unknown.
    pub peer: Option<u32>,
    /// Nanoseconds.
    pub time: u64,
    /// Number of waits.
    pub times: u64,
}

/// When a rank came to a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// The communicator: its context, and the number of its first member in the job.
    pub communicator: (u32, u32),
    /// The collective's number on it.
    pub number: u32,
    /// Nanoseconds of the clock.
    pub begun: u64,
    /// Nanoseconds that the call took.
    pub time: u64,
    /// The place of the call, by its number among those of the rank.
    pub site: u32,
}

/// The record of one thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// The number of its track.
    pub track: u32,
    /// Its id.
    pub thread: u32,
    /// Older events that have given way.
    pub dropped: u64,
    /// Its events, in the order in which they ended.
    pub events: Vec<EventRecord>,
}

/// An event of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventRecord {
    /// Kind.
    pub kind: EventKind,
    /// The place of the call, by its number among those of the rank.
    pub site: u32,
    /// The track: a thread, or a fiber.
    pub track: u32,
    /// From when …
    pub begun: u64,
    /// … to when.
    pub ended: u64,
    /// The peer.
    pub peer: Option<u32>,
    /// The tag; of a wait the cause.
    pub tag: i32,
    /// Context of the communicator.
    pub context: u32,
    /// Bytes of data, if known.
    pub bytes: Option<u64>,
    /// The word that identifies a message; 0 for none.
    pub mark: u64,
}

impl RankRecord {
    /// Moves all of its times onto another host's clock, which is so far ahead.
    pub fn shift(&mut self, ahead: i64) {
        let move_on = |time: &mut u64| *time = time.saturating_add_signed(ahead);
        for arrival in &mut self.arrivals {
            move_on(&mut arrival.begun);
        }
        for event in self.threads.iter_mut().flat_map(|one| &mut one.events) {
            move_on(&mut event.begun);
            move_on(&mut event.ended);
        }
    }

    /// The events of all of its threads.
    pub fn events(&self) -> impl Iterator<Item = &EventRecord> {
        self.threads.iter().flat_map(|thread| &thread.events)
    }

    /// The job has ended in a gap, which nobody has told.
    fn end_gap(&mut self, begun: u64, clock: &Clock) {
        let ended = self.events().map(|event| event.ended).max();
        let (Some(thread), Some(ended)) = (self.threads.first_mut(), ended) else {
            return;
        };
        if begun == 0 {
            return;
        }
        let begun = clock.time(begun);
        thread.events.push(EventRecord {
            kind: EventKind::Gap,
            site: 0,
            track: thread.track,
            begun,
            ended: ended.max(begun),
            peer: None,
            tag: -1,
            context: 0,
            bytes: None,
            mark: 0,
        });
    }

    /// Whether older events have given way.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let dropped = self.threads.iter().map(|thread| thread.dropped);
        dropped.fold(0, u64::saturating_add)
    }
}

/// A moment, as ticks and as nanoseconds. One serves all ranks of a host, so that their times compare exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    ticks: u64,
    time: u64,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let stopwatch = Stopwatch::new();
        Self {
            ticks: stopwatch.read(),
            time: monotonic(),
        }
    }
}

/// Turns ticks of the ranks of this host into nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    ticks: u64,
    time: u64,
    passed_ticks: u64,
    passed_time: u64,
}

impl Clock {
    /// From that moment until now.
    #[must_use]
    pub fn since(start: Moment) -> Self {
        let now = Moment::now();
        Self {
            ticks: start.ticks,
            time: start.time,
            passed_ticks: now.ticks.saturating_sub(start.ticks).max(1),
            passed_time: now.time.saturating_sub(start.time).max(1),
        }
    }

    fn length(&self, ticks: u64) -> u64 {
        let scaled = u128::from(ticks) * u128::from(self.passed_time);
        u64::try_from(scaled / u128::from(self.passed_ticks)).unwrap_or(u64::MAX)
    }

    fn time(&self, ticks: u64) -> u64 {
        self.time
            .saturating_add(self.length(ticks.saturating_sub(self.ticks)))
    }
}

fn words(file: &MemoryFile, at: usize, count: usize) -> Option<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    file.read_at(at, &mut bytes).ok()?;
    let chunks = bytes.as_chunks::<8>().0;
    Some(
        chunks
            .iter()
            .map(|chunk| u64::from_ne_bytes(*chunk))
            .collect(),
    )
}

/// What a rank has written; `None` if it has not begun to.
pub(super) fn read(
    file: &MemoryFile,
    timeline: bool,
    rank: u32,
    clock: &Clock,
) -> Option<RankRecord> {
    let start = words(file, 0, START / 8)?;
    if start[head::MAGIC] != layout::MAGIC {
        return None;
    }
    let text = |word: u64| {
        let (at, length) = ((word >> 32) as usize, word as u32 as usize);
        let bytes: Vec<u8> = start.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let found = bytes.get(at..at.checked_add(length.min(LONGEST_TEXT))?)?;
        (length > 0).then(|| String::from_utf8_lossy(found).into_owned())
    };
    let mut texts: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let mut text = |word: u64| texts.entry(word).or_insert_with(|| text(word)).clone();
    let mut record = RankRecord {
        rank,
        left_out: start[head::THREADS_LEFT_OUT].saturating_add(start[head::LIGHT_LEFT_OUT]),
        ..RankRecord::default()
    };
    let each = layout::area_bytes(timeline);
    for number in 0..(start[head::THREADS] as usize).min(MOST_THREADS) {
        let at = START + number * each;
        let all = words(file, at, EVENTS_AT)?;
        let left_out = all[area::CALLS_LEFT_OUT].saturating_add(all[area::WAITS_LEFT_OUT]);
        record.left_out = record.left_out.saturating_add(left_out);
        let first = record.sites.len() as u32;
        let mut places = [None; SITES];
        for (place, slot) in places.iter_mut().enumerate() {
            let words = &all[SITES_AT + place * site::WORDS..][..site::WORDS];
            if words[site::KEY] != 0 {
                *slot = Some(record.sites.len() as u32);
                let number = words[site::NUMBER] as usize % CALL_ROWS;
                let row = &all[CALLS_AT + number * call::WORDS..][..call::WORDS];
                let slice = Slice::of(words, row);
                let (mut found, scale) = site_of(words, slice, clock, &mut text);
                found.waits = waits_of(&all, place, scale, clock);
                record.sites.push(found);
            }
        }
        // Calls of which no place is known, left out as well.
        let rows = all[CALLS_AT..].as_chunks::<{ call::WORDS }>().0;
        for row in rows.iter().take(CALL_ROWS) {
            if row[call::RECORDED] == 0 {
                record.left_out = record.left_out.saturating_add(row[call::LEFT_OUT]);
            }
        }
        let site_at = |place: usize| places.get(place).copied().flatten().unwrap_or(first);
        let arrivals = (all[area::ARRIVALS] as usize).min(ARRIVALS);
        record.arrivals_shift = record
            .arrivals_shift
            .max(all[area::ARRIVALS_SHIFT].min(31) as u32);
        let rows = all[ARRIVALS_AT..].as_chunks::<ARRIVAL_WORDS>().0;
        for row in rows.iter().take(arrivals) {
            record.arrivals.push(Arrival {
                communicator: ((row[0] >> 32) as u32, (row[3] >> 32) as u32),
                number: row[0] as u32,
                begun: clock.time(row[1]),
                time: clock.length(row[2]),
                site: site_at(row[3] as u32 as usize),
            });
        }
        let mut thread = ThreadRecord {
            track: number as u32,
            thread: all[area::THREAD] as u32,
            ..ThreadRecord::default()
        };
        if timeline {
            let told = all[area::EVENTS];
            let kept = usize::try_from(told).map_or(EVENTS, |told| told.min(EVENTS));
            thread.dropped = told - kept as u64;
            let ring = match told as usize <= EVENTS {
                true => words(file, at + EVENTS_AT * 8, kept * EVENT_WORDS)?,
                false => {
                    let mut ring = words(file, at + EVENTS_AT * 8, EVENTS * EVENT_WORDS)?;
                    ring.rotate_left(told as usize % EVENTS * EVENT_WORDS);
                    ring
                }
            };
            let rows = ring.as_chunks::<EVENT_WORDS>().0.iter();
            thread.events = rows
                .filter_map(|row| event_of(row, clock, &site_at))
                .collect();
        }
        record.threads.push(thread);
    }
    record.end_gap(start[head::GAP_BEGUN], clock);
    Some(record)
}

/// How much of the waits of calls that were recorded those are of all calls.
struct Scale {
    time: f64,
    times: f64,
}

fn site_of(
    words: &[u64],
    slice: Slice,
    clock: &Clock,
    text: &mut impl FnMut(u64) -> Option<String>,
) -> (SiteRecord, Scale) {
    let [count, timed, ticks] = [site::COUNT, site::TIMED, site::TICKS].map(|word| words[word]);
    let (waited, untimed) = (words[site::WAITED], words[site::WAITED_UNTIMED]);
    let own = ticks.saturating_sub(waited);
    let others = count.saturating_sub(timed);
    let guessed = u128::from(own) * u128::from(others) / u128::from(timed.max(1));
    let guessed = u64::try_from(guessed).unwrap_or(u64::MAX);
    let all = ticks.saturating_add(guessed).saturating_add(untimed);
    let mut estimate = [0; Estimate::WORDS];
    estimate.copy_from_slice(&words[site::ESTIMATE..][..Estimate::WORDS]);
    let usual = own as f64 / timed.max(1) as f64;
    let estimate = Estimate::from_words(estimate).after(&slice, usual);
    let estimated = estimate.count.round() as u64;
    let waited = waited.saturating_add(untimed);
    let slept = words[site::SLEPT_LEFT_OUT];
    let sampled = waited.saturating_sub(words[site::SLEPT]) as f64;
    let all_waited = waited
        .saturating_add(estimate.waited as u64)
        .saturating_add(slept);
    let scale = Scale {
        time: match sampled > 0.0 {
            true => (sampled + estimate.waited) / sampled,
            false => 1.0,
        },
        times: (count as f64 + estimate.count) / count.max(1) as f64,
    };
    let record = SiteRecord {
        call: text(words[site::CALL]).unwrap_or_else(|| "?".to_owned()),
        place: text(words[site::PLACE]),
        object: text(words[site::OBJECT]).unwrap_or_else(|| "?".to_owned()),
        count: count.saturating_add(estimated),
        estimated,
        count_error: estimate.count_variance.sqrt().round() as u64,
        time_error: clock.length(estimate.ticks_variance.sqrt() as u64),
        bytes: words[site::BYTES].saturating_add(estimate.bytes.round() as u64),
        time: clock.length(
            all.saturating_add(estimate.ticks as u64)
                .saturating_add(slept),
        ),
        waited: clock.length(all_waited),
        longest: clock.length(words[site::LONGEST]),
        waits: Vec::new(),
    };
    (record, scale)
}

fn waits_of(all: &[u64], place: usize, scale: Scale, clock: &Clock) -> Vec<WaitRecord> {
    let rows = all[WAITS_AT..].as_chunks::<WAIT_WORDS>().0;
    let rows = rows.iter().take(WAITS);
    let own = rows.filter(|row| row[0] >> 40 == place as u64 + 1);
    let scaled = |value: u64, by: f64| (value as f64 * by).round() as u64;
    own.map(|row| WaitRecord {
        cause: Cause::of(row[0] >> 32 & 0xff),
        peer: Some(row[0] as u32).filter(|peer| *peer != layout::NOBODY),
        time: clock.length(scaled(row[1], scale.time).saturating_add(row[3])),
        times: scaled(row[2], scale.times).saturating_add(row[4]),
    })
    .collect()
}

fn event_of(
    row: &[u64; EVENT_WORDS],
    clock: &Clock,
    site_at: &impl Fn(usize) -> u32,
) -> Option<EventRecord> {
    Some(EventRecord {
        kind: EventKind::of(row[0] & 0xff)?,
        site: site_at((row[0] >> 8 & 0xff_ffff) as usize),
        track: (row[0] >> 32) as u32,
        begun: clock.time(row[1]),
        ended: clock.time(row[2]),
        peer: Some((row[3] >> 32) as u32).filter(|peer| *peer != layout::NOBODY),
        tag: row[3] as u32 as i32,
        context: row[4] as u32,
        bytes: Some(row[5]).filter(|bytes| *bytes != u64::MAX),
        mark: row[6],
    })
}
