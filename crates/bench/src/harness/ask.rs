//! Questions: the actions of a turn for each kind of [`Task`].

use super::{Cell, Harness};
use crate::experiment::{Budget, Convert, Effort, Formation, JobKey, Repeat, Task};
use crate::job::{Job, JobPool};
use crate::process::timed;
use anyhow::{Context, Result};
use std::time::Duration;

impl<'a> Harness<'a> {
    /// Samples of one turn, in the unit of y.
    pub(super) fn ask(&mut self, cell: &mut Cell<'_>, budget: &Budget) -> Result<Vec<f64>> {
        match cell.task() {
            Task::Request {
                job,
                request,
                repeat,
                convert,
            } => {
                let found = self.requests().ask(cell, budget, *job, request, *repeat)?;
                Ok(converted(found, *convert))
            }
            Task::Pair { jobs, request } => self.as_pair(cell, budget, *jobs, request),
            Task::Attacked {
                job,
                request,
                rate,
                control,
            } => self.under_attack(cell, budget, *job, request, *rate, *control),
            Task::Program {
                program,
                request,
                operations,
                convert,
            } => {
                cell.set_iterations(*operations);
                // A foreign library that hangs now and then is not waited for long.
                let limit = Duration::from_secs(self.effort.pick(2, 120));
                let warmup = usize::from(!cell.is_warm());
                let request = format!("{request} runs={}", budget.turn + warmup);
                let program = &mut self.programs[*program];
                let samples = program.ask(&request, limit)?;
                Ok(converted(samples.into_iter().skip(warmup), *convert))
            }
            Task::Device {
                device,
                size,
                convert,
            } => {
                if cell.iterations() == 0 {
                    let tried = device.sample(*size, 2, 20, 1)?;
                    cell.set_iterations(iterations_for(tried[0], budget.sample));
                }
                let iterations = cell.iterations();
                let samples = device.sample(*size, iterations / 4 + 1, iterations, budget.turn)?;
                Ok(converted(samples, *convert))
            }
            Task::Published(value) => {
                cell.set_iterations(1);
                Ok(vec![*value; budget.least])
            }
            Task::Net {
                setting,
                metric,
                milliseconds,
            } => {
                cell.set_iterations(1);
                let limit = Duration::from_millis(*milliseconds);
                let start = weft_net::command::start();
                let known = self.measured.entry(format!("{setting:?}")).or_default();
                if known.len() <= cell.taken() {
                    known.push(weft_net_testbed::measure::measure(setting, limit, &start)?);
                }
                Ok(vec![metric.of(&known[cell.taken()])])
            }
            Task::Launch {
                implementation,
                ranks,
            } => {
                let implementation = self.jobs.implementation(*implementation);
                let limit = Duration::from_secs(60);
                let start = || timed(implementation.command(*ranks, self.jobs.cores())?, limit);
                if cell.iterations() == 0 {
                    cell.set_iterations(1);
                    start()?; // the first one reads files that later ones find in memory
                }
                Ok(vec![start()?.as_secs_f64() * 1e3])
            }
            Task::Form {
                implementation,
                formation,
                less_launcher,
            } => {
                let implementation = self.jobs.implementation(*implementation);
                let hosts = self.hosts.get()?;
                let form = |formation: &Formation| {
                    anyhow::Ok(hosts.form(implementation, formation)?.as_secs_f64() * 1e3)
                };
                if cell.iterations() == 0 {
                    cell.set_iterations(1);
                    form(formation)?; // as of Task::Launch
                }
                let whole = form(formation)?;
                match formation {
                    Formation::Hydra(hydra) if *less_launcher => {
                        Ok(vec![whole - form(&Formation::HydraAlone(hydra.clone()))?])
                    }
                    _ => Ok(vec![whole]),
                }
            }
            Task::Memory { job } => {
                cell.set_iterations(1);
                let limit = Duration::from_secs(self.effort.pick(20, 120));
                let resident = self.jobs.job(*job)?;
                resident.request("settle", limit)?;
                let found = resident.memory();
                // The job must be alone: pages shared with a job of another turn would be counted in part.
                self.jobs.retire();
                found
            }
            Task::TwoJobs {
                implementation,
                milliseconds,
            } => {
                cell.set_iterations(1);
                self.two_jobs(*implementation, *milliseconds)
            }
        }
    }

