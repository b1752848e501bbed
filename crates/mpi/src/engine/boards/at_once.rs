//! Small collectives that end at once: this rank shows what it gives in one epoch, and what it waits for is there, or comes
//! within a few looks.
//!
//! If it does not come, or if a member shows something else, the collective is *begun*: the full path, which the call takes
//! then, goes on behind this rank's [arrival](super::Epochs::enter), and has all the ways to wait and to explain.

use weft_fabric::Fabric;
use weft_fabric::board::{Board, Note, Place};
use weft_fiber as fiber;

use super::super::Engine;
use super::super::counters::Counters;
use super::communicator_board::{Awaited, BoardCall};
use super::epochs::{Audience, wake, wake_other};
use super::{BoardId, CommunicatorBoard};

/// What a rank does in the one epoch of a collective.
pub(crate) struct Part<W, M> {
    pub call: BoardCall,
    /// The data that it shows: so many bytes, and what writes them.
    pub shows: (usize, W),
    /// What it does for itself when it has shown them and looked once: the lines of the others are on their way meanwhile. The full
    /// path may do it once more.
    pub meanwhile: M,
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
    pub(crate) fn take_part_at_once(
        &mut self,
        id: BoardId,
        part: Part<impl FnOnce(&Place<'_>) -> bool, impl FnOnce()>,
    ) -> Option<&Board> {
        let (place, counters, _) = self.arrive_at_once(id, part)?;
        counters.collectives_ended.add(1);
        Some(&place.board)
    }

    /// The same of a collective that `end` ends, unless it finds with the board that this is not all that there is to do: then it is
    /// begun, too.
    #[inline(always)]
    pub(crate) fn take_part_if_at_once(
        &mut self,
        id: BoardId,
        part: Part<impl FnOnce(&Place<'_>) -> bool, impl FnOnce()>,
        end: impl FnOnce(&Board) -> bool,
    ) -> bool {
        let Some((place, counters, call)) = self.arrive_at_once(id, part) else {
            return false;
        };
        if !end(&place.board) {
            (place.call, place.is_begun) = (Some(call), true);
            return false;
        }
        counters.collectives_ended.add(1);
        true
    }

    /// Arrives at the board for a collective, and answers it if what is waited for is there: with the counters, and the call.
    #[inline(always)]
    fn arrive_at_once(
        &mut self,
        id: BoardId,
        part: Part<impl FnOnce(&Place<'_>) -> bool, impl FnOnce()>,
    ) -> Option<(&mut CommunicatorBoard, &Counters, BoardCall)> {
        let Self {
            core,
            writers,
            fabric,
            ..
        } = self;
        // Who listens is told when it begins and ends.
        if core.events.are_wanted() || !core.mismatches.is_empty() {
            return None;
        }
        let place = core.boards.get_mut(id)?;
        if place.call.is_some() || place.lost.is_some() {
            return None;
        }
        let (mut call, (length, write)) = (part.call, part.shows);
        call.note.length |= place.history.bits();
        if !place.board.show(length, write, call.note) {
            return None;
        }
        place.before = place.history.last;
        place.history.add(call.note.call);
        core.counters.collective_at(call.place);
        if let [first, second] = *place.peers {
            let other = if place.board.me() == 0 { second } else { first };
            let writer = writers.get(other.index());
            if writer.and_then(|writer| writer.reader_sleeps()) != Some(false) {
                wake_other(&mut **fabric, &place.board, &place.peers, call.note.number);
            }
        } else {
            place.wake_all(&mut **fabric, part.audience, call.note.number);
        }
        let expected = (call.note, call.alike());
        let missing = part
            .awaited
            .filter(|awaited| !place.is_there(*awaited, expected));
        (part.meanwhile)();
        if let Some(awaited) = missing
            && !place.comes(&mut **fabric, awaited, expected)
        {
            (place.call, place.is_begun) = (Some(call), true);
            return None;
        }
        Some((place, &core.counters, call))
    }
}

impl CommunicatorBoard {
    /// Whether all for whom a call waits have arrived, for the same call: that of a note, of whose length these bits are alike on all.
    #[inline(always)]
    fn is_there(&mut self, awaited: Awaited, (note, alike): (Note, u32)) -> bool {
        match awaited {
            Awaited::All => self.board.all_show(note, alike),
            Awaited::One(member) => self.board.shows(member, note, alike),
            Awaited::First(count) => self.board.first_show(count, note, alike),
            Awaited::Room(_) | Awaited::Reason => false,
        }
    }

    /// Looks a few times more.
    #[inline(never)]
    fn comes(&mut self, fabric: &mut dyn Fabric, awaited: Awaited, expected: (Note, u32)) -> bool {
        self.awaited = Some(awaited);
        let came = self.ends_soon(fabric, Self::comes_in_turn);
        self.awaited = None;
        // A failure stays: the full path finds it.
        came && self.failure.is_none() && self.is_there(awaited, expected)
    }

    /// Those who are missing get this core, once. Not from a fiber: others of its worker may run here.
    fn comes_in_turn(&mut self) -> bool {
        !fiber::is_fiber() && self.turns.give_core() && self.has_ended()
    }

    #[inline(never)]
    fn wake_all(&mut self, fabric: &mut dyn Fabric, audience: Audience, number: u32) {
        self.board.fence();
        let (board, peers) = (&mut self.board, &*self.peers);
        wake(fabric, (board, peers), audience, number);
    }
}
