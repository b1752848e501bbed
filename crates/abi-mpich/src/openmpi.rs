//! What is Open MPI's alone: how handles and statuses look, which variables and predefined functions its library exports.

pub mod attribute;
pub mod cxx;
pub mod data;
mod extensions;
pub mod fortran;
pub mod handle;
pub mod object;
pub mod status;

/// The name of the library.
pub const LIBRARY: &str = "libmpi.so.40";
