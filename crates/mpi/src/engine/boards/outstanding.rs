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
//! `all` has the boards of all communicators, and what the engine does with them.
//!
//! Who arrives wakes those who wait for that by the rules of [`epochs`](super::epochs): a member that sleeps with a collective
//! outstanding has arrived at its epoch.

mod all;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weft_fabric::board::{Board, MOST_OUTSTANDING, Place};
use weft_fabric::waiting::Turns;
use weft_fabric::{Fabric, Peer, Region, SharedBytes, SharedKey};

use super::super::collective_mismatch::LOSS_DELAY;
use super::super::collective_note::CollectiveNote;
use super::super::request_id::RequestId;
use super::super::schedule::{CollectiveContext, Schedule};
use super::BoardId;
use super::communicator_board::{Awaited, BoardCall, disagreement, other_length};
use super::epochs::{Audience, LOOKS, LOOKS_AT_OTHER_CORES, intern, wake, wake_other};
use super::history::{History, shown_in};
use super::making::Making;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;

pub(in crate::engine) use all::OutstandingBoards;

/// Looks before a request is made: together they take less time than that and the wait for it, and whoever arrives at the same time
/// saves both.
const LOOKS_AT_ONCE: u32 = 24;

/// Memory in which the data that a rank shows are put together, once it is asked for: most lie together where they are.
pub(crate) type Scratch = Option<[u8; Board::INLINE]>;

/// What a rank shows in a collective of one epoch, and takes of what others show.
pub(crate) trait Transfer: std::fmt::Debug + Send + Sync {
    /// The data that it shows, which may be put together in memory that is made there.
    fn shown(&self, scratch: &mut Scratch) -> Option<Region>;

    /// The messages that are left, if there are any, when those for whom this rank waits have come. Their schedule begins before this
    /// rank takes what it gets.
    ///
    /// # Errors
    /// `Truncate` if a member shows another number of bytes than this rank expects.
    #[inline]
    fn left(&self, _shown: &Shown<'_>) -> Result<Option<Box<Schedule>>> {
        Ok(None)
    }

    /// Takes what it gets. False if the others cannot have shown that.
    fn take(&self, shown: &Shown<'_>) -> bool;
}

/// What the members have shown in an epoch.
pub(crate) struct Shown<'a> {
    board: &'a Board,
    peers: &'a [Peer],
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

    /// The bytes that a member shows where each shows a number of its own; `None` if it sends messages.
    pub fn length(&self, member: usize) -> Option<usize> {
        shown_in(self.board.note_at(self.epoch, member))
    }

    /// The error that a member shows another number of bytes for this rank than it expects.
    #[cold]
    pub fn truncated(&self, member: usize, came: usize, expected: usize) -> Error {
        let peer = self.peers[member];
        let text = other_length(peer, &came.to_string(), expected);
        Error::new(ErrorClass::Truncate, text).about(peer)
    }

    /// The error that a member shows what cannot be.
    #[cold]
    pub fn impossible(&self) -> Error {
        intern(TOO_LONG)
    }
}

const TOO_LONG: &str = "reads more from a board than it holds";

/// One collective of this rank.
#[derive(Clone, Debug)]
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
    transfer: Arc<dyn Transfer>,
    request: RequestId,
    /// How it is done if there will be no board.
    by_messages: Option<Box<ByMessages>>,
}

/// How a collective is done by messages.
pub(crate) type ByMessages = (Arc<Schedule>, CollectiveContext);

/// A persistent collective on a board of its own: what each start of it is. Members may start different ones in different orders.
#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub board: BoardId,
    pub attendance: Attendance,
    pub transfer: Arc<dyn Transfer>,
}

/// How far a collective comes that is new on its board.
enum Start {
    Ended,
    /// It ends behind these messages.
    Left(Box<Schedule>),
    Waits,
    Fails(Error),
}

