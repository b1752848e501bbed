//! The commands that run a system and talk to it: `weft net up|status|policy|down`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::broker::{self, Answer, Broker, FarEnd, Question, Start, Status};
use crate::description::{Description, Run};
use crate::policy::{Choice, Order};

/// What is done with a system.
#[derive(Subcommand)]
pub enum Command {
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
        /// signalled, round-robin, weighted, priority or limit (bits per second that a client may send).
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

/// Prints what went wrong, after this name, if anybody reads it. A reader that has closed our output has all
/// that it wanted.
#[must_use]
pub fn outcome(result: Result<()>, name: &str) -> ExitCode {
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
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::command::say_line(format_args!($($text)*))
    };
}
pub use say;

/// Prints a line.
///
/// # Errors
/// If nobody reads the output any more, or it cannot be written.
pub fn say_line(line: std::fmt::Arguments<'_>) -> Result<()> {
    writeln!(io::stdout(), "{line}").map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Unread.into(),
        _ => anyhow::Error::from(error).context("could not write to the standard output"),
    })
}

/// The life of a component's process; `words` are those after [`COMPONENT`]. `far_end`: for the driver of a
/// virtual wire.
#[must_use]
pub fn component(mut words: impl Iterator<Item = std::ffi::OsString>, far_end: FarEnd) -> ExitCode {
    let number = words.next().and_then(|word| word.to_str()?.parse().ok());
    let name = words.next().unwrap_or_default();
    let result = match number {
        Some(number) => broker::component_main(number, far_end).map_err(anyhow::Error::from),
        None => Err(anyhow::anyhow!(
            "components are started by weft net up, not by hand"
        )),
    };
    outcome(result, &format!("{}: ", name.to_string_lossy()))
}

/// Does it.
///
/// # Errors
/// Why it could not be done, and what to do.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Up { file } => up(&file),
        Command::Status { name, json } => {
            let status = status(&name)?;
            if json {
                say!("{}", serde_json::to_string_pretty(&status)?)
            } else {
                show(&status)
            }
        }
        Command::Policy {
            order,
            settings,
            name,
        } => {
            let known = status(&name)?;
            let choice = choose(&known, &order, &settings)?;
            done(&name, &Question::Policy(choice))
        }
        Command::Down { name } => done(&name, &Question::Down),
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

/// How a running system is.
///
/// # Errors
/// If there is none of this name and user, or it does not answer.
pub fn status(name: &str) -> Result<Status> {
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

/// The client and the number of each word `name=value`.
///
/// # Errors
/// For a word that is none: says which, with a word such as `name=example`.
pub fn settings(known: &Status, words: &[String], example: &str) -> Result<Vec<(usize, u64)>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_factor() {
        assert_eq!(number("100M"), Some(100_000_000));
        assert_eq!(number("7"), Some(7));
        assert_eq!(number("M"), None);
        assert_eq!(number(""), None);
    }
}
