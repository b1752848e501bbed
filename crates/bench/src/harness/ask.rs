//! One question to one subject: what a turn does for each kind of [`Task`].

use super::{Cell, Harness};
use crate::experiment::{Budget, Convert, Formation, JobKey, Repeat, Task};
use crate::hosts::Hosts;
use crate::job::{Job, timed};
use anyhow::{Context, Result};
use std::time::Duration;

impl Harness<'_> {
    /// Samples of one turn, in the unit of y.
    pub(super) fn ask(&mut self, cell: &mut Cell<'_>, budget: &Budget) -> Result<Vec<f64>> {
        match cell.task {
            Task::Request {
                job,
                request,
                repeat,
                convert,
            } => self.request(cell, budget, *job, request, *repeat, *convert),
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
                cell.iterations = *operations;
                // A library of others that hangs now and then is not waited for long.
                let limit = Duration::from_secs(self.effort.pick(2, 120));
                let warmup = usize::from(!cell.in_this_launch);
                let request = format!("{request} runs={}", budget.turn + warmup);
                let program = &mut self.programs[*program];
                let samples = program.ask(&request, limit)?;
                Ok(samples
                    .into_iter()
                    .skip(warmup)
                    .map(|sample| convert.apply(sample))
                    .collect())
            }
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
            Task::Published(value) => {
                cell.iterations = 1;
                Ok(vec![*value; budget.least])
            }
            Task::Net {
                setting,
                metric,
                milliseconds,
            } => {
                cell.iterations = 1;
                let limit = Duration::from_millis(*milliseconds);
                let start = weft_net::command::start();
                let known = self.measured.entry(format!("{setting:?}")).or_default();
                if known.len() <= cell.samples.len() {
                    known.push(weft_net_testbed::measure::measure(setting, limit, &start)?);
                }
                Ok(vec![metric.of(&known[cell.samples.len()])])
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
            Task::Form {
                implementation,
                way,
                less_launcher,
            } => {
                let member = &self.implementations[*implementation];
                let hosts = match &self.hosts {
                    Some(hosts) => hosts,
                    None => self.hosts.insert(Hosts::new()?),
                };
                let form =
                    |way: &Formation| anyhow::Ok(hosts.form(member, way)?.as_secs_f64() * 1e3);
                if cell.iterations == 0 {
                    cell.iterations = 1;
                    form(way)?; // as of Task::Launch
                }
                let whole = form(way)?;
                match way {
                    Formation::Hydra(hydra) if *less_launcher => {
                        Ok(vec![whole - form(&Formation::HydraAlone(hydra.clone()))?])
                    }
                    _ => Ok(vec![whole]),
                }
            }
            Task::Memory { job } => {
                cell.iterations = 1;
                let limit = Duration::from_secs(self.effort.pick(20, 120));
                let resident = self.pool.job(*job, self.implementations, self.cores)?;
                resident.request("settle", limit)?;
                let found = resident.memory();
                // Alone in memory: pages shared with a job of another turn would be counted in part.
                self.pool.retire(self.implementations);
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

    pub(super) fn request(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        key: JobKey,
        request: &str,
        repeat: Repeat,
        convert: Convert,
    ) -> Result<Vec<f64>> {
        let limit = Duration::from_secs(self.effort.pick(10, 600));
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
            }
            .max(1);
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
        let launch = || Job::launch(&self.implementations[implementation], 1, false, self.cores);
        let mut jobs = [launch()?, launch()?];
        let limit =
            Duration::from_millis(milliseconds) + Duration::from_secs(self.effort.pick(20, 60));
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

/// How many operations of so many nanoseconds fill a sample.
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
