//! Making communicators: duplicate, split, create (MPI 5.0, section 7.4.2).
//!
//! A context is given out by one process, the *leader* of the creation, from a counter of its own, and
//! carries the leader's number: no two leaders give out the same, and no agreement is needed beyond
//! one message to each member. The number of contexts that one process can lead is what remains of 32
//! bits: two million for a job of 1024.

use std::sync::Arc;
use weft_atomic::Ordering;

use weft_fabric::{Peer, Region};

use super::{Comm, Remote, Shape};
use crate::Buffer;
use crate::buffer;
use crate::engine::Guard;
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Comparison, Group};
use crate::p2p::SendMode;
use crate::process::Process;
use crate::schedule::{Schedule, Span, Step};

/// Tag bit of the messages of `MPI_Comm_create_group` and `MPI_Intercomm_create`, which are no
/// collectives of the parent.
pub(super) const GROUP_TAG: i32 = 0x4000_0000;

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
    pub(super) fn new_context(&self) -> Result<u32> {
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
        let (group, shape) = (Arc::clone(self.group()), self.shape.clone());
        Ok(Self::assemble(self.process(), context, group, shape)
            .expect("a member of the group it copies"))
    }

    /// `MPI_Comm_create`: a communicator of `group`, a subgroup; `None` for who is no member. Of an
    /// intercommunicator, each side names a part of itself.
    ///
    /// # Errors
    /// `Group` if a member of the group is not in this communicator.
    pub fn create(&self, group: &Arc<Group>) -> Result<Option<Arc<Self>>> {
        self.check_subgroup(group)?;
        if self.remote().is_some() {
            let place = group.rank_of(self.process().me());
            return self.split(place.map(|_| 0), place.map_or(0, u32::cast_signed));
        }
        let context = self.agree("MPI_Comm_create")?;
        Ok(self.relative(context, Arc::clone(group)))
    }

    /// `MPI_Comm_create_group`: as [`Self::create`], but only the members of the group call it.
    ///
    /// # Errors
    /// As for [`Self::create`]; `Comm` for an intercommunicator.
    pub fn create_group(&self, group: &Arc<Group>, tag: i32) -> Result<Option<Arc<Self>>> {
        self.check_intra("MPI_Comm_create_group")?;
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
    /// color (`MPI_UNDEFINED`) gives none. Of an intercommunicator, each side is split; a color that
    /// the other side does not have gives none.
    ///
    /// # Errors
    /// When no context is left, or a member is lost.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Arc<Self>>> {
        let asks = self.ask(Ask { color, key })?;
        let (ours, theirs) = asks.split_at(self.size() as usize);
        let mut colors: Vec<i32> = ours.iter().filter_map(|ask| ask.color).collect();
        colors.sort_unstable();
        colors.dedup();
        if self.remote().is_some() {
            colors.retain(|color| theirs.iter().any(|ask| ask.color == Some(*color)));
        }
        let contexts = self.agree_on("MPI_Comm_split", colors.len())?;
        let Some(color) = color else { return Ok(None) };
        let Ok(place) = colors.binary_search(&color) else {
            return Ok(None);
        };
        let group = part(self.group(), ours, color);
        let shape = self.remote_group().map_or(Shape::Plain, |remote| {
            Shape::Between(Remote::of(&group, Arc::new(part(remote, theirs, color))))
        });
        Ok(Self::assemble(
            self.process(),
            contexts[place],
            Arc::new(group),
            shape,
        ))
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

    pub(super) fn relative(&self, context: u32, group: Arc<Group>) -> Option<Arc<Self>> {
        Self::assemble(self.process(), context, group, Shape::Plain)
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

    /// A new context that all members know.
    pub(super) fn agree(&self, name: &'static str) -> Result<u32> {
        Ok(self.agree_on(name, 1)?[0])
    }

    /// New contexts that all members know, led by rank 0: of an intercommunicator, that of the first
    /// side.
    fn agree_on(&self, name: &'static str, number: usize) -> Result<Vec<u32>> {
        let mut bytes = vec![0; number * 4];
        let first = self.remote().is_none_or(|remote| remote.local_is_first);
        if self.rank() == 0 && first {
            for place in bytes.chunks_exact_mut(4) {
                place.copy_from_slice(&self.process().new_context()?.to_le_bytes());
            }
        }
        if self.remote().is_some() {
            let own = bytes.len();
            bytes.resize(2 * own, 0);
            self.meet(name, &mut bytes, own)?;
            bytes.drain(if first { own..2 * own } else { 0..own });
        } else {
            self.spread(name, &mut bytes, 0)?;
        }
        let words = bytes.chunks_exact(4);
        Ok(words
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect())
    }

    /// Bytes of a root to all of the local group.
    pub(super) fn spread(&self, name: &'static str, bytes: &mut [u8], root: u32) -> Result<()> {
        let steps = self.tree(Span::User(buffer::region_of(bytes)), root);
        self.run(Schedule::of(name, steps))
    }

    /// The leaders of the two sides exchange what they know, and each tells its side: the first `own`
    /// bytes are those of this side's rank 0, the others those of the remote one.
    pub(super) fn meet(&self, name: &'static str, bytes: &mut [u8], own: usize) -> Result<()> {
        let whole = buffer::region_of(bytes);
        let part =
            |at: usize, length: usize| Span::User(whole.part(at, length).unwrap_or(Region::EMPTY));
        let mut steps = Vec::new();
        if self.rank() == 0 {
            let there = self.size();
            steps.push(Step::Receive {
                from: there,
                into: part(own, whole.len() - own),
            });
            steps.push(Step::Send {
                to: there,
                from: part(0, own),
            });
            steps.push(Step::Fence);
        }
        steps.append(&mut self.tree(Span::User(whole), 0));
        self.run(Schedule::of(name, steps))
    }

    /// The steps of a binomial tree over the local group.
    fn tree(&self, whole: Span, root: u32) -> Vec<Step> {
        let size = self.size();
        let number = (self.rank() + size - root) % size;
        let rank = |number: u32| (number + root) % size;
        let mut steps = Vec::new();
        let parent_bit = if number == 0 {
            size.next_power_of_two()
        } else {
            1 << number.trailing_zeros()
        };
        if number != 0 {
            steps.push(Step::Receive {
                from: rank(number - parent_bit),
                into: whole,
            });
            steps.push(Step::Fence);
        }
        let mut bit = parent_bit >> 1;
        while bit > 0 {
            if number + bit < size {
                steps.push(Step::Send {
                    to: rank(number + bit),
                    from: whole,
                });
            }
            bit >>= 1;
        }
        steps
    }

    /// What every rank asks, known to all; behind it, what those of the remote group ask.
    fn ask(&self, mine: Ask) -> Result<Vec<Ask>> {
        const NAME: &str = "MPI_Comm_split";
        let size = self.size() as usize;
        let both = size
            + self
                .remote_group()
                .map_or(0, |remote| remote.size() as usize);
        let mut all = vec![0; both * Ask::BYTES];
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
        self.run(Schedule::of(NAME, steps))?;
        if self.remote().is_some() {
            self.meet(NAME, &mut all, size * Ask::BYTES)?;
        } else {
            self.spread(NAME, &mut all, 0)?;
        }
        Ok(all.chunks_exact(Ask::BYTES).map(Ask::from_bytes).collect())
    }
}

/// Those of a group that asked for a color, in the order of their keys.
fn part(group: &Group, asks: &[Ask], color: i32) -> Group {
    let mut members: Vec<(i32, u32)> = asks
        .iter()
        .zip(0..)
        .filter(|(ask, _)| ask.color == Some(color))
        .map(|(ask, rank)| (ask.key, rank))
        .collect();
    members.sort_unstable();
    Group::of(members.iter().map(|(_, rank)| group.peer(*rank)).collect())
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
