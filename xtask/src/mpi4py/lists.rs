//! What is run and what is not: `tests/mpi4py/included.toml` and `tests/mpi4py/excluded.toml`.
//!
//! Every test file of the suite is named in the first or wholly excluded in the second, with a reason:
//! a file of neither is an error, so nothing is left out unsaid. An exclusion that waits for functions
//! of MPI ends by itself when `docs/coverage.md` says that they are implemented.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The two lists, checked against the suite.
pub struct Lists {
    /// Test files to run, without `.py`, in the order of the list.
    pub files: Vec<String>,
    /// Those of them whose tests ask nothing of other ranks.
    pub alone: Vec<String>,
    /// What is left out.
    pub excluded: Vec<Excluded>,
}

/// One entry of `excluded.toml`.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    /// Matched against `file.Class.test`, with `*` and `?`; `file.*` leaves out the whole file.
    pub pattern: String,
    /// Why, for the reader of the summary.
    pub reason: String,
    /// Functions of MPI that it waits for; it holds until all of them are implemented.
    #[serde(default)]
    pub until: Vec<String>,
    /// Only at these numbers of ranks; at all if it is absent.
    #[serde(default)]
    pub ranks: Vec<u32>,
    /// Only on several hosts.
    #[serde(default)]
    pub hosts: bool,
    /// Only over this library.
    #[serde(default)]
    pub library: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IncludedFile {
    files: Vec<String>,
    #[serde(default)]
    alone: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExcludedFile {
    #[serde(default)]
    excluded: Vec<Excluded>,
}

impl Excluded {
    /// The file that it leaves out wholly and always, if it does.
    fn whole_file(&self) -> Option<&str> {
        let file = self.pattern.strip_suffix(".*")?;
        let always = self.ranks.is_empty() && !self.hosts && self.library.is_none();
        (always && !file.contains(['.', '*', '?'])).then_some(file)
    }

    /// Whether it holds with this many ranks, on several hosts or on one.
    pub fn holds(&self, ranks: u32, hosts: bool) -> bool {
        (hosts || !self.hosts) && (self.ranks.is_empty() || self.ranks.contains(&ranks))
    }
}

impl Lists {
    /// Reads both lists of `folder` and checks them against the files of `suite`.
    ///
    /// `coverage` is the generated page that says which functions are implemented.
    pub fn read(folder: &Path, suite: &Path, coverage: &Path) -> Result<Self> {
        let included = fs::read_to_string(folder.join("included.toml"))
            .context("cannot read included.toml")?;
        let excluded = fs::read_to_string(folder.join("excluded.toml"))
            .context("cannot read excluded.toml")?;
        let present = present(suite)?;
        let coverage = fs::read_to_string(coverage)
            .with_context(|| format!("cannot read {}", coverage.display()))?;
        Self::check(&included, &excluded, &present, &coverage)
    }

    /// All files of the suite and no exclusion: how far one is.
    pub fn everything(self, suite: &Path) -> Result<Self> {
        let mut files = self.files;
        for file in present(suite)? {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(Self {
            files,
            alone: self.alone,
            excluded: Vec::new(),
        })
    }

    fn check(included: &str, excluded: &str, present: &[String], coverage: &str) -> Result<Self> {
        let IncludedFile { mut files, alone } =
            toml::from_str(included).context("included.toml")?;
        let all = toml::from_str::<ExcludedFile>(excluded)
            .context("excluded.toml")?
            .excluded;
        let mut wrong = Vec::new();
        let mut excluded = Vec::new();
        for entry in all {
            for function in &entry.until {
                if state(coverage, function).is_none() {
                    wrong.push(format!(
                        "{} waits for {function}, which docs/coverage.md does not know",
                        entry.pattern
                    ));
                }
            }
            let waits = entry
                .until
                .iter()
                .any(|function| state(coverage, function) != Some("implemented"));
            if waits || entry.until.is_empty() {
                excluded.push(entry);
                continue;
            }
            println!(
                "excluded.toml: {} is no longer left out: {} is implemented",
                entry.pattern,
                entry.until.join(", ")
            );
            files.extend(entry.whole_file().map(str::to_string));
        }
        let mut named: BTreeMap<&str, u32> = BTreeMap::new();
        let whole = excluded.iter().filter_map(Excluded::whole_file);
        for file in files.iter().map(String::as_str).chain(whole) {
            *named.entry(file).or_default() += 1;
        }
        for (file, times) in &named {
            if !present.iter().any(|other| other == file) {
                wrong.push(format!("{file} is listed, but the suite has no such file"));
            }
            if *times > 1 {
                wrong.push(format!("{file} is listed {times} times"));
            }
        }
        for file in alone.iter().filter(|file| !files.contains(file)) {
            wrong.push(format!("{file} is alone, but not included"));
        }
        for file in present
            .iter()
            .filter(|file| !named.contains_key(file.as_str()))
        {
            wrong.push(format!(
                "{file} of the suite is neither included nor excluded"
            ));
        }
        if !wrong.is_empty() {
            bail!(
                "the lists in tests/mpi4py do not fit the suite:\n{}",
                wrong.join("\n")
            );
        }
        Ok(Self {
            files,
            alone,
            excluded,
        })
    }
}

/// What the coverage page says about a function: `| `MPI_X` | large | state | Fortran | note |`.
fn state<'a>(coverage: &'a str, function: &str) -> Option<&'a str> {
    let named = format!("`{function}`");
    let row = coverage.lines().find(|line| {
        line.split('|')
            .nth(1)
            .is_some_and(|cell| cell.trim() == named)
    })?;
    row.split('|').nth(3).map(str::trim)
}

