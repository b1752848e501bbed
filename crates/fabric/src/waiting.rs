//! Waiting strategy, decided only here: spin only while a core is free to spin on, yield the core while the job is a
//! little larger than the machine, sleep on the bell otherwise.
//!
//! Waking a sleeping core costs a hundred messages; spinning on a core that another rank needs costs a time slice.
//! Neither is a setting: [`Load`] says how many of the job's members are awake and how many cores they have,
//! [`Bell::shares_core`] whether two of them run on one core, and the time between two reads of the clock whether another
//! thread took the core.
//!
//! A yield is *contended* if another process ran before it returned, and *idle* if none did.
//!
//! | observation | action |
//! |---|---|
//! | simulation (`awake == 0`) | sleep: that is how virtual time passes |
//! | awake ≤ cores | spin, then sleep, as [`patience`] says; change the core if another member runs on it |
//! | awake ≤ 2 · cores | yield: after [`YIELDS`] contended yields or [`SPIN`], sleep |
//! | more | yield: after [`CROWD_YIELDS`] contended yields or [`SPIN`], sleep |
//! | a board of small collectives, awake > cores, who is missing has this core | yield once before all that ([`Turns`]) |
//! | a message, awake > cores, the last yield was contended | the same |
//! | the last yield was idle | spin, and yield ever more rarely |
//! | yields are contended | look now and then for a core with two members fewer, and move there |
//!
//! Threads of one member that wait at the same time let each other run instead: [`among_threads`](crate::among_threads).
//!
//! `awake` is an upper bound: a rank that is awake may be blocked in something that we cannot see, and leave its core
//! alone. Only yielding tells whether another thread wants this core, in `contention`.
//!
//! A contended yield costs a switch of processes, about 2 µs, in which others write what is waited for; sleeping and
//! being woken costs five of them. If all wait for all (an exchange, a barrier), the data arrive after one or two yields;
//! if each waits for one other (a chain), every process that runs only to find nothing delays the chain, so the yields
//! are few.

use std::time::Instant;

use weft_sys::contention::{Machine, Real};
use weft_sys::patience::{self, Core, Patience, SPIN};

use crate::{Bell, Load};

/// Contended yields before a waiter sleeps.
pub const YIELDS: u32 = 20;

/// Contended yields before a waiter sleeps if more than twice as many members are awake as there are cores. Seventeen
/// ranks on two cores, one interleaved run: exchanges of 16 small messages 960 µs with none, 146 with five, 121 with
/// twenty; the same of 4 KiB by portal 6200, 3380, 2660 with ten, 3840 with twenty; chains of 16 such transfers there and
/// back 470, 610, 830, 1360.
pub const CROWD_YIELDS: u32 = 10;

/// Polls before the load is asked for: the answer of a peer that is awake is a few hundred ns away. In a job
/// with more awake than cores, the polls before the core is yielded, doubled for each idle yield in a row.
pub const FREE: u32 = 16;

/// Polls between two reads of the clock and the load, if a poll is a few loads of memory. See
/// [`Bell::polls_per_clock_read`].
pub const POLLS_PER_CLOCK_READ: u32 = 128;

/// Polls for one message of one peer, and only for that, while no member that is awake lacks a core: about the time that a peer
/// that is awake takes to answer. Each takes some five ns.
pub const LOOKS_FOR_ONE: u32 = 128;

/// Of so many waits that begin by giving the core to others, one is left to [`Waiting`].
const MEASURED: u32 = 16;

/// Waits of a member of a crowd for others, which can do nothing before it gives its core to them. Once they have had it,
/// most such waits are over; so one yield comes before all that [`Waiting`] does: to measure, to look for a core with fewer, to sleep. That it
/// does for one wait of [`MEASURED`], and where a yield was not enough.
#[derive(Debug)]
pub struct Turns {
    waits: u32,
    /// Looks for a message before the next step is considered: [`FREE`], but one if that was to give the core away the last time.
    free: u32,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            waits: 0,
            free: FREE,
        }
    }
}

/// What is done when a few looks for a message were in vain.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There is a core for everybody who is awake: goes on looking.
    Look,
    /// The core was given away, once: one more look.
    Given,
    /// The wait is for [`Waiting`].
    Wait,
}

