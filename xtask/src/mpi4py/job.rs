//! One `mpiexec` run over many test files, watched until it ends or has to be ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::installation::Installation;
use super::record::Records;

/// How long a run may stand still once a test has failed on one rank and the ranks are apart: the others
/// may wait for it.
const STILL_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What to run, and for how long.
pub struct Job<'a> {
    /// With what.
    pub installation: &'a Installation,
    /// The program of each rank.
    pub program: &'a Path,
    /// How many ranks.
    pub ranks: u32,
    /// The test files, in order.
    pub files: &'a [String],
    /// Patterns of tests to leave out.
    pub excluded: &'a [String],
    /// Where its records and its output go; endings are added.
    pub log: PathBuf,
    /// For one test.
    pub test_limit: Duration,
    /// For the whole run.
    pub limit: Duration,
}

/// Why a run ended.
pub enum End {
    /// By itself.
    Exited(ExitStatus),
    /// By us, because all ranks have ended a file with failures: what follows starts afresh.
    AfterFailures,
    /// By us, because no rank went on for so long.
    Still(Duration),
    /// By us, because the whole run took too long.
    Limit,
}

impl Job<'_> {
    /// Where what the ranks print goes.
    pub fn output(&self) -> PathBuf {
        with_ending(&self.log, "out")
    }

    /// Runs it; `finished` is called once for each file that all ranks have ended.
    pub fn run(&self, mut finished: impl FnMut(&Records, &str)) -> Result<(Records, End)> {
        for rank in 0..self.ranks {
            // A record that an earlier run left would be taken for one of this.
            let _ = std::fs::remove_file(with_ending(&self.log, &rank.to_string()));
            let _ = std::fs::remove_file(with_ending(&self.log, &format!("{rank}.trace")));
        }
        let patterns = with_ending(&self.log, "excluded");
        std::fs::write(&patterns, self.excluded.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", patterns.display()))?;
        let mut command = self.installation.mpiexec(self.ranks);
        command
            .arg(self.program)
            .arg(&self.installation.suite)
            .arg(&self.log)
            .arg(self.test_limit.as_secs().to_string())
            .arg(&patterns)
            .args(self.files);
        let mut child = start(&mut command, &self.output())?;
        let mut records = Records::new(&self.log, self.ranks);
        let begun = Instant::now();
        let mut files = self.files.iter().peekable();
        let mut exited = None;
        let end = loop {
            exited = exited.or(child.try_wait().context("cannot wait for mpiexec")?);
            records.read();
            let mut failures = false;
            while let Some(file) = files.next_if(|file| records.is_done(file)) {
                finished(&records, file);
                failures = records.has_failed(file);
                if failures {
                    break;
                }
            }
            if failures {
                break End::AfterFailures;
            }
            if let Some(status) = exited {
                break End::Exited(status);
            }
            let failed = files
                .peek()
                .is_some_and(|file| records.has_failed(file) && records.is_apart());
            // The rank's own watchdog, which writes where it is, comes first.
            let patience = if failed {
                STILL_AFTER_FAILURE
            } else {
                self.test_limit + Duration::from_secs(2)
            };
            if records.heard.elapsed() > patience {
                break End::Still(patience);
            }
            if begun.elapsed() > self.limit {
                break End::Limit;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        if exited.is_none() {
            stop(&mut child);
        }
        Ok((records, end))
    }
}

/// A path with `.ending` behind it.
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}.{ending}", path.display()))
}

/// Runs a command to its end, or ends it after `limit`; its output goes to `output`.
pub fn run_within(
    command: &mut Command,
    output: &Path,
    limit: Duration,
) -> Result<Option<ExitStatus>> {
    let mut child = start(command, output)?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for mpiexec")? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            stop(&mut child);
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The last lines of a file, for a message.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Starts a command whose output goes to a file. It stays in our process group: what ends us at the
/// terminal ends it too.
fn start(command: &mut Command, output: &Path) -> Result<Child> {
    let file =
        File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    command
        .stdout(file.try_clone().context("cannot duplicate a descriptor")?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))
}

/// Ends a launcher, politely first; that its ranks end with it, however it ends, is its own promise.
fn stop(child: &mut Child) {
    let _ = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
