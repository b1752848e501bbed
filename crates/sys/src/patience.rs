//! Patience: how long a waiter that has a core to itself, as far as is known, spins before it sleeps.
//!
//! Nobody knows how long a wait will be. A waiter that spins for as long as a wake-up costs and then sleeps never pays
//! more than twice the cost of the best choice (Karlin, Manasse, McGeoch, Owicki: "Competitive randomized algorithms for
//! nonuniform problems", SODA 1990). On a core that nobody else wants spinning costs nothing, so there the waiter spins
//! longer.
//!
//! | what is known of the core | what is done |
//! |---|---|
//! | another process that may be waited for runs here, too | moves to another core, at most once in a millisecond, else yields |
//! | nobody of ours stands here | spins [`WAKE_UP`]; then, with a yield now and then, up to [`SPIN`] or until somebody else ran during ten of the yields; then sleeps |
//! | … and a stranger had this core lately | spins [`WAKE_UP`], then sleeps; yields to nobody |
//! | … and the core is taken between any two questions | sleeps: the core is taken all the time, or a look takes that long |
//! | who runs here is unknown | spins with a yield now and then up to [`SPIN`], then sleeps; at once after an interruption |
//!
//! # Why no yield to a stranger
//! A thread that yields gives up the rest of its time slice, and since Linux 6.18 the start of the next one, too: a
//! program that computes then runs for up to a tick of the kernel, some milliseconds. A thread that sleeps instead runs
//! as soon as it is woken, which takes microseconds.
//!
//! # Why processes of one job move apart
//! With another program that computes, the kernel has three threads for two cores. Two processes that exchange messages
//! on one core need only that core, so the kernel does not move them apart: each message costs a process switch, ten
//! times its cost between cores.

use std::time::{Duration, Instant};

use crate::contention::{Machine, Real};

/// How long to spin on a core that nobody else wants. The usual gap between two messages of a running program
/// is shorter, and so needs no wake-up; a thread that stays idle spends a fifth of a millisecond.
pub const SPIN: Duration = Duration::from_micros(200);

/// The cost of a wake-up: 12 to 14 µs the waker, 15 to 35 µs the sleeper of a halted core.
pub const WAKE_UP: Duration = Duration::from_micros(50);

/// Two reads of the clock are a microsecond or two apart. If they are this far apart, somebody else ran on
/// this core.
const INTERRUPTED: Duration = Duration::from_micros(150);

/// Contended yields after which a core no longer counts as free.
const MOST_CONTENDED: u32 = 10;

/// The core of a waiter, and who else runs there.
pub trait Core {
    /// Yields the core to somebody else who wants it; false if that is not possible here.
    fn yield_core(&self) -> bool;
    /// Whether somebody that the caller may wait for runs on the caller's core; `None` if that is not known.
    fn is_shared(&self) -> Option<bool>;
    /// Moves to a core on which none of those runs. False if there is none, or the kernel refuses.
    fn change_core(&self) -> bool;
}

/// One wait of a thread: it is asked every microsecond or two whether to continue spinning.
#[derive(Debug)]
pub struct Patience {
    /// How long it spins on a core that nobody else wants.
    spin: Duration,
    since: Option<Instant>,
    last: Option<Instant>,
    /// Yields during which somebody else ran.
    contended: u32,
    /// Whether there was an interruption before the last question.
    interrupted: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

impl Patience {
    /// Starts to wait. Costs nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self::up_to(SPIN)
    }

    /// Starts a wait that spins for `spin`, rather than [`SPIN`], on a core that nobody else wants.
    #[must_use]
    pub const fn up_to(spin: Duration) -> Self {
        Self {
            spin,
            since: None,
            last: None,
            contended: 0,
            interrupted: false,
        }
    }

    /// Whether to continue spinning. May yield the core or change it before it returns.
    pub fn lasts(&mut self, core: &impl Core) -> bool {
        self.lasts_on(core, &Real)
    }

