//! `weft top`: what each rank of a job does, waits for and moves, live.
//!
//! Rates are differences of two answers of the launcher, by its clock. Each look wakes ranks that sleep in MPI for a
//! moment, to be asked what they wait for; the counters are read without them.

use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use weft_launch::inspection::client::JobSocket;
use weft_launch::inspection::protocol::{JobReport, Question, RankReport};
use weft_launch::inspection::report::{self, Activity};
use weft_launch::user_output;

use super::{Selection, Table, fail};

/// Which job, and how to show it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Seconds between two looks.
    #[arg(long, short, default_value_t = 1.0)]
    interval: f64,
    /// How often to look; by default until interrupted on a terminal, and once otherwise.
    #[arg(long, short)]
    count: Option<u64>,
    /// As JSON, one line for each look.
    #[arg(long)]
    json: bool,
}

/// Looks until the job ends, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let interval = Duration::try_from_secs_f64(arguments.interval.max(0.1));
    let Ok(interval) = interval else {
        return fail("--interval wants a number of seconds");
    };
    let (socket, mut before) = match arguments.selection.ask(Question::Waits) {
        Ok(found) => found,
        Err(reason) => return fail(&reason),
    };
    let live = stdout().is_terminal() && !arguments.json;
    let usual = if live { u64::MAX } else { 1 };
    for _ in 0..arguments.count.unwrap_or(usual) {
        std::thread::sleep(interval);
        match show(&socket, &before, arguments.json, live) {
            Ok(Some(now)) => before = now,
            Ok(None) => return user_output::answer("the job has ended\n").into(),
            Err(error) => return user_output::code_of(Err(error)).into(),
        }
    }
    ExitCode::SUCCESS
}

/// Looks once. `None` if the job is not there any more.
fn show(
    socket: &JobSocket,
    before: &JobReport,
    json: bool,
    live: bool,
) -> std::io::Result<Option<JobReport>> {
    let Ok(now) = socket.ask(Question::Waits) else {
        return Ok(None);
    };
    let mut text = String::new();
    if json {
        text = json_line(before, &now);
    } else {
        if live {
            // To the upper left corner, and everything below it away.
            text += "\x1b[H\x1b[2J";
        }
        let mut lines = lines(before, &now);
        if let Some(size) = live.then(weft_sys::standard::terminal_size).flatten() {
            fit(&mut lines, size);
        }
        text += &lines.join("\n");
        text.push('\n');
    }
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Some(now))
}

/// Makes lines fit on a terminal: one that is wrapped, or too many of them, would push the first ones out of it. The cursor stands below
/// the last line.
fn fit(lines: &mut Vec<String>, (columns, rows): (usize, usize)) {
    let most = rows.saturating_sub(1).max(1);
    if lines.len() > most {
        let hidden = lines.len() - (most - 1);
        lines.truncate(most - 1);
        lines.push(format!("… and {hidden} more; weft stacks shows all"));
    }
    for line in lines {
        if line.chars().count() > columns {
            *line = line.chars().take(columns.saturating_sub(1)).collect();
            line.push('…');
        }
    }
}

/// What a rank has done between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
struct Rates {
    /// Share of a core.
    core: Option<f64>,
    messages_sent: Option<f64>,
    bytes_sent: Option<f64>,
    messages_received: Option<f64>,
    bytes_received: Option<f64>,
    collectives: Option<f64>,
}

impl Rates {
    fn between(before: Option<&RankReport>, now: &RankReport, seconds: f64) -> Self {
        // One that was started anew has nothing before.
        let before = before.filter(|before| before.process == now.process && seconds > 0.0);
        let Some(before) = before else {
            return Self::default();
        };
        let core = before.state.as_ref().zip(now.state.as_ref());
        let core = core.map(|(before, now)| {
            now.core_time.saturating_sub(before.core_time) as f64 / seconds / 1e9
        });
        let Some((old, new)) = before.counters.zip(now.counters) else {
            return Self {
                core,
                ..Self::default()
            };
        };
        let rate = |old: u64, new: u64| Some(new.saturating_sub(old) as f64 / seconds);
        Self {
            core,
            messages_sent: rate(old.messages_sent, new.messages_sent),
            bytes_sent: rate(old.bytes_sent, new.bytes_sent),
            messages_received: rate(old.messages_received, new.messages_received),
            bytes_received: rate(old.bytes_received, new.bytes_received),
            collectives: rate(old.collectives, new.collectives),
        }
    }
}

/// Each rank that runs, with what it has done since the look before.
fn rows<'a>(
    before: &'a JobReport,
    now: &'a JobReport,
) -> impl Iterator<Item = (&'a RankReport, Rates)> {
    let seconds = now.seconds - before.seconds;
    now.ranks.iter().map(move |rank| {
        let mut old = before.ranks.iter();
        let old = old.find(|old| old.number == rank.number);
        (rank, Rates::between(old, rank, seconds))
    })
}

