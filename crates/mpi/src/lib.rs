//! MPI itself: engine, point-to-point, datatypes, groups, communicators, collectives.
