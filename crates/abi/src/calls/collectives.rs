//! From the arguments of a collective to its schedule: what the blocking, the non-blocking and the
//! persistent form share.
//!
//! Which buffers are significant depends on the rank, so they are checked here, not by the entry
//! points. Lists of counts have one entry for each rank.

use std::ffi::c_void;
use std::sync::Arc;

use weft_mpi::coll::inter::{self, Root, Sides};
use weft_mpi::coll::{self, Blocks, Members, Reduction};
use weft_mpi::schedule::Schedule;
use weft_mpi::{Buffer, Comm, Datatype, Op};

use crate::args::{Counts, Place};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, check, state};

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

/// The rank of a root within one group; elsewhere `MPI_ROOT` and `MPI_PROC_NULL` were refused.
fn rank(root: Root) -> usize {
    match root {
        Root::Rank(rank) => rank,
        Root::Here | Root::Beside => usize::MAX,
    }
}

/// The error of a collective that is not defined between two groups.
fn one_group(comm: &Comm) -> Checked<Members> {
    if comm.remote_group().is_none() {
        return Ok(Members::of(comm));
    }
    Err(Fault::argument(
        k::MPI_ERR_COMM,
        "comm",
        "an intracommunicator",
        "an intercommunicator, whose ranks have no order from which to begin",
        "merge its two groups with MPI_Intercomm_merge",
    ))
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
        let [buffer, counts, displacements, datatypes] = self.names;
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
        // Each where it lies: with MPI_BOTTOM a displacement is an address.
        for ((count, place), datatype) in lengths.iter().zip(places.iter()).zip(&types) {
            let address = self.address.wrapping_byte_offset(place as isize);
            // SAFETY: no elements are touched by this check.
            unsafe { check::buffer(address, check::count(count, counts)?, datatype, buffer) }?;
        }
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
    Ok(match Sides::of(comm) {
        None => coll::barrier(&Members::of(comm))?,
        Some(sides) => inter::barrier(&sides)?,
    })
}

pub(crate) fn bcast(buffer: Place, root: Root, comm: CommRef) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let data = significant(root != Root::Beside, || buffer.buffer())?;
        return Ok(inter::bcast(&sides, data.as_ref(), root)?);
    }
    Ok(coll::bcast(
        &Members::of(comm),
        &buffer.buffer()?,
        rank(root),
    )?)
}

/// What a call looks at on this process only if it is significant here.
fn significant<T>(here: bool, look: impl FnOnce() -> Checked<T>) -> Checked<Option<T>> {
    if here { look().map(Some) } else { Ok(None) }
}

/// The data that a rank contributes; `None` for `MPI_IN_PLACE`.
fn contribution(send: &Place) -> Checked<Option<Buffer>> {
    significant(!send.is_in_place(), || send.buffer())
}

/// Whether this process is of the group that the root talks to.
fn is_asked(root: Root) -> bool {
    matches!(root, Root::Rank(_))
}

/// A collective between the root and all ranks of one group: `coll::gather` and its like.
type Rooted<A, B> = fn(&Members, Option<&A>, Option<&B>, usize) -> weft_mpi::Result<Schedule>;

/// Gather and its form with counts: `blocks` makes the blocks at the root.
fn collect(
    name: &'static str,
    within: Rooted<Buffer, Blocks>,
    send: &Place,
    blocks: impl FnOnce(usize) -> Checked<Blocks>,
    root: Root,
    comm: CommRef,
) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let out = significant(is_asked(root), || send.buffer())?;
        let into = significant(root == Root::Here, || blocks(sides.remote))?;
        return Ok(inter::gather(
            name,
            &sides,
            out.as_ref(),
            into.as_ref(),
            root,
        )?);
    }
    let (members, root) = (Members::of(comm), rank(root));
    let into = significant(members.rank == root, || blocks(members.size))?;
    let out = contribution(send)?;
    Ok(within(&members, out.as_ref(), into.as_ref(), root)?)
}

