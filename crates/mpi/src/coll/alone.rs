//! Collectives of one rank: it gets what it gives.

use weft_fabric::Region;

use super::Collective;
use crate::buffer::{self, Buffer};
use crate::comm::Comm;

/// Carries out a collective of a group of one rank, whose arguments have been checked.
pub(crate) fn carry_out(collective: &Collective<'_>) {
    match collective {
        // Nothing is moved: of `MPI_Exscan` the first rank gets nothing. Steps are another function's.
        Collective::Steps(_)
        | Collective::Neighbours(_)
        | Collective::Barrier
        | Collective::Bcast { .. }
        | Collective::Exscan { .. } => {}
        Collective::Gather { send, receive, .. } | Collective::Gatherv { send, receive, .. } => {
            if let (Some(send), Some(receive)) = (send, receive) {
                send.copy_to(&receive.block(0));
            }
        }
        Collective::Scatter { send, receive, .. } | Collective::Scatterv { send, receive, .. } => {
            if let (Some(send), Some(receive)) = (send, receive) {
                send.block(0).copy_to(receive);
            }
        }
        Collective::Allgather { send, receive } | Collective::Allgatherv { send, receive } => {
            if let Some(send) = send {
                send.copy_to(&receive.block(0));
            }
        }
        Collective::Alltoall { send, receive } | Collective::Alltoallv { send, receive, .. } => {
            if let Some(send) = send {
                send.block(0).copy_to(&receive.block(0));
            }
        }
        Collective::Reduce { send, receive, .. } => {
            if let Some(receive) = receive {
                give(send, receive);
            }
        }
        Collective::Allreduce { send, receive, .. }
        | Collective::ReduceScatterBlock { send, receive, .. }
        | Collective::ReduceScatter { send, receive, .. }
        | Collective::Scan { send, receive, .. } => give(send, receive),
    }
}

/// Gives the elements of a reduction, which are those of the result already if it is in place.
fn give(send: &Buffer, receive: &Buffer) {
    if send.first_byte() != receive.first_byte() {
        send.copy_to(receive);
    }
}

impl Comm {
    /// Ends a collective of this rank alone at once, or begins one that has ended then: of the name at this [place](super::place), with
    /// data without gaps that go `from` one place `to` another one, if they go anywhere. The arguments are right. False, without
    /// effect, if the full path has something to say about it.
    #[inline]
    #[must_use]
    pub fn end_alone_at_once(&self, place: usize, data: Option<(&Region, &Region)>) -> bool {
        if !self.pass_alone_at_once(place) {
            return false;
        }
        if let Some((from, to)) = data
            && from.as_ptr() != to.as_ptr()
        {
            buffer::shared(from).copy_to_region(to);
        }
        true
    }
}
