//! Memory of the library (MPI 5.0, section 9.2).

use std::ffi::c_void;

use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::InfoObject;

/// Largest alignment that may be requested.
const ALIGNMENT_MAX: usize = 1 << 30;
/// Default alignment: a cache line.
const ALIGNMENT: usize = 64;

pub unsafe fn alloc_mem(
    size: usize,
    info: Option<&InfoObject>,
    baseptr: *mut c_void,
) -> Checked<()> {
    if baseptr.is_null() {
        return Err(Fault::null("baseptr"));
    }
    let alignment = match info {
        Some(info) => alignment(info.open().get("mpi_minimum_memory_alignment")?),
        None => ALIGNMENT,
    };
    let mut memory = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two and at least that of a pointer.
    if unsafe { libc::posix_memalign(&raw mut memory, alignment, size.max(1)) } != 0 {
        return Err(Fault::new(
            k::MPI_ERR_NO_MEM,
            format!("no memory for {size} bytes; ask for less"),
        ));
    }
    // SAFETY: `baseptr` is the address of a pointer, declared `void *` (MPI 5.0, section 9.2, `MPI_Alloc_mem`).
    unsafe { baseptr.cast::<*mut c_void>().write_unaligned(memory) };
    Ok(())
}

fn alignment(wish: Option<&str>) -> usize {
    let wish = wish.and_then(|wish| wish.trim().parse::<usize>().ok());
    wish.filter(|wish| wish.is_power_of_two() && *wish <= ALIGNMENT_MAX)
        .map_or(ALIGNMENT, |wish| wish.max(ALIGNMENT))
}

pub unsafe fn free_mem(base: *mut c_void) -> Checked<()> {
    // SAFETY: `base` is what `MPI_Alloc_mem` gave, and is freed once (MPI 5.0, section 9.2, `MPI_Free_mem`); nothing
    // is freed for null.
    unsafe { libc::free(base) };
    Ok(())
}
