//! `cargo xtask instructions`: counts the instructions of calls, and compares them with their budgets.
//!
//! ```text
//!   tables/instructions.toml ──► requests ──► mpiexec -n 2 measure count … ──► counts ──► more than the budget? fails
//! ```
//!
//! A count is exact and does not depend on the load of the machine: a second process steps the caller through the
//! call (`crates/bench/measure/instructions.c`). The library under `target/dist` is counted, so the budgets hold for
//! a release build with the profile of `Cargo.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::dist;
use crate::rooms::root;

/// What to count with.
#[derive(clap::Args)]
pub struct Arguments {
    /// Also what calls take under --profile and --timeline: some minutes.
    #[arg(long)]
    recorded: bool,
    /// Does not build target/dist anew: counts what is there.
    #[arg(long)]
    as_it_is: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    budget: Vec<Budget>,
}

/// A row of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    /// The call, for display.
    name: String,
    /// Its name in `instructions.c`.
    call: String,
    /// Bytes of the message.
    size: u32,
    /// The most instructions, at any thread level.
    most: f64,
    /// … of a program that was built with MPICH, which calls through libmpi.so.12.
    mpich: Option<f64>,
    /// … of a program that was built with Open MPI, which calls through libmpi.so.40.
    openmpi: Option<f64>,
    /// … under `mpiexec --profile` and `--timeline`.
    recorded: Option<Recorded>,
}

/// Budgets of a call that a profile records.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    /// For a call that is only counted, at each thread level. There is none for calls that find a message
    /// that was not noticed before: the preparation that makes calls be left out notices it.
    left_out: Option<[f64; LEVELS.len()]>,
    /// For a call that is recorded for a table, with its time, at the lowest level.
    table: f64,
    /// … for a timeline.
    timeline: Option<f64>,
}

/// A way to record calls.
struct Recording {
    /// For display.
    name: &'static str,
    /// Options of mpiexec.
    options: &'static [&'static str],
    /// An addition to the request.
    request: &'static str,
    /// The most instructions, by the number of the level.
    most: fn(&Recorded, usize) -> Option<f64>,
}

/// All ways. The code that leaves a call out is the same for a table and for a timeline; the code that
/// records one is the same at each level.
const RECORDINGS: [Recording; 3] = [
    Recording {
        name: "left out",
        options: &["--profile=/dev/null"],
        request: " left_out=1",
        most: |recorded, level| Some(recorded.left_out?[level]),
    },
    Recording {
        name: "recorded for a table",
        options: &["--profile=/dev/null", "--record-each"],
        request: "",
        most: |recorded, level| (level == 0).then_some(recorded.table),
    },
    Recording {
        name: "recorded for a timeline",
        options: &["--timeline", "/dev/null", "--record-each"],
        request: "",
        most: |recorded, level| recorded.timeline.filter(|_| level == 0),
    },
];

impl Budget {
    fn request(&self) -> String {
        format!("instructions call={} size={}", self.call, self.size)
    }

    /// The problem with a count, if there is one.
    fn exceeded(&self, level: &str, counted: f64) -> Option<String> {
        (counted > self.most).then(|| {
            format!(
                "{} of {} bytes takes {counted} instructions at {level}, and its budget is {}",
                self.name, self.size, self.most
            )
        })
    }
}

/// Thread levels, as the program and as the standard names them.
const LEVELS: [(&str, &str); 2] = [
    ("single", "MPI_THREAD_SINGLE"),
    ("multiple", "MPI_THREAD_MULTIPLE"),
];

/// Counts and compares.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let table = root.join("tables/instructions.toml");
    let text =
        fs::read_to_string(&table).with_context(|| format!("cannot read {}", table.display()))?;
    let Table { budget } = toml::from_str(&text).context("tables/instructions.toml")?;
    let prefix = match arguments.as_it_is {
        true => dist::target(&root).join("dist"),
        false => dist::lay_out(None)?,
    };
    let folder = tempfile::tempdir()?;
    let program = build(
        &root,
        &prefix.join("bin/mpicc"),
        &folder.path().join("measure"),
    )?;
    let rows: Vec<(String, f64)> = budget.iter().map(|one| (one.request(), one.most)).collect();
    println!(
        "{:<58} {:>6} {:>7} {:>8} {:>8}",
        "call", "bytes", "budget", LEVELS[0].0, LEVELS[1].0
    );
    let counts: Vec<BTreeMap<String, f64>> = LEVELS
        .iter()
        .map(|(level, _)| least(&prefix, &program, (level, &[]), &rows))
        .collect::<Result<_>>()?;
    let mut wrong = Vec::new();
    for translation in &TRANSLATIONS {
        let found = of_translation(translation, &root, &prefix, folder.path(), &budget)?;
        wrong.extend(found);
    }
    if arguments.recorded {
        wrong.extend(of_recordings(&prefix, &program, &budget)?);
    }
    for one in &budget {
        let mut row = format!("{:<58} {:>6} {:>7}", one.name, one.size, one.most);
        for (counts, (_, level)) in counts.iter().zip(LEVELS) {
            let counted = *counts
                .get(&one.request())
                .with_context(|| format!("no count of {}", one.request()))?;
            row += &format!(" {counted:>8}");
            wrong.extend(one.exceeded(level, counted));
        }
        println!("{row}");
    }
    ensure!(
        wrong.is_empty(),
        "{}\nMake the call shorter again; if it has to do more now, raise the budget in tables/instructions.toml and say \
         why in the commit",
        wrong.join("\n")
    );
    Ok(())
}

