//! Processes with a time limit: launchers of jobs.

use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use weft_sys::process::{child_dies_with_us, signal_group};

/// SIGKILL.
pub(crate) const KILL: i32 = 9;
/// SIGTERM: a launcher ends its ranks, too.
pub(crate) const TERMINATE: i32 = 15;

/// Waits for a process, at most for `limit`; `None` if it still runs.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
            _ => return None,
        }
    }
}

/// Runs a command that must end successfully by itself, in its own process group; returns its time from start
/// to end.
///
/// # Errors
/// If it does not start, ends with another status than 0, or has not ended within the limit: then its process
/// group is killed.
pub(crate) fn timed(mut command: Command, limit: Duration) -> Result<Duration> {
    let log = tempfile::tempfile().context("no temporary file")?;
    command
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    child_dies_with_us(&mut command, TERMINATE);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    // A thread that sleeps in waitpid sees the end at once; a loop of naps would add to the time.
    let (sender, receiver) = std::sync::mpsc::channel();
    let group = child.id();
    std::thread::spawn(move || sender.send(child.wait().map(|status| (status, start.elapsed()))));
    match receiver.recv_timeout(limit) {
        Ok(Ok((status, took))) if status.success() => Ok(took),
        Ok(Ok((status, _))) => bail!("{command:?} ended badly ({status})"),
        Ok(Err(error)) => Err(error).context("waiting for a launcher failed"),
        Err(_) => {
            let _ = signal_group(group, KILL);
            bail!("{command:?} did not end within {limit:?}")
        }
    }
}
