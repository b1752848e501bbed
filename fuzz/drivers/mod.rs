//! What is done with random bytes: one function for each parser and each boundary of trust. The fuzz
//! targets call them, and so does a test of the workspace (`tests/cases/hostile.rs`), with a few
//! hundred random inputs.

pub mod allocation;
pub mod datapath;
pub mod datatype;
pub mod engine;
pub mod frames;
pub mod launch;
pub mod options;
pub mod script;
pub mod secure;
pub mod segment;
