//! Collectives on a board: each member shows its data once, and takes what it needs from the others' data itself.
//!
//! | collective | shows | waits for |
//! |---|---|---|
//! | barrier | nothing | all |
//! | bcast, scatter | the root, everything | the root |
//! | gather, reduce | its own | the root, for all |
//! | allgather, allreduce, alltoall, reduce_scatter | its own | all |
//! | scan, exscan | its own | those before |
//!
//! Where ranks give different numbers of bytes that not all of them know (gatherv, scatterv, alltoallv and alltoallw), each
//! says how many it shows; one that has too many shows nothing, and sends them by messages: these are the [`Rest`] of the
//! collective, under its number. In allgatherv all ranks know all numbers.
//!
//! Data larger than a member can show at a time go slice by slice, one epoch for each: while the readers copy one slice
//! from the shared memory, the next is copied in.
//!
//! Reductions are folded from the last rank to the first, like those by messages: so results are the same bytes
//! everywhere, and the order of ranks is kept. Small data are folded by each rank that gets a result; for larger data,
//! each rank folds one part, and shows it in a following epoch. An operation of the program is called when the engine is no
//! longer held, so what it combines is copied from the board first: that is a [`Rest`], too.
//!
//! | file | what |
//! |---|---|
//! | `arguments` | arguments, checked |
//! | `at_once` | small data without gaps, in one epoch, without the way through all this |
//! | `blocks` | bcast, gather, scatter, allgather, alltoall |
//! | `outstanding` | non-blocking collectives of small data, which others begin behind |
//! | `uneven` | gatherv, scatterv, alltoallv, alltoallw |
//! | `reductions` | reductions and scans |
//!
//! All ranks must decide alike whether a collective is done here: [`demand`] uses only facts that the standard makes
//! equal on all ranks.

mod arguments;
pub(crate) mod at_once;
mod blocks;
pub(crate) mod outstanding;
mod reductions;
mod uneven;

use super::choice::{self, OnBoard};
use super::reduce::ReductionArgument;
use super::{Blocks, Collective, Members};
use crate::buffer::Buffer;
use crate::datatype::SignatureCode;
use crate::engine::Guard;
use crate::engine::boards::{Audience, Awaited, BoardCall, BoardId, Epochs};
use crate::engine::collective_note::CollectiveNote;
use crate::engine::counters::COLLECTIVES;
use crate::error::{Error, Result};
use crate::schedule::Schedule;

pub(crate) use arguments::check;
pub(crate) use reductions::Operands;

/// What is left of a collective when its rank has left the board.
#[derive(Debug)]
pub(crate) enum Rest {
    /// Messages under the number of the collective.
    Messages {
        schedule: Schedule,
        /// Memory of its own that they refer to.
        kept: Vec<Box<[u8]>>,
        /// The error with which the collective ends behind them.
        failure: Option<Error>,
    },
    /// What an operation of the program combines.
    Operands(Operands),
}

/// Collectives, as far as the way in which much data go over a board depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Each takes what it needs of each slice.
    Blocks,
    /// One shows everything, and each takes a part.
    Scatter,
    /// One gets what all give, combined.
    Reduce,
    /// All get it.
    Allreduce,
    /// Each gets what those before it give, combined.
    Scan,
}

/// What a collective asks of a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// Place of its name in [`COLLECTIVES`].
    place: usize,
    /// Bytes of what the ranks give or get each, alike on all.
    each: usize,
    /// Bytes that one rank shows at most.
    pub(super) shown: usize,
    /// Bytes that one rank reads at most.
    pub(super) read: usize,
    /// How much data may go.
    pub(super) kind: Kind,
    /// Its operation is one of the program, which is called where the engine is not held.
    pub(super) is_users: bool,
    /// Where ranks give different numbers of bytes: what this rank shows, if it shows any.
    own: Option<Option<usize>>,
    /// What all ranks compute alike.
    pub(crate) note: CollectiveNote,
}

