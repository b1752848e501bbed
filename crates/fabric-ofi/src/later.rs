//! Later members: processes that are started while the job runs, under numbers that may be reused.
//!
//! ```text
//!   directory   another version ─► the endpoint of TCP beside looks ─► Sink::replaced, then messages of the new one
//! ```
//!
//! The TCP endpoint reports which process has a number, in one order with losses: so a loss is never attributed to the process
//! that has the number by then. This endpoint only reads the card, and distinguishes the processes by the number that each has
//! drawn, which enters the passes of both directions.

use crate::card::Card;

/// Tells where later members are. Its calls do not wait.
pub trait Directory: Send {
    /// Changes whenever the answer of the other method does.
    fn version(&self) -> u32;

    /// The card of a member that was started later; `None` if nobody is there.
    fn card(&self, peer: u32) -> Option<Card>;
}

/// The directory of a job, if it grows, and the version that this endpoint has read.
#[derive(Default)]
pub struct Later {
    directory: Option<Box<dyn Directory>>,
    version: u32,
}

impl Later {
    /// Begins to follow this directory.
    pub fn new(directory: Option<Box<dyn Directory>>) -> Self {
        let version = directory.as_ref().map_or(0, |found| found.version());
        Self { directory, version }
    }

    /// Whether it has changed since it was last read.
    #[inline]
    pub fn is_stale(&self) -> bool {
        match &self.directory {
            None => false,
            Some(directory) => directory.version() != self.version,
        }
    }

    /// Notes that it is being read.
    pub fn renew(&mut self) {
        self.version = self.directory.as_ref().map_or(0, |found| found.version());
    }

    /// The card of a later member.
    pub fn card(&self, peer: u32) -> Option<Card> {
        self.directory.as_ref()?.card(peer)
    }
}