pub(crate) fn gather(send: Place, receive: Place, root: Root, comm: CommRef) -> Checked<Schedule> {
    let blocks = |ranks| even(&receive, ranks);
    collect("MPI_Gather", coll::gather, &send, blocks, root, comm)
}

pub(crate) fn gatherv(
    send: Place,
    receive: Listed,
    root: Root,
    comm: CommRef,
) -> Checked<Schedule> {
    let blocks = |ranks| receive.blocks(ranks);
    collect("MPI_Gatherv", coll::gatherv, &send, blocks, root, comm)
}

/// Scatter and its form with counts: `blocks` makes the blocks at the root.
fn deal(
    name: &'static str,
    within: Rooted<Blocks, Buffer>,
    blocks: impl FnOnce(usize) -> Checked<Blocks>,
    receive: &Place,
    root: Root,
    comm: CommRef,
) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let into = significant(is_asked(root), || receive.buffer())?;
        let out = significant(root == Root::Here, || blocks(sides.remote))?;
        return Ok(inter::scatter(
            name,
            &sides,
            out.as_ref(),
            into.as_ref(),
            root,
        )?);
    }
    let (members, root) = (Members::of(comm), rank(root));
    let out = significant(members.rank == root, || blocks(members.size))?;
    let into = contribution(receive)?;
    Ok(within(&members, out.as_ref(), into.as_ref(), root)?)
}

pub(crate) fn scatter(send: Place, receive: Place, root: Root, comm: CommRef) -> Checked<Schedule> {
    let blocks = |ranks| even(&send, ranks);
    deal("MPI_Scatter", coll::scatter, blocks, &receive, root, comm)
}

pub(crate) fn scatterv(
    send: Listed,
    receive: Place,
    root: Root,
    comm: CommRef,
) -> Checked<Schedule> {
    let blocks = |ranks| send.blocks(ranks);
    deal("MPI_Scatterv", coll::scatterv, blocks, &receive, root, comm)
}

pub(crate) fn allgather(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let blocks = even(&receive, sides.remote)?;
        return Ok(inter::allgather(
            "MPI_Allgather",
            &sides,
            &send.buffer()?,
            &blocks,
        )?);
    }
    let members = Members::of(comm);
    let blocks = even(&receive, members.size)?;
    Ok(coll::allgather(
        &members,
        contribution(&send)?.as_ref(),
        &blocks,
    )?)
}

pub(crate) fn allgatherv(send: Place, receive: Listed, comm: CommRef) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let blocks = receive.blocks(sides.remote)?;
        return Ok(inter::allgather(
            "MPI_Allgatherv",
            &sides,
            &send.buffer()?,
            &blocks,
        )?);
    }
    let members = Members::of(comm);
    let blocks = receive.blocks(members.size)?;
    Ok(coll::allgatherv(
        &members,
        contribution(&send)?.as_ref(),
        &blocks,
    )?)
}

pub(crate) fn alltoall(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let (out, into) = (even(&send, sides.remote)?, even(&receive, sides.remote)?);
        return Ok(inter::alltoall("MPI_Alltoall", &sides, &out, &into)?);
    }
    let members = Members::of(comm);
    let out = significant(!send.is_in_place(), || even(&send, members.size))?;
    Ok(coll::alltoall(
        &members,
        out.as_ref(),
        &even(&receive, members.size)?,
    )?)
}

/// The forms of alltoall with blocks of any size.
fn exchange(
    name: &'static str,
    send: *mut c_void,
    out: impl FnOnce(usize) -> Checked<Blocks>,
    into: impl FnOnce(usize) -> Checked<Blocks>,
    comm: CommRef,
) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        let (out, into) = (out(sides.remote)?, into(sides.remote)?);
        return Ok(inter::alltoall(name, &sides, &out, &into)?);
    }
    let members = Members::of(comm);
    let out = significant(!in_place(send), || out(members.size))?;
    Ok(coll::alltoallv(
        name,
        &members,
        out.as_ref(),
        &into(members.size)?,
    )?)
}

