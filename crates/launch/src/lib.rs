//! The launcher and the bootstrap of a rank.
