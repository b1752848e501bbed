//! PMIx: a rank that was started by a launcher which speaks PMIx: `srun --mpi=pmix`, `prterun` and `prun` of PRRTE, the
//! `mpiexec` of Open MPI.
//!
//! ```text
//!   server ── PMIX_RANK, PMIX_NAMESPACE, PMIX_SERVER_URI… ──▶ this process
//!      libpmix.so.2, opened: the server's own, or the system's
//!      put, commit, fence, get                              as under PMI version 1
//! ```
//!
//! PMIx is a library and not a protocol: versions of it agree on functions, and on the connection to a server only as far
//! as the library takes care of that. So it is opened at run time ([`weft_sys::pmix`]), and the library that the server
//! itself uses is preferred ([`candidates`]).
//!
//! Little is asked of the server: rank, size, store, fence, abort. Everything else differs between versions, and the
//! ranks find it out among themselves, as under PMI ([`find_others`]): which share a host, the memory, a key. The same
//! holds for processes that are started later ([`later`](super::later)): `PMIx_Spawn` would make them a job of their own,
//! in other memory.

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use weft_mpi::waits::RankWaits;
use weft_secure::Key;
use weft_sys::pmix::{Client, LIBRARY, Library};

use super::calls;
use super::deadlock_search::{self, DeadlockSearch};
use super::hosts::HostMap;
use super::later::Later;
use super::pmi;
use super::pmi::others::{Others, Store, ThisRank, find_others};
use super::pmi::watch::{self, Neighbour};
use super::{BootstrapError, Launcher};
use crate::job_request::{JobAnswer, JobRequest};

/// A variable by which a server tells a process its rank.
pub const RANK: &str = "PMIX_RANK";
const NAMESPACE: &str = "PMIX_NAMESPACE";
/// A library to be used instead of what is found.
const CHOSEN: &str = "WEFT_PMIX";
/// … and what else there is of them: to be removed once they were read.
const VARIABLES: [&str; 10] = [
    RANK,
    NAMESPACE,
    "PMIX_SERVER_URI",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_TMPDIR",
    "PMIX_VERSION",
];

/// What such a launcher is called in errors.
const SPOKEN: &str = "a launcher that speaks PMIx (srun, prterun or the mpiexec of Open MPI)";

/// How long PRRTE may take to end a process: half a second, and more on a busy machine.
const ENDED_BY_PRRTE: Duration = Duration::from_secs(5);

/// How Slurm calls its jobs here. It does not end them when a rank dies.
const OF_SLURM: &str = "slurm.";

/// More ranks than this are a mistake of the server.
const MOST_RANKS: u32 = 1 << 20;

/// A rank of such a launcher.
#[derive(Debug)]
pub struct Pmix {
    client: Arc<Client>,
    appnum: u32,
    universe: u32,
    hosts: HostMap,
    key: Key,
    segment: Mutex<Option<OwnedFd>>,
    /// The other ranks of this host that this one tells its end, and some of which it watches.
    neighbours: Arc<Vec<Neighbour>>,
    /// The launcher does not see deaths itself, so that hosts miss each other as well.
    watches: bool,
    /// The watch has begun: each beginning of MPI is told, that of the world and those of sessions, and a goodbye is heard once.
    watch_begun: Once,
    later: Later,
    deadlocks: DeadlockSearch,
    /// MPI was finalised, and the server told so: nothing can be asked any more.
    over: Arc<Mutex<bool>>,
}

/// The server's store.
struct PmixStore<'a>(&'a Client);

impl Store for PmixStore<'_> {
    fn put(&mut self, rank: u32, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        debug_assert_eq!(rank, self.0.rank());
        self.0.put(&key_of(name), value).map_err(failed)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.0.fence().map_err(failed)
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.0.get(rank, &key_of(name)).map_err(failed)
    }

    // The library tells, and this process is ended.
    fn launcher(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(name: &str) -> String {
    format!("weft.{name}")
}

fn failed(error: std::io::Error) -> BootstrapError {
    BootstrapError::new(format!(
        "the launcher that started this process, which speaks PMIx, does not do what is asked of it: {error}; look at its \
         own output, or start the program with Weft's mpiexec"
    ))
}

/// The library that a process has loaded.
fn library_of(process: u32) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    in_maps(&maps)
}

/// The library in a list of what a process has mapped.
fn in_maps(maps: &str) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let path = &line[line.find('/')?..];
        let name = path.rsplit('/').next()?;
        name.starts_with("libpmix.so.2").then(|| path.into())
    })
}

