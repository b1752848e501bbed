//! Windows and one-sided communication (MPI 5.0, chapter 12).
