//! Engines side by side: the engines of one rank, one for each channel of its fabric that it has opened.
//!
//! ```text
//!   MPI_COMM_WORLD, windows, ports, services ──► engine 0: lock ─ matching, requests ─ lanes ─ bell
//!   a communicator whose context names 1     ──► engine 1: lock ─ matching, requests ─ lanes ─ bell
//! ```
//!
//! An engine is complete: everything that belongs to a communicator (its messages, requests, collectives, its board, its
//! losses) is in the one engine that its context names, at all of its members. Threads that use communicators of
//! different engines share no cache line that is written. A rank opens an engine when it learns of the first context that
//! names it.
//!
//! # What looks after an engine that no thread drives
//! While a thread is blocked in one engine, operations begun in others go on. A driver that is about to sleep looks at
//! each engine that no thread drives ([`Guard::look_after_others`]), and acts by what it finds:
//!
//! | the other engine | the sleeper |
//! |---|---|
//! | is driven | sleeps; the thread that releases it undriven rings |
//! | was released by others since the last look: a thread is busy there | sleeps for [`A_WHILE`] |
//! | has something under way, and no thread was there | *keeps* it: its bell also rings that of the sleeper |
//! | has nothing under way | sleeps; the thread that releases it rings |
//!
//! So a thread that is busy in an engine takes a longer path to release it once for each look of a sleeper, and pays
//! nothing while no thread sleeps elsewhere; and a sleeper sleeps without limit once the others are quiet.
//!
//! # Why nothing is left undone
//! All of this is decided and noted under the lock of that other engine ([`Neighbours`]). A thread that begins something
//! there after the look takes the lock after it, and finds the note when it releases the engine. A sleeper that leaves
//! what it kept rings the others that have noted themselves there: each looks once more, and one of them keeps it.
//!
//! # Why nothing deadlocks
//! A thread holds the lock of one engine at a time: before it takes another one it releases its own. So there is no order
//! of locks to keep. A thread that is blocked in a collective of one communicator holds no lock, and drives its engine or
//! is parked in it; threads that enter collectives of different communicators in different orders wait in different
//! engines, or in one as they would without the others.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use weft_fabric::{Fabric, FabricError, MOST_CHANNELS};
use weft_fiber::WorkerId;

use super::counters::Counters;
use super::inquiry::Answers;
use super::request_id::RequestId;
use super::shared::{Guard, Shared};
use super::{Engine, LOOKS_BEFORE_DROPPING};

/// How long a thread sleeps before it looks again at an engine where another one is busy.
const A_WHILE: Duration = Duration::from_millis(1);

/// Who hears of the counters of an engine.
type CounterListener = Box<dyn Fn(&Counters) + Send + Sync>;

/// The engines of one rank. See the [module page](self).
pub(crate) struct Engines {
    // Dropped in this order: the endpoint of channel 0 is the last.
    others: [OnceLock<Arc<Shared>>; MOST_CHANNELS as usize - 1],
    first: Arc<Shared>,
    /// Held while one is opened; who is told of the counters of each.
    opening: Mutex<Option<CounterListener>>,
    /// Answers to an inquiry, as far as the engines have given them.
    pub(super) answers: Mutex<Answers>,
}

impl Engines {
    pub(crate) fn new(fabric: Box<dyn Fabric>, first: u32) -> Arc<Self> {
        Arc::new_cyclic(|all| Self {
            others: Default::default(),
            first: Arc::new(Shared::new(fabric, first, 0, Weak::clone(all))),
            opening: Mutex::default(),
            answers: Mutex::default(),
        })
    }

    /// The engine of channel 0.
    pub(crate) fn first(&self) -> &Arc<Shared> {
        &self.first
    }

