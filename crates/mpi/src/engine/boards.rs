//! Boards: groups whose members share memory, each with a [`Board`](weft_fabric::board::Board) on which they do
//! collectives without messages and without a request; large data go slice by slice, one epoch for each.
//!
//! ```text
//!            ┌─────────────────────────────── for each epoch ────────────────────────────────────────────┐
//!   enter ── room? ──► write ──► arrive ──► tell who waits ──► until all, one, or those before have arrived ──► read
//!               └──────────── both wait as every call does, in `Guard::wait_for` ─────────────┘
//! ```
//!
//! The last member to arrive wakes the sleepers; a member that waits for one other is woken by that one. The table of
//! boards says what a rank waits for ([`Awaited`]), and each poll of the engine checks it: the driver finds it for parked
//! threads.
//!
//! # Loss and mismatch
//! A wait ends in an error that names the lost member, or in one if a member does something else than this rank: the
//! notes beside the data say what each does. The contents of a note are only compared.
//!
//! # End
//! A member leaves the board when its communicator is freed. The member that allocated the memory releases it when all
//! have left.

//!
//! | file | what |
//! |---|---|
//! | `at_once` | small collectives that end at once |
//! | `communicator_board` | the board of one communicator: what its rank waits for there, and mismatch |
//! | `epochs` | a collective of this rank on a board, epoch by epoch |
//! | `making` | making the board for outstanding collectives, while the program goes on |
//! | `history` | the part of a note about earlier calls, and about lengths |
//! | `meeting` | barriers of two that end at once |
//! | `memory` | making boards, and releasing their memory |
//! | `outstanding` | non-blocking collectives, on a board of their own |

mod at_once;
mod communicator_board;
mod epochs;
mod history;
mod making;
mod meeting;
mod memory;
mod outstanding;

use weft_fabric::Peer;

use super::collective_note::CollectiveNote;
use super::schedule::Which;
use crate::error::Error;
use crate::waits::{MOST, Operation};

use communicator_board::CommunicatorBoard;
use memory::Abandoned;
use outstanding::OutstandingBoards;

pub(crate) use at_once::Part;
pub(crate) use communicator_board::{Awaited, BoardCall};
pub(crate) use epochs::{Audience, Epochs};
pub(crate) use history::{MOST_OWN, shown_by};
pub(crate) use making::Told;
pub(crate) use outstanding::{Attendance, Begun, ByMessages, Repeated, Scratch, Shown, Transfer};

/// Bytes of memory in which data of members are combined, or packed, piece by piece: they stay in the first-level cache.
pub(crate) const SCRATCH: usize = 32 << 10;

/// Index of a board in the engine's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BoardId(pub u32);

/// All boards of a rank. See the [module page](self).
#[derive(Debug, Default)]
pub(super) struct Boards {
    places: Vec<Option<CommunicatorBoard>>,
    /// Those at which somebody waits.
    awaited: Vec<u32>,
    abandoned: Vec<Abandoned>,
    /// For non-blocking collectives.
    pub(super) outstanding: OutstandingBoards,
    /// [`SCRATCH`] bytes, once there is a board.
    scratch: Vec<u8>,
}

impl Boards {
    /// Whether anybody waits at a board.
    #[inline]
    pub(super) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether anything is to be looked at: somebody waits, or collectives are outstanding.
    #[inline]
    pub(super) fn want_look(&self) -> bool {
        self.are_awaited() | self.outstanding.are_busy()
    }

    /// Looks at what is waited for. True if some wait has ended.
    #[inline]
    fn look(&mut self, mut tell: impl FnMut(BoardId)) -> bool {
        let places = &mut self.places;
        let before = self.awaited.len();
        self.awaited.retain(|id| {
            let Some(Some(place)) = places.get_mut(*id as usize) else {
                return false;
            };
            let ended = place.has_ended();
            if ended {
                place.awaited = None;
                tell(BoardId(*id));
            }
            !ended
        });
        self.awaited.len() < before
    }

    /// This rank is about to sleep over all that is awaited.
    pub(super) fn fall_asleep(&mut self) {
        self.outstanding.fall_asleep();
        let places = &mut self.places;
        for id in &self.awaited {
            if let Some(Some(place)) = places.get_mut(*id as usize) {
                place.wish();
            }
        }
    }

