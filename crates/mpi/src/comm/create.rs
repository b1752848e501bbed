//! Making communicators: duplicate, split, create (MPI 5.0, section 7.4.2).
//!
//! A context is given out by one process, the *leader* of the creation, from a counter of its own, and
//! carries the leader's number: no two leaders give out the same, and no agreement is needed beyond
//! one message to each member. The number of contexts that one process can lead is what remains of 32
//! bits: two million for a job of 1024.

use std::sync::Arc;
use weft_atomic::Ordering;

use weft_fabric::{Peer, Region};

use super::Comm;
use crate::Buffer;
use crate::buffer;
use crate::engine::Guard;
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Comparison, Group};
use crate::p2p::SendMode;
use crate::process::Process;
use crate::schedule::{Schedule, Span, Step};

/// Tag bit of the messages of `MPI_Comm_create_group`, which are no collective of the parent.
const GROUP_TAG: i32 = 0x4000_0000;

/// What a rank asks of a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ask {
    /// `None` stands for `MPI_UNDEFINED`.
    color: Option<i32>,
    key: i32,
}

impl Ask {
    const BYTES: usize = 12;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&i32::from(self.color.is_some()).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.color.unwrap_or(0).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            color: (word(0) != 0).then(|| word(4)),
            key: word(8),
        }
    }
}

impl Process {
    /// A new context, led by this process.
    fn new_context(&self) -> Result<u32> {
        let number = self.contexts.fetch_add(1, Ordering::Relaxed);
        let leaders = self.peers().next_power_of_two().trailing_zeros();
        let context = u64::from(number) << (leaders + 1) | u64::from(self.me().0) << 1;
        u32::try_from(context).map_err(|_| {
            Error::new(
                ErrorClass::Other,
                format!("this process has led the creation of {number} communicators, and no context is left; create communicators once and reuse them"),
            )
        })
    }
}

impl Comm {
    /// `MPI_Comm_dup`: the same group with a context of its own. Attributes are the caller's matter.
    ///
    /// # Errors
    /// When no context is left, or a member is lost.
    pub fn dup(&self) -> Result<Arc<Self>> {
        let context = self.agree("MPI_Comm_dup")?;
        Ok(self
            .relative(context, Arc::clone(self.group()))
            .expect("a member of the group it copies"))
    }

    /// `MPI_Comm_create`: a communicator of `group`, a subgroup; `None` for who is no member.
    ///
    /// # Errors
    /// `Group` if a member of the group is not in this communicator.
    pub fn create(&self, group: &Arc<Group>) -> Result<Option<Arc<Self>>> {
        self.check_subgroup(group)?;
        let context = self.agree("MPI_Comm_create")?;
        Ok(self.relative(context, Arc::clone(group)))
    }

