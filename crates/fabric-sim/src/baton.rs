//! The threads of the ranks, of which exactly one runs: whoever holds the baton.
//!
//! ```text
//!   holder: enters itself in the agenda (or falls asleep) ─ picks the earliest ─ gives it the turn
//!           ─ waits for its own turn ─ is it over, or is it dead?  unwinds
//! ```
//!
//! A turn is a flag and an unpark. SYNC turn: `give` releases what the former holder did, `take`
//! acquires it; beside that everything shared stands behind the lock of the network.
//!
//! A rank that must end (death, deadlock, panic of another) is unwound by `resume_unwind` from within
//! the call that it made. While a thread unwinds it keeps the baton, and its calls find nothing and
//! fail, so that destructors come to an end.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use weft_atomic::{AtomicBool, Ordering};
use weft_fabric::Peer;
use weft_sys::cores;

use crate::config::Config;
use crate::network::{Network, nanoseconds};
use crate::rank::{Found, Standing};
use crate::report::{Cause, Failure, Report, What};

/// Looks in vain that a rank has before the baton goes on.
const FREE_LOOKS: u32 = 2;

/// Looks in vain, of each rank, after which a look takes twice as long: so that a world in which some
/// look for ever and nothing happens gets through its patience.
const DOUBLING: u64 = 1024;

/// Ranks that this counts for.
const CROWD: usize = 16;

/// How often it doubles.
const DOUBLINGS: u64 = 20;

/// Why a rank ends.
pub(crate) enum Ending {
    /// It answered.
    Returned,
    /// It died by a fault.
    Died,
    /// The world was over.
    Over,
    /// It panicked with these words.
    Panicked(String),
}

impl Ending {
    /// What a caught unwinding means.
    pub(crate) fn of(thrown: Box<dyn Any + Send>) -> Self {
        let thrown = match thrown.downcast::<Self>() {
            Ok(ending) => return *ending,
            Err(thrown) => thrown,
        };
        let message = match thrown.downcast_ref::<&str>() {
            Some(text) => (*text).to_string(),
            None => match thrown.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => "something that is not text".into(),
            },
        };
        Self::Panicked(message)
    }
}

#[derive(Default)]
struct Turn {
    mine: AtomicBool,
    /// Set before the first turn is given.
    thread: OnceLock<Thread>,
}

