//! Collective: the arguments of this rank as a value, before it is decided how the collective is carried out.
//!
//! ```text
//!   Collective ──► on a board      blocking, or small and non-blocking, on a communicator whose members share memory
//!              ├─► messages that end at once      blocking, small, among neighbours
//!              └─► Schedule        all others, blocks that are too long for the board, and what is left of those
//! ```

use super::{Blocks, Members, NeighbourExchange, ReductionArgument, on_board};
use super::{
    allgather, allgatherv, allreduce, alltoall, alltoallv, barrier, bcast, exscan, gather, gatherv,
    reduce, reduce_scatter, reduce_scatter_block, scan, scatter, scatterv,
};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::schedule::Schedule;

/// A collective within one group, with the arguments of this rank: as the function of the same name in [`coll`](super) has
/// them.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Collective<'a> {
    /// See [`barrier()`].
    Barrier,
    /// See [`bcast()`].
    Bcast { data: Buffer, root: usize },
    /// See [`gather()`].
    Gather {
        send: Option<Buffer>,
        receive: Option<Blocks>,
        root: usize,
    },
    /// See [`gatherv()`].
    Gatherv {
        send: Option<Buffer>,
        receive: Option<Blocks>,
        root: usize,
    },
    /// See [`scatter()`].
    Scatter {
        send: Option<Blocks>,
        receive: Option<Buffer>,
        root: usize,
    },
    /// See [`scatterv()`].
    Scatterv {
        send: Option<Blocks>,
        receive: Option<Buffer>,
        root: usize,
    },
    /// See [`allgather()`].
    Allgather {
        send: Option<Buffer>,
        receive: Blocks,
    },
    /// See [`allgatherv()`].
    Allgatherv {
        send: Option<Buffer>,
        receive: Blocks,
    },
    /// See [`alltoall()`].
    Alltoall {
        send: Option<Blocks>,
        receive: Blocks,
    },
    /// See [`alltoallv()`].
    Alltoallv {
        name: &'static str,
        send: Option<Blocks>,
        receive: Blocks,
    },
    /// See [`reduce()`].
    Reduce {
        send: Buffer,
        receive: Option<Buffer>,
        reduction: ReductionArgument<'a>,
        root: usize,
    },
    /// See [`allreduce()`].
    Allreduce {
        send: Buffer,
        receive: Buffer,
        reduction: ReductionArgument<'a>,
    },
    /// See [`reduce_scatter_block()`].
    ReduceScatterBlock {
        send: Buffer,
        receive: Buffer,
        count: usize,
        reduction: ReductionArgument<'a>,
    },
    /// See [`reduce_scatter()`].
    ReduceScatter {
        send: Buffer,
        receive: Buffer,
        counts: Vec<usize>,
        reduction: ReductionArgument<'a>,
    },
    /// See [`scan()`].
    Scan {
        send: Buffer,
        receive: Buffer,
        reduction: ReductionArgument<'a>,
    },
    /// See [`exscan()`].
    Exscan {
        send: Buffer,
        receive: Buffer,
        reduction: ReductionArgument<'a>,
    },
    /// One among the neighbours of a topology.
    Neighbours(NeighbourExchange<'a>),
    /// Any other, as what this rank does in it.
    Steps(Schedule),
}

impl<'a> From<NeighbourExchange<'a>> for Collective<'a> {
    fn from(exchange: NeighbourExchange<'a>) -> Self {
        Self::Neighbours(exchange)
    }
}

impl From<Schedule> for Collective<'_> {
    fn from(schedule: Schedule) -> Self {
        Self::Steps(schedule)
    }
}

impl Collective<'_> {
    /// The same, with the steps of one among neighbours, of which it is then seen whether this rank communicates with another.
    ///
    /// # Errors
    /// As for the function of the same name.
    #[inline]
    pub(crate) fn with_steps(self) -> Result<Self> {
        match self {
            Self::Neighbours(exchange) => Ok(Self::Steps(exchange.schedule_behind(0, 0)?)),
            other => Ok(other),
        }
    }

    /// The steps of this rank, by messages.
    ///
    /// # Errors
    /// As for the function of the same name.
    pub fn schedule(self, members: impl FnOnce() -> Members) -> Result<Schedule> {
        let members = match self {
            Self::Steps(schedule) => return Ok(schedule),
            Self::Neighbours(exchange) => return exchange.schedule_behind(0, 0),
            _ => members(),
        };
        let members = &members;
        let outline = on_board::outline(&self, members.rank, members.size);
        let schedule = self.build(members)?;
        let note = outline.map_or(schedule.note, |outline| outline.note);
        Ok(Schedule { note, ..schedule })
    }

    fn build(self, members: &Members) -> Result<Schedule> {
        match self {
            Self::Steps(schedule) => Ok(schedule),
            Self::Neighbours(exchange) => exchange.schedule_behind(0, 0),
            Self::Barrier => barrier(members),
            Self::Bcast { data, root } => bcast(members, &data, root),
            Self::Gather {
                send,
                receive,
                root,
            } => gather(members, send.as_ref(), receive.as_ref(), root),
            Self::Gatherv {
                send,
                receive,
                root,
            } => gatherv(members, send.as_ref(), receive.as_ref(), root),
            Self::Scatter {
                send,
                receive,
                root,
            } => scatter(members, send.as_ref(), receive.as_ref(), root),
            Self::Scatterv {
                send,
                receive,
                root,
            } => scatterv(members, send.as_ref(), receive.as_ref(), root),
            Self::Allgather { send, receive } => allgather(members, send.as_ref(), &receive),
            Self::Allgatherv { send, receive } => allgatherv(members, send.as_ref(), &receive),
            Self::Alltoall { send, receive } => alltoall(members, send.as_ref(), &receive),
            Self::Alltoallv {
                name,
                send,
                receive,
            } => alltoallv(name, members, send.as_ref(), &receive),
            Self::Reduce {
                send,
                receive,
                reduction,
                root,
            } => reduce(members, &send, receive.as_ref(), &reduction.keep(), root),
            Self::Allreduce {
                send,
                receive,
                reduction,
            } => allreduce(members, &send, &receive, &reduction.keep()),
            Self::ReduceScatterBlock {
                send,
                receive,
                count,
                reduction,
            } => reduce_scatter_block(members, &send, &receive, count, &reduction.keep()),
            Self::ReduceScatter {
                send,
                receive,
                counts,
                reduction,
            } => reduce_scatter(members, &send, &receive, &counts, &reduction.keep()),
            Self::Scan {
                send,
                receive,
                reduction,
            } => scan(members, &send, &receive, &reduction.keep()),
            Self::Exscan {
                send,
                receive,
                reduction,
            } => exscan(members, &send, &receive, &reduction.keep()),
        }
    }
}
