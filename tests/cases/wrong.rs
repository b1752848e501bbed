//! Wrong programs (`tests/wrong`) and right ones (`tests/right`): for each wrong one there must be the right message, for a
//! right one never any.
//!
//! Each file begins with a comment that says how it is run and what must happen. One file may have several
//! cases:
//!
//! ```c
//! /*
//!  * run: 2 tags                     ranks, and the arguments of the program
//!  * options: --check=strict         of mpiexec, if any
//!  * exit: 35                        of mpiexec; 0 if it is not said
//!  * says: rank 0: MPI_Recv          must stand in standard error, one line each, in any order
//!  * never: warning                  must not
//!  * run: 3 ring
//!  * …
//!  */
//! ```
//!
//! Lines before the first `run` apply to all cases. Files are grouped by the word before the first hyphen. A right program ends
//! with code 0 and nothing on standard error.
#![allow(missing_docs)]

#[path = "deadlocks_by_others.rs"]
mod deadlocks_by_others;
#[path = "deadlocks_over_hosts.rs"]
mod deadlocks_over_hosts;
#[path = "../launch/network.rs"]
mod network;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use weft_tests::{build, installation, root, run, scratch, tool};

/// Longest time for one program: a deadlock ends a program long before.
const LIMIT: Duration = Duration::from_secs(60);

/// Programs that run at the same time: most of their time they wait.
const AT_ONCE: usize = 4;

/// One run of a program, and its required outcome.
#[derive(Clone, Debug, Default)]
struct Case {
    ranks: u32,
    arguments: Vec<String>,
    options: Vec<String>,
    exit: i32,
    says: Vec<String>,
    never: Vec<String>,
}

impl Case {
    /// The cases of a file, by its first comment.
    fn all_of(path: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let comment = text
            .strip_prefix("/*")
            .and_then(|text| text.split_once("*/"));
        let (comment, _) = comment.unwrap_or_else(|| panic!("{path:?} begins without a comment"));
        let mut shared = Self::default();
        let mut cases: Vec<Self> = Vec::new();
        for line in comment.lines() {
            let line = line.trim().trim_start_matches('*').trim();
            // Sentences are ignored.
            let Some((key, value)) = line.split_once(": ").filter(|(key, _)| !key.contains(' '))
            else {
                continue;
            };
            let words = || value.split_whitespace().map(str::to_owned);
            if key == "run" {
                let mut words = words();
                let ranks = words.next().and_then(|ranks| ranks.parse().ok());
                cases.push(Self {
                    ranks: ranks.unwrap_or_else(|| panic!("{path:?}: how many ranks? {line}")),
                    arguments: words.collect(),
                    ..shared.clone()
                });
                continue;
            }
            let case = cases.last_mut().unwrap_or(&mut shared);
            match key {
                "options" => case.options = words().collect(),
                "exit" => case.exit = value.trim().parse().expect("a number"),
                "says" => case.says.push(value.trim().to_owned()),
                "never" => case.never.push(value.trim().to_owned()),
                _ => panic!("{path:?}: {key} is no key of a case"),
            }
        }
        assert!(!cases.is_empty(), "{path:?} says not how it is run");
        cases
    }

    /// Runs it; returns what is not as it must be.
    fn fails(
        &self,
        name: &str,
        program: &Path,
        is_right: bool,
        launch: &Launch<'_>,
    ) -> Option<String> {
        let mut command = launch(self.ranks);
        command
            .args(&self.options)
            .arg(program)
            .args(&self.arguments);
        let ended = run(&mut command, LIMIT);
        let err = &network::without_race_of_prrte(&ended.err);
        let mut wrong = Vec::new();
        if ended.code() != Some(self.exit) {
            wrong.push(format!(
                "exit code {:?} instead of {}",
                ended.code(),
                self.exit
            ));
        }
        wrong.extend(
            self.says
                .iter()
                .filter(|text| !err.contains(*text))
                .map(|text| format!("does not say: {text}")),
        );
        wrong.extend(
            self.never
                .iter()
                .filter(|text| err.contains(*text))
                .map(|text| format!("says: {text}")),
        );
        if is_right && !err.is_empty() {
            wrong.push("says something".to_owned());
        }
        (!wrong.is_empty()).then(|| {
            format!(
                "{name} {:?} with {} ranks:\n  {}\n--- out\n{}\n--- err\n{err}",
                self.arguments,
                self.ranks,
                wrong.join("\n  "),
                ended.out,
            )
        })
    }
}

