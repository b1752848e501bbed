//! The one harness: visits the cells of an experiment in random order until each has enough samples.
//!
//! ```text
//! for each launch:   (fresh jobs)
//!   while a cell is open:
//!     for each open cell, in an order drawn anew:   a turn = warm-up + a few samples
//! ```
//!
//! A cell is closed when the standard error of its mean is under the aim (and it has the least number
//! of samples), when it has the most samples, or when its time is used up. With several launches each
//! of these limits is reached in equal steps, so that every launch contributes. A cell that fails is
//! closed with a note; a job that fails is killed and the next cell gets a new one.

use crate::experiment::{Budget, Convert, Effort, Experiment, JobKey, Line, Plan, Repeat, Task};
use crate::implementation::Implementation;
use crate::job::{Pool, timed};
use crate::results::{ExperimentResult, Point, Series};
use crate::schedule::Schedule;
use crate::statistics::Statistics;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a run needs to measure.
pub struct Harness<'a> {
    /// The implementations, in the order of the cast.
    pub implementations: &'a [Implementation],
    /// Processors that the run may use.
    pub cores: usize,
    /// Quick or full.
    pub effort: Effort,
    /// Seed of the order of turns.
    pub seed: u64,
    pool: Pool,
}

/// One cell while it is measured.
struct Cell<'p> {
    line: usize,
    x: f64,
    task: &'p Task,
    samples: Vec<f64>,
    iterations: u64,
    launches: u32,
    in_this_launch: bool,
    spent: Duration,
    failed: Option<String>,
}

