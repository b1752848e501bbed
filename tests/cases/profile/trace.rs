//! Trace: a timeline that `mpiexec --timeline` writes, and the requirements of the format and of Perfetto.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// Process and thread of a track.
type Track = (Option<u64>, Option<u64>);

/// A timeline that was read.
pub struct Trace(Value);

impl Trace {
    /// Reads it.
    pub fn read(file: &Path) -> Self {
        Self(super::read(file))
    }

    /// The events of a phase.
    pub fn events(&self, phase: &str) -> Vec<&Value> {
        let all = self.0["traceEvents"].as_array().expect("a list");
        all.iter().filter(|event| event["ph"] == phase).collect()
    }

    /// How many events did not fit.
    pub fn dropped_events(&self) -> Option<u64> {
        self.0["otherData"]["dropped_events"].as_u64()
    }

    /// Checks the requirements of the format; returns how many messages there are between each two ranks.
    pub fn check(&self) -> BTreeMap<(u64, u64), usize> {
        for event in self.events("X") {
            let times = [&event["ts"], &event["dur"]].map(|time| time.as_f64().unwrap_or(-1.0));
            assert!(times.iter().all(|time| *time >= 0.0), "{event}");
            // For Perfetto, the process and the thread with number 0 are the idle ones.
            let numbers = [&event["pid"], &event["tid"]].map(|number| number.as_u64().unwrap_or(0));
            assert!(
                numbers.iter().all(|number| *number > 0) && event["name"].is_string(),
                "{event}"
            );
        }
        let calls = self.nested();
        let mut ends: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        for event in self.events("s").into_iter().chain(self.events("f")) {
            ends.entry(event["id"].as_u64().expect("a number"))
                .or_default()
                .push(event);
        }
        let points: BTreeSet<_> = self
            .events("X")
            .into_iter()
            .filter(|one| one["name"] == "receives")
            .map(|one| (&one["pid"], &one["tid"], nanoseconds(&one["ts"])))
            .map(|(process, thread, at)| (process.as_u64(), thread.as_u64(), at))
            .collect();
        let mut messages = BTreeMap::new();
        for (id, ends) in ends {
            let [start, end] = ends[..] else {
                panic!("{id} has {} ends", ends.len());
            };
            assert_eq!((&start["ph"], &end["ph"]), (&"s".into(), &"f".into()));
            assert!(start["ts"].as_f64() <= end["ts"].as_f64(), "{start} {end}");
            // Perfetto draws an arrow from the slice that begins first: that must not be the one in which the
            // receiver waits.
            let at = (
                end["pid"].as_u64(),
                end["tid"].as_u64(),
                nanoseconds(&end["ts"]),
            );
            assert!(points.contains(&at), "{end}");
            for one in [start, end] {
                // Each lies within a call.
                let at = nanoseconds(&one["ts"]);
                let track = (one["pid"].as_u64(), one["tid"].as_u64());
                let on_track = calls.get(&track).map_or(&[][..], Vec::as_slice);
                let after = on_track.partition_point(|(begun, _)| *begun <= at);
                let around = after.checked_sub(1).map(|before| on_track[before]);
                assert!(
                    around.is_some_and(|(_, ended)| at <= ended),
                    "{one}, {around:?}"
                );
            }
            let ranks = [start, end].map(|one| one["pid"].as_u64().expect("a rank") - 1);
            *messages.entry((ranks[0], ranks[1])).or_default() += 1;
        }
        messages
    }

    /// Checks that the slices of each track are nested or disjoint, as the format requires; returns when the
    /// calls of each track began and ended.
    fn nested(&self) -> BTreeMap<Track, Vec<(i64, i64)>> {
        let mut tracks: BTreeMap<_, Vec<(i64, i64, &Value)>> = BTreeMap::new();
        for event in self.events("X") {
            let begun = nanoseconds(&event["ts"]);
            let track = (event["pid"].as_u64(), event["tid"].as_u64());
            let ends = (begun, begun + nanoseconds(&event["dur"]));
            tracks
                .entry(track)
                .or_default()
                .push((ends.0, ends.1, event));
        }
        let mut calls = BTreeMap::new();
        for (track, mut slices) in tracks {
            slices.sort_by_key(|one| (one.0, -one.1));
            let mut open: Vec<(i64, &Value)> = Vec::new();
            for &(begun, ended, event) in &slices {
                while open.last().is_some_and(|(end, _)| *end <= begun) {
                    open.pop();
                }
                if let Some((end, around)) = open.last() {
                    assert!(ended <= *end, "{event} reaches beyond {around}");
                    assert!(
                        event["cat"] != "call" || around["cat"] != "call",
                        "{event} within {around}"
                    );
                }
                open.push((ended, event));
            }
            let own = slices.iter().filter(|(.., one)| one["cat"] == "call");
            calls.insert(
                track,
                own.map(|(begun, ended, _)| (*begun, *ended)).collect(),
            );
        }
        calls
    }
}

/// Nanoseconds, as Perfetto computes them from microseconds: it cuts off smaller fractions.
fn nanoseconds(microseconds: &Value) -> i64 {
    (microseconds.as_f64().expect("a number") * 1000.0) as i64
}

/// The slices of calls, by their tracks, in order.
pub struct Calls<'a>(BTreeMap<Track, Vec<&'a Value>>);

impl<'a> Calls<'a> {
    /// Those of a timeline.
    pub fn of(trace: &'a Trace) -> Self {
        let mut tracks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let slices = trace.events("X").into_iter();
        for call in slices.filter(|one| one["cat"] == "call") {
            tracks.entry(track_of(call)).or_default().push(call);
        }
        for calls in tracks.values_mut() {
            calls.sort_by_key(|call| nanoseconds(&call["ts"]));
        }
        Self(tracks)
    }

    /// The slice that contains a point of a track, as Perfetto searches for it.
    pub fn around(&self, point: &Value) -> &'a Value {
        let at = nanoseconds(&point["ts"]);
        let calls = &self.0[&track_of(point)];
        let after = calls.partition_point(|call| nanoseconds(&call["ts"]) <= at);
        let call = calls[after.checked_sub(1).expect("a call")];
        let ended = nanoseconds(&call["ts"]) + nanoseconds(&call["dur"]);
        assert!(at <= ended, "{point} after {call}");
        call
    }
}

/// The track of an event.
fn track_of(event: &Value) -> Track {
    (event["pid"].as_u64(), event["tid"].as_u64())
}
