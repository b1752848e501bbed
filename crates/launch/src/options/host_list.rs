//! Lists of hosts, as the command line and files name them.

use std::ffi::OsStr;
use std::path::Path;

use super::values::{list, ranks};
use crate::mapping::HostSlots;

/// The hosts between commas: `a`, `a:4`.
pub fn hosts_in(name: &str, text: &OsStr) -> Result<Vec<HostSlots>, String> {
    let hosts = list(text);
    if hosts.is_empty() {
        return Err(format!(
            "{name} names no host; HOST or HOST:RANKS was expected, between commas"
        ));
    }
    let hosts = hosts.into_iter();
    hosts
        .map(|host| HostSlots::parse(&host.to_string_lossy()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{name}: {error}"))
}

/// The hosts in a file of the usual forms: `name`, `name:4`, `name slots=4`, `#` to the end of a line.
pub fn hosts_of(name: &str, file: &Path) -> Result<Vec<HostSlots>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{name} names {shown}, which cannot be read: {error}"))?;
    hosts_in_text(&text).map_err(|error| format!("{name} names {shown}: {error}"))
}

/// Words behind a host in the files of other launchers that need not be followed: a limit that no number of ranks reaches
/// unless it is asked for, an interface (all that work are found), and a binding (`--bind-to` says it).
const WITHOUT_EFFECT: [&str; 6] = [
    "max_slots",
    "max-slots",
    "slots_max",
    "slots-max",
    "ifname",
    "binding",
];

/// The hosts in the text of such a file.
pub fn hosts_in_text(text: &str) -> Result<Vec<HostSlots>, String> {
    let mut hosts = Vec::new();
    for line in text.lines() {
        // Others take blanks around the sign.
        let line = line.split('#').next().unwrap_or("").replace('=', " = ");
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else {
            continue;
        };
        let mut host = HostSlots::parse(name)?;
        while let Some(word) = words.next() {
            let value = words.next().filter(|sign| *sign == "=");
            match (word, value.and_then(|_| words.next())) {
                ("slots" | "count" | "cpu" | "cpus", Some(slots)) => {
                    host.slots = Some(ranks(word, OsStr::new(slots))?);
                }
                (word, Some(_)) if WITHOUT_EFFECT.contains(&word) => {}
                ("user", Some(user)) => {
                    return Err(format!(
                        "user={user} behind {name} is written {user}@{name}"
                    ));
                }
                _ => {
                    return Err(format!(
                        "'{word}' behind {name} is not known; NAME, NAME:4 or NAME slots=4 was expected"
                    ));
                }
            }
        }
        hosts.push(host);
    }
    Ok(hosts)
}
