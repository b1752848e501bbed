//! Ranks that are threads of one process.
