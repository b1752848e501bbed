//! Start and end (MPI 5.0, chapter 11).

mod session;

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use weft_mpi::Comm;

use crate::args::Out;
use crate::calls::attribute::{self, Holder};
use crate::check;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{self, Phase};

pub use session::*;

pub fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Checked<()> {
    state::initialise(k::MPI_THREAD_SINGLE)
}

/// All levels are supported: the requested one is provided.
pub fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    mut provided: Out<c_int>,
) -> Checked<()> {
    let level = match required {
        k::MPI_THREAD_SINGLE
        | k::MPI_THREAD_FUNNELED
        | k::MPI_THREAD_SERIALIZED
        | k::MPI_THREAD_MULTIPLE => required,
        other => {
            return Err(Fault::argument(
                k::MPI_ERR_ARG,
                "required",
                "MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED or _MULTIPLE",
                other.to_string(),
                "pass one of the four levels",
            ));
        }
    };
    state::initialise(level)?;
    provided.set(level);
    Ok(())
}

pub fn initialized(mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(state::phase() >= Phase::Running);
    Ok(())
}

pub fn finalized(mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(state::phase() == Phase::Finished);
    Ok(())
}

pub fn query_thread(mut provided: Out<c_int>) -> Checked<()> {
    provided.set(state::runtime().map_or(k::MPI_THREAD_SINGLE, |runtime| runtime.thread_level));
    Ok(())
}

pub fn is_thread_main(mut flag: Out<c_int>) -> Checked<()> {
    let current = std::thread::current().id();
    flag.flag(state::runtime().is_some_and(|runtime| runtime.main_thread == current));
    Ok(())
}

/// The attributes of `MPI_COMM_SELF` are deleted first, while all calls still work: programs attach their own
/// clean-up to them.
pub fn finalize() -> Checked<()> {
    for (comm, handle) in [
        (state::comm_self(), k::MPI_COMM_SELF),
        (state::world(), k::MPI_COMM_WORLD),
    ] {
        if let Some(comm) = comm {
            attribute::delete_all(Holder::Comm(handle), comm.extras())?;
        }
    }
    let process = state::process()?;
    let all_come = process.meet()?;
    if let Some(runtime) = state::runtime() {
        check::left_over::at_finalize(runtime, all_come);
    }
    process.announce_exit();
    state::finalise();
    Ok(())
}

pub fn abort(comm: &Arc<Comm>, errorcode: c_int) -> Checked<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let text = format!(
        "weft: MPI_Abort called by rank {rank} of {size} of {}, exit code {errorcode}\n",
        comm.extras().name_or("a communicator without name")
    );
    state::abort(errorcode, &text)
}
