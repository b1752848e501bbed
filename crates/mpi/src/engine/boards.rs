//! Boards: groups whose members share memory, each with a [`Board`] on which they do collectives of small data without
//! messages and without a request.
//!
//! ```text
//!   enter ── room? ──► write ──► arrive ──► tell who waits ──► until all, one, or those before have arrived ──► read
//!               └──────────── both wait as every call does, in `Guard::wait_for` ─────────────┘
//! ```
//!
//! Who arrives last wakes those who sleep; who waits for one member is woken by that one. What a rank waits for stands in
//! the table ([`Awaited`]), and is looked at with each look of the engine: whoever drives finds it for those who are parked.
//!
//! # Loss and mismatch
//! A wait ends in an error that names who is lost, and in one if a member does something else than this rank: the notes
//! beside the data say what each does. Nothing that a note says is used for anything but comparing.
//!
//! # End
//! A member leaves the board when its communicator is freed. Whoever allocated the memory gives it back when all have left.

use weft_fabric::board::{Board, Note};
use weft_fabric::{Fabric, Peer, SharedKey, SharedMemory};
use weft_sys::span::SharedBytes;

use super::Engine;
use super::collective_note::CollectiveNote;
use super::events::EventKind;
use super::progress::{Guard, WaitFor};
use crate::buffer::{self, Buffer};
use crate::error::{Error, ErrorClass, Result};
use crate::waits::{MOST, Operation};

/// Most boards whose memory this process has allocated at a time.
const MOST_LED: usize = 64;

/// Looks at a board alone before those at everything, as [`waiting`](weft_fabric::waiting) says: together they take no
/// longer than a cache line from another core, so whoever arrives at the same time pays for nothing else.
const LOOKS: u32 = 48;

/// Bits of a note's length that are the length: no board holds more.
const LENGTH_BITS: u32 = 17;

/// What a member has done on a board before: a hash of the calls, roots and operations. The upper bits of the length in its notes are
/// the upper bits of this, so that members who have parted without noticing (each the root of its own broadcast) are found when they next
/// meet.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    hash: u64,
    last: CollectiveNote,
}

impl History {
    /// As it stands in a note.
    #[inline]
    fn bits(self) -> u32 {
        (self.hash >> (32 + LENGTH_BITS) << LENGTH_BITS) as u32
    }

    #[inline]
    fn add(&mut self, call: u64) {
        self.last = CollectiveNote::from_bits(call);
        let mixed = self.hash ^ self.last.without_signature();
        self.hash = mixed.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

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

/// Who waits for a member that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Audience {
    /// All wait for all.
    All,
    /// This member waits for all.
    Root(usize),
    /// All wait for the one that arrives.
    Mine,
    /// Those of higher number wait for all of lower number.
    Above,
    /// Nobody.
    Nobody,
}

/// Index of a board in the engine's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoardId(pub u32);

/// A collective on a board, as errors and tools name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoardCall {
    /// Place of its name in [`COLLECTIVES`](super::counters::COLLECTIVES).
    pub place: usize,
    /// Bytes of data that one member shows at most.
    pub shown: usize,
    /// What all members compute alike.
    pub note: Note,
}

impl BoardCall {
    /// The MPI call.
    pub fn name(&self) -> &'static str {
        CollectiveNote::from_bits(self.note.call).name()
    }
}

/// The board of one communicator.
#[derive(Debug)]
struct CommunicatorBoard {
    board: Board,
    peers: Box<[Peer]>,
    /// The communicator's context for collectives.
    context: u32,
    /// What this rank does on it, until it has ended.
    call: Option<BoardCall>,
    /// What it has done before that.
    history: History,
    /// The last of that, before what it does now.
    before: CollectiveNote,
    awaited: Option<Awaited>,
    /// Why the wait has ended otherwise than by what was waited for.
    failure: Option<Error>,
    /// A member is lost, or the communicator is revoked.
    lost: Option<Error>,
    /// The block, if this process has allocated it.
    block: Option<SharedKey>,
}

