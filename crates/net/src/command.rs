//! `weft net up|status|policy|down|load|trial`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use weft_sys::netns::NetworkNamespace;

use crate::broker::{self, Answer, Broker, Question, Start, Status};
use crate::description::{Description, Run};
use crate::load;
use crate::measure::IdleTimes;
use crate::policy::{Choice, Order};
use crate::trial::{self, Trial};
use crate::wire::{Flow, FlowReport, Pattern};

/// Shares a network card among clients that do not trust each other.
#[derive(Parser)]
#[command(
    name = "weft net",
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts the system that a TOML file describes and serves until `down` or the end of this process.
    Up {
        /// The description; docs/net.md has an example.
        file: PathBuf,
    },
    /// Shows clients and components of a running system.
    Status {
        /// Name of the system.
        #[arg(default_value = "weft")]
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Changes who may send next, in the running system, without losing a frame.
    Policy {
        /// signalled, round-robin, weighted or priority.
        order: String,
        /// For each client in order: weight, level or rate, such as a=3 or b=100M.
        settings: Vec<String>,
        /// Name of the system.
        #[arg(long, default_value = "weft")]
        name: String,
    },
    /// Ends a running system.
    Down {
        /// Name of the system.
        #[arg(default_value = "weft")]
        name: String,
    },
    /// Tries what is promised about hoarders, changes of policy and deaths, and prints figures.
    Trial {
        /// What is tried.
        what: Trial,
    },
    /// Sends UDP to the clients of a running system on a veth and counts what comes back.
    Load {
        /// Mbit/s of payload for each client, such as a=300 b=200; all at once.
        rates: Vec<String>,
        /// Seconds.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Bytes of payload.
        #[arg(long, default_value_t = 1472)]
        payload: usize,
        /// Shows how round trips are distributed.
        #[arg(long)]
        histogram: bool,
        /// Name of the system.
        #[arg(long, default_value = "weft")]
        name: String,
    },
}

/// The word by which this program starts a component: `weft net-component NUMBER NAME`.
pub const COMPONENT: &str = "net-component";

/// How this program becomes a component: the very program that runs, also when its file has been
/// replaced since.
#[must_use]
pub fn start() -> Start {
    Start {
        program: "/proc/self/exe".into(),
        words: vec![COMPONENT.into()],
    }
}

/// The whole of `weft net`.
#[must_use]
pub fn main(words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let command = match Command::try_parse_from(std::iter::once("weft net".into()).chain(words)) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    outcome(run(command.what), "")
}

/// Says what went wrong, if anybody listens. Who has closed our output has what was wanted of it.
fn outcome(result: Result<()>, name: &str) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if error.is::<Unread>() {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(io::stderr(), "weft net: {name}{error:#}");
    ExitCode::FAILURE
}

/// Nobody reads our output any more.
#[derive(Debug)]
struct Unread;

impl std::fmt::Display for Unread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for Unread {}

/// Prints a line; `println` would end the program where the output is closed or full.
macro_rules! say {
    ($($text:tt)*) => {
        say_line(format_args!($($text)*))
    };
}

fn say_line(line: std::fmt::Arguments<'_>) -> Result<()> {
    writeln!(io::stdout(), "{line}").map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Unread.into(),
        _ => anyhow::Error::from(error).context("could not write to the standard output"),
    })
}

/// The life of a component's process.
#[must_use]
pub fn component(mut words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let number = words.next().and_then(|word| word.to_str()?.parse().ok());
    let name = words.next().unwrap_or_default();
    let result = match number {
        Some(number) => broker::component_main(number).map_err(anyhow::Error::from),
        None => Err(anyhow::anyhow!(
            "components are started by weft net up, not by hand"
        )),
    };
    outcome(result, &format!("{}: ", name.to_string_lossy()))
}

fn run(what: What) -> Result<()> {
    match what {
        What::Up { file } => up(&file),
        What::Status { name, json } => {
            let status = status(&name)?;
            if json {
                say!("{}", serde_json::to_string_pretty(&status)?)
            } else {
                show(&status)
            }
        }
        What::Policy {
            order,
            settings,
            name,
        } => {
            let known = status(&name)?;
            let choice = choose(&known, &order, &settings)?;
            done(&name, &Question::Policy(choice))
        }
        What::Down { name } => done(&name, &Question::Down),
        What::Trial { what } => Ok(trial::run(what, start())?),
        What::Load {
            rates,
            seconds,
            payload,
            histogram,
            name,
        } => send_load(&status(&name)?, &rates, seconds, payload, histogram),
    }
}