impl<'a> Harness<'a> {
    /// A harness without any job yet.
    pub fn new(
        implementations: &'a [Implementation],
        cores: usize,
        effort: Effort,
        seed: u64,
    ) -> Harness<'a> {
        Harness {
            implementations,
            cores,
            effort,
            seed,
            pool: Pool::default(),
        }
    }

    /// What the library of an implementation says of itself, from a job of two ranks that then stays.
    pub fn version(&mut self, implementation: usize) -> Result<String> {
        let key = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let job = self.pool.job(key, self.implementations, self.cores)?;
        let version = job.version().to_string();
        let asked = job.request(
            "pingpong size=8 iterations=1 samples=1",
            self.effort.pick(10, 30).seconds(),
        );
        if asked.is_err() {
            self.pool.discard(key);
        }
        asked.map(|_| version)
    }

    /// Runs one experiment.
    pub fn run(
        &mut self,
        experiment: &Experiment,
        plan: &Plan,
        bar: &ProgressBar,
    ) -> ExperimentResult {
        let budget = plan.budget;
        let mut schedule = Schedule::new(self.seed, experiment.id);
        let mut cells = cells_of(&plan.lines);
        let began = Instant::now();
        bar.set_length(cells.len() as u64 * u64::from(budget.launches));
        if plan.alone {
            self.pool.retire(self.implementations);
        }
        for launch in 1..=budget.launches {
            if launch > 1 {
                self.pool.retire(self.implementations);
            }
            for cell in &mut cells {
                cell.in_this_launch = false;
            }
            loop {
                let open: Vec<usize> = (0..cells.len())
                    .filter(|&index| !cells[index].closed(&budget, launch))
                    .collect();
                let done = cells.len() * launch as usize - open.len();
                bar.set_position(done as u64);
                if open.is_empty() {
                    break;
                }
                for index in schedule.pass(&open) {
                    bar.set_message(plan.lines[cells[index].line].name());
                    self.turn(&mut cells[index], &budget);
                }
            }
        }
        if plan.alone || self.effort == Effort::Full {
            self.pool.retire(self.implementations);
        }
        let mut notes: Vec<String> = experiment
            .notes
            .iter()
            .map(|note| note.to_string())
            .collect();
        notes.extend(failures(&cells, &plan.lines));
        notes.append(&mut self.pool.complaints);
        notes.push(protocol(&cells, &budget, began.elapsed()));
        ExperimentResult {
            id: experiment.id.into(),
            title: experiment.title.into(),
            seed: self.seed,
            unit: experiment.unit.into(),
            x: experiment.x.into(),
            y: experiment.y.into(),
            x_scale: experiment.scales.0,
            y_scale: experiment.scales.1,
            lower_is_better: experiment.lower_is_better,
            chart: experiment.chart,
            series: series_of(&plan.lines, cells, &budget),
            notes,
        }
    }

    /// Ends all jobs; what went wrong while they ended.
    pub fn finish(mut self) -> Vec<String> {
        self.pool.retire(self.implementations);
        self.pool.complaints
    }

    /// One turn of a cell: a warm-up and a few samples, or a failure that closes the cell.
    fn turn(&mut self, cell: &mut Cell<'_>, budget: &Budget) {
        let start = Instant::now();
        match self.ask(cell, budget) {
            Ok(samples) if samples.iter().all(|sample| sample.is_finite()) => {
                cell.samples.extend(samples)
            }
            Ok(samples) => {
                cell.failed = Some(format!("not a figure among the samples: {samples:?}"))
            }
            Err(error) => cell.failed = Some(format!("{error:#}")),
        }
        if !cell.in_this_launch {
            cell.in_this_launch = true;
            cell.launches += 1;
        }
        cell.spent += start.elapsed();
    }

    fn ask(&mut self, cell: &mut Cell<'_>, budget: &Budget) -> Result<Vec<f64>> {
        match cell.task {
            Task::Request {
                job,
                request,
                repeat,
                convert,
            } => self.request(cell, budget, *job, request, *repeat, *convert),
            Task::Device {
                device,
                size,
                convert,
            } => {
                if cell.iterations == 0 {
                    let tried = device.sample(*size, 2, 20, 1)?;
                    cell.iterations = iterations_for(tried[0], budget.sample);
                }
                let samples =
                    device.sample(*size, cell.iterations / 4 + 1, cell.iterations, budget.turn)?;
                Ok(samples
                    .into_iter()
                    .map(|sample| convert.apply(sample))
                    .collect())
            }
            Task::Launch {
                implementation,
                ranks,
            } => {
                let member = &self.implementations[*implementation];
                let limit = Duration::from_secs(60);
                let start = || timed(member.command(*ranks, self.cores), limit);
                if cell.iterations == 0 {
                    cell.iterations = 1;
                    start()?; // the first one reads files that later ones find in memory
                }
                Ok(vec![start()?.as_secs_f64() * 1e3])
            }
            Task::Memory { job } => {
                cell.iterations = 1;
                let limit = self.effort.pick(20, 120).seconds();
                let resident = self.pool.job(*job, self.implementations, self.cores)?;
                resident.request("settle", limit)?;
                let found = resident.memory();
                // Alone in memory: pages shared with a job of another turn would be counted in part.
                self.pool.discard(*job);
                found
            }
            Task::TwoJobs {
                implementation,
                milliseconds,
            } => {
                cell.iterations = 1;
                self.two_jobs(*implementation, *milliseconds)
            }
        }
    }

    fn request(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        key: JobKey,
        request: &str,
        repeat: Repeat,
        convert: Convert,
    ) -> Result<Vec<f64>> {
        let limit = self.effort.pick(10, 600).seconds();
        let job = self.pool.job(key, self.implementations, self.cores)?;
        let mut ask = |warmup: u64, iterations: u64, samples: usize| {
            job.request(
                &format!("{request} warmup={warmup} iterations={iterations} samples={samples}"),
                limit,
            )
        };
        let mut attempt = || {
            let warmup = match repeat {
                Repeat::Exactly(count) => {
                    cell.iterations = count;
                    if cell.in_this_launch {
                        count / 20
                    } else {
                        count / 5 + 1
                    }
                }
                Repeat::Timed if cell.iterations == 0 => {
                    let tried = ask(1, 1, 1)?[0];
                    let guess = iterations_for(tried, budget.sample / 10);
                    // What is slow at once is not tried longer; what is fast is timed when warm.
                    let tried = if guess > 1 {
                        ask(guess / 2, guess, 1)?[0]
                    } else {
                        tried
                    };
                    cell.iterations = iterations_for(tried, budget.sample);
                    cell.iterations / 10
                }
                Repeat::Timed => cell.iterations / 5,
            };
            // A turn lasts about as long for slow operations as for fast ones.
            let turn = if cell.iterations == 1 { 1 } else { budget.turn };
            ask(warmup, cell.iterations, turn)
        };
        match attempt() {
            Ok(samples) => Ok(samples
                .into_iter()
                .map(|sample| convert.apply(sample))
                .collect()),
            Err(error) => {
                self.pool.discard(key);
                Err(error)
            }
        }
    }

    /// Two jobs of one rank compute at the same time; the smaller share of a core.
    fn two_jobs(&mut self, implementation: usize, milliseconds: u64) -> Result<Vec<f64>> {
        let launch =
            || crate::job::Job::launch(&self.implementations[implementation], 1, false, self.cores);
        let mut jobs = [launch()?, launch()?];
        let limit = Duration::from_millis(milliseconds) + self.effort.pick(20, 60).seconds();
        let request = format!("burn milliseconds={milliseconds} samples=4");
        for job in &mut jobs {
            job.post(&request)?;
        }
        let shares: Vec<Vec<f64>> = jobs
            .iter_mut()
            .map(|job| job.collect(limit))
            .collect::<Result<_>>()?;
        for job in jobs {
            job.end().context("one of two jobs")?;
        }
        let least =
            |(one, other): (&f64, &f64)| 100.0 * one.min(*other) / (milliseconds as f64 * 1e6);
        Ok(shares[0].iter().zip(&shares[1]).map(least).collect())
    }
}

