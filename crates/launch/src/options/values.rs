//! The values of options, each with its error message.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Input, OnDeadlock, OnDeath};
use crate::bootstrap::ERROR_HANDLERS;
use crate::check_mode::CheckMode;
use crate::fabric::{NetworkChoice, POSSIBLE};

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

/// The name of an error handler.
pub fn error_handler(name: &str, text: &OsStr) -> Result<&'static str, String> {
    let known = ERROR_HANDLERS.iter().find(|known| text == **known);
    known.copied().ok_or_else(|| {
        format!(
            "{name} was given '{}'; one of {} was expected",
            text.display(),
            ERROR_HANDLERS.join(", ")
        )
    })
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

/// A variable as `NAME=VALUE`, or by its name alone; `None` if that is not set here.
pub fn exported(option: &str, text: &OsStr) -> Result<Option<(OsString, OsString)>, String> {
    match split_at(text, b'=') {
        (name, Some(value)) => variable(option, name, value).map(Some),
        // It is inherited anyway, unless little is.
        (name, None) => Ok(std::env::var_os(name).map(|value| (name.to_owned(), value))),
    }
}

/// The file for output, without the settings that Open MPI has behind a colon: what is written to the file is not shown as well.
pub fn output_file(name: &str, text: &OsStr) -> Result<PathBuf, String> {
    match split_at(text, b':') {
        (file, _) if file.is_empty() => Err(format!("{name} needs the name of a file")),
        (file, _) => Ok(PathBuf::from(file)),
    }
}

/// The parts before and behind the first of these bytes.
fn split_at(text: &OsStr, byte: u8) -> (&OsStr, Option<&OsStr>) {
    let mut parts = text.as_bytes().splitn(2, |other| *other == byte);
    let first = parts.next().unwrap_or_default();
    (
        OsStr::from_bytes(first),
        parts.next().map(OsStr::from_bytes),
    )
}

/// The reader of standard input.
pub fn input(name: &str, text: &OsStr) -> Result<Input, String> {
    match text.to_str() {
        Some("0") => Ok(Input::First),
        Some("none" | "null") => Ok(Input::Nobody),
        _ => Err(format!(
            "{name} was given '{}'; 0 (rank 0 reads) and none are possible",
            text.display()
        )),
    }
}

/// The name of a network.
pub fn network(name: &str, text: &OsStr) -> Result<OsString, String> {
    match text.to_str().and_then(NetworkChoice::parse) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "{name} was given '{}'; {POSSIBLE} are possible",
            text.display()
        )),
    }
}

/// Which checks are made.
pub fn check_mode(name: &str, text: &OsStr) -> Result<CheckMode, String> {
    let text = text.to_string_lossy();
    CheckMode::parse(&text).ok_or_else(|| {
        format!(
            "{name} was given '{text}'; off, usual, full and strict are possible, several with commas"
        )
    })
}

/// The command that reaches a host.
pub fn launch_command(name: &str, text: &OsStr) -> Result<Vec<OsString>, String> {
    let text = text.to_string_lossy();
    let words: Vec<_> = text.split_whitespace().map(OsString::from).collect();
    match words.is_empty() {
        true => Err(format!(
            "{name} needs the command that reaches a host, such as 'ssh -p 2222'"
        )),
        false => Ok(words),
    }
}

/// The folder of an installation on other hosts.
pub fn remote_prefix(name: &str, text: &OsStr) -> Result<PathBuf, String> {
    let prefix = PathBuf::from(text);
    match prefix.is_absolute() {
        true => Ok(prefix),
        false => Err(format!(
            "{name} needs the whole path of an installation of Weft, such as /opt/weft"
        )),
    }
}
