//! Non-blocking collectives on a board: those that are done in one epoch, of which each member shows no more than lies beside its
//! stamp.
//!
//! What is shown and taken is what the [blocking forms](super) show and take in their first epoch, but for a rank's own data: they
//! are copied when it shows what it gives, and what is folded is read from the board, this rank's share, too, because the program's
//! memory may be that of the result. Blocks of different lengths have a [file of their own](uneven), and so have [plain] bytes,
//! of which a short path knows.

mod plain;
mod uneven;

use weft_fabric::board::Board;
use weft_fabric::{Region, SharedBytes};

use self::uneven::{Gets, Gives, UnevenExchange};
use super::reductions::fold_into;
use super::uneven::{ENTRY, table};
use super::{COLLECTIVES, Demand, GATHERV, SCATTERV, outline};
use crate::buffer::{self, Buffer};
use crate::coll::{Blocks, Collective};
use crate::engine::boards::{Attendance, Audience, Awaited, Scratch, Shown, Transfer};
use crate::error::Result;
use crate::op::Combine;
use crate::schedule::Schedule;

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
    /// All that each of the others shows, of a length of its own.
    Whole {
        me: usize,
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

/// What is shown and taken where all ranks know how much each gives.
#[derive(Debug)]
struct Even {
    shows: Shows,
    takes: Takes,
}

#[derive(Debug)]
enum Way {
    Even(Even),
    /// In a box: most are even, and this is twice as long.
    Uneven(Box<UnevenExchange>),
}

/// What a rank does in a collective.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// What it gives itself, and where that goes.
    own: Option<(Buffer, Buffer)>,
    way: Way,
}

impl Transfer for Exchange {
    #[inline]
    fn shown(&self, scratch: &mut Scratch) -> Option<Region> {
        if let Some((from, into)) = &self.own {
            from.copy_to(into);
        }
        match &self.way {
            Way::Even(even) => even.shown(scratch),
            Way::Uneven(uneven) => uneven.shown(scratch),
        }
    }

    #[inline]
    fn left(&self, shown: &Shown<'_>) -> Result<Option<Box<Schedule>>> {
        match &self.way {
            Way::Even(_) => Ok(None),
            Way::Uneven(uneven) => uneven.left(shown),
        }
    }

    #[inline]
    fn take(&self, shown: &Shown<'_>) -> bool {
        match &self.way {
            Way::Even(even) => even.take(shown),
            Way::Uneven(uneven) => uneven.take(shown),
        }
    }
}

