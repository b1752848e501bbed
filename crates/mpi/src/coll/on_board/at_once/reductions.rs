//! Reductions and scans that end at once.

use weft_fabric::board::Board;
use weft_fabric::{Region, Scratch};

use super::super::super::choice;
use super::super::reductions::{fold_into, is_kept};
use super::super::{ALLREDUCE, EXSCAN, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN};
use super::{Elements, Shape, copy, copy_own, shown, take_part};
use crate::comm::Comm;
use crate::datatype::Basic;
use crate::engine::boards::{Audience, Awaited};
use crate::engine::collective_note::CollectiveNote;
use crate::op::{Combine, Predefined};

/// Bytes that are combined at a time.
const PIECE: usize = 2048;
/// Bytes of each member that are fetched ahead of those: else each piece would wait for its own lines.
const FETCHED_AHEAD: usize = 2 * PIECE;

impl Comm {
    /// `MPI_Reduce`; `result` is there at the root, and may be `own`.
    #[inline(always)]
    #[must_use]
    pub fn reduce_at_once(
        &self,
        (own, code): Elements,
        result: Option<Region>,
        (operation, basic): (Predefined, Basic),
        root: u32,
    ) -> bool {
        let (each, root, size) = (own.len(), root as usize, self.size() as usize);
        let Ok(combine) = Combine::new(operation, basic) else {
            return false;
        };
        if root >= size || !choice::fits_at_once(each, each * size, size) {
            return false;
        }
        let shape = Shape {
            place: REDUCE,
            code,
            operation: Some(operation),
            root,
            each,
        };
        let Some(result) = result else {
            let shows = (shown(Some(&own)), Audience::Root(root));
            return take_part(self, &shape, shows, || (), None, |_| true);
        };
        // What the root has itself nobody reads.
        let given = Own::of((self.rank() as usize, size), &own, &result);
        let shows = given.is_shown().then_some(&own);
        let shows = (shown(shows), Audience::Root(root));
        let meanwhile = || given.begin(&own, &result);
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| {
                let operands = Operands::whole(size, result.len());
                fold(board, operands, given, &result, &combine)
            },
        )
    }

    /// `MPI_Allreduce`; `result` may be `own`.
    #[inline(always)]
    #[must_use]
    pub fn allreduce_at_once(
        &self,
        (own, code): Elements,
        result: &Region,
        (operation, basic): (Predefined, Basic),
    ) -> bool {
        let (each, size) = (own.len(), self.size() as usize);
        let Ok(combine) = Combine::new(operation, basic) else {
            return false;
        };
        if !choice::fits_at_once(each, each * size, size) {
            return false;
        }
        let shape = Shape {
            place: ALLREDUCE,
            code,
            operation: Some(operation),
            root: 0,
            each,
        };
        let given = Own::of((self.rank() as usize, size), &own, result);
        let shows = (shown(Some(&own)), Audience::All);
        let meanwhile = || given.begin(&own, result);
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| {
                let operands = Operands::whole(size, result.len());
                fold(board, operands, given, result, &combine)
            },
        )
    }

    /// `MPI_Scan`; `result` may be `own`.
    #[inline(always)]
    #[must_use]
    pub fn scan_at_once(
        &self,
        own: Elements,
        result: &Region,
        reduction: (Predefined, Basic),
    ) -> bool {
        self.scan_of_first_at_once((SCAN, self.rank() as usize + 1), own, result, reduction)
    }

    /// `MPI_Exscan`; `result` may be `own`.
    #[inline(always)]
    #[must_use]
    pub fn exscan_at_once(
        &self,
        own: Elements,
        result: &Region,
        reduction: (Predefined, Basic),
    ) -> bool {
        self.scan_of_first_at_once((EXSCAN, self.rank() as usize), own, result, reduction)
    }

    /// The elements of the first `count` ranks, combined.
    #[inline(always)]
    fn scan_of_first_at_once(
        &self,
        (place, count): (usize, usize),
        (own, code): Elements,
        result: &Region,
        (operation, basic): (Predefined, Basic),
    ) -> bool {
        let (each, rank, size) = (own.len(), self.rank() as usize, self.size() as usize);
        let Ok(combine) = Combine::new(operation, basic) else {
            return false;
        };
        if !choice::fits_at_once(each, each * size, size) {
            return false;
        }
        let shape = Shape {
            place,
            code,
            operation: Some(operation),
            root: 0,
            each,
        };
        let shows = (shown(Some(&own)), Audience::Above);
        if rank == 0 {
            // Nobody is before it.
            let meanwhile = || {
                if count > 0 {
                    copy_own(&own, result);
                }
            };
            return take_part(self, &shape, shows, meanwhile, None, |_| true);
        }
        let given = Own::of((rank, count), &own, result);
        let meanwhile = || given.begin(&own, result);
        let awaited = Some(Awaited::First(count));
        take_part(self, &shape, shows, meanwhile, awaited, |board| {
            let operands = Operands::whole(count, result.len());
            fold(board, operands, given, result, &combine)
        })
    }

    /// `MPI_Reduce_scatter_block`: each rank gets its part of what all give; `result` may be the front of `own`.
    #[inline(always)]
    #[must_use]
    pub fn reduce_scatter_block_at_once(
        &self,
        own: Elements,
        result: &Region,
        reduction: (Predefined, Basic),
    ) -> bool {
        let part = (self.rank() as usize * result.len(), result.len());
        self.reduce_part_at_once((REDUCE_SCATTER_BLOCK, 0), own, (part, result), reduction)
    }

    /// `MPI_Reduce_scatter`: as [`reduce_scatter_block_at_once`](Self::reduce_scatter_block_at_once), with parts of so many elements.
    #[inline(always)]
    #[must_use]
    pub fn reduce_scatter_at_once(
        &self,
        own: Elements,
        result: &Region,
        counts: impl Fn(usize) -> usize,
        reduction: (Predefined, Basic),
    ) -> bool {
        let (rank, size, element) = (
            self.rank() as usize,
            self.size() as usize,
            reduction.1.size(),
        );
        let first: usize = (0..rank).map(&counts).sum();
        let longest = (0..size).map(&counts).max().unwrap_or(0) * element;
        let sizes = CollectiveNote::hash_of_blocks((0..size).map(&counts));
        let part = (first * element, longest);
        self.reduce_part_at_once((REDUCE_SCATTER, sizes), own, (part, result), reduction)
    }

    /// The part of this rank, of what all give: it begins behind so many bytes, and the longest part of a rank has so many. `sizes` says
    /// how long all are, where not all are alike.
    #[inline(always)]
    fn reduce_part_at_once(
        &self,
        (place, sizes): (usize, usize),
        (own, code): Elements,
        ((first, longest), result): ((usize, usize), &Region),
        (operation, basic): (Predefined, Basic),
    ) -> bool {
        let (each, rank, size) = (own.len(), self.rank() as usize, self.size() as usize);
        let Ok(combine) = Combine::new(operation, basic) else {
            return false;
        };
        if !choice::parts_fit_at_once(each, (longest, basic.size()), size) {
            return false;
        }
        let Some(part) = own.part(first, result.len()) else {
            return false;
        };
        let shape = Shape {
            place,
            code,
            operation: Some(operation),
            root: sizes,
            each,
        };
        let given = Own::of((rank, size), &part, result);
        let shows = (shown(Some(&own)), Audience::All);
        let meanwhile = || given.begin(&part, result);
        take_part(
            self,
            &shape,
            shows,
            meanwhile,
            Some(Awaited::All),
            |board| {
                let operands = Operands::whole(size, each).behind(first);
                result.is_empty() || fold(board, operands, given, result, &combine)
            },
        )
    }
}

