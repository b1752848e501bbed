//! Requests to a job while intruders connect to its ports, or to a port of their own on the same machine.
//!
//! Both are measured one right after the other, with alternating order: other load on the machine affects
//! both equally.

use super::ask::Requests;
use super::{Cell, Harness};
use crate::experiment::{Budget, Control, JobKey, Repeat};
use crate::job::JobPool;
use crate::program::Program;
use anyhow::{Result, bail};
use std::time::Duration;

/// Longest time that the intruders may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// The fraction of the requested rate that must be reached.
const REACHED: f64 = 0.9;

/// Number of attempts to reach it.
const ATTEMPTS: usize = 4;

/// The process that attacks a job (`crate::intruders`), and the job whose traffic it has recorded.
pub(super) struct Intruders {
    program: Program,
    /// A job whose first messages were recorded, and the ports of its ranks, as sent to the process.
    overheard: Option<(JobKey, String)>,
}

/// An attack: the ports that intruders connect to, and the rate per second.
#[derive(Clone, Copy)]
struct Attack<'a> {
    rate: u32,
    /// `at=ADDRESS,…`; empty: a port of their own.
    at: &'a str,
}

impl Intruders {
    /// No process yet: it is started when needed.
    pub fn new() -> Self {
        Self {
            program: Program::intruders(),
            overheard: None,
        }
    }

    /// Ends the process.
    pub fn stop(&mut self) {
        self.forget();
        self.program.stop();
    }

    /// Forgets the recorded job: it has ended.
    pub fn forget(&mut self) {
        self.overheard = None;
    }

    /// The ports of a job's ranks, as sent to the process. At first use the process is started, and then the
    /// job, whose first messages it records. If that is not permitted, it sends something else instead, and a
    /// complaint is noted.
    fn overhear(&mut self, key: JobKey, jobs: &mut JobPool<'_>) -> Result<String> {
        if let Some((known, at)) = &self.overheard
            && *known == key
        {
            return Ok(at.clone());
        }
        self.stop();
        jobs.end(key)?;
        self.program.start()?;
        let ranks = jobs.job(key)?;
        ranks.request("pingpong size=8 iterations=1 samples=1", LIMIT)?;
        let all: Vec<String> = ranks.listening()?.iter().map(ToString::to_string).collect();
        let at = format!("at={}", all.join(","));
        if let Err(error) = self.program.ask(&format!("record {at}"), LIMIT) {
            jobs.complain(format!(
                "in place of replayed handshakes intruders sent garbage of the same length: {error:#}"
            ));
        }
        self.overheard = Some((key, at.clone()));
        Ok(at)
    }

    /// The result of `measure` while intruders connect. `None`: they could not reach that rate.
    fn during<T>(
        &mut self,
        attack: Attack<'_>,
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let Attack { rate, at } = attack;
        self.program
            .ask(&format!("attack rate={rate} {at}"), LIMIT)?;
        let found = measure();
        let tally = self.program.ask("stop", LIMIT);
        if found.is_err() {
            self.forget();
        }
        let found = found?;
        let [made, _refused, seconds] = tally?[..] else {
            bail!("the intruders did not say what they did");
        };
        let reached = made >= REACHED * f64::from(rate) * seconds - 1.0;
        Ok(Some(found).filter(|_| reached))
    }
}

impl Harness<'_> {
    /// The time of an operation under attack divided by the time without.
    pub(super) fn under_attack(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        job: JobKey,
        request: &str,
        rate: u32,
        control: Control,
    ) -> Result<Vec<f64>> {
        let at = self.intruders.overhear(job, &mut self.jobs)?;
        let attack = Some(Attack { rate, at: &at });
        let control = match control {
            Control::Elsewhere => Some(Attack { rate, at: "" }),
            Control::Nobody => None,
        };
        let once = Budget { turn: 1, ..*budget };
        // The time of one operation under these conditions.
        let mut time = |cell: &mut Cell<'_>, attack: Option<Attack<'_>>| {
            let jobs = &mut self.jobs;
            let mut measure = || {
                let mut requests = Requests::new(jobs, self.effort);
                requests.ask(cell, &once, job, request, Repeat::Timed)
            };
            let samples = match attack {
                Some(attack) => self.intruders.during(attack, measure)?,
                None => Some(measure()?),
            };
            anyhow::Ok(samples.and_then(|samples| samples.first().copied()))
        };
        if cell.iterations() == 0 {
            // Finds out how many operations fill a sample.
            time(cell, control)?;
        }
        let is_first = cell.taken().is_multiple_of(2);
        for _ in 0..ATTEMPTS {
            let mut times = [None; 2];
            for is_attacked in [is_first, !is_first] {
                let who = if is_attacked { attack } else { control };
                times[usize::from(is_attacked)] = time(cell, who)?;
            }
            if let [Some(without), Some(with)] = times {
                return Ok(vec![with / without]);
            }
        }
        bail!(
            "intruders could not connect {rate} times a second, {ATTEMPTS} times: other work keeps them from it"
        )
    }
}
