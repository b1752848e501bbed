//! A rank that a foreign launcher started which speaks PMI version 1: Hydra, the `mpiexec` of MPICH and
//! of Intel MPI, and what imitates it.
//!
//! ```text
//!   mpiexec.hydra ── PMI_FD (a socket), PMI_RANK, PMI_SIZE ──▶ this process
//!      put    card-R: which host, the name of our listener      (rank 0 also: the job's key)
//!      fence
//!      get    card-0 … card-N-1                              ⇒ HostMap; memory from the lowest rank
//! ```
//!
//! What the launcher does not do, the ranks do among themselves: they find out who shares a host, pass
//! the memory on ([`share`]), and agree on a key, which travels the way that the launcher provides: who
//! can read its connections is trusted by it already.
//!
//! It starts no later processes and keeps no ports and names. A launcher of ours does for the ranks of one host, which is started
//! when the first of them asks ([`later`]): its memory has room for them from the start.
//!
//! Where the launcher does not say that a rank has died, the ranks of a host see it themselves: [`watch`].
//!
//! Once all is asked that has to be, the connection is a lifeline: the launcher says nothing unless asked,
//! so that an end of it, however it came, ends this process. While we ask, it is none: then an end of it is
//! seen by asking.

pub mod client;
pub mod line;
mod share;
pub(super) mod watch;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_fabric_shm::JobSize;
use weft_sys::{descriptor, lifeline, process};

use self::client::{Client, Limits};
use self::line::PmiLine;
use self::watch::Neighbour;
use super::adopted::Meeting;
use super::hosts::{HostMap, name_of_this_host};
use super::later::{self, Later};
use super::{BootstrapError, Launcher, NAME_LIMIT, VALUE_LIMIT};
use weft_secure::Key;

use crate::hex::{hex, unhex};
use crate::job_request::{JobAnswer, JobRequest};
use crate::segment;

/// The variables by which the launcher tells a process its place.
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

/// Most pieces of a value, where a launcher takes the shortest values that [`Client::begin`] allows.
const PIECES: usize = 2 * VALUE_LIMIT / 23 + 1;

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
    later: Later,
}

/// What a launcher keeps for its ranks, and how they wait for each other.
pub(super) trait Store {
    /// Publishes a value of this rank.
    fn put(&mut self, rank: u32, name: &str, value: &[u8]) -> Result<(), BootstrapError>;

    /// Waits until all ranks have come here; what they have put before can be read then.
    fn fence(&mut self) -> Result<(), BootstrapError>;

    /// What a rank has published.
    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError>;

    /// What ends when the launcher is gone. `None` if this process is ended then by other means.
    fn launcher(&self) -> Option<BorrowedFd<'_>>;
}

/// The way to the launcher.
#[derive(Debug)]
struct Connection {
    client: Client<UnixStream>,
    /// What the launcher calls the store of this job.
    store: String,
    limits: Limits,
    /// It is a lifeline.
    tied: bool,
    /// MPI was finalised, and the launcher told so: nothing can be asked any more.
    over: bool,
}

impl Connection {
    /// Makes it a lifeline.
    fn tie(&mut self) -> std::io::Result<()> {
        if !self.tied {
            lifeline::tie_after_answer(&self.client)?;
            self.tied = true;
        }
        Ok(())
    }

    /// Has the launcher end the job.
    fn abort(&mut self, code: i32) -> Result<(), BootstrapError> {
        self.over = true;
        self.client.say(&abort_line(code))
    }

    fn put_text(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        if key.len() > self.limits.name || value.len() > self.limits.value {
            return Err(BootstrapError::new(format!(
                "the launcher takes names of {} and values of {} bytes; '{key}' needs {} and {}",
                self.limits.name,
                self.limits.value,
                key.len(),
                value.len()
            )));
        }
        let line = PmiLine::new("put")
            .with("kvsname", &self.store)
            .with("key", key)
            .with("value", value);
        self.client.request(&line, "put_result").map(drop)
    }