    /// The engine of a channel, if it is open.
    pub(crate) fn get(&self, channel: u32) -> Option<&Arc<Shared>> {
        match channel.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.others.get(index as usize)?.get(),
        }
    }

    /// The engine that a request is in; of a name that was never given out, some engine, where it is stale.
    // Inlined, though seldom reached: a call there would have the short ways of `MPI_Wait` and `MPI_Start` save registers.
    #[inline(always)]
    pub(crate) fn of(&self, id: RequestId) -> &Shared {
        self.get(id.engine()).unwrap_or(&self.first)
    }

    /// All that are open, that of channel 0 first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Shared>> {
        let others = self.others.iter().filter_map(OnceLock::get);
        std::iter::once(&self.first).chain(others)
    }

    /// Whether there are several.
    pub(crate) fn are_several(&self) -> bool {
        self.others.iter().any(|other| other.get().is_some())
    }

    /// Opens the engine of a channel, if it is not open.
    ///
    /// # Errors
    /// If the fabric cannot.
    pub(crate) fn open(&self, channel: u32, first: u32) -> Result<(), FabricError> {
        if self.get(channel).is_some() {
            return Ok(());
        }
        let told = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = self.others.get((channel as usize).wrapping_sub(1)) else {
            return Err(weft_fabric::no_such_channel(channel, MOST_CHANNELS));
        };
        if place.get().is_some() {
            return Ok(());
        }
        let mut engine = self.first.lock();
        let fabric = engine.fabric.open_channel(channel)?;
        let settings = engine.settings();
        drop(engine);
        let all = Weak::clone(self.first.engines());
        let opened = Arc::new(Shared::new(fabric, first, channel, all));
        opened.lock().set(settings);
        if let Some(tell) = &*told {
            tell(opened.counters());
        }
        // Nobody else opens one meanwhile.
        let _ = place.set(opened);
        for engine in self.all() {
            let mut engine = engine.lock();
            engine.neighbours.any = true;
            engine.asking.has_more_to_do();
        }
        Ok(())
    }

    /// Has somebody told of the counters of each engine, also of those that are opened later.
    pub(crate) fn tell_counters(&self, tell: CounterListener) {
        let mut told = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        self.all().for_each(|engine| tell(engine.counters()));
        *told = Some(tell);
    }

    /// Rings those who sleep in these engines.
    fn ring(&self, mask: u8) {
        let asleep = (0..MOST_CHANNELS).filter(|channel| mask >> channel & 1 == 1);
        asleep
            .filter_map(|channel| self.get(channel))
            .for_each(|engine| engine.bell().ring());
    }

    /// The engines but that of a channel.
    fn but(&self, channel: u32) -> impl Iterator<Item = &Arc<Shared>> {
        self.all().filter(move |other| other.channel() != channel)
    }
}

/// What an engine knows of those who wait in others of its rank. The sets have a bit for each engine.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// There are others.
    pub any: bool,
    /// The engine whose sleeper is rung for news of this one.
    keeper: Option<u32>,
    /// Sleepers who are rung when this one is let go of and nobody drives it.
    sleepers: u8,
    /// Sleepers who will look by themselves.
    lookers: u8,
    /// Sleepers since whose look somebody has let go of this one.
    used: u8,
}

impl Neighbours {
    /// Whether somebody sleeps elsewhere who is to hear that this engine is let go of.
    fn are_to_hear(&self) -> bool {
        self.sleepers | self.lookers != 0
    }

    /// Whether somebody keeps it.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.keeper.is_some()
    }
}

/// What a sleeper has found in the other engines.
#[derive(Debug, Default)]
pub(super) struct Care {
    /// Something has moved there.
    pub moved: bool,
    /// How long it may sleep.
    pub limit: Option<Duration>,
    /// What it keeps.
    pub kept: u8,
}

impl Engine {
    /// Whether anything here may need somebody who looks while no thread does.
    fn needs_somebody(&self) -> bool {
        let core = &self.core;
        !self.outbox.is_empty()
            || self.outbox.windows.held() > 0
            || self.parked.len() > 0
            || core.guest.is_there()
            || core.one_sided.has_windows()
            || self.futures_are_pending()
            // Others count on it to pass on what it hears.
            || self.tells_losses
            || core.requests.live().any(|(_, slot)| slot.is_active())
    }

    /// Somebody drives it from now on: who has kept it does no more.
    #[cold]
    pub(super) fn dismiss_keeper(&mut self) {
        self.neighbours.keeper = None;
        self.fabric.bell().ring_as_well(None);
    }

    /// The note of those who sleep elsewhere, for whoever lets go of the engine.
    fn note_neighbours(&mut self) {
        let is_noted = self.neighbours.are_to_hear();
        self.core.callbacks.set_awaited(is_noted);
    }
}

