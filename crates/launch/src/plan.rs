//! Plan of a job before its start: programs found, environments made, ranks numbered. If an error is found here, nothing
//! has been started.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;

use weft_sys::cores::cores_available;

use crate::binding::BindingRequest;
use crate::bootstrap::{Names, foreign_variables};
use crate::linkage;
use crate::mapping::Allocation;
use crate::options::{
    CommandLine, Inherit, Input, OnDeadlock, OnDeath, OutputRequest, ProgramLine,
};
use crate::profile::ProfileRequest;

/// Processes that a job may start anew (`--on-death=restart`): enough for accidents, and a limit for a program that dies
/// at each start. Each costs address space for its lanes.
const SPARES: u32 = 16;

/// Default for the number of processes in a job of this many ranks: room for each rank to start several. It costs address
/// space, for the lanes between all of them.
pub(crate) fn universe(ranks: u32) -> u32 {
    let room = ranks.saturating_mul(4).clamp(64, 512);
    ranks.saturating_add(room).min(weft_fabric_shm::MAX_RANKS)
}

/// Number of processes beside its ranks that each host of a job may have by default.
pub(crate) fn room_of_host(ranks: u32, hosts: u32) -> u32 {
    divide_room(universe(ranks) - ranks, hosts)
}

/// Number of the processes beside the ranks that each host of a job may have: all numbers must be told apart in a context
/// (see `weft_mpi::comm::agree`).
pub(crate) fn divide_room(more: u32, hosts: u32) -> u32 {
    more.min(weft_fabric_shm::MAX_RANKS / hosts.max(1))
}

/// A job before its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The programs, in the order of their ranks.
    pub programs: Vec<Program>,
    /// Whether lines of output begin with the rank.
    pub tags: bool,
    /// Output of the ranks.
    pub output: OutputRequest,
    /// Time after which the job is ended.
    pub timeout: Option<Duration>,
    /// Effect of the death of a process.
    pub on_death: OnDeath,
    /// Reaction to a deadlock.
    pub on_deadlock: OnDeadlock,
    /// The cores of their hosts that ranks run on.
    pub binding: BindingRequest,
    /// Ranks are dealt to hosts in turn.
    pub cyclic: bool,
    /// Most processes that may run, including those that are started from within programs.
    pub universe: u32,
    /// The reader of standard input.
    pub input: Input,
    /// Output of the ranks' profile.
    pub profile: ProfileRequest,
    /// Whether to print what is started and how it ended.
    pub verbose: bool,
    /// Whether to print how each rank ended.
    pub exit_codes: bool,
    /// The hosts for its ranks.
    pub allocation: Allocation,
    /// Silence after which the other side of a connection between hosts counts as dead.
    pub silence: Duration,
}

impl Plan {
    /// Number of ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.programs.iter().map(|program| program.ranks).sum()
    }

    /// The program of each rank.
    #[must_use]
    pub fn appnums(&self) -> Vec<u32> {
        let programs = self.programs.iter().enumerate();
        programs
            .flat_map(|(appnum, program)| (0..program.ranks).map(move |_| appnum as u32))
            .collect()
    }

    /// Number of processes that may exist beside the ranks, started from within programs.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.universe - self.ranks()
    }

    /// Number of processes that may be started in place of dead ones.
    #[must_use]
    pub fn spares(&self) -> u32 {
        match self.on_death {
            OnDeath::Restart => SPARES.min(weft_fabric_shm::MAX_RANKS - self.ranks()),
            OnDeath::End | OnDeath::Report => 0,
        }
    }
}

/// Default for the silence after which a connection counts as dead: longer than a link is down while a switch restarts,
/// shorter than a user's patience.
const SILENCE: Duration = Duration::from_secs(10);

/// One program with all that its ranks have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file to execute.
    pub executable: PathBuf,
    /// Its name as written, and its arguments.
    pub words: Vec<OsString>,
    /// The folder in which it runs; `None` for the current one.
    pub folder: Option<PathBuf>,
    /// Its environment, without the variables that give a rank its number.
    pub environment: BTreeMap<OsString, OsString>,
    /// Number of ranks that run it.
    pub ranks: u32,
}