pub(crate) fn alltoallv(send: Listed, receive: Listed, comm: CommRef) -> Checked<Schedule> {
    let (out, into) = (|ranks| send.blocks(ranks), |ranks| receive.blocks(ranks));
    exchange("MPI_Alltoallv", send.address, out, into, comm)
}

pub(crate) fn alltoallw(send: Typed, receive: Typed, comm: CommRef) -> Checked<Schedule> {
    let (out, into) = (|ranks| send.blocks(ranks), |ranks| receive.blocks(ranks));
    exchange("MPI_Alltoallw", send.address, out, into, comm)
}

fn reduction(count: usize, datatype: DatatypeRef, op: OpRef) -> Reduction {
    // The program's function is told the handle of the datatype, also if that is freed meanwhile.
    let op = if op.as_predefined().is_none() && !datatype.is_predefined() {
        op.keeping(state::use_datatype(datatype))
    } else {
        Arc::clone(op)
    };
    Reduction {
        count,
        datatype: Arc::clone(datatype),
        op,
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

/// The send buffer of a reduction where nothing is in place.
fn operand_apart(send: *const c_void, count: usize, datatype: DatatypeRef) -> Checked<Buffer> {
    // SAFETY: the C binding promises the elements.
    unsafe { check::buffer(send.cast_mut(), count, datatype, "sendbuf") }
}

pub(crate) fn reduce(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    root: Root,
    comm: CommRef,
) -> Checked<Schedule> {
    if let Some(sides) = Sides::of(comm) {
        if root == Root::Beside {
            return Ok(Schedule::of("MPI_Reduce", Vec::new()));
        }
        let (count, datatype) = receive.elements()?;
        let out = significant(is_asked(root), || operand_apart(send, count, datatype))?;
        let into = significant(root == Root::Here, || receive.buffer())?;
        let reduction = reduction(count, datatype, op);
        return Ok(inter::reduce(
            &sides,
            out.as_ref(),
            into.as_ref(),
            &reduction,
            root,
        )?);
    }
    let (members, root) = (Members::of(comm), rank(root));
    let (count, datatype) = receive.elements()?;
    let into = significant(members.rank == root, || receive.buffer())?;
    let own = match &into {
        Some(into) => operand(send, count, datatype, into)?,
        None => operand_apart(send, count, datatype)?,
    };
    Ok(coll::reduce(
        &members,
        &own,
        into.as_ref(),
        &reduction(count, datatype, op),
        root,
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
    let reduction = reduction(count, datatype, op);
    Ok(match Sides::of(comm) {
        None => {
            let own = operand(send, count, datatype, &into)?;
            coll::allreduce(&Members::of(comm), &own, &into, &reduction)?
        }
        Some(sides) => {
            let own = operand_apart(send, count, datatype)?;
            inter::allreduce(&sides, &own, &into, &reduction)?
        }
    })
}

pub(crate) fn scan(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let members = one_group(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(coll::scan(
        &members,
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
    let members = one_group(comm)?;
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let own = operand(send, count, datatype, &into)?;
    Ok(coll::exscan(
        &members,
        &own,
        &into,
        &reduction(count, datatype, op),
    )?)
}

/// The elements of all ranks.
fn all_of(mut counts: impl Iterator<Item = usize>) -> Checked<usize> {
    let sum = counts.try_fold(0usize, usize::checked_add);
    sum.ok_or_else(|| {
        Fault::argument(
            k::MPI_ERR_COUNT,
            "recvcounts",
            "counts whose sum fits 64 bits",
            "larger ones",
            "check the arithmetic that led to them",
        )
    })
}

pub(crate) fn reduce_scatter_block(
    send: *const c_void,
    receive: Place,
    op: OpRef,
    comm: CommRef,
) -> Checked<Schedule> {
    let (count, datatype) = receive.elements()?;
    let into = receive.buffer()?;
    let size = comm.size() as usize;
    let all = all_of(std::iter::repeat_n(count, size))?;
    let reduction = reduction(all, datatype, op);
    if let Some(sides) = Sides::of(comm) {
        let (own, counts) = (operand_apart(send, all, datatype)?, vec![count; size]);
        let name = "MPI_Reduce_scatter_block";
        return Ok(inter::reduce_scatter(
            name, &sides, &own, &into, &counts, &reduction,
        )?);
    }
    // In place, the whole input stands in the receive buffer.
    let address = if in_place(send) {
        receive.address().cast_const()
    } else {
        send
    };
    let own = operand_apart(address, all, datatype)?;
    Ok(coll::reduce_scatter_block(
        &Members::of(comm),
        &own,
        &into,
        count,
        &reduction,
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
    check_lists(&[(counts, "recvcounts")])?;
    let counts = counts
        .with_length(comm.size() as usize)
        .iter()
        .map(|count| check::count(count, "recvcounts"))
        .collect::<Checked<Vec<_>>>()?;
    let all = all_of(counts.iter().copied())?;
    let reduction = reduction(all, datatype, op);
    let own_count = counts[comm.rank() as usize];
    // SAFETY: the C binding promises the elements of this rank's part.
    let into = unsafe { check::buffer(receive, own_count, datatype, "recvbuf") }?;
    if let Some(sides) = Sides::of(comm) {
        let own = operand_apart(send, all, datatype)?;
        let name = "MPI_Reduce_scatter";
        return Ok(inter::reduce_scatter(
            name, &sides, &own, &into, &counts, &reduction,
        )?);
    }
    let address = if in_place(send) {
        receive.cast_const()
    } else {
        send
    };
    let own = operand_apart(address, all, datatype)?;
    Ok(coll::reduce_scatter(
        &Members::of(comm),
        &own,
        &into,
        &counts,
        &reduction,
    )?)
}

pub(crate) fn neighbour_allgather(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    let neighbours = comm.neighbours()?;
    let blocks = even(&receive, neighbours.sources.len())?;
    let name = "MPI_Neighbor_allgather";
    Ok(coll::neighbour_allgather(
        name,
        &neighbours,
        &send.buffer()?,
        &blocks,
    )?)
}

pub(crate) fn neighbour_allgatherv(
    send: Place,
    receive: Listed,
    comm: CommRef,
) -> Checked<Schedule> {
    let neighbours = comm.neighbours()?;
    let blocks = receive.blocks(neighbours.sources.len())?;
    let name = "MPI_Neighbor_allgatherv";
    Ok(coll::neighbour_allgather(
        name,
        &neighbours,
        &send.buffer()?,
        &blocks,
    )?)
}

pub(crate) fn neighbour_alltoall(send: Place, receive: Place, comm: CommRef) -> Checked<Schedule> {
    let out = |neighbours| even(&send, neighbours);
    let into = |neighbours| even(&receive, neighbours);
    among_neighbours("MPI_Neighbor_alltoall", out, into, comm)
}

pub(crate) fn neighbour_alltoallv(
    send: Listed,
    receive: Listed,
    comm: CommRef,
) -> Checked<Schedule> {
    let out = |neighbours| send.blocks(neighbours);
    let into = |neighbours| receive.blocks(neighbours);
    among_neighbours("MPI_Neighbor_alltoallv", out, into, comm)
}

pub(crate) fn neighbour_alltoallw(send: Typed, receive: Typed, comm: CommRef) -> Checked<Schedule> {
    let out = |neighbours| send.blocks(neighbours);
    let into = |neighbours| receive.blocks(neighbours);
    among_neighbours("MPI_Neighbor_alltoallw", out, into, comm)
}

fn among_neighbours(
    name: &'static str,
    out: impl FnOnce(usize) -> Checked<Blocks>,
    into: impl FnOnce(usize) -> Checked<Blocks>,
    comm: CommRef,
) -> Checked<Schedule> {
    let neighbours = comm.neighbours()?;
    let out = out(neighbours.destinations.len())?;
    let into = into(neighbours.sources.len())?;
    Ok(coll::neighbour_alltoall(name, &neighbours, &out, &into)?)
}
