//! Epochs of one collective of this rank on a board.

use weft_fabric::board::{Board, Note};
use weft_fabric::{Fabric, Peer, Region};
use weft_sys::span::SharedBytes;

use super::super::Engine;
use super::super::events::EventKind;
use super::super::progress::WaitFor;
use super::super::shared::Guard;
use super::communicator_board::{Awaited, BoardCall, CommunicatorBoard, other_length};
use super::history;
use super::{BoardId, SCRATCH};
use crate::buffer::{self, Buffer};
use crate::error::{Error, ErrorClass, Result};

/// Looks at a board alone before those at everything, as [`waiting`](weft_fabric::waiting) says: together they take no
/// longer than a cache line from another core, so whoever arrives at the same time pays for nothing else.
pub(super) const LOOKS: u32 = 48;

/// Looks in a crowd, each with a pause of the processor, if all who are missing were last seen on other cores: together they
/// take about as long as a switch to another process of this core, of which there are several.
pub(super) const LOOKS_AT_OTHER_CORES: u32 = 48;

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

/// The epochs of one collective of this rank on a board.
pub(crate) struct Epochs<'a, 'g> {
    engine: &'a mut Guard<'g>,
    id: BoardId,
    call: BoardCall,
    /// It does not end with this.
    goes_on: bool,
    /// This rank has shown its data in the first epoch, and has arrived there.
    has_arrived: bool,
}

impl<'a, 'g> Epochs<'a, 'g> {
    /// Comes to the board; or goes on with the same call, if that was [begun](super::at_once).
    ///
    /// # Errors
    /// `ProcFailed` if a member is lost, `Other` if another thread of this rank is in a collective of the communicator.
    #[inline]
    pub fn enter(engine: &'a mut Guard<'g>, id: BoardId, mut call: BoardCall) -> Result<Self> {
        let place = engine.core.boards.get_mut(id);
        let place = place.ok_or_else(|| intern("names a board that is not there"))?;
        if let Some(begun) = place.call {
            if place.is_begun && begun.note.number == call.note.number {
                place.is_begun = false;
                return Ok(Self {
                    engine,
                    id,
                    call: begun,
                    goes_on: false,
                    has_arrived: true,
                });
            }
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
        let counters = &engine.core.counters;
        counters.collective_at(call.place);
        let context = place_context(engine, id);
        engine
            .core
            .raise(EventKind::CollectiveBegun, None, (-1, context), 0);
        Ok(Self {
            engine,
            id,
            call,
            goes_on: false,
            has_arrived: false,
        })
    }

    /// Begins the next epoch, in which this rank shows so many bytes, when there is room for them.
    ///
    /// # Errors
    /// `ProcFailed` if a member is lost before.
    #[inline]
    pub fn begin(&mut self, length: usize) -> Result<()> {
        if self.has_arrived || self.place_mut().board.has_room(length) {
            return Ok(());
        }
        self.until(Awaited::Room(length))
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

    /// Writes `part` bytes of a buffer, from `from` of its data on, to `offset` of the `length` bytes that this rank shows in
    /// the epoch.
    #[inline]
    pub fn write(
        &mut self,
        (length, offset): (usize, usize),
        buffer: &Buffer,
        (from, part): (usize, usize),
    ) -> Result<()> {
        if self.has_arrived {
            return Ok(());
        }
        match buffer {
            Buffer::Flat(region, _) => {
                let region = region.part(from, part);
                let region = region.ok_or_else(|| intern("shows more than there is"))?;
                self.write_region(length, offset, &region)
            }
            Buffer::Typed(_) => self.write_packed((length, offset), buffer, (from, part)),
        }
    }

    /// Writes bytes to `offset` of the `length` bytes that this rank shows in the epoch.
    #[inline]
    pub fn write_region(&mut self, length: usize, offset: usize, part: &Region) -> Result<()> {
        if self.has_arrived {
            return Ok(());
        }
        let fits = self.place_mut().board.write(length, offset, part);
        fits.then_some(())
            .ok_or_else(|| intern("writes more to a board than it holds"))
    }

    /// Elements with gaps.
    fn write_packed(
        &mut self,
        (length, offset): (usize, usize),
        buffer: &Buffer,
        (from, part): (usize, usize),
    ) -> Result<()> {
        let mut scratch = self.take_scratch();
        let mut done = 0;
        while done < part {
            let piece = SCRATCH.min(part - done);
            let packed = &mut scratch[..piece];
            if buffer.pack_from(from + done, packed) < piece {
                return Err(intern("shows more than there is"));
            }
            self.write_region(length, offset + done, &buffer::region_of(packed))?;
            done += piece;
        }
        self.give_scratch(scratch);
        Ok(())
    }

    /// Arrives, and wakes those who wait for that.
    #[inline]
    pub fn arrive(&mut self, audience: Audience) {
        if std::mem::take(&mut self.has_arrived) {
            return;
        }
        let note = self.call.note;
        let engine = &mut **self.engine;
        let Some(place) = engine.core.boards.get_mut(self.id) else {
            return;
        };
        place.board.arrive(note);
        let fabric = &mut *engine.fabric;
        if place.peers.len() == 2 {
            wake_other(fabric, &place.board, &place.peers, note.number);
            return;
        }
        place.board.fence();
        let (board, peers) = (&mut place.board, &*place.peers);
        wake(fabric, (board, peers), audience, note.number);
    }

    /// Waits for what is to come, unless it is there.
    ///
    /// # Errors
    /// `ProcFailed` if a member is lost before it came, `Truncate` if a member is found to do something else.
    #[inline]
    pub fn until(&mut self, awaited: Awaited) -> Result<()> {
        let place = self.place_mut();
        (place.awaited, place.sleeps) = (Some(awaited), false);
        if place.has_ended() || self.ends_soon() {
            self.place_mut().awaited = None;
        } else {
            self.wait();
        }
        match self.place_mut().failure.take() {
            None => Ok(()),
            Some(error) => Err(in_call(&self.call, &error)),
        }
    }

    fn ends_soon(&mut self) -> bool {
        let engine = &mut **self.engine;
        let place = engine.core.boards.get_mut(self.id);
        place.is_none_or(|place| place.ends_soon(&mut *engine.fabric, |_| false))
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
        if self.call.agrees(note) {
            return Ok(());
        }
        self.compare(member, note)
    }

    /// The bytes that a member shows, which has arrived, where each shows a number of its own; `None` if it sends messages.
    pub fn shown_by(&self, member: usize) -> Option<usize> {
        history::shown_by(&self.place().board, member)
    }

    /// The error that a member shows another number of bytes for this rank than it expects, of which all members are told.
    #[cold]
    pub fn truncated(&mut self, member: usize, came: usize, expected: usize) -> Error {
        let peer = self.place().peers[member];
        let text = other_length(peer, &came.to_string(), expected);
        let error = Error::new(ErrorClass::Truncate, text).about(peer);
        let error = in_call(&self.call, &error);
        self.tell_all(self.call.note.number, &error);
        error
    }

    /// Tells all members of a mismatch, and from which collective on they do not fit each other.
    #[cold]
    fn tell_all(&mut self, number: u32, error: &Error) {
        let (context, peers) = self.engine.core.boards.members_of(self.id);
        let which = (context, Some(number));
        self.engine.tell_of_mismatch(which, &peers, error);
    }

    /// The collective goes on by messages: it has not ended when this rank leaves the board.
    pub fn go_on_by_messages(&mut self) {
        self.goes_on = true;
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
        // Who is further has gone through what the other one is in.
        self.tell_all(note.number.min(self.call.note.number), &error);
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

    /// Writes a part of the data of a member, which shows so many bytes, the part from an offset of them on, to a place of a
    /// buffer: behind so many bytes, and how many.
    #[inline]
    pub fn take(
        &self,
        member: usize,
        (length, offset): (usize, usize),
        into: &Buffer,
        (start, part): (usize, usize),
    ) -> Result<()> {
        let data = self.read(member, length, (offset, part))?;
        if start == 0 && part == into.bytes() {
            into.fill(data);
        } else {
            into.fill_part(start, data);
        }
        Ok(())
    }

    /// Most bytes that a member shows in an epoch.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.place().board.capacity()
    }

    /// The same if it is to be ahead of others by some epochs.
    #[inline]
    pub fn capacity_ahead(&self) -> usize {
        self.place().board.capacity_ahead()
    }

    /// [`SCRATCH`] bytes of its own while data are combined; to be given back.
    pub fn take_scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.engine.core.boards.scratch);
        // Not given back if there was an error.
        scratch.resize(SCRATCH, 0);
        scratch
    }

