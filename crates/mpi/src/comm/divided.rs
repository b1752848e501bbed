//! Division of a communicator's messages among the engines of a rank, by their tags.
//!
//! ```text
//!   MPI_Send(…, tag 4, comm) ──┐                       ┌──► part 0: a context of channel 0 ── engine 0
//!   MPI_Send(…, tag 5, comm) ──┴─ tag modulo the parts ┴──► part 1: a context of channel 1 ── engine 1
//!   MPI_Barrier(comm) ────────────────────────────────────► comm itself: its own context, its own engine
//! ```
//!
//! A communicator whose members have all asserted that they receive no `MPI_ANY_TAG` (MPI 5.0, section 7.4.4) has a
//! *part* for each channel: an internal communicator of the same group with a context of that channel. Operations with a
//! tag (sends, receives, probes, persistent and partitioned requests) use the part; collectives, agreements and boards
//! use the communicator itself. Sender and receiver choose the same part, since both know the tag; all messages of one
//! source and tag are in one part, where they are matched in MPI's order as in every communicator. So threads that use
//! different tags use different engines, and everything that an engine knows by context (losses, revocations, leftovers,
//! waits, cancellations) it knows of a part as of any other communicator.
//!
//! This is decided when a communicator is made with hints (`MPI_Comm_dup_with_info`, `MPI_Comm_create_from_group`),
//! before there is any message, and does not change: `MPI_Comm_set_info` has no effect on it, and `MPI_Comm_get_info`
//! says what holds. The leader decides, as for the channel of [any other](super::agree): whether its threads may call at
//! once, and how many channels there are. Communicators of two groups, or of several jobs, have no parts.

use std::sync::Arc;

use weft_fabric::{MOST_CHANNELS, Peer};

use super::agree::told;
use super::{Comm, Shape, UNNAMED};
use crate::buffer::{self, Buffer};
use crate::coll::allreduce;
use crate::coll::{Collective, Members, Reduction};
use crate::datatype::{Basic, SignatureCode};
use crate::engine::collective_note::CollectiveNote;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::info::Info;
use crate::op::{Op, Predefined};
use crate::p2p::{Source, TagPattern};
use crate::schedule::Schedule;

/// The hint by which a process asserts that it receives no `MPI_ANY_TAG`.
const NO_ANY_TAG: &str = "mpi_assert_no_any_tag";

/// Words of the agreement: how many parts, and the context of each.
const WORDS: usize = 1 + MOST_CHANNELS as usize;

/// The parts of a divided communicator, that of channel 0 first.
#[derive(Debug)]
pub(super) struct Parts(Box<[Arc<Comm>]>);

impl Parts {
    /// The part that a tag belongs to. Tags that follow each other are of different parts.
    fn of(&self, tag: i32) -> &Arc<Comm> {
        &self.0[tag.cast_unsigned() as usize % self.0.len()]
    }
}

impl Comm {
    /// The communicator that messages with this tag are of: a part, or itself.
    #[inline]
    pub(crate) fn of_tag(&self, tag: i32) -> &Self {
        match &self.parts {
            None => self,
            Some(parts) => parts.of(tag),
        }
    }

    /// The communicator that a receive or a probe with these arguments looks in.
    ///
    /// # Errors
    /// [`ErrorClass::Tag`] for any tag, if it is divided.
    #[inline]
    pub(crate) fn of_receive(&self, from: Source, tag: TagPattern) -> Result<&Self> {
        match (&self.parts, tag) {
            (None, _) => Ok(self),
            (Some(parts), TagPattern::Exact(tag)) => Ok(parts.of(tag)),
            // There is no message, so there is none to miss.
            (Some(_), TagPattern::Any) if from == Source::Null => Ok(self),
            (Some(_), TagPattern::Any) => Err(asserted()),
        }
    }

    /// Whether its messages are those of parts.
    #[inline]
    pub(crate) fn is_divided(&self) -> bool {
        self.parts.is_some()
    }

    /// The part of a tag, if it is divided: for calls that end at once and have found nobody by
    /// [`direct_peer`](Self::direct_peer).
    pub(crate) fn part_of(&self, tag: i32) -> Option<&Self> {
        self.parts.as_ref().map(|parts| &**parts.of(tag))
    }

    /// Itself and its parts.
    pub(super) fn with_parts(&self) -> impl Iterator<Item = &Self> {
        let parts = self.parts.iter().flat_map(|parts| parts.0.iter());
        std::iter::once(self).chain(parts.map(|part| &**part))
    }

    /// The contexts that its messages and requests may have.
    pub fn contexts(&self) -> impl Iterator<Item = u32> {
        self.with_parts().filter_map(Self::known_context)
    }

    /// `MPI_Comm_dup_with_info`: as [`dup`](Self::dup), with these hints.
    ///
    /// # Errors
    /// As for [`dup`](Self::dup).
    pub fn dup_with_info(&self, info: Option<&Info>) -> Result<Arc<Self>> {
        self.dup()?.made_with("MPI_Comm_dup_with_info", info)
    }

