//! A request to a job while strangers connect to it, or elsewhere on the same machine.

use super::{Attacked, Cell, Harness};
use crate::experiment::{Budget, Control, Convert, JobKey, Repeat};
use anyhow::{Result, bail};
use std::time::Duration;

/// How long the strangers may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// Which part of the rate that was asked for must have been reached.
const REACHED: f64 = 0.9;

/// How often that is tried.
const ATTEMPTS: usize = 4;

impl Harness<'_> {
    /// How many times as long it takes when the ranks' ports are attacked. The two are measured one right
    /// after the other, each first in every other turn: what else happens on the machine hits both alike.
    pub(super) fn under_attack(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        job: JobKey,
        request: &str,
        rate: u32,
        control: Control,
    ) -> Result<Vec<f64>> {
        let at = match &self.attacked {
            Some(known) if known.job == job => format!("at={}", known.at),
            _ => format!("at={}", self.overhear(job)?),
        };
        let attack = Some((rate, &*at));
        let control = match control {
            Control::Elsewhere => Some((rate, "")),
            Control::Nobody => None,
        };
        let once = Budget { turn: 1, ..*budget };
        if cell.iterations == 0 {
            // Finds out how many of them fill a sample.
            self.beside(cell, &once, job, request, control)?;
        }
        let is_first = cell.samples.len().is_multiple_of(2);
        for attempt in 1.. {
            let mut times = [None; 2];
            for is_attacked in [is_first, !is_first] {
                let strangers = if is_attacked { attack } else { control };
                times[usize::from(is_attacked)] =
                    self.beside(cell, &once, job, request, strangers)?;
            }
            match times {
                [Some(without), Some(with)] => return Ok(vec![with / without]),
                _ if attempt < ATTEMPTS => {}
                _ => break,
            }
        }
        bail!(
            "strangers could not connect {rate} times a second, {ATTEMPTS} times: other work keeps them from it"
        )
    }

    /// The time of one operation while strangers connect: so many a second, where. `None`: they could not.
    fn beside(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        job: JobKey,
        request: &str,
        strangers: Option<(u32, &str)>,
    ) -> Result<Option<f64>> {
        let (repeat, convert) = (Repeat::Timed, Convert::Nanoseconds);
        let Some((rate, at)) = strangers else {
            let samples = self.request(cell, budget, job, request, repeat, convert)?;
            return Ok(samples.first().copied());
        };
        self.strangers
            .ask(&format!("attack rate={rate} {at}"), LIMIT)?;
        let samples = self.request(cell, budget, job, request, repeat, convert);
        let tally = self.strangers.ask("stop", LIMIT);
        if samples.is_err() {
            self.attacked = None;
        }
        let samples = samples?;
        let [made, _refused, seconds] = tally?[..] else {
            bail!("the strangers did not say what they did");
        };
        let reached = made >= REACHED * f64::from(rate) * seconds - 1.0;
        Ok(samples.first().copied().filter(|_| reached))
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