    /// Requests to the resident jobs.
    pub(super) fn requests(&mut self) -> Requests<'_, 'a> {
        Requests::new(&mut self.jobs, self.effort)
    }

    /// Two jobs of one rank compute at the same time; returns the smaller share of a core.
    fn two_jobs(&mut self, implementation: usize, milliseconds: u64) -> Result<Vec<f64>> {
        let key = JobKey {
            implementation,
            ranks: 1,
            multiple: false,
        };
        let mut jobs = [self.jobs.launch(key)?, self.jobs.launch(key)?];
        let limit =
            Duration::from_millis(milliseconds) + Duration::from_secs(self.effort.pick(20, 60));
        let request = format!("burn milliseconds={milliseconds} samples=4");
        for job in &mut jobs {
            job.post(&request)?;
        }
        let shares: Vec<Vec<f64>> = jobs
            .iter_mut()
            .map(|job: &mut Job| job.collect(limit))
            .collect::<Result<_>>()?;
        for job in jobs {
            job.end().context("one of two jobs")?;
        }
        let least =
            |(one, other): (&f64, &f64)| 100.0 * one.min(*other) / (milliseconds as f64 * 1e6);
        Ok(shares[0].iter().zip(&shares[1]).map(least).collect())
    }
}

/// Samples in the unit of y.
fn converted(samples: impl IntoIterator<Item = f64>, convert: Convert) -> Vec<f64> {
    let samples = samples.into_iter();
    samples.map(|sample| convert.apply(sample)).collect()
}

/// Requests to resident jobs, each with a number of iterations that fills a sample.
pub(super) struct Requests<'h, 'a> {
    jobs: &'h mut JobPool<'a>,
    /// How long an answer may take.
    limit: Duration,
}

impl<'h, 'a> Requests<'h, 'a> {
    /// Requests to the jobs of this pool.
    pub fn new(jobs: &'h mut JobPool<'a>, effort: Effort) -> Self {
        let limit = Duration::from_secs(effort.pick(10, 600));
        Self { jobs, limit }
    }

    /// Samples of one turn, in nanoseconds per operation. A job that fails is killed.
    pub fn ask(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        key: JobKey,
        request: &str,
        repeat: Repeat,
    ) -> Result<Vec<f64>> {
        let job = self.jobs.job(key)?;
        let found = Self::turn(job, cell, budget, request, repeat, self.limit);
        if found.is_err() {
            self.jobs.discard(key);
        }
        found
    }

    fn turn(
        job: &mut Job,
        cell: &mut Cell<'_>,
        budget: &Budget,
        request: &str,
        repeat: Repeat,
        limit: Duration,
    ) -> Result<Vec<f64>> {
        let mut ask = |warmup: u64, iterations: u64, samples: usize| {
            job.request(
                &format!("{request} warmup={warmup} iterations={iterations} samples={samples}"),
                limit,
            )
        };
        let warmup = match repeat {
            Repeat::Exactly(count) => {
                cell.set_iterations(count);
                if cell.is_warm() {
                    count / 20
                } else {
                    count / 5 + 1
                }
            }
            Repeat::Timed if cell.iterations() == 0 => {
                let tried = ask(1, 1, 1)?[0];
                let guess = iterations_for(tried, budget.sample / 10);
                // A slow operation is not tried longer; a fast one is timed when warm.
                let tried = if guess > 1 {
                    ask(guess / 2, guess, 1)?[0]
                } else {
                    tried
                };
                cell.set_iterations(iterations_for(tried, budget.sample));
                cell.iterations() / 10
            }
            Repeat::Timed => cell.iterations() / 5,
        }
        .max(1);
        // A turn lasts about as long for slow operations as for fast ones.
        let iterations = cell.iterations();
        let turn = if iterations == 1 { 1 } else { budget.turn };
        ask(warmup, iterations, turn)
    }
}

/// How many operations of `nanoseconds` fill a sample.
fn iterations_for(nanoseconds: f64, sample: Duration) -> u64 {
    let wanted = sample.as_nanos() as f64 / nanoseconds.max(1.0);
    (wanted.round() as u64).clamp(1, 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_fill_the_sample() {
        assert_eq!(iterations_for(100.0, Duration::from_millis(1)), 10_000);
        assert_eq!(iterations_for(5e9, Duration::from_millis(1)), 1);
        assert_eq!(iterations_for(0.0, Duration::from_secs(10)), 1_000_000);
    }
}
