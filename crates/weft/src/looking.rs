//! Looking at running jobs: `weft ps`, `weft top`, `weft stacks`. What they show is asked of the launcher of the job
//! ([`weft_launch::inspection`]).

pub mod ps;
pub mod stacks;
pub mod top;

use std::path::Path;
use std::process::ExitCode;

use weft_launch::inspection::client::{self, JobSocket, Unseen};
use weft_launch::inspection::protocol::{JobReport, Question};

/// Which job, and how to show it.
#[derive(clap::Args)]
pub struct Selection {
    /// Process id of the job's mpiexec, or the name of its program; not needed if only one job runs.
    job: Option<String>,
}

/// A job was not found, or does not answer; the sentence for the user.
type Failed = String;

impl Selection {
    /// Finds the job, and asks it.
    fn ask(&self, question: Question) -> Result<(JobSocket, JobReport), Failed> {
        let sockets = client::sockets()
            .map_err(|error| format!("the sockets of this host cannot be listed: {error}"))?;
        let (mut reports, mut unseen) = (Vec::new(), Vec::new());
        let seen: Vec<u32> = sockets.iter().map(|socket| socket.supervisor).collect();
        for (socket, answer) in client::ask_all(sockets, Question::Job) {
            match answer {
                Ok(job) if self.is_launcher(&job) => {
                    // No other one is meant: nobody waits for those that are late.
                    reports = vec![(socket, job)];
                    break;
                }
                Ok(job) => reports.push((socket, job)),
                Err(error) if client::has_ended(&error) => {}
                Err(error) => unseen.push(Unseen {
                    supervisor: socket.supervisor,
                    reason: error.to_string(),
                }),
            }
        }
        let names = |job: &JobReport| match &self.job {
            None => true,
            Some(word) => is_called(job, word),
        };
        reports.retain(|(_, job)| names(job));
        match (&reports[..], &self.job) {
            ([(socket, _)], _) => {
                let job = socket.ask(question);
                let job = job.map_err(|error| format!("the job does not answer: {error}"))?;
                Ok((socket.clone(), job))
            }
            ([], word) => {
                let mut text = match word {
                    Some(word) => format!(
                        "no job of yours here has the process id or the program {word}; `weft ps` lists those that run"
                    ),
                    None => "no job of yours runs here".to_owned(),
                };
                unseen.extend(client::unlisted(&seen));
                for unseen in &unseen {
                    text += &format!("\n{}", unseen_line(unseen));
                }
                Err(text)
            }
            (several, _) => {
                let mut numbers: Vec<u32> = several.iter().map(|(_, job)| job.launcher).collect();
                numbers.sort_unstable();
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                Err(format!(
                    "{} jobs run: say which one by its process id: {}",
                    several.len(),
                    numbers.join(", ")
                ))
            }
        }
    }
}

impl Selection {
    /// Whether it names the launcher of this job.
    fn is_launcher(&self, job: &JobReport) -> bool {
        let number = self.job.as_ref().and_then(|word| word.parse::<u32>().ok());
        number == Some(job.launcher)
    }
}

/// Whether a word means this job.
fn is_called(job: &JobReport, word: &str) -> bool {
    let file = |program: &String| {
        program == word
            || Path::new(program)
                .file_name()
                .is_some_and(|name| name == word)
    };
    word.parse().is_ok_and(|number: u32| number == job.launcher) || job.programs.iter().any(file)
}

fn unseen_line(unseen: &Unseen) -> String {
    format!(
        "the launcher that is process {} is not shown: {}",
        unseen.supervisor, unseen.reason
    )
}

/// Says why nothing is shown.
fn fail(reason: &str) -> ExitCode {
    weft_launch::user_output::tell(format_args!("weft: {reason}"));
    ExitCode::FAILURE
}

/// Columns of text: as wide as the widest of each; numbers to the right.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// With these headings; those that begin with `>` stand to the right.
    fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|name| name.starts_with('>')).collect();
        let names = headings.iter();
        let names = names.map(|name| name.trim_start_matches('>').to_owned());
        Self {
            rows: vec![names.collect()],
            right,
        }
    }

    fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut text = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let space = " ".repeat(width - cell.chars().count());
                if !text.is_empty() {
                    text += "  ";
                }
                text += &match right {
                    true => format!("{space}{cell}"),
                    false => format!("{cell}{space}"),
                };
            }
            text.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_called_by_its_launcher_or_its_program() {
        let job = JobReport {
            launcher: 77,
            programs: vec!["./bin/solver".into(), "7".into()],
            ..JobReport::default()
        };
        for word in ["77", "solver", "./bin/solver", "7"] {
            assert!(is_called(&job, word), "{word}");
        }
        for word in ["78", "bin", "", "-77", "./solver"] {
            assert!(!is_called(&job, word), "{word}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&[">N", "NAME", ">X"]);
        table.push(vec!["100".into(), "é".into(), "1".into()]);
        table.push(vec!["1".into(), "longer".into(), String::new()]);
        let expected = ["  N  NAME    X", "100  é       1", "  1  longer"];
        assert_eq!(table.lines(), expected);
    }
}
