//! What the ranks of one run have written so far (`tests/mpi4py/run.py` says the form), and what it
//! says about each test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How one test ended, over all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On every rank that did not skip it.
    Passed,
    /// On every rank, for this reason of the suite.
    Skipped(String),
    /// On this rank first, with this message.
    Failed {
        /// The first rank that says so.
        rank: u32,
        /// What it says.
        message: String,
    },
}

/// The records of all ranks of one run.
pub struct Records {
    ranks: Vec<Rank>,
    /// When a line came last.
    pub heard: Instant,
}

struct Rank {
    path: PathBuf,
    file: Option<File>,
    pending: Vec<u8>,
    /// The test file and the test that run now.
    module: Option<String>,
    open: Option<String>,
    done: BTreeSet<String>,
    tests: Vec<(String, Outcome)>,
}

impl Records {
    /// The records at `path.0` and so on, which need not exist yet.
    pub fn new(path: &Path, ranks: u32) -> Self {
        let rank = |rank: u32| Rank {
            path: PathBuf::from(format!("{}.{rank}", path.display())),
            file: None,
            pending: Vec::new(),
            module: None,
            open: None,
            done: BTreeSet::new(),
            tests: Vec::new(),
        };
        Self {
            ranks: (0..ranks).map(rank).collect(),
            heard: Instant::now(),
        }
    }

    /// Reads what has come since.
    pub fn read(&mut self) {
        for (number, rank) in (0..).zip(&mut self.ranks) {
            if rank.file.is_none() {
                rank.file = File::open(&rank.path).ok();
            }
            let Some(file) = &mut rank.file else { continue };
            if file.read_to_end(&mut rank.pending).unwrap_or(0) > 0 {
                self.heard = Instant::now();
            }
            while let Some(end) = rank.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rank.pending.drain(..=end).collect();
                rank.take(number, String::from_utf8_lossy(&line).trim());
            }
        }
    }

    /// Whether all ranks have ended this test file.
    pub fn is_done(&self, file: &str) -> bool {
        self.ranks.iter().all(|rank| rank.done.contains(file))
    }

    /// Whether no rank has come to its first test file.
    pub fn is_empty(&self) -> bool {
        self.ranks.iter().all(|rank| rank.module.is_none())
    }

    /// Whether a test of this file has failed on a rank.
    pub fn has_failed(&self, file: &str) -> bool {
        self.outcomes(file)
            .values()
            .any(|outcome| matches!(outcome, Outcome::Failed { .. }))
    }

    /// The tests of a file that have ended on a rank.
    pub fn outcomes(&self, file: &str) -> BTreeMap<String, Outcome> {
        let mut all: BTreeMap<String, Outcome> = BTreeMap::new();
        for rank in &self.ranks {
            for (test, outcome) in rank.tests.iter().filter(|(test, _)| file_of(test) == file) {
                let so_far = all.entry(test.clone()).or_insert_with(|| outcome.clone());
                match (&so_far, outcome) {
                    (Outcome::Failed { .. }, _) | (_, Outcome::Skipped(_)) => {}
                    _ => *so_far = outcome.clone(),
                }
            }
        }
        all
    }

    /// For a run that stands still: each test that a rank has begun and not ended, with the ranks.
    pub fn open(&self) -> BTreeMap<String, Vec<u32>> {
        let mut open: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (number, rank) in (0..).zip(&self.ranks) {
            if let Some(test) = &rank.open {
                open.entry(test.clone()).or_default().push(number);
            }
        }
        open
    }

    /// Whether one rank may wait for another that is elsewhere.
    pub fn is_apart(&self) -> bool {
        let mut open = self.ranks.iter().map(|rank| &rank.open);
        let first = open.next();
        open.any(|other| Some(other) != first)
    }

    /// The last line of Python that a rank was in, if it wrote where it was.
    pub fn place(&self, rank: u32) -> Option<String> {
        let path = format!("{}.trace", self.ranks.get(rank as usize)?.path.display());
        let text = std::fs::read_to_string(path).ok()?;
        let trace = text.rsplit("most recent call first").next()?;
        let frame = trace
            .lines()
            .find(|line| line.contains("/test_") || line.contains("/mpiunittest"))?;
        let frame = frame.trim().trim_start_matches("File ");
        Some(frame.rsplit('/').next().unwrap_or(frame).replace('"', ""))
    }
}

impl Rank {
    fn take(&mut self, rank: u32, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (word, name) = (
            words.next().unwrap_or(""),
            words.next().unwrap_or("").to_string(),
        );
        let message = words.next().unwrap_or("").to_string();
        let mut ended = |outcome| {
            self.open = None;
            self.tests.push((name.clone(), outcome));
        };
        match word {
            "ok" => ended(Outcome::Passed),
            "skip" => ended(Outcome::Skipped(message)),
            "fail" => ended(Outcome::Failed { rank, message }),
            "start" => self.open = Some(name),
            "module" => self.module = Some(name),
            "done" => drop(self.done.insert(name)),
            _ => {}
        }
    }
}

/// The test file of a test's name.
pub fn file_of(test: &str) -> &str {
    test.split('.').next().unwrap_or(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &[&[&str]]) -> Records {
        let mut records = Records::new(Path::new("/nowhere"), lines.len() as u32);
        for (number, (rank, lines)) in (0..).zip(records.ranks.iter_mut().zip(lines)) {
            lines.iter().for_each(|line| rank.take(number, line));
        }
        records
    }

    #[test]
    fn one_rank_decides_that_a_test_failed() {
        let records = records(&[
            &[
                "module t",
                "start t.A.a",
                "ok t.A.a",
                "start t.A.b",
                "skip t.A.b why",
                "done t",
            ],
            &[
                "module t",
                "start t.A.a",
                "fail t.A.a no such thing",
                "start t.A.b",
                "ok t.A.b",
                "done t",
            ],
        ]);
        let outcomes = records.outcomes("t");
        let failed = Outcome::Failed {
            rank: 1,
            message: "no such thing".into(),
        };
        assert_eq!(outcomes["t.A.a"], failed);
        assert_eq!(outcomes["t.A.b"], Outcome::Passed);
        assert!(records.is_done("t") && records.has_failed("t"));
    }

    #[test]
    fn a_run_that_stands_still_says_where() {
        let records = records(&[
            &["module t", "start t.A.a"],
            &["module t", "start t.A.a", "ok t.A.a", "start t.A.b"],
        ]);
        assert_eq!(records.open()["t.A.a"], [0]);
        assert_eq!(records.open()["t.A.b"], [1]);
        assert!(!records.is_done("t"));
    }
}
