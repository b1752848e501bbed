//! Words of a report: lists of ranks and of places.

use std::collections::BTreeMap;

/// Ranges of ranks, and places, that are named one by one.
const NAMED: usize = 4;

/// "rank 3"; "ranks 0 to 4"; "ranks 1, 3 and 5 to 9". They are in order, each once.
pub(super) fn ranks(ranks: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let more: u32 = ranges
        .iter()
        .skip(NAMED)
        .map(|(first, last)| last - first + 1)
        .sum();
    let mut named: Vec<String> = ranges
        .iter()
        .take(NAMED)
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        })
        .collect();
    if more > 0 {
        named.push(format!("{more} others"));
    }
    let last = named.pop().unwrap_or_default();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    match named.is_empty() {
        true => format!("{noun} {last}"),
        false => format!("{noun} {} and {last}", named.join(", ")),
    }
}

/// ": 2 of MPI_Comm_dup at heat.c:17 (setup), 1 of …"; nothing if no place is known. The place of a single one needs no number.
pub(super) fn list(places: &BTreeMap<String, usize>) -> String {
    let total: usize = places.values().sum();
    let mut known: Vec<(&String, usize)> = places
        .iter()
        .filter(|(place, _)| !place.is_empty())
        .map(|(place, count)| (place, *count))
        .collect();
    known.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if known.is_empty() {
        return String::new();
    }
    let more: usize = known.iter().skip(NAMED).map(|(_, count)| count).sum();
    let mut named: Vec<String> = known
        .iter()
        .take(NAMED)
        .map(|(place, count)| match total {
            1 => format!("made by {place}"),
            _ => format!("{count} made by {place}"),
        })
        .collect();
    if more > 0 {
        named.push(format!("{more} elsewhere"));
    }
    format!(": {}", named.join(", "))
}
