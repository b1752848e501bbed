//! Buffers of buffered sends (MPI 5.0, section 3.6). Messages wait in memory of the engine; the
//! buffer that the program attaches sets how much they may take, and is handed back untouched.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::args::{CountOut, Out};
use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::handle::request::pack;
use crate::state;

/// Address and size of the buffer attached to the process.
static ATTACHED: Mutex<Option<(usize, usize)>> = Mutex::new(None);

fn attached() -> MutexGuard<'static, Option<(usize, usize)>> {
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn buffer_attach(buffer: *mut c_void, size: usize) -> Checked<()> {
    let mut attached = attached();
    if attached.is_some() {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            "buffer",
            "no buffer to be attached",
            "one that is attached already",
            "call MPI_Buffer_detach first",
        ));
    }
    let automatic = buffer == k::MPI_BUFFER_AUTOMATIC;
    if !automatic && buffer.is_null() && size > 0 {
        return Err(Fault::argument(
            k::MPI_ERR_BUFFER,
            "buffer",
            "the address of memory",
            "a null pointer",
            "pass the address of `size` bytes, or MPI_BUFFER_AUTOMATIC",
        ));
    }
    // `usize::MAX` would overflow where the overhead of a message is added.
    state::process()?.attach_buffer(if automatic { usize::MAX / 2 } else { size });
    *attached = Some((buffer.addr(), if automatic { 0 } else { size }));
    Ok(())
}

pub unsafe fn buffer_detach(buffer_addr: *mut c_void, mut size: CountOut) -> Checked<()> {
    if buffer_addr.is_null() {
        return Err(Fault::null("buffer_addr"));
    }
    state::process()?.detach_buffer();
    let (address, bytes) = attached().take().unwrap_or((0, 0));
    // SAFETY: the caller passes the address of a pointer, as the standard has it.
    unsafe {
        buffer_addr
            .cast::<*mut c_void>()
            .write_unaligned(std::ptr::with_exposed_provenance_mut(address))
    };
    size.set(Some(bytes as i64));
    Ok(())
}

pub fn buffer_flush() -> Checked<()> {
    state::process()?.flush_buffer();
    Ok(())
}

/// Ends when it returns: what is buffered is the engine's, which moves it along while it waits here.
pub fn buffer_iflush(mut request: Out<c::Request>) -> Checked<()> {
    let process = state::process()?;
    process.flush_buffer();
    let nothing = weft_mpi::Buffer::Flat(weft_fabric::Region::EMPTY);
    let done = process.world().isend(
        weft_mpi::SendMode::Standard,
        nothing,
        weft_mpi::Target::Null,
        0,
    )?;
    request.set(pack(done));
    Ok(())
}
