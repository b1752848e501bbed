//! Non-blocking collectives on a board: those that are done in one epoch, of which each member shows no more than lies beside its
//! stamp.
//!
//! What is shown and taken is what the [blocking forms](super) show and take in their first epoch, but for a rank's own data: they
//! are copied when the collective begins, and what is folded is read from the board, this rank's share, too, because the program's
//! memory may be that of the result.

use weft_fabric::board::Board;
use weft_fabric::{Region, SharedBytes};

use super::{Demand, outline};
use crate::buffer::{self, Buffer};
use crate::coll::{Blocks, Collective};
use crate::engine::boards::{Attendance, Audience, Awaited, Shown, Transfer};
use crate::op::Combine;

/// What a rank shows.
#[derive(Debug)]
enum Shows {
    Nothing,
    Data(Buffer),
    /// One block for each rank, one after the other; nobody reads that of this rank.
    Blocks(Blocks, usize),
}

/// What it takes.
#[derive(Debug)]
enum Takes {
    Nothing,
    /// A part, from so many bytes on, of the bytes that one member shows.
    One {
        from: usize,
        length: usize,
        offset: usize,
        into: Buffer,
    },
    /// Such a part from each of the others.
    Each {
        me: usize,
        length: usize,
        offset: usize,
        into: Blocks,
    },
    /// Such a part from each of the first members, combined.
    Folded {
        count: usize,
        length: usize,
        offset: usize,
        into: Buffer,
        combine: Combine,
    },
}

/// What a rank does in a collective.
#[derive(Debug)]
pub(crate) struct Exchange {
    shows: Shows,
    takes: Takes,
}

impl Transfer for Exchange {
    #[inline]
    fn shown(&self, scratch: &mut [u8; Board::INLINE]) -> Option<Region> {
        let length = match &self.shows {
            Shows::Nothing => return None,
            Shows::Data(Buffer::Flat(region, _)) => return Some(*region),
            Shows::Data(typed) => typed.pack_from(0, scratch),
            Shows::Blocks(blocks, me) => {
                let each = blocks.bytes(*me);
                for rank in (0..blocks.len()).filter(|rank| rank != me) {
                    let place = scratch.get_mut(rank * each..(rank + 1) * each)?;
                    blocks.block(rank).pack_from(0, place);
                }
                each * blocks.len()
            }
        };
        Some(buffer::region_of(scratch.get_mut(..length)?))
    }

    #[inline]
    fn take(&self, shown: &Shown<'_>) -> bool {
        match &self.takes {
            Takes::Nothing => true,
            Takes::One {
                from,
                length,
                offset,
                into,
            } => {
                let data = shown.data(*from, *length, (*offset, into.bytes()));
                fill(into, data)
            }
            Takes::Each {
                me,
                length,
                offset,
                into,
            } => (0..shown.members()).all(|member| {
                member == *me || {
                    let into = into.block(member);
                    let data = shown.data(member, *length, (*offset, into.bytes()));
                    fill(&into, data)
                }
            }),
            Takes::Folded {
                count,
                length,
                offset,
                into,
                combine,
            } => fold(shown, *count, (*length, *offset), into, combine),
        }
    }
}

#[inline]
fn fill(into: &Buffer, data: Option<SharedBytes<'_>>) -> bool {
    data.is_some_and(|data| {
        into.fill(data);
        true
    })
}

/// Folds from the last of the first `count` members to the first.
#[inline]
fn fold(
    shown: &Shown<'_>,
    count: usize,
    (length, offset): (usize, usize),
    into: &Buffer,
    combine: &Combine,
) -> bool {
    let bytes = into.bytes();
    let mut memory = [[0; Board::INLINE]; 2];
    let [operand, folded] = &mut memory;
    let (Some(operand), Some(folded)) = (operand.get_mut(..bytes), folded.get_mut(..bytes)) else {
        return false;
    };
    let (operand, folded) = (buffer::region_of(operand), buffer::region_of(folded));
    for member in (0..count).rev() {
        let Some(data) = shown.data(member, length, (offset, bytes)) else {
            return false;
        };
        if member + 1 == count {
            data.copy_to_region(&folded);
            continue;
        }
        // What others may change meanwhile is copied once, and combined then.
        data.copy_to_region(&operand);
        combine.run_at(&operand, &folded);
    }
    into.fill(buffer::shared(&folded));
    true
}

/// The operation of a reduction that the engine can do by itself.
fn combine(collective: &Collective<'_>) -> Option<Combine> {
    let (Collective::Reduce { reduction, .. }
    | Collective::Allreduce { reduction, .. }
    | Collective::ReduceScatterBlock { reduction, .. }
    | Collective::Scan { reduction, .. }
    | Collective::Exscan { reduction, .. }) = collective
    else {
        return None;
    };
    Combine::new(reduction.op.as_predefined()?, reduction.datatype.basic()?).ok()
}

/// What a collective asks of the board for outstanding ones; `None` if it is not for that. The same on all ranks.
#[inline]
pub(crate) fn demand(collective: &Collective<'_>, (rank, size): (usize, usize)) -> Option<Demand> {
    match collective {
        Collective::Barrier
        | Collective::Bcast { .. }
        | Collective::Gather { .. }
        | Collective::Scatter { .. }
        | Collective::Allgather { .. }
        | Collective::Alltoall { .. } => {}
        _ => _ = combine(collective)?,
    }
    outline(collective, rank, size).filter(|demand| demand.shown <= Board::INLINE)
}

