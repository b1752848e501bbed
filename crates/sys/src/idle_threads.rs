//! Idle threads: the threads of this process that sleep until another thread of the process wakes them, as
//! the kernel shows it.
//!
//! ```text
//!   /proc/self/task/ID/syscall   futex, to wait, without a limit, on a word that only this process can wake sleepers of
//!   /proc/self/task/ID/status    how often it was switched out: the same number, the same sleep
//!   /proc/self/status            no handler of a signal that could wake it instead
//! ```
//!
//! Threads that wait for a mutex, a condition variable, a semaphore or the end of a thread sleep like this. Threads that wait for a
//! time, a file, a socket, a signal, another process or a device do not, nor do threads that compute. A thread that cannot be
//! examined is not idle.

use std::fs;

use crate::process;

/// Bits of a futex operation.
const OPERATION: u64 = 0x7f;
const PRIVATE: u64 = 128;
/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`.
const WAITS: [u64; 2] = [0, 9];

/// Signals whose handlers wake no thread that could not be woken otherwise: faults of the thread itself; what threads of the C
/// library tell each other; `SIGINT`, by which a user ends a job.
const HARMLESS: [i32; 10] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGINT,
    32,
    33,
];

/// Looks at threads of this process, one after the other.
#[derive(Debug)]
pub struct IdleThreads {
    /// A signal may wake any of them.
    disturbed: bool,
    /// Memory of this process alone, not backed by a file.
    own: Option<Vec<std::ops::Range<u64>>>,
}

impl IdleThreads {
    /// Begins.
    #[must_use]
    pub fn look() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            disturbed: may_be_disturbed(&status),
            own: None,
        }
    }

    /// How often the thread with this id was switched out, if it is idle.
    pub fn switches(&mut self, thread: u32) -> Option<u64> {
        if self.disturbed {
            return None;
        }
        let task = format!("/proc/self/task/{thread}");
        // The count first: a thread that has slept since then has the same count.
        let status = fs::read_to_string(format!("{task}/status")).ok()?;
        let call = fs::read_to_string(format!("{task}/syscall")).ok()?;
        let futex = awaited_futex(&call)?;
        let is_own = futex.is_private || {
            let own = self.own.get_or_insert_with(|| {
                own_memory(&fs::read_to_string("/proc/self/maps").unwrap_or_default())
            });
            own.iter().any(|range| range.contains(&futex.address))
        };
        is_own.then(|| switches(&status)).flatten()
    }
}

/// Whether a thread of this process waits for a futex, perhaps only for a time.
#[must_use]
pub fn waits_for_futex(thread: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
    let number = |call: String| call.split_whitespace().next()?.parse::<i64>().ok();
    call.ok().and_then(number) == Some(libc::SYS_futex)
}

/// Runs something that starts threads, and gives them this name, of at most 15 bytes, to mark them as not belonging to the program. If
/// another thread has run in that time, which may also have started some, none is named.
pub fn naming_started<T>(name: &str, body: impl FnOnce() -> T) -> T {
    let before = others_at_rest();
    let answer = body();
    let Some(before) = before else {
        return answer;
    };
    let mut idle = IdleThreads::look();
    let mut known = before.iter();
    if known.all(|(id, switches)| idle.switches(*id) == Some(*switches)) {
        for id in others() {
            if before.iter().all(|(known, _)| *known != id) {
                // A thread without the name counts as the program's, which causes no false report.
                let _ = fs::write(format!("/proc/self/task/{id}/comm"), name);
            }
        }
    }
    answer
}

/// The threads of this process except the calling one.
fn others() -> Vec<u32> {
    let all = process::threads().unwrap_or_default().into_iter();
    let me = process::thread_id();
    all.map(|(id, _)| id).filter(|id| *id != me).collect()
}

/// … with how often each was switched out, if all of them are idle.
fn others_at_rest() -> Option<Vec<(u32, u64)>> {
    let mut idle = IdleThreads::look();
    let others = others().into_iter();
    others.map(|id| Some((id, idle.switches(id)?))).collect()
}

/// A futex that a thread waits for without a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AwaitedFutex {
    address: u64,
    is_private: bool,
}

fn awaited_futex(call: &str) -> Option<AwaitedFutex> {
    let mut words = call.split_whitespace();
    if words.next()?.parse::<i64>().ok()? != libc::SYS_futex {
        return None;
    }
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (address, operation, _expected, limit) = (number()?, number()?, number()?, number()?);
    (WAITS.contains(&(operation & OPERATION)) && limit == 0).then_some(AwaitedFutex {
        address,
        is_private: operation & PRIVATE != 0,
    })
}

/// Private mappings without a file: a futex there is known to this process alone, whatever the operation
/// says.
fn own_memory(maps: &str) -> Vec<std::ops::Range<u64>> {
    let lines = maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (first, last) = words.next()?.split_once('-')?;
        let is_private = words.next()?.ends_with('p');
        let (_offset, _device, inode) = (words.next()?, words.next()?, words.next()?);
        let range = u64::from_str_radix(first, 16).ok()?..u64::from_str_radix(last, 16).ok()?;
        (is_private && inode == "0").then_some(range)
    });
    lines.collect()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let found = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(found.strip_prefix(':')?.trim())
}

fn switches(status: &str) -> Option<u64> {
    let count = |name| field(status, name)?.parse::<u64>().ok();
    Some(count("voluntary_ctxt_switches")? + count("nonvoluntary_ctxt_switches")?)
}

fn may_be_disturbed(status: &str) -> bool {
    let caught = field(status, "SigCgt").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let harmless = HARMLESS
        .iter()
        .fold(0_u64, |mask, signal| mask | 1 << (signal - 1));
    caught.is_none_or(|caught| caught & !harmless != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_wait_without_a_limit_counts() {
        let of = |operation: u64, limit: u64| {
            let call = format!(
                "{} 0x7f00 {operation:#x} 0x1 {limit:#x} 0x0 0x0 0x1 0x2",
                libc::SYS_futex
            );
            awaited_futex(&call)
        };
        let found = |is_private| {
            Some(AwaitedFutex {
                address: 0x7f00,
                is_private,
            })
        };
        assert_eq!(of(0x80, 0), found(true));
        assert_eq!(of(0x189, 0), found(true));
        assert_eq!(of(0x109, 0), found(false));
        for (operation, limit) in [(0x80, 0x1000), (0x189, 0x1000), (0x81, 0), (0x86, 0)] {
            assert_eq!(of(operation, limit), None, "{operation:#x}");
        }
        assert_eq!(awaited_futex("running\n"), None);
        assert_eq!(awaited_futex("0 0x0 0x7f00 0x1 0x0 0x0 0x0 0x1 0x2"), None);
        assert_eq!(awaited_futex("-1 0x1 0x2"), None);
    }

    #[test]
    fn memory_that_others_may_have_is_not_own() {
        let maps = "1000-2000 rw-p 00000000 00:00 0 \n2000-3000 rw-s 00000000 00:01 7 /memfd:x (deleted)\n\
                    3000-4000 rw-p 00000000 08:01 9 /lib/a.so\n4000-5000 rw-p 00000000 00:00 0 [stack]\n";
        assert_eq!(own_memory(maps), [0x1000..0x2000, 0x4000..0x5000]);
    }

    #[test]
    fn handlers_of_other_signals_disturb() {
        assert!(!may_be_disturbed("SigCgt:\t0000000180000002\n"));
        assert!(may_be_disturbed("SigCgt:\t0000000000002000\n"));
        assert!(may_be_disturbed(""));
    }

    /// Waits until a thread appears idle, or not, as expected: the kernel shows it with a delay.
    fn comes_to(thread: u32, idle: bool) -> Option<u64> {
        loop {
            let found = IdleThreads::look().switches(thread);
            if found.is_some() == idle {
                return found;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_wait_for_a_thread_is_idle_and_a_wait_for_a_time_is_not() {
        let (tell, told) = channel();
        let (go, gone) = channel::<()>();
        let (there, end) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let theirs = (Arc::clone(&there), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            tell.send(crate::process::thread_id())
                .expect("somebody listens");
            gone.recv().expect("it comes");
            theirs.0.wait();
            theirs.1.wait();
        });
        let id: u32 = told.recv().expect("it comes");
        // A handler of the test runner makes no thread idle.
        if IdleThreads::look().disturbed {
            return;
        }
        let before = comes_to(id, true);
        assert_eq!(IdleThreads::look().switches(id), before);
        go.send(()).expect("it listens");
        there.wait();
        let after = comes_to(id, true);
        assert!(after > before, "{after:?} {before:?}");
        end.wait();
        thread.join().expect("no panic");
        assert_eq!(IdleThreads::look().switches(id), None);

        let (tell, told) = channel();
        let (go, gone) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(crate::process::thread_id())
                .expect("somebody listens");
            while gone.recv_timeout(Duration::from_secs(1000)).is_err() {}
        });
        let id: u32 = told.recv().expect("it comes");
        // It does not matter whether it sleeps by now.
        for _ in 0..50 {
            assert_eq!(IdleThreads::look().switches(id), None);
            std::thread::yield_now();
        }
        go.send(()).expect("it listens");
        thread.join().expect("no panic");
    }
}
