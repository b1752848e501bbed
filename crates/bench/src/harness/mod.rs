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

mod ask;
mod attack;
mod outcome;

use crate::experiment::{Budget, Effort, Experiment, JobKey, Plan, SeriesPlan, Task};
use crate::hosts::Hosts;
use crate::implementation::Implementation;
use crate::job::Pool;
use crate::program::{NO_ANSWER, Program};
use crate::results::ExperimentResult;
use crate::schedule::Schedule;
use crate::statistics::Statistics;
use anyhow::Result;
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use weft_net_testbed::measure::Measured;

/// What a run needs to measure.
pub struct Harness<'a> {
    /// The implementations, in the order of the participants.
    pub implementations: &'a [Implementation],
    /// Processors that the run may use.
    pub cores: usize,
    /// Quick or full.
    pub effort: Effort,
    /// Seed of the order of turns.
    pub seed: u64,
    /// The programs of components, in the order of the participants.
    pub programs: Vec<Program>,
    pool: Pool,
    /// Those who attack a job, and whom.
    strangers: Program,
    attacked: Option<Attacked>,
    /// Two hosts on this machine.
    hosts: Option<Hosts>,
    /// Measurements of the datapath by setting: one serves all figures that are asked of it.
    measured: HashMap<String, Vec<Measured>>,
}

/// A job whose first words the strangers have overheard.
struct Attacked {
    job: JobKey,
    /// Where its ranks listen, as the strangers are told.
    at: String,
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
            programs: Vec::new(),
            pool: Pool::default(),
            strangers: Program::strangers(),
            attacked: None,
            hosts: None,
            measured: HashMap::new(),
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
            Duration::from_secs(self.effort.pick(10, 30)),
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
        let mut cells = cells_of(&plan.series);
        self.measured.clear();
        let began = Instant::now();
        let is_late = || plan.limit.is_some_and(|limit| began.elapsed() > limit);
        bar.set_length(cells.len() as u64 * u64::from(budget.launches));
        if plan.alone {
            self.pool.retire(self.implementations);
        }
        for launch in 1..=budget.launches {
            if launch > 1 {
                self.pool.retire(self.implementations);
                self.programs.iter_mut().for_each(Program::stop);
                self.attacked = None;
            }
            for cell in &mut cells {
                cell.in_this_launch = false;
            }
            loop {
                let open: Vec<usize> = (0..cells.len())
                    .filter(|&index| !cells[index].closed(&budget, launch))
                    .filter(|&index| !is_late() || cells[index].is_new())
                    .collect();
                let done = cells.len() * launch as usize - open.len();
                bar.set_position(done as u64);
                if open.is_empty() {
                    break;
                }
                for index in schedule.pass(&open) {
                    bar.set_message(plan.series[cells[index].line].name());
                    if cells[index].failed.is_some() {
                        continue; // since this pass began
                    }
                    self.turn(&mut cells[index], &budget);
                    give_up_after(&mut cells, index);
                }
            }
        }
        if plan.alone || self.effort == Effort::Full {
            self.pool.retire(self.implementations);
        }
        // A program that has ended holds no memory that the next experiment might miss.
        self.programs.iter_mut().for_each(Program::stop);
        self.strangers.stop();
        self.attacked = None;
        self.hosts = None;
        let mut notes: Vec<String> = experiment
            .notes
            .iter()
            .map(|note| note.to_string())
            .collect();
        notes.extend(outcome::failures(&cells, &plan.series));
        notes.append(&mut self.pool.complaints);
        notes.push(outcome::protocol(&cells, &budget, began.elapsed()));
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
            series: outcome::series_of(&plan.series, cells, &budget),
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
}

/// The program of a library that gave no answer at one place is not asked at those where it was not yet: each
/// would be waited for.
fn give_up_after(cells: &mut [Cell<'_>], index: usize) {
    let silent = &cells[index];
    let why = silent.failed.as_deref().unwrap_or_default();
    if !matches!(silent.task, Task::Program { .. }) || !why.starts_with(NO_ANSWER) {
        return;
    }
    let (line, x) = (silent.line, silent.x);
    for other in cells.iter_mut().filter(|one| one.line == line) {
        if other.is_new() {
            other.failed = Some(format!("not asked, for it gave no answer at {x}"));
        }
    }
}

fn cells_of(series: &[SeriesPlan]) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for (line, value) in series.iter().enumerate() {
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
    /// Whether it has had no turn yet.
    fn is_new(&self) -> bool {
        self.samples.is_empty() && self.failed.is_none()
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::experiment::{Convert, Repeat};
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
        let line = |subject: &str, sizes: &[usize]| SeriesPlan {
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
            series: vec![line("copy", &[4096, 64]), line("other", &[64])],
            alone: false,
            limit: None,
        }
    }

    fn experiment() -> Experiment {
        Experiment {
            id: "test",
            origin: crate::experiment::Origin::Beyond,
            title: "test",
            x: "size [B]",
            y: "time [µs]",
            unit: "µs",
            scales: (Scale::Log, Scale::Log),
            lower_is_better: true,
            chart: Chart::Line,
            notes: &["a note"],
            plan: |_, _| unreachable!("not planned"),
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
    fn a_bounded_run_gives_each_cell_a_turn_and_ends() {
        let mut plan = plan();
        plan.bound(Duration::ZERO);
        let found =
            Harness::new(&[], 2, Effort::Full, 3).run(&experiment(), &plan, &ProgressBar::hidden());
        let counts: Vec<usize> = found
            .series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.n)
            .collect();
        assert_eq!(counts, [1, 1, 1], "a turn of one sample each");
    }

    #[test]
    fn who_gives_no_answer_once_is_not_waited_for_again() {
        let task = Task::Program {
            program: 0,
            request: String::new(),
            operations: 1,
            convert: Convert::Nanoseconds,
        };
        let line = |places: &[f64]| SeriesPlan {
            role: Role::Peer,
            subject: "silent".into(),
            variant: String::new(),
            panel: String::new(),
            cells: places.iter().map(|&x| (x, task.clone())).collect(),
        };
        let series = [line(&[2.0, 8.0, 64.0]), line(&[2.0])];
        let mut cells = cells_of(&series);
        cells[0].samples.push(1.0);
        cells[1].failed = Some("no such verb".into());
        give_up_after(&mut cells, 1);
        assert!(cells[2].failed.is_none(), "an error ends one place only");
        cells[1].failed = Some(format!("{NO_ANSWER} 2s"));
        give_up_after(&mut cells, 1);
        assert!(
            cells[2]
                .failed
                .as_deref()
                .is_some_and(|why| why.ends_with("at 8"))
        );
        assert!(cells[0].failed.is_none() && cells[3].failed.is_none());
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
        plan.series[1].cells[0].1 = Task::Request {
            job,
            request: "pingpong".into(),
            repeat,
            convert,
        };
        let folder = tempfile::tempdir().expect("folder");
        let broken = broken_implementation(folder.path());
        let participants = [broken];
        let found = Harness::new(&participants, 2, Effort::Quick, 3).run(
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
}
