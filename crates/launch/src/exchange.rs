//! Values that ranks exchange through their launchers: put, fence, get.
//!
//! The members are the ranks of a launcher that has them all, or the launchers of several hosts, for the one above them.
//! Values put before a fence are handed on when the last member comes to it.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::control;

/// Values that one rank may put. It publishes a few addresses; without a limit a broken one could fill
/// the memory of all launchers.
const MOST: usize = 256;

/// From so many bytes on, values go in several messages between launchers.
const PORTION: usize = 256 << 10;

/// One value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PublishedValue {
    /// The owner.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
}

/// The values of a job, as one launcher knows them.
#[derive(Debug)]
pub struct Exchange {
    members: u32,
    values: HashMap<u32, HashMap<String, Vec<u8>>>,
    /// Put since the last fence: whose, and its name.
    fresh: BTreeSet<(u32, String)>,
    /// Members that have come to the next fence.
    arrived: BTreeSet<u32>,
    /// Members that come to none any more.
    gone: BTreeSet<u32>,
}

impl Exchange {
    /// Among this many members.
    pub fn new(members: u32) -> Self {
        Self {
            members,
            values: HashMap::new(),
            fresh: BTreeSet::new(),
            arrived: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Keeps a value. False if there is no room: too long, or too many of that rank.
    pub fn put(&mut self, value: PublishedValue) -> bool {
        let kept = self.keep(&value);
        if kept {
            self.fresh.insert((value.rank, value.name));
        }
        kept
    }

    /// Keeps a value that others know already.
    pub fn keep(&mut self, value: &PublishedValue) -> bool {
        let values = self.values.entry(value.rank).or_default();
        let room = values.len() < MOST || values.contains_key(&value.name);
        if !room || !control::is_value(&value.name, &value.value) {
            return false;
        }
        values.insert(value.name.clone(), value.value.clone());
        true
    }

    /// A value.
    pub fn get(&self, rank: u32, name: &str) -> Option<&Vec<u8>> {
        self.values.get(&rank)?.get(name)
    }

    /// A member has come to the fence. If it was the last, returns the values that were put since the fence before.
    pub fn arrive(&mut self, member: u32) -> Option<Vec<PublishedValue>> {
        self.arrived.insert(member);
        self.open()
    }

    /// A member has ended: it is not waited for any more. As [`arrive`](Self::arrive), if others wait for it alone.
    pub fn leave(&mut self, member: u32) -> Option<Vec<PublishedValue>> {
        self.gone.insert(member);
        self.open()
    }

    fn open(&mut self) -> Option<Vec<PublishedValue>> {
        let settled = self.arrived.union(&self.gone).count();
        if self.arrived.is_empty() || settled < self.members as usize {
            return None;
        }
        self.arrived.clear();
        let fresh = std::mem::take(&mut self.fresh).into_iter();
        let published = |(rank, name): (u32, String)| {
            let value = self.get(rank, &name)?.clone();
            Some(PublishedValue { rank, name, value })
        };
        Some(fresh.filter_map(published).collect())
    }
}

/// Values in portions that are short enough for a message between launchers.
pub fn portions(values: Vec<PublishedValue>) -> impl Iterator<Item = Vec<PublishedValue>> {
    portions_of(values, PORTION)
}

/// … in portions of so many bytes, and one value more.
pub fn portions_of(
    values: Vec<PublishedValue>,
    most: usize,
) -> impl Iterator<Item = Vec<PublishedValue>> {
    let mut values = values.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut portion = Vec::new();
        let mut bytes = 0;
        while bytes < most
            && let Some(value) = values.next()
        {
            bytes += value.name.len() + value.value.len() + size_of::<PublishedValue>();
            portion.push(value);
        }
        (!portion.is_empty()).then_some(portion)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::VALUE_LIMIT;

    fn value(rank: u32, name: &str, value: &[u8]) -> PublishedValue {
        PublishedValue {
            rank,
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn the_last_one_at_the_fence_opens_it() {
        let mut exchange = Exchange::new(2);
        assert!(exchange.put(value(0, "a", b"1")));
        assert_eq!(exchange.arrive(0), None);
        assert_eq!(exchange.arrive(0), None, "the same one again");
        assert!(exchange.put(value(1, "a", b"2")));
        let handed = exchange.arrive(1).expect("both came");
        assert_eq!(handed, [value(0, "a", b"1"), value(1, "a", b"2")]);
        assert_eq!(exchange.get(1, "a"), Some(&b"2".to_vec()));
        assert_eq!((exchange.get(1, "b"), exchange.get(2, "a")), (None, None));
        assert_eq!(exchange.arrive(1), None);
        assert_eq!(exchange.arrive(0), Some(Vec::new()));
    }

    #[test]
    fn a_rank_has_bounded_room() {
        let mut exchange = Exchange::new(1);
        for index in 0..MOST {
            assert!(exchange.put(value(0, &index.to_string(), b"")));
        }
        assert!(!exchange.put(value(0, "more", b"")));
        assert!(exchange.put(value(0, "0", b"new")), "it is there already");
        assert!(exchange.put(value(1, "more", b"")), "another rank");
        assert!(!exchange.put(value(1, "long", &[0; VALUE_LIMIT + 1])));
    }

    /// However often a rank puts a value under the same name: one is handed on, the last one.
    #[test]
    fn what_is_put_again_takes_the_place_of_what_was_put() {
        let mut exchange = Exchange::new(1);
        for round in 0..10_000u32 {
            assert!(exchange.put(value(0, "a", &round.to_ne_bytes())));
        }
        let handed = exchange.arrive(0).expect("all came");
        assert_eq!(handed, [value(0, "a", &9_999u32.to_ne_bytes())]);
    }

    /// What ranks put may be more than a message between launchers takes.
    #[test]
    fn many_values_go_in_messages_that_are_taken() {
        use crate::hosts::message::{FromAgent, encode};
        use crate::hosts::protocol::LONGEST;
        let all: Vec<PublishedValue> = (0..5000)
            .map(|rank| value(rank, "card", &[7; VALUE_LIMIT]))
            .collect();
        let portions: Vec<_> = portions(all.clone()).collect();
        for values in portions.clone() {
            assert!(encode(&FromAgent::Put { values }).len() <= LONGEST);
        }
        assert_eq!(portions.concat(), all);
    }
}
