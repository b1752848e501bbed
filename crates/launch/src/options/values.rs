//! The values of options, each with its sentence for when it cannot be understood.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

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

/// What stands between commas.
pub fn list(text: &OsStr) -> Vec<OsString> {
    text.as_bytes()
        .split(|&byte| byte == b',')
        .filter(|part| !part.is_empty())
        .map(|part| OsStr::from_bytes(part).to_owned())
        .collect()
}

/// The hosts in a file of the usual forms: `name`, `name:4`, `name slots=4`, `#` to the end of a line.
pub fn hosts_of(name: &str, file: &Path) -> Result<Vec<OsString>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        format!(
            "{name} names {}, which cannot be read: {error}",
            file.display()
        )
    })?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    Ok(lines
        .filter_map(|line| line.split_whitespace().next())
        .map(OsString::from)
        .collect())
}

/// Refuses other hosts.
pub fn only_this_host(name: &str, hosts: Vec<OsString>) -> Result<(), String> {
    let ours = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let short = ours.split('.').next().unwrap_or("").to_owned();
    for host in hosts {
        let text = host.to_string_lossy();
        let bare = match text.split_once(':') {
            Some((bare, slots)) if slots.bytes().all(|byte| byte.is_ascii_digit()) => bare,
            _ => &*text,
        };
        let local = ["localhost", "127.0.0.1", "::1", &*ours, &*short];
        if !local.contains(&bare) {
            return Err(format!(
                "{name} asks for the host {bare}, but all ranks run on this host ({ours}) so far; \
                 leave the option out"
            ));
        }
    }
    Ok(())
}

/// How many letters have to be changed, put in or left out.
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
