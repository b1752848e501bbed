//! Info objects (MPI 5.0, chapter 10).

use std::ffi::{CStr, c_char, c_int};

use weft_mpi::info::Info;

use crate::args::{InOut, Out, TextOut, text_of};
use crate::calls::abi::new_info;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::InfoObject;
use crate::{c, check, handle};

pub fn info_create(mut info: Out<c::Info>) -> Checked<()> {
    info.set(new_info(Info::default())?);
    Ok(())
}

pub fn info_create_env(
    _argc: c_int,
    _argv: *mut *mut c_char,
    mut info: Out<c::Info>,
) -> Checked<()> {
    let pairs = crate::state::environment_info().open().clone();
    info.set(new_info(pairs)?);
    Ok(())
}

pub fn info_dup(info: &InfoObject, mut newinfo: Out<c::Info>) -> Checked<()> {
    let pairs = info.open().clone();
    newinfo.set(new_info(pairs)?);
    Ok(())
}

pub fn info_free(mut info: InOut<c::Info>) -> Checked<()> {
    check::info(info.get(), "info")?;
    if info.get() == k::MPI_INFO_ENV || !handle::remove::<InfoObject>(info.get().0) {
        return Err(Fault::argument(
            k::MPI_ERR_INFO,
            "info",
            "an info object of the program",
            "MPI_INFO_ENV",
            "do not free predefined objects",
        ));
    }
    info.set(k::MPI_INFO_NULL);
    Ok(())
}

pub fn info_set(info: &InfoObject, key: &CStr, value: &CStr) -> Checked<()> {
    info.open().set(&text_of(key), &text_of(value))?;
    Ok(())
}

pub fn info_delete(info: &InfoObject, key: &CStr) -> Checked<()> {
    info.open().delete(&text_of(key))?;
    Ok(())
}

pub fn info_get_nkeys(info: &InfoObject, mut nkeys: Out<c_int>) -> Checked<()> {
    nkeys.set(info.open().len() as c_int);
    Ok(())
}

pub fn info_get_nthkey(info: &InfoObject, n: c_int, mut key: TextOut) -> Checked<()> {
    let info = info.open();
    let found = usize::try_from(n).ok().and_then(|n| info.key(n));
    match found {
        Some(text) => {
            key.set(text, k::MPI_MAX_INFO_KEY as usize);
            Ok(())
        }
        None => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "n",
            format!("a number from 0 to {}", info.len() as i64 - 1),
            n.to_string(),
            "MPI_Info_get_nkeys tells how many keys there are",
        )),
    }
}

/// The old call: `valuelen` does not count the terminating zero.
pub fn info_get(
    info: &InfoObject,
    key: &CStr,
    valuelen: c_int,
    mut value: TextOut,
    mut flag: Out<c_int>,
) -> Checked<()> {
    let room = check::length(valuelen.into(), "valuelen")?;
    let info = info.open();
    let found = info.get(&text_of(key))?;
    flag.flag(found.is_some());
    if let Some(text) = found {
        value.set(text, room + 1);
    }
    Ok(())
}

pub fn info_get_valuelen(
    info: &InfoObject,
    key: &CStr,
    mut valuelen: Out<c_int>,
    mut flag: Out<c_int>,
) -> Checked<()> {
    let info = info.open();
    let found = info.get(&text_of(key))?;
    flag.flag(found.is_some());
    if let Some(text) = found {
        valuelen.set(text.len() as c_int);
    }
    Ok(())
}

pub fn info_get_string(
    info: &InfoObject,
    key: &CStr,
    mut buflen: InOut<c_int>,
    value: *mut c_char,
    mut flag: Out<c_int>,
) -> Checked<()> {
    let room = check::length(buflen.get().into(), "buflen")?;
    let info = info.open();
    let found = info.get(&text_of(key))?;
    flag.flag(found.is_some());
    if let Some(text) = found {
        if room > 0 {
            // SAFETY: `value` has room for `buflen` bytes (MPI 5.0, section 10, `MPI_Info_get_string`); null is refused.
            unsafe { check::text_out(value, "value")? }.set(text, room);
        }
        buflen.set(text.len() as c_int + 1);
    }
    Ok(())
}