impl Turns {
    /// Gives the core away once. False, without that, if this wait is for [`Waiting`]. To be asked only where a member stands on this
    /// core, so not by the bell: the way to that is long for a processor on which others have run since.
    #[inline]
    pub fn give_core(&mut self) -> bool {
        self.waits = self.waits.wrapping_add(1);
        let gives = !self.waits.is_multiple_of(MEASURED);
        if gives {
            weft_sys::cores::yield_core();
        }
        gives
    }

    /// Looks for a message that are free of all else.
    #[inline(always)]
    #[must_use]
    pub fn free_looks(&self) -> u32 {
        self.free
    }

    /// A member has looked for a message so often, in vain. Gives the core away once if a member that is awake has none, and this one was
    /// wanted the last time that it was measured. Unless it is `alone`, the member has other threads or fibers to run.
    #[cold]
    pub fn take(&mut self, bell: &dyn Bell, alone: bool) -> Turn {
        self.take_on(bell, alone, &Real)
    }

    fn take_on(&mut self, bell: &dyn Bell, alone: bool, machine: &impl Machine) -> Turn {
        self.free = FREE;
        let Load { awake, cores } = bell.load();
        if awake != 0 && awake <= cores {
            return Turn::Look;
        }
        if awake == 0 || !alone || !machine.contention().wanted() {
            return Turn::Wait;
        }
        self.free = 1;
        // Counted when it has been measured: a call may ask both before it makes a request and after that.
        if self.waits.wrapping_add(1).is_multiple_of(MEASURED) || !self.give_core() {
            return Turn::Wait;
        }
        Turn::Given
    }

    /// [`Waiting`] has the wait now.
    #[inline]
    pub fn left_to_waiting(&mut self) {
        self.waits = self.waits.wrapping_add(1);
    }
}

/// Whether somebody else wanted this core the last time that it was measured, if it ever was. Asks nobody, so it costs next to nothing.
#[inline]
#[must_use]
pub fn is_core_wanted() -> bool {
    Real.contention().was_wanted()
}

/// Action before the next poll.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Poll again at once.
    Look,
    /// Sleep on the bell.
    Sleep,
}

/// One wait: made when a call starts to wait, asked after each poll that found nothing.
#[derive(Debug)]
pub struct Waiting {
    polls: u32,
    /// The poll after which to consider.
    next: u32,
    contended_yields: u32,
    /// The first yield in a crowd.
    since: Option<Instant>,
    patience: Patience,
}

/// The core of a waiter, of whose members the bell knows where they are.
struct CoreOf<'a>(&'a dyn Bell);

