//! Component: a part of the system that runs in an event loop over its queues.
//!
//! ```text
//!   step ──moved something?──▶ step …
//!     │ nothing
//!   announce ──something came meanwhile──▶ step …
//!     │ nothing
//!   sleep until a neighbour notifies or a deadline passes
//! ```
//!
//! A [`Runner`](crate::runner::Runner) gives one component a thread (or a process) of its own; [`Fused`] lets several run in
//! turn as one.

use std::os::fd::BorrowedFd;

/// A part of the system.
pub trait Component: Send {
    /// Works for a bounded time; true if anything was moved. `now`: nanoseconds of the monotonic
    /// clock, or of virtual time.
    fn step(&mut self, now: u64) -> bool;

    /// Asks all relevant neighbours to notify; true if there is something to do already.
    #[must_use = "with something to do there is no event to wait for"]
    fn announce(&mut self) -> bool;

    /// When it wants to run even if nobody notifies it.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Whether its receivers are far behind. Then it yields after a step: frames moved while they have no
    /// processor would only be dropped later.
    fn is_ahead(&mut self) -> bool {
        false
    }

    /// A descriptor beside the events that makes it runnable when readable.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Several components that run in turn, as one.
#[derive(Default)]
pub struct Fused(Vec<Box<dyn Component>>);

impl Fused {
    /// Runs this one too, after all others.
    pub fn push(&mut self, component: Box<dyn Component>) {
        self.0.push(component);
    }

    /// Removes the last one.
    pub fn pop(&mut self) -> Option<Box<dyn Component>> {
        self.0.pop()
    }
}

impl From<Vec<Box<dyn Component>>> for Fused {
    fn from(components: Vec<Box<dyn Component>>) -> Self {
        Self(components)
    }
}

impl Component for Fused {
    fn step(&mut self, now: u64) -> bool {
        let mut moved = false;
        for component in &mut self.0 {
            moved |= component.step(now);
        }
        moved
    }

    fn announce(&mut self) -> bool {
        // All announce, even after one has found something: the others are then notified once for nothing.
        let mut found = false;
        for component in &mut self.0 {
            found |= component.announce();
        }
        found
    }

    fn deadline(&self) -> Option<u64> {
        self.0
            .iter()
            .filter_map(|component| component.deadline())
            .min()
    }

    fn is_ahead(&mut self) -> bool {
        // The one that is behind may be one of them; those outside are behind any of them.
        self.0.iter_mut().any(|component| component.is_ahead())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.iter().find_map(|component| component.descriptor())
    }
}
