//! Cell of a plan while it is measured: its samples, and whether it has enough of them.
//!
//! ```text
//!   new ──turn──► open ──error small, or most samples, or time used up──► closed (for this launch)
//!                  │ ▲                                                       │
//!                  │ └──────────────────── next launch ──────────────────────┘
//!                  └──a turn fails──► failed: gets no more turns
//! ```
//!
//! With several launches each limit is reached in equal steps, so that every launch contributes.

use crate::experiment::{Budget, SeriesPlan, Task};
use crate::program::AskError;
use crate::results::Point;
use crate::statistics::Statistics;
use anyhow::Result;
use std::time::Duration;

/// One series at one place of the x axis.
pub(super) struct Cell<'p> {
    /// Index of the series in its plan.
    series: usize,
    x: f64,
    task: &'p Task,
    samples: Vec<f64>,
    iterations: u64,
    /// How many of the samples each launch gave.
    by_launch: Vec<usize>,
    in_this_launch: bool,
    spent: Duration,
    failure: Option<Failure>,
}

/// Why a cell gets no more turns.
struct Failure {
    text: String,
    /// Whether a program gave no answer in time.
    no_answer: bool,
}

impl<'p> Cell<'p> {
    /// The cells of these series, in their order.
    pub fn all(series: &'p [SeriesPlan]) -> Vec<Self> {
        let of_series = |(index, series): (usize, &'p SeriesPlan)| {
            series.cells.iter().map(move |(x, task)| Cell {
                series: index,
                x: *x,
                task,
                samples: Vec::new(),
                iterations: 0,
                by_launch: Vec::new(),
                in_this_launch: false,
                spent: Duration::ZERO,
                failure: None,
            })
        };
        series.iter().enumerate().flat_map(of_series).collect()
    }

    /// Index of its series in the plan.
    pub fn series(&self) -> usize {
        self.series
    }

    /// Its place on the x axis.
    pub fn x(&self) -> f64 {
        self.x
    }

    /// The task of a turn.
    pub fn task(&self) -> &'p Task {
        self.task
    }

    /// Operations of one sample; 0 until [`Self::set_iterations`] was called.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Sets the operations of one sample.
    pub fn set_iterations(&mut self, iterations: u64) {
        self.iterations = iterations;
    }

    /// How many samples it has.
    pub fn taken(&self) -> usize {
        self.samples.len()
    }

    /// Whether it has had no turn yet.
    pub fn is_new(&self) -> bool {
        self.samples.is_empty() && self.failure.is_none()
    }

    /// Whether it has had a turn in this launch: the job is warm.
    pub fn is_warm(&self) -> bool {
        self.in_this_launch
    }

    /// Why it gets no more turns, if a turn has failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| &*failure.text)
    }

    /// Whether a program was asked, and gave no answer in time.
    pub fn gave_no_answer(&self) -> bool {
        let failure = self.failure.as_ref();
        matches!(self.task, Task::Program { .. }) && failure.is_some_and(|one| one.no_answer)
    }

    /// The next launch begins, in which the cell must be measured again.
    pub fn begin_launch(&mut self) {
        self.in_this_launch = false;
    }

    /// Records the samples of a turn, and the time that it took.
    pub fn record(&mut self, found: Result<Vec<f64>>, took: Duration) {
        if !self.in_this_launch {
            self.in_this_launch = true;
            self.by_launch.push(0);
        }
        match found {
            Ok(samples) if samples.iter().all(|sample| sample.is_finite()) => {
                if let Some(count) = self.by_launch.last_mut() {
                    *count += samples.len();
                }
                self.samples.extend(samples);
            }
            Ok(samples) => {
                self.give_up(format!("not a figure among the samples: {samples:?}"));
            }
            Err(error) => {
                let no_answer = matches!(error.downcast_ref(), Some(AskError::NoAnswer { .. }));
                let text = format!("{error:#}");
                self.failure = Some(Failure { text, no_answer });
            }
        }
        self.spent += took;
    }

    /// Closes the cell, for this reason.
    pub fn give_up(&mut self, text: String) {
        self.failure = Some(Failure {
            text,
            no_answer: false,
        });
    }

    /// Whether this launch (counted from 1) needs no more turn of this cell.
    pub fn is_closed(&self, budget: &Budget, launch: u32) -> bool {
        if self.failure.is_some() {
            return true;
        }
        if !self.in_this_launch {
            return false;
        }
        let launches = budget.launches as usize;
        let due = |whole: usize| (whole * launch as usize).div_ceil(launches);
        if self.samples.len() < due(budget.least) {
            // Even the least number of samples is given up when it takes many times the planned time.
            return self.spent > 10 * budget.time * launch / budget.launches;
        }
        self.samples.len() >= due(budget.most)
            || self.spent >= budget.time * launch / budget.launches
            // Of the samples alone: where launches differ, more samples of this one would not make them differ less.
            || reaches(budget, Statistics::of(&self.samples))
    }

    /// Whether the standard error, that of the launches included, is under the aim.
    pub fn is_settled(&self, budget: &Budget) -> bool {
        let found = Statistics::of_launches(&self.samples, &self.by_launch);
        reaches(budget, found)
    }

    /// Its point; `None` without a sample.
    pub fn into_point(self, budget: &Budget) -> Option<Point> {
        Point::new(
            self.x,
            &self.samples,
            self.iterations,
            &self.by_launch,
            budget.aim,
        )
    }
}

/// Whether there are samples, with a standard error under the aim.
fn reaches(budget: &Budget, found: Option<Statistics>) -> bool {
    found.is_some_and(|found| found.relative_error() < budget.aim)
}
