//! One-sided communication (MPI 5.0, chapter 12).
//!
//! | module | what |
//! |---|---|
//! | here | making and freeing windows, what they know of themselves |
//! | `access` | put, get, accumulate and their kin |
//! | `sync` | fence, post and start, lock and flush |

mod access;
mod sync;

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use weft_fabric::Region;
use weft_mpi::Comm;
use weft_mpi::rma::{Allocation, Flavor, Window};

use crate::args::{CountOut, InOut, Out, TextOut, text_of};
use crate::calls::abi::{full, new_info};
use crate::calls::attribute::{self, Holder};
use crate::calls::group;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::state::{ErrhandlerObject, InfoObject, WinObject};
use crate::{c, check, entry, handle, state};

pub use access::*;
pub use sync::*;

/// Larger than any memory.
const TOO_LARGE: usize = 1 << 48;

/// The size of a window's memory.
fn size_of(size: c::Aint) -> Checked<usize> {
    let bytes = usize::try_from(size)
        .ok()
        .filter(|bytes| *bytes < TOO_LARGE);
    bytes.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_SIZE,
            "size",
            "0 bytes or more, and fewer than there are addresses",
            size.to_string(),
            "pass the number of bytes that this process exposes",
        )
    })
}

/// Makes a window and its handle.
fn make(
    comm: &Arc<Comm>,
    flavor: Flavor,
    allocation: Allocation,
    disp_unit: c::Count,
    info: Option<&InfoObject>,
) -> Checked<(c::Win, Arc<Window>)> {
    let hints = info.map(|info| info.open().clone()).unwrap_or_default();
    let window = Window::new(comm, flavor, allocation, disp_unit, &hints)?;
    let handle = WinObject::create(Arc::clone(&window)).ok_or_else(|| full("windows"))?;
    state::register_window(window.comm().context(), handle);
    Ok((handle, window))
}

pub unsafe fn win_create(
    base: *mut c_void,
    size: c::Aint,
    disp_unit: c::Count,
    info: Option<&InfoObject>,
    comm: &Arc<Comm>,
    mut win: Out<c::Win>,
) -> Checked<()> {
    let size = size_of(size)?;
    check_base(base, size)?;
    // SAFETY: `size` bytes from `base` belong to the window until it is freed (MPI 5.0, section 12.2.1).
    let memory = Allocation::OfProgram(unsafe { Region::new(base.cast(), size) });
    let (handle, _) = make(comm, Flavor::Create, memory, disp_unit, info)?;
    win.set(handle);
    Ok(())
}

/// Checks that memory of the program is at a possible address.
fn check_base(base: *mut c_void, size: usize) -> Checked<()> {
    let fits = base.addr() <= TOO_LARGE - size;
    if size == 0 || base.addr() >= check::PAGE && fits {
        return Ok(());
    }
    Err(no_base(base))
}

#[cold]
fn no_base(base: *mut c_void) -> Fault {
    Fault::argument(
        k::MPI_ERR_BASE,
        "base",
        "the address of the memory",
        format!("{base:p}, where no memory of that size can be"),
        "pass the address of the memory that this process exposes, or a size of 0",
    )
}

/// Makes a window whose memory Weft allocates; its address goes to `baseptr`.
///
/// # Safety
/// `baseptr` is null or the address of a pointer.
unsafe fn allocate(
    flavor: Flavor,
    size: c::Aint,
    disp_unit: c::Count,
    info: Option<&InfoObject>,
    comm: &Arc<Comm>,
    baseptr: *mut c_void,
    win: &mut Out<c::Win>,
) -> Checked<()> {
    let memory = Allocation::OfWeft(size_of(size)?);
    if baseptr.is_null() {
        return Err(Fault::null("baseptr"));
    }
    let (handle, window) = make(comm, flavor, memory, disp_unit, info)?;
    let base = window.memory().as_ptr();
    // SAFETY: `baseptr` is the address of a pointer, declared `void *` (MPI 5.0, section 12.2.2); it is not null.
    unsafe { baseptr.cast::<*mut u8>().write_unaligned(base) };
    win.set(handle);
    Ok(())
}

pub unsafe fn win_allocate(
    size: c::Aint,
    disp_unit: c::Count,
    info: Option<&InfoObject>,
    comm: &Arc<Comm>,
    baseptr: *mut c_void,
    mut win: Out<c::Win>,
) -> Checked<()> {
    let flavor = Flavor::Allocate;
    // SAFETY: `baseptr` is null or the address of a pointer (MPI 5.0, section 12.2.2).
    unsafe { allocate(flavor, size, disp_unit, info, comm, baseptr, &mut win) }
}

pub unsafe fn win_allocate_shared(
    size: c::Aint,
    disp_unit: c::Count,
    info: Option<&InfoObject>,
    comm: &Arc<Comm>,
    baseptr: *mut c_void,
    mut win: Out<c::Win>,
) -> Checked<()> {
    let flavor = Flavor::Shared;
    // SAFETY: `baseptr` is null or the address of a pointer (MPI 5.0, section 12.2.3).
    unsafe { allocate(flavor, size, disp_unit, info, comm, baseptr, &mut win) }
}