impl Core for CoreOf<'_> {
    fn yield_core(&self) -> bool {
        self.0.yield_core()
    }

    fn is_shared(&self) -> Option<bool> {
        self.0.shares_core()
    }

    fn change_core(&self) -> bool {
        self.0.change_core()
    }
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
            polls: 0,
            next: FREE,
            contended_yields: 0,
            since: None,
            patience: Patience::new(),
        }
    }

    /// Something was found: the patience starts again.
    pub fn found(&mut self) {
        *self = Self::new();
    }

    /// A poll found nothing: returns the next action. May yield the core before it returns.
    #[inline]
    pub fn step(&mut self, bell: &dyn Bell) -> Step {
        self.step_on(bell, &Real)
    }

    #[inline]
    fn step_on(&mut self, bell: &dyn Bell, machine: &impl Machine) -> Step {
        self.polls += 1;
        if self.polls < self.next && !(self.polls == 1 && Self::is_idle(bell, machine)) {
            // No pause instruction at first: it takes as long as a message does.
            if self.polls > POLLS_PER_CLOCK_READ {
                std::hint::spin_loop();
            }
            return Step::Look;
        }
        self.consider(bell, machine)
    }

    /// Whether nothing can come while this core is not given to others: time is virtual, or a rank that is
    /// awake has no core.
    #[inline]
    fn is_idle(bell: &dyn Bell, machine: &impl Machine) -> bool {
        let Load { awake, cores } = bell.load();
        awake == 0 || awake > cores && machine.contention().wanted()
    }

    #[cold]
    fn consider(&mut self, bell: &dyn Bell, machine: &impl Machine) -> Step {
        let load = bell.load();
        if load.awake == 0 {
            Step::Sleep
        } else if load.awake > load.cores {
            self.yield_core(bell, machine, load)
        } else {
            self.spin(bell, machine)
        }
    }

    /// More are awake than there are cores.
    fn yield_core(&mut self, bell: &dyn Bell, machine: &impl Machine, load: Load) -> Step {
        let mut contention = machine.contention();
        let free = contention.backoff(FREE).min(bell.polls_per_clock_read());
        if !contention.wanted() && self.polls < free {
            self.next = free;
            return Step::Look;
        }
        let patience = if load.awake > load.cores.saturating_mul(2) {
            CROWD_YIELDS
        } else {
            YIELDS
        };
        let before = machine.now();
        let since = *self.since.get_or_insert(before);
        if self.contended_yields >= patience
            || before.duration_since(since) >= SPIN
            || !bell.yield_core()
        {
            return Step::Sleep;
        }
        let took = machine.now().duration_since(before);
        let contended = contention.yielded(took, || machine.switches());
        if contended && contention.looks_for_core(before) {
            contention.looked_for_core(bell.change_core());
        }
        machine.remember(contention);
        self.contended_yields += u32::from(contended);
        // After a contended yield comes one poll, and then this question again.
        self.next = self.polls
            + if contended {
                1
            } else {
                contention.backoff(FREE).min(bell.polls_per_clock_read())
            };
        Step::Look
    }

    /// There is a core for everybody who is awake.
    fn spin(&mut self, bell: &dyn Bell, machine: &impl Machine) -> Step {
        let polls_per_clock_read = bell.polls_per_clock_read();
        self.next = self.polls + polls_per_clock_read;
        if self.polls < polls_per_clock_read {
            return Step::Look;
        }
        if self.patience.lasts_on(&CoreOf(bell), machine) {
            Step::Look
        } else {
            Step::Sleep
        }
    }
}

/// Polls of calls that never wait (`MPI_Test`, `MPI_Iprobe`), in a row. A program that waits by polling holds its core
/// like one that waits; if more members are awake than there are cores, or another one runs on this core, what it polls
/// for comes only if it yields the core. So it is if another thread of the same member has to run before: it may have the message that is
/// polled for, or be the one that answers.
#[derive(Debug)]
pub struct Asking {
    /// Looks that found nothing, one after the other.
    empty_polls: u32,
    /// Of them, the one after which to consider.
    next: u32,
    /// Giving way is also for what else the member has to do.
    has_more_to_do: bool,
    /// The member has other threads, which count as one with this: they may need this core.
    has_threads: bool,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            empty_polls: 0,
            next: FREE,
            has_more_to_do: false,
            has_threads: false,
        }
    }
}

impl Asking {
    /// Whether several threads of the member make calls. A caller that polls in vain then yields now and then, ever more rarely while
    /// its core is not wanted.
    #[inline]
    pub fn set_threads(&mut self, has_threads: bool) {
        self.has_threads = has_threads;
    }

    /// Whether they do, as far as was told.
    #[inline]
    #[must_use]
    pub fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// From now on a caller that polls in vain is told to yield every now and then, even if the core is not wanted: the
    /// member has other work than this poll.
    pub fn has_more_to_do(&mut self) {
        self.has_more_to_do = true;
    }

    /// A poll found something.
    #[inline]
    pub fn found(&mut self) {
        self.empty_polls = 0;
    }

    /// A poll found nothing. True if the caller is to [yield](give_way) before it polls again: because more members are
    /// awake than there are cores, or other threads of this one, and this core is wanted as far as is known; or another member is on
    /// this one.
    #[inline]
    pub fn found_nothing(&mut self, bell: &dyn Bell) -> bool {
        self.empty_polls += 1;
        if self.empty_polls < self.next {
            return false;
        }
        self.consider(bell, &Real)
    }

