//! The origin's side: operations begin, and continue when there is room; work that polling left is done.

use weft_fabric::{Peer, Posted};

use super::message::{OneSidedHead, Verb};
use super::operation::{Operation, OperationId, Transfer};
use super::{CREDITS, LockKind, OneSided, WindowState};
use crate::engine::outbox::{Load, Waiting};
use crate::engine::request::Work;
use crate::engine::request_id::RequestId;
use crate::engine::{Core, Engine};
use crate::error::{Error, Result};

/// What became of trying to send the next piece to a member.
enum Pumped {
    /// A piece has left, or an operation has ended.
    Moved,
    /// Nothing goes now.
    Stuck,
    /// Nothing is queued.
    Empty,
}

impl Engine {
    /// A window begins: what comes for it is understood from now on.
    pub(crate) fn open_window(&mut self, context: u32, window: WindowState) {
        self.core.one_sided.windows.insert(context, window);
    }

    /// A window ends; all members have said that they are done with it.
    pub(crate) fn close_window(&mut self, context: u32) {
        let one_sided = &mut self.core.one_sided;
        one_sided.windows.remove(&context);
        one_sided.queued.retain(|(other, _)| *other != context);
        one_sided.untold.retain(|(other, _)| *other != context);
    }

    /// The window of a context, which is open.
    ///
    /// # Panics
    /// If it is not.
    pub(crate) fn window(&mut self, context: u32) -> &mut WindowState {
        let window = self.core.one_sided.window(context);
        window.expect("a window is used while it is open")
    }

    /// Whether the lock of a member was given, which was asked for by a message, or no lock is asked for. False once the window is gone.
    pub(crate) fn is_lock_given(&mut self, context: u32, rank: u32) -> bool {
        let window = self.core.one_sided.window(context);
        window.is_some_and(|window| window.member(rank).is_open())
    }

    /// A request that ends with an operation.
    pub(crate) fn start_one_sided_request(&mut self, context: u32) -> Result<RequestId> {
        self.core.requests.check_room()?;
        Ok(self.core.requests.insert(context, None, Work::Nothing))
    }

    /// Begins an operation to a member.
    pub(crate) fn start_operation(
        &mut self,
        context: u32,
        rank: u32,
        mut operation: Operation,
    ) -> Result<()> {
        let one_sided = &mut self.core.one_sided;
        let Some(window) = one_sided.windows.get_mut(&context) else {
            return Ok(());
        };
        operation.target = window.group.peer(rank);
        operation.member = (context, rank);
        if let Some(error) = self.core.lost.error_of(operation.target) {
            return Err(error);
        }
        if operation.is_empty() {
            if let Some(request) = operation.request() {
                self.core.complete(request);
            }
            return Ok(());
        }
        let member = &mut window.members[rank as usize];
        member.awaiting += u32::from(operation.is_awaited());
        let id = one_sided.operations.insert(operation);
        member.queue.push_back(id);
        while let Pumped::Moved = self.pump(context, rank) {}
        let one_sided = &mut self.core.one_sided;
        if let Some(window) = one_sided.windows.get_mut(&context) {
            let member = &mut window.members[rank as usize];
            if !member.queue.is_empty() && !member.listed {
                member.listed = true;
                one_sided.queued.push((context, rank));
            }
        }
        self.core.end_one_sided();
        Ok(())
    }

    /// Sends the next piece to a member, if it may and there is room.
    fn pump(&mut self, context: u32, rank: u32) -> Pumped {
        let one_sided = &mut self.core.one_sided;
        let Some(window) = one_sided.windows.get_mut(&context) else {
            return Pumped::Empty;
        };
        let member = &mut window.members[rank as usize];
        let Some(&id) = member.queue.front() else {
            return Pumped::Empty;
        };
        let Some(operation) = one_sided.operations.get_mut(id) else {
            member.queue.pop_front();
            return Pumped::Moved;
        };
        let to = operation.target;
        let has_credit = member.sent - member.answered < CREDITS;
        if !member.is_open() || !has_credit || !self.outbox.is_clear(to) {
            return Pumped::Stuck;
        }
        if let Some(transfer) = operation.transfer() {
            return self.pump_transfer(context, rank, id, &transfer);
        }
        let limit = self.fabric.limits().data;
        let piece = operation.next_piece(context, id.0, limit, &mut self.scratch);
        match self
            .fabric
            .try_send(to, &piece.head.to_head(), &self.scratch)
        {
            Ok(Posted::Retry) => return Pumped::Stuck,
            Ok(_) => {}
            // The loss of the peer, of which the fabric tells by itself, ends the operation.
            Err(_) => return Pumped::Stuck,
        }
        operation.left(&piece);
        member.sent += 1;
        self.core.counters.one_sided_messages.add(1);
        if operation.has_left() {
            member.queue.pop_front();
            one_sided.end_if_over(id);
        }
        Pumped::Moved
    }

