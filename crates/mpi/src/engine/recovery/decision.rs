//! Decision of an agreement: the members' contributions, the decision, and the receivers of it.

use std::fmt::Debug;

use weft_fabric::Peer;

use crate::error::Result;

/// What an agreement is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// `MPIX_Comm_agree`: on a flag.
    Agree,
    /// `MPIX_Comm_shrink`: on who is lost, and on a context.
    Shrink,
}

/// What a member brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contribution {
    pub purpose: Purpose,
    pub flag: u32,
    /// A context that this member leads: that of the member that decides is taken.
    pub context: u32,
    /// The losses that this member has acknowledged.
    pub acknowledged: Vec<Peer>,
    /// Those that it knows of.
    pub failed: Vec<Peer>,
}

/// How an agreement came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AgreementOutcome {
    /// Well.
    Agreed,
    /// Somebody is lost, and not all members have acknowledged that.
    Unacknowledged,
    /// Members have called it for different purposes.
    Mixed,
}

/// What is decided, the same at all members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decision {
    pub outcome: AgreementOutcome,
    /// The flags of all that have brought one, by bitwise and.
    pub flag: u32,
    pub context: u32,
    /// The members that are lost.
    pub failed: Vec<Peer>,
}

impl Decision {
    /// What follows from what the members have brought, and from the losses that whoever decides knows of.
    pub(super) fn of(own: &Contribution, others: &[&Contribution], failed: Vec<Peer>) -> Self {
        let all = || std::iter::once(own).chain(others.iter().copied());
        let acknowledged = |peer: &Peer| all().all(|one| one.acknowledged.contains(peer));
        let outcome = if all().any(|one| one.purpose != own.purpose) {
            AgreementOutcome::Mixed
        } else if failed.iter().all(acknowledged) {
            AgreementOutcome::Agreed
        } else {
            AgreementOutcome::Unacknowledged
        };
        Self {
            outcome,
            flag: all().fold(u32::MAX, |flag, one| flag & one.flag),
            context: own.context,
            failed,
        }
    }
}

/// The recipient of the decision when the request of a non-blocking agreement ends.
pub(crate) trait Decided: Debug + Send + Sync {
    /// It is decided. Called while the process is in use: to call the process from it panics.
    ///
    /// # Errors
    /// What the request ends with.
    fn decided(&self, decision: &Decision) -> Result<()>;
}
