//! The one door to atomics and cells: rings, two-level bit set, doorbell.
