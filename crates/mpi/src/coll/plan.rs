//! Plan: a schedule being written: spans and their parts, scratch memory, and data with gaps.
//!
//! ```text
//!   input(buffer)    the bytes of a flat buffer, or scratch that it is packed into
//!   output(buffer)   the same, unpacked when everything else is done
//! ```

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::datatype::Datatype;
use crate::engine::collective_note::CollectiveNote;
use crate::error::Result;
use crate::memory;
use crate::op::Op;
use crate::schedule::{Schedule, Span, Step};

/// Spans in scratch memory begin at multiples of this, so that loops over them are aligned.
const ALIGNMENT: usize = 64;

/// A schedule being written.
pub(super) struct Plan {
    name: &'static str,
    steps: Vec<Step>,
    scratch: usize,
    /// Steps for the end.
    last: Vec<Step>,
    /// The ranks that are counted now; none for all of the communicator.
    among: Option<Vec<u32>>,
    note: CollectiveNote,
}

impl Plan {
    /// Nothing yet. `name`: the MPI call, for messages to people.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            // Enough for most: a list that grows moves.
            steps: Vec::with_capacity(8),
            scratch: 0,
            last: Vec::new(),
            among: None,
            note: CollectiveNote::NOTHING,
        }
    }

    /// Writes steps among some ranks of the communicator, which are counted from 0 meanwhile.
    pub fn among<R>(&mut self, ranks: &[usize], write: impl FnOnce(&mut Self) -> R) -> R {
        let ranks = ranks.iter().map(|rank| self.rank(*rank)).collect();
        let outer = self.among.replace(ranks);
        let result = write(self);
        self.among = outer;
        result
    }

    /// The rank in the communicator of a number among those that are counted.
    fn rank(&self, number: usize) -> u32 {
        match &self.among {
            None => number as u32,
            Some(ranks) => ranks[number],
        }
    }

    /// The MPI call.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Scratch memory of its own.
    pub fn scratch(&mut self, length: usize) -> Span {
        let offset = self.scratch;
        // What does not fit a number fits no memory: `finish` refuses it.
        let end = offset.saturating_add(length);
        self.scratch = end
            .checked_next_multiple_of(ALIGNMENT)
            .unwrap_or(usize::MAX);
        Span::Scratch { offset, length }
    }

    /// The bytes of a buffer for reading.
    pub fn input(&mut self, buffer: &Buffer) -> Span {
        match buffer {
            Buffer::Flat(region, _) => Span::User(*region),
            Buffer::Typed(typed) => {
                let into = self.scratch(typed.bytes());
                let buffer = typed.clone();
                self.steps.push(Step::Pack { buffer, into });
                into
            }
        }
    }

    /// Bytes that will be those of a buffer at the end. Nothing is there before.
    pub fn output(&mut self, buffer: &Buffer) -> Span {
        match buffer {
            Buffer::Flat(region, _) => Span::User(*region),
            Buffer::Typed(typed) => {
                let from = self.scratch(typed.bytes());
                let buffer = typed.clone();
                self.last.push(Step::Unpack { from, buffer });
                from
            }
        }
    }

    /// Copies bytes into a buffer, at this step.
    pub fn fill(&mut self, from: Span, buffer: &Buffer) {
        match buffer {
            Buffer::Flat(region, _) => self.copy(from, Span::User(*region)),
            Buffer::Typed(typed) => {
                let buffer = typed.clone();
                self.steps.push(Step::Unpack { from, buffer });
            }
        }
    }

    /// Copies the bytes of a buffer, at this step.
    pub fn take(&mut self, buffer: &Buffer, into: Span) {
        match buffer {
            Buffer::Flat(region, _) => self.copy(Span::User(*region), into),
            Buffer::Typed(typed) => {
                let buffer = typed.clone();
                self.steps.push(Step::Pack { buffer, into });
            }
        }
    }

    /// Copies the elements of one buffer to another, at this step: by one pass, if they are laid out alike or one has no
    /// gaps.
    pub fn transfer(&mut self, from: &Buffer, into: &Buffer) {
        match (from, into) {
            (Buffer::Flat(region, _), _) => self.fill(Span::User(*region), into),
            (_, Buffer::Flat(region, _)) => self.take(from, Span::User(*region)),
            (Buffer::Typed(from), Buffer::Typed(into)) => {
                let (from, into) = (from.clone(), into.clone());
                self.steps.push(Step::CopyElements { from, into });
            }
        }
    }

    /// Begins to send.
    pub fn send(&mut self, to: usize, from: Span) {
        let to = self.rank(to);
        self.steps.push(Step::Send { to, from });
    }

    /// Begins to receive.
    pub fn receive(&mut self, from: usize, into: Span) {
        let from = self.rank(from);
        self.steps.push(Step::Receive { from, into });
    }

    /// Begins to send and to receive, and waits for both. Sends come first, here and elsewhere: to look for a message waits for its
    /// cache line, and what this rank sends need not.
    pub fn exchange(&mut self, to: usize, out: Span, from: usize, into: Span) {
        self.send(to, out);
        self.receive(from, into);
        self.fence();
    }

    /// Copies bytes.
    pub fn copy(&mut self, from: Span, into: Span) {
        if from.len() > 0 && !from.is_same(&into) {
            self.steps.push(Step::Copy { from, into });
        }
    }

    /// Sends a signal.
    pub fn signal(&mut self, to: usize) {
        let to = self.rank(to);
        self.steps.push(Step::Signal { to });
    }

    /// Begins to wait for a signal.
    pub fn wait(&mut self, from: usize) {
        let from = self.rank(from);
        self.steps.push(Step::Await { from });
    }

    /// Waits for everything before.
    pub fn fence(&mut self) {
        if !matches!(self.steps.last(), None | Some(Step::Fence)) {
            self.steps.push(Step::Fence);
        }
    }

    /// `into = operand op into` (`Side::Before`) or `into op operand`.
    pub fn reduce(&mut self, elements: &Elements, operand: Span, side: Side, into: Span) {
        let count = into
            .len()
            .checked_div(elements.datatype.size())
            .unwrap_or(0);
        if count > 0 {
            self.steps.push(Step::Reduce {
                op: Arc::clone(&elements.op),
                datatype: Arc::clone(&elements.datatype),
                count,
                operand,
                into,
                operand_first: side == Side::Before,
            });
        }
    }

    /// Adds to what all ranks must have alike beside the name.
    pub fn note(&mut self, add: impl FnOnce(CollectiveNote) -> CollectiveNote) {
        self.note = add(CollectiveNote::of_name(self.name));
    }

    /// The schedule.
    ///
    /// # Errors
    /// `NoMem` if its scratch memory is more than the system gives.
    pub fn finish(mut self) -> Result<Schedule> {
        // Twice: packing and turning an operand round take a copy.
        memory::ensure(self.scratch.saturating_mul(2))?;
        if !self.last.is_empty() {
            self.fence();
            self.steps.append(&mut self.last);
        }
        Ok(Schedule {
            name: self.name,
            steps: self.steps,
            scratch_bytes: self.scratch,
            note: self.note,
            continues: false,
        })
    }
}