/// A library that translates calls of programs that were built with another implementation.
struct Translation {
    /// The package of the implementation, by whose wrapper the program is built.
    package: &'static str,
    library: &'static str,
    most: fn(&Budget) -> Option<f64>,
}

const TRANSLATIONS: [Translation; 2] = [
    Translation {
        package: "mpich",
        library: "libmpi.so.12",
        most: |budget| budget.mpich,
    },
    Translation {
        package: "openmpi",
        library: "libmpi.so.40",
        most: |budget| budget.openmpi,
    },
];

/// Counts the calls of a program that was built with the wrapper of another implementation, where that is installed (`cargo xtask peers`); returns
/// the problems with the counts.
fn of_translation(
    translation: &Translation,
    root: &Path,
    prefix: &Path,
    folder: &Path,
    budget: &[Budget],
) -> Result<Vec<String>> {
    let Translation {
        package,
        library,
        most,
    } = translation;
    let wrapper = dist::target(root).join(format!("peers/{package}/bin/mpicc"));
    if !wrapper.exists() {
        println!(
            "{} is not there: calls by {library} are not counted; cargo xtask peers --only {package} installs it",
            wrapper.display()
        );
        return Ok(Vec::new());
    }
    let program = build(root, &wrapper, &folder.join(format!("measure-{package}")))?;
    let mut wrong = Vec::new();
    let rows: Vec<(&Budget, f64)> = budget
        .iter()
        .filter_map(|one| Some((one, most(one)?)))
        .collect();
    let requests: Vec<(String, f64)> = rows
        .iter()
        .map(|(one, most)| (one.request(), *most))
        .collect();
    for (level, name) in LEVELS {
        let counts = least(prefix, &program, (level, &[]), &requests)?;
        for (one, most) in &rows {
            let counted = *counts
                .get(&one.request())
                .with_context(|| format!("no count of {}", one.request()))?;
            println!(
                "{:<58} {:>6} {most:>7} {counted:>8} at {name}",
                format!("{}, by {library}", one.name),
                one.size
            );
            if counted > *most {
                wrong.push(format!(
                    "{} of {} bytes takes {counted} instructions at {name} by {library}, and its budget is {most}",
                    one.name, one.size
                ));
            }
        }
    }
    Ok(wrong)
}

/// Counts the calls that a profile records, with each way to record them; returns the problems with the
/// counts.
fn of_recordings(prefix: &Path, program: &Path, budget: &[Budget]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let recorded = budget
        .iter()
        .filter_map(|one| Some((one, one.recorded.as_ref()?)));
    for recording in &RECORDINGS {
        for (number, (level, name)) in LEVELS.into_iter().enumerate() {
            let rows: Vec<(&Budget, (String, f64))> = recorded
                .clone()
                .filter_map(|(one, recorded)| {
                    let request = one.request() + recording.request;
                    Some((one, (request, (recording.most)(recorded, number)?)))
                })
                .collect();
            let requests: Vec<(String, f64)> = rows.iter().map(|(_, row)| row.clone()).collect();
            let counts = least(prefix, program, (level, recording.options), &requests)?;
            for (one, (request, most)) in rows {
                let counted = *counts
                    .get(&request)
                    .with_context(|| format!("no count of {request}"))?;
                println!(
                    "{:<58} {:>6} {most:>7} {counted:>8} at {name}",
                    format!("{}, {}", one.name, recording.name),
                    one.size
                );
                if counted > most {
                    wrong.push(format!(
                        "{} of {} bytes, {}, takes {counted} instructions at {name}, and its budget is {most}",
                        one.name, one.size, recording.name
                    ));
                }
            }
        }
    }
    Ok(wrong)
}

