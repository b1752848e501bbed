//! Among threads: how long a thread that drives keeps its core, where other threads of its member need it as well.
//!
//! Two members have a core each, and their threads exchange messages in pairs. A pair plays without a switch as long as its threads have
//! both cores at once. If all threads of both members went round at the same pace, those that pass each other would do so for ever,
//! and each message would cost a switch. So of two members that wait for each other the lower one stays, until the other one's threads
//! have come past; and a thread that has received what another one waits for gives its core to that one no sooner.
//!
//! | the core | polls until it is given away |
//! |---|---|
//! | members share cores, or have more than one each | none, if other threads wait as well |
//! | other threads wait as well | [`LOOKS`]; [`LOWER_STAYS`] times as many as take a few microseconds, if a higher member is awaited |
//! | other threads have not come to wait: they begin, or compute | [`LOOKS`], doubled for each idle yield in a row; without end while a stranger takes the core now and then |
//!
//! The invariant: there are no more polls in a row than that, except for those that found something of which no thread had to hear.

use std::time::Duration;

use weft_sys::contention::{Machine, Real};

use crate::{Bell, Peer};

/// Polls of a thread before it gives its core away, if other members have [cores of their own](Bell::stands_apart): about as long as a
/// switch takes. Its like at the other member may have that member's core at this moment, and then the two exchange messages without a
/// switch.
pub const LOOKS: u32 = 60;

/// How many times [`Bell::polls_per_clock_read`] the thread of the lower of two members stays: about as long as the higher one takes to
/// let several of its threads run.
const LOWER_STAYS: u32 = 3;

/// With more waiting threads than this in a member nobody stays: the other one's threads take too long to come past.
const MOST_THREADS: usize = 20;

/// If the core was away for so long, somebody had it who does not wait for messages.
const TAKEN: Duration = Duration::from_micros(150);

/// What decides how long a thread of a member keeps its core.
#[derive(Clone, Copy)]
pub struct Among<'a> {
    /// That of the member.
    pub bell: &'a dyn Bell,
    /// The member.
    pub me: Peer,
    /// The only one that has to do something first, if there is one.
    pub awaited: Option<Peer>,
    /// So many of its threads wait beside the one that drives.
    pub threads: usize,
}

impl Among<'_> {
    /// Polls of the thread before it gives its core to another one. May move the caller to the core of its member.
    #[must_use]
    pub fn most_looks(&self) -> u32 {
        if !self.bell.stands_apart() {
            return 0;
        }
        let stays = self.awaited.is_some_and(|other| self.me < other);
        if stays && self.threads <= MOST_THREADS {
            LOOKS.max(LOWER_STAYS * self.bell.polls_per_clock_read())
        } else {
            LOOKS
        }
    }
}

/// The polls of one driver since it last gave its core away.
#[derive(Debug)]
pub struct PollsAmongThreads {
    polls: u32,
    most: u32,
    /// Polls with no other thread waiting, and the one after which to consider.
    alone: u32,
    next: u32,
}

impl Default for PollsAmongThreads {
    fn default() -> Self {
        Self {
            polls: 0,
            most: 0,
            alone: 0,
            next: LOOKS,
        }
    }
}

impl PollsAmongThreads {
    /// A poll found something of which no other thread hears.
    #[inline]
    pub fn found(&mut self) {
        (self.polls, self.alone) = (0, 0);
    }

    /// Another thread of the member wants the core: whether to poll once more before it has it. `most` is [`Among::most_looks`], asked after
    /// each time that the core was given away.
    #[inline]
    pub fn keeps_core(&mut self, most: impl FnOnce() -> u32) -> bool {
        self.alone = 0;
        if self.polls == 0 {
            self.most = most();
        }
        let keeps = self.polls < self.most;
        self.polls = if keeps { self.polls + 1 } else { 0 };
        keeps
    }

    /// A poll found nothing, and no other thread waits: whether to [let others begin](let_others_begin) before the next one.
    #[inline]
    pub fn lets_others_begin(&mut self) -> bool {
        self.alone += 1;
        self.alone >= self.next && self.consider(&Real)
    }

    #[cold]
    fn consider(&mut self, machine: &impl Machine) -> bool {
        let contention = machine.contention();
        self.next = contention.backoff(LOOKS);
        if self.alone < self.next {
            return false;
        }
        (self.alone, self.next) = (0, LOOKS);
        !contention.was_interrupted(machine.now())
    }
}

/// Gives the core away once, where the member [stands apart](Bell::stands_apart), and remembers whether it was wanted. Call it without any lock that others need.
pub fn let_others_begin(bell: &dyn Bell) {
    let_others_begin_on(bell, &Real);
}