impl CommunicatorBoard {
    /// Whether what is waited for is there, or will never be.
    #[inline]
    fn has_ended(&mut self) -> bool {
        let there = match self.awaited {
            None => return true,
            // Whoever takes the wish wakes us when all have come to its epoch, which may be too early: wished again.
            Some(Awaited::Room(length)) => {
                self.board.has_room(length) || {
                    self.board.wish_room();
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

    /// The error if a member that has arrived does something else than this rank, or has done before.
    #[cold]
    fn disagreement(&self, call: &BoardCall, member: usize, note: Note) -> Option<Error> {
        let (me, peer) = (self.peers[self.board.me()], self.peers[member]);
        let mine = call.note;
        let [own, other] = [mine, note].map(|note| CollectiveNote::from_bits(note.call));
        if let Some(error) = own.disagreement(me.0, (peer.0, other)) {
            return Some(error);
        }
        if (note.number, note.length) == (mine.number, mine.length) {
            return None;
        }
        let lengths = [mine, note].map(|note| note.length & ((1 << LENGTH_BITS) - 1));
        let text = if note.number != mine.number {
            format!(
                "rank {peer} of MPI_COMM_WORLD has gone through more or fewer collectives than this rank; all ranks of a communicator must call the same collectives in the same order"
            )
        } else if lengths[0] != lengths[1] {
            format!(
                "a peer sent {} bytes where this rank expects {}; count and datatype must agree on all ranks of the call (the peer is rank {peer} of MPI_COMM_WORLD)",
                lengths[1], lengths[0]
            )
        } else {
            let before = self.board.note_before(member);
            let before = before.map(|note| CollectiveNote::from_bits(note.call));
            return Some(self.before.disagreement_before(me, peer, before));
        };
        Some(Error::new(ErrorClass::Truncate, text).about(peer))
    }
}

/// A block that is given back when all have left.
#[derive(Debug)]
struct Abandoned {
    key: SharedKey,
    memory: SharedMemory,
    members: usize,
}

/// All boards of a rank. See the [module page](self).
#[derive(Debug, Default)]
pub(super) struct Boards {
    places: Vec<Option<CommunicatorBoard>>,
    /// Those at which somebody waits.
    awaited: Vec<u32>,
    abandoned: Vec<Abandoned>,
    /// One member's data, while they are combined with those of others.
    scratch: Vec<u8>,
}

impl Boards {
    /// Whether anybody waits at a board.
    #[inline]
    pub(super) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Looks at what is waited for. True if some wait has ended.
    #[inline]
    fn look(&mut self) -> bool {
        let places = &mut self.places;
        let before = self.awaited.len();
        self.awaited.retain(|id| {
            let Some(Some(place)) = places.get_mut(*id as usize) else {
                return false;
            };
            let ended = place.has_ended();
            if ended {
                place.awaited = None;
            }
            !ended
        });
        self.awaited.len() < before
    }

    fn get(&self, id: BoardId) -> Option<&CommunicatorBoard> {
        self.places.get(id.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: BoardId) -> Option<&mut CommunicatorBoard> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    /// A peer is lost: who waits for it is told.
    pub(super) fn lose(&mut self, peer: Peer, error: &Error) {
        for place in self.places.iter_mut().flatten() {
            if place.peers.contains(&peer) {
                place.lost.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// A communicator is revoked: who waits at its board is told.
    pub(super) fn revoke(&mut self, context: u32, error: &Error) {
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

    /// The waits at boards of a context end in an error.
    pub(super) fn fail_all(&mut self, context: u32, error: &Error) {
        for place in self.places.iter_mut().flatten() {
            if place.context == context && place.call.is_some() {
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
        let mut places = self.places.iter().flatten();
        if let Some(place) = places.find(|place| place.context == context) {
            place.board.stand_aside(number);
        }
    }

    /// A member of the board of a context that is in the epoch after this rank's, and what it does there, with its number.
    pub(super) fn ahead(&self, context: u32) -> Option<(Peer, CollectiveNote, u32)> {
        let mut places = self.places.iter().flatten();
        let place = places.find(|place| place.context == context)?;
        let (member, note) = place.board.ahead()?;
        let call = CollectiveNote::from_bits(note.call);
        Some((place.peers[member], call, note.number))
    }
}

/// Making and ending boards.
impl Engine {
    /// Looks at what is waited for at boards. True if some wait has ended.
    pub(super) fn look_at_boards(&mut self) -> bool {
        let ended = self.core.boards.look();
        if ended {
            self.core.wake_for_arrival();
        }
        ended
    }

    /// Memory for the board of so many members: its key for the others.
    pub(crate) fn allocate_board(&mut self, members: usize) -> Result<(SharedKey, SharedMemory)> {
        self.give_back_boards();
        let led = self.core.boards.places.iter().flatten();
        let led = led.filter(|place| place.block.is_some()).count();
        let bytes = Board::bytes_for(members)
            .filter(|_| led + self.core.boards.abandoned.len() < MOST_LED)
            .ok_or_else(|| Error::new(ErrorClass::NoMem, "no more boards here"))?;
        let block = self.fabric.allocate_shared(bytes)?;
        Ok((block.key, block.memory))
    }

    /// The board in the memory of a peer.
    pub(crate) fn attach_board(
        &mut self,
        leader: Peer,
        key: SharedKey,
        members: usize,
    ) -> Result<SharedMemory> {
        let bytes = Board::bytes_for(members).unwrap_or(usize::MAX);
        Ok(self.fabric.attach_shared(leader, key, bytes)?)
    }

    /// Gives the memory of a board back that was not made.
    pub(crate) fn release_board(&mut self, key: SharedKey) {
        self.fabric.release_shared(key);
    }

    /// Makes the board of the communicator with this context for collectives. `block` if this process has allocated it.
    /// `None` if the memory is too short.
    pub(crate) fn add_board(
        &mut self,
        context: u32,
        (memory, block): (SharedMemory, Option<SharedKey>),
        peers: Box<[Peer]>,
        me: usize,
    ) -> Option<BoardId> {
        let board = Board::new(memory, peers.len(), me)?;
        let boards = &mut self.core.boards;
        let needed = boards.scratch.len().max(board.capacity());
        boards.scratch.resize(needed, 0);
        let revoked = self.core.lost.revoked_error(context);
        let lost = peers.iter().find_map(|peer| self.core.lost.error_of(*peer));
        let lost = revoked.or(lost);
        let place = CommunicatorBoard {
            board,
            peers,
            context,
            call: None,
            history: History::default(),
            before: CollectiveNote::NOTHING,
            awaited: None,
            failure: None,
            lost,
            block,
        };
        let free = boards.places.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            boards.places.push(None);
            boards.places.len() - 1
        });
        boards.places[index] = Some(place);
        Some(BoardId(index as u32))
    }

    /// The members have found that not all can have the board of this context: nobody uses it.
    pub(crate) fn discard_board(&mut self, context: u32) {
        let of = |place: &CommunicatorBoard| place.context == context;
        for place in &mut self.core.boards.places {
            place.take_if(|place| of(place));
        }
    }

    /// The communicator with this context for collectives is freed, and so is its board.
    pub(crate) fn drop_board(&mut self, context: u32) {
        let boards = &mut self.core.boards;
        let of = |place: &Option<CommunicatorBoard>| {
            place.as_ref().is_some_and(|it| it.context == context)
        };
        let Some(index) = boards.places.iter().position(of) else {
            return;
        };
        if let Some(place) = boards.places[index].take() {
            let (memory, members) = (place.board.memory().clone(), place.board.members());
            place.board.leave();
            boards.abandoned.extend(place.block.map(|key| Abandoned {
                key,
                memory,
                members,
            }));
        }
        self.give_back_boards();
    }

    /// Gives back the memory of boards that all have left.
    fn give_back_boards(&mut self) {
        let fabric = &mut self.fabric;
        self.core.boards.abandoned.retain(|block| {
            let free = Board::have_left(&block.memory, block.members);
            if free {
                fabric.release_shared(block.key);
            }
            !free
        });
    }
}

/// One epoch of a collective of this rank on a board.
pub(crate) struct Epoch<'a, 'g> {
    engine: &'a mut Guard<'g>,
    id: BoardId,
    call: BoardCall,
}

impl<'a, 'g> Epoch<'a, 'g> {
    /// Enters the next epoch, when there is room.
    ///
    /// # Errors
    /// `ProcFailed` if a member is lost, `Other` if another thread of this rank is in a collective of the communicator.
    #[inline]
    pub fn enter(engine: &'a mut Guard<'g>, id: BoardId, mut call: BoardCall) -> Result<Self> {
        let place = engine.core.boards.get_mut(id);
        let place = place.ok_or_else(|| intern("names a board that is not there"))?;
        if place.call.is_some() {
            return Err(Error::new(
                ErrorClass::Other,
                format!(
                    "{}: another thread of this rank is in a collective of this communicator; begin them one after the other on all ranks",
                    call.name()
                ),
            ));
        }
        if let Some(lost) = &place.lost {
            return Err(in_call(&call, lost));
        }
        let context = place.context;
        if let Some(error) = engine.core.mismatches.of(context) {
            return Err(in_call(&call, error));
        }
        let place = engine.core.boards.get_mut(id);
        let place = place.ok_or_else(|| intern("names a board that is not there"))?;
        call.note.length |= place.history.bits();
        place.before = place.history.last;
        place.history.add(call.note.call);
        place.call = Some(call);
        let has_room = place.board.has_room(call.shown);
        let counters = &engine.core.counters;
        counters.collective_at(call.place);
        let context = place_context(engine, id);
        engine
            .core
            .raise(EventKind::CollectiveBegun, None, (-1, context), 0);
        let mut epoch = Self { engine, id, call };
        if !has_room {
            epoch.until(Awaited::Room(call.shown))?;
        }
        Ok(epoch)
    }

    #[inline]
    fn place(&self) -> &CommunicatorBoard {
        let place = self.engine.core.boards.get(self.id);
        place.expect("a board is not dropped while a collective is on it")
    }

    #[inline]
    fn place_mut(&mut self) -> &mut CommunicatorBoard {
        let place = self.engine.core.boards.get_mut(self.id);
        place.expect("a board is not dropped while a collective is on it")
    }

    /// Writes a part of this rank's data, of which there are `length` bytes.
    #[inline]
    pub fn write(&mut self, length: usize, offset: usize, part: &Buffer) -> Result<()> {
        let fits = match part {
            Buffer::Flat(region, _) => self.place().board.write(length, offset, region),
            Buffer::Typed(typed) => {
                let mut scratch = std::mem::take(&mut self.engine.core.boards.scratch);
                let packed = scratch.get_mut(..typed.bytes()).map(buffer::region_of);
                let fits = packed.is_some_and(|packed| {
                    typed.pack(&packed);
                    self.place().board.write(length, offset, &packed)
                });
                self.engine.core.boards.scratch = scratch;
                fits
            }
        };
        fits.then_some(())
            .ok_or_else(|| intern("writes more to a board than it holds"))
    }

    /// Arrives, and wakes those who wait for that.
    #[inline]
    pub fn arrive(&mut self, audience: Audience) {
        let note = self.call.note;
        let engine = &mut **self.engine;
        let Some(place) = engine.core.boards.get_mut(self.id) else {
            return;
        };
        let (board, peers) = (&mut place.board, &place.peers);
        board.arrive(note);
        let fabric = &mut *engine.fabric;
        if let [first, second] = **peers {
            // The one other: it is woken by what it waits for, whatever that is.
            let other = 1 - board.me();
            if fabric.is_asleep([first, second][other])
                && (board.has(other)
                    || board.is_anybody_aside(note.number)
                    || board.is_room_wished() && board.take_room_wish())
            {
                fabric.wake([first, second][other]);
            }
            return;
        }
        board.fence();
        wake(fabric, board, peers, audience);
        if board.is_anybody_aside(note.number) {
            peers.iter().for_each(|peer| fabric.wake(*peer));
        }
    }

    /// Waits for what is to come, unless it is there.
    ///
    /// # Errors
    /// `ProcFailed` if a member is lost before it came, `Truncate` if a member is found to do something else.
    #[inline]
    pub fn until(&mut self, awaited: Awaited) -> Result<()> {
        let place = self.place_mut();
        place.awaited = Some(awaited);
        if (0..LOOKS).any(|_| place.has_ended()) {
            place.awaited = None;
        } else {
            self.wait();
        }
        match self.place_mut().failure.take() {
            None => Ok(()),
            Some(error) => Err(in_call(&self.call, &error)),
        }
    }

    fn wait(&mut self) {
        let id = self.id;
        self.engine.core.boards.awaited.push(id.0);
        self.engine.wait_for(WaitFor::Board(id), |engine| {
            let place = engine.core.boards.get(id);
            place
                .is_none_or(|place| place.awaited.is_none())
                .then_some(())
        });
    }

    /// An error unless a member, which has arrived, does what this rank does.
    #[inline]
    pub fn check(&mut self, member: usize) -> Result<()> {
        let note = self.place().board.note_of(member);
        if note == self.call.note {
            return Ok(());
        }
        self.compare(member, note)
    }

    /// Other words may stand for the same.
    #[cold]
    fn compare(&mut self, member: usize, note: Note) -> Result<()> {
        let place = self.place();
        let Some(error) = place.disagreement(&self.call, member, note) else {
            return Ok(());
        };
        if note.number == self.call.note.number {
            // It may have given up another collective because of a loss, of which this rank is going to hear.
            return self.until(Awaited::Reason);
        }
        let (context, peers) = self.engine.core.boards.members_of(self.id);
        self.engine.tell_of_mismatch(context, &peers, &error);
        Err(in_call(&self.call, &error))
    }

    /// Reads a part of the `length` bytes of data of a member that has arrived.
    #[inline]
    pub fn read(
        &self,
        member: usize,
        length: usize,
        (offset, part): (usize, usize),
    ) -> Result<SharedBytes<'_>> {
        let data = self.place().board.data(member, length, offset, part);
        data.ok_or_else(|| intern("reads more from a board than it holds"))
    }

    /// Memory of its own while data are combined; to be given back.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.engine.core.boards.scratch)
    }

    /// Gives it back.
    pub fn give_scratch(&mut self, scratch: Vec<u8>) {
        self.engine.core.boards.scratch = scratch;
    }
}

/// Wakes those who wait for this member, which has arrived and fenced.
fn wake(fabric: &mut dyn Fabric, board: &mut Board, peers: &[Peer], audience: Audience) {
    let me = board.me();
    let others = || (0..peers.len()).filter(|member| *member != me);
    match audience {
        Audience::All => {
            if board.have_all() {
                others().for_each(|member| fabric.wake(peers[member]));
            }
        }
        Audience::Root(root) => {
            if root != me && fabric.is_asleep(peers[root]) && board.have_all() {
                fabric.wake(peers[root]);
            }
        }
        Audience::Mine => {
            // Who has not arrived does not wait yet, and will see what is there.
            for member in others() {
                if board.has(member) {
                    fabric.wake(peers[member]);
                }
            }
        }
        Audience::Above => {
            let first = board.have_from_first();
            if first > me {
                let released = (me + 1)..peers.len().min(first + 1);
                released.for_each(|member| fabric.wake(peers[member]));
            }
        }
        Audience::Nobody => {}
    }
    if board.is_room_wished() && board.have_all() && board.take_room_wish() {
        others().for_each(|member| fabric.wake(peers[member]));
    }
}

impl Drop for Epoch<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Perhaps out of a sleep, without the engine.
            return;
        }
        let engine = &mut **self.engine;
        if let Some(place) = engine.core.boards.get_mut(self.id) {
            place.call = None;
        }
        engine.core.counters.collectives_ended.add(1);
        let context = place_context(engine, self.id);
        engine
            .core
            .raise(EventKind::CollectiveEnded, None, (-1, context), 0);
    }
}

#[inline]
fn place_context(engine: &Engine, id: BoardId) -> u32 {
    let place = engine.core.boards.get(id);
    place.map_or(0, |place| place.context)
}

/// An error that does not say in which call.
#[cold]
fn in_call(call: &BoardCall, error: &Error) -> Error {
    let text = format!("{}: {error}", call.name());
    error.clone().in_words(text)
}

#[cold]
fn intern(what: &str) -> Error {
    Error::new(
        ErrorClass::Intern,
        format!("a collective {what}; please report this"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_differ_by_root_order_and_call() {
        let of = |calls: &[u64]| {
            let mut history = History::default();
            calls.iter().for_each(|call| history.add(*call));
            history.bits()
        };
        let (bcast, other_root, barrier) = (2, 2 | 1 << 16, 1);
        let all = [
            of(&[]),
            of(&[bcast]),
            of(&[other_root]),
            of(&[bcast, barrier]),
            of(&[barrier, bcast]),
        ];
        for (place, one) in all.iter().enumerate() {
            assert_eq!(
                one & ((1 << LENGTH_BITS) - 1),
                0,
                "the length has its place"
            );
            assert!(all[..place].iter().all(|other| other != one), "{all:x?}");
        }
        // Datatypes that differ may fit.
        assert_eq!(
            of(&[bcast | 7 << 48, barrier]),
            of(&[bcast | 9 << 48, barrier])
        );
        assert!(Board::capacity_for(2) < 1 << LENGTH_BITS);
    }
}
