//! Lifeline: a pipe whose writing end one process holds; when that process ends, in whatever way, the kernel
//! ends the processes at the reading ends. A local socket over which the other side sends nothing unasked
//! serves as well.
//!
//! Unlike the parent-death signal this reaches any descendant, even one whose parent was started by a thread
//! that has ended, one that changed its user, and one in its own PID namespace.
//!
//! The first process of a PID namespace is a special case: such a signal does not kill it unless it handles
//! the signal. There, and only there, a handler that exits is installed.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::error::{Purpose, check};
use crate::passing;
use crate::poll::{self, Interest, PollFd};
use crate::process;

/// Makes the kernel end this process with SIGKILL when the last writing end of the pipe closes.
///
/// The reading end must be kept open, and nobody may ever write to the pipe: that would end us too. The
/// setting belongs to the open pipe end, not to the descriptor's number: of several processes that inherited
/// one reading end only one can be tied to it; give each a pipe of its own.
///
/// # Errors
/// If the descriptor is not a pipe end that can signal, or the other end has been closed already; of kind
/// `AlreadyExists` if another living process that we can see is tied to it.
pub fn tie(reading: &impl AsFd) -> io::Result<()> {
    let number = reading.as_fd().as_raw_fd();
    let purpose = || format!("tie our life to the pipe at descriptor {number}");
    let us = libc::pid_t::try_from(std::process::id()).unwrap_or(0);
    // SAFETY: fcntl with numbers on an open descriptor.
    let other = unsafe { libc::fcntl(number, libc::F_GETOWN) };
    if other > 0 && other != us {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("process {other} is tied to the pipe at descriptor {number} already"),
        ));
    }
    // SAFETY: as above.
    let owned = unsafe { libc::fcntl(number, libc::F_SETOWN, us) };
    check(owned, "fcntl", purpose)?;
    let signal = if us == 1 {
        exit_on(libc::SIGRTMAX() - 1)?
    } else {
        libc::SIGKILL
    };
    // SAFETY: as above.
    let chosen = unsafe { libc::fcntl(number, F_SETSIG, signal) };
    check(chosen, "fcntl", purpose)?;
    let flags = fcntl_getfl(reading).to("fcntl", purpose)?;
    fcntl_setfl(reading, flags | ASYNC).to("fcntl", purpose)?;
    // If it was closed before that, no signal came.
    let mut entries = [PollFd::new(reading, Interest::Nothing)];
    poll::wait(&mut entries, Some(Duration::ZERO))?;
    if entries[0].ended() {
        return Err(crate::error::with_errno("poll", libc::EPIPE, purpose()));
    }
    Ok(())
}

/// How long the other side may take to leave the call in which it answered.
const DOZE: Duration = Duration::from_millis(50);

/// As [`tie`], for a local socket over which the process that made it has just sent something that was read.
///
/// The data can be read a moment before the kernel, still within the sender's call, signals its arrival; a
/// process tied in that moment would be ended by the signal. So this waits until the sender was seen asleep,
/// which it is not within that call.
///
/// # Errors
/// As for [`tie`].
pub fn tie_after_answer(socket: &impl AsFd) -> io::Result<()> {
    // 0 if it is in another PID namespace.
    let maker = passing::peer_credentials(socket)?.process;
    let end = Instant::now() + DOZE;
    let mut entries = [PollFd::new(socket, Interest::Nothing)];
    // It cannot be seen if it belongs to another PID namespace: then the whole time is waited.
    while Instant::now() < end && !process::is_asleep(maker) {
        poll::wait(&mut entries, Some(Duration::from_micros(200)))?;
        if entries[0].ended() {
            break;
        }
    }
    tie(socket)
}

/// Undoes [`tie`]: from now on nothing that happens to the descriptor ends this process. For a socket over
/// which something is to be sent before it is tied again: data that comes in would end us too.
///
/// # Errors
/// If the kernel refuses.
pub fn untie(reading: &impl AsFd) -> io::Result<()> {
    let number = reading.as_fd().as_raw_fd();
    let purpose = || format!("untie our life from descriptor {number}");
    let flags = fcntl_getfl(reading).to("fcntl", purpose)?;
    fcntl_setfl(reading, flags.difference(ASYNC)).to("fcntl", purpose)
}

/// Whether the kernel signals the owner of an open descriptor. Not among the flags that the bindings name.
const ASYNC: OFlags = OFlags::from_bits_retain(libc::O_ASYNC as u32);

/// Installs a handler that exits as if killed; returns the signal.
fn exit_on(signal: libc::c_int) -> io::Result<libc::c_int> {
    extern "C" fn exit(_signal: libc::c_int) {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(128 + libc::SIGKILL) }
    }
    // SAFETY: a sigaction of zeros is valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = exit as *const () as libc::sighandler_t;
    // SAFETY: `action` is read; the handler takes one number, as without SA_SIGINFO it must, and does
    // only what a handler may.
    let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    check(set, "sigaction", || format!("handle signal {signal}"))?;
    Ok(signal)
}

/// Not in every version of the bindings; the number is the same on all of Linux.
const F_SETSIG: libc::c_int = 10;