/// The process that has started another one.
fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name, in brackets, may hold anything.
    let after = stat.rsplit_once(')')?.1;
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

/// Where the library may be, best first: the one that was chosen, or that of the nearest process above this one that has any,
/// which is the server or was started by it; then what the dynamic linker finds.
fn candidates(variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    if let Some(chosen) = variable(CHOSEN) {
        return vec![chosen.into()];
    }
    let above = std::iter::successors(parent_of(std::process::id()), |process| parent_of(*process));
    let mut all: Vec<PathBuf> = above.filter_map(library_of).take(1).collect();
    all.push(LIBRARY.into());
    all
}

/// The first of them that can be opened; else why none can.
fn open_library(candidates: &[PathBuf]) -> Result<Library, String> {
    let mut reasons = Vec::new();
    for candidate in candidates {
        match Library::open(Path::new(candidate)) {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; "))
}

impl Pmix {
    /// Joins, if the variables are set. The inner error says why that is impossible, if nothing has been begun.
    pub fn join(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Result<Self, String>>, BootstrapError> {
        if variable(RANK).is_none() || variable(NAMESPACE).is_none() {
            return Ok(None);
        }
        let library = match open_library(&candidates(variable)) {
            Ok(library) => library,
            Err(reasons) => {
                return Ok(Some(Err(format!(
                    "its library {LIBRARY} cannot be opened ({reasons}): install it (Debian: package libpmix2; Red Hat: pmix), or \
                     name it by {CHOSEN}=/path/of/{LIBRARY}"
                ))));
            }
        };
        let version = library.version();
        let client = match library.begin() {
            Ok(client) => client,
            Err(error) => {
                return Ok(Some(Err(format!(
                    "its library ({version}) does not reach it: {error}. If the library's version is another one than \
                     the launcher's, name the launcher's by {CHOSEN}=/path/of/{LIBRARY}"
                ))));
            }
        };
        let rank = client.rank();
        let size = client.number_of_job("pmix.job.size").map_err(failed)?;
        let size = size.filter(|size| (1..=MOST_RANKS).contains(size) && rank < *size);
        let size = size.ok_or_else(|| {
            failed(std::io::Error::other(format!(
                "{version} does not say how many processes the job {} of rank {rank} has",
                client.namespace()
            )))
        })?;
        let number = |found: std::io::Result<Option<u32>>| found.ok().flatten();
        let appnum = number(client.number_of_this("pmix.appnum")).unwrap_or(0);
        let universe = number(client.number_of_job("pmix.univ.size")).unwrap_or(size);
        let shares = variable("WEFT_FABRIC").is_none_or(|fabric| fabric != "tcp");
        let Others {
            hosts,
            key,
            memory,
            mut neighbours,
            later,
            deadlocks,
        } = find_others(
            &mut PmixStore(&client),
            ThisRank {
                rank,
                size,
                universe: universe.max(size),
                shares,
                on_deadlock: deadlock_search::wish(variable)?,
                launcher: SPOKEN,
            },
        )?;
        let watches = client.namespace().starts_with(OF_SLURM);
        if !watches {
            neighbours.clear();
        }
        Ok(Some(Ok(Self {
            client: Arc::new(client),
            appnum,
            universe: universe.max(size),
            hosts,
            key,
            segment: Mutex::new(Some(memory)),
            neighbours: Arc::new(neighbours),
            watches,
            watch_begun: Once::new(),
            later,
            deadlocks,
            over: Arc::default(),
        })))
    }

    /// Asks the server something, unless it was told that there is nothing more to ask.
    fn talk<T>(
        &self,
        what: impl FnOnce(PmixStore<'_>) -> Result<T, BootstrapError>,
    ) -> Result<T, BootstrapError> {
        if *open(&self.over) {
            return Err(BootstrapError::new(pmi::OVER));
        }
        what(PmixStore(&self.client))
    }
}

impl Launcher for Pmix {
    fn variables(&self) -> &'static [&'static str] {
        &VARIABLES
    }

    fn rank(&self) -> u32 {
        self.client.rank()
    }

    fn appnum(&self) -> u32 {
        self.appnum
    }

    fn hosts(&self) -> &HostMap {
        &self.hosts
    }

    fn universe(&self) -> u32 {
        self.universe
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
        self.later.note_put(name);
        self.talk(|mut store| store.put(self.rank(), name, value))
    }

    fn fence(&self) -> Result<(), BootstrapError> {
        self.talk(|mut store| store.fence())
    }

    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.talk(|mut store| store.get(rank, name))
    }

    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        self.later.ask(request)
    }

    fn connected(&self, connected: bool) {
        self.later.tell_connected(connected);
    }

    fn initialised(&self) {
        let (client, over) = (Arc::clone(&self.client), Arc::clone(&self.over));
        let end_job = move |lost: &str| {
            // A rank that has finalised takes no part in it any more.
            if !*open(&over) {
                crate::user_output::tell(format_args!("weft: {lost}"));
                watch::wait_for_output_readers();
                let _ = client.abort(1, lost);
            }
        };
        let (client, over) = (Arc::clone(&self.client), Arc::clone(&self.over));
        let get = move |rank, name: &str| {
            // Nothing can be asked any more of a server that was told of the end; nor is it told while something is asked.
            let over = open(&over);
            let value = (!*over).then(|| PmixStore(&client).get(rank, name).ok());
            value.flatten().flatten()
        };
        self.later
            .begin(get.clone(), self.watches.then(|| end_job.clone()));
        self.watch_begun
            .call_once(|| watch::begin(&self.neighbours, self.local_rank(), end_job));
        let (client, over) = (Arc::clone(&self.client), Arc::clone(&self.over));
        let neighbours = Arc::clone(&self.neighbours);
        let place = move |rank| get(rank, calls::NAME);
        self.deadlocks.begin(place, move |code, why| {
            // The others hear of it from the launcher, not as of a loss.
            watch::part(&neighbours);
            if !*open(&over) {
                let _ = client.abort(code.into(), why);
            }
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
        if !std::mem::replace(&mut *open(&self.over), true) {
            // A failure here means that the server is gone, and us with it.
            let _ = self.client.end();
        }
    }

    /// Nothing in this interface says so.
    fn ends_by_loss(&self) {
        self.deadlocks.ends_by_loss();
        if let Some(adopted) = self.later.adopted() {
            adopted.tell_end_by_loss();
        }
    }

    fn abort(&self, code: i32, text: &str) {
        let said = if text.is_empty() { "" } else { ": " };
        let line = format!(
            "rank {} called MPI_Abort with code {code}{said}{text}",
            self.rank()
        );
        match self.later.adopted() {
            Some(adopted) => adopted.tell_abort(code, text),
            None => crate::user_output::tell(format_args!("weft: {line}")),
        }
        if self.watches {
            watch::wait_for_output_readers();
        }
        // The others hear of it from us and from the launcher, not as of a loss.
        watch::part(&self.neighbours);
        if !*open(&self.over) {
            let _ = self.client.abort(code, &line);
        }
    }

    /// PRRTE ends all processes of the job. If one ends by itself meanwhile, the daemon of its host may forget to say that its processes have
    /// ended, and the launcher waits for ever.
    fn await_end(&self) {
        if !self.watches && self.later.adopted().is_none() {
            std::thread::sleep(ENDED_BY_PRRTE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_a_process_is_found_among_what_it_has_mapped() {
        let maps = "55d0-55d1 r--p 00000000 08:01 1    /opt/libpmix.so.2.d/bin/prterun\n\
                    7f00-7f01 rw-p 00000000 00:00 0 \n\
                    7f01-7f02 r-xp 00000000 08:01 2    /opt/open mpi/lib/libpmix.so.2.6.2\n";
        let found = in_maps(maps);
        assert_eq!(found, Some("/opt/open mpi/lib/libpmix.so.2.6.2".into()));
        assert_eq!(in_maps("7f00-7f01 rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn processes_have_parents() {
        let us = std::process::id();
        assert_eq!(parent_of(us), Some(weft_sys::process::parent()));
        assert_eq!(parent_of(1), None);
    }

    #[test]
    fn without_the_library_nothing_is_begun() {
        let set = [
            (RANK, "0"),
            (NAMESPACE, "x"),
            (CHOSEN, "/nowhere/libpmix.so.2"),
        ];
        let join = |set: &[(&str, &str)]| {
            Pmix::join(&|name| {
                let variable = set.iter().find(|(known, _)| *known == name)?;
                Some(variable.1.to_owned())
            })
        };
        let refused = join(&set).expect("nothing was begun").expect("a rank");
        let reason = refused.expect_err("no library");
        for said in ["/nowhere", "libpmix2", CHOSEN] {
            assert!(reason.contains(said), "{reason}");
        }
        assert!(join(&set[..1]).expect("nothing was begun").is_none());
    }
}
