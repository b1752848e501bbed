//! Going on after a loss: what the ranks that are left do when another one has died (user-level failure mitigation).
//!
//! An operation with a dead rank ends in an error of class [`ProcFailed`](super::ErrorClass::ProcFailed). Others may still
//! wait for a rank that has this error and does something else now; [`revoke`](Communicator::revoke) tells them.
//! [`shrink`](Communicator::shrink) then makes a communicator of those that are left.

use weft_mpi::Result;

use super::communicator::Communicator;
use super::group::Group;
use super::state::RankState;

/// What the ranks of a communicator have agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Agreement {
    /// The bitwise and of what all have brought, the same at all that live.
    pub flag: i32,
    /// An error of class `ProcFailed`, at all alike, if a rank is lost and not all others have acknowledged that.
    pub losses: Result<()>,
}

impl Communicator {
    /// This rank goes on when others die: if all ranks of the job say so, or have called anything else of this page, it does
    /// not end with the first death. To be said before anybody may die.
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

    /// Ends what is under way on this communicator, and what is begun later, in an error of class
    /// [`Revoked`](super::ErrorClass::Revoked) at all ranks (`MPIX_Comm_revoke`); but not [`agree`](Self::agree) and
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

    /// Whether this rank has heard that it is revoked (`MPIX_Comm_is_revoked`).
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.comm().is_revoked()
    }

    /// The ranks that are known here to be lost, in the order in which that became known (`MPIX_Comm_get_failed`).
    #[must_use]
    pub fn failed(&self) -> Group {
        note_use(self.state());
        Group::of(std::sync::Arc::new(self.comm().failed()))
    }

    /// Acknowledges the first `most` of [`failed`](Self::failed), and answers how many are acknowledged
    /// (`MPIX_Comm_ack_failed`): receives from [`Any`](super::Any) go on without those.
    pub fn acknowledge_failed(&self, most: usize) -> usize {
        note_use(self.state());
        self.comm().acknowledge_failed(most)
    }

    /// Agrees with all ranks that live, also if others die meanwhile, and if it is revoked (`MPIX_Comm_agree`). Collective.
    pub fn agree(&self, flag: i32) -> Agreement {
        note_use(self.state());
        let mut agreed = flag;
        let losses = self.comm().agree(&mut agreed);
        Agreement {
            flag: agreed,
            losses,
        }
    }

    /// A communicator of those that are left, in their order (`MPIX_Comm_shrink`). Collective among them. Who dies meanwhile
    /// may be in it.
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
