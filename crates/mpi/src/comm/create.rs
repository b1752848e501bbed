//! Making communicators: duplicate, split, create (MPI 5.0, section 7.4.2).
//!
//! [`agree`](super::agree) says how the members get a context.

use std::sync::Arc;

use weft_fabric::{Peer, Region};

use super::agree::{Channel, told};
use super::{Comm, Remote, Shape, UNNAMED};
use crate::Buffer;
use crate::buffer;
use crate::engine::schedule::TAG_BIT_OF_OTHERS;
use crate::engine::{Guard, RequestId};
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Comparison, Group};
use crate::p2p::SendMode;
use crate::schedule::{Schedule, Span, Step};

/// Tag bit of the messages of `MPI_Comm_create_group` and `MPI_Intercomm_create`, which are no
/// collectives of the parent.
pub(super) const GROUP_TAG: i32 = TAG_BIT_OF_OTHERS;

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

impl Comm {
    /// `MPI_Comm_dup`: the same group with a context of its own. Attributes are the caller's matter.
    ///
    /// # Errors
    /// When no context is left, or a member is lost.
    pub fn dup(&self) -> Result<Arc<Self>> {
        let context = self.agree_on("MPI_Comm_dup", 1, Channel::Any)?[0];
        self.copy_as(self.hear_of(context)?)
    }

    /// The same in channel 0, as part of this call, for what is done there alone: windows, files.
    pub(crate) fn dup_in_first(&self, name: &'static str) -> Result<Arc<Self>> {
        self.copy_as(self.agree_on_context(name)?)
    }

    fn copy_as(&self, context: u32) -> Result<Arc<Self>> {
        let (group, shape) = (Arc::clone(self.group()), self.shape.clone());
        Ok(Self::assemble(self.process(), context, group, shape)
            .expect("a member of the group it copies"))
    }

    /// `MPI_Comm_idup`: as [`Self::dup`], without waiting. The copy must not be used before the request
    /// has ended.
    ///
    /// # Errors
    /// When no context is left.
    pub fn idup(&self) -> Result<(Arc<Self>, RequestId)> {
        let (group, shape) = (Arc::clone(self.group()), self.shape.clone());
        let copy = Self::assemble(self.process(), UNNAMED, group, shape)
            .expect("a member of the group it copies");
        let request = self.agree_later("MPI_Comm_idup", &copy)?;
        Ok((copy, request))
    }

    /// `MPI_Comm_create`: a communicator of `group`, a subgroup; `None` for a rank that is not a member. For an
    /// intercommunicator, each side gives a part of itself.
    ///
    /// # Errors
    /// `Group` if a member of the group is not in this communicator.
    pub fn create(&self, group: &Arc<Group>) -> Result<Option<Arc<Self>>> {
        self.check_subgroup(group)?;
        if self.remote().is_some() {
            let place = group.rank_of(self.process().me());
            return self.split(place.map(|_| 0), place.map_or(0, u32::cast_signed));
        }
        let context = self.agree_on("MPI_Comm_create", 1, Channel::Any)?[0];
        if group.rank_of(self.process().me()).is_none() {
            return Ok(None);
        }
        Ok(self.relative(self.hear_of(context)?, Arc::clone(group)))
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
            let drawn = self.draw_context(self.channel_of_relative());
            word = drawn.as_ref().map_or(UNNAMED, |word| *word).to_le_bytes();
            let mut outcome = drawn.map(drop);
            // All of them, whatever becomes of the others: they wait for it.
            for peer in group.members().skip(1) {
                let told = self.lock().tell(&mut word, channel, peer, tag);
                outcome = outcome.and(told);
            }
            outcome?;
        } else {
            self.lock().hear(&mut word, channel, group.peer(0), tag)?;
        }
        let context = self.hear_of(told(u32::from_le_bytes(word))?)?;
        Ok(self.relative(context, Arc::clone(group)))
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
        let contexts = self.agree_on("MPI_Comm_split", colors.len(), Channel::Any)?;
        let Some(color) = color else { return Ok(None) };
        let Ok(place) = colors.binary_search(&color) else {
            return Ok(None);
        };
        let group = part(self.group(), ours, color);
        let shape = self.remote_group().map_or(Shape::Plain, |remote| {
            let remote = Arc::new(part(remote, theirs, color));
            Shape::Between(Remote::of(&group, remote, self.meeting()))
        });
        Ok(Self::assemble(
            self.process(),
            self.hear_of(contexts[place])?,
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
        let buffer = Buffer::untyped(buffer::region_of(bytes));
        match self.start_send(SendMode::Standard, buffer, context, to, tag)? {
            None => Ok(()),
            Some(request) => self.finish(request).map(drop),
        }
    }

    fn hear(&mut self, bytes: &mut [u8], context: u32, from: Peer, tag: i32) -> Result<()> {
        let buffer = Buffer::untyped(buffer::region_of(bytes));
        let request = self.start_receive(buffer, context, Some(from), Some(tag), None)?;
        self.finish(request).map(drop)
    }
}
