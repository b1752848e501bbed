//! Outcome of a job: the failure that counts, the exit code, the last line.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::{exit_status, signals};

/// The exit code after a deadlock: the number of the system's error of that name, EDEADLK.
const DEADLOCK: u8 = 35;

/// Why a job did not end well, as far as is known: empty while nothing has failed.
///
/// The first failure counts, whatever follows from it.
#[derive(Debug, Default)]
pub struct Outcome {
    failure: Option<Failure>,
    /// The first death that did not end the job, of a rank that was not restarted.
    survived: Option<Failure>,
    /// The first death that the other ranks were prepared for.
    handled: Option<Failure>,
    /// A rank has ended well.
    ended_well: bool,
}

impl Outcome {
    /// Whether the job has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Notes a failure. The first counts; only the text of an abort is added to what the segment told
    /// before.
    pub fn fail(&mut self, failure: Failure) {
        match (&mut self.failure, failure) {
            (
                Some(Failure::Aborted { rank, text, .. }),
                Failure::Aborted {
                    rank: same,
                    text: more,
                    ..
                },
            ) if *rank == same && text.is_empty() => {
                *text = more;
            }
            (Some(_), _) => {}
            (none, failure) => *none = Some(failure),
        }
    }

    /// Notes a death that does not end the job: it gives the exit code if nothing else fails.
    pub fn survive(&mut self, failure: Failure) {
        self.survived.get_or_insert(failure);
    }

    /// Notes a death that the other ranks were prepared for: it is the failure of the job if none of them ends well.
    pub fn handle(&mut self, failure: Failure) {
        self.handled.get_or_insert(failure);
    }

    /// Notes that a rank has ended well.
    pub fn end_well(&mut self) {
        self.ended_well = true;
    }

    /// The failure of the job.
    fn counts(&self) -> Option<&Failure> {
        let handled = self.handled.as_ref().filter(|_| !self.ended_well);
        match &self.failure {
            // Those that were left have not gone on after all.
            Some(Failure::Ended { .. } | Failure::NotFinalised { .. }) if handled.is_some() => {
                handled
            }
            Some(failure) => Some(failure),
            None => handled,
        }
    }

    /// The rank at fault, if it is one.
    pub fn rank_at_fault(&self) -> Option<u32> {
        self.counts().and_then(Failure::rank)
    }

    /// The exit code of the launcher.
    pub fn code(&self) -> u8 {
        let counts = self.counts().or(self.survived.as_ref());
        counts.map_or(0, Failure::code)
    }

    /// The last line, if the job has failed; see [`Failure::line`].
    pub fn line(&self, place: &str, ended: usize) -> Option<String> {
        Some(self.counts()?.line(place, ended))
    }
}

/// The reason why a job ended before all ranks had ended well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A rank ended with a code other than 0, or by a signal.
    Ended {
        rank: u32,
        status: ExitStatus,
        /// How far it had come.
        progress: Progress,
    },
    /// A rank exited with code 0 between MPI_Init and MPI_Finalize; or ended, if nobody knows how.
    NotFinalised { rank: u32, how_is_known: bool },
    /// A rank exited with code 0 without MPI_Init, while another one has initialised.
    NotInitialised {
        rank: u32,
        other: u32,
        /// It was started from within a program, which waits for it to begin.
        spawned: bool,
    },
    /// A rank called MPI_Abort.
    Aborted { rank: u32, code: i32, text: String },
    /// A rank could not be started.
    NotStarted { rank: u32, reason: String },
    /// What ranks have written could not be passed on.
    OutputLost { stream: String, reason: String },
    /// What the launcher itself was to write into a file, such as a profile, could not be written.
    ReportLost { what: String, reason: String },
    /// What all ranks need is not to be had.
    NotReady { reason: String },
    /// A host cannot be reached, or is lost with its ranks (none, if it never had any).
    HostLost {
        host: String,
        ranks: Vec<u32>,
        reason: String,
    },
    /// No rank can ever go on.
    Deadlock {
        /// Which rank waits for which.
        summary: String,
    },
    /// The time given by the user has passed.
    Timeout { limit: Duration, running: Vec<u32> },
    /// We were told to end.
    Signal { signal: i32 },
}

/// How far a rank has come with MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Progress {
    /// Not initialised.
    #[default]
    Before,
    /// Between MPI_Init and MPI_Finalize.
    Within,
    /// Finalised.
    After,
}

