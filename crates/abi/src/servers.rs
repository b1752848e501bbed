//! Servers and clients for C (`weft.h`): the ends of services, by id.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_service::server::Request;
use weft_service::{Client, Node, Result, Server, Table};

use crate::services::{Size, buffer, data, name, null, number, size};

static SERVERS: Mutex<Table<Arc<Server>>> = Mutex::new(Table::new("server"));
static CLIENTS: Mutex<Table<Arc<Client>>> = Mutex::new(Table::new("client"));

fn open<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end that an id names. The table is not locked while the end is used, because its calls wait.
fn of<T>(table: &Mutex<Table<Arc<T>>>, id: c_int) -> Result<Arc<T>> {
    open(table).get(id).map(|one| Arc::clone(one))
}

fn add<T>(table: &Mutex<Table<Arc<T>>>, made: Result<T>) -> Result<i32> {
    let made = Arc::new(made?);
    open(table).insert(made)
}

fn end<T>(table: &Mutex<Table<Arc<T>>>, id: c_int) -> Result<()> {
    of(table, id)?;
    // The end is closed without the lock.
    let ended = open(table).remove(id);
    drop(ended);
    Ok(())
}

/// Ends all, before the services end.
pub fn end_all() {
    let servers = std::mem::replace(&mut *open(&SERVERS), Table::new("server"));
    let clients = std::mem::replace(&mut *open(&CLIENTS), Table::new("client"));
    drop((servers, clients));
}

/// A request that the caller has got from `weft_server_next`.
///
/// # Safety
/// `place` is null or points to a request.
unsafe fn request(place: *const Request) -> Result<Request> {
    if place.is_null() {
        return Err(null(weft_service::Code::Invalid, "the request"));
    }
    // SAFETY: `place` is not null, so it points to a request, as `request` asks; every pattern of bits is one.
    Ok(unsafe { place.read() })
}

/// `weft.h`
///
/// # Safety
/// `text` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_server_create(text: *const c_char) -> c_int {
    // SAFETY: `text` is null or points to a string (`weft_server_create`).
    number(|node: &Node| add(&SERVERS, node.serve(unsafe { name(text) }?)))
}

/// `weft.h`
///
/// # Safety
/// `place` is null or points to a request of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_server_next(id: c_int, place: *mut Request) -> c_int {
    number(|_| {
        if place.is_null() {
            return Err(null(weft_service::Code::Invalid, "the request"));
        }
        let next = of(&SERVERS, id)?.next()?;
        // SAFETY: `place` is not null, so it points to a request of the caller (`weft_server_next`).
        unsafe { place.write(next) };
        Ok(())
    })
}

/// `weft.h`
///
/// # Safety
/// `place` is null or points to a request, `start` is null or points to `length` bytes of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_server_take(
    id: c_int,
    place: *const Request,
    start: *mut c_void,
    length: usize,
) -> Size {
    size(|_| {
        // SAFETY: `place` is null or points to a request, `start` is null or points to `length` bytes, until the call
        // returns (`weft_server_take`).
        let (request, into) = unsafe { (request(place)?, buffer(start, length)?) };
        of(&SERVERS, id)?.take(&request, into)
    })
}

/// `weft.h`
///
/// # Safety
/// `place` is null or points to a request, `start` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_server_give(
    id: c_int,
    place: *const Request,
    start: *const c_void,
    length: usize,
) -> Size {
    size(|_| {
        // SAFETY: `place` is null or points to a request, `start` is null or points to `length` bytes, until the call
        // returns (`weft_server_give`).
        let (request, value) = unsafe { (request(place)?, data(start, length)?) };
        of(&SERVERS, id)?.give(&request, value)
    })
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_server_unlink(id: c_int) -> c_int {
    number(|_| end(&SERVERS, id))
}

/// `weft.h`
///
/// # Safety
/// `text` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_client_open(text: *const c_char) -> c_int {
    // SAFETY: `text` is null or points to a string (`weft_client_open`).
    number(|node: &Node| add(&CLIENTS, node.client(unsafe { name(text) }?)))
}

/// `weft.h`
///
/// # Safety
/// `asked` is null or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_client_tell(id: c_int, asked: *const c_void, length: usize) -> c_int {
    // SAFETY: `asked` is null or points to `length` bytes until the call returns (`weft_client_tell`).
    number(|_| of(&CLIENTS, id)?.tell(unsafe { data(asked, length) }?))
}

/// `weft.h`
///
/// # Safety
/// `asked` is null or points to `length` bytes, `value` is null or points to `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_client_give(
    id: c_int,
    asked: *const c_void,
    length: usize,
    value: *const c_void,
    room: usize,
) -> Size {
    size(|_| {
        let client = of(&CLIENTS, id)?;
        // SAFETY: `asked` is null or points to `length` bytes, `value` is null or points to `room` bytes, until the
        // call returns (`weft_client_give`).
        let (request, value) = unsafe { (data(asked, length)?, data(value, room)?) };
        client.give(request, value)
    })
}

/// `weft.h`
///
/// # Safety
/// `asked` is null or points to `length` bytes, `value` is null or points to `room` bytes of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_client_take(
    id: c_int,
    asked: *const c_void,
    length: usize,
    value: *mut c_void,
    room: usize,
) -> Size {
    size(|_| {
        let client = of(&CLIENTS, id)?;
        // SAFETY: `asked` is null or points to `length` bytes, `value` is null or points to `room` bytes, until the
        // call returns (`weft_client_take`).
        let (request, into) = unsafe { (data(asked, length)?, buffer(value, room)?) };
        client.take(request, into)
    })
}

/// `weft.h`
#[unsafe(no_mangle)]
pub extern "C" fn weft_client_close(id: c_int) -> c_int {
    number(|_| end(&CLIENTS, id))
}