/// The place of a name in [`COLLECTIVES`].
///
/// # Panics
/// If it is none of them.
#[must_use]
pub const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < COLLECTIVES.len() {
        let (one, other) = (COLLECTIVES[place].as_bytes(), name.as_bytes());
        let mut at = 0;
        while at < one.len() && at < other.len() && one[at] == other[at] {
            at += 1;
        }
        if at == one.len() && at == other.len() {
            return place;
        }
        place += 1;
    }
    panic!("a name of `COLLECTIVES`")
}

const BARRIER: usize = place("MPI_Barrier");
const BCAST: usize = place("MPI_Bcast");
const GATHER: usize = place("MPI_Gather");
const GATHERV: usize = place("MPI_Gatherv");
const SCATTER: usize = place("MPI_Scatter");
const SCATTERV: usize = place("MPI_Scatterv");
const ALLGATHER: usize = place("MPI_Allgather");
const ALLGATHERV: usize = place("MPI_Allgatherv");
const ALLTOALL: usize = place("MPI_Alltoall");
const ALLTOALLV: usize = place("MPI_Alltoallv");
const ALLTOALLW: usize = place("MPI_Alltoallw");
const REDUCE: usize = place("MPI_Reduce");
const ALLREDUCE: usize = place("MPI_Allreduce");
const REDUCE_SCATTER: usize = place("MPI_Reduce_scatter");
const REDUCE_SCATTER_BLOCK: usize = place("MPI_Reduce_scatter_block");
const SCAN: usize = place("MPI_Scan");
const EXSCAN: usize = place("MPI_Exscan");

impl Demand {
    #[inline]
    fn of(
        place: usize,
        signature: SignatureCode,
        (each, shown, read): (usize, usize, usize),
        root: usize,
    ) -> Self {
        Self {
            place,
            each,
            shown,
            read,
            kind: Kind::Blocks,
            is_users: false,
            own: None,
            note: CollectiveNote::of(place, root, signature),
        }
    }

    /// That of a collective to which each rank gives a number of bytes of its own; those of this rank have `elements`.
    fn uneven(place: usize, shown: Option<usize>, elements: Option<&Buffer>, root: usize) -> Self {
        let demand = Self::of(place, SignatureCode::UNKNOWN, (0, 0, 0), root);
        Self {
            own: Some(shown),
            note: demand.note.of_elements(elements),
            ..demand
        }
    }

    /// That of a reduction of so many bytes.
    fn reducing(
        (place, kind): (usize, Kind),
        send: &Buffer,
        read: usize,
        reduction: &ReductionArgument<'_>,
        root: usize,
    ) -> Self {
        let each = send.bytes();
        let operation = reduction.op.as_predefined();
        let demand = Self::of(place, send.code(), (each, each, read), root);
        Self {
            is_users: operation.is_none(),
            note: demand.note.with(operation),
            kind,
            ..demand
        }
    }

    /// Place of its name in [`COLLECTIVES`].
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// The collective, as number `number` of its communicator.
    #[inline]
    pub(crate) fn call(&self, number: u32) -> BoardCall {
        match self.own {
            None => BoardCall::new(self.place, self.each, self.note, number),
            Some(shown) => BoardCall::uneven(self.place, shown, self.note, number),
        }
    }
}

/// A barrier, as number `number` of its communicator.
#[inline]
pub(crate) fn barrier(number: u32) -> BoardCall {
    Demand::of(BARRIER, SignatureCode::UNKNOWN, (0, 0, 0), 0).call(number)
}

/// What a collective asks of a board of `size` members, and how it is done there; `None` if it is not for boards. The same on
/// all ranks.
#[inline]
pub(crate) fn demand(
    collective: &Collective<'_>,
    (rank, size): (usize, usize),
    crowded: impl FnOnce() -> bool,
) -> Option<(Demand, OnBoard)> {
    let demand = outline(collective, rank, size)?;
    choice::on_board(&demand, size, crowded).map(|way| (demand, way))
}

