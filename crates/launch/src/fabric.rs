//! Fabric of a job, chosen by what its processes share.
//!
//! ```text
//!   all on one host                shared memory
//!   one on each host               TCP
//!   several on several hosts       shared memory within, TCP between
//!   WEFT_FABRIC=tcp                TCP throughout, for measuring
//!   WEFT_FABRIC=ofi[:PROVIDER]     libfabric instead of TCP; on one host throughout, for measuring
//!   hardware that all ranks reach by one provider of libfabric       libfabric instead of TCP
//! ```
//!
//! Ranks tell each other their addresses through the launcher before the first of them has joined; connections are made
//! later, on first use. Processes that are started later tell the launcher, which records their addresses in the memory
//! of each host before any of them goes on. This is the same for MPI programs and for those that use only the services.

mod network_choice;
mod ofi;
mod recorded;
mod supervised;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weft_fabric::Fabric;
use weft_fabric_shm::{ProcessState, Shm};
use weft_fabric_tcp::{
    Card, Config, Directory as _, Listen, LocalRanks, Opening, Remote, Tcp, Union,
};
use weft_secure::Key;

pub use self::network_choice::{NetworkChoice, POSSIBLE};
use self::ofi::Joined;
use self::recorded::RecordedTcp;
use self::supervised::Supervised;
use crate::bootstrap::{BootstrapError, JobAnswer, JobRequest, Launcher};

/// Names of what ranks tell each other.
const CARD: &str = "tcp";
const KEY: &str = "tcp-key";

/// What the environment asks for, by `mpiexec --fabric`, `--encrypt` or by hand.
struct Wishes {
    network: NetworkChoice,
    seal: bool,
    patience: Option<Duration>,
}

impl Wishes {
    fn read() -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let network = match variable("WEFT_FABRIC") {
            None => NetworkChoice::Auto,
            Some(text) => NetworkChoice::parse(&text)
                .ok_or_else(|| format!("WEFT_FABRIC is '{text}'; {POSSIBLE} are possible"))?,
        };
        let seal = match variable("WEFT_ENCRYPT").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(format!("WEFT_ENCRYPT is '{other}'; 0 and 1 are possible")),
        };
        let patience = match variable("WEFT_PATIENCE") {
            None => None,
            Some(text) => match text.parse() {
                Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
                    Some(Duration::from_secs_f64(seconds))
                }
                _ => {
                    return Err(format!(
                        "WEFT_PATIENCE is '{text}'; how many seconds a host may be out of reach was \
                         expected, at least 0.1"
                    ));
                }
            },
        };
        Ok(Self {
            network,
            seal,
            patience,
        })
    }
}

/// Whether what goes from host to host is to be encrypted.
pub(crate) fn is_encrypted() -> bool {
    Wishes::read().is_ok_and(|wishes| wishes.seal)
}

/// The memory of this host when its ranks do not talk through it, or have not met. The launcher looks into it to see how far they have come:
/// it stays mapped until the process ends.
static KEPT: Mutex<Vec<Shm>> = Mutex::new(Vec::new());

/// Joins the fabric of the job. To be called once.
///
/// # Errors
/// A wish in the environment that makes no sense, no memory, or a rank that cannot be learned of.
pub fn join(launcher: &dyn Launcher) -> Result<Box<dyn Fabric>, BootstrapError> {
    choose(launcher).map_err(BootstrapError::new)
}