/// Builds the measuring program with a compiler wrapper.
fn build(root: &Path, wrapper: &Path, program: &Path) -> Result<std::path::PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(root.join("crates/bench/measure"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    let status = Command::new(wrapper)
        .args(["-std=gnu11", "-O2", "-o"])
        .arg(program)
        .args(&sources)
        .args(["-lpthread", "-lm"])
        .status()
        .with_context(|| {
            format!(
                "cannot start {}; cargo xtask dist makes it",
                wrapper.display()
            )
        })?;
    ensure!(status.success(), "the measuring program cannot be built");
    Ok(program.to_owned())
}

/// Counts requests with their budgets at a thread level and with options of mpiexec, and counts those that exceed it up to two times more: on a busy
/// machine a call may find its partner asleep and has to wake it. The smallest count is used.
fn least(
    prefix: &Path,
    program: &Path,
    how: (&str, &[&str]),
    rows: &[(String, f64)],
) -> Result<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    for _ in 0..3 {
        let exceeds = |(request, most): &&(String, f64)| {
            counts.get(request).is_none_or(|counted| counted > most)
        };
        let again: Vec<String> = rows
            .iter()
            .filter(exceeds)
            .map(|(request, _)| request.clone())
            .collect();
        if again.is_empty() {
            break;
        }
        for (request, counted) in count(prefix, program, how, &again)? {
            let known = counts.entry(request).or_insert(counted);
            *known = known.min(counted);
        }
    }
    Ok(counts)
}

/// Counts all requests in one job of two ranks.
fn count(
    prefix: &Path,
    program: &Path,
    (level, options): (&str, &[&str]),
    requests: &[String],
) -> Result<BTreeMap<String, f64>> {
    let output = Command::new(prefix.join("bin/mpiexec"))
        .args(["-n", "2"])
        .args(options)
        .arg(program)
        .args(["count", level])
        .args(requests)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start mpiexec of target/dist")?;
    ensure!(output.status.success(), "the count ended badly");
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| {
            let (request, count) = line.split_once('\t').context("no line of a count")?;
            Ok((request.to_owned(), count.parse()?))
        })
        .collect()
}

/// A program that succeeds if a process can be stepped by its child.
const MAY_STEP: &str = r"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    pid_t parent = getpid();
    int ready[2], status;
    char byte;
    if (pipe(ready))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        if (read(ready[0], &byte, 1) != 1 || ptrace(PTRACE_SEIZE, parent, 0, 0) || ptrace(PTRACE_INTERRUPT, parent, 0, 0) ||
            waitpid(parent, &status, __WALL) != parent || ptrace(PTRACE_SINGLESTEP, parent, 0, 0) ||
            waitpid(parent, &status, __WALL) != parent || ptrace(PTRACE_DETACH, parent, 0, 0))
            _exit(1);
        _exit(0);
    }
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    if (write(ready[1], &byte, 1) != 1)
        return 1;
    /* Never asleep in the kernel: a step ends when the system call does. */
    alarm(20);
    while (waitpid(child, &status, WNOHANG) != child)
        ;
    return !WIFEXITED(status) || WEXITSTATUS(status);
}
";

/// Whether this system allows a process to be stepped.
pub fn possible() -> Result<(), String> {
    may_step().map_err(|error| {
        format!("this system does not let a process be stepped (ptrace): {error:#}")
    })
}

fn may_step() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("step.c"), folder.path().join("step"));
    fs::write(&source, MAY_STEP)?;
    let built = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status()
        .context("cannot start cc")?;
    ensure!(built.success(), "the trial cannot be built");
    if !Command::new(&program).status()?.success() {
        bail!("the trial failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_its_budget_is_said() {
        let budget = Budget {
            name: "MPI_Send".to_owned(),
            call: "send".to_owned(),
            size: 8,
            most: 100.0,
            mpich: None,
            openmpi: None,
            recorded: None,
        };
        assert_eq!(budget.request(), "instructions call=send size=8");
        assert_eq!(budget.exceeded("MPI_THREAD_SINGLE", 100.0), None);
        let said = budget.exceeded("MPI_THREAD_SINGLE", 100.5);
        assert_eq!(
            said.as_deref(),
            Some(
                "MPI_Send of 8 bytes takes 100.5 instructions at MPI_THREAD_SINGLE, and its budget is 100"
            )
        );
    }

    #[test]
    fn the_table_can_be_read() {
        let text = fs::read_to_string(root().unwrap().join("tables/instructions.toml")).unwrap();
        let Table { budget } = toml::from_str(&text).unwrap();
        assert!(!budget.is_empty());
    }
}
