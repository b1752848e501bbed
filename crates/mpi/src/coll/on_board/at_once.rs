//! Small collectives that end at once: data without gaps, and predefined operations, in one epoch of a board.
//!
//! Each function takes arguments that are right as far as one rank can tell, and answers whether the collective has ended.
//! If not, the full path does it, and finds out itself whether it [is begun](crate::engine::boards::Part). So what is done
//! here is exactly what the full path does in its first epoch: the same note, the same bytes at the same places.
//!
//! Bytes of one rank for one other are called a block; `all` has the blocks of all ranks, one after the other.
//!
//! | file | what |
//! |---|---|
//! | `reductions` | reductions and scans |
//! | `uneven` | blocks of different lengths |

mod reductions;
mod uneven;

use weft_fabric::Region;
use weft_fabric::board::{Board, Place};
use weft_sys::span::SHORT;

use super::super::choice;
use super::{ALLGATHER, ALLTOALL, BCAST, GATHER, SCATTER};
use crate::buffer;
use crate::comm::Comm;
use crate::datatype::SignatureCode;
use crate::engine::boards::{Audience, Awaited, BoardCall, Part};
use crate::engine::collective_note::CollectiveNote;
use crate::op::Predefined;

/// Some elements, not none, with the code of their signature.
pub type Elements = (Region, SignatureCode);

/// What is the same for all forms.
struct Shape {
    place: usize,
    code: SignatureCode,
    operation: Option<Predefined>,
    /// Or what stands in its place.
    root: usize,
    /// Bytes that each gives or gets.
    each: usize,
}

impl Shape {
    #[inline(always)]
    fn call(&self, number: u32) -> BoardCall {
        let note = CollectiveNote::of(self.place, self.root, self.code);
        let note = match self.operation {
            None => note,
            operation => note.with(operation),
        };
        BoardCall::new(self.place, self.each, note, number)
    }
}

