//! Posted receives: those that wait for a message, in the order in which they were posted.
//!
//! ```text
//!  order  ■ ■ ■ ■ ■ ■ ■ □ □ □        ■ also in the index of its kind   □ not yet
//!                       └ cursor
//! ```
//!
//! A message is first looked up in the four indices, and takes the receive with the smallest stamp; every indexed
//! receive is older than the cursor. Otherwise the search walks on from the cursor: the first match is the oldest
//! match, and the receives that it passes go into their index, each once in its life. So one receive and its
//! message meet without any table, and any number of others cost one look-up for each kind in use.

use core::num::NonZeroU32;

use crate::LAG;
use crate::index::{Index, IndexSlot};
use crate::key::{KINDS, Key, Pattern, WildcardKind};
use crate::store::{NONE, Node, Oldest, Store};

/// A posted receive, for [`cancel`](crate::Matching::cancel). An outdated handle names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    id: NonZeroU32,
    /// The low half of the stamp: a place is reused, a stamp is not (before 2^32 posts).
    stamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Receive<P> {
    /// Counts posts from one; zero once the receive is matched or cancelled.
    stamp: u64,
    kind: WildcardKind,
    payload: P,
}

const _: () = assert!(size_of::<Node<Receive<u64>, 1>>() <= 64);
const _: () = assert!(size_of::<Option<Handle>>() == 8);

/// The posted receives of one engine.
#[derive(Debug)]
pub(crate) struct Posted<P> {
    store: Store<Receive<P>, 1>,
    /// The oldest receive that is in no index; nor are all younger ones.
    cursor: u32,
    /// Receives in all indices.
    indexed: u32,
    stamp: u64,
    indices: [Index; KINDS],
}

/// The oldest receive, which is in no index, to be looked at and then perhaps [taken](Self::take).
#[derive(Debug)]
pub struct OldestReceive<'a, P> {
    oldest: Oldest<'a, Receive<P>, 1>,
    cursor: &'a mut u32,
}

impl<P: Copy> OldestReceive<'_, P> {
    /// The receive's name.
    #[inline(always)]
    #[must_use]
    pub fn payload(&self) -> P {
        self.oldest.node().value.payload
    }

    /// Takes the receive, which is then no longer posted.
    #[inline(always)]
    pub fn take(mut self) {
        let node = self.oldest.node_mut();
        node.value.stamp = 0;
        *self.cursor = node.order.after;
        self.oldest.remove();
    }
}

impl<P: Copy> Posted<P> {
    pub(crate) fn new() -> Self {
        Self {
            store: Store::new(),
            cursor: NONE,
            indexed: 0,
            stamp: 0,
            indices: Default::default(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.store.len()
    }

    /// Adds a receive behind all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, kind: WildcardKind, key: Key, payload: P) -> Handle {
        self.stamp += 1;
        let stamp = self.stamp;
        let id = self.store.push(
            key,
            Receive {
                stamp,
                kind,
                payload,
            },
        );
        if self.cursor == NONE {
            self.cursor = id;
        }
        if self.store.len() - self.indexed > LAG {
            self.advance();
        }
        let id = NonZeroU32::new(id).expect("places count from one");
        Handle {
            id,
            stamp: stamp as u32,
        }
    }

    /// Takes the oldest receive that a message with this envelope matches.
    #[inline]
    pub(crate) fn take(&mut self, envelope: Key) -> Option<P> {
        if self.indexed != 0
            && let Some(receive) = self.take_indexed(envelope)
        {
            return Some(receive);
        }
        let id = self.walk(envelope);
        (id != NONE).then(|| self.remove(id))
    }

    /// The oldest receive of all, if it is in no index and asks for exactly this source and tag.
    #[inline(always)]
    pub(crate) fn oldest_exact(&mut self, envelope: Key) -> Option<OldestReceive<'_, P>> {
        // So the cursor is at the oldest of all, if there is any.
        if self.indexed != 0 {
            return None;
        }
        let oldest = self.store.oldest()?;
        let node = oldest.node();
        let is_exact = matches!(node.value.kind, WildcardKind::Exact) && node.key() == envelope;
        is_exact.then_some(OldestReceive {
            oldest,
            cursor: &mut self.cursor,
        })
    }

