//! Store: nodes in one growing array, in the order of insertion.
//!
//! ```text
//!  nodes   [ 1 | 2 | 3 | 4 | … ]      a node is named by its place, counted from one; zero is none
//!  order   first ⇄ … ⇄ last           every live node, oldest first; what the first has before it, nobody asks
//!  lanes   rings of nodes of one key  kept by the index of that lane (index.rs)
//!  free    a chain through order.next
//! ```
//!
//! No memory is given back to the allocator: the array keeps the size of the largest backlog.
//!
//! The oldest node is removed most often, which writes to no other node ([`Oldest`]).

use core::mem::replace;

use crate::key::Key;

/// The name of no node.
pub(crate) const NONE: u32 = 0;

/// The two neighbours of a node in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

const LOOSE: Link = Link {
    before: NONE,
    after: NONE,
};

/// One posted receive or one unexpected message.
#[derive(Debug)]
pub(crate) struct Node<T, const LANES: usize> {
    place: u64,
    tag: u32,
    /// Bit `lane` is set while the node is in the index of that lane.
    pub(crate) lanes_in: u32,
    pub(crate) order: Link,
    pub(crate) lanes: [Link; LANES],
    pub(crate) value: T,
}

impl<T, const LANES: usize> Node<T, LANES> {
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key {
            place: self.place,
            tag: self.tag,
        }
    }
}

/// The place of a node in the array; for [`NONE`] it is beyond all others.
#[inline(always)]
const fn index(id: u32) -> usize {
    id.wrapping_sub(1) as usize
}

/// The array of nodes and the list of those alive.
#[derive(Debug)]
pub(crate) struct Store<T, const LANES: usize> {
    nodes: Vec<Node<T, LANES>>,
    ends: Ends,
}

/// The ends of the order, and of the list of free nodes.
#[derive(Debug)]
pub(crate) struct Ends {
    free: u32,
    live: u32,
    first: u32,
    /// Outdated while there is no first.
    last: u32,
}

impl Ends {
    /// Removes the first node from the order.
    #[inline(always)]
    fn take_first<T, const LANES: usize>(&mut self, node: &mut Node<T, LANES>) {
        debug_assert_eq!(node.lanes_in, 0, "a node leaves its indices first");
        let after = replace(&mut node.order.after, self.free);
        self.free = replace(&mut self.first, after);
        self.live -= 1;
    }

    /// Removes a live node from the order; it has left its lanes before.
    #[inline(always)]
    pub(crate) fn remove<T, const LANES: usize>(
        &mut self,
        nodes: &mut Nodes<'_, T, LANES>,
        id: u32,
    ) {
        let node = nodes.get_mut(id);
        if id == self.first {
            return self.take_first(node);
        }
        debug_assert_eq!(node.lanes_in, 0, "a node leaves its indices first");
        let Link { before, after } = node.order;
        node.order.after = replace(&mut self.free, id);
        self.live -= 1;
        nodes.get_mut(before).order.after = after;
        if after == NONE {
            self.last = before;
        } else {
            nodes.get_mut(after).order.before = before;
        }
    }
}

/// The oldest node, to be looked at and then perhaps removed: found once for both.
#[derive(Debug)]
pub(crate) struct Oldest<'a, T, const LANES: usize> {
    node: &'a mut Node<T, LANES>,
    ends: &'a mut Ends,
}

impl<T, const LANES: usize> Oldest<'_, T, LANES> {
    #[inline(always)]
    pub(crate) fn node(&self) -> &Node<T, LANES> {
        self.node
    }

    #[inline(always)]
    pub(crate) fn node_mut(&mut self) -> &mut Node<T, LANES> {
        self.node
    }

    /// Removes it from the order; it has left its lanes before.
    #[inline(always)]
    pub(crate) fn remove(self) {
        self.ends.take_first(self.node);
    }
}

/// The nodes of a store, by their names.
#[derive(Debug)]
pub(crate) struct Nodes<'a, T, const LANES: usize>(&'a mut [Node<T, LANES>]);

impl<T, const LANES: usize> Nodes<'_, T, LANES> {
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &Node<T, LANES> {
        &self.0[index(id)]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Node<T, LANES> {
        &mut self.0[index(id)]
    }
}

