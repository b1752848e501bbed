//! libfabric's library, opened at run time: the only place of this crate that calls it.
//!
//! ```text
//!   layout    its structures and tables of functions, as far as they are used
//!   library   the library itself: the functions that it exports
//!   infos     what it offers: a list of descriptions of endpoints
//!   device    one endpoint with its completion queue, address table and buffers
//!   bounce    memory that a transfer reads into first
//! ```

pub mod bounce;
pub mod device;
mod dispositions;
pub mod infos;
mod layout;
pub mod library;
