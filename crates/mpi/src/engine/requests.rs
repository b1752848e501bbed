//! Table of requests: slots that are reused; the name of a slot changes when it is released.

use std::mem::replace;
use std::sync::Arc;

use super::polling_receive::Received;
use super::request::{Phase, Request, Work};
use super::request_id::RequestId;
use super::status::Status;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// The next slot of a table with so many. That of [`RequestId::DONE`] is never given out.
const fn next_index(slots: usize) -> usize {
    slots + (slots == RequestId::DONE.index() as usize) as usize
}

/// The table of requests. Slots are reused; a slot's generation moves on when it is released.
#[derive(Debug)]
pub(super) struct Requests {
    slots: Vec<Request>,
    /// The first of a chain of free slots.
    free: u32,
    /// The engine, which their names name.
    engine: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NO_SLOT,
            engine: 0,
        }
    }
}

/// Requests that a rank may have at once: the names that a handle has, less some that steps of
/// collectives may need.
const LIMIT: usize = if cfg!(test) {
    1 << 16
} else {
    u32::MAX as usize - (1 << 16)
};

#[cold]
fn full() -> Error {
    Error::new(
        ErrorClass::NoMem,
        format!(
            "{LIMIT} requests of this rank are live at once, and no more can be named; complete or free some first"
        ),
    )
}

/// The slot of a live request.
#[inline(always)]
fn live(slots: &mut [Request], id: RequestId) -> Option<&mut Request> {
    let slot = slots.get_mut(id.index() as usize)?;
    (slot.generation() == id.generation() && slot.phase() != Phase::Free).then_some(slot)
}

/// The slot of a request that has had this name is free, before all that are.
#[inline(always)]
fn give_back(slot: &mut Request, id: RequestId, free: &mut u32) {
    slot.vacate(id.next().generation());
    slot.chain(replace(free, id.index()));
}

impl Requests {
    /// The table of the engine of this channel.
    pub(super) fn of_engine(engine: u32) -> Self {
        Self {
            engine,
            ..Self::default()
        }
    }

    /// The number of the engine.
    pub(super) fn engine(&self) -> u32 {
        self.engine
    }

