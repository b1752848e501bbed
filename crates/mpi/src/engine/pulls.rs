//! Pulls: rendezvous transfers under way, from the call of `get` until the fabric reports its end.
//!
//! ```text
//!   matched ──get──► under way ──transfer_completed──► ended
//!      └──no room──► refused ──after the next poll──► get again
//! ```

use weft_fabric::{Operation, Peer};

use super::envelope::Envelope;
use super::request_id::RequestId;

/// A receive whose data the fabric moves.
#[derive(Debug)]
pub(super) struct Pull {
    operation: Operation,
    /// The receive.
    pub request: RequestId,
    /// The sender.
    pub from: Peer,
    /// What the sender is told at the end.
    pub reply: Envelope,
}

/// A receive whose data are to be pulled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub request: RequestId,
    pub from: Peer,
    pub envelope: Envelope,
}

/// All of them, with the numbers that they and other transfers go by.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    /// The fabric answered `Pending`.
    under_way: Vec<Pull>,
    /// The fabric had no room for them.
    refused: Vec<Refused>,
    last_number: u64,
}

impl Pulls {
    /// A number that no other transfer of this engine has; never 0.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The fabric says later how this one ends.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        request: RequestId,
        from: Peer,
        reply: Envelope,
    ) {
        self.under_way.push(Pull {
            operation,
            request,
            from,
            reply,
        });
    }

    /// The fabric says that this operation has ended; `None` if it is none of these.
    pub(super) fn end(&mut self, operation: Operation) -> Option<Pull> {
        let mut all = self.under_way.iter();
        let index = all.position(|pull| pull.operation == operation)?;
        Some(self.under_way.swap_remove(index))
    }

    /// The fabric had no room: to be tried again.
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused.push(refused);
    }

    /// Whether any is to be tried again.
    #[inline]
    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.under_way.len() + self.refused.len()
    }

    /// Those that are to be tried again.
    pub(super) fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_ends_once_and_a_refused_one_is_tried_once() {
        let mut pulls = Pulls::default();
        let reply = Envelope::eager(0, 0, 0).reply();
        let request = |index| RequestId::new(index, 0);
        for index in 1..4 {
            let operation = Operation(pulls.next_number());
            pulls.begin(operation, request(index), Peer(index), reply);
        }
        let ended = pulls.end(Operation(1)).expect("it is under way");
        assert_eq!((ended.request, ended.from), (request(1), Peer(1)));
        assert!(pulls.end(Operation(1)).is_none(), "it has ended");
        assert_eq!(pulls.end(Operation(2)).expect("under way").from, Peer(2));
        assert_eq!(pulls.next_number(), 4);

        assert!(!pulls.has_refused());
        pulls.refuse(Refused {
            request: request(7),
            from: Peer(0),
            envelope: reply,
        });
        assert!(pulls.has_refused());
        assert_eq!(pulls.take_refused()[0].request, request(7));
        assert!(!pulls.has_refused());
    }
}
