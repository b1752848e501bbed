//! Outstanding collectives: those that this rank has begun on a board, and goes on from without waiting for them.
//!
//! ```text
//!                    room, and all of those before are shown        those awaited have arrived, and it is the first
//!   begun ── queued ────────────────────────────────────────► shown ───────────────────────────────────────────────► ended
//!     │                                                          ▲                                                       ▲
//!     └── nothing is queued, and there is room ──────────────────┴── and those awaited are there: no request is made ────┘
//! ```
//!
//! A communicator has a board of its own for them, with one epoch for each. All members begin them in the same order, so the place in
//! that order is the epoch, and the oldest ends first: what it waits for are members who come through it on their way to any later one.
//! At most [`MOST_OUTSTANDING`] are shown and have not ended; the others wait in the queue, as they do while the board is
//! [being made](super::making). Each poll of the engine shows what there is room for, and ends what is there.
//!
//! Who arrives wakes those who wait for that by the rules of [`epochs`](super::epochs): a member that sleeps with a collective
//! outstanding has arrived at its epoch.

use std::collections::VecDeque;
use std::time::Duration;

use weft_fabric::board::{Board, MOST_OUTSTANDING, Place};
use weft_fabric::waiting::Turns;
use weft_fabric::{Fabric, Peer, Region, SharedBytes, SharedKey};

use super::super::Engine;
use super::super::collective_mismatch::{LOSS_DELAY, is_mismatch};
use super::super::collective_note::CollectiveNote;
use super::super::events::EventKind;
use super::super::request::Work;
use super::super::request_id::RequestId;
use super::super::schedule::{CollectiveContext, Schedule};
use super::BoardId;
use super::communicator_board::{Awaited, BoardCall, disagreement};
use super::epochs::{Audience, LOOKS, LOOKS_AT_OTHER_CORES, in_call, intern, wake, wake_other};
use super::history::History;
use super::making::Making;
use crate::error::{Error, Result};

/// Looks before a request is made: together they take less time than that and the wait for it, and whoever arrives at the same time
/// saves both.
const LOOKS_AT_ONCE: u32 = 24;

/// What a rank shows in a collective of one epoch, and takes of what others show.
pub(crate) trait Transfer: std::fmt::Debug + Send + Sync {
    /// The data that it shows, which may be put together in the memory given.
    fn shown(&self, scratch: &mut [u8; Board::INLINE]) -> Option<Region>;

    /// Takes what it gets. False if the others cannot have shown that.
    fn take(&self, shown: &Shown<'_>) -> bool;
}

/// What the members have shown in an epoch.
pub(crate) struct Shown<'a> {
    board: &'a Board,
    epoch: u64,
}

impl Shown<'_> {
    /// How many members there are.
    #[inline]
    pub fn members(&self) -> usize {
        self.board.members()
    }

    /// `part` bytes from `offset` of the `length` bytes that a member shows.
    #[inline(always)]
    pub fn data(
        &self,
        member: usize,
        length: usize,
        place: (usize, usize),
    ) -> Option<SharedBytes<'_>> {
        self.board.data_at((self.epoch, member), length, place)
    }
}

/// One collective of this rank.
#[derive(Debug)]
pub(crate) struct Attendance {
    pub call: BoardCall,
    /// Who waits for this rank.
    pub audience: Audience,
    /// For whom it waits; for nobody if there is none.
    pub awaited: Option<Awaited>,
    /// What this rank has begun before.
    before: CollectiveNote,
    /// 0 until it is shown.
    epoch: u64,
    /// Members, counted from the first, that were seen to do the same.
    seen: usize,
}

impl Attendance {
    pub fn new(call: BoardCall, audience: Audience, awaited: Option<Awaited>) -> Self {
        Self {
            call,
            audience,
            awaited,
            before: CollectiveNote::NOTHING,
            epoch: 0,
            seen: 0,
        }
    }

