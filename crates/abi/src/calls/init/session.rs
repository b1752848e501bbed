//! Sessions (MPI 5.0, section 11.3). Every session sees the whole job; it isolates error handlers and the
//! time for which MPI is needed.

use std::ffi::{CStr, c_char, c_int};

use crate::args::{InOut, Out};
use crate::calls::abi::{full, new_info};
use crate::calls::group::session_members;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{self, Handled, InfoObject, SessionObject};
use crate::{c, check, handle};
use weft_mpi::process_set::NAMES;

pub fn session_init(
    _info: Option<&InfoObject>,
    errhandler: c::Errhandler,
    mut session: Out<c::Session>,
) -> Checked<()> {
    check::handler_of(errhandler, Handled::Session, "errhandler")?;
    state::begin_session()?;
    let Some(new) = SessionObject::create(errhandler) else {
        state::end_session();
        return Err(full("sessions"));
    };
    session.set(new);
    Ok(())
}

pub fn session_finalize(mut session: InOut<c::Session>) -> Checked<()> {
    check::session(session.get(), "session")?;
    handle::remove::<SessionObject>(session.get().0);
    session.set(k::MPI_SESSION_NULL);
    if let Some(runtime) = state::runtime().filter(|_| state::is_last_session()) {
        check::left_over::at_session_end(runtime);
    }
    state::end_session();
    Ok(())
}

pub fn session_get_info(_session: &SessionObject, mut info_used: Out<c::Info>) -> Checked<()> {
    let mut pairs = weft_mpi::info::Info::default();
    pairs.set("thread_level", "MPI_THREAD_MULTIPLE")?;
    info_used.set(new_info(pairs.answered())?);
    Ok(())
}

pub fn session_get_num_psets(
    _session: &SessionObject,
    _info: Option<&InfoObject>,
    mut npset_names: Out<c_int>,
) -> Checked<()> {
    npset_names.set(NAMES.len() as c_int);
    Ok(())
}

pub fn session_get_nth_pset(
    _session: &SessionObject,
    _info: Option<&InfoObject>,
    n: c_int,
    mut pset_len: InOut<c_int>,
    pset_name: *mut c_char,
) -> Checked<()> {
    let name = usize::try_from(n)
        .ok()
        .and_then(|n| NAMES.get(n))
        .ok_or_else(|| {
            Fault::argument(
                k::MPI_ERR_ARG,
                "n",
                format!("0 to {}", NAMES.len() - 1),
                n.to_string(),
                "MPI_Session_get_num_psets tells how many sets there are",
            )
        })?;
    let room = check::length(pset_len.get().into(), "pset_len")?;
    if room > 0 {
        // SAFETY: `pset_name` has room for `pset_len` bytes (MPI 5.0, section 11.3, `MPI_Session_get_nth_pset`); null
        // is refused.
        unsafe { check::text_out(pset_name, "pset_name")? }.set(name, room);
    }
    pset_len.set(name.len() as c_int + 1);
    Ok(())
}

pub fn session_get_pset_info(
    _session: &SessionObject,
    pset_name: &CStr,
    mut info: Out<c::Info>,
) -> Checked<()> {
    let mut pairs = weft_mpi::info::Info::default();
    pairs.set("mpi_size", &session_members(pset_name)?.size().to_string())?;
    info.set(new_info(pairs)?);
    Ok(())
}
