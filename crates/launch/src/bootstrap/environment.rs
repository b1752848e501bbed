//! Environment variables that the launcher sets and a rank reads.

use std::os::fd::RawFd;
use std::str::FromStr;

use super::{BootstrapError, foreign, pmi};

/// The names, for both sides.
pub(crate) struct Names;

impl Names {
    pub const RANK: &str = "WEFT_RANK";
    pub const SIZE: &str = "WEFT_SIZE";
    pub const LOCAL_RANK: &str = "WEFT_LOCAL_RANK";
    pub const LOCAL_SIZE: &str = "WEFT_LOCAL_SIZE";
    pub const APPNUM: &str = "WEFT_APPNUM";
    /// For a process that was started from within a program: its number in the job, and in the memory of its host, and
    /// 1 if the job has several hosts.
    pub const PLACE: &str = "WEFT_PLACE";
    /// Number of processes expected to be useful.
    pub const UNIVERSE: &str = "WEFT_UNIVERSE";
    /// Near which cores a rank begins that may run anywhere.
    pub const CORES: &str = "WEFT_CORES";
    pub const JOB_DESCRIPTOR: &str = "WEFT_JOB_FD";
    pub const CONTROL_DESCRIPTOR: &str = "WEFT_CONTROL_FD";
    pub const LIFELINE_DESCRIPTOR: &str = "WEFT_LIFELINE_FD";
    /// The initial error handler (MPI 5.0, section 9.3), if it is not the usual one: one of [`ERROR_HANDLERS`].
    pub const ERROR_HANDLER: &str = "WEFT_ERROR_HANDLER";
    /// The memory of this rank's profile, if one is made.
    pub const PROFILE_DESCRIPTOR: &str = "WEFT_JOB_PROFILE_FD";
    /// Says only that there is a job of ours above; stays when the others are removed.
    pub const JOB: &str = "WEFT_JOB";
}

/// Names of the error handlers with which a process may begin (MPI 5.0, section 11.8.4).
pub const ERROR_HANDLERS: [&str; 3] = [
    "mpi_errors_abort",
    "mpi_errors_are_fatal",
    "mpi_errors_return",
];

/// The error handler with which this process begins, as its launcher has named it. To be asked before
/// [`Launcher::variables`](super::Launcher::variables) are removed.
#[must_use]
pub fn initial_error_handler() -> Option<String> {
    std::env::var(Names::ERROR_HANDLER).ok()
}

/// The variables that make a process a rank of ours.
pub(crate) const VARIABLES: &[&str] = &[
    Names::RANK,
    Names::SIZE,
    Names::LOCAL_RANK,
    Names::LOCAL_SIZE,
    Names::APPNUM,
    Names::JOB_DESCRIPTOR,
    Names::CONTROL_DESCRIPTOR,
    Names::LIFELINE_DESCRIPTOR,
    Names::PLACE,
    Names::UNIVERSE,
    Names::CORES,
    Names::ERROR_HANDLER,
    Names::PROFILE_DESCRIPTOR,
    pmi::DESCRIPTOR,
];

/// Whether a variable says to a program that a foreign launcher started it: not to be inherited by
/// ranks of ours.
pub(crate) fn foreign_variables(name: &str) -> bool {
    foreign::PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || pmi::VARIABLES.contains(&name)
}

/// The variables of a process that was started later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaceEnvironment {
    /// Its number in the job.
    pub number: u32,
    /// Its number in the memory of its host.
    pub slot: u32,
    /// The job has several hosts.
    pub several_hosts: bool,
}

/// The values of the variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankEnvironment {
    pub rank: u32,
    pub size: u32,
    pub local_rank: u32,
    pub local_size: u32,
    pub appnum: u32,
    pub job: RawFd,
    pub control: RawFd,
    pub lifeline: RawFd,
    /// For a process that was started later.
    pub place: Option<PlaceEnvironment>,
    /// Number of processes expected to be useful.
    pub universe: Option<u32>,
}

impl RankEnvironment {
    /// `None` if the variables are not there at all.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, BootstrapError> {
        if variable(Names::RANK).is_none() && variable(Names::JOB_DESCRIPTOR).is_none() {
            return Ok(None);
        }
        fn number<T: FromStr>(
            variable: &dyn Fn(&str) -> Option<String>,
            name: &str,
        ) -> Result<T, BootstrapError> {
            let found = match variable(name) {
                None => "is missing".into(),
                Some(text) => match text.parse() {
                    Ok(number) => return Ok(number),
                    Err(_) => format!("is '{text}', which is no such number"),
                },
            };
            Err(BootstrapError::new(format!(
                "the environment says that this process is a rank of a Weft job, but {name} {found}; \
                 start the program with mpiexec, or remove all variables named WEFT_… to run it alone"
            )))
        }
        let environment = Self {
            rank: number(variable, Names::RANK)?,
            size: number(variable, Names::SIZE)?,
            local_rank: number(variable, Names::LOCAL_RANK)?,
            local_size: number(variable, Names::LOCAL_SIZE)?,
            appnum: number(variable, Names::APPNUM)?,
            job: number(variable, Names::JOB_DESCRIPTOR)?,
            control: number(variable, Names::CONTROL_DESCRIPTOR)?,
            lifeline: number(variable, Names::LIFELINE_DESCRIPTOR)?,
            universe: match variable(Names::UNIVERSE) {
                None => None,
                Some(_) => Some(number(variable, Names::UNIVERSE)?),
            },
            place: match variable(Names::PLACE) {
                None => None,
                Some(text) => {
                    let part = |index: usize| text.split(' ').nth(index).map(str::to_owned);
                    let part = |index| number::<u32>(&|_| part(index), Names::PLACE);
                    Some(PlaceEnvironment {
                        number: part(0)?,
                        slot: part(1)?,
                        several_hosts: part(2)? != 0,
                    })
                }
            },
        };
        if environment.rank >= environment.size {
            return Err(BootstrapError::new(format!(
                "the environment says that this process is rank {} of {} ranks, counted from 0; \
                 start the program with mpiexec, or remove all variables named WEFT_… to run it alone",
                environment.rank, environment.size
            )));
        }
        Ok(Some(environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(changes: &[(&str, Option<&str>)]) -> Result<Option<RankEnvironment>, BootstrapError> {
        RankEnvironment::read(&|name| {
            if let Some((_, value)) = changes.iter().find(|(changed, _)| *changed == name) {
                return value.map(str::to_owned);
            }
            let index = VARIABLES[..8].iter().position(|known| *known == name)?;
            Some(["3", "8", "1", "4", "2", "10", "11", "12"][index].to_owned())
        })
    }

    #[test]
    fn the_variables_are_read() {
        let environment = read(&[]).expect("complete").expect("there");
        assert_eq!(
            (environment.rank, environment.size, environment.appnum),
            (3, 8, 2)
        );
        assert_eq!(
            (environment.job, environment.control, environment.lifeline),
            (10, 11, 12)
        );
        assert_eq!(RankEnvironment::read(&|_| None), Ok(None));
    }

    #[test]
    fn contradictions_are_errors_that_name_the_variable() {
        for (name, value) in [
            (Names::SIZE, None),
            (Names::SIZE, Some("x")),
            (Names::RANK, Some("-1")),
            (Names::CONTROL_DESCRIPTOR, Some("")),
        ] {
            let error = read(&[(name, value)]).expect_err("wrong").to_string();
            assert!(error.contains(name) && error.contains("mpiexec"), "{error}");
        }
        let error = read(&[(Names::RANK, Some("8"))]).expect_err("too large");
        assert!(error.to_string().contains("rank 8 of 8"), "{error}");
    }
}