/// Where an operand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// Before what it is combined with: it comes from lower ranks.
    Before,
    /// After it.
    After,
}

/// What a reduction reduces, and how.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    pub op: Arc<Op>,
    pub datatype: Arc<Datatype>,
}

/// Arithmetic on spans. Parts lie within the whole: algorithms cut what they have measured.
pub(crate) trait Cut {
    fn len(&self) -> usize;
    fn part(&self, offset: usize, length: usize) -> Span;
    fn is_same(&self, other: &Self) -> bool;
}

impl Cut for Span {
    fn len(&self) -> usize {
        match self {
            Self::User(region) => region.len(),
            Self::Scratch { length, .. } => *length,
        }
    }

    fn part(&self, offset: usize, length: usize) -> Span {
        match self {
            Self::User(region) => Self::User(
                region
                    .part(offset, length)
                    .expect("a part lies within its span"),
            ),
            Self::Scratch {
                offset: start,
                length: whole,
            } => {
                assert!(
                    offset.checked_add(length).is_some_and(|end| end <= *whole),
                    "a part lies within its span"
                );
                Self::Scratch {
                    offset: start + offset,
                    length,
                }
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(one), Self::User(two)) => one == two,
            (
                Self::Scratch { offset, length },
                Self::Scratch {
                    offset: other,
                    length: others,
                },
            ) => offset == other && length == others,
            _ => false,
        }
    }
}