    /// Operations were carried out by loads and stores.
    pub(crate) fn count_direct_operations(&mut self, more: u32) {
        self.core.counters.one_sided_direct.add(more.into());
    }

    /// Has the fabric move the data of an operation.
    fn pump_transfer(
        &mut self,
        context: u32,
        rank: u32,
        id: OperationId,
        transfer: &Transfer,
    ) -> Pumped {
        let number = weft_fabric::Operation(self.core.pulls.next_number());
        let Transfer {
            peer,
            token,
            offset,
            region,
            writes,
        } = *transfer;
        let posted = if writes {
            self.fabric.put(peer, token, offset, region, number)
        } else {
            self.fabric.get(peer, token, offset, region, number)
        };
        let pending = matches!(posted, Ok(Posted::Pending));
        let error = match posted {
            Ok(Posted::Retry) | Err(weft_fabric::FabricError::PeerLost { .. }) => {
                return Pumped::Stuck;
            }
            Ok(Posted::Done) => None,
            Ok(Posted::Pending) => {
                self.core.one_sided.transfers.push((number, id));
                None
            }
            Err(cause) => Some(Error::from(cause)),
        };
        self.core.counters.one_sided_portal.add(1);
        let one_sided = &mut self.core.one_sided;
        if let Some(window) = one_sided.windows.get_mut(&context) {
            window.members[rank as usize].queue.pop_front();
        }
        if let Some(operation) = one_sided.operations.get_mut(id) {
            operation.transfer_begun(pending);
        }
        if !pending {
            one_sided.end_transfer(id, error);
        }
        Pumped::Moved
    }

    /// Does what polling has left to do for windows. True if anything moved.
    #[cold]
    pub(in crate::engine) fn settle_one_sided(&mut self) -> bool {
        let mut moved = false;
        for outgoing in std::mem::take(&mut self.core.one_sided.outgoing) {
            self.post_one_sided(outgoing.to, outgoing.head, outgoing.data);
            moved = true;
        }
        for (context, rank) in std::mem::take(&mut self.core.one_sided.untold) {
            let Some(window) = self.core.one_sided.windows.get_mut(&context) else {
                continue;
            };
            let count = std::mem::take(&mut window.members[rank as usize].untold);
            let to = window.group.peer(rank);
            let head = OneSidedHead::with_number(Verb::Done, context, count);
            self.post_control(to, head.to_head());
            moved = true;
        }
        let queued = std::mem::take(&mut self.core.one_sided.queued);
        for (context, rank) in queued {
            let stuck = loop {
                match self.pump(context, rank) {
                    Pumped::Moved => moved = true,
                    Pumped::Stuck => break true,
                    Pumped::Empty => break false,
                }
            };
            let one_sided = &mut self.core.one_sided;
            if stuck {
                one_sided.queued.push((context, rank));
            } else if let Some(window) = one_sided.windows.get_mut(&context) {
                window.members[rank as usize].listed = false;
            }
        }
        self.core.end_one_sided();
        moved
    }

    /// Sends an answer, now or when there is room. One message of the origin may ask for more than one of this rank holds, where its
    /// fabric is another one: hosts differ in what their ranks share.
    fn post_one_sided(&mut self, to: Peer, head: OneSidedHead, data: Box<[u8]>) {
        let limit = self.fabric.limits().data;
        if data.len() <= limit {
            return self.post_answer(to, head, data);
        }
        for (head, part) in head.parts(data.len(), limit) {
            self.post_answer(to, head, data[part].into());
        }
    }

    fn post_answer(&mut self, to: Peer, head: OneSidedHead, data: Box<[u8]>) {
        let head = head.to_head();
        if self.outbox.is_clear(to) {
            match self.fabric.try_send(to, &head, &data) {
                Ok(Posted::Retry) => {}
                Ok(_) | Err(_) => return,
            }
        }
        let load = if data.is_empty() {
            Load::None
        } else {
            Load::Owned(data)
        };
        let request = None;
        self.outbox.push(
            to,
            Waiting {
                head,
                load,
                request,
            },
        );
    }

    /// Says something to a member that needs no answer by a count.
    fn tell_member(&mut self, context: u32, rank: u32, verb: Verb) -> Result<()> {
        self.tell_number(context, rank, verb, 0)
    }

