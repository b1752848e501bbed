//! Recovery after a loss: revoking a communicator, agreeing, and making a smaller one of the remaining members (the
//! extension for user-level failure mitigation).
//!
//! ```text
//!   an error of class `ProcFailed` ──► revoke: all members get `Revoked`
//!                                        └──► shrink: a communicator of those that are left
//!   acknowledge: receives from anybody go on, agreements do not mind
//! ```
//!
//! [`engine::recovery`](crate::engine) says how all come to the same decision.

use std::sync::{Arc, OnceLock};

use weft_atomic::Ordering;
use weft_fabric::{Peer, Region};

use super::{Comm, Remote, Shape, UNNAMED};
use crate::engine::{AgreementOutcome, Contribution, Decided, Decision, Purpose, RequestId};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

/// A communicator that [`Comm::ishrink`] makes: there when the request has ended.
#[derive(Debug)]
pub struct Shrinking {
    parent: Arc<Comm>,
    made: OnceLock<Arc<Comm>>,
}

impl Shrinking {
    /// The communicator, once the request has ended well.
    #[must_use]
    pub fn made(&self) -> Option<Arc<Comm>> {
        self.made.get().cloned()
    }
}

/// Of whoever wants the communicator as soon as it is there.
type Publish = Box<dyn Fn(&Arc<Comm>) -> Result<()> + Send + Sync>;

/// Makes the communicator when it is decided who is left.
struct Maker {
    shrinking: Arc<Shrinking>,
    publish: Option<Publish>,
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Maker")
    }
}

impl Decided for Maker {
    fn decided(&self, decision: &Decision) -> Result<()> {
        let parent = &self.shrinking.parent;
        check_purpose(decision)?;
        if decision.context == UNNAMED {
            return Err(Error::new(
                ErrorClass::Other,
                "the process that leads the creation of this communicator has no context left; create communicators once and reuse them",
            ));
        }
        let left = |group: &Group| {
            let members = group.members();
            Group::of(
                members
                    .filter(|peer| !decision.failed.contains(peer))
                    .collect(),
            )
        };
        let group = Arc::new(left(&parent.group));
        let shape = match &parent.shape {
            Shape::Between(remote) => {
                let remote = left(&remote.group);
                if remote.size() == 0 {
                    return Err(Error::new(
                        ErrorClass::ProcFailed,
                        "all processes of the remote group are lost; go on with the local group",
                    ));
                }
                Shape::Between(Remote::of(&group, Arc::new(remote), None))
            }
            Shape::Plain | Shape::On(..) => Shape::Plain,
        };
        let made = Comm::assemble(parent.process(), decision.context, group, shape);
        let made = made.ok_or_else(|| {
            Error::new(
                ErrorClass::ProcFailed,
                "the other members have agreed that this process is lost; end it",
            )
        })?;
        if let Some(publish) = &self.publish {
            publish(&made)?;
        }
        _ = self.shrinking.made.set(made);
        Ok(())
    }
}

/// Writes the flag that was agreed on.
#[derive(Debug)]
struct FlagWriter(Region);

impl Decided for FlagWriter {
    fn decided(&self, decision: &Decision) -> Result<()> {
        check_purpose(decision)?;
        self.0.copy_from_slice(&decision.flag.to_ne_bytes());
        if decision.outcome == AgreementOutcome::Unacknowledged {
            let lost: Vec<String> = decision
                .failed
                .iter()
                .map(|peer| peer.0.to_string())
                .collect();
            return Err(Error::new(
                ErrorClass::ProcFailed,
                format!(
                    "the members agree, but for rank {} of MPI_COMM_WORLD, which is lost, and not all have acknowledged that; the flag is the same at all that are left (acknowledge losses before: MPIX_Comm_ack_failed)",
                    lost.join(", ")
                ),
            ));
        }
        Ok(())
    }
}

fn check_purpose(decision: &Decision) -> Result<()> {
    if decision.outcome != AgreementOutcome::Mixed {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Other,
        "some ranks are in MPIX_Comm_agree and others in MPIX_Comm_shrink; all ranks of a communicator must call the same in the same order",
    ))
}

