//! Collectives of one rank: it gets what it gives.

use super::Collective;
use crate::buffer::Buffer;

/// Carries out a collective of a group of one rank, whose arguments have been checked.
pub(crate) fn carry_out(collective: &Collective<'_>) {
    match collective {
        // Nothing is moved: of `MPI_Exscan` the first rank gets nothing. Steps are another function's.
        Collective::Steps(_)
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