fn let_others_begin_on(bell: &dyn Bell, machine: &impl Machine) {
    if !bell.stands_apart() {
        return;
    }
    let before = machine.now();
    if !bell.yield_core() {
        return;
    }
    let after = machine.now();
    let took = after.duration_since(before);
    let mut contention = machine.contention();
    contention.yielded(took, || machine.switches());
    if took > TAKEN {
        contention.interrupt(after);
    }
    machine.remember(contention);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;
    use crate::{Load, Ticket};
    use weft_atomic::{AtomicU32, Ordering};
    use weft_sys::contention::Contention;

    /// A member of two, and a core on which a yield takes so many nanoseconds.
    struct Simulated {
        apart: bool,
        yields: AtomicU32,
        yield_takes: u64,
    }

    impl Simulated {
        fn new(apart: bool, yield_takes: u64) -> Self {
            Self {
                apart,
                yields: AtomicU32::new(0),
                yield_takes,
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
            Load { awake: 2, cores: 2 }
        }
        fn yield_core(&self) -> bool {
            self.yields.fetch_add(1, Ordering::Relaxed);
            true
        }
        fn stands_apart(&self) -> bool {
            self.apart
        }
        fn polls_per_clock_read(&self) -> u32 {
            128
        }
    }

    /// Time that passes in yields alone.
    struct Time<'a> {
        core: &'a Simulated,
        began: Instant,
        contention: Cell<Contention>,
    }

    impl Machine for Time<'_> {
        fn now(&self) -> Instant {
            let yields = u64::from(self.core.yields.load(Ordering::Relaxed));
            self.began + Duration::from_nanos(yields * self.core.yield_takes)
        }
        fn switches(&self) -> u64 {
            0
        }
        fn contention(&self) -> Contention {
            self.contention.get()
        }
        fn remember(&self, contention: Contention) {
            self.contention.set(contention);
        }
    }

    /// How often a driver alone in its member looks before it gives its core away, each time.
    fn looks_alone(core: &Simulated, times: usize) -> Vec<Option<u32>> {
        let time = Time {
            core,
            began: Instant::now(),
            contention: Cell::new(Contention::UNKNOWN),
        };
        let mut polls = PollsAmongThreads::default();
        let mut looks = || {
            let given = (1..100_000).find(|_| {
                polls.alone += 1;
                polls.alone >= polls.next && polls.consider(&time)
            });
            let_others_begin_on(core, &time);
            given
        };
        (0..times).map(|_| looks()).collect()
    }

    #[test]
    fn the_lower_of_two_stays_unless_many_wait() {
        let looks = |apart, me, awaited: Option<u32>, threads| {
            let bell = Simulated::new(apart, 0);
            let among = Among {
                bell: &bell,
                me: Peer(me),
                awaited: awaited.map(Peer),
                threads,
            };
            among.most_looks()
        };
        assert_eq!(looks(true, 0, Some(1), 13), 3 * 128);
        for (me, awaited, threads) in [(1, Some(0), 13), (0, None, 13), (0, Some(1), 63)] {
            assert_eq!(looks(true, me, awaited, threads), LOOKS);
        }
        assert_eq!(looks(false, 0, Some(1), 13), 0, "members share cores");
    }

    #[test]
    fn a_core_is_kept_for_so_many_polls_each_time() {
        let mut polls = PollsAmongThreads::default();
        let mut kept = |most| (0..100).take_while(|_| polls.keeps_core(|| most)).count();
        assert_eq!([kept(3), kept(0), kept(5)], [3, 0, 5]);
        // What the driver finds for itself begins it anew.
        let mut polls = PollsAmongThreads::default();
        assert!((0..3).all(|_| polls.keeps_core(|| 3)));
        polls.found();
        assert!((0..3).all(|_| polls.keeps_core(|| 3)));
        assert!(!polls.keeps_core(|| 3));
    }

    #[test]
    fn others_may_begin_soon_and_more_rarely_while_nobody_does() {
        let idle = looks_alone(&Simulated::new(true, 100), 4);
        assert_eq!(
            idle,
            [1, 2, 4, 8].map(|times| Some(times * LOOKS)),
            "each yield was idle"
        );
        let wanted = looks_alone(&Simulated::new(true, 2_000), 4);
        assert_eq!(wanted, [Some(LOOKS); 4]);
        let taken = looks_alone(&Simulated::new(true, 3_000_000), 3);
        assert_eq!(taken, [Some(LOOKS), None, None], "a stranger has had it");
        let shared = Simulated::new(false, 100);
        looks_alone(&shared, 3);
        assert_eq!(shared.yields.load(Ordering::Relaxed), 0);
    }
}
