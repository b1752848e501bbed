//! Contention for this core, measured by yielding it: does another process want to run here?
//!
//! An *idle* yield, during which nobody else ran, takes as long as a system call; a *contended* one, during which
//! another process ran, at least four times that. The kernel counts the switches exactly, but reading its count costs
//! as much as the yield again. So the duration decides, and the count is read now and then to verify it. How long an
//! idle yield takes is learnt: it may be five times longer from one second to the next.
//!
//! The number of awake ranks does not show this: an awake rank may be blocked in something that we cannot see and not
//! use its core, and the process that wants this core may not be a rank at all.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::usage;

/// A yield shorter than this many idle ones was idle.
const IDLE: u32 = 2;

/// Assumed time of an idle yield until it is known, in nanoseconds: no machine is faster.
const INITIAL: u32 = 100;

/// After this many yields judged by their duration, the next two are verified.
const UNVERIFIED: u8 = 16;

/// Idle yields in a row beyond this number make no difference.
const MOST_IDLE: u8 = 8;

/// After this time without an interruption, the last one is forgotten.
const FORGOTTEN: Duration = Duration::from_millis(100);

/// Least time between two changes of the core, each of which takes some 50 µs.
const BETWEEN_CHANGES: Duration = Duration::from_millis(1);

/// Least time between two looks of a thread in a crowd for a core with fewer threads: the kernel leaves threads that yield
/// where they are for seconds.
const BETWEEN_SPREADS: Duration = Duration::from_millis(10);

/// Beyond this many recent moves, the time to the next look does not grow any more: 0.64 s. It grows because
/// whatever moves the thread back has its reasons.
const MOST_SPREADS: u8 = 6;

thread_local! {
    static CONTENTION: Cell<Contention> = const { Cell::new(Contention::UNKNOWN) };
}

/// The knowledge of one thread about its core.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// Idle yields in a row, up to [`MOST_IDLE`].
    idle: u8,
    /// Yields judged by their duration since the count was read.
    unverified: u8,
    /// Nanoseconds of an idle yield.
    idle_time: u32,
    /// The kernel's count of switches after the last yield, if it was read.
    switches: Option<u64>,
    /// When somebody else was last seen to have had this core for long.
    interrupted: Option<Instant>,
    /// When the thread last went to another core, or tried to.
    changed: Option<Instant>,
    /// When it last looked, in a crowd, for a core with fewer threads.
    looked: Option<Instant>,
    /// How often it moved there lately: each move doubles the time to the next look.
    spreads: u8,
    /// It has yielded before.
    measured: bool,
}

impl Contention {
    /// A core of which nothing is known yet.
    pub const UNKNOWN: Self = Self {
        idle: 0,
        unverified: 0,
        idle_time: INITIAL,
        switches: None,
        interrupted: None,
        changed: None,
        looked: None,
        spreads: 0,
        measured: false,
    };

    /// Whether the last yield was contended, or there was none.
    #[must_use]
    pub fn wanted(self) -> bool {
        self.idle == 0
    }

    /// Whether there was a yield, and the last one was contended.
    #[inline]
    #[must_use]
    pub fn was_wanted(self) -> bool {
        self.measured && self.wanted()
    }

    /// `base`, doubled for each idle yield in a row.
    #[must_use]
    pub fn backoff(self, base: u32) -> u32 {
        base << self.idle
    }

    /// Notes that somebody else had this core for long, until `now`.
    pub fn interrupt(&mut self, now: Instant) {
        self.interrupted = Some(now);
    }

    /// Whether there was an interruption lately.
    #[must_use]
    pub fn was_interrupted(self, now: Instant) -> bool {
        lies_within(self.interrupted, now, FORGOTTEN)
    }

    /// Whether the core may be changed `now`; if so it counts as done.
    #[must_use]
    pub fn change_core(&mut self, now: Instant) -> bool {
        let may = !lies_within(self.changed, now, BETWEEN_CHANGES);
        if may {
            self.changed = Some(now);
        }
        may
    }

    /// Whether a thread in a crowd may look for a core with fewer threads `now`; if so it counts as done.
    #[must_use]
    pub fn looks_for_core(&mut self, now: Instant) -> bool {
        let may = !lies_within(self.looked, now, BETWEEN_SPREADS * (1 << self.spreads));
        if may {
            self.looked = Some(now);
        }
        may
    }

    /// Notes the result of that look: whether the thread moved to another core.
    pub fn looked_for_core(&mut self, went: bool) {
        self.spreads = if went {
            MOST_SPREADS.min(self.spreads + 1)
        } else {
            self.spreads.saturating_sub(1)
        };
    }

    /// Notes that a yield took `took`; `read_switches` reads how often the core was taken from this thread.
    /// Returns whether the yield was contended.
    pub fn yielded(&mut self, took: Duration, read_switches: impl FnOnce() -> u64) -> bool {
        let took = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX).max(1);
        let short = took < self.idle_time.saturating_mul(IDLE);
        let before = self.switches.take();
        let contended = if before.is_none() && self.unverified < UNVERIFIED {
            self.unverified += 1;
            !short
        } else {
            let now = read_switches();
            // The first of two counts verifies nothing; after the second, verification continues until count
            // and duration agree.
            let contended = before.map_or(!short, |before| before != now);
            self.switches = (before.is_none() || contended == short).then_some(now);
            self.unverified = 0;
            contended
        };
        self.idle_time = match (contended, short) {
            (true, false) => self.idle_time,
            (true, true) => took / (2 * IDLE),
            // Slowly upward: an interrupt is not part of a yield.
            (false, true) => took.min(self.idle_time + self.idle_time / 8),
            (false, false) => took.min(self.idle_time.saturating_mul(2)),
        }
        .max(1);
        self.measured = true;
        self.idle = if contended {
            0
        } else {
            MOST_IDLE.min(self.idle + 1)
        };
        contended
    }
}

