//! Files (MPI 5.0, chapter 14).
