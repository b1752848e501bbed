//! Frontend of a job: the process that the user started and sees. Terminal, signals and exit code pass
//! through it; it is the guard of the supervisor.

use std::io::{self, IsTerminal};

use weft_sys::process;

use super::supervisor;
use crate::adoption::Takeover;
use crate::guard;
use crate::options::Input;
use crate::plan::Plan;

/// Runs the job of a plan; answers the exit code.
///
/// # Errors
/// If the two processes cannot be made; nothing was started then.
pub fn run(plan: &Plan) -> io::Result<u8> {
    // From a terminal only its foreground may read, and the ranks are not that: we read for them.
    let launcher = process::id();
    let pump = plan.input == Input::First && io::stdin().is_terminal();
    guard::run(pump, |liveness, input| {
        supervisor::run(plan, launcher, None, liveness, input)
    })
}

/// As [`run`], of a job whose first processes were there before.
///
/// # Errors
/// As [`run`].
pub fn run_adopted(plan: &Plan, adopted: Takeover) -> io::Result<u8> {
    let launcher = process::id();
    guard::run(false, |liveness, input| {
        supervisor::run(plan, launcher, Some(adopted), liveness, input)
    })
}