    fn get_text(&mut self, key: &str) -> Result<Option<String>, BootstrapError> {
        let line = PmiLine::new("get")
            .with("kvsname", &self.store)
            .with("key", key);
        let answer = self.client.ask(&line, "get_result")?;
        Ok(match answer.get("rc") {
            None | Some("0") => answer.get("value").map(str::to_owned),
            Some(_) => None,
        })
    }
}

impl Store for Connection {
    fn put(&mut self, rank: u32, name: &str, value: &[u8]) -> Result<(), BootstrapError> {
        let text = hex(value);
        // A value that is longer than the launcher takes goes in pieces: name.0, name.1, …
        let pieces = text.as_bytes().chunks(self.limits.value - 8);
        let count = pieces.len().max(1);
        for (index, piece) in pieces.enumerate() {
            let head = if index == 0 {
                format!("{count}:")
            } else {
                String::new()
            };
            let piece = String::from_utf8_lossy(piece);
            self.put_text(&key_of(rank, name, index), &format!("{head}{piece}"))?;
        }
        if text.is_empty() {
            self.put_text(&key_of(rank, name, 0), "1:")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.client
            .request(&PmiLine::new("barrier_in"), "barrier_out")
            .map(drop)
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let wrong = || {
            BootstrapError::new(format!(
                "the value '{name}' of rank {rank}, as the launcher keeps it, is not what Weft puts \
                 there: all ranks must use the same release of Weft"
            ))
        };
        let Some(first) = self.get_text(&key_of(rank, name, 0))? else {
            return Ok(None);
        };
        let (count, text) = first.split_once(':').ok_or_else(wrong)?;
        let count: usize = count.parse().map_err(|_| wrong())?;
        // Another rank wrote it, which may be broken.
        if count > PIECES {
            return Err(wrong());
        }
        let mut text = text.to_owned();
        for index in 1..count {
            if text.len() > 2 * VALUE_LIMIT {
                return Err(wrong());
            }
            let piece = self.get_text(&key_of(rank, name, index))?;
            text.push_str(&piece.ok_or_else(wrong)?);
        }
        let value = unhex(&text).filter(|value| value.len() <= VALUE_LIMIT);
        value.map(Some).ok_or_else(wrong)
    }

    fn launcher(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.as_fd())
    }
}

/// How the launcher's store calls a value of a rank.
fn key_of(rank: u32, name: &str, piece: usize) -> String {
    match piece {
        0 => format!("weft-{name}-{rank}"),
        piece => format!("weft-{name}-{rank}.{piece}"),
    }
}

/// What identifies this host: the boot of the kernel, and the network namespace.
fn identity_of_this_host() -> Result<String, BootstrapError> {
    let unknown = |what: &str, error: std::io::Error| {
        BootstrapError::new(format!(
            "which ranks share a host cannot be found out: {what}: {error}; let the program see /proc"
        ))
    };
    let file = "/proc/sys/kernel/random/boot_id";
    let boot = fs::read_to_string(file).map_err(|error| unknown(file, error))?;
    let file = "/proc/self/ns/net";
    let network = fs::metadata(file).map_err(|error| unknown(file, error))?;
    Ok(format!("{}/{}", boot.trim(), network.ino()))
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
        let mut client = Client::new(UnixStream::from(socket));
        let limits = client.begin()?;
        let answer = client.request(&PmiLine::new("get_appnum"), "appnum")?;
        let appnum = answer.number("appnum").unwrap_or(0);
        let answer = client.request(&PmiLine::new("get_my_kvsname"), "my_kvsname")?;
        let store = answer.get("kvsname").unwrap_or("").to_owned();
        let mut connection = Connection {
            client,
            store,
            limits,
            tied: false,
            over: false,
        };
        let shares = variable("WEFT_FABRIC").is_none_or(|fabric| fabric != "tcp");
        let Others {
            hosts,
            key,
            memory,
            mut neighbours,
            later,
        } = find_others(&mut connection, rank, size, shares, SPOKEN)?;
        if !is_task_of_srun(variable, rank) {
            // Its launcher sees deaths itself.
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
            later,
        }))
    }

    /// Asks the launcher something. Meanwhile its answers must not be taken for its end.
    fn talk<T>(
        &self,
        what: impl FnOnce(&mut Connection) -> Result<T, BootstrapError>,
    ) -> Result<T, BootstrapError> {
        let mut connection = open(&self.connection);
        if connection.over {
            return Err(BootstrapError::new(OVER));
        }
        let system = |error: std::io::Error| BootstrapError::new(error.to_string());
        let tied = std::mem::take(&mut connection.tied);
        if tied {
            lifeline::untie(&connection.client).map_err(system)?;
        }
        let answer = what(&mut connection);
        if tied && !connection.over {
            connection.tie().map_err(system)?;
        }
        answer
    }
}