/// Reason why a job cannot be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The exit code for it, as shells use it: 127 not found, 126 not executable, 2 otherwise.
    pub code: u8,
    text: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for PlanError {}

fn error(code: u8, text: String) -> PlanError {
    PlanError { code, text }
}

/// Makes the plan of a command line.
///
/// # Errors
/// If a program cannot be found or executed, a folder does not exist, or there are too many ranks.
pub fn make(mut line: CommandLine) -> Result<Plan, PlanError> {
    if let (Allocation::Started { hosts, .. }, [only]) = (&line.allocation, &mut line.programs[..])
        && only.ranks.is_none()
    {
        if line.binding.per_object.is_some() {
            return Err(error(
                2,
                "how many packages, caches or cores other hosts have is not known before ranks run there: give the number \
                 of ranks (-n), or of each host (--hosts A:4,B:4), with --map-by ppr"
                    .into(),
            ));
        }
        // One on each, if nobody says how many.
        only.ranks = Some(hosts.len() as u32);
    }
    if let (Allocation::ThisHost, [only]) = (&line.allocation, &mut line.programs[..])
        && only.ranks.is_none()
    {
        // So many on each object of this host.
        only.ranks = line.binding.room().map_err(|text| error(2, text))?;
    }
    let most = weft_fabric_shm::MAX_RANKS;
    let ranks = |program: &ProgramLine| u64::from(program.ranks.unwrap_or(1));
    let total: u64 = line.programs.iter().map(ranks).sum();
    if total > u64::from(most) {
        return Err(error(
            2,
            format!("{total} ranks were asked for; a job has at most {most}"),
        ));
    }
    if line.on_death != OnDeath::End && line.allocation != Allocation::ThisHost {
        return Err(error(
            2,
            "a death can be survived (--on-death) only by a job on this host; leave out the hosts (in an \
             allocation of a scheduler: --no-allocation), or the option"
                .into(),
        ));
    }
    let ranks = total as u32;
    let universe = match line.universe {
        // A process that is started anew takes room as well, and does not know who came later.
        _ if line.on_death == OnDeath::Restart => ranks,
        Some(wanted) if (ranks..=most).contains(&wanted) => wanted,
        Some(wanted) => {
            return Err(error(
                2,
                format!(
                    "room for {wanted} processes was asked for (--universe); between {ranks}, the ranks, and \
                     {most} are possible"
                ),
            ));
        }
        None => universe(ranks),
    };
    let there = match &line.allocation {
        Allocation::Started { way, .. } => way.prefix.as_deref(),
        _ => None,
    };
    let programs = line.programs.into_iter();
    let programs: Result<Vec<_>, _> = programs.map(|line| program(line, there)).collect();
    let mut programs = programs?;
    if line.on_death == OnDeath::Restart
        && let Some(network) = programs.iter().find_map(network_of)
    {
        // They have met long ago, and nobody answers who is new.
        return Err(error(
            2,
            format!(
                "a rank can be started anew (--on-death=restart) only where ranks reach each other by shared memory, and {} was asked \
                 for (--fabric, WEFT_FABRIC); leave that out, or have deaths reported (--on-death=report)",
                network.display()
            ),
        ));
    }
    // Room is address space; more processes than cores are rarely useful.
    let useful = match line.universe {
        Some(_) => universe,
        None if line.allocation == Allocation::ThisHost => ranks.max(cores_available() as u32),
        None => ranks,
    };
    for program in &mut programs {
        let text = useful.to_string().into();
        program.environment.insert(Names::UNIVERSE.into(), text);
    }
    if total > 1 {
        for program in &programs {
            if let Some(note) = check_library(program, Libraries::WithPmi)? {
                crate::user_output::tell(format_args!("weft: {note}"));
            }
        }
    }
    line.profile.check().map_err(|text| error(2, text))?;
    Ok(Plan {
        programs,
        tags: line.tags,
        output: line.output,
        timeout: line.timeout,
        on_death: line.on_death,
        on_deadlock: line.on_deadlock,
        universe,
        binding: line.binding,
        cyclic: line.cyclic,
        input: line.input,
        profile: line.profile,
        verbose: line.verbose,
        exit_codes: line.exit_codes || line.verbose,
        allocation: line.allocation,
        silence: line.heartbeat.unwrap_or(SILENCE),
    })
}

