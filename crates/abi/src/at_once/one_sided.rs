//! One-sided operations that end at once: on memory that this rank accesses by loads and stores.
//!
//! Few bytes are put and got without calling any function: saving registers for a call costs as much as all the rest. Longer
//! operations of the same kind also end at once, in `put_long` and `get_long`.
//!
//! # Safety
//! As for the [module above](super).

use std::ffi::{c_int, c_void};

use weft_atomic::AtomicU64;
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_mpi::rma::{LockKind, TargetElement, Window};
use weft_sys::span::{Region, SHORT};

use super::{LAST, MOST, bytes};
use crate::check::{self, PAGE};
use crate::generated::constants as k;
use crate::{c, state};

/// The window of a call.
#[inline(always)]
fn window(handle: c::Win) -> Option<&'static Window> {
    if !state::may_end_at_once() {
        return None;
    }
    check::find_window(handle).map(|win| &**win.window())
}

/// The bytes at the origin of a one-sided operation, if the target has the same number.
///
/// # Safety
/// As for [`weft_mpi::Buffer::new`].
#[inline(always)]
unsafe fn origin(
    address: *mut c_void,
    (count, datatype): (i64, c::Datatype),
    (target_count, target_datatype): (i64, c::Datatype),
) -> Option<Region> {
    // SAFETY: as the caller promises.
    let (origin, _) = unsafe { bytes(address, count, datatype) }?;
    if (target_count, target_datatype) == (count, datatype) {
        return Some(origin);
    }
    let (size, _) = state::dense(target_datatype);
    // Nothing is known of a datatype without a size; the product shows that no count is negative.
    let few = size != 0 && target_count.cast_unsigned() <= MOST;
    (few && target_count as usize * size == origin.len()).then_some(origin)
}

/// The window of a put or a get, and the bytes at its origin, if they are no more than `most` and the target
/// has the same number.
///
/// # Safety
/// As for [`weft_mpi::Buffer::new`].
#[inline(always)]
unsafe fn sides(
    address: *mut c_void,
    ours: (i64, c::Datatype),
    theirs: (i64, c::Datatype),
    (win, most): (c::Win, usize),
) -> Option<(&'static Window, Region)> {
    // SAFETY: as the caller promises.
    let origin = unsafe { origin(address, ours, theirs) }?;
    // Before the window is looked up: longer operations begin anew.
    if origin.len() > most {
        return None;
    }
    Some((window(win)?, origin))
}

/// `MPI_Put` of few bytes.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn put(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: i64,
    target_datatype: c::Datatype,
    win: c::Win,
) -> bool {
    let ours = (origin_count, origin_datatype);
    let theirs = (target_count, target_datatype);
    // SAFETY: as the caller promises.
    let sides = unsafe { sides(origin_addr.cast_mut(), ours, theirs, (win, SHORT)) };
    sides.is_some_and(|(window, origin)| {
        window.put_short_at_once(&origin, target_rank.cast_unsigned(), target_disp as i64)
    })
}

/// `MPI_Put` of many bytes.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn put_long(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: i64,
    target_datatype: c::Datatype,
    win: c::Win,
) -> bool {
    let ours = (origin_count, origin_datatype);
    let theirs = (target_count, target_datatype);
    // SAFETY: as the caller promises.
    let sides = unsafe { sides(origin_addr.cast_mut(), ours, theirs, (win, usize::MAX)) };
    sides.is_some_and(|(window, origin)| {
        window.put_at_once(&origin, target_rank.cast_unsigned(), target_disp as i64)
    })
}

/// `MPI_Get` of few bytes.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn get(
    origin_addr: *mut c_void,
    origin_count: i64,
    origin_datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: i64,
    target_datatype: c::Datatype,
    win: c::Win,
) -> bool {
    let ours = (origin_count, origin_datatype);
    let theirs = (target_count, target_datatype);
    // SAFETY: as the caller promises.
    let sides = unsafe { sides(origin_addr, ours, theirs, (win, SHORT)) };
    sides.is_some_and(|(window, origin)| {
        window.get_short_at_once(&origin, target_rank.cast_unsigned(), target_disp as i64)
    })
}

/// `MPI_Get` of many bytes.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn get_long(
    origin_addr: *mut c_void,
    origin_count: i64,
    origin_datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: i64,
    target_datatype: c::Datatype,
    win: c::Win,
) -> bool {
    let ours = (origin_count, origin_datatype);
    let theirs = (target_count, target_datatype);
    // SAFETY: as the caller promises.
    let sides = unsafe { sides(origin_addr, ours, theirs, (win, usize::MAX)) };
    sides.is_some_and(|(window, origin)| {
        window.get_at_once(&origin, target_rank.cast_unsigned(), target_disp as i64)
    })
}

