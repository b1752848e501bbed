//! Membarrier: a fence on the cores of other threads, which
//! [`FenceMode::Asymmetric`](weft_atomic::FenceMode::Asymmetric) needs.
//!
//! A process registers once after it was started (the registration does not survive `exec`); from
//! then on [`fence_all`], called by any process of the host, fences its running threads too.

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

use crate::error::Purpose;
use crate::probe::Availability;

/// Registers this process with [`fence_all`] and tries it.
pub fn register_all() -> Availability {
    register(
        MembarrierCommand::RegisterGlobalExpedited,
        MembarrierCommand::GlobalExpedited,
    )
}

/// Registers this process with [`fence_own`] and tries it.
pub fn register_own() -> Availability {
    register(
        MembarrierCommand::RegisterPrivateExpedited,
        MembarrierCommand::PrivateExpedited,
    )
}

/// A full fence on all running threads of all registered processes, and here. False if refused.
#[must_use]
pub fn fence_all() -> bool {
    call(MembarrierCommand::GlobalExpedited).is_ok()
}

/// A full fence on all running threads of this process. False if refused.
#[must_use]
pub fn fence_own() -> bool {
    call(MembarrierCommand::PrivateExpedited).is_ok()
}

fn register(registration: MembarrierCommand, fence: MembarrierCommand) -> Availability {
    // Empty: the kernel has no such call, or a filter refuses it. The call itself shows below which.
    let known = membarrier_query();
    for command in [registration, fence] {
        if !known.is_empty() && !known.contains_command(command) {
            return Availability::not(format!(
                "this kernel knows the fences {:#x}, {:#x} is needed",
                known.bits(),
                command as u32
            ));
        }
    }
    for command in [registration, fence] {
        let issued = call(command).to("membarrier", || {
            format!("issue command {:#x}", command as u32)
        });
        if let Err(error) = issued {
            return Availability::not(error.to_string());
        }
    }
    Availability::Available
}

fn call(command: MembarrierCommand) -> rustix::io::Result<()> {
    match membarrier(command) {
        Err(Errno::INTR) => membarrier(command),
        answer => answer,
    }
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
