//! Dynamic processes (MPI 5.0, chapter 11): the calls that work without them.

use crate::args::{InOut, Out};
use crate::c;
use crate::calls::comm::comm_free;
use crate::fault::Checked;
use crate::generated::constants as k;

/// Nobody was started from within a program.
pub fn comm_get_parent(mut parent: Out<c::Comm>) -> Checked<()> {
    parent.set(k::MPI_COMM_NULL);
    Ok(())
}

/// All processes have been connected from the start and stay so: what is left is to free.
pub fn comm_disconnect(comm: InOut<c::Comm>) -> Checked<()> {
    comm_free(comm)
}
