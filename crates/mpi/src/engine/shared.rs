//! Sharing the engine among the threads of a rank: taking and releasing it.
//!
//! [`Shared`] has the engine and its lock; the holder of the lock has a [`Guard`], by which a thread also
//! [waits](super::progress). A [biased lock](weft_atomic::biased) costs little while one thread makes all calls. The
//! guard, when it is dropped, does what is due when the engine is released, above all the callbacks of the program.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::thread;

use weft_atomic::FenceMode;
use weft_atomic::biased::{self, Biased};
use weft_fabric::{Bell, Fabric, waiting};
use weft_sys::{futex::Futex, membarrier};

use super::Engine;
use super::at_once::Asked;
use super::counters::Counters;
use super::lost_peers::FirstPeers;
use super::side_by_side::Engines;

/// The engine, shared by the threads of a rank.
pub(crate) struct Shared {
    engine: Biased<Engine>,
    futex: Futex,
    bell: Arc<dyn Bell>,
    counters: Arc<Counters>,
    /// Ends the sleep of a worker on the bell.
    ring: Arc<dyn Fn() + Send + Sync>,
    /// The channel of its fabric.
    channel: u32,
    /// All engines of the rank.
    engines: Weak<Engines>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Shared({})", self.channel)
    }
}

impl Shared {
    /// That of a channel, whose endpoint this is.
    pub(crate) fn new(
        fabric: Box<dyn Fabric>,
        first: u32,
        channel: u32,
        engines: Weak<Engines>,
    ) -> Self {
        let bell = fabric.bell();
        let mode = if membarrier::register_own().is_available() {
            FenceMode::Asymmetric
        } else {
            FenceMode::Symmetric
        };
        let counters = Arc::<Counters>::default();
        Self {
            engine: Biased::new(
                Engine::new(fabric, FirstPeers(first), Arc::clone(&counters), channel),
                mode,
            ),
            counters,
            futex: Futex::private(),
            ring: {
                let bell = Arc::clone(&bell);
                Arc::new(move || bell.ring())
            },
            bell,
            channel,
            engines,
        }
    }

    /// The channel of its fabric.
    pub(crate) fn channel(&self) -> u32 {
        self.channel
    }

    /// All engines of the rank.
    pub(crate) fn engines(&self) -> &Weak<Engines> {
        &self.engines
    }

    /// Where its driver sleeps.
    #[inline]
    pub(crate) fn bell(&self) -> &Arc<dyn Bell> {
        &self.bell
    }

    /// Ends the sleep of a worker on the bell.
    pub(super) fn ring(&self) -> &Arc<dyn Fn() + Send + Sync> {
        &self.ring
    }

    /// Does `give_way`, in which the caller waits for what others do with the engine and lets them run.
    pub(super) fn give_way(&self, give_way: impl FnOnce()) {
        self.engine.give_way(give_way);
    }

    /// Whether somebody [gives way](Self::give_way).
    #[inline]
    pub(super) fn does_anybody_give_way(&self) -> bool {
        self.engine.does_anybody_give_way()
    }

    /// Takes the engine, if nobody has it.
    pub(super) fn try_lock(&self) -> Option<Guard<'_>> {
        Some(Guard {
            shared: self,
            engine: Some(self.try_take()?),
            drives: false,
        })
    }

    /// What it has counted.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the engine on behalf of the thread that calls, which makes no call now.
    pub(crate) fn lock_on_behalf(&self) -> Guard<'_> {
        Guard {
            shared: self,
            engine: Some(self.engine.lock_on_behalf(&self.futex)),
            drives: false,
        }
    }

    /// Takes the engine.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        Guard {
            shared: self,
            engine: Some(self.engine.lock(&self.futex)),
            drives: false,
        }
    }
}

