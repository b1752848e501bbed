//! The tool interface (MPI 5.0, chapter 15). It only returns codes, and works at any time between its own
//! initialisation and end. Addresses of results may be null: then the results are not wanted.

mod category;
mod cvar;
mod enumeration;
mod event;
mod pvar;
mod source;

use std::ffi::c_int;

use crate::args::Optional;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::tool::{self, registrations};

pub use category::*;
pub use cvar::*;
pub use enumeration::*;
pub use event::*;
pub use pvar::*;
pub use source::*;

/// All levels are supported: the requested one is provided.
pub fn t_init_thread(required: c_int, mut provided: Optional<c_int>) -> Checked<()> {
    let levels = [
        k::MPI_THREAD_SINGLE,
        k::MPI_THREAD_FUNNELED,
        k::MPI_THREAD_SERIALIZED,
        k::MPI_THREAD_MULTIPLE,
    ];
    if !levels.contains(&required) {
        return Err(tool::invalid("this is no level of thread support"));
    }
    tool::begin();
    provided.set(required);
    Ok(())
}

pub fn t_finalize() -> Checked<()> {
    if tool::end()? {
        registrations::forget_all();
    }
    Ok(())
}
