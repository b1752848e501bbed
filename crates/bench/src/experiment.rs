//! Experiment: a value that says what is measured, on which axes, and which cells a run visits.
//!
//! ```text
//! Experiment ── plan(participants, effort) ──> Plan { budget, series } ── each SeriesPlan: series + cells (x, Task)
//! ```
//!
//! A plan does not know time or order; the harness does not know MPI calls. They are joined by the [`Task`]:
//! a question that can be asked repeatedly, each answer being one sample.

use crate::device::Device;
use crate::results::{Chart, Role, Scale};
use std::path::PathBuf;
use std::time::Duration;
use weft_net_testbed::measure::{Measured, Setting};

/// Thoroughness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Everything in three to four minutes: few places, few samples, short ones.
    Quick,
    /// The parameters of the sources.
    Full,
}

impl Effort {
    /// One of two values.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }

    /// The word in `results.json`.
    pub fn word(self) -> &'static str {
        self.pick("quick", "full")
    }
}

/// Origin of an experiment: a source document, or the project itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Mailbox and portal.
    A,
    /// Standard and synchronous send.
    B,
    /// Light-weight threads, hash table, packet pool, OSU latency.
    C,
    /// Blocking and non-blocking, shared memory and network.
    D,
    /// The network system.
    E,
    /// Beyond the sources: the project's own promises.
    Beyond,
}

/// One experiment.
pub struct Experiment {
    /// Name on the command line and in the results.
    pub id: &'static str,
    /// The document that it comes from.
    pub origin: Origin,
    /// One line for people.
    pub title: &'static str,
    /// Label of the x axis, with its unit.
    pub x: &'static str,
    /// Label of the y axis, with its unit.
    pub y: &'static str,
    /// Unit of y alone.
    pub unit: &'static str,
    /// Scales of x and y.
    pub scales: (Scale, Scale),
    /// Whether a smaller y is better.
    pub lower_is_better: bool,
    /// Chart that the page shows at first.
    pub chart: Chart,
    /// Notes for the reader.
    pub notes: &'static [&'static str],
    /// Makes the plan for these participants.
    pub plan: fn(&Participants, Effort) -> Plan,
}

/// One implementation of MPI that takes part.
#[derive(Clone, Debug)]
pub struct MpiImplementation {
    /// Index in the harness.
    pub index: usize,
    /// Index of the same over TCP within a host, if possible.
    pub over_tcp: Option<usize>,
    /// Index of the same with encrypted TCP, if possible.
    pub encrypted: Option<usize>,
    /// Index of the same over libfabric's provider tcp within a host, if possible.
    pub over_libfabric: Option<usize>,
    /// Index of the same with a profile; the next one has a timeline.
    pub recording: Option<usize>,
    /// Index of the same on two hosts, if that way of starting is known.
    pub over_hosts: Option<usize>,
    /// Index of the same without the checks that are on by default, if it has any.
    pub unchecked: Option<usize>,
    /// Its launcher, if that also starts ranks of others.
    pub hydra: Option<PathBuf>,
    /// Name in the legend.
    pub name: String,
    /// Ours or a peer.
    pub role: Role,
}

/// A program that runs one library's component.
#[derive(Clone, Debug)]
pub struct ComponentProgram {
    /// Index in the harness.
    pub index: usize,
    /// `weft`, or the stem of its source in `crates/bench/peers`.
    pub stem: String,
    /// Ours or a peer.
    pub role: Role,
}

/// Participants: implementations of MPI, and programs of single components.
pub struct Participants {
    /// The implementations of MPI that run.
    pub implementations: Vec<MpiImplementation>,
    /// The programs of components that run.
    pub programs: Vec<ComponentProgram>,
    /// Bytes of the largest cache; 0 if unknown.
    pub cache: usize,
    /// Processors that the run may use.
    pub cores: usize,
}

/// Plan of an experiment: its cells, and when to stop.
pub struct Plan {
    /// When to stop.
    pub budget: Budget,
    /// The series.
    pub series: Vec<SeriesPlan>,
    /// Whether no other job may be resident at the same time (shared pages would be counted in part).
    pub alone: bool,
    /// After this time, cells that have a sample get no more.
    pub limit: Option<Duration>,
}

/// When a cell has enough samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The standard error to reach, as a fraction of the mean.
    pub aim: f64,
    /// Fewest samples.
    pub least: usize,
    /// Most samples.
    pub most: usize,
    /// Time that one cell may use in all, once it has the least number of samples.
    pub time: Duration,
    /// Length of one sample, for tasks whose number of iterations is free.
    pub sample: Duration,
    /// Samples taken in one turn.
    pub turn: usize,
    /// Separate launches among which the samples are divided.
    pub launches: u32,
}

