//! Services for C (`weft.h`): each entry point checks its pointers and calls the node.
//!
//! The engine of MPI drives the endpoint for both, whether or not the program uses MPI: one progress
//! engine, one lane for each pair of processes. See `docs/decisions/0008-services-are-guests.md`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use weft_service::sync::SyncKind;
use weft_service::{Code, Error, Node, Result};

use crate::{last_error, state};

mod pointers;

pub use pointers::{buffer, data, name, null};
use pointers::{counter, found, nodes, region, store};

/// `ssize_t`.
pub type Size = isize;

#[cold]
fn failed(error: &Error) -> c_int {
    last_error::keep(error.to_string());
    error.number()
}

/// Result of a call in C: a number, or a negative errno.
pub trait Answer {
    fn answer(self) -> Size;
}

impl Answer for () {
    fn answer(self) -> Size {
        0
    }
}

impl Answer for i32 {
    fn answer(self) -> Size {
        self as Size
    }
}

impl Answer for u8 {
    fn answer(self) -> Size {
        Size::from(self)
    }
}

impl Answer for usize {
    fn answer(self) -> Size {
        self as Size
    }
}

#[inline]
pub fn size<T: Answer>(work: impl FnOnce(&Node) -> Result<T>) -> Size {
    let Some(node) = state::services() else {
        return failed(&Error::new(
            Code::BadId,
            "the services are not in use: call weft_init first, and weft_finalize last",
        )) as Size;
    };
    match work(node) {
        Ok(value) => value.answer(),
        Err(error) => failed(&error) as Size,
    }
}

#[inline]
pub fn number<T: Answer>(work: impl FnOnce(&Node) -> Result<T>) -> c_int {
    size(work) as c_int
}

/// Joins the job.
#[unsafe(no_mangle)]
pub extern "C" fn weft_init() -> c_int {
    match state::begin_services() {
        Ok(()) => 0,
        Err(fault) => failed(&Error::new(Code::Io, fault.sentence())),
    }
}

/// Leaves the job.
#[unsafe(no_mangle)]
pub extern "C" fn weft_finalize() -> c_int {
    if state::end_services() {
        return 0;
    }
    number(|_| Ok(()))
}

/// Number of this node.
#[unsafe(no_mangle)]
pub extern "C" fn weft_node() -> c_int {
    number(|node| Ok(node.me() as i32))
}

