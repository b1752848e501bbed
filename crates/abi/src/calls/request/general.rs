//! Generalised requests (MPI 5.0, section 13.2): the program does the work and reports its end.
//!
//! The engine knows such a request as one that it does not complete itself; its other data are here. When its
//! end is reported, the program's functions are called: *query* fills in the status, *free* drops the
//! program's data. No lock is held during these calls. Calls that report ends check here only while a request
//! of this kind is live.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicUsize, Ordering};
use weft_mpi::RequestId;

use super::{named, present};
use crate::args::{Out, StatusesOut};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::{Named, pack, unpack};
use crate::state;

/// The program's functions for a request.
#[derive(Clone, Copy, Debug)]
struct General {
    query: c::Callback,
    free: c::Callback,
    cancel: c::Callback,
    extra_state: usize,
    /// `MPI_Request_free` came before the end: the program's data are dropped when it is completed.
    detached: bool,
}

/// Number of live ones. Relaxed: a thread that completes or waits for a request has got its handle from
/// the thread that began it, which orders more than this.
static LIVE: AtomicUsize = AtomicUsize::new(0);

static ALL: LazyLock<Mutex<HashMap<RequestId, General>>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, HashMap<RequestId, General>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(id: RequestId) -> Option<General> {
    all().get(&id).copied()
}

