//! Questions of an entry point about a communicator: with how many processes a collective call communicates, if its arrays
//! have no length of their own, and which rank this process is.
//!
//! A handle that is not of a communicator is not asked about, so that only the call of the program reports
//! the error.

use core::ffi::c_int;

#[cfg(not(any(feature = "mpich", feature = "openmpi")))]
use weft_bare::atomics::{AtomicI32, AtomicUsize, Ordering};

use crate::generated::c;
use crate::generated::constants::{MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH};

/// Whether a handle is that of a communicator. If the library below cannot tell, every handle is taken for
/// one.
#[cfg(any(feature = "mpich", feature = "openmpi"))]
fn is_communicator(_: usize) -> bool {
    // Only the standard ABI has that function, and its handles have other numbers.
    true
}

/// Whether a handle is that of a communicator. If the library below cannot tell, every handle is taken for
/// one.
#[cfg(not(any(feature = "mpich", feature = "openmpi")))]
fn is_communicator(comm: usize) -> bool {
    type Ask = unsafe extern "C" fn(usize) -> c_int;
    /// Its address; zero if the library has none, or before it was looked for. Threads that look for it at a time find the same.
    static ASK: AtomicUsize = AtomicUsize::new(0);
    static LOOKED: AtomicI32 = AtomicI32::new(0);
    // SYNC neighbors.ask: pairs with the store below.
    if LOOKED.load(Ordering::Acquire) == 0 {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"weft_is_communicator".as_ptr()) };
        ASK.store(found.expose_provenance(), Ordering::Relaxed);
        // SYNC neighbors.ask
        LOOKED.store(1, Ordering::Release);
    }
    let found = core::ptr::with_exposed_provenance_mut(ASK.load(Ordering::Relaxed));
    // SAFETY: the function of this name has this type; null becomes `None`.
    let ask = unsafe { core::mem::transmute::<*mut libc::c_void, Option<Ask>>(found) };
    // SAFETY: it only examines the number.
    ask.is_none_or(|ask| unsafe { ask(comm) } != 0)
}

/// The rank of this process in a communicator; `None` if it has none, or if the handle is not that of a
/// communicator.
pub fn rank(comm: usize) -> Option<c_int> {
    let mut rank = -1;
    // SAFETY: the address is that of a variable.
    let known = is_communicator(comm) && unsafe { c::MPI_Comm_rank(comm, &raw mut rank) == 0 };
    known.then_some(rank)
}

/// How many processes a collective call on a communicator sends to: its members, or those of the remote
/// group.
pub fn peers(comm: usize, none: bool) -> usize {
    if none || !is_communicator(comm) {
        return 0;
    }
    let [mut inter, mut size] = [0; 2];
    // SAFETY: both are addresses of variables.
    unsafe {
        c::MPI_Comm_test_inter(comm, &raw mut inter);
        match inter {
            0 => c::MPI_Comm_size(comm, &raw mut size),
            _ => c::MPI_Comm_remote_size(comm, &raw mut size),
        };
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
    if !is_communicator(comm) {
        return (0, 0);
    }
    // SAFETY: all are addresses of variables.
    unsafe {
        c::MPI_Topo_test(comm, &raw mut topology);
        match topology {
            MPI_CART => {
                c::MPI_Cartdim_get(comm, &raw mut incoming);
                incoming *= 2;
                outgoing = incoming;
            }
            MPI_GRAPH => {
                c::MPI_Comm_rank(comm, &raw mut rank);
                c::MPI_Graph_neighbors_count(comm, rank, &raw mut incoming);
                outgoing = incoming;
            }
            MPI_DIST_GRAPH => {
                c::MPI_Dist_graph_neighbors_count(
                    comm,
                    &raw mut incoming,
                    &raw mut outgoing,
                    &raw mut weighted,
                );
            }
            _ => {}
        }
    }
    let number = |count: c_int| usize::try_from(count).unwrap_or(0);
    (number(incoming), number(outgoing))
}
