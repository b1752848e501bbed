//! What a run leaves: series with their points, and notes on how it went.

use super::Cell;
use crate::experiment::{Budget, SeriesPlan};
use crate::results::{Point, Series};
use crate::statistics::Statistics;
use std::collections::BTreeMap;
use std::time::Duration;

/// Failed cells, those with the same reason in one sentence.
pub(super) fn failures(cells: &[Cell<'_>], series: &[SeriesPlan]) -> Vec<String> {
    let mut reasons: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = &cell.failed {
            let line = &series[cell.line];
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
pub(super) fn protocol(cells: &[Cell<'_>], budget: &Budget, took: Duration) -> String {
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

pub(super) fn series_of(
    series: &[SeriesPlan],
    cells: Vec<Cell<'_>>,
    budget: &Budget,
) -> Vec<Series> {
    let mut series: Vec<Series> = series
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
