//! Plan of a job before its start: programs found, environments made, ranks numbered. If an error is found here, nothing
//! has been started.
//!
//! | file | what |
//! |---|---|
//! | `capacity` | how many processes the job may have beside its ranks, and in place of dead ones |
//! | `program` | one program: its file, arguments, folder and environment |
//! | `environment` | the variables of a program |
//! | `search` | the search for the file of a program |
//! | `libraries` | the libraries of MPI that a program may run with |

mod capacity;
mod environment;
mod libraries;
mod program;
mod search;

use std::fmt;
use std::time::Duration;

use weft_fabric_shm::MAX_RANKS;
use weft_sys::cores::cores_available;

use crate::binding::BindingRequest;
use crate::bootstrap::Names;
use crate::mapping::{Allocation, distribute};
use crate::options::{
    CommandLine, Input, OnDeadlock, OnDeath, OutputRequest, ProgramLine, RankPlace,
};
use crate::profile::ProfileRequest;
use libraries::Libraries;

pub(crate) use capacity::{default_universe, divide_room, room_of_host};
pub use program::Program;

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

    /// Where each rank runs, on hosts of which this one is called `here`; where hosts join later, that is not known, and all are given as
    /// here.
    #[must_use]
    pub fn rank_places<'a>(&'a self, here: &'a str) -> Vec<RankPlace<'a>> {
        let ranks = self.ranks();
        match &self.allocation {
            Allocation::Started { hosts, .. } => {
                let mapped = distribute(hosts, ranks, self.cyclic).into_iter();
                let place = |number: u32| RankPlace {
                    host: &hosts[number as usize].name,
                    number,
                };
                mapped.map(place).collect()
            }
            Allocation::ThisHost | Allocation::Joined { .. } | Allocation::Adopted => {
                let place = RankPlace {
                    host: here,
                    number: 0,
                };
                vec![place; ranks as usize]
            }
        }
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
        capacity::spares(self.ranks(), self.on_death)
    }
}

/// Default for the silence after which a connection counts as dead: longer than a link is down while a switch restarts,
/// shorter than a user's patience.
const SILENCE: Duration = Duration::from_secs(10);

/// Reason why a job cannot be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError {
    /// The exit code for it, as shells use it: 127 not found, 126 not executable, 2 otherwise.
    pub code: u8,
    text: String,
}