    /// As [`lasts`](Self::lasts), on a given machine.
    pub fn lasts_on(&mut self, core: &impl Core, machine: &impl Machine) -> bool {
        let now = machine.now();
        let interrupted = self
            .last
            .replace(now)
            .is_some_and(|last| now.duration_since(last) > INTERRUPTED);
        if interrupted {
            let mut contention = machine.contention();
            contention.interrupt(now);
            machine.remember(contention);
        }
        // One interruption may be chance. If each question comes late, looks are that slow, and a wait that began anew each
        // time would never end.
        let before = std::mem::replace(&mut self.interrupted, interrupted);
        let once = interrupted && !before;
        let since = *self.since.get_or_insert(now);
        let waited = now.duration_since(since);
        match core.is_shared() {
            Some(true) => waited < self.spin && self.make_room(core, machine, now),
            Some(false) => {
                if once {
                    // Data that others wrote during the interruption have not been examined yet: a new wait
                    // begins, of full length.
                    self.since = Some(now);
                    return true;
                }
                if waited < WAKE_UP {
                    return true;
                }
                let wanted = machine.contention().was_interrupted(now);
                !wanted && waited < self.spin && self.is_free(core, machine, now)
            }
            None => {
                core.yield_core();
                !interrupted && waited < self.spin
            }
        }
    }

    /// Yields the core; returns whether it appears free. Others may want it in pieces too short to interrupt
    /// us.
    fn is_free(&mut self, core: &impl Core, machine: &impl Machine, now: Instant) -> bool {
        core.yield_core();
        let took = machine.now().duration_since(now);
        let mut contention = machine.contention();
        self.contended += u32::from(contention.yielded(took, || machine.switches()));
        machine.remember(contention);
        self.contended < MOST_CONTENDED
    }

    /// Makes room: the awaited process may need this core.
    fn make_room(&mut self, core: &impl Core, machine: &impl Machine, now: Instant) -> bool {
        if leave_or_yield(core, machine, now) {
            // The time of the change is not an interruption.
            *self = Self::up_to(self.spin);
        }
        true
    }
}

/// Moves to another core, or yields this one to another process of the job. True if it moved.
fn leave_or_yield(core: &impl Core, machine: &impl Machine, now: Instant) -> bool {
    let mut contention = machine.contention();
    let may = contention.change_core(now);
    machine.remember(contention);
    let changed = may && core.change_core();
    if !changed {
        core.yield_core();
    }
    changed
}