/// The network by which a program is to reach others of its host, too, if one was named.
fn network_of(program: &Program) -> Option<&OsStr> {
    let named = program.environment.get(OsStr::new("WEFT_FABRIC"))?;
    (!named.is_empty() && named != "auto").then_some(named)
}

/// Which libraries of MPI a program may run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Libraries {
    /// Ours, and what is told its job over PMI.
    WithPmi,
    /// Ours.
    Ours,
}

/// A program of another implementation does not know our job: each rank would be a rank 0 of its own. Unless its library asks by
/// PMI, which is answered; then there is something to say.
fn check_library(program: &Program, libraries: Libraries) -> Result<Option<String>, PlanError> {
    if program.words.is_empty() {
        return Ok(None);
    }
    let ours = our_libraries();
    let Some(foreign) = linkage::foreign_library(&program.executable, ours.as_deref()) else {
        return Ok(None);
    };
    let (name, library, whose) = (program.words[0].display(), &foreign.library, foreign.whose);
    let told = libraries == Libraries::WithPmi && foreign.asks_by_pmi();
    if let (Some(file), true) = (&foreign.before_ours, told) {
        return Ok(Some(format!(
            "the program {name} names the folder of its library of MPI (DT_RPATH) and runs over {}, that of {whose}, as a job by \
             PMI; to run it over Weft, take the folder out (patchelf --remove-rpath)",
            file.display()
        )));
    }
    let text = match &foreign.before_ours {
        None => format!(
            "the program {name} was linked with {library}, the library of {whose}: under this launcher each \
             of its ranks would believe to be alone. Build it with Weft's mpicc (or against the MPI 5 \
             ABI of any implementation), or start it with the mpiexec of {whose}"
        ),
        Some(file) => format!(
            "the program {name} names the folder in which it looks for {library} (DT_RPATH), so that it runs with {} and not with \
             the library of this name that Weft has: under this launcher each of its ranks would believe to be alone. Take the \
             folder out (patchelf --remove-rpath), link it with -Wl,--enable-new-dtags, or start it with the mpiexec of {whose}",
            file.display()
        ),
    };
    Err(error(2, text))
}

