//! Control variables (MPI 5.0, section 15.3.6).

use std::ffi::{c_char, c_int, c_void};

use crate::args::Optional;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::tool::enumerations::handle_of;
use crate::tool::handles::CvarHandle;
use crate::tool::settings::{SETTINGS, TEXT, Value};
use crate::tool::{self, hand_out, index_of, row};
use crate::{c, handle};

pub fn t_cvar_get_num(mut num_cvar: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    num_cvar.set(SETTINGS.len() as c_int);
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "those of the standard")]
pub fn t_cvar_get_info(
    cvar_index: c_int,
    name: Optional<c_char>,
    mut name_len: Optional<c_int>,
    mut verbosity: Optional<c_int>,
    mut datatype: Optional<c::Datatype>,
    mut enumtype: Optional<c::ToolHandle>,
    desc: Optional<c_char>,
    mut desc_len: Optional<c_int>,
    mut bind: Optional<c_int>,
    mut scope: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = row(SETTINGS, cvar_index, "control variable")?;
    hand_out(one.name, &name, &mut name_len);
    hand_out(one.description, &desc, &mut desc_len);
    verbosity.set(k::MPI_T_VERBOSITY_USER_BASIC);
    datatype.set(one.datatype().0);
    enumtype.set(handle_of(one.enumeration));
    bind.set(k::MPI_T_BIND_NO_OBJECT);
    scope.set(one.scope());
    Ok(())
}

pub fn t_cvar_get_index(name: Optional<c_char>, mut cvar_index: Optional<c_int>) -> Checked<()> {
    tool::check()?;
    let names = SETTINGS.iter().map(|one| one.name);
    cvar_index.set(index_of(names, &name, "control variable")?);
    Ok(())
}

pub fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: Optional<c_void>,
    mut handle: Optional<c::ToolHandle>,
    mut count: Optional<c_int>,
) -> Checked<()> {
    tool::check()?;
    let one = row(SETTINGS, cvar_index, "control variable")?;
    let Some(made) = handle::insert(CvarHandle(one)) else {
        return Err(Fault::new(
            k::MPI_T_ERR_OUT_OF_HANDLES,
            "too many handles live at once",
        ));
    };
    handle.set(c::ToolHandle(made));
    count.set(one.datatype().1);
    Ok(())
}

pub fn t_cvar_handle_free(mut handle: Optional<c::ToolHandle>) -> Checked<()> {
    tool::check()?;
    let given = handle.get().unwrap_or(k::MPI_T_CVAR_HANDLE_NULL);
    find(given)?;
    handle::remove::<CvarHandle>(given.0);
    handle.set(k::MPI_T_CVAR_HANDLE_NULL);
    Ok(())
}

fn find(handle: c::ToolHandle) -> Checked<&'static CvarHandle> {
    handle::find::<CvarHandle>(handle.0).ok_or_else(|| {
        Fault::new(
            k::MPI_T_ERR_INVALID_HANDLE,
            "this is no handle of a control variable, or it was freed",
        )
    })
}

pub fn t_cvar_read(handle: c::ToolHandle, buf: Optional<c_void>) -> Checked<()> {
    tool::check()?;
    match (find(handle)?.0.read)() {
        Value::Unsigned(value) => buf.cast::<u64>().needed()?.set(value),
        Value::Int(value) => buf.cast::<c_int>().needed()?.set(value),
        Value::Text(text) => {
            let mut room = buf.cast::<u8>().needed()?;
            let bytes = text.bytes().take(TEXT - 1).chain(std::iter::repeat(0));
            for (place, byte) in bytes.take(TEXT).enumerate() {
                room.set_at(place, byte);
            }
        }
    }
    Ok(())
}

pub fn t_cvar_write(handle: c::ToolHandle, buf: Optional<c_void>) -> Checked<()> {
    tool::check()?;
    let setting = find(handle)?.0;
    let Some(write) = setting.write else {
        return Err(Fault::new(
            k::MPI_T_ERR_CVAR_SET_NEVER,
            format!("{} is what was set when the job began", setting.name),
        ));
    };
    let value = match (setting.read)() {
        Value::Unsigned(_) => buf.cast::<u64>().get(),
        Value::Int(_) => buf
            .cast::<c_int>()
            .get()
            .map(|value| i64::from(value).cast_unsigned()),
        Value::Text(_) => None,
    };
    match value {
        Some(value) => write(value),
        None => Err(tool::invalid("a value is needed, not a null pointer")),
    }
}
