//! Board: a block of shared memory on which the members of a group show each other that they have arrived, epoch by epoch,
//! with some data each.
//!
//! ```text
//!   line      one for each epoch under way and member, 256 bytes      payload   of each member, for data that do not fit:
//!             stamp │ call │ number, length │ up to 232 bytes of data             the longer, the fewer rows, see `payloads`
//! ```
//!
//! One member allocates the block ([`Fabric::allocate_shared`](crate::Fabric::allocate_shared)), the others attach it;
//! each makes a [`Board`] of it. In each epoch a member [begins](Board::has_room) when there is room, writes its data,
//! [arrives](Board::arrive), and reads the data of members that [have arrived](Board::has). [`weft_atomic::arrivals`]
//! says how this is ordered, and why nothing is overwritten that is still read.
//!
//! Members of a board for [outstanding](Board::new_outstanding) epochs arrive at the next epochs while they wait for earlier ones, and
//! then read the data of those by their number. It has room beside the stamps only.
//!
//! A waiting member may sleep on its bell. A board wakes nobody: an arriving member asks whether the members that wait
//! for it [are asleep](crate::Fabric::is_asleep), and [wakes](crate::Fabric::wake) them.
//!
//! # Trust
//!
//! Others may write anything anywhere at any time. Places are computed from the number of members alone; of a line, the
//! call, the number and the length are only compared, and data are copied out once.

mod payloads;

use weft_atomic::arrivals::{self, Arrivals, ROWS, Stamps};
use weft_atomic::{AtomicU32, AtomicU64, Ordering};
use weft_sys::SharedMemory;
use weft_sys::span::{Region, SharedBytes};

use payloads::Written;

/// Bytes of a line: two of what is fetched together, so that 120 bytes need no payload.
const LINE: usize = 256;
/// Bytes of a line before the data.
const HEAD: usize = 24;
/// Words of that: the stamp, the call, and the number with the length in the upper half.
const WORDS: usize = HEAD / 8;
/// The part before the lines: see [`Board::leave`] and [`Board::wish_room`].
const FRONT: usize = 128;
const LEFT: usize = 0;
const ROOM_WANTED: usize = 64;
const ASIDE: usize = 68;

/// Most epochs that a member of a board for [outstanding](Board::new_outstanding) epochs still reads.
pub const MOST_OUTSTANDING: usize = ROWS / 2;

/// Most members of a board: each of them polls the lines of all.
pub const MOST_MEMBERS: usize = 256;

/// What a member publishes about its epoch beside the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// The operation: a value that all members compute alike.
    pub call: u64,
    /// The number of the operation, in a count of the layer above.
    pub number: u32,
    /// Bytes of its data.
    pub length: u32,
}

impl Note {
    /// Number and length in one word.
    #[inline]
    fn rest(self) -> u64 {
        u64::from(self.number) | u64::from(self.length) << 32
    }
}

/// A board as one member has it. See the [module page](self).
#[derive(Debug)]
pub struct Board {
    lines: Lines,
    arrivals: Arrivals,
    written: Written,
}

/// Where the data of a member go for the next epoch.
#[derive(Debug)]
pub struct Place<'a> {
    memory: &'a SharedMemory,
    start: usize,
    length: usize,
}

impl Place<'_> {
    /// Writes a part of them, behind so many bytes. False if they are fewer.
    #[inline(always)]
    #[must_use]
    pub fn write(&self, offset: usize, part: &Region) -> bool {
        let end = offset.checked_add(part.len());
        end.is_some_and(|end| end <= self.length)
            && self.memory.write_from(self.start + offset, part)
    }
}

#[derive(Debug)]
struct Lines {
    memory: SharedMemory,
    members: usize,
    /// Bytes of a member's payload.
    payload: usize,
}

impl Lines {
    #[inline]
    fn line(&self, row: usize, member: usize) -> usize {
        FRONT + (row * self.members + member) * LINE
    }

    /// Where `length` bytes of data of a member are.
    #[inline]
    fn data(&self, row: usize, member: usize, length: usize) -> usize {
        if length <= Board::INLINE {
            self.line(row, member) + HEAD
        } else {
            self.line(ROWS, 0) + member * self.payload + payloads::place(self.payload, row, length)
        }
    }