impl Turn {
    fn give(&self) {
        // SYNC turn.
        self.mine.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn take(&self) {
        // SYNC turn.
        while !self.mine.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// What all ranks of a world share.
pub(crate) struct Shared {
    network: Mutex<Network>,
    turns: Vec<Turn>,
    /// A thread for each rank, with a baton; otherwise all are driven by one hand.
    threaded: bool,
    core: Option<usize>,
}

impl Shared {
    pub(crate) fn new(config: Config, threaded: bool) -> Self {
        let core = cores::current().filter(|_| config.one_core);
        let mut turns = Vec::new();
        turns.resize_with(config.ranks, Turn::default);
        Self {
            network: Mutex::new(Network::new(config)),
            turns,
            threaded,
            core,
        }
    }

    /// The network. Nothing of ours panics while it is locked; a sink that does holds no lock.
    pub(crate) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.network().over.is_some()
    }

    /// There is no thread for `rank` nor for those after it.
    pub(crate) fn cannot_start(&self, rank: usize, error: &std::io::Error) {
        let mut network = self.network();
        for it in &mut network.ranks[rank..] {
            it.standing = Standing::Left;
            it.closed = true;
        }
        network.end(Cause::NoThread {
            peer: crate::endpoint::peer(rank),
            why: error.to_string(),
        });
    }

    /// Gives the first turn.
    pub(crate) fn start(&self, threads: impl Iterator<Item = Thread>) {
        let mut network = self.network();
        for ((rank, turn), thread) in (0..).zip(&self.turns).zip(threads) {
            let _ = turn.thread.set(thread);
            network.enter(rank, 0);
        }
        let first = network.pick();
        drop(network);
        self.hand_to(first);
    }

    fn hand_to(&self, next: Option<u32>) {
        if let Some(next) = next {
            self.turns[next as usize].give();
        }
    }

    pub(crate) fn await_first_turn(&self, rank: usize) {
        if let Some(core) = self.core {
            // A matter of speed only: wherever it is refused, threads run where they run.
            let _ = cores::pin(&[core]);
        }
        self.turns[rank].take();
    }

    /// The rank has ended: hands the baton on for the last time.
    pub(crate) fn leave(&self, rank: usize, ending: Ending) {
        let me = crate::endpoint::peer(rank).0;
        let mut network = self.network();
        if network.ranks[rank].standing != Standing::Dead {
            network.note(me, What::Left);
            network.rank(me).standing = Standing::Left;
        }
        network.close(me);
        network.agenda.strike(me);
        if let Ending::Panicked(message) = ending {
            network.end(Cause::Panicked {
                peer: Peer(me),
                message,
            });
        }
        let next = network.pick();
        drop(network);
        self.hand_to(next);
    }

    /// How it went, once all threads have ended.
    pub(crate) fn report<R>(&self, results: Vec<Option<R>>) -> Result<Report<R>, Failure> {
        let mut network = self.network();
        let trace = network.trace.take();
        if let Some((cause, time)) = network.over.take() {
            return Err(Failure {
                cause,
                time: Duration::from_nanos(time),
                trace,
            });
        }
        let counts = network.counts;
        Ok(Report {
            results,
            time: Duration::from_nanos(network.time()),
            messages: counts.messages,
            bytes: counts.bytes,
            signals: counts.signals,
            transfers: counts.transfers,
            refusals: counts.refusals,
            turns: counts.turns,
            hash: network.trace.hash,
            trace,
        })
    }

    /// Hands the baton on and returns when it is back.
    fn pass<'a>(
        &'a self,
        mut network: MutexGuard<'a, Network>,
        me: u32,
    ) -> MutexGuard<'a, Network> {
        let next = network.pick();
        if next == Some(me) {
            return network;
        }
        drop(network);
        self.hand_to(next);
        self.turns[me as usize].take();
        self.network()
    }

    /// Whether `me` runs beside others and may be held up.
    fn in_turn(&self) -> bool {
        self.threaded && !std::thread::panicking()
    }

