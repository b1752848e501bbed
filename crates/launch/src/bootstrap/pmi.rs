//! PMI: a rank that was started by a foreign launcher which speaks PMI version 1: Hydra, the `mpiexec` of MPICH and of
//! Intel MPI, and its imitations.
//!
//! ```text
//!   mpiexec.hydra ── PMI_FD (a socket), PMI_RANK, PMI_SIZE ──▶ this process
//!      put    card-R: which host, the name of our listener      (rank 0 also: the job's key)
//!      fence
//!      get    card-0 … card-N-1                              ⇒ HostMap; memory from the lowest rank
//! ```
//!
//! The ranks do among themselves what the launcher does not: they find out which of them share a host, pass the memory on
//! ([`others`], [`share`]), and agree on a key, which travels through the launcher: anyone who can read its connections
//! is trusted by it already.
//!
//! The launcher starts no later processes and keeps no ports and names. A launcher of Weft does, which is started when
//! the first rank asks ([`later`](super::later)): the memory of each host has room for them from the start.
//!
//! If the launcher does not report the death of a rank, the ranks of a host detect it themselves: [`watch`].
//!
//! After the start-up questions the connection is a lifeline: the launcher says nothing unless asked, so that any end of
//! the connection ends this process. During the questions it is no lifeline: its end is noticed by asking.

pub mod client;
mod connection;
pub mod line;
pub(super) mod others;
mod share;
pub(super) mod watch;

use std::fs;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use weft_sys::{descriptor, process};

use self::connection::Connection;
use self::others::{Others, Store, ThisRank};
use self::watch::Neighbour;
use super::calls;
use super::deadlock_search::{self, DeadlockSearch};
use super::hosts::HostMap;
use super::later::Later;
use super::{BootstrapError, Launcher, NAME_LIMIT, VALUE_LIMIT};
use weft_mpi::waits::RankWaits;
use weft_secure::Key;

use crate::job_request::{JobAnswer, JobRequest};

/// The variable by which the launcher tells a process its connection.
pub const DESCRIPTOR: &str = "PMI_FD";
const RANK: &str = "PMI_RANK";
const SIZE: &str = "PMI_SIZE";
/// … and what else begins like them: to be removed once they were read.
pub const VARIABLES: [&str; 8] = [
    DESCRIPTOR,
    RANK,
    SIZE,
    "PMI_HOSTNAME",
    "PMI_APPNUM",
    "PMI_SPAWNED",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
];

/// More ranks than this are a mistake of the launcher.
const MOST_RANKS: u32 = 1 << 20;

/// What such a launcher is called in errors.
const SPOKEN: &str = "a launcher that speaks PMI version 1 (hydra, for example)";

/// Why nothing can be asked.
pub(super) const OVER: &str =
    "MPI was finalised, and the launcher was told so: nothing can be asked any more";

/// A rank of such a launcher.
#[derive(Debug)]
pub struct Pmi {
    rank: u32,
    appnum: u32,
    hosts: HostMap,
    key: Key,
    segment: Mutex<Option<OwnedFd>>,
    connection: Arc<Mutex<Connection>>,
    /// The other ranks of this host that this one tells its end, and some of which it watches.
    neighbours: Arc<Vec<Neighbour>>,
    /// The launcher does not see deaths itself, so that hosts miss each other as well.
    watches: bool,
    /// The watch has begun: each beginning of MPI is told, that of the world and those of sessions, and a goodbye is heard once.
    watch_begun: Once,
    later: Later,
    deadlocks: DeadlockSearch,
}

/// A number that the launcher has set.
fn number(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
    most: u32,
) -> Result<u32, BootstrapError> {
    let found = variable(name);
    let number = found.as_deref().and_then(|text| text.parse().ok());
    number.filter(|number| *number < most).ok_or_else(|| {
        let found = found.map_or("is missing".into(), |text| format!("is '{text}'"));
        BootstrapError::new(format!(
            "{DESCRIPTOR} says that a launcher which speaks PMI started this process, but {name} \
             {found}, where a number below {most} was expected; remove {DESCRIPTOR} from the \
             environment to run the program alone"
        ))
    })
}

