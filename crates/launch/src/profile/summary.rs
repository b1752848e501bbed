//! Summary of a profile: the calls of all ranks together, by call and place, those that took longest first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::arrivals;
use super::layout::Cause;
use super::record::RankRecord;

/// Most of those that were waited for that are kept of a row.
const MOST_WAITED_FOR: usize = 16;

/// All ranks together.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Ranks that have recorded anything.
    pub ranks: u32,
    /// Seconds in calls, of all ranks.
    pub seconds: f64,
    /// … of which waited.
    pub waited_seconds: f64,
    /// Calls, waits and threads for which there was no room.
    pub left_out: u64,
    /// By call and place.
    pub calls: Vec<Row>,
}

/// A call at a place.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Row {
    /// The call.
    pub call: String,
    /// The place: `heat.c:17 (exchange)`, or object and offset.
    pub place: String,
    /// Number of calls.
    pub count: u64,
    /// Calls among these that were left out: their values are estimated from the others.
    pub estimated: u64,
    /// Standard error of the count.
    pub count_error: f64,
    /// … of the seconds.
    pub seconds_error: f64,
    /// Bytes of data, as its arguments say.
    pub bytes: u64,
    /// Seconds in it, of all ranks.
    pub seconds: f64,
    /// … of which waited.
    pub waited_seconds: f64,
    /// … the longest that was timed.
    pub longest_seconds: f64,
    /// Seconds of the ranks that make the call: the least, the mean, the most, and the rank with the most.
    pub per_rank: PerRank,
    /// The ranks that were waited for, the most first.
    pub waited_for: Vec<WaitedFor>,
}

/// Seconds of the ranks that make a call.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PerRank {
    /// Number of ranks that make it.
    pub ranks: u32,
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: f64,
    /// The rank with the most.
    pub max_rank: u32,
}

/// A rank that was waited for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct WaitedFor {
    /// Why.
    pub cause: Cause,
    /// The rank; for a collective, the one that came last. `None` if unknown.
    pub rank: Option<u32>,
    /// Seconds.
    pub seconds: f64,
    /// Number of waits.
    pub times: u64,
}

/// What is known of a row while it is made.
#[derive(Default)]
struct Sums {
    count: u64,
    estimated: u64,
    count_variance: f64,
    time_variance: f64,
    bytes: u64,
    time: u64,
    waited: u64,
    longest: u64,
    per_rank: BTreeMap<u32, u64>,
    waits: BTreeMap<(Cause, Option<u32>), (u64, u64)>,
}

/// The name of a function of mpi4py as people know it: `PyMPI_recv` of `__pyx_f_6mpi4py_3MPI_PyMPI_recv`.
fn without_mangling(place: &str) -> &str {
    const MODULE: &str = "_6mpi4py_3MPI_";
    match place.find(MODULE) {
        Some(at) if place.starts_with("__pyx_") => &place[at + MODULE.len()..],
        _ => place,
    }
}

/// The sum of no numbers is 0, and not -0.
fn total(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(0.0, |total, more| total + more)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Summary {
    /// For these ranks.
    #[must_use]
    pub fn of(records: &[RankRecord]) -> Self {
        // A rank that was killed has not named its places; another one may have.
        let mut named: BTreeMap<&str, &str> = BTreeMap::new();
        for site in records.iter().flat_map(|record| &record.sites) {
            if let Some(place) = &site.place {
                named.insert(&site.object, place);
            }
        }
        let place_of = |record: &RankRecord, site: usize| {
            let site = record.sites.get(site)?;
            let place = site.place.as_deref();
            let place = place.or(named.get(&*site.object).copied());
            let place = without_mangling(place.unwrap_or(&site.object)).to_owned();
            Some((site.call.clone(), place))
        };
        let mut rows: BTreeMap<(String, String), Sums> = BTreeMap::new();
        for record in records {
            for (number, site) in record.sites.iter().enumerate() {
                let Some(key) = place_of(record, number) else {
                    continue;
                };
                let sums = rows.entry(key).or_default();
                sums.count = sums.count.saturating_add(site.count);
                sums.estimated = sums.estimated.saturating_add(site.estimated);
                sums.count_variance += (site.count_error as f64).powi(2);
                sums.time_variance += (site.time_error as f64).powi(2);
                sums.bytes = sums.bytes.saturating_add(site.bytes);
                sums.time = sums.time.saturating_add(site.time);
                sums.waited = sums.waited.saturating_add(site.waited);
                sums.longest = sums.longest.max(site.longest);
                let own = sums.per_rank.entry(record.rank).or_default();
                *own = own.saturating_add(site.time);
                for wait in &site.waits {
                    let found = sums.waits.entry((wait.cause, wait.peer)).or_default();
                    found.0 = found.0.saturating_add(wait.time);
                    found.1 = found.1.saturating_add(wait.times);
                }
            }
        }
        for late in arrivals::late(records) {
            let key = place_of(&records[late.record], late.site as usize);
            let Some(sums) = key.and_then(|key| rows.get_mut(&key)) else {
                continue;
            };
            // A rank that has only sent has come early, and has not waited.
            let site = records[late.record].sites.get(late.site as usize);
            let waited = site.map_or(0, |site| site.waited);
            let time = late.time.saturating_mul(late.weight).min(waited);
            if time == 0 {
                continue;
            }
            // What is known better is not told twice.
            if let Some(unknown) = sums.waits.get_mut(&(Cause::Collective, None)) {
                unknown.0 = unknown.0.saturating_sub(time);
            }
            let found = sums
                .waits
                .entry((Cause::Collective, Some(late.last)))
                .or_default();
            found.0 = found.0.saturating_add(time);
            found.1 = found.1.saturating_add(late.weight);
        }
        let mut calls: Vec<Row> = rows.into_iter().map(row).collect();
        calls.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let ranks: BTreeSet<u32> = records.iter().map(|record| record.rank).collect();
        Self {
            ranks: ranks.len() as u32,
            seconds: total(calls.iter().map(|row| row.seconds)),
            waited_seconds: total(calls.iter().map(|row| row.waited_seconds)),
            left_out: records
                .iter()
                .fold(0, |sum: u64, record| sum.saturating_add(record.left_out)),
            calls,
        }
    }
}

fn row(((call, place), sums): ((String, String), Sums)) -> Row {
    let times = sums.per_rank.values();
    let most = sums.per_rank.iter().max_by_key(|(_, time)| **time);
    let mut waited_for: Vec<WaitedFor> = sums
        .waits
        .into_iter()
        .filter(|(_, (time, _))| *time > 0)
        .map(|((cause, rank), (time, times))| WaitedFor {
            cause,
            rank,
            seconds: seconds(time),
            times,
        })
        .collect();
    waited_for.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    waited_for.truncate(MOST_WAITED_FOR);
    Row {
        call,
        place,
        count: sums.count,
        estimated: sums.estimated,
        count_error: sums.count_variance.sqrt(),
        seconds_error: sums.time_variance.sqrt() / 1e9,
        bytes: sums.bytes,
        seconds: seconds(sums.time),
        waited_seconds: seconds(sums.waited),
        longest_seconds: seconds(sums.longest),
        per_rank: PerRank {
            ranks: sums.per_rank.len() as u32,
            min: times.clone().min().map_or(0.0, |time| seconds(*time)),
            mean: seconds(sums.time) / sums.per_rank.len().max(1) as f64,
            max: most.map_or(0.0, |(_, time)| seconds(*time)),
            max_rank: most.map_or(0, |(rank, _)| *rank),
        },
        waited_for,
    }
}

#[cfg(test)]
mod tests;