    /// Whether it waits for this member.
    fn awaits(&self, member: usize) -> bool {
        match self.awaited {
            Some(Awaited::All) => true,
            Some(Awaited::One(one)) => one == member,
            Some(Awaited::First(count)) => member < count,
            _ => false,
        }
    }
}

/// How far one is for which this rank waits.
enum Coming {
    /// All awaited are there, for the same collective.
    There,
    /// Not yet.
    Missing,
    /// A member is there for another one.
    Differs(Error),
}

/// A collective of the queue.
#[derive(Debug)]
struct Queued {
    attendance: Attendance,
    transfer: Box<dyn Transfer>,
    request: RequestId,
    /// How it is done if there will be no board.
    by_messages: Option<Box<(Schedule, CollectiveContext)>>,
}

/// What became of a collective that was to begin.
pub(crate) enum Begun {
    /// It has ended for this rank.
    AtOnce,
    Request(RequestId),
    /// The board is being made: it must be known how it is done without.
    Undecided,
    /// There is no board: it is to be done by messages.
    ByMessages,
}

/// The board of one communicator for what is outstanding, and that.
#[derive(Debug)]
pub(in crate::engine) struct Outstanding {
    /// Once it is made.
    pub board: Option<Board>,
    pub(super) making: Option<Making>,
    pub peers: Box<[Peer]>,
    pub me: usize,
    /// The communicator's context for collectives.
    pub context: u32,
    /// The block, if this process has allocated it.
    pub block: Option<SharedKey>,
    /// A member is lost, or the communicator is revoked.
    pub lost: Option<Error>,
    /// Why none ends, from this number on if it is known.
    failure: Option<(Error, Option<u32>)>,
    history: History,
    queue: VecDeque<Queued>,
    /// So many of the queue, from the first on, are shown.
    shown: usize,
    /// Its rank is about to sleep, or has: room must be asked for.
    sleeps: bool,
    /// The communicator is freed.
    is_freed: bool,
    /// Waits that begin by giving the core to those who are missing.
    turns: Turns,
    /// Since when a member is seen to do something else.
    suspected: Option<Duration>,
}

impl Outstanding {
    pub fn new(context: u32, peers: Box<[Peer]>, me: usize, lost: Option<Error>) -> Self {
        Self {
            board: None,
            making: None,
            peers,
            me,
            context,
            block: None,
            lost,
            failure: None,
            history: History::default(),
            queue: VecDeque::new(),
            shown: 0,
            sleeps: false,
            is_freed: false,
            turns: Turns::default(),
            suspected: None,
        }
    }

