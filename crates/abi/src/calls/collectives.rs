//! From the arguments of a collective to its schedule: what the blocking, the non-blocking and the
//! persistent form share.
//!
//! Which buffers are significant depends on the rank, so they are checked here, not by the entry
//! points. Lists of counts have one entry for each rank.

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::coll::{self, Blocks, Members, Reduction};
use weft_mpi::schedule::Schedule;
use weft_mpi::{Buffer, Comm, Datatype, Op};

use crate::args::{Counts, Place};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check};

type CommRef = &'static Arc<Comm>;
type OpRef = &'static Arc<Op>;
type DatatypeRef = &'static Arc<Datatype>;

/// A list of blocks as C has it: one address, counts and displacements.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub address: *mut c_void,
    pub counts: Counts,
    pub displacements: Counts,
    pub datatype: c::Datatype,
    pub names: [&'static str; 4],
}

/// As [`Listed`], with a datatype for each rank and displacements in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Typed {
    pub address: *mut c_void,
    pub counts: Counts,
    pub displacements: Counts,
    pub datatypes: *const c::Datatype,
    pub names: [&'static str; 4],
}

/// What a rank sends, as a list.
pub(crate) fn sent(
    address: *const c_void,
    counts: Counts,
    displacements: Counts,
    datatype: c::Datatype,
) -> Listed {
    let names = ["sendbuf", "sendcounts", "displs", "sendtype"];
    Listed {
        address: address.cast_mut(),
        counts,
        displacements,
        datatype,
        names,
    }
}

/// What a rank receives, as a list.
pub(crate) fn received(
    address: *mut c_void,
    counts: Counts,
    displacements: Counts,
    datatype: c::Datatype,
) -> Listed {
    Listed {
        address,
        counts,
        displacements,
        datatype,
        names: ["recvbuf", "recvcounts", "displs", "recvtype"],
    }
}

/// What a rank sends, as a list with datatypes.
pub(crate) fn sent_typed(
    address: *const c_void,
    counts: Counts,
    displacements: Counts,
    datatypes: *const c::Datatype,
) -> Typed {
    let names = ["sendbuf", "sendcounts", "sdispls", "sendtypes"];
    Typed {
        address: address.cast_mut(),
        counts,
        displacements,
        datatypes,
        names,
    }
}

/// What a rank receives, as a list with datatypes.
pub(crate) fn received_typed(
    address: *mut c_void,
    counts: Counts,
    displacements: Counts,
    datatypes: *const c::Datatype,
) -> Typed {
    Typed {
        address,
        counts,
        displacements,
        datatypes,
        names: ["recvbuf", "recvcounts", "rdispls", "recvtypes"],
    }
}

fn members(comm: &Comm) -> Checked<Members> {
    if comm.remote_group().is_some() {
        return Err(Fault::new(
            k::MPI_ERR_UNSUPPORTED_OPERATION,
            "collectives on intercommunicators are not implemented yet; merge the two sides with MPI_Intercomm_merge",
        ));
    }
    Ok(Members::of(comm))
}

fn in_place(address: *const c_void) -> bool {
    address.cast_mut() == k::MPI_IN_PLACE
}

/// The blocks of a list that all ranks have alike, of one size.
fn even(place: &Place, ranks: usize) -> Checked<Blocks> {
    let (count, datatype) = place.elements()?;
    // Checked as a buffer of all its elements.
    place.buffer()?;
    // SAFETY: `Place::new` was promised that the elements are there, for each rank.
    Ok(unsafe { Blocks::even(place.address().cast(), count, datatype, ranks) }?)
}

impl Listed {
    fn blocks(&self, ranks: usize) -> Checked<Blocks> {
        let [buffer, counts, displacements, datatype] = self.names;
        let datatype = check::committed(self.datatype, datatype)?;
        let (lengths, places) = (
            self.counts.with_length(ranks),
            self.displacements.with_length(ranks),
        );
        check_lists(&[(self.counts, counts), (self.displacements, displacements)])?;
        check_counts(lengths, counts)?;
        // SAFETY: no elements are touched by this check.
        unsafe {
            check::buffer(
                self.address,
                usize::from(lengths.iter().any(|count| count > 0)),
                datatype,
                buffer,
            )
        }?;
        // SAFETY: the C binding promises the elements of every block.
        Ok(
            unsafe {
                Blocks::listed(self.address.cast(), lengths.iter(), places.iter(), datatype)
            }?,
        )
    }
}

