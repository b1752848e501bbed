//! Table of the options of `mpiexec`: every spelling that is understood, as `tables/options.toml` has them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::Deserialize;

/// The effect of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Effect {
    Ranks,
    Folder,
    FolderForAll,
    Variable,
    VariableForAll,
    Export,
    NoEnvironment,
    NoEnvironmentForAll,
    OnlyVariables,
    OnlyVariablesForAll,
    Tags,
    OutputFile,
    OutPattern,
    ErrorPattern,
    MergeOutput,
    Times,
    Timeout,
    OnDeath,
    NoDeadlockCheck,
    OnDeadlock,
    Universe,
    Input,
    Fabric,
    Encrypt,
    Check,
    Profile,
    Timeline,
    RecordEach,
    Quiet,
    Verbose,
    Help,
    Version,
    Hosts,
    Hostfile,
    PerHost,
    OnePerHost,
    Map,
    Bind,
    RankBy,
    CpuSet,
    CoresEach,
    PerPackage,
    HardwareThreads,
    ReportBindings,
    Arguments,
    LaunchCommand,
    RemotePrefix,
    Listen,
    TokenFile,
    Heartbeat,
    NoAllocation,
    Scheduler,
    Launcher,
    ExitCodes,
    Path,
    ErrorHandler,
    Nothing,
    Ignored,
    Refused,
}

/// One row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionRow {
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) takes: usize,
    /// Whether a value may follow behind `=`.
    #[serde(default)]
    pub(super) optional: bool,
    /// The value that is meant, of an option that takes none.
    #[serde(default)]
    pub(super) meant: Option<String>,
    pub(super) does: Effect,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) value: String,
    #[serde(default)]
    pub(super) help: String,
    /// What the value may be, for completions of shells.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "a test reads each of them"))]
    pub(super) words: Vec<String>,
    /// For the reader of the table only.
    #[serde(rename = "from")]
    _from: String,
}

/// All spellings.
#[derive(Debug, Deserialize)]
pub struct Table {
    #[serde(rename = "option")]
    pub(super) options: Vec<OptionRow>,
}

/// An option as it was written.
pub(super) struct WrittenOption<'t> {
    pub row: &'t OptionRow,
    /// Its name, with hyphens.
    pub name: String,
    /// The value behind `=`.
    pub attached: Option<OsString>,
}

impl Table {
    /// The table of this program.
    ///
    /// # Panics
    /// If the table that was compiled in is broken, which a test excludes.
    #[must_use]
    pub fn of_this_program() -> Self {
        toml::from_str(include_str!("../../../../tables/options.toml"))
            .expect("the table was read by a test")
    }

    /// The option that a word spells.
    pub(super) fn find(&self, word: &OsStr) -> Result<WrittenOption<'_>, String> {
        let bytes = word.as_bytes();
        let start = if bytes.starts_with(b"--") { 2 } else { 1 };
        let end = bytes.iter().position(|&byte| byte == b'=');
        let written = &bytes[..end.unwrap_or(bytes.len())];
        let name = String::from_utf8_lossy(written).into_owned();
        let bare = String::from_utf8_lossy(&written[start..]);
        let row = self
            .options
            .iter()
            .find(|row| row.names.iter().any(|known| *known == bare));
        let Some(row) = row else {
            let nearest = self.nearest(&bare);
            return Err(format!(
                "there is no option {name}; {nearest}see --help, and put options before the program"
            ));
        };
        let attached = end.map(|end| OsString::from_vec(bytes[end + 1..].to_vec()));
        if attached.is_some() && row.takes == 0 && !row.optional {
            return Err(format!(
                "{name} takes no value, but was given one: {}",
                word.display()
            ));
        }
        Ok(WrittenOption {
            row,
            name,
            attached,
        })
    }

    /// Whether a word spells an option.
    pub(super) fn has(&self, word: &OsStr) -> bool {
        word.as_bytes().starts_with(b"-") && self.find(word).is_ok()
    }

    /// A hint at the known name that differs least, if one is near.
    fn nearest(&self, bare: &str) -> String {
        let names = self.options.iter().flat_map(|row| &row.names);
        names
            .map(|name| (distance(name, bare), name))
            .filter(|(distance, name)| {
                *distance <= 2 && name.len() > 2 && *distance < name.len() / 2
            })
            .min()
            .map_or(String::new(), |(_, name)| format!("--{name} is near; "))
    }

    /// The text of `--help`, for the launcher under this name.
    #[must_use]
    pub fn help(&self, launcher: &str) -> String {
        let mut text = format!(
            "Starts MPI programs.\n\n\
             Usage: {launcher} [OPTIONS] PROGRAM [ARGUMENTS…] [: [OPTIONS] PROGRAM [ARGUMENTS…]]…\n\n\
             Options (one or two hyphens; --option=value or --option value):\n"
        );
        for row in self.options.iter().filter(|row| !row.help.is_empty()) {
            text += &row.help_line();
        }
        text += "\nOther options of MPICH, Open MPI and Intel MPI are accepted where they ask for what is\n\
                 so anyway, and ignored with a line that says so where the program runs all the same.\n\
                 \n\
                 The exit code is that of the rank that failed first; 128 + n for signal n; 124 after\n\
                 --timeout; 35 after a deadlock; 120 for what --check=strict has found; 126 or 127 if a program\n\
                 cannot be started; 2 for a wrong command line.\n";
        text
    }
}

impl OptionRow {
    /// The line of the help, or two if the names are long.
    fn help_line(&self) -> String {
        let names = self.names.iter().map(|name| match name.len() {
            1 => format!("-{name}"),
            _ => format!("--{name}"),
        });
        let mut left = names.collect::<Vec<_>>().join(", ");
        if !self.value.is_empty() {
            left = format!("{left} {}", self.value);
        }
        let gap = match left.len() > 30 {
            true => "\n                                  ",
            false => "",
        };
        format!("  {left:<30}{gap}  {}\n", self.help)
    }
}

/// Number of letters to be changed, inserted or removed.
fn distance(one: &str, other: &str) -> usize {
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
