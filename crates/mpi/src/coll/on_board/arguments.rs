//! Arguments of collectives on boards, checked.

use super::super::{Collective, Members};
use super::super::{allgather, alltoall, gather, missing, reduce_scatter, scatter};
use crate::error::Result;

/// Checks the arguments of a collective, as its builder does.
#[inline]
pub(crate) fn check(collective: &Collective<'_>, members: &Members) -> Result<()> {
    match collective {
        Collective::Steps(_) | Collective::Neighbours(_) | Collective::Barrier => Ok(()),
        Collective::Bcast { root, .. } => members.check_root("MPI_Bcast", *root),
        Collective::Gather {
            send,
            receive,
            root,
        } => gather::check(
            members,
            "MPI_Gather",
            send.as_ref(),
            receive.as_ref(),
            *root,
        ),
        Collective::Gatherv {
            send,
            receive,
            root,
        } => {
            let (send, receive) = (send.as_ref(), receive.as_ref());
            gather::check(members, "MPI_Gatherv", send, receive, *root)
        }
        Collective::Scatter {
            send,
            receive,
            root,
        } => scatter::check(
            members,
            "MPI_Scatter",
            send.as_ref(),
            receive.as_ref(),
            *root,
        ),
        Collective::Scatterv {
            send,
            receive,
            root,
        } => {
            let (send, receive) = (send.as_ref(), receive.as_ref());
            scatter::check(members, "MPI_Scatterv", send, receive, *root)
        }
        Collective::Allgather { send, receive } => {
            allgather::check("MPI_Allgather", members, send.as_ref(), receive)
        }
        Collective::Allgatherv { send, receive } => {
            allgather::check("MPI_Allgatherv", members, send.as_ref(), receive)
        }
        Collective::Alltoall { send, receive } => {
            alltoall::check(members, "MPI_Alltoall", send.as_ref(), receive)
        }
        Collective::Alltoallv {
            name,
            send,
            receive,
        } => alltoall::check(members, name, send.as_ref(), receive),
        Collective::Reduce {
            send,
            receive,
            reduction,
            root,
        } => {
            let name = "MPI_Reduce";
            members.check_root(name, *root)?;
            reduction.check(name, reduction.count, send)?;
            match receive {
                _ if members.rank != *root => Ok(()),
                Some(receive) => reduction.check(name, reduction.count, receive),
                None => Err(missing(name, "receive")),
            }
        }
        Collective::Allreduce {
            send,
            receive,
            reduction,
        } => reduction.check_both("MPI_Allreduce", send, receive),
        Collective::Scan {
            send,
            receive,
            reduction,
        } => reduction.check_both("MPI_Scan", send, receive),
        Collective::Exscan {
            send,
            receive,
            reduction,
        } => match members.rank {
            0 => reduction.check("MPI_Exscan", reduction.count, send),
            _ => reduction.check_both("MPI_Exscan", send, receive),
        },
        Collective::ReduceScatterBlock {
            send,
            receive,
            count,
            reduction,
        } => reduce_scatter::check_blocks(members, send, receive, *count, reduction),
        Collective::ReduceScatter {
            send,
            receive,
            counts,
            reduction,
        } => reduce_scatter::check(
            "MPI_Reduce_scatter",
            members,
            send,
            receive,
            counts,
            reduction,
        ),
    }
}