    /// The words of a member in a row.
    #[inline]
    fn words(&self, row: usize, member: usize) -> &[AtomicU64; WORDS] {
        self.words_at(self.line(row, member))
    }

    /// The words of a line.
    #[inline(always)]
    fn words_at(&self, line: usize) -> &[AtomicU64; WORDS] {
        let words = self.memory.atomic_u64s(line);
        words.expect("the board is as long as its layout, which `Board::new` has checked")
    }

    #[inline]
    fn half(&self, offset: usize) -> &AtomicU32 {
        let word = self.memory.atomic_u32(offset);
        word.expect("the board is as long as its layout, which `Board::new` has checked")
    }
}

impl Stamps for Lines {
    #[inline]
    fn stamp(&self, row: usize, member: usize) -> &AtomicU64 {
        &self.words(row, member)[0]
    }
}

impl Board {
    /// Bytes of data of a member that fit beside its stamp, whatever the size of the group.
    pub const INLINE: usize = LINE - HEAD;

    /// Most bytes of data of a member in an epoch of a group of this size.
    #[inline]
    #[must_use]
    pub fn capacity_for(members: usize) -> usize {
        payloads::most(payloads::of_a_member(members), payloads::LONG)
    }

    /// The same, if a member may be ahead of another by some epochs.
    #[inline]
    #[must_use]
    pub fn capacity_ahead_for(members: usize) -> usize {
        payloads::most(payloads::of_a_member(members), payloads::MIDDLE)
    }

    /// Bytes of the block for a group of this size; `None` if it is too large for a board, or too small.
    #[must_use]
    pub fn bytes_for(members: usize) -> Option<usize> {
        let each = ROWS * LINE + payloads::of_a_member(members);
        (2..=MOST_MEMBERS)
            .contains(&members)
            .then(|| FRONT + members * each)
    }

    /// The board, for member `me`, in a block that was all zeros when the first member got it. `None` if the block is too
    /// short for the members, or if there is no such member.
    #[must_use]
    pub fn new(memory: SharedMemory, members: usize, me: usize) -> Option<Self> {
        let fits = memory.len() >= Self::bytes_for(members)? && me < members;
        fits.then(|| Self {
            lines: Lines {
                memory,
                members,
                payload: payloads::of_a_member(members),
            },
            arrivals: Arrivals::new(members, me),
            written: Written::default(),
        })
    }

    /// Bytes of the block of a board for outstanding epochs; `None` as for [`bytes_for`](Self::bytes_for).
    #[must_use]
    pub fn bytes_outstanding_for(members: usize) -> Option<usize> {
        (2..=MOST_MEMBERS)
            .contains(&members)
            .then(|| FRONT + members * ROWS * LINE)
    }

    /// The same as [`new`](Self::new), for up to [`MOST_OUTSTANDING`] epochs at which a member has arrived and that it still reads,
    /// each of at most [`INLINE`](Self::INLINE) bytes.
    #[must_use]
    pub fn new_outstanding(memory: SharedMemory, members: usize, me: usize) -> Option<Self> {
        let fits = memory.len() >= Self::bytes_outstanding_for(members)? && me < members;
        fits.then(|| Self {
            lines: Lines {
                memory,
                members,
                payload: 0,
            },
            arrivals: Arrivals::with_lag(members, me, MOST_OUTSTANDING),
            written: Written::default(),
        })
    }

