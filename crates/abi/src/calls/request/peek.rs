//! Tests of requests that do not end them (MPI 5.0, section 3.7.6).

use std::ffi::c_int;

use weft_mpi::{Status, memory};

use super::{general, named};
use crate::args::{Out, StatusOut, StatusesOut};
use crate::c;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::state;

pub fn request_get_status(
    request: c::Request,
    mut flag: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let end = match named(request, "request")? {
        None => Some(Status::empty()),
        Some((id, _)) => state::process()?.peek(id)?,
    };
    flag.flag(end.is_some());
    if let Some(end) = end {
        status.set(&end);
        general::looked_at(request, status.get_mut())?;
    }
    Ok(())
}

pub fn request_get_status_all(
    _count: usize,
    requests: &[c::Request],
    mut flag: Out<c_int>,
    mut statuses: StatusesOut,
) -> Checked<()> {
    memory::ensure_list(requests.len(), 2 * size_of::<Option<Status>>())?;
    let mut ends = Vec::with_capacity(requests.len());
    for request in requests {
        ends.push(match named(*request, "array_of_requests")? {
            None => Some(Status::empty()),
            Some((id, _)) => state::process()?.peek(id)?,
        });
    }
    let all: Option<Vec<Status>> = ends.into_iter().collect();
    flag.flag(all.is_some());
    for (place, end) in all.iter().flatten().enumerate() {
        statuses.set(place, end, false);
        general::looked_at(requests[place], statuses.get_mut(place))?;
    }
    Ok(())
}

pub fn request_get_status_any(
    _count: usize,
    requests: &[c::Request],
    mut index: Out<c_int>,
    mut flag: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let mut live = false;
    for (place, request) in requests.iter().enumerate() {
        let Some((id, _)) = named(*request, "array_of_requests")? else {
            continue;
        };
        live = true;
        if let Some(end) = state::process()?.peek(id)? {
            index.set(place as c_int);
            flag.flag(true);
            status.set(&end);
            return general::looked_at(*request, status.get_mut());
        }
    }
    index.set(k::MPI_UNDEFINED);
    flag.flag(!live);
    if !live {
        status.set(&Status::empty());
    }
    Ok(())
}

pub fn request_get_status_some(
    _incount: usize,
    requests: &[c::Request],
    mut outcount: Out<c_int>,
    indices: &mut [c_int],
    mut statuses: StatusesOut,
) -> Checked<()> {
    let (mut live, mut found) = (false, 0);
    for (place, request) in requests.iter().enumerate() {
        let Some((id, _)) = named(*request, "array_of_requests")? else {
            continue;
        };
        live = true;
        if let Some(end) = state::process()?.peek(id)? {
            indices[found] = place as c_int;
            statuses.set(found, &end, false);
            general::looked_at(*request, statuses.get_mut(found))?;
            found += 1;
        }
    }
    outcount.set(if live {
        found as c_int
    } else {
        k::MPI_UNDEFINED
    });
    Ok(())
}
