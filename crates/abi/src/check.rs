//! Checks of arguments, one for each kind of the tables. All are constant time; none looks into the
//! contents of buffers.
//!
//! # Safety
//! Addresses of the caller become references here, under the promises of the C binding: what a
//! parameter's type and direction say is true until the call returns. Null is checked; a wild address
//! cannot be.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use weft_mpi::datatype::Datatype;
use weft_mpi::{Buffer, Comm, Group, Op, Source, TagPattern, Target};

use crate::args::{CountOut, Counts, InOut, Out, TextOut};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{self, ErrhandlerObject, InfoObject, SessionObject};
use crate::{c, handle};

/// Largest tag (`MPI_TAG_UB`).
pub const TAG_MAX: c_int = 0x3fff_ffff;

/// Addresses below this are constants of the standard or mistakes, never memory.
const PAGE: usize = 4096;

/// The communicator of a handle.
#[inline]
pub fn find_communicator(handle: c::Comm) -> Option<&'static Arc<Comm>> {
    match handle {
        k::MPI_COMM_WORLD => state::world(),
        k::MPI_COMM_SELF => state::itself(),
        other => handle::find(other.0),
    }
}

/// A communicator.
#[inline]
pub fn communicator(handle: c::Comm, name: &'static str) -> Checked<&'static Arc<Comm>> {
    find_communicator(handle).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_COMM,
            name,
            "a communicator",
            handle.0,
            k::MPI_COMM_NULL.0,
            "MPI_COMM_NULL",
        )
    })
}

/// A group.
pub fn group(handle: c::Group, name: &'static str) -> Checked<&'static Arc<Group>> {
    let found = if handle == k::MPI_GROUP_EMPTY {
        Some(state::empty_group())
    } else {
        handle::find(handle.0)
    };
    found.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_GROUP,
            name,
            "a group",
            handle.0,
            k::MPI_GROUP_NULL.0,
            "MPI_GROUP_NULL",
        )
    })
}

/// A datatype.
#[inline]
pub fn datatype(handle: c::Datatype, name: &'static str) -> Checked<&'static Arc<Datatype>> {
    find_datatype(handle).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_TYPE,
            name,
            "a datatype",
            handle.0,
            k::MPI_DATATYPE_NULL.0,
            "MPI_DATATYPE_NULL",
        )
    })
}

/// The datatype of a handle.
#[inline]
pub fn find_datatype(handle: c::Datatype) -> Option<&'static Arc<Datatype>> {
    match state::predefined_datatype(handle) {
        Some(basic) => Some(basic.datatype()),
        None => handle::find(handle.0),
    }
}

/// A datatype that may be used for communication.
#[inline]
pub fn committed(handle: c::Datatype, name: &'static str) -> Checked<&'static Arc<Datatype>> {
    let found = datatype(handle, name)?;
    if found.is_committed() {
        return Ok(found);
    }
    Err(Fault::argument(
        k::MPI_ERR_TYPE,
        name,
        "a committed datatype",
        "one that is not committed",
        "call MPI_Type_commit before the datatype is used for communication",
    ))
}

/// An operation.
pub fn operation(handle: c::Op, name: &'static str) -> Checked<&'static Arc<Op>> {
    let found = state::predefined_operation(handle).or_else(|| handle::find(handle.0));
    found.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_OP,
            name,
            "an operation",
            handle.0,
            k::MPI_OP_NULL.0,
            "MPI_OP_NULL",
        )
    })
}

/// An info object.
pub fn info(handle: c::Info, name: &'static str) -> Checked<&'static InfoObject> {
    info_or_null(handle, name)?.ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_INFO,
            name,
            "an info object",
            handle.0,
            handle.0,
            "MPI_INFO_NULL",
        )
    })
}