    /// `MPI_Comm_create_from_group`: as [`create_group`](Self::create_group), with these hints.
    ///
    /// # Errors
    /// As for [`create_group`](Self::create_group).
    pub fn create_from_group(
        &self,
        group: &Arc<Group>,
        tag: i32,
        info: Option<&Info>,
    ) -> Result<Option<Arc<Self>>> {
        let made = self.create_group(group, tag)?;
        made.map(|comm| comm.made_with("MPI_Comm_create_from_group", info))
            .transpose()
    }

    /// This one, which its members have made just now, with the hints that each of them gives.
    fn made_with(self: Arc<Self>, name: &'static str, info: Option<&Info>) -> Result<Arc<Self>> {
        let asserts = match info {
            Some(info) => info.get(NO_ANY_TAG)? == Some("true"),
            None => false,
        };
        let (this, all_assert) = self.divided(name, asserts)?;
        if all_assert {
            this.extras().info().set(NO_ANY_TAG, "true")?;
        }
        Ok(this)
    }

    /// `MPI_Comm_get_info`: the hints that Weft understands, with the values that hold. All are decided when a communicator is
    /// made, so `MPI_Comm_set_info` has nothing to set.
    ///
    /// # Errors
    /// None: the pairs are its own.
    pub fn info(&self) -> Result<Info> {
        let mut info = self.extras().info().clone();
        if info.get(NO_ANY_TAG)?.is_none() {
            info.set(NO_ANY_TAG, "false")?;
        }
        Ok(info.answered())
    }

    /// This one, which its members have made just now, divided if all of them assert that; and whether they do.
    fn divided(
        mut self: Arc<Self>,
        name: &'static str,
        asserts: bool,
    ) -> Result<(Arc<Self>, bool)> {
        if self.remote().is_some() {
            return Ok((self, false));
        }
        let (words, failure) = self.offer(asserts);
        let words = self.agree_on_parts(name, words)?;
        if let Some(error) = failure {
            return Err(error);
        }
        let [parts, contexts @ ..] = words;
        if parts > 1 {
            let parts = contexts[..parts.min(MOST_CHANNELS) as usize].iter();
            let parts = parts.map(|context| {
                let context = self.hear_of(told(*context)?)?;
                let group = Arc::clone(self.group());
                let part = Self::assemble(self.process(), context, group, Shape::Plain);
                Ok(part.expect("a member of the group it divides"))
            });
            let parts = Parts(parts.collect::<Result<_>>()?);
            let this = Arc::get_mut(&mut self).expect("nobody else has it yet");
            this.parts = Some(parts);
            this.direct = Arc::new(Group::of(Vec::new()));
        }
        Ok((self, parts > 0))
    }

    /// What this member says of the parts, to be combined with what the others say by a bitwise and; and why it could
    /// not say more.
    fn offer(&self, asserts: bool) -> ([u32; WORDS], Option<Error>) {
        let mut words = [u32::MAX; WORDS];
        if !asserts {
            words[0] = 0;
        }
        if self.rank() != 0 || !asserts {
            return (words, None);
        }
        let process = self.process();
        let is_plain = self.meeting().is_none() && !process.connections().are_possible();
        let channels = if is_plain && process.threads_call_at_once() {
            process.channels
        } else {
            1
        };
        words[0] = channels;
        if channels == 1 {
            return (words, None);
        }
        for channel in 0..channels {
            match self.draw_context(channel) {
                Ok(context) => words[1 + channel as usize] = context,
                // They remain `UNNAMED`, by which the others know.
                Err(error) => return (words, Some(error)),
            }
        }
        (words, None)
    }

    /// The bitwise and of what all members say.
    fn agree_on_parts(&self, name: &'static str, words: [u32; WORDS]) -> Result<[u32; WORDS]> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let region = buffer::region_of(&mut bytes);
        let data = Buffer::Flat(region, SignatureCode::UNKNOWN);
        let reduction = Reduction {
            count: WORDS,
            datatype: Basic::Uint32.datatype().clone(),
            op: Op::predefined(Predefined::Band),
        };
        let schedule = allreduce(&Members::of(self), &data, &data, &reduction)?;
        self.run(Collective::Steps(Schedule {
            name,
            note: CollectiveNote::NOTHING,
            ..schedule
        }))?;
        region.copy_to_slice(&mut bytes);
        let mut agreed = [UNNAMED; WORDS];
        for (word, bytes) in agreed.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*bytes);
        }
        Ok(agreed)
    }

    /// The peer of a rank that messages go to without a look at their tag; nobody, if it is divided.
    #[inline]
    pub(crate) fn direct_peer(&self, rank: u32) -> Option<Peer> {
        let peers = &self.direct;
        (rank < peers.size()).then(|| peers.peer(rank))
    }
}

#[cold]
fn asserted() -> Error {
    Error::new(
        ErrorClass::Tag,
        "MPI_ANY_TAG on a communicator of which all members have asserted mpi_assert_no_any_tag: its messages are divided by their tags; name the tag, or make the communicator without that info",
    )
}
