//! Cross-memory attach: one copy straight between the memories of two processes.
//!
//! It may be refused (another user, another user namespace, Yama, seccomp, a kernel without it) or, worse,
//! reach the wrong process (a process id of another PID namespace). So it is used for a peer only after
//! [`proves`] has read from its memory a secret that the peer gave us.

use std::io;

use crate::error::{failed, last_errno, with_errno};
use crate::probe::Availability;
use crate::span::Region;

/// A place in another process: its id as seen from here, and an address in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The process.
    pub process: u32,
    /// The address there.
    pub address: u64,
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// Copies `into.len()` bytes from another process.
///
/// # Errors
/// If the kernel refuses, or the memory there ends early (`EFAULT`). Part may have been copied.
pub fn read(from: Remote, into: Region) -> io::Result<()> {
    // SAFETY: only `into` is written, which is valid for writes as promised to `Region::new`.
    unsafe { transfer(Direction::Read, from, into) }
}

/// As [`read`], into memory of the caller's own.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(from: Remote, into: &mut [u8]) -> io::Result<()> {
    // SAFETY: borrowed for the whole call, and ours alone.
    read(from, unsafe { Region::new(into.as_mut_ptr(), into.len()) })
}

/// A copy of bytes of this process at any address; `None` if nothing is mapped there, or the kernel refuses.
#[must_use]
pub fn read_own(address: usize, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let from = Remote {
        process: std::process::id(),
        address: address as u64,
    };
    read_bytes(from, &mut bytes).ok()?;
    Some(bytes)
}

/// Copies `from.len()` bytes into another process.
///
/// # Errors
/// As [`read`].
///
/// # Safety
/// The owner of the memory must have granted the write; if `to` lies in this very process, the span must be
/// writable and unused by others, as for [`std::ptr::copy`].
pub unsafe fn write(from: Region, to: Remote) -> io::Result<()> {
    // SAFETY: `from` is only read. The span there was granted by its owner and, if it is ours, is writable and
    // unused by others, as the caller promises.
    unsafe { transfer(Direction::Write, to, from) }
}

/// Reads 16 bytes from `at` and compares them with the value that the owner of that memory announced.
pub fn proves(at: Remote, secret: [u8; 16]) -> Availability {
    let mut seen = [0; 16];
    // SAFETY: `seen` is ours alone and outlives the call.
    let into = unsafe { Region::new(seen.as_mut_ptr(), seen.len()) };
    match read(at, into) {
        Err(error) => Availability::not(error.to_string()),
        Ok(()) if seen != secret => Availability::not(format!(
            "process {} is not the one meant: another secret stands at {:#x}",
            at.process, at.address
        )),
        Ok(()) => Availability::Available,
    }
}

/// # Safety
/// `ours` must be valid for the direction; so must the remote span if it is ours.
unsafe fn transfer(direction: Direction, there: Remote, ours: Region) -> io::Result<()> {
    let (call, verb) = match direction {
        Direction::Read => ("process_vm_readv", "read"),
        Direction::Write => ("process_vm_writev", "write"),
    };
    let mut done = 0;
    let purpose = |done: usize| {
        format!(
            "{verb} {} bytes at {:#x} of process {} ({done} were moved)",
            ours.len(),
            there.address,
            there.process
        )
    };
    let Ok(process) = libc::pid_t::try_from(there.process) else {
        return Err(with_errno(call, libc::ESRCH, purpose(0)));
    };
    while done < ours.len() {
        let local = libc::iovec {
            iov_base: ours.as_ptr().wrapping_add(done).cast(),
            iov_len: ours.len() - done,
        };
        let address = there.address.wrapping_add(done as u64);
        let remote = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(
                usize::try_from(address).unwrap_or(usize::MAX),
            ),
            iov_len: ours.len() - done,
        };
        // SAFETY: one vector a side. `local` lies in the span that the caller vouches for; the remote
        // one is checked by the kernel.
        let moved = unsafe {
            match direction {
                Direction::Read => {
                    libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0)
                }
                Direction::Write => {
                    libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0)
                }
            }
        };
        match usize::try_from(moved) {
            Ok(0) => return Err(with_errno(call, libc::EFAULT, purpose(done))),
            Ok(count) => done += count,
            Err(_) if last_errno() == libc::EINTR => {}
            Err(_) => return Err(failed(call, purpose(done))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::errno;
    use crate::memory::{Mapping, page_size};

    fn here(memory: *const u8) -> Remote {
        Remote {
            process: std::process::id(),
            address: memory.addr() as u64,
        }
    }

    #[test]
    fn a_proof_succeeds_with_the_right_secret_only() {
        let secret = *b"sixteen letters.";
        let place = here(secret.as_ptr());
        assert_eq!(proves(place, secret), Availability::Available);
        assert!(!proves(place, [0; 16]).is_available());
        let nowhere = Remote {
            address: 16,
            ..place
        };
        assert!(!proves(nowhere, secret).is_available());
    }

    #[test]
    fn bytes_go_both_ways() {
        let source: Vec<u8> = (0..100_000).map(|index| index as u8).collect();
        let mut target = vec![0u8; source.len()];
        // SAFETY: `target` outlives the region and is not used meanwhile.
        let into = unsafe { Region::new(target.as_mut_ptr(), target.len()) };
        read(here(source.as_ptr()), into).expect("one may read oneself");
        assert_eq!(target, source);
        let mut back = vec![0u8; source.len()];
        // SAFETY: `back` is ours and not used meanwhile; so is `target`.
        unsafe {
            let from = Region::new(target.as_mut_ptr(), target.len());
            write(from, here(back.as_mut_ptr())).expect("one may write oneself");
        }
        assert_eq!(back, source);
    }

    #[test]
    fn memory_that_ends_early_is_an_error_not_a_short_copy() {
        let page = page_size();
        let memory = Mapping::private(2 * page).expect("maps");
        // SAFETY: the second page of a mapping of ours, of which nothing is borrowed.
        unsafe { libc::mprotect(memory.as_ptr().add(page).cast(), page, libc::PROT_NONE) };
        let mut target = vec![0u8; 2 * page];
        // SAFETY: `target` outlives the region and is not used meanwhile.
        let into = unsafe { Region::new(target.as_mut_ptr(), target.len()) };
        let error = read(here(memory.as_ptr()), into).expect_err("the second page is closed");
        assert_eq!(errno(&error), Some(libc::EFAULT));
        assert!(
            error.to_string().contains(&format!("({page} were moved)")),
            "{error}"
        );
    }

    #[test]
    fn no_process_no_bytes() {
        let error = read(
            Remote {
                process: u32::MAX,
                address: 0,
            },
            Region::EMPTY.prefix(0),
        );
        assert!(error.is_err());
    }
}
