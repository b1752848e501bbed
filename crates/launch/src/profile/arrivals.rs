//! Arrivals at collectives: which rank came last, and how long the others waited for it.
//!
//! Members number the collectives of a communicator alike, so the same number is the same collective on all of them.

use std::collections::BTreeMap;

use super::record::{Arrival, RankRecord};

/// A rank that waited for the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// The record of the rank that waited, by its number.
    pub record: usize,
    /// Its site.
    pub site: u32,
    /// When it came.
    pub begun: u64,
    /// The last rank.
    pub last: u32,
    /// Time after it, within the call.
    pub time: u64,
    /// Number of collectives that this one stands for.
    pub weight: u64,
}

/// All that waited.
#[must_use]
pub fn late(records: &[RankRecord]) -> Vec<Late> {
    let shift = records.iter().map(|one| one.arrivals_shift).max();
    let weight = 1_u64 << shift.unwrap_or(0);
    let mut collectives: BTreeMap<_, Vec<(usize, &Arrival)>> = BTreeMap::new();
    for (record, rank) in records.iter().enumerate() {
        // Those that every rank has kept.
        let kept = rank
            .arrivals
            .iter()
            .filter(|one| u64::from(one.number).is_multiple_of(weight));
        for arrival in kept {
            collectives
                .entry((arrival.communicator, arrival.number))
                .or_default()
                .push((record, arrival));
        }
    }
    let mut found = Vec::new();
    for arrivals in collectives.values() {
        let last = arrivals.iter().max_by_key(|(_, arrival)| arrival.begun);
        let Some(&(last_record, last)) = last.filter(|_| arrivals.len() > 1) else {
            continue;
        };
        let others = arrivals.iter().filter(|(record, _)| *record != last_record);
        found.extend(others.map(|&(record, arrival)| Late {
            record,
            site: arrival.site,
            begun: arrival.begun,
            last: records[last_record].rank,
            time: (last.begun - arrival.begun).min(arrival.time),
            weight,
        }));
    }
    found
}
