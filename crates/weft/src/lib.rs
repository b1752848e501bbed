//! The face of Weft: the library and the command.

/// Fibers: threads of a program's own, of which a million may wait at once, in calls of MPI as well.
pub use weft_fiber as fiber;
