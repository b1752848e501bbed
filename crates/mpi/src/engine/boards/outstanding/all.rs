//! The boards of all communicators for what is outstanding, and how the engine begins it, goes on from it and ends it.

use std::sync::Arc;

use weft_fabric::Peer;
use weft_fabric::board::{Board, MOST_OUTSTANDING};

use super::super::super::Engine;
use super::super::super::collective_mismatch::is_mismatch;
use super::super::super::collective_note::CollectiveNote;
use super::super::super::events::EventKind;
use super::super::super::request::Work;
use super::super::super::request_id::RequestId;
use super::super::super::schedule::{CollectiveContext, Schedule};
use super::super::BoardId;
use super::super::communicator_board::BoardCall;
use super::super::epochs::in_call;
use super::super::making::Making;
use super::{
    Attendance, Begun, ByMessages, Ending, Outstanding, Queued, Repeated, Start, Transfer, wish,
};
use crate::error::{Error, Result};

/// The boards of all communicators for what is outstanding.
#[derive(Debug, Default)]
pub(in crate::engine) struct OutstandingBoards {
    places: Vec<Option<Outstanding>>,
    /// Those that are not idle.
    busy: Vec<u32>,
}

impl OutstandingBoards {
    /// Whether anything is outstanding.
    #[inline]
    pub fn are_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    fn get(&self, id: BoardId) -> Option<&Outstanding> {
        self.places.get(id.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, id: BoardId) -> Option<&mut Outstanding> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    pub fn all(&self) -> impl Iterator<Item = &Outstanding> {
        self.places.iter().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Outstanding> {
        self.places.iter_mut().flatten()
    }

    /// That of a communicator, and those of its persistent collectives.
    fn of_context(&self, context: u32) -> impl Iterator<Item = &Outstanding> {
        self.all().filter(move |place| place.context == context)
    }

    pub fn add(&mut self, place: Outstanding) -> BoardId {
        let free = self.places.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[index] = Some(place);
        BoardId(index as u32)
    }

    pub fn note_busy(&mut self, id: BoardId) {
        if !self.busy.contains(&id.0) {
            self.busy.push(id.0);
        }
    }

    /// A peer is lost.
    pub fn lose(&mut self, peer: Peer, error: &Error) {
        for place in self.all_mut().filter(|place| place.peers.contains(&peer)) {
            place.lost.get_or_insert_with(|| error.clone());
        }
    }

    /// A communicator is revoked.
    pub fn revoke(&mut self, context: u32, error: &Error) {
        for place in self.all_mut().filter(|it| it.context & !1 == context & !1) {
            place.lost = Some(error.clone());
        }
    }

    /// The collectives of a context end in an error, but for those before this number, if it is known.
    pub fn fail_all(&mut self, context: u32, number: Option<u32>, error: &Error) {
        for place in self.all_mut().filter(|place| place.context == context) {
            place.failure.get_or_insert_with(|| (error.clone(), number));
        }
    }

    /// This rank is about to sleep.
    pub fn fall_asleep(&mut self) {
        let Self { places, busy } = self;
        for id in &*busy {
            let Some(Some(place)) = places.get_mut(*id as usize) else {
                continue;
            };
            place.sleeps = true;
            if place.shown < place.queue.len().min(MOST_OUTSTANDING)
                && let Some(board) = &place.board
            {
                wish(board);
            }
        }
    }

    /// A collective of a context is done by messages, and its rank is about to sleep over it.
    pub fn stand_aside(&self, context: u32, number: u32) {
        let boards = self.of_context(context).filter_map(|it| it.board.as_ref());
        boards.for_each(|board| board.stand_aside(number));
    }

    /// Members that are in the epoch after this rank's, and what they do there, with its number.
    pub fn ahead(&self, context: u32) -> impl Iterator<Item = (Peer, CollectiveNote, u32)> + '_ {
        self.of_context(context).filter_map(|place| {
            let (member, note) = place.board.as_ref()?.ahead()?;
            let call = CollectiveNote::from_bits(note.call);
            Some((place.peers[member], call, note.number))
        })
    }

    /// The collectives under way, each with its context.
    pub fn calls(&self) -> impl Iterator<Item = (u32, &BoardCall)> {
        let of = |place: &Outstanding| place.making.is_none();
        let places = self.all().filter(move |place| of(place));
        places.flat_map(|place| {
            let calls = place.queue.iter().map(|queued| &queued.attendance.call);
            calls.map(|call| (place.context, call))
        })
    }

    /// A member that has arrived for something else than this rank in the oldest collective of a communicator: context, number and
    /// members, and the error.
    pub fn disagreement(&self) -> Option<(u32, u32, Box<[Peer]>, Error)> {
        self.all()
            .filter(|place| place.lost.is_none())
            .find_map(|place| {
                let first = place.queue.front().filter(|_| place.shown > 0)?;
                let (board, attendance) = (place.board.as_ref()?, &first.attendance);
                let error = (0..board.members())
                    .filter(|member| board.has_at(attendance.epoch, *member))
                    .filter(|member| {
                        let note = board.note_at(attendance.epoch, *member);
                        !attendance.call.agrees(note)
                    })
                    .find_map(|member| place.difference(attendance, member))?;
                let number = attendance.call.note.number;
                Some((place.context, number, place.peers.clone(), error))
            })
    }

    /// The members of the communicator with this context.
    pub fn members_of(&self, context: u32) -> Option<Box<[Peer]>> {
        let mut places = self.of_context(context);
        places.next().map(|place| place.peers.clone())
    }

    /// The name of the collective that ends with a request, and the members for which it waits; or the request for which it
    /// waits, while the board is being made.
    pub fn awaited_of(
        &self,
        request: RequestId,
    ) -> Option<(&'static str, Vec<Peer>, Option<RequestId>)> {
        self.all().find_map(|place| {
            let at = place.queue.iter().position(|it| it.request == request)?;
            let name = place.queue.get(at)?.attendance.call.name();
            let making = place.making.as_ref().map(Making::request);
            // It ends behind those before it.
            let missing = (0..=at).find_map(|at| {
                let missing: Vec<Peer> = place.missing(at).collect();
                (!missing.is_empty()).then_some(missing)
            });
            Some((name, missing.unwrap_or_default(), making))
        })
    }

    /// Takes out a board that is freed, if nothing is outstanding; otherwise that follows.
    pub fn free(&mut self, id: BoardId) -> Option<Outstanding> {
        let place = self.places.get_mut(id.0 as usize)?;
        place.as_mut()?.is_freed = true;
        place.take_if(|place| place.is_idle())
    }
}

impl Engine {
    /// Whether this board is made. If not, it is being made, or there is none: then it must be known how collectives are done without.
    #[inline]
    pub(crate) fn has_outstanding(&self, id: BoardId) -> bool {
        let place = self.core.boards.outstanding.get(id);
        place.is_some_and(|place| place.board.is_some())
    }

