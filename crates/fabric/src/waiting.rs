//! The waiting strategy, decided here and nowhere else: spin only while a core is free to spin on,
//! give way while the job is a little larger than the machine, sleep on the bell otherwise.
//!
//! Waking a sleeping core costs a hundred messages; spinning on a core that another rank needs costs
//! a time slice. Neither is a setting: [`Load`] says how many of the job's members are awake and how
//! many cores they have, and the length of a step of our own says whether somebody else took the core.
//!
//! | what is seen | what is done |
//! |---|---|
//! | simulation (`awake == 0`) | sleep: that is how virtual time passes |
//! | awake ≤ cores | spin [`SPIN`], now and then giving way, then sleep; at once if a program outside of the job took the core |
//! | awake ≤ 2 · cores | give way to the others: after [`YIELDS`] turns of theirs or [`SPIN`], sleep |
//! | more | give way: after [`CROWD_YIELDS`] turns or [`SPIN`], sleep |
//!
//! Who is awake may still leave its core alone: it waits for something that is not ours. Giving way tells:
//! if it took no longer than a system call, nobody wanted this core, and it was no turn.
//!
//! To give way costs a change of processes, about 2 µs, in which others write what is waited for; to
//! sleep and be woken costs five of them. In a crowd that all hear one another (an exchange, a barrier)
//! what is waited for is there after one or two turns; where each waits for one other (a chain) every
//! turn of somebody who waits in vain delays the chain, so the turns are few.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::{Bell, Load};

/// How long to spin on a core that nobody else wants. A waker pays 12–14 µs and the sleeper 15–35 µs
/// for a halted core; spinning a few times that keeps the usual gap between two messages of a running
/// program free of it, and costs a rank that is idle for good a fifth of a millisecond.
pub const SPIN: Duration = Duration::from_micros(200);

/// A stride of looks takes a microsecond or two. One that took this long was interrupted by somebody
/// else on this core, who wants it more than a spinning waiter.
const INTERRUPTED: Duration = Duration::from_micros(150);

/// Turns of others before sleeping.
pub const YIELDS: u32 = 20;

/// Turns of others before sleeping in a crowd. Seventeen ranks on two cores, one interleaved run:
/// exchanges of 16 small messages 960 µs with none, 146 with five, 121 with twenty; the same of 4 KiB by
/// portal 6200, 3380, 2660 with ten, 3840 with twenty; chains of 16 such transfers there and back 470, 610,
/// 830, 1360.
pub const CROWD_YIELDS: u32 = 10;

/// Giving way takes a quarter to one microsecond and a half if nobody wants the core, and two changes of
/// processes, 4 µs and more, if somebody does.
const TURN: Duration = Duration::from_micros(2);

/// Looks before the load is asked for: the answer of a peer that is awake is a few hundred ns away.
const FREE: u32 = 16;

/// Looks between two looks at the clock and at the load, where a look is a few loads. See
/// [`Bell::stride`].
pub const STRIDE: u32 = 128;

thread_local! {
    /// Whether somebody wanted the core when this thread last gave way: a hint for its next wait.
    static WANTED: Cell<bool> = const { Cell::new(true) };
}

// Not inlined: a fiber that waits may go on in another thread, whose own hint is meant then.
#[inline(never)]
fn was_wanted() -> bool {
    WANTED.get()
}

#[inline(never)]
fn remember(wanted: bool) {
    WANTED.set(wanted);
}

/// What to do before the next look.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Look again at once.
    Look,
    /// Sleep on the bell.
    Sleep,
}

/// One wait: made when a call starts to wait, asked after each look that found nothing.
#[derive(Debug)]
pub struct Waiting {
    looks: u32,
    /// The look after which to consider.
    next: u32,
    turns: u32,
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiting {
    /// Starts to wait. Costs nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            looks: 0,
            next: FREE,
            turns: 0,
            since: None,
            last: None,
        }
    }

    /// Something was found: the patience starts anew.
    pub fn found(&mut self) {
        *self = Self::new();
    }

    /// A look found nothing: what now? May give way to others before it answers.
    #[inline]
    pub fn step(&mut self, bell: &dyn Bell) -> Step {
        self.looks += 1;
        if self.looks < self.next && !(self.looks == 1 && Self::is_vain(bell)) {
            // No pause instruction at first: it takes as long as a message does.
            if self.looks > STRIDE {
                std::hint::spin_loop();
            }
            return Step::Look;
        }
        self.consider(bell)
    }

    /// Whether nothing can come while this core is not given to others: time is virtual, or somebody
    /// who is awake has no core.
    #[inline]
    fn is_vain(bell: &dyn Bell) -> bool {
        let Load { awake, cores } = bell.load();
        awake == 0 || awake > cores && was_wanted()
    }

    #[cold]
    fn consider(&mut self, bell: &dyn Bell) -> Step {
        let Load { awake, cores } = bell.load();
        if awake == 0 {
            return Step::Sleep;
        }
        if awake > cores {
            let patience = if awake > cores.saturating_mul(2) {
                CROWD_YIELDS
            } else {
                YIELDS
            };
            let before = Instant::now();
            let since = *self.since.get_or_insert(before);
            if self.turns >= patience || before.duration_since(since) >= SPIN || !bell.give_way() {
                return Step::Sleep;
            }
            let wanted = before.elapsed() >= TURN;
            remember(wanted);
            self.turns += u32::from(wanted);
            // After a turn of others comes one look, and then this question again.
            self.next = self.looks + if wanted { 1 } else { FREE };
            return Step::Look;
        }
        let stride = bell.stride();
        self.next = self.looks + stride;
        if self.looks < stride {
            return Step::Look;
        }
        // Two ranks may stand on one core while another core is free, or a program outside of the job
        // may want this one: asking costs a sixth of a microsecond, not asking a time slice.
        bell.give_way();
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let interrupted = self
            .last
            .replace(now)
            .is_some_and(|last| now.duration_since(last) > INTERRUPTED);
        if !interrupted && now.duration_since(since) < SPIN {
            Step::Look
        } else {
            Step::Sleep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;

    /// On which every core is wanted by somebody else.
    struct Machine(Load);

    impl Bell for Machine {
        fn prepare(&self) -> Ticket {
            Ticket(0)
        }
        fn cancel(&self, _: Ticket) {}
        fn wait(&self, _: Ticket, _: Option<Duration>) {}
        fn ring(&self) {}
        fn load(&self) -> Load {
            self.0
        }
        fn give_way(&self) -> bool {
            let start = Instant::now();
            while start.elapsed() < TURN {
                std::hint::spin_loop();
            }
            true
        }
    }

    fn looks_until_sleep(awake: u32, cores: u32) -> u32 {
        let (bell, mut waiting) = (Machine(Load { awake, cores }), Waiting::new());
        (1..)
            .find(|_| waiting.step(&bell) == Step::Sleep)
            .expect("patience ends")
    }

    #[test]
    fn under_simulation_it_sleeps_at_once() {
        assert_eq!(looks_until_sleep(0, 2), 1);
    }

    #[test]
    fn a_crowd_gives_way_a_bounded_number_of_times() {
        // Fewer if the machine is so busy that the time is up before.
        assert!((2..=1 + YIELDS).contains(&looks_until_sleep(4, 2)));
        assert!((2..=1 + CROWD_YIELDS).contains(&looks_until_sleep(17, 2)));
    }

    #[test]
    fn a_free_core_is_spun_on_but_not_for_ever() {
        assert!(looks_until_sleep(2, 2) > STRIDE);
    }
}
