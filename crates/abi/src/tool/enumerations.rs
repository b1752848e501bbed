//! Enumerations: names of the values of a variable.

use std::ffi::c_int;

use crate::c;
use crate::fault::{Checked, Fault};
use crate::generated::constants as k;

/// Names of values.
#[derive(Debug)]
pub struct Enumeration {
    pub name: &'static str,
    pub items: &'static [(c_int, &'static str)],
}

/// All of them. The handle of an enumeration is its place, counted from [`FIRST`].
const ALL: [&Enumeration; 2] = [&PHASE, &SWITCH];
const FIRST: usize = 16;

/// The phase of the world model.
pub static PHASE: Enumeration = Enumeration {
    name: "phase",
    items: &[(0, "before"), (1, "running"), (2, "finished")],
};

/// Off and on.
pub static SWITCH: Enumeration = Enumeration {
    name: "switch",
    items: &[(0, "off"), (1, "on")],
};

impl Enumeration {
    /// The handle.
    pub fn handle(&'static self) -> c::ToolHandle {
        let place = ALL.iter().position(|one| std::ptr::eq(*one, self));
        c::ToolHandle(FIRST + place.expect("all are listed"))
    }

    /// The enumeration of a handle.
    pub fn find(handle: c::ToolHandle) -> Checked<&'static Self> {
        let place = handle.0.checked_sub(FIRST);
        let found = place.and_then(|place| ALL.get(place).copied());
        found.ok_or_else(|| Fault::new(k::MPI_T_ERR_INVALID_HANDLE, "this is no enumeration"))
    }
}

/// The handle of an enumeration, or that of none.
pub fn handle_of(enumeration: Option<&'static Enumeration>) -> c::ToolHandle {
    enumeration.map_or(k::MPI_T_ENUM_NULL, Enumeration::handle)
}
