//! `MPI_Isendrecv`: a send and a receive under one request (MPI 5.0, section 3.11).
//!
//! The request is in the engine of the receive. Where a communicator is [divided](crate::comm) by tags, the send may be in another one:
//! a [`SendApart`] tells the request of its end.

use std::sync::Arc;
use std::task::{Wake, Waker};

use weft_fiber::Waiter;

use super::{SendMode, Source, TagPattern, Target};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::engine::RequestId;
use crate::error::Result;
use crate::process::Process;

/// A send in another engine than the head that it belongs to. The head hears of its end when this is dropped.
struct SendApart {
    process: Arc<Process>,
    send: RequestId,
    head: RequestId,
}

impl Wake for SendApart {
    fn wake(self: Arc<Self>) {}
}

impl Drop for SendApart {
    /// Without any engine: wakers are dropped then.
    fn drop(&mut self) {
        let outcome = self.process.lock_of(self.send).take_outcome(self.send);
        let mut engine = self.process.lock_of(self.head);
        engine.end_send_apart(self.head, outcome.err());
        drop(engine);
        // The thread that waits for it may be the one that sleeps on the fabric.
        self.process.shared_of(self.head).bell().ring();
    }
}

impl Comm {
    /// `MPI_Isendrecv`. The two buffers must not overlap.
    ///
    /// # Errors
    /// As for [`Self::isend`] and [`Self::irecv`].
    pub fn isendrecv(
        &self,
        send: (Buffer, Target, i32),
        receive: (Buffer, Source, TagPattern),
    ) -> Result<RequestId> {
        self.begin_pair(SendMode::Standard, send, receive)
    }

    /// `MPI_Isendrecv_replace`: the message is copied before its buffer is received into.
    ///
    /// # Errors
    /// As for [`Self::isendrecv`].
    pub fn isendrecv_replace(
        &self,
        buffer: Buffer,
        to: (Target, i32),
        from: (Source, TagPattern),
    ) -> Result<RequestId> {
        let outgoing = (buffer.clone(), to.0, to.1);
        self.begin_pair(SendMode::Buffered, outgoing, (buffer, from.0, from.1))
    }

    fn begin_pair(
        &self,
        mode: SendMode,
        send: (Buffer, Target, i32),
        receive: (Buffer, Source, TagPattern),
    ) -> Result<RequestId> {
        let to = match send.1 {
            Target::Null => None,
            Target::Rank(rank) => Some(self.target(rank)?),
        };
        let (sender, receiver) = (self.of_tag(send.2), self.of_receive(receive.1, receive.2)?);
        let from = match receive.1 {
            Source::Null => None,
            Source::Any => Some(None),
            Source::Rank(rank) => Some(Some(self.target(rank)?)),
        };
        let incoming = (receive.0, from, receive.2.exact());
        let (context, group) = (receiver.context(), receiver.translation());
        let outgoing = to.map(|to| (mode, send.0, to, send.2));
        let (mode, buffer, to, tag) = match outgoing {
            Some(send) if !std::ptr::eq(sender, receiver) => send,
            here => {
                let mut engine = receiver.lock();
                return engine.start_pair(context, group, here, incoming, false);
            }
        };
        // The send first: a buffered one has read the memory before the receive may write to it.
        let outgoing = sender
            .lock()
            .start_send(mode, buffer, sender.context(), to, tag)?;
        let apart = outgoing.is_some();
        let started = receiver
            .lock()
            .start_pair(context, group, None, incoming, apart);
        let Some(outgoing) = outgoing else {
            return started;
        };
        match started {
            Ok(head) => {
                let apart = Arc::new(SendApart {
                    process: Arc::clone(self.process()),
                    send: outgoing,
                    head,
                });
                let waiter = Waiter::Task(Waker::from(apart));
                sender.lock().await_end(outgoing, waiter);
            }
            Err(_) => self.process().free_request(outgoing)?,
        }
        started
    }
}
