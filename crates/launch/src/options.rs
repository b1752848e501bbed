//! Options: the spellings on the command line of `mpiexec`, and what was requested.
//!
//! The spellings are in `tables/options.toml`, which is compiled in. Reading has two steps: [`Table::read`] turns words
//! into a [`CommandLine`]; [`crate::plan`] turns that into a plan.

mod command_line;
mod cores;
mod host_request;
mod output;
mod values;

pub use command_line::{CommandLine, Inherit, Input, OnDeadlock, OnDeath, ProgramLine};
pub use output::{OutputRequest, RankPlace};
pub(crate) use values::{hosts_in_text, on_deadlock};

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::allocation::Found;
use crate::binding::{Domain, parse_ranges};
use crate::bootstrap::{ERROR_HANDLERS, Names};
use crate::check_mode::{self, CheckMode};
use crate::fabric::{NetworkChoice, POSSIBLE};
use cores::CoreOptions;
use host_request::HostRequest;
use values::list;
use values::{arguments_of, distance, hosts_in, hosts_of, on_death, ranks, seconds, variable};

/// The effect of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Effect {
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
struct OptionRow {
    names: Vec<String>,
    #[serde(default)]
    takes: usize,
    /// Whether a value may follow behind `=`.
    #[serde(default)]
    optional: bool,
    /// The value that is meant, of an option that takes none.
    #[serde(default)]
    meant: Option<String>,
    does: Effect,
    #[serde(default)]
    why: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    help: String,
    /// What the value may be, for completions of shells.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "a test reads each of them"))]
    words: Vec<String>,
    /// For the reader of the table only.
    #[serde(rename = "from")]
    _from: String,
}

/// All spellings.
#[derive(Debug, Deserialize)]
pub struct Table {
    #[serde(rename = "option")]
    options: Vec<OptionRow>,
}

/// Settings for all programs, at any position on the line.
#[derive(Default)]
struct ForAll {
    folder: Option<PathBuf>,
    inherit: Option<Inherit>,
    variables: Vec<(OsString, OsString)>,
    hosts: HostRequest,
    cores: CoreOptions,
}

impl Table {
    /// The table of this program.
    ///
    /// # Panics
    /// If the table that was compiled in is broken, which a test excludes.
    #[must_use]
    pub fn of_this_program() -> Self {
        toml::from_str(include_str!("../../../tables/options.toml"))
            .expect("the table was read by a test")
    }

    /// Reads the words after the name of the launcher, for a process that no scheduler has started. Errors are sentences
    /// for the user.
    ///
    /// # Errors
    /// See [`read_within`](Self::read_within).
    pub fn read(&self, words: &[OsString]) -> Result<CommandLine, String> {
        self.read_within(words, &|| Found::Nothing)
    }

