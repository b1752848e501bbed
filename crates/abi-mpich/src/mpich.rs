//! What is MPICH's alone: how handles and statuses look, which variables and predefined functions its library exports.

pub mod attribute;
pub mod cxx;
pub mod data;
pub mod fortran;
pub mod handle;
pub mod status;

/// The name of the library.
pub const LIBRARY: &str = "libmpi.so.12";