fn up(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("could not read the description {}", file.display()))?;
    let description = Description::parse(&text)
        .map_err(|mistake| anyhow::anyhow!("{}: {mistake}", file.display()))?;
    if description.run != Run::Processes {
        bail!(
            "{}: run = \"threads\" and \"fused\" are for measuring within one program (weft bench net); \
             weft net up runs processes: leave run out",
            file.display()
        );
    }
    let mut broker = Broker::up(description, start())?;
    // Whether anybody hears it or not.
    let _ = say!("up");
    broker.serve()?;
    Ok(())
}

fn status(name: &str) -> Result<Status> {
    match broker::ask(name, &Question::Status)? {
        Answer::Status(status) => Ok(status),
        Answer::Refused(why) => bail!("{why}"),
        Answer::Done => bail!("an unexpected answer: both sides must be of the same version"),
    }
}

fn done(name: &str, question: &Question) -> Result<()> {
    match broker::ask(name, question)? {
        Answer::Done => Ok(()),
        Answer::Refused(why) => bail!("{why}"),
        Answer::Status(_) => bail!("an unexpected answer: both sides must be of the same version"),
    }
}

fn show(status: &Status) -> Result<()> {
    say!("{} · {:?}", status.name, status.policy.order)?;
    say!("wire: {}", status.wire)?;
    if let Some(path) = &status.namespace {
        say!("far end: nsenter --net={path}")?;
    }
    say!(
        "lost at the card {} · for nobody {}",
        status.missed,
        status.unknown
    )?;
    say!("client        received       sent  drop:full drop:starved  faults reclaimed  depth")?;
    for client in &status.clients {
        say!(
            "{:12}{:10} {:10} {:10} {:12} {:7} {:9} {:6}{}",
            client.name,
            client.received,
            client.sent,
            client.dropped_full,
            client.dropped_starved,
            client.faults,
            client.reclaimed,
            client.depth,
            if client.attached { "" } else { "  (nobody)" }
        )?;
    }
    say!("component        process restarts  CPU s")?;
    for component in &status.components {
        say!(
            "{:16} {:7} {:8} {:6.2}",
            component.name,
            component.process,
            component.restarts,
            component.seconds
        )?;
    }
    Ok(())
}

/// A number with k, M or G behind it.
fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1_000),
        'M' => (&text[..text.len() - 1], 1_000_000),
        'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `name=value` for clients of the system.
fn settings(known: &Status, words: &[String], example: &str) -> Result<Vec<(usize, u64)>> {
    let names = || -> Vec<&str> {
        known
            .clients
            .iter()
            .map(|client| client.name.as_str())
            .collect()
    };
    let mut found = Vec::new();
    for word in words {
        let parts = word.split_once('=').and_then(|(name, value)| {
            let client = known
                .clients
                .iter()
                .position(|client| client.name == name)?;
            Some((client, number(value)?))
        });
        match parts {
            Some(parts) => found.push(parts),
            None => bail!(
                "{word:?} is no setting: write CLIENT=NUMBER with a client of {:?}, such as {}={example}",
                names(),
                names().first().unwrap_or(&"a")
            ),
        }
    }
    Ok(found)
}

fn choose(known: &Status, order: &str, words: &[String]) -> Result<Choice> {
    let mut choice = known.policy.clone();
    let example = match order {
        "limit" => "100M",
        _ => "1",
    };
    let values = settings(known, words, example)?;
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    match order {
        "signalled" => choice.order = Order::Signalled,
        "round-robin" => choice.order = Order::RoundRobin,
        "weighted" => {
            choice.order = Order::Weighted;
            for (client, value) in values {
                choice.weights[client] = small(value).clamp(1, 1000);
            }
        }
        "priority" => {
            choice.order = Order::Priority;
            for (client, value) in values {
                choice.levels[client] = small(value);
            }
        }
        "limit" => {
            for (client, value) in values {
                choice.limits[client] = value;
            }
        }
        _ => bail!(
            "{order:?} is no policy: signalled, round-robin, weighted a=3 b=1, priority a=0 b=1, or \
             limit b=100M (0: none)"
        ),
    }
    Ok(choice)
}

