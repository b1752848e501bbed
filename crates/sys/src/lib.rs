//! The one door to system calls: memory, futex, descriptors, processes.

pub mod span;