/// Makes room for another process of the job on the caller's core: for callers that poll and never wait.
pub fn make_room(core: &impl Core, machine: &impl Machine) {
    leave_or_yield(core, machine, machine.now());
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::contention::Contention;

    /// The time between two questions, and that of an idle yield, in nanoseconds.
    const QUESTION: u64 = 1_500;
    const IDLE_YIELD: u64 = 160;

    /// A simulated core, which a stranger that computes may share: it runs for `slice` ns whenever the core is yielded
    /// to it, and takes the core after as much time of ours.
    struct Simulated {
        slice: Option<u64>,
        shared: Option<bool>,
        changes_refused: bool,
        began: Instant,
        state: Mutex<State>,
    }

    struct State {
        nanoseconds: u64,
        /// When the stranger takes the core.
        due: u64,
        strangers: u64,
        yields: u64,
        changes: u64,
        contention: Contention,
    }

    impl Simulated {
        fn new(slice: Option<u64>, shared: Option<bool>) -> Self {
            Self {
                slice,
                shared,
                changes_refused: false,
                began: Instant::now(),
                state: Mutex::new(State {
                    nanoseconds: 0,
                    due: slice.unwrap_or(u64::MAX),
                    strangers: 0,
                    yields: 0,
                    changes: 0,
                    contention: Contention::UNKNOWN,
                }),
            }
        }

        fn state(&self) -> std::sync::MutexGuard<'_, State> {
            self.state.lock().expect("one thread")
        }

        fn stranger_runs(&self) {
            let slice = self.slice.expect("there is one");
            let mut state = self.state();
            state.strangers += slice;
            state.nanoseconds += slice;
            state.due = state.nanoseconds + slice;
        }

        fn pass(&self, nanoseconds: u64) {
            self.state().nanoseconds += nanoseconds;
            let is_due = |state: &State| state.nanoseconds >= state.due;
            if is_due(&self.state()) {
                self.stranger_runs();
            }
        }

        /// The time, and the stranger's part of it.
        fn times(&self) -> (u64, u64) {
            let state = self.state();
            (state.nanoseconds, state.strangers)
        }

        /// Waits for something that arrives after `until` ns; returns the time spun, and whether it was seen
        /// without sleeping.
        fn wait(&self, until: u64) -> (u64, bool) {
            let mut patience = Patience::new();
            let (start, strangers) = self.times();
            loop {
                self.pass(QUESTION);
                let (now, theirs) = self.times();
                let spun = now - start - (theirs - strangers);
                if now >= start + until {
                    return (spun, true);
                }
                if !patience.lasts_on(self, self) {
                    return (spun, false);
                }
            }
        }
    }

    impl Core for Simulated {
        fn yield_core(&self) -> bool {
            self.state().yields += 1;
            self.pass(IDLE_YIELD);
            if self.slice.is_some() {
                self.stranger_runs();
            }
            true
        }
        fn is_shared(&self) -> Option<bool> {
            self.shared
        }
        fn change_core(&self) -> bool {
            self.state().changes += 1;
            !self.changes_refused
        }
    }

    impl Machine for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_nanos(self.state().nanoseconds)
        }
        fn switches(&self) -> u64 {
            0
        }
        fn contention(&self) -> Contention {
            self.state().contention
        }
        fn remember(&self, contention: Contention) {
            self.state().contention = contention;
        }
    }

    const NEVER: u64 = 1_000_000_000;
    const SLICE: u64 = 3_000_000;

    fn nanoseconds(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).expect("short")
    }

    #[test]
    fn a_core_of_ones_own_is_spun_on_but_not_for_ever() {
        for shared in [None, Some(false)] {
            let core = Simulated::new(None, shared);
            assert!(core.wait(nanoseconds(SPIN) - 10_000).1);
            let (spun, seen) = core.wait(NEVER);
            assert!(!seen && spun < 2 * nanoseconds(SPIN), "{spun} ns");
        }
    }

    #[test]
    fn nothing_is_given_to_a_stranger_while_an_answer_is_near() {
        // Awaited answers that take a few times the interval of questions, one after the other for 20 slices.
        let core = Simulated::new(Some(SLICE), Some(false));
        let mut answers = 0u64;
        while core.state().nanoseconds < 40 * SLICE {
            assert!(core.wait(4 * QUESTION).1, "it slept");
            answers += 1;
        }
        // The stranger had its share from the kernel, half; the rest went into waits.
        assert_eq!(core.state().yields, 0);
        assert!(answers > 19 * SLICE / (5 * QUESTION), "{answers} answers");
    }

    #[test]
    fn beside_a_stranger_it_spins_as_long_as_a_wake_up_costs() {
        let core = Simulated::new(Some(SLICE), Some(false));
        // Learns of the stranger.
        while core.state().strangers == 0 {
            let _ = core.wait(NEVER);
        }
        let _ = core.wait(NEVER);
        let yields = core.state().yields;
        for _ in 0..1000 {
            let (spun, seen) = core.wait(NEVER);
            // Twice that if it was interrupted: what was written in between is worth another look.
            assert!(
                !seen && spun <= 2 * nanoseconds(WAKE_UP) + 2 * QUESTION,
                "{spun} ns"
            );
            assert!(spun >= nanoseconds(WAKE_UP), "{spun} ns");
        }
        assert_eq!(core.state().yields, yields, "a yield is a slice");
    }

    #[test]
    fn looks_that_take_as_long_as_an_interruption_end_in_sleep() {
        for shared in [None, Some(false), Some(true)] {
            let core = Simulated::new(None, shared);
            let mut patience = Patience::new();
            let mut questions = 0;
            loop {
                core.pass(2 * nanoseconds(INTERRUPTED));
                if !patience.lasts_on(&core, &core) {
                    break;
                }
                questions += 1;
                assert!(questions < 10, "it spins for ever");
            }
        }
    }

    #[test]
    fn a_stranger_that_is_gone_is_forgotten() {
        let mut core = Simulated::new(Some(SLICE), Some(false));
        while core.state().strangers == 0 {
            let _ = core.wait(NEVER);
        }
        core.slice = None;
        core.state().due = u64::MAX;
        core.pass(1_000_000_000);
        assert!(core.wait(nanoseconds(SPIN) - 10_000).1);
    }

    #[test]
    fn two_on_one_core_part_and_do_not_do_so_all_the_time() {
        let core = Simulated::new(None, Some(true));
        for _ in 0..100 {
            assert!(core.wait(20_000).1);
        }
        // 2 ms: nothing separates them for good here.
        assert!((2..=3).contains(&core.state().changes));
        assert!(core.state().yields > 100, "the other one needs this core");
    }

    #[test]
    fn a_thread_that_cannot_change_its_core_yields_it() {
        let mut core = Simulated::new(None, Some(true));
        core.changes_refused = true;
        let (spun, seen) = core.wait(NEVER);
        assert!(!seen && spun < 2 * nanoseconds(SPIN), "{spun} ns");
        assert_eq!(core.state().changes, 1);
        assert!(core.state().yields > 50);
    }
}
