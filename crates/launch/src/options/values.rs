//! The values of options, each with its error message.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::{OnDeadlock, OnDeath};
use crate::mapping::HostSlots;

/// A number of ranks.
pub fn ranks(name: &str, text: &OsStr) -> Result<u32, String> {
    match text.to_str().map(str::parse) {
        Some(Ok(ranks)) if ranks > 0 => Ok(ranks),
        _ => Err(format!(
            "{name} needs the number of ranks, at least 1, but was given '{}'",
            text.display()
        )),
    }
}

/// A time that is not zero.
pub fn seconds(name: &str, text: &OsStr) -> Result<Duration, String> {
    text.to_str()
        .and_then(|text| text.parse().ok())
        .filter(|&seconds| seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            format!(
                "{name} needs a time in seconds, but was given '{}'",
                text.display()
            )
        })
}

/// Effect of the death of a process.
pub fn on_death(name: &str, text: &OsStr) -> Result<OnDeath, String> {
    match text.to_str() {
        Some("end") => Ok(OnDeath::End),
        Some("report") => Ok(OnDeath::Report),
        Some("restart") => Ok(OnDeath::Restart),
        _ => Err(format!(
            "{name} was given '{}'; end (the job ends), report (the others are told) and restart (and \
             it is started anew) are possible",
            text.display()
        )),
    }
}

/// Reaction to a deadlock.
pub fn on_deadlock(name: &str, text: &OsStr) -> Result<OnDeadlock, String> {
    match text.to_str() {
        Some("end") => Ok(OnDeadlock::End),
        Some("stop") => Ok(OnDeadlock::Stop),
        Some("ignore") => Ok(OnDeadlock::Ignore),
        _ => Err(format!(
            "{name} was given '{}'; end (it is reported, and the job ends), stop (it is reported, and the processes are \
             stopped, for a debugger) and ignore are possible",
            text.display()
        )),
    }
}

/// Files of arguments that one command line may read, those counted that they name themselves.
const MOST_FILES: u32 = 64;

/// The words of a file of arguments, number `files` of its command line: a program with its options in each line, split
/// as by a shell. Empty lines and text after a `#` are ignored.
pub fn arguments_of(name: &str, path: &Path, files: u32) -> Result<Vec<OsString>, String> {
    let shown = path.display();
    if files > MOST_FILES {
        return Err(format!(
            "{name} {shown}: more than {MOST_FILES} files of arguments; does one name itself?"
        ));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{name}: {shown} cannot be read: {error}"))?;
    let mut words: Vec<OsString> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let found = shlex::split(line).ok_or_else(|| {
            let number = number + 1;
            format!("{name}: line {number} of {shown} ends within quotes, or with a backslash")
        })?;
        if !found.is_empty() {
            let colon = (!words.is_empty() && found[0] != ":").then(|| ":".into());
            words.extend(colon);
            words.extend(found.into_iter().map(OsString::from));
        }
    }
    match words.is_empty() {
        true => Err(format!("{name}: {shown} has no program")),
        false => Ok(words),
    }
}

/// The name and the value of a variable.
pub fn variable(option: &str, name: &OsStr, value: &OsStr) -> Result<(OsString, OsString), String> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
        return Err(format!(
            "{option} was given '{}' as the name of a variable",
            name.display()
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The parts between commas.
pub fn list(text: &OsStr) -> Vec<OsString> {
    text.as_bytes()
        .split(|&byte| byte == b',')
        .filter(|part| !part.is_empty())
        .map(|part| OsStr::from_bytes(part).to_owned())
        .collect()
}

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

/// Number of letters to be changed, inserted or removed.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (place, &there) in other.iter().enumerate() {
            let changed = diagonal + usize::from(there != letter);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
