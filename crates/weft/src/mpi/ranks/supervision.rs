//! Supervision of ranks that are threads: which rank panicked first, and whether any rank can go on.
//!
//! No launcher could see that all of them wait for each other, so a thread of the library watches, as the launcher does
//! ([decision 49](../../../../../docs/decisions/0049-deadlocks-are-proven-by-asking-twice.md)). A proven deadlock ends
//! the waits of all ranks, as the loss of all would.
//!
//! # Threads of the process
//! A rank answers for all threads of the process except the first threads of the other ranks, which answer for
//! themselves. So other threads of the program, and of other tests, make the watching thread wait as long as they run.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use weft_fabric::Peer;
use weft_fabric_local::{Local, Watch};
use weft_launch::deadlock::{DeadlockWatch, RunningRank, WatchedRanks};
use weft_mpi::waits::RankWaits;
use weft_sys::idle_threads::waits_for_futex;
use weft_sys::process;
use weft_sys::signal::spawn_without_signals;

use super::super::state::RankState;

/// The name of the thread that watches, by which it is known not to be one of the program's.
const THREAD: &str = "weft-watch";
/// The variable that says what becomes of a job in a deadlock, by the words of `mpiexec --on-deadlock` that are possible here.
const VARIABLE: &str = "WEFT_ON_DEADLOCK";

/// Whether deadlocks are to be looked for, by the variable.
///
/// # Panics
/// If it says something else.
fn is_wanted(said: Option<&OsStr>) -> bool {
    match said.map(OsStr::to_string_lossy).as_deref() {
        None | Some("end") => true,
        Some("ignore") => false,
        Some(other) => panic!(
            "{VARIABLE} is '{other}'; end (default) and ignore are possible among ranks that are threads"
        ),
    }
}

/// A rank, as it is seen from outside.
#[derive(Clone, Copy)]
enum Seen {
    /// It has not begun.
    Awaited,
    /// It runs, as this thread.
    Running(u32),
    /// It has left.
    Left,
}

/// What the ranks and the thread that watches have together.
pub(super) struct Supervision {
    ranks: Mutex<Vec<Seen>>,
    first_panic: OnceLock<usize>,
    /// Why nobody can go on.
    deadlock: OnceLock<String>,
    answers: Sender<Option<(u32, RankWaits)>>,
    watch: Option<Watch>,
    /// The thread that waits for all ranks.
    caller: u32,
}

impl Supervision {
    /// Over these ranks, with the thread that watches unless that is not wanted, or not to be had.
    pub(super) fn over(endpoints: &[Local]) -> (Arc<Self>, Option<JoinHandle<()>>) {
        let (answers, heard) = channel();
        let supervision = Arc::new(Self {
            ranks: Mutex::new(vec![Seen::Awaited; endpoints.len()]),
            first_panic: OnceLock::new(),
            deadlock: OnceLock::new(),
            answers,
            watch: endpoints.first().map(Local::watch),
            caller: process::thread_id(),
        });
        let wanted = is_wanted(std::env::var_os(VARIABLE).as_deref());
        let watch = supervision.watch.clone().filter(|_| wanted);
        let shared = Arc::clone(&supervision);
        let thread = watch.and_then(|watch| {
            spawn_without_signals(THREAD, move || shared.watch(watch, &heard)).ok()
        });
        (supervision, thread)
    }

    fn ranks(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread is this rank.
    pub(super) fn begin(self: &Arc<Self>, rank: usize, state: &Arc<RankState>) {
        let process = state.process();
        self.ranks()[rank] = Seen::Running(process::thread_id());
        let shared = Arc::clone(self);
        process.set_threads(move || shared.threads_but_of_others(rank));
        let answers = self.answers.clone();
        let number = process.me().0;
        let naming = Arc::downgrade(state);
        process.hear_waits(move |mut waits| {
            if let Some(state) = naming.upgrade() {
                waits.communicators = state.named(&waits);
            }
            // When nobody watches any more, nobody asks.
            let _ = answers.send(Some((number, waits)));
        });
    }

    /// A rank panics. The others are told, whether or not somebody keeps what it has.
    pub(super) fn panics(&self, rank: usize, peer: Peer) {
        let _ = self.first_panic.set(rank);
        if let Some(watch) = &self.watch {
            watch.lose(peer, "its thread panicked");
        }
    }

    /// A rank has left.
    pub(super) fn leave(&self, rank: usize) {
        self.ranks()[rank] = Seen::Left;
    }

    /// All have left: why they could not go on, if that is so, and who panicked first.
    pub(super) fn end(&self, thread: Option<JoinHandle<()>>) -> (Option<String>, Option<usize>) {
        // It may have ended by itself.
        let _ = self.answers.send(None);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        (
            self.deadlock.get().cloned(),
            self.first_panic.get().copied(),
        )
    }

    /// The threads of the process that may do something for a rank. The first one of a test's process waits for the tests, now and then
    /// for a time only.
    fn threads_but_of_others(&self, rank: usize) -> Vec<(u32, String)> {
        let ranks = self.ranks();
        let of_others = |id: u32| {
            let mut others = ranks.iter().enumerate();
            others.any(|(other, seen)| {
                other != rank && matches!(seen, Seen::Running(thread) if *thread == id)
            })
        };
        let first = std::process::id();
        let waits_for_tests = |id| id == first && id != self.caller && waits_for_futex(id);
        let Ok(all) = process::threads() else {
            // Nobody knows: one that is not there is never idle.
            return vec![(0, String::new())];
        };
        let all = all.into_iter();
        all.filter(|(id, _)| !of_others(*id) && !waits_for_tests(*id))
            .collect()
    }

    /// What the thread does.
    fn watch(&self, watch: Watch, heard: &Receiver<Option<(u32, RankWaits)>>) {
        let mut deadlocks = DeadlockWatch::new(Instant::now());
        let mut ranks = Watched {
            watch,
            supervision: self,
        };
        loop {
            let now = Instant::now();
            if let Some(found) = deadlocks.look(now, &mut ranks) {
                let _ = self.deadlock.set(found.lines().join("\n"));
                ranks.watch.lose_all(&found.summary());
            }
            let Some(next) = deadlocks.next_look() else {
                return;
            };
            match heard.recv_timeout(next.saturating_duration_since(now)) {
                Ok(Some((rank, waits))) => deadlocks.hear(rank, waits, Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The ranks as the thread that watches has them.
struct Watched<'a> {
    watch: Watch,
    supervision: &'a Supervision,
}

impl WatchedRanks for Watched<'_> {
    fn running(&self) -> Vec<RunningRank> {
        let ranks = self.supervision.ranks();
        let running = (0..).zip(ranks.iter()).filter_map(|(rank, seen)| {
            Some(RunningRank {
                rank,
                process: std::process::id(),
                is_initialised: match seen {
                    Seen::Awaited => false,
                    Seen::Running(_) => true,
                    Seen::Left => return None,
                },
                is_finalised: false,
            })
        });
        running.collect()
    }

    fn rest(&self) -> Option<u64> {
        self.watch.rest()
    }

    fn inquire(&mut self, full: bool) -> u32 {
        self.watch.inquire(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_variable_says_is_done_or_refused() {
        assert!(is_wanted(None) && is_wanted(Some(OsStr::new("end"))));
        assert!(!is_wanted(Some(OsStr::new("ignore"))));
        let misspelt = std::panic::catch_unwind(|| is_wanted(Some(OsStr::new("ingore"))));
        let text = misspelt.unwrap_err().downcast::<String>().unwrap();
        assert!(
            text.contains("'ingore'; end (default) and ignore"),
            "{text}"
        );
    }
}
