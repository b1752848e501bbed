//! Placement: the core on which each process was last seen awake, so that two processes that wait for each other on one
//! core separate, a crowd spreads over the cores, and threads of one process that wait gather where no other process is.
//!
//! Each process publishes its core when it has waited for a microsecond or two, and when it wakes; while it sleeps, and
//! until a woken process runs, its core is unknown. A process that computes may be elsewhere by now. All of it is a hint:
//! a wrong number costs an unnecessary change of the core, or a wait that ends in a sleep.

use weft_atomic::{AtomicU32, Ordering};
use weft_fabric::Peer;
use weft_sys::contention::{Machine, Real};
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

/// All who are awake but `me`, and their cores, as shown.
fn others(segment: &Segment, me: u32) -> impl Iterator<Item = (u32, u32)> {
    let slots = segment.shape().process_slots;
    let awake = segment.header().run_states.each_awake(slots);
    awake
        .filter(move |slot| *slot != me)
        .map(|slot| {
            (
                slot,
                segment.control_in(0, slot).core.load(Ordering::Relaxed),
            )
        })
        .filter(|(_, core)| *core != UNKNOWN)
}

/// Who else stood on the core of a process when that last looked, and how often in a row.
#[derive(Debug, Default)]
pub(crate) struct Companion {
    slot: AtomicU32,
    times: AtomicU32,
}

/// So often in a row the same one is seen before two of a large job part: some milliseconds of messages between them.
const STAYS: u32 = 256;

impl Companion {
    /// Whether this one has been there for long.
    fn stays(&self, slot: Option<u32>) -> bool {
        let same = slot.is_some_and(|slot| self.slot.swap(slot, Ordering::Relaxed) == slot);
        let times = if same {
            self.times.load(Ordering::Relaxed).saturating_add(1)
        } else {
            0
        };
        self.times.store(times, Ordering::Relaxed);
        times >= STAYS
    }
}

/// Whether another one who is awake stands on the core of the caller, the process of slot `me`. `None` while more are awake
/// than there are cores, and in a job of more processes than cores unless it is the same one for long: those who are awake
/// there come and go, and yielding is quicker than to part each time. (17 in a ring: 8 to 10 µs for each, and 6.5 to 8 if they
/// do not part.) Two who talk while all others sleep would stay on one core until the kernel parts them, and pay a
/// switch for each message.
pub(crate) fn is_shared(segment: &Segment, me: u32, companion: &Companion) -> Option<bool> {
    let load = segment.load();
    if load.awake > load.cores {
        return None;
    }
    let here = show(segment, me);
    let mut others = others(segment, me);
    let beside = others.find(|(_, core)| *core == here).map(|(slot, _)| slot);
    let slots = segment.shape().process_slots;
    if segment.header().run_states.present(slots) > load.cores {
        return companion.stays(beside).then_some(true);
    }
    Some(beside.is_some())
}

/// Whether one of these peers of the process of slot `me` was last seen on its core: it runs when the caller gives that
/// away. `None` while no more are awake than there are cores.
pub(crate) fn is_any_beside(
    segment: &Segment,
    me: u32,
    peers: &mut dyn Iterator<Item = Peer>,
) -> Option<bool> {
    let load = segment.load();
    if load.awake <= load.cores {
        return None;
    }
    let here = show(segment, me);
    let slots = segment.shape().process_slots;
    let core = |slot| segment.control_in(0, slot).core.load(Ordering::Relaxed);
    let is_here = |peer: Peer| peer.0 < slots && core(peer.0) == here;
    let mut beside = peers.filter(|peer| is_here(*peer));
    Some(here != UNKNOWN && beside.next().is_some())
}

/// Whether the caller, one of several threads of the process of slot `me` that wait, runs where no other process stands, in a job that
/// has a core for each of its processes, and no two: what it waits for may come from another core while it keeps this one. If another
/// process stands here, the caller goes to the core of its own first, but seldom: threads that compute are better spread, as the
/// kernel does.
pub(crate) fn stands_apart(segment: &Segment, me: u32) -> bool {
    let load = segment.load();
    if load.awake < 2 || load.awake > load.cores || load.cores >= 2 * load.awake {
        return false;
    }
    let here = cores::current().map_or(UNKNOWN, shown);
    let is_taken = |core| others(segment, me).any(|(_, taken)| taken == core);
    if !is_taken(here) {
        show(segment, me);
        return true;
    }
    let mut contention = Real.contention();
    if !contention.looks_for_core(Real.now()) {
        return false;
    }
    let came = come_home(segment, me, here, is_taken);
    contention.looked_for_core(came);
    Real.remember(contention);
    came
}

/// Moves the caller from the core `here` to that of its process, or if others stand there, too, to one where none does.
#[cold]
fn come_home(segment: &Segment, me: u32, here: u32, is_taken: impl Fn(u32) -> bool) -> bool {
    let own = &segment.control_in(0, me).core;
    let home = own.load(Ordering::Relaxed);
    if home == UNKNOWN || home == here || is_taken(home) {
        // Shown before it goes: another one may look for a free core meanwhile.
        let choose = |core| own.store(shown(core), Ordering::Relaxed);
        return cores::leave(|core| is_taken(shown(core)), choose);
    }
    cores::leave(|core| shown(core) != home, |_| ())
}