impl Failure {
    /// The exit code of the launcher.
    pub fn code(&self) -> u8 {
        match self {
            Self::Ended { status, .. } => exit_status::code(*status),
            Self::NotFinalised { .. }
            | Self::NotInitialised { .. }
            | Self::OutputLost { .. }
            | Self::ReportLost { .. }
            | Self::NotReady { .. }
            | Self::HostLost { .. } => 1,
            // What a process can tell is the low 8 bits; a failure must not look like success unless
            // success was asked for.
            Self::Aborted { code, .. } => match (code & 0xff) as u8 {
                0 if *code != 0 => 1,
                low => low,
            },
            Self::NotStarted { .. } => 126,
            Self::Deadlock { .. } => DEADLOCK,
            Self::Timeout { .. } => 124,
            Self::Signal { signal } => exit_status::code_of_signal(*signal),
        }
    }

    /// The rank at fault, if it is one.
    fn rank(&self) -> Option<u32> {
        match self {
            Self::Ended { rank, .. }
            | Self::NotFinalised { rank, .. }
            | Self::NotInitialised { rank, .. }
            | Self::Aborted { rank, .. }
            | Self::NotStarted { rank, .. } => Some(*rank),
            Self::OutputLost { .. }
            | Self::ReportLost { .. }
            | Self::NotReady { .. }
            | Self::HostLost { .. }
            | Self::Deadlock { .. }
            | Self::Timeout { .. }
            | Self::Signal { .. } => None,
        }
    }

    /// Of failures that are noticed together: the one that more likely caused the other. Less is earlier.
    pub fn order(&self) -> u32 {
        match self {
            Self::Aborted { .. } => 0,
            Self::Ended { status, .. } if status.signal().is_some() => 1,
            Self::Ended { .. } => 2,
            _ => 3,
        }
    }

    /// The last line, without the end of the line. `on` says more about the rank at fault, and where it ran, if that
    /// is worth saying; `ended` other ranks were ended because of it.
    pub fn line(&self, on: &str, ended: usize) -> String {
        let others = match ended {
            0 => String::new(),
            1 => "; 1 other rank was ended".into(),
            ended => format!("; {ended} other ranks were ended"),
        };
        match self {
            Self::Ended {
                rank,
                status,
                progress,
            } => {
                let how = exit_status::describe(*status);
                let when = match progress {
                    Progress::Before => "",
                    Progress::Within => " before MPI_Finalize",
                    Progress::After => " after MPI_Finalize",
                };
                let hint = match status.signal() {
                    Some(libc::SIGKILL) => {
                        " (if nobody killed it, the system may have run out of memory)"
                    }
                    _ => "",
                };
                format!("weft: rank {rank}{on} failed first: {how}{when}{others}{hint}")
            }
            Self::NotFinalised { rank, how_is_known } => {
                let how = match how_is_known {
                    true => "exited with code 0",
                    false => "ended",
                };
                format!(
                    "weft: rank {rank}{on} failed first: {how} after MPI_Init, but without MPI_Finalize{others}"
                )
            }
            Self::NotInitialised {
                rank,
                other,
                spawned,
            } => {
                let remedy = match spawned {
                    true => {
                        " (MPI_Comm_spawn waits until what it starts calls MPI_Init or begins a session; start programs that do neither \
                         by posix_spawn or system)"
                    }
                    false => "",
                };
                format!(
                    "weft: rank {rank}{on} failed first: exited with code 0 without MPI_Init, while rank \
                     {other} has initialised MPI and counts on it{others}{remedy}"
                )
            }
            Self::Aborted { rank, code, text } if text.is_empty() => {
                format!(
                    "weft: rank {rank}{on} failed first: called MPI_Abort with code {code}{others}"
                )
            }
            Self::Aborted { rank, code, text } => {
                format!(
                    "weft: rank {rank}{on} failed first: called MPI_Abort with code {code}: {text}{others}"
                )
            }
            Self::NotStarted { rank, reason } => {
                format!("weft: rank {rank}{on} could not be started: {reason}{others}")
            }
            Self::OutputLost { stream, reason } => format!(
                "weft: {stream} could not be written: {reason}; what the ranks have written there since is lost"
            ),
            Self::ReportLost { what, reason } => {
                format!("weft: {what} could not be written: {reason}")
            }
            Self::NotReady { reason } => format!("weft: {reason}"),
            Self::HostLost {
                host,
                ranks,
                reason,
            } if ranks.is_empty() => {
                format!("weft: host {host} cannot be reached: {reason}{others}")
            }
            Self::HostLost {
                host,
                ranks,
                reason,
            } => {
                let which = list(ranks);
                let was = if ranks.len() == 1 { "was" } else { "were" };
                let which = which.strip_suffix(&format!(" {was}")).unwrap_or(&which);
                format!("weft: host {host} failed first: it is lost with {which}: {reason}{others}")
            }
            Self::Deadlock { summary } => {
                let ranks = match ended {
                    0 => String::new(),
                    1 => "; the rank was ended".into(),
                    ended => format!("; {ended} ranks were ended"),
                };
                format!("weft: ended by a deadlock: {summary}{ranks}")
            }
            Self::Timeout { limit, running } if running.is_empty() => {
                let seconds = limit.as_secs_f64();
                format!(
                    "weft: not all hosts had come within {seconds} s (--timeout); no rank was started"
                )
            }
            Self::Timeout { limit, running } => {
                let seconds = limit.as_secs_f64();
                let which = list(running);
                format!("weft: the job did not end within {seconds} s (--timeout): {which} still running{others}")
                    .replace("; 1 other rank was ended", " and was ended")
                    .replace(&format!("; {ended} other ranks were ended"), " and were ended")
            }
            Self::Signal { signal } => {
                let name = signals::name(*signal);
                let ranks = match ended {
                    0 => String::new(),
                    1 => "; 1 rank was ended".into(),
                    ended => format!("; {ended} ranks were ended"),
                };
                format!("weft: ended by signal {signal} ({name}){ranks}")
            }
        }
    }
}

