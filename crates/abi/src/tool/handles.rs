//! Handles of programs: sessions of performance variables, and a program's view of one variable.
//!
//! A counter counts for each handle separately, while the handle is started: `sum` was counted before, and the
//! engine has counted the rest since `base`. Reading takes no lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_atomic::{AtomicBool, AtomicU64, Ordering};
use weft_mpi::Comm;

use super::settings::Setting;
use super::variables::{Value, Variable};
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;
use crate::{c, handle};

/// A handle of a control variable.
#[derive(Debug)]
pub struct CvarHandle(pub &'static Setting);

/// A session: the handles that were made in it.
#[derive(Debug, Default)]
pub struct Session(Mutex<Vec<usize>>);

impl Session {
    /// Its handles.
    pub fn open(&self) -> MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle of a performance variable.
#[derive(Debug)]
pub struct PvarHandle {
    pub variable: &'static Variable,
    pub session: usize,
    comm: Option<Arc<Comm>>,
    running: AtomicBool,
    base: AtomicU64,
    sum: AtomicU64,
}

impl PvarHandle {
    /// A view of a variable; a variable that is not counted for each handle runs from the start.
    pub fn new(variable: &'static Variable, session: usize, comm: Option<Arc<Comm>>) -> Self {
        Self {
            variable,
            session,
            comm,
            running: AtomicBool::new(!variable.is_counted()),
            base: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// The counts of the engine.
    fn counted(&self) -> u64 {
        match self.variable.value(self.comm.as_deref()) {
            Value::Unsigned(value) => value,
            Value::Real(_) | Value::Int(_) => 0,
        }
    }

    /// The value.
    pub fn value(&self) -> Value {
        if !self.variable.is_counted() {
            return self.variable.value(self.comm.as_deref());
        }
        let mut value = self.sum.load(Ordering::Relaxed);
        if self.running.load(Ordering::Relaxed) {
            value = value.wrapping_add(
                self.counted()
                    .wrapping_sub(self.base.load(Ordering::Relaxed)),
            );
        }
        self.given(value)
    }

    /// Reads the value and resets it to 0.
    pub fn read_and_reset(&self) -> Value {
        let counted = self.counted();
        let base = self.base.swap(counted, Ordering::Relaxed);
        let mut value = self.sum.swap(0, Ordering::Relaxed);
        if self.running.load(Ordering::Relaxed) {
            value = value.wrapping_add(counted.wrapping_sub(base));
        }
        self.given(value)
    }

    /// The counts, in the caller's form.
    fn given(&self, value: u64) -> Value {
        if self.variable.is_time() {
            Value::Real(value as f64 * 1e-9)
        } else {
            Value::Unsigned(value)
        }
    }

    /// Counts from now on.
    pub fn start(&self) {
        if !self.running.swap(true, Ordering::Relaxed) {
            self.base.store(self.counted(), Ordering::Relaxed);
        }
    }

    /// Stops counting.
    pub fn stop(&self) {
        if self.running.swap(false, Ordering::Relaxed) {
            let more = self
                .counted()
                .wrapping_sub(self.base.load(Ordering::Relaxed));
            self.sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Sets the value, of a time in nanoseconds.
    pub fn write(&self, value: u64) {
        self.base.store(self.counted(), Ordering::Relaxed);
        self.sum.store(value, Ordering::Relaxed);
    }
}

/// The session of a handle.
pub fn session(handle: c::ToolHandle) -> Checked<&'static Session> {
    handle::find::<Session>(handle.0).ok_or_else(|| {
        Fault::new(
            k::MPI_T_ERR_INVALID_SESSION,
            "this is no session, or it was freed",
        )
    })
}

/// The view of a variable, made in this session.
pub fn pvar(in_session: c::ToolHandle, handle: c::ToolHandle) -> Checked<&'static PvarHandle> {
    session(in_session)?;
    handle::find::<PvarHandle>(handle.0)
        .filter(|pvar| pvar.session == in_session.0)
        .ok_or_else(|| {
            Fault::new(
                k::MPI_T_ERR_INVALID_HANDLE,
                "this is no handle of the session, or it was freed",
            )
        })
}