impl PlanError {
    /// What was asked for is not possible.
    fn request(text: String) -> Self {
        Self { code: 2, text }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for PlanError {}

/// Makes the plan of a command line.
///
/// # Errors
/// If a program cannot be found or executed, a folder does not exist, or there are too many ranks.
pub fn make(mut line: CommandLine) -> Result<Plan, PlanError> {
    count_ranks_of_places(&mut line)?;
    let ranks = total(&line.programs)?;
    check_restarts_on_hosts(&line)?;
    check_names_of_output(&line)?;
    let universe = capacity::universe(ranks, line.universe, line.on_death)?;
    let prefix = match &line.allocation {
        Allocation::Started { way, .. } => way.prefix.as_deref(),
        _ => None,
    };
    let programs = line.programs.into_iter();
    let programs: Result<Vec<_>, _> = programs
        .map(|line| Program::of_line(line, prefix))
        .collect();
    let mut programs = programs?;
    check_restarts(line.on_death, &programs)?;
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
    if ranks > 1 {
        for program in &programs {
            if let Some(note) = Libraries::WithPmi.check(program)? {
                crate::user_output::tell(format_args!("weft: {note}"));
            }
        }
    }
    line.profile.check().map_err(PlanError::request)?;
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

/// Gives a single program, if nobody says how many ranks it has, as many as there are places for them: one on each host, or so
/// many on each object of this one.
fn count_ranks_of_places(line: &mut CommandLine) -> Result<(), PlanError> {
    let [
        ProgramLine {
            ranks: ranks @ None,
            ..
        },
    ] = &mut line.programs[..]
    else {
        return Ok(());
    };
    match &line.allocation {
        Allocation::Started { .. } if line.binding.per_object.is_some() => {
            return Err(PlanError::request(
                "how many packages, caches or cores other hosts have is not known before ranks run there: give the number \
                 of ranks (-n), or of each host (--hosts A:4,B:4), with --map-by ppr"
                    .into(),
            ));
        }
        Allocation::Started { hosts, .. } => *ranks = Some(hosts.len() as u32),
        Allocation::ThisHost => *ranks = line.binding.room().map_err(PlanError::request)?,
        Allocation::Joined { .. } | Allocation::Adopted => {}
    }
    Ok(())
}

/// Number of ranks of all programs.
fn total(programs: &[ProgramLine]) -> Result<u32, PlanError> {
    let ranks = |program: &ProgramLine| u64::from(program.ranks.unwrap_or(1));
    let total: u64 = programs.iter().map(ranks).sum();
    match u32::try_from(total) {
        Ok(total) if total <= MAX_RANKS => Ok(total),
        _ => Err(PlanError::request(format!(
            "{total} ranks were asked for; a job has at most {MAX_RANKS}"
        ))),
    }
}

/// Refuses ranks on several hosts that are to be started anew: see [`check_restarts`].
fn check_restarts_on_hosts(line: &CommandLine) -> Result<(), PlanError> {
    if line.on_death != OnDeath::Restart || line.allocation == Allocation::ThisHost {
        return Ok(());
    }
    Err(PlanError::request(
        "a rank can be started anew (--on-death=restart) only by a job on this host; leave out the hosts (in an \
         allocation of a scheduler: --no-allocation), or have deaths reported (--on-death=report)"
            .into(),
    ))
}

/// Refuses files of output that are named by hosts which join later.
fn check_names_of_output(line: &CommandLine) -> Result<(), PlanError> {
    if !line.output.names_hosts() || !matches!(line.allocation, Allocation::Joined { .. }) {
        return Ok(());
    }
    Err(PlanError::request(
        "the files of output were to be named by hosts (%h, %p), which are not known before they join (--listen); name them by \
         ranks (%r)"
            .into(),
    ))
}

/// Refuses ranks that are to be started anew and reach each other by a network: the others have met long ago, and nobody answers
/// a new one.
fn check_restarts(on_death: OnDeath, programs: &[Program]) -> Result<(), PlanError> {
    match programs.iter().find_map(Program::network) {
        Some(network) if on_death == OnDeath::Restart => Err(PlanError::request(format!(
            "a rank can be started anew (--on-death=restart) only where ranks reach each other by shared memory, and {} was asked \
             for (--fabric, WEFT_FABRIC); leave that out, or have deaths reported (--on-death=report)",
            network.display()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{OsStr, OsString};

    fn line(words: &[&str]) -> ProgramLine {
        ProgramLine {
            words: words.iter().map(OsString::from).collect(),
            ..ProgramLine::default()
        }
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
    fn deaths_are_reported_on_several_hosts_and_nobody_is_started_anew_there() {
        let plan = |on_death: &str| {
            let words = ["--hosts", "a,b", on_death, "true"].map(OsString::from);
            let line = crate::options::Table::of_this_program().read(&words);
            make(line.expect("understood"))
        };
        assert!(plan("--on-death=report").is_ok());
        let error = plan("--on-death=restart").expect_err("nobody meets it");
        assert!(error.text.contains("only by a job on this host"), "{error}");
    }

    #[test]
    fn programs_are_told_the_room_that_was_asked_for() {
        let plan = make(CommandLine {
            programs: vec![ProgramLine {
                ranks: Some(4),
                ..line(&["sh"])
            }],
            universe: Some(6),
            ..CommandLine::default()
        });
        let plan = plan.expect("right");
        assert_eq!(plan.room(), 2);
        let told = plan.programs[0]
            .environment
            .get(OsStr::new(Names::UNIVERSE));
        assert_eq!(told, Some(&OsString::from("6")));
    }

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
}
