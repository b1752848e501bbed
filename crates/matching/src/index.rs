//! Index: from a key to the ring of nodes that have it, oldest first, in one open-addressing table.
//!
//! ```text
//!  slot   fingerprint of the key (32) | oldest node (32)        zero: empty
//!  ring   oldest ⇄ … ⇄ youngest ⇄ oldest, through the nodes' links of this index's lane
//! ```
//!
//! - A key's home slot is given by the top bits of the fingerprint; collisions go to the next slot. At most a
//!   quarter of the slots are taken.
//! - Removal moves the slots behind back towards their homes (Knuth, The Art of Computer Programming, volume
//!   3, section 6.4, algorithm R), so no tombstones are left, and look-ups do not become slower with time.
//! - Growth does not stop the engine: the table of twice the size comes zeroed from the allocator, and each
//!   insertion of a new key moves a few slots of the old one, which is searched second until it is empty.
//! - Only the index writes its lane in the links of nodes, and its bit of `lanes_in`.

use crate::key::{Key, WildcardKind};
use crate::store::{Link, Node, Nodes, Store};

/// Slots of the first table.
const SMALLEST: usize = 64;

/// At most one slot in this many is taken: most keys are in their home slot, and a well-predicted branch is
/// worth more than the memory (8 bytes a slot).
const SPARSE: usize = 4;

/// Steps of the move from the old table to the new one at each insertion. A table of `n` slots is left when
/// `n / 4` are taken, so the move takes at most `5 / 4 n` steps, one for each slot and one for each taken
/// one; the next growth is at least `n / 4` insertions away, which make `2 n` steps.
const STEPS: usize = 8;

/// One table: a power of two of slots, or none.
#[derive(Debug, Default)]
struct Table {
    slots: Box<[u64]>,
    /// `32 - log2(slots)`.
    shift: u32,
    taken: usize,
}

const fn pack(fingerprint: u32, oldest: u32) -> u64 {
    (fingerprint as u64) << 32 | oldest as u64
}

const fn fingerprint_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

const fn oldest_of(slot: u64) -> u32 {
    slot as u32
}

impl Table {
    fn with_slots(count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        Self {
            slots: vec![0; count].into_boxed_slice(),
            shift: 32_u32.saturating_sub(count.trailing_zeros()),
            taken: 0,
        }
    }

    /// The slot of this fingerprint whose oldest node `accept` takes, with its result; otherwise the empty slot at which the search
    /// ended. The table has slots.
    #[inline(always)]
    fn search<R>(
        &self,
        fingerprint: u32,
        accept: impl Fn(u32) -> Option<R>,
    ) -> (usize, u64, Option<R>) {
        let mask = self.slots.len() - 1;
        let mut at = (fingerprint >> self.shift) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return (at, slot, None);
            }
            if fingerprint_of(slot) == fingerprint
                && let Some(answer) = accept(oldest_of(slot))
            {
                return (at, slot, Some(answer));
            }
            at = (at + 1) & mask;
        }
    }

    /// The taken slot of this fingerprint whose oldest node `accept` takes.
    #[inline(always)]
    fn find<R>(
        &self,
        fingerprint: u32,
        accept: impl Fn(u32) -> Option<R>,
    ) -> Option<(usize, u64, R)> {
        if self.taken == 0 {
            return None;
        }
        let (at, slot, answer) = self.search(fingerprint, accept);
        Some((at, slot, answer?))
    }

    /// Takes an empty slot for a key that has none.
    #[inline]
    fn place(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = (fingerprint_of(slot) >> self.shift) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
        self.taken += 1;
    }

    /// Empties a slot and closes the gap.
    #[inline(never)]
    fn erase(&mut self, at: usize) {
        let mask = self.slots.len() - 1;
        let mut gap = at;
        let mut next = at;
        loop {
            next = (next + 1) & mask;
            let slot = self.slots[next];
            if slot == 0 {
                break;
            }
            let home = (fingerprint_of(slot) >> self.shift) as usize;
            // It may move into the gap unless its home lies behind the gap.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                self.slots[gap] = slot;
                gap = next;
            }
        }
        self.slots[gap] = 0;
        self.taken -= 1;
    }
}

/// The position of a key in an index; valid until the index changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSlot {
    at: usize,
    old: bool,
    slot: u64,
}

impl IndexSlot {
    /// The oldest node of the key.
    #[inline]
    pub(crate) fn id(self) -> u32 {
        oldest_of(self.slot)
    }
}

/// The index of one lane.
#[derive(Debug, Default)]
pub(crate) struct Index {
    table: Table,
    /// The table before the last growth, until it is empty.
    old: Table,
    /// Slots of `old` before this one are empty.
    emptied: usize,
    nodes: u32,
}

