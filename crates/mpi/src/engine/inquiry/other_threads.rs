//! Other threads: those of this process that neither wait in MPI nor only make progress.
//!
//! If any thread may call, threads that do not wait in MPI count as well. An [idle](IdleThreads) thread can be woken only
//! by threads of this process. How often each was switched out is part of the activity: if that is the same in two
//! answers, none of them has run in between, so there was a moment at which all of them slept, and no thread was left to
//! wake one. A rank with a thread for which this is unknown is never reported to stand still.

use std::sync::Arc;

use weft_sys::idle_threads::IdleThreads;
use weft_sys::process;

use super::PLACES;

/// Names the threads of this rank, where a process has several ranks.
pub(crate) type ThreadsOfRank = Arc<dyn Fn() -> Vec<(u32, String)> + Send + Sync>;

/// Names of threads that do nothing but make progress, or wake who does; that of a launcher's library, which calls nobody; one that other hosts
/// call to start launchers.
const PASSIVE: [&str; 7] = [
    weft_sys::pmix::THREAD,
    "weft-progress",
    "weft-watch",
    "weft-calls",
    "weft futures",
    "weft-profile",
    PLACES,
];

/// Threads of this process that neither wait in MPI nor only make progress.
#[derive(Clone, Copy, Default)]
pub(super) struct OtherThreads {
    /// How many may go on.
    pub awake: u32,
    /// The same number: the same ones are idle, and have not run meanwhile.
    pub activity: u64,
}

impl OtherThreads {
    /// Without those that have looked.
    pub(super) fn without(looked: &[u32], of_rank: Option<&ThreadsOfRank>) -> Self {
        let threads = match of_rank {
            Some(threads) => Ok(threads()),
            None => process::threads(),
        };
        let Ok(threads) = threads else {
            // Nobody knows.
            return Self {
                awake: u32::MAX,
                activity: 0,
            };
        };
        let mut idle = IdleThreads::look();
        let mut found = Self::default();
        for (id, name) in threads {
            if looked.contains(&id) || PASSIVE.contains(&name.as_str()) {
                continue;
            }
            match idle.switches(id) {
                Some(switches) => {
                    let one = (u64::from(id) << 40 ^ switches).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    found.activity = found.activity.wrapping_add(one);
                }
                None => found.awake = found.awake.saturating_add(1),
            }
        }
        found
    }
}