/// A program that another one starts: where it runs, and folders to look for it first. `environment` is that of the
/// program that starts it.
///
/// # Errors
/// As for [`make`].
pub(crate) fn later(
    words: Vec<OsString>,
    folder: PathBuf,
    path: Option<OsString>,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Program, PlanError> {
    if !folder.is_dir() {
        return Err(error(
            2,
            format!(
                "there is no folder {} for the program {} to run in (wdir)",
                folder.display(),
                words[0].display()
            ),
        ));
    }
    let search = search_path(path, environment.get(OsStr::new("PATH")));
    let program = Program {
        executable: find(&words[0], Some(&folder), search.as_ref())?,
        words,
        folder: Some(folder),
        environment: environment.clone(),
        ranks: 0,
    };
    check_library(&program, Libraries::Ours)?;
    Ok(program)
}

/// The folders in which a program is looked for: first those that were named for it.
fn search_path(first: Option<OsString>, path: Option<&OsString>) -> Option<OsString> {
    match (first.filter(|first| !first.is_empty()), path) {
        (Some(mut first), Some(path)) => {
            first.push(":");
            first.push(path);
            Some(first)
        }
        (first, path) => first.or_else(|| path.cloned()),
    }
}

/// The program of a line, which other hosts may have alone if Weft is installed `there`.
fn program(line: ProgramLine, there: Option<&Path>) -> Result<Program, PlanError> {
    let environment = environment(&line, there);
    // Ranks that join bring their own.
    if line.words.is_empty() {
        return Ok(Program {
            executable: PathBuf::new(),
            words: Vec::new(),
            folder: None,
            environment: BTreeMap::new(),
            ranks: line.ranks.unwrap_or(1),
        });
    }
    if let Some(folder) = &line.folder
        && !folder.is_dir()
        && there.is_none()
    {
        return Err(error(
            2,
            format!(
                "there is no folder {} for the program {} to run in (-wdir)",
                folder.display(),
                line.words[0].display()
            ),
        ));
    }
    let search = search_path(line.search, environment.get(OsStr::new("PATH")));
    let named = Path::new(&line.words[0]);
    let executable = match there {
        Some(_) if named.is_absolute() => named.to_owned(),
        _ => find(&line.words[0], line.folder.as_deref(), search.as_ref())?,
    };
    Ok(Program {
        executable,
        folder: line.folder,
        environment,
        ranks: line.ranks.unwrap_or(1),
        words: line.words,
    })
}

/// Our environment, cut down and added to as was asked, without what launchers tell their ranks.
fn environment(line: &ProgramLine, there: Option<&Path>) -> BTreeMap<OsString, OsString> {
    let inherited = |name: &OsStr| match &line.inherit {
        Inherit::All => {
            let name = name.to_string_lossy();
            !name.starts_with("WEFT_JOB")
                && !crate::bootstrap::VARIABLES.contains(&&*name)
                && !foreign_variables(&name)
        }
        Inherit::Only(names) => names.iter().any(|known| known == name),
    };
    let ours = env::vars_os().filter(|(name, _)| inherited(name));
    let mut found: BTreeMap<_, _> = ours.collect();
    // A program that was built elsewhere against the same ABI is to find our library.
    let there = there.map(|prefix| prefix.join("lib"));
    for folder in there.into_iter().chain(our_libraries()) {
        let before = found.remove(OsStr::new(SEARCH));
        let path = search_path(
            Some(folder.into()),
            before.filter(|before| !before.is_empty()).as_ref(),
        );
        found.extend(path.map(|path| (SEARCH.into(), path)));
    }
    found.extend(line.variables.iter().cloned());
    found
}

/// Where the dynamic linker looks before the places that stand in a program.
const SEARCH: &str = "LD_LIBRARY_PATH";

/// The folder with the MPI libraries of the installation that this launcher is part of.
fn our_libraries() -> Option<PathBuf> {
    library_folder(&env::current_exe().ok()?)
}

/// … of a launcher.
fn library_folder(launcher: &Path) -> Option<PathBuf> {
    let folder = launcher.parent()?.parent()?.join("lib");
    folder.join("libmpi_abi.so.1").exists().then_some(folder)
}

/// Finds the file of a program: a path is taken from the folder it runs in; a bare name is looked up in
/// the search path, and then in that folder, as other launchers do.
fn find(
    name: &OsStr,
    folder: Option<&Path>,
    search: Option<&OsString>,
) -> Result<PathBuf, PlanError> {
    let base = match env::current_dir() {
        Ok(here) => folder.map_or(here.clone(), |folder| here.join(folder)),
        Err(_) => folder.map_or(PathBuf::from("."), Path::to_path_buf),
    };
    let written = name.display();
    if name.as_bytes().contains(&b'/') {
        let file = base.join(name);
        return match check(&file) {
            Ok(()) => Ok(file),
            Err(problem) => Err(problem.error(&format!("the program {written}"), &file)),
        };
    }
    let mut refused = None;
    let folders = search.map(|search| env::split_paths(search).collect::<Vec<_>>());
    for folder in folders
        .unwrap_or_else(|| vec!["/usr/bin".into(), "/bin".into()])
        .into_iter()
        .chain([PathBuf::new()])
    {
        // An empty entry, and a relative one, mean the folder where it runs.
        let file = base.join(folder).join(name);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(Problem::Missing) => {}
            Err(problem) => refused = refused.or(Some((problem, file))),
        }
    }
    match refused {
        Some((problem, file)) => Err(problem.error(&format!("the program {written}"), &file)),
        None => Err(error(
            127,
            format!(
                "there is no program {written}: neither in the search path (PATH) nor in {}; write \
                 where it is, for example ./{written}",
                base.display()
            ),
        )),
    }
}