impl Guard<'_> {
    /// The engine is let go of: those who sleep elsewhere hear of it.
    #[cold]
    pub(super) fn tell_neighbours(&mut self) {
        let is_driven = self.is_driven();
        let neighbours = &mut self.neighbours;
        neighbours.used |= std::mem::take(&mut neighbours.lookers);
        let mut rung = 0;
        if !is_driven {
            rung = std::mem::take(&mut neighbours.sleepers);
            neighbours.used |= rung;
        }
        self.note_neighbours();
        if rung != 0
            && let Some(engines) = self.shared().engines().upgrade()
        {
            engines.ring(rung);
        }
    }

    /// Looks at the other engines before its thread sleeps, without this one meanwhile.
    pub(super) fn look_after_others(&mut self) -> Care {
        let mut care = Care::default();
        if self.neighbours.any
            && let Some(engines) = self.shared().engines().upgrade()
        {
            let me = self.shared().channel();
            self.released(|| {
                for other in engines.but(me) {
                    other.lock().be_looked_after(me, &mut care);
                }
            });
        }
        care
    }

    /// One that sleeps in the engine `by` looks after this one.
    fn be_looked_after(mut self, by: u32, care: &mut Care) {
        let bit = 1 << by;
        for _ in 0..LOOKS_BEFORE_DROPPING {
            if !self.help() {
                break;
            }
            care.moved = true;
        }
        self.run_callbacks();
        let was_used = self.neighbours.used & bit != 0;
        self.neighbours.used &= !bit;
        if was_used && !self.driven {
            care.limit = Some(A_WHILE);
            self.neighbours.lookers |= bit;
        } else {
            self.neighbours.sleepers |= bit;
            if !self.driven && !self.neighbours.is_kept() && self.needs_somebody() {
                self.neighbours.keeper = Some(by);
                care.kept |= 1 << self.shared().channel();
                let bell = self.fabric.bell();
                bell.ring_as_well(Some(by));
                // The announcement stands after it: what comes from now on rings.
                let ticket = bell.prepare();
                bell.cancel(ticket);
                care.moved |= self.progress();
                self.run_callbacks();
            }
        }
        self.note_neighbours();
        self.let_go_unheard();
    }

    /// Has its thread, which was about to sleep, keep no other engine any more. Without this one.
    pub(super) fn keep_no_more(shared: &Shared, kept: u8) {
        let Some(engines) = shared.engines().upgrade().filter(|_| kept != 0) else {
            return;
        };
        let me = shared.channel();
        let mut rung = 0;
        for other in engines.but(me) {
            let mut engine = other.lock();
            if engine.neighbours.keeper == Some(me) {
                engine.dismiss_keeper();
                // One of them is to keep it.
                rung |= std::mem::take(&mut engine.neighbours.sleepers) & !(1 << me);
                engine.note_neighbours();
            }
            engine.let_go_unheard();
        }
        engines.ring(rung);
    }

    /// One look at each of the other engines that is free and that nobody drives: for who does not sleep for long.
    #[cold]
    pub(super) fn help_others(&mut self) {
        let Some(engines) = self.shared().engines().upgrade() else {
            return;
        };
        let me = self.shared().channel();
        self.released(|| {
            for other in engines.but(me) {
                if let Some(mut engine) = other.try_lock() {
                    engine.help();
                    engine.run_callbacks();
                    engine.let_go_unheard();
                }
            }
        });
    }

    /// Does this in each of the other engines, one after the other, while this one is let go of.
    fn in_each_other(&mut self, does: impl Fn(&mut Guard<'_>)) {
        let Some(engines) = self.shared().engines().upgrade() else {
            return;
        };
        let me = self.shared().channel();
        self.released(|| {
            for other in engines.but(me) {
                let mut engine = other.lock();
                does(&mut engine);
                engine.let_go_unheard();
            }
        });
    }

    /// The caller, a fiber of this worker, lets others run, and drives again: those of its worker need not, in whatever engine.
    pub(super) fn rest_in_others(&mut self, worker: WorkerId, rests: bool) {
        self.in_each_other(|engine| {
            if rests {
                engine.parked.rest(worker);
            } else {
                engine.parked.end_rest(worker);
            }
        });
    }

    /// The caller, a fiber that has looked after others, has what it came for: those who wait elsewhere and whom nobody drives come.
    #[cold]
    pub(super) fn call_in_others(&mut self) {
        self.in_each_other(|engine| {
            if !engine.is_driven() {
                engine.parked.call(None);
            }
        });
    }
}
