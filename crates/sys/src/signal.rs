//! Signals that are read: no handler interrupts other code.
//!
//! Where the kernel refuses a descriptor for signals (a filter of system calls), handlers that write the number of the signal to a
//! pipe take its place.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use weft_atomic::{AtomicU32, Ordering};

use crate::descriptor;
use crate::error::{check, failed, last_errno};
use crate::memory::is_refused;
use crate::probe::Availability;

/// A descriptor from which the signals of a set are read.
///
/// They are blocked for the thread that made it, and for threads and children that it starts later: make
/// it before the threads, and start children with [`unblock_in_child`].
///
/// Without such a descriptor they are not blocked but handled, for the whole process, and only the last value of this type
/// receives them.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
    /// The other end of the pipe that handlers write to.
    handled: Option<OwnedFd>,
}

/// The pipe that handlers write to, as its descriptor plus one; 0 if there is none.
static PIPE: AtomicU32 = AtomicU32::new(0);

/// The handler: passes the number of the signal on.
extern "C" fn hand_on(signal: libc::c_int) {
    // Pairs with the store in `Signals::handled`: only a number is passed.
    let pipe = PIPE.load(Ordering::Relaxed);
    let (Some(pipe), Ok(byte)) = (pipe.checked_sub(1), u8::try_from(signal)) else {
        return;
    };
    let before = last_errno();
    // SAFETY: one byte of ours; a pipe that is full has enough to say, and one that is closed nobody reads. Async-signal-safe,
    // and what it does to the error number is undone.
    unsafe {
        libc::write(pipe as libc::c_int, (&raw const byte).cast(), 1);
        *libc::__errno_location() = before;
    }
}

impl Signals {
    /// Blocks the signals and opens a descriptor for them.
    ///
    /// # Errors
    /// If one of them is no signal, or the kernel refuses.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let purpose = || format!("take the signals {signals:?} by descriptor");
        block(signals)?;
        let set = set_of(signals)?;
        // SAFETY: the set is read; -1 asks for a new descriptor.
        let opened =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if opened == -1 && is_refused(Errno::from_raw_os_error(last_errno())) {
            return Self::handled(signals, &set);
        }
        let opened = check(opened, "signalfd", purpose)?;
        // SAFETY: just made for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(opened) };
        Ok(Self {
            descriptor,
            handled: None,
        })
    }

    /// The same, by handlers.
    fn handled(signals: &[i32], set: &libc::sigset_t) -> io::Result<Self> {
        let (descriptor, pipe) = descriptor::pipe()?;
        for end in [&descriptor, &pipe] {
            descriptor::set_nonblocking(end, true)?;
        }
        PIPE.store(pipe.as_raw_fd() as u32 + 1, Ordering::Relaxed);
        for &signal in signals {
            // SAFETY: a sigaction of zeros is a valid value: no flags, no signal blocked.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = hand_on as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the handler may run at any time, as it says; the old action is not asked for.
            let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
            check(set, "sigaction", || format!("hear of signal {signal}"))?;
        }
        // SAFETY: the set is read; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set, std::ptr::null_mut()) };
        Ok(Self {
            descriptor,
            handled: Some(pipe),
        })
    }

    /// Whether signals can be read from a descriptor here.
    pub fn probe() -> Availability {
        let Ok(set) = set_of(&[]) else {
            return Availability::Available;
        };
        // SAFETY: the set is read; -1 asks for a new descriptor.
        let opened = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
        let opened = check(opened, "signalfd", || {
            "read signals from a descriptor".into()
        });
        // SAFETY: just made for us.
        opened
            .map(|opened| drop(unsafe { OwnedFd::from_raw_fd(opened) }))
            .into()
    }

    /// The next signal that has come; `None` if there is none.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn next(&self) -> io::Result<Option<i32>> {
        if self.handled.is_some() {
            return self.next_handled();
        }
        let mut found = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: the kernel writes at most `size` bytes into `found`.
            let count =
                unsafe { libc::read(self.descriptor.as_raw_fd(), found.as_mut_ptr().cast(), size) };
            if usize::try_from(count) == Ok(size) {
                // SAFETY: numbers only, all written (and zeroed before).
                let found = unsafe { found.assume_init() };
                return Ok(i32::try_from(found.ssi_signo).ok());
            }
            match last_errno() {
                libc::EINTR => {}
                libc::EAGAIN => return Ok(None),
                _ => return Err(failed("read", "read a signal")),
            }
        }
    }
}