/// The programs of a folder whose name begins with the group.
fn programs(folder: &str, group: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut found: Vec<_> = paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".c") && name.starts_with(group)
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{folder} has no program {group}…");
    found
}

/// The command that starts a number of ranks of the program that is appended.
type Launch<'a> = dyn Fn(u32) -> Command + Sync + 'a;

fn check(folder: &str, group: &str) {
    let launch = |ranks: u32| {
        let mut command = tool("mpiexec");
        command.args(["-n", &ranks.to_string()]);
        command
    };
    check_by(folder, group, &|_| true, &launch);
}

/// As [`check`], but only the cases that are `wanted`, started in another way.
fn check_by(folder: &str, group: &str, wanted: &dyn Fn(&Case) -> bool, launch: &Launch<'_>) {
    let mut cases = Vec::new();
    for path in programs(folder, group) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let program = build(&format!("{folder}/{name}"), &["-g", "-pthread"]);
        let all = Case::all_of(&path).into_iter().filter(|case| wanted(case));
        cases.extend(all.map(|case| (name.clone(), program.clone(), case)));
    }
    cases.reverse();
    let left = Mutex::new(cases);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, program, case)) = { left.lock().expect("no panic").pop() } {
                    let failure = case.fails(&name, &program, folder.ends_with("right"), launch);
                    failures.lock().expect("no panic").extend(failure);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(
        failures.is_empty(),
        "{} cases are not as they must be:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn deadlocks_are_proven_and_explained() {
    check("tests/wrong", "deadlock-");
}

/// What packages contain.
#[test]
fn calls_have_names_without_debug_information() {
    let stripped = scratch("stripped").join("libmpi_abi.so.1");
    std::fs::copy(installation().join("lib/libmpi_abi.so.1"), &stripped).expect("a library");
    let strip = Command::new("strip")
        .arg("--strip-unneeded")
        .arg(&stripped)
        .status();
    assert!(strip.expect("strip").success());
    let launch = |ranks: u32| {
        let mut command = tool("mpiexec");
        command
            .env("LD_LIBRARY_PATH", stripped.parent().unwrap_or(&stripped))
            .args(["-n", &ranks.to_string()]);
        command
    };
    check_by("tests/wrong", "deadlock-pairs", &|_| true, &launch);
    check_by("tests/wrong", "collectives-pairs", &|_| true, &launch);
}

/// There each call is made by other code of the library.
#[test]
fn calls_have_names_in_a_profiled_program() {
    let launch = |ranks: u32| {
        let mut command = tool("mpiexec");
        command.args(["-n", &ranks.to_string(), "--profile=/dev/null"]);
        command
    };
    check_by("tests/wrong", "deadlock-pairs", &|_| true, &launch);
}

#[test]
fn what_is_left_over_is_told() {
    check("tests/wrong", "leaks-");
}

#[test]
fn what_is_done_to_requests_and_buffers_under_way_is_found() {
    check("tests/wrong", "check-");
}

#[test]
fn messages_of_other_types_are_named() {
    check("tests/wrong", "types-");
}

#[test]
fn collectives_that_do_not_fit_are_named_on_every_rank() {
    check("tests/wrong", "collectives-");
}

#[test]
fn wrong_arguments_are_named() {
    check("tests/wrong", "arguments-");
}

#[test]
fn what_an_epoch_does_not_allow_is_named() {
    check("tests/wrong", "windows-");
}

#[test]
fn what_a_file_does_not_allow_is_named() {
    check("tests/wrong", "files-");
}

#[test]
fn nothing_is_said_of_right_programs() {
    check("tests/right", "");
}