/// Whether all ranks see, where data are too long for the board, that they are: those of one rank for all others, or of each
/// for all.
#[inline]
pub(crate) fn shows_to_all_whether_it_fits(collective: &Collective<'_>) -> bool {
    matches!(
        collective,
        Collective::Scatterv { .. } | Collective::Alltoallv { .. }
    )
}

/// What a collective is; `None` for what is known by its steps alone, and without arguments that it must have.
#[inline]
pub(crate) fn outline(collective: &Collective<'_>, rank: usize, size: usize) -> Option<Demand> {
    let all = |bytes: usize| bytes.saturating_mul(size);
    let unknown = SignatureCode::UNKNOWN;
    Some(match collective {
        Collective::Steps(_) | Collective::Neighbours(_) => return None,
        Collective::Barrier => Demand::of(BARRIER, unknown, (0, 0, 0), 0),
        Collective::Bcast { data, root } => {
            let bytes = data.bytes();
            Demand::of(BCAST, data.code(), (bytes, bytes, bytes), *root)
        }
        Collective::Gather {
            send,
            receive,
            root,
        } => {
            let (bytes, code) = match receive {
                Some(receive) if rank == *root && rank < receive.len() => block(receive, rank),
                _ => described(send.as_ref()),
            };
            Demand::of(GATHER, code, (bytes, bytes, all(bytes)), *root)
        }
        Collective::Gatherv {
            send,
            receive,
            root,
        } => match receive {
            Some(receive) if rank == *root => {
                let own = (rank < receive.len()).then(|| receive.block(rank))?;
                Demand::uneven(GATHERV, Some(0), Some(&own), *root)
            }
            _ => {
                let bytes = send.as_ref().map_or(0, Buffer::bytes);
                let shown = uneven::shown(bytes, size);
                Demand::uneven(GATHERV, shown, send.as_ref(), *root)
            }
        },
        Collective::Scatterv {
            send,
            receive,
            root,
        } => match send {
            Some(send) if rank == *root => {
                let own = (rank < send.len()).then(|| send.block(rank))?;
                let shown = uneven::shown_to_all(send, rank, size);
                Demand::uneven(SCATTERV, shown, Some(&own), *root)
            }
            _ => Demand::uneven(SCATTERV, Some(0), receive.as_ref(), *root),
        },
        Collective::Scatter {
            send,
            receive,
            root,
        } => {
            let (bytes, code) = match send {
                Some(send) if rank == *root && rank < send.len() => block(send, rank),
                _ => described(receive.as_ref()),
            };
            Demand {
                kind: Kind::Scatter,
                ..Demand::of(SCATTER, code, (bytes, all(bytes), all(bytes)), *root)
            }
        }
        Collective::Allgather { receive, .. } => {
            let (bytes, code) = (rank < receive.len()).then(|| block(receive, rank))?;
            Demand::of(ALLGATHER, code, (bytes, bytes, all(bytes)), 0)
        }
        Collective::Allgatherv { receive, .. } => {
            let own = (rank < receive.len()).then(|| receive.block(rank))?;
            let sizes = || (0..receive.len()).map(|rank| receive.bytes(rank));
            let most = sizes().max().unwrap_or(0);
            let total = sizes().fold(0, usize::saturating_add);
            let demand = Demand::of(ALLGATHERV, unknown, (most, most, total), 0);
            Demand {
                note: demand.note.of_blocks(sizes()).of_elements(Some(&own)),
                ..demand
            }
        }
        Collective::Alltoallv {
            name,
            send,
            receive,
        } => {
            let out = send.as_ref().unwrap_or(receive);
            let place = if *name == COLLECTIVES[ALLTOALLW] {
                ALLTOALLW
            } else {
                ALLTOALLV
            };
            Demand::uneven(place, uneven::shown_to_all(out, rank, size), None, 0)
        }
        Collective::Alltoall { receive, .. } => {
            let (bytes, code) = (rank < receive.len()).then(|| block(receive, rank))?;
            Demand::of(ALLTOALL, code, (bytes, all(bytes), all(bytes)), 0)
        }
        Collective::Reduce {
            send,
            reduction,
            root,
            ..
        } => Demand::reducing(
            (REDUCE, Kind::Reduce),
            send,
            all(send.bytes()),
            reduction,
            *root,
        ),
        Collective::Allreduce {
            send, reduction, ..
        } => Demand::reducing(
            (ALLREDUCE, Kind::Allreduce),
            send,
            all(send.bytes()),
            reduction,
            0,
        ),
        Collective::ReduceScatterBlock {
            send, reduction, ..
        } => Demand::reducing(
            (REDUCE_SCATTER_BLOCK, Kind::Blocks),
            send,
            send.bytes(),
            reduction,
            0,
        ),
        Collective::ReduceScatter {
            send,
            counts,
            reduction,
            ..
        } => {
            let kind = (REDUCE_SCATTER, Kind::Blocks);
            let demand = Demand::reducing(kind, send, send.bytes(), reduction, 0);
            Demand {
                note: demand.note.of_blocks(counts.iter().copied()),
                ..demand
            }
        }
        Collective::Scan {
            send, reduction, ..
        } => Demand::reducing((SCAN, Kind::Scan), send, all(send.bytes()), reduction, 0),
        Collective::Exscan {
            send, reduction, ..
        } => Demand::reducing((EXSCAN, Kind::Scan), send, all(send.bytes()), reduction, 0),
    })
}

