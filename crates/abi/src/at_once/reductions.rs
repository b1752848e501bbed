//! Reductions and scans of few bytes that end at once: of predefined datatypes and operations, with `MPI_IN_PLACE` or without.
//!
//! # Safety
//! As for [`at_once`](super): addresses come from the caller, who keeps the promises of the C binding.

use std::ffi::{c_int, c_void};

use weft_mpi::Comm;
use weft_mpi::coll::Elements;
use weft_mpi::datatype::Basic;
use weft_mpi::op::Predefined;
use weft_sys::span::Region;

use super::collective::{elements, with_board};
use super::uneven::{Number, is_address};
use super::{MOST, alone, bytes};
use crate::generated::constants as k;
use crate::{c, state};

/// The operation of a reduction, and its elements.
#[inline(always)]
pub(super) fn reduction(op: c::Op, datatype: c::Datatype) -> Option<(Predefined, Basic)> {
    let operation = state::predefined_kind(op)?;
    // Those two are for windows only.
    let is_allowed = !matches!(operation, Predefined::Replace | Predefined::NoOp);
    Some((operation, state::predefined_datatype(datatype)?)).filter(|_| is_allowed)
}

/// `MPI_Reduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::reduce(sendbuf, recvbuf, count, datatype, op, root, handle) };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    let root = root.cast_unsigned();
    if root != comm.rank() {
        // SAFETY: as the caller promises.
        return unsafe { elements(sendbuf.cast_mut(), count, datatype) }
            .is_some_and(|own| comm.reduce_at_once(own, None, reduction, root));
    }
    // SAFETY: as the caller promises, at the root.
    unsafe { operands(sendbuf, recvbuf, count, datatype) }
        .is_some_and(|(own, result)| comm.reduce_at_once(own, Some(result), reduction, root))
}

/// `MPI_Allreduce`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::allreduce(sendbuf, recvbuf, count, datatype, op, handle) };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    if matches!(reduction.0, Predefined::Minloc | Predefined::Maxloc) {
        // SAFETY: as the caller promises.
        return unsafe { allreduce_of_pairs(sendbuf, recvbuf, count, datatype, reduction, comm) };
    }
    // SAFETY: as the caller promises.
    unsafe { operands(sendbuf, recvbuf, count, datatype) }
        .is_some_and(|(own, result)| comm.allreduce_at_once(own, &result, reduction))
}

/// `MPI_Allreduce` of pairs: not among what others do.
///
/// # Safety
/// As the head of the module says.
#[inline(never)]
unsafe fn allreduce_of_pairs(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    reduction: (Predefined, Basic),
    comm: &Comm,
) -> bool {
    // SAFETY: as the caller promises.
    both(sendbuf, recvbuf, |address| unsafe {
        pairs(address, count, datatype)
    })
    .is_some_and(|(own, result)| comm.allreduce_at_once(own, &result, reduction))
}

/// Some pairs, if there are no gaps between them: of `MPI_2INT` any number, of `MPI_DOUBLE_INT` one.
///
/// # Safety
/// As for [`bytes`].
unsafe fn pairs(address: *mut c_void, count: i64, datatype: c::Datatype) -> Option<Elements> {
    let datatype = state::predefined_datatype(datatype)?.datatype();
    if !is_address(address) || !(1..=MOST.cast_signed()).contains(&count) {
        return None;
    }
    let count = count as usize;
    let (_, length) = datatype.flat(count).filter(|(start, _)| *start == 0)?;
    // SAFETY: the bytes of these elements, which are together, stay valid until the operation has ended, as the caller promises.
    let region = unsafe { Region::new(address.cast(), length) };
    Some((region, datatype.code(count)))
}

/// What a rank gives and where the result goes, which is the same with `MPI_IN_PLACE`.
///
/// # Safety
/// As for [`bytes`], for both.
#[inline(always)]
pub(super) unsafe fn operands(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
) -> Option<(Elements, Region)> {
    // SAFETY: as the caller promises.
    both(sendbuf, recvbuf, |address| unsafe {
        elements(address, count, datatype)
    })
}

/// The same, by what finds the elements at an address.
#[inline(always)]
fn both(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    find: impl Fn(*mut c_void) -> Option<Elements>,
) -> Option<(Elements, Region)> {
    let (result, code) = find(recvbuf)?;
    if sendbuf.cast_mut() == k::MPI_IN_PLACE {
        return Some(((result, code), result));
    }
    let own = find(sendbuf.cast_mut())?;
    // The same memory on both sides is an error.
    (own.0.as_ptr() != result.as_ptr()).then_some((own, result))
}

/// `MPI_Scan`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::scan(sendbuf, recvbuf, count, datatype, op, handle) };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    // SAFETY: as the caller promises.
    unsafe { operands(sendbuf, recvbuf, count, datatype) }
        .is_some_and(|(own, result)| comm.scan_at_once(own, &result, reduction))
}

/// `MPI_Exscan`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe { alone::exscan(sendbuf, recvbuf, count, datatype, op, handle) };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    // SAFETY: as the caller promises.
    unsafe { operands(sendbuf, recvbuf, count, datatype) }
        .is_some_and(|(own, result)| comm.exscan_at_once(own, &result, reduction))
}

/// What a rank gives for all, and where its part of the result goes, which with `MPI_IN_PLACE` is the front of the same.
///
/// # Safety
/// As for [`bytes`]: `sendbuf` has `all` elements, `recvbuf` this rank's `count`, or all in place.
#[inline(always)]
pub(super) unsafe fn parts(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    (count, all): (i64, i64),
    datatype: c::Datatype,
) -> Option<(Elements, Region)> {
    // SAFETY: as the caller promises.
    let (result, _) = unsafe { bytes(recvbuf, count, datatype) }?;
    let is_in_place = sendbuf.cast_mut() == k::MPI_IN_PLACE;
    let from = if is_in_place {
        recvbuf
    } else {
        sendbuf.cast_mut()
    };
    // SAFETY: as the caller promises.
    let own = unsafe { elements(from, all, datatype) }?;
    // The same memory on both sides is an error.
    let is_right = is_in_place || own.0.as_ptr() != result.as_ptr();
    is_right.then_some((own, result))
}

/// `MPI_Reduce_scatter_block`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, handle)
        };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    let all = recvcount.saturating_mul(i64::from(comm.size()));
    // SAFETY: as the caller promises.
    unsafe { parts(sendbuf, recvbuf, (recvcount, all), datatype) }
        .is_some_and(|(own, result)| comm.reduce_scatter_block_at_once(own, &result, reduction))
}

/// `MPI_Reduce_scatter`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
pub unsafe fn reduce_scatter<C: Number>(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    datatype: c::Datatype,
    op: c::Op,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, handle)
        };
    };
    let Some(reduction) = reduction(op, datatype) else {
        return false;
    };
    if recvcounts.is_null() {
        return false;
    }
    // SAFETY: as the caller promises: one for each rank.
    let count = |rank: usize| unsafe { recvcounts.add(rank).read_unaligned() }.wide();
    let size = comm.size() as usize;
    if !(0..size).all(|rank| count(rank).cast_unsigned() <= MOST) {
        return false;
    }
    let all = (0..size).map(count).sum();
    // SAFETY: as the caller promises.
    unsafe {
        parts(
            sendbuf,
            recvbuf,
            (count(comm.rank() as usize), all),
            datatype,
        )
    }
    .is_some_and(|(own, result)| {
        let counts = |rank| count(rank) as usize;
        comm.reduce_scatter_at_once(own, &result, counts, reduction)
    })
}
