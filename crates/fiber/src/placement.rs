//! Placement of a worker: the core on which it was last seen awake, so that two workers do not wait on one core.
//!
//! Published when a worker has looked for work for a microsecond or two, and when it wakes. A hint, hence Relaxed
//! throughout.

use weft_atomic::{AtomicU32, CacheLine, Ordering};
use weft_sys::cores;
use weft_sys::patience::Core;

use crate::worker::Worker;

/// Number of no core.
const UNKNOWN: u32 = 0;

/// What is shown for a core.
fn shown(core: usize) -> u32 {
    u32::try_from(core + 1).unwrap_or(UNKNOWN)
}

/// The core of one worker, plus one; 0 while it sleeps.
#[derive(Default)]
pub(crate) struct Placement(CacheLine<AtomicU32>);

impl Placement {
    /// The worker, the caller, is awake here. Answers its core, as shown.
    pub(crate) fn show(&self) -> u32 {
        // Miri has no cores.
        let here = if cfg!(miri) { None } else { cores::current() };
        let here = here.map_or(UNKNOWN, shown);
        // The line is written only when something changes.
        if self.0.load(Ordering::Relaxed) != here {
            self.0.store(here, Ordering::Relaxed);
        }
        here
    }

    /// It sleeps: nobody knows where it will run next.
    pub(crate) fn hide(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }

    fn is(&self, core: u32) -> bool {
        core != UNKNOWN && self.0.load(Ordering::Relaxed) == core
    }
}

/// The core of a worker that has nothing to do.
pub(crate) struct CoreOf<'a>(pub &'a Worker);

impl Core for CoreOf<'_> {
    fn yield_core(&self) -> bool {
        cores::yield_core();
        true
    }

    fn is_shared(&self) -> Option<bool> {
        let (own, mut others) = self.0.placements();
        let here = own.show();
        Some(others.any(|other| other.is(here)))
    }

    fn change_core(&self) -> bool {
        let is_taken = |core| self.0.placements().1.any(|other| other.is(shown(core)));
        let (own, _) = self.0.placements();
        let changed = cores::leave(is_taken, |core| own.0.store(shown(core), Ordering::Relaxed));
        own.show();
        changed
    }
}