/// An info object, or `MPI_INFO_NULL`.
pub fn info_or_null(handle: c::Info, name: &'static str) -> Checked<Option<&'static InfoObject>> {
    match handle {
        k::MPI_INFO_NULL => Ok(None),
        k::MPI_INFO_ENV => Ok(Some(state::environment_info())),
        other => match handle::find(other.0) {
            Some(found) => Ok(Some(found)),
            None => Err(bad_handle(
                k::MPI_ERR_INFO,
                name,
                "an info object or MPI_INFO_NULL",
                other.0,
                0,
                "null",
            )),
        },
    }
}

/// An error handler.
pub fn errhandler(handle: c::Errhandler, name: &'static str) -> Checked<c::Errhandler> {
    let known = matches!(
        handle,
        k::MPI_ERRORS_ARE_FATAL | k::MPI_ERRORS_ABORT | k::MPI_ERRORS_RETURN
    ) || handle::find::<ErrhandlerObject>(handle.0).is_some();
    if known {
        return Ok(handle);
    }
    Err(bad_handle(
        k::MPI_ERR_ERRHANDLER,
        name,
        "an error handler",
        handle.0,
        k::MPI_ERRHANDLER_NULL.0,
        "MPI_ERRHANDLER_NULL",
    ))
}

/// A session.
pub fn session(handle: c::Session, name: &'static str) -> Checked<&'static SessionObject> {
    handle::find(handle.0).ok_or_else(|| {
        bad_handle(
            k::MPI_ERR_SESSION,
            name,
            "a session",
            handle.0,
            k::MPI_SESSION_NULL.0,
            "MPI_SESSION_NULL",
        )
    })
}

#[cold]
fn bad_handle(
    code: c_int,
    name: &'static str,
    expected: &str,
    handle: usize,
    null: usize,
    null_name: &str,
) -> Fault {
    let (found, remedy) = if handle == null {
        (
            null_name.to_owned(),
            "pass a handle that a call of the standard has returned",
        )
    } else if handle >> 31 != 0 {
        (
            format!("the address {handle:#x}"),
            "pass the handle itself, not its address, and build with the header of this library or another for the standard ABI",
        )
    } else if handle < PAGE {
        (
            format!("the predefined handle {handle:#x}, which is something else"),
            "pass a handle of the right kind",
        )
    } else {
        (
            format!("handle {handle:#x}, which is not live"),
            "do not use a handle after it was freed, or before it was set",
        )
    };
    Fault::argument(code, name, expected, found, remedy)
}

/// A number of elements.
#[inline]
pub fn count(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_COUNT, name, value))
}

/// The length of a list.
#[inline]
pub fn length(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_ARG, name, value))
}

/// A number of bytes.
#[inline]
pub fn bytes(value: i64, name: &'static str) -> Checked<usize> {
    usize::try_from(value).map_err(|_| negative(k::MPI_ERR_ARG, name, value))
}

#[cold]
fn negative(code: c_int, name: &'static str, value: i64) -> Fault {
    let remedy = "check the arithmetic that led to it; a count above 2147483647 needs the form of the call that ends in _c";
    Fault::argument(code, name, "0 or more", value.to_string(), remedy)
}