/// The test files of the suite, in order.
fn present(suite: &Path) -> Result<Vec<String>> {
    let mut present = Vec::new();
    for entry in fs::read_dir(suite).with_context(|| format!("cannot read {}", suite.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stem) = name
            .strip_suffix(".py")
            .filter(|stem| stem.starts_with("test_"))
        {
            present.push(stem.to_string());
        }
    }
    present.sort();
    Ok(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_left_out_unsaid() {
        let present = ["test_a".to_string(), "test_b".to_string()];
        let excluded = "[[excluded]]\npattern = \"test_b.*\"\nreason = \"later\"\n";
        assert!(Lists::check("files = [\"test_a\"]", excluded, &present, "").is_ok());
        for (included, excluded, complaint) in [
            ("files = [\"test_a\"]", "", "neither"),
            ("files = [\"test_a\", \"test_b\"]", excluded, "2 times"),
            ("files = [\"test_a\", \"test_c\"]", excluded, "no such file"),
            (
                "files = [\"test_a\"]\nalone = [\"test_b\"]",
                excluded,
                "not included",
            ),
        ] {
            let cause = Lists::check(included, excluded, &present, "")
                .err()
                .expect("refused")
                .to_string();
            assert!(cause.contains(complaint), "{cause}");
        }
    }

    #[test]
    fn an_exclusion_ends_when_what_it_waits_for_is_there() {
        let present = ["test_a".to_string(), "test_b".to_string()];
        let excluded =
            "[[excluded]]\npattern = \"test_b.*\"\nreason = \"later\"\nuntil = [\"MPI_B\"]\n";
        for (coverage, files) in [
            ("| `MPI_B` |  | unsupported |  |", vec!["test_a"]),
            (
                "| `MPI_B` | yes | implemented |  |",
                vec!["test_a", "test_b"],
            ),
        ] {
            let lists =
                Lists::check("files = [\"test_a\"]", excluded, &present, coverage).expect("sound");
            assert_eq!(lists.files, files);
            assert_eq!(lists.excluded.len(), 2 - files.len());
        }
        assert!(Lists::check("files = [\"test_a\"]", excluded, &present, "").is_err());
    }
}
