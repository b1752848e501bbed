//! The jobs of one run, one number of ranks after the other, and the counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Arguments;
use super::installation::Installation;
use super::job::{End, Job, run_within, tail};
use super::lists::Lists;
use super::record::{Outcome, Records, file_of};

/// How often a file is taken up again after a test of it stood still or died.
const RESTARTS: u32 = 12;

/// Counts of tests, each at each number of ranks.
#[derive(Default, Clone, Copy)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// One run of the chore: what to do, and what has come of it.
pub struct Session<'a> {
    arguments: &'a Arguments,
    installation: &'a Installation,
    lists: &'a Lists,
    program: &'a Path,
    total: Tally,
    failures: Vec<String>,
    /// Reasons of the suite for leaving out tests, and how often it gave them.
    skipped: BTreeMap<String, usize>,
}

impl<'a> Session<'a> {
    /// Before the first job.
    pub fn new(
        arguments: &'a Arguments,
        installation: &'a Installation,
        lists: &'a Lists,
        program: &'a Path,
    ) -> Self {
        Self {
            arguments,
            installation,
            lists,
            program,
            total: Tally::default(),
            failures: Vec::new(),
            skipped: BTreeMap::new(),
        }
    }

    /// The programs of `mpi4py.bench`, its pool of workers, and the all-to-all of the demonstrations.
    pub fn bench(&mut self, ranks: u32) -> Result<()> {
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
            let hosts = self.installation.place.network.is_some();
            if self
                .lists
                .excluded
                .iter()
                .any(|entry| entry.holds(ranks, hosts) && entry.pattern == full)
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
    pub fn suite(&mut self, ranks: u32) -> Result<()> {
        let hosts = self.installation.place.network.is_some();
        let holding = self
            .lists
            .excluded
            .iter()
            .filter(|entry| entry.holds(ranks, hosts));
        let mut excluded: Vec<String> = holding.map(|entry| entry.pattern.clone()).collect();
        let once = self.arguments.alone_once && self.arguments.ranks.first() != Some(&ranks);
        let mut wanted = self.lists.files.clone();
        wanted.retain(|file| !(once && self.lists.alone.contains(file)));
        let mut files: &[String] = &wanted;
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
                Outcome::Skipped(reason) => {
                    tally.skipped += 1;
                    *self.skipped.entry(reason.clone()).or_default() += 1;
                }
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
    pub fn sum_up(self, took: Duration) -> Result<()> {
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
        if !self.skipped.is_empty() && self.arguments.only.is_empty() {
            println!("\nskipped by the suite itself:");
            for (reason, times) in &self.skipped {
                println!("  {times:>4} {reason}");
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