/// Whether `srun` has started this rank itself. What others start within a task of it has the number of that task.
fn is_task_of_srun(variable: &dyn Fn(&str) -> Option<String>, rank: u32) -> bool {
    let task = variable("SLURM_PROCID").and_then(|task| task.parse().ok());
    task == Some(rank) && variable("HYDI_CONTROL_FD").is_none()
}

/// Whether the descriptor that the variables name is a socket.
pub(super) fn is_connected(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let number = variable(DESCRIPTOR).and_then(|text| text.parse::<RawFd>().ok());
    let path = number.map(|number| format!("/proc/self/fd/{number}"));
    let target = path.and_then(|path| fs::read_link(path).ok());
    target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
}

impl Pmi {
    /// Joins, if the variables are there.
    pub fn join(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, BootstrapError> {
        if variable(DESCRIPTOR).is_none() {
            return Ok(None);
        }
        let descriptor = number(variable, DESCRIPTOR, i32::MAX as u32)? as RawFd;
        let size = number(variable, SIZE, MOST_RANKS)?;
        let rank = number(variable, RANK, size.max(1))?;
        let gone = |error: std::io::Error| {
            BootstrapError::new(format!(
                "the environment says that this process is rank {rank} of {size}, started by a launcher \
                 that speaks PMI, but the way to it is gone: {error}. A program between the launcher \
                 and this one has closed the descriptors (in Python: subprocess with close_fds=False \
                 keeps them), or the variables were kept from an earlier job; remove {DESCRIPTOR} and \
                 {RANK} to run the program alone"
            ))
        };
        let socket = descriptor::inherited(descriptor).map_err(gone)?;
        descriptor::set_nonblocking(&socket, false).map_err(gone)?;
        let (mut connection, appnum) = Connection::begin(UnixStream::from(socket))?;
        let shares = variable("WEFT_FABRIC").is_none_or(|fabric| fabric != "tcp");
        let Others {
            hosts,
            key,
            memory,
            mut neighbours,
            later,
            deadlocks,
        } = others::find_others(
            &mut connection,
            ThisRank {
                rank,
                size,
                universe: size,
                shares,
                on_deadlock: deadlock_search::wish(variable)?,
                launcher: SPOKEN,
            },
        )?;
        let watches = is_task_of_srun(variable, rank);
        if !watches {
            neighbours.clear();
        }
        Ok(Some(Self {
            rank,
            appnum,
            hosts,
            key,
            segment: Mutex::new(Some(memory)),
            connection: Arc::new(Mutex::new(connection)),
            neighbours: Arc::new(neighbours),
            watches,
            watch_begun: Once::new(),
            later,
            deadlocks,
        }))
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Launcher for Pmi {
    fn variables(&self) -> &'static [&'static str] {
        &VARIABLES
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn appnum(&self) -> u32 {
        self.appnum
    }

    fn hosts(&self) -> &HostMap {
        &self.hosts
    }

    fn is_singleton(&self) -> bool {
        false
    }

    fn segment(&self) -> Option<OwnedFd> {
        open(&self.segment).take()
    }

    fn key(&self) -> Option<Key> {
        Some(self.key.clone())
    }

    fn put(&self, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        debug_assert!(name.len() <= NAME_LIMIT && value.len() <= VALUE_LIMIT);
        self.later.note_put(name);
        open(&self.connection).talk(|connection| connection.put(self.rank, name, value))
    }

    fn fence(&self) -> Result<(), BootstrapError> {
        open(&self.connection).talk(Connection::fence)
    }

    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        open(&self.connection).talk(|connection| connection.get(rank, name))
    }

    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        self.later.ask(request)
    }

    fn connected(&self, connected: bool) {
        self.later.tell_connected(connected);
    }

    /// Hydra asks no more than that a process which has begun with PMI also finishes with it.
    fn initialised(&self) {
        let connection = Arc::clone(&self.connection);
        let end_job = move |lost: &str| open(&connection).report_loss(lost);
        let connection = Arc::clone(&self.connection);
        let get = move |rank, name: &str| {
            let value = open(&connection).talk(|connection| connection.get(rank, name));
            value.ok().flatten()
        };
        self.later
            .begin(get.clone(), self.watches.then(|| end_job.clone()));
        let mut connection = open(&self.connection);
        if connection.tie().is_err() {
            // The launcher has ended already, and so does what it started.
            let _ = process::signal(process::id(), process::SIGKILL);
        }
        drop(connection);
        self.watch_begun
            .call_once(|| watch::begin(&self.neighbours, self.local_rank(), end_job));
        let connection = Arc::clone(&self.connection);
        let neighbours = Arc::clone(&self.neighbours);
        let place = move |rank| get(rank, calls::NAME);
        self.deadlocks.begin(place, move |code, _| {
            // The others hear of it from the launcher, not as of a loss.
            watch::part(&neighbours);
            let _ = open(&connection).talk(|connection| connection.abort(code.into()));
        });
    }

    fn inquires(&self) -> bool {
        self.deadlocks.is_on()
    }

    fn waits(&self, waits: &RankWaits) {
        // The state of other ranks of its launcher is not known here.
        if self.later.adopted().is_none() {
            self.deadlocks.answer(waits);
        }
    }

    fn ends_early(&self) {
        self.deadlocks.note_early_end();
    }

    fn finalised(&self) {
        watch::part(&self.neighbours);
        // Nobody can call this process when others look for one that judges in its place.
        self.later.end();
        self.deadlocks.end();
        // A failure here means that the launcher is gone, and us with it.
        let _ = open(&self.connection).talk(Connection::finalise);
    }

    /// Nothing in this protocol says so.
    fn ends_by_loss(&self) {
        self.deadlocks.ends_by_loss();
        if let Some(adopted) = self.later.adopted() {
            adopted.tell_end_by_loss();
        }
    }

    fn abort(&self, code: i32, text: &str) {
        match self.later.adopted() {
            Some(adopted) => adopted.tell_abort(code, text),
            None => {
                let said = if text.is_empty() { "" } else { ": " };
                let rank = self.rank;
                crate::user_output::tell(format_args!(
                    "weft: rank {rank} called MPI_Abort with code {code}{said}{text}"
                ));
            }
        }
        if self.watches {
            watch::wait_for_output_readers();
        }
        // The others hear of it from us and from the launcher, not as of a loss.
        watch::part(&self.neighbours);
        let _ = open(&self.connection).talk(|connection| connection.abort(code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_contradict_each_other_are_named() {
        let join = |set: &[(&str, &str)]| {
            let found = Pmi::join(&|name| {
                let variable = set.iter().find(|(known, _)| *known == name)?;
                Some(variable.1.to_owned())
            });
            found.map(|found| found.is_some())
        };
        assert_eq!(join(&[(RANK, "0"), (SIZE, "2")]), Ok(false));
        for (set, said) in [
            (&[(DESCRIPTOR, "x")][..], "PMI_FD is 'x'"),
            (&[(DESCRIPTOR, "9")], "PMI_SIZE is missing"),
            (
                &[(DESCRIPTOR, "9"), (SIZE, "2"), (RANK, "2")],
                "PMI_RANK is '2'",
            ),
            (
                &[(DESCRIPTOR, "123456"), (SIZE, "2"), (RANK, "1")],
                "rank 1 of 2",
            ),
        ] {
            let error = join(set).expect_err(said).to_string();
            assert!(error.contains(said) && error.contains("remove"), "{error}");
        }
    }
}
