//! Signals that the launcher takes by descriptor: their set, which of them end programs, and their names.

use weft_sys::process::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Taken by descriptor here. They are blocked for that, and must not be for what we start.
pub const HANDLED: [i32; 10] = [
    SIGCHLD,
    SIGINT,
    SIGTERM,
    SIGHUP,
    SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    SIGCONT,
    // A file that may not grow is an error of whoever writes to it, not our end.
    libc::SIGXFSZ,
];

/// Whether this is one by which users and systems end a program. SIGQUIT is not: it asks what the ranks do.
pub fn ends_programs(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP].contains(&signal)
}

/// The name of a signal.
pub fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.into()
}
