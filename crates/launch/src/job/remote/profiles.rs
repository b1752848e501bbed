//! Profiles of ranks on other hosts: their agents send them, with their clocks, so that times can be compared.

use std::collections::BTreeMap;

use weft_sys::clock::monotonic;

use crate::hosts::message::{ToAgent, decode};
use crate::profile::RankRecord;

/// How often each clock is asked for.
const ASKED: u32 = 16;

/// What is known of the clock of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HostClock {
    /// How far ours is ahead, in nanoseconds.
    ahead: i64,
    /// How long the answer took by which that is known: at most half of it is wrong.
    took: u64,
    answers: u32,
}

/// What agents have sent.
#[derive(Debug, Default)]
pub struct RemoteProfiles {
    clocks: BTreeMap<usize, HostClock>,
    /// Parts of records that are not whole yet.
    parts: BTreeMap<(usize, u32), Vec<u8>>,
    records: Vec<(usize, RankRecord)>,
}

impl RemoteProfiles {
    /// Asks an agent what its clock says.
    pub fn ask_clock() -> ToAgent {
        ToAgent::AskClock { asked: monotonic() }
    }

    /// An agent has said so; whether it is to be asked once more. The answer that took the shortest time counts.
    pub fn hear_clock(&mut self, agent: usize, asked: u64, its: u64) -> bool {
        self.note_clock(agent, (asked, monotonic()), its)
    }

    fn note_clock(&mut self, agent: usize, (asked, now): (u64, u64), its: u64) -> bool {
        let took = now.saturating_sub(asked);
        let middle = asked.saturating_add(took / 2);
        let clock = self.clocks.entry(agent).or_insert(HostClock {
            ahead: 0,
            took: u64::MAX,
            answers: 0,
        });
        clock.answers += 1;
        if took < clock.took {
            clock.took = took;
            clock.ahead = middle.wrapping_sub(its).cast_signed();
        }
        clock.answers < ASKED
    }

    /// A part of a record.
    pub fn hear(&mut self, agent: usize, host: &str, rank: u32, (piece, last): (&[u8], bool)) {
        let parts = self.parts.entry((agent, rank)).or_default();
        parts.extend_from_slice(piece);
        if !last {
            return;
        }
        let whole = self.parts.remove(&(agent, rank)).unwrap_or_default();
        if let Some(mut record) = decode::<RankRecord>(&whole) {
            record.rank = rank;
            host.clone_into(&mut record.host);
            self.records.push((agent, record));
        }
    }

    /// All that are whole, with times of our clock.
    pub fn take(&mut self) -> Vec<RankRecord> {
        let clocks = &self.clocks;
        let records = std::mem::take(&mut self.records).into_iter();
        records
            .map(|(agent, mut record)| {
                record.shift(clocks.get(&agent).map_or(0, |clock| clock.ahead));
                record
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::message::encode;
    use crate::profile::record::Arrival;

    #[test]
    fn records_come_in_pieces_and_get_our_times() {
        let arrival = Arrival {
            communicator: (1, 0),
            number: 0,
            begun: 5_000,
            time: 1,
            site: 0,
        };
        let record = RankRecord {
            rank: 7,
            arrivals: vec![arrival],
            ..RankRecord::default()
        };
        let bytes = encode(&record);
        let mut profiles = RemoteProfiles::default();
        // The second answer is the quicker one: at 2 050 of ours the other clock says 50.
        assert!(profiles.note_clock(0, (1_000, 3_000), 10));
        assert!(profiles.note_clock(0, (2_000, 2_100), 50));
        assert!(profiles.note_clock(0, (4_000, 9_000), 10));
        profiles.hear(0, "other", 3, (&bytes[..4], false));
        assert!(profiles.take().is_empty());
        profiles.hear(0, "other", 3, (&bytes[4..], true));
        let [found] = <[_; 1]>::try_from(profiles.take()).expect("one");
        assert_eq!((found.rank, found.host.as_str()), (3, "other"));
        assert_eq!(found.arrivals[0].begun, 7_000);
    }
}