impl Typed {
    fn blocks(&self, ranks: usize) -> Checked<Blocks> {
        let [_, counts, displacements, datatypes] = self.names;
        let (lengths, places) = (
            self.counts.with_length(ranks),
            self.displacements.with_length(ranks),
        );
        check_lists(&[(self.counts, counts), (self.displacements, displacements)])?;
        check_counts(lengths, counts)?;
        // SAFETY: the C binding promises a datatype for each rank.
        let handles = unsafe { check::slice(self.datatypes, ranks, datatypes) }?;
        let types = handles
            .iter()
            .map(|handle| check::committed(*handle, datatypes))
            .collect::<Checked<Vec<_>>>()?;
        let entries = lengths
            .iter()
            .zip(places.iter())
            .zip(types)
            .map(|((count, place), datatype)| (count, place, datatype));
        // SAFETY: the C binding promises the elements of every block.
        Ok(unsafe { Blocks::typed(self.address.cast(), entries) }?)
    }
}

fn check_lists(lists: &[(Counts, &'static str)]) -> Checked<()> {
    match lists.iter().find(|(list, _)| list.is_null()) {
        None => Ok(()),
        Some((_, name)) => Err(Fault::argument(
            k::MPI_ERR_ARG,
            name,
            "a list with an entry for each rank",
            "a null pointer",
            "pass an array as long as the communicator",
        )),
    }
}

fn check_counts(counts: Counts, name: &'static str) -> Checked<()> {
    counts
        .iter()
        .try_for_each(|count| check::count(count, name).map(drop))
}

pub(crate) fn barrier(comm: CommRef) -> Checked<Schedule> {
    Ok(coll::barrier(&members(comm)?)?)
}

pub(crate) fn bcast(buffer: Place, root: u32, comm: CommRef) -> Checked<Schedule> {
    Ok(coll::bcast(
        &members(comm)?,
        &buffer.buffer()?,
        root as usize,
    )?)
}

/// The data that a rank contributes; `None` for `MPI_IN_PLACE`.
fn contribution(send: &Place) -> Checked<Option<Buffer>> {
    if send.is_in_place() {
        Ok(None)
    } else {
        send.buffer().map(Some)
    }
}

pub(crate) fn gather(send: Place, receive: Place, root: u32, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let here = comm.rank() == root;
    let blocks = if here {
        Some(even(&receive, members.size)?)
    } else {
        None
    };
    Ok(coll::gather(
        &members,
        contribution(&send)?.as_ref(),
        blocks.as_ref(),
        root as usize,
    )?)
}

pub(crate) fn gatherv(send: Place, receive: Listed, root: u32, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let here = comm.rank() == root;
    let blocks = if here {
        Some(receive.blocks(members.size)?)
    } else {
        None
    };
    Ok(coll::gatherv(
        &members,
        contribution(&send)?.as_ref(),
        blocks.as_ref(),
        root as usize,
    )?)
}

pub(crate) fn scatter(send: Place, receive: Place, root: u32, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let here = comm.rank() == root;
    let blocks = if here {
        Some(even(&send, members.size)?)
    } else {
        None
    };
    Ok(coll::scatter(
        &members,
        blocks.as_ref(),
        contribution(&receive)?.as_ref(),
        root as usize,
    )?)
}

pub(crate) fn scatterv(
    send: Listed,
    receive: Place,
    root: u32,
    comm: CommRef,
) -> Checked<Schedule> {
    let members = members(comm)?;
    let here = comm.rank() == root;
    let blocks = if here {
        Some(send.blocks(members.size)?)
    } else {
        None
    };
    Ok(coll::scatterv(
        &members,
        blocks.as_ref(),
        contribution(&receive)?.as_ref(),
        root as usize,
    )?)
}

pub(crate) fn allgather(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let blocks = even(&receive, members.size)?;
    Ok(coll::allgather(
        &members,
        contribution(&send)?.as_ref(),
        &blocks,
    )?)
}

pub(crate) fn allgatherv(send: Place, receive: Listed, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let blocks = receive.blocks(members.size)?;
    Ok(coll::allgatherv(
        &members,
        contribution(&send)?.as_ref(),
        &blocks,
    )?)
}

pub(crate) fn alltoall(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let out = if send.is_in_place() {
        None
    } else {
        Some(even(&send, members.size)?)
    };
    Ok(coll::alltoall(
        &members,
        out.as_ref(),
        &even(&receive, members.size)?,
    )?)
}

pub(crate) fn alltoallv(send: Listed, receive: Listed, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let out = if in_place(send.address) {
        None
    } else {
        Some(send.blocks(members.size)?)
    };
    Ok(coll::alltoallv(
        "MPI_Alltoallv",
        &members,
        out.as_ref(),
        &receive.blocks(members.size)?,
    )?)
}

pub(crate) fn alltoallw(send: Typed, receive: Typed, comm: CommRef) -> Checked<Schedule> {
    let members = members(comm)?;
    let out = if in_place(send.address) {
        None
    } else {
        Some(send.blocks(members.size)?)
    };
    Ok(coll::alltoallv(
        "MPI_Alltoallw",
        &members,
        out.as_ref(),
        &receive.blocks(members.size)?,
    )?)
}

fn reduction(count: usize, datatype: DatatypeRef, op: OpRef) -> Reduction {
    Reduction {
        count,
        datatype: Arc::clone(datatype),
        op: Arc::clone(op),
    }
}

/// The send buffer of a reduction; `in_place_of` stands for `MPI_IN_PLACE`.
fn operand(
    send: *const c_void,
    count: usize,
    datatype: DatatypeRef,
    in_place_of: &Buffer,
) -> Checked<Buffer> {
    if in_place(send) {
        return Ok(in_place_of.clone());
    }
    // SAFETY: the C binding promises the elements.
    unsafe { check::buffer(send.cast_mut(), count, datatype, "sendbuf") }
}

pub(crate) fn reduce(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    root: u32,
    comm: CommRef,
) -> Checked<Schedule> {
    let members = members(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = if comm.rank() == root {
        Some(receive.buffer()?)
    } else {
        None
    };
    let own = match &into {
        Some(into) => operand(send, count, datatype, into)?,
        // SAFETY: the C binding promises the elements.
        None => unsafe { check::buffer(send.cast_mut(), count, datatype, "sendbuf") }?,
    };
    Ok(coll::reduce(
        &members,
        &own,
        into.as_ref(),
        &reduction(count, datatype, op),
        root as usize,
    )?)
}

pub(crate) fn allreduce(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(coll::allreduce(
        &members(comm)?,
        &own,
        &into,
        &reduction(count, datatype, op),
    )?)
}

pub(crate) fn scan(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(coll::scan(
        &members(comm)?,
        &own,
        &into,
        &reduction(count, datatype, op),
    )?)
}

pub(crate) fn exscan(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(coll::exscan(
        &members(comm)?,
        &own,
        &into,
        &reduction(count, datatype, op),
    )?)
}

pub(crate) fn reduce_scatter_block(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let members = members(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let all = count * members.size;
    // In place, the whole input stands in the receive buffer.
    let address = if in_place(send) {
        receive.address()
    } else {
        send.cast_mut()
    };
    // SAFETY: the C binding promises the elements of all ranks' parts.
    let own = unsafe { check::buffer(address, all, datatype, "sendbuf") }?;
    Ok(coll::reduce_scatter_block(
        &members,
        &own,
        &into,
        count,
        &reduction(all, datatype, op),
    )?)
}

pub(crate) fn reduce_scatter(
    send: *const c_void,
    receive: *mut c_void,
    counts: Counts,
    datatype: DatatypeRef,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let members = members(comm)?;
    check_lists(&[(counts, "recvcounts")])?;
    let counts = counts
        .with_length(members.size)
        .iter()
        .map(|count| check::count(count, "recvcounts"))
        .collect::<Checked<Vec<_>>>()?;
    let all = counts.iter().sum();
    let address = if in_place(send) {
        receive
    } else {
        send.cast_mut()
    };
    // SAFETY: the C binding promises the elements of all ranks' parts.
    let own = unsafe { check::buffer(address, all, datatype, "sendbuf") }?;
    // SAFETY: the C binding promises the elements of this rank's part.
    let into = unsafe { check::buffer(receive, counts[members.rank], datatype, "recvbuf") }?;
    Ok(coll::reduce_scatter(
        &members,
        &own,
        &into,
        &counts,
        &reduction(all, datatype, op),
    )?)
}