    /// Whether nothing is outstanding.
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.making.is_none()
    }

    /// Arrives for a collective, if there is room: false, without effect, if not.
    #[inline]
    fn show(
        &mut self,
        fabric: &mut dyn Fabric,
        attendance: &mut Attendance,
        transfer: &dyn Transfer,
        is_other_awake: impl FnOnce(Peer) -> bool,
    ) -> bool {
        let Some(board) = self
            .board
            .as_mut()
            .filter(|_| self.shown < MOST_OUTSTANDING)
        else {
            return false;
        };
        let mut scratch = [0; Board::INLINE];
        let data = transfer.shown(&mut scratch);
        let length = data.map_or(0, |data| data.len());
        let write = |place: &Place<'_>| data.as_ref().is_none_or(|data| place.write(0, data));
        if !board.show(length, write, attendance.call.note) {
            return false;
        }
        attendance.epoch = board.epoch();
        let number = attendance.call.note.number;
        if self.peers.len() == 2 {
            if !is_other_awake(self.peers[1 - board.me().min(1)]) {
                wake_other(fabric, board, &self.peers, number);
            }
        } else {
            board.fence();
            wake(fabric, (board, &self.peers), attendance.audience, number);
        }
        true
    }

    /// Whether those awaited in a collective that is shown have come.
    #[inline]
    fn coming(&mut self, attendance: &mut Attendance) -> Coming {
        let Some(board) = &self.board else {
            return Coming::Missing;
        };
        let epoch = attendance.epoch;
        let last = match attendance.awaited {
            Some(Awaited::All) => board.members(),
            Some(Awaited::First(count)) => count,
            Some(Awaited::One(member)) => {
                attendance.seen = attendance.seen.max(member);
                member + 1
            }
            _ => return Coming::There,
        };
        while attendance.seen < last {
            let member = attendance.seen;
            if !board.has_at(epoch, member) {
                return Coming::Missing;
            }
            if !attendance.call.agrees(board.note_at(epoch, member))
                && let Some(error) = self.difference(attendance, member)
            {
                return Coming::Differs(error);
            }
            attendance.seen += 1;
        }
        if attendance.awaited == Some(Awaited::All)
            && let Some(board) = &mut self.board
        {
            board.note_all_at(epoch);
        }
        Coming::There
    }

    /// The error if a member that has arrived does something else.
    #[cold]
    fn difference(&self, attendance: &Attendance, member: usize) -> Option<Error> {
        let board = self.board.as_ref()?;
        let peers = [board.me(), member].map(|member| self.peers[member]);
        let before = board.note_before_at(attendance.epoch, member);
        let before = [
            Some(attendance.before),
            before.map(|note| CollectiveNote::from_bits(note.call)),
        ];
        let note = board.note_at(attendance.epoch, member);
        disagreement(&attendance.call, peers, note, before)
    }

    /// The next one that has ended, with its error.
    fn next_ended(&mut self, fabric: &mut dyn Fabric) -> Option<(Queued, Option<Error>)> {
        if self.making.is_some() {
            return None;
        }
        self.show_queued(fabric);
        let mut first = self.queue.pop_front()?;
        if self.shown > 0 {
            let outcome = match self.coming(&mut first.attendance) {
                Coming::There => Some(self.take(&first)),
                Coming::Differs(error) => self.is_no_loss(fabric.now()).then_some(Some(error)),
                Coming::Missing => None,
            };
            if let Some(error) = outcome {
                self.shown -= 1;
                return Some((first, error));
            }
        }
        let error = self.reason(&first.attendance.call).cloned();
        if error.is_some() {
            self.shown = self.shown.saturating_sub(1);
            return Some((first, error));
        }
        self.queue.push_front(first);
        None
    }

    /// Whether it has been seen for long enough that a member does something else: it may have given up another collective because of a
    /// loss, of which this rank is going to hear.
    #[cold]
    fn is_no_loss(&mut self, now: Duration) -> bool {
        let since = *self.suspected.get_or_insert(now);
        now >= since + LOSS_DELAY
    }

    fn take(&self, ended: &Queued) -> Option<Error> {
        let board = self.board.as_ref()?;
        let epoch = ended.attendance.epoch;
        let taken = ended.transfer.take(&Shown { board, epoch });
        (!taken).then(|| intern("reads more from a board than it holds"))
    }

    /// Why a collective does not end by those for whom it waits.
    fn reason(&self, call: &BoardCall) -> Option<&Error> {
        let failure = self.failure.as_ref().filter(|(_, number)| {
            let is_before = number.is_some_and(|number| call.is_before(number));
            !is_before
        });
        failure.map(|(error, _)| error).or(self.lost.as_ref())
    }

    /// Shows what there is room for.
    fn show_queued(&mut self, fabric: &mut dyn Fabric) {
        while self.shown < self.queue.len().min(MOST_OUTSTANDING) {
            let Some(board) = &mut self.board else {
                return;
            };
            if self.lost.is_some() || self.failure.is_some() {
                return;
            }
            if !board.has_room(0) {
                if !self.sleeps {
                    return;
                }
                wish(board);
                if !board.has_room(0) {
                    return;
                }
            }
            let Some(mut next) = self.queue.remove(self.shown) else {
                return;
            };
            let shown = self.show(fabric, &mut next.attendance, &*next.transfer, |_| false);
            self.queue.insert(self.shown, next);
            if !shown {
                return;
            }
            self.sleeps = false;
            self.shown += 1;
        }
    }

    /// The members for which one of the queue waits.
    fn missing(&self, place: usize) -> impl Iterator<Item = Peer> + '_ {
        let is_shown = place < self.shown;
        let is_missing = move |member: &usize| {
            let (Some(board), Some(queued)) = (&self.board, self.queue.get(place)) else {
                return false;
            };
            let attendance = &queued.attendance;
            if is_shown {
                attendance.awaits(*member) && !board.has_at(attendance.epoch, *member)
            } else {
                !board.leaves_room(*member, 0)
            }
        };
        let missing = (0..self.peers.len()).filter(is_missing);
        missing.map(|member| self.peers[member])
    }
}

