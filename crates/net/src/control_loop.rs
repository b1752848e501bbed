//! Control loop: the one place where a component follows the orders of the broker and reports what it has
//! counted. Around each step of its stage:
//!
//! ```text
//!   orders changed? ──yes──▶ channels reattached, regions replaced, policy set ──▶ acknowledged
//!     │ no                                                                           │
//!     ▼                                                                              ▼
//!   step of the stage: frames are moved and counted ──▶ counters that differ are reported
//! ```
//!
//! A stage does not see the control page and does not know orders: it is told what has changed, and is lent
//! its counters for a step. An order that cannot be followed is never acknowledged, so that nobody believes
//! that the old memory is released; the component ends.

use std::io;
use std::os::fd::BorrowedFd;

use crate::component::Component;
use crate::control::{ControlPort, Counters};
use crate::stage::Stage;

/// A stage under control of the broker.
pub struct ControlLoop<S> {
    port: ControlPort,
    stage: S,
}

impl<S: Stage> ControlLoop<S> {
    /// Controls this stage, whose ports are those of the control port.
    #[must_use]
    pub fn new(port: ControlPort, stage: S) -> Self {
        Self { port, stage }
    }

    /// The stage.
    pub fn stage(&mut self) -> &mut S {
        &mut self.stage
    }

    /// Follows orders, runs `work` on the stage, reports what was counted.
    #[inline]
    pub fn round<R>(&mut self, work: impl FnOnce(&mut S, &mut [Counters]) -> R) -> R {
        if self.port.is_changed() {
            self.follow();
        }
        let result = work(&mut self.stage, self.port.counters());
        self.port.report();
        result
    }

    /// Asks to be notified of orders and of frames; true if there is something already.
    #[must_use = "with something to do there is no event to wait for"]
    pub fn announce(&mut self) -> bool {
        let came = self.stage.announce();
        came || self.port.is_changed()
    }

    #[cold]
    fn follow(&mut self) {
        let changes = self.port.changes();
        let followed = self.follow_memory();
        if let Some(choice) = self.port.new_policy() {
            self.stage.set_policy(&choice);
        }
        self.port.followed(changes, followed);
    }

    fn follow_memory(&mut self) -> io::Result<()> {
        for change in self.port.reattachments()? {
            self.stage.reattach(change, self.port.counters())?;
        }
        for region in self.port.regions() {
            self.stage.replace_region(region, self.port.counters())?;
        }
        Ok(())
    }
}

impl<S: Stage> Component for ControlLoop<S> {
    #[inline]
    fn step(&mut self, now: u64) -> bool {
        self.round(|stage, counters| stage.step(now, counters))
    }

    fn announce(&mut self) -> bool {
        self.announce()
    }

    fn deadline(&self) -> Option<u64> {
        self.stage.deadline()
    }

    fn is_ahead(&mut self) -> bool {
        self.stage.is_ahead()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stage.descriptor()
    }
}
