//! Outcome of a run: series with their points, and notes on the run.

use super::Cell;
use crate::experiment::{Budget, SeriesPlan};
use crate::results::Series;
use std::collections::BTreeMap;
use std::time::Duration;

/// Failed cells, one sentence for each reason.
pub(super) fn failures(cells: &[Cell<'_>], series: &[SeriesPlan]) -> Vec<String> {
    let mut reasons: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for cell in cells {
        if let Some(why) = cell.failure() {
            let line = &series[cell.series()];
            let name = if line.panel.is_empty() {
                line.name()
            } else {
                format!("{} ({})", line.name(), line.panel)
            };
            reasons
                .entry((name, why))
                .or_default()
                .push(format!("{}", cell.x()));
        }
    }
    reasons
        .into_iter()
        .map(|((name, why), places)| format!("{name} failed at {}: {why}", places.join(", ")))
        .collect()
}

/// One sentence on the procedure and the precision reached.
pub(super) fn protocol(cells: &[Cell<'_>], budget: &Budget, took: Duration) -> String {
    let good: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.taken() > 0).collect();
    let settled = good.iter().filter(|cell| cell.is_settled(budget)).count();
    format!(
        "{} samples in {:.1} s, {} launch{} of each job; cells visited in random order; standard error under {} % \
         reached by {settled} of {} points.",
        good.iter().map(|cell| cell.taken()).sum::<usize>(),
        took.as_secs_f64(),
        budget.launches,
        if budget.launches == 1 { "" } else { "es" },
        budget.aim * 100.0,
        good.len(),
    )
}

/// The series that have a point, with their points, x rising.
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
        let index = cell.series();
        series[index].points.extend(cell.into_point(budget));
    }
    for one in &mut series {
        one.points.sort_by(|left, right| left.x.total_cmp(&right.x));
    }
    series.retain(|one| !one.points.is_empty());
    series
}