/// For a rank whose memory this process does not share: size 0, unit 1, no address.
pub unsafe fn win_shared_query(
    win: &WinObject,
    rank: c_int,
    mut size: Out<c::Aint>,
    mut disp_unit: CountOut,
    baseptr: *mut c_void,
) -> Checked<()> {
    if baseptr.is_null() {
        return Err(Fault::null("baseptr"));
    }
    let rank = match rank {
        k::MPI_PROC_NULL => None,
        rank => Some(rank_of(rank, win, "rank")?),
    };
    let found = win.window().shared_query(rank)?;
    let (bytes, unit, base) = match found {
        Some((region, unit)) => (region.len(), unit, region.as_ptr()),
        None => (0, 1, std::ptr::null_mut()),
    };
    size.set(bytes.cast_signed());
    disp_unit.set(Some(unit));
    // SAFETY: `baseptr` is the address of a pointer, declared `void *` (MPI 5.0, section 12.2.4); it is not null.
    unsafe { baseptr.cast::<*mut u8>().write_unaligned(base) };
    Ok(())
}

pub fn win_create_dynamic(
    info: Option<&InfoObject>,
    comm: &Arc<Comm>,
    mut win: Out<c::Win>,
) -> Checked<()> {
    let (handle, _) = make(comm, Flavor::Dynamic, Allocation::Later, 1, info)?;
    win.set(handle);
    Ok(())
}

pub unsafe fn win_attach(win: &WinObject, base: *mut c_void, size: c::Aint) -> Checked<()> {
    let size = size_of(size)?;
    check_base(base, size)?;
    // SAFETY: `size` bytes from `base` belong to the window until they are detached (MPI 5.0, section 12.2.5).
    let memory = unsafe { Region::new(base.cast(), size) };
    win.window().attach_memory(memory)?;
    Ok(())
}

pub unsafe fn win_detach(win: &WinObject, base: *const c_void) -> Checked<()> {
    win.window().detach_memory(base.addr())?;
    Ok(())
}

pub fn win_free(mut win: InOut<c::Win>) -> Checked<()> {
    let given = win.get();
    let object = check::window(given, "win")?;
    let window = Arc::clone(object.window());
    window.check_free()?;
    check::fences::at_end(&window);
    check::accesses::forget(&window);
    attribute::delete_all(Holder::Win(given), window.extras())?;
    // The window's handler gets the error while there is a window.
    let freed = window.free();
    let told = freed.map_err(|error| entry::failed_to_free(given, &Fault::from(error)));
    ErrhandlerObject::release(entry::handler_of_window(&window));
    state::forget_window(window.comm().context());
    handle::remove::<WinObject>(given.0);
    win.set(k::MPI_WIN_NULL);
    told.map_err(Fault::told)
}

pub fn win_get_group(win: &WinObject, mut group: Out<c::Group>) -> Checked<()> {
    group.set(group::publish(Arc::clone(win.window().group()))?);
    Ok(())
}

pub fn win_get_info(win: &WinObject, mut info_used: Out<c::Info>) -> Checked<()> {
    let pairs = win.window().extras().info().clone();
    info_used.set(new_info(pairs.answered())?);
    Ok(())
}

pub fn win_set_info(win: &WinObject, info: Option<&InfoObject>) -> Checked<()> {
    if let Some(info) = info {
        let given = info.open().clone();
        win.window().set_info(&given)?;
    }
    Ok(())
}

pub fn win_set_name(win: &WinObject, win_name: &CStr) -> Checked<()> {
    win.window().extras().set_name(&text_of(win_name));
    Ok(())
}

/// The null handle has a name, too (MPI 5.0, section 7.8).
pub fn win_get_name(win: c::Win, mut win_name: TextOut, mut resultlen: Out<c_int>) -> Checked<()> {
    let text = match win {
        k::MPI_WIN_NULL => "MPI_WIN_NULL".to_owned(),
        win => check::window(win, "win")?.window().extras().name(),
    };
    resultlen.set(win_name.set(&text, k::MPI_MAX_OBJECT_NAME as usize) as c_int);
    Ok(())
}

/// A rank of the window.
#[inline]
fn rank_of(rank: c_int, win: &WinObject, name: &'static str) -> Checked<u32> {
    let size = win.window().size();
    match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(rank),
        _ => Err(bad_rank(rank, size, name)),
    }
}

#[cold]
fn bad_rank(rank: c_int, size: u32, name: &'static str) -> Fault {
    Fault::argument(
        k::MPI_ERR_RANK,
        name,
        format!("a rank from 0 to {}", i64::from(size) - 1),
        rank.to_string(),
        "pass a rank of the group of the window; MPI_Win_get_group tells it",
    )
}