/// A buffer.
///
/// # Safety
/// As for [`Buffer::new`].
#[inline]
pub unsafe fn buffer(
    address: *mut c_void,
    count: usize,
    datatype: &Arc<Datatype>,
    name: &'static str,
) -> Checked<Buffer> {
    if address.addr() < PAGE && count > 0 && !is_absolute(datatype) {
        return Err(bad_buffer(address, name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Buffer::new(address.cast(), count, datatype) })
}

/// Whether the displacements of a datatype are addresses, to be used with `MPI_BOTTOM`, or it has no
/// data at all.
#[cold]
fn is_absolute(datatype: &Datatype) -> bool {
    datatype.size() == 0 || datatype.true_lower_bound().unsigned_abs() >= PAGE
}

#[cold]
fn bad_buffer(address: *mut c_void, name: &'static str) -> Fault {
    let (found, remedy) = match address.addr() {
        0 => (
            "a null pointer",
            "pass the address of the data, or 0 elements",
        ),
        1 => (
            "MPI_IN_PLACE",
            "it stands for the other buffer of some collective calls, and for none in this call",
        ),
        2 => ("MPI_BUFFER_AUTOMATIC", "it is for attaching buffers only"),
        _ => (
            "an address in the first page of memory",
            "pass the address of the data",
        ),
    };
    Fault::argument(
        k::MPI_ERR_BUFFER,
        name,
        "the address of the data",
        found,
        remedy,
    )
}

/// How many ranks a message of a communicator may go to.
#[inline]
fn peers(comm: &Comm) -> u32 {
    match comm.remote_group() {
        None => comm.size(),
        Some(remote) => remote.size(),
    }
}

/// A rank to send to.
#[inline]
pub fn destination(rank: c_int, comm: &Comm, name: &'static str) -> Checked<Target> {
    if rank.cast_unsigned() < peers(comm) {
        return Ok(Target::Rank(rank.cast_unsigned()));
    }
    if rank == k::MPI_PROC_NULL {
        return Ok(Target::Null);
    }
    Err(bad_rank(rank, comm, name, ", or MPI_PROC_NULL"))
}

/// A rank to receive from.
#[inline]
pub fn source(rank: c_int, comm: &Comm, name: &'static str) -> Checked<Source> {
    if rank.cast_unsigned() < peers(comm) {
        return Ok(Source::Rank(rank.cast_unsigned()));
    }
    match rank {
        k::MPI_ANY_SOURCE => Ok(Source::Any),
        k::MPI_PROC_NULL => Ok(Source::Null),
        _ => Err(bad_rank(
            rank,
            comm,
            name,
            ", MPI_ANY_SOURCE or MPI_PROC_NULL",
        )),
    }
}

#[cold]
fn bad_rank(rank: c_int, comm: &Comm, name: &'static str, others: &str) -> Fault {
    Fault::argument(
        k::MPI_ERR_RANK,
        name,
        format!("a rank from 0 to {}{others}", i64::from(peers(comm)) - 1),
        special(rank),
        "pass a rank of the communicator; MPI_Comm_size tells how many it has",
    )
}

fn special(value: c_int) -> String {
    match value {
        k::MPI_ANY_SOURCE => "MPI_ANY_SOURCE".to_owned(),
        k::MPI_ANY_TAG => "MPI_ANY_TAG".to_owned(),
        k::MPI_PROC_NULL => "MPI_PROC_NULL".to_owned(),
        k::MPI_ROOT => "MPI_ROOT".to_owned(),
        k::MPI_UNDEFINED => "MPI_UNDEFINED".to_owned(),
        other => other.to_string(),
    }
}

/// The root of a collective.
#[inline]
pub fn root(rank: c_int, comm: &Comm, name: &'static str) -> Checked<u32> {
    if rank.cast_unsigned() < comm.size() && comm.remote_group().is_none() {
        return Ok(rank.cast_unsigned());
    }
    Err(bad_root(rank, comm, name))
}

#[cold]
fn bad_root(rank: c_int, comm: &Comm, name: &'static str) -> Fault {
    if comm.remote_group().is_some() {
        return Fault::new(
            k::MPI_ERR_UNSUPPORTED_OPERATION,
            "collectives on intercommunicators are not implemented yet; merge the two sides with MPI_Intercomm_merge",
        );
    }
    Fault::argument(
        k::MPI_ERR_ROOT,
        name,
        format!("a rank from 0 to {}", i64::from(comm.size()) - 1),
        special(rank),
        "pass the same rank of the communicator at all its processes",
    )
}

/// A tag to send with.
#[inline]
pub fn send_tag(tag: c_int, name: &'static str) -> Checked<i32> {
    if (0..=TAG_MAX).contains(&tag) {
        Ok(tag)
    } else {
        Err(bad_tag(tag, name, ""))
    }
}

/// A tag to receive.
#[inline]
pub fn receive_tag(tag: c_int, name: &'static str) -> Checked<TagPattern> {
    if (0..=TAG_MAX).contains(&tag) {
        return Ok(TagPattern::Exact(tag));
    }
    if tag == k::MPI_ANY_TAG {
        Ok(TagPattern::Any)
    } else {
        Err(bad_tag(tag, name, ", or MPI_ANY_TAG"))
    }
}

#[cold]
fn bad_tag(tag: c_int, name: &'static str, others: &str) -> Fault {
    Fault::argument(
        k::MPI_ERR_TAG,
        name,
        format!("a tag from 0 to {TAG_MAX}{others}"),
        special(tag),
        "choose a tag in the range; the attribute MPI_TAG_UB tells its end",
    )
}

/// Where a result goes.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn out<T>(address: *mut T, name: &'static str) -> Checked<Out<T>> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { Out::new(address) })
}

