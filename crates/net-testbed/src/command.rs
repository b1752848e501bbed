//! The command `weft net`: systems, as [`weft_net::command`] runs them, and what is tried on them.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use weft_net::broker::Status;
use weft_net::command::{self, outcome, say, settings, start, status};
use weft_sys::netns::NetworkNamespace;

use crate::flow::{Flow, Pattern};
use crate::generator::Generator;
use crate::load;
use crate::measure::IdleTimes;
use crate::payload;
use crate::report::FlowReport;
use crate::trial::{self, Trial};

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
    #[command(flatten)]
    System(command::Command),
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

/// The whole of `weft net`.
#[must_use]
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let command = match Command::try_parse_from(std::iter::once("weft net".into()).chain(words)) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    outcome(run(command.what), "")
}

/// The life of a component's process; `words` are those after [`COMPONENT`](command::COMPONENT).
#[must_use]
pub fn component(words: impl Iterator<Item = OsString>) -> ExitCode {
    command::component(words, Generator::trickle)
}

fn run(what: What) -> Result<()> {
    match what {
        What::System(command) => command::run(command),
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

fn send_load(
    known: &Status,
    rates: &[String],
    seconds: f64,
    payload: usize,
    histogram: bool,
) -> Result<()> {
    if !(payload::SMALLEST..=payload::LARGEST).contains(&payload) {
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
        report.reply_bytes() as f64 * 8e-6 / seconds,
        report.sent(),
        report.replies(),
        report.lost(),
        report.corrupt(),
        micro(report.round_trips().value_at_quantile(0.5)),
        micro(report.round_trips().value_at_quantile(0.99)),
        micro(report.round_trips().max()),
    )
}

/// Round trips by powers of two of a microsecond.
fn print_histogram(name: &str, report: &FlowReport) -> Result<()> {
    say!("{name}: round trips [µs]")?;
    let mut low = 0;
    let mut high = 1_000;
    while low < report.round_trips().max() {
        let count = report.round_trips().count_between(low, high - 1);
        if count > 0 {
            let part = count as f64 / report.round_trips().len().max(1) as f64;
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
    }
}
