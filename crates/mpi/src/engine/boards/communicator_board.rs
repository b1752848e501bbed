//! Board of one communicator for one rank: its operation there, what it waits for, and why that may not come.

use weft_fabric::board::{Board, Note};
use weft_fabric::waiting::Turns;
use weft_fabric::{Peer, SharedKey};

use super::super::collective_note::CollectiveNote;
use super::history::{self, History};
use crate::error::{Error, ErrorClass};

/// A number says the form of its collective in its lowest bits, of which there are at most so many.
const FORMS: u32 = 4;

/// What is waited for at a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// Room for so much data in the next epoch.
    Room(usize),
    /// That all have arrived.
    All,
    /// That this member has arrived.
    One(usize),
    /// That the first so many have arrived.
    First(usize),
    /// Why a member does something else in the same epoch: a loss, or a mistake.
    Reason,
}

/// A collective on a board, as errors and tools name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoardCall {
    /// Place of its name in [`COLLECTIVES`](super::super::counters::COLLECTIVES).
    pub place: usize,
    /// Bytes of the data of each rank, alike on all.
    pub each: usize,
    /// What all members compute alike.
    pub note: Note,
    /// The bits of the note's length that are alike on all.
    alike: u32,
}

impl BoardCall {
    /// The collective of this note, number `number` of its communicator, as [`COLLECTIVES`](super::super::counters::COLLECTIVES)
    /// has it at `place`.
    #[inline]
    pub fn new(place: usize, each: usize, note: CollectiveNote, number: u32) -> Self {
        let note = Note {
            call: note.bits(),
            number,
            length: history::length_of(each),
        };
        let alike = u32::MAX;
        Self {
            place,
            each,
            note,
            alike,
        }
    }

    /// The same of a collective in which each member shows a number of bytes of its own, or nothing, and sends messages.
    #[inline]
    pub fn uneven(place: usize, shown: Option<usize>, note: CollectiveNote, number: u32) -> Self {
        let mut call = Self::new(place, shown.unwrap_or(0), note, number);
        call.note.length = history::own_length(shown);
        call.alike = history::HISTORY_BITS;
        call
    }

    /// The bits of the note's length that are alike on all.
    #[inline]
    pub(super) fn alike(&self) -> u32 {
        self.alike
    }

    /// Whether each member shows a number of bytes of its own.
    pub fn is_uneven(&self) -> bool {
        self.alike != u32::MAX
    }

    /// Whether the collective of this number comes later, and is of the same form.
    pub fn is_before(&self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.note.number);
        ahead.cast_signed() > 0 && ahead.is_multiple_of(FORMS)
    }

    /// Whether a member that shows this note does the same.
    #[inline]
    pub fn agrees(&self, note: Note) -> bool {
        note.call == self.note.call && self.is_as_long(note)
    }

    /// Whether number, history, and the length if it is alike on all, are those of this note.
    #[inline]
    fn is_as_long(&self, note: Note) -> bool {
        note.number == self.note.number && (note.length ^ self.note.length) & self.alike == 0
    }

    /// The MPI call.
    pub fn name(&self) -> &'static str {
        CollectiveNote::from_bits(self.note.call).name()
    }
}

/// The board of one communicator.
#[derive(Debug)]
pub(super) struct CommunicatorBoard {
    pub board: Board,
    pub peers: Box<[Peer]>,
    /// The communicator's context for collectives.
    pub context: u32,
    /// What this rank does on it, until it has ended.
    pub call: Option<BoardCall>,
    /// That is begun [at once](super::at_once): this rank has arrived at its epoch, and the full path is to go on behind that.
    pub is_begun: bool,
    /// What it has done before that.
    pub history: History,
    /// The last of that, before what it does now.
    pub before: CollectiveNote,
    pub awaited: Option<Awaited>,
    /// Its rank is about to sleep over what it waits for, or has: whoever ends the wait is asked for that.
    pub sleeps: bool,
    /// Waits that begin by giving the core to those who are missing.
    pub turns: Turns,
    /// Why the wait has ended otherwise than by what was waited for.
    pub failure: Option<Error>,
    /// A member is lost, or the communicator is revoked.
    pub lost: Option<Error>,
    /// The block, if this process has allocated it.
    pub block: Option<SharedKey>,
}

