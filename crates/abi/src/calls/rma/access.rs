//! Put, get and the accumulating operations (MPI 5.0, section 12.3). With the target `MPI_PROC_NULL` there is
//! nothing to do.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft_mpi::datatype::Datatype;
use weft_mpi::op::Predefined;
use weft_mpi::rma::{Ends, TargetBuffer};
use weft_mpi::{Buffer, Op, RequestId};

use super::rank_of;
use crate::args::{BufferArgument, Out};
use crate::check::accesses::{AccessKind, requested, unless_refused, watch};
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::handle::request::pack;
use crate::state::WinObject;
use crate::{c, check};

type DatatypeRef<'a> = &'a Arc<Datatype>;

/// The elements at the target; `None` for `MPI_PROC_NULL`.
#[inline]
fn target<'a>(
    rank: c_int,
    displacement: c::Aint,
    count: usize,
    datatype: DatatypeRef<'a>,
    win: &WinObject,
) -> Checked<Option<TargetBuffer<'a>>> {
    if rank == k::MPI_PROC_NULL {
        return Ok(None);
    }
    Ok(Some(TargetBuffer {
        rank: rank_of(rank, win, "target_rank")?,
        displacement: displacement as i64,
        count,
        datatype,
    }))
}

#[inline]
pub fn put(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    win: &WinObject,
) -> Checked<()> {
    if let Some(target) = target(target_rank, target_disp, target_count, target_datatype, win)? {
        let number = watch(
            "MPI_Put",
            win.window(),
            (AccessKind::Put, &target),
            (Some(&origin_addr), None),
        );
        let window = win.window();
        let begun = window.put(origin_addr, &target, Ends::WithEpoch);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}

#[inline]
pub fn get(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    win: &WinObject,
) -> Checked<()> {
    if let Some(target) = target(target_rank, target_disp, target_count, target_datatype, win)? {
        let number = watch(
            "MPI_Get",
            win.window(),
            (AccessKind::Get, &target),
            (None, Some(&origin_addr)),
        );
        let window = win.window();
        let begun = window.get(origin_addr, &target, Ends::WithEpoch);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn rput(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    win: &WinObject,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let target = target(target_rank, target_disp, target_count, target_datatype, win)?;
    let put = |target| {
        let buffers = (Some(&origin_addr), None);
        let window = win.window();
        let number = watch("MPI_Rput", window, (AccessKind::Put, &target), buffers);
        let begun = window.put(origin_addr, &target, Ends::WithRequest);
        requested(window, number, begun)
    };
    request.set(pack(target.map_or(Ok(RequestId::DONE), put)?));
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn rget(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    win: &WinObject,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let target = target(target_rank, target_disp, target_count, target_datatype, win)?;
    let get = |target| {
        let buffers = (None, Some(&origin_addr));
        let window = win.window();
        let number = watch("MPI_Rget", window, (AccessKind::Get, &target), buffers);
        let begun = window.get(origin_addr, &target, Ends::WithRequest);
        requested(window, number, begun)
    };
    request.set(pack(target.map_or(Ok(RequestId::DONE), get)?));
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn accumulate(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    op: &Arc<Op>,
    win: &WinObject,
) -> Checked<()> {
    if let Some(target) = target(target_rank, target_disp, target_count, target_datatype, win)? {
        let number = watch(
            "MPI_Accumulate",
            win.window(),
            (AccessKind::of(op), &target),
            (Some(&origin_addr), None),
        );
        let window = win.window();
        let begun = window.accumulate(origin_addr, &target, op, Ends::WithEpoch);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn raccumulate(
    origin_addr: Buffer,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    op: &Arc<Op>,
    win: &WinObject,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let target = target(target_rank, target_disp, target_count, target_datatype, win)?;
    let window = win.window();
    let accumulate = |target| {
        let buffers = (Some(&origin_addr), None);
        let what = (AccessKind::of(op), &target);
        let number = watch("MPI_Raccumulate", window, what, buffers);
        let begun = window.accumulate(origin_addr, &target, op, Ends::WithRequest);
        requested(window, number, begun)
    };
    request.set(pack(target.map_or(Ok(RequestId::DONE), accumulate)?));
    Ok(())
}

/// The origin's buffer, which is not significant for `MPI_NO_OP`.
fn source(origin: &BufferArgument, op: &Op) -> Checked<Option<Buffer>> {
    if op.as_predefined() == Some(Predefined::NoOp) {
        return Ok(None);
    }
    origin.buffer().map(Some)
}

#[allow(clippy::too_many_arguments)]
pub fn get_accumulate(
    origin: BufferArgument,
    result: BufferArgument,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    op: &Arc<Op>,
    win: &WinObject,
) -> Checked<()> {
    let (source, result) = (source(&origin, op)?, result.buffer()?);
    if let Some(target) = target(target_rank, target_disp, target_count, target_datatype, win)? {
        let number = watch(
            "MPI_Get_accumulate",
            win.window(),
            (AccessKind::of(op), &target),
            (source.as_ref(), Some(&result)),
        );
        let window = win.window();
        let begun = window.get_accumulate(source, result, &target, op, Ends::WithEpoch);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub fn rget_accumulate(
    origin: BufferArgument,
    result: BufferArgument,
    target_rank: c_int,
    target_disp: c::Aint,
    target_count: usize,
    target_datatype: DatatypeRef<'_>,
    op: &Arc<Op>,
    win: &WinObject,
    mut request: Out<c::Request>,
) -> Checked<()> {
    let (source, result) = (source(&origin, op)?, result.buffer()?);
    let target = target(target_rank, target_disp, target_count, target_datatype, win)?;
    let window = win.window();
    let begin = |target| {
        let buffers = (source.as_ref(), Some(&result));
        let what = (AccessKind::of(op), &target);
        let number = watch("MPI_Rget_accumulate", window, what, buffers);
        let begun = window.get_accumulate(source, result, &target, op, Ends::WithRequest);
        requested(window, number, begun)
    };
    request.set(pack(target.map_or(Ok(RequestId::DONE), begin)?));
    Ok(())
}

/// One element, which must be of a predefined datatype.
///
/// # Safety
/// The address holds an element of the datatype until the operation has ended.
#[inline]
unsafe fn element(
    address: *mut c_void,
    datatype: DatatypeRef<'_>,
    name: &'static str,
) -> Checked<Buffer> {
    // SAFETY: the caller promises one element of the datatype at the address.
    unsafe { check::buffer(address, 1, datatype, name) }
}

/// The operations on one element are for predefined datatypes.
#[inline]
fn check_predefined(datatype: &Datatype) -> Checked<()> {
    if datatype.basic().is_some() {
        return Ok(());
    }
    Err(crate::fault::Fault::argument(
        k::MPI_ERR_TYPE,
        "datatype",
        "a predefined datatype",
        format!("{datatype:?}"),
        "use MPI_Get_accumulate for others",
    ))
}

#[allow(clippy::too_many_arguments)]
#[inline]
pub unsafe fn fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: DatatypeRef<'_>,
    target_rank: c_int,
    target_disp: c::Aint,
    op: &Arc<Op>,
    win: &WinObject,
) -> Checked<()> {
    check_predefined(datatype)?;
    let source = if op.as_predefined() == Some(Predefined::NoOp) {
        None
    } else {
        // SAFETY: `origin_addr` holds one element until the operation has ended (MPI 5.0, section 12.3.4).
        Some(unsafe { element(origin_addr.cast_mut(), datatype, "origin_addr") }?)
    };
    // SAFETY: `result_addr` has room for one element until the operation has ended (MPI 5.0, section 12.3.4).
    let result = unsafe { element(result_addr, datatype, "result_addr") }?;
    if let Some(target) = target(target_rank, target_disp, 1, datatype, win)? {
        let number = watch(
            "MPI_Fetch_and_op",
            win.window(),
            (AccessKind::of(op), &target),
            (source.as_ref(), Some(&result)),
        );
        let window = win.window();
        let begun = window.get_accumulate(source, result, &target, op, Ends::WithEpoch);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
#[inline]
pub unsafe fn compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: DatatypeRef<'_>,
    target_rank: c_int,
    target_disp: c::Aint,
    win: &WinObject,
) -> Checked<()> {
    check_predefined(datatype)?;
    // SAFETY: the three hold one element each until the operation has ended (MPI 5.0, section 12.3.4).
    let (new, compare, result) = unsafe {
        (
            element(origin_addr.cast_mut(), datatype, "origin_addr")?,
            element(compare_addr.cast_mut(), datatype, "compare_addr")?,
            element(result_addr, datatype, "result_addr")?,
        )
    };
    if let Some(target) = target(target_rank, target_disp, 1, datatype, win)? {
        let number = watch(
            "MPI_Compare_and_swap",
            win.window(),
            (AccessKind::Accumulate(0), &target),
            (Some(&new), Some(&result)),
        );
        let window = win.window();
        let begun = window.compare_and_swap(&compare, &new, result, &target);
        unless_refused(window, number, begun)?;
    }
    Ok(())
}