fn lies_within(moment: Option<Instant>, now: Instant, span: Duration) -> bool {
    moment.is_some_and(|moment| now.duration_since(moment) < span)
}

/// The clock and the scheduler as seen by a thread; tests have their own.
pub trait Machine {
    /// The time.
    fn now(&self) -> Instant;
    /// How often the core was taken from this thread.
    fn switches(&self) -> u64;
    /// The knowledge of the thread about its core.
    fn contention(&self) -> Contention;
    /// Stores the knowledge of the thread about its core.
    fn remember(&self, contention: Contention);
}

/// The machine this runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

impl Machine for Real {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[inline]
    fn switches(&self) -> u64 {
        usage::of_thread().involuntary_switches
    }

    // Not inlined: a waiting fiber may continue in another thread, and then that thread's core counts.
    #[inline(never)]
    fn contention(&self) -> Contention {
        CONTENTION.get()
    }

    #[inline(never)]
    fn remember(&self, contention: Contention) {
        CONTENTION.set(contention);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core on which an idle yield takes `idle_time` ns, and a contended one four times that.
    struct Core {
        idle_time: u64,
        switches: u64,
        read: u64,
    }

    impl Core {
        /// Yields; returns whether the yield counted as contended.
        fn yield_core(&mut self, contention: &mut Contention, wanted: bool) -> bool {
            self.switches += u64::from(wanted);
            let took = self.idle_time * if wanted { 4 } else { 1 };
            contention.yielded(Duration::from_nanos(took), || {
                self.read += 1;
                self.switches
            })
        }
    }

    /// How many of `times` yields are misjudged.
    fn wrong(core: &mut Core, contention: &mut Contention, wanted: bool, times: usize) -> usize {
        (0..times)
            .filter(|_| core.yield_core(contention, wanted) != wanted)
            .count()
    }

    #[test]
    fn contention_is_told_for_any_duration_of_a_yield() {
        for idle_time in [80, 160, 450, 1100, 2500] {
            let mut core = Core {
                idle_time,
                switches: 0,
                read: 0,
            };
            let mut contention = Contention::UNKNOWN;
            // At first the time of an idle yield is unknown.
            wrong(&mut core, &mut contention, false, 40);
            assert_eq!(
                wrong(&mut core, &mut contention, true, 500),
                0,
                "contended, {idle_time} ns"
            );
            assert!(contention.wanted());
            assert_eq!(
                wrong(&mut core, &mut contention, false, 500),
                0,
                "idle, {idle_time} ns"
            );
            assert!(!contention.wanted());
            assert!(core.read < 150, "asked {} times", core.read);
        }
    }

    #[test]
    fn a_machine_that_becomes_slower_is_learnt_and_forgotten() {
        let mut core = Core {
            idle_time: 160,
            switches: 0,
            read: 0,
        };
        let mut contention = Contention::UNKNOWN;
        wrong(&mut core, &mut contention, false, 10);
        for idle_time in [160 * 5, 160, 400, 160, 160 * 20, 160] {
            for wanted in [false, true] {
                core.idle_time = idle_time;
                let learning = wrong(&mut core, &mut contention, wanted, 100);
                assert!(
                    learning <= 2 * usize::from(UNVERIFIED),
                    "{learning} until {idle_time} ns were learnt"
                );
                assert_eq!(
                    wrong(&mut core, &mut contention, wanted, 100),
                    0,
                    "{idle_time} ns"
                );
            }
        }
    }

    #[test]
    fn a_thread_that_yielded_without_need_looks_later() {
        let mut contention = Contention::UNKNOWN;
        let began = Instant::now();
        // Whether the thread looks, asked each ms, and the result.
        let mut looks = |from: u64, went: bool| {
            let asked = (from..from + 2_000).filter(|millisecond| {
                let looks = contention.looks_for_core(began + Duration::from_millis(*millisecond));
                if looks {
                    contention.looked_for_core(went);
                }
                looks
            });
            asked.count()
        };
        assert_eq!(looks(0, false), 200, "each 10 ms where it is left alone");
        assert!(
            (6..=9).contains(&looks(2_000, true)),
            "twice as late each time"
        );
        assert!(looks(4_000, false) > 60, "and it is forgotten");
    }

    #[test]
    fn a_crowd_from_the_start_is_never_taken_for_calm() {
        for idle_time in [100, 450, 2000] {
            let mut core = Core {
                idle_time,
                switches: 0,
                read: 0,
            };
            let mut contention = Contention::UNKNOWN;
            assert_eq!(
                wrong(&mut core, &mut contention, true, 1000),
                0,
                "{idle_time} ns"
            );
        }
    }

    #[test]
    fn one_interrupt_changes_nothing() {
        let mut core = Core {
            idle_time: 160,
            switches: 0,
            read: 0,
        };
        let mut contention = Contention::UNKNOWN;
        wrong(&mut core, &mut contention, false, 20);
        let calm = contention.backoff(1);
        assert!(
            contention.yielded(Duration::from_micros(30), || 0),
            "passes for contended"
        );
        assert_eq!(wrong(&mut core, &mut contention, false, 20), 0);
        assert_eq!(contention.backoff(1), calm);
    }
}
