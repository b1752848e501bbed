//! Requests of the options and programs of a command line that were read so far.
//!
//! An option concerns the next program, all programs, or the job. What all programs get is distributed at the end, as it may stand
//! anywhere on the line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::command_line::{CommandLine, Inherit, OnDeadlock, ProgramLine};
use super::cores::CoreOptions;
use super::host_list::{hosts_in, hosts_of};
use super::host_request::HostRequest;
use super::output::pattern;
use super::table::{Effect, WrittenOption};
use super::values::{
    check_mode, error_handler, exported, input, launch_command, list, network, on_deadlock,
    on_death, output_file, ranks, remote_prefix, seconds, variable,
};
use crate::allocation::Found;
use crate::binding::{Domain, parse_ranges};
use crate::bootstrap::Names;
use crate::check_mode;

/// The requests so far.
#[derive(Default)]
pub(super) struct Requests {
    line: CommandLine,
    /// The program whose options are being read.
    next: ProgramLine,
    for_all: ForAll,
    hosts: HostRequest,
    cores: CoreOptions,
}

/// Settings for all programs.
#[derive(Default)]
struct ForAll {
    folder: Option<PathBuf>,
    inherit: Option<Inherit>,
    variables: Vec<(OsString, OsString)>,
}

impl ForAll {
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Completes a program. What is set for one overrides what is set for all.
    fn apply_to(&self, program: &mut ProgramLine) {
        if program.folder.is_none() {
            program.folder.clone_from(&self.folder);
        }
        if let (Inherit::All, Some(inherit)) = (&program.inherit, &self.inherit) {
            program.inherit = inherit.clone();
        }
        let own = std::mem::take(&mut program.variables);
        program.variables = self.variables.iter().cloned().chain(own).collect();
    }
}

impl Requests {
    /// Notes a program, whose options were read before.
    pub(super) fn add_program(&mut self, words: Vec<OsString>) {
        let options = std::mem::take(&mut self.next);
        self.line.programs.push(ProgramLine { words, ..options });
    }

    /// The command line, if nothing counts but what it shows about this program.
    pub(super) fn shown(&mut self) -> Option<CommandLine> {
        let shows = self.line.help || self.line.version;
        shows.then(|| std::mem::take(&mut self.line))
    }

