//! From keys to buckets: open addressing with linear probing, buckets by stable index.

use std::ops::{Index, IndexMut};

use crate::list::{List, NONE};
use crate::{Envelope, Pattern, SourcePattern, TagPattern};

/// How a message is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Exact = 0,
    AnyTag = 1,
    AnySource = 2,
    AnyBoth = 3,
}

/// A (context, source, tag) in a view, with zeros for what the view leaves open.
///
/// ```text
///   high: { context: 32, view: 2 }    low: { source: 32, tag: 32 }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    high: u64,
    low: u64,
}

impl Key {
    #[inline]
    pub(crate) fn of(envelope: &Envelope, view: View) -> Self {
        let source = if matches!(view, View::Exact | View::AnyTag) {
            envelope.source.0
        } else {
            0
        };
        let tag = if matches!(view, View::Exact | View::AnySource) {
            envelope.tag.0.cast_unsigned()
        } else {
            0
        };
        Self {
            high: u64::from(envelope.context.0) << 2 | view as u64,
            low: u64::from(source) << 32 | u64::from(tag),
        }
    }

    #[inline]
    pub(crate) fn of_pattern(pattern: &Pattern) -> (Self, View) {
        let (view, source, tag) = match (pattern.source, pattern.tag) {
            (SourcePattern::Exact(source), TagPattern::Exact(tag)) => {
                (View::Exact, source.0, tag.0)
            }
            (SourcePattern::Exact(source), TagPattern::Any) => (View::AnyTag, source.0, 0),
            (SourcePattern::Any, TagPattern::Exact(tag)) => (View::AnySource, 0, tag.0),
            (SourcePattern::Any, TagPattern::Any) => (View::AnyBoth, 0, 0),
        };
        let key = Self {
            high: u64::from(pattern.context.0) << 2 | view as u64,
            low: u64::from(source) << 32 | u64::from(tag.cast_unsigned()),
        };
        (key, view)
    }

    /// Multiply-shift: a few cycles, and neighbouring tags spread over the table.
    #[inline]
    fn hash(self) -> u64 {
        let mixed = self.low.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.high.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

/// The two lists of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    key: Key,
    pub posted: List,
    pub unexpected: List,
}

/// Invariants: `slots` has a power of two places, at most half of them taken; each taken place names a
/// bucket in use; a bucket with a list that is not empty is never swept out.
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    /// The bucket found last: the next question is often about it.
    last: u32,
}

const FEWEST: usize = 64;

impl Default for Table {
    fn default() -> Self {
        Self {
            slots: vec![NONE; FEWEST],
            buckets: Vec::new(),
            free: Vec::new(),
            last: NONE,
        }
    }
}

impl Table {
    #[inline]
    fn place(&self, key: Key) -> usize {
        (key.hash() >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// The bucket of a key.
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<u32> {
        if let Some(bucket) = self.buckets.get(self.last as usize)
            && bucket.key == key
        {
            return Some(self.last);
        }
        let mask = self.slots.len() - 1;
        let mut place = self.place(key);
        loop {
            match self.slots[place] {
                NONE => return None,
                bucket if self.buckets[bucket as usize].key == key => {
                    self.last = bucket;
                    return Some(bucket);
                }
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// A bucket for a key that has none.
    pub(crate) fn insert(&mut self, key: Key) -> u32 {
        if (self.buckets.len() - self.free.len() + 1) * 2 > self.slots.len() {
            self.rebuild();
        }
        let bucket = Bucket {
            key,
            posted: List::EMPTY,
            unexpected: List::EMPTY,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.buckets[index as usize] = bucket;
                index
            }
            None => {
                self.buckets.push(bucket);
                u32::try_from(self.buckets.len() - 1).expect("buckets fit in memory")
            }
        };
        self.occupy(index);
        self.last = index;
        index
    }

    pub(crate) fn find_or_insert(&mut self, key: Key) -> u32 {
        match self.find(key) {
            Some(bucket) => bucket,
            None => self.insert(key),
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn occupy(&mut self, bucket: u32) {
        let mask = self.slots.len() - 1;
        let mut place = self.place(self.buckets[bucket as usize].key);
        while self.slots[place] != NONE {
            place = (place + 1) & mask;
        }
        self.slots[place] = bucket;
    }

    /// Sweeps emptied buckets out, and doubles the table if few were.
    #[cold]
    fn rebuild(&mut self) {
        let kept: Vec<u32> = self
            .slots
            .iter()
            .copied()
            .filter(|bucket| *bucket != NONE)
            .filter(|bucket| {
                let bucket = &self.buckets[*bucket as usize];
                !bucket.posted.is_empty() || !bucket.unexpected.is_empty()
            })
            .collect();
        let mut keep = vec![false; self.buckets.len()];
        for bucket in &kept {
            keep[*bucket as usize] = true;
        }
        self.free = (0..)
            .zip(&keep)
            .filter(|(_, kept)| !**kept)
            .map(|(index, _)| index)
            .collect();
        // Half of the places that may be taken stay free, so the next rebuild is as far away again.
        let places = (kept.len() * 4 + 1).next_power_of_two().max(FEWEST);
        self.slots.clear();
        self.slots.resize(places, NONE);
        self.last = NONE;
        for bucket in kept {
            self.occupy(bucket);
        }
    }
}

impl Index<u32> for Table {
    type Output = Bucket;
    #[inline]
    fn index(&self, bucket: u32) -> &Bucket {
        &self.buckets[bucket as usize]
    }
}

impl IndexMut<u32> for Table {
    #[inline]
    fn index_mut(&mut self, bucket: u32) -> &mut Bucket {
        &mut self.buckets[bucket as usize]
    }
}
