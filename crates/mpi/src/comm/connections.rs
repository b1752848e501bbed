//! Connections: whether a process is connected with processes of other worlds (MPI 5.0, section 11.10.4). It is as long
//! as it has a communicator with one of them.
//!
//! The listener (the launcher) is told of the first such communicator and of the end of the last one.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weft_atomic::{AtomicBool, Ordering};

use crate::process::Process;

/// The listener: called with true when the process gets connected, false when it is independent.
type Listener = Box<dyn Fn(bool) + Send + Sync>;

/// Connections of a process with processes of other worlds.
pub struct Connections {
    /// There may be processes of other worlds. Never unset.
    possible: AtomicBool,
    /// Communicators with processes of other worlds. Held while the listener is told, so that it hears in order.
    count: Mutex<u32>,
    listener: OnceLock<Listener>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = *self.count.lock().unwrap_or_else(PoisonError::into_inner);
        write!(out, "Connections({count})")
    }
}

impl Connections {
    /// None yet. `possible`: there are processes of other worlds.
    pub(crate) fn new(possible: bool) -> Self {
        Self {
            possible: AtomicBool::new(possible),
            count: Mutex::new(0),
            listener: OnceLock::new(),
        }
    }

    /// Sets the listener; the first one set stays.
    pub fn tell(&self, listener: impl Fn(bool) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Whether there may be processes of other worlds.
    pub(crate) fn are_possible(&self) -> bool {
        self.possible.load(Ordering::Relaxed)
    }

    /// There are processes of other worlds from now on.
    pub(crate) fn make_possible(&self) {
        self.possible.store(true, Ordering::Relaxed);
    }

    fn change(&self, change: impl FnOnce(u32) -> u32) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *count;
        *count = change(before);
        if (before == 0) != (*count == 0)
            && let Some(listener) = self.listener.get()
        {
            listener(*count > 0);
        }
    }
}

/// A communicator with processes of other worlds, for as long as it lives.
#[derive(Debug)]
pub(super) struct Connection(Arc<Process>);

impl Connection {
    pub(super) fn of(process: &Arc<Process>) -> Self {
        process.connections().change(|count| count + 1);
        Self(Arc::clone(process))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections().change(|count| count - 1);
    }
}
