//! Requests to two jobs, one right after the other: the ratio of an operation's times in both.
//!
//! The jobs alternate in order, so other load on the machine, and a speed that changes from second to second, affect both equally. A
//! sample is the ratio of two times.

use super::{Cell, Harness};
use crate::experiment::{Budget, JobKey, Repeat};
use anyhow::{Context, Result};

impl Harness<'_> {
    /// The time in the first job divided by the time in the second.
    pub(super) fn as_pair(
        &mut self,
        cell: &mut Cell<'_>,
        budget: &Budget,
        jobs: [JobKey; 2],
        request: &str,
    ) -> Result<Vec<f64>> {
        let once = Budget { turn: 1, ..*budget };
        let mut time = |cell: &mut Cell<'_>, job: JobKey| {
            let mut requests = self.requests();
            let samples = requests.ask(cell, &once, job, request, Repeat::Timed)?;
            samples.first().copied().context("no sample")
        };
        if !cell.is_warm() {
            // Finds out how many operations fill a sample, and warms up both jobs of this launch.
            for job in jobs {
                time(cell, job)?;
            }
        }
        let first = cell.taken() % 2;
        let mut times = [0.0; 2];
        for which in [first, 1 - first] {
            times[which] = time(cell, jobs[which])?;
        }
        Ok(vec![times[0] / times[1]])
    }
}