impl Signals {
    fn next_handled(&self) -> io::Result<Option<i32>> {
        let mut byte = [0u8];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.descriptor, &mut byte)) {
            Ok(1) => Ok(Some(byte[0].into())),
            Ok(_) | Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(pipe) = &self.handled {
            let ours = pipe.as_raw_fd() as u32 + 1;
            // A newer one may have taken its place.
            let _ = PIPE.compare_exchange(ours, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for &signal in signals {
        // SAFETY: the set is initialised; a number that is no signal gives an error.
        let added = unsafe { libc::sigaddset(&raw mut set, signal) };
        check(added, "sigaddset", || {
            format!("put {signal} into a set of signals")
        })?;
    }
    Ok(set)
}

/// Blocks these signals for this thread, and for threads and children that it starts later: see [`unblock_in_child`].
///
/// # Errors
/// If one of them is no signal, or the kernel refuses.
pub fn block(signals: &[i32]) -> io::Result<()> {
    let set = set_of(signals)?;
    // SAFETY: the set is read; the old mask is not asked for.
    let blocked =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    match blocked {
        0 => Ok(()),
        error => Err(crate::error::with_errno(
            "pthread_sigmask",
            error,
            format!("block the signals {signals:?}"),
        )),
    }
}

/// Makes the child that `command` starts begin with these signals unblocked, though they are blocked here.
///
/// # Errors
/// If one of them is no signal.
pub fn unblock_in_child(command: &mut Command, signals: &[i32]) -> io::Result<()> {
    let set = set_of(signals)?;
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; sigprocmask is one. The
    // set is read, and owned by the closure.
    unsafe {
        command.pre_exec(move || {
            if libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    Ok(())
}

/// Whether a signal is ignored by this process, as `nohup` requests. A descriptor would report it all the
/// same: do not put it into the set.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: a sigaction of zeros is a valid value; the kernel overwrites it.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed (null); the answer is written into `found`.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut found) };
    asked == 0 && found.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Signals {
    /// Readable when a signal has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Runs something during which this thread takes no signals, nor do threads that it starts.
pub fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are ours; the first call fills one, the second reads it and fills the other. A
    // thread inherits the mask of the one that starts it.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    let answer = body();
    if blocked == 0 {
        // SAFETY: the set was filled by the successful call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    answer
}

/// Starts a thread that takes no signals: the program's handlers run in the same threads as before.
///
/// # Errors
/// If no thread can be started.
pub fn spawn_without_signals(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    without_signals(|| std::thread::Builder::new().name(name.into()).spawn(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_known() {
        // Rust programs start with SIGPIPE ignored.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
        assert!(!is_ignored(-1));
    }

    #[test]
    fn a_signal_is_read_and_kills_nobody() {
        // In a thread of its own, to which the signal is directed: the others do not block it.
        std::thread::spawn(|| {
            let signals = Signals::new(&[libc::SIGUSR1]).expect("a signal");
            assert_eq!(signals.next().expect("readable"), None);
            // SAFETY: directs a signal, blocked here, to this very thread.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            assert_eq!(signals.next().expect("readable"), Some(libc::SIGUSR1));
            assert_eq!(signals.next().expect("readable"), None);
            assert!(Signals::new(&[-1]).is_err());
            // The shell is ended by the signal if it is unblocked, and exits with 3 if it is blocked.
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "kill -USR1 $$; exit 3"]);
            assert_eq!(shell.status().expect("a shell").code(), Some(3));
            unblock_in_child(&mut shell, &[libc::SIGUSR1]).expect("a signal");
            let status = shell.status().expect("a shell");
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&status),
                Some(libc::SIGUSR1)
            );
        })
        .join()
        .expect("no panic");
    }
}