fn choose(launcher: &dyn Launcher) -> Result<Box<dyn Fabric>, String> {
    let wishes = Wishes::read()?;
    let local = match launcher.segment() {
        Some(segment) => Shm::attach(segment, launcher.process_slot()),
        None => Shm::solo(),
    };
    let local = local.map_err(|error| error.to_string())?;
    local.set_state(ProcessState::Initialised);
    let members = Members::of(launcher, &local);
    // A process that was started alone shares memory with those that it starts: it has nobody to send an address to.
    let alone = members.count == 1 || launcher.is_singleton();
    let one_host = launcher.job_hosts().count() == 1;
    if one_host && (wishes.network == NetworkChoice::Auto || alone) {
        return Ok(weft_fabric_shm::respawnable(local));
    }
    let throughout = match wishes.network {
        NetworkChoice::Auto => false,
        NetworkChoice::Tcp => true,
        NetworkChoice::Ofi(_) => one_host,
    };
    // Hosts of one rank each, to which nobody said that there will be more, need no memory in common.
    let several = members.ranks_here > 1 || launcher.universe() > members.first;
    let within = several && !throughout;
    match connect(launcher, &wishes, &members, &local, within) {
        Ok(Joined::Ofi(remote)) => together(launcher, local, *remote, &members, within),
        Ok(Joined::Tcp(remote)) => together(launcher, local, *remote, &members, within),
        Err(error) => {
            // Who leaves this memory shows that MPI was finalised, which it was not.
            keep(local);
            Err(error)
        }
    }
}

/// The network of a rank, over which it has met the others.
fn connect(
    launcher: &dyn Launcher,
    wishes: &Wishes,
    members: &Members,
    local: &Shm,
    within: bool,
) -> Result<Joined, String> {
    // Told before the ranks meet, joined after: by then all know what the others have.
    let offered = ofi::Offered::by(launcher, wishes, members)?;
    let beside = offered.as_ref().map(|offered| offered.card().to_string());
    let addresses = local.addresses();
    let recorded = RecordedTcp {
        addresses: addresses.clone(),
        ends: (!within).then(|| {
            let here = LocalRanks::new(members.count, members.here(launcher));
            (local.sleep_elsewhere(), here)
        }),
        told: launcher.tells_ends(),
    };
    let remote = network(launcher, wishes, members, recorded, within, beside)?;
    match offered {
        None => Ok(Joined::Tcp(Box::new(remote))),
        Some(offered) => offered.join(launcher, members, within, (remote, addresses)),
    }
}

/// Keeps the memory of this host mapped, without leaving it.
fn keep(local: Shm) {
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(local);
}

/// The memory of this host and a network as one fabric, or the network alone.
fn together<R: Remote + 'static>(
    launcher: &dyn Launcher,
    local: Shm,
    remote: R,
    members: &Members,
    within: bool,
) -> Result<Box<dyn Fabric>, String> {
    if within {
        let ranks = LocalRanks::new(members.count, members.here(launcher));
        let union = Union::new(local, remote, ranks).map_err(|error| error.to_string())?;
        return Ok(Box::new(union));
    }
    local.mark_state_only();
    let place = local.sleep_elsewhere();
    keep(local);
    // Without a launcher that inquires, others of this host may still tell that they are absent.
    Ok(match launcher.inquires() || members.ranks_here > 1 {
        true => Box::new(Supervised::new(remote, place)),
        false => Box::new(remote),
    })
}

/// Members of the job's fabric: the ranks that it starts with, and behind them the room of each host.
struct Members {
    /// How many the job starts with.
    first: u32,
    /// How many there can be.
    count: u32,
    /// How many more each host may have.
    room: u32,
    /// The number of this process.
    me: u32,
    /// Its host.
    host: u32,
    /// How many of the first ones are there.
    ranks_here: u32,
}

impl Members {
    fn of(launcher: &dyn Launcher, local: &Shm) -> Self {
        let hosts = launcher.job_hosts();
        let (first, me) = (hosts.size(), launcher.number());
        let count = local.addresses().count().max(first);
        let room = (count - first) / hosts.count();
        let host = match me.checked_sub(first) {
            None => hosts.host(me),
            Some(later) => (later / room.max(1)).min(hosts.count() - 1),
        };
        Self {
            first,
            count,
            room,
            me,
            host,
            ranks_here: hosts.local_size(host),
        }
    }

    /// Those of this host, in the order of their numbers in its memory.
    fn here(&self, launcher: &dyn Launcher) -> Vec<u32> {
        let start = self.first + self.host * self.room;
        let ranks = launcher.job_hosts().ranks_of(self.host);
        ranks.chain(start..start + self.room).collect()
    }

