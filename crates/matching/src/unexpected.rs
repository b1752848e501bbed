//! Unexpected messages: messages for which no receive was posted, in order of arrival.
//!
//! They are kept like posted receives (posted.rs), but each of the four kinds of pattern has its own index
//! over *all* messages and its own cursor: a look-up of a kind searches that index, then walks on from that
//! cursor. The index of an unused kind stays empty and costs nothing.

use crate::LAG;
use crate::index::{Index, IndexSlot};
use crate::key::{KINDS, Key, WildcardKind};
use crate::store::{NONE, Node, Store};

const _: () = assert!(size_of::<Node<u32, KINDS>>() <= 64);

/// The position of a message that was found; valid until anything changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    id: u32,
    /// The kind by which it was looked up, and its slot, if it is in the index of that kind.
    indexed: Option<(WildcardKind, IndexSlot)>,
}

/// The unexpected messages of one engine.
#[derive(Debug)]
pub(crate) struct Unexpected<U> {
    store: Store<U, KINDS>,
    /// For each kind, the oldest message that is not in its index; nor are all younger ones.
    cursors: [u32; KINDS],
    /// Kinds that were ever looked up beyond the oldest message: their indices are kept up to date.
    asked: [bool; KINDS],
    indices: [Index; KINDS],
}

impl<U: Copy> Unexpected<U> {
    pub(crate) fn new() -> Self {
        Self {
            store: Store::new(),
            cursors: [NONE; KINDS],
            asked: [true, false, false, false],
            indices: Default::default(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.store.len()
    }

    /// Adds a message behind all others.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, value: U) {
        let id = self.store.push(key, value);
        for cursor in &mut self.cursors {
            *cursor = if *cursor == NONE { id } else { *cursor };
        }
        if self.store.len() > LAG {
            self.keep_up();
        }
    }

    /// Keeps the walk of later look-ups short, for the kinds in use. Two steps at a time, for kinds first
    /// used when more messages were there already.
    #[cold]
    #[inline(never)]
    fn keep_up(&mut self) {
        for kind in WildcardKind::ALL {
            let lane = kind as usize;
            for _ in 0..2 {
                if self.asked[lane] && self.store.len() - self.indices[lane].nodes() > LAG {
                    self.advance(kind);
                }
            }
        }
    }

    /// The oldest message that matches, and its position.
    #[inline(always)]
    pub(crate) fn find(&mut self, kind: WildcardKind, key: Key) -> Option<(Place, U)> {
        let lane = kind as usize;
        // Usually it is the oldest of its key in the index, or the oldest of all, and in no index.
        if self.indices[lane].nodes() != 0 {
            if let Some((slot, node)) = self.indices[lane].oldest(&self.store, kind, key) {
                let place = Place {
                    id: slot.id(),
                    indexed: Some((kind, slot)),
                };
                return Some((place, node.value));
            }
        } else {
            let id = self.cursors[lane];
            if id != NONE {
                let node = self.store.node(id);
                if kind.project(node.key()) == key {
                    return Some((Place { id, indexed: None }, node.value));
                }
            }
        }
        let id = self.find_further(kind, key);
        (id != NONE).then(|| (Place { id, indexed: None }, self.store.node(id).value))
    }

    /// The same among the messages that are not in the index of the kind; returns the message, or [`NONE`].
    #[inline(never)]
    fn find_further(&mut self, kind: WildcardKind, key: Key) -> u32 {
        let lane = kind as usize;
        while self.cursors[lane] != NONE {
            let id = self.cursors[lane];
            if kind.project(self.store.node(id).key()) == key {
                return id;
            }
            self.advance(kind);
        }
        NONE
    }

    /// Indexes the message at the cursor of a kind.
    #[inline(never)]
    fn advance(&mut self, kind: WildcardKind) {
        let lane = kind as usize;
        let id = self.cursors[lane];
        self.asked[lane] = true;
        self.cursors[lane] = self.store.node(id).order.after;
        self.indices[lane].insert(&mut self.store, lane, kind, id);
    }

    /// A message that was found.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> (Key, U) {
        let node = self.store.node(place.id);
        (node.key(), node.value)
    }

    /// Removes a message that was found.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) -> (Key, U) {
        let message = self.get(place);
        self.unlink(place);
        message
    }

    /// Forgets a message that was found.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, place: Place) {
        let Place { id, indexed } = place;
        let (mut nodes, ends) = self.store.parts();
        let own = indexed.map_or(0, |(kind, _)| 1 << kind as u32);
        if nodes.get(id).lanes_in != own {
            return self.leave(place);
        }
        if let Some((kind, slot)) = indexed {
            // The message is the oldest of its key, and its slot is known.
            let lane = kind as usize;
            self.indices[lane].remove_oldest(&mut nodes, lane, slot);
        }
        let after = nodes.get(id).order.after;
        for cursor in &mut self.cursors {
            *cursor = if *cursor == id { after } else { *cursor };
        }
        ends.remove(&mut nodes, id);
    }

    /// The same for a message that is also in the indices of other kinds: leaves those first.
    #[inline(never)]
    fn leave(&mut self, place: Place) {
        let own = place.indexed.map(|(kind, _)| kind);
        for kind in WildcardKind::ALL {
            let lane = kind as usize;
            let is_in = self.store.node(place.id).lanes_in & (1 << lane) != 0;
            if is_in && own != Some(kind) {
                self.indices[lane].remove(&mut self.store, lane, kind, place.id);
            }
        }
        self.unlink(place);
    }

    /// All messages, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, U)> {
        self.store.iter().map(|node| (node.key(), node.value))
    }
}

#[cfg(test)]
impl<U: Copy> Unexpected<U> {
    /// Panics unless order, cursors and indices agree.
    pub(crate) fn check(&self) {
        for kind in WildcardKind::ALL {
            let lane = kind as usize;
            let (mut id, mut waiting, mut count) = (self.store.first(), false, 0);
            while id != NONE {
                waiting |= id == self.cursors[lane];
                let node = self.store.node(id);
                let indexed = node.lanes_in & 1 << lane != 0;
                assert_eq!(indexed, !waiting, "indexed means before the cursor");
                count += u32::from(indexed);
                id = node.order.after;
            }
            assert_eq!(
                waiting,
                self.cursors[lane] != NONE,
                "a cursor names a live message"
            );
            assert_eq!(count, self.indices[lane].nodes());
            // Other kinds may be used first when more messages are there; they catch up.
            assert!(kind != WildcardKind::Exact || self.store.len() - count <= LAG);
            assert!(self.asked[lane] || count == 0, "nobody asked for this kind");
            self.indices[lane].check(&self.store, lane, kind);
        }
    }
}
