//! Later members: processes that are started while the job runs, and that have a number one after the other.
//!
//! ```text
//!   directory   another version ─► the endpoint of TCP beside looks ─► Sink::succeeded, then messages of the new one
//! ```
//!
//! Which process has a number, the endpoint of TCP tells, in one order with who is lost: so a loss is never taken for one of the
//! process that has the number by then. This endpoint asks for the card alone, and tells the processes apart by the number that
//! each has drawn, which goes into the passes of both directions.

use crate::card::Card;

/// Who tells where later members are. Its calls do not wait.
pub trait Directory: Send {
    /// Changes whenever the answer to the other question does.
    fn version(&self) -> u32;

    /// Where a member is that was started later; `None` if nobody is there.
    fn card(&self, peer: u32) -> Option<Card>;
}

/// The directory of a job, if it grows, and up to where this endpoint knows it.
#[derive(Default)]
pub struct Later {
    directory: Option<Box<dyn Directory>>,
    version: u32,
}

impl Later {
    /// What this directory says from now on.
    pub fn new(directory: Option<Box<dyn Directory>>) -> Self {
        let version = directory.as_ref().map_or(0, |found| found.version());
        Self { directory, version }
    }

    /// Whether it says something else than it did.
    #[inline]
    pub fn is_stale(&self) -> bool {
        match &self.directory {
            None => false,
            Some(directory) => directory.version() != self.version,
        }
    }

    /// What it says now is being looked at.
    pub fn renew(&mut self) {
        self.version = self.directory.as_ref().map_or(0, |found| found.version());
    }

    /// Where a later member is.
    pub fn card(&self, peer: u32) -> Option<Card> {
        self.directory.as_ref()?.card(peer)
    }
}