fn remove(id: RequestId) -> Option<General> {
    let found = all().remove(&id);
    if found.is_some() {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
    found
}

fn outcome(code: c_int, what: &str) -> Checked<()> {
    if code == k::MPI_SUCCESS {
        return Ok(());
    }
    Err(Fault::new(
        code,
        format!("the {what} function of a generalised request returned {code}"),
    ))
}

impl General {
    /// Calls the query function, which fills in the status.
    fn query(&self, status: Option<&mut c::Status>) -> Checked<()> {
        let mut own = c::Status::new(k::MPI_ANY_SOURCE, k::MPI_ANY_TAG);
        if self.query.0 != 0 {
            // SAFETY: the program passed a function of this type to `MPI_Grequest_start`.
            let code = unsafe {
                let function: unsafe extern "C" fn(*mut c_void, *mut c::Status) -> c_int =
                    std::mem::transmute(self.query.0);
                function(self.extra_state as *mut c_void, &raw mut own)
            };
            outcome(code, "query")?;
        }
        if let Some(status) = status {
            let error = status.error;
            *status = own;
            status.error = error;
        }
        Ok(())
    }

    /// Calls the free function, which drops the program's data.
    fn free(&self) -> Checked<()> {
        if self.free.0 == 0 {
            return Ok(());
        }
        // SAFETY: the program passed a function of this type to `MPI_Grequest_start`.
        let code = unsafe {
            let function: unsafe extern "C" fn(*mut c_void) -> c_int =
                std::mem::transmute(self.free.0);
            function(self.extra_state as *mut c_void)
        };
        outcome(code, "free")
    }

    fn cancel(&self, complete: bool) -> Checked<()> {
        if self.cancel.0 == 0 {
            return Ok(());
        }
        // SAFETY: the program passed a function of this type to `MPI_Grequest_start`.
        let code = unsafe {
            let function: unsafe extern "C" fn(*mut c_void, c_int) -> c_int =
                std::mem::transmute(self.cancel.0);
            function(self.extra_state as *mut c_void, c_int::from(complete))
        };
        outcome(code, "cancel")
    }
}

pub fn grequest_start(
    query_fn: c::Callback,
    free_fn: c::Callback,
    cancel_fn: c::Callback,
    extra_state: *mut c_void,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let id = state::process()?.begin_general()?;
    let general = General {
        query: query_fn,
        free: free_fn,
        cancel: cancel_fn,
        extra_state: extra_state.expose_provenance(),
        detached: false,
    };
    all().insert(id, general);
    LIVE.fetch_add(1, Ordering::Relaxed);
    request.set(pack(id));
    Ok(())
}

pub fn grequest_complete(request: c::Request) -> Checked<()> {
    let id = present(request, "request")?;
    let Some(general) = find(id) else {
        return Err(Fault::argument(
            k::MPI_ERR_REQUEST,
            "request",
            "a request of MPI_Grequest_start",
            "another one",
            "only the program's own requests are completed by the program",
        ));
    };
    if general.detached {
        remove(id);
        state::process()?.complete_general(id)?;
        return general.free();
    }
    Ok(state::process()?.complete_general(id)?)
}

/// The end of a request has been reported: if it was one of these, its status is filled in, and it is
/// dropped.
#[inline]
pub(super) fn ended(handle: c::Request, status: Option<&mut c::Status>) -> Checked<()> {
    if LIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    close(handle, status)
}

#[cold]
fn close(handle: c::Request, status: Option<&mut c::Status>) -> Checked<()> {
    let Named::Request(id, _) = unpack(handle) else {
        return Ok(());
    };
    let Some(general) = remove(id) else {
        return Ok(());
    };
    // The data are dropped even if the query failed. The code of the last function that failed comes back
    // (MPI 5.0, section 13.2).
    let queried = general.query(status);
    general.free().and(queried)
}

/// The end of a request was read without ending the request.
#[inline]
pub(super) fn looked_at(handle: c::Request, status: Option<&mut c::Status>) -> Checked<()> {
    if LIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    match unpack(handle) {
        Named::Request(id, _) => find(id).map_or(Ok(()), |general| general.query(status)),
        Named::Null | Named::Wild => Ok(()),
    }
}

/// Requests of a list as they were before the call that may end them; `None` if none is one of these.
pub(super) struct Watched(Option<Vec<c::Request>>);

impl Watched {
    #[inline]
    pub(super) fn new(requests: &[c::Request]) -> Self {
        let live = LIVE.load(Ordering::Relaxed) > 0;
        Self(live.then(|| requests.to_vec()))
    }

    /// All requests of the list have ended; `others` is the outcome of those of other kinds. Returns the
    /// outcome of the call.
    #[inline]
    pub(super) fn all_ended(&self, statuses: &mut StatusesOut, others: Checked<()>) -> Checked<()> {
        // A list that was refused has ended nothing.
        let refused = matches!(&others, Err(fault) if fault.code() != k::MPI_ERR_IN_STATUS);
        match &self.0 {
            Some(before) if !refused => self.some_ended(0..before.len(), statuses, others),
            _ => others,
        }
    }

    /// The requests at these places of the list have ended; their statuses are consecutive. All of them are
    /// closed, even if one fails; the codes of those that fail go to their statuses.
    pub(super) fn some_ended(
        &self,
        places: impl Iterator<Item = usize>,
        statuses: &mut StatusesOut,
        others: Checked<()>,
    ) -> Checked<()> {
        let Some(before) = &self.0 else {
            return others;
        };
        let closed: Vec<Checked<()>> = places
            .enumerate()
            .map(|(rank, place)| close(before[place], statuses.get_mut(rank)))
            .collect();
        let Some(Err(first)) = closed.iter().find(|closed| closed.is_err()) else {
            return others;
        };
        let outcome = Fault::new(
            k::MPI_ERR_IN_STATUS,
            format!("{}; see the error in each status", first.sentence()),
        );
        for (rank, closed) in closed.iter().enumerate() {
            let Some(status) = statuses.get_mut(rank) else {
                break;
            };
            match closed {
                Err(fault) => status.error = fault.code(),
                // Otherwise the call has stored the errors of the others.
                Ok(()) if others.is_ok() => status.error = k::MPI_SUCCESS,
                Ok(()) => {}
            }
        }
        others.and(Err(outcome))
    }

    /// One request of the list has ended.
    #[inline]
    pub(super) fn one_ended(&self, place: usize, status: Option<&mut c::Status>) -> Checked<()> {
        match &self.0 {
            Some(before) => close(before[place], status),
            None => Ok(()),
        }
    }
}

/// `MPI_Cancel` of one of these; false if it is another request.
pub(super) fn cancel(handle: c::Request) -> Checked<bool> {
    if LIVE.load(Ordering::Relaxed) == 0 {
        return Ok(false);
    }
    let Some((id, _)) = named(handle, "request")? else {
        return Ok(false);
    };
    let Some(general) = find(id) else {
        return Ok(false);
    };
    let complete = state::process()?.peek(id)?.is_some();
    general.cancel(complete).map(|()| true)
}

/// `MPI_Request_free` of one of these: the program's data are dropped at once if the request has ended,
/// otherwise when it is completed.
pub(super) fn freed(id: RequestId) -> Checked<()> {
    if LIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    if state::process()?.is_live(id) {
        if let Some(general) = all().get_mut(&id) {
            general.detached = true;
        }
        return Ok(());
    }
    remove(id).map_or(Ok(()), |general| general.free())
}
