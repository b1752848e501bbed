//! Collectives of few bytes that end at once, to which ranks give, or of which they get, different numbers of elements.
//!
//! # Safety
//! As for [`at_once`](super): addresses come from the caller, who keeps the promises of the C binding.

use std::ffi::{c_int, c_void};

use weft_mpi::datatype::SignatureCode;
use weft_sys::span::Region;

use super::collective::with_board;
use super::{LAST, MOST, alone, bytes};
use crate::check::PAGE;
use crate::generated::constants as k;
use crate::{c, state};

/// A number of a list: `int`, `MPI_Count` or `MPI_Aint`.
pub trait Number: Copy {
    /// In 64 bits.
    fn wide(self) -> i64;
}

impl Number for c_int {
    #[inline(always)]
    fn wide(self) -> i64 {
        self.into()
    }
}

impl Number for c::Count {
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
}

impl Number for c::Aint {
    #[inline(always)]
    fn wide(self) -> i64 {
        self as i64
    }
}

/// The blocks of all ranks: of few contiguous predefined elements each.
struct Lists<C, D> {
    base: *mut c_void,
    counts: *const C,
    displacements: *const D,
    /// Bytes of an element.
    element: usize,
    code: SignatureCode,
}

impl<C: Number, D: Number> Lists<C, D> {
    /// `None` if any block is not as usual.
    ///
    /// # Safety
    /// As for [`bytes`], for each block; both lists have an entry for each rank.
    #[inline(always)]
    unsafe fn new(
        base: *mut c_void,
        (counts, displacements): (*const C, *const D),
        datatype: c::Datatype,
        size: u32,
    ) -> Option<Self> {
        let (element, code) = state::dense(datatype);
        let lists = Self {
            base,
            counts,
            displacements,
            element,
            code,
        };
        let is_right = element > 0
            && !counts.is_null()
            && !displacements.is_null()
            && is_address(base)
            && (0..size as usize).all(|rank| lists.is_right(rank));
        is_right.then_some(lists)
    }

    /// How many elements, and behind how many.
    #[inline(always)]
    fn entry(&self, rank: usize) -> (i64, i64) {
        // SAFETY: both lists have an entry for each rank, as `new` was promised; they may be aligned as the caller likes.
        unsafe {
            let count = self.counts.add(rank).read_unaligned();
            let displacement = self.displacements.add(rank).read_unaligned();
            (count.wide(), displacement.wide())
        }
    }

    #[inline(always)]
    fn is_right(&self, rank: usize) -> bool {
        let (count, displacement) = self.entry(rank);
        // Elements have less than 64 bytes, and addresses less bits than this leaves.
        let is_near = displacement.unsigned_abs() <= LAST as u64;
        count == 0
            || count.cast_unsigned() <= MOST && is_near && is_address(self.address(displacement))
    }

    #[inline(always)]
    fn address(&self, displacement: i64) -> *mut c_void {
        let distance = (displacement as isize).wrapping_mul(self.element as isize);
        self.base.wrapping_byte_offset(distance)
    }

    /// The block of a rank, which there must be.
    #[inline(always)]
    fn block(&self, rank: usize) -> Region {
        let (count, displacement) = self.entry(rank);
        let address = match count {
            0 => self.base,
            _ => self.address(displacement),
        };
        // SAFETY: these elements, which are contiguous, stay valid until the operation has ended, as `new` was promised.
        unsafe { Region::new(address.cast(), count as usize * self.element) }
    }

    /// Whether these elements are as many as those of a block, of the same signature, and begin elsewhere than every block.
    #[inline(always)]
    fn fit(&self, (own, code): &(Region, SignatureCode), rank: usize, size: u32) -> bool {
        let is_apart = |block: Region| own.is_empty() || block.as_ptr() != own.as_ptr();
        own.len() == self.block(rank).len()
            && *code == self.code
            && (0..size as usize).all(|other| is_apart(self.block(other)))
    }
}

/// Whether elements handled here may begin there.
#[inline(always)]
pub(super) fn is_address(address: *mut c_void) -> bool {
    address.addr().wrapping_sub(PAGE) <= LAST
}