impl Comm {
    /// An error if this communicator is revoked.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.lock().check_usable(self.context())
    }

    /// `MPIX_Comm_revoke`: operations under way on this communicator, and later ones, end with an error of class
    /// `Revoked` at all members, except [`agree`](Self::agree), [`shrink`](Self::shrink) and the functions that report
    /// losses.
    pub fn revoke(&self) {
        // Another job has other numbers for these members: it hears nothing of it.
        let everybody = self.everybody();
        let members = everybody.members();
        let members: Vec<Peer> = members
            .filter(|peer| self.meeting().is_none() || peer.0 < self.process.peers())
            .collect();
        for part in self.with_parts() {
            part.lock().revoke(part.context(), &members);
        }
    }

    /// `MPIX_Comm_is_revoked`: whether this rank knows that it is revoked.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.with_parts().any(|part| {
            let mut engine = part.lock();
            engine.look();
            engine.is_revoked(part.context())
        })
    }

    /// `MPIX_Comm_get_failed`: the members that this rank knows to be lost, in the order in which it learned of the
    /// losses.
    #[must_use]
    pub fn failed(&self) -> Group {
        let everybody = self.everybody();
        self.hear_of_losses(&everybody);
        Group::of(self.lock().failed(Some(&everybody)))
    }

    /// `MPIX_Comm_failure_get_acked`: those of them that this rank has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> Group {
        let everybody = self.everybody();
        let engine = self.lock();
        Group::of(engine.acknowledged(self.context(), Some(&everybody)))
    }

    /// `MPIX_Comm_ack_failed`: acknowledges the first `most` of [`failed`](Self::failed); returns how many are
    /// acknowledged. Receives from `MPI_ANY_SOURCE` go on without those, and they are no error of [`agree`](Self::agree)
    /// once all members have acknowledged them.
    pub fn acknowledge_failed(&self, most: usize) -> usize {
        let everybody = self.everybody();
        let mut engine = self.lock();
        let count = engine.acknowledge(self.context(), Some(&everybody), most);
        if self.is_divided() {
            let acknowledged = engine.acknowledged(self.context(), Some(&everybody));
            drop(engine);
            for part in self.with_parts().skip(1) {
                part.lock().acknowledge_these(part.context(), &acknowledged);
            }
        }
        count
    }

    /// What the engines of its parts know of losses, its own engine knows from now on.
    fn hear_of_losses(&self, everybody: &Group) {
        for part in self.with_parts().skip(1) {
            let lost = part.lock().losses(everybody);
            let mut engine = self.lock();
            lost.iter()
                .for_each(|(peer, reason)| engine.hear_lost(*peer, reason));
        }
    }

    /// `MPIX_Comm_agree`: the bitwise and of the flags of all members, the same at all living ones, whichever members die
    /// meanwhile.
    ///
    /// # Errors
    /// `ProcFailed`, the same at all members, if one is lost and not all others have acknowledged that; the flag is
    /// agreed on all the same.
    pub fn agree(&self, flag: &mut i32) -> Result<()> {
        let mut bytes = flag.to_ne_bytes();
        let region = crate::buffer::region_of(&mut bytes);
        let request = self.iagree(region)?;
        let outcome = self.process.wait(request).map(drop);
        let mut agreed = [0; 4];
        region.copy_to_slice(&mut agreed);
        *flag = i32::from_ne_bytes(agreed);
        outcome
    }

    /// `MPIX_Comm_iagree`: of the flag in these four bytes, which are written when the request ends.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live. The request ends as [`agree`](Self::agree).
    pub fn iagree(&self, flag: Region) -> Result<RequestId> {
        let mut bytes = [0; 4];
        flag.copy_to_slice(&mut bytes);
        let bytes = u32::from_ne_bytes(bytes);
        self.start_agreement(Purpose::Agree, bytes, UNNAMED, Arc::new(FlagWriter(flag)))
    }

    /// `MPIX_Comm_shrink`: a communicator of the remaining members, in their order; all living members get the same. A
    /// member that dies meanwhile may be in it.
    ///
    /// # Errors
    /// When no context is left.
    pub fn shrink(self: &Arc<Self>) -> Result<Arc<Self>> {
        let (shrinking, request) = self.ishrink(None)?;
        self.process.wait(request)?;
        shrinking.made().ok_or_else(|| {
            Error::new(
                ErrorClass::Intern,
                "nobody has made the communicator; please report this",
            )
        })
    }

    /// `MPIX_Comm_ishrink`: the communicator exists when the request has ended. `publish` gets it just before, while the
    /// process is in use: calling the process from it panics.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live. The request ends with the errors of [`shrink`](Self::shrink).
    pub fn ishrink(
        self: &Arc<Self>,
        publish: Option<Publish>,
    ) -> Result<(Arc<Shrinking>, RequestId)> {
        let shrinking = Arc::new(Shrinking {
            parent: Arc::clone(self),
            made: OnceLock::new(),
        });
        let maker = Maker {
            shrinking: Arc::clone(&shrinking),
            publish,
        };
        let context = self.process.new_context().unwrap_or(UNNAMED);
        let request = self.start_agreement(Purpose::Shrink, u32::MAX, context, Arc::new(maker))?;
        Ok((shrinking, request))
    }

    fn start_agreement(
        &self,
        purpose: Purpose,
        flag: u32,
        context: u32,
        recipient: Arc<dyn Decided>,
    ) -> Result<RequestId> {
        self.check_one_job(match purpose {
            Purpose::Agree => "MPIX_Comm_agree",
            Purpose::Shrink => "MPIX_Comm_shrink",
        })?;
        let everybody = self.everybody();
        let number = self.agreements.fetch_add(1, Ordering::Relaxed);
        let mut engine = self.lock();
        let own = Contribution {
            purpose,
            flag,
            context,
            acknowledged: engine.acknowledged(self.context(), Some(&everybody)),
            failed: engine.failed(Some(&everybody)),
        };
        let members = everybody.members().collect();
        engine.start_agreement((self.context(), number), members, own, recipient)
    }

    /// All members, of an intercommunicator those of both groups, in an order that is the same at all of them.
    fn everybody(&self) -> Arc<Group> {
        let Some(remote) = self.remote() else {
            return Arc::clone(&self.group);
        };
        let (local, remote_group) = (self.group.members(), remote.group.members());
        Arc::new(Group::of(if remote.local_is_first {
            local.chain(remote_group).collect()
        } else {
            remote_group.chain(local).collect()
        }))
    }

    /// The communicator is freed: whether it is revoked does not matter any more.
    pub(super) fn forget_losses(&self) {
        for (part, context) in self.with_parts().zip(self.contexts()) {
            part.lock().forget_losses_of(context);
        }
    }
}
