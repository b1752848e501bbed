//! Board of a communicator: when it is made, and which collectives use it.
//!
//! ```text
//!   trial ── collectives that a board would do ──► rank 0 allocates, all attach ──► used
//!                                                        └── not all can ──► never
//! ```
//!
//! All members decide alike: they count alike, and tell each other by messages whether there is a board.

use weft_atomic::Ordering;
use weft_atomic::biased::ByBias;
use weft_fabric::SharedKey;
use weft_fabric::board::{Board, Place};

use super::{Comm, Form};
use crate::buffer::{self, Buffer};
use crate::coll::on_board::{self, Rest};
use crate::coll::{self, Collective, Members, Reduction};
use crate::datatype::Basic;
use crate::engine::Engine;
use crate::engine::boards::{BoardCall, BoardId, Part};
use crate::engine::callbacks::call_operation;
use crate::error::Result;
use crate::op::{Op, Predefined};
use crate::schedule::{CollectiveContext, Schedule};

/// Collectives by messages before a communicator gets a board: many are made for one or two.
pub(super) const TRIAL: u32 = 3;

/// Where one rank had too much for the board, and all have seen that, so many collectives of that kind do not try it again: a
/// round of the board more is a tenth to a fifth of the time of some hundred kilobytes where there are more ranks than cores.
const PAST_BOARD: u32 = 15;

/// In place of a board: there is none, and will be none.
pub(super) const NEVER: u32 = u32::MAX;