impl<T: Copy, const LANES: usize> Store<T, LANES> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            ends: Ends {
                free: NONE,
                live: 0,
                first: NONE,
                last: NONE,
            },
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.ends.live
    }

    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.ends.first
    }

    /// The oldest node.
    #[inline(always)]
    pub(crate) fn oldest(&mut self) -> Option<Oldest<'_, T, LANES>> {
        // [`NONE`] is not a place either.
        let node = self.nodes.get_mut(index(self.ends.first))?;
        Some(Oldest {
            node,
            ends: &mut self.ends,
        })
    }

    #[inline]
    pub(crate) fn node(&self, id: u32) -> &Node<T, LANES> {
        &self.nodes[index(id)]
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, id: u32) -> &mut Node<T, LANES> {
        &mut self.nodes[index(id)]
    }

    /// The node of a name that may be outdated; a dead node is still in the array.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Node<T, LANES>> {
        self.nodes.get_mut(index(id))
    }

    /// Puts a node behind all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: Key, value: T) -> u32 {
        let order = Link {
            before: self.ends.last,
            after: NONE,
        };
        let mut id = self.ends.free;
        if id == NONE {
            id = self.append(Node {
                place: key.place,
                tag: key.tag,
                lanes_in: 0,
                order,
                lanes: [LOOSE; LANES],
                value,
            });
        } else {
            // Field by field: building a node elsewhere and copying it in costs more than all the rest.
            let node = self.node_mut(id);
            let free = node.order.after;
            node.place = key.place;
            node.tag = key.tag;
            node.lanes_in = 0;
            node.order = order;
            node.value = value;
            self.ends.free = free;
        }
        if self.ends.first == NONE {
            self.ends.first = id;
        } else {
            self.node_mut(order.before).order.after = id;
        }
        self.ends.last = id;
        self.ends.live += 1;
        id
    }

    #[cold]
    #[inline(never)]
    fn append(&mut self, node: Node<T, LANES>) -> u32 {
        self.nodes.push(node);
        // 2^32 nodes are more than 200 GiB: the allocator refuses first.
        u32::try_from(self.nodes.len()).expect("fewer than 2^32 messages and receives outstanding")
    }

    /// Removes a live node from the order; it has left its lanes before.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: u32) {
        let (mut nodes, ends) = self.parts();
        ends.remove(&mut nodes, id);
    }

    /// The nodes and their order, for callers that change several nodes and find each of them once.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (Nodes<'_, T, LANES>, &mut Ends) {
        (Nodes(&mut self.nodes), &mut self.ends)
    }

    /// The live nodes, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node<T, LANES>> {
        let mut id = self.ends.first;
        core::iter::from_fn(move || {
            if id == NONE {
                return None;
            }
            let node = self.node(id);
            id = node.order.after;
            Some(node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tag: u32) -> Key {
        Key::new(0, 0, tag)
    }

    fn tags(store: &Store<u32, 1>) -> Vec<u32> {
        let forward: Vec<u32> = store.iter().map(|node| node.value).collect();
        let mut backward = Vec::new();
        let mut id = store.ends.last;
        for _ in 0..store.len() {
            backward.push(store.node(id).value);
            id = store.node(id).order.before;
        }
        backward.reverse();
        assert_eq!(forward, backward);
        assert_eq!(forward.len() as u32, store.len());
        forward
    }

    #[test]
    fn order_holds_through_removal_at_every_place() {
        for victim in 0..5 {
            let mut store = Store::<u32, 1>::new();
            let ids: Vec<u32> = (0..5).map(|i| store.push(key(i), i)).collect();
            store.remove(ids[victim]);
            let mut expected: Vec<u32> = (0..5).filter(|i| *i != victim as u32).collect();
            assert_eq!(tags(&store), expected);
            assert_eq!(
                store.push(key(9), 9),
                ids[victim],
                "a freed place is used again"
            );
            expected.push(9);
            assert_eq!(tags(&store), expected);
        }
    }

    /// The first node's link to the node before it is outdated once another node was there; no later removal
    /// reads it.
    #[test]
    fn order_holds_through_two_removals_and_a_push() {
        for (one, other) in (0..4).flat_map(|one| (0..4).map(move |other| (one, other))) {
            if one == other {
                continue;
            }
            let mut store = Store::<u32, 1>::new();
            let ids: Vec<u32> = (0..4).map(|i| store.push(key(i), i)).collect();
            store.remove(ids[one]);
            store.remove(ids[other]);
            store.push(key(9), 9);
            let rest = (0..4).filter(|i| ![one, other].contains(&(*i as usize)));
            let expected: Vec<u32> = rest.chain([9]).collect();
            assert_eq!(tags(&store), expected);
            let oldest = store.oldest().expect("it has three");
            assert_eq!(oldest.node().value, expected[0]);
            oldest.remove();
            assert_eq!(tags(&store), expected[1..]);
        }
        assert!(Store::<u32, 1>::new().oldest().is_none());
    }

    #[test]
    fn emptied_store_starts_afresh() {
        let mut store = Store::<u32, 1>::new();
        for round in 0..3 {
            let one = store.push(key(round), round);
            let two = store.push(key(round), round + 1);
            store.remove(one);
            store.remove(two);
            assert_eq!(tags(&store), []);
            assert_eq!(store.first(), NONE);
            assert_eq!(store.nodes.len(), 2);
        }
    }
}
