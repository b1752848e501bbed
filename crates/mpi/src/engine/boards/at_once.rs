//! Small collectives that end at once: this rank shows what it gives in one epoch, and what it waits for is there, or comes
//! within a few looks.
//!
//! If it does not come, or if a member shows something else, the collective is *begun*: the full path, which the call takes
//! then, goes on behind this rank's [arrival](Epochs::enter), and has all the ways to wait and to explain.
//!
//! [`Epochs::enter`]: super::Epochs::enter

use weft_fabric::Region;
use weft_fabric::board::Board;

use super::super::Engine;
use super::communicator_board::{Awaited, BoardCall};
use super::epochs::{Audience, wake};
use super::{BoardId, CommunicatorBoard};

/// What a rank does in the one epoch of a collective.
pub(crate) struct Part<'a> {
    pub call: BoardCall,
    /// The data that it shows.
    pub shows: Option<&'a Region>,
    /// Who waits for it.
    pub audience: Audience,
    /// What it waits for.
    pub awaited: Option<Awaited>,
}

impl Engine {
    /// Takes this rank's part in a collective. The board, from which the data can be read, if the collective has ended for
    /// this rank but for that. `None` if anything is not as usual: either without effect, or the collective is begun; the
    /// full path knows which.
    #[inline(always)]
    pub(crate) fn take_part_at_once(&mut self, id: BoardId, part: &Part<'_>) -> Option<&Board> {
        let core = &mut self.core;
        // Who listens is told when it begins and ends.
        if core.events.are_wanted() || !core.mismatches.is_empty() {
            return None;
        }
        let place = core.boards.get_mut(id)?;
        if place.call.is_some() || place.lost.is_some() {
            return None;
        }
        let length = part.shows.map_or(0, Region::len);
        if !place.board.has_room(length) {
            return None;
        }
        if let Some(data) = part.shows
            && !place.board.write(length, 0, data)
        {
            return None;
        }
        let mut call = part.call;
        call.note.length |= place.history.bits();
        place.board.arrive(call.note);
        place.before = place.history.last;
        place.history.add(call.note.call);
        core.counters.collective_at(call.place);
        self.wake_at_once(id, part.audience, call.note.number);
        let place = self.core.boards.get_mut(id)?;
        let is_there = match part.awaited {
            None => true,
            Some(awaited) => place.is_there(awaited, &call),
        };
        if !is_there && !self.comes_at_once(id, part.awaited, &call) {
            let place = self.core.boards.get_mut(id)?;
            (place.call, place.is_begun) = (Some(call), true);
            return None;
        }
        self.core.counters.collectives_ended.add(1);
        self.core.boards.get(id).map(|place| &place.board)
    }

    /// Wakes those who wait for this rank, which has arrived.
    #[inline(always)]
    fn wake_at_once(&mut self, id: BoardId, audience: Audience, number: u32) {
        let Some(place) = self.core.boards.get_mut(id) else {
            return;
        };
        if let [first, second] = *place.peers {
            let other = if place.board.me() == 0 { second } else { first };
            let writer = self.writers.get(other.index());
            if writer.and_then(|writer| writer.reader_sleeps()) != Some(false) {
                self.wake_other(id, number);
            }
        } else {
            self.wake_audience(id, audience, number);
        }
    }

    /// The other one of two is woken by what it waits for, whatever that is.
    #[cold]
    fn wake_other(&mut self, id: BoardId, number: u32) {
        if let Some(place) = self.core.boards.get_mut(id) {
            place.wake_other(&mut *self.fabric, number);
        }
    }

    #[inline(never)]
    fn wake_audience(&mut self, id: BoardId, audience: Audience, number: u32) {
        if let Some(place) = self.core.boards.get_mut(id) {
            place.board.fence();
            wake(&mut *self.fabric, place, audience, number);
        }
    }

    /// Looks a few times more.
    #[inline(never)]
    fn comes_at_once(&mut self, id: BoardId, awaited: Option<Awaited>, call: &BoardCall) -> bool {
        let Some(place) = self.core.boards.get_mut(id) else {
            return false;
        };
        place.awaited = awaited;
        let came = place.ends_soon(&mut *self.fabric);
        place.awaited = None;
        // A failure stays: the full path finds it.
        came && place.failure.is_none() && awaited.is_none_or(|awaited| place.is_there(awaited, call))
    }
}

impl CommunicatorBoard {
    /// Whether all for whom a call waits have arrived, for the same call.
    #[inline(always)]
    fn is_there(&mut self, awaited: Awaited, call: &BoardCall) -> bool {
        match awaited {
            Awaited::All => {
                self.board.have_all()
                    && (0..self.board.members())
                        .all(|member| call.agrees(self.board.note_of(member)))
            }
            Awaited::One(member) => {
                self.board.has(member) && call.agrees(self.board.note_of(member))
            }
            Awaited::Room(_) | Awaited::First(_) | Awaited::Reason => false,
        }
    }
}