/// Waiting for the first.
impl Outstanding {
    /// Whether the next member for whom the first one waits has come.
    #[inline]
    fn comes(&self) -> bool {
        let first = self.queue.front().filter(|_| self.shown > 0);
        let Some((queued, board)) = first.zip(self.board.as_ref()) else {
            return false;
        };
        let (attendance, me) = (&queued.attendance, board.me());
        let next = attendance.seen + usize::from(attendance.seen == me);
        next >= board.members() || board.has_at(attendance.epoch, next)
    }

    /// Whether the next member comes within a few looks: as [`ends_soon`](super::CommunicatorBoard::ends_soon) says.
    fn comes_soon(&mut self, fabric: &mut dyn Fabric, gives_core: bool) -> bool {
        if self.making.is_some() || self.shown == 0 {
            return false;
        }
        if self.comes() {
            return true;
        }
        let beside = fabric.is_any_beside(&mut self.missing(0));
        match beside {
            None => (0..LOOKS).any(|_| self.comes()),
            Some(true) => gives_core && self.turns.give_core() && self.comes(),
            Some(false) => (0..LOOKS_AT_OTHER_CORES).any(|_| {
                std::hint::spin_loop();
                self.comes()
            }),
        }
    }
}

/// Whoever is the last to arrive at an epoch wakes this rank.
fn wish(board: &Board) {
    if !board.is_room_wished() {
        board.wish_room();
    }
}

/// The boards of all communicators for what is outstanding.
#[derive(Debug, Default)]
pub(in crate::engine) struct OutstandingBoards {
    places: Vec<Option<Outstanding>>,
    /// Those that are not idle.
    busy: Vec<u32>,
}