    /// A new active request.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        context: u32,
        group: Option<Arc<Group>>,
        work: Work,
    ) -> RequestId {
        if self.free == NO_SLOT {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.occupy(context, group, work);
        RequestId::new(index, slot.generation())
    }

    /// The name that the next request gets.
    #[inline(always)]
    pub(super) fn next_name(&mut self) -> RequestId {
        if self.free == NO_SLOT {
            self.grow();
        }
        let slot = &self.slots[self.free as usize];
        RequestId::new(self.free, slot.generation())
    }

    /// The slot of the [next name](Self::next_name), to be occupied by what answers the next free one.
    #[inline(always)]
    pub(super) fn occupy_next(&mut self, occupy: impl FnOnce(&mut Request) -> u32) {
        let slot = &mut self.slots[self.free as usize];
        self.free = occupy(slot);
    }

    /// Whether a call of the user may make another request.
    ///
    /// # Errors
    /// `NoMem` if all names that a handle has are in use, but for those kept for the steps of
    /// collectives that are under way.
    #[inline]
    pub(super) fn check_room(&self) -> Result<()> {
        if self.free == NO_SLOT && self.slots.len() >= LIMIT {
            return Err(full());
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self) {
        let index = next_index(self.slots.len());
        self.slots
            .resize_with(index + 1, || Request::vacant(NO_SLOT, self.engine));
        self.free = u32::try_from(index)
            .ok()
            .filter(|index| *index < NO_SLOT)
            .expect("memory ends before four thousand million requests");
    }

    /// The request of that name, if it is live.
    #[inline]
    pub(super) fn get(&self, id: RequestId) -> Option<&Request> {
        let slot = self.slots.get(id.index() as usize)?;
        (slot.generation() == id.generation() && slot.phase() != Phase::Free).then_some(slot)
    }

    /// The request of that name, if it is live.
    #[inline]
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        live(&mut self.slots, id)
    }

    /// The slot of that name, free or not.
    #[inline(always)]
    pub(super) fn slot_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        (slot.generation() == id.generation()).then_some(slot)
    }

    /// The request of that name, or the error of the standard.
    pub(super) fn checked(&mut self, id: RequestId) -> Result<&mut Request> {
        self.get_mut(id).ok_or_else(|| stale(id))
    }

    /// Gives a slot back.
    #[inline]
    pub(super) fn release(&mut self, id: RequestId) {
        if let Some(slot) = live(&mut self.slots, id) {
            give_back(slot, id, &mut self.free);
        }
    }

    /// The outcome of an ended request has been taken, or nobody wants it: the slot is given back, or waits to be
    /// started again.
    #[inline]
    pub(super) fn retire(&mut self, id: RequestId) {
        let Some(slot) = live(&mut self.slots, id) else {
            return;
        };
        if slot.is_persistent() {
            slot.make_inactive();
        } else {
            give_back(slot, id, &mut self.free);
        }
    }

    /// Takes the outcome of an ended request; the empty status of one that is inactive, or that was taken before.
    #[inline]
    pub(super) fn take_status(&mut self, id: RequestId) -> Status {
        let Some(slot) = self.get_mut(id) else {
            return Status::without_slot(id);
        };
        if slot.phase() == Phase::Inactive {
            return Status::empty();
        }
        let status = slot.status(id.engine());
        self.retire(id);
        status
    }

    /// Takes the message of a receive that has ended [plainly](Request::end_plainly).
    #[inline(always)]
    pub(super) fn take_plain(&mut self, id: RequestId) -> Option<Received> {
        let slot = self.slots.get_mut(id.index() as usize)?;
        if slot.generation() != id.generation() {
            return None;
        }
        let received = slot.plainly_received()?;
        let next = replace(&mut self.free, id.index());
        slot.vacate_plain(id.next().generation(), next);
        Some(received)
    }

    /// Takes the message of a receive that has ended [as most do](Request::received).
    #[inline(never)]
    pub(super) fn take_received(&mut self, id: RequestId) -> Option<Received> {
        let slot = live(&mut self.slots, id)?;
        let received = slot.received()?;
        give_back(slot, id, &mut self.free);
        Some(received)
    }

    /// Takes the outcome of a persistent request that has ended [as most do](Request::repeated): its message, if it is a receive.
    #[inline(never)]
    pub(super) fn take_repeated(&mut self, id: RequestId) -> Option<Option<Received>> {
        let slot = live(&mut self.slots, id)?;
        let received = slot.repeated()?;
        slot.make_inactive();
        Some(received)
    }

    /// The same where nothing is called: see [`Request::plainly_repeated`].
    #[inline(always)]
    pub(super) fn take_plainly_repeated(&mut self, id: RequestId) -> Option<Option<Received>> {
        let slot = self.slot_mut(id)?;
        let received = slot.plainly_repeated()?;
        slot.make_inactive();
        Some(received)
    }

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// All live requests, for reports.
    pub(super) fn live(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.phase() != Phase::Free)
            .map(|(index, slot)| (RequestId::new(index as u32, slot.generation()), slot))
    }
}

#[cold]
pub(super) fn stale(id: RequestId) -> Error {
    Error::new(
        ErrorClass::Request,
        format!(
            "request {}.{} is not live: it was completed or freed before; set the handle to MPI_REQUEST_NULL after its end",
            id.index(),
            id.generation()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_has_the_name_of_one_that_has_ended() {
        let done = RequestId::DONE.index() as usize;
        assert_eq!([0, 1, done - 1].map(next_index), [0, 1, done - 1]);
        assert_eq!([done, done + 2].map(next_index), [done + 1, done + 2]);
    }

    #[test]
    fn a_stale_name_is_noticed() {
        let mut requests = Requests::default();
        let first = requests.insert(0, None, Work::Nothing);
        requests.release(first);
        let second = requests.insert(0, None, Work::Nothing);
        assert_eq!(first.index(), second.index(), "slots are reused");
        assert!(requests.get(first).is_none());
        assert!(requests.get(second).is_some());
        requests.release(first);
        assert!(
            requests.get(second).is_some(),
            "a stale release has no effect"
        );
        assert_eq!(
            requests.checked(first).unwrap_err().class(),
            ErrorClass::Request
        );
    }

    /// The names of a handle come to an end before the memory does: the next call is refused.
    #[test]
    fn requests_beyond_their_names_are_refused() {
        let mut requests = Requests::default();
        let all: Vec<_> = (0..LIMIT)
            .map(|_| {
                assert!(requests.check_room().is_ok());
                requests.insert(0, None, Work::Nothing)
            })
            .collect();
        let class = requests.check_room().unwrap_err().class();
        assert_eq!(class, ErrorClass::NoMem);
        requests.insert(0, None, Work::Nothing); // a step of a collective
        assert!(requests.check_room().is_err());
        requests.release(all[7]);
        assert!(requests.check_room().is_ok(), "what is free is used again");
    }
}
