//! Statuses and their contents (MPI 5.0, sections 3.2.5 and 13.3).

use std::ffi::c_int;
use std::sync::Arc;

use weft_mpi::datatype::Datatype;

use crate::args::{CountOut, Out, StatusOut};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

pub fn get_count(status: &c::Status, datatype: &Arc<Datatype>, mut count: CountOut) -> Checked<()> {
    count.set(datatype.count_of(status.bytes()).map(u64::cast_signed));
    Ok(())
}

pub fn get_elements(
    status: &c::Status,
    datatype: &Arc<Datatype>,
    mut count: CountOut,
) -> Checked<()> {
    count.set(datatype.elements(status.bytes()).map(u64::cast_signed));
    Ok(())
}

pub fn get_elements_x(
    status: &c::Status,
    datatype: &Arc<Datatype>,
    count: Out<c::Count>,
) -> Checked<()> {
    get_elements(status, datatype, CountOut::Wide(count))
}

pub fn test_cancelled(status: &c::Status, mut flag: Out<c_int>) -> Checked<()> {
    flag.flag(status.is_cancelled());
    Ok(())
}

pub fn status_get_source(status: &c::Status, mut source: Out<c_int>) -> Checked<()> {
    source.set(status.source);
    Ok(())
}

pub fn status_get_tag(status: &c::Status, mut tag: Out<c_int>) -> Checked<()> {
    tag.set(status.tag);
    Ok(())
}

pub fn status_get_error(status: &c::Status, mut error: Out<c_int>) -> Checked<()> {
    error.set(status.error);
    Ok(())
}

fn change(status: &mut StatusOut, change: impl FnOnce(&mut c::Status)) -> Checked<()> {
    match status.get_mut() {
        Some(status) => {
            change(status);
            Ok(())
        }
        None => Err(Fault::argument(
            k::MPI_ERR_ARG,
            "status",
            "a status",
            "MPI_STATUS_IGNORE",
            "pass the address of a status",
        )),
    }
}

pub fn status_set_source(mut status: StatusOut, source: c_int) -> Checked<()> {
    change(&mut status, |status| status.source = source)
}

pub fn status_set_tag(mut status: StatusOut, tag: c_int) -> Checked<()> {
    change(&mut status, |status| status.tag = tag)
}

pub fn status_set_error(mut status: StatusOut, error: c_int) -> Checked<()> {
    change(&mut status, |status| status.error = error)
}

pub fn status_set_cancelled(mut status: StatusOut, flag: bool) -> Checked<()> {
    change(&mut status, |status| status.set_cancelled(flag))
}

pub fn status_set_elements(
    mut status: StatusOut,
    datatype: &Arc<Datatype>,
    count: usize,
) -> Checked<()> {
    let bytes = datatype.bytes_of_elements(count as u64).ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_COUNT,
            "count",
            "as many basic elements as fit memory",
            count.to_string(),
            "check the count",
        )
    })?;
    change(&mut status, |status| status.set_bytes(bytes))
}

pub fn status_set_elements_x(
    status: StatusOut,
    datatype: &Arc<Datatype>,
    count: usize,
) -> Checked<()> {
    status_set_elements(status, datatype, count)
}