fn json_line(before: &JobReport, now: &JobReport) -> String {
    let mut value = serde_json::json!(now);
    for (index, (rank, rates)) in rows(before, now).enumerate() {
        value["ranks"][index]["does"] = Activity::of(rank).word().into();
        value["ranks"][index]["per_second"] = serde_json::json!(rates);
    }
    format!("{value}\n")
}

fn lines(before: &JobReport, now: &JobReport) -> Vec<String> {
    let mut lines = vec![format!(
        "job {} ({}), {} ranks after {}",
        now.launcher,
        report::programs(now),
        now.ranks.len(),
        report::duration(now.seconds)
    )];
    let mut table = Table::new(&[
        ">RANK",
        ">PROCESS",
        ">CORE",
        ">MEMORY",
        ">SENT/s",
        ">BYTES/s",
        ">RECEIVED/s",
        ">BYTES/s",
        ">COLL/s",
        "DOES",
        "WAITS FOR",
    ]);
    for (rank, rates) in rows(before, now) {
        table.push(row(rank, &rates));
    }
    lines.extend(table.lines());
    lines
}

fn row(rank: &RankReport, rates: &Rates) -> Vec<String> {
    let unknown = || "-".to_owned();
    let number = |value: Option<f64>| value.map_or_else(unknown, scaled);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let memory = rank.state.as_ref();
    let memory = memory.map_or_else(unknown, |state| format!("{} MiB", state.memory >> 20));
    let waits = rank.waits.as_deref().unwrap_or_default();
    let waits = match (waits, &rank.host) {
        (_, Some(host)) => format!("(on {})", report::printable(host)),
        ([], None) => String::new(),
        ([first], None) => report::wait(first),
        ([first, rest @ ..], None) => format!("{} (and {} more)", report::wait(first), rest.len()),
    };
    vec![
        rank.name.clone(),
        rank.process.to_string(),
        rates.core.map_or_else(unknown, percent),
        memory,
        number(rates.messages_sent),
        number(rates.bytes_sent),
        number(rates.messages_received),
        number(rates.bytes_received),
        number(rates.collectives),
        Activity::of(rank).word().to_owned(),
        waits,
    ]
}

/// A number with at most four figures, and its thousands.
fn scaled(value: f64) -> String {
    let mut value = value;
    for unit in ["", " k", " M", " G"] {
        if value < 9999.5 {
            return format!("{value:.0}{unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.0} T")
}

#[cfg(test)]
mod tests {
    use weft_launch::inspection::counters::CounterValues;
    use weft_launch::inspection::process::ProcessState;

    use super::*;

    fn job(seconds: f64, messages_sent: u64, core_time: u64, process: u32) -> JobReport {
        let rank = RankReport {
            process,
            counters: Some(CounterValues {
                messages_sent,
                ..CounterValues::default()
            }),
            state: Some(ProcessState {
                core_time,
                ..ProcessState::default()
            }),
            ..RankReport::default()
        };
        JobReport {
            seconds,
            ranks: vec![rank],
            ..JobReport::default()
        }
    }

    #[test]
    fn rates_are_by_the_clock_of_the_job_and_of_one_process() {
        let before = job(1.0, 100, 0, 7);
        let now = job(3.0, 300, 1_000_000_000, 7);
        let (_, rates) = rows(&before, &now).next().expect("one rank");
        assert_eq!((rates.messages_sent, rates.core), (Some(100.0), Some(0.5)));
        let anew = job(3.0, 300, 1_000_000_000, 8);
        let (_, rates) = rows(&before, &anew).next().expect("one rank");
        assert_eq!(rates, Rates::default());
        assert_eq!(lines(&before, &anew).len(), 3);
        let same = rows(&before, &before).next().expect("one rank");
        assert_eq!(same.1, Rates::default(), "no time has passed");
    }

    #[test]
    fn what_is_shown_fits_on_the_terminal() {
        let all = || ["four", "é", "longer", "4"].map(str::to_owned).to_vec();
        let fitted = |size| {
            let mut lines = all();
            fit(&mut lines, size);
            lines
        };
        assert_eq!(fitted((6, 5)), all());
        assert_eq!(fitted((5, 5)), ["four", "é", "long…", "4"]);
        assert_eq!(fitted((9, 4)), ["four", "é", "… and 2 …"]);
        assert_eq!(fitted((1, 1)), ["…"]);
    }

    #[test]
    fn numbers_keep_four_figures() {
        for (value, text) in [
            (0.0, "0"),
            (9999.0, "9999"),
            (10_000.0, "10 k"),
            (12_345_678.0, "12 M"),
            (1e16, "10000 T"),
        ] {
            assert_eq!(scaled(value), text);
        }
    }
}