    fn get(&self, id: BoardId) -> Option<&CommunicatorBoard> {
        self.places.get(id.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: BoardId) -> Option<&mut CommunicatorBoard> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    /// A peer is lost: who waits for it is told.
    pub(super) fn lose(&mut self, peer: Peer, error: &Error) {
        self.outstanding.lose(peer, error);
        for place in self.places.iter_mut().flatten() {
            if place.peers.contains(&peer) {
                place.lost.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// A communicator is revoked: who waits at its board is told.
    pub(super) fn revoke(&mut self, context: u32, error: &Error) {
        self.outstanding.revoke(context, error);
        for place in self.places.iter_mut().flatten() {
            if place.context & !1 == context & !1 {
                place.lost = Some(error.clone());
            }
        }
    }

    /// Those at which somebody waits, with the context of their collectives and the number of what they do.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (BoardId, u32, BoardCall)> + '_ {
        self.awaited.iter().filter_map(|id| {
            let place = self.get(BoardId(*id))?;
            Some((BoardId(*id), place.context, place.call?))
        })
    }

    /// What this rank waits for at a board.
    pub(super) fn awaited_of(&self, id: BoardId) -> Option<Operation> {
        let place = self.get(id)?;
        let board = &place.board;
        let has_come = |member: &usize| *member == board.me() || board.has(*member);
        let awaited: Vec<usize> = match place.awaited? {
            Awaited::Room(_) | Awaited::All => (0..board.members()).collect(),
            Awaited::One(member) => vec![member],
            Awaited::First(count) => (0..count).collect(),
            Awaited::Reason => Vec::new(),
        };
        let missing = awaited.into_iter().filter(|member| !has_come(member));
        Some(Operation::Collective {
            name: place.call?.name().to_owned(),
            context: place.context,
            missing: missing
                .filter_map(|member| Some(place.peers.get(member)?.0))
                .take(MOST)
                .collect(),
        })
    }

    /// The waits at boards of a context end in an error, but for that in a collective before the one of this number, if it is known:
    /// all members have done their part in that.
    pub(super) fn fail_all(&mut self, (context, number): Which, error: &Error) {
        self.outstanding.fail_all(context, number, error);
        for place in self.places.iter_mut().flatten() {
            let call = place.call.filter(|_| place.context == context);
            if call.is_some_and(|call| number.is_none_or(|number| !call.is_before(number))) {
                place.failure.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// The context of a board, and its members.
    pub(super) fn members_of(&self, id: BoardId) -> (u32, Box<[Peer]>) {
        let place = self.get(id);
        place.map_or_else(Default::default, |place| {
            (place.context, place.peers.clone())
        })
    }

    /// The number of the collective that this rank does on a board.
    pub(super) fn number_of(&self, id: BoardId) -> Option<u32> {
        let call = self.get(id)?.call.as_ref()?;
        Some(call.note.number)
    }

    /// A member of this board that has arrived for something else than this rank. Of other collectives by their number nothing
    /// follows: one that a loss has ended there may still be waited for here.
    pub(super) fn disagreement(&self, id: BoardId) -> Option<Error> {
        let place = self.get(id).filter(|place| place.lost.is_none())?;
        let (call, board) = (place.call.as_ref()?, &place.board);
        let arrived = (0..place.peers.len()).filter(|member| board.has(*member));
        let mut notes = arrived.map(|member| (member, board.note_of(member)));
        notes.find_map(|(member, note)| {
            let same = note.number == call.note.number;
            same.then(|| place.disagreement(call, member, note))
                .flatten()
        })
    }

    /// The wait at a board ends in an error.
    pub(super) fn fail(&mut self, id: BoardId, error: Error) {
        if let Some(place) = self.get_mut(id) {
            place.failure.get_or_insert(error);
        }
    }

    /// A collective of a communicator is done by messages, and its rank is about to sleep over it.
    pub(super) fn stand_aside(&self, context: u32, number: u32) {
        self.outstanding.stand_aside(context, number);
        let mut places = self.places.iter().flatten();
        if let Some(place) = places.find(|place| place.context == context) {
            place.board.stand_aside(number);
        }
    }

    /// Members of the boards of a context that are in the epoch after this rank's, and what they do there, with its number.
    pub(super) fn ahead(
        &self,
        context: u32,
    ) -> impl Iterator<Item = (Peer, CollectiveNote, u32)> + '_ {
        let mut places = self.places.iter().flatten();
        let place = places.find(|place| place.context == context);
        let ahead = place.and_then(|place| {
            let (member, note) = place.board.ahead()?;
            let call = CollectiveNote::from_bits(note.call);
            Some((place.peers[member], call, note.number))
        });
        ahead.into_iter().chain(self.outstanding.ahead(context))
    }
}
