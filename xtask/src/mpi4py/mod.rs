//! `cargo xtask mpi4py`: builds mpi4py from source with Weft's `mpicc` and runs its own tests under
//! Weft's `mpiexec`.
//!
//! All test files of one number of ranks run in one job. A job is ended after a file with failures,
//! when no rank goes on, and when a rank dies; what is left then runs in a new job, because a failed
//! test may leave messages behind that later tests would trip over. A test that stands still or dies is
//! left out of the new job, which goes on with the same file, so one run names all failures.

mod installation;
mod job;
mod lists;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::dist::{self, target};
use crate::layers::root;
use installation::{Installation, Mpi};
use job::{End, Job, run_within, tail};
use lists::Lists;
use record::{Outcome, Records, file_of};

/// How often a file is taken up again after a test of it stood still or died.
const RESTARTS: u32 = 12;

/// What to run against what.
#[derive(clap::Args)]
pub struct Arguments {
    /// Numbers of ranks.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4")]
    ranks: Vec<u32>,
    /// Only test files whose name contains one of these.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    only: Vec<String>,
    /// All files and tests of the suite, also those that are excluded.
    #[arg(long)]
    everything: bool,
    /// The MPI under test. Default: this tree, built in release and laid out.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Its compiler wrapper, if it is not in the prefix's bin.
    #[arg(long, value_name = "PATH")]
    mpicc: Option<PathBuf>,
    /// Its launcher, if it is not in the prefix's bin.
    #[arg(long, value_name = "PATH")]
    mpiexec: Option<PathBuf>,
    /// Seconds that one test may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    test_limit: u64,
    /// Seconds that one job over many files may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    limit: u64,
}

/// Builds, runs, and sums up.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let prefix = match &arguments.prefix {
        Some(prefix) => prefix.clone(),
        None => dist::lay_out(None)?,
    };
    let mpi = Mpi::at(
        &prefix,
        arguments.mpicc.as_deref(),
        arguments.mpiexec.as_deref(),
    )?;
    let installation = Installation::prepare(&target(&root).join("mpi4py"), mpi)?;
    let library = installation.library()?;
    println!("mpi4py on {library}");
    if arguments.prefix.is_none() && !library.starts_with("Weft") {
        bail!("mpi4py was to be tested on Weft, but runs on {library}");
    }
    let folder = root.join("tests/mpi4py");
    let mut lists = Lists::read(&folder, &installation.suite, &root.join("docs/coverage.md"))?;
    if arguments.everything {
        lists = lists.everything(&installation.suite)?;
    }
    if !arguments.only.is_empty() {
        lists.files.retain(|file| {
            arguments
                .only
                .iter()
                .any(|part| file.contains(part.as_str()))
        });
        if lists.files.is_empty() {
            bail!(
                "no included test file has {} in its name",
                arguments.only.join(" or ")
            );
        }
    }
    let program = folder.join("run.py");
    let mut session = Session {
        arguments,
        installation: &installation,
        lists: &lists,
        program: &program,
        total: Tally::default(),
        failures: Vec::new(),
    };
    let begun = Instant::now();
    for &ranks in &arguments.ranks {
        if arguments.only.is_empty() {
            session.bench(ranks)?;
        }
        session.suite(ranks)?;
    }
    session.sum_up(begun.elapsed())
}

/// Counts of tests, each at each number of ranks.
#[derive(Default, Clone, Copy)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

struct Session<'a> {
    arguments: &'a Arguments,
    installation: &'a Installation,
    lists: &'a Lists,
    program: &'a Path,
    total: Tally,
    failures: Vec<String>,
}

