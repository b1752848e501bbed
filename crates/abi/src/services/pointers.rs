//! Pointers of C programs, as buffers, texts and addresses of results. Null is refused; otherwise each
//! function says what its caller promises.

use std::ffi::{CStr, c_char, c_int, c_void};

use weft_fabric::Region;
use weft_service::{Code, Error, Result};

/// The error of a pointer that must not be null.
#[cold]
pub fn null(code: Code, what: &str) -> Error {
    Error::new(code, format!("{what} is NULL; pass the address of it"))
}

/// A buffer of the caller.
///
/// # Safety
/// If not null, `start` points to `size` bytes that may be read, and written if it is read into, until
/// the operation that they are for has ended.
pub unsafe fn region(start: *const c_void, size: usize) -> Result<Region> {
    if start.is_null() {
        return Err(null(Code::Invalid, "the buffer"));
    }
    // SAFETY: `start` points to `size` bytes until the operation has ended, as `region` asks.
    Ok(unsafe { Region::new(start.cast::<u8>().cast_mut(), size) })
}

/// A buffer into which a blocking call reads.
///
/// # Safety
/// As [`region`], until the call returns.
pub unsafe fn buffer<'a>(start: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    if start.is_null() || size > isize::MAX as usize {
        return Err(null(Code::Invalid, "the buffer"));
    }
    // SAFETY: `start` points to `size` bytes that may be read and written until the call returns, as `buffer` asks.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), size) })
}

/// Data that a blocking call writes or copies.
///
/// # Safety
/// As [`region`], until the call returns.
pub unsafe fn data<'a>(start: *const c_void, size: usize) -> Result<&'a [u8]> {
    if start.is_null() || size > isize::MAX as usize {
        return Err(null(Code::Invalid, "the buffer"));
    }
    // SAFETY: `start` points to `size` bytes that may be read until the call returns, as `data` asks.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), size) })
}

/// Stores a result, unless `place` is null.
///
/// # Safety
/// `place` is null or points to a `T` of the caller.
pub unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: `place` is not null, so it points to a `T`, as `store` asks.
        unsafe { place.write(value) };
    }
}

/// A name.
///
/// # Safety
/// `start` is null or points to a string.
pub unsafe fn name<'a>(start: *const c_char) -> Result<&'a str> {
    if start.is_null() {
        return Err(null(Code::Invalid, "the name"));
    }
    // SAFETY: `start` is not null, so it points to a string that ends with a zero, as `name` asks.
    let name = unsafe { CStr::from_ptr(start) };
    name.to_str().map_err(|_| {
        Error::new(
            Code::Invalid,
            "the name is no UTF-8; use letters and digits",
        )
    })
}

/// The nodes of a sync.
///
/// # Safety
/// `start` is null or points to `count` numbers.
pub unsafe fn nodes<'a>(start: *const c_int, count: c_int) -> Result<&'a [c_int]> {
    if start.is_null() {
        return Err(null(Code::Invalid, "the list of nodes"));
    }
    let count = usize::try_from(count).map_err(|_| {
        Error::new(
            Code::Invalid,
            format!("a list of {count} nodes was given; 2 or more are needed"),
        )
    })?;
    // SAFETY: `start` is not null, so it points to `count` numbers, as `nodes` asks.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// Stores a counter: the volume as `size_t`, all others as `uint64_t`.
///
/// # Safety
/// `place` is null or points to such a number.
pub unsafe fn counter(value: Result<u64>, place: *mut c_void) -> Result<()> {
    let value = value?;
    if place.is_null() {
        return Err(null(Code::Fault, "the place of the answer"));
    }
    // `size_t` and `uint64_t` are the same on the machines on which Weft runs.
    const _: () = assert!(size_of::<usize>() == 8);
    // SAFETY: `place` is not null, so it points to a number of 64 bits, as `counter` asks; aligned or not.
    unsafe { place.cast::<u64>().write_unaligned(value) };
    Ok(())
}

/// Stores the node and port of a name.
///
/// # Safety
/// Each pointer is null or points to an int of the caller.
pub unsafe fn found(place: Result<(u32, u8)>, node: *mut c_int, port: *mut c_int) -> Result<()> {
    let (owner, number) = place?;
    // SAFETY: `node` and `port` are null or point to an int each, as `found` asks.
    unsafe {
        store(node, owner as c_int);
        store(port, c_int::from(number));
    }
    Ok(())
}