/// What a rank gives or gets, which is where its block is with `MPI_IN_PLACE`: then `Some(None)`. `None` if it does not fit its block.
///
/// # Safety
/// As for [`bytes`].
#[inline(always)]
unsafe fn own<C: Number, D: Number>(
    (address, count, datatype): (*mut c_void, i64, c::Datatype),
    blocks: &Lists<C, D>,
    (rank, size): (u32, u32),
) -> Option<Option<Region>> {
    if address == k::MPI_IN_PLACE {
        return Some(None);
    }
    // SAFETY: as the caller promises.
    let own = unsafe { bytes(address, count, datatype) }?;
    blocks.fit(&own, rank as usize, size).then_some(Some(own.0))
}

/// `MPI_Gatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn gatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const D,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let lists = (recvcounts, displs);
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::gatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, handle,
            )
        };
    };
    let (root, rank, size) = (root.cast_unsigned(), comm.rank(), comm.size());
    if root != rank {
        // SAFETY: as the caller promises.
        return unsafe { bytes(send.0, sendcount, sendtype) }
            .is_some_and(|own| comm.gatherv_at_once(own, root));
    }
    // SAFETY: as the caller promises, at the root.
    unsafe {
        let Some(blocks) = Lists::new(recvbuf, lists, recvtype, size) else {
            return false;
        };
        let block = |rank| blocks.block(rank);
        own(send, &blocks, (rank, size))
            .is_some_and(|own| comm.gatherv_here_at_once(own, block, blocks.code))
    }
}

/// `MPI_Scatterv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn scatterv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    displs: *const D,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: c::Datatype,
    root: c_int,
    handle: c::Comm,
) -> bool {
    let receive = (recvbuf, recvcount, recvtype);
    let lists = (sendcounts, displs);
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::scatterv(
                sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, handle,
            )
        };
    };
    let (root, rank, size) = (root.cast_unsigned(), comm.rank(), comm.size());
    if root != rank {
        // SAFETY: as the caller promises.
        return unsafe { bytes(recvbuf, recvcount, recvtype) }
            .is_some_and(|own| comm.scatterv_at_once(own, root));
    }
    // SAFETY: as the caller promises, at the root.
    unsafe {
        let Some(blocks) = Lists::new(sendbuf.cast_mut(), lists, sendtype, size) else {
            return false;
        };
        let block = |rank| blocks.block(rank);
        own(receive, &blocks, (rank, size))
            .is_some_and(|own| comm.scatterv_here_at_once(own, block, blocks.code))
    }
}

/// `MPI_Allgatherv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn allgatherv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    displs: *const D,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, handle,
            )
        };
    };
    let send = (sendbuf.cast_mut(), sendcount, sendtype);
    let (rank, size) = (comm.rank(), comm.size());
    // SAFETY: as the caller promises.
    unsafe {
        let Some(blocks) = Lists::new(recvbuf, (recvcounts, displs), recvtype, size) else {
            return false;
        };
        let block = |rank| blocks.block(rank);
        own(send, &blocks, (rank, size))
            .is_some_and(|own| comm.allgatherv_at_once(own, block, blocks.code))
    }
}

/// `MPI_Alltoallv`.
///
/// # Safety
/// As the head of the module says.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of the call")]
pub unsafe fn alltoallv<C: Number, D: Number>(
    sendbuf: *const c_void,
    sendcounts: *const C,
    sdispls: *const D,
    sendtype: c::Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const C,
    rdispls: *const D,
    recvtype: c::Datatype,
    handle: c::Comm,
) -> bool {
    let Some(comm) = with_board(handle) else {
        // SAFETY: as the caller promises.
        return unsafe {
            alone::alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                handle,
            )
        };
    };
    let size = comm.size();
    // SAFETY: as the caller promises.
    unsafe {
        let Some(into) = Lists::new(recvbuf, (recvcounts, rdispls), recvtype, size) else {
            return false;
        };
        let to = |rank| into.block(rank);
        if sendbuf.cast_mut() == k::MPI_IN_PLACE {
            return comm.alltoallv_at_once((to, true), to);
        }
        let Some(out) = Lists::new(sendbuf.cast_mut(), (sendcounts, sdispls), sendtype, size)
        else {
            return false;
        };
        let from = |rank| out.block(rank);
        let is_apart =
            |rank: usize| from(rank).is_empty() || from(rank).as_ptr() != to(rank).as_ptr();
        let own = comm.rank() as usize;
        from(own).len() == to(own).len()
            && (0..size as usize).all(is_apart)
            && comm.alltoallv_at_once((from, false), to)
    }
}
