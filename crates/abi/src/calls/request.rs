//! Requests and statuses (MPI 5.0, sections 3.7, 3.8, 13.2).
//!
//! A handle whose request is not persistent becomes `MPI_REQUEST_NULL` when its end is reported. An
//! error of the operation itself belongs to the communicator that it was started on.

mod general;
mod peek;
mod status;

use std::cell::RefCell;
use std::ffi::c_int;

use weft_mpi::{RequestId, RequestList, Status, memory};

use crate::args::{InOut, Out, StatusOut, StatusesOut};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::{Named, ends_once, pack, request_of, unpack};
use crate::state;
use general::Watched;

pub use general::{grequest_complete, grequest_start};
pub use peek::*;
pub use status::*;

/// The handle of an operation that had ended when it was begun, such as a send whose message has left.
const DONE: c::Request = pack(RequestId::DONE);

/// Context of `MPI_COMM_WORLD`.
const WORLD: u32 = 0;

#[cold]
fn wild(argument: &'static str, handle: c::Request) -> Fault {
    Fault::argument(
        k::MPI_ERR_REQUEST,
        argument,
        "a request or MPI_REQUEST_NULL",
        format!("{:#x}", handle.0),
        "pass what a call of the standard has returned, and set variables to MPI_REQUEST_NULL before their first use",
    )
}

fn named(handle: c::Request, argument: &'static str) -> Checked<Option<(RequestId, bool)>> {
    match unpack(handle) {
        Named::Null => Ok(None),
        Named::Request(id, persistent) => Ok(Some((id, persistent))),
        Named::Wild => Err(wild(argument, handle)),
    }
}

/// The context of the communicator whose handler gets the faults of an operation: that of its request, of the
/// first one in a list. It is looked up before the request ends, and only if handlers differ.
fn context_of(requests: &[c::Request]) -> u32 {
    if !state::handlers_vary() {
        return WORLD;
    }
    requests
        .iter()
        .find_map(|request| state::context_of(*request))
        .unwrap_or(WORLD)
}

/// A fault of the operation behind a request of this context.
fn of_request(context: u32) -> impl Fn(weft_mpi::Error) -> Fault {
    move |error| Fault::from(error).on(Some(context))
}

#[inline]
pub fn wait(mut request: InOut<c::Request>, mut status: StatusOut) -> Checked<()> {
    if request.get() == DONE {
        request.set(k::MPI_REQUEST_NULL);
        status.set(&Status::empty());
        return Ok(());
    }
    wait_for_end(request, status)
}

fn wait_for_end(mut request: InOut<c::Request>, mut status: StatusOut) -> Checked<()> {
    let context = context_of(&[request.get()]);
    let Some((id, persistent)) = named(request.get(), "request")? else {
        status.set(&Status::empty());
        return Ok(());
    };
    let outcome = state::process()?.wait(id);
    let given = request.get();
    if !persistent {
        request.set(k::MPI_REQUEST_NULL);
    }
    status.set(&outcome.map_err(of_request(context))?);
    general::ended(given, status.get_mut())
}

pub fn test(
    mut request: InOut<c::Request>,
    mut flag: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let context = context_of(&[request.get()]);
    let Some((id, persistent)) = named(request.get(), "request")? else {
        flag.flag(true);
        status.set(&Status::empty());
        return Ok(());
    };
    let outcome = state::process()?.test(id);
    let ended = !matches!(outcome, Ok(None));
    flag.flag(ended);
    let given = request.get();
    if ended && !persistent {
        request.set(k::MPI_REQUEST_NULL);
    }
    if let Some(outcome) = outcome.map_err(of_request(context))? {
        status.set(&outcome);
        general::ended(given, status.get_mut())?;
    }
    Ok(())
}

