//! Control variables (MPI 5.0, section 15.3.6): few, and each has an effect.

use std::ffi::c_int;

use weft_atomic::{AtomicI32, AtomicU64, Ordering};

use super::enumerations::{self, Enumeration};
use super::{invalid, registrations};
use crate::c;
use crate::fault::Checked;
use crate::generated::constants as k;
use crate::state;

/// Characters of a text, with the zero.
pub const TEXT: usize = 16;

/// A value as the caller gives or gets it.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Unsigned(u64),
    Int(c_int),
    Text(String),
}

/// A control variable.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    pub category: &'static str,
    pub description: &'static str,
    pub enumeration: Option<&'static Enumeration>,
    pub read: fn() -> Value,
    pub write: Option<fn(u64) -> Checked<()>>,
}

impl Setting {
    /// The datatype of its values, and their number of elements.
    pub fn datatype(&self) -> (c::Datatype, c_int) {
        match (self.read)() {
            Value::Unsigned(_) => (k::MPI_UNSIGNED_LONG_LONG, 1),
            Value::Int(_) => (k::MPI_INT, 1),
            Value::Text(_) => (k::MPI_CHAR, TEXT as c_int),
        }
    }

    /// The scope in which a written value holds.
    pub fn scope(&self) -> c_int {
        if self.write.is_some() {
            k::MPI_T_SCOPE_LOCAL
        } else {
            k::MPI_T_SCOPE_READONLY
        }
    }
}

/// All of them.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "eager_limit",
        category: "settings",
        description: "bytes of data up to which a message goes with its envelope; larger ones are pulled by their receiver. Before MPI_Init, 0 stands for what the fabric does best",
        enumeration: None,
        read: eager_limit,
        write: Some(set_eager_limit),
    },
    Setting {
        name: "credit_window",
        category: "settings",
        description: "bytes of small messages, each with 256 more, that a peer may send to this process before it asks whether they were received; it is kept four times these bytes and as many of announcements. Before MPI_Init, 0 stands for what fits the size of the job",
        enumeration: None,
        read: credit_window,
        write: Some(set_credit_window),
    },
    Setting {
        name: "event_queue_length",
        category: "settings",
        description: "events that may wait for their callbacks; further ones are dropped, and the dropped handler is told",
        enumeration: None,
        read: || Value::Unsigned(QUEUE.load(Ordering::Relaxed)),
        write: Some(|length| {
            QUEUE.store(length, Ordering::Relaxed);
            registrations::listen();
            Ok(())
        }),
    },
    Setting {
        name: "profiling_level",
        category: "settings",
        description: "what MPI_Pcontrol sets: at level 0 no events are raised",
        enumeration: None,
        read: || Value::Int(LEVEL.load(Ordering::Relaxed)),
        write: Some(|level| {
            set_level(level as c_int);
            Ok(())
        }),
    },
    Setting {
        name: "fabric",
        category: "settings",
        description: "how ranks reach each other: auto, tcp also within a host, ofi by libfabric (mpiexec --fabric)",
        enumeration: None,
        read: || Value::Text(variable("WEFT_FABRIC").unwrap_or_else(|| "auto".to_owned())),
        write: None,
    },
    Setting {
        name: "encrypt",
        category: "settings",
        description: "whether what goes between hosts is encrypted (mpiexec --encrypt)",
        enumeration: Some(&enumerations::SWITCH),
        read: || {
            Value::Int(c_int::from(
                variable("WEFT_ENCRYPT").is_some_and(|text| text == "1"),
            ))
        },
        write: None,
    },
];

static EAGER: AtomicU64 = AtomicU64::new(0);
static CREDIT: AtomicU64 = AtomicU64::new(0);
static QUEUE: AtomicU64 = AtomicU64::new(4096);
static LEVEL: AtomicI32 = AtomicI32::new(1);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| text.len() < TEXT)
}

fn eager_limit() -> Value {
    let now = state::runtime().map(|runtime| runtime.process.eager_limit() as u64);
    Value::Unsigned(now.unwrap_or_else(|| EAGER.load(Ordering::Relaxed)))
}

fn set_eager_limit(bytes: u64) -> Checked<()> {
    if let Some(runtime) = state::runtime() {
        let fits = usize::try_from(bytes).is_ok_and(|bytes| runtime.process.set_eager_limit(bytes));
        if !fits {
            return Err(invalid(
                "no message of the fabric carries so many bytes; choose a smaller limit",
            ));
        }
    }
    EAGER.store(bytes, Ordering::Relaxed);
    Ok(())
}

fn credit_window() -> Value {
    let now = state::runtime().map(|runtime| u64::from(runtime.process.credit_window()));
    Value::Unsigned(now.unwrap_or_else(|| CREDIT.load(Ordering::Relaxed)))
}

fn set_credit_window(bytes: u64) -> Checked<()> {
    let Ok(window) = u32::try_from(bytes) else {
        return Err(invalid(
            "a credit window is less than 4 GiB; choose a smaller one",
        ));
    };
    if let Some(runtime) = state::runtime() {
        runtime.process.set_credit_window(window);
    }
    CREDIT.store(bytes, Ordering::Relaxed);
    Ok(())
}

/// MPI is initialised: values set before take effect from now on, as far as the fabric supports them.
pub fn initialised(process: &weft_mpi::Process) {
    let bytes = EAGER.load(Ordering::Relaxed);
    if bytes > 0 {
        process.set_eager_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Ok(window @ 1..) = u32::try_from(CREDIT.load(Ordering::Relaxed)) {
        process.set_credit_window(window);
    }
}

/// How many events may wait.
pub fn queue_length() -> usize {
    usize::try_from(QUEUE.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
}

/// Whether events are to be raised.
pub fn is_profiling() -> bool {
    LEVEL.load(Ordering::Relaxed) > 0
}

/// `MPI_Pcontrol`.
pub fn set_level(level: c_int) {
    LEVEL.store(level, Ordering::Relaxed);
    registrations::listen();
}
