//! Nested: trees of counted references of any depth, whose drop takes no stack.
//!
//! A datatype keeps the datatypes that it was built from, these keep theirs, and so on. Dropping the last reference to a
//! chain of a million would be a million nested calls, and the stacks of fibers have room for a hundred.

use std::sync::Arc;

/// A node that has children of its own kind.
pub(super) trait Nested: Sized {
    /// Moves the children out, to the end of a list.
    fn take_children(&mut self, into: &mut Vec<Arc<Self>>);
    /// Whether it has children.
    fn has_children(&self) -> bool;
    /// Whether one of its children has children.
    fn has_grandchildren(&self) -> bool;
}

/// Drops the children of a node, and theirs, one after the other. Called by `drop` of each such node, it
/// finds nothing to do in all but the first. Children without any of their own are left to the caller's own drop, which takes no list.
#[inline]
pub(super) fn drop_children<T: Nested>(node: &mut T) {
    if node.has_grandchildren() {
        drop_deep(node);
    }
}

#[inline(never)]
fn drop_deep<T: Nested>(node: &mut T) {
    let mut pending = Vec::new();
    node.take_children(&mut pending);
    while let Some(child) = pending.pop() {
        if let Some(mut last) = Arc::into_inner(child) {
            last.take_children(&mut pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How often children were moved out of a node, and how many nodes were dropped.
        static TAKEN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }

    struct Tree(Vec<Arc<Tree>>);

    impl Nested for Tree {
        fn take_children(&mut self, into: &mut Vec<Arc<Self>>) {
            TAKEN.set((TAKEN.get().0 + 1, TAKEN.get().1));
            into.append(&mut self.0);
        }

        fn has_children(&self) -> bool {
            !self.0.is_empty()
        }

        fn has_grandchildren(&self) -> bool {
            self.0.iter().any(|child| child.has_children())
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            drop_children(self);
            TAKEN.set((TAKEN.get().0, TAKEN.get().1 + 1));
        }
    }

    fn over(children: usize, child: impl Fn() -> Tree) -> Tree {
        Tree((0..children).map(|_| Arc::new(child())).collect())
    }

    #[test]
    fn only_deep_trees_are_taken_apart() {
        let leaf = || Tree(Vec::new());
        drop(over(3, leaf));
        assert_eq!(TAKEN.take(), (0, 4));
        drop(over(2, || over(3, leaf)));
        assert_eq!(TAKEN.take(), (9, 9), "all but leaves of leaves have a turn");
        let deep = (0..100_000).fold(leaf(), |tree, _| Tree(vec![Arc::new(tree)]));
        drop(deep);
        assert_eq!(TAKEN.take().1, 100_001);
    }
}