    /// The epoch that this member has arrived at.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.arrivals.epoch()
    }

    /// Number of members.
    #[inline]
    #[must_use]
    pub fn members(&self) -> usize {
        self.arrivals.members()
    }

    /// This member.
    #[inline]
    #[must_use]
    pub fn me(&self) -> usize {
        self.arrivals.me()
    }

    /// Most bytes of data of a member in an epoch.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        payloads::most(self.lines.payload, payloads::LONG)
    }

    /// The same if it is to be ahead of others by some epochs.
    #[inline]
    #[must_use]
    pub fn capacity_ahead(&self) -> usize {
        payloads::most(self.lines.payload, payloads::MIDDLE)
    }

    /// Whether this member may begin the next epoch, with `length` bytes of data: no member still reads what it would
    /// overwrite.
    #[inline]
    pub fn has_room(&mut self, length: usize) -> bool {
        let rows = self.rows(length);
        self.arrivals.has_room(&self.lines, rows)
    }

    /// Whether the missing room is not due to this member.
    #[must_use]
    pub fn leaves_room(&self, member: usize, length: usize) -> bool {
        let rows = self.rows(length);
        self.arrivals.leaves_room(&self.lines, rows, member)
    }

    /// Number of rows for this many bytes of data in the next epoch.
    #[inline]
    fn rows(&self, length: usize) -> usize {
        if length <= Board::INLINE {
            ROWS
        } else {
            self.written.rows(self.lines.payload, length)
        }
    }

    /// This member waits for room: the last member to arrive at an epoch looks for this wish, and wakes it.
    #[cold]
    pub fn wish_room(&self) {
        self.lines.half(ROOM_WANTED).store(1, Ordering::SeqCst);
    }

    /// Whether any member has waited for room since the wish was last taken.
    #[inline]
    #[must_use]
    pub fn is_room_wished(&self) -> bool {
        self.lines.half(ROOM_WANTED).load(Ordering::Relaxed) != 0
    }

    /// Takes the wish for room, to wake its member; false if another member takes it.
    #[must_use]
    pub fn take_room_wish(&self) -> bool {
        self.lines.half(ROOM_WANTED).swap(0, Ordering::AcqRel) != 0
    }

    /// This member does not use the board for the collective of this number, and is about to sleep in it.
    #[cold]
    pub fn stand_aside(&self, number: u32) {
        let aside = self.lines.half(ASIDE);
        aside.store(number.wrapping_add(1), Ordering::SeqCst);
    }

    /// Whether any member sleeps, or has slept, away from the board in the collective of this number. None should, if
    /// another uses the board for it.
    #[inline]
    #[must_use]
    pub fn is_anybody_aside(&self, number: u32) -> bool {
        self.lines.half(ASIDE).load(Ordering::Relaxed) == number.wrapping_add(1)
    }

    /// Writes a part of the data of the next epoch, of which there will be `length` bytes. False if it does not fit.
    #[inline]
    #[must_use]
    pub fn write(&mut self, length: usize, offset: usize, part: &Region) -> bool {
        let row = arrivals::row(self.arrivals.epoch() + 1);
        let fits = length <= self.capacity()
            && offset
                .checked_add(part.len())
                .is_some_and(|end| end <= length);
        if fits && length > Board::INLINE {
            self.written.write(self.lines.payload, length);
        }
        fits && {
            let place = self.lines.data(row, self.me(), length) + offset;
            self.lines.memory.write_from(place, part)
        }
    }

    /// Arrives at the next epoch, for which there is room, with the data written: all others can read them now. A member
    /// that must know whether it is the last [fences](Self::fence) before it looks.
    #[inline]
    pub fn arrive(&mut self, note: Note) {
        self.write_note(note);
        self.written.arrive();
        self.arrivals.arrive(&self.lines);
    }

    #[inline]
    fn write_note(&self, note: Note) {
        let row = arrivals::row(self.arrivals.epoch() + 1);
        let [_, call, rest] = self.lines.words(row, self.me());
        // Relaxed: the stamp that follows orders them.
        call.store(note.call, Ordering::Relaxed);
        rest.store(note.rest(), Ordering::Relaxed);
    }

    /// Writes all that this member shows in the next epoch, `length` bytes by `write`, and arrives there: false, without effect, if
    /// there is no room yet, or never, or if `write` says so.
    #[inline(always)]
    #[must_use]
    pub fn show(
        &mut self,
        length: usize,
        write: impl FnOnce(&Place<'_>) -> bool,
        note: Note,
    ) -> bool {
        let row = arrivals::row(self.arrivals.epoch() + 1);
        let line = self.lines.line(row, self.me());
        let start = if length > Self::INLINE {
            match self.begin_payload(length) {
                Some(start) => start,
                None => return false,
            }
        } else if self.arrivals.has_room(&self.lines, ROWS) {
            line + HEAD
        } else {
            return false;
        };
        let place = Place {
            memory: &self.lines.memory,
            start,
            length,
        };
        if !write(&place) {
            return false;
        }
        let [stamp, call, rest] = self.lines.words_at(line);
        // Relaxed: the stamp that follows orders them.
        call.store(note.call, Ordering::Relaxed);
        rest.store(note.rest(), Ordering::Relaxed);
        self.written.arrive();
        self.arrivals.arrive_by(stamp);
        true
    }

    /// Where so many bytes go for the next epoch, which do not fit beside the stamp. `None` if there is no room yet, or never.
    #[inline(never)]
    fn begin_payload(&mut self, length: usize) -> Option<usize> {
        if length > self.capacity() || !self.has_room(length) {
            return None;
        }
        self.written.write(self.lines.payload, length);
        let row = arrivals::row(self.arrivals.epoch() + 1);
        Some(self.lines.data(row, self.me(), length))
    }

    /// Whether a member has arrived at this epoch with this note, of whose length only the bits of `alike` are compared.
    #[inline(always)]
    #[must_use]
    pub fn shows(&self, member: usize, note: Note, alike: u32) -> bool {
        let row = arrivals::row(self.arrivals.epoch());
        let [stamp, call, rest] = self.lines.words(row, member);
        let alike = u64::from(alike) << 32 | u64::from(u32::MAX);
        self.arrivals.has_by(stamp)
            && call.load(Ordering::Relaxed) == note.call
            && (rest.load(Ordering::Relaxed) ^ note.rest()) & alike == 0
    }

    /// Whether all others have.
    #[inline(always)]
    #[must_use]
    pub fn all_show(&mut self, note: Note, alike: u32) -> bool {
        let all = self.first_show(self.members(), note, alike);
        if all {
            self.arrivals.note_all();
        }
        all
    }

    /// Whether the others among the first `count` members have.
    #[inline(always)]
    #[must_use]
    pub fn first_show(&self, count: usize, note: Note, alike: u32) -> bool {
        let me = self.me();
        for member in 0..count {
            if member != me && !self.shows(member, note, alike) {
                return false;
            }
        }
        true
    }

    /// Arrives at the next epoch, without data, if this is a board of two, and the other member has arrived there with
    /// the same note: then both have arrived. Otherwise false, without effect.
    #[inline(always)]
    #[must_use]
    pub fn meet(&mut self, note: Note) -> bool {
        if self.members() != 2 {
            return false;
        }
        let me = self.me().min(1);
        let row = arrivals::row(self.arrivals.epoch() + 1);
        let [stamp, call, rest] = self.lines.words(row, 1 - me);
        if !self.arrivals.is_ahead(stamp)
            || call.load(Ordering::Relaxed) != note.call
            || rest.load(Ordering::Relaxed) != note.rest()
        {
            return false;
        }
        let [stamp, call, rest] = self.lines.words(row, me);
        // Relaxed: the stamp that follows orders them.
        call.store(note.call, Ordering::Relaxed);
        rest.store(note.rest(), Ordering::Relaxed);
        self.written.arrive();
        self.arrivals.arrive_last(stamp);
        true
    }

    /// After arriving: of the members that call this, at least one finds by its next look that all have arrived.
    #[inline]
    pub fn fence(&self) {
        self.arrivals.fence();
    }

    /// Whether a member has arrived at this epoch.
    #[inline]
    #[must_use]
    pub fn has(&self, member: usize) -> bool {
        self.arrivals.has(&self.lines, member)
    }

    /// Whether a member has arrived at an outstanding epoch.
    #[inline(always)]
    #[must_use]
    pub fn has_at(&self, epoch: u64, member: usize) -> bool {
        Arrivals::has_at_by(epoch, self.lines.stamp(arrivals::row(epoch), member))
    }

    /// What a member has published about an outstanding epoch, at which it has arrived.
    #[inline(always)]
    #[must_use]
    pub fn note_at(&self, epoch: u64, member: usize) -> Note {
        self.note_in(arrivals::row(epoch), member)
    }

    /// All have been seen to have arrived at an outstanding epoch.
    #[inline]
    pub fn note_all_at(&mut self, epoch: u64) {
        self.arrivals.note_all_at(epoch);
    }

    /// As [`data`](Self::data), of a member that has arrived at an outstanding epoch.
    #[inline(always)]
    #[must_use]
    pub fn data_at(
        &self,
        (epoch, member): (u64, usize),
        length: usize,
        (offset, part): (usize, usize),
    ) -> Option<SharedBytes<'_>> {
        self.data_in((arrivals::row(epoch), member), length, offset, part)
    }

    /// Whether all have arrived at this epoch.
    #[inline]
    pub fn have_all(&mut self) -> bool {
        self.arrivals.have_all(&self.lines)
    }

    /// Number of members, from the first on, that have arrived at this epoch.
    #[inline]
    pub fn have_from_first(&mut self) -> usize {
        self.arrivals.have_from_first(&self.lines)
    }

    /// What a member has published about this epoch, at which it has arrived.
    #[inline]
    #[must_use]
    pub fn note_of(&self, member: usize) -> Note {
        self.note_in(arrivals::row(self.arrivals.epoch()), member)
    }

    /// What a member has published about the epoch before, unless it is so far ahead that this is overwritten.
    #[must_use]
    pub fn note_before(&self, member: usize) -> Option<Note> {
        self.note_before_at(self.arrivals.epoch(), member)
    }

    /// The same of the epoch before an outstanding one.
    #[must_use]
    pub fn note_before_at(&self, epoch: u64, member: usize) -> Option<Note> {
        let before = epoch.checked_sub(1)?;
        let row = arrivals::row(before);
        let stamp = self.lines.stamp(row, member);
        // Acquire: SYNC arrivals.stamp. Who writes the next note there meanwhile stamps it afterwards, so this may be of two:
        // it is for people.
        let note = self.note_in(row, member);
        (before > 0 && stamp.load(Ordering::Acquire) == before).then_some(note)
    }

    fn note_in(&self, row: usize, member: usize) -> Note {
        let [_, call, rest] = self.lines.words(row, member);
        let rest = rest.load(Ordering::Relaxed);
        Note {
            call: call.load(Ordering::Relaxed),
            number: rest as u32,
            length: (rest >> 32) as u32,
        }
    }

    /// A member that has arrived at the epoch after this member's, and what it published about that.
    #[must_use]
    pub fn ahead(&self) -> Option<(usize, Note)> {
        let next = self.arrivals.epoch() + 1;
        let row = arrivals::row(next);
        (0..self.members()).find_map(|member| {
            // Acquire: SYNC arrivals.stamp.
            let came = self.lines.stamp(row, member).load(Ordering::Acquire) == next;
            came.then(|| (member, self.note_in(row, member)))
        })
    }

    /// `part` bytes from `offset` of the data of a member that has arrived at this epoch with `length` bytes. `None` if
    /// there are no such bytes on any board.
    #[inline(always)]
    #[must_use]
    pub fn data(
        &self,
        member: usize,
        length: usize,
        offset: usize,
        part: usize,
    ) -> Option<SharedBytes<'_>> {
        let row = arrivals::row(self.arrivals.epoch());
        self.data_in((row, member), length, offset, part)
    }

    #[inline(always)]
    fn data_in(
        &self,
        (row, member): (usize, usize),
        length: usize,
        offset: usize,
        part: usize,
    ) -> Option<SharedBytes<'_>> {
        let fits = member < self.members()
            && (length <= Self::INLINE || length <= self.capacity())
            && offset.checked_add(part)? <= length;
        if !fits {
            return None;
        }
        let place = self.lines.data(row, member, length) + offset;
        self.lines.memory.bytes(place, part)
    }

    /// This member stops using the board. True if it is the last.
    pub fn leave(self) -> bool {
        // AcqRel: whoever gives the memory back has all uses of it behind him.
        self.lines.half(LEFT).fetch_add(1, Ordering::AcqRel) as usize + 1 >= self.members()
    }

    /// The memory, for the member that allocated it, to call [`have_left`](Self::have_left) later.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.lines.memory
    }

    /// Whether all members have left the board in this memory.
    #[must_use]
    pub fn have_left(memory: &SharedMemory, members: usize) -> bool {
        let left = memory.atomic_u32(LEFT);
        left.is_none_or(|left| left.load(Ordering::Acquire) as usize >= members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Memory;

    fn boards(members: usize) -> Vec<Board> {
        let bytes = Board::bytes_for(members).expect("a group");
        let memory = SharedMemory::of_this_process(bytes).expect("there is memory");
        (0..members)
            .map(|me| Board::new(memory.clone(), members, me).expect("it fits"))
            .collect()
    }

    #[test]
    fn layouts_keep_their_promises() {
        for members in 2..=MOST_MEMBERS {
            let bytes = Board::bytes_for(members).expect("a group");
            assert!(bytes <= FRONT + (4 << 20), "{members}: {bytes}");
            assert!(Board::capacity_ahead_for(members) < Board::capacity_for(members));
        }
        assert!(Board::capacity_ahead_for(8) >= 32 << 10 && Board::capacity_for(16) >= 32 << 10);
        assert!(Board::bytes_for(1).is_none() && Board::bytes_for(MOST_MEMBERS + 1).is_none());
        let memory = SharedMemory::of_this_process(100).expect("there is memory");
        assert!(Board::new(memory, 2, 0).is_none(), "too short");
    }

    #[test]
    fn data_of_every_length_come_across() {
        let mut boards = boards(3);
        let capacity = boards[0].capacity();
        for length in [
            0,
            1,
            8,
            Board::INLINE,
            Board::INLINE + 1,
            1000,
            capacity / 4,
            capacity,
        ] {
            for (me, board) in boards.iter_mut().enumerate() {
                assert!(board.has_room(length));
                let data = Memory::patterned(length, me as u64);
                assert!(board.write(length, 0, &data.region()));
                board.arrive(Note {
                    call: 7,
                    number: me as u32,
                    length: length as u32,
                });
            }
            for board in &mut boards {
                assert!(board.have_all());
                for member in 0..3 {
                    let expected = Memory::patterned(length, member as u64).bytes();
                    let data = board.data(member, length, 0, length).expect("there");
                    assert_eq!(data.to_vec(), expected);
                    let note = board.note_of(member);
                    assert_eq!((note.number, note.length), (member as u32, length as u32));
                }
            }
        }
    }

    #[test]
    fn the_note_before_is_there_until_it_is_overwritten() {
        let mut boards = boards(2);
        let note = |call| Note {
            call,
            number: 1,
            length: 0,
        };
        for (one, other) in [(1, 2), (3, 4)] {
            for (board, call) in boards.iter_mut().zip([one, other]) {
                assert!(board.has_room(0));
                board.arrive(note(call));
            }
        }
        assert_eq!(boards[0].note_before(1), Some(note(2)));
        assert_eq!(boards[1].note_before(0), Some(note(1)));
        boards[0].arrive(note(5));
        assert_eq!(boards[0].note_before(0), Some(note(3)));
    }

    #[test]
    fn who_comes_last_of_two_need_not_wait() {
        let mut boards = boards(2);
        let note = |number| Note {
            call: 1,
            number,
            length: 1 << 20,
        };
        for number in 0..3 * ROWS as u32 {
            let (first, last) = (number as usize % 2, 1 - number as usize % 2);
            assert!(!boards[first].meet(note(number)), "nobody is there");
            assert!(boards[first].has_room(0));
            boards[first].arrive(note(number));
            assert!(
                !boards[last].meet(note(number + 1)),
                "it does something else"
            );
            assert!(boards[last].meet(note(number)));
            assert!(boards[first].have_all() && boards[last].have_all());
            assert_eq!(boards[first].note_of(last), note(number));
        }
        // Not of more than two.
        let mut three = self::boards(3);
        for board in &mut three[..2] {
            assert!(board.has_room(0));
            board.arrive(note(0));
        }
        assert!(!three[2].meet(note(0)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut boards = boards(2);
        let capacity = boards[0].capacity();
        let one = &mut boards[0];
        let data = Memory::filled(16, 1);
        for (length, offset) in [(capacity + 1, 0), (8, 0), (16, 1), (100, usize::MAX)] {
            assert!(
                !one.write(length, offset, &data.region()),
                "{length} {offset}"
            );
        }
        assert!(one.data(2, 8, 0, 8).is_none() && one.data(0, 8, 1, 8).is_none());
        assert!(one.data(0, capacity + 1, 0, 1).is_none());
        assert!(one.data(0, 8, usize::MAX, 8).is_none());
    }

    fn show(board: &mut Board, data: &Memory, note: Note) -> bool {
        let data = data.region();
        board.show(data.len(), |place| place.write(0, &data), note)
    }

    #[test]
    fn what_is_shown_in_parts_comes_across() {
        let mut boards = boards(3);
        let (capacity, alike) = (boards[0].capacity(), 0xffff_0000);
        let (whole, short) = (Memory::patterned(capacity, 1), Memory::filled(8, 1));
        let note = |length| Note {
            call: 7,
            number: 1,
            length,
        };
        assert!(!boards[0].show(8, |place| place.write(1, &short.region()), note(0)));
        assert!(!boards[0].show(8, |place| place.write(usize::MAX, &short.region()), note(0)));
        assert!(!boards[0].show(capacity + 1, |_| true, note(0)));
        assert_eq!(boards[0].arrivals.epoch(), 0, "nothing has happened");
        for length in [0, 16, Board::INLINE, Board::INLINE + 8, capacity] {
            for (me, board) in boards.iter_mut().enumerate() {
                let half = length / 16 * 8;
                let parts = [whole.part(0, half), whole.part(half, length - half)];
                let shown = board.show(
                    length,
                    |place| place.write(0, &parts[0]) && place.write(half, &parts[1]),
                    note(me as u32),
                );
                assert!(shown, "{length}");
            }
            // The lengths in the notes differ, by bits that need not be alike.
            assert!(boards[2].first_show(2, note(5), alike));
            assert!(
                boards[1].shows(2, note(2), u32::MAX) && !boards[1].shows(2, note(3), u32::MAX)
            );
            assert!(!boards[0].first_show(3, note(1 << 16), alike));
            for board in &mut boards {
                assert!(board.all_show(note(0), alike) && !board.all_show(note(0), u32::MAX));
                for member in 0..3 {
                    let data = board.data(member, length, 0, length).expect("there");
                    assert_eq!(data.to_vec(), whole.bytes()[..length]);
                }
            }
        }
    }

    #[test]
    fn the_last_to_leave_is_told() {
        let mut boards = boards(2);
        let memory = boards[0].memory().clone();
        assert!(!Board::have_left(&memory, 2));
        assert!(!boards.remove(0).leave() && !Board::have_left(&memory, 2));
        assert!(boards.remove(0).leave() && Board::have_left(&memory, 2));
    }

    #[test]
    fn who_waits_for_room_is_found_once() {
        let boards = boards(2);
        assert!(!boards[1].is_room_wished());
        boards[0].wish_room();
        assert!(boards[1].is_room_wished());
        assert!(boards[1].take_room_wish() && !boards[1].take_room_wish());
    }

    #[test]
    fn who_stands_aside_is_found_by_the_number() {
        let boards = boards(2);
        assert!(!boards[1].is_anybody_aside(4));
        boards[0].stand_aside(4);
        assert!(boards[1].is_anybody_aside(4) && !boards[1].is_anybody_aside(8));
    }

    #[test]
    fn outstanding_epochs_are_read_in_any_order() {
        let bytes = Board::bytes_outstanding_for(3).expect("a group");
        let memory = SharedMemory::of_this_process(bytes).expect("there is memory");
        let mut boards: Vec<Board> = (0..3)
            .map(|me| Board::new_outstanding(memory.clone(), 3, me).expect("it fits"))
            .collect();
        let note = |number: u64| Note {
            number: number as u32,
            ..Note::default()
        };
        for round in 0..4 {
            let first = round * MOST_OUTSTANDING as u64 + 1;
            let epochs = first..first + MOST_OUTSTANDING as u64;
            for (me, board) in boards.iter_mut().enumerate() {
                for epoch in epochs.clone() {
                    let data = Memory::patterned(200, epoch + me as u64);
                    assert!(show(board, &data, note(epoch)));
                    assert_eq!(board.epoch(), epoch);
                }
            }
            for (board, epoch) in boards.iter().flat_map(|board| {
                let epochs = epochs.clone().rev();
                epochs.map(move |epoch| (board, epoch))
            }) {
                for member in 0..3 {
                    assert!(board.has_at(epoch, member) && !board.has_at(epoch + 16, member));
                    assert_eq!(board.note_at(epoch, member), note(epoch));
                    let expected = Memory::patterned(200, epoch + member as u64).bytes();
                    let data = board.data_at((epoch, member), 200, (0, 200));
                    assert_eq!(data.expect("there").to_vec(), expected);
                }
            }
        }
        // Data that have no room beside the stamp are refused.
        let data = Memory::filled(Board::INLINE + 1, 1);
        assert!(!show(&mut boards[0], &data, note(0)));
    }

    #[test]
    fn who_is_ahead_is_seen() {
        let mut boards = boards(2);
        assert_eq!(boards[1].ahead(), None);
        let note = Note {
            number: 5,
            ..Note::default()
        };
        boards[0].arrive(note);
        assert_eq!(boards[1].ahead(), Some((0, note)));
    }
}