    /// Notes an option with its values.
    pub(super) fn apply(
        &mut self,
        option: &WrittenOption<'_>,
        values: &[OsString],
    ) -> Result<(), String> {
        let name = &*option.name;
        let Self {
            line,
            next,
            for_all,
            hosts,
            cores,
        } = self;
        // The table gives an option as many values as are used here.
        let value = values.first().map_or(OsStr::new(""), OsString::as_os_str);
        let text = || value.to_string_lossy();
        match option.row.does {
            Effect::Ranks => next.ranks = Some(ranks(name, value)?),
            Effect::Path => next.search = Some(value.to_owned()),
            Effect::ErrorHandler => {
                let handler = error_handler(name, value)?;
                next.variables
                    .push((Names::ERROR_HANDLER.into(), handler.into()));
            }
            Effect::Folder => next.folder = Some(value.into()),
            Effect::FolderForAll => for_all.folder = Some(value.into()),
            Effect::Variable => next.variables.push(variable(name, value, &values[1])?),
            Effect::VariableForAll => for_all.variables.push(variable(name, value, &values[1])?),
            Effect::Export => for_all.variables.extend(exported(name, value)?),
            Effect::NoEnvironment => next.inherit = Inherit::Only(Vec::new()),
            Effect::NoEnvironmentForAll => for_all.inherit = Some(Inherit::Only(Vec::new())),
            Effect::OnlyVariables => next.inherit = Inherit::Only(list(value)),
            Effect::OnlyVariablesForAll => for_all.inherit = Some(Inherit::Only(list(value))),

            Effect::Tags => line.tags = true,
            Effect::OutputFile => line.output.file = Some(output_file(name, value)?),
            Effect::OutPattern => line.output.out_pattern = Some(pattern(name, value)?),
            Effect::ErrorPattern => line.output.error_pattern = Some(pattern(name, value)?),
            Effect::MergeOutput => line.output.merged = true,
            Effect::Times => line.output.times = true,
            Effect::Timeout => line.timeout = Some(seconds(name, value)?),
            Effect::NoDeadlockCheck => line.on_deadlock = OnDeadlock::Ignore,
            Effect::OnDeadlock => line.on_deadlock = on_deadlock(name, value)?,
            Effect::OnDeath => line.on_death = on_death(name, value)?,
            Effect::Universe => line.universe = Some(ranks(name, value)?),
            Effect::Input => line.input = input(name, value)?,
            Effect::Profile => line.profile.table = Some(values.first().map(PathBuf::from)),
            Effect::RecordEach => line.profile.each = true,
            Effect::Timeline => line.profile.timeline = Some(value.into()),
            Effect::Quiet => line.quiet = true,
            Effect::Verbose => line.verbose = true,
            Effect::ExitCodes => line.exit_codes = true,
            Effect::Help => line.help = true,
            Effect::Version => line.version = true,

            Effect::Fabric => for_all.set("WEFT_FABRIC", network(name, value)?),
            Effect::Encrypt => for_all.set("WEFT_ENCRYPT", "1"),
            Effect::Check => {
                let mode = values
                    .first()
                    .map_or(OsStr::new("full"), OsString::as_os_str);
                for_all.set(check_mode::VARIABLE, check_mode(name, mode)?.to_string());
            }
            Effect::Heartbeat => {
                let silence = seconds(name, value)?;
                for_all.set("WEFT_PATIENCE", silence.as_secs_f64().to_string());
                line.heartbeat = Some(silence);
            }

            Effect::Hosts => hosts.hosts.extend(hosts_in(name, value)?),
            Effect::Hostfile => hosts.hosts.extend(hosts_of(name, Path::new(value))?),
            Effect::PerHost => hosts.per_host = Some(ranks(name, value)?),
            Effect::OnePerHost => hosts.per_host = Some(1),
            Effect::LaunchCommand => hosts.command = Some(launch_command(name, value)?),
            Effect::RemotePrefix => hosts.prefix = Some(remote_prefix(name, value)?),
            Effect::Listen => hosts.listen = Some(text().into_owned()),
            Effect::TokenFile => hosts.token_file = Some(value.to_owned()),
            Effect::NoAllocation => hosts.no_allocation = true,
            // The scheduler is found out; these say that there is none.
            Effect::Scheduler => hosts.no_allocation |= value == "none" || value == "user",
            Effect::Launcher => hosts.by_ssh = value == "ssh",

            Effect::Map => cores.map(name, &text())?,
            Effect::Bind => cores.bind(name, &text())?,
            Effect::RankBy => cores.rank(name, &text())?,
            Effect::CpuSet => {
                let set = parse_ranges(&text());
                cores.binding.threads = set.map_err(|text| format!("{name}: {text}"))?;
            }
            Effect::CoresEach => cores.binding.cores_each = Some(ranks(name, value)?),
            Effect::PerPackage => cores.per(ranks(name, value)?, Domain::Package),
            Effect::HardwareThreads => cores.use_hardware_threads(),
            Effect::ReportBindings => cores.binding.report = true,

            // More of the command line, which is read where it stands.
            Effect::Arguments => {}
            Effect::Nothing => {}
            Effect::Ignored => self.ignore(option, values),
            Effect::Refused => {
                return Err(format!("{name} cannot be followed: {}", option.row.why));
            }
        }
        Ok(())
    }

    /// Notes that an option is not followed, once.
    fn ignore(&mut self, option: &WrittenOption<'_>, values: &[OsString]) {
        let values = values.iter().map(|value| format!(" {}", value.display()));
        let (values, why) = (values.collect::<String>(), &option.row.why);
        let note = format!("ignored {}{values}: {why}", option.name);
        if !self.line.ignored.contains(&note) {
            self.line.ignored.push(note);
        }
    }

    /// The whole command line. `find` returns the allocation of a scheduler, and is called only if it is needed.
    pub(super) fn finish(mut self, find: &dyn Fn() -> Found) -> Result<CommandLine, String> {
        if self.line.programs.is_empty() && self.hosts.are_joined() {
            // Hosts that join bring it.
            self.add_program(Vec::new());
        }
        if self.line.programs.is_empty() {
            return Err("there is no program to start; for example: mpiexec -n 4 ./program".into());
        }
        if self.next != ProgramLine::default() {
            return Err("there are options, but no program, at the end of the command line".into());
        }
        let Self {
            mut line,
            mut for_all,
            mut hosts,
            cores,
            ..
        } = self;
        hosts.per_host = cores.per_host.or(hosts.per_host);
        hosts.cyclic = cores.cyclic;
        let of_places = hosts.per_host.is_some() || cores.binding.per_object.is_some();
        let are_numbered = line.programs.iter().all(|program| program.ranks.is_some());
        if of_places && line.programs.len() > 1 && !are_numbered {
            return Err(
                "there are several programs: how many ranks each host (-N, -ppn) or object (ppr) has does not say how many \
                 of them are each program's; give each one its -n"
                    .into(),
            );
        }
        line.binding = cores.finish();
        hosts.settle(&mut line, find)?;
        for_all.variables.extend(line.profile.variable());
        for program in &mut line.programs {
            for_all.apply_to(program);
        }
        Ok(line)
    }
}
