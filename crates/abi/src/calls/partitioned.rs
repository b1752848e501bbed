//! Partitioned communication (MPI 5.0, section 4.2).