    /// Takes the oldest match of the indices.
    #[inline]
    fn take_indexed(&mut self, envelope: Key) -> Option<P> {
        let (kind, place) = if self.indexed == self.indices[WildcardKind::Exact as usize].nodes() {
            let (place, _) = self.indices[WildcardKind::Exact as usize].oldest(
                &self.store,
                WildcardKind::Exact,
                envelope,
            )?;
            (WildcardKind::Exact, place)
        } else {
            self.oldest_of_kinds(envelope)?
        };
        let id = place.id();
        let (mut nodes, ends) = self.store.parts();
        self.indices[kind as usize].remove_oldest(&mut nodes, 0, place);
        self.indexed -= 1;
        let node = nodes.get_mut(id);
        node.value.stamp = 0;
        let payload = node.value.payload;
        ends.remove(&mut nodes, id);
        Some(payload)
    }

    /// The oldest match of the indices when wildcards are among them.
    #[inline(never)]
    fn oldest_of_kinds(&self, envelope: Key) -> Option<(WildcardKind, IndexSlot)> {
        let mut best = None;
        let mut best_stamp = u64::MAX;
        for kind in WildcardKind::ALL {
            let index = &self.indices[kind as usize];
            if index.nodes() != 0
                && let Some((place, node)) = index.oldest(&self.store, kind, kind.project(envelope))
            {
                let stamp = node.value.stamp;
                if stamp < best_stamp {
                    (best, best_stamp) = (Some((kind, place)), stamp);
                }
            }
        }
        best
    }

    /// The oldest match from the cursor on; receives that do not match are indexed on the way.
    #[inline]
    fn walk(&mut self, envelope: Key) -> u32 {
        while self.cursor != NONE {
            let node = self.store.node(self.cursor);
            if node.value.kind.project(envelope) == node.key() {
                return self.cursor;
            }
            self.advance();
        }
        NONE
    }

    /// Indexes the receive at the cursor.
    #[inline(never)]
    fn advance(&mut self) {
        let id = self.cursor;
        let node = self.store.node(id);
        let kind = node.value.kind;
        self.cursor = node.order.after;
        self.indices[kind as usize].insert(&mut self.store, 0, kind, id);
        self.indexed += 1;
    }

    #[inline]
    fn remove(&mut self, id: u32) -> P {
        let node = self.store.node_mut(id);
        let payload = node.value.payload;
        node.value.stamp = 0;
        let kind = node.value.kind;
        if node.lanes_in != 0 {
            self.indices[kind as usize].remove(&mut self.store, 0, kind, id);
            self.indexed -= 1;
        } else if self.cursor == id {
            self.cursor = node.order.after;
        }
        self.store.remove(id);
        payload
    }

    /// Takes a receive out by its handle, if it still waits.
    pub(crate) fn cancel(&mut self, handle: Handle) -> bool {
        let id = handle.id.get();
        let Some(node) = self.store.get_mut(id) else {
            return false;
        };
        let stamp = node.value.stamp;
        if stamp == 0 || stamp as u32 != handle.stamp {
            return false;
        }
        self.remove(id);
        true
    }

    /// Takes out all receives of a context, oldest first.
    pub(crate) fn drop_context(&mut self, context: u32) -> Vec<(Pattern, P)> {
        let mut dropped = Vec::new();
        let mut id = self.store.first();
        while id != NONE {
            let node = self.store.node(id);
            let next = node.order.after;
            if node.key().context() == context {
                let pattern = Pattern::join(node.value.kind, node.key());
                dropped.push((pattern, self.remove(id)));
            }
            id = next;
        }
        dropped
    }

    /// All receives, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pattern, P)> {
        self.store.iter().map(|node| {
            (
                Pattern::join(node.value.kind, node.key()),
                node.value.payload,
            )
        })
    }
}

#[cfg(test)]
impl<P: Copy> Posted<P> {
    /// Panics unless order, cursor, stamps and indices agree.
    pub(crate) fn check(&self) {
        let (mut id, mut stamp, mut waiting, mut count) = (self.store.first(), 0, false, 0);
        while id != NONE {
            waiting |= id == self.cursor;
            let node = self.store.node(id);
            assert!(node.value.stamp > stamp, "stamps rise");
            assert_eq!(
                node.lanes_in == 0,
                waiting,
                "indexed means before the cursor"
            );
            stamp = node.value.stamp;
            count += u32::from(!waiting);
            id = node.order.after;
        }
        assert_eq!(
            waiting,
            self.cursor != NONE,
            "the cursor names a live receive"
        );
        assert_eq!(count, self.indexed);
        assert!(self.store.len() - self.indexed <= LAG);
        let nodes = self.indices.iter().map(Index::nodes);
        assert_eq!(nodes.sum::<u32>(), self.indexed);
        for kind in WildcardKind::ALL {
            self.indices[kind as usize].check(&self.store, 0, kind);
        }
    }

    pub(crate) fn slots(&self, kind: WildcardKind) -> usize {
        self.indices[kind as usize].slots().0
    }
}
