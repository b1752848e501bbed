//! Fence: all operations of all members are done, then the next may begin (MPI 5.0, section 12.5.1).

use super::{Assertion, Window};
use crate::coll::Collective;
use crate::error::Result;

impl Window {
    /// `MPI_Win_fence`.
    ///
    /// # Errors
    /// `RmaSync` within an epoch of another kind; what operations have failed with; `ProcFailed` if a member is lost.
    pub fn fence(&self, assertion: Assertion) -> Result<()> {
        self.epoch.begin_fence()?;
        let flushed = self.flush_members(None);
        let met = self.barrier();
        self.epoch.end_fence(assertion);
        flushed.and(met)
    }

    /// Waits for all members.
    pub(super) fn barrier(&self) -> Result<()> {
        // What was stored directly is there before anybody is told so; loads after the barrier come after all that was stored before it.
        self.stores.publish();
        if self.comm.meet_at_once(|engine| self.tell_counts(engine)) {
            return Ok(());
        }
        self.tell_counts(&mut self.engine());
        self.comm.run(Collective::Barrier)
    }
}