    /// Ends `me` if it has to end.
    fn check<'a>(&self, mut network: MutexGuard<'a, Network>, me: u32) -> MutexGuard<'a, Network> {
        let it = &network.ranks[me as usize];
        let dies = it.death.is_some_and(|at| at <= it.clock);
        if dies && network.over.is_none() && network.takes_part(me) {
            network.die(me);
        }
        let ending = if network.ranks[me as usize].standing == Standing::Dead {
            Ending::Died
        } else if network.over.is_some() {
            Ending::Over
        } else {
            return network;
        };
        if !self.in_turn() {
            return network;
        }
        if cfg!(panic = "abort") {
            drop(network);
            self.give_up();
        }
        drop(network);
        std::panic::resume_unwind(Box::new(ending));
    }

    /// Where nothing can be unwound, the end of a rank is the end of the process.
    fn give_up(&self) -> ! {
        match self.report::<()>(Vec::new()) {
            Err(failure) => eprintln!("{failure}"),
            Ok(_) => eprintln!("a rank died by a simulated fault; build with panic = \"unwind\""),
        }
        std::process::abort();
    }

    /// Lets those go first whose clocks are behind.
    fn let_pass(&self, me: u32) -> MutexGuard<'_, Network> {
        let mut network = self.network();
        let clock = network.rank(me).clock;
        if self.in_turn() && network.agenda.earliest().is_some_and(|time| time < clock) {
            network.enter(me, clock);
            network = self.pass(network, me);
        }
        self.check(network, me)
    }

    /// One look of `me`: takes at most `budget` news into `found`.
    pub(crate) fn look(&self, me: u32, budget: usize, found: &mut Vec<Found>) {
        let mut network = self.let_pass(me);
        while found.len() < budget {
            let Some(news) = network.take(me) else {
                break;
            };
            found.push(news);
        }
        if found.is_empty() {
            self.looked_in_vain(network, me);
        } else {
            network.rank(me).vain = 0;
        }
    }

    fn looked_in_vain<'a>(&'a self, mut network: MutexGuard<'a, Network>, me: u32) {
        let look = nanoseconds(network.config.cost.look).max(1);
        let arrival = network.next_arrival(me);
        let it = network.rank(me);
        if it.vain == 0 {
            it.since = it.clock;
        }
        it.vain = it.vain.saturating_add(1);
        let own = [arrival, it.death].into_iter().flatten().min();
        if !self.in_turn() {
            // The one hand that drives all: jumps to what comes next for this one.
            it.clock = arrival.map_or(it.clock + look, |at| at.max(it.clock));
            return;
        }
        if it.vain <= FREE_LOOKS {
            it.clock += look;
            return;
        }
        let clock = it.clock;
        let other = network.agenda.earliest();
        network.vain += 1;
        let each = DOUBLING * network.ranks.len().min(CROWD) as u64;
        let step = look << (network.vain / each).min(DOUBLINGS);
        if own.is_none() {
            network.idle += step;
            if network.idle > nanoseconds(network.config.patience) {
                network.end_in_deadlock();
                drop(self.check(network, me));
                return;
            }
        }
        // Not past what may bring something: its own news, or another that goes on. It must not jump
        // there either, since it may have something else to do sooner.
        let bounds = [own, other.map(|other| other + look)];
        let later = bounds.into_iter().flatten().fold(clock + step, u64::min);
        let later = later.max(clock + 1);
        if other.is_none_or(|other| later < other) {
            network.rank(me).clock = later;
            return;
        }
        network.enter(me, later);
        network = self.pass(network, me);
        drop(self.check(network, me));
    }

    /// `me` sleeps until there are news for it, or until the limit.
    pub(crate) fn sleep(&self, me: u32, limit: Option<Duration>) {
        let mut network = self.network();
        let arrival = network.next_arrival(me);
        let look = nanoseconds(network.config.cost.look).max(1);
        let it = network.rank(me);
        it.vain = 0;
        // A call costs something, so that whoever sleeps and never looks lets time pass too.
        it.clock += look;
        it.since = it.clock;
        let deadline = limit.map(|limit| it.clock.saturating_add(nanoseconds(limit)));
        if !self.in_turn() {
            if !std::mem::take(&mut it.rung) {
                let until = [arrival, deadline].into_iter().flatten().min();
                it.clock = it.clock.max(until.unwrap_or(0));
            }
            return;
        }
        it.standing = Standing::Asleep { deadline };
        if !it.rung {
            network.note(me, What::Slept);
        }
        network.reconsider(me);
        network = self.pass(network, me);
        network.rank(me).rung = false;
        drop(self.check(network, me));
    }

    /// `me` has done something that others may see: perhaps it dies of it.
    pub(crate) fn done(&self, me: u32) {
        let mut network = self.network();
        let it = network.rank(me);
        it.deeds += 1;
        if it.last_deed == Some(it.deeds) {
            it.death = Some(it.clock);
            drop(self.check(network, me));
        }
    }

    /// Someone of this rank rings its bell.
    pub(crate) fn ring(&self, me: u32) {
        let mut network = self.network();
        network.rank(me).rung = true;
        network.reconsider(me);
    }

    /// `me` computes for so long.
    pub(crate) fn spend(&self, me: u32, time: Duration) {
        let mut network = self.network();
        let time = nanoseconds(time);
        // A loop that computes and looks in vain must come to an end, a long computation must not.
        network.idle += time.min(nanoseconds(network.config.patience) / 1024);
        network.vain = 0;
        let it = network.rank(me);
        it.clock = it.clock.saturating_add(time);
        drop(network);
        drop(self.let_pass(me));
    }
}
