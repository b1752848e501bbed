//! Dispositions: what this process does on each signal. Loading libfabric must not change that.
//!
//! Libraries that libfabric is linked with set handlers when they are loaded, even without hardware for them: libinfinipath, of
//! provider psm, for SIGINT, SIGTERM and the signals of a crash. Its handler writes a file `PROGRAM.80s-PID,HOST.btr` into the
//! working directory. A variable (`IPATH_NO_BACKTRACE`, and others for its successors) would have to be set before the process
//! starts.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// The last signal.
const LAST: c_int = 64;

/// Runs `work`, and restores the process's handlers afterwards. Changes by other threads in that time are
/// undone as well.
pub fn kept<T>(work: impl FnOnce() -> T) -> T {
    let before: Vec<_> = (1..=LAST).map(of).collect();
    let result = work();
    for (signal, before) in (1..=LAST).zip(before) {
        let (Some(before), Some(now)) = (before, of(signal)) else {
            continue;
        };
        if now.sa_sigaction != before.sa_sigaction || now.sa_flags != before.sa_flags {
            // SAFETY: what was in force until a moment ago, as the kernel has said.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
    }
    result
}

/// The disposition of a signal; `None` for signals that the C library reserves.
fn of(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed; the structure is written if the answer is 0.
    unsafe {
        let answer = libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        (answer == 0).then(|| action.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libfabric::mask::Mask;
    use crate::libfabric::{infos::usable, library::Library};

    #[test]
    fn a_handler_that_was_set_meanwhile_is_gone() {
        extern "C" fn handler(_: c_int) {}
        let set = || {
            // SAFETY: the handler does nothing, and nobody sends this signal.
            unsafe { libc::signal(libc::SIGRTMAX(), handler as *const () as libc::sighandler_t) }
        };
        assert_eq!(kept(set), libc::SIG_DFL);
        let after = of(libc::SIGRTMAX()).expect("a signal of the program's");
        assert_eq!(after.sa_sigaction, libc::SIG_DFL);
    }

    /// Nobody in this process has set any of these, before or after.
    #[test]
    fn the_library_has_no_handlers() {
        let Ok(library) = Library::get() else {
            return;
        };
        let _ = usable(library, None, None, Mask::default());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGABRT, libc::SIGILL] {
            let action = of(signal).expect("a signal of the program's").sa_sigaction;
            assert!(
                [libc::SIG_DFL, libc::SIG_IGN].contains(&action),
                "signal {signal}"
            );
        }
    }
}
