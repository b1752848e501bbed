//! Collectives of blocks of different lengths that end at once, where no rank has too much for the board.
//!
//! A member that shows nothing, and sends messages, or shows a block of another length than this rank expects, is found when this rank
//! has arrived: what is to be done then is the full path's.

use weft_fabric::Region;
use weft_fabric::board::{Board, Place};

use super::super::super::choice;
use super::super::uneven::{self, ENTRY};
use super::super::{ALLGATHERV, ALLTOALLV, GATHERV, SCATTERV};
use super::{Elements, Shape, copy, copy_own, shown, take_part};
use crate::buffer;
use crate::comm::Comm;
use crate::datatype::SignatureCode;
use crate::engine::boards::{Audience, Awaited, BoardCall, Part, shown_by};
use crate::engine::collective_note::CollectiveNote;

/// Most ranks in whose collectives a table is made here.
const MOST: usize = 32;

/// The code of the signature in the note of a rank that gives or gets so much of it.
#[inline(always)]
fn code_of(data: &Region, code: SignatureCode) -> SignatureCode {
    if data.is_empty() || code.is_of_several() {
        SignatureCode::UNKNOWN
    } else {
        code
    }
}

/// A collective as it is called, where this rank shows so many bytes.
#[inline(always)]
fn call(
    (place, root): (usize, usize),
    code: SignatureCode,
    shown: usize,
) -> impl FnOnce(u32) -> BoardCall {
    move |number| {
        let note = CollectiveNote::of(place, root, code);
        BoardCall::uneven(place, Some(shown), note, number)
    }
}

/// The table and the blocks that a rank shows for the others.
struct Shown<'a, B> {
    block: &'a B,
    rank: usize,
    size: usize,
    /// Bytes of all of it.
    all: usize,
}

impl<'a, B: Fn(usize) -> Region> Shown<'a, B> {
    /// `None` if it is not for here.
    #[inline(always)]
    fn new(block: &'a B, rank: usize, size: usize) -> Option<Self> {
        if size > MOST {
            return None;
        }
        let lengths = (0..size).map(|other| block(other).len());
        let all = uneven::fits_all(lengths, rank, size)?;
        Some(Self {
            block,
            rank,
            size,
            all,
        })
    }

    #[inline(always)]
    fn write(&self, place: &Place<'_>) -> bool {
        let mut table = [[0; ENTRY]; uneven::table(MOST) / ENTRY];
        let mut at = uneven::table(self.size);
        for (other, entry) in table.iter_mut().enumerate().take(self.size + 1) {
            *entry = (at as u32).to_ne_bytes();
            if other == self.rank || other == self.size {
                continue;
            }
            let block = (self.block)(other);
            if !place.write(at, &block) {
                return false;
            }
            at += block.len();
        }
        let table = &mut table.as_flattened_mut()[..uneven::table(self.size)];
        place.write(0, &buffer::region_of(table))
    }
}

/// Takes the block for this rank of what a member shows for all. False if it is not what is expected.
#[inline(always)]
fn take_own(board: &Board, member: usize, rank: usize, into: &Region) -> bool {
    let Some(length) = shown_by(board, member) else {
        return false;
    };
    let mut entries = [[0; ENTRY]; 2];
    let place = buffer::region_of(entries.as_flattened_mut());
    if !copy(board, member, (length, rank * ENTRY), &place) {
        return false;
    }
    let [start, end] = entries.map(|entry| u32::from_ne_bytes(entry) as usize);
    end.checked_sub(start) == Some(into.len()) && copy(board, member, (length, start), into)
}

/// Copies what this rank has itself, unless one of both is the other's place.
#[inline(always)]
fn copy_between(from: Option<Region>, into: Option<Region>) {
    if let (Some(from), Some(into)) = (from, into) {
        copy_own(&from, &into);
    }
}

impl Comm {
    /// `MPI_Gatherv` of a rank that is not the root.
    #[inline(always)]
    #[must_use]
    pub fn gatherv_at_once(&self, (own, code): Elements, root: u32) -> bool {
        let (root, size) = (root as usize, self.size() as usize);
        if root >= size || uneven::shown(own.len(), size).is_none() {
            return false;
        }
        let call = call((GATHERV, root), code_of(&own, code), own.len());
        let part = |number| Part {
            call: call(number),
            shows: shown(Some(&own)),
            meanwhile: || (),
            audience: Audience::Root(root),
            awaited: None,
        };
        self.take_part_at_once(part, |_| true)
    }

