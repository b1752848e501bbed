//! Epochs of windows that are not bounded by fences, by `mpiexec --check`: finds accesses of different
//! origins that nothing can have ordered.
//!
//! ```text
//!   shared locks   A  call of the access ├────────────────┤ end of its flush or unlock       by the clock of one host
//!                  B             ├────────────┤                                            both ways: neither came first
//!   post, start    the i-th MPI_Win_start for a target belongs to the i-th MPI_Win_post for the origin: the same exposure
//! ```
//!
//! Ended accesses are kept, and sent to their target when all ranks meet next: in the next fence or when the window is freed. Accesses under an
//! exclusive lock come one after the other, and are not kept. Two accesses under shared locks that came one after the other in this run may
//! have been ordered by messages, and are not reported.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use weft_mpi::Group;
use weft_mpi::rma::{LockKind, Window};
use weft_sys::{clock, file};

use super::accesses::Access;

/// Most accesses and epochs that are kept: further ones are not checked.
const MOST: usize = 4096;

/// The epoch within which an access was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// Between two fences.
    Fences,
    /// While nobody else could access the memory.
    Alone,
    /// A shared lock: on this host, in these nanoseconds.
    Shared { host: u64, begin: u64, end: u64 },
    /// This exposure, from 1 on: the origin's count for the target, or the target's own.
    Exposure(u64),
}

impl Within {
    /// Whether nothing can have ordered two accesses of different origins.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Fences, Self::Fences) => true,
            (
                Self::Shared { host, begin, end },
                Self::Shared {
                    host: other_host,
                    begin: other_begin,
                    end: other_end,
                },
            ) => host == other_host && begin < other_end && other_begin < end,
            (Self::Exposure(one), Self::Exposure(other)) => one == other,
            _ => false,
        }
    }

    /// The epoch in words, and what to do.
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Fences | Self::Alone => ("in one epoch", "put MPI_Win_fence between them"),
            Self::Shared { .. } => (
                "at the same time under shared locks",
                "lock exclusively, or have one flush before the other begins",
            ),
            Self::Exposure(_) => (
                "between one MPI_Win_post and its MPI_Win_wait",
                "post for one of them after the other",
            ),
        }
    }
}

/// The epochs of one window.
#[derive(Default)]
struct Epochs {
    /// Targets that are locked exclusively.
    exclusive: HashSet<u32>,
    /// Locks that are held.
    locked: HashSet<u32>,
    all_locked: bool,
    /// The targets of the access epoch that was started, each with its number.
    started: HashMap<u32, u64>,
    /// How many access epochs there were, by target.
    starts: HashMap<u32, u64>,
    exposures: u64,
    /// By origin, the exposure epochs that were for it.
    posts: HashMap<u32, Vec<u64>>,
    over: Vec<Access>,
}

static ALL: LazyLock<Mutex<HashMap<u32, Epochs>>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, HashMap<u32, Epochs>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the epochs of a window, if everything is checked.
#[inline]
fn change(window: &Window, change: impl FnOnce(&mut Epochs)) {
    if super::is_full() {
        change(all().entry(window.comm().context()).or_default());
    }
}

/// A target was locked.
pub fn locked(window: &Window, kind: LockKind, target: u32) {
    change(window, |epochs| {
        epochs.locked.insert(target);
        if kind == LockKind::Exclusive {
            epochs.exclusive.insert(target);
        }
    });
}

/// A target was unlocked.
pub fn unlocked(window: &Window, target: u32) {
    change(window, |epochs| {
        epochs.locked.remove(&target);
        epochs.exclusive.remove(&target);
    });
}

/// All targets were locked, or unlocked.
pub fn all_locked(window: &Window, are: bool) {
    change(window, |epochs| epochs.all_locked = are);
}

fn ranks(window: &Window, group: &Group) -> Vec<u32> {
    let members = group.members();
    members
        .filter_map(|member| window.group().rank_of(member))
        .collect()
}

/// An access epoch was started.
pub fn started(window: &Window, group: &Group) {
    change(window, |epochs| {
        for target in ranks(window, group) {
            let count = epochs.starts.entry(target).or_default();
            *count += 1;
            epochs.started.insert(target, *count);
        }
    });
}

/// The access epoch was completed.
pub fn completed(window: &Window) {
    change(window, |epochs| epochs.started.clear());
}

/// This rank's memory is exposed to these processes.
pub fn posted(window: &Window, group: &Group) {
    change(window, |epochs| {
        epochs.exposures += 1;
        for origin in ranks(window, group) {
            let posts = epochs.posts.entry(origin).or_default();
            if posts.len() < MOST {
                posts.push(epochs.exposures);
            }
        }
    });
}

/// The epoch within which an access to a target begins now.
pub fn within(window: &Window, target: u32) -> Within {
    let mut all = all();
    let epochs = all.entry(window.comm().context()).or_default();
    if epochs.exclusive.contains(&target) {
        return Within::Alone;
    }
    if let Some(number) = epochs.started.get(&target) {
        return Within::Exposure(*number);
    }
    if !epochs.all_locked && !epochs.locked.contains(&target) {
        return Within::Fences;
    }
    Within::Shared {
        host: host(),
        begin: clock::monotonic(),
        end: u64::MAX,
    }
}

fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(file::host_number)
}

/// Accesses to the window of this context have ended, at their targets too.
pub fn keep(context: u32, over: Vec<Access>) {
    let now = clock::monotonic();
    let mut all = all();
    let epochs = all.entry(context).or_default();
    for mut access in over {
        match &mut access.within {
            Within::Fences | Within::Alone => continue,
            Within::Shared { end, .. } => *end = now,
            Within::Exposure(_) => {}
        }
        if epochs.over.len() < MOST {
            epochs.over.push(access);
        }
    }
}

/// Takes the accesses that were kept.
pub fn take(window: &Window) -> Vec<Access> {
    let mut all = all();
    let epochs = all.get_mut(&window.comm().context());
    epochs.map_or_else(Vec::new, |epochs| std::mem::take(&mut epochs.over))
}

/// An origin's report from the target's point of view; `None` if it refers to an epoch that is no longer
/// kept.
pub fn at_target(window: &Window, origin: u32, within: Within) -> Option<Within> {
    let Within::Exposure(number) = within else {
        return Some(within);
    };
    let all = all();
    let posts = all.get(&window.comm().context())?.posts.get(&origin)?;
    let place = usize::try_from(number.checked_sub(1)?).ok()?;
    posts.get(place).copied().map(Within::Exposure)
}

/// A window is freed.
pub fn forget(window: &Window) {
    all().remove(&window.comm().context());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_can_have_ordered_meets() {
        let shared = |host, begin, end| Within::Shared { host, begin, end };
        for (one, other, expected) in [
            (Within::Fences, Within::Fences, true),
            (Within::Fences, shared(1, 0, 10), false),
            (Within::Alone, Within::Alone, false),
            (Within::Alone, shared(1, 0, 10), false),
            (shared(1, 0, 10), shared(1, 9, 20), true),
            (shared(1, 0, 10), shared(1, 2, 3), true),
            (shared(1, 0, 10), shared(1, 10, 20), false),
            (shared(1, 0, 10), shared(2, 5, 20), false),
            (Within::Exposure(3), Within::Exposure(3), true),
            (Within::Exposure(3), Within::Exposure(4), false),
            (Within::Exposure(3), Within::Fences, false),
        ] {
            assert_eq!(one.meets(other), expected, "{one:?} {other:?}");
            assert_eq!(other.meets(one), expected, "{other:?} {one:?}");
        }
    }
}
