//! Values that ranks exchange through their launchers: put, fence, get.
//!
//! The members are the ranks of a launcher that has them all, or the launchers of several hosts towards
//! the one above them. What was put before a fence is handed on when the last member comes to it.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::bootstrap::{NAME_LIMIT, VALUE_LIMIT};

/// Values that one rank may put. It publishes a few addresses; without a limit a broken one could fill
/// the memory of all launchers.
const MOST: usize = 256;

/// One value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Whose.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub value: Vec<u8>,
}

/// The values of a job, as one launcher knows them.
#[derive(Debug)]
pub struct Exchange {
    members: u32,
    values: HashMap<u32, HashMap<String, Vec<u8>>>,
    /// Put since the last fence.
    fresh: Vec<Entry>,
    /// Members that have come to the next fence.
    arrived: BTreeSet<u32>,
}

impl Exchange {
    /// Among so many members.
    pub fn new(members: u32) -> Self {
        Self {
            members,
            values: HashMap::new(),
            fresh: Vec::new(),
            arrived: BTreeSet::new(),
        }
    }

    /// Keeps a value. False if there is no room: too long, or too many of that rank.
    pub fn put(&mut self, entry: Entry) -> bool {
        let kept = self.keep(&entry);
        if kept {
            self.fresh.push(entry);
        }
        kept
    }

    /// Keeps a value that others know already.
    pub fn keep(&mut self, entry: &Entry) -> bool {
        let values = self.values.entry(entry.rank).or_default();
        let room = values.len() < MOST || values.contains_key(&entry.name);
        if !room || entry.name.len() > NAME_LIMIT || entry.value.len() > VALUE_LIMIT {
            return false;
        }
        values.insert(entry.name.clone(), entry.value.clone());
        true
    }

    /// A value.
    pub fn get(&self, rank: u32, name: &str) -> Option<&Vec<u8>> {
        self.values.get(&rank)?.get(name)
    }

    /// A member has come to the fence. If it was the last: what was put since the one before.
    pub fn arrive(&mut self, member: u32) -> Option<Vec<Entry>> {
        self.arrived.insert(member);
        if self.arrived.len() < self.members as usize {
            return None;
        }
        self.arrived.clear();
        Some(std::mem::take(&mut self.fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rank: u32, name: &str, value: &[u8]) -> Entry {
        Entry {
            rank,
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn the_last_one_at_the_fence_opens_it() {
        let mut exchange = Exchange::new(2);
        assert!(exchange.put(entry(0, "a", b"1")));
        assert_eq!(exchange.arrive(0), None);
        assert_eq!(exchange.arrive(0), None, "the same one again");
        assert!(exchange.put(entry(1, "a", b"2")));
        let handed = exchange.arrive(1).expect("both came");
        assert_eq!(handed, [entry(0, "a", b"1"), entry(1, "a", b"2")]);
        assert_eq!(exchange.get(1, "a"), Some(&b"2".to_vec()));
        assert_eq!((exchange.get(1, "b"), exchange.get(2, "a")), (None, None));
        assert_eq!(exchange.arrive(1), None);
        assert_eq!(exchange.arrive(0), Some(Vec::new()));
    }

    #[test]
    fn a_rank_has_bounded_room() {
        let mut exchange = Exchange::new(1);
        for index in 0..MOST {
            assert!(exchange.put(entry(0, &index.to_string(), b"")));
        }
        assert!(!exchange.put(entry(0, "more", b"")));
        assert!(exchange.put(entry(0, "0", b"new")), "it is there already");
        assert!(exchange.put(entry(1, "more", b"")), "another rank");
        assert!(!exchange.put(entry(1, "long", &[0; VALUE_LIMIT + 1])));
    }
}