/// Seconds, written where they are used.
trait Seconds {
    fn seconds(self) -> Duration;
}

impl Seconds for u64 {
    fn seconds(self) -> Duration {
        Duration::from_secs(self)
    }
}

/// How many operations of so many nanoseconds fill a sample.
fn iterations_for(nanoseconds: f64, sample: Duration) -> u64 {
    let wanted = sample.as_nanos() as f64 / nanoseconds.max(1.0);
    (wanted.round() as u64).clamp(1, 1_000_000)
}

fn cells_of(lines: &[Line]) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for (line, value) in lines.iter().enumerate() {
        for (x, task) in &value.cells {
            cells.push(Cell {
                line,
                x: *x,
                task,
                samples: Vec::new(),
                iterations: 0,
                launches: 0,
                in_this_launch: false,
                spent: Duration::ZERO,
                failed: None,
            });
        }
    }
    cells
}

impl Cell<'_> {
    /// Whether this launch (counted from 1) needs no more turn of this cell.
    fn closed(&self, budget: &Budget, launch: u32) -> bool {
        if self.failed.is_some() {
            return true;
        }
        if !self.in_this_launch {
            return false;
        }
        let launches = budget.launches as usize;
        let due = |whole: usize| (whole * launch as usize).div_ceil(launches);
        if self.samples.len() < due(budget.least) {
            // Even the least is given up when it takes many times the planned time.
            return self.spent > 10 * budget.time * launch / budget.launches;
        }
        self.samples.len() >= due(budget.most)
            || self.spent >= budget.time * launch / budget.launches
            || Statistics::of(&self.samples)
                .is_some_and(|found| found.relative_error() < budget.aim)
    }
}

/// Failed cells, those with the same reason in one sentence.
fn failures(cells: &[Cell<'_>], lines: &[Line]) -> Vec<String> {
    let mut reasons: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = &cell.failed {
            let line = &lines[cell.line];
            let name = if line.panel.is_empty() {
                line.name()
            } else {
                format!("{} ({})", line.name(), line.panel)
            };
            reasons
                .entry((name, why))
                .or_default()
                .push(format!("{}", cell.x));
        }
    }
    reasons
        .into_iter()
        .map(|((name, why), places)| format!("{name} failed at {}: {why}", places.join(", ")))
        .collect()
}