impl Comm {
    /// Carries out a blocking collective on the board of this communicator; `None` if it is not for that.
    #[inline]
    pub(super) fn run_on_board(&self, collective: &Collective<'_>) -> Option<Result<()>> {
        let state = self.board.load(Ordering::Relaxed);
        if state == NEVER {
            return None;
        }
        if on_board::shows_to_all_whether_it_fits(collective) && self.goes_past_board() {
            return None;
        }
        let (rank, size) = (self.rank as usize, self.size() as usize);
        let (demand, way) =
            on_board::demand(collective, (rank, size), || Members::of(self).crowded)?;
        let id = match state.checked_sub(TRIAL + 1) {
            Some(id) => BoardId(id),
            None => match self.try_board(state) {
                Ok(id) => id?,
                Err(error) => return Some(Err(error)),
            },
        };
        let members = Members {
            rank,
            size,
            crowded: false,
            hosts: None,
        };
        if let Err(error) = on_board::check(collective, &members) {
            return Some(Err(error));
        }
        let call = demand.call(self.next_number(Form::Blocking));
        let mut engine = self.lock();
        let left = on_board::carry_out(collective, &members, (&mut engine, id), (call, way));
        match left {
            Ok(None) => Some(Ok(())),
            Ok(Some(rest)) => {
                drop(engine);
                if on_board::shows_to_all_whether_it_fits(collective) {
                    self.past_board.store(PAST_BOARD, Ordering::Relaxed);
                }
                Some(self.end_off_board(*rest, collective, &call))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether the next collective of which all ranks see whether it fits the board does not try it. All members count alike.
    fn goes_past_board(&self) -> bool {
        let left = self.past_board.load(Ordering::Relaxed);
        // One thread at a time begins blocking collectives of a communicator.
        self.past_board
            .store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// Does what is left of a collective behind its board.
    fn end_off_board(
        &self,
        rest: Rest,
        collective: &Collective<'_>,
        call: &BoardCall,
    ) -> Result<()> {
        match rest {
            Rest::Messages {
                schedule,
                kept,
                failure,
            } => {
                let number = call.note.number;
                let context =
                    CollectiveContext::new(self.context() | 1, self.translation(), number);
                let ended = self.process.wait(self.start_as(schedule, context)?);
                drop(kept);
                ended?;
                failure.map_or(Ok(()), Err)
            }
            Rest::Operands(operands) => call_operation(|| operands.combine(collective))
                .map_err(|error| error.clone().in_words(format!("{}: {error}", call.name()))),
        }
    }

    /// `MPI_Barrier` of two whose other member has arrived already: false, without effect, in any unusual case.
    #[inline(always)]
    #[must_use]
    pub fn barrier_at_once(&self) -> bool {
        self.meet_at_once(|_| ())
    }

    /// As [`barrier_at_once`](Self::barrier_at_once), with what the engine is to be told if it was done.
    #[inline(always)]
    pub(crate) fn meet_at_once(&self, tell: impl FnOnce(&mut Engine)) -> bool {
        let Some((id, number, mut engine)) = self.come_by_bias() else {
            return false;
        };
        let call = on_board::barrier(Form::Blocking.numbered(number));
        let met = engine.meet_at_once(id, call);
        if met {
            self.count_begun(number);
            tell(&mut engine);
        }
        met
    }

    /// Takes this rank's part in a small collective, and does `end` with the board. False if that is not all that there is to do:
    /// the full path does the rest, or everything.
    #[inline(always)]
    pub(crate) fn take_part_at_once<W: FnOnce(&Place<'_>) -> bool, M: FnOnce()>(
        &self,
        part: impl FnOnce(u32) -> Part<W, M>,
        end: impl FnOnce(&Board) -> bool,
    ) -> bool {
        let Some((id, number, mut engine)) = self.come_by_bias() else {
            return false;
        };
        let part = part(Form::Blocking.numbered(number));
        let Some(board) = engine.take_part_at_once(id, part) else {
            return false;
        };
        self.count_begun(number);
        end(board)
    }

    /// The same where `end` may find that this is not all that there is to do.
    #[inline(always)]
    pub(crate) fn take_part_if_at_once<W: FnOnce(&Place<'_>) -> bool, M: FnOnce()>(
        &self,
        part: impl FnOnce(u32) -> Part<W, M>,
        end: impl FnOnce(&Board) -> bool,
    ) -> bool {
        let Some((id, number, mut engine)) = self.come_by_bias() else {
            return false;
        };
        let part = part(Form::Blocking.numbered(number));
        let ended = engine.take_part_if_at_once(id, part, end);
        if ended {
            self.count_begun(number);
        }
        ended
    }

    /// Whether the next collective of which all ranks see whether it fits the board tries it, which the full path counts otherwise.
    #[inline(always)]
    pub(crate) fn tries_board(&self) -> bool {
        self.past_board.load(Ordering::Relaxed) == 0
    }

    /// Whether it has a board.
    #[inline(always)]
    #[must_use]
    pub fn has_board(&self) -> bool {
        let state = self.board.load(Ordering::Relaxed);
        state > TRIAL && state != NEVER
    }

    /// The board, how many blocking collectives have begun, and the engine if this thread has the bias.
    #[inline(always)]
    fn come_by_bias(&self) -> Option<(BoardId, u32, ByBias<'_, Engine>)> {
        if !self.has_board() {
            return None;
        }
        let id = BoardId(self.board.load(Ordering::Relaxed) - (TRIAL + 1));
        let number = self.begun[Form::Blocking as usize].load(Ordering::Relaxed);
        Some((id, number, self.shared().try_by_bias()?))
    }

    /// One more blocking collective has begun than these.
    #[inline(always)]
    fn count_begun(&self, number: u32) {
        // One thread at a time begins blocking collectives of a communicator.
        self.begun[Form::Blocking as usize].store(number.wrapping_add(1), Ordering::Relaxed);
    }

    /// Another collective that a board would do: answers the board if there is one now.
    #[cold]
    fn try_board(&self, state: u32) -> Result<Option<BoardId>> {
        if state < TRIAL {
            self.board.store(state + 1, Ordering::Relaxed);
            return Ok(None);
        }
        let made = self.make_board()?;
        let state = made.map_or(NEVER, |id| TRIAL + 1 + id.0);
        self.board.store(state, Ordering::Relaxed);
        Ok(made)
    }

    fn make_board(&self) -> Result<Option<BoardId>> {
        let name = "the board of a communicator";
        let members = self.size() as usize;
        let mut engine = self.lock();
        let share = |peer| peer == self.process.me() || engine.shares_memory(peer);
        if Board::bytes_for(members).is_none() || !self.group.members().all(share) {
            return Ok(None);
        }
        let mut own = None;
        let mut word = [0; 9];
        if self.rank == 0
            && let Ok((key, memory)) = engine.allocate_board(members)
        {
            word[0] = 1;
            word[1..].copy_from_slice(&key.0.to_le_bytes());
            own = Some((memory, Some(key)));
        }
        drop(engine);
        self.spread(name, &mut word, 0)?;
        let [allocated, key @ ..] = word;
        if allocated == 0 {
            return Ok(None);
        }
        let key = SharedKey(u64::from_le_bytes(key));
        let mut engine = self.lock();
        if self.rank != 0 {
            let attached = engine.attach_board(self.group.peer(0), key, members);
            own = attached.ok().map(|memory| (memory, None));
        }
        let made = own.and_then(|memory| {
            let peers = self.group.members().collect();
            engine.add_board(self.context() | 1, memory, peers, self.rank as usize)
        });
        drop(engine);
        let all = self.have_all(made.is_some());
        if matches!(all, Ok(true)) {
            return all.map(|_| made);
        }
        let mut engine = self.lock();
        engine.discard_board(self.context() | 1);
        if self.rank == 0 {
            engine.release_board(key);
        }
        all.map(|_| None)
    }

    /// Whether all members say so.
    fn have_all(&self, mine: bool) -> Result<bool> {
        let mut byte = [u8::from(mine)];
        let data = Buffer::untyped(buffer::region_of(&mut byte));
        let reduction = Reduction {
            count: 1,
            datatype: Basic::Uint8.datatype().clone(),
            op: Op::predefined(Predefined::Band),
        };
        let schedule = coll::allreduce(&Members::of(self), &data, &data, &reduction)?;
        self.run_schedule(Schedule {
            name: "the board of a communicator",
            ..schedule
        })?;
        let Buffer::Flat(region, _) = data else {
            return Ok(false);
        };
        let mut answer = [0];
        region.copy_to_slice(&mut answer);
        Ok(answer == [1])
    }

    /// The communicator is freed, and so is what this process has of its board.
    pub(crate) fn leave_board(&self) {
        self.leave_outstanding();
        let state = self.board.swap(NEVER, Ordering::Relaxed);
        if state != NEVER && state > TRIAL {
            self.lock().drop_board(self.context() | 1);
        }
    }
}
