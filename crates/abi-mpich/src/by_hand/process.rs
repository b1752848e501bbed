//! Starting processes: arrays that have a meaning at the root only.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};

use crate::array::{self, length};
use crate::generated::names::index;
use crate::handle::{self, Comm, Handle, Info, Word};
use crate::{alias, error, number, standard};

/// Not an error code of the standard ABI: marks an element that the call has not written.
const UNSET: c_int = c_int::MIN;

/// Error codes, one for each process.
struct Codes {
    at: *mut c_int,
    codes: Vec<c_int>,
}

impl Codes {
    fn new(at: *mut c_int, count: usize) -> Self {
        let count = if at.is_null() { 0 } else { count };
        Self {
            at,
            codes: vec![UNSET; count],
        }
    }

    fn as_mut_ptr(&mut self) -> *mut c_int {
        if self.codes.is_empty() {
            self.at
        } else {
            self.codes.as_mut_ptr()
        }
    }

    /// # Safety
    /// The program has passed an array of that many numbers, or none.
    unsafe fn store(&self) {
        for (place, code) in self
            .codes
            .iter()
            .enumerate()
            .filter(|(_, code)| **code != UNSET)
        {
            // SAFETY: as this function demands.
            unsafe { self.at.add(place).write_unaligned(error::encode(*code)) };
        }
    }
}

/// Whether this process is the root. Elsewhere the arrays and their lengths may be anything, and since no
/// process fails to start there, no error code has to be translated.
fn is_root(comm: usize, root: c_int) -> bool {
    let mut rank = UNSET;
    // SAFETY: the types are those of the standard ABI; the call itself reports a wrong communicator.
    unsafe {
        let call: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
            standard::internal_function(index::MPI_COMM_RANK);
        call(comm, &raw mut rank) == 0 && rank == root
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: Word,
    root: c_int,
    comm: Word,
    intercomm: *mut Word,
    errcodes: *mut c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(
        *const c_char,
        *mut *mut c_char,
        c_int,
        usize,
        c_int,
        usize,
        *mut usize,
        *mut c_int,
    ) -> c_int;
    let comm = Comm::decode(comm);
    let count = if is_root(comm, root) {
        length(maxprocs)
    } else {
        0
    };
    let mut codes = Codes::new(errcodes, count);
    let mut made = 0;
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding.
    unsafe {
        let call: Call = standard::function(index::MPI_COMM_SPAWN);
        let code = call(
            command,
            argv,
            maxprocs,
            Info::decode(info),
            number::rank::decode(root),
            comm,
            handle::out_pointer(intercomm, &mut made),
            codes.as_mut_ptr(),
        );
        if code == 0 {
            handle::store::<Comm>(intercomm, made);
        }
        codes.store();
        error::encode(code)
    }
}
alias!(MPI_Comm_spawn => PMPI_Comm_spawn);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Comm_spawn_multiple(
    count: c_int,
    commands: *mut *mut c_char,
    argv: *mut *mut *mut c_char,
    maxprocs: *const c_int,
    infos: *const Word,
    root: c_int,
    comm: Word,
    intercomm: *mut Word,
    errcodes: *mut c_int,
) -> c_int {
    type Call = unsafe extern "C" fn(
        c_int,
        *mut *mut c_char,
        *mut *mut *mut c_char,
        *const c_int,
        *const usize,
        c_int,
        usize,
        *mut usize,
        *mut c_int,
    ) -> c_int;
    let comm = Comm::decode(comm);
    let commands_here = if is_root(comm, root) {
        length(count)
    } else {
        0
    };
    let mut made = 0;
    // SAFETY: the addresses come from the caller, which keeps the promises of the C binding; the arrays have their lengths at the root.
    unsafe {
        let numbers = if maxprocs.is_null() { 0 } else { commands_here };
        let processes = (0..numbers)
            .map(|place| length(maxprocs.add(place).read_unaligned()))
            .sum();
        let mut codes = Codes::new(errcodes, processes);
        let infos = if commands_here == 0 {
            core::ptr::null()
        } else {
            infos
        };
        let mut infos = array::handles::<Info>(infos, commands_here);
        let call: Call = standard::function(index::MPI_COMM_SPAWN_MULTIPLE);
        let code = call(
            count,
            commands,
            argv,
            maxprocs,
            infos.as_mut_ptr(),
            number::rank::decode(root),
            comm,
            handle::out_pointer(intercomm, &mut made),
            codes.as_mut_ptr(),
        );
        if code == 0 {
            handle::store::<Comm>(intercomm, made);
        }
        codes.store();
        error::encode(code)
    }
}
alias!(MPI_Comm_spawn_multiple => PMPI_Comm_spawn_multiple);
