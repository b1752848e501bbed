//! Non-blocking collectives of plain bytes: data without gaps, and predefined operations, that are not looked at again.
//!
//! Each function takes arguments that are right as far as one rank can tell, and begins what the full path begins with them: the same
//! note, the same bytes at the same places. Without effect, it answers `None` where it cannot, and the full path does it.
//!
//! Bytes of one rank for one other are called a block; `all` has the blocks of all ranks, one after the other.

use weft_fabric::board::Board;
use weft_fabric::{Region, Scratch};

use super::super::at_once::Elements;
use super::super::reductions::{fold_into, is_kept};
use super::super::{
    ALLGATHER, ALLREDUCE, ALLTOALL, BARRIER, BCAST, Demand, GATHER, REDUCE, REDUCE_SCATTER_BLOCK,
    SCATTER,
};
use crate::buffer;
use crate::comm::Comm;
use crate::datatype::{Basic, SignatureCode};
use crate::engine::RequestId;
use crate::engine::boards::{self, Attendance, Audience, Awaited, Shown, Transfer};
use crate::op::{Combine, Predefined};

/// What a rank does in a collective: what it shows, and takes of what is shown.
#[derive(Debug)]
struct Plain<T> {
    /// What it gives itself, and where that goes.
    own: Option<(Region, Region)>,
    shows: Option<Region>,
    takes: T,
}

/// What a rank takes of what others show.
trait Takes: std::fmt::Debug + Send + Sync + 'static {
    /// Takes it. False if the others cannot have shown that.
    fn take(&self, shown: &Shown<'_>) -> bool;
}

impl<T: Takes> Transfer for Plain<T> {
    #[inline(always)]
    fn shown(&self, _: &mut boards::Scratch) -> Option<Region> {
        if let Some((from, into)) = &self.own {
            buffer::shared(from).copy_to_region(into);
        }
        self.shows
    }

    #[inline(always)]
    fn take(&self, shown: &Shown<'_>) -> bool {
        self.takes.take(shown)
    }
}

impl Takes for () {
    #[inline(always)]
    fn take(&self, _: &Shown<'_>) -> bool {
        true
    }
}

/// A part of the bytes that a member shows.
#[derive(Clone, Copy, Debug)]
struct Part {
    length: usize,
    offset: usize,
}

impl Part {
    /// All of them.
    #[inline(always)]
    fn whole(length: usize) -> Self {
        Self { length, offset: 0 }
    }

    #[inline(always)]
    fn copy(self, shown: &Shown<'_>, member: usize, into: &Region) -> bool {
        let data = shown.data(member, self.length, (self.offset, into.len()));
        data.is_some_and(|data| {
            data.copy_to_region(into);
            true
        })
    }
}

/// What one member shows, or a part of it.
#[derive(Debug)]
struct One {
    from: usize,
    part: Part,
    into: Region,
}

impl Takes for One {
    #[inline(always)]
    fn take(&self, shown: &Shown<'_>) -> bool {
        self.part.copy(shown, self.from, &self.into)
    }
}

/// The same part of what each of the others shows.
#[derive(Debug)]
struct Each {
    me: usize,
    part: Part,
    /// Bytes of a block of `all`.
    each: usize,
    all: Region,
}

impl Takes for Each {
    #[inline(always)]
    fn take(&self, shown: &Shown<'_>) -> bool {
        (0..shown.members()).all(|member| {
            let into = self.all.part(member * self.each, self.each);
            member == self.me || into.is_some_and(|into| self.part.copy(shown, member, &into))
        })
    }
}

/// The same part of what each shows, combined.
#[derive(Debug)]
struct Folded {
    me: usize,
    part: Part,
    /// What this rank gives, if it is [kept](is_kept) until it is its turn.
    own: Option<Region>,
    into: Region,
    combine: Combine,
}

impl Takes for Folded {
    /// From the last to the first.
    #[inline(always)]
    fn take(&self, shown: &Shown<'_>) -> bool {
        let Some(last) = shown.members().checked_sub(1) else {
            return false;
        };
        if let Some(own) = self.own.as_ref().filter(|_| last == self.me) {
            buffer::shared(own).copy_to_region(&self.into);
        } else if !self.part.copy(shown, last, &self.into) {
            return false;
        }
        let mut scratch = Scratch::<{ Board::INLINE }>::new();
        let place = (self.part.offset, self.into.len());
        let data = |member| shown.data(member, self.part.length, place);
        let kept = self.own.as_ref().map(|own| (self.me, own));
        fold_into(last, data, kept, &self.into, &self.combine, &mut scratch)
    }
}