fn block(blocks: &Blocks, rank: usize) -> (usize, SignatureCode) {
    (blocks.bytes(rank), blocks.code(rank))
}

fn described(buffer: Option<&Buffer>) -> (usize, SignatureCode) {
    buffer.map_or((0, SignatureCode::UNKNOWN), |buffer| {
        (buffer.bytes(), buffer.code())
    })
}

/// Carries a collective out on a board, of whose members this is number `members.rank`. Its arguments have been checked.
///
/// Answers what is left to be done without the board.
///
/// # Errors
/// `ProcFailed` if a member is lost, `Truncate` if the ranks do not agree.
#[inline]
pub(crate) fn carry_out(
    collective: &Collective<'_>,
    members: &Members,
    (guard, id): (&mut Guard<'_>, BoardId),
    (call, way): (BoardCall, OnBoard),
) -> Result<Option<Box<Rest>>> {
    let mut epochs = Epochs::enter(guard, id, call)?;
    let epochs = &mut epochs;
    let rank = members.rank;
    match collective {
        Collective::Gatherv {
            send,
            receive,
            root,
        } => {
            let receive = receive.as_ref().filter(|_| rank == *root);
            uneven::gather(epochs, members, send.as_ref(), receive, *root)
        }
        Collective::Scatterv {
            send,
            receive,
            root,
        } => {
            let send = send.as_ref().filter(|_| rank == *root);
            uneven::scatter(epochs, members, send, receive.as_ref(), *root)
        }
        Collective::Alltoallv {
            name,
            send,
            receive,
        } => uneven::alltoall(name, epochs, members, send.as_ref(), receive),
        Collective::Reduce { reduction, .. }
        | Collective::Allreduce { reduction, .. }
        | Collective::ReduceScatterBlock { reduction, .. }
        | Collective::ReduceScatter { reduction, .. }
        | Collective::Scan { reduction, .. }
        | Collective::Exscan { reduction, .. }
            if reduction.op.as_predefined().is_none() =>
        {
            let operands = reductions::operands(epochs, collective, members)?;
            Ok(operands.map(|operands| Box::new(Rest::Operands(operands))))
        }
        _ => carry_out_here(collective, members, epochs, way).map(|()| None),
    }
}

/// The same of a collective of which nothing is left.
#[inline]
fn carry_out_here(
    collective: &Collective<'_>,
    members: &Members,
    epochs: &mut Epochs<'_, '_>,
    way: OnBoard,
) -> Result<()> {
    let Members { rank, size, .. } = *members;
    match collective {
        // Another function's.
        Collective::Steps(_)
        | Collective::Neighbours(_)
        | Collective::Gatherv { .. }
        | Collective::Scatterv { .. }
        | Collective::Alltoallv { .. } => Ok(()),
        Collective::Barrier => {
            epochs.begin(0)?;
            all_arrive(epochs, size)
        }
        Collective::Bcast { data, root } => blocks::bcast(epochs, rank, data, *root),
        Collective::Gather {
            send,
            receive,
            root,
        } => {
            let receive = receive.as_ref().filter(|_| rank == *root);
            blocks::gather(epochs, members, send.as_ref(), receive, *root)
        }
        Collective::Scatter {
            send,
            receive,
            root,
        } => {
            let send = send.as_ref().filter(|_| rank == *root);
            blocks::scatter(epochs, members, send, receive.as_ref(), *root)
        }
        Collective::Allgather { send, receive } | Collective::Allgatherv { send, receive } => {
            blocks::allgather(epochs, members, send.as_ref(), receive)
        }
        Collective::Alltoall { send, receive } => {
            blocks::alltoall(epochs, members, send.as_ref(), receive)
        }
        Collective::Reduce {
            send,
            receive,
            reduction,
            root,
        } => {
            let receive = receive.as_ref().filter(|_| rank == *root);
            match way {
                OnBoard::ByEach => {
                    reductions::reduce(epochs, members, (send, receive), reduction, *root)
                }
                OnBoard::InParts => {
                    let root = Some(*root);
                    reductions::in_parts(epochs, members, (send, receive), reduction, root)
                }
            }
        }
        Collective::Allreduce {
            send,
            receive,
            reduction,
        } => match way {
            OnBoard::ByEach => reductions::allreduce(epochs, members, (send, receive), reduction),
            OnBoard::InParts => {
                let receive = Some(receive);
                reductions::in_parts(epochs, members, (send, receive), reduction, None)
            }
        },
        Collective::ReduceScatterBlock {
            send,
            receive,
            reduction,
            ..
        } => {
            let part = |_| receive.bytes();
            reductions::reduce_scatter(epochs, members, (send, receive), reduction, part)
        }
        Collective::ReduceScatter {
            send,
            receive,
            counts,
            reduction,
        } => {
            let part = |rank: usize| counts[rank] * reduction.datatype.size();
            reductions::reduce_scatter(epochs, members, (send, receive), reduction, part)
        }
        Collective::Scan {
            send,
            receive,
            reduction,
        } => reductions::scan(epochs, (rank, rank + 1), (send, receive), reduction),
        Collective::Exscan {
            send,
            receive,
            reduction,
        } => reductions::scan(epochs, (rank, rank), (send, receive), reduction),
    }
}

/// Arrives, and waits for all.
#[inline]
fn all_arrive(epochs: &mut Epochs<'_, '_>, size: usize) -> Result<()> {
    epochs.arrive(Audience::All);
    await_all(epochs, size)
}

#[inline]
fn await_all(epochs: &mut Epochs<'_, '_>, size: usize) -> Result<()> {
    epochs.until(Awaited::All)?;
    (0..size).try_for_each(|member| epochs.check(member))
}

/// Pieces of `bytes` bytes, of `most` bytes each but the last: where each begins, and its length. One of nothing if there
/// are no bytes.
#[inline]
fn slices(bytes: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = if bytes <= most {
        1
    } else {
        bytes.div_ceil(most)
    };
    (0..count).map(move |number| {
        let start = number * most;
        (start, most.min(bytes - start))
    })
}

#[cfg(test)]
mod tests {
    use super::slices;

    #[test]
    fn slices_cover_everything_once() {
        for (bytes, most, expected) in [
            (0, 8, vec![(0, 0)]),
            (0, 0, vec![(0, 0)]),
            (8, 8, vec![(0, 8)]),
            (9, 8, vec![(0, 8), (8, 1)]),
            (24, 8, vec![(0, 8), (8, 8), (16, 8)]),
        ] {
            assert_eq!(slices(bytes, most).collect::<Vec<_>>(), expected);
        }
    }
}
