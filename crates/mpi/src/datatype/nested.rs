//! Nested: trees of counted references of any depth, whose drop takes no stack.
//!
//! A datatype keeps the datatypes that it was built from, these keep theirs, and so on. Dropping the last reference to a
//! chain of a million would be a million nested calls, and the stacks of fibers have room for a hundred.

use std::sync::Arc;

/// A node that has children of its own kind.
pub(super) trait Nested: Sized {
    /// Moves the children out, to the end of a list.
    fn take_children(&mut self, into: &mut Vec<Arc<Self>>);
}

/// Drops the children of a node, and theirs, one after the other. Called by `drop` of each such node, it
/// finds nothing to do in all but the first.
pub(super) fn drop_children<T: Nested>(node: &mut T) {
    let mut pending = Vec::new();
    node.take_children(&mut pending);
    while let Some(child) = pending.pop() {
        if let Some(mut last) = Arc::into_inner(child) {
            last.take_children(&mut pending);
        }
    }
}