impl OutstandingBoards {
    /// Whether anything is outstanding.
    #[inline]
    pub fn are_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    fn get(&self, id: BoardId) -> Option<&Outstanding> {
        self.places.get(id.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, id: BoardId) -> Option<&mut Outstanding> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    pub fn all(&self) -> impl Iterator<Item = &Outstanding> {
        self.places.iter().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Outstanding> {
        self.places.iter_mut().flatten()
    }

    fn of_context(&self, context: u32) -> Option<&Outstanding> {
        self.all().find(|place| place.context == context)
    }

    pub fn add(&mut self, place: Outstanding) -> BoardId {
        let free = self.places.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[index] = Some(place);
        BoardId(index as u32)
    }

    pub fn note_busy(&mut self, id: BoardId) {
        if !self.busy.contains(&id.0) {
            self.busy.push(id.0);
        }
    }

    /// A peer is lost.
    pub fn lose(&mut self, peer: Peer, error: &Error) {
        for place in self.all_mut().filter(|place| place.peers.contains(&peer)) {
            place.lost.get_or_insert_with(|| error.clone());
        }
    }

    /// A communicator is revoked.
    pub fn revoke(&mut self, context: u32, error: &Error) {
        for place in self.all_mut().filter(|it| it.context & !1 == context & !1) {
            place.lost = Some(error.clone());
        }
    }

    /// The collectives of a context end in an error, but for those before this number, if it is known.
    pub fn fail_all(&mut self, context: u32, number: Option<u32>, error: &Error) {
        for place in self.all_mut().filter(|place| place.context == context) {
            place.failure.get_or_insert_with(|| (error.clone(), number));
        }
    }

    /// This rank is about to sleep.
    pub fn fall_asleep(&mut self) {
        let Self { places, busy } = self;
        for id in &*busy {
            let Some(Some(place)) = places.get_mut(*id as usize) else {
                continue;
            };
            place.sleeps = true;
            if place.shown < place.queue.len().min(MOST_OUTSTANDING)
                && let Some(board) = &place.board
            {
                wish(board);
            }
        }
    }

    /// A collective of a context is done by messages, and its rank is about to sleep over it.
    pub fn stand_aside(&self, context: u32, number: u32) {
        if let Some(board) = self.of_context(context).and_then(|it| it.board.as_ref()) {
            board.stand_aside(number);
        }
    }

    /// A member that is in the epoch after this rank's, and what it does there, with its number.
    pub fn ahead(&self, context: u32) -> Option<(Peer, CollectiveNote, u32)> {
        let place = self.of_context(context)?;
        let (member, note) = place.board.as_ref()?.ahead()?;
        let call = CollectiveNote::from_bits(note.call);
        Some((place.peers[member], call, note.number))
    }

    /// The collectives under way, each with its context.
    pub fn calls(&self) -> impl Iterator<Item = (u32, &BoardCall)> {
        let of = |place: &Outstanding| place.making.is_none();
        let places = self.all().filter(move |place| of(place));
        places.flat_map(|place| {
            let calls = place.queue.iter().map(|queued| &queued.attendance.call);
            calls.map(|call| (place.context, call))
        })
    }

    /// A member that has arrived for something else than this rank in the oldest collective of a communicator: context, number and
    /// members, and the error.
    pub fn disagreement(&self) -> Option<(u32, u32, Box<[Peer]>, Error)> {
        self.all()
            .filter(|place| place.lost.is_none())
            .find_map(|place| {
                let first = place.queue.front().filter(|_| place.shown > 0)?;
                let (board, attendance) = (place.board.as_ref()?, &first.attendance);
                let error = (0..board.members())
                    .filter(|member| board.has_at(attendance.epoch, *member))
                    .filter(|member| {
                        let note = board.note_at(attendance.epoch, *member);
                        !attendance.call.agrees(note)
                    })
                    .find_map(|member| place.difference(attendance, member))?;
                let number = attendance.call.note.number;
                Some((place.context, number, place.peers.clone(), error))
            })
    }

    /// The members of the communicator with this context.
    pub fn members_of(&self, context: u32) -> Option<Box<[Peer]>> {
        self.of_context(context).map(|place| place.peers.clone())
    }

    /// The name of the collective that ends with a request, and the members for which it waits; or the request for which it
    /// waits, while the board is being made.
    pub fn awaited_of(
        &self,
        request: RequestId,
    ) -> Option<(&'static str, Vec<Peer>, Option<RequestId>)> {
        self.all().find_map(|place| {
            let at = place.queue.iter().position(|it| it.request == request)?;
            let name = place.queue.get(at)?.attendance.call.name();
            let making = place.making.as_ref().map(Making::request);
            // It ends behind those before it.
            let missing = (0..=at).find_map(|at| {
                let missing: Vec<Peer> = place.missing(at).collect();
                (!missing.is_empty()).then_some(missing)
            });
            Some((name, missing.unwrap_or_default(), making))
        })
    }

    /// Takes out the board of a communicator that is freed, if nothing is outstanding; otherwise that follows.
    pub fn free(&mut self, which: impl Fn(&Outstanding) -> bool) -> Option<Outstanding> {
        let of = |place: &mut Option<Outstanding>| match place {
            Some(it) if which(it) => {
                it.is_freed = true;
                it.is_idle()
            }
            _ => false,
        };
        self.places.iter_mut().find_map(|place| {
            let is_over = of(place);
            place.take_if(|_| is_over)
        })
    }
}

impl Engine {
    /// Begins a collective on the board of this number. `context` is the communicator's; `by_messages` says how it is done without a
    /// board, if that is not known yet.
    ///
    /// # Errors
    /// `NoMem` if too many requests are live.
    #[inline]
    pub(crate) fn begin_on_board<T: Transfer + 'static>(
        &mut self,
        (id, context): (BoardId, u32),
        mut attendance: Attendance,
        transfer: T,
        by_messages: Option<(Schedule, CollectiveContext)>,
    ) -> Result<Begun> {
        let Self {
            core,
            fabric,
            writers,
            ..
        } = self;
        let Some(place) = core.boards.outstanding.get_mut(id) else {
            return Ok(Begun::ByMessages);
        };
        if place.board.is_none() {
            if place.making.is_none() {
                return Ok(Begun::ByMessages);
            }
            if by_messages.is_none() {
                return Ok(Begun::Undecided);
            }
        }
        core.requests.check_room()?;
        attendance.call.note.length |= place.history.bits();
        attendance.before = place.history.last;
        place.history.add(attendance.call.note.call);
        let mut failure = None;
        if place.making.is_none() {
            if core.events.are_wanted() {
                let context = place.context;
                core.raise(EventKind::CollectiveBegun, None, (-1, context), 0);
            }
            core.counters.collective_at(attendance.call.place);
            let Some(place) = core.boards.outstanding.get_mut(id) else {
                return Ok(Begun::ByMessages);
            };
            failure = place.lost.clone();
            if !core.mismatches.is_empty() {
                failure = failure.or_else(|| core.mismatches.of(place.context).cloned());
            }
            let is_other_awake = |other: Peer| {
                let writer = writers.get(other.index());
                writer.and_then(|writer| writer.reader_sleeps()) == Some(false)
            };
            if failure.is_none()
                && place.queue.is_empty()
                && place.show(&mut **fabric, &mut attendance, &transfer, is_other_awake)
            {
                let there = (0..LOOKS_AT_ONCE)
                    .any(|_| !matches!(place.coming(&mut attendance), Coming::Missing));
                if there && matches!(place.coming(&mut attendance), Coming::There) {
                    let taken = place.board.as_ref().is_some_and(|board| {
                        let epoch = attendance.epoch;
                        transfer.take(&Shown { board, epoch })
                    });
                    if taken {
                        self.note_ended(id, false);
                        return Ok(Begun::AtOnce);
                    }
                }
                place.shown = 1;
            }
        }
        let request = self.core.requests.insert(context, None, Work::Schedule);
        let queued = Queued {
            attendance,
            transfer: Box::new(transfer),
            request,
            by_messages: by_messages.map(Box::new),
        };
        if let Some(error) = failure {
            self.end_outstanding(id, queued, Some(error));
            return Ok(Begun::Request(request));
        }
        let boards = &mut self.core.boards.outstanding;
        if let Some(place) = boards.get_mut(id) {
            place.queue.push_back(queued);
        }
        boards.note_busy(id);
        if self.driver_sleeps {
            // It has not asked for room.
            self.core.boards.outstanding.fall_asleep();
            self.look_at_outstanding();
        }
        Ok(Begun::Request(request))
    }

    /// Shows and ends what can be of the collectives that are outstanding. True if one has ended.
    pub(in crate::engine) fn look_at_outstanding(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(id) = self.core.boards.outstanding.busy.get(at).copied() {
            let id = BoardId(id);
            self.go_on_making(id);
            loop {
                let Self { core, fabric, .. } = self;
                let place = core.boards.outstanding.get_mut(id);
                let ended = place.and_then(|place| place.next_ended(&mut **fabric));
                let Some((queued, error)) = ended else { break };
                moved = true;
                self.end_outstanding(id, queued, error);
            }
            let boards = &mut self.core.boards.outstanding;
            let place = boards.get_mut(id);
            if place.as_ref().is_some_and(|place| !place.is_idle()) {
                at += 1;
                continue;
            }
            let is_freed = place.is_some_and(|place| place.is_freed);
            boards.busy.swap_remove(at);
            if is_freed && let Some(place) = boards.places[id.0 as usize].take() {
                self.leave_outstanding(place);
            }
        }
        moved
    }

    /// A wait begins: the members that are missing in the oldest collective are given a moment, and the core if it is `gives_core`
    /// and they stand on it. True if one has ended.
    pub(in crate::engine) fn end_outstanding_soon(&mut self, gives_core: bool) -> bool {
        let boards = &self.core.boards.outstanding;
        let Some(id) = boards.busy.first().map(|id| BoardId(*id)) else {
            return false;
        };
        let members = boards.get(id).map_or(0, |place| place.peers.len());
        for _ in 0..members {
            let Self { core, fabric, .. } = self;
            let place = core.boards.outstanding.get_mut(id);
            if !place.is_some_and(|place| place.comes_soon(&mut **fabric, gives_core)) {
                return false;
            }
            if self.look_at_outstanding() {
                return true;
            }
        }
        false
    }

    /// A collective has ended.
    fn end_outstanding(&mut self, id: BoardId, queued: Queued, error: Option<Error>) {
        let call = queued.attendance.call;
        let found = error
            .as_ref()
            .is_some_and(|error| self.tell_difference(id, &call, error));
        let error = error.map(|error| in_call(&call, &error));
        self.note_ended(id, error.is_some() || found);
        if let Some(slot) = self.core.requests.get_mut(queued.request) {
            slot.fail(error);
        }
        self.core.complete(queued.request);
    }

    /// If this rank has found that a member does something else, the others are told.
    #[cold]
    fn tell_difference(&mut self, id: BoardId, call: &BoardCall, error: &Error) -> bool {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return false;
        };
        if place.reason(call).is_some() || !is_mismatch(error) {
            return false;
        }
        let (context, peers) = (place.context, place.peers.clone());
        let which = (context, Some(call.note.number));
        self.tell_of_mismatch(which, &peers, error);
        true
    }