/// What is the same for all forms.
struct Shape {
    place: usize,
    code: SignatureCode,
    operation: Option<Predefined>,
    root: usize,
    /// Bytes that each gives or gets.
    each: usize,
}

impl Shape {
    /// Begins it, with who waits for this rank, and for whom it waits.
    #[inline(always)]
    fn begin<T: Takes>(
        self,
        comm: &Comm,
        (audience, awaited): (Audience, Option<Awaited>),
        plain: Plain<T>,
    ) -> Option<RequestId> {
        let size = (self.each, self.each, self.each);
        let mut demand = Demand::of(self.place, self.code, size, self.root);
        if self.operation.is_some() {
            demand.note = demand.note.with(self.operation);
        }
        comm.begin_on_board_at_once(|number| {
            let attendance = Attendance::new(demand.call(number), audience, awaited);
            (attendance, plain)
        })
    }
}

/// For whom a rank waits that waits for all.
const ALL: Option<Awaited> = Some(Awaited::All);

impl Comm {
    /// `MPI_Ibarrier`.
    #[inline(never)]
    #[must_use]
    pub fn ibarrier_at_once(&self) -> Option<RequestId> {
        let shape = Shape {
            place: BARRIER,
            code: SignatureCode::UNKNOWN,
            operation: None,
            root: 0,
            each: 0,
        };
        let plain = Plain {
            own: None,
            shows: None,
            takes: (),
        };
        shape.begin(self, (Audience::All, ALL), plain)
    }

    /// `MPI_Ibcast`.
    #[inline(never)]
    #[must_use]
    pub fn ibcast_at_once(&self, (data, code): Elements, root: u32) -> Option<RequestId> {
        let (each, root) = (data.len(), root as usize);
        if root >= self.size() as usize || each > Board::INLINE {
            return None;
        }
        let shape = Shape {
            place: BCAST,
            code,
            operation: None,
            root,
            each,
        };
        if self.rank() as usize == root {
            let plain = Plain {
                own: None,
                shows: Some(data),
                takes: (),
            };
            return shape.begin(self, (Audience::Mine, None), plain);
        }
        let plain = Plain {
            own: None,
            shows: None,
            takes: One {
                from: root,
                part: Part::whole(each),
                into: data,
            },
        };
        let waits = (Audience::Nobody, Some(Awaited::One(root)));
        shape.begin(self, waits, plain)
    }

    /// `MPI_Igather`; at the root `all` has the blocks of all ranks.
    #[inline(never)]
    #[must_use]
    pub fn igather_at_once(
        &self,
        (own, code): Elements,
        all: Option<Region>,
        root: u32,
    ) -> Option<RequestId> {
        let (each, root) = (own.len(), root as usize);
        if root >= self.size() as usize || each > Board::INLINE {
            return None;
        }
        let shape = Shape {
            place: GATHER,
            code,
            operation: None,
            root,
            each,
        };
        let Some(all) = all else {
            let plain = Plain {
                own: None,
                shows: Some(own),
                takes: (),
            };
            return shape.begin(self, (Audience::Root(root), None), plain);
        };
        let plain = Plain {
            own: Some((own, all.part(root * each, each)?)),
            shows: None,
            takes: Each {
                me: root,
                part: Part::whole(each),
                each,
                all,
            },
        };
        shape.begin(self, (Audience::Nobody, ALL), plain)
    }

    /// `MPI_Iscatter`; at the root `all` has the blocks for all ranks.
    #[inline(never)]
    #[must_use]
    pub fn iscatter_at_once(
        &self,
        (own, code): Elements,
        all: Option<Region>,
        root: u32,
    ) -> Option<RequestId> {
        let (each, root, size) = (own.len(), root as usize, self.size() as usize);
        let length = each * size;
        if root >= size || length > Board::INLINE {
            return None;
        }
        let shape = Shape {
            place: SCATTER,
            code,
            operation: None,
            root,
            each,
        };
        if let Some(all) = all {
            let plain = Plain {
                own: Some((all.part(root * each, each)?, own)),
                shows: Some(all),
                takes: (),
            };
            return shape.begin(self, (Audience::Mine, None), plain);
        }
        let plain = Plain {
            own: None,
            shows: None,
            takes: One {
                from: root,
                part: Part {
                    length,
                    offset: self.rank() as usize * each,
                },
                into: own,
            },
        };
        let waits = (Audience::Nobody, Some(Awaited::One(root)));
        shape.begin(self, waits, plain)
    }

