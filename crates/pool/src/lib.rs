//! The packet pool: fixed-size packets without contention.
