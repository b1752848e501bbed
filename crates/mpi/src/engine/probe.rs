//! Probes: looking for a message that arrived before its receive, or for the loss of a possible sender.

use std::sync::Arc;

use weft_fabric::Peer;

use super::start::pattern;
use super::status::Outcome;
use super::unexpected::Unexpected;
use super::waiters::Queue;
use super::{Core, Engine};
use crate::error::Error;
use crate::group::Group;
use crate::waits::Operation;

/// What a probe looks for.
#[derive(Debug)]
pub(crate) struct Probe {
    context: u32,
    from: Option<Peer>,
    tag: Option<i32>,
    group: Option<Arc<Group>>,
}

impl Probe {
    /// A probe with the arguments of a receive; `None` stands for any.
    pub(crate) fn new(
        context: u32,
        from: Option<Peer>,
        tag: Option<i32>,
        group: Option<Arc<Group>>,
    ) -> Self {
        Self {
            context,
            from,
            tag,
            group,
        }
    }

    /// Where it waits.
    pub(super) fn queue(&self) -> Queue {
        Queue::Message {
            context: self.context,
            tag: self.tag,
        }
    }

    /// What it waits for.
    pub(super) fn awaited(&self) -> Operation {
        Operation::Message {
            from: self.from.map(|peer| peer.0),
            tag: self.tag,
            context: self.context,
            room: None,
        }
    }

    /// The message that a receive would get, which stays.
    pub(crate) fn peek(&self, engine: &mut Engine) -> Option<Outcome> {
        let core = &mut engine.core;
        let pattern = pattern(self.context, self.from, self.tag);
        match core.matching.peek(pattern) {
            Some((_, id)) => core.unexpected.get(id).map(outcome_of),
            None => {
                engine.want_withheld(self.context, self.from, self.tag);
                None
            }
        }
    }

    /// The message that a receive would get, for [`Engine::start_probed_receive`].
    pub(crate) fn take(&self, engine: &mut Engine) -> Option<Unexpected> {
        let core = &mut engine.core;
        let pattern = pattern(self.context, self.from, self.tag);
        let Some((_, id)) = core.matching.take(pattern) else {
            engine.want_withheld(self.context, self.from, self.tag);
            return None;
        };
        let message = engine.take_kept(id);
        engine.core.note_probed(&message);
        Some(message)
    }

    /// The error of the probe, if the communicator is revoked, if nobody is left to send such a message, or if the loss of
    /// one who might is not acknowledged.
    pub(crate) fn lost(&self, engine: &Engine) -> Option<Error> {
        let lost = &engine.core.lost;
        if lost.is_quiet() {
            return None;
        }
        let group = self.group.as_deref();
        let revoked = lost.refusal(self.context);
        revoked
            .or_else(|| engine.nobody_sends(self.from, group))
            .or_else(|| match self.from {
                Some(_) => None,
                None => lost.unacknowledged(self.context, group),
            })
    }
}

impl Core {
    /// A probe has taken a message.
    #[inline(always)]
    pub(super) fn note_probed(&self, message: &Unexpected) {
        let bytes = message.data.len() as u64;
        self.counters.unexpected_gone.add(bytes);
    }
}

/// What the status of a receive of the message would say.
pub(crate) fn outcome_of(message: &Unexpected) -> Outcome {
    Outcome {
        source: Some(message.from),
        tag: message.envelope.tag,
        bytes: message.envelope.size,
        ..Outcome::default()
    }
}
