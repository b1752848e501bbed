//! Profile of a job: where the time of its ranks goes (`mpiexec --profile`), and when they did what (`mpiexec --timeline`).
//!
//! ```text
//!   rank ── writes ──► memory file ◄── reads, when the rank has ended ── supervisor or agent
//!                                                                          │ RankRecord
//!                                     head of the job ◄────── link ────────┘
//!                                       ├─► summary ──► table, JSON
//!                                       └─► timeline: JSON of trace events, for Perfetto
//! ```
//!
//! A memory file has no name and outlives the rank however that ended, so an aborted or killed job has a profile like any
//! other.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | the layout of the memory; the other side is `weft_abi::profile` |
//! | [`record`] | the data that one rank has written, read and checked |
//! | [`summary`] | all ranks together, by call and place |
//! | [`table`] | the summary as text |
//! | [`estimate`] | values estimated for calls that were left out |
//! | [`arrivals`] | which ranks came last to collectives |
//! | [`messages`] | which receive belongs to which send |
//! | [`timeline`] | the file for Perfetto |

pub mod arrivals;
pub mod estimate;
pub mod layout;
pub mod messages;
pub mod record;
pub mod summary;
pub mod table;
pub mod timeline;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use weft_atomic::AtomicU64;
use weft_sys::{Mapping, MemoryFile, descriptor};

use crate::bootstrap::Names;

pub use record::{Clock, Moment, RankRecord};
use summary::Summary;

/// The variable that tells ranks what to record.
pub const VARIABLE: &str = "WEFT_JOB_PROFILE";
/// Its value for a table …
pub const TABLE: &str = "table";
/// … and for a timeline, which has what a table needs, too.
pub const TIMELINE: &str = "timeline";
/// Suffix if each call is to be recorded, however many there are.
const EACH: &str = "-each";

/// Output of the profile of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProfileRequest {
    /// A table: into this file, or to standard error.
    pub table: Option<Option<PathBuf>>,
    /// A timeline, into this file.
    pub timeline: Option<PathBuf>,
    /// Whether to record each call, however many there are.
    pub each: bool,
}

impl ProfileRequest {
    /// Whether there is any output.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.table.is_some() || self.timeline.is_some()
    }

    /// The value for the ranks.
    #[must_use]
    pub fn variable(&self) -> Option<(OsString, OsString)> {
        let value = match self {
            Self {
                timeline: Some(_), ..
            } => TIMELINE,
            Self { table: Some(_), .. } => TABLE,
            _ => return None,
        };
        let each = if self.each { EACH } else { "" };
        Some((VARIABLE.into(), format!("{value}{each}").into()))
    }

    /// Creates the files, so that a file that cannot be written is an error at the start of the job, not at its end.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let files = self.table.iter().flatten().chain(&self.timeline);
        for file in files {
            File::create(file).map_err(|error| {
                format!(
                    "the profile cannot be written to {}: {error}; name another file",
                    file.display()
                )
            })?;
        }
        Ok(())
    }

    /// Writes the requested output; returns lines for the user, and what could not be written, with the reason.
    #[must_use]
    pub fn write(&self, mut records: Vec<RankRecord>) -> (Vec<String>, Vec<(String, String)>) {
        let (mut lines, mut lost) = (Vec::new(), Vec::new());
        let not_written = |what: &str, file: &Path, error: io::Error| {
            (format!("{what} ({})", file.display()), error.to_string())
        };
        records.sort_by_key(|record| record.rank);
        if records.is_empty() {
            lines.push(
                "there is no profile: no rank has initialised MPI by Weft's libmpi_abi (programs in Rust that use weft::mpi do without)"
                    .to_owned(),
            );
        }
        messages::align(&mut records);
        if let Some(file) = &self.timeline {
            let result = File::create(file).and_then(|file| {
                let mut out = BufWriter::new(file);
                let told = timeline::write(&mut out, &records)?;
                out.flush().map(|()| told)
            });
            match result {
                Ok(told) => lines.push(told.line(file)),
                Err(error) => lost.push(not_written("the timeline", file, error)),
            }
        }
        if let Some(file) = &self.table {
            let summary = Summary::of(&records);
            match file {
                None if records.is_empty() => {}
                None => lines.push(table::text(&summary)),
                Some(file) => {
                    let json = file.extension() == Some(OsStr::new("json"));
                    let text = match json {
                        true => serde_json::to_string_pretty(&summary).unwrap_or_default(),
                        false => table::text(&summary),
                    };
                    match std::fs::write(file, text + "\n") {
                        Ok(()) => {
                            lines.push(format!("the profile is in {}", file.display()));
                        }
                        Err(error) => lost.push(not_written("the profile", file, error)),
                    }
                }
            }
        }
        (lines, lost)
    }
}

/// The memory of one rank's profile.
#[derive(Debug)]
pub struct ProfileMemory {
    file: MemoryFile,
    /// Whether it has room for events.
    pub timeline: bool,
    /// Whether each call is recorded.
    pub each: bool,
}

impl ProfileMemory {
    /// The memory for a rank with this environment; `None` if it records nothing.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn of(environment: &BTreeMap<OsString, OsString>) -> io::Result<Option<Self>> {
        let Some(value) = environment.get(OsStr::new(VARIABLE)) else {
            return Ok(None);
        };
        let value = value.to_string_lossy();
        let timeline = value.starts_with(TIMELINE);
        let file = MemoryFile::create("weft-profile", layout::bytes(timeline))?;
        Ok(Some(Self {
            file,
            timeline,
            each: value.ends_with(EACH),
        }))
    }

    /// A descriptor of it for the rank.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.file.share().map(MemoryFile::into_descriptor)
    }

    /// The memory of this process, which a launcher has started; `None` if it records nothing.
    #[must_use]
    pub fn inherited() -> Option<Self> {
        let number = std::env::var(Names::PROFILE_DESCRIPTOR).ok()?;
        let file = MemoryFile::adopt(descriptor::inherited(number.parse().ok()?).ok()?).ok()?;
        let kinds = [false, true];
        let found = kinds
            .into_iter()
            .find(|timeline| file.len() == layout::bytes(*timeline));
        Some(Self {
            timeline: found?,
            each: std::env::var(VARIABLE).is_ok_and(|value| value.ends_with(EACH)),
            file,
        })
    }

    /// Maps it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map(&self) -> io::Result<Mapping> {
        self.file.map()
    }

    /// Places the rows of calls of the first thread at these words.
    ///
    /// # Errors
    /// If they are not whole pages, or not of the right number, or the kernel refuses.
    pub fn map_rows_of_first(&self, words: &'static [AtomicU64]) -> io::Result<()> {
        if words.len() != layout::CALL_ROWS * layout::call::WORDS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file.map_onto(layout::CALL_ROWS_OF_FIRST, words)
    }

    /// The data that a rank has written; `None` if it has not begun.
    #[must_use]
    pub fn read(&self, rank: u32, clock: &Clock) -> Option<RankRecord> {
        record::read(&self.file, self.timeline, rank, clock)
    }
}