fn abort_line(code: i32) -> PmiLine {
    PmiLine::new("abort").with("exitcode", code)
}

/// What a rank has found out of the others.
pub(super) struct Others {
    pub(super) hosts: HostMap,
    pub(super) key: Key,
    pub(super) memory: OwnedFd,
    pub(super) neighbours: Vec<Neighbour>,
    pub(super) later: Later,
}

/// Finds out who is where, and gets the memory of this host, which they talk through if `shares`. `launcher`: what has started
/// them, for people.
pub(super) fn find_others(
    connection: &mut impl Store,
    rank: u32,
    size: u32,
    shares: bool,
    launcher: &str,
) -> Result<Others, BootstrapError> {
    let system = |error: std::io::Error| BootstrapError::new(error.to_string());
    let listener = share::SegmentListener::open().map_err(system)?;
    let here = identity_of_this_host()?;
    let card = format!("{here} {} {}", listener.name(), name_of_this_host());
    connection.put(rank, "card", card.as_bytes())?;
    let mut key = None;
    if rank == 0 {
        let new = Key::random().map_err(system)?;
        connection.put(0, "key", new.as_bytes())?;
        key = Some(new);
    }
    connection.fence()?;
    let key = match key {
        Some(key) => key,
        None => {
            let found = connection.get(0, "key")?;
            let key = found.and_then(|bytes| bytes.try_into().ok());
            Key::from_bytes(key.ok_or_else(|| missing(0))?)
        }
    };
    let mut cards = Vec::new();
    let mut listeners = Vec::new();
    for other in 0..size {
        let found = connection
            .get(other, "card")?
            .ok_or_else(|| missing(other))?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let mut words = found.split(' ').map(str::to_owned);
        let (Some(identity), Some(listener), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(missing(other));
        };
        cards.push((identity, name));
        listeners.push(listener);
    }
    let hosts = HostMap::group(cards);
    let lowest = hosts.ranks_of(hosts.host(rank)).next().unwrap_or(rank);
    let may_grow = match hosts.count() {
        1 if shares => Ok(()),
        1 => Err(later::over_tcp(launcher)),
        _ => Err(later::several_hosts(launcher)),
    };
    let meeting_name = format!("{}-later", listeners[lowest as usize]);
    let (common, neighbours) = if lowest == rank {
        let local = hosts.local_size(hosts.host(rank));
        let universe = crate::plan::universe(local);
        let job = match &may_grow {
            Ok(()) => JobSize {
                room: universe - local,
                addresses: universe,
                ..JobSize::of(local)
            },
            Err(_) => JobSize::of(local),
        };
        let memory = segment::create(job).map_err(system)?.descriptor;
        let (ends, living) = descriptor::pipe().map_err(system)?;
        let common = [memory, ends, living];
        let others = listener.hand_out(&common, &key, local - 1, connection.launcher())?;
        (common, others)
    } else {
        drop(listener);
        let name = &listeners[lowest as usize];
        let (common, socket) = share::fetch(name, &key, rank, connection.launcher())?;
        (common, vec![Neighbour::new(lowest, socket)])
    };
    let [memory, ends, living] = common;
    let later = match may_grow {
        Err(why) => Later::refused(why),
        Ok(()) => {
            let meeting = Meeting {
                name: meeting_name,
                key: key.clone(),
                ranks: size,
                rank,
                ends,
            };
            let memory = memory.try_clone().map_err(system)?;
            Later::possible(memory, meeting, living)
        }
    };
    Ok(Others {
        hosts,
        key,
        memory,
        neighbours,
        later,
    })
}

