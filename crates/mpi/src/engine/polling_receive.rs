//! Polling receive: the receive of a call that [polls](super::at_once), which is in no table.
//!
//! ```text
//!   Closed ── open ──► Open ── fill ──► Filled ── close ──► Closed
//! ```

use std::mem::take;

use weft_fabric::{Peer, Region};

use crate::datatype::SignatureCode;

/// A message that was received: from which process, with which tag, of how many bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub from: Peer,
    pub tag: i32,
    pub bytes: usize,
}

/// The same as the caller sees it: from which rank of the communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The sender.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// Bytes of data.
    pub bytes: u64,
}

impl Met {
    /// As the caller sees it, to whom the sender has this rank.
    #[inline]
    pub fn received(self, source: u32) -> Received {
        Received {
            source,
            tag: self.tag,
            bytes: self.bytes as u64,
        }
    }
}

/// The receive of a call that polls, and of which no table knows.
#[derive(Debug, Default)]
pub(super) struct PollingReceive {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody looks, or what is looked for has come and waits for another receive.
    #[default]
    Closed,
    /// It takes the first message that matches.
    Open(Wanted),
    /// It has one.
    Filled(Met),
}

/// What a receive looks for, and where the message goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub context: u32,
    pub from: Option<Peer>,
    pub tag: Option<i32>,
    pub into: Region,
    pub signature: SignatureCode,
}

impl Wanted {
    /// Whether it has room for data, and they are what it expects.
    #[inline]
    pub(super) fn takes(&self, length: usize, signature: SignatureCode) -> bool {
        takes(&self.into, self.signature, length, signature)
    }
}

/// Whether a buffer has room for so many bytes, and they are what it expects.
#[inline(always)]
pub(super) fn takes(
    into: &Region,
    expected: SignatureCode,
    length: usize,
    signature: SignatureCode,
) -> bool {
    length <= into.len() && (signature == expected || length == 0 || signature.fits(expected))
}

impl PollingReceive {
    /// Looks for this from now on.
    #[inline(always)]
    pub(super) fn open(&mut self, wanted: Wanted) {
        self.state = State::Open(wanted);
    }

    /// It has a message.
    #[inline(always)]
    pub(super) fn fill(&mut self, met: Met) {
        self.state = State::Filled(met);
    }

    /// Looks no more: the message that it has got.
    #[inline(always)]
    pub(super) fn close(&mut self) -> Option<Met> {
        match take(&mut self.state) {
            State::Filled(met) => Some(met),
            State::Closed | State::Open(_) => None,
        }
    }

    /// Whether it takes a message that comes.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The receive that looks, if a message that met no posted one is for it.
    #[inline(always)]
    pub(super) fn of(&self, from: Peer, context: u32, tag: i32) -> Option<&Wanted> {
        match &self.state {
            State::Open(wanted)
                if wanted.context == context
                    && wanted.from.is_none_or(|peer| peer == from)
                    && wanted.tag.is_none_or(|wanted| wanted == tag) =>
            {
                Some(wanted)
            }
            _ => None,
        }
    }
}
