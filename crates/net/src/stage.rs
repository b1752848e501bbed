//! Stages of the datapath: each moves frames between its ports, and knows nothing of the broker
//! ([`ControlLoop`](crate::control_loop::ControlLoop) does).

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
pub use rx_mux::RxMux;
pub use tx_copier::TxCopier;
pub use tx_mux::TxMux;

use std::io;
use std::os::fd::BorrowedFd;

use crate::control::Counters;
use crate::control::orders::{NewRegion, Reattachment};
use crate::policy::Choice;

/// Frames that a stage moves in one step at most, per queue, so that no neighbour waits long.
pub const BURST: usize = 64;

/// A stage of the datapath: moves frames between its ports. `counters` are those of its ports, in order.
pub trait Stage: Send {
    /// Works for a bounded time; true if anything was moved. `now`: nanoseconds of the monotonic
    /// clock, or of virtual time.
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool;

    /// Asks all neighbours that matter to notify; true if there is something to do already.
    #[must_use = "with something to do there is no event to wait for"]
    fn announce(&mut self) -> bool;

    /// The channel at a port has gone to another generation, or is another one: buffers that the other side
    /// had come back.
    ///
    /// # Errors
    /// If what came cannot be mapped: the stage cannot go on.
    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()>;

    /// Frames of a client lie in another region from now on. Only who sends them is told.
    ///
    /// # Errors
    /// If it cannot be mapped.
    fn replace_region(&mut self, region: NewRegion, counters: &mut [Counters]) -> io::Result<()> {
        let _ = (region, counters);
        Ok(())
    }

    /// This policy from now on. Only who has one is told.
    fn set_policy(&mut self, choice: &Choice) {
        let _ = choice;
    }

    /// When it wants to run even if nobody notifies it.
    fn deadline(&self) -> Option<u64> {
        None
    }

    /// Whether those it hands frames to are far behind. Then it gives way after a step: what it moves
    /// while they get no processor would only be dropped further on.
    fn is_ahead(&mut self) -> bool {
        false
    }

    /// A descriptor beside the events that makes it runnable when readable.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