/// Another rank has not told where it is.
fn missing(rank: u32) -> BootstrapError {
    BootstrapError::new(format!(
        "rank {rank} has not told where it is, as ranks of Weft do: it uses another implementation of \
         MPI, or another release of Weft; all ranks of a job must use the same"
    ))
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
        self.talk(|connection| connection.put(self.rank, name, value))
    }

    fn fence(&self) -> Result<(), BootstrapError> {
        self.talk(Connection::fence)
    }

    fn get(&self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        self.talk(|connection| connection.get(rank, name))
    }

    fn ask_job(&self, request: &JobRequest) -> Result<JobAnswer, BootstrapError> {
        self.later.ask(request)
    }

    fn connected(&self, connected: bool) {
        self.later.tell_connected(connected);
    }

    /// Hydra asks no more than that a process which has begun with PMI also finishes with it.
    fn initialised(&self) {
        let mut connection = open(&self.connection);
        if !connection.over && connection.tie().is_err() {
            // The launcher has ended already, and so does what it started.
            let _ = process::signal(process::id(), process::SIGKILL);
        }
        drop(connection);
        let connection = Arc::clone(&self.connection);
        watch::begin(&self.neighbours, self.local_rank(), move |lost| {
            let mut connection = open(&connection);
            // Who has finalised has no say in it any more.
            if !connection.over {
                eprintln!("weft: {lost}");
                // The connection stays a lifeline: the launcher may be gone, and the rank with it.
                let _ = connection.client.say(&abort_line(1));
            }
        });
    }

    fn finalised(&self) {
        watch::part(&self.neighbours);
        if let Some(adopted) = self.later.adopted() {
            adopted.tell_finalised();
        }
        // A failure here means that the launcher is gone, and us with it.
        let _ = self.talk(|connection| {
            connection.over = true;
            let line = PmiLine::new("finalize");
            connection.client.request(&line, "finalize_ack").map(drop)
        });
    }

    /// Nothing in this protocol says so.
    fn bereaved(&self) {
        if let Some(adopted) = self.later.adopted() {
            adopted.tell_bereaved();
        }
    }

    fn abort(&self, code: i32, text: &str) {
        match self.later.adopted() {
            Some(adopted) => adopted.tell_abort(code, text),
            None => {
                let said = if text.is_empty() { "" } else { ": " };
                let rank = self.rank;
                eprintln!("weft: rank {rank} called MPI_Abort with code {code}{said}{text}");
            }
        }
        // The others hear of it from us and from the launcher, not as of a loss.
        watch::part(&self.neighbours);
        let _ = self.talk(|connection| connection.abort(code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    /// What another rank has put there by itself: nothing that it says has us ask without end.
    #[test]
    fn a_forged_value_is_refused() {
        for (first, rest) in [
            ("99999999999:", ""),
            ("18446744073709551615:", "00"),
            ("358:", &"0".repeat(1000)),
            ("357:", "zz"),
            ("-1:", ""),
            ("no number", ""),
        ] {
            let (ours, launcher) = UnixStream::pair().expect("descriptors are left");
            let mut connection = Connection {
                client: Client::new(ours),
                store: "kvs".into(),
                limits: Limits {
                    name: 63,
                    value: 1023,
                },
                tied: false,
                over: false,
            };
            let answering = std::thread::scope(|scope| {
                let answers = scope.spawn(|| {
                    let (mut reader, mut launcher) = (BufReader::new(&launcher), &launcher);
                    let mut asked = 0;
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                        let value = if asked == 0 { first } else { rest };
                        let answer = format!("cmd=get_result rc=0 value={value}\n");
                        if launcher.write_all(answer.as_bytes()).is_err() {
                            break;
                        }
                        asked += 1;
                        line.clear();
                    }
                    asked
                });
                let refused = connection.get(3, "card");
                drop(connection);
                assert!(refused.is_err(), "{first}: {refused:?}");
                answers.join().expect("no panic")
            });
            assert!(answering <= PIECES, "{first}: asked {answering} times");
        }
    }

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
