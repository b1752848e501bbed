//! Non-blocking collectives on a board to which ranks give different numbers of bytes, which not all of them know.
//!
//! What is shown is what the [blocking forms](super::super::uneven) show: a block with its length, or a table and blocks. A member
//! that has too much for its line says so, and sends its blocks by messages when those for whom it waits have come. Whoever gets one
//! finds that out from the board, and receives them then.

use weft_fabric::Region;
use weft_fabric::board::Board;

use super::super::super::Blocks;
use super::super::super::plan::Plan;
use super::super::uneven::{ENTRY, table};
use super::fill;
use crate::buffer::{self, Buffer};
use crate::engine::boards::{Scratch, Shown};
use crate::engine::collective_note::CollectiveNote;
use crate::error::Result;
use crate::schedule::Schedule;

/// What a rank gives to others.
#[derive(Debug)]
pub(super) enum Gives {
    Nothing,
    /// A block for one rank.
    One(usize, Buffer),
    /// One for each of the others.
    Each(Blocks),
}

/// What it gets from others.
#[derive(Debug)]
pub(super) enum Gets {
    Nothing,
    /// The block of each of the others, which is all that they show.
    Each(Blocks),
    /// Its block of those that one rank gives.
    OfOne(usize, Buffer),
    /// Its block of those that each of the others gives.
    OfEach(Blocks),
}

/// What a rank does in such a collective.
#[derive(Debug)]
pub(super) struct UnevenExchange {
    pub name: &'static str,
    pub note: CollectiveNote,
    pub me: usize,
    pub size: usize,
    pub gives: Gives,
    /// It shows what it gives.
    pub is_shown: bool,
    pub gets: Gets,
    /// What it gives lies where it gets something.
    pub is_in_place: bool,
}

/// Where the block for this rank is.
enum Comes {
    /// In a message.
    ByMessage,
    /// So many bytes behind an offset of so many that its member shows.
    Shown {
        length: usize,
        offset: usize,
        all: usize,
    },
    /// The member says what cannot be.
    Nowhere,
}

impl UnevenExchange {
    /// What it shows, put together in this memory.
    pub fn shown(&self, scratch: &mut Scratch) -> Option<Region> {
        if !self.is_shown {
            return None;
        }
        match &self.gives {
            Gives::Nothing => None,
            Gives::One(_, Buffer::Flat(region, _)) => Some(*region),
            Gives::One(_, typed) => {
                let scratch = scratch.insert([0; Board::INLINE]);
                let bytes = typed.pack_from(0, scratch);
                Some(buffer::region_of(scratch.get_mut(..bytes)?))
            }
            Gives::Each(blocks) => {
                let scratch = scratch.insert([0; Board::INLINE]);
                let mut at = table(self.size);
                for other in 0..=self.size {
                    let entry = scratch.get_mut(other * ENTRY..(other + 1) * ENTRY)?;
                    entry.copy_from_slice(&(at as u32).to_ne_bytes());
                    if other != self.me && other < self.size {
                        let block = blocks.block(other);
                        let end = at + block.bytes();
                        block.pack_from(0, scratch.get_mut(at..end)?);
                        at = end;
                    }
                }
                Some(buffer::region_of(scratch.get_mut(..at)?))
            }
        }
    }

    /// Calls a function with each member that gives something to this rank, and where that goes, until it answers `None`.
    fn try_each_source(
        &self,
        mut call: impl FnMut(usize, &Buffer, bool) -> Option<()>,
    ) -> Option<()> {
        let others = (0..self.size).filter(|other| *other != self.me);
        match &self.gets {
            Gets::Nothing => Some(()),
            Gets::OfOne(from, into) => call(*from, into, true),
            Gets::Each(blocks) => {
                let mut others = others;
                others.try_for_each(|other| call(other, &blocks.block(other), false))
            }
            Gets::OfEach(blocks) => {
                let mut others = others;
                others.try_for_each(|other| call(other, &blocks.block(other), true))
            }
        }
    }

    fn comes(&self, shown: &Shown<'_>, member: usize, has_table: bool) -> Comes {
        let Some(all) = shown.length(member) else {
            return Comes::ByMessage;
        };
        if !has_table {
            return Comes::Shown {
                length: all,
                offset: 0,
                all,
            };
        }
        let mut entries = [[0; ENTRY]; 2];
        let place = buffer::region_of(entries.as_flattened_mut());
        let Some(word) = shown.data(member, all, (self.me * ENTRY, place.len())) else {
            return Comes::Nowhere;
        };
        word.copy_to_region(&place);
        let [offset, end] = entries.map(|entry| u32::from_ne_bytes(entry) as usize);
        Comes::Shown {
            length: end.saturating_sub(offset),
            offset,
            all,
        }
    }

    /// The messages that are left when those for whom this rank waits have come: `None` if there are none.
    ///
    /// # Errors
    /// `Truncate` if a member shows another number of bytes for this rank than it expects.
    pub fn left(&self, shown: &Shown<'_>) -> Result<Option<Box<Schedule>>> {
        let mut expected: Vec<(usize, Buffer)> = Vec::new();
        let mut failure = None;
        self.try_each_source(|member, into, has_table| {
            match self.comes(shown, member, has_table) {
                Comes::ByMessage => expected.push((member, into.clone())),
                Comes::Shown { length, .. } if length == into.bytes() => {}
                Comes::Shown { length, .. } => {
                    failure = Some(shown.truncated(member, length, into.bytes()));
                }
                Comes::Nowhere => failure = Some(shown.impossible()),
            }
            failure.is_none().then_some(())
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let sends = !self.is_shown && !matches!(self.gives, Gives::Nothing);
        if expected.is_empty() && !sends {
            return Ok(None);
        }
        let mut plan = Plan::new(self.name);
        plan.note(|_| self.note);
        if sends {
            self.send(&mut plan);
        }
        for (from, into) in &expected {
            let into = plan.output(into);
            plan.receive(*from, into);
        }
        Ok(Some(Box::new(Schedule {
            continues: true,
            ..plan.finish()?
        })))
    }

    /// Copies what lies where something else will be written, before anything is sent.
    fn send(&self, plan: &mut Plan) {
        match &self.gives {
            Gives::Nothing => {}
            Gives::One(to, block) => {
                let from = plan.input(block);
                plan.send(*to, from);
            }
            Gives::Each(blocks) => {
                let others = (0..self.size).filter(|other| *other != self.me);
                let parts: Vec<_> = others
                    .map(|other| {
                        let block = blocks.block(other);
                        let from = if self.is_in_place {
                            let copy = plan.scratch(block.bytes());
                            plan.take(&block, copy);
                            copy
                        } else {
                            plan.input(&block)
                        };
                        (other, from)
                    })
                    .collect();
                parts.into_iter().for_each(|(to, from)| plan.send(to, from));
            }
        }
    }

    /// Takes what is shown for this rank. False if it is no longer what [`left`](Self::left) has seen.
    pub fn take(&self, shown: &Shown<'_>) -> bool {
        let taken = self.try_each_source(|member, into, has_table| {
            match self.comes(shown, member, has_table) {
                Comes::ByMessage => Some(()),
                Comes::Nowhere => None,
                Comes::Shown {
                    length,
                    offset,
                    all,
                } => {
                    let data = shown.data(member, all, (offset, length));
                    (length == into.bytes() && fill(into, data)).then_some(())
                }
            }
        });
        taken.is_some()
    }
}
