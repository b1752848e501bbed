//! Stages of the datapath: each moves frames between its ports, and does not know the broker
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

/// Most frames that a stage moves in one step, per queue, so that no neighbour waits long.
pub const BURST: usize = 64;

/// A stage of the datapath: moves frames between its ports. `counters` are those of its ports, in order.
pub trait Stage: Send {
    /// Works for a bounded time; true if anything was moved. `now`: nanoseconds of the monotonic
    /// clock, or of virtual time.
    fn step(&mut self, now: u64, counters: &mut [Counters]) -> bool;

    /// Asks all relevant neighbours to notify; true if there is something to do already.
    #[must_use = "with something to do there is no event to wait for"]
    fn announce(&mut self) -> bool;

    /// The channel at a port has entered another generation, or was replaced: buffers that the other side had
    /// come back.
    ///
    /// # Errors
    /// If the new memory cannot be mapped: the stage cannot continue.
    fn reattach(&mut self, change: Reattachment, counters: &mut [Counters]) -> io::Result<()>;

    /// From now on frames of a client are in another region. Only stages that send them are told.
    ///
    /// # Errors
    /// If it cannot be mapped.
    fn replace_region(&mut self, region: NewRegion, counters: &mut [Counters]) -> io::Result<()> {
        let _ = (region, counters);
        Ok(())
    }

    /// Sets the policy. Only stages that have one are told.
    fn set_policy(&mut self, choice: &Choice) {
        let _ = choice;
    }

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