impl Index {
    /// How many nodes are in the index.
    #[inline]
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The oldest node that has this key, seen by the index's kind, and its position. The index must have
    /// nodes.
    #[inline(always)]
    pub(crate) fn oldest<'a, T: Copy, const LANES: usize>(
        &self,
        store: &'a Store<T, LANES>,
        kind: WildcardKind,
        key: Key,
    ) -> Option<(IndexSlot, &'a Node<T, LANES>)> {
        self.find(key.fingerprint(), |id| {
            let node = store.node(id);
            (kind.project(node.key()) == key).then_some(node)
        })
    }

    /// The index must have nodes, so that the table has slots.
    #[inline(always)]
    fn find<R>(
        &self,
        fingerprint: u32,
        accept: impl Fn(u32) -> Option<R> + Copy,
    ) -> Option<(IndexSlot, R)> {
        let (at, slot, answer) = self.table.search(fingerprint, accept);
        if let Some(answer) = answer {
            let old = false;
            return Some((IndexSlot { at, old, slot }, answer));
        }
        let (at, slot, answer) = self.old.find(fingerprint, accept)?;
        let old = true;
        Some((IndexSlot { at, old, slot }, answer))
    }

    /// Adds a node, the youngest of its key.
    #[inline]
    pub(crate) fn insert<T: Copy, const LANES: usize>(
        &mut self,
        store: &mut Store<T, LANES>,
        lane: usize,
        kind: WildcardKind,
        id: u32,
    ) {
        if self.old.taken != 0 || SPARSE * (self.table.taken + 1) > self.table.slots.len() {
            self.make_room();
        }
        let key = kind.project(store.node(id).key());
        let fingerprint = key.fingerprint();
        let accept = |id: u32| (kind.project(store.node(id).key()) == key).then_some(());
        let (at, slot, _) = self.table.search(fingerprint, accept);
        let slot = if slot == 0 {
            self.old
                .find(fingerprint, accept)
                .map_or(0, |found| found.1)
        } else {
            slot
        };
        let oldest = oldest_of(slot);
        let ring = if slot == 0 {
            self.table.slots[at] = pack(fingerprint, id);
            self.table.taken += 1;
            Link {
                before: id,
                after: id,
            }
        } else {
            let youngest = store.node(oldest).lanes[lane].before;
            store.node_mut(oldest).lanes[lane].before = id;
            store.node_mut(youngest).lanes[lane].after = id;
            Link {
                before: youngest,
                after: oldest,
            }
        };
        let node = store.node_mut(id);
        node.lanes[lane] = ring;
        node.lanes_in |= 1 << lane;
        self.nodes += 1;
    }

    /// Removes a node, at any place of its ring.
    #[inline]
    pub(crate) fn remove<T: Copy, const LANES: usize>(
        &mut self,
        store: &mut Store<T, LANES>,
        lane: usize,
        kind: WildcardKind,
        id: u32,
    ) {
        // Only the oldest of a key has the slot: no other node is looked at.
        let fingerprint = kind.project(store.node(id).key()).fingerprint();
        let found = self.find(fingerprint, |oldest| (oldest == id).then_some(()));
        let (mut nodes, _) = store.parts();
        match found {
            Some((place, ())) => self.remove_oldest(&mut nodes, lane, place),
            None => {
                let ring = self.take_out(&mut nodes, lane, id);
                close(&mut nodes, lane, ring);
            }
        }
    }

    /// Takes out the oldest node of a key, found just before.
    #[inline(always)]
    pub(crate) fn remove_oldest<T: Copy, const LANES: usize>(
        &mut self,
        nodes: &mut Nodes<'_, T, LANES>,
        lane: usize,
        place: IndexSlot,
    ) {
        let IndexSlot { at, old, slot } = place;
        let ring = self.take_out(nodes, lane, place.id());
        if ring.after == place.id() {
            let table = if old { &mut self.old } else { &mut self.table };
            return table.erase(at);
        }
        let next = pack(fingerprint_of(slot), ring.after);
        if old {
            self.set_old(at, next);
        } else {
            self.table.slots[at] = next;
        }
        close(nodes, lane, ring);
    }

    /// Notes that a node leaves the index; returns its neighbours in the ring, which must be [closed](close).
    #[inline(always)]
    fn take_out<T: Copy, const LANES: usize>(
        &mut self,
        nodes: &mut Nodes<'_, T, LANES>,
        lane: usize,
        id: u32,
    ) -> Link {
        let node = nodes.get_mut(id);
        node.lanes_in &= !(1 << lane);
        self.nodes -= 1;
        node.lanes[lane]
    }

    #[cold]
    #[inline(never)]
    fn set_old(&mut self, at: usize, slot: u64) {
        self.old.slots[at] = slot;
    }

    /// Makes sure that one more slot may be taken.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.advance(STEPS);
        if SPARSE * (self.table.taken + self.old.taken + 1) > self.table.slots.len() {
            self.grow();
        }
    }

    /// Continues the move from the old table.
    fn advance(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.old.taken == 0 {
                break;
            }
            let slot = self.old.slots[self.emptied];
            if slot == 0 {
                self.emptied += 1;
            } else {
                // Closing the gap moves slots only into slots that were taken, none of which is before
                // `moved`.
                self.old.erase(self.emptied);
                self.table.place(slot);
            }
        }
        if self.old.taken == 0 {
            self.old = Table::default();
        }
    }

    fn grow(&mut self) {
        self.advance(usize::MAX);
        let larger = Table::with_slots((2 * self.table.slots.len()).max(SMALLEST));
        self.old = core::mem::replace(&mut self.table, larger);
        self.emptied = 0;
        self.advance(STEPS);
    }
}