/// Takes this rank's part: it shows what `shows` says, does `meanwhile` what it does for itself, and does with the board what is
/// left.
#[inline(always)]
fn take_part(
    comm: &Comm,
    shape: &Shape,
    (shows, audience): ((usize, impl FnOnce(&Place<'_>) -> bool), Audience),
    meanwhile: impl FnOnce(),
    awaited: Option<Awaited>,
    end: impl FnOnce(&Board) -> bool,
) -> bool {
    comm.take_part_at_once(
        #[inline(always)]
        |number| Part {
            call: shape.call(number),
            shows,
            meanwhile,
            audience,
            awaited,
        },
        end,
    )
}

/// What a rank shows that shows these bytes, or nothing.
#[inline(always)]
fn shown(data: Option<&Region>) -> (usize, impl FnOnce(&Place<'_>) -> bool) {
    let write = move |place: &Place<'_>| data.is_none_or(|data| place.write(0, data));
    (data.map_or(0, Region::len), write)
}

/// What a rank shows that shows the blocks of all but its own, which nobody else reads. Few bytes are written in one piece.
#[inline(always)]
fn shown_to_others(
    all: &Region,
    (me, each): (usize, usize),
) -> (usize, impl FnOnce(&Place<'_>) -> bool) {
    let write = move |place: &Place<'_>| {
        if all.len() <= SHORT {
            place.write(0, all)
        } else {
            write_around(place, all, (me, each))
        }
    };
    (all.len(), write)
}

/// Writes the blocks before a rank's own, and those behind it.
#[inline(never)]
fn write_around(place: &Place<'_>, all: &Region, (me, each): (usize, usize)) -> bool {
    let write = |start: usize, end: usize| {
        let part = all.part(start, end.saturating_sub(start));
        part.is_some_and(|part| part.is_empty() || place.write(start, &part))
    };
    write(0, me * each) && write((me + 1) * each, all.len())
}

/// Copies a part of what a member shows, behind so many of its `length` bytes.
#[inline(always)]
fn copy(board: &Board, member: usize, (length, offset): (usize, usize), into: &Region) -> bool {
    let data = board.data(member, length, offset, into.len());
    data.is_some_and(|data| {
        data.copy_to_region(into);
        true
    })
}

/// The block of a rank.
#[inline(always)]
fn block(all: &Region, rank: usize, each: usize) -> Option<Region> {
    all.part(rank * each, each)
}

/// Copies the block of one rank of what each member shows, or all of it, to the member's block.
#[inline(always)]
fn copy_from_others(
    board: &Board,
    (me, each): (usize, usize),
    (length, offset): (usize, usize),
    all: &Region,
) -> bool {
    for member in 0..board.members() {
        if member == me {
            continue;
        }
        let into = block(all, member, each);
        if !into.is_some_and(|into| copy(board, member, (length, offset), &into)) {
            return false;
        }
    }
    true
}

/// Copies what this rank has itself.
#[inline(always)]
fn copy_own(from: &Region, into: &Region) {
    buffer::shared(from).copy_to_region(into);
}

impl Comm {
    /// `MPI_Barrier`, which has ended, or ends soon.
    #[inline(always)]
    #[must_use]
    pub fn barrier_soon(&self) -> bool {
        let part = |number| Part {
            call: super::barrier(number),
            shows: shown(None),
            meanwhile: || (),
            audience: Audience::All,
            awaited: Some(Awaited::All),
        };
        self.take_part_at_once(part, |_| true)
    }

    /// `MPI_Bcast`.
    #[inline(always)]
    #[must_use]
    pub fn bcast_at_once(&self, (data, code): Elements, root: u32) -> bool {
        let (each, root, size) = (data.len(), root as usize, self.size() as usize);
        if root >= size || !choice::fits_at_once(each, each, size) {
            return false;
        }
        let shape = Shape {
            place: BCAST,
            code,
            operation: None,
            root,
            each,
        };
        if self.rank() as usize == root {
            let shows = (shown(Some(&data)), Audience::Mine);
            return take_part(self, &shape, shows, || (), None, |_| true);
        }
        let (shows, awaited) = ((shown(None), Audience::Nobody), Awaited::One(root));
        take_part(
            self,
            &shape,
            shows,
            || (),
            Some(awaited),
            |board| copy(board, root, (each, 0), &data),
        )
    }

    /// `MPI_Gather`; at the root `all` has the blocks of all ranks.
    #[inline(always)]
    #[must_use]
    pub fn gather_at_once(&self, (own, code): Elements, all: Option<Region>, root: u32) -> bool {
        let (each, root, size) = (own.len(), root as usize, self.size() as usize);
        if root >= size || !choice::fits_at_once(each, each * size, size) {
            return false;
        }
        let shape = Shape {
            place: GATHER,
            code,
            operation: None,
            root,
            each,
        };
        let Some(all) = all else {
            let shows = (shown(Some(&own)), Audience::Root(root));
            return take_part(self, &shape, shows, || (), None, |_| true);
        };
        let Some(mine) = block(&all, root, each) else {
            return false;
        };
        let (shows, meanwhile) = ((shown(None), Audience::Nobody), || copy_own(&own, &mine));
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| copy_from_others(board, (root, each), (each, 0), &all),
        )
    }

    /// `MPI_Scatter`; at the root `all` has the blocks for all ranks.
    #[inline(always)]
    #[must_use]
    pub fn scatter_at_once(&self, (own, code): Elements, all: Option<Region>, root: u32) -> bool {
        let (each, root, size) = (own.len(), root as usize, self.size() as usize);
        let length = each * size;
        if root >= size || !choice::blocks_fit_at_once(each, self.size() as usize) {
            return false;
        }
        let shape = Shape {
            place: SCATTER,
            code,
            operation: None,
            root,
            each,
        };
        if let Some(all) = all {
            let Some(mine) = block(&all, root, each) else {
                return false;
            };
            let shows = (shown_to_others(&all, (root, each)), Audience::Mine);
            let meanwhile = || copy_own(&mine, &own);
            return take_part(self, &shape, shows, meanwhile, None, |_| true);
        }
        let (me, shows) = (self.rank() as usize, (shown(None), Audience::Nobody));
        let awaited = Some(Awaited::One(root));
        take_part(
            self,
            &shape,
            shows,
            || (),
            awaited,
            |board| copy(board, root, (length, me * each), &own),
        )
    }

    /// `MPI_Allgather`.
    #[inline(always)]
    #[must_use]
    pub fn allgather_at_once(&self, (own, code): Elements, all: Region) -> bool {
        let (each, me) = (own.len(), self.rank() as usize);
        if !choice::fits_at_once(each, each * self.size() as usize, self.size() as usize) {
            return false;
        }
        let shape = Shape {
            place: ALLGATHER,
            code,
            operation: None,
            root: 0,
            each,
        };
        let Some(mine) = block(&all, me, each) else {
            return false;
        };
        let (shows, meanwhile) = ((shown(Some(&own)), Audience::All), || copy_own(&own, &mine));
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| copy_from_others(board, (me, each), (each, 0), &all),
        )
    }

    /// `MPI_Alltoall` of blocks of `each` bytes.
    #[inline(always)]
    #[must_use]
    pub fn alltoall_at_once(&self, out: &Region, (all, code): Elements, each: usize) -> bool {
        let (me, length) = (self.rank() as usize, all.len());
        if !choice::blocks_fit_at_once(each, self.size() as usize) {
            return false;
        }
        let shape = Shape {
            place: ALLTOALL,
            code,
            operation: None,
            root: 0,
            each,
        };
        let (Some(from), Some(mine)) = (block(out, me, each), block(&all, me, each)) else {
            return false;
        };
        let shows = (shown_to_others(out, (me, each)), Audience::All);
        take_part(
            self,
            &shape,
            shows,
            #[inline(always)]
            || copy_own(&from, &mine),
            Some(Awaited::All),
            #[inline(always)]
            |board| copy_from_others(board, (me, each), (length, me * each), &all),
        )
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::SharedMemory;
    use weft_fabric::board::Note;

    use super::*;

    /// The others find their blocks at the usual places; that of the rank itself is written only where all are few bytes.
    #[test]
    fn a_rank_shows_no_block_of_its_own() {
        const MEMBERS: usize = 3;
        for (each, is_own_shown) in [(8, true), (24, false), (1000, false)] {
            for me in 0..MEMBERS {
                let bytes = Board::bytes_for(MEMBERS).expect("a group");
                let memory = SharedMemory::of_this_process(bytes).expect("there is memory");
                let mut board = Board::new(memory, MEMBERS, me).expect("it fits");
                let mut data: Vec<u8> =
                    (0..MEMBERS * each).map(|at| 1 + (at % 250) as u8).collect();
                let all = buffer::region_of(&mut data);
                let (length, write) = shown_to_others(&all, (me, each));
                assert_eq!(length, all.len(), "places do not depend on who shows");
                assert!(board.show(length, write, Note::default()));
                for member in 0..MEMBERS {
                    let shown = board.data(me, length, member * each, each);
                    let shown = shown.expect("within").to_vec();
                    let expected = if member == me && !is_own_shown {
                        vec![0; each]
                    } else {
                        buffer::shared(&block(&all, member, each).expect("within")).to_vec()
                    };
                    assert_eq!(shown, expected, "block {member} of {each} bytes, by {me}");
                }
            }
        }
    }
}
