//! Recovery from losses: how the remaining ranks go on when another one has died (user-level failure mitigation).
//!
//! An operation with a dead rank ends in an error of class [`ProcFailed`](super::ErrorClass::ProcFailed). Other ranks may
//! still wait for a rank that got this error and now does something else; [`revoke`](Communicator::revoke) tells them.
//! [`shrink`](Communicator::shrink) then makes a communicator of the remaining ranks.

use weft_mpi::Result;

use super::communicator::Communicator;
use super::group::Group;
use super::state::RankState;

/// Result of an agreement among the ranks of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Agreement {
    /// The bitwise and of all ranks' values, the same at all living ranks.
    pub flag: i32,
    /// An error of class `ProcFailed`, the same at all ranks, if a rank is lost and not all others have acknowledged
    /// that.
    pub losses: Result<()>,
}

impl Communicator {
    /// Declares that this rank goes on when others die: if all ranks of the job do so, or have called any other function
    /// of this page, the job does not end with the first death. Call it before any rank may die.
    ///
    /// ```no_run
    /// use weft::mpi::{self, op};
    ///
    /// fn main() -> mpi::Result<()> {
    ///     mpi::run(|world| {
    ///         world.handle_losses();
    ///         let mut ranks = world.duplicate()?;
    ///         for _ in 0..1000 {
    ///             let sum = ranks.allreduce(&1, op::sum());
    ///             if sum.is_err() {
    ///                 ranks.revoke();
    ///             }
    ///             if ranks.agree(i32::from(sum.is_ok())).flag == 0 {
    ///                 ranks = ranks.shrink()?;
    ///             }
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn handle_losses(&self) {
        note_use(self.state());
    }

    /// Ends all operations under way on this communicator, and later ones, with an error of class
    /// [`Revoked`](super::ErrorClass::Revoked) at all ranks (`MPIX_Comm_revoke`), except [`agree`](Self::agree) and
    /// [`shrink`](Self::shrink).
    ///
    /// ```
    /// use weft::mpi::{self, Any, ErrorClass};
    ///
    /// mpi::test(3, |world| {
    ///     let ranks = world.duplicate()?;
    ///     if ranks.rank() == 1 {
    ///         ranks.revoke();
    ///     }
    ///     // Nobody sends it.
    ///     let error = ranks.receive::<i32>(Any, Any).unwrap_err();
    ///     assert_eq!(error.class(), ErrorClass::Revoked);
    ///     assert_eq!(ranks.agree(0b110 | ranks.rank() as i32).flag, 0b110);
    ///     let left = ranks.shrink()?;
    ///     assert_eq!((left.size(), left.rank()), (3, ranks.rank()));
    ///     left.barrier()
    /// });
    /// ```
    pub fn revoke(&self) {
        note_use(self.state());
        self.comm().revoke();
    }

    /// Whether this rank knows that the communicator is revoked (`MPIX_Comm_is_revoked`).
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.comm().is_revoked()
    }

    /// The ranks that are known here to be lost, in the order in which the losses became known (`MPIX_Comm_get_failed`).
    #[must_use]
    pub fn failed(&self) -> Group {
        note_use(self.state());
        Group::of(std::sync::Arc::new(self.comm().failed()))
    }

    /// Acknowledges the first `most` of [`failed`](Self::failed), and returns how many are acknowledged
    /// (`MPIX_Comm_ack_failed`): receives from [`Any`](super::Any) go on without those.
    pub fn acknowledge_failed(&self, most: usize) -> usize {
        note_use(self.state());
        self.comm().acknowledge_failed(most)
    }

    /// Agrees with all living ranks, even if others die meanwhile, or the communicator is revoked (`MPIX_Comm_agree`).
    /// Collective.
    pub fn agree(&self, flag: i32) -> Agreement {
        note_use(self.state());
        let mut agreed = flag;
        let losses = self.comm().agree(&mut agreed);
        Agreement {
            flag: agreed,
            losses,
        }
    }

    /// A communicator of the remaining ranks, in their order (`MPIX_Comm_shrink`). Collective among them. A rank that
    /// dies meanwhile may be in it.
    ///
    /// # Errors
    /// If no context is left.
    pub fn shrink(&self) -> Result<Self> {
        note_use(self.state());
        let made = self.handle().comm.shrink()?;
        Ok(Self::new(self.made(made)))
    }
}

/// The program makes something of losses.
fn note_use(state: &RankState) {
    if !state.process().is_prepared_for_losses() {
        state.process().prepare_for_losses();
        state.handles_losses();
    }
}
