//! Admission: controls who uses a thing that its owner may take back while users are inside.
//!
//! ```text
//!   Admission (one for each thing)
//!     63 … 25     24 … 17  16    15      14    13    12 … 0
//!     generation  tags     void  closed  once  live  users
//!
//!   Presence (one for each user)      the place where the user is, or is about to be; 0: nowhere
//!
//!   user                                       owner
//!   presence = place                           open: generation, tags, live
//!   live → users + 1      (one swap)           close: closed, not live
//!   uses it                                    waits while users > 0 and a living user is present
//!   users - 1, was it void? (one subtraction)  or gives up: void, and does not wait
//!   presence = nowhere
//! ```
//!
//! The state is one word. Entering is a compare-and-swap of it that fails for another generation, so that what
//! was read beside it belongs to the generation that was entered; if the thing is for one use, the same swap
//! clears `live`.
//!
//! # Which users are inside
//! The number of users does not say who they are. A user is in one place at a time, and its presence names that
//! place from before it enters until it has left. So the owner, once it has closed, finds each user that is
//! inside by reading the presences. A presence may claim too much (its user has not entered yet, or has just
//! left), never too little. A user that has died stays in the count for ever; an owner that knows of the death
//! ignores its presence. When no living user is present, nobody will touch the state any more, and the owner may
//! open it again.
//!
//! # What the owner may rely on
//! * After [`close`](Admission::close) nobody enters, and no action of a user makes it live again.
//! * When `users` is 0, or no living user is present, everything that users did happened before.
//! * An owner that [holds](Admission::hold) a thing for one use does not use it up. A user that has used it up, and then finds
//!   it [unoccupied](Admission::is_occupied), knows that the owner has let go and will not hold it again.
//! * After [`void`](Admission::void) each user still inside is told so when it leaves ([`Left::Void`]). A user that was
//!   told [`Left::Valid`] had finished before. So a reader that was stopped for a long time finds out that it must not
//!   trust what it has read. A user cannot be stopped: a writer must be waited for.
//!
//! # Ordering
//! SYNC admission.open: the state is stored with Release after the data beside it, loaded with Acquire.
//! SYNC admission.enter: a user enters with Release after its presence; the owner that closes, or looks at the
//! number of users, acquires it. SYNC admission.leave: a user subtracts with Release after its last access; the
//! owner acquires it by the number of users, by the presence that is stored after it, or by making it void.

use crate::{AtomicU64, Ordering, spin_loop};

const USERS: u64 = (1 << 13) - 1;
const LIVE: u64 = 1 << 13;
const ONCE: u64 = 1 << 14;
const CLOSED: u64 = 1 << 15;
const VOID: u64 = 1 << 16;
const TAGS: u32 = 17;
const GENERATION: u32 = 25;

/// Generations are below this.
pub const GENERATIONS: u64 = 1 << (64 - GENERATION);

/// Users that can be inside at a time.
pub const MOST_USERS: u64 = USERS;

/// Rounds in which a user fails because others come and go; this many in a row are not an accident.
const ROUNDS: u32 = if cfg!(loom) { 4 } else { 10_000 };

/// The place of one user. All zeros: nowhere.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Presence {
    place: AtomicU64,
}

impl Presence {
    /// The place that its user has entered, is about to enter, or has just left; 0 for none. To be read after
    /// [`Admission::close`] of that place.
    pub fn place(&self) -> u64 {
        // SYNC admission.leave.
        self.place.load(Ordering::Acquire)
    }
}

/// The state of one thing that its owner lets others use. All zeros: never opened.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Admission {
    state: AtomicU64,
}

/// Why a user was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused<E> {
    /// Closed, used up, or of another generation.
    NotLive,
    /// The data beside the state do not permit it.
    Check(E),
}

/// Whether a visit was valid to its end.
#[must_use = "what was read in a void visit must not be used"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The owner has waited for it, or did not need to.
    Valid,
    /// The owner stopped waiting before it ended.
    Void,
}