    /// Reads the words after the name of the launcher. `find` returns the allocation of a scheduler, and is called only
    /// if it is needed. Errors are sentences for the user.
    ///
    /// # Errors
    /// If an option is unknown or lacks its value, a value cannot be understood, or there is no program.
    pub fn read_within(
        &self,
        words: &[OsString],
        find: &dyn Fn() -> Found,
    ) -> Result<CommandLine, String> {
        let mut line = CommandLine::default();
        let mut for_all = ForAll::default();
        let mut words = Vec::from(words).into_iter();
        let mut files = 0;
        // For each file of arguments that was read: how many words were left behind it, and its option.
        let mut behind: Vec<(usize, String)> = Vec::new();
        let mut current = ProgramLine::default();
        while let Some(word) = words.next() {
            let word = &word;
            if !word.as_bytes().starts_with(b"-") || word == "-" || word == "--" {
                // The program; all up to the next colon is its own.
                let mut program = (word != "--").then(|| word.clone());
                let mut more = false;
                let end = behind.iter().filter(|(left, _)| *left <= words.len());
                let end = end.max_by_key(|(left, _)| *left);
                while let Some(word) = words.next() {
                    if word == ":" {
                        more = true;
                        break;
                    }
                    if let Some((_, file)) = end.filter(|(left, _)| words.len() < *left) {
                        return Err(format!(
                            "the last program of {file} ends with that file, but '{}' follows; put options before {file}, \
                             and further programs behind ':'",
                            word.display()
                        ));
                    }
                    current.words.extend(program.take());
                    current.words.push(word);
                }
                current.words.extend(program.take());
                if current.words.is_empty() || current.words[0] == ":" {
                    return Err("there is no program before ':' in the command line".into());
                }
                line.programs.push(std::mem::take(&mut current));
                if more && words.len() == 0 {
                    return Err("there is no program after the last ':'".into());
                }
                continue;
            }
            let (row, name, attached) = self.find(word)?;
            let mut values = Vec::with_capacity(row.takes);
            values.extend(attached);
            values.extend(row.meant.as_ref().map(OsString::from));
            while values.len() < row.takes {
                // A value that others let one leave out.
                if row.does == Effect::Ignored && row.takes == 1 && self.is_next(&words) {
                    break;
                }
                let value = words.next().ok_or_else(|| {
                    let missing = match row.takes - values.len() {
                        1 => "a value, and none follows",
                        _ => "two values, and none follows",
                    };
                    format!("{name} needs {missing}; see --help")
                })?;
                values.push(value);
            }
            if row.does == Effect::Arguments {
                files += 1;
                let mut more = arguments_of(&name, Path::new(&values[0]), files)?;
                behind.push((words.len(), format!("{name} {}", values[0].display())));
                more.extend(words);
                words = more.into_iter();
                continue;
            }
            row.apply(&name, &values, &mut current, &mut line, &mut for_all)?;
            if line.help || line.version {
                return Ok(line);
            }
        }
        if line.programs.is_empty() && for_all.hosts.are_joined() {
            // Hosts that join bring it.
            line.programs.push(std::mem::take(&mut current));
        }
        if line.programs.is_empty() {
            return Err("there is no program to start; for example: mpiexec -n 4 ./program".into());
        }
        if current != ProgramLine::default() {
            return Err("there are options, but no program, at the end of the command line".into());
        }
        for_all.hosts.per_host = for_all.cores.per_host.or(for_all.hosts.per_host);
        for_all.hosts.cyclic = for_all.cores.cyclic;
        let number = |program: &ProgramLine| program.ranks.is_some();
        let of_places =
            for_all.hosts.per_host.is_some() || for_all.cores.binding.per_object.is_some();
        if of_places && line.programs.len() > 1 && !line.programs.iter().all(number) {
            return Err(
                "there are several programs: how many ranks each host (-N, -ppn) or object (ppr) has does not say how many \
                 of them are each program's; give each one its -n"
                    .into(),
            );
        }
        line.binding = for_all.cores.finish();
        for_all.hosts.settle(&mut line, find)?;
        for_all.variables.extend(line.profile.variable());
        for program in &mut line.programs {
            if program.folder.is_none() {
                program.folder.clone_from(&for_all.folder);
            }
            if let (Inherit::All, Some(inherit)) = (&program.inherit, &for_all.inherit) {
                program.inherit = inherit.clone();
            }
            // What is set for one program overrides what is set for all.
            let own = std::mem::take(&mut program.variables);
            program.variables = for_all.variables.iter().cloned().chain(own).collect();
        }
        Ok(line)
    }

    /// Whether the next word is an option.
    fn is_next(&self, words: &std::vec::IntoIter<OsString>) -> bool {
        let next = words.as_slice().first();
        next.is_some_and(|word| word.as_bytes().starts_with(b"-") && self.find(word).is_ok())
    }

