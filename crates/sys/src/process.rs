//! Processes: our own ids, which process dies with which, and handles that always name the same process.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    PTracer, Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, set_ptracer,
};

use crate::cores::CoreMask;
use crate::error::{Purpose, check, with_errno};
use crate::memory::is_refused;
use crate::poll::{self, Interest, PollFd};
use crate::probe::Availability;

pub use libc::{SIGABRT, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM};

/// This process, in its own PID namespace.
#[must_use]
pub fn id() -> u32 {
    std::process::id()
}

/// Our parent; 0 if it lives outside of our PID namespace.
#[must_use]
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Our effective user.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// When a process was started, in clock ticks since boot: with its id, a name that is never reused. `None` if
/// there is no such process or `/proc` cannot be read.
#[must_use]
pub fn start_time(process: u32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in brackets that may hold anything; the start time is the 22nd.
    let after_name = &line[line.rfind(')')? + 1..];
    after_name
        .split_ascii_whitespace()
        .nth(22 - 3)?
        .parse()
        .ok()
}

/// The id of the calling thread.
#[must_use]
pub fn thread_id() -> u32 {
    // SAFETY: asks for a number.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

/// Ends this process at once, without exit handlers, which might wait for other threads.
pub fn end_at_once(code: u8) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

/// The PID namespace: two processes with the same value give process ids the same meaning. `None` if `/proc`
/// is not there.
#[must_use]
pub fn id_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid")
        .ok()
        .map(|file| file.ino())
}

/// The threads of this process: id and name of each.
///
/// # Errors
/// If `/proc` is not there.
pub fn threads() -> io::Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let id = task.file_name().to_string_lossy().parse().unwrap_or(0);
        // A thread that has just ended has no name.
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        found.push((id, name.trim_end().to_owned()));
    }
    Ok(found)
}

/// Whether the first thread of a process sleeps, as far as `/proc` shows it.
#[must_use]
pub fn is_asleep(process: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    line.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('S'))
}

/// A handle of a process: a descriptor that keeps naming that process, whatever happens to ids.
#[derive(Debug)]
pub struct ProcessHandle {
    descriptor: OwnedFd,
    id: u32,
}

impl ProcessHandle {
    /// The process that has this id now.
    ///
    /// # Errors
    /// If there is none, or the kernel refuses.
    pub fn open(id: u32) -> io::Result<Self> {
        let purpose = || format!("open a handle of process {id}");
        let number = i32::try_from(id).ok().and_then(Pid::from_raw);
        let opened = match number {
            // It closes on exec by itself.
            Some(number) => pidfd_open(number, PidfdFlags::empty()),
            None => Err(Errno::SRCH),
        };
        let descriptor = opened.to("pidfd_open", purpose)?;
        Ok(Self { descriptor, id })
    }

    /// A handle that the kernel gave in another way, of the process with this id.
    pub(crate) fn adopt(descriptor: OwnedFd, id: u32) -> Self {
        Self { descriptor, id }
    }

    /// Its id when it was opened.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits until it has ended, at most for the limit; true if it has.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait_end(&self, limit: Option<Duration>) -> io::Result<bool> {
        poll::wait(&mut [PollFd::new(self, Interest::Read)], limit).map(|ready| ready != 0)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// If it has ended, or is not ours to signal.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        // SAFETY: takes numbers and a null pointer (no further information).
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.descriptor.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        check(sent, "pidfd_send_signal", || {
            format!("send signal {signal} to process {}", self.id)
        })
        .map(drop)
    }

    /// Whether handles of processes exist here.
    pub fn probe() -> Availability {
        Self::open(id()).map(drop).into()
    }
}

impl AsFd for ProcessHandle {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Sends a signal to a process. An id may mean another process by now: prefer [`ProcessHandle`], or
/// children that were not waited for yet.
///
/// # Errors
/// If there is none, or it is not ours to signal.
pub fn signal(process: u32, signal: i32) -> io::Result<()> {
    kill(process, signal, 1)
}

/// Sends a signal to all processes of a group.
///
/// # Errors
/// If there is none, or none is ours to signal.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    kill(group, signal, -1)
}

fn kill(id: u32, signal: i32, sign: libc::pid_t) -> io::Result<()> {
    let what = if sign < 0 { "process group" } else { "process" };
    let purpose = || format!("send signal {signal} to {what} {id}");
    // 0 and 1 would reach our own group, or everybody.
    let number = match libc::pid_t::try_from(id) {
        Ok(number) if number > 1 => number * sign,
        _ => return Err(with_errno("kill", libc::EINVAL, purpose())),
    };
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(number, signal) }, "kill", purpose).map(drop)
}

/// Makes the kernel send this process `signal` when the thread that started it ends. Where that is forbidden (a filter of
/// system calls), nothing is done: see [`probe_orders`].
///
/// # Errors
/// If the kernel refuses for another reason.
pub fn die_with_parent(signal: i32) -> io::Result<()> {
    unless_forbidden(set_death_signal(signal))
        .to("prctl", || "be told of the parent's death".into())
}