/// A user that is inside. It must leave in one of the two ways; dropping it does not leave.
#[must_use = "who does not leave stays inside"]
#[derive(Debug)]
pub struct Visit<'a> {
    admission: &'a Admission,
    presence: &'a Presence,
}

impl Visit<'_> {
    /// Leaves.
    #[inline]
    pub fn leave(self) -> Left {
        // Release: SYNC admission.leave. Acquire: pairs with what the owner did before it made this void.
        let before = self.admission.state.fetch_sub(1, Ordering::AcqRel);
        self.end(before)
    }

    /// Leaves without having used it: a thing for one use is live again, unless it was closed.
    #[cold]
    pub fn give_back(self) -> Left {
        // Release and Acquire as in `leave`.
        let before = update(&self.admission.state, Ordering::AcqRel, |state| {
            let left = state.wrapping_sub(1);
            if state & ONCE != 0 && state & CLOSED == 0 {
                left | LIVE
            } else {
                left
            }
        });
        self.end(before)
    }

    #[inline]
    fn end(self, before: u64) -> Left {
        // Release: SYNC admission.leave.
        self.presence.place.store(0, Ordering::Release);
        if before & VOID == 0 {
            Left::Valid
        } else {
            Left::Void
        }
    }
}

fn update(word: &AtomicU64, order: Ordering, next: impl Fn(u64) -> u64) -> u64 {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        match word.compare_exchange_weak(seen, next(seen), order, Ordering::Relaxed) {
            Ok(before) => return before,
            Err(other) => seen = other,
        }
    }
}