/// One series: its place in the legend, and its cells.
pub struct SeriesPlan {
    /// Ours, a peer or a device.
    pub role: Role,
    /// Name of the implementation or device.
    pub subject: String,
    /// The mode or order that varies besides x and the subject; empty if nothing does.
    pub variant: String,
    /// Which of the experiment's plots; empty if there is one.
    pub panel: String,
    /// x and task of each cell.
    pub cells: Vec<(f64, Task)>,
}

/// A job that must be running for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Index in [`Participants`].
    pub implementation: usize,
    /// Number of ranks.
    pub ranks: u32,
    /// Whether it is initialised with MPI_THREAD_MULTIPLE.
    pub multiple: bool,
}

/// Number of operations that make one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// As many as fill the sample's time, found by trial.
    Timed,
    /// Exactly this many, as a source prescribes.
    Exactly(u64),
}

/// Question of one turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// A workload of the measuring program, in a resident job.
    Request {
        /// The job.
        job: JobKey,
        /// Verb and keys of the request, without the numbers of iterations and samples.
        request: String,
        /// Iterations of one sample.
        repeat: Repeat,
        /// From nanoseconds per operation to y.
        convert: Convert,
    },
    /// The same request in two jobs, one right after the other: the time in the first divided by the time in
    /// the second.
    Pair {
        /// The jobs.
        jobs: [JobKey; 2],
        /// As of [`Task::Request`].
        request: String,
    },
    /// The same request, alternately while intruders connect to the ranks' ports and while they do something
    /// else: the first time divided by the second.
    Attacked {
        /// The job.
        job: JobKey,
        /// As of [`Task::Request`].
        request: String,
        /// Connections per second.
        rate: u32,
        /// The action of intruders in the other half of the comparison.
        control: Control,
    },
    /// A loop in the program of a library, over one of its components.
    Program {
        /// Index in [`Participants`].
        program: usize,
        /// Verb and keys of the request, without the number of runs; each run is a sample.
        request: String,
        /// Operations of one sample.
        operations: u64,
        /// From nanoseconds per operation to y.
        convert: Convert,
    },
    /// Threads of this process, without MPI.
    Device {
        /// The means of communication.
        device: Device,
        /// Bytes of a message or copy.
        size: usize,
        /// From nanoseconds per operation to y.
        convert: Convert,
    },
    /// A value that a source has published: nothing is measured.
    Published(f64),
    /// A system of the datapath under load, in this process.
    Net {
        /// The system and its load.
        setting: Box<Setting>,
        /// The figure that is taken.
        metric: Metric,
        /// Length of one sample.
        milliseconds: u64,
    },
    /// Time of `mpiexec` from start to end, with a program that only initialises and finalises.
    Launch {
        /// Index in [`Participants`].
        implementation: usize,
        /// Number of ranks.
        ranks: u32,
    },
    /// Time of a launcher from start to end, for a job of two hosts with four ranks each, in which each rank
    /// receives from every other.
    Form {
        /// Index in [`Participants`].
        implementation: usize,
        /// Launcher and method.
        formation: Formation,
        /// Whether to subtract the time of the same launcher with programs that do nothing, started just
        /// before or after.
        less_launcher: bool,
    },
    /// Proportional set size of every rank of an idle job, in MB.
    Memory {
        /// The job.
        job: JobKey,
    },
    /// Two jobs of one rank each compute at once: the smaller one's share of a core.
    TwoJobs {
        /// Index in [`Participants`].
        implementation: usize,
        /// Length of one sample.
        milliseconds: u64,
    },
}

/// Formation of a job of two hosts: launcher and method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formation {
    /// `weft join` on both, with a token.
    Join,
    /// Our launcher, which reaches each host by a command.
    Hosts,
    /// This launcher of MPICH, which reaches each host by a command.
    Hydra(PathBuf),
    /// The same with programs that do nothing.
    HydraAlone(PathBuf),
}

/// The action of intruders while the job is not attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// They connect at the same rate to a port of their own.
    Elsewhere,
    /// Nothing.
    Nobody,
}

/// One figure of a measurement of the datapath.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// Payload that came back from a client, Mbit/s.
    Rate(usize),
    /// Payload that a client received, Mbit/s.
    Received(usize),
    /// Payload that came back from all clients, Mbit/s.
    Together,
    /// A quantile of a client's round trips, µs.
    RoundTrip(usize, f64),
    /// Processor time of all components, per cent of a core.
    Utilisation,
    /// Processor time of all participants, generator included, per cent of a core.
    Process,
    /// Processor time of all participants for each packet, µs.
    Cost,
    /// Deviation, in per cent, of what a client sent from its promise.
    Deviation(usize, Promise),
    /// Packets that did not come back, per cent.
    Lost,
    /// Busy fraction of a core, per cent.
    Core(usize),
}

