//! What every component is: an event loop over its queues.
//!
//! ```text
//!   step ──moved something?──▶ step …
//!     │ nothing
//!   announce ──something came meanwhile──▶ step …
//!     │ nothing
//!   sleep until a neighbour rings or a deadline passes
//! ```
//!
//! [`Runner`] gives one component a thread (or a process) of its own; [`Fused`] lets several run in
//! turn as one.

mod client_driver;
mod driver;
mod pool;
mod rx_copier;
mod rx_mux;
mod tx_copier;
mod tx_mux;

pub use client_driver::ClientDriver;
pub use driver::{RxDriver, TxDriver};
pub use pool::Pool;
pub use rx_copier::RxCopier;
pub use rx_mux::{Address, RxMux};
pub use tx_copier::TxCopier;
pub use tx_mux::TxMux;

use std::io;
use std::os::fd::BorrowedFd;

use weft_sys::event::EventWaiter;
use weft_sys::{clock, cores};

use crate::board::Board;

/// Frames that a component moves in one step at most, per queue, so that no neighbour waits long.
pub const BURST: usize = 64;

/// A part of the system.
pub trait Component: Send {
    /// Works for a bounded time; true if anything was moved. `now`: nanoseconds of the monotonic
    /// clock, or of virtual time.
    fn step(&mut self, now: u64) -> bool;

    /// Asks all neighbours that matter to ring; true if there is something to do already.
    #[must_use = "with something to do there is no bell to wait for"]
    fn announce(&mut self) -> bool;

    /// When it wants to run even if nobody rings.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Whether those it hands frames to are far behind. Then it gives way after a step: what it moves
    /// while they get no processor would only be dropped further on.
    fn is_ahead(&mut self) -> bool {
        false
    }

    /// A descriptor beside the bells that makes it runnable when readable.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called before the thread ends.
    fn finish(&mut self) {}
}

/// Several components that run in turn, as one.
#[derive(Default)]
pub struct Fused(Vec<Box<dyn Component>>);

impl Fused {
    /// Runs this one too, after all others.
    pub fn push(&mut self, component: Box<dyn Component>) {
        self.0.push(component);
    }

    /// Runs the last one no longer.
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
        // All announce, also after one has found something: the rest is then rung in vain once.
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
        // Whoever lies behind may be one of them; those outside are behind any of them.
        self.0.iter_mut().any(|component| component.is_ahead())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.iter().find_map(|component| component.descriptor())
    }

    fn finish(&mut self) {
        for component in &mut self.0 {
            component.finish();
        }
    }
}

/// A component with all that it needs to run alone.
pub struct Runner {
    /// What runs.
    pub component: Box<dyn Component>,
    /// Where its neighbours ring.
    pub ear: EventWaiter,
    /// Where it is told to stop.
    pub board: Board,
}

/// How old the processor time on a board may be, in nanoseconds: asking for it is a system call.
const SHOWN: u64 = 1_000_000;

impl Runner {
    /// Runs until the board says stop.
    ///
    /// # Errors
    /// If the kernel refuses to let it sleep, or an order could not be followed.
    pub fn run(mut self) -> io::Result<()> {
        if let Some(descriptor) = self.component.descriptor() {
            self.ear.watch(&descriptor)?;
        }
        let mut shown = 0;
        while !self.board.stopped() {
            if let Some(error) = self.board.failure() {
                return Err(io::Error::new(error.kind(), error.to_string()));
            }
            let mut now = clock::monotonic();
            let mut steps = 0u32;
            while self.component.step(now) {
                now = clock::monotonic();
                steps += 1;
                if self.component.is_ahead() {
                    cores::yield_core();
                }
                if steps.is_multiple_of(1024) {
                    self.board.set_time(clock::thread_time());
                    if self.board.stopped() || self.board.failure().is_some() {
                        break;
                    }
                }
            }
            if now >= shown + SHOWN {
                shown = now;
                self.board.set_time(clock::thread_time());
            }
            if self.component.announce() || self.board.stopped() {
                continue;
            }
            self.ear.wait(self.component.deadline())?;
        }
        self.component.finish();
        self.board.set_time(clock::thread_time());
        Ok(())
    }
}