impl CommunicatorBoard {
    /// Whether what is waited for is there, or will never be.
    #[inline]
    pub fn has_ended(&mut self) -> bool {
        let there = match self.awaited {
            None => return true,
            Some(Awaited::Room(length)) => {
                self.board.has_room(length)
                    || self.sleeps && {
                        self.wish();
                        self.board.has_room(length)
                    }
            }
            Some(Awaited::All) => self.board.have_all(),
            Some(Awaited::One(member)) => self.board.has(member),
            Some(Awaited::First(count)) => self.board.have_from_first() >= count,
            Some(Awaited::Reason) => false,
        };
        if !there && self.lost.is_some() && self.failure.is_none() {
            self.failure.clone_from(&self.lost);
        }
        there || self.failure.is_some()
    }

    /// Asks those who arrive to wake this rank, if that is not what they do anyway. To be done before the sleep is announced,
    /// for whoever finds that announced looks for this; and again before a look behind that, for whoever took this before.
    /// Whoever takes it wakes us when all have come to its epoch, which may be too early.
    #[cold]
    pub fn wish(&mut self) {
        self.sleeps = true;
        if matches!(self.awaited, Some(Awaited::Room(_))) && !self.board.is_room_wished() {
            self.board.wish_room();
        }
    }

    /// Those for whom this rank waits.
    pub fn missing(&self) -> impl Iterator<Item = Peer> + '_ {
        let board = &self.board;
        let is_missing = move |member: &usize| match self.awaited {
            None | Some(Awaited::Reason) => false,
            Some(Awaited::Room(length)) => !board.leaves_room(*member, length),
            Some(Awaited::All) => !board.has(*member),
            Some(Awaited::One(one)) => *member == one && !board.has(one),
            Some(Awaited::First(count)) => *member < count && !board.has(*member),
        };
        let missing = (0..board.members()).filter(is_missing);
        missing.map(|member| self.peers[member])
    }

    /// The error if a member that has arrived does something else than this rank, or has done before.
    #[cold]
    pub fn disagreement(&self, call: &BoardCall, member: usize, note: Note) -> Option<Error> {
        let peers = [self.board.me(), member].map(|member| self.peers[member]);
        let before = self.board.note_before(member);
        let before = [
            Some(self.before),
            before.map(|note| CollectiveNote::from_bits(note.call)),
        ];
        disagreement(call, peers, note, before)
    }
}

/// The error if a peer, which shows this note, does something else than this rank does in this call, or has done before: of both, this
/// rank first, it is said who they are, and what they did before, if it is known.
#[cold]
pub(super) fn disagreement(
    call: &BoardCall,
    [me, peer]: [Peer; 2],
    note: Note,
    [own_before, before]: [Option<CollectiveNote>; 2],
) -> Option<Error> {
    let mine = call.note;
    let [own, other] = [mine, note].map(|note| CollectiveNote::from_bits(note.call));
    if let Some(error) = own.disagreement(me.0, (peer.0, other)) {
        return Some(error);
    }
    if call.is_as_long(note) {
        return None;
    }
    let lengths = [mine, note].map(|note| history::length_in(note.length));
    let text = if note.number != mine.number {
        format!(
            "rank {peer} of MPI_COMM_WORLD has gone through more or fewer collectives than this rank; all ranks of a communicator must call the same collectives in the same order"
        )
    } else if !call.is_uneven() && lengths[0] != lengths[1] {
        let came = lengths[1].map_or_else(
            |_| "another number of".to_owned(),
            |length| length.to_string(),
        );
        other_length(peer, &came, call.each)
    } else {
        let own_before = own_before.unwrap_or(CollectiveNote::NOTHING);
        return Some(own_before.disagreement_before(me, peer, before));
    };
    Some(Error::new(ErrorClass::Truncate, text).about(peer))
}

/// What the error says of a member whose data have another length than this rank expects.
#[cold]
pub(super) fn other_length(peer: Peer, came: &str, expected: usize) -> String {
    format!(
        "a peer sent {came} bytes where this rank expects {expected}; count and datatype must agree on all ranks of the call (the peer is rank {peer} of MPI_COMM_WORLD)"
    )
}