/// A variable that is read and written.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn in_out<T: Copy>(address: *mut T, name: &'static str) -> Checked<InOut<T>> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { InOut::new(address) })
}

/// Addresses that a count may go to.
pub trait CountAddress {
    /// # Safety
    /// The address may be written until the call returns.
    unsafe fn into_out(self) -> CountOut;
    /// Whether it is null.
    fn is_nothing(&self) -> bool;
}

impl CountAddress for *mut c_int {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: the caller's promise.
        CountOut::Int(unsafe { Out::new(self) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

impl CountAddress for *mut i64 {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: the caller's promise.
        CountOut::Wide(unsafe { Out::new(self) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

impl CountAddress for *mut isize {
    unsafe fn into_out(self) -> CountOut {
        // SAFETY: the caller's promise; `MPI_Aint` and `MPI_Count` have 64 bits alike (asserted in `c`).
        CountOut::Wide(unsafe { Out::new(self.cast()) })
    }

    fn is_nothing(&self) -> bool {
        self.is_null()
    }
}

/// Where a count goes.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn count_out<A: CountAddress>(address: A, name: &'static str) -> Checked<CountOut> {
    if address.is_nothing() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { address.into_out() })
}

/// Elements of lists of counts.
pub trait CountElement {
    /// Whether they have 64 bits.
    const WIDE: bool;
}

impl CountElement for c_int {
    const WIDE: bool = false;
}
impl CountElement for i64 {
    const WIDE: bool = true;
}
impl CountElement for isize {
    const WIDE: bool = true;
}

/// A list of counts. Whether it may be null depends on the rank: the calls check that.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn counts<T: CountElement>(address: *const T, _name: &'static str) -> Checked<Counts> {
    // SAFETY: the caller's promise.
    Ok(unsafe { Counts::new(address.cast(), T::WIDE) })
}

/// A list.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn slice<'a, T>(
    address: *const T,
    length: usize,
    name: &'static str,
) -> Checked<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { std::slice::from_raw_parts(address, length) })
}

/// A list that is written.
///
/// # Safety
/// As the head of the module says.
#[inline]
pub unsafe fn slice_mut<'a, T>(
    address: *mut T,
    length: usize,
    name: &'static str,
) -> Checked<&'a mut [T]> {
    if length == 0 {
        return Ok(&mut []);
    }
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { std::slice::from_raw_parts_mut(address, length) })
}

/// A status to be looked at.
///
/// # Safety
/// As the head of the module says.
pub unsafe fn status<'a>(address: *const c::Status, name: &'static str) -> Checked<&'a c::Status> {
    // SAFETY: the caller's promise.
    unsafe { address.as_ref() }.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a status",
            "MPI_STATUS_IGNORE",
            "pass a status to the call that completes the operation, and look at that",
        )
    })
}

/// A text.
///
/// # Safety
/// As the head of the module says; it ends with a zero.
pub unsafe fn text<'a>(address: *const c_char, name: &'static str) -> Checked<&'a CStr> {
    if address.is_null() {
        return Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a text",
            "a null pointer",
            "pass a text, empty if need be",
        ));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { CStr::from_ptr(address) })
}

/// Where a text goes.
///
/// # Safety
/// As the head of the module says.
pub unsafe fn text_out(address: *mut c_char, name: &'static str) -> Checked<TextOut> {
    if address.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller's promise; null was checked.
    Ok(unsafe { TextOut::new(address) })
}