/// What this rank gives itself, in a fold.
#[derive(Clone, Copy)]
enum Own {
    /// The first step overwrites it: it is read from the board.
    Shown,
    /// It is kept until it is its turn.
    Kept(Region),
    /// It is what the fold begins with, and is at the place of the result [before](Self::begin) the others have come.
    Begins,
}

impl Own {
    /// That of a rank in the fold of the first `count` members.
    #[inline(always)]
    fn of((rank, count): (usize, usize), own: &Region, result: &Region) -> Self {
        let is_last = rank + 1 == count;
        // The full path, if it has to end this, copies it once more: it must not have changed by then.
        if is_last && (own == result || !own.overlaps(result)) {
            Self::Begins
        } else if is_kept((rank, count), own, result) {
            Self::Kept(*own)
        } else {
            Self::Shown
        }
    }

    #[inline(always)]
    fn is_shown(&self) -> bool {
        matches!(self, Self::Shown)
    }

    /// Copies what the fold begins with, if this rank has it.
    #[inline(always)]
    fn begin(&self, own: &Region, result: &Region) {
        if matches!(self, Self::Begins) && own != result {
            copy_own(own, result);
        }
    }

    /// A part of it.
    #[inline(always)]
    fn part(self, start: usize, bytes: usize) -> Option<Self> {
        match self {
            Self::Kept(own) => own.part(start, bytes).map(Self::Kept),
            other => Some(other),
        }
    }
}

