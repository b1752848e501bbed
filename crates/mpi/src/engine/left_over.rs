//! Leftovers in the engine: messages that no receive has taken, and requests that were not completed.

use weft_fabric::Peer;

use super::collective_note::CollectiveNote;
use super::envelope::MessageKind;
use super::request::{Phase, Request};
use super::request_id::RequestId;
use super::{Engine, LOOKS_BEFORE_DROPPING};

/// A message that no receive has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unreceived {
    pub context: u32,
    pub from: Peer,
    pub tag: i32,
    pub bytes: u64,
}

/// A request that nobody has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unended {
    /// Its name.
    pub id: RequestId,
    /// The context of its communicator, file or window.
    pub context: u32,
    /// What it does.
    pub operation: Operation,
    /// How far it is.
    pub standing: Standing,
}

/// What a request does, as far as the engine knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// A send.
    Send,
    /// A receive.
    Receive,
    /// A collective.
    Collective,
    /// Something else: of a file, of a window, of the program itself; or one that has ended.
    Other,
}

/// How far a request is that nobody has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Standing {
    /// Under way.
    Active,
    /// It has ended, and nobody has asked.
    Complete,
    /// Persistent and not started: it was never freed.
    Inactive,
}

fn standing_of(slot: &Request) -> Option<Standing> {
    match slot.phase() {
        Phase::Active => Some(Standing::Active),
        Phase::Complete => Some(Standing::Complete),
        Phase::Inactive => Some(Standing::Inactive),
        Phase::Free => None,
    }
}

fn operation_of(slot: &Request) -> Operation {
    if slot.sending().is_some() {
        Operation::Send
    } else if slot.is_receive() {
        Operation::Receive
    } else if slot.is_collective() {
        Operation::Collective
    } else {
        Operation::Other
    }
}

impl Engine {
    /// Finds what has come.
    pub(crate) fn settle(&mut self) {
        for _ in 0..LOOKS_BEFORE_DROPPING {
            if self.driven || !self.progress() {
                break;
            }
        }
    }

    /// Messages of point-to-point calls that no receive has taken.
    pub(crate) fn unreceived(&self) -> Vec<Unreceived> {
        let core = &self.core;
        let messages = core
            .matching
            .unexpected()
            .filter(|(envelope, _)| envelope.context.0 & 1 == 0);
        messages
            .filter_map(|(envelope, id)| {
                let message = core.unexpected.get(id)?;
                Some(Unreceived {
                    context: envelope.context.0,
                    from: message.from,
                    tag: message.envelope.tag,
                    bytes: message.envelope.size,
                })
            })
            .collect()
    }

    /// Messages of the standard's collectives that no call of this rank has taken, with what their senders did. None once a rank is lost:
    /// what was given up then leaves messages.
    pub(crate) fn stranded(&self) -> Vec<(Unreceived, CollectiveNote)> {
        let core = &self.core;
        if !core.lost.is_quiet() {
            return Vec::new();
        }
        let messages = core
            .matching
            .unexpected()
            .filter(|(envelope, _)| envelope.context.0 & 1 == 1 && envelope.tag.0 >= 0);
        let of_collectives = messages.filter_map(|(envelope, id)| {
            let message = core.unexpected.get(id)?;
            let (context, note) = (envelope.context.0, message.envelope.token.0);
            let note = CollectiveNote::from_bits(note);
            let is_told = message.envelope.kind == MessageKind::Eager
                && note != CollectiveNote::NOTHING
                && core.mismatches.of(context).is_none();
            let unreceived = Unreceived {
                context: context & !1,
                from: message.from,
                tag: message.envelope.tag,
                bytes: message.envelope.size,
            };
            is_told.then_some((unreceived, note))
        });
        of_collectives.collect()
    }

    /// How far a request is, if it is live.
    pub(crate) fn standing(&self, id: RequestId) -> Option<Standing> {
        standing_of(self.core.requests.get(id)?)
    }

    /// Requests of the program that it has not ended.
    pub(crate) fn unended(&self) -> Vec<Unended> {
        let live = self.core.requests.live();
        live.filter(|(_, slot)| slot.is_the_programs())
            .filter_map(|(id, slot)| {
                let standing = standing_of(slot)?;
                Some(Unended {
                    id,
                    context: slot.context(),
                    operation: operation_of(slot),
                    standing,
                })
            })
            .collect()
    }
}