/// Promise to a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// This fraction of everything that is sent.
    Share(f64),
    /// This many Mbit/s of payload.
    Rate(f64),
}

impl Metric {
    /// The figure.
    pub fn of(self, found: &Measured) -> f64 {
        match self {
            Metric::Rate(client) => found.rate(client),
            Metric::Received(client) => found.received(client),
            Metric::Together => (0..found.reports.len())
                .map(|client| found.rate(client))
                .sum(),
            Metric::RoundTrip(client, quantile) => found.round_trip(client, quantile),
            Metric::Utilisation => found.utilisation(),
            Metric::Process => 100.0 * found.all / found.seconds,
            Metric::Cost => found.cost(),
            Metric::Lost => found.lost(),
            Metric::Deviation(client, promise) => {
                let all: f64 = (0..found.reports.len()).map(|one| found.rate(one)).sum();
                let due = match promise {
                    Promise::Share(share) => share * all,
                    Promise::Rate(rate) => rate,
                };
                100.0 * (found.rate(client) / due - 1.0).abs()
            }
            Metric::Core(core) => 100.0 * found.cores.get(core).copied().unwrap_or(0.0),
        }
    }
}

/// Conversion of the nanoseconds of one operation to y.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Convert {
    /// ns as they are.
    Nanoseconds,
    /// µs.
    Microseconds,
    /// ms.
    Milliseconds,
    /// Each operation moves this many bytes: MB/s, 10^6 bytes.
    Megabytes(f64),
    /// Each operation moves this many bytes: MiB/s, 2^20 bytes.
    Mebibytes(f64),
    /// Each operation is this many messages: million per second.
    Millions(f64),
    /// Each operation moves this many bytes: Mbit/s with 2^20 bit, as a source defines it.
    BinaryMegabits(f64),
    /// Each operation took the measured ns of processor time out of this many ns: per cent.
    Percent(f64),
}

impl Convert {
    /// Converts one operation's nanoseconds to y.
    pub fn apply(self, nanoseconds: f64) -> f64 {
        match self {
            Convert::Nanoseconds => nanoseconds,
            Convert::Microseconds => nanoseconds / 1e3,
            Convert::Milliseconds => nanoseconds / 1e6,
            Convert::Megabytes(bytes) => bytes * 1e3 / nanoseconds,
            Convert::Mebibytes(bytes) => bytes / f64::from(1 << 20) / (nanoseconds / 1e9),
            Convert::Millions(messages) => messages * 1e3 / nanoseconds,
            Convert::BinaryMegabits(bytes) => {
                8.0 * bytes / f64::from(1 << 20) / (nanoseconds / 1e9)
            }
            Convert::Percent(of) => 100.0 * nanoseconds / of,
        }
    }
}

impl Plan {
    /// The same plan, bounded in total: one launch, the time divided among the cells, and no more turns, once
    /// the time is over, for a cell that has a sample.
    #[must_use]
    pub fn bounded(self, limit: Duration) -> Plan {
        let cells: usize = self.series.iter().map(|series| series.cells.len()).sum();
        let share = limit / u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
        Plan {
            budget: Budget {
                // Below six samples no interval of the median reaches 95 %.
                least: self.budget.least.min(6),
                time: self.budget.time.min(share),
                launches: 1,
                ..self.budget
            },
            limit: Some(limit),
            ..self
        }
    }
}

impl SeriesPlan {
    /// Name in the legend: the subject, and what varies.
    pub fn name(&self) -> String {
        if self.variant.is_empty() {
            self.subject.clone()
        } else {
            format!("{}, {}", self.subject, self.variant)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        assert_eq!(Convert::Microseconds.apply(240.0), 0.24);
        // 1 MiB in 100 µs: 10 485.76 MB/s.
        assert!((Convert::Megabytes(1_048_576.0).apply(100_000.0) - 10_485.76).abs() < 1e-9);
        assert_eq!(Convert::Mebibytes(1_048_576.0).apply(1e9), 1.0);
        assert_eq!(Convert::Millions(64.0).apply(6_400.0), 10.0);
        // The source's formula: 8 * size * samples / (2^20 * (t2 - t1)); 131 072 B in 1 ms.
        assert!((Convert::BinaryMegabits(131_072.0).apply(1e6) - 1000.0).abs() < 1e-9);
        assert_eq!(Convert::Percent(4e9).apply(0.04e9), 1.0);
    }
}
