//! The values of options for the output of ranks.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Destination of the ranks' output.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputRequest {
    /// Both outputs of a rank go to this file, its number behind a dot.
    pub file: Option<PathBuf>,
    /// Standard output goes to this file, in whose name `%r` is the rank, `%h` its host, `%p` the number of the host, and `%g` that of
    /// the process group, 0.
    pub out_pattern: Option<PathBuf>,
    /// … standard error.
    pub error_pattern: Option<PathBuf>,
    /// Standard error goes where standard output goes.
    pub merged: bool,
    /// Lines begin with the time.
    pub times: bool,
}

/// Where a rank runs, as the names of files say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankPlace<'a> {
    /// The name of its host.
    pub host: &'a str,
    /// The number of its host, from 0.
    pub number: u32,
}

impl OutputRequest {
    /// Whether a name of a file says where its rank runs.
    #[must_use]
    pub fn names_hosts(&self) -> bool {
        let patterns = [&self.out_pattern, &self.error_pattern];
        let place = |host, number| RankPlace { host, number };
        patterns.into_iter().flatten().any(|pattern| {
            let name = |place| expand(pattern.as_os_str(), 0, place);
            name(place("a", 0)) != name(place("b", 1))
        })
    }

    /// Whether output goes where it always does.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The file for an output of a rank, of this many ranks; `None` if there is none.
    #[must_use]
    pub fn file(
        &self,
        rank: u32,
        ranks: u32,
        place: RankPlace<'_>,
        error: bool,
    ) -> Option<PathBuf> {
        let pattern = match error {
            true => &self.error_pattern,
            false => &self.out_pattern,
        };
        if let Some(pattern) = pattern {
            let bytes = expand(pattern.as_os_str(), rank, place)?;
            return Some(std::ffi::OsString::from_vec(bytes).into());
        }
        // With zeros before it, so that a list of the files is in order.
        let digits = ranks.saturating_sub(1).to_string().len();
        let mut name = self.file.clone()?.into_os_string();
        name.push(format!(".{rank:0digits$}"));
        Some(name.into())
    }
}

/// A pattern that was given to an option.
///
/// # Errors
/// A sentence, if it is none.
pub fn pattern(option: &str, text: &OsStr) -> Result<PathBuf, String> {
    let anywhere = RankPlace {
        host: "host",
        number: 0,
    };
    match expand(text, 0, anywhere) {
        Some(name) if !name.is_empty() => Ok(PathBuf::from(text)),
        _ => Err(format!(
            "{option} was given '{}'; the name of a file was expected, in which %r is the rank, %h its host, %p the number of the host, \
             %g that of the process group (and %% a percent sign)",
            text.display()
        )),
    }
}

/// The name for a rank.
fn expand(pattern: &OsStr, rank: u32, place: RankPlace<'_>) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut bytes = pattern.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'r') => name.extend(rank.to_string().bytes()),
            Some(b'h') => name.extend(place.host.bytes()),
            Some(b'p') => name.extend(place.number.to_string().bytes()),
            // The ranks that a job starts with.
            Some(b'g') => name.push(b'0'),
            Some(b'%') => name.push(b'%'),
            _ => return None,
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const PLACE: RankPlace<'static> = RankPlace {
        host: "node7",
        number: 3,
    };

    #[test]
    fn files_are_named_by_rank() {
        let both = OutputRequest {
            file: Some("out/log".into()),
            ..OutputRequest::default()
        };
        assert_eq!(
            both.file(3, 12, PLACE, true).as_deref(),
            Some(Path::new("out/log.03"))
        );
        assert_eq!(
            both.file(3, 10, PLACE, false).as_deref(),
            Some(Path::new("out/log.3"))
        );
        let pattern = OutputRequest {
            out_pattern: Some("a-%r%%".into()),
            ..OutputRequest::default()
        };
        assert_eq!(
            pattern.file(7, 9, PLACE, false).as_deref(),
            Some(Path::new("a-7%"))
        );
        assert_eq!(pattern.file(7, 9, PLACE, true), None);
        assert!(OutputRequest::default().is_usual() && !pattern.is_usual());
        assert!(!pattern.names_hosts() && !both.names_hosts());
        for (text, name) in [("%h/%r", "node7/7"), ("%p%%%g", "3%0")] {
            let pattern = OutputRequest {
                error_pattern: Some(text.into()),
                ..OutputRequest::default()
            };
            let file = pattern.file(7, 9, PLACE, true);
            assert_eq!(file.as_deref(), Some(Path::new(name)));
            assert!(pattern.names_hosts(), "{text}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for wrong in ["", "a%", "a%k"] {
            let error = super::pattern("-outfile-pattern", OsStr::new(wrong)).unwrap_err();
            assert!(error.contains("%r is the rank"), "{error}");
        }
    }
}