/// Calls that end at once, without a [`Guard`] that knows how to wait.
impl Shared {
    /// Takes the engine, if nobody has it. To be [let go of](Self::let_go).
    // Not a closure with what is to be done: the compiler would put that into a function of its own.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> Option<biased::Guard<'_, Engine, Futex>> {
        match self.engine.try_by_bias() {
            Some(engine) => Some(engine.into_guard()),
            None => self.try_by_lock(),
        }
    }

    /// Lets go of the engine, after the program's own code has done what is left to it.
    #[inline(always)]
    pub(crate) fn let_go<'a>(&'a self, engine: biased::Guard<'a, Engine, Futex>) {
        if engine.core.callbacks.is_due() {
            self.run_callbacks(engine);
        }
    }

    /// Takes it when several threads use it.
    #[inline(never)]
    fn try_by_lock(&self) -> Option<biased::Guard<'_, Engine, Futex>> {
        let mut engine = self.engine.try_by_lock(&self.futex)?;
        let has_threads = !engine.is_used_by_owner_alone();
        engine.asking.set_threads(has_threads);
        Some(engine)
    }

    /// Takes it if this thread has the bias: the shortest way, for what may leave nothing to the program's own code. Who finds more
    /// to do goes on with the guard that this one [becomes](biased::ByBias::into_guard). Where fences cost something there is no
    /// such way.
    #[inline(always)]
    pub(crate) fn try_by_bias(&self) -> Option<biased::ByBias<'_, Engine>> {
        self.engine.try_by_asymmetric_bias()
    }

    #[cold]
    fn run_callbacks<'a>(&'a self, engine: biased::Guard<'a, Engine, Futex>) {
        drop(Guard {
            shared: self,
            engine: Some(engine),
            drives: false,
        });
    }

    /// Asks, if nobody has the engine. As [`Guard::ask`], gives the core away if that is the answer; the caller asks once more, elsewhere.
    #[inline(always)]
    pub(crate) fn try_asking<T>(
        &self,
        ask: impl FnOnce(&mut Engine, &dyn Bell) -> Asked<T>,
    ) -> Asked<T> {
        let Some(mut engine) = self.try_take() else {
            return Asked::Elsewhere;
        };
        let asked = ask(&mut engine, &*self.bell);
        if matches!(asked, Asked::GiveWay) {
            self.give_way_and_help(engine);
            return Asked::Elsewhere;
        }
        self.let_go(engine);
        asked
    }

    #[cold]
    fn give_way_and_help<'a>(&'a self, engine: biased::Guard<'a, Engine, Futex>) {
        let has_threads = !engine.is_used_by_owner_alone();
        self.let_go(engine);
        waiting::give_way(&*self.bell, has_threads);
        if let Some(mut engine) = self.try_lock()
            && engine.neighbours.any
        {
            engine.help_others();
        }
    }
}

/// Exclusive use of the engine.
pub(crate) struct Guard<'a> {
    shared: &'a Shared,
    engine: Option<biased::Guard<'a, Engine, Futex>>,
    /// Whether it drives progress.
    drives: bool,
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        let pending = self
            .engine
            .as_ref()
            .is_some_and(|engine| engine.core.callbacks.is_due());
        if pending | self.drives {
            self.end();
        }
    }
}

impl Deref for Guard<'_> {
    type Target = Engine;
    #[inline]
    fn deref(&self) -> &Engine {
        self.engine.as_ref().expect("held except within `released`")
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("held except within `released`")
    }
}

impl<'a> Guard<'a> {
    /// Which engine it is.
    #[inline]
    pub(super) fn shared(&self) -> &'a Shared {
        self.shared
    }

    /// Lets go of it for good, and nobody hears of that. Nothing may be left to the program's own code.
    pub(super) fn let_go_unheard(&mut self) {
        self.engine = None;
    }

    /// Lets go of the engine while `meanwhile` runs.
    pub(super) fn released(&mut self, meanwhile: impl FnOnce()) {
        self.engine = None;
        meanwhile();
        let shared = self.shared;
        self.engine = Some(shared.engine.lock(&shared.futex));
    }

    /// Has the program's own code do what is left to it, without the engine.
    #[cold]
    pub(super) fn run_callbacks(&mut self) {
        while self.core.callbacks.is_pending() {
            let callbacks = self.core.callbacks.take();
            let mut combined = Vec::new();
            self.released(|| combined = callbacks.run());
            for (run, outcome) in combined {
                self.combined(run, outcome);
            }
        }
    }

    /// Begins to drive progress, or ends: while one drives, no other does.
    #[inline]
    pub(super) fn set_drives(&mut self, drives: bool) {
        (self.driven, self.drives) = (drives, drives);
    }

    /// The driver has what it came for: another who waits takes over. Not only one of its own worker: nobody
    /// knows when the caller lets that run.
    #[inline]
    pub(super) fn hand_over_progress(&mut self) {
        self.set_drives(false);
        self.parked.call(None);
    }

    /// The last thing before the engine is let go of.
    #[cold]
    fn end(&mut self) {
        if self.engine.is_none() {
            return;
        }
        if self.drives {
            // What was waited for has panicked.
            self.hand_over_progress();
        }
        if !thread::panicking() && self.core.callbacks.is_pending() {
            self.run_callbacks();
            if self.driven {
                // What has ended by it may be what the sleeper waits for.
                self.shared.bell.ring();
            }
        }
        if self.core.callbacks.is_due() {
            self.tell_neighbours();
        }
    }

    /// Lets one of those who ask for the engine have it.
    pub(super) fn hand_over_lock(&mut self) {
        let futex = &self.shared.futex;
        self.engine = self.engine.take().map(|engine| engine.hand_over(futex));
    }

    /// Lets go of it where nothing of the caller is half done: the next waiter may have it now.
    #[inline]
    pub(crate) fn end_turn(mut self) {
        if let Some(engine) = self
            .engine
            .take_if(|engine| !engine.core.callbacks.is_due() && engine.is_due())
        {
            engine.pass_on();
        }
    }

    /// Whether others ask for the engine.
    #[inline]
    pub(super) fn is_contended(&self) -> bool {
        self.engine
            .as_ref()
            .is_some_and(biased::Guard::is_contended)
    }

    /// Whether one thread alone has ever taken the engine for itself.
    pub(super) fn is_used_by_owner_alone(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(biased::Guard::is_used_by_owner_alone)
    }
}