    /// `MPI_Gatherv` of the root, which gives `own`, unless it is in place. Each rank's `block` goes where it says.
    #[inline(always)]
    #[must_use]
    pub fn gatherv_here_at_once(
        &self,
        own: Option<Region>,
        block: impl Fn(usize) -> Region,
        code: SignatureCode,
    ) -> bool {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let mine = block(rank);
        let call = call((GATHERV, rank), code_of(&mine, code), 0);
        let part = |number| Part {
            call: call(number),
            shows: shown(None),
            meanwhile: || copy_between(own, Some(mine)),
            audience: Audience::Nobody,
            awaited: Some(Awaited::All),
        };
        self.take_part_if_at_once(part, |board| {
            for member in (0..size).filter(|member| *member != rank) {
                let into = block(member);
                let length = into.len();
                if shown_by(board, member) != Some(length)
                    || !copy(board, member, (length, 0), &into)
                {
                    return false;
                }
            }
            true
        })
    }

    /// `MPI_Scatterv` of a rank that is not the root.
    #[inline(always)]
    #[must_use]
    pub fn scatterv_at_once(&self, (own, code): Elements, root: u32) -> bool {
        let (rank, root) = (self.rank() as usize, root as usize);
        if root >= self.size() as usize || !self.tries_board() {
            return false;
        }
        let call = call((SCATTERV, root), code_of(&own, code), 0);
        let part = |number| Part {
            call: call(number),
            shows: shown(None),
            meanwhile: || (),
            audience: Audience::Nobody,
            awaited: Some(Awaited::One(root)),
        };
        self.take_part_if_at_once(part, |board| take_own(board, root, rank, &own))
    }

    /// `MPI_Scatterv` of the root, which gets `own`, unless it is in place. Each rank gets its `block`.
    #[inline(always)]
    #[must_use]
    pub fn scatterv_here_at_once(
        &self,
        own: Option<Region>,
        block: impl Fn(usize) -> Region,
        code: SignatureCode,
    ) -> bool {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let Some(shown) = Shown::new(&block, rank, size).filter(|_| self.tries_board()) else {
            return false;
        };
        let mine = block(rank);
        let call = call((SCATTERV, rank), code_of(&mine, code), shown.all);
        let part = |number| Part {
            call: call(number),
            shows: (shown.all, |place: &Place<'_>| shown.write(place)),
            meanwhile: || copy_between(Some(mine), own),
            audience: Audience::Mine,
            awaited: None,
        };
        self.take_part_at_once(part, |_| true)
    }

    /// `MPI_Allgatherv`; this rank gives `own`, unless it is in place. Each rank's `block` goes where it says.
    #[inline(always)]
    #[must_use]
    pub fn allgatherv_at_once(
        &self,
        own: Option<Region>,
        block: impl Fn(usize) -> Region,
        code: SignatureCode,
    ) -> bool {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let lengths = || (0..size).map(|rank| block(rank).len());
        let longest = lengths().max().unwrap_or(0);
        if !choice::fits_at_once(longest, lengths().sum(), size) {
            return false;
        }
        let gives = own.unwrap_or_else(|| block(rank));
        let shape = Shape {
            place: ALLGATHERV,
            code: code_of(&gives, code),
            operation: None,
            root: CollectiveNote::hash_of_blocks(lengths()),
            each: longest,
        };
        let shows = (shown(Some(&gives)), Audience::All);
        let meanwhile = || copy_between(own, Some(block(rank)));
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| {
                for member in (0..size).filter(|member| *member != rank) {
                    let into = block(member);
                    if !copy(board, member, (into.len(), 0), &into) {
                        return false;
                    }
                }
                true
            },
        )
    }

    /// `MPI_Alltoallv`; each rank is given its block of `out`, unless it is in place, and what it gives goes to its block of `into`.
    #[inline(always)]
    #[must_use]
    pub fn alltoallv_at_once(
        &self,
        (out, is_in_place): (impl Fn(usize) -> Region, bool),
        into: impl Fn(usize) -> Region,
    ) -> bool {
        let (rank, size) = (self.rank() as usize, self.size() as usize);
        let Some(shown) = Shown::new(&out, rank, size).filter(|_| self.tries_board()) else {
            return false;
        };
        let own = (!is_in_place).then(|| out(rank));
        let call = call((ALLTOALLV, 0), SignatureCode::UNKNOWN, shown.all);
        let part = |number| Part {
            call: call(number),
            shows: (shown.all, |place: &Place<'_>| shown.write(place)),
            meanwhile: || copy_between(own, Some(into(rank))),
            audience: Audience::All,
            awaited: Some(Awaited::All),
        };
        self.take_part_if_at_once(part, |board| {
            for member in (0..size).filter(|member| *member != rank) {
                if !take_own(board, member, rank, &into(member)) {
                    return false;
                }
            }
            true
        })
    }
}
