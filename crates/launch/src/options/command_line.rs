//! Command line: the requests, with a default for each one that is missing. [`Table::read`](super::Table::read) makes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::OutputRequest;
use crate::allocation::SchedulerAllocation;
use crate::binding::BindingRequest;
use crate::mapping::Allocation;
use crate::profile::ProfileRequest;

/// Variables that a program inherits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Inherit {
    /// All of the launcher's.
    #[default]
    All,
    /// These.
    Only(Vec<OsString>),
}

/// The reader of the launcher's standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Input {
    /// Rank 0.
    #[default]
    First,
    /// No rank.
    Nobody,
}

/// Effect of the death of a process on its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDeath {
    /// The job ends.
    #[default]
    End,
    /// The others are told and go on.
    Report,
    /// The others are told and go on, and a process is started in its place.
    Restart,
}

/// Reaction to a job in which no rank can ever go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDeadlock {
    /// It is reported, and the job ends.
    #[default]
    End,
    /// It is reported, and the processes are stopped and left there, for a debugger.
    Stop,
    /// Deadlocks are not searched for.
    Ignore,
}

/// One program of the command line, between two `:`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramLine {
    /// Number of ranks; `None` if not given.
    pub ranks: Option<u32>,
    /// The folder in which it runs; `None` for the current one.
    pub folder: Option<PathBuf>,
    /// Folders in which it is looked up before those of the search path.
    pub search: Option<OsString>,
    /// The variables that it inherits.
    pub inherit: Inherit,
    /// Variables set for it, in order.
    pub variables: Vec<(OsString, OsString)>,
    /// The program as it was written, and its arguments.
    pub words: Vec<OsString>,
}

/// The requests of a command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandLine {
    /// The programs.
    pub programs: Vec<ProgramLine>,
    /// Whether lines of output begin with the rank.
    pub tags: bool,
    /// Output of the ranks.
    pub output: OutputRequest,
    /// After which time the job is ended.
    pub timeout: Option<Duration>,
    /// Effect of the death of a process.
    pub on_death: OnDeath,
    /// Reaction to a deadlock.
    pub on_deadlock: OnDeadlock,
    /// Most processes that may run, including those that are started from within programs; `None` if not given.
    pub universe: Option<u32>,
    /// The reader of standard input.
    pub input: Input,
    /// Output of the ranks' profile.
    pub profile: ProfileRequest,
    /// Whether options that are ignored are not mentioned.
    pub quiet: bool,
    /// Whether to print what is started.
    pub verbose: bool,
    /// Whether to print how each rank ended.
    pub exit_codes: bool,
    /// Help was asked for; nothing else counts.
    pub help: bool,
    /// The version was asked for; nothing else counts.
    pub version: bool,
    /// Options that are ignored, with reason: one line each.
    pub ignored: Vec<String>,
    /// On which cores of their hosts ranks run.
    pub binding: BindingRequest,
    /// Ranks are dealt to hosts one after the other.
    pub cyclic: bool,
    /// The hosts that its ranks get.
    pub allocation: Allocation,
    /// The allocation of a scheduler that they are of.
    pub origin: Option<SchedulerAllocation>,
    /// After so long without a word the other side of a connection between hosts is dead.
    pub heartbeat: Option<Duration>,
}
