//! Tasks: work of a file beside its callers, on threads that are started as they are needed and end with the file.
//!
//! Tasks of one rank run as they come. Tasks of all ranks run one after the other, in the order of the calls, which is
//! the same on all ranks: so all ranks are in the same one.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::{Error, ErrorClass, Result};

/// Threads of one file at most.
const MOST: usize = 8;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    alone: VecDeque<Task>,
    together: VecDeque<Task>,
    /// Whether one of `together` is being done.
    is_together: bool,
    /// Tasks of one rank that are being done.
    running: usize,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ends: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something came, or ended.
    changed: Condvar,
}

/// The tasks of a file.
#[derive(Default)]
pub(super) struct Tasks {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Tasks({} threads)", self.shared.state().threads.len())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let state = self.changed.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does.
    fn serve(&self) {
        let mut state = self.state();
        loop {
            let together = if state.is_together {
                None
            } else {
                state.together.pop_front()
            };
            let is_together = together.is_some();
            let Some(task) = together.or_else(|| state.alone.pop_front()) else {
                if state.ends && state.together.is_empty() {
                    return;
                }
                state.idle += 1;
                state = self.wait(state);
                state.idle -= 1;
                continue;
            };
            if is_together {
                state.is_together = true;
            } else {
                state.running += 1;
            }
            drop(state);
            task();
            state = self.state();
            if is_together {
                state.is_together = false;
            } else {
                state.running -= 1;
            }
            self.changed.notify_all();
        }
    }
}

impl Tasks {
    /// Has a task done; `together` says that all ranks take part in it.
    ///
    /// # Errors
    /// `NoMem` if the system gives no thread.
    pub fn begin(&self, together: bool, task: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.shared.state();
        let waiting = state.alone.len() + state.together.len();
        if state.idle <= waiting && state.threads.len() < MOST {
            let shared = Arc::clone(&self.shared);
            let begun = thread::Builder::new()
                .name("weft-file".into())
                .spawn(move || shared.serve());
            match begun {
                Ok(thread) => state.threads.push(thread),
                Err(error) if state.threads.is_empty() => {
                    return Err(Error::new(
                        ErrorClass::NoMem,
                        format!(
                            "no thread for a non-blocking access: {error}; raise the limit of processes (ulimit -u)"
                        ),
                    ));
                }
                Err(_) => {}
            }
        }
        if together {
            state.together.push_back(Box::new(task));
        } else {
            state.alone.push_back(Box::new(task));
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all that all ranks take part in, and was begun before, has been done.
    pub fn wait_together(&self) {
        let mut state = self.shared.state();
        while state.is_together || !state.together.is_empty() {
            state = self.shared.wait(state);
        }
    }

    /// Waits until all has been done, and ends the threads.
    pub fn end(&self) {
        let mut state = self.shared.state();
        state.ends = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.changed.notify_all();
        for thread in threads {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_all_ranks_keep_their_order() {
        let tasks = Tasks::default();
        let done = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let done = Arc::clone(&done);
            let task = move || done.lock().unwrap().push(number);
            tasks.begin(true, task).unwrap();
            tasks.begin(false, || {}).unwrap();
        }
        tasks.wait_together();
        assert_eq!(*done.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_task_that_waits_for_others_stops_nobody() {
        let tasks = Tasks::default();
        let (tell, hear) = std::sync::mpsc::channel::<()>();
        tasks.begin(true, move || hear.recv().unwrap()).unwrap();
        // It runs on another thread, and ends the first.
        tasks.begin(false, move || tell.send(()).unwrap()).unwrap();
        tasks.wait_together();
    }

    #[test]
    fn the_end_comes_after_all_tasks() {
        let tasks = Tasks::default();
        let done = Arc::new(Mutex::new(0));
        for _ in 0..50 {
            let done = Arc::clone(&done);
            tasks
                .begin(false, move || *done.lock().unwrap() += 1)
                .unwrap();
        }
        tasks.end();
        assert_eq!(*done.lock().unwrap(), 50);
    }
}
