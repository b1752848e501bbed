//! Table of a profile: the summary as text, a hundred characters wide before the column "for whom".

use std::fmt::Write;

use super::layout::Cause;
use super::summary::{Row, Summary, WaitedFor};

/// Rows that are printed at most; a file in JSON has all of them.
const MOST_ROWS: usize = 40;
/// Widest call and place.
const WIDEST_CALL: usize = 21;
const WIDEST_PLACE: usize = 28;
/// Waits are told of those who have caused this part of the time waited.
const WORTH_TELLING: f64 = 0.1;
/// … and of so many.
const MOST_TOLD: usize = 2;

/// The table.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = format!(
        "profile: {} in MPI calls of {} ranks, {} of that waiting\n",
        time(summary.seconds),
        summary.ranks,
        time(summary.waited_seconds),
    );
    let _ = writeln!(
        out,
        "{:<WIDEST_CALL$} {:<WIDEST_PLACE$} {:>9} {:>8} {:>8} {:>8} {:>14}  for whom",
        "call", "where", "count", "bytes", "time", "waited", "max (rank)"
    );
    for row in summary.calls.iter().take(MOST_ROWS) {
        let _ = writeln!(out, "{}", line(row).trim_end());
    }
    let more = summary.calls.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        let _ = writeln!(out, "… and {more} more (--profile=FILE.json has all)");
    }
    let sum = |of: fn(&Row) -> u64| summary.calls.iter().map(of).fold(0, u64::saturating_add);
    let (all, estimated) = (sum(|row| row.count), sum(|row| row.estimated));
    if estimated > 0 {
        let _ = writeln!(
            out,
            "~: made so often that {} of {all} calls were recorded one by one, the others counted; what is said of these is \
             estimated (--profile=FILE.json has the standard errors; --record-each records all, and is slower)",
            all.saturating_sub(estimated),
        );
    }
    if summary.left_out > 0 {
        let _ = writeln!(
            out,
            "{} calls, waits or threads are not in the table: there was no room for them, or their threads were not recorded",
            summary.left_out
        );
    }
    out.truncate(out.trim_end().len());
    out
}

fn line(row: &Row) -> String {
    let about = |text: String, is_estimated: bool| match is_estimated {
        true => format!("~{text}"),
        false => text,
    };
    let is_estimated = row.estimated > 0;
    let most = format!("{} ({})", time(row.per_rank.max), row.per_rank.max_rank);
    let waited = match row.waited_seconds > 0.0 {
        true => time(row.waited_seconds),
        false => "-".to_owned(),
    };
    let size = match row.bytes {
        0 => "-".to_owned(),
        some => bytes(some),
    };
    format!(
        "{:<WIDEST_CALL$} {:<WIDEST_PLACE$} {:>9} {:>8} {:>8} {:>8} {:>14}  {}",
        cut(&row.call, WIDEST_CALL),
        cut(&row.place, WIDEST_PLACE),
        about(row.count.to_string(), row.count_error > 0.0),
        size,
        about(time(row.seconds), is_estimated),
        about(waited, is_estimated && row.waited_seconds > 0.0),
        most,
        for_whom(row),
    )
}

/// The ranks that were waited for longest.
fn for_whom(row: &Row) -> String {
    let least = row.waited_seconds * WORTH_TELLING;
    let told = row.waited_for.iter().filter(|one| one.seconds >= least);
    let told: Vec<String> = told.take(MOST_TOLD).map(whom).collect();
    told.join(", ")
}

fn whom(one: &WaitedFor) -> String {
    let how_long = time(one.seconds);
    match (one.cause, one.rank) {
        (Cause::Collective, Some(rank)) => {
            format!("rank {rank} last {}×: {how_long}", one.times)
        }
        (Cause::Collective, None) => format!("collective: {how_long}"),
        (cause, Some(rank)) => format!("{} {rank}: {how_long}", cause.name()),
        (cause, None) => format!("{}: {how_long}", cause.name()),
    }
}

/// A text of at most so many characters: of a longer one the end is left out.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 1).collect();
    kept + "…"
}

/// A time with three digits and a unit.
#[must_use]
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        some if some >= 1.0 => (some, "s"),
        some if some >= 1e-3 => (some * 1e3, "ms"),
        some if some >= 1e-6 => (some * 1e6, "µs"),
        some => (some * 1e9, "ns"),
    };
    match value {
        some if some >= 100.0 => format!("{some:.0} {unit}"),
        some if some >= 10.0 => format!("{some:.1} {unit}"),
        some => format!("{some:.2} {unit}"),
    }
}

/// Bytes with three digits and a unit.
#[must_use]
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    match value {
        some if unit == "B" || some >= 100.0 => format!("{some:.0} {unit}"),
        some => format!("{some:.1} {unit}"),
    }
}