thread_local! {
    /// Names of the requests of a call, kept to spare the allocation.
    static NAMES: RefCell<Vec<Option<RequestId>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call` with the names of all requests of a list.
fn with_names<T>(
    requests: &[c::Request],
    call: impl FnOnce(&[Option<RequestId>]) -> Checked<T>,
) -> Checked<T> {
    memory::ensure_list(requests.len(), 64)?;
    let mut names = exchange_names(Vec::new());
    names.clear();
    let mut fault = None;
    for request in requests {
        match named(*request, "array_of_requests") {
            Ok(name) => names.push(name.map(|(id, _)| id)),
            Err(wrong) => {
                fault = Some(wrong);
                break;
            }
        }
    }
    let outcome = match fault {
        Some(fault) => Err(fault),
        None => call(&names),
    };
    exchange_names(names);
    outcome
}

/// Not inlined: a fiber that waits in between may continue in another thread, and then needs that thread's
/// variable.
#[inline(never)]
fn exchange_names(names: Vec<Option<RequestId>>) -> Vec<Option<RequestId>> {
    NAMES.replace(names)
}

/// A request of the list has ended.
#[inline]
fn ended(request: &mut c::Request) {
    if ends_once(*request).is_some() {
        *request = k::MPI_REQUEST_NULL;
    }
}

/// A caller's list of requests, all of which must end: handles, and the addresses for their statuses.
struct Handles<'a> {
    requests: &'a mut [c::Request],
    statuses: StatusesOut,
}

impl<'a> Handles<'a> {
    /// Refuses handles that are not requests.
    #[inline]
    fn new(requests: &'a mut [c::Request], statuses: StatusesOut) -> Checked<Self> {
        for request in &*requests {
            if request_of(*request).is_none() && *request != k::MPI_REQUEST_NULL {
                return Err(wild("array_of_requests", *request));
            }
        }
        Ok(Self { requests, statuses })
    }
}

impl RequestList for Handles<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    fn request(&self, place: usize) -> Option<RequestId> {
        request_of(self.requests[place])
    }

    #[inline]
    fn wants_statuses(&self) -> bool {
        self.statuses.are_wanted()
    }

    #[inline]
    fn ended(&mut self, place: usize, status: Option<&Status>, failed: bool) {
        if self.statuses.are_wanted() {
            match status {
                Some(status) => self.statuses.set(place, status, failed),
                None => self.statuses.set(place, &Status::empty(), failed),
            }
        }
        ended(&mut self.requests[place]);
    }
}

pub fn waitall(count: usize, requests: &mut [c::Request], statuses: StatusesOut) -> Checked<()> {
    debug_assert_eq!(count, requests.len());
    let context = context_of(requests);
    let watched = Watched::new(requests);
    let mut handles = Handles::new(requests, statuses)?;
    let outcome = state::process()?.wait_all(&mut handles);
    let outcome = outcome.map_err(of_request(context));
    watched
        .all_ended(&mut handles.statuses, outcome)
        .map_err(|fault| fault.on(Some(context)))
}

pub fn testall(
    _count: usize,
    requests: &mut [c::Request],
    mut flag: Out<c_int>,
    statuses: StatusesOut,
) -> Checked<()> {
    let context = context_of(requests);
    let watched = Watched::new(requests);
    let mut handles = Handles::new(requests, statuses)?;
    let outcome = state::process()?.test_all(&mut handles);
    let ended = !matches!(outcome, Ok(false));
    flag.flag(ended);
    let outcome = outcome.map(drop).map_err(of_request(context));
    if !ended {
        return outcome;
    }
    watched
        .all_ended(&mut handles.statuses, outcome)
        .map_err(|fault| fault.on(Some(context)))
}

/// One request of a list has ended, or none is under way.
fn one_ended(
    context: u32,
    requests: &mut [c::Request],
    end: Option<(usize, Status)>,
    index: &mut Out<c_int>,
    status: &mut StatusOut,
) -> Checked<()> {
    let Some((place, mut end)) = end else {
        index.set(k::MPI_UNDEFINED);
        status.set(&Status::empty());
        return Ok(());
    };
    index.set(place as c_int);
    let watched = Watched::new(requests);
    ended(&mut requests[place]);
    status.set(&end);
    watched.one_ended(place, status.get_mut())?;
    end.error
        .take()
        .map_or(Ok(()), |error| Err(of_request(context)(error)))
}

pub fn waitany(
    _count: usize,
    requests: &mut [c::Request],
    mut index: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let context = context_of(requests);
    let end = with_names(requests, |names| {
        state::process()?
            .wait_any(names)
            .map_err(of_request(context))
    })?;
    one_ended(context, requests, end, &mut index, &mut status)
}

pub fn testany(
    _count: usize,
    requests: &mut [c::Request],
    mut index: Out<c_int>,
    mut flag: Out<c_int>,
    mut status: StatusOut,
) -> Checked<()> {
    let context = context_of(requests);
    match with_names(requests, |names| {
        state::process()?
            .test_any(names)
            .map_err(of_request(context))
    })? {
        Some(end) => {
            flag.flag(true);
            one_ended(context, requests, end, &mut index, &mut status)
        }
        None => {
            flag.flag(false);
            index.set(k::MPI_UNDEFINED);
            Ok(())
        }
    }
}

/// Some requests of a list have ended; `None` if none is under way.
fn some_ended(
    context: u32,
    requests: &mut [c::Request],
    ends: Option<Vec<(usize, Status)>>,
    outcount: &mut Out<c_int>,
    indices: &mut [c_int],
    statuses: &mut StatusesOut,
) -> Checked<()> {
    let Some(ends) = ends else {
        outcount.set(k::MPI_UNDEFINED);
        return Ok(());
    };
    outcount.set(ends.len() as c_int);
    let failed = ends.iter().find_map(|(_, end)| end.error.as_ref());
    let watched = Watched::new(requests);
    for (rank, (place, end)) in ends.iter().enumerate() {
        indices[rank] = *place as c_int;
        statuses.set(rank, end, failed.is_some());
        ended(&mut requests[*place]);
    }
    let outcome = match failed {
        None => Ok(()),
        Some(error) => Err(Fault::new(
            k::MPI_ERR_IN_STATUS,
            format!("a request failed because {error}; see the error in each status"),
        )),
    };
    watched
        .some_ended(ends.iter().map(|(place, _)| *place), statuses, outcome)
        .map_err(|fault| fault.on(Some(context)))
}

pub fn waitsome(
    _incount: usize,
    requests: &mut [c::Request],
    mut outcount: Out<c_int>,
    indices: &mut [c_int],
    mut statuses: StatusesOut,
) -> Checked<()> {
    let context = context_of(requests);
    let ends = with_names(requests, |names| {
        state::process()?
            .wait_some(names)
            .map_err(of_request(context))
    })?;
    some_ended(
        context,
        requests,
        ends,
        &mut outcount,
        indices,
        &mut statuses,
    )
}

pub fn testsome(
    _incount: usize,
    requests: &mut [c::Request],
    mut outcount: Out<c_int>,
    indices: &mut [c_int],
    mut statuses: StatusesOut,
) -> Checked<()> {
    let context = context_of(requests);
    let ends = with_names(requests, |names| {
        state::process()?
            .test_some(names)
            .map_err(of_request(context))
    })?;
    some_ended(
        context,
        requests,
        ends,
        &mut outcount,
        indices,
        &mut statuses,
    )
}

/// A request, which must not be null.
fn present(handle: c::Request, argument: &'static str) -> Checked<RequestId> {
    match named(handle, argument)? {
        Some((id, _)) => Ok(id),
        None => Err(Fault::argument(
            k::MPI_ERR_REQUEST,
            argument,
            "a request",
            "MPI_REQUEST_NULL",
            "the request has ended, or was never started: leave it out",
        )),
    }
}

pub fn start(request: InOut<c::Request>) -> Checked<()> {
    let id = present(request.get(), "request")?;
    Ok(state::process()?.start(id)?)
}

pub fn startall(_count: usize, requests: &mut [c::Request]) -> Checked<()> {
    // Which is none, and why, is asked only if there is one.
    if requests
        .iter()
        .any(|request| request_of(*request).is_none())
    {
        for request in &*requests {
            present(*request, "array_of_requests")?;
        }
    }
    let ids = requests.iter().filter_map(|request| request_of(*request));
    Ok(state::process()?.start_all(ids)?)
}

pub fn cancel(request: InOut<c::Request>) -> Checked<()> {
    let id = present(request.get(), "request")?;
    if general::cancel(request.get())? {
        return Ok(());
    }
    Ok(state::process()?.cancel(id)?)
}

pub fn request_free(mut request: InOut<c::Request>) -> Checked<()> {
    let id = present(request.get(), "request")?;
    state::process()?.free_request(id)?;
    request.set(k::MPI_REQUEST_NULL);
    general::freed(id)
}