    /// The host of a member.
    fn host_of(&self, member: u32, launcher: &dyn Launcher) -> u32 {
        match member.checked_sub(self.first) {
            None => launcher.job_hosts().host(member),
            Some(later) => later / self.room.max(1),
        }
    }
}

/// Tells the others where we are, learns where they are. `beside`: where a process that is started later is by libfabric.
fn network(
    launcher: &dyn Launcher,
    wishes: &Wishes,
    members: &Members,
    recorded: RecordedTcp,
    within: bool,
    beside: Option<String>,
) -> Result<Tcp, String> {
    let hosts = launcher.job_hosts();
    let told = |error: BootstrapError| error.to_string();
    let later = launcher.later();
    let key: Option<Key> = match launcher.key() {
        Some(key) => Some(key.to_text().parse().map_err(|_| "no key".to_owned())?),
        // All on one host: the first one draws it, and tells it by the launcher's own descriptors.
        None if members.me == 0 => {
            let key = Key::random().map_err(|error| error.to_string())?;
            launcher.put(KEY, key.to_text().as_bytes()).map_err(told)?;
            Some(key)
        }
        None => None,
    };
    let unknown = Key::from_bytes([0; Key::BYTES]);
    let mut config = Config::new(members.me, members.count, unknown);
    config.seal = wishes.seal;
    config.incarnation = later.map_or(0, |world| world.number);
    config.neighbours = launcher.local_size();
    config.patience = wishes.patience.unwrap_or(config.patience);
    // Beside libfabric it only tells who has died, and who sleeps does so on another bell.
    config.sleeps_announced = beside.is_none();
    if hosts.count() == 1 {
        config.listen = Listen::Loopback;
    }
    let mut opening = Opening::new(config).map_err(|error| error.to_string())?;
    let mut card = opening.card().to_string();
    match later {
        None => {
            launcher.put(CARD, card.as_bytes()).map_err(told)?;
            launcher.fence().map_err(told)?;
        }
        Some(_) => {
            if let Some(beside) = &beside {
                card = recorded::address(opening.card(), beside);
            }
            let introduced = launcher.ask_job(&JobRequest::Introduce { address: card });
            match introduced.map_err(told)? {
                JobAnswer::Done => {}
                JobAnswer::Refused { reason, .. } => return Err(reason),
                other => {
                    return Err(format!(
                        "the launcher was told where this process is, and answered {other:?}"
                    ));
                }
            }
        }
    }
    let key = match key {
        Some(key) => key,
        None => text_of(launcher, 0, KEY)?
            .parse()
            .map_err(|error| format!("the key of the job: {error}"))?,
    };
    opening.set_key(key);
    let own = opening.card().clone();
    let mut cards = Vec::with_capacity(members.count as usize);
    for peer in 0..members.count {
        let host = members.host_of(peer, launcher);
        let card = if peer == members.me {
            own.clone()
        } else if peer >= members.first || within && host == members.host {
            // A peer that is reached by shared memory is never called; the launcher reports those that are started later.
            Card {
                host: hosts.name(host).to_owned(),
                offers: Vec::new(),
            }
        } else if recorded.loss(peer, 0).is_some() || recorded.has_left(peer, 0) {
            // It may have ended before it had said anything.
            Card {
                host: hosts.name(host).to_owned(),
                offers: Vec::new(),
            }
        } else {
            let text = text_of(launcher, peer, CARD)?;
            text.parse()
                .map_err(|error| format!("rank {peer}: {error}"))?
        };
        cards.push(card);
    }
    opening
        .join_growing(cards, Some(Box::new(recorded)))
        .map_err(|error| error.to_string())
}

fn text_of(launcher: &dyn Launcher, rank: u32, name: &str) -> Result<String, String> {
    let value = launcher
        .get(rank, name)
        .map_err(|error| error.to_string())?;
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| {
        format!(
            "rank {rank} has not said where it can be reached ({name}): all ranks must run the same \
             release of Weft with the same WEFT_FABRIC"
        )
    })
}
