//! General active target synchronisation: start, complete, post, wait, test (MPI 5.0, section 12.5.2).
//!
//! A post is a message to each origin, and opens the gate of the member there: operations wait for it. A completion is a
//! message to each target, and follows the operations before it, so that these have been carried out when it arrives.

use weft_atomic::FenceMode;

use super::{Assertion, Window};
use crate::engine::one_sided::{AtWindow, Gate, WindowState};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

impl Window {
    /// The ranks of a group in the window.
    fn ranks_of(&self, group: &Group) -> Result<Vec<u32>> {
        let rank = |peer| {
            self.group().rank_of(peer).ok_or_else(|| {
                Error::new(
                    ErrorClass::Group,
                    format!(
                        "the group has rank {peer} of MPI_COMM_WORLD, which is no member of the window; take a subgroup of MPI_Win_get_group"
                    ),
                )
            })
        };
        group.members().map(rank).collect()
    }

    /// `MPI_Win_start`. Does not wait.
    ///
    /// # Errors
    /// `RmaSync` within an access epoch, `Group` for a process that is no member.
    pub fn start(&self, group: &Group, assertion: Assertion) -> Result<()> {
        let ranks = self.ranks_of(group)?;
        self.epoch.start(&ranks, assertion)?;
        self.stores.drain();
        if !assertion.no_check {
            let mut engine = self.engine();
            let window = engine.window(self.context());
            for rank in ranks {
                window.member_mut(rank).close(Gate::AwaitsPost);
            }
        }
        Ok(())
    }

    /// `MPI_Win_complete`: the buffers of this rank are free when it returns.
    ///
    /// # Errors
    /// `RmaSync` outside of the epoch; what operations have failed with; `ProcFailed` if a target is lost.
    pub fn complete(&self) -> Result<()> {
        let ranks = self.epoch.started()?;
        let done = |window: &mut WindowState| {
            let done = ranks.iter().all(|rank| {
                let member = window.member(*rank);
                member.is_open() && member.is_flushed_locally()
            });
            done.then_some(Ok(()))
        };
        let mut outcome = self.wait_until(AtWindow::Access(Some(&ranks)), done);
        FenceMode::Symmetric.light();
        let mut engine = self.engine();
        for &rank in &ranks {
            if let Some(error) = engine.window(self.context()).take_failure(Some(rank)) {
                outcome = outcome.and(Err(error));
            }
            let told = engine.tell_complete(self.context(), rank);
            outcome = outcome.and(told);
        }
        drop(engine);
        self.epoch.complete(&ranks);
        outcome
    }

    /// `MPI_Win_post`. Does not wait.
    ///
    /// # Errors
    /// `RmaSync` within an exposure epoch, `Group` for a process that is no member, `ProcFailed` if an origin is lost.
    pub fn post(&self, group: &Group, assertion: Assertion) -> Result<()> {
        let ranks = self.ranks_of(group)?;
        self.epoch.post(&ranks)?;
        FenceMode::Symmetric.light();
        let mut outcome = Ok(());
        if !assertion.no_check {
            let mut engine = self.engine();
            for rank in ranks {
                let told = engine.tell_post(self.context(), rank);
                outcome = outcome.and(told);
            }
        }
        outcome
    }

    /// `MPI_Win_wait`.
    ///
    /// # Errors
    /// `RmaSync` outside of an exposure epoch; `ProcFailed` if an origin is lost.
    pub fn wait(&self) -> Result<()> {
        let ranks = self.epoch.posted("MPI_Win_wait")?;
        let outcome = self.wait_until(AtWindow::Completes(&ranks), |window| {
            completed(window, &ranks)
        });
        self.end_exposure(&ranks);
        outcome
    }

    /// `MPI_Win_test`: whether the exposure epoch has ended.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn test(&self) -> Result<bool> {
        let ranks = self.epoch.posted("MPI_Win_test")?;
        let mut engine = self.engine();
        let context = self.context();
        let mut outcome = completed(engine.window(context), &ranks);
        if outcome.is_none() {
            engine.ask();
            outcome = completed(engine.window(context), &ranks);
        }
        drop(engine);
        let Some(outcome) = outcome else {
            return Ok(false);
        };
        self.end_exposure(&ranks);
        outcome.map(|()| true)
    }

    fn end_exposure(&self, ranks: &[u32]) {
        self.stores.drain();
        let mut engine = self.engine();
        let window = engine.window(self.context());
        for rank in ranks {
            window.member_mut(*rank).take_complete();
        }
        drop(engine);
        self.epoch.end_exposure();
    }
}

/// Whether all these origins have ended their access epochs; an error if one of them never will.
fn completed(window: &mut WindowState, ranks: &[u32]) -> Option<Result<()>> {
    let mut waited = ranks
        .iter()
        .map(|rank| window.member(*rank))
        .filter(|member| !member.has_completed());
    let Some(first) = waited.next() else {
        return Some(Ok(()));
    };
    let lost = first
        .lost()
        .or_else(|| waited.find_map(|member| member.lost()));
    lost.map(|error| Err(error.clone()))
}
