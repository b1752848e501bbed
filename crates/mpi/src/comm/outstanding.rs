//! Board of a communicator for its outstanding collectives: when it is made, and which non-blocking collectives use it.
//!
//! Each persistent collective of few bytes has a board of its own, made when it is: the order in which they are made is the same on all
//! ranks, that of their starts is not.
//!
//! ```text
//!   trial ── collectives that a board would do ──► being made, while they wait ──► used
//!                                                        └── not all can have it ──► never
//! ```
//!
//! All members decide alike: they count alike, and go by facts that the standard makes equal on all ranks.

use std::sync::Arc;

use weft_atomic::Ordering;
use weft_fabric::Region;
use weft_fabric::board::Board;

use super::board::{NEVER, TRIAL};
use super::{Comm, Form};
use crate::buffer::Buffer;
use crate::coll::on_board::{self, Demand};
use crate::coll::{self, Collective, Members, Reduction};
use crate::datatype::Basic;
use crate::engine::RequestId;
use crate::engine::boards::{Attendance, Begun, BoardId, Repeated, Told, Transfer};
use crate::error::{Error, ErrorClass, Result};
use crate::op::{Op, Predefined};
use crate::schedule::{CollectiveContext, Schedule};

const NAME: &str = "the board of a communicator for non-blocking collectives";

impl Comm {
    /// What a non-blocking collective asks of the board of this communicator, and that; `None` if it is not for that.
    #[inline]
    pub(super) fn demand_on_board(
        &self,
        collective: &Collective<'_>,
    ) -> Result<Option<(Demand, BoardId)>> {
        let state = self.outstanding.load(Ordering::Relaxed);
        if state == NEVER {
            return Ok(None);
        }
        let (rank, size) = (self.rank as usize, self.size() as usize);
        let Some(demand) = on_board::outstanding::demand(collective, (rank, size)) else {
            return Ok(None);
        };
        let members = Members {
            rank,
            size,
            crowded: false,
            hosts: None,
        };
        on_board::check(collective, &members)?;
        let id = match state.checked_sub(TRIAL + 1) {
            Some(id) => Some(BoardId(id)),
            None => self.try_outstanding(state)?,
        };
        Ok(id.map(|id| (demand, id)))
    }

    /// Begins it there. The answer is [`RequestId::DONE`] if it has ended for this rank.
    #[inline]
    pub(super) fn begin_on_board(
        &self,
        collective: Collective<'_>,
        (demand, id): (Demand, BoardId),
    ) -> Result<RequestId> {
        let place = (self.rank as usize, self.size() as usize);
        let mut engine = self.lock();
        if !engine.has_outstanding(id) {
            drop(engine);
            return self.begin_undecided(id, collective, &demand);
        }
        let number = self.next_number(Form::Nonblocking);
        let begun = demand.begin(collective, place, number);
        let (attendance, exchange) = begun.ok_or_else(no_such_way)?;
        match engine.begin_on_board((id, self.context()), attendance, exchange, None)? {
            Begun::AtOnce => Ok(RequestId::DONE),
            Begun::Request(request) => Ok(request),
            Begun::ByMessages => Err(no_such_way()),
        }
    }

    /// Whether it has a board for non-blocking collectives, or one is being made.
    #[inline(always)]
    #[must_use]
    pub fn has_outstanding_board(&self) -> bool {
        let state = self.outstanding.load(Ordering::Relaxed);
        state > TRIAL && state != NEVER
    }