    fn note_ended(&mut self, id: BoardId, failed: bool) {
        let core = &mut self.core;
        core.counters.collectives_ended.add(1);
        if failed {
            core.counters.collectives_failed.add(1);
        }
        if core.events.are_wanted() {
            let context = core
                .boards
                .outstanding
                .get_mut(id)
                .map_or(0, |it| it.context);
            core.raise(EventKind::CollectiveEnded, None, (-1, context), 0);
        }
    }

    /// It is decided whether a communicator has its board: what was begun meanwhile goes on, there or by messages.
    pub(super) fn decide_outstanding(&mut self, id: BoardId, board: Option<Board>) {
        let Some(place) = self.core.boards.outstanding.get_mut(id) else {
            return;
        };
        place.making = None;
        place.board = board;
        if place.board.is_none() {
            let queue = std::mem::take(&mut place.queue);
            for queued in queue {
                if let Some(by_messages) = queued.by_messages {
                    let (schedule, context) = *by_messages;
                    self.begin_schedule(schedule.into(), context, queued.request);
                }
            }
            return;
        }
        let context = place.context;
        let places: Vec<usize> = (place.queue.iter_mut())
            .map(|queued| {
                queued.by_messages = None;
                queued.attendance.call.place
            })
            .collect();
        for place in places {
            self.core.counters.collective_at(place);
            let named = (-1, context);
            self.core.raise(EventKind::CollectiveBegun, None, named, 0);
        }
    }
}
