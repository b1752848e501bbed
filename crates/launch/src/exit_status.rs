//! Exit status of a process: in words, and as the code that a shell gives it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::signals;

/// "exited with code 3", "killed by signal 11 (SIGSEGV)".
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => {
            let name = signals::name(signal);
            format!("killed by signal {signal} ({name})")
        }
        (None, None) => format!("ended with status {status}"),
    }
}

/// The code that a shell gives for this end.
pub fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(signal)) => code_of_signal(signal),
        (None, None) => 1,
    }
}

/// … of a process that was ended by this signal.
pub fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(255)
}
