//! Simulated fabric: many ranks in one process under virtual time. One runs at a time, and the same seed repeats the same run.
//!
//! ```text
//!   World::new(config).run(|endpoint| …)
//!
//!   rank 0 ═══╗ permit         ╔═══ sleeps           a thread each; exactly one has the permit to run
//!   rank 1    ╚═══ sleeps      ║
//!   rank 2         ╔═══ polls ═╝                     event queue: (virtual time, random draw, rank)
//!   ───────────────┴──────────────────► virtual time jumps to the next event of the queue
//!
//!   network:  lane (from, to) ─ credits ─ arrival = departure + bytes·G + L + jitter + faults
//! ```
//!
//! * A rank runs until it sleeps on its bell, or polls several times without finding anything; then the rank
//!   with the earliest event runs. The seed decides between equal times, and also delays, refusals of posts
//!   and which transfers end late.
//! * Each rank has its own clock. It moves by the [cost](Cost) of what the rank does and jumps when it
//!   is woken. Computing takes no virtual time unless it is [spent](Handle::spend).
//! * When no rank can run any more and some have not ended, [`World::run`] returns a [`Cause::Deadlock`] that
//!   names each of them and the [note](Handle::set_note) it left. All threads are unwound: nothing hangs.
//!
//! [`World::endpoints`] gives the same simulation to a single thread that drives all endpoints in turn.
//!
//! ```
//! use weft_fabric::{Fabric, Peer, SyncKey};
//! use weft_fabric_sim::{Config, World};
//!
//! let report = World::new(Config::exact(2)).run(|mut endpoint| {
//!     let other = Peer(1 - endpoint.me().0);
//!     let _ = endpoint.signal(other, SyncKey(7));
//!     endpoint.now()
//! });
//! // Nobody waited, so nobody's clock shows more than the overhead of sending.
//! assert!(report.unwrap().time.as_nanos() < 1000);
//! ```
//!
//! # Who may touch what
//! One lock guards everything that is shared. It is never contended: only the thread with the permit takes
//! it. One thread plays a rank; further threads of a rank are not simulated.
//!
//! # Safety
//! Bytes move between [`Region`](weft_fabric::Region)s under the lock, by the thread with the permit. Once
//! the world is over, before any thread unwinds, nothing moves any more: lent memory may be gone.
//!
//! The cost model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman: "LogGP: incorporating long
//! messages into the LogP model", SPAA 1995).

#![deny(unsafe_code)]

mod config;
mod endpoint;
mod event_queue;
mod grants;
mod inbox;
mod lanes;
mod links;
mod machine;
mod partition;
mod rank;
mod report;
mod scheduler;
mod stall;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use config::{Config, Cost, Fault};
pub use endpoint::{Handle, SimEndpoint};
pub use report::{Cause, Failure, Report, Stuck, TraceEntry, TraceEvent};

use scheduler::{Ending, Scheduler};

/// A simulated machine.
#[derive(Clone, Debug)]
pub struct World {
    config: Config,
}

impl World {
    /// A world of this kind. The same configuration gives the same history in each run.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Runs `part` on every rank, to its end.
    ///
    /// # Errors
    /// If all remaining ranks wait for each other, or one panics, or the system gives no threads.
    pub fn run<R: Send>(
        &self,
        part: impl Fn(SimEndpoint) -> R + Sync,
    ) -> Result<Report<R>, Failure> {
        let results: Vec<Mutex<Option<R>>> =
            (0..self.config.ranks).map(|_| Mutex::default()).collect();
        let played = self.play(&|rank, endpoint| {
            let result = part(endpoint);
            *open(&results[rank]) = Some(result);
        });
        played.report(results.iter().map(|result| open(result).take()).collect())
    }

    /// One function, whatever the ranks play: what starts threads is much to compile.
    fn play(&self, part: &(dyn Fn(usize, SimEndpoint) + Sync)) -> Arc<Scheduler> {
        let count = self.config.ranks;
        let scheduler = Arc::new(Scheduler::new(self.config.clone(), true));
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(count);
            for rank in 0..count {
                let mine = scheduler.clone();
                let spawned = std::thread::Builder::new()
                    .name(format!("rank {rank}"))
                    .stack_size(self.config.stack)
                    .spawn_scoped(scope, move || mine.play(rank, part));
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        scheduler.cannot_start(rank, &error);
                        break;
                    }
                }
            }
            scheduler.start(threads.iter().map(|thread| thread.thread().clone()));
            for thread in threads {
                // A thread catches its rank's unwinding, so joining does not fail.
                let _ = thread.join();
            }
        });
        scheduler
    }

    /// The endpoints of all ranks, to be driven in turn by one thread. An endpoint that polls and finds
    /// nothing then jumps to the time of its next event.
    #[must_use]
    pub fn endpoints(&self) -> Vec<SimEndpoint> {
        let scheduler = Arc::new(Scheduler::new(self.config.clone(), false));
        (0..self.config.ranks)
            .map(|rank| SimEndpoint::new(scheduler.clone(), rank))
            .collect()
    }
}

impl Scheduler {
    /// The code of the thread of one rank.
    fn play(self: Arc<Self>, rank: usize, part: &(dyn Fn(usize, SimEndpoint) + Sync)) {
        let me = endpoint::peer(rank).0;
        self.await_first_permit(rank);
        if self.is_over() {
            self.leave(me, Ending::Unwound);
            return;
        }
        let endpoint = SimEndpoint::new(self.clone(), rank);
        let played =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| part(rank, endpoint)));
        self.leave(
            me,
            match played {
                Ok(()) => Ending::Returned,
                Err(thrown) => Ending::of(thrown),
            },
        );
    }
}

/// Whoever locks it writes one value, so a panic leaves it whole.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
