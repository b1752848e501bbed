//! Pair: a send and a receive under one request, as of `MPI_Isendrecv` (MPI 5.0, section 3.11).
//!
//! ```text
//!   send ────┐
//!            ├──► head: ends when both have; has the status of the receive
//!   receive ─┘
//! ```

use std::sync::Arc;

use weft_fabric::Peer;

use super::Engine;
use super::protocol::SendMode;
use super::request::Work;
use super::request_id::RequestId;
use super::status::Outcome;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::group::Group;

impl Engine {
    /// Begins both; `None` in place of either stands for `MPI_PROC_NULL`. `apart`: the head also waits for a send of another
    /// engine, which [ends](Self::end_send_apart) later.
    pub(crate) fn start_pair(
        &mut self,
        context: u32,
        group: Option<Arc<Group>>,
        send: Option<(SendMode, Buffer, Peer, i32)>,
        receive: (Buffer, Option<Option<Peer>>, Option<i32>),
        apart: bool,
    ) -> Result<RequestId> {
        self.core.requests.check_room()?;
        let (incoming, from, receive_tag) = receive;
        // The send first: a buffered one has read the memory before the receive may write to it.
        let outgoing = match send {
            Some((mode, outgoing, to, tag)) => self.start_send(mode, outgoing, context, to, tag)?,
            None => None,
        };
        let head = Work::receive_nothing();
        let head = self.core.requests.insert(context, group.clone(), head);
        // One part is this function: the head does not end before it is returned.
        let parts = 1 + u8::from(outgoing.is_some()) + u8::from(from.is_some()) + u8::from(apart);
        if let Some(slot) = self.core.requests.get_mut(head) {
            slot.on_complete_mut().pending_parts = parts;
        }
        if let Some(outgoing) = outgoing {
            self.follow(outgoing, head);
        }
        if let Some(from) = from {
            let incoming = self.start_receive(incoming, context, from, receive_tag, group)?;
            self.follow(incoming, head);
            self.fail_if_held_up(incoming);
        }
        self.core.end_part(head, Outcome::default(), false);
        Ok(head)
    }

    /// The send of another engine that belongs to a head has ended.
    pub(crate) fn end_send_apart(&mut self, head: RequestId, error: Option<Error>) {
        let outcome = Outcome {
            error,
            ..Outcome::NONE
        };
        self.core.end_part(head, outcome, false);
    }
}
