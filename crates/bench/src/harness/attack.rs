//! A request to a job while strangers connect to it, or elsewhere on the same machine.

use super::{Attacked, Cell, Harness};
use crate::experiment::{Attack, Budget, Convert, JobKey, Repeat};
use anyhow::{Result, bail};
use std::time::Duration;

/// How long the strangers may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// Which part of the rate that was asked for must have been reached.
const REACHED: f64 = 0.9;

impl Harness<'_> {
    pub(super) fn under_attack(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        job: JobKey,
        request: &str,
        attack: Attack,
        convert: Convert,
    ) -> Result<Vec<f64>> {
        let at = match &self.attacked {
            Some(known) if known.job == job => known.at.clone(),
            _ => self.overhear(job)?,
        };
        let mut ask = |harness: &mut Self| {
            harness.request(cell, budget, job, request, Repeat::Timed, convert)
        };
        if attack.rate == 0 {
            return ask(self);
        }
        let at = if attack.at_ranks {
            format!("at={at}")
        } else {
            String::new()
        };
        let rate = attack.rate;
        self.strangers
            .ask(&format!("attack rate={rate} {at}"), LIMIT)?;
        let samples = ask(self);
        let tally = self.strangers.ask("stop", LIMIT);
        if samples.is_err() {
            self.attacked = None;
        }
        let samples = samples?;
        let [made, refused, seconds] = tally?[..] else {
            bail!("the strangers did not say what they did");
        };
        if made < REACHED * (f64::from(rate) * seconds - 1.0) {
            bail!(
                "strangers made {made} connections in {seconds:.2} s, {refused} were refused: {rate} a second \
                 were asked for"
            );
        }
        Ok(samples)
    }

    /// Starts the strangers, then the job, whose first words they overhear. Where that is not allowed they
    /// say something else in their place, and a note tells.
    fn overhear(&mut self, job: JobKey) -> Result<String> {
        self.attacked = None;
        self.strangers.stop();
        self.pool.end(job)?;
        self.strangers.start()?;
        let ranks = self.pool.job(job, self.implementations, self.cores)?;
        ranks.request("pingpong size=8 iterations=1 samples=1", LIMIT)?;
        let all: Vec<String> = ranks.listening()?.iter().map(ToString::to_string).collect();
        let at = all.join(",");
        if let Err(error) = self.strangers.ask(&format!("record at={at}"), LIMIT) {
            let note = format!(
                "in place of replayed handshakes strangers sent garbage of the same length: {error:#}"
            );
            if !self.pool.complaints.contains(&note) {
                self.pool.complaints.push(note);
            }
        }
        self.attacked = Some(Attacked {
            job,
            at: at.clone(),
        });
        Ok(at)
    }
}