    /// `MPI_Comm_create_group`: as [`Self::create`], but only the members of the group call it.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn create_group(&self, group: &Arc<Group>, tag: i32) -> Result<Option<Arc<Self>>> {
        self.check_subgroup(group)?;
        let Some(rank) = group.rank_of(self.process().me()) else {
            return Ok(None);
        };
        let tag = GROUP_TAG | tag;
        let channel = self.context() | 1;
        let mut word = [0; 4];
        if rank == 0 {
            word = self.process().new_context()?.to_le_bytes();
            for peer in group.members().skip(1) {
                self.process().lock().tell(&mut word, channel, peer, tag)?;
            }
        } else {
            self.process()
                .lock()
                .hear(&mut word, channel, group.peer(0), tag)?;
        }
        Ok(self.relative(u32::from_le_bytes(word), Arc::clone(group)))
    }

    /// `MPI_Comm_split`: one communicator for each color, ordered by key, then by rank. `None` as
    /// color (`MPI_UNDEFINED`) gives none.
    ///
    /// # Errors
    /// When no context is left, or a member is lost.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Arc<Self>>> {
        let asks = self.ask(Ask { color, key })?;
        let mut colors: Vec<i32> = asks.iter().filter_map(|ask| ask.color).collect();
        colors.sort_unstable();
        colors.dedup();
        let mut contexts = vec![0; colors.len() * 4];
        if self.rank() == 0 {
            for place in contexts.chunks_exact_mut(4) {
                place.copy_from_slice(&self.process().new_context()?.to_le_bytes());
            }
        }
        self.spread("MPI_Comm_split", &mut contexts)?;
        let Some(color) = color else { return Ok(None) };
        let mut members: Vec<(i32, u32)> = asks
            .iter()
            .zip(0..)
            .filter(|(ask, _)| ask.color == Some(color))
            .map(|(ask, rank)| (ask.key, rank))
            .collect();
        members.sort_unstable();
        let group = Group::of(
            members
                .iter()
                .map(|(_, rank)| self.group().peer(*rank))
                .collect(),
        );
        let place = colors
            .binary_search(&color)
            .expect("one's own color is among all")
            * 4;
        let context =
            u32::from_le_bytes(contexts[place..place + 4].try_into().expect("four bytes"));
        Ok(self.relative(context, Arc::new(group)))
    }

    /// `MPI_Comm_compare`.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.context() == other.context() {
            return Comparison::Identical;
        }
        let sides = match (self.remote_group(), other.remote_group()) {
            (None, None) => Comparison::Identical,
            (Some(one), Some(two)) => one.compare(two),
            _ => return Comparison::Unequal,
        };
        match (self.group().compare(other.group()), sides) {
            (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            _ => Comparison::Similar,
        }
    }

    fn relative(&self, context: u32, group: Arc<Group>) -> Option<Arc<Self>> {
        Self::assemble(self.process(), context, group, None)
    }

    fn check_subgroup(&self, group: &Group) -> Result<()> {
        match group
            .members()
            .find(|peer| self.group().rank_of(*peer).is_none())
        {
            None => Ok(()),
            Some(peer) => Err(Error::new(
                ErrorClass::Group,
                format!(
                    "the group has rank {peer} of MPI_COMM_WORLD, which is not in the communicator; take a subgroup of MPI_Comm_group of it"
                ),
            )),
        }
    }

    /// A new context that all members know, led by rank 0.
    fn agree(&self, name: &'static str) -> Result<u32> {
        let mut word = [0; 4];
        if self.rank() == 0 {
            word = self.process().new_context()?.to_le_bytes();
        }
        self.spread(name, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Bytes of rank 0 to all, along a binomial tree.
    fn spread(&self, name: &'static str, bytes: &mut [u8]) -> Result<()> {
        let whole = Span::User(buffer::region_of(bytes));
        let (rank, size) = (self.rank(), self.size());
        let mut steps = Vec::new();
        let parent_bit = if rank == 0 {
            size.next_power_of_two()
        } else {
            1 << rank.trailing_zeros()
        };
        if rank != 0 {
            steps.push(Step::Receive {
                from: rank - parent_bit,
                into: whole,
            });
            steps.push(Step::Fence);
        }
        let mut bit = parent_bit >> 1;
        while bit > 0 {
            if rank + bit < size {
                steps.push(Step::Send {
                    to: rank + bit,
                    from: whole,
                });
            }
            bit >>= 1;
        }
        self.run(Schedule {
            name,
            steps,
            scratch_bytes: 0,
        })
    }

    /// What every rank asks, known to all.
    fn ask(&self, mine: Ask) -> Result<Vec<Ask>> {
        let size = self.size() as usize;
        let mut all = vec![0; size * Ask::BYTES];
        let mut own = mine.to_bytes();
        let region = buffer::region_of(&mut all);
        let part = |rank: usize| {
            region
                .part(rank * Ask::BYTES, Ask::BYTES)
                .unwrap_or(Region::EMPTY)
        };
        let own = Span::User(buffer::region_of(&mut own));
        let steps = if self.rank() == 0 {
            let from_others = (1..self.size()).map(|rank| Step::Receive {
                from: rank,
                into: Span::User(part(rank as usize)),
            });
            std::iter::once(Step::Copy {
                from: own,
                into: Span::User(part(0)),
            })
            .chain(from_others)
            .collect()
        } else {
            vec![Step::Send { to: 0, from: own }]
        };
        self.run(Schedule {
            name: "MPI_Comm_split",
            steps,
            scratch_bytes: 0,
        })?;
        self.spread("MPI_Comm_split", &mut all)?;
        Ok(all.chunks_exact(Ask::BYTES).map(Ask::from_bytes).collect())
    }
}

impl Guard<'_> {
    fn tell(&mut self, bytes: &mut [u8], context: u32, to: Peer, tag: i32) -> Result<()> {
        let buffer = Buffer::Flat(buffer::region_of(bytes));
        match self.start_send(SendMode::Standard, buffer, context, to, tag)? {
            None => Ok(()),
            Some(request) => self.finish(request).map(drop),
        }
    }

    fn hear(&mut self, bytes: &mut [u8], context: u32, from: Peer, tag: i32) -> Result<()> {
        let buffer = Buffer::Flat(buffer::region_of(bytes));
        let request = self.start_receive(buffer, context, Some(from), Some(tag), None)?;
        self.finish(request).map(drop)
    }
}