    /// Begins a collective there, by its number: [`RequestId::DONE`] if it has ended for this rank. `None`, without effect, in any unusual
    /// case.
    #[inline(always)]
    pub(crate) fn begin_on_board_at_once<T: Transfer + 'static>(
        &self,
        begin: impl FnOnce(u32) -> (Attendance, T),
    ) -> Option<RequestId> {
        if !self.has_outstanding_board() {
            return None;
        }
        let id = BoardId(self.outstanding.load(Ordering::Relaxed) - (TRIAL + 1));
        let shared = self.shared();
        let mut engine = shared.try_take()?;
        if !engine.may_begin_on_board(id) {
            return None;
        }
        // One thread at a time begins non-blocking collectives of a communicator.
        let begun = &self.begun[Form::Nonblocking as usize];
        let number = begun.load(Ordering::Relaxed);
        begun.store(number.wrapping_add(1), Ordering::Relaxed);
        let (attendance, transfer) = begin(Form::Nonblocking.numbered(number));
        let place = (id, self.context());
        let request = engine.begin_on_made_board(place, attendance, transfer, None);
        shared.let_go(engine);
        Some(request.unwrap_or(RequestId::DONE))
    }

    /// There is no board yet, or there will be none.
    #[cold]
    fn begin_undecided(
        &self,
        id: BoardId,
        collective: Collective<'_>,
        demand: &Demand,
    ) -> Result<RequestId> {
        let place = (self.rank as usize, self.size() as usize);
        let schedule = Arc::new(collective.clone().schedule(|| Members::of(self))?);
        let number = self.next_number(Form::Nonblocking);
        let context = CollectiveContext::new(self.context() | 1, self.translation(), number);
        let begun = demand.begin(collective, place, number);
        let (attendance, exchange) = begun.ok_or_else(no_such_way)?;
        let by_messages = Some((Arc::clone(&schedule), context.clone()));
        let place = (id, self.context());
        let begun = self
            .lock()
            .begin_on_board(place, attendance, exchange, by_messages)?;
        match begun {
            Begun::AtOnce => Ok(RequestId::DONE),
            Begun::Request(request) => Ok(request),
            Begun::ByMessages => {
                self.outstanding.store(NEVER, Ordering::Relaxed);
                self.start_as(schedule, context)
            }
        }
    }

    /// Another collective that a board would do: answers the board if there is one now, or is to be.
    #[cold]
    fn try_outstanding(&self, state: u32) -> Result<Option<BoardId>> {
        if state < TRIAL {
            self.outstanding.store(state + 1, Ordering::Relaxed);
            return Ok(None);
        }
        let made = self.make_outstanding(Form::Nonblocking)?;
        let state = made.map_or(NEVER, |id| TRIAL + 1 + id.0);
        self.outstanding.store(state, Ordering::Relaxed);
        Ok(made)
    }

    /// Begins to make a board for outstanding collectives, by two of this form; `None` if there can be none.
    fn make_outstanding(&self, form: Form) -> Result<Option<BoardId>> {
        let members = self.size() as usize;
        let engine = self.lock();
        let share = |peer| peer == self.process.me() || engine.shares_memory(peer);
        let is_possible =
            Board::bytes_outstanding_for(members).is_some() && self.group.members().all(share);
        drop(engine);
        if !is_possible {
            return Ok(None);
        }
        let told = Told::new();
        let first = coll::bcast(&Members::of(self), &Buffer::untyped(told.key), 0)?;
        let second = self.all_attached(told.attached)?;
        let collectives = [first, second].map(|schedule| {
            let schedule = Schedule {
                name: NAME,
                ..schedule
            };
            (schedule, self.next_collective(form))
        });
        let peers = self.group.members().collect();
        let place = (self.context(), self.rank as usize);
        let mut engine = self.lock();
        let peers = (peers, self.translation());
        let told = (told, matches!(form, Form::Persistent));
        let id = engine.make_outstanding(place, peers, told, collectives)?;
        Ok(Some(id))
    }

    /// What each start of a persistent collective is on a board of its own; `None` if it is not for that. Its arguments have been
    /// checked, and this is its number.
    pub(super) fn repeat_on_board(
        &self,
        collective: &Collective<'_>,
        number: u32,
    ) -> Result<Option<Repeated>> {
        if self.board.load(Ordering::Relaxed) == NEVER {
            return Ok(None);
        }
        let place = (self.rank as usize, self.size() as usize);
        let Some(demand) = on_board::outstanding::demand(collective, place) else {
            return Ok(None);
        };
        let begun = demand.begin(collective.clone(), place, number);
        let made = self.make_outstanding(Form::Persistent)?;
        let repeated = begun.zip(made);
        Ok(repeated.map(|((attendance, exchange), board)| Repeated {
            board,
            attendance,
            transfer: Arc::new(exchange),
        }))
    }

    /// All members find out whether all say 1.
    fn all_attached(&self, byte: Region) -> Result<Schedule> {
        let data = Buffer::untyped(byte);
        let reduction = Reduction {
            count: 1,
            datatype: Basic::Uint8.datatype().clone(),
            op: Op::predefined(Predefined::Band),
        };
        coll::allreduce(&Members::of(self), &data, &data, &reduction)
    }

    /// The communicator is freed: what this process has of the board goes with what is outstanding.
    pub(super) fn leave_outstanding(&self) {
        let state = self.outstanding.swap(NEVER, Ordering::Relaxed);
        if state != NEVER && state > TRIAL {
            self.lock().drop_outstanding(BoardId(state - (TRIAL + 1)));
        }
    }
}

#[cold]
fn no_such_way() -> Error {
    Error::new(
        ErrorClass::Intern,
        "a collective has arguments that its board does not know; please report this",
    )
}