    /// `MPI_Iallgather`.
    #[inline(never)]
    #[must_use]
    pub fn iallgather_at_once(&self, (own, code): Elements, all: Region) -> Option<RequestId> {
        let (each, me) = (own.len(), self.rank() as usize);
        if each > Board::INLINE {
            return None;
        }
        let shape = Shape {
            place: ALLGATHER,
            code,
            operation: None,
            root: 0,
            each,
        };
        let plain = Plain {
            own: Some((own, all.part(me * each, each)?)),
            shows: Some(own),
            takes: Each {
                me,
                part: Part::whole(each),
                each,
                all,
            },
        };
        shape.begin(self, (Audience::All, ALL), plain)
    }

    /// `MPI_Ialltoall` of blocks of `each` bytes.
    #[inline(never)]
    #[must_use]
    pub fn ialltoall_at_once(
        &self,
        out: Region,
        (all, code): Elements,
        each: usize,
    ) -> Option<RequestId> {
        let (length, offset) = (all.len(), self.rank() as usize * each);
        if length > Board::INLINE {
            return None;
        }
        let shape = Shape {
            place: ALLTOALL,
            code,
            operation: None,
            root: 0,
            each,
        };
        let plain = Plain {
            own: Some((out.part(offset, each)?, all.part(offset, each)?)),
            shows: Some(out),
            takes: Each {
                me: self.rank() as usize,
                part: Part { length, offset },
                each,
                all,
            },
        };
        shape.begin(self, (Audience::All, ALL), plain)
    }

    /// `MPI_Ireduce`; `result` is there at the root, and may be `own`.
    #[inline(never)]
    #[must_use]
    pub fn ireduce_at_once(
        &self,
        (own, code): Elements,
        result: Option<Region>,
        (operation, basic): (Predefined, Basic),
        root: u32,
    ) -> Option<RequestId> {
        let root = root as usize;
        if root >= self.size() as usize {
            return None;
        }
        let whole = Part::whole(own.len());
        let reduction = Fold::new(REDUCE, (own, code), (operation, basic), root)?;
        let Some(result) = result else {
            let plain = Plain {
                own: None,
                shows: Some(own),
                takes: (),
            };
            return reduction
                .shape
                .begin(self, (Audience::Root(root), None), plain);
        };
        reduction.begin(self, (own, whole, result), (Audience::Root(root), ALL))
    }

    /// `MPI_Iallreduce`; `result` may be `own`.
    #[inline(never)]
    #[must_use]
    pub fn iallreduce_at_once(
        &self,
        own: Elements,
        result: Region,
        reduction: (Predefined, Basic),
    ) -> Option<RequestId> {
        let whole = Part::whole(own.0.len());
        let fold = Fold::new(ALLREDUCE, own, reduction, 0)?;
        fold.begin(self, (own.0, whole, result), (Audience::All, ALL))
    }

    /// `MPI_Ireduce_scatter_block`: each rank gets its part of what all give; `result` may be the front of `own`.
    #[inline(never)]
    #[must_use]
    pub fn ireduce_scatter_block_at_once(
        &self,
        own: Elements,
        result: Region,
        reduction: (Predefined, Basic),
    ) -> Option<RequestId> {
        let part = Part {
            length: own.0.len(),
            offset: self.rank() as usize * result.len(),
        };
        let fold = Fold::new(REDUCE_SCATTER_BLOCK, own, reduction, 0)?;
        fold.begin(self, (own.0, part, result), (Audience::All, ALL))
    }
}

/// A reduction.
struct Fold {
    shape: Shape,
    combine: Combine,
}

impl Fold {
    #[inline(always)]
    fn new(
        place: usize,
        (own, code): Elements,
        (operation, basic): (Predefined, Basic),
        root: usize,
    ) -> Option<Self> {
        let combine = Combine::new(operation, basic).ok()?;
        let shape = Shape {
            place,
            code,
            operation: Some(operation),
            root,
            each: own.len(),
        };
        (own.len() <= Board::INLINE).then_some(Self { shape, combine })
    }

    /// Begins it where this rank gets a part of the result.
    #[inline(always)]
    fn begin(
        self,
        comm: &Comm,
        (own, part, into): (Region, Part, Region),
        waits: (Audience, Option<Awaited>),
    ) -> Option<RequestId> {
        let me = comm.rank() as usize;
        let operand = own.part(part.offset, into.len())?;
        let is_kept = is_kept((me, comm.size() as usize), &operand, &into);
        let takes = Folded {
            me,
            part,
            own: is_kept.then_some(operand),
            into,
            combine: self.combine,
        };
        let plain = Plain {
            own: None,
            shows: Some(own),
            takes,
        };
        self.shape.begin(comm, waits, plain)
    }
}
