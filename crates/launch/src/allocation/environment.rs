//! Scheduler environment: the variables, files and commands of a process, as far as allocations need them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::Access;

use crate::mapping;

/// Largest file that lists hosts.
const LONGEST: u64 = 16 << 20;

/// A process's view of its environment.
pub trait SchedulerEnvironment {
    /// The value of a variable; `None` also for an empty one.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    fn file(&self, path: &str) -> io::Result<String>;

    /// Whether there is a command of this name.
    fn has_command(&self, name: &str) -> bool;

    /// The output of a command.
    ///
    /// # Errors
    /// If it cannot be started or fails, with its error output.
    fn output(&self, words: &[&str]) -> io::Result<String>;

    /// Whether a host of this name is the one where we are.
    fn is_here(&self, name: &str) -> bool;
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisProcess;

impl SchedulerEnvironment for ThisProcess {
    fn variable(&self, name: &str) -> Option<String> {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    }

    fn file(&self, path: &str) -> io::Result<String> {
        if std::fs::metadata(path)?.len() > LONGEST {
            return Err(io::Error::other("it is too long for a list of hosts"));
        }
        let bytes = std::fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn has_command(&self, name: &str) -> bool {
        if name.contains('/') {
            return rustix::fs::access(Path::new(name), Access::EXEC_OK).is_ok();
        }
        let search = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&search)
            .any(|folder| rustix::fs::access(folder.join(name), Access::EXEC_OK).is_ok())
    }

    fn output(&self, words: &[&str]) -> io::Result<String> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let ended = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            return Err(io::Error::other(match last {
                Some(line) => line.trim().to_owned(),
                None => ended.status.to_string(),
            }));
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    fn is_here(&self, name: &str) -> bool {
        let node = self.variable(super::slurm::THIS_NODE);
        mapping::is_here(name)
            || node.is_some_and(|node| node == name)
            || super::same_host(name, &crate::bootstrap::name_of_this_host())
    }
}
