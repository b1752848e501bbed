//! Performance variables (MPI 5.0, section 15.3.7).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use crate::args::Optional;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::tool::enumerations::handle_of;
use crate::tool::handles::{self, PvarHandle, Session};
use crate::tool::variables::{VARIABLES, Value, Variable};
use crate::tool::{self, hand_out, index_of, row};
use crate::{c, check, handle};

fn variable(index: c_int) -> Checked<&'static Variable> {
    row(VARIABLES, index, "performance variable")
}

pub fn t_pvar_get_num(mut num_pvar: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    num_pvar.set(VARIABLES.len() as c_int);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn t_pvar_get_info(
    pvar_index: c_int,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
    mut verbosity: Optional<c_int>,
    mut var_class: Optional<c_int>,
    mut datatype: Optional<c::Datatype>,
    mut enumtype: Optional<c::ToolHandle>,
    desc: Optional<c_char>,
    mut desc_len: Optional<c_int>,
    mut bind: Optional<c_int>,
    mut readonly: Optional<c_int>,
    mut continuous: Optional<c_int>,
    mut atomic: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = variable(pvar_index)?;
    hand_out(one.name, &name, &mut name_len);
    hand_out(one.description, &desc, &mut desc_len);
    verbosity.set(k::MPI_T_VERBOSITY_USER_BASIC);
    var_class.set(one.class);
    datatype.set(one.datatype());
    enumtype.set(handle_of(one.enumeration()));
    bind.set(one.bind());
    readonly.set(c_int::from(!one.is_counted()));
    continuous.set(c_int::from(!one.is_counted()));
    atomic.set(c_int::from(one.is_counted()));
    Ok(())
}

pub fn t_pvar_get_index(
    name: Optional<c_char>,
    var_class: c_int,
    mut pvar_index: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let names = VARIABLES.iter().map(|one| one.name);
    let index = index_of(names, &name, "performance variable")?;
    if variable(index)?.class != var_class {
        return Err(Fault::new(
            k::MPI_T_ERR_INVALID_NAME,
            "the performance variable of that name is of another class",
        ));
    }
    pvar_index.set(index);
    Ok(())
}

pub fn t_pvar_session_create(mut pe_session: Optional<c::ToolHandle>) -> Checked<()> {
    tool::check()?;
    let Some(made) = handle::insert(Session::default()) else {
        return Err(Fault::new(
            k::MPI_T_ERR_OUT_OF_SESSIONS,
            "too many sessions live at once",
        ));
    };
    pe_session.set(c::ToolHandle(made));
    Ok(())
}

/// The session's handles end with it.
pub fn t_pvar_session_free(mut pe_session: Optional<c::ToolHandle>) -> Checked<()> {
    tool::check()?;
    let given = pe_session.get().unwrap_or(k::MPI_T_PVAR_SESSION_NULL);
    for pvar in handles::session(given)?.open().drain(..) {
        handle::remove::<PvarHandle>(pvar);
    }
    handle::remove::<Session>(given.0);
    pe_session.set(k::MPI_T_PVAR_SESSION_NULL);
    Ok(())
}

pub fn t_pvar_handle_alloc(
    pe_session: c::ToolHandle,
    pvar_index: c_int,
    obj_handle: Optional<c_void>,
    mut handle: Optional<c::ToolHandle>,
    mut count: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let session = handles::session(pe_session)?;
    let one = variable(pvar_index)?;
    let comm = if one.bind() == k::MPI_T_BIND_MPI_COMM {
        let given = obj_handle.cast::<c::Comm>().get();
        let Some(found) = given.and_then(check::find_communicator) else {
            return Err(Fault::new(
                k::MPI_T_ERR_INVALID_HANDLE,
                format!(
                    "{} is one of a communicator; pass the address of its handle",
                    one.name
                ),
            ));
        };
        Some(Arc::clone(found))
    } else {
        None
    };
    let Some(made) = handle::insert(PvarHandle::new(one, pe_session.0, comm)) else {
        return Err(Fault::new(
            k::MPI_T_ERR_OUT_OF_HANDLES,
            "too many handles live at once",
        ));
    };
    session.open().push(made);
    handle.set(c::ToolHandle(made));
    count.set(1);
    Ok(())
}

pub fn t_pvar_handle_free(
    pe_session: c::ToolHandle,
    mut handle: Optional<c::ToolHandle>,
) -> Checked<()> {
    tool::check()?;
    let given = handle.get().unwrap_or(k::MPI_T_PVAR_HANDLE_NULL);
    handles::pvar(pe_session, given)?;
    handles::session(pe_session)?
        .open()
        .retain(|one| *one != given.0);
    handle::remove::<PvarHandle>(given.0);
    handle.set(k::MPI_T_PVAR_HANDLE_NULL);
    Ok(())
}

/// Applies a function to a handle that counts, or to all such handles of the session.
fn each_counted(
    session: c::ToolHandle,
    handle: c::ToolHandle,
    refused: c_int,
    act: impl Fn(&PvarHandle),
) -> Checked<()> {
    tool::check()?;
    if handle == k::MPI_T_PVAR_ALL_HANDLES {
        let all = handles::session(session)?.open().clone();
        let all = all
            .iter()
            .filter_map(|one| handle::find::<PvarHandle>(*one));
        all.filter(|one| one.variable.is_counted()).for_each(act);
        return Ok(());
    }
    let one = handles::pvar(session, handle)?;
    if !one.variable.is_counted() {
        let cause = format!(
            "{} says what is so now: it runs always and is only read",
            one.variable.name
        );
        return Err(Fault::new(refused, cause));
    }
    act(one);
    Ok(())
}

pub fn t_pvar_start(pe_session: c::ToolHandle, handle: c::ToolHandle) -> Checked<()> {
    each_counted(
        pe_session,
        handle,
        k::MPI_T_ERR_PVAR_NO_STARTSTOP,
        PvarHandle::start,
    )
}

pub fn t_pvar_stop(pe_session: c::ToolHandle, handle: c::ToolHandle) -> Checked<()> {
    each_counted(
        pe_session,
        handle,
        k::MPI_T_ERR_PVAR_NO_STARTSTOP,
        PvarHandle::stop,
    )
}

pub fn t_pvar_reset(pe_session: c::ToolHandle, handle: c::ToolHandle) -> Checked<()> {
    each_counted(pe_session, handle, k::MPI_T_ERR_PVAR_NO_WRITE, |one| {
        one.write(0)
    })
}

pub fn t_pvar_read(
    pe_session: c::ToolHandle,
    handle: c::ToolHandle,
    buf: Optional<c_void>,
) -> Checked<()> {
    tool::check()?;
    let one = handles::pvar(pe_session, handle)?;
    let buf = buf.needed()?;
    store(one.value(), &buf);
    Ok(())
}

fn store(value: Value, buf: &Optional<c_void>) {
    match value {
        Value::Unsigned(value) => buf.cast().set(value),
        Value::Real(value) => buf.cast().set(value),
        Value::Int(value) => buf.cast().set(value),
    }
}

pub fn t_pvar_write(
    pe_session: c::ToolHandle,
    handle: c::ToolHandle,
    buf: Optional<c_void>,
) -> Checked<()> {
    tool::check()?;
    let one = handles::pvar(pe_session, handle)?;
    if !one.variable.is_counted() {
        return Err(Fault::new(
            k::MPI_T_ERR_PVAR_NO_WRITE,
            format!("{} says what is so; it is only read", one.variable.name),
        ));
    }
    let value = if one.variable.is_time() {
        buf.cast::<f64>()
            .get()
            .map(|seconds| (seconds * 1e9) as u64)
    } else {
        buf.cast::<u64>().get()
    };
    match value {
        Some(value) => one.write(value),
        None => return Err(tool::invalid("a value is needed, not a null pointer")),
    }
    Ok(())
}

/// As [`t_pvar_read`], and resets it to 0: anything counted at the same time is in one of the two readings.
pub fn t_pvar_readreset(
    pe_session: c::ToolHandle,
    handle: c::ToolHandle,
    buf: Optional<c_void>,
) -> Checked<()> {
    tool::check()?;
    let one = handles::pvar(pe_session, handle)?;
    if !one.variable.is_counted() {
        return Err(Fault::new(
            k::MPI_T_ERR_PVAR_NO_ATOMIC,
            format!("{} says what is so; it is only read", one.variable.name),
        ));
    }
    let buf = buf.needed()?;
    store(one.read_and_reset(), &buf);
    Ok(())
}
