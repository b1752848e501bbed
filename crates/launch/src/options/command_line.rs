//! Command line: the requests, with a default for each one that is missing. [`Table::read`](super::Table::read) makes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::OutputRequest;
use crate::allocation::SchedulerAllocation;
use crate::binding::BindingRequest;
use crate::mapping::Allocation;
use crate::profile::ProfileRequest;

/// Which variables a program inherits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Inherit {
    /// All of the launcher's.
    #[default]
    All,
    /// These.
    Only(Vec<OsString>),
}

/// Who reads the launcher's standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Input {
    /// Rank 0.
    #[default]
    First,
    /// Nobody.
    Nobody,
}

/// What the death of a process means to its job.
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

/// What becomes of a job none of whose ranks can ever go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDeadlock {
    /// It is reported, and the job ends.
    #[default]
    End,
    /// It is reported, and the processes are stopped and left there, for a debugger.
    Stop,
    /// Nobody finds out.
    Ignore,
}

/// One program of the command line, between two `:`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramLine {
    /// How many ranks; `None` if it was not said.
    pub ranks: Option<u32>,
    /// Where it runs; `None` for here.
    pub folder: Option<PathBuf>,
    /// Folders in which it is looked for before those of the search path.
    pub search: Option<OsString>,
    /// What it inherits.
    pub inherit: Inherit,
    /// Variables set for it, in order.
    pub variables: Vec<(OsString, OsString)>,
    /// The program as it was written, and its arguments.
    pub words: Vec<OsString>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandLine {
    /// The programs.
    pub programs: Vec<ProgramLine>,
    /// Whether lines of output begin with the rank.
    pub tags: bool,
    /// Where the output of ranks goes.
    pub output: OutputRequest,
    /// After which time the job is ended.
    pub timeout: Option<Duration>,
    /// What the death of a process means.
    pub on_death: OnDeath,
    /// What becomes of a job that is in a deadlock.
    pub on_deadlock: OnDeadlock,
    /// How many processes may run, those included that are started from within programs; `None` if it was not said.
    pub universe: Option<u32>,
    /// Who reads standard input.
    pub input: Input,
    /// What is to be made of the profile of the ranks.
    pub profile: ProfileRequest,
    /// Whether options that are ignored are not mentioned.
    pub quiet: bool,
    /// Whether to tell what is started.
    pub verbose: bool,
    /// Whether to tell how each rank ended.
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
