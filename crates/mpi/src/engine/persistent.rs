//! Persistent requests: the arguments are kept, the operation starts again (MPI 5.0, section 3.9).

use std::sync::Arc;

use super::Engine;
use super::on_complete::PersistentOperation;
use super::protocol::SendMode;
use super::request::{Phase, Request, Work};
use super::request_id::RequestId;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

impl Engine {
    /// An inactive request for an operation.
    pub(crate) fn keep(
        &mut self,
        context: u32,
        group: Option<Arc<Group>>,
        operation: PersistentOperation,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let request = self.core.requests.insert(context, group, Work::Nothing);
        if let Some(slot) = self.core.requests.get_mut(request) {
            slot.make_inactive();
            slot.on_complete_mut().persistent = Some(Box::new(operation));
        }
        Ok(request)
    }

    /// Whether a request may be started; otherwise why not.
    pub(crate) fn check_startable(&mut self, id: RequestId) -> Result<()> {
        self.startable(id).map(drop)
    }

    /// The slot of a request that may be started.
    fn startable(&mut self, id: RequestId) -> Result<&mut Request> {
        let slot = self.core.requests.checked(id)?;
        if !slot.is_persistent() {
            return Err(not_startable(
                "is not persistent: only requests of MPI_Send_init, MPI_Recv_init and the like can be started",
            ));
        }
        if slot.phase() != Phase::Inactive {
            return Err(not_startable(
                "is under way: wait for its end before it is started again",
            ));
        }
        Ok(slot)
    }

    /// Starts a persistent request; it is inactive again if that fails.
    pub(crate) fn start(&mut self, id: RequestId) -> Result<()> {
        if !self.has_no_losses() {
            let context = self.startable(id)?.context();
            self.check_usable(context)?;
        }
        let slot = self.startable(id)?;
        let context = slot.context();
        let operation = slot.on_complete().persistent.as_deref().cloned();
        let operation = operation.expect("a persistent request has one");
        slot.restart();
        let begun = self.begin(id, context, operation);
        if begun.is_err()
            && let Some(slot) = self.core.requests.get_mut(id)
        {
            slot.make_inactive();
        }
        begun
    }

    /// Begins what a persistent request does.
    fn begin(&mut self, id: RequestId, context: u32, operation: PersistentOperation) -> Result<()> {
        match operation {
            PersistentOperation::Send { to: None, .. } => self.core.complete(id),
            PersistentOperation::Send {
                mode,
                buffer,
                to: Some(to),
                tag,
            } => {
                if mode == SendMode::Buffered {
                    self.start_buffered(buffer, context, to, tag)?;
                    self.core.complete(id);
                } else if let Some(begun) = self.start_send(mode, buffer, context, to, tag)? {
                    self.follow(begun, id);
                } else {
                    self.core.complete(id);
                }
            }
            PersistentOperation::Receive { buffer, from, tag } => {
                let Some(from) = from else {
                    self.set_work(id, Work::receive_nothing());
                    self.core.complete(id);
                    return Ok(());
                };
                self.set_work(id, Work::receive(buffer));
                self.post_receive(id, context, from, tag);
            }
            PersistentOperation::Collective { schedule, context } => {
                self.begin_schedule(schedule, context, id);
            }
            PersistentOperation::Partitioned(None) => {
                self.set_work(id, Work::receive_nothing());
                self.core.complete(id);
            }
            PersistentOperation::Partitioned(Some(channel)) => self.begin_partitioned(channel),
        }
        Ok(())
    }

    fn set_work(&mut self, id: RequestId, work: Work) {
        if let Some(slot) = self.core.requests.get_mut(id) {
            slot.set_work(work);
        }
    }
}

#[cold]
fn not_startable(why: &str) -> Error {
    Error::new(ErrorClass::Request, format!("the request {why}"))
}
