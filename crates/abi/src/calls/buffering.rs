//! Buffers of buffered sends (MPI 5.0, section 3.6).
//!
//! Messages wait in memory of the engine. The buffers that a program attaches, to the process, to a
//! communicator or to a session, are handed back untouched: together they determine how much may wait. A
//! program that stays within each of its buffers stays within their sum.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_mpi::Comm;

use crate::args::{CountOut, Out};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::pack;
use crate::state::{self, SessionObject};

/// The object that a buffer is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Process,
    /// By its context.
    Comm(u32),
    /// By its handle.
    Session(usize),
}

impl Owner {
    fn of(comm: &Comm) -> Self {
        Self::Comm(comm.context())
    }

    fn of_session(session: &SessionObject) -> Self {
        Self::Session(session.handle().0)
    }
}

/// A buffer that is attached.
#[derive(Clone, Copy, Debug)]
struct Attached {
    owner: Owner,
    address: usize,
    /// As the program gave it; without meaning for `MPI_BUFFER_AUTOMATIC`.
    size: usize,
}

impl Attached {
    fn is_automatic(&self) -> bool {
        self.address == k::MPI_BUFFER_AUTOMATIC.addr()
    }

    /// How much may wait because of this buffer. Practically unlimited if the library provides the room
    /// itself; far enough below the largest number to permit sums.
    fn allowance(&self) -> usize {
        if self.is_automatic() {
            usize::MAX / 4
        } else {
            self.size
        }
    }
}

static ATTACHED: Mutex<Vec<Attached>> = Mutex::new(Vec::new());

fn open() -> MutexGuard<'static, Vec<Attached>> {
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the engine how much may wait.
fn allow(attached: &[Attached]) -> Checked<()> {
    let total = attached
        .iter()
        .map(Attached::allowance)
        .fold(0, usize::saturating_add);
    state::process()?.attach_buffer(total.min(usize::MAX / 2));
    Ok(())
}

fn attach(owner: Owner, buffer: *mut c_void, size: usize) -> Checked<()> {
    let mut attached = open();
    if attached.iter().any(|one| one.owner == owner) {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            "buffer",
            "no buffer to be attached",
            "one that is attached already",
            "detach it first",
        ));
    }
    if buffer.is_null() && size > 0 {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            "buffer",
            "the address of memory",
            "a null pointer",
            "pass the address of `size` bytes, or MPI_BUFFER_AUTOMATIC",
        ));
    }
    attached.push(Attached {
        owner,
        address: buffer.expose_provenance(),
        size,
    });
    allow(&attached)
}

/// Waits until everything that is buffered has left, then hands the buffer back.
///
/// # Safety
/// `place` is the address of a pointer that may be written, or null.
unsafe fn detach(owner: Owner, place: *mut c_void, mut size: CountOut) -> Checked<()> {
    if place.is_null() {
        return Err(Fault::null("buffer_addr"));
    }
    flush(owner)?;
    let mut attached = open();
    let found = attached
        .iter()
        .position(|one| one.owner == owner)
        .map(|at| attached.remove(at));
    allow(&attached)?;
    let (address, bytes) = match found {
        Some(found) if found.is_automatic() => (found.address, 0),
        Some(found) => (found.address, found.size),
        None => (0, 0),
    };
    let address = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: `buffer_addr` is the address of a pointer (MPI 5.0, section 3.6), as `detach` asks; it is not null.
    unsafe { place.cast::<*mut c_void>().write_unaligned(address) };
    size.set(Some(bytes as i64));
    Ok(())
}

/// Whether the messages of a context wait in the buffer of this owner. Messages of a communicator without a
/// buffer of its own wait in that of its session or of the process, which are not distinguished.
fn concerns(owner: Owner) -> impl Fn(u32) -> bool {
    let is_comm = matches!(owner, Owner::Comm(_));
    let named: Vec<u32> = match owner {
        Owner::Comm(own) => contexts_of(own),
        Owner::Process | Owner::Session(_) => {
            let owners: Vec<Owner> = open().iter().map(|one| one.owner).collect();
            let of = |owner| match owner {
                Owner::Comm(context) => contexts_of(context),
                Owner::Process | Owner::Session(_) => Vec::new(),
            };
            owners.into_iter().flat_map(of).collect()
        }
    };
    move |context| named.contains(&context) == is_comm
}

/// The contexts of the messages of a communicator.
fn contexts_of(context: u32) -> Vec<u32> {
    match state::comm_of_context(context) {
        Some((_, comm)) => comm.contexts().collect(),
        None => vec![context],
    }
}

/// Waits until everything in the buffer of this owner has left.
fn flush(owner: Owner) -> Checked<()> {
    state::process()?.flush_buffer_of(concerns(owner));
    Ok(())
}

/// As [`flush`], with a request that ends at that time.
fn begin_flush(owner: Owner, request: &mut Out<c::Request>) -> Checked<()> {
    let context = match owner {
        Owner::Comm(context) => Some(context),
        Owner::Process | Owner::Session(_) => None,
    };
    let begun = state::process()?.begin_flush_of(context, concerns(owner))?;
    request.set(pack(begun));
    Ok(())
}

pub fn buffer_attach(buffer: *mut c_void, size: usize) -> Checked<()> {
    attach(Owner::Process, buffer, size)
}

pub unsafe fn buffer_detach(buffer_addr: *mut c_void, size: CountOut) -> Checked<()> {
    // SAFETY: `buffer_addr` is null or the address of a pointer (MPI 5.0, section 3.6, `MPI_Buffer_detach`).
    unsafe { detach(Owner::Process, buffer_addr, size) }
}

pub fn buffer_flush() -> Checked<()> {
    flush(Owner::Process)
}

pub fn buffer_iflush(mut request: Out<c::Request>) -> Checked<()> {
    begin_flush(Owner::Process, &mut request)
}

pub fn comm_attach_buffer(comm: &Arc<Comm>, buffer: *mut c_void, size: usize) -> Checked<()> {
    attach(Owner::of(comm), buffer, size)
}

pub unsafe fn comm_detach_buffer(
    comm: &Arc<Comm>,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Checked<()> {
    // SAFETY: `buffer_addr` is null or the address of a pointer (MPI 5.0, section 3.6, `MPI_Comm_detach_buffer`).
    unsafe { detach(Owner::of(comm), buffer_addr, size) }
}

pub fn comm_flush_buffer(comm: &Arc<Comm>) -> Checked<()> {
    flush(Owner::of(comm))
}

pub fn comm_iflush_buffer(comm: &Arc<Comm>, mut request: Out<c::Request>) -> Checked<()> {
    begin_flush(Owner::of(comm), &mut request)
}

pub fn session_attach_buffer(
    session: &SessionObject,
    buffer: *mut c_void,
    size: usize,
) -> Checked<()> {
    attach(Owner::of_session(session), buffer, size)
}

pub unsafe fn session_detach_buffer(
    session: &SessionObject,
    buffer_addr: *mut c_void,
    size: CountOut,
) -> Checked<()> {
    // SAFETY: `buffer_addr` is null or the address of a pointer (MPI 5.0, section 3.6,
    // `MPI_Session_detach_buffer`).
    unsafe { detach(Owner::of_session(session), buffer_addr, size) }
}

pub fn session_flush_buffer(session: &SessionObject) -> Checked<()> {
    flush(Owner::of_session(session))
}

pub fn session_iflush_buffer(session: &SessionObject, mut request: Out<c::Request>) -> Checked<()> {
    begin_flush(Owner::of_session(session), &mut request)
}