/// How a collective of the queue ends.
enum Ending {
    Well,
    Failed(Error),
    /// A member shows another number of bytes for this rank than it expects.
    Truncated(Error),
    /// Behind these messages.
    Left(Box<Schedule>),
}

/// What became of a collective that was to begin.
pub(crate) enum Begun {
    /// It has ended for this rank.
    AtOnce,
    Request(RequestId),
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
    /// Its members as [`CollectiveContext`] has them.
    group: Option<Arc<Group>>,
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
    pub fn new(
        (context, group): (u32, Option<Arc<Group>>),
        peers: Box<[Peer]>,
        me: usize,
        lost: Option<Error>,
    ) -> Self {
        Self {
            group,
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
    #[inline(always)]
    fn show<T: Transfer + ?Sized>(
        &mut self,
        fabric: &mut dyn Fabric,
        attendance: &mut Attendance,
        transfer: &T,
        is_other_awake: impl FnOnce(Peer) -> bool,
    ) -> bool {
        let Some(board) = self
            .board
            .as_mut()
            .filter(|_| self.shown < MOST_OUTSTANDING)
        else {
            return false;
        };
        let mut scratch = None;
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

    /// Whether those awaited in the collective that was shown last have come, for the same one: in few instructions.
    #[inline(always)]
    fn are_there(&mut self, attendance: &Attendance) -> bool {
        let Some(board) = &mut self.board else {
            return false;
        };
        let (note, alike) = (attendance.call.note, attendance.call.alike());
        match attendance.awaited {
            Some(Awaited::All) => board.all_show(note, alike),
            Some(Awaited::One(member)) => board.shows(member, note, alike),
            Some(Awaited::First(count)) => board.first_show(count, note, alike),
            _ => true,
        }
    }

    /// Looks a few times more.
    #[inline(never)]
    fn come_at_once(&mut self, attendance: &mut Attendance) -> bool {
        let came = (0..LOOKS_AT_ONCE).any(|_| !matches!(self.coming(attendance), Coming::Missing));
        came && matches!(self.coming(attendance), Coming::There)
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

    /// The next one that has ended, and how.
    fn next_ended(&mut self, fabric: &mut dyn Fabric) -> Option<(Queued, Ending)> {
        if self.making.is_some() {
            return None;
        }
        self.show_queued(fabric);
        let mut first = self.queue.pop_front()?;
        if self.shown > 0 {
            let ending = match self.coming(&mut first.attendance) {
                Coming::There => Some(self.end(&first)),
                Coming::Differs(error) => self
                    .is_no_loss(fabric.now())
                    .then_some(Ending::Failed(error)),
                Coming::Missing => None,
            };
            if let Some(ending) = ending {
                self.shown -= 1;
                return Some((first, ending));
            }
        }
        if let Some(error) = self.reason(&first.attendance.call).cloned() {
            self.shown = self.shown.saturating_sub(1);
            return Some((first, Ending::Failed(error)));
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

    /// What the members have shown at an epoch.
    #[inline]
    fn shown_at(&self, epoch: u64) -> Option<Shown<'_>> {
        let (board, peers) = (self.board.as_ref()?, &*self.peers);
        Some(Shown {
            board,
            peers,
            epoch,
        })
    }

    /// Those for whom it waits have come.
    fn end(&self, ended: &Queued) -> Ending {
        let Some(shown) = self.shown_at(ended.attendance.epoch) else {
            return Ending::Failed(intern("has no board"));
        };
        match ended.transfer.left(&shown) {
            Ok(None) if ended.transfer.take(&shown) => Ending::Well,
            Ok(None) => Ending::Failed(shown.impossible()),
            Ok(Some(left)) => Ending::Left(left),
            Err(error) if error.class() == ErrorClass::Truncate => Ending::Truncated(error),
            Err(error) => Ending::Failed(error),
        }
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
            None => (0..LOOKS).any(|_| {
                weft_atomic::look_again();
                self.comes()
            }),
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