    fn tell_number(&mut self, context: u32, rank: u32, verb: Verb, at: u64) -> Result<()> {
        let to = self.window(context).group.peer(rank);
        if let Some(error) = self.core.lost.error_of(to) {
            return Err(error);
        }
        self.post_control(to, OneSidedHead::with_number(verb, context, at).to_head());
        Ok(())
    }

    /// Tells a member that waits for a lock that it may have its turn.
    pub(crate) fn tell_freed(&mut self, context: u32, rank: u32) {
        // Nobody has to be told who is lost.
        let _ = self.tell_member(context, rank, Verb::Freed);
    }

    /// Asks a member for its lock; its gate opens when it is given. `has_others`: this rank has other locks, of whatever window.
    pub(crate) fn request_lock(
        &mut self,
        context: u32,
        rank: u32,
        kind: LockKind,
        has_others: bool,
    ) -> Result<()> {
        let window = self.window(context);
        window.member_mut(rank).close(super::Gate::AwaitsLock);
        let time = window.time;
        let verb = match kind {
            LockKind::Shared if has_others => Verb::LockFurther,
            LockKind::Shared => Verb::LockShared,
            LockKind::Exclusive => Verb::LockExclusive,
        };
        let told = self.tell_number(context, rank, verb, time);
        if told.is_err() {
            self.window(context).member_mut(rank).open();
        }
        told
    }

    /// Gives the lock of a member back.
    pub(crate) fn release_lock(&mut self, context: u32, rank: u32) -> Result<()> {
        let window = self.window(context);
        window.time = window
            .time
            .max(window.members[rank as usize].take_overtaken());
        self.tell_member(context, rank, Verb::Unlock)
    }

    /// Tells a member that an exposure epoch has begun for it.
    pub(crate) fn tell_post(&mut self, context: u32, rank: u32) -> Result<()> {
        self.tell_member(context, rank, Verb::Post)
    }

    /// Tells a member that an access epoch to it has ended.
    pub(crate) fn tell_complete(&mut self, context: u32, rank: u32) -> Result<()> {
        self.tell_member(context, rank, Verb::Complete)
    }
}

impl Core {
    /// Ends the requests of operations that have ended, and wakes those who wait for windows.
    pub(in crate::engine) fn end_one_sided(&mut self) {
        for (request, error) in self.one_sided.take_ended() {
            if let Some(slot) = self.requests.get_mut(request) {
                slot.fail(error);
                self.complete(request);
            }
        }
    }

    /// A peer is lost: nothing goes to it or comes of it in any window.
    pub(in crate::engine) fn lose_in_windows(&mut self, peer: Peer, error: &Error) {
        self.one_sided.lose(peer, error);
        self.end_one_sided();
    }
}

impl OneSided {
    /// The fabric says how a transfer has ended; false if it is none of a window.
    pub(in crate::engine) fn transfer_completed(
        &mut self,
        number: weft_fabric::Operation,
        error: Option<Error>,
    ) -> bool {
        let mut all = self.transfers.iter();
        let Some(place) = all.position(|(other, _)| *other == number) else {
            return false;
        };
        let (_, id) = self.transfers.swap_remove(place);
        self.end_transfer(id, error);
        true
    }

    fn end_transfer(&mut self, id: OperationId, error: Option<Error>) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        let (context, rank) = operation.member;
        if let Some(error) = error {
            operation.break_off(&error);
            if let Some(window) = self.windows.get_mut(&context) {
                window.members[rank as usize].fail(error);
            }
        } else {
            operation.transfer_ended();
        }
        self.end_if_over(id);
    }

    fn lose(&mut self, peer: Peer, error: &Error) {
        let contexts: Vec<u32> = self.windows.keys().copied().collect();
        for context in contexts {
            let Some(window) = self.windows.get_mut(&context) else {
                continue;
            };
            let Some(rank) = window.group.rank_of(peer) else {
                continue;
            };
            window.lost.get_or_insert_with(|| error.clone());
            window.lock.release(peer);
            let member = &mut window.members[rank as usize];
            member.lose(error);
            let ids: Vec<OperationId> = self.operations.to((context, rank));
            for id in ids {
                // The end of a transfer that is under way is told by the fabric.
                let operation = self.operations.get_mut(id);
                if let Some(operation) = operation.filter(|one| !one.is_transferred()) {
                    operation.break_off(error);
                    self.end_if_over(id);
                }
            }
            self.grant(context);
        }
    }
}
