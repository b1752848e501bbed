//! Small collectives that end at once: this rank shows what it gives in one epoch, and what it waits for is there, or comes
//! within a few looks.
//!
//! If it does not come, or if a member shows something else, the collective is *begun*: the full path, which the call takes
//! then, goes on behind this rank's [arrival](super::Epochs::enter), and has all the ways to wait and to explain.

use weft_fabric::board::{Board, Note};
use weft_fabric::{Fabric, Region};
use weft_fiber as fiber;

use super::super::Engine;
use super::communicator_board::{Awaited, BoardCall};
use super::epochs::{Audience, wake, wake_other};
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
        let mut call = part.call;
        call.note.length |= place.history.bits();
        if !place.board.show(part.shows, call.note) {
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
        let Some(awaited) = part.awaited else {
            core.counters.collectives_ended.add(1);
            return Some(&place.board);
        };
        if !place.is_there(awaited, call.note) && !place.comes(&mut **fabric, awaited, call.note) {
            (place.call, place.is_begun) = (Some(call), true);
            return None;
        }
        core.counters.collectives_ended.add(1);
        Some(&place.board)
    }
}

impl CommunicatorBoard {
    /// Whether all for whom a call waits have arrived, for the same call.
    #[inline(always)]
    fn is_there(&mut self, awaited: Awaited, note: Note) -> bool {
        match awaited {
            Awaited::All => self.board.all_show(note),
            Awaited::One(member) => self.board.shows(member, note),
            Awaited::Room(_) | Awaited::First(_) | Awaited::Reason => false,
        }
    }

    /// Looks a few times more.
    #[inline(never)]
    fn comes(&mut self, fabric: &mut dyn Fabric, awaited: Awaited, note: Note) -> bool {
        self.awaited = Some(awaited);
        let came = self.ends_soon(fabric, Self::comes_in_turn);
        self.awaited = None;
        // A failure stays: the full path finds it.
        came && self.failure.is_none() && self.is_there(awaited, note)
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
