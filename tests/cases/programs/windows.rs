//! Windows: memory that ranks of a job read and write without a call of the other side.

use super::passes;

#[test]
fn one_sided() {
    passes("one_sided", &[1, 2, 3, 4, 7], &[]);
}

/// After its own flush, a rank sees everything that another one has put and flushed before.
#[test]
fn stores_and_loads_of_two_ranks_are_in_order() {
    passes("store_order", &[2], &[]);
}

/// Holders of a shared and of an exclusive lock find the same value in all words, whichever way they acquire
/// the lock.
#[test]
fn locks_of_windows_are_shared_or_had_alone() {
    passes("window_locks", &[1, 2, 3], &[]);
    passes("window_locks", &[2, 3], &["threads"]);
}

/// A rank that shares several locks does not wait for ever while others wait for one of them exclusively, and
/// neither do those others.
#[test]
fn locks_of_windows_are_taken_in_any_order() {
    passes("window_circles", &[1, 2, 4, 5, 8], &[]);
}
