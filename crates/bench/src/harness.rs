//! Harness: visits the cells of an experiment in random order until each has enough samples.
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
mod cell;
mod outcome;
mod pair;

use crate::experiment::{Budget, ComponentProgram, Effort, Experiment, JobKey, Plan};
use crate::hosts::HostsOnDemand;
use crate::implementation::Implementation;
use crate::job::JobPool;
use crate::program::Program;
use crate::results::ExperimentResult;
use crate::schedule::Schedule;
use anyhow::Result;
use attack::Intruders;
use cell::Cell;
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use weft_net_testbed::measure::Measured;

/// Measures experiments, one after the other, and keeps their resources: jobs, programs, hosts.
pub struct Harness<'a> {
    jobs: JobPool<'a>,
    /// The programs of components, in the order of the participants.
    programs: Vec<Program>,
    intruders: Intruders,
    /// Two hosts on this machine.
    hosts: HostsOnDemand,
    /// Measurements of the datapath by setting: one serves all its figures.
    measured: HashMap<String, Vec<Measured>>,
    effort: Effort,
    seed: u64,
}

impl<'a> Harness<'a> {
    /// A harness without any job yet. Tasks name implementations and programs by their index in these lists; `hosts`
    /// are the hosts of the implementations, `cores` the processors that the run may use, `seed` decides the order of
    /// turns.
    pub fn new(
        implementations: &'a [Implementation],
        programs: Vec<Program>,
        hosts: HostsOnDemand,
        cores: usize,
        effort: Effort,
        seed: u64,
    ) -> Harness<'a> {
        Harness {
            jobs: JobPool::new(implementations, cores),
            programs,
            intruders: Intruders::new(),
            hosts,
            measured: HashMap::new(),
            effort,
            seed,
        }
    }

    /// The programs of components as participants.
    pub fn component_programs(&self) -> Vec<ComponentProgram> {
        let of_program = |(index, program): (usize, &Program)| ComponentProgram {
            index,
            stem: program.stem().to_owned(),
            role: program.role(),
        };
        self.programs.iter().enumerate().map(of_program).collect()
    }

    /// The version that the library of an implementation reports, from a job of two ranks that then stays.
    ///
    /// # Errors
    /// If such a job does not start, or its ranks do not exchange a message.
    pub fn version(&mut self, implementation: usize) -> Result<String> {
        let key = JobKey {
            implementation,
            ranks: 2,
            multiple: false,
        };
        let job = self.jobs.job(key)?;
        let version = job.version().to_string();
        let asked = job.request(
            "pingpong size=8 iterations=1 samples=1",
            Duration::from_secs(self.effort.pick(10, 30)),
        );
        if asked.is_err() {
            self.jobs.discard(key);
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
        let mut cells = Cell::all(&plan.series);
        self.measured.clear();
        let began = Instant::now();
        let is_late = || plan.limit.is_some_and(|limit| began.elapsed() > limit);
        bar.set_length(cells.len() as u64 * u64::from(budget.launches));
        if plan.alone {
            self.jobs.retire();
        }
        for launch in 1..=budget.launches {
            if launch > 1 {
                self.jobs.retire();
                self.programs.iter_mut().for_each(Program::stop);
                self.intruders.forget();
            }
            cells.iter_mut().for_each(Cell::begin_launch);
            loop {
                let open: Vec<usize> = (0..cells.len())
                    .filter(|&index| !cells[index].is_closed(&budget, launch))
                    .filter(|&index| !is_late() || cells[index].is_new())
                    .collect();
                let done = cells.len() * launch as usize - open.len();
                bar.set_position(done as u64);
                if open.is_empty() {
                    break;
                }
                for index in schedule.pass(&open) {
                    bar.set_message(plan.series[cells[index].series()].name());
                    if cells[index].failure().is_some() {
                        continue; // since this pass began
                    }
                    self.turn(&mut cells[index], &budget);
                    give_up_after(&mut cells, index);
                }
            }
        }
        if plan.alone || self.effort == Effort::Full {
            self.jobs.retire();
        }
        // A program that has ended holds no memory that the next experiment might need.
        self.programs.iter_mut().for_each(Program::stop);
        self.intruders.stop();
        self.hosts.forget();
        let mut notes: Vec<String> = experiment
            .notes
            .iter()
            .map(|note| note.to_string())
            .collect();
        notes.extend(outcome::failures(&cells, &plan.series));
        notes.append(&mut self.jobs.take_complaints());
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

    /// Ends all jobs; returns what went wrong meanwhile.
    pub fn finish(mut self) -> Vec<String> {
        self.jobs.retire();
        self.jobs.take_complaints()
    }

    /// One turn of a cell: a warm-up and a few samples, or a failure that closes the cell.
    fn turn(&mut self, cell: &mut Cell<'_>, budget: &Budget) {
        let start = Instant::now();
        let found = self.ask(cell, budget);
        cell.record(found, start.elapsed());
    }
}

/// If a library's program gave no answer at one place, it is not asked at places that are still open: each
/// would cost a wait.
fn give_up_after(cells: &mut [Cell<'_>], index: usize) {
    let silent = &cells[index];
    if !silent.gave_no_answer() {
        return;
    }
    let (series, x) = (silent.series(), silent.x());
    let same_series = |one: &&mut Cell<'_>| one.series() == series && one.is_new();
    for other in cells.iter_mut().filter(same_series) {
        other.give_up(format!("not asked, for it gave no answer at {x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::experiment::{Convert, Repeat, SeriesPlan, Task};
    use crate::program::AskError;
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
        let found = Harness::new(
            &[],
            Vec::new(),
            HostsOnDemand::default(),
            2,
            Effort::Quick,
            3,
        )
        .run(&experiment(), &plan(), &ProgressBar::hidden());
        assert_eq!(found.series.len(), 2);
        let places: Vec<f64> = found.series[0].points.iter().map(|point| point.x).collect();
        assert_eq!(places, [64.0, 4096.0], "points rise with x");
        for point in found.series.iter().flat_map(|series| &series.points) {
            assert!((3..=6).contains(&point.statistics.n), "{point:?}");
            assert_eq!(point.launches, 2);
            let counts = &point.samples_by_launch;
            assert!(counts.len() == 2 && counts.iter().all(|&count| count > 0));
            assert_eq!(counts.iter().sum::<usize>(), point.samples.len());
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
        let plan = plan().bounded(Duration::ZERO);
        let found = Harness::new(
            &[],
            Vec::new(),
            HostsOnDemand::default(),
            2,
            Effort::Full,
            3,
        )
        .run(&experiment(), &plan, &ProgressBar::hidden());
        let counts: Vec<usize> = found
            .series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.statistics.n)
            .collect();
        assert_eq!(counts, [1, 1, 1], "a turn of one sample each");
    }

    #[test]
    fn an_implementation_that_once_gave_no_answer_is_not_waited_for_again() {
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
        let mut cells = Cell::all(&series);
        let fail =
            |cell: &mut Cell<'_>, why: AskError| cell.record(Err(why.into()), Duration::ZERO);
        cells[0].record(Ok(vec![1.0]), Duration::ZERO);
        fail(&mut cells[1], AskError::Refused("no such verb".into()));
        give_up_after(&mut cells, 1);
        assert!(cells[2].failure().is_none(), "an error ends one place only");
        let silence = AskError::NoAnswer {
            limit: Duration::from_secs(2),
            said: String::new(),
        };
        fail(&mut cells[1], silence);
        give_up_after(&mut cells, 1);
        assert!(cells[2].failure().is_some_and(|why| why.ends_with("at 8")));
        assert!(cells[0].failure().is_none() && cells[3].failure().is_none());
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
        let found = Harness::new(
            &participants,
            Vec::new(),
            HostsOnDemand::default(),
            2,
            Effort::Quick,
            3,
        )
        .run(&experiment(), &plan, &ProgressBar::hidden());
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