    /// The option that a word spells, its name as written, and the value after `=`.
    fn find(&self, word: &OsStr) -> Result<(&OptionRow, String, Option<OsString>), String> {
        let bytes = word.as_bytes();
        let start = if bytes.starts_with(b"--") { 2 } else { 1 };
        let end = bytes.iter().position(|&byte| byte == b'=');
        let written = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned();
        let bare = String::from_utf8_lossy(&bytes[start..end.unwrap_or(bytes.len())]).into_owned();
        let row = self.options.iter().find(|row| row.names.contains(&bare));
        let Some(row) = row else {
            let nearest = self.nearest(&bare);
            return Err(format!(
                "there is no option {written}; {nearest}see --help, and put options before the program"
            ));
        };
        let attached = end.map(|end| OsString::from_vec(bytes[end + 1..].to_vec()));
        if attached.is_some() && row.takes == 0 && !row.optional {
            return Err(format!(
                "{written} takes no value, but was given one: {}",
                word.display()
            ));
        }
        Ok((row, written, attached))
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
            let mut left = row
                .names
                .iter()
                .map(|name| {
                    if name.len() == 1 {
                        format!("-{name}")
                    } else {
                        format!("--{name}")
                    }
                })
                .collect::<Vec<_>>()
                .join(", ");
            if !row.value.is_empty() {
                left = format!("{left} {}", row.value);
            }
            let gap = if left.len() > 30 {
                "\n                                  "
            } else {
                ""
            };
            text += &format!("  {left:<30}{gap}  {}\n", row.help);
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
    fn apply(
        &self,
        name: &str,
        values: &[OsString],
        program: &mut ProgramLine,
        line: &mut CommandLine,
        for_all: &mut ForAll,
    ) -> Result<(), String> {
        match self.does {
            Effect::Ranks => program.ranks = Some(ranks(name, &values[0])?),
            Effect::Folder => program.folder = Some(PathBuf::from(&values[0])),
            Effect::FolderForAll => for_all.folder = Some(PathBuf::from(&values[0])),
            Effect::Variable => program
                .variables
                .push(variable(name, &values[0], &values[1])?),
            Effect::VariableForAll => for_all
                .variables
                .push(variable(name, &values[0], &values[1])?),
            Effect::Export => {
                let bytes = values[0].as_bytes();
                match bytes.iter().position(|&byte| byte == b'=') {
                    Some(at) => {
                        let (key, value) = (
                            OsStr::from_bytes(&bytes[..at]),
                            OsStr::from_bytes(&bytes[at + 1..]),
                        );
                        for_all.variables.push(variable(name, key, value)?);
                    }
                    // It is inherited anyway, unless little is.
                    None => {
                        if let Some(value) = std::env::var_os(&values[0]) {
                            for_all.variables.push((values[0].clone(), value));
                        }
                    }
                }
            }
            Effect::NoEnvironment => program.inherit = Inherit::Only(Vec::new()),
            Effect::NoEnvironmentForAll => for_all.inherit = Some(Inherit::Only(Vec::new())),
            Effect::OnlyVariables => program.inherit = Inherit::Only(list(&values[0])),
            Effect::OnlyVariablesForAll => for_all.inherit = Some(Inherit::Only(list(&values[0]))),
            Effect::Tags => line.tags = true,
            Effect::OutputFile => {
                // Open MPI has settings behind a colon: what is written to the file is not shown as well.
                let bytes = values[0].as_bytes();
                let end = bytes.iter().position(|&byte| byte == b':');
                let file = OsStr::from_bytes(&bytes[..end.unwrap_or(bytes.len())]);
                if file.is_empty() {
                    return Err(format!("{name} needs the name of a file"));
                }
                line.output.file = Some(PathBuf::from(file));
            }
            Effect::OutPattern => {
                line.output.out_pattern = Some(output::pattern(name, &values[0])?)
            }
            Effect::ErrorPattern => {
                line.output.error_pattern = Some(output::pattern(name, &values[0])?);
            }
            Effect::MergeOutput => line.output.merged = true,
            Effect::Times => line.output.times = true,
            Effect::Timeout => line.timeout = Some(seconds(name, &values[0])?),
            Effect::NoDeadlockCheck => line.on_deadlock = OnDeadlock::Ignore,
            Effect::OnDeadlock => line.on_deadlock = on_deadlock(name, &values[0])?,
            Effect::OnDeath => line.on_death = on_death(name, &values[0])?,
            Effect::Universe => line.universe = Some(ranks(name, &values[0])?),
            Effect::Input => {
                line.input = match values[0].to_str() {
                    Some("0") => Input::First,
                    Some("none" | "null") => Input::Nobody,
                    _ => {
                        return Err(format!(
                            "{name} was given '{}'; 0 (rank 0 reads) and none are possible",
                            values[0].display()
                        ));
                    }
                }
            }
            Effect::Fabric => match values[0].to_str() {
                Some(kind) if NetworkChoice::parse(kind).is_some() => {
                    for_all.variables.push(("WEFT_FABRIC".into(), kind.into()));
                }
                _ => {
                    return Err(format!(
                        "{name} was given '{}'; {POSSIBLE} are possible",
                        values[0].display()
                    ));
                }
            },
            Effect::Encrypt => for_all.variables.push(("WEFT_ENCRYPT".into(), "1".into())),
            Effect::Check => {
                let word = values
                    .first()
                    .map_or("full".into(), |word| word.to_string_lossy());
                let Some(mode) = CheckMode::parse(&word) else {
                    return Err(format!(
                        "{name} was given '{word}'; off, usual, full and strict are possible, several with commas"
                    ));
                };
                let text = mode.to_string();
                for_all
                    .variables
                    .push((check_mode::VARIABLE.into(), text.into()));
            }
            Effect::Profile => line.profile.table = Some(values.first().map(PathBuf::from)),
            Effect::RecordEach => line.profile.each = true,
            Effect::Timeline => line.profile.timeline = Some(PathBuf::from(&values[0])),
            Effect::Quiet => line.quiet = true,
            Effect::Verbose => line.verbose = true,
            Effect::Help => line.help = true,
            Effect::Version => line.version = true,
            Effect::Hosts => for_all.hosts.hosts.extend(hosts_in(name, &values[0])?),
            Effect::Hostfile => for_all
                .hosts
                .hosts
                .extend(hosts_of(name, Path::new(&values[0]))?),
            Effect::PerHost => for_all.hosts.per_host = Some(ranks(name, &values[0])?),
            Effect::OnePerHost => for_all.hosts.per_host = Some(1),
            Effect::Map => for_all.cores.map(name, &values[0].to_string_lossy())?,
            Effect::Bind => for_all.cores.bind(name, &values[0].to_string_lossy())?,
            Effect::RankBy => for_all.cores.rank(name, &values[0].to_string_lossy())?,
            Effect::CpuSet => {
                let set = parse_ranges(&values[0].to_string_lossy());
                for_all.cores.binding.threads = set.map_err(|text| format!("{name}: {text}"))?;
            }
            Effect::CoresEach => {
                for_all.cores.binding.cores_each = Some(ranks(name, &values[0])?);
            }
            Effect::PerPackage => for_all.cores.per(ranks(name, &values[0])?, Domain::Package),
            Effect::HardwareThreads => for_all.cores.use_hardware_threads(),
            Effect::ReportBindings => for_all.cores.binding.report = true,
            // Read where it stands: it is more of the command line.
            Effect::Arguments => {}
            Effect::LaunchCommand => {
                let words = values[0].to_string_lossy();
                let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
                if words.is_empty() {
                    return Err(format!(
                        "{name} needs the command that reaches a host, such as 'ssh -p 2222'"
                    ));
                }
                for_all.hosts.command = Some(words);
            }
            Effect::RemotePrefix => {
                let prefix = PathBuf::from(&values[0]);
                if !prefix.is_absolute() {
                    return Err(format!(
                        "{name} needs the whole path of an installation of Weft, such as /opt/weft"
                    ));
                }
                for_all.hosts.prefix = Some(prefix);
            }
            Effect::Listen => for_all.hosts.listen = Some(values[0].to_string_lossy().into_owned()),
            Effect::TokenFile => for_all.hosts.token_file = Some(values[0].clone()),
            Effect::Heartbeat => {
                let silence = seconds(name, &values[0])?;
                let text = silence.as_secs_f64().to_string();
                for_all
                    .variables
                    .push(("WEFT_PATIENCE".into(), text.into()));
                line.heartbeat = Some(silence);
            }
            Effect::NoAllocation => for_all.hosts.no_allocation = true,
            Effect::Scheduler => {
                // The scheduler is found out; these say that there is none.
                if ["none", "user"].iter().any(|none| values[0] == *none) {
                    for_all.hosts.no_allocation = true;
                }
            }
            Effect::Launcher => for_all.hosts.by_ssh = values[0] == "ssh",
            Effect::ExitCodes => line.exit_codes = true,
            Effect::Path => {
                program.search = Some(values[0].clone());
            }
            Effect::ErrorHandler => {
                let known = ERROR_HANDLERS.iter().find(|known| values[0] == **known);
                let Some(known) = known else {
                    return Err(format!(
                        "{name} was given '{}'; one of {} was expected",
                        values[0].display(),
                        ERROR_HANDLERS.join(", ")
                    ));
                };
                program
                    .variables
                    .push((Names::ERROR_HANDLER.into(), known.into()));
            }
            Effect::Nothing => {}
            Effect::Ignored => self.ignore(name, values, line),
            Effect::Refused => return Err(format!("{name} cannot be followed: {}", self.why)),
        }
        Ok(())
    }

    /// Notes that it is not followed, once.
    fn ignore(&self, name: &str, values: &[OsString], line: &mut CommandLine) {
        let values: Vec<_> = values
            .iter()
            .map(|value| format!(" {}", value.display()))
            .collect();
        let note = format!("ignored {name}{}: {}", values.concat(), self.why);
        if !line.ignored.contains(&note) {
            line.ignored.push(note);
        }
    }
}

#[cfg(test)]
mod tests;