/// `MPI_Accumulate`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn accumulate(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: i64,
    target_datatype: c::Datatype,
    op: c::Op,
    win: c::Win,
) -> bool {
    if (origin_count, origin_datatype) != (target_count, target_datatype) {
        return false;
    }
    // SAFETY: as the caller promises.
    let origin = unsafe { bytes(origin_addr.cast_mut(), origin_count, origin_datatype) };
    let (Some((origin, _)), Some(window)) = (origin, window(win)) else {
        return false;
    };
    let known = (
        state::predefined_datatype(target_datatype),
        state::predefined_kind(op),
    );
    let (Some(basic), Some(operation)) = known else {
        return false;
    };
    // That operation is only for calls that fetch.
    if operation == Predefined::NoOp {
        return false;
    }
    let target = TargetElement {
        rank: target_rank.cast_unsigned(),
        displacement: target_disp as i64,
        basic,
    };
    window.accumulate_at_once(&origin, &target, operation)
}

/// Replaces an origin from which nothing is read.
static NOTHING: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// The bytes of one element.
///
/// # Safety
/// As for [`weft_mpi::Buffer::new`].
#[inline(always)]
unsafe fn element(address: *const c_void, basic: Basic) -> Option<Region> {
    let fits = address.addr().wrapping_sub(PAGE) <= LAST;
    // SAFETY: the caller promises one element of the datatype at the address until the operation has ended (MPI 5.0,
    // section 12.3.4).
    fits.then(|| unsafe { Region::new(address.cast_mut().cast(), basic.size()) })
}

/// `MPI_Fetch_and_op`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    op: c::Op,
    win: c::Win,
) -> bool {
    let Some(window) = window(win) else {
        return false;
    };
    let known = (
        state::predefined_datatype(datatype),
        state::predefined_kind(op),
    );
    let (Some(basic), Some(operation)) = known else {
        return false;
    };
    // It does not read the origin, where there may be no memory.
    let origin_addr = match operation {
        Predefined::NoOp => (&raw const NOTHING).cast(),
        _ => origin_addr,
    };
    // SAFETY: as the caller promises; `NOTHING` is as long as any element, and nobody writes there.
    let (source, result) = unsafe { (element(origin_addr, basic), element(result_addr, basic)) };
    let (Some(source), Some(result)) = (source, result) else {
        return false;
    };
    let target = TargetElement {
        rank: target_rank.cast_unsigned(),
        displacement: target_disp as i64,
        basic,
    };
    window.fetch_and_op_at_once(&target, operation, &source, &result)
}

/// `MPI_Compare_and_swap`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: c::Datatype,
    target_rank: c_int,
    target_disp: c::Aint,
    win: c::Win,
) -> bool {
    let (Some(window), Some(basic)) = (window(win), state::predefined_datatype(datatype)) else {
        return false;
    };
    // SAFETY: as the caller promises.
    let sides = unsafe {
        (
            element(compare_addr, basic),
            element(origin_addr, basic),
            element(result_addr, basic),
        )
    };
    let (Some(compare), Some(new), Some(result)) = sides else {
        return false;
    };
    let target = TargetElement {
        rank: target_rank.cast_unsigned(),
        displacement: target_disp as i64,
        basic,
    };
    window.compare_and_swap_at_once(&target, [&compare, &new, &result])
}

/// Whether the locks of an epoch need not be asked for; `None` for an assertion that such an epoch does not
/// have.
#[inline(always)]
fn no_check(assert: c_int) -> Option<bool> {
    match assert {
        0 => Some(false),
        k::MPI_MODE_NOCHECK => Some(true),
        _ => None,
    }
}

/// `MPI_Win_lock_all`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn win_lock_all(assert: c_int, win: c::Win) -> bool {
    let Some(no_check) = no_check(assert) else {
        return false;
    };
    window(win).is_some_and(|window| window.lock_all_at_once(no_check))
}

/// `MPI_Win_unlock_all`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn win_unlock_all(win: c::Win) -> bool {
    window(win).is_some_and(Window::unlock_all_at_once)
}

/// `MPI_Win_lock`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: c::Win) -> bool {
    let kind = match lock_type {
        k::MPI_LOCK_SHARED => LockKind::Shared,
        k::MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
        _ => return false,
    };
    let (Some(no_check), Some(window)) = (no_check(assert), window(win)) else {
        return false;
    };
    window.lock_at_once(kind, rank.cast_unsigned(), no_check)
}

/// `MPI_Win_unlock`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn win_unlock(rank: c_int, win: c::Win) -> bool {
    window(win).is_some_and(|window| window.unlock_at_once(rank.cast_unsigned()))
}

/// `MPI_Win_flush`.
///
/// # Safety
/// As the head of the [module above](super) says.
#[inline(always)]
pub unsafe fn win_flush(rank: c_int, win: c::Win) -> bool {
    window(win).is_some_and(|window| window.flush_at_once(rank.cast_unsigned()))
}
