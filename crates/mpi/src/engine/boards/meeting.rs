//! Meetings: barriers of two that end at once, because the other member waits already.

use weft_fabric::Peer;

use super::super::Engine;
use super::BoardId;
use super::communicator_board::BoardCall;

impl Engine {
    /// A barrier of two on a board, if the other one waits there. False, without effect, if anything is not as usual: then it is a
    /// collective as any other.
    #[inline(always)]
    pub(crate) fn meet_at_once(&mut self, id: BoardId, call: BoardCall) -> bool {
        let core = &mut self.core;
        // Who listens is told when it begins and ends.
        if core.events.are_wanted() || !core.mismatches.is_empty() {
            return false;
        }
        let Some(place) = core.boards.get_mut(id) else {
            return false;
        };
        let [first, second] = *place.peers else {
            return false;
        };
        if place.call.is_some() || place.lost.is_some() {
            return false;
        }
        let mut note = call.note;
        note.length |= place.history.bits();
        if !place.board.meet(note) {
            return false;
        }
        place.before = place.history.last;
        place.history.add(note.call);
        core.counters.collective_at(call.place);
        core.counters.collectives_ended.add(1);
        let other = if place.board.me() == 0 { second } else { first };
        // It waits for this.
        let writer = self.writers.get(other.index());
        match writer.and_then(|writer| writer.reader_sleeps()) {
            Some(false) => true,
            Some(true) | None => self.wake_met(other),
        }
    }

    /// Wakes the other one if it sleeps. Always true.
    #[cold]
    fn wake_met(&mut self, other: Peer) -> bool {
        if self.fabric.is_asleep(other) {
            self.fabric.wake(other);
        }
        true
    }
}
