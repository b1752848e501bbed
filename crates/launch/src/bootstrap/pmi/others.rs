//! Others of a rank: what the ranks of a job find out about each other through the [store](Store) of their launcher:
//! which of them share a host, its memory, a key.

use std::fs;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use weft_fabric_shm::JobSize;
use weft_secure::Key;
use weft_sys::{descriptor, process};

use super::share;
use super::watch::Neighbour;
use crate::bootstrap::adopted::Meeting;
use crate::bootstrap::calls::{self, CalledHosts};
use crate::bootstrap::deadlock_search::{self, DeadlockSearch, HostRanks};
use crate::bootstrap::hosts::{HostMap, name_of_this_host};
use crate::bootstrap::later::{self, Later, LaterRoom};
use crate::bootstrap::{BootstrapError, VALUE_LIMIT};
use crate::hosts::listen_addresses;
use crate::options::OnDeadlock;
use crate::{plan, segment};

/// What ids of processes mean where that cannot be found out.
const UNKNOWN: u64 = 0;

/// A launcher's store for its ranks, and its fence.
pub trait Store {
    /// Publishes a value of this rank.
    fn put(&mut self, rank: u32, name: &str, value: &[u8]) -> Result<(), BootstrapError>;

    /// Waits until all ranks have come here; what they have put before can be read then.
    fn fence(&mut self) -> Result<(), BootstrapError>;

    /// The value that a rank has published.
    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>, BootstrapError>;

    /// A descriptor that ends when the launcher is gone. `None` if this process is then ended by other means.
    fn launcher(&self) -> Option<BorrowedFd<'_>>;
}

/// The knowledge of a rank about the others.
pub struct Others {
    pub hosts: HostMap,
    pub key: Key,
    pub memory: OwnedFd,
    pub neighbours: Vec<Neighbour>,
    pub later: Later,
    pub deadlocks: DeadlockSearch,
}

/// A rank's data about itself.
#[derive(Clone, Copy, Debug)]
pub struct ThisRank {
    pub rank: u32,
    pub size: u32,
    /// Number of processes expected to be useful.
    pub universe: u32,
    /// Ranks of one host talk through their memory.
    pub shares: bool,
    /// Reaction to a deadlock.
    pub on_deadlock: OnDeadlock,
    /// Name of the launcher that has started it, for display.
    pub launcher: &'static str,
}

/// Finds out which rank is on which host, and gets the memory of this host.
pub fn find_others(
    connection: &mut impl Store,
    this_rank: ThisRank,
) -> Result<Others, BootstrapError> {
    let ThisRank { rank, size, .. } = this_rank;
    let system = |error: std::io::Error| BootstrapError::new(error.to_string());
    let listener = share::SegmentListener::open().map_err(system)?;
    let here = identity_of_this_host()?;
    let card = format!(
        "{here} {} {} {}",
        listener.name(),
        name_of_this_host(),
        process::id_namespace().unwrap_or(UNKNOWN)
    );
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
    let mut id_namespaces = Vec::new();
    for other in 0..size {
        let found = connection
            .get(other, "card")?
            .ok_or_else(|| missing(other))?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let mut words = found.split(' ').map(str::to_owned);
        let (Some(identity), Some(listener), Some(name), Some(ids), None) = (
            words.next(),
            words.next(),
            words.next(),
            words.next().and_then(|ids| ids.parse::<u64>().ok()),
            words.next(),
        ) else {
            return Err(missing(other));
        };
        cards.push((identity, name));
        listeners.push(listener);
        id_namespaces.push(ids);
    }
    let hosts = HostMap::group(cards);
    let lowest = hosts.ranks_of(hosts.host(rank)).next().unwrap_or(rank);
    let may_grow = match hosts.count() {
        1 if !this_rank.shares => Err(later::over_tcp(this_rank.launcher)),
        _ => Ok(plan::room_of_host(size, hosts.count())),
    };
    let meeting_name = format!("{}-later", listeners[lowest as usize]);
    let (common, neighbours) = if lowest == rank {
        let local = hosts.local_size(hosts.host(rank));
        let job = match &may_grow {
            Ok(room) => JobSize {
                room: *room,
                addresses: size + hosts.count() * room,
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
    let called = CalledHosts {
        map: hosts.clone(),
        key: key.clone(),
        universe: this_rank.universe,
    };
    // All of a host are asked, and of each it is known whether its process has ended.
    let same_ids = |one: u32| {
        let ids = id_namespaces[one as usize];
        ids != UNKNOWN && ids == id_namespaces[lowest as usize]
    };
    let deadlocks = match hosts.ranks_of(hosts.host(rank)).all(same_ids) {
        true => DeadlockSearch::among(
            HostRanks {
                hosts: called.clone(),
                rank,
                name: format!("{}-deadlocks", listeners[lowest as usize]),
                on_deadlock: this_rank.on_deadlock,
                stop: deadlock_search::stop,
            },
            memory.try_clone().map_err(system)?,
        ),
        false => DeadlockSearch::default(),
    };
    let later = match may_grow {
        Err(why) => Later::refused(why),
        Ok(room) => {
            let meeting = Meeting {
                name: meeting_name,
                key: key.clone(),
                ranks: size,
                rank,
                ends,
            };
            let memory = memory.try_clone().map_err(system)?;
            let mut several = None;
            if hosts.count() > 1 {
                let port = match lowest == rank {
                    true => open_port(connection, rank)?,
                    false => None,
                };
                several = Some((called, port));
            }
            let room = LaterRoom { ranks: size, room };
            Later::possible(memory, meeting, living, room, several, deadlocks.clone())
        }
    };
    Ok(Others {
        hosts,
        key,
        memory,
        neighbours,
        later,
        deadlocks,
    })
}

/// Opens the port at which this rank is called by other hosts, and says where it is: all know before they go on, since they wait for
/// each other once more to exchange their addresses. `None`: it cannot be called, which is said as well.
fn open_port(
    connection: &mut impl Store,
    rank: u32,
) -> Result<Option<TcpListener>, BootstrapError> {
    let way = listen_addresses::listen(None, 0).ok().flatten();
    let text = way
        .as_ref()
        .and_then(|(_, addresses)| listen_addresses::text(addresses, VALUE_LIMIT));
    let text = text.unwrap_or_else(|| "-".into());
    connection.put(rank, calls::NAME, text.as_bytes())?;
    Ok(way.map(|(listener, _)| listener))
}

/// Another rank has not told where it is.
fn missing(rank: u32) -> BootstrapError {
    BootstrapError::new(format!(
        "rank {rank} has not told where it is, as ranks of Weft do: it uses another implementation of \
         MPI, or another release of Weft; all ranks of a job must use the same"
    ))
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