impl Even {
    #[inline]
    fn shown(&self, scratch: &mut Scratch) -> Option<Region> {
        let scratch = match &self.shows {
            Shows::Nothing => return None,
            Shows::Data(Buffer::Flat(region, _)) => return Some(*region),
            Shows::Data(_) | Shows::Blocks(..) => scratch.insert([0; Board::INLINE]),
        };
        let length = match &self.shows {
            Shows::Nothing => 0,
            Shows::Data(data) => data.pack_from(0, scratch),
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
            Takes::Whole { me, into } => (0..shown.members()).all(|member| {
                member == *me || {
                    let into = into.block(member);
                    fill(&into, shown.data(member, into.bytes(), (0, into.bytes())))
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
    let part = |member| shown.data(member, length, (offset, bytes));
    let (mut first, mut scratch) = (
        weft_fabric::Scratch::<{ Board::INLINE }>::new(),
        weft_fabric::Scratch::<{ Board::INLINE }>::new(),
    );
    let last = count.checked_sub(1).and_then(part);
    let Some(folded) = last.and_then(|data| first.fill(data)) else {
        return false;
    };
    let folded = buffer::region_of(folded);
    if !fold_into(count - 1, part, None, &folded, combine, &mut scratch) {
        return false;
    }
    into.fill(buffer::shared(&folded));
    true
}

/// The operation of a reduction that the engine can do by itself.
fn combine(collective: &Collective<'_>) -> Option<Combine> {
    let (Collective::Reduce { reduction, .. }
    | Collective::Allreduce { reduction, .. }
    | Collective::ReduceScatterBlock { reduction, .. }
    | Collective::ReduceScatter { reduction, .. }
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
        | Collective::Gatherv { .. }
        | Collective::Scatter { .. }
        | Collective::Allgather { .. }
        | Collective::Allgatherv { .. }
        | Collective::Alltoall { .. } => {}
        Collective::Scatterv { .. } if has_room_for_words(size) => {}
        Collective::Alltoallv { .. } if size <= MOST_EXCHANGING => {}
        _ => _ = combine(collective)?,
    }
    let demand = outline(collective, rank, size)?;
    let own = demand
        .own
        .map(|own| own.filter(|own| *own <= Board::INLINE));
    (demand.shown <= Board::INLINE).then_some(Demand { own, ..demand })
}

/// Whether a table for so many ranks leaves room for a word for each of the others: if not, few would be shown.
fn has_room_for_words(size: usize) -> bool {
    table(size) + (size - 1) * size_of::<u64>() <= Board::INLINE
}

const _: () = assert!(ENTRY < size_of::<u64>(), "a word is more than its entry");

/// Most ranks among which each shows a block for each of the others. With more a line soon has no room for all of them, and then
/// an epoch, for which all wait for all, comes before the messages: among four ranks on two cores that took three times as long as the
/// messages alone.
const MOST_EXCHANGING: usize = 2;

impl Demand {
    /// What this rank does in the collective that asks for this, as number `number` of its communicator; `None` for arguments that
    /// [are not right](super::check).
    #[inline]
    pub(crate) fn begin(
        &self,
        collective: Collective<'_>,
        (me, size): (usize, usize),
        number: u32,
    ) -> Option<(Attendance, Exchange)> {
        if self.own.is_some() {
            return self.begin_uneven(collective, (me, size), number);
        }
        let mut own = None;
        let each = self.each;
        let all = Some(Awaited::All);
        let everybody = (Audience::All, all);
        let combine = combine(&collective);
        let get = |from: usize, (length, offset): (usize, usize), into: Buffer| Takes::One {
            from,
            length,
            offset,
            into,
        };
        let fold = |count: usize, offset: usize, into: Buffer| {
            Some(Takes::Folded {
                count,
                length: each,
                offset,
                into,
                combine: combine?,
            })
        };
        let ((audience, awaited), shows, takes) = match collective {
            Collective::Barrier => (everybody, Shows::Nothing, Takes::Nothing),
            Collective::Bcast { data, root } if me == root => {
                let shows = Shows::Data(data);
                ((Audience::Mine, None), shows, Takes::Nothing)
            }
            Collective::Bcast { data, root } => {
                let takes = get(root, (each, 0), data);
                let waits = (Audience::Nobody, Some(Awaited::One(root)));
                (waits, Shows::Nothing, takes)
            }
            Collective::Gather {
                send,
                receive: Some(receive),
                root,
            } if me == root => {
                own = send.map(|send| (send, receive.block(me)));
                let takes = Takes::Each {
                    me,
                    length: each,
                    offset: 0,
                    into: receive,
                };
                ((Audience::Nobody, all), Shows::Nothing, takes)
            }
            Collective::Gather { send, root, .. } => {
                let shows = Shows::Data(send?);
                ((Audience::Root(root), None), shows, Takes::Nothing)
            }
            Collective::Scatter {
                send: Some(send),
                receive,
                root,
            } if me == root => {
                own = receive.map(|receive| (send.block(me), receive));
                let shows = Shows::Blocks(send, me);
                ((Audience::Mine, None), shows, Takes::Nothing)
            }
            Collective::Scatter { receive, root, .. } => {
                let takes = get(root, (each * size, me * each), receive?);
                let waits = (Audience::Nobody, Some(Awaited::One(root)));
                (waits, Shows::Nothing, takes)
            }
            Collective::Allgather { send, receive } => {
                let block = receive.block(me);
                let takes = Takes::Each {
                    me,
                    length: each,
                    offset: 0,
                    into: receive,
                };
                own = send.map(|send| (send, block.clone()));
                let gives = own.as_ref().map_or(block, |(send, _)| send.clone());
                (everybody, Shows::Data(gives), takes)
            }
            Collective::Allgatherv { send, receive } => {
                let block = receive.block(me);
                let takes = Takes::Whole { me, into: receive };
                own = send.map(|send| (send, block.clone()));
                let gives = own.as_ref().map_or(block, |(send, _)| send.clone());
                (everybody, Shows::Data(gives), takes)
            }
            Collective::Alltoall { send, receive } => {
                own = (send.as_ref()).map(|send| (send.block(me), receive.block(me)));
                let gives = send.unwrap_or_else(|| receive.clone());
                let shows = Shows::Blocks(gives, me);
                let takes = Takes::Each {
                    me,
                    length: each * size,
                    offset: me * each,
                    into: receive,
                };
                (everybody, shows, takes)
            }
            Collective::Reduce {
                send,
                receive: Some(receive),
                root,
                ..
            } if me == root => {
                let takes = fold(size, 0, receive)?;
                ((Audience::Root(me), all), Shows::Data(send), takes)
            }
            Collective::Reduce { send, root, .. } => {
                let shows = Shows::Data(send);
                ((Audience::Root(root), None), shows, Takes::Nothing)
            }
            Collective::Allreduce { send, receive, .. } => {
                let takes = fold(size, 0, receive)?;
                (everybody, Shows::Data(send), takes)
            }
            Collective::ReduceScatterBlock { send, receive, .. } => {
                let offset = me * receive.bytes();
                let takes = fold(size, offset, receive)?;
                (everybody, Shows::Data(send), takes)
            }
            Collective::ReduceScatter {
                send,
                receive,
                counts,
                reduction,
            } => {
                let before: usize = counts.iter().take(me).sum();
                let takes = fold(size, before * reduction.datatype.size(), receive)?;
                (everybody, Shows::Data(send), takes)
            }
            Collective::Scan { send, receive, .. } => {
                let waits = (Audience::Above, Some(Awaited::First(me + 1)));
                let takes = fold(me + 1, 0, receive)?;
                (waits, Shows::Data(send), takes)
            }
            Collective::Exscan { send, .. } if me == 0 => {
                let shows = Shows::Data(send);
                ((Audience::Above, None), shows, Takes::Nothing)
            }
            Collective::Exscan { send, receive, .. } => {
                let waits = (Audience::Above, Some(Awaited::First(me)));
                let takes = fold(me, 0, receive)?;
                (waits, Shows::Data(send), takes)
            }
            _ => return None,
        };
        let attendance = Attendance::new(self.call(number), audience, awaited);
        let way = Way::Even(Even { shows, takes });
        Some((attendance, Exchange { own, way }))
    }

    /// The same where each rank gives a number of bytes of its own.
    fn begin_uneven(
        &self,
        collective: Collective<'_>,
        (me, size): (usize, usize),
        number: u32,
    ) -> Option<(Attendance, Exchange)> {
        let mut own = None;
        let mut is_in_place = false;
        let all = Some(Awaited::All);
        let (name, (audience, awaited), gives, gets) = match collective {
            Collective::Gatherv {
                send,
                receive: Some(receive),
                root,
            } if me == root => {
                own = send.map(|send| (send, receive.block(me)));
                let gets = Gets::Each(receive);
                let waits = (Audience::Nobody, all);
                (COLLECTIVES[GATHERV], waits, Gives::Nothing, gets)
            }
            Collective::Gatherv { send, root, .. } => {
                let gives = Gives::One(root, send?);
                let waits = (Audience::Root(root), None);
                (COLLECTIVES[GATHERV], waits, gives, Gets::Nothing)
            }
            Collective::Scatterv {
                send: Some(send),
                receive,
                root,
            } if me == root => {
                own = receive.map(|receive| (send.block(me), receive));
                let gives = Gives::Each(send);
                let waits = (Audience::Mine, None);
                (COLLECTIVES[SCATTERV], waits, gives, Gets::Nothing)
            }
            Collective::Scatterv { receive, root, .. } => {
                let gets = Gets::OfOne(root, receive?);
                let waits = (Audience::Nobody, Some(Awaited::One(root)));
                (COLLECTIVES[SCATTERV], waits, Gives::Nothing, gets)
            }
            Collective::Alltoallv {
                name,
                send,
                receive,
            } => {
                own = (send.as_ref()).map(|send| (send.block(me), receive.block(me)));
                is_in_place = send.is_none();
                let gives = Gives::Each(send.unwrap_or_else(|| receive.clone()));
                let gets = Gets::OfEach(receive);
                (name, (Audience::All, all), gives, gets)
            }
            _ => return None,
        };
        let way = Way::Uneven(Box::new(UnevenExchange {
            name,
            note: self.note,
            me,
            size,
            gives,
            is_shown: self.own.flatten().is_some(),
            gets,
            is_in_place,
        }));
        let attendance = Attendance::new(self.call(number), audience, awaited);
        Some((attendance, Exchange { own, way }))
    }
}