/// Has the child that `command` starts killed by `signal` when the *thread* that spawns it ends, even if that
/// happens before the child gets to run. The setting is lost when a program changes its user.
pub fn child_dies_with_us(command: &mut Command, signal: i32) {
    let us = id();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are
    // system calls without locks or allocation, and the errors are made from numbers.
    unsafe {
        command.pre_exec(move || {
            unless_forbidden(set_death_signal(signal))?;
            // If we died before that, the child gets no signal, but has another parent.
            if parent() != us {
                return Err(Errno::SRCH.into());
            }
            Ok(())
        });
    }
}

/// Has the child that `command` starts begin on one of these `cores`, and stay on them if `stays`; otherwise it may
/// move wherever it could before. A refusal of the kernel is ignored.
pub fn child_begins_on(command: &mut Command, cores: &[usize], stays: bool) {
    let (Ok(place), Ok(all)) = (CoreMask::of(cores), crate::cores::allowed()) else {
        return;
    };
    let Ok(all) = CoreMask::of(&all) else {
        return;
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: both are system calls that read memory
    // allocated before.
    unsafe {
        command.pre_exec(move || {
            if place.apply().is_ok() && !stays {
                let _ = all.apply();
            }
            Ok(())
        });
    }
}

/// Makes this process the parent of all orphans among its descendants, so that it can end them. Where that is forbidden (a filter
/// of system calls), orphans go to the first process of the namespace: see [`probe_orders`].
///
/// # Errors
/// If the kernel refuses for another reason.
pub fn adopt_orphans() -> io::Result<()> {
    // Any number means yes.
    unless_forbidden(set_child_subreaper(Some(getpid())))
        .to("prctl", || "become the parent of orphans".into())
}

/// Lets any process of the same user attach to our memory, where the host (Yama) otherwise permits only
/// ancestors. Without such a rule nothing is needed.
///
/// # Errors
/// If the kernel refuses for another reason.
pub fn permit_attach() -> io::Result<()> {
    match set_ptracer(PTracer::Any) {
        Err(Errno::INVAL) => Ok(()),
        result => unless_forbidden(result).to("prctl", || "let peers attach to our memory".into()),
    }
}

/// Whether a process may make these settings here (`prctl`). If not, MPI ranks still end with their launcher by their
/// lifeline; processes that they have started may stay.
pub fn probe_orders() -> Availability {
    let asked = rustix::process::child_subreaper();
    asked
        .map(drop)
        .to("prctl", || "ask who becomes the parent of orphans".into())
        .into()
}

fn unless_forbidden(result: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match result {
        Err(error) if is_refused(error) => Ok(()),
        result => result,
    }
}

fn set_death_signal(signal: i32) -> rustix::io::Result<()> {
    let named = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    set_parent_process_death_signal(Some(named))
}

/// Fetches one child that has ended, adopted orphans included, without waiting; `None` if none has. Not to be
/// mixed with [`std::process::Child::wait`]: the first one gets the status.
///
/// # Errors
/// If the kernel refuses. To have no children is not an error.
pub fn reap() -> io::Result<Option<(u32, ExitStatus)>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::CHILD) => return Ok(None),
            Err(Errno::INTR) => {}
            Ok(Some((child, status))) => {
                let child = child.as_raw_nonzero().get().unsigned_abs();
                return Ok(Some((child, ExitStatus::from_raw(status.as_raw()))));
            }
            Err(error) => {
                return Err(error).to("waitpid", || "fetch a child that has ended".into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("/bin/sleep");
        command.arg("60");
        command
    }

    #[test]
    fn a_start_time_names_a_process() {
        let ours = start_time(id()).expect("/proc is there");
        assert!(ours > 0);
        assert_eq!(start_time(id()), Some(ours));
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn a_handle_tells_the_end_and_carries_signals() {
        let mut child = sleeper().spawn().expect("there is sleep");
        let handle = ProcessHandle::open(child.id()).expect("it lives");
        assert!(!handle.wait_end(Some(Duration::ZERO)).expect("polls"));
        handle.signal(SIGTERM).expect("ours");
        assert!(
            handle
                .wait_end(Some(Duration::from_secs(20)))
                .expect("polls")
        );
        assert_eq!(child.wait().expect("ours").signal(), Some(SIGTERM));
        assert!(handle.signal(SIGTERM).is_err());
        assert!(ProcessHandle::open(u32::MAX).is_err());
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = sleeper();
            child_dies_with_us(&mut command, SIGKILL);
            command.spawn().expect("there is sleep")
        })
        .join()
        .expect("spawned");
        assert_eq!(child.wait().expect("ours").signal(), Some(SIGKILL));
    }

    #[test]
    fn nobody_and_everybody_are_not_signalled() {
        for id in [0, 1, u32::MAX] {
            assert!(signal(id, 0).is_err());
            assert!(signal_group(id, 0).is_err());
        }
        signal(id(), 0).expect("we exist");
    }

    #[test]
    fn what_is_asked_of_the_kernel_is_granted() {
        adopt_orphans().expect("known since Linux 3.4");
        permit_attach().expect("granted or not needed");
    }
}
