//! Ends of processes, kept until the ranks of other hosts are told of them.

use std::collections::BTreeMap;

use crate::hosts::message::RemoteEnd;

/// How processes have ended of which nobody was told yet, by their numbers.
#[derive(Debug, Default)]
pub struct Ends(BTreeMap<u32, i32>);

impl Ends {
    /// A process has ended with this wait status, as its agent reports.
    pub fn note(&mut self, rank: u32, status: i32) {
        self.0.insert(rank, status);
    }

    /// What the ranks of other hosts are told. One whose agent has reported no end was lost with its host.
    pub fn take(&mut self, rank: u32, in_order: bool) -> RemoteEnd {
        match self.0.remove(&rank) {
            Some(status) => RemoteEnd::Ended { status, in_order },
            None if in_order => RemoteEnd::Ended {
                status: 0,
                in_order,
            },
            None => RemoteEnd::HostLost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_reported_end_was_lost_with_its_host() {
        let mut ends = Ends::default();
        ends.note(3, 9);
        let killed = RemoteEnd::Ended {
            status: 9,
            in_order: false,
        };
        assert_eq!(ends.take(3, false), killed);
        assert_eq!(ends.take(4, false), RemoteEnd::HostLost);
        assert_eq!(
            ends.take(3, false),
            RemoteEnd::HostLost,
            "the next one with its number"
        );
    }
}