/// One sentence on how it was measured and what was reached.
fn protocol(cells: &[Cell<'_>], budget: &Budget, took: Duration) -> String {
    let good: Vec<&Cell<'_>> = cells
        .iter()
        .filter(|cell| !cell.samples.is_empty())
        .collect();
    let settled = good
        .iter()
        .filter(|cell| {
            Statistics::of(&cell.samples).is_some_and(|found| found.relative_error() < budget.aim)
        })
        .count();
    format!(
        "{} samples in {:.1} s, {} launch{} of each job; cells visited in random order; standard error under {} % \
         reached by {settled} of {} points.",
        good.iter().map(|cell| cell.samples.len()).sum::<usize>(),
        took.as_secs_f64(),
        budget.launches,
        if budget.launches == 1 { "" } else { "es" },
        budget.aim * 100.0,
        good.len(),
    )
}

fn series_of(lines: &[Line], cells: Vec<Cell<'_>>, budget: &Budget) -> Vec<Series> {
    let mut series: Vec<Series> = lines
        .iter()
        .map(|line| Series {
            name: line.name(),
            role: line.role,
            subject: line.subject.clone(),
            variant: line.variant.clone(),
            panel: line.panel.clone(),
            points: Vec::new(),
        })
        .collect();
    for cell in cells {
        series[cell.line].points.extend(Point::new(
            cell.x,
            &cell.samples,
            cell.iterations,
            cell.launches,
            budget.aim,
        ));
    }
    for one in &mut series {
        one.points.sort_by(|left, right| left.x.total_cmp(&right.x));
    }
    series.retain(|one| !one.points.is_empty());
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::results::{Chart, Role, Scale};

    fn budget() -> Budget {
        let time = Duration::from_millis(200);
        Budget {
            aim: 0.01,
            least: 3,
            most: 6,
            time,
            sample: Duration::from_micros(20),
            turn: 1,
            launches: 2,
        }
    }

    fn plan() -> Plan {
        let convert = Convert::Microseconds;
        let line = |subject: &str, sizes: &[usize]| Line {
            role: Role::Device,
            subject: subject.into(),
            variant: String::new(),
            panel: String::new(),
            cells: sizes
                .iter()
                .map(|&size| {
                    (
                        size as f64,
                        Task::Device {
                            device: Device::Memcpy,
                            size,
                            convert,
                        },
                    )
                })
                .collect(),
        };
        Plan {
            budget: budget(),
            lines: vec![line("copy", &[4096, 64]), line("other", &[64])],
            alone: false,
        }
    }

    fn experiment() -> Experiment {
        Experiment {
            id: "test",
            part: crate::experiment::Part::Beyond,
            title: "test",
            x: "size [B]",
            y: "time [µs]",
            unit: "µs",
            scales: (Scale::Log, Scale::Log),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &["a note"],
            build: crate::experiment::Build::Missing("a test"),
        }
    }

    #[test]
    fn every_cell_gets_its_samples_from_every_launch() {
        let found = Harness::new(&[], 2, Effort::Quick, 3).run(
            &experiment(),
            &plan(),
            &ProgressBar::hidden(),
        );
        assert_eq!(found.series.len(), 2);
        let places: Vec<f64> = found.series[0].points.iter().map(|point| point.x).collect();
        assert_eq!(places, [64.0, 4096.0], "points rise with x");
        for point in found.series.iter().flat_map(|series| &series.points) {
            assert!((3..=6).contains(&point.n), "{point:?}");
            assert_eq!(point.launches, 2);
        }
        assert_eq!(found.notes[0], "a note");
        assert!(
            found
                .notes
                .last()
                .is_some_and(|note| note.contains("3 points")),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn a_cell_that_fails_is_closed_and_named() {
        let mut plan = plan();
        let job = JobKey {
            implementation: 0,
            ranks: 2,
            multiple: false,
        };
        let (repeat, convert) = (Repeat::Timed, Convert::Nanoseconds);
        plan.lines[1].cells[0].1 = Task::Request {
            job,
            request: "pingpong".into(),
            repeat,
            convert,
        };
        let folder = tempfile::tempdir().expect("folder");
        let broken = broken_implementation(folder.path());
        let cast = [broken];
        let found = Harness::new(&cast, 2, Effort::Quick, 3).run(
            &experiment(),
            &plan,
            &ProgressBar::hidden(),
        );
        assert_eq!(
            found.series.len(),
            1,
            "the series without a point is left out"
        );
        assert!(
            found
                .notes
                .iter()
                .any(|note| note.starts_with("other failed at 64: ended while starting")),
            "{:?}",
            found.notes
        );
    }

    /// An implementation whose compiler makes nothing and whose launcher ends at once.
    fn broken_implementation(folder: &std::path::Path) -> Implementation {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(folder.join("bin")).expect("bin");
        for tool in ["mpicc", "mpiexec"] {
            let path = folder.join("bin").join(tool);
            std::fs::write(&path, "#!/bin/sh\n: > measure\n").expect("script");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        }
        Implementation::new("broken", Role::Peer, folder, &folder.join("work")).expect("takes it")
    }

    #[test]
    fn iterations_fill_the_sample() {
        assert_eq!(iterations_for(100.0, Duration::from_millis(1)), 10_000);
        assert_eq!(iterations_for(5e9, Duration::from_millis(1)), 1);
        assert_eq!(iterations_for(0.0, Duration::from_secs(10)), 1_000_000);
    }
}