/// Closes a ring where a node was between these two.
#[inline(always)]
fn close<T: Copy, const LANES: usize>(nodes: &mut Nodes<'_, T, LANES>, lane: usize, ring: Link) {
    let Link { before, after } = ring;
    nodes.get_mut(before).lanes[lane].after = after;
    nodes.get_mut(after).lanes[lane].before = before;
}

#[cfg(test)]
impl Index {
    /// Panics unless slots, rings and counts agree.
    pub(crate) fn check<T: Copy, const LANES: usize>(
        &self,
        store: &Store<T, LANES>,
        lane: usize,
        kind: WildcardKind,
    ) {
        let mut nodes = 0;
        for (table, first) in [(&self.table, 0), (&self.old, self.emptied)] {
            let taken = table.slots.iter().filter(|slot| **slot != 0);
            assert_eq!(taken.count(), table.taken);
            for (at, slot) in table.slots.iter().enumerate() {
                if *slot == 0 {
                    continue;
                }
                assert!(at >= first, "a slot before the place of the move is taken");
                let oldest = oldest_of(*slot);
                let key = kind.project(store.node(oldest).key());
                let found = self.oldest(store, kind, key).map(|(place, _)| place.id());
                assert_eq!(found, Some(oldest), "a key is found by its own slot");
                let mut id = oldest;
                loop {
                    let node = store.node(id);
                    assert_eq!(kind.project(node.key()), key);
                    assert_ne!(node.lanes_in & 1 << lane, 0);
                    let next = node.lanes[lane].after;
                    assert_eq!(store.node(next).lanes[lane].before, id);
                    nodes += 1;
                    id = next;
                    if id == oldest {
                        break;
                    }
                }
            }
        }
        assert_eq!(nodes, self.nodes);
        assert!(SPARSE * (self.table.taken + self.old.taken) <= self.table.slots.len());
    }

    /// Slots of both tables.
    pub(crate) fn slots(&self) -> (usize, usize) {
        (self.table.slots.len(), self.old.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_of(count: u32) -> (Store<u32, 1>, Vec<u32>) {
        let mut store = Store::new();
        let ids = (0..count)
            .map(|tag| store.push(Key::new(1, 2, tag), tag))
            .collect();
        (store, ids)
    }

    /// Growth is spread over the insertions, and nothing is lost during it, wherever it stands.
    #[test]
    fn keys_are_found_and_removed_in_the_middle_of_growth() {
        let count = if cfg!(miri) { 40 } else { 600 };
        let (mut store, ids) = store_of(count);
        let mut index = Index::default();
        let mut moving = 0;
        for (place, id) in ids.iter().enumerate() {
            index.insert(&mut store, 0, WildcardKind::Exact, *id);
            if !cfg!(miri) {
                index.check(&store, 0, WildcardKind::Exact);
            }
            let (_, old) = index.slots();
            moving += u32::from(old != 0);
            if place % 3 == 2 {
                index.remove(&mut store, 0, WildcardKind::Exact, ids[place / 3]);
                index.check(&store, 0, WildcardKind::Exact);
            }
        }
        assert!(moving > 1, "no growth took more than one insertion");
        for id in &ids[ids.len() / 3..] {
            index.remove(&mut store, 0, WildcardKind::Exact, *id);
        }
        index.check(&store, 0, WildcardKind::Exact);
        assert_eq!(index.nodes(), 0);
    }

    /// Removal from clusters of every shape, also across the end of the table.
    #[test]
    fn gaps_are_closed_towards_home() {
        let mut table = Table::with_slots(8);
        let home = |place: u32| place << 29;
        for victims in 0..4_u32 {
            for (place, id) in [(6, 1), (6, 2), (7, 3), (6, 4), (0, 5), (2, 6)] {
                table.place(pack(home(place) | id, id));
            }
            let find = |table: &Table, place: u32, id: u32| {
                table.find(home(place) | id, |found| (found == id).then_some(()))
            };
            for (place, id) in [(6, 1), (7, 3)] {
                if victims & id != 0 {
                    let (at, ..) = find(&table, place, id).expect("was put there");
                    table.erase(at);
                }
            }
            for (place, id) in [(6, 2), (6, 4), (0, 5), (2, 6)] {
                let (at, ..) = find(&table, place, id).expect("still there");
                table.erase(at);
            }
            for (place, id) in [(6, 1), (7, 3)] {
                if let Some((at, ..)) = find(&table, place, id) {
                    table.erase(at);
                }
            }
            assert_eq!(table.taken, 0);
            assert!(table.slots.iter().all(|slot| *slot == 0));
        }
    }
}
