//! Addresses of the functions of `libmpi_abi.so.1`, found once when this library is loaded.
//!
//! That library is loaded, not linked: it defines functions of the same names with another ABI, and a program must not find
//! them where this library lacks a function. It is in the folder of this library, or where the dynamic linker looks first.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::ffi::{CStr, c_int, c_void};

use crate::generated::names::{NAMES, index};
use crate::number::{STANDARD_CART, STANDARD_DIST_GRAPH, STANDARD_GRAPH};

/// The addresses of a function.
#[derive(Clone, Copy)]
struct Address {
    /// That of the name that programs call: profiles count it.
    called: usize,
    /// That of its name for tools, `PMPI_`.
    profiling: usize,
}

const UNKNOWN: Address = Address {
    called: 0,
    profiling: 0,
};

/// Written by [`load`] before the program can call anything, only read afterwards.
static mut ADDRESSES: [Address; NAMES.len()] = [UNKNOWN; NAMES.len()];

const LIBRARY: &CStr = c"libmpi_abi.so.1";

/// Runs when this library is loaded, before any code of the program or library that needs it. Unit tests call
/// no function of the standard ABI.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn load() {
    // SAFETY: both are strings that end with zero. The handle is kept for good.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        leave(&format!(
            "cannot load {}: {}. The two stand in one folder (lib) of an installation of Weft; install it whole",
            LIBRARY.to_string_lossy(),
            problem()
        ));
    }
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY: the library is loaded, both names end with zero, and the first begins with a P that the other one has not.
        let [called, profiling] = [name.to_bytes_with_nul()[1..].as_ptr().cast(), name.as_ptr()]
            .map(|name| unsafe { libc::dlsym(library, name) } as usize);
        if called == 0 || profiling == 0 {
            leave(&format!(
                "{} has no {}: it belongs to another version of Weft than this library; install both from one",
                LIBRARY.to_string_lossy(),
                name.to_string_lossy()
            ));
        }
        // SAFETY: constructors of one library run once, on one thread, before its functions can be called.
        unsafe {
            (&raw mut ADDRESSES)
                .cast::<Address>()
                .add(index)
                .write(Address { called, profiling })
        };
    }
}

/// The message of the dynamic linker about its last failure.
fn problem() -> String {
    // SAFETY: the text is valid until the next call of this kind on this thread.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "no reason given".to_owned(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

/// Ends the process as the dynamic linker does when a library is missing.
fn leave(text: &str) -> ! {
    weft_bare::say!("weft: {}: {text}", crate::own::LIBRARY);
    // SAFETY: no code of the program has run yet that could have registered a function for exit.
    unsafe { libc::_exit(127) }
}

/// The function at an index of [`NAMES`], as a pointer of type `F`, for calls of the program.
///
/// # Safety
/// `F` is the type of a pointer to the function of that name in the standard ABI.
#[inline(always)]
pub unsafe fn function<F: Copy>(index: usize) -> F {
    // SAFETY: the caller guarantees the type.
    unsafe { pointer(address(index).called) }
}

/// As [`function`], for calls that the translation itself needs: these are not calls of the program, and no
/// profile counts them.
///
/// # Safety
/// As for [`function`].
#[inline(always)]
pub unsafe fn internal_function<F: Copy>(index: usize) -> F {
    // SAFETY: as above.
    unsafe { pointer(address(index).profiling) }
}

#[inline(always)]
fn address(index: usize) -> Address {
    assert!(index < NAMES.len());
    // SAFETY: it was written before any function of this library could be called, and the index is one of them.
    unsafe { (&raw const ADDRESSES).cast::<Address>().add(index).read() }
}

/// # Safety
/// `F` is the type of a pointer to the function there.
#[inline(always)]
unsafe fn pointer<F: Copy>(address: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    // SAFETY: the sizes are equal, and the caller guarantees the type.
    unsafe {
        core::mem::transmute_copy::<*const c_void, F>(&core::ptr::with_exposed_provenance(address))
    }
}

/// How many processes a collective call on a communicator sends to: its members, or those of the remote
/// group.
pub fn peers(comm: usize, none: bool) -> usize {
    if none {
        return 0;
    }
    let [mut inter, mut size] = [0; 2];
    // SAFETY: both are addresses of variables; the call that follows reports a wrong communicator.
    unsafe {
        let test: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
            internal_function(index::MPI_COMM_TEST_INTER);
        test(comm, &raw mut inter);
        let index = if inter == 0 {
            index::MPI_COMM_SIZE
        } else {
            index::MPI_COMM_REMOTE_SIZE
        };
        let count: unsafe extern "C" fn(usize, *mut c_int) -> c_int = internal_function(index);
        count(comm, &raw mut size);
    }
    usize::try_from(size).unwrap_or(0)
}

/// How many neighbours of a process send to it.
pub fn incoming(comm: usize) -> usize {
    neighbors(comm).0
}

/// How many neighbours of a process it sends to.
pub fn outgoing(comm: usize) -> usize {
    neighbors(comm).1
}

/// Numbers of neighbours in the topology of a communicator; none if it has no topology, which the call that
/// follows reports.
fn neighbors(comm: usize) -> (usize, usize) {
    let [
        mut topology,
        mut rank,
        mut incoming,
        mut outgoing,
        mut weighted,
    ] = [0; 5];
    // SAFETY: all are addresses of variables.
    unsafe {
        let one: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
            internal_function(index::MPI_TOPO_TEST);
        one(comm, &raw mut topology);
        match topology {
            STANDARD_CART => {
                let dimensions: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
                    internal_function(index::MPI_CARTDIM_GET);
                dimensions(comm, &raw mut incoming);
                incoming *= 2;
                outgoing = incoming;
            }
            STANDARD_GRAPH => {
                let own: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
                    internal_function(index::MPI_COMM_RANK);
                own(comm, &raw mut rank);
                let count: unsafe extern "C" fn(usize, c_int, *mut c_int) -> c_int =
                    internal_function(index::MPI_GRAPH_NEIGHBORS_COUNT);
                count(comm, rank, &raw mut incoming);
                outgoing = incoming;
            }
            STANDARD_DIST_GRAPH => {
                let count: unsafe extern "C" fn(
                    usize,
                    *mut c_int,
                    *mut c_int,
                    *mut c_int,
                ) -> c_int = internal_function(index::MPI_DIST_GRAPH_NEIGHBORS_COUNT);
                count(
                    comm,
                    &raw mut incoming,
                    &raw mut outgoing,
                    &raw mut weighted,
                );
            }
            _ => {}
        }
    }
    let number = |count| usize::try_from(count).unwrap_or(0);
    (number(incoming), number(outgoing))
}