/// Moves the caller to a core on which at least two fewer who are awake stand than on its own. False if there is none.
#[cold]
pub(crate) fn part(segment: &Segment, me: u32) -> bool {
    let here = show(segment, me);
    let beside = others(segment, me).filter(|(_, core)| *core == here);
    let beside = beside.count();
    let on = |core| others(segment, me).filter(move |(_, taken)| *taken == shown(core));
    let is_taken = |core| on(core).count() >= beside;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_sys::Mapping;

    use super::*;
    use crate::layout::segment_size;
    use crate::segment::initialise;

    /// The segment of a job of 8 on two cores.
    fn segment() -> Arc<Segment> {
        let mapping = Mapping::private(segment_size(8).expect("fits")).expect("maps");
        initialise(&mapping, 8, 2).expect("the right size");
        Segment::open(mapping).expect("initialised")
    }

    #[test]
    fn in_a_crowd_it_is_known_which_member_shares_a_core() {
        let segment = segment();
        let here = cores::allowed().expect("told")[0];
        cores::pin(&[here]).expect("an own core");
        let is_any_beside =
            |peers: &[u32]| super::is_any_beside(&segment, 0, &mut peers.iter().copied().map(Peer));
        let states = &segment.header().run_states;
        (0..2).for_each(|slot| states.join(slot));
        segment
            .control(1)
            .core
            .store(shown(here), Ordering::Relaxed);
        assert_eq!(is_any_beside(&[1]), None, "no more than cores");
        (2..4).for_each(|slot| states.join(slot));
        segment
            .control(2)
            .core
            .store(shown(here + 1), Ordering::Relaxed);
        assert_eq!(is_any_beside(&[1]), Some(true));
        assert_eq!(is_any_beside(&[3, 2, 1]), Some(true));
        assert_eq!(is_any_beside(&[2]), Some(false));
        assert_eq!(is_any_beside(&[3]), Some(false), "nobody knows where it is");
        assert_eq!(is_any_beside(&[8, u32::MAX]), Some(false), "no such slot");
        assert_eq!(is_any_beside(&[]), Some(false));
    }

    #[test]
    fn one_of_a_crowd_goes_where_two_fewer_stand() {
        let allowed = cores::allowed().expect("told");
        let [first, second, ..] = allowed[..] else {
            eprintln!("not shown: one core only");
            return;
        };
        let segment = segment();
        let states = &segment.header().run_states;
        (0..6).for_each(|slot| states.join(slot));
        let place = |slots: std::ops::Range<u32>, core| {
            for slot in slots {
                let word = &segment.control(slot).core;
                word.store(shown(core), Ordering::Relaxed);
            }
        };
        // Three others on each core: wherever the kernel has it, it stays.
        place(1..4, first);
        place(4..7, second);
        states.join(6);
        cores::pin(&[first, second]).expect("two of its cores");
        assert!(!part(&segment, 0), "one more than on the other core");
        // All on this one, which it may not leave, …
        cores::pin(&[first]).expect("one of its cores");
        place(1..7, first);
        assert!(!part(&segment, 0), "there is no other core for it");
        // … and which it leaves when it may, unless the kernel was quicker.
        cores::pin(&[first, second]).expect("two of its cores");
        let went = part(&segment, 0);
        assert!(went || cores::current() != Some(first));
    }

    #[test]
    fn threads_that_wait_come_to_the_core_of_their_member() {
        let allowed = cores::allowed().expect("told");
        let [first, second, ..] = allowed[..] else {
            eprintln!("not shown: one core only");
            return;
        };
        let segment = segment();
        let states = &segment.header().run_states;
        let stands_apart = || stands_apart(&segment, 0);
        let show_at = |slot, core| {
            let word = &segment.control(slot).core;
            word.store(shown(core), Ordering::Relaxed);
        };
        cores::pin(&[first]).expect("one of its cores");
        states.join(0);
        assert!(!stands_apart(), "alone, with a core to spare");
        states.join(1);
        show_at(1, second);
        assert!(stands_apart());
        let home = || segment.control(0).core.load(Ordering::Relaxed);
        assert_eq!(home(), shown(first));
        // The other one has come here, and this thread may not leave, …
        show_at(1, first);
        show_at(0, second);
        assert!(!stands_apart(), "there is no other core for it");
        // … and the next thread may.
        let came = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                cores::pin(&[first, second]).expect("two of its cores");
                let there = cores::current() == Some(second);
                (there || stands_apart()) && !(cores::current() == Some(first) && there)
            });
            thread.join().expect("no panic")
        });
        assert!(came);
        assert_eq!(home(), shown(second));
        cores::pin(&[first, second]).expect("two of its cores");
        states.join(2);
        assert!(!stands_apart(), "more than cores");
    }

    #[test]
    fn two_awake_members_of_a_large_job_see_each_other_on_a_core() {
        let segment = segment();
        let here = cores::allowed().expect("told")[0];
        cores::pin(&[here]).expect("an own core");
        let states = &segment.header().run_states;
        for slot in 0..8 {
            states.join(slot);
            let core = &segment.control(slot).core;
            core.store(shown(here), Ordering::Relaxed);
        }
        let companion = Companion::default();
        let is_shared = || super::is_shared(&segment, 0, &companion);
        let looks = STAYS + 10;
        assert!((0..looks).all(|_| is_shared().is_none()), "all are awake");
        (2..8).for_each(|slot| states.fall_asleep(slot));
        assert_eq!(is_shared(), None, "it may go soon");
        assert_eq!((0..looks).filter_map(|_| is_shared()).next(), Some(true));
        let other = &segment.control(1).core;
        other.store(shown(here + 1), Ordering::Relaxed);
        assert_eq!(is_shared(), None, "it has gone");
        other.store(shown(here), Ordering::Relaxed);
        assert_eq!(is_shared(), None, "it has come anew");
        (2..8).for_each(|slot| states.leave(slot));
        assert_eq!(is_shared(), Some(true), "no more than cores are left");
        other.store(shown(here + 1), Ordering::Relaxed);
        assert_eq!(is_shared(), Some(false));
    }
}
