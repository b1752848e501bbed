//! Whether somebody else wants this core: learnt from giving it away.
//!
//! A yield during which nobody else ran is *idle* and takes as long as a system call; a *turn* of
//! another process takes at least four times that. The kernel counts turns exactly, but asking it costs
//! as much as the call again, so length decides, and the count is read now and then to prove it. What
//! a call takes is learnt: it may be five times longer from one second to the next.
//!
//! Counting who is awake cannot tell this: whoever is awake may wait for something that is not ours and
//! leave its core alone, and whoever wants this core may belong to nobody we know.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weft_sys::usage;

/// A yield shorter than so many calls was idle.
const IDLE: u32 = 2;

/// What a call takes until it is known, in nanoseconds: no machine is faster.
const CALL: u32 = 100;

/// After so many yields that were told by their length the next two are proven.
const UNPROVEN: u8 = 16;

/// More idle yields in a row than this say no more.
const CALM: u8 = 8;

thread_local! {
    static CONTENTION: Cell<Contention> = const { Cell::new(Contention::UNKNOWN) };
}

/// What one thread knows of its core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contention {
    /// How many times in a row nobody wanted it, up to [`CALM`].
    idle: u8,
    /// Give-ways told by their length since the count was read.
    unproven: u8,
    /// Nanoseconds of a idle yield.
    call: u32,
    /// The kernel's count after the last yield, if it was read.
    count: Option<u64>,
}

impl Contention {
    pub const UNKNOWN: Self = Self {
        idle: 0,
        unproven: 0,
        call: CALL,
        count: None,
    };

    /// Whether somebody wanted the core the last time.
    pub fn wanted(self) -> bool {
        self.idle == 0
    }

    /// What is doubled for each time in a row that nobody did.
    pub fn longer(self, base: u32) -> u32 {
        base << self.idle
    }

    /// A yield took so long; `count` reads how often the core was taken from this thread. Answers
    /// whether it was a turn of somebody else.
    pub fn tell(&mut self, took: Duration, count: impl FnOnce() -> u64) -> bool {
        let took = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX).max(1);
        let short = took < self.call.saturating_mul(IDLE);
        let before = self.count.take();
        let turn = if before.is_none() && self.unproven < UNPROVEN {
            self.unproven += 1;
            !short
        } else {
            let now = count();
            // The first of two counts proves nothing; after the second it goes on until it agrees.
            let turn = before.map_or(!short, |before| before != now);
            self.count = (before.is_none() || turn == short).then_some(now);
            self.unproven = 0;
            turn
        };
        self.call = match (turn, short) {
            (true, false) => self.call,
            (true, true) => took / (2 * IDLE),
            // Slowly upward: an interrupt is no part of a call.
            (false, true) => took.min(self.call + self.call / 8),
            (false, false) => took.min(self.call.saturating_mul(2)),
        }
        .max(1);
        self.idle = if turn { 0 } else { CALM.min(self.idle + 1) };
        turn
    }
}

/// The clock and the scheduler as a thread sees them: tests have their own.
pub(crate) trait Machine {
    fn now(&self) -> Instant;
    /// How often the core was taken from this thread.
    fn count(&self) -> u64;
    fn contention(&self) -> Contention;
    fn remember(&self, contention: Contention);
}

/// The machine this runs on.
pub(crate) struct Real;

impl Machine for Real {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[inline]
    fn count(&self) -> u64 {
        usage::of_thread().involuntary_switches
    }

    // Not inlined: a fiber that waits may go on in another thread, whose own core is meant then.
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

    /// A core on which a call takes `call` ns, and a turn of another four times that.
    struct Core {
        call: u64,
        count: u64,
        read: u64,
    }

    impl Core {
        /// Gives way; whether it was taken for a turn.
        fn yield_core(&mut self, contention: &mut Contention, wanted: bool) -> bool {
            self.count += u64::from(wanted);
            let took = self.call * if wanted { 4 } else { 1 };
            contention.tell(Duration::from_nanos(took), || {
                self.read += 1;
                self.count
            })
        }
    }

    /// How many of `times` yields are taken for what they are not.
    fn wrong(core: &mut Core, contention: &mut Contention, wanted: bool, times: usize) -> usize {
        (0..times)
            .filter(|_| core.yield_core(contention, wanted) != wanted)
            .count()
    }

    #[test]
    fn contention_is_told_whatever_a_call_takes() {
        for call in [80, 160, 450, 1100, 2500] {
            let mut core = Core {
                call,
                count: 0,
                read: 0,
            };
            let mut contention = Contention::UNKNOWN;
            // At first it is not known what a call takes.
            wrong(&mut core, &mut contention, false, 40);
            assert_eq!(
                wrong(&mut core, &mut contention, true, 500),
                0,
                "turns of {call} ns"
            );
            assert!(contention.wanted());
            assert_eq!(
                wrong(&mut core, &mut contention, false, 500),
                0,
                "calls of {call} ns"
            );
            assert!(!contention.wanted());
            assert!(core.read < 150, "asked {} times", core.read);
        }
    }

    #[test]
    fn a_machine_that_becomes_slower_is_learnt_and_forgotten() {
        let mut core = Core {
            call: 160,
            count: 0,
            read: 0,
        };
        let mut contention = Contention::UNKNOWN;
        wrong(&mut core, &mut contention, false, 10);
        for call in [160 * 5, 160, 400, 160, 160 * 20, 160] {
            for wanted in [false, true] {
                core.call = call;
                let learning = wrong(&mut core, &mut contention, wanted, 100);
                assert!(
                    learning <= 2 * usize::from(UNPROVEN),
                    "{learning} until {call} ns were learnt"
                );
                assert_eq!(
                    wrong(&mut core, &mut contention, wanted, 100),
                    0,
                    "{call} ns"
                );
            }
        }
    }

    #[test]
    fn a_crowd_from_the_start_is_never_taken_for_calm() {
        for call in [100, 450, 2000] {
            let mut core = Core {
                call,
                count: 0,
                read: 0,
            };
            let mut contention = Contention::UNKNOWN;
            assert_eq!(
                wrong(&mut core, &mut contention, true, 1000),
                0,
                "{call} ns"
            );
        }
    }

    #[test]
    fn one_interrupt_changes_nothing() {
        let mut core = Core {
            call: 160,
            count: 0,
            read: 0,
        };
        let mut contention = Contention::UNKNOWN;
        wrong(&mut core, &mut contention, false, 20);
        let calm = contention.longer(1);
        assert!(
            contention.tell(Duration::from_micros(30), || 0),
            "passes for a turn"
        );
        assert_eq!(wrong(&mut core, &mut contention, false, 20), 0);
        assert_eq!(contention.longer(1), calm);
    }
}