/// The members whose data are combined: the first so many. Each shows `length` bytes, of which the part from `start` on is taken.
#[derive(Clone, Copy)]
struct Operands {
    count: usize,
    length: usize,
    start: usize,
}

impl Operands {
    /// All that each of the first so many shows.
    #[inline(always)]
    fn whole(count: usize, length: usize) -> Self {
        Self {
            count,
            length,
            start: 0,
        }
    }

    /// Behind so many bytes more.
    #[inline(always)]
    fn behind(self, bytes: usize) -> Self {
        Self {
            start: self.start + bytes,
            ..self
        }
    }
}

/// Combines what members show, from the last to the first, as much as the result has room for. This rank's `own` is not read from the
/// board, unless the fold overwrites it.
#[inline(always)]
fn fold(board: &Board, operands: Operands, own: Own, result: &Region, combine: &Combine) -> bool {
    if result.len() <= Board::INLINE {
        let mut scratch = Scratch::<{ Board::INLINE }>::new();
        return fold_piece(board, operands, own, result, combine, &mut scratch);
    }
    fold_pieces(board, operands, own, result, combine)
}

#[inline(never)]
fn fold_pieces(
    board: &Board,
    operands: Operands,
    own: Own,
    result: &Region,
    combine: &Combine,
) -> bool {
    let mut scratch = Scratch::<PIECE>::new();
    let bytes = result.len();
    fetch(board, operands, FETCHED_AHEAD.min(bytes));
    if bytes <= PIECE {
        return fold_piece(board, operands, own, result, combine, &mut scratch);
    }
    let element = combine.basic().size().max(1);
    let most = PIECE / element * element;
    (0..bytes).step_by(most).all(|start| {
        let ahead = start + FETCHED_AHEAD;
        fetch(
            board,
            operands.behind(ahead),
            most.min(bytes.saturating_sub(ahead)),
        );
        let piece = most.min(bytes - start);
        let parts = result.part(start, piece).zip(own.part(start, piece));
        parts.is_some_and(|(into, own)| {
            let operands = operands.behind(start);
            fold_piece(board, operands, own, &into, combine, &mut scratch)
        })
    })
}

/// Lets the processor fetch so many bytes of what the other members show.
#[inline]
fn fetch(board: &Board, operands: Operands, bytes: usize) {
    let Operands {
        count,
        length,
        start,
    } = operands;
    for member in (0..count).filter(|member| bytes > 0 && *member != board.me()) {
        if let Some(data) = board.data(member, length, start, bytes) {
            data.prefetch();
        }
    }
}

/// The same of what fits `into`, by way of `scratch`, which holds as much.
#[inline(always)]
fn fold_piece<const N: usize>(
    board: &Board,
    Operands {
        count,
        length,
        start,
    }: Operands,
    own: Own,
    into: &Region,
    combine: &Combine,
    scratch: &mut Scratch<N>,
) -> bool {
    let (me, last) = (board.me(), count - 1);
    match &own {
        Own::Begins => {}
        Own::Kept(own) if last == me => copy_own(own, into),
        _ if !copy(board, last, (length, start), into) => return false,
        _ => {}
    }
    let kept = match &own {
        Own::Kept(own) => Some((me, own)),
        _ => None,
    };
    let data = |member| board.data(member, length, start, into.len());
    fold_into(last, data, kept, into, combine, scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer;

    /// What is copied before the others have come is copied once more if the full path has to end the reduction.
    #[test]
    fn what_the_fold_begins_with_is_there_early_unless_that_changes_it() {
        let mut memory: Vec<u8> = (0..64).collect();
        let all = buffer::region_of(&mut memory);
        let part = |start, bytes| all.part(start, bytes).expect("within");
        let (own, apart, over) = (part(8, 16), part(32, 16), part(0, 16));
        let begins = |given: Own| matches!(given, Own::Begins);
        let keeps = |given: Own| matches!(given, Own::Kept(_));
        assert!(begins(Own::of((1, 2), &own, &apart)) && begins(Own::of((1, 2), &own, &own)));
        assert!(keeps(Own::of((1, 2), &own, &over)), "it would change");
        assert!(keeps(Own::of((0, 2), &own, &apart)), "it is not its turn");
        assert!(Own::of((0, 2), &own, &over).is_shown());

        Own::of((1, 2), &own, &over).begin(&own, &over);
        assert_eq!(buffer::shared(&over).to_vec()[..2], [0, 1]);
        Own::of((1, 2), &own, &apart).begin(&own, &apart);
        assert_eq!(
            buffer::shared(&apart).to_vec(),
            (8..24).collect::<Vec<u8>>()
        );
    }
}