    #[cold]
    fn consider(&mut self, bell: &dyn Bell, machine: &impl Machine) -> bool {
        self.empty_polls = 0;
        let load = bell.load();
        if load.awake <= load.cores && !(self.has_threads && load.awake != 0) {
            self.next = bell.polls_per_clock_read();
            return self.has_more_to_do || load.awake > 1 && bell.shares_core() == Some(true);
        }
        let contention = machine.contention();
        self.next = match contention.wanted() {
            // The answer of a peer that has a core is soon there.
            true if load.awake <= load.cores => FREE,
            true => 1,
            false => contention.backoff(FREE),
        };
        true
    }
}

/// Yields the core, and remembers whether it was wanted; or moves to another core that no member is on, unless it `has_threads`, which
/// may need this one. Call it without any lock that others need.
pub fn give_way(bell: &dyn Bell, has_threads: bool) {
    give_way_on(bell, &Real, has_threads);
}

fn give_way_on(bell: &dyn Bell, machine: &impl Machine, has_threads: bool) {
    let load = bell.load();
    let shares_core = load.awake > 1 && bell.shares_core() == Some(true);
    if load.awake <= load.cores && (!has_threads || shares_core) {
        patience::make_room(&CoreOf(bell), machine);
        return;
    }
    let before = machine.now();
    if !bell.yield_core() {
        return;
    }
    let took = machine.now().duration_since(before);
    let mut contention = machine.contention();
    contention.yielded(took, || machine.switches());
    machine.remember(contention);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::Ticket;
    use weft_sys::contention::Contention;

    /// What a poll, an idle yield, and a process that runs meanwhile take on the simulated machine.
    const POLL: u64 = 10;
    const IDLE_YIELD: u64 = 160;
    const OTHER: u64 = 1_200;

    /// A simulated core: `others` want it, and everything takes `slowness` times as long.
    struct Simulated {
        load: Load,
        others: u64,
        slowness: u64,
        /// Whether another member stands on this core.
        shared: Option<bool>,
        began: Instant,
        state: Mutex<State>,
    }

    struct State {
        nanoseconds: u64,
        yields: u64,
        changes: u64,
        switches: u64,
        contention: Contention,
    }

    impl Simulated {
        fn new(awake: u32, cores: u32, others: u64) -> Self {
            Self {
                load: Load { awake, cores },
                others,
                slowness: 1,
                shared: None,
                began: Instant::now(),
                state: Mutex::new(State {
                    nanoseconds: 0,
                    yields: 0,
                    changes: 0,
                    switches: 0,
                    contention: Contention::UNKNOWN,
                }),
            }
        }

        fn state(&self) -> std::sync::MutexGuard<'_, State> {
            self.state.lock().expect("one thread")
        }

        fn yields(&self) -> u64 {
            self.state().yields
        }

        /// A wait for what is there after so many ns; true if it was seen without sleeping.
        fn wait(&self, until: u64) -> bool {
            let mut waiting = Waiting::new();
            let until = self.state().nanoseconds + until;
            loop {
                self.state().nanoseconds += POLL * self.slowness;
                if self.state().nanoseconds >= until {
                    return true;
                }
                if waiting.step_on(self, self) == Step::Sleep {
                    return false;
                }
            }
        }
    }

    impl Bell for Simulated {
        fn prepare(&self) -> Ticket {
            Ticket(0)
        }
        fn cancel(&self, _: Ticket) {}
        fn wait(&self, _: Ticket, _: Option<Duration>) {}
        fn ring(&self) {}
        fn load(&self) -> Load {
            self.load
        }
        fn yield_core(&self) -> bool {
            let mut state = self.state();
            state.yields += 1;
            state.switches += u64::from(self.others > 0);
            state.nanoseconds += (IDLE_YIELD + self.others * OTHER) * self.slowness;
            true
        }
        fn shares_core(&self) -> Option<bool> {
            self.shared
        }
        fn change_core(&self) -> bool {
            self.state().changes += 1;
            true
        }
        fn polls_per_clock_read(&self) -> u32 {
            POLLS_PER_CLOCK_READ
        }
    }

    impl Machine for Simulated {
        fn now(&self) -> Instant {
            self.began + Duration::from_nanos(self.state().nanoseconds)
        }
        fn switches(&self) -> u64 {
            self.state().switches
        }
        fn contention(&self) -> Contention {
            self.state().contention
        }
        fn remember(&self, contention: Contention) {
            self.state().contention = contention;
        }
    }

    const NEVER: u64 = 1_000_000_000;

    /// So many looks in vain, one after the other; answers how often the core was yielded.
    fn ask(machine: &Simulated, asking: &mut Asking, times: u32) -> u64 {
        let before = machine.yields();
        for _ in 0..times {
            asking.empty_polls += 1;
            if asking.empty_polls >= asking.next && asking.consider(machine, machine) {
                give_way_on(machine, machine, asking.has_threads);
            }
        }
        machine.yields() - before
    }

    #[test]
    fn unsuccessful_polls_give_way_in_a_crowd_only() {
        for (awake, others, least, most) in [
            // Nobody else wants a core: never.
            (2, 0, 0, 0),
            // A program outside of the job does: the kernel shares the core out.
            (2, 1, 0, 0),
            // A crowd: nearly each time.
            (4, 1, 900, 1000),
            (17, 8, 900, 1000),
            // The others that are awake have cores of their own: ever more rarely.
            (17, 0, 1, 20),
        ] {
            let (machine, mut asking) = (Simulated::new(awake, 2, others), Asking::default());
            ask(&machine, &mut asking, 100);
            let yields = ask(&machine, &mut asking, 1000);
            assert!(
                (least..=most).contains(&yields),
                "{awake} awake, {others} others: {yields} of 1000"
            );
        }
    }

    #[test]
    fn a_member_that_polls_on_the_core_of_another_moves_away() {
        let (mut machine, mut asking) = (Simulated::new(2, 2, 1), Asking::default());
        machine.shared = Some(false);
        assert_eq!(ask(&machine, &mut asking, 10_000), 0);
        assert_eq!(machine.state().changes, 0);
        machine.shared = Some(true);
        ask(&machine, &mut asking, 200);
        assert_eq!(machine.state().changes, 1);
        // Not to be changed again so soon: the core is given to the other one.
        assert!(ask(&machine, &mut asking, 1000) >= 5);
        assert_eq!(machine.state().changes, 1);
    }

    #[test]
    fn a_thread_that_polls_beside_others_of_its_member_gives_way() {
        for (others, least, most) in [(0, 3, 60), (13, 500, 700)] {
            let (machine, mut asking) = (Simulated::new(2, 2, others), Asking::default());
            asking.set_threads(true);
            // Learns whether the core is wanted.
            ask(&machine, &mut asking, 100);
            let yields = ask(&machine, &mut asking, 10_000);
            assert!(
                (least..=most).contains(&yields),
                "{others} others: {yields}"
            );
        }
        let (simulated, mut asking) = (Simulated::new(0, 2, 0), Asking::default());
        asking.set_threads(true);
        assert_eq!(ask(&simulated, &mut asking, 1000), 0, "time is virtual");
    }

    #[test]
    fn a_member_that_waits_on_the_core_of_another_moves_away() {
        let mut machine = Simulated::new(2, 2, 1);
        machine.shared = Some(true);
        assert!(machine.wait(5_000));
        assert_eq!(machine.state().changes, 1);
    }

    #[test]
    fn a_member_that_polls_under_simulation_does_not_yield() {
        let (machine, mut asking) = (Simulated::new(0, 2, 0), Asking::default());
        assert_eq!(ask(&machine, &mut asking, 1000), 0);
    }

    #[test]
    fn under_simulation_it_sleeps_at_once() {
        let machine = Simulated::new(0, 2, 0);
        assert!(!machine.wait(NEVER));
        assert_eq!(machine.yields(), 0);
    }

    #[test]
    fn a_crowd_yields_at_once_and_a_bounded_number_of_times() {
        for (awake, others, yields) in
            [(17, 8, CROWD_YIELDS), (4, 1, YIELDS), (17, 1, CROWD_YIELDS)]
        {
            let machine = Simulated::new(awake, 2, others);
            for wait in 1..=50 {
                assert!(!machine.wait(NEVER));
                assert_eq!(machine.yields(), wait * u64::from(yields), "{awake} awake");
            }
        }
    }

    #[test]
    fn a_crowd_gives_the_core_once_before_it_waits_but_for_some() {
        let mut turns = Turns::default();
        let given = (0..160).filter(|_| turns.give_core()).count();
        assert_eq!(given, 150);
    }

    #[test]
    fn a_wait_for_a_message_gives_the_core_once_where_it_is_wanted() {
        let mut turns = Turns::default();
        let crowd = Simulated::new(4, 2, 1);
        assert_eq!(turns.free_looks(), FREE, "nobody knows yet");
        for _ in 0..3 {
            for _ in 0..15 {
                assert_eq!(turns.take_on(&crowd, true, &crowd), Turn::Given);
                assert_eq!(turns.free_looks(), 1);
            }
            // Asked before a request is made, and after that.
            for _ in 0..2 {
                assert_eq!(turns.take_on(&crowd, true, &crowd), Turn::Wait);
            }
            turns.left_to_waiting();
        }
        assert_eq!(turns.take_on(&crowd, false, &crowd), Turn::Wait, "threads");
        let calm = Simulated::new(4, 2, 0);
        assert!(!calm.wait(NEVER));
        assert_eq!(turns.take_on(&calm, true, &calm), Turn::Wait, "not wanted");
        assert_eq!(turns.free_looks(), FREE);
        let virtual_time = Simulated::new(0, 2, 0);
        assert_eq!(
            turns.take_on(&virtual_time, true, &virtual_time),
            Turn::Wait
        );
        let few = Simulated::new(2, 2, 1);
        assert_eq!(turns.take_on(&few, true, &few), Turn::Look);
        assert_eq!(crowd.yields() + few.yields(), 0, "not by way of the bell");
    }

    #[test]
    fn one_of_a_crowd_looks_for_a_core_with_fewer_now_and_then() {
        let machine = Simulated::new(4, 2, 1);
        while machine.state().nanoseconds < 2_000_000_000 {
            machine.wait(NEVER);
        }
        // This machine moves it each time, in vain: it looks ever more rarely, at 0, 20, 60, 140, 300, 620, 1260 and 1900 ms.
        assert_eq!(machine.state().changes, 8);
        let calm = Simulated::new(4, 2, 0);
        (0..1000).for_each(|_| assert!(calm.wait(400)));
        assert_eq!(calm.state().changes, 0, "nobody wanted the core");
    }

    #[test]
    fn members_awake_on_other_cores_cost_nothing() {
        for slowness in [1, 3, 5] {
            let mut machine = Simulated::new(17, 2, 0);
            for slowness in [1, slowness, 1] {
                machine.slowness = slowness;
                // Learnt from waits that find nothing soon …
                assert!(!machine.wait(NEVER));
                assert!(!machine.wait(NEVER));
                let before = machine.yields();
                for _ in 0..1000 {
                    // … for those that do.
                    assert!(machine.wait(130 * slowness));
                }
                assert_eq!(machine.yields(), before, "{slowness} times slower");
            }
        }
    }

    #[test]
    fn it_learns_from_short_waits_alone() {
        let machine = Simulated::new(17, 2, 0);
        for _ in 0..100 {
            assert!(machine.wait(400));
        }
        assert!(machine.yields() < 10, "yielded {} times", machine.yields());
    }

    #[test]
    fn a_crowd_after_calm_is_seen_at_the_next_yield() {
        let mut machine = Simulated::new(17, 2, 0);
        assert!(!machine.wait(NEVER));
        machine.others = 8;
        let before = machine.yields();
        for wait in 1..=10 {
            assert!(!machine.wait(NEVER));
            assert_eq!(machine.yields(), before + wait * u64::from(CROWD_YIELDS));
        }
    }

    #[test]
    fn a_free_core_is_spun_on_but_not_for_ever() {
        for awake in [2, 17] {
            let machine = Simulated::new(awake, 2, 0);
            let limit = 2 * u64::try_from(SPIN.as_nanos()).expect("short");
            assert!(machine.wait(limit / 4), "{awake} awake");
            assert!(!machine.wait(limit), "{awake} awake");
        }
    }

    #[test]
    fn a_core_that_a_program_outside_took_is_left_at_once() {
        let machine = Simulated::new(2, 2, 3_000);
        assert!(!machine.wait(NEVER));
        assert!(machine.yields() <= 2);
    }
}