fn send_load(
    known: &Status,
    rates: &[String],
    seconds: f64,
    payload: usize,
    histogram: bool,
) -> Result<()> {
    if !(24..=1472).contains(&payload) {
        bail!("--payload {payload}: a datagram of the load has 24 to 1472 bytes");
    }
    if !(0.001..=86_400.0).contains(&seconds) {
        bail!("--seconds {seconds}: from 0.001 to 86400");
    }
    let Some(path) = &known.namespace else {
        bail!("load is sent into the namespace of a veth; this system has another wire");
    };
    if rates.is_empty() {
        bail!(
            "no rate is given: write CLIENT=MBIT, such as {}=300",
            known.clients[0].name
        );
    }
    let flows: Vec<Flow> = settings(known, rates, "300")?
        .into_iter()
        .map(|(client, megabits)| Flow {
            client,
            bits: megabits.saturating_mul(1_000_000),
            payload,
            from: 0,
            until: (seconds * 1e9) as u64,
            pattern: Pattern::Steady,
        })
        .collect();
    let namespace = fs::File::open(path).with_context(|| format!("could not open {path}"))?;
    let namespace = NetworkNamespace::adopt(namespace.into());
    let patience = Duration::from_millis(500);
    let ready = Duration::from_secs(3);
    for client in namespace.run(|| load::await_answers(&flows, load::client_address, ready))? {
        let name = &known.clients[client].name;
        let _ = writeln!(
            io::stderr(),
            "weft net: client {name} did not answer within 3 s; its load is sent all the same"
        );
    }
    let before = IdleTimes::read();
    let reports = namespace.run(|| load::run(&flows, load::client_address, patience))?;
    let busy = IdleTimes::read().busy_since(&before);
    say!(
        "client        asked Mbit/s    got   sent  replies  lost  corrupt  p50 µs  p99 µs  max µs"
    )?;
    for (flow, report) in flows.iter().zip(&reports) {
        print_report(&known.clients[flow.client].name, flow, report, seconds)?;
    }
    for (core, busy) in busy.iter().enumerate() {
        say!("core {core} busy {:.0} %", 100.0 * busy)?;
    }
    if histogram {
        for (flow, report) in flows.iter().zip(&reports) {
            print_histogram(&known.clients[flow.client].name, report)?;
        }
    }
    Ok(())
}

fn print_report(name: &str, flow: &Flow, report: &FlowReport, seconds: f64) -> Result<()> {
    let micro = |value: u64| value as f64 / 1e3;
    say!(
        "{name:12} {:13.0} {:7.1} {:6} {:8} {:5} {:8} {:7.1} {:7.1} {:7.1}",
        flow.bits as f64 / 1e6,
        report.bytes as f64 * 8e-6 / seconds,
        report.sent,
        report.replies,
        report.sent.saturating_sub(report.replies),
        report.corrupt,
        micro(report.times.value_at_quantile(0.5)),
        micro(report.times.value_at_quantile(0.99)),
        micro(report.times.max()),
    )
}

/// Round trips by powers of two of a microsecond.
fn print_histogram(name: &str, report: &FlowReport) -> Result<()> {
    say!("{name}: round trips [µs]")?;
    let mut low = 0;
    let mut high = 1_000;
    while low < report.times.max() {
        let count = report.times.count_between(low, high - 1);
        if count > 0 {
            let part = count as f64 / report.times.len().max(1) as f64;
            let bar = "█".repeat((part * 50.0).ceil() as usize);
            say!("{:>8} to {:<8} {count:9} {bar}", low / 1_000, high / 1_000)?;
        }
        (low, high) = (high, high * 2);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_declared_soundly() {
        <Command as clap::CommandFactory>::command().debug_assert();
        assert_eq!(number("100M"), Some(100_000_000));
        assert_eq!(number("7"), Some(7));
        assert_eq!(number("M"), None);
        assert_eq!(number(""), None);
    }
}
