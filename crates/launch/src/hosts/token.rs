//! Token of a job that others join: read from a file or standard input, or made.

use std::ffi::OsStr;
use std::io::{self, Read};

use weft_secure::Key;

/// The token of a job: from a file, from standard input (`-`), or a new one.
///
/// # Errors
/// If the file cannot be read or holds no token.
pub fn obtain(file: Option<&OsStr>) -> io::Result<Key> {
    let Some(file) = file else {
        return Key::random();
    };
    let mut text = String::new();
    let read = if file == "-" {
        io::stdin().lock().take(1024).read_to_string(&mut text)
    } else {
        let found = std::fs::File::open(file);
        found.and_then(|found| found.take(1024).read_to_string(&mut text))
    };
    let wrong = |reason: &dyn std::fmt::Display| {
        let file = file.display();
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the token file {file}: {reason}"),
        )
    };
    read.map_err(|error| wrong(&error))?;
    text.trim().parse().map_err(|error| wrong(&error))
}
