//! MPI itself, over any fabric: a [`Process`](process) is one rank as a value, without globals.
#![deny(unsafe_code)]

pub mod error;
