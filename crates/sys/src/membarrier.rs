//! Membarrier, a fence on cores that others run on: what
//! [`FenceMode::Asymmetric`](weft_atomic::FenceMode::Asymmetric) needs.
//!
//! A process registers once after it was started (the registration does not survive `exec`); from
//! then on [`fence_all`], called by any process of the host, fences its running threads too.

use crate::error::{failed, last_errno};
use crate::probe::Availability;

/// Registers this process with [`fence_all`] and tries it.
pub fn register_all() -> Availability {
    register(
        libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
        libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED,
    )
}

/// Registers this process with [`fence_own`] and tries it.
pub fn register_own() -> Availability {
    register(
        libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
    )
}

/// A full fence on all running threads of all registered processes, and here. False if refused.
#[must_use]
pub fn fence_all() -> bool {
    call(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0
}

/// A full fence on all running threads of this process. False if refused.
#[must_use]
pub fn fence_own() -> bool {
    call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
}

fn register(registration: libc::c_int, fence: libc::c_int) -> Availability {
    let known = call(libc::MEMBARRIER_CMD_QUERY);
    if known < 0 {
        return Availability::not(
            failed("membarrier", "ask for fences on other cores").to_string(),
        );
    }
    let wanted = libc::c_long::from(registration | fence);
    if known & wanted != wanted {
        return Availability::not(format!(
            "this kernel knows the fences {known:#x}, {wanted:#x} are needed"
        ));
    }
    for command in [registration, fence] {
        if call(command) < 0 {
            let error = failed("membarrier", format!("issue command {command:#x}"));
            return Availability::not(error.to_string());
        }
    }
    Availability::Available
}

fn call(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes numbers only and touches no memory of ours.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    if answer < 0 && last_errno() == libc::EINTR {
        // SAFETY: as above.
        return unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_registered_works() {
        for (registered, fence) in [
            (register_all(), fence_all as fn() -> bool),
            (register_own(), fence_own),
        ] {
            match registered {
                Availability::Available => assert!(fence()),
                Availability::NotAvailable { reason } => assert!(!reason.is_empty()),
            }
        }
    }
}
