//! Performance variable (MPI 5.0, section 15.3.7): a value, and how it is read. All of them: the table below.
//!
//! Counters of the engine are read by plain loads, whichever thread holds the engine. Variables that are *counted
//! when asked* take the engine and look.

mod table;

use std::ffi::c_int;

use weft_mpi::counters::Counters;
use weft_mpi::{Comm, Process};

use super::enumerations::Enumeration;
use crate::c;
use crate::generated::constants as k;
use crate::state;

pub use table::VARIABLES;

/// How a variable is read.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// From the counters.
    Counters(fn(&Counters) -> u64),
    /// How often a collective was begun, by its place in the list of those that are counted by name.
    Collective(usize),
    /// Nanoseconds from the counters; seconds for the caller.
    Time(fn(&Counters) -> u64),
    /// A ratio of counters.
    Ratio(fn(&Counters) -> f64),
    /// By asking the process.
    Process(fn(&Process) -> u64),
    /// By asking a communicator.
    Comm(fn(&Comm) -> u64),
    /// A state, with names for its values.
    State(fn() -> c_int, &'static Enumeration),
}

/// A performance variable.
#[derive(Debug)]
pub struct Variable {
    pub name: &'static str,
    pub category: &'static str,
    pub class: c_int,
    pub description: &'static str,
    pub read: Read,
}

/// A value in the caller's form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Unsigned(u64),
    Real(f64),
    Int(c_int),
}

impl Variable {
    /// The value now. `comm`: the communicator to which it is bound.
    pub fn value(&self, comm: Option<&Comm>) -> Value {
        let runtime = state::runtime();
        let counters = runtime.map(|runtime| Counters::sum(runtime.process.all_counters()));
        let counters = counters.as_ref();
        match self.read {
            Read::Counters(read) => Value::Unsigned(counters.map_or(0, read)),
            Read::Collective(place) => {
                Value::Unsigned(counters.map_or(0, |all| all.collectives(place)))
            }
            Read::Time(read) => Value::Unsigned(counters.map_or(0, read)),
            Read::Ratio(read) => Value::Real(counters.map_or(0.0, read)),
            Read::Process(read) => {
                Value::Unsigned(runtime.map_or(0, |runtime| read(&runtime.process)))
            }
            Read::Comm(read) => Value::Unsigned(comm.map_or(0, read)),
            Read::State(read, _) => Value::Int(read()),
        }
    }

    /// Whether it is counted for each handle while that is started, and can be reset.
    pub fn is_counted(&self) -> bool {
        [
            k::MPI_T_PVAR_CLASS_COUNTER,
            k::MPI_T_PVAR_CLASS_AGGREGATE,
            k::MPI_T_PVAR_CLASS_TIMER,
        ]
        .contains(&self.class)
    }

    /// Whether its values are nanoseconds, and seconds for the caller.
    pub fn is_time(&self) -> bool {
        matches!(self.read, Read::Time(_))
    }

    /// The datatype of its values.
    pub fn datatype(&self) -> c::Datatype {
        match self.read {
            Read::Time(_) | Read::Ratio(_) => k::MPI_DOUBLE,
            Read::State(..) => k::MPI_INT,
            _ => k::MPI_UNSIGNED_LONG_LONG,
        }
    }

    /// Names of its values.
    pub fn enumeration(&self) -> Option<&'static Enumeration> {
        match self.read {
            Read::State(_, names) => Some(names),
            _ => None,
        }
    }

    /// The kind of object to which it is bound.
    pub fn bind(&self) -> c_int {
        match self.read {
            Read::Comm(_) => k::MPI_T_BIND_MPI_COMM,
            _ => k::MPI_T_BIND_NO_OBJECT,
        }
    }
}