/// Number of nodes.
#[unsafe(no_mangle)]
pub extern "C" fn weft_nodes() -> c_int {
    number(|node| Ok(node.nodes() as i32))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_create(node: c_int, port: c_int) -> c_int {
    number(|services| services.mailbox_create(node, port))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_open(node: c_int, port: c_int) -> c_int {
    number(|services| services.mailbox_open(node, port))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_unlink(id: c_int) -> c_int {
    number(|services| services.mailbox_unlink(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_close(id: c_int) -> c_int {
    number(|services| services.mailbox_close(id))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_write(
    id: c_int,
    start: *const c_void,
    length: usize,
) -> Size {
    // SAFETY: `start` is null or points to `length` bytes until the call returns (`weft_mailbox_write`).
    size(|services| services.mailbox_write(id, unsafe { data(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_read(id: c_int, start: *mut c_void, length: usize) -> Size {
    // SAFETY: `start` is null or points to `length` bytes until the call returns (`weft_mailbox_read`).
    size(|services| services.mailbox_read(id, unsafe { buffer(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_awrite(
    id: c_int,
    start: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: `start` is null or points to `length` bytes (`weft_mailbox_awrite`), which are copied within the call.
    number(|services| services.mailbox_awrite(id, unsafe { data(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes that the caller leaves alone until `wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_aread(id: c_int, start: *mut c_void, length: usize) -> c_int {
    // SAFETY: `start` is null or points to `length` bytes until `weft_mailbox_wait` (`weft_mailbox_aread`).
    number(|services| services.mailbox_aread(id, unsafe { region(start, length) }?))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_wait(id: c_int) -> Size {
    size(|services| services.mailbox_wait(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_set_remote(id: c_int, node: c_int, port: c_int) -> c_int {
    number(|services| services.mailbox_set_remote(id, node, port))
}

/// `weft.h`
///
/// # Safety
/// Each pointer is null or points to an int of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_source(
    id: c_int,
    node: *mut c_int,
    port: *mut c_int,
) -> c_int {
    number(|services| {
        let (from, source) = services.mailbox_source(id)?;
        // SAFETY: `node` and `port` are null or point to an int each (`weft_mailbox_source`).
        unsafe {
            store(node, from as c_int);
            store(port, c_int::from(source));
        }
        Ok(())
    })
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_mailbox_port(id: c_int) -> c_int {
    number(|services| services.mailbox_port(id))
}

/// `weft.h`. It is declared there with `...`: here, integers and pointers after the fixed arguments are
/// passed in the registers of the third and fourth (System V for x86-64, AAPCS64 for Linux).
///
/// # Safety
/// The third argument is what `weft.h` says for the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mailbox_ioctl(
    id: c_int,
    request: c_uint,
    first: usize,
    second: usize,
) -> c_int {
    const SET_REMOTE: c_uint = 9;
    number(|services| {
        if request == SET_REMOTE {
            return services.mailbox_set_remote(id, first as c_int, second as c_int);
        }
        let place = std::ptr::with_exposed_provenance_mut(first);
        // SAFETY: `first` is the address of the number that the request answers with (`weft_mailbox_ioctl`), or null.
        unsafe { counter(services.mailbox_ioctl(id, request), place) }
    })
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_create(node: c_int, port: c_int) -> c_int {
    number(|services| services.portal_create(node, port))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_open(local: c_int, node: c_int, port: c_int) -> c_int {
    number(|services| services.portal_open(local, node, port))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_allow(id: c_int, node: c_int, port: c_int) -> c_int {
    number(|services| services.portal_allow(id, node, port))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_unlink(id: c_int) -> c_int {
    number(|services| services.portal_unlink(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_close(id: c_int) -> c_int {
    number(|services| services.portal_close(id))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_portal_write(id: c_int, start: *const c_void, length: usize) -> Size {
    // SAFETY: `start` is null or points to `length` bytes until the call returns (`weft_portal_write`).
    size(|services| services.portal_write(id, unsafe { data(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_portal_read(id: c_int, start: *mut c_void, length: usize) -> Size {
    // SAFETY: `start` is null or points to `length` bytes until the call returns (`weft_portal_read`).
    size(|services| services.portal_read(id, unsafe { buffer(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes that the caller does not change until `wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_portal_awrite(
    id: c_int,
    start: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: `start` is null or points to `length` bytes until `weft_portal_wait` (`weft_portal_awrite`). Nothing is
    // written to the region of a write.
    number(|services| services.portal_awrite(id, unsafe { region(start, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to `length` bytes that the caller leaves alone until `wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_portal_aread(id: c_int, start: *mut c_void, length: usize) -> c_int {
    // SAFETY: `start` is null or points to `length` bytes until `weft_portal_wait` (`weft_portal_aread`).
    number(|services| services.portal_aread(id, unsafe { region(start, length) }?))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_wait(id: c_int) -> Size {
    size(|services| services.portal_wait(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_portal_port(id: c_int) -> c_int {
    number(|services| services.portal_port(id))
}

/// `weft.h`. As [`weft_mailbox_ioctl`].
///
/// # Safety
/// The third argument is what `weft.h` says for the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_portal_ioctl(
    id: c_int,
    request: c_uint,
    place: *mut c_void,
) -> c_int {
    // SAFETY: `place` is null or points to the number that the request answers with (`weft_portal_ioctl`).
    number(|services| unsafe { counter(services.portal_ioctl(id, request), place) })
}

/// `weft.h`
///
/// # Safety
/// `list` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sync_create(list: *const c_int, count: c_int, kind: c_int) -> c_int {
    // SAFETY: `list` is null or points to `count` numbers (`weft_sync_create`).
    number(|services| services.sync_create(unsafe { nodes(list, count) }?, SyncKind::of(kind)?))
}

/// `weft.h`
///
/// # Safety
/// `list` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sync_open(list: *const c_int, count: c_int, kind: c_int) -> c_int {
    // SAFETY: `list` is null or points to `count` numbers (`weft_sync_open`).
    number(|services| services.sync_open(unsafe { nodes(list, count) }?, SyncKind::of(kind)?))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_sync_signal(id: c_int) -> c_int {
    number(|services| services.sync_signal(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_sync_wait(id: c_int) -> c_int {
    number(|services| services.sync_wait(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_sync_unlink(id: c_int) -> c_int {
    number(|services| services.sync_unlink(id))
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_sync_close(id: c_int) -> c_int {
    number(|services| services.sync_close(id))
}

/// `weft.h`. As [`weft_mailbox_ioctl`].
///
/// # Safety
/// The third argument is what `weft.h` says for the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_sync_ioctl(id: c_int, request: c_uint, place: *mut c_void) -> c_int {
    // SAFETY: `place` is null or points to the number that the request answers with (`weft_sync_ioctl`).
    number(|services| unsafe { counter(services.sync_ioctl(id, request), place) })
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_name_link(start: *const c_char, port: c_int) -> c_int {
    // SAFETY: `start` is null or points to a string (`weft_name_link`).
    number(|services| services.name_link(unsafe { name(start) }?, port))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_name_unlink(start: *const c_char) -> c_int {
    // SAFETY: `start` is null or points to a string (`weft_name_unlink`).
    number(|services| services.name_unlink(unsafe { name(start) }?))
}

/// `weft.h`
///
/// # Safety
/// `start` is null or points to a string; the others are null or point to ints of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_name_lookup(
    start: *const c_char,
    node: *mut c_int,
    port: *mut c_int,
) -> c_int {
    // SAFETY: `start` is null or points to a string, `node` and `port` are null or point to an int each
    // (`weft_name_lookup`).
    number(|services| unsafe { found(services.name_lookup(name(start)?), node, port) })
}

/// `weft.h`
///
/// # Safety
/// As [`weft_name_lookup`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_name_find(
    start: *const c_char,
    node: *mut c_int,
    port: *mut c_int,
) -> c_int {
    // SAFETY: `start` is null or points to a string, `node` and `port` are null or point to an int each
    // (`weft_name_find`).
    number(|services| unsafe { found(services.name_find(name(start)?), node, port) })
}