    /// Gives it back.
    pub fn give_scratch(&mut self, scratch: Vec<u8>) {
        self.engine.core.boards.scratch = scratch;
    }
}

impl CommunicatorBoard {
    /// Whether the wait ends while a few more looks are made: as many as take a switch to another process if those who are missing
    /// have other cores, for nobody of this core could do anything for the collective. A member of this core runs only when that
    /// is given away: what is done then is for the caller to say.
    pub(super) fn ends_soon(
        &mut self,
        fabric: &mut dyn Fabric,
        wait_beside: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let beside = fabric.is_any_beside(&mut self.missing());
        match beside {
            None => (0..LOOKS).any(|_| {
                weft_atomic::look_again();
                self.has_ended()
            }),
            Some(true) => wait_beside(self),
            Some(false) => (0..LOOKS_AT_OTHER_CORES).any(|_| {
                std::hint::spin_loop();
                self.has_ended()
            }),
        }
    }
}

/// Wakes the other one of two, if it sleeps: by what it waits for, whatever that is. This member has arrived.
// Not inlined: who ends at once seldom comes here.
#[inline(never)]
pub(super) fn wake_other(fabric: &mut dyn Fabric, board: &Board, peers: &[Peer], number: u32) {
    let other = 1 - board.me();
    let peer = peers[other];
    if fabric.is_asleep(peer)
        && (board.has(other)
            || board.is_anybody_aside(number)
            || board.is_room_wished() && board.take_room_wish())
    {
        fabric.wake(peer);
    }
}

/// Wakes those who wait for this member, which has arrived at the collective of this number and fenced.
pub(super) fn wake(
    fabric: &mut dyn Fabric,
    (board, peers): (&mut Board, &[Peer]),
    audience: Audience,
    number: u32,
) {
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
    if board.is_anybody_aside(number) {
        peers.iter().for_each(|peer| fabric.wake(*peer));
    }
}

impl Drop for Epochs<'_, '_> {
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
        if self.goes_on {
            return;
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
pub(super) fn in_call(call: &BoardCall, error: &Error) -> Error {
    let text = format!("{}: {error}", call.name());
    error.clone().in_words(text)
}

#[cold]
pub(super) fn intern(what: &str) -> Error {
    Error::new(
        ErrorClass::Intern,
        format!("a collective {what}; please report this"),
    )
}
