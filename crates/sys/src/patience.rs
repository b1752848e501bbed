//! Patience of a waiter that has a core to itself as far as is known: how long it spins before it sleeps.
//!
//! Nobody knows how long a wait will be. Who spins for as long as a wake-up costs and then sleeps never pays more than
//! twice what the best choice would have cost (Karlin, Manasse, McGeoch, Owicki: "Competitive randomized algorithms for
//! nonuniform problems", SODA 1990). On a core that nobody else wants spinning costs nothing, so there it goes on longer.
//!
//! | what is known of the core | what is done |
//! |---|---|
//! | somebody who may be waited for stands here as well | goes to another core, at most once in a millisecond, else yields |
//! | nobody of ours stands here | spins [`WAKE_UP`]; then, with a yield now and then, up to [`SPIN`]; then sleeps |
//! | … and a stranger had this core lately | spins [`WAKE_UP`], then sleeps; yields to nobody |
//! | who stands here is not known | spins with a yield now and then up to [`SPIN`], then sleeps; at once after an interruption |
//!
//! # Why no yield to a stranger
//! Who yields gives away all that is left of its time slice, and since Linux 6.18 the start of the next one, too: a
//! program that computes then runs for up to a tick of the kernel, some milliseconds. Who sleeps instead is run at once
//! when it is woken, which takes microseconds.
//!
//! # Why those of one job part
//! Beside a program that computes the kernel has three threads for two cores. Two that hand a message to and fro on one
//! core need no more than that one, and nothing moves them apart: each message costs a switch of processes, ten times
//! what it costs between cores.

use std::time::{Duration, Instant};

use crate::contention::{Machine, Real};

/// How long to spin on a core that nobody else wants. It keeps the usual gap between two messages of a running
/// program free of wake-ups, and costs a thread that is idle for good a fifth of a millisecond.
pub const SPIN: Duration = Duration::from_micros(200);

/// What a wake-up costs: 12 to 14 µs the waker, 15 to 35 µs the sleeper of a halted core.
pub const WAKE_UP: Duration = Duration::from_micros(50);

/// Two reads of the clock lie a microsecond or two apart. If they lay this far apart, somebody else ran on this core.
const INTERRUPTED: Duration = Duration::from_micros(150);

/// The core of a waiter, and who else stands there.
pub trait Core {
    /// Gives the core to somebody else who wants it; false if that is not possible here.
    fn yield_core(&self) -> bool;
    /// Whether somebody for whom the caller may wait stands on the caller's core; `None` if that is not known.
    fn is_shared(&self) -> Option<bool>;
    /// Goes to a core on which nobody of those stands. False if there is none, or the kernel refuses.
    fn change_core(&self) -> bool;
}

/// One wait of a thread: asked every microsecond or two whether to go on spinning.
#[derive(Debug, Default)]
pub struct Patience {
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Patience {
    /// Starts to wait. Costs nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            since: None,
            last: None,
        }
    }

    /// Whether to go on spinning. May yield the core or change it before it answers.
    pub fn lasts(&mut self, core: &impl Core) -> bool {
        self.lasts_on(core, &Real)
    }

    /// As [`lasts`](Self::lasts), on a machine of the caller's.
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
        let since = *self.since.get_or_insert(now);
        let waited = now.duration_since(since);
        match core.is_shared() {
            Some(true) => waited < SPIN && self.make_room(core, machine, now),
            Some(false) => {
                if interrupted {
                    // What others wrote meanwhile is not there: a new wait, as long as any.
                    self.since = Some(now);
                    return true;
                }
                let limit = if machine.contention().was_interrupted(now) {
                    WAKE_UP
                } else {
                    SPIN
                };
                if waited >= WAKE_UP && waited < limit {
                    core.yield_core();
                }
                waited < limit
            }
            None => {
                core.yield_core();
                !interrupted && waited < SPIN
            }
        }
    }

    /// Whoever is waited for may need this core.
    fn make_room(&mut self, core: &impl Core, machine: &impl Machine, now: Instant) -> bool {
        if leave_or_yield(core, machine, now) {
            // What the change took is no interruption.
            *self = Self::new();
        }
        true
    }
}

/// Goes to another core, or yields this one to somebody of ours who stands here. True if it went.
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

/// Makes room for somebody of ours who stands on the caller's core: for those who ask and never wait.
pub fn make_room(core: &impl Core, machine: &impl Machine) {
    leave_or_yield(core, machine, machine.now());
}