/// "rank 3 was", "ranks 0, 1, 2 and 9 more were".
fn list(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<_> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match ranks {
        [only] => format!("rank {only} was"),
        _ => format!("ranks {}{more} were", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_finalised(rank: u32) -> Failure {
        Failure::NotFinalised {
            rank,
            how_is_known: true,
        }
    }

    fn ended(raw: i32) -> Failure {
        Failure::Ended {
            rank: 3,
            status: ExitStatus::from_raw(raw),
            progress: Progress::Within,
        }
    }

    #[test]
    fn codes_are_those_of_the_first_failure() {
        let abort = |code| {
            Failure::Aborted {
                rank: 0,
                code,
                text: String::new(),
            }
            .code()
        };
        assert_eq!(ended(3 << 8).code(), 3);
        assert_eq!(ended(libc::SIGSEGV).code(), 139);
        assert_eq!([0, 7, 256, -1, 300].map(abort), [0, 7, 1, 255, 44]);
        assert_eq!(not_finalised(1).code(), 1);
        assert_eq!(
            Failure::Signal {
                signal: libc::SIGINT
            }
            .code(),
            130
        );
    }

    #[test]
    fn losses_that_were_handled_are_no_failure_if_somebody_ends_well() {
        let mut outcome = Outcome::default();
        outcome.handle(ended(libc::SIGKILL));
        outcome.handle(ended(3 << 8));
        assert!(!outcome.has_failed());
        let line = outcome.line("", 0).expect("nobody is left");
        assert!(line.contains("rank 3 failed first"), "{line}");
        assert_eq!((outcome.code(), outcome.rank_at_fault()), (137, Some(3)));
        outcome.fail(not_finalised(1));
        assert_eq!(outcome.code(), 137, "the first counts");
        outcome = Outcome::default();
        outcome.handle(ended(libc::SIGKILL));
        outcome.end_well();
        assert_eq!((outcome.code(), outcome.rank_at_fault()), (0, None));
        assert_eq!(outcome.line("", 0), None);
        outcome.fail(not_finalised(1));
        assert_eq!(outcome.code(), 1);
    }

    #[test]
    fn the_line_names_the_rank_and_the_cause() {
        assert_eq!(
            ended(libc::SIGSEGV).line("", 7),
            "weft: rank 3 failed first: killed by signal 11 (SIGSEGV) before MPI_Finalize; 7 other ranks were ended"
        );
        let abort = Failure::Aborted {
            rank: 2,
            code: 5,
            text: "bad input".into(),
        };
        assert_eq!(
            abort.line("", 1),
            "weft: rank 2 failed first: called MPI_Abort with code 5: bad input; 1 other rank was ended"
        );
        assert!(
            abort
                .line(" on b", 1)
                .starts_with("weft: rank 2 on b failed first: called")
        );
        let lost = |ranks| Failure::HostLost {
            host: "b".into(),
            ranks,
            reason: "the connection was closed".into(),
        };
        assert_eq!(
            lost(vec![2, 3]).line("", 2),
            "weft: host b failed first: it is lost with ranks 2, 3: the connection was closed; 2 other ranks were ended"
        );
        assert_eq!(
            lost(vec![]).line("", 0),
            "weft: host b cannot be reached: the connection was closed"
        );
        let early = Failure::Timeout {
            limit: Duration::from_secs(2),
            running: vec![],
        };
        assert_eq!(
            early.line("", 0),
            "weft: not all hosts had come within 2 s (--timeout); no rank was started"
        );
        let late = Failure::Timeout {
            limit: Duration::from_millis(1500),
            running: vec![0, 2],
        };
        assert_eq!(
            late.line("", 2),
            "weft: the job did not end within 1.5 s (--timeout): ranks 0, 2 were still running and were ended"
        );
    }
}
