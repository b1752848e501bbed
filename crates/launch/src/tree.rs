//! Process tree: all processes that descend from this one, and their end.
//!
//! This process adopts the orphans among its descendants (`adopt_orphans`), so all processes that they start, however
//! many of them die in between, stay below it. A descendant is therefore found by following parents through `/proc`, and
//! once found stays a descendant. A process is named by its id *and* its start time, and signalled through a handle, so
//! that a reused id is not hit. If the kernel refuses handles (a filter of system calls) only the start time is compared,
//! right before.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use weft_sys::poll::{self, Interest, PollFd};
use weft_sys::process::{self, ProcessHandle, SIGKILL};

/// A process, as `/proc` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Process {
    id: u32,
    parent: u32,
    start: u64,
    /// It has ended and only waits to be fetched by its parent.
    ended: bool,
}

impl Process {
    /// Reads the line of `/proc/ID/stat`.
    fn parse(line: &str) -> Option<Self> {
        let id = line.split_once(' ')?.0.parse().ok()?;
        // The name in brackets may hold anything, brackets and spaces included.
        let mut fields = line[line.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(22 - 5)?.parse().ok()?;
        Some(Self {
            id,
            parent,
            start,
            ended: matches!(state, "Z" | "X" | "x"),
        })
    }

    fn read(id: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// A handle of this very process; `None` if it has ended.
    fn handle(&self) -> Option<Reached> {
        let handle = Reached::open(self.id)?;
        // The handle was opened by number: make sure that the number still meant the same process.
        let now = Self::read(self.id)?;
        (now.start == self.start).then_some(handle)
    }
}

/// A process that can be signalled.
enum Reached {
    /// By a handle, which means this process and no other.
    Handle(ProcessHandle),
    /// By its number, where there are no handles.
    Number(u32),
}

impl Reached {
    /// `None` if there is no such process.
    fn open(id: u32) -> Option<Self> {
        match ProcessHandle::open(id) {
            Ok(handle) => Some(Self::Handle(handle)),
            Err(error) if is_refusal(&error) => Some(Self::Number(id)),
            Err(_) => None,
        }
    }

    fn signal(&self, number: i32) -> std::io::Result<()> {
        match self {
            // The kernel may have the one call and not the other.
            Self::Handle(handle) => match handle.signal(number) {
                Err(error) if is_refusal(&error) => process::signal(handle.id(), number),
                done => done,
            },
            Self::Number(id) => process::signal(*id, number),
        }
    }

    fn handle(&self) -> Option<&ProcessHandle> {
        match self {
            Self::Handle(handle) => Some(handle),
            Self::Number(_) => None,
        }
    }
}

/// Whether a call is forbidden, or not known.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    [ErrorKind::PermissionDenied, ErrorKind::Unsupported].contains(&error.kind())
}

/// Everything below `root` that has not ended, children before grandchildren.
fn descendants(root: u32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for entry in entries.flatten() {
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(found) = id.and_then(Process::read) {
            children.entry(found.parent).or_default().push(found);
        }
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut level = vec![root];
    while !level.is_empty() {
        let below: Vec<Process> = level
            .iter()
            .flat_map(|id| children.remove(id).unwrap_or_default())
            .collect();
        level = below
            .iter()
            .map(|process| process.id)
            .filter(|id| seen.insert(*id))
            .collect();
        found.extend(below.into_iter().filter(|process| !process.ended));
    }
    found
}

/// Whether `/proc` numbers processes as we do: not so if it belongs to another PID namespace.
fn proc_is_ours() -> bool {
    let link = fs::read_link("/proc/self");
    link.is_ok_and(|target| target.to_str() == Some(&process::id().to_string()))
}

/// Sends a signal to everything that descends from us. `known` are children of ours that were not
/// fetched yet: all that can be reached where `/proc` is of no use.
pub fn signal(number: i32, known: &[u32]) {
    let found = if proc_is_ours() {
        descendants(process::id())
    } else {
        Vec::new()
    };
    for process in &found {
        if let Some(handle) = process.handle() {
            // It may have ended meanwhile, or belong to somebody else by now (a program that changes
            // its user): nothing to be done about either.
            let _ = handle.signal(number);
        }
    }
    if found.is_empty() {
        for id in known {
            let _ = process::signal(*id, number);
        }
    }
}

/// Sends a signal to these children of ours, which were not fetched yet, and to what descends from them.
pub fn signal_below(number: i32, children: &[u32]) {
    let found: Vec<Process> = match proc_is_ours() {
        true => children.iter().flat_map(|id| descendants(*id)).collect(),
        false => Vec::new(),
    };
    for process in found {
        if let Some(handle) = process.handle() {
            let _ = handle.signal(number);
        }
    }
    for id in children {
        let _ = process::signal(*id, number);
    }
}

/// Ends everything that descends from us, at most for the limit. Children are fetched, and shown to
/// `fetched`. True if nothing is left.
pub fn end(known: &[u32], limit: Duration, mut fetched: impl FnMut(u32, ExitStatus)) -> bool {
    let deadline = Instant::now() + limit;
    let ours = proc_is_ours();
    loop {
        while let Ok(Some((child, status))) = process::reap() {
            fetched(child, status);
        }
        if !has_children() {
            return true;
        }
        let mut handles: Vec<Reached> = if ours {
            descendants(process::id())
                .iter()
                .filter_map(Process::handle)
                .collect()
        } else {
            known.iter().filter_map(|id| Reached::open(*id)).collect()
        };
        // A process that we may not signal (a program of another user) must not keep us from the others.
        handles.retain(|handle| handle.signal(SIGKILL).is_ok());
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Until one of them has ended; there may be new ones, so not for long.
        let mut entries: Vec<_> = handles
            .iter()
            .filter_map(Reached::handle)
            .map(|handle| PollFd::new(handle, Interest::Read))
            .collect();
        let pause = Duration::from_millis(if entries.is_empty() { 2 } else { 20 });
        let _ = poll::wait(&mut entries, Some(pause.min(left)));
    }
}

/// Whether there are children, ended ones included. As all orphans come to us: whether there is
/// anything below us at all.
pub fn has_children() -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn names_with_brackets_are_read() {
        let rest = "1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let process = Process::parse(&format!("42 (a) S (b) 7) Z 5 {rest}")).expect("a line");
        let expected = Process {
            id: 42,
            parent: 5,
            start: 777,
            ended: true,
        };
        assert_eq!(process, expected);
        let us = Process::read(process::id()).expect("we live");
        assert_eq!(Some(us.start), process::start_time(us.id));
        assert_eq!(Process::parse(""), None);
        assert_eq!(Process::parse("42 (a"), None);
    }

    #[test]
    fn grandchildren_are_found_below_their_ancestor_only() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo started; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("readable");
        let all = descendants(process::id());
        let direct = all
            .iter()
            .find(|process| process.id == child.id())
            .expect("our child");
        let inner = descendants(child.id());
        assert_eq!(inner.len(), 1);
        assert_eq!(
            (inner[0].parent, direct.parent),
            (child.id(), process::id())
        );
        assert!(all.contains(&inner[0]) && has_children());
        let other = Process {
            start: inner[0].start + 1,
            ..inner[0]
        };
        assert!(
            other.handle().is_none(),
            "another process by the same number"
        );
        inner[0]
            .handle()
            .expect("it lives")
            .signal(SIGKILL)
            .expect("ours");
        child.wait().expect("ours");
    }
}