impl Admission {
    /// A user enters `place`, if it is live and of that generation. `check` examines the tags and the data beside the
    /// state; its result holds if the visit is granted.
    ///
    /// # Errors
    /// [`Refused`]; then the user is nowhere.
    #[inline]
    pub fn enter<'a, T, E>(
        &'a self,
        presence: &'a Presence,
        place: u64,
        generation: u64,
        mut check: impl FnMut(u8) -> Result<T, E>,
    ) -> Result<(Visit<'a>, T), Refused<E>> {
        presence.place.store(place, Ordering::Relaxed);
        let refused = 'entering: {
            for _ in 0..ROUNDS {
                // SYNC admission.open.
                let state = self.state.load(Ordering::Acquire);
                if state >> GENERATION != generation || state & LIVE == 0 {
                    break 'entering Refused::NotLive;
                }
                let found = match check((state >> TAGS) as u8) {
                    Ok(found) => found,
                    Err(error) => break 'entering Refused::Check(error),
                };
                if state & USERS == USERS {
                    spin_loop();
                    continue;
                }
                let mut entered = state + 1;
                if state & ONCE != 0 {
                    entered &= !LIVE;
                }
                // Release: SYNC admission.enter. That the swap succeeds proves that what `check` saw belongs to
                // this generation.
                if self
                    .state
                    .compare_exchange_weak(state, entered, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    let visit = Visit {
                        admission: self,
                        presence,
                    };
                    return Ok((visit, found));
                }
            }
            Refused::NotLive
        };
        presence.place.store(0, Ordering::Relaxed);
        Err(refused)
    }

    /// The owner opens it under a generation of its own, for one use or many. Only while nobody is inside (see the
    /// module page); counts left by users of a former generation are forgotten.
    pub fn open(&self, generation: u64, once: bool, tags: u8) {
        debug_assert!(generation < GENERATIONS);
        let once = if once { ONCE } else { 0 };
        let state = generation << GENERATION | u64::from(tags) << TAGS | once | LIVE;
        // SYNC admission.open.
        self.state.store(state, Ordering::Release);
    }

    /// The owner closes it for good: this generation does not become live again. True if it was live: not
    /// closed, and not used up.
    pub fn close(&self) -> bool {
        // Acquire: SYNC admission.enter.
        update(&self.state, Ordering::AcqRel, |state| {
            (state & !LIVE) | CLOSED
        }) & LIVE
            != 0
    }

    /// The owner, which has closed it, no longer waits for those inside.
    pub fn void(&self) {
        // Acquire: SYNC admission.leave, of those that have left before. Release: pairs with the Acquire in
        // `leave` of a user that is told.
        self.state.fetch_or(VOID, Ordering::AcqRel);
    }

    /// The owner counts itself in, while it reads for a user what is live: without using it up. False if it is not live, or full.
    /// It has no presence, for the owner knows where it is.
    pub fn hold(&self) -> bool {
        let mut seen = self.state.load(Ordering::Relaxed);
        while seen & LIVE != 0 && seen & USERS != USERS {
            // Release: SYNC admission.enter. Acquire: as that of a user.
            match self.state.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
        false
    }

    /// The owner, which [held](Self::hold) it, counts itself out.
    pub fn release(&self) {
        // Release: SYNC admission.leave.
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Whether anybody is inside of what is for one use, in this generation: whoever has used it up asks for that, before it tells
    /// others that nobody touches the thing any more.
    pub fn is_occupied(&self, generation: u64) -> bool {
        // SYNC admission.leave.
        let state = self.state.load(Ordering::Acquire);
        state >> GENERATION == generation && state & ONCE != 0 && state & USERS != 0
    }

    /// Whether users can enter.
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) & LIVE != 0
    }

    /// The owner takes the single use for itself. False if it is gone.
    pub fn take(&self) -> bool {
        self.state.fetch_and(!LIVE, Ordering::AcqRel) & LIVE != 0
    }

    /// How many are inside, the dead included.
    pub fn users(&self) -> u64 {
        // SYNC admission.enter, admission.leave.
        self.state.load(Ordering::Acquire) & USERS
    }

    /// Whether nobody is inside and nobody can enter.
    pub fn is_over(&self) -> bool {
        // SYNC admission.leave.
        self.state.load(Ordering::Acquire) & (LIVE | USERS) == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PLACE: u64 = 7;

    fn enter<'a>(
        admission: &'a Admission,
        presence: &'a Presence,
        generation: u64,
    ) -> Option<Visit<'a>> {
        let entered = admission.enter(presence, PLACE, generation, |_| Ok::<_, ()>(()));
        entered.ok().map(|(visit, ())| visit)
    }

    #[test]
    fn one_use_is_given_once_and_comes_back_unless_closed() {
        let (admission, presence) = (Admission::default(), Presence::default());
        assert!(enter(&admission, &presence, 0).is_none(), "never opened");
        admission.open(3, true, 0);
        assert!(enter(&admission, &presence, 2).is_none(), "stale");
        let visit = enter(&admission, &presence, 3).expect("live");
        assert_eq!(presence.place(), PLACE);
        assert!(
            enter(&admission, &Presence::default(), 3).is_none(),
            "for one"
        );
        assert_eq!(visit.give_back(), Left::Valid);
        assert_eq!((presence.place(), admission.is_live()), (0, true));
        let visit = enter(&admission, &presence, 3).expect("live again");
        assert!(!admission.close(), "it was in use");
        assert_eq!(visit.give_back(), Left::Valid);
        assert!(!admission.is_live(), "closed is closed");
        assert!(admission.is_over());
        assert!(enter(&admission, &presence, 3).is_none());
    }

    #[test]
    fn an_owner_holds_what_is_live_without_using_it_up() {
        let (admission, presence) = (Admission::default(), Presence::default());
        assert!(!admission.hold(), "never opened");
        admission.open(2, true, 0);
        assert!(admission.hold() && admission.is_live());
        let visit = enter(&admission, &presence, 2).expect("the use is still there");
        assert!(!admission.hold(), "and now it is not");
        assert_eq!(visit.leave(), Left::Valid);
        assert!(admission.is_occupied(2) && !admission.is_occupied(1));
        admission.release();
        assert!(!admission.is_occupied(2) && admission.is_over());
    }

    #[test]
    fn a_user_that_stays_too_long_is_told_and_one_that_left_is_not() {
        let admission = Admission::default();
        let (one, two) = (Presence::default(), Presence::default());
        admission.open(1, false, 0);
        let first = enter(&admission, &one, 1).expect("live");
        let second = enter(&admission, &two, 1).expect("live");
        assert!(admission.close());
        assert_eq!(first.leave(), Left::Valid);
        admission.void();
        assert_eq!(admission.users(), 1);
        assert_eq!(second.leave(), Left::Void);
        assert!(admission.is_over());
    }

    #[test]
    fn what_is_read_beside_the_state_may_refuse() {
        let (admission, presence) = (Admission::default(), Presence::default());
        admission.open(GENERATIONS - 1, false, 0xA5);
        let refused = admission.enter(&presence, PLACE, GENERATIONS - 1, |tags| {
            if tags == 0xA5 { Err(tags) } else { Ok(()) }
        });
        assert_eq!(refused.err(), Some(Refused::Check(0xA5)));
        assert_eq!((presence.place(), admission.users()), (0, 0));
    }

    #[test]
    fn as_many_as_fit_are_counted_and_no_more() {
        let (admission, presence) = (Admission::default(), Presence::default());
        admission.open(1, false, 0);
        // Miri runs only the last of them.
        let before = if cfg!(miri) { MOST_USERS - 60 } else { 0 };
        admission.state.fetch_add(before, Ordering::Relaxed);
        for _ in before..MOST_USERS {
            assert!(enter(&admission, &presence, 1).is_some());
        }
        assert!(enter(&admission, &presence, 1).is_none());
        assert_eq!(admission.users(), MOST_USERS);
        assert!(
            admission.is_live(),
            "and nothing beside the count has changed"
        );
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{AtomicU32, UnsafeCell};
    use loom::sync::Arc;
    use loom::thread;

    const PLACE: u64 = 7;

    /// The lent memory, and its guard.
    struct Lent {
        admission: Admission,
        presence: [Presence; 2],
        memory: UnsafeCell<u32>,
        relaxed: AtomicU32,
    }

    // SAFETY: that the cell is used by one at a time is what the models show.
    unsafe impl Sync for Lent {}
    // SAFETY: as above.
    unsafe impl Send for Lent {}

    fn lent(once: bool) -> Arc<Lent> {
        let lent = Lent {
            admission: Admission::default(),
            presence: Default::default(),
            memory: UnsafeCell::new(0),
            relaxed: AtomicU32::new(0),
        };
        lent.admission.open(1, once, 0);
        Arc::new(lent)
    }

    fn enter(lent: &Lent, user: usize) -> Option<Visit<'_>> {
        let presence = &lent.presence[user];
        let entered = lent
            .admission
            .enter(presence, PLACE, 1, |_| Ok::<_, ()>(()));
        entered.ok().map(|(visit, ())| visit)
    }

    /// Waits like an owner: for users in `living` that are present.
    fn wait(lent: &Lent, living: &[usize]) {
        while lent.admission.users() > 0
            && living
                .iter()
                .any(|user| lent.presence[*user].place() == PLACE)
        {
            thread::yield_now();
        }
    }

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// A living writer is waited for, though another one has died inside, or on its way in or out.
    fn a_writer_is_waited_for(dead_gets: u32) {
        check(move || {
            let lent = lent(false);
            let dead = {
                let lent = lent.clone();
                thread::spawn(move || match (dead_gets, enter(&lent, 1)) {
                    // Dies inside.
                    (0, visit) => core::mem::forget(visit),
                    // Dies when it has left, but its presence does not say so.
                    (_, visit) => {
                        let visit = visit.expect("nobody has closed yet");
                        _ = visit.leave();
                        lent.presence[1].place.store(PLACE, Ordering::Relaxed);
                    }
                })
            };
            dead.join().unwrap();
            let writer = {
                let lent = lent.clone();
                thread::spawn(move || {
                    if let Some(visit) = enter(&lent, 0) {
                        // SAFETY: it is inside.
                        lent.memory.with_mut(|memory| unsafe { *memory += 1 });
                        assert_eq!(visit.leave(), Left::Valid);
                    }
                })
            };
            lent.admission.close();
            wait(&lent, &[0]);
            // SAFETY: no living user is inside.
            lent.memory.with_mut(|memory| unsafe { *memory += 10 });
            // Users that leave the former generation do not disturb the next one.
            lent.admission.open(2, false, 0);
            writer.join().unwrap();
            assert_eq!(lent.admission.users(), 0);
            assert!(lent.admission.is_live());
        });
    }

    #[test]
    fn a_writer_is_waited_for_beside_one_that_died_inside() {
        a_writer_is_waited_for(0);
    }

    #[test]
    fn a_writer_is_waited_for_beside_one_that_died_on_its_way_out() {
        a_writer_is_waited_for(1);
    }

    /// Who has used up what is for one use, and finds it unoccupied, is alone with the memory: the owner reads it only while it
    /// holds it.
    #[test]
    fn an_owner_that_holds_is_gone_when_the_user_finds_nobody() {
        check(|| {
            let lent = lent(true);
            let owner = {
                let lent = lent.clone();
                thread::spawn(move || {
                    if lent.admission.hold() {
                        // SAFETY: it is held.
                        lent.memory.with(|memory| unsafe { _ = *memory });
                        lent.admission.release();
                    }
                })
            };
            let visit = enter(&lent, 0).expect("who holds it does not use it up");
            assert_eq!(visit.leave(), Left::Valid);
            while lent.admission.is_occupied(1) {
                thread::yield_now();
            }
            // SAFETY: it is used up, and unoccupied.
            lent.memory.with_mut(|memory| unsafe { *memory = 1 });
            owner.join().unwrap();
            assert!(lent.admission.is_over());
        });
    }

    /// A reader that was not waited for is told not to trust what it has read.
    #[test]
    fn a_reader_that_is_given_up_knows() {
        check(|| {
            let lent = lent(false);
            let reader = {
                let lent = lent.clone();
                thread::spawn(move || {
                    if let Some(visit) = enter(&lent, 0) {
                        let read = lent.relaxed.load(Ordering::Relaxed);
                        if visit.leave() == Left::Valid {
                            assert_eq!(read, 0, "what was lent");
                        }
                    }
                })
            };
            lent.admission.close();
            lent.admission.void();
            lent.relaxed.store(1, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    /// A thing given back after it was closed stays closed.
    #[test]
    fn giving_back_does_not_open_what_was_closed() {
        check(|| {
            let lent = lent(true);
            let user = {
                let lent = lent.clone();
                thread::spawn(move || {
                    if let Some(visit) = enter(&lent, 0) {
                        _ = visit.give_back();
                    }
                })
            };
            lent.admission.close();
            wait(&lent, &[0]);
            assert!(!lent.admission.is_live());
            user.join().unwrap();
            assert!(!lent.admission.is_live() && enter(&lent, 1).is_none());
        });
    }

    /// A single use is given to exactly one user.
    #[test]
    fn one_use_is_given_to_one() {
        check(|| {
            let lent = lent(true);
            let other = {
                let lent = lent.clone();
                thread::spawn(move || {
                    if let Some(visit) = enter(&lent, 1) {
                        // SAFETY: it is the only one that gets in.
                        lent.memory.with_mut(|memory| unsafe { *memory += 1 });
                        _ = visit.leave();
                    }
                })
            };
            if let Some(visit) = enter(&lent, 0) {
                // SAFETY: as above.
                lent.memory.with_mut(|memory| unsafe { *memory += 1 });
                _ = visit.leave();
            }
            other.join().unwrap();
            // `compare_exchange_weak` may fail spuriously: then nobody has had it.
            // SAFETY: all have ended.
            assert!(lent.memory.with(|memory| unsafe { *memory }) <= 1);
        });
    }
}
