//! Tool information interface, MPI_T (MPI 5.0, section 15.3).