impl Demand {
    /// What this rank does in the collective that asks for this, as number `number` of its communicator; `None` for arguments that
    /// [are not right](super::check).
    #[inline]
    pub(crate) fn begin(
        &self,
        collective: &Collective<'_>,
        (me, size): (usize, usize),
        number: u32,
    ) -> Option<(Attendance, Exchange)> {
        let each = self.each;
        let all = Some(Awaited::All);
        let everybody = (Audience::All, all);
        let get = |from: usize, (length, offset): (usize, usize), into: &Buffer| Takes::One {
            from,
            length,
            offset,
            into: into.clone(),
        };
        let fold = |count: usize, offset: usize, into: &Buffer| {
            Some(Takes::Folded {
                count,
                length: each,
                offset,
                into: into.clone(),
                combine: combine(collective)?,
            })
        };
        let ((audience, awaited), shows, takes) = match collective {
            Collective::Barrier => (everybody, Shows::Nothing, Takes::Nothing),
            Collective::Bcast { data, root } if me == *root => {
                let shows = Shows::Data(data.clone());
                ((Audience::Mine, None), shows, Takes::Nothing)
            }
            Collective::Bcast { data, root } => {
                let takes = get(*root, (each, 0), data);
                let waits = (Audience::Nobody, Some(Awaited::One(*root)));
                (waits, Shows::Nothing, takes)
            }
            Collective::Gather {
                send,
                receive: Some(receive),
                root,
            } if me == *root => {
                if let Some(send) = send {
                    send.copy_to(&receive.block(me));
                }
                let takes = Takes::Each {
                    me,
                    length: each,
                    offset: 0,
                    into: receive.clone(),
                };
                ((Audience::Nobody, all), Shows::Nothing, takes)
            }
            Collective::Gather { send, root, .. } => {
                let shows = Shows::Data(send.clone()?);
                ((Audience::Root(*root), None), shows, Takes::Nothing)
            }
            Collective::Scatter {
                send: Some(send),
                receive,
                root,
            } if me == *root => {
                if let Some(receive) = receive {
                    send.block(me).copy_to(receive);
                }
                let shows = Shows::Blocks(send.clone(), me);
                ((Audience::Mine, None), shows, Takes::Nothing)
            }
            Collective::Scatter { receive, root, .. } => {
                let takes = get(*root, (each * size, me * each), receive.as_ref()?);
                let waits = (Audience::Nobody, Some(Awaited::One(*root)));
                (waits, Shows::Nothing, takes)
            }
            Collective::Allgather { send, receive } => {
                let shows = match send {
                    Some(send) => {
                        send.copy_to(&receive.block(me));
                        Shows::Data(send.clone())
                    }
                    None => Shows::Data(receive.block(me)),
                };
                let takes = Takes::Each {
                    me,
                    length: each,
                    offset: 0,
                    into: receive.clone(),
                };
                (everybody, shows, takes)
            }
            Collective::Alltoall { send, receive } => {
                if let Some(send) = send {
                    send.block(me).copy_to(&receive.block(me));
                }
                let shows = Shows::Blocks(send.as_ref().unwrap_or(receive).clone(), me);
                let takes = Takes::Each {
                    me,
                    length: each * size,
                    offset: me * each,
                    into: receive.clone(),
                };
                (everybody, shows, takes)
            }
            Collective::Reduce {
                send,
                receive: Some(receive),
                root,
                ..
            } if me == *root => {
                let takes = fold(size, 0, receive)?;
                ((Audience::Root(me), all), Shows::Data(send.clone()), takes)
            }
            Collective::Reduce { send, root, .. } => {
                let shows = Shows::Data(send.clone());
                ((Audience::Root(*root), None), shows, Takes::Nothing)
            }
            Collective::Allreduce { send, receive, .. } => {
                let takes = fold(size, 0, receive)?;
                (everybody, Shows::Data(send.clone()), takes)
            }
            Collective::ReduceScatterBlock { send, receive, .. } => {
                let takes = fold(size, me * receive.bytes(), receive)?;
                (everybody, Shows::Data(send.clone()), takes)
            }
            Collective::Scan { send, receive, .. } => {
                let waits = (Audience::Above, Some(Awaited::First(me + 1)));
                let takes = fold(me + 1, 0, receive)?;
                (waits, Shows::Data(send.clone()), takes)
            }
            Collective::Exscan { send, .. } if me == 0 => {
                let shows = Shows::Data(send.clone());
                ((Audience::Above, None), shows, Takes::Nothing)
            }
            Collective::Exscan { send, receive, .. } => {
                let waits = (Audience::Above, Some(Awaited::First(me)));
                let takes = fold(me, 0, receive)?;
                (waits, Shows::Data(send.clone()), takes)
            }
            _ => return None,
        };
        let attendance = Attendance::new(self.call(number), audience, awaited);
        Some((attendance, Exchange { shows, takes }))
    }
}
