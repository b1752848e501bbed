//! Placement: the core on which each process was last seen awake, so that two who wait for each other on one core part.
//!
//! Each shows its core when it has waited for a microsecond or two, and when it wakes; while it sleeps, and until a
//! process that was woken runs, nothing is known. One that computes may be elsewhere by now. All of it is advice: a wrong
//! number costs a change of the core that was not needed, or a wait that ends in a sleep.

use weft_atomic::Ordering;
use weft_sys::cores;

use crate::segment::Segment;

/// Number of no core.
const UNKNOWN: u32 = 0;

/// What is shown for a core.
fn shown(core: usize) -> u32 {
    u32::try_from(core + 1).unwrap_or(UNKNOWN)
}

/// The process of slot `me` runs here and is awake. Answers its core, as shown.
pub(crate) fn show(segment: &Segment, me: u32) -> u32 {
    let here = cores::current().map_or(UNKNOWN, shown);
    let core = &segment.control_in(0, me).core;
    // The line is written only when something changes.
    if core.load(Ordering::Relaxed) != here {
        core.store(here, Ordering::Relaxed);
    }
    here
}

/// Nobody knows where the process of this slot will run next.
pub(crate) fn hide(segment: &Segment, slot: u32) {
    let core = &segment.control_in(0, slot).core;
    core.store(UNKNOWN, Ordering::Relaxed);
}

/// The cores, as shown, of all who are awake but `me`.
fn others(segment: &Segment, me: u32) -> impl Iterator<Item = u32> {
    let slots = segment.shape().process_slots;
    let awake = segment.header().run_states.each_awake(slots);
    awake
        .filter(move |slot| *slot != me)
        .map(|slot| segment.control_in(0, slot).core.load(Ordering::Relaxed))
        .filter(|core| *core != UNKNOWN)
}

/// Whether another one who is awake stands on the core of the caller, the process of slot `me`. `None` while more are awake
/// than there are cores: yielding is quicker then than to part each time. Those who are asleep do not count: two of a large job
/// who talk while all others sleep would stay on one core until the kernel parts them, and pay a switch for each message.
pub(crate) fn is_shared(segment: &Segment, me: u32) -> Option<bool> {
    let load = segment.load();
    if load.awake > load.cores {
        return None;
    }
    let here = show(segment, me);
    Some(others(segment, me).any(|core| core == here))
}

/// Moves the caller to a core on which nobody else who is awake stands. False if there is none.
#[cold]
pub(crate) fn part(segment: &Segment, me: u32) -> bool {
    let is_taken = |core| others(segment, me).any(|taken| taken == shown(core));
    // Shown before it goes: another one may look for a free core meanwhile.
    let choose = |core| {
        segment
            .control_in(0, me)
            .core
            .store(shown(core), Ordering::Relaxed)
    };
    let changed = cores::leave(is_taken, choose);
    show(segment, me);
    changed
}