    /// Whether a collective can [begin](Self::begin_on_made_board) on this board.
    #[inline(always)]
    pub(crate) fn may_begin_on_board(&self, id: BoardId) -> bool {
        self.has_outstanding(id) && self.core.requests.check_room().is_ok()
    }

    /// Begins a collective on the board of this number. `context` is the communicator's; `by_messages` says how it is done without a
    /// board that [is not made](Self::has_outstanding) yet.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    #[inline]
    pub(crate) fn begin_on_board<T: Transfer + 'static>(
        &mut self,
        (id, context): (BoardId, u32),
        attendance: Attendance,
        transfer: T,
        by_messages: Option<ByMessages>,
    ) -> Result<Begun> {
        let core = &mut self.core;
        let Some(place) = core.boards.outstanding.get_mut(id) else {
            return Ok(Begun::ByMessages);
        };
        if place.board.is_none() && place.making.is_none() {
            return Ok(Begun::ByMessages);
        }
        core.requests.check_room()?;
        let place = (id, context);
        let begun = self.begin_on_made_board(place, attendance, transfer, by_messages);
        Ok(begun.map_or(Begun::AtOnce, Begun::Request))
    }

    /// The same on a board that is made, or being made, and with room for a request: `None` if it has ended for this rank.
    #[inline(always)]
    pub(crate) fn begin_on_made_board<T: Transfer + 'static>(
        &mut self,
        (id, context): (BoardId, u32),
        mut attendance: Attendance,
        transfer: T,
        by_messages: Option<ByMessages>,
    ) -> Option<RequestId> {
        let start = self.show_new(id, &mut attendance, &transfer);
        if matches!(start, Start::Ended) {
            return None;
        }
        let request = self.core.requests.insert(context, None, Work::Schedule);
        let queued = Queued {
            attendance,
            transfer: Arc::new(transfer),
            request,
            by_messages: by_messages.map(Box::new),
        };
        self.go_on_with_new(id, start, queued);
        Some(request)
    }

    /// Starts a persistent collective, whose request is `request`. False, without effect, if it has no board.
    #[inline]
    pub(in crate::engine) fn start_on_board(
        &mut self,
        repeated: &Repeated,
        request: RequestId,
        by_messages: &ByMessages,
    ) -> bool {
        let id = repeated.board;
        let place = self.core.boards.outstanding.get(id);
        let Some(is_making) = place
            .filter(|place| place.board.is_some() || place.making.is_some())
            .map(|place| place.making.is_some())
        else {
            return false;
        };
        let mut attendance = repeated.attendance.clone();
        let start = self.show_new(id, &mut attendance, &*repeated.transfer);
        if matches!(start, Start::Ended) {
            self.core.complete(request);
            return true;
        }
        let queued = Queued {
            attendance,
            transfer: Arc::clone(&repeated.transfer),
            request,
            by_messages: is_making.then(|| Box::new(by_messages.clone())),
        };
        self.go_on_with_new(id, start, queued);
        true
    }

    /// Shows what a rank shows in a new collective, if there is a board and nothing stands before it, and ends it if those for whom it
    /// waits are there.
    #[inline(always)]
    fn show_new<T: Transfer + ?Sized>(
        &mut self,
        id: BoardId,
        attendance: &mut Attendance,
        transfer: &T,
    ) -> Start {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return Start::Waits;
        };
        attendance.call.note.length |= place.history.bits();
        attendance.before = place.history.last;
        place.history.add(attendance.call.note.call);
        if place.making.is_some() {
            return Start::Waits;
        }
        let is_unusual = place.lost.is_some()
            || self.core.events.are_wanted()
            || !self.core.mismatches.is_empty();
        if is_unusual && let Some(error) = self.begin_unusually(id) {
            self.core.counters.collective_at(attendance.call.place);
            return Start::Fails(error);
        }
        let Self {
            core,
            fabric,
            writers,
            ..
        } = self;
        core.counters.collective_at(attendance.call.place);
        let Some(place) = core.boards.outstanding.get_mut(id) else {
            return Start::Waits;
        };
        let is_other_awake = |other: Peer| {
            let writer = writers.get(other.index());
            writer.and_then(|writer| writer.reader_sleeps()) == Some(false)
        };
        if !place.queue.is_empty()
            || !place.show(&mut **fabric, attendance, transfer, is_other_awake)
        {
            return Start::Waits;
        }
        if (place.are_there(attendance) || place.come_at_once(attendance))
            && let Some(shown) = place.shown_at(attendance.epoch)
        {
            match transfer.left(&shown) {
                Ok(None) if transfer.take(&shown) => {
                    core.counters.collectives_ended.add(1);
                    if core.events.are_wanted() {
                        self.tell_of_end(id);
                    }
                    return Start::Ended;
                }
                Ok(Some(left)) => return Start::Left(left),
                // It is found again where it ends.
                _ => {}
            }
        }
        place.shown = 1;
        Start::Waits
    }

    /// Somebody listens, or something has gone wrong: tells of the begin of a collective. The error if it cannot end.
    #[cold]
    #[inline(never)]
    fn begin_unusually(&mut self, id: BoardId) -> Option<Error> {
        let core = &mut self.core;
        let place = core.boards.outstanding.get(id)?;
        let (context, lost) = (place.context, place.lost.clone());
        core.raise(EventKind::CollectiveBegun, None, (-1, context), 0);
        lost.or_else(|| core.mismatches.of(context).cloned())
    }

    /// A new collective has not ended at once.
    #[inline(never)]
    fn go_on_with_new(&mut self, id: BoardId, start: Start, queued: Queued) {
        match start {
            Start::Ended => return,
            Start::Left(left) => return self.go_on_by_messages(id, &queued, left),
            Start::Fails(error) => return self.fail_outstanding(id, queued, &error),
            Start::Waits => {}
        }
        let boards = &mut self.core.boards.outstanding;
        if let Some(place) = boards.get_mut(id) {
            place.queue.push_back(queued);
        }
        boards.note_busy(id);
        if self.driver_sleeps {
            // It has not asked for room.
            self.core.boards.outstanding.fall_asleep();
            self.look_at_outstanding();
        }
    }

    /// What is left of a collective that has come to its end on the board goes by messages.
    fn go_on_by_messages(&mut self, id: BoardId, queued: &Queued, left: Box<Schedule>) {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return;
        };
        let number = queued.attendance.call.note.number;
        let context = CollectiveContext::new(place.context, place.group.clone(), number);
        self.begin_schedule(Arc::from(left), context, queued.request);
        // Behind its first steps: they copy what lies where something is taken to.
        let place = self.core.boards.outstanding.get_mut(id);
        let place = place.as_deref();
        if let Some(shown) = place.and_then(|place| place.shown_at(queued.attendance.epoch)) {
            let _ = queued.transfer.take(&shown);
        }
    }

    /// Shows and ends what can be of the collectives that are outstanding. True if one has ended.
    pub(in crate::engine) fn look_at_outstanding(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(id) = self.core.boards.outstanding.busy.get(at).copied() {
            let id = BoardId(id);
            self.go_on_making(id);
            loop {
                let Self { core, fabric, .. } = self;
                let place = core.boards.outstanding.get_mut(id);
                let ended = place.and_then(|place| place.next_ended(&mut **fabric));
                let Some((queued, ending)) = ended else { break };
                moved = true;
                match ending {
                    Ending::Well => self.end_outstanding(id, queued, None),
                    Ending::Failed(error) => self.fail_outstanding(id, queued, &error),
                    Ending::Truncated(error) => {
                        let error = in_call(&queued.attendance.call, &error);
                        self.tell_difference(id, &queued.attendance.call, &error);
                        self.end_outstanding(id, queued, Some(error));
                    }
                    Ending::Left(left) => self.go_on_by_messages(id, &queued, left),
                }
            }
            let boards = &mut self.core.boards.outstanding;
            let place = boards.get_mut(id);
            if place.as_ref().is_some_and(|place| !place.is_idle()) {
                at += 1;
                continue;
            }
            let is_freed = place.is_some_and(|place| place.is_freed);
            boards.busy.swap_remove(at);
            if is_freed && let Some(place) = boards.places[id.0 as usize].take() {
                self.leave_outstanding(place);
            }
        }
        moved
    }

    /// A wait begins: the members that are missing in the oldest collective are given a moment, and the core if it is `gives_core`
    /// and they stand on it. True if one has ended.
    pub(in crate::engine) fn end_outstanding_soon(&mut self, gives_core: bool) -> bool {
        let boards = &self.core.boards.outstanding;
        let Some(id) = boards.busy.first().map(|id| BoardId(*id)) else {
            return false;
        };
        let members = boards.get(id).map_or(0, |place| place.peers.len());
        for _ in 0..members {
            let Self { core, fabric, .. } = self;
            let place = core.boards.outstanding.get_mut(id);
            if !place.is_some_and(|place| place.comes_soon(&mut **fabric, gives_core)) {
                return false;
            }
            if self.look_at_outstanding() {
                return true;
            }
        }
        false
    }

    /// A collective has ended in an error that does not say in which call.
    #[cold]
    fn fail_outstanding(&mut self, id: BoardId, queued: Queued, error: &Error) {
        self.tell_difference(id, &queued.attendance.call, error);
        let error = in_call(&queued.attendance.call, error);
        self.end_outstanding(id, queued, Some(error));
    }

    /// A collective has ended.
    fn end_outstanding(&mut self, id: BoardId, queued: Queued, error: Option<Error>) {
        self.note_ended(id, error.is_some());
        if let Some(slot) = self.core.requests.get_mut(queued.request) {
            slot.fail(error);
        }
        self.core.complete(queued.request);
    }

    /// If this rank has found that a member does something else, the others are told.
    #[cold]
    fn tell_difference(&mut self, id: BoardId, call: &BoardCall, error: &Error) {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return;
        };
        if place.reason(call).is_some() || !is_mismatch(error) {
            return;
        }
        let (context, peers) = (place.context, place.peers.clone());
        let which = (context, Some(call.note.number));
        self.tell_of_mismatch(which, &peers, error);
    }

    fn note_ended(&mut self, id: BoardId, failed: bool) {
        let counters = &self.core.counters;
        counters.collectives_ended.add(1);
        if failed {
            counters.collectives_failed.add(1);
        }
        if self.core.events.are_wanted() {
            self.tell_of_end(id);
        }
    }

    /// Tells those who listen that a collective has ended.
    #[cold]
    #[inline(never)]
    fn tell_of_end(&mut self, id: BoardId) {
        let core = &mut self.core;
        let context = core.boards.outstanding.get(id).map_or(0, |it| it.context);
        core.raise(EventKind::CollectiveEnded, None, (-1, context), 0);
    }

    /// It is decided whether a communicator has its board: what was begun meanwhile goes on, there or by messages.
    pub(in crate::engine) fn decide_outstanding(&mut self, id: BoardId, board: Option<Board>) {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return;
        };
        place.making = None;
        place.board = board;
        if place.board.is_none() {
            let queue = std::mem::take(&mut place.queue);
            for queued in queue {
                if let Some(by_messages) = queued.by_messages {
                    let (schedule, context) = *by_messages;
                    self.begin_schedule(schedule, context, queued.request);
                }
            }
            return;
        }
        let context = place.context;
        let places: Vec<usize> = (place.queue.iter_mut())
            .map(|queued| {
                queued.by_messages = None;
                queued.attendance.call.place
            })
            .collect();
        for place in places {
            self.core.counters.collective_at(place);
            let named = (-1, context);
            self.core.raise(EventKind::CollectiveBegun, None, named, 0);
        }
    }
}