impl Session<'_> {
    /// The programs of `mpi4py.bench`, its pool of workers, and the all-to-all of the demonstrations.
    fn bench(&mut self, ranks: u32) -> Result<()> {
        let alltoall = format!(
            "import sys; sys.path.insert(0, {:?}); import osu_alltoall as it; \
             it.osu_alltoall(skip=2, loop=20, skip_large=1, loop_large=5, MAX_MSG_SIZE=1 << 18)",
            self.installation.demo.display().to_string()
        );
        let programs: [(&str, &[&str], &str); 5] = [
            (
                "helloworld",
                &["-m", "mpi4py.bench", "helloworld"],
                "Hello, World!",
            ),
            (
                "ringtest",
                &["-m", "mpi4py.bench", "ringtest", "-n", "4096", "-l", "100"],
                "100 loops",
            ),
            (
                "pingpong",
                &[
                    "-m",
                    "mpi4py.bench",
                    "pingpong",
                    "-n",
                    "4194304",
                    "-l",
                    "200",
                    "--loop-large",
                    "50",
                ],
                "4194304",
            ),
            (
                "futures",
                &[
                    "-m",
                    "mpi4py.futures",
                    "-m",
                    "mpi4py.bench",
                    "futures",
                    "-n",
                    "65536",
                    "-t",
                    "10",
                    "-l",
                    "2",
                ],
                "65536",
            ),
            ("alltoall", &["-c", &alltoall], "262144"),
        ];
        for (name, line, expected) in programs {
            let full = format!("bench.{name}");
            if self
                .lists
                .excluded
                .iter()
                .any(|entry| entry.holds(ranks) && entry.pattern == full)
            {
                continue;
            }
            let begun = Instant::now();
            let output = self
                .installation
                .logs
                .join(format!("n{ranks}-bench-{name}.out"));
            let limit = Duration::from_secs(self.arguments.test_limit);
            let status = run_within(self.installation.mpiexec(ranks).args(line), &output, limit)?;
            let text = std::fs::read_to_string(&output).unwrap_or_default();
            let said = match name {
                "helloworld" => text.matches(expected).count() == ranks as usize,
                _ => text.contains(expected),
            };
            let complaint = match status {
                None => Some(format!("not ended after {} s", limit.as_secs())),
                Some(status) if !status.success() => Some(format!(
                    "{status}: {}",
                    tail(&output, 3).replace('\n', " | ")
                )),
                Some(_) if !said => Some(format!(
                    "did not print {expected:?}, see {}",
                    output.display()
                )),
                Some(_) => None,
            };
            let outcome = match complaint {
                None => Outcome::Passed,
                Some(message) => Outcome::Failed { rank: 0, message },
            };
            let outcomes = BTreeMap::from([(full, outcome)]);
            self.count(ranks, &format!("bench {name}"), &outcomes, begun.elapsed());
        }
        Ok(())
    }

    /// The test files, in as few jobs as the failures allow.
    fn suite(&mut self, ranks: u32) -> Result<()> {
        let holding = self
            .lists
            .excluded
            .iter()
            .filter(|entry| entry.holds(ranks));
        let mut excluded: Vec<String> = holding.map(|entry| entry.pattern.clone()).collect();
        let mut files: &[String] = &self.lists.files;
        let mut restarts = 0;
        let mut jobs = 0;
        while !files.is_empty() {
            jobs += 1;
            let job = Job {
                installation: self.installation,
                program: self.program,
                ranks,
                files,
                excluded: &excluded,
                log: self.installation.logs.join(format!("n{ranks}-{jobs}")),
                test_limit: Duration::from_secs(self.arguments.test_limit),
                limit: Duration::from_secs(self.arguments.limit),
            };
            let output = job.output();
            let mut ended = 0;
            let mut begun = Instant::now();
            let (records, end) = job.run(|records, file| {
                self.count(ranks, file, &records.outcomes(file), begun.elapsed());
                begun = Instant::now();
                ended += 1;
            })?;
            let cause = match &end {
                End::AfterFailures => None,
                End::Exited(status) if status.success() && ended == files.len() => None,
                End::Exited(status) => {
                    Some(format!("the job ended with {status}: {}", tail(&output, 3)))
                }
                End::Still(patience) => {
                    Some(format!("no rank went on for {} s", patience.as_secs()))
                }
                End::Limit => Some(format!("the job took more than {} s", self.arguments.limit)),
            };
            files = &files[ended..];
            let Some(cause) = cause else { continue };
            let cause = cause.replace('\n', " | ");
            let Some(file) = files.first() else {
                let outcomes = BTreeMap::from([(
                    "at the end".to_string(),
                    Outcome::Failed {
                        rank: 0,
                        message: cause,
                    },
                )]);
                self.count(ranks, "end of the job", &outcomes, begun.elapsed());
                break;
            };
            if records.is_empty() {
                let outcomes = BTreeMap::from([(
                    file.clone(),
                    Outcome::Failed {
                        rank: 0,
                        message: cause,
                    },
                )]);
                self.count(ranks, "start of the job", &outcomes, begun.elapsed());
                break;
            }
            let outcomes = with_open(&records, file, &cause);
            self.count(ranks, file, &outcomes, begun.elapsed());
            restarts += 1;
            let goes_on = restarts < RESTARTS
                && !matches!(end, End::Limit)
                && outcomes.keys().any(|test| file_of(test) == file);
            if goes_on {
                excluded.extend(outcomes.into_keys());
            } else {
                println!("       {file}: given up; the rest of its tests did not run");
                self.failures.push(format!(
                    "n={ranks} {file}: the rest of its tests did not run"
                ));
                self.total.failed += 1;
                files = &files[1..];
                restarts = 0;
            }
        }
        Ok(())
    }

    /// Counts and prints the tests of one file.
    fn count(
        &mut self,
        ranks: u32,
        file: &str,
        outcomes: &BTreeMap<String, Outcome>,
        took: Duration,
    ) {
        let mut tally = Tally::default();
        let mut failures = Vec::new();
        for (test, outcome) in outcomes {
            match outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::Skipped => tally.skipped += 1,
                Outcome::Failed { rank, message } => {
                    tally.failed += 1;
                    failures.push(format!("n={ranks} {test}: rank {rank}: {message}"));
                }
            }
        }
        let word = if tally.failed > 0 { "FAILED" } else { "ok" };
        println!(
            "n={ranks} {file:<24} {:>4} passed {:>3} failed {:>3} skipped {:>6.1} s  {word}",
            tally.passed,
            tally.failed,
            tally.skipped,
            took.as_secs_f64()
        );
        for failure in &failures {
            println!("       {failure}");
        }
        self.failures.extend(failures);
        self.total.passed += tally.passed;
        self.total.failed += tally.failed;
        self.total.skipped += tally.skipped;
    }

    /// What is excluded, what failed, and the last line.
    fn sum_up(self, took: Duration) -> Result<()> {
        if !self.lists.excluded.is_empty() && self.arguments.only.is_empty() {
            println!("\nexcluded (tests/mpi4py/excluded.toml):");
            let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for entry in &self.lists.excluded {
                reasons
                    .entry(&entry.reason)
                    .or_default()
                    .push(&entry.pattern);
            }
            for (reason, patterns) in reasons {
                println!("  {reason}: {}", patterns.join(" "));
            }
        }
        let list = self.installation.logs.join("failures.txt");
        let text: String = self
            .failures
            .iter()
            .map(|failure| format!("{failure}\n"))
            .collect();
        std::fs::write(&list, text)?;
        if !self.failures.is_empty() {
            println!("\nfailures: above, and in {}", list.display());
        }
        println!(
            "\nmpi4py: {} passed, {} failed, {} skipped by the suite itself, in {:.0} s",
            self.total.passed,
            self.total.failed,
            self.total.skipped,
            took.as_secs_f64()
        );
        if self.total.failed > 0 {
            bail!("{} tests of mpi4py failed", self.total.failed);
        }
        Ok(())
    }
}

/// The tests of a file that ended, and those that a run which stood still or died left open, as failed.
fn with_open(records: &Records, file: &str, cause: &str) -> BTreeMap<String, Outcome> {
    let mut outcomes = records.outcomes(file);
    let open = records.open();
    if open.is_empty() {
        let message = format!("between two tests: {cause}");
        outcomes.insert(file.to_string(), Outcome::Failed { rank: 0, message });
    }
    for (test, ranks) in open {
        let named: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let place = ranks.first().and_then(|rank| records.place(*rank));
        let message = format!(
            "not ended on rank {}{}; {cause}",
            named.join(", "),
            place.map_or_else(String::new, |place| format!(" ({place})"))
        );
        if !matches!(outcomes.get(&test), Some(Outcome::Failed { .. })) {
            outcomes.insert(
                test,
                Outcome::Failed {
                    rank: ranks[0],
                    message,
                },
            );
        }
    }
    outcomes
}