/// Why a file cannot be executed.
enum Problem {
    Missing,
    Folder,
    NotExecutable,
    Other(io::Error),
}

impl Problem {
    fn error(self, what: &str, file: &Path) -> PlanError {
        let file = file.display();
        match self {
            Self::Missing => error(
                127,
                format!(
                    "{what} does not exist: there is no file {file}; build it, or write another path"
                ),
            ),
            Self::Folder => error(
                126,
                format!("{what} cannot be executed: {file} is a folder; name a file in it"),
            ),
            Self::NotExecutable => error(
                126,
                format!(
                    "{what} cannot be executed: {file} is not executable; make it so: chmod +x {file}"
                ),
            ),
            Self::Other(reason) => {
                error(126, format!("{what} cannot be executed: {file}: {reason}"))
            }
        }
    }
}

fn check(file: &Path) -> Result<(), Problem> {
    match file.metadata() {
        Err(reason) => match reason.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Err(Problem::Missing),
            _ => Err(Problem::Other(reason)),
        },
        Ok(found) if found.is_dir() => Err(Problem::Folder),
        Ok(_) => rustix::fs::access(file, Access::EXEC_OK).map_err(|_| Problem::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn line(words: &[&str]) -> ProgramLine {
        ProgramLine {
            words: words.iter().map(OsString::from).collect(),
            ..ProgramLine::default()
        }
    }

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        assert_eq!(
            program(line(&["/bin/sh"]), None).expect("there").executable,
            Path::new("/bin/sh")
        );
        let found = program(line(&["sh", "-c", ":"]), None).expect("there");
        assert!(found.executable.is_absolute() && found.executable.ends_with("sh"));
        assert_eq!(found.words[0], "sh");
        let mut inside = line(&["./sh"]);
        inside.folder = Some("/bin".into());
        assert_eq!(
            program(inside, None).expect("there").executable,
            Path::new("/bin/./sh")
        );
        let mut bare = line(&["sh"]);
        bare.folder = Some("/bin".into());
        bare.variables = vec![("PATH".into(), "/nowhere".into())];
        let mut searched = bare.clone();
        (searched.folder, searched.search) = (None, Some("/none:/bin".into()));
        assert_eq!(
            program(searched, None).expect("there").executable,
            Path::new("/bin/sh")
        );
        assert_eq!(
            program(bare, None).expect("there").executable,
            Path::new("/bin/sh")
        );
    }

    #[test]
    fn what_cannot_run_is_told_apart() {
        for (words, folder, code, said) in [
            (&["/no/such/program"][..], None, 127, "/no/such/program"),
            (
                &["no-such-program"],
                None,
                127,
                "for example ./no-such-program",
            ),
            (&["/etc/passwd"], None, 126, "chmod +x"),
            (&["/etc"], None, 126, "is a folder"),
            (&["/etc/passwd/x"], None, 127, "does not exist"),
            (&["sh"], Some("/no/such/folder"), 2, "-wdir"),
        ] {
            let mut line = line(words);
            line.folder = folder.map(PathBuf::from);
            let error = program(line, None).expect_err("cannot run");
            assert_eq!(error.code, code, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn the_library_of_an_installation_is_found_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let launcher = folder.path().join("bin/weft");
        assert_eq!(library_folder(&launcher), None);
        fs::create_dir(folder.path().join("lib")).expect("makes");
        fs::write(folder.path().join("lib/libmpi_abi.so.1"), "").expect("writes");
        assert_eq!(library_folder(&launcher), Some(folder.path().join("lib")));
    }

    #[test]
    fn too_many_ranks_are_refused_and_the_sum_counts() {
        let with = |ranks| ProgramLine {
            ranks: Some(ranks),
            ..line(&["sh"])
        };
        let make = |programs| {
            make(CommandLine {
                programs,
                ..CommandLine::default()
            })
        };
        assert_eq!(make(vec![with(3), line(&["sh"])]).expect("few").ranks(), 4);
        assert!(make(vec![with(u32::MAX), with(u32::MAX)]).is_err());
    }

    #[test]
    fn ranks_are_started_anew_where_they_share_memory() {
        let plan = |fabric: &str, on_death| {
            make(CommandLine {
                programs: vec![ProgramLine {
                    variables: vec![("WEFT_FABRIC".into(), fabric.into())],
                    ..line(&["sh"])
                }],
                on_death,
                ..CommandLine::default()
            })
        };
        for fabric in ["tcp", "ofi:tcp"] {
            let error = plan(fabric, OnDeath::Restart).expect_err("nobody meets it");
            assert!(error.to_string().contains(fabric), "{error}");
            assert!(plan(fabric, OnDeath::Report).is_ok());
        }
        for fabric in ["", "auto"] {
            assert!(plan(fabric, OnDeath::Restart).is_ok());
        }
    }

    #[test]
    fn there_is_room_unless_it_was_said_otherwise() {
        let plan = |ranks, universe, on_death| {
            make(CommandLine {
                programs: vec![ProgramLine {
                    ranks: Some(ranks),
                    ..line(&["sh"])
                }],
                universe,
                on_death,
                ..CommandLine::default()
            })
        };
        let room =
            |ranks, universe, on_death| plan(ranks, universe, on_death).expect("right").room();
        assert_eq!(room(1, None, OnDeath::End), 64);
        assert_eq!(room(32, None, OnDeath::Report), 128);
        assert_eq!(room(4096, None, OnDeath::End), 0);
        assert_eq!(room(4, None, OnDeath::Restart), 0);
        assert_eq!(room(4, Some(6), OnDeath::End), 2);
        assert_eq!(room(4, Some(4), OnDeath::End), 0);
        for wrong in [3, 5000] {
            let error = plan(4, Some(wrong), OnDeath::End).expect_err("no such room");
            assert!(error.to_string().contains("--universe"), "{error}");
        }
        let told = plan(4, Some(6), OnDeath::End).expect("right");
        let told = told.programs[0]
            .environment
            .get(OsStr::new(Names::UNIVERSE));
        assert_eq!(told, Some(&OsString::from("6")));
    }

    /// Only the other hosts have it, and Weft's libraries in another place.
    #[test]
    fn objects_of_hosts_that_are_not_known_yet_do_not_say_how_many_ranks_there_are() {
        let plan = |words: &str| {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            make(
                crate::options::Table::of_this_program()
                    .read(&words)
                    .expect("understood"),
            )
        };
        let error = plan("--hosts a,b --map-by ppr:2:package true").expect_err("how many?");
        assert!(
            error.text.contains("give the number of ranks (-n)"),
            "{error}"
        );
        for number in ["--hosts a:4,b:4", "--hosts a,b -n 8", "--hosts a,b -N 4"] {
            let words = format!("{number} --map-by ppr:2:package true");
            assert_eq!(plan(&words).expect("right").ranks(), 8);
        }
    }

    #[test]
    fn a_program_of_hosts_with_a_prefix_of_their_own_is_not_looked_for_here() {
        let there = Some(Path::new("/nowhere/weft"));
        let found = program(line(&["/nowhere/a", "b"]), there).expect("it is not looked for");
        assert_eq!(found.executable, Path::new("/nowhere/a"));
        let search = found.environment.get(OsStr::new(SEARCH));
        let search = search.expect("set").to_string_lossy().into_owned();
        assert!(
            search
                .split(':')
                .any(|folder| folder == "/nowhere/weft/lib"),
            "{search}"
        );
        assert!(program(line(&["no-such-program"]), there).is_err());
    }

    #[test]
    fn variables_are_set_and_cut() {
        let mut cut = line(&["/bin/sh"]);
        cut.inherit = Inherit::Only(vec!["PATH".into()]);
        cut.variables = vec![("A".into(), "1".into()), ("A".into(), "2".into())];
        let environment = program(cut, None).expect("there").environment;
        assert_eq!(environment.get(OsStr::new("A")), Some(&OsString::from("2")));
        assert!(environment.len() <= 2);
    }
}
